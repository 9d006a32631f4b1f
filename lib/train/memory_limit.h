/* memory_limit.h - private: check that a session fits into memory; suggest options if not. */
#ifndef GT_TRAIN_MEMORY_LIMIT_H
#define GT_TRAIN_MEMORY_LIMIT_H

#include "lib/train/session.h"

enum { GT_TRIAL_WORDS = 160 }; /* size in bytes of the text of a trial */

/*
 * A list of trials. If a session (session.h) does not fit into memory, its programs are planned
 * again with other options. Each of these new plans is a trial. The list holds a text with the
 * options of each trial, and the memory that its plan needs.
 */
struct gt_trials;

/*
 * Add a trial to the list. `words` names its options (gt_trial_words()), and `bytes` is the memory
 * that its plan needs on one rank. Return whether a session with these options would fit into
 * memory.
 *
 * `rc` is the return value of the function that made the plan. If `rc` is not 0, or if the plan
 * needs as much memory as the session or more, the trial is not added, and the result is false.
 */
bool gt_trial_add(struct gt_trials *trials, int rc, uint64_t bytes, const char *words);

/* Add a trial that was planned for `device`, another device than the session's. The trial is added
 * even if it needs more memory than the session. Return whether the trial fits into the memory of
 * `device`. `rc`, `bytes` and `words` are the arguments of gt_trial_add(). */
bool gt_trial_add_on(struct gt_trials *trials, const struct gt_device *device, int rc,
    uint64_t bytes, const char *words);

/* Undo the last call of gt_trial_add() or gt_trial_add_on(): remove its trial, if it added one. But
 * if a session with the options of this trial fits into memory, keep the trial. */
void gt_trial_drop_last(struct gt_trials *trials);

/* Format the words of a trial. Names of options are in braces, as in error messages
 * (lib/base/option_names.h). */
void gt_trial_words(char words[GT_TRIAL_WORDS], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * Check that there is enough memory for all ranks that use this rank's device together. If the
 * device uses host memory, these are all ranks of the host. (Linux would let the ranks allocate
 * more memory than there is, and kill a process when the memory runs out.) `purpose` and `self` are
 * the arguments of gt_session_open(). A collective call.
 *
 * Errors: GT_ENOMEM; any error of collectives or the device. The message of GT_ENOMEM lists the
 * uses of memory on this rank, and the bytes of each use. On a GPU it also lists the processes that
 * use the rest of the memory. The hint lists options with which the session fits, and the memory
 * that the session needs with each of them.
 */
int gt_memory_limit_check(
    struct gt_session *s, const struct gt_session_purpose *purpose, void *self, struct gt_err *err);

/* The memory that a dry run has planned for the ranks that share a device. */
struct gt_memory_planned {
	uint64_t bytes; /* of all these ranks */
	int ranks;
	bool alike; /* each of them needs the same */
};

/* Check the plans of a dry session as gt_memory_limit_check() does it for a run, but call no other
 * rank. Errors: GT_ENOMEM, as there; any error of the device. */
int gt_memory_limit_check_plans(struct gt_session *s, const struct gt_session_purpose *purpose,
    void *self, const struct gt_memory_planned *planned, struct gt_err *err);

/* Call this if gt_memory_limit_check() returned 0, but a later allocation failed with *err. If
 * device memory ran out (err->device_memory), add the lists and the hint of gt_memory_limit_check()
 * to *err. Return err->code. */
int gt_memory_limit_explain(const struct gt_session *s, const struct gt_session_purpose *purpose,
    void *self, struct gt_err *err);

#endif
