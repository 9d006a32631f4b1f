/* room.h - inside train: the memory there is for a session, and options that need less of it. */
#ifndef GT_TRAIN_ROOM_H
#define GT_TRAIN_ROOM_H

#include "lib/train/session.h"

enum { GT_TRIAL_WORDS = 160 };

/* The list of options that a session was planned with instead of its own. */
struct gt_trials;

/*
 * Plan with options that `words` names, as gt_trial_words() formats them, take the memory of the
 * plan, and add both to the list. Returns whether the session would fit. Options that need no less
 * than the session's own are left out; so is a plan that failed, for which `rc` is not 0.
 */
bool gt_trial_add(struct gt_trials *trials, int rc, uint64_t bytes, const char *words);

/* Likewise on another device. */
bool gt_trial_add_on(struct gt_trials *trials, const struct gt_device *device, int rc,
    uint64_t bytes, const char *words);

/* Take back the trial that was added last, unless it fits. */
void gt_trial_drop_last(struct gt_trials *trials);

/* As errors are formatted, with names of options in braces. */
void gt_trial_words(char words[GT_TRIAL_WORDS], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * Refuse a session whose ranks on this device, or on this host, need more memory than there is.
 * (The host's kernel hands out more, and kills the process that uses it.) The error tells the needs
 * of the session, by their use, and on a GPU the processes that hold the rest; the hint tells which
 * options would make it fit, each with the memory of a plan. A collective call. Errors: GT_ENOMEM;
 * those of collectives and of the device.
 */
int gt_room_check(
    struct gt_session *s, const struct gt_session_purpose *purpose, void *self, struct gt_err *err);

/* An allocation of the session failed all the same, as *err tells: add the same to it. Returns
 * err->code. */
int gt_room_explain(const struct gt_session *s, const struct gt_session_purpose *purpose,
    void *self, struct gt_err *err);

#endif
