/* memory_limit.h - private: check that a session fits into memory; suggest options if not. */
#ifndef GT_TRAIN_MEMORY_LIMIT_H
#define GT_TRAIN_MEMORY_LIMIT_H

#include "lib/train/session.h"

enum { GT_TRIAL_WORDS = 160 }; /* bytes */

/*
 * A list of trials. If a session (session.h) does not fit into memory, its programs are planned
 * again with other options. Each such plan is a trial: a text that names its options, and the
 * memory that the plan needs.
 */
struct gt_trials;

/*
 * Add a trial to the list. `words` names its options (gt_trial_words()), and `bytes` is the memory
 * that its plan needs on one rank. Return whether a session with these options would fit into
 * memory.
 *
 * `rc` is the result of planning the trial. The trial is not added if `rc` is not 0, or if `bytes`
 * is not less than the memory that the session needs now; the function then returns false.
 */
bool gt_trial_add(struct gt_trials *trials, int rc, uint64_t bytes, const char *words);

/* Add a trial that was planned for another device. The trial is added even if it needs more memory
 * than the session. See gt_trial_add() for the other arguments and the return value. */
bool gt_trial_add_on(struct gt_trials *trials, const struct gt_device *device, int rc,
    uint64_t bytes, const char *words);

/* Remove the trial that was added last, unless a session with the options of this trial fits into
 * memory. */
void gt_trial_drop_last(struct gt_trials *trials);

/* Format the words of a trial. Names of options are in braces, as in error messages
 * (lib/base/option_names.h). */
void gt_trial_words(char words[GT_TRIAL_WORDS], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * Check that the ranks that share this device, or this host's memory, do not need more memory than
 * is available. (Linux would let them allocate more, and kill a process when the memory runs out.)
 * `purpose` and `self` are the arguments of gt_session_open(). A collective call.
 *
 * Errors: GT_ENOMEM; any error of collectives or the device. The text of GT_ENOMEM lists what this
 * rank needs memory for, and how much. On a GPU it also lists the processes that use the rest of
 * the memory. The hint lists options with which the session fits, and for each of them the memory
 * that the session then needs.
 */
int gt_memory_limit_check(
    struct gt_session *s, const struct gt_session_purpose *purpose, void *self, struct gt_err *err);

/* Call this if gt_memory_limit_check() returned 0, but an allocation of device memory then failed
 * with *err. Add the lists and the hint of gt_memory_limit_check() to *err, and return err->code.
 */
int gt_memory_limit_explain(const struct gt_session *s, const struct gt_session_purpose *purpose,
    void *self, struct gt_err *err);

#endif
