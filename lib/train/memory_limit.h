/* memory_limit.h - inside train: check that a session fits into memory, or find options that do. */
#ifndef GT_TRAIN_MEMORY_LIMIT_H
#define GT_TRAIN_MEMORY_LIMIT_H

#include "lib/train/session.h"

enum { GT_TRIAL_WORDS = 160 };

/* The list of options that a session was planned with instead of its own. */
struct gt_trials;

/*
 * Add a trial to the list: the options that `words` names (gt_trial_words()), whose plan needs
 * `bytes` of memory. Returns whether the session would fit. The trial is not added if it does not
 * need less than the session, or if its plan failed, so that `rc` is not 0.
 */
bool gt_trial_add(struct gt_trials *trials, int rc, uint64_t bytes, const char *words);

/* Likewise on another device. */
bool gt_trial_add_on(struct gt_trials *trials, const struct gt_device *device, int rc,
    uint64_t bytes, const char *words);

/* Remove the trial that was added last, unless it fits. */
void gt_trial_drop_last(struct gt_trials *trials);

/* Format the words of a trial like an error, with names of options in braces. */
void gt_trial_words(char words[GT_TRIAL_WORDS], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * Check that the session's ranks on this device, and on this host, do not need more memory than is
 * available. (The host's kernel would allocate more, and kill the process that uses it.) The error
 * lists the needs of the session by use, and on a GPU the processes that hold the rest. The hint
 * lists options with which the session fits, each with the memory of its plan. A collective call.
 * Errors: GT_ENOMEM; those of collectives and of the device.
 */
int gt_memory_limit_check(
    struct gt_session *s, const struct gt_session_purpose *purpose, void *self, struct gt_err *err);

/* Call this if an allocation of the session failed nevertheless, with *err: add the same text and
 * hint. Returns err->code. */
int gt_memory_limit_explain(const struct gt_session *s, const struct gt_session_purpose *purpose,
    void *self, struct gt_err *err);

#endif
