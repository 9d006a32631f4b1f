/* memory_limit.h - private: check that a session fits into memory; suggest options if not. */
#ifndef GT_TRAIN_MEMORY_LIMIT_H
#define GT_TRAIN_MEMORY_LIMIT_H

#include "lib/train/session.h"

enum { GT_TRIAL_WORDS = 160 }; /* bytes */

/* The plans of a session with other options, made because it does not fit into memory: for each
 * trial, the words of its options and its memory. */
struct gt_trials;

/* Add a trial that needs `bytes` on a rank, unless planning failed with `rc`, or it needs as much
 * as the session. Return whether it fits into memory. */
bool gt_trial_add(struct gt_trials *trials, int rc, uint64_t bytes, const char *words);

/* Do the same for another device, even if the trial needs more. */
bool gt_trial_add_on(struct gt_trials *trials, const struct gt_device *device, int rc,
    uint64_t bytes, const char *words);

/* Remove the last trial again, unless it fits into memory. */
void gt_trial_drop_last(struct gt_trials *trials);

/* Format the words of a trial, with names of options in braces (lib/base/option_names.h). */
void gt_trial_words(char words[GT_TRIAL_WORDS], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Check that all ranks on the device, or on the host whose memory it uses, fit into memory. A
 * collective call. Errors: GT_ENOMEM with each use of memory, and a hint with options that need
 * less. */
int gt_memory_limit_check(
    struct gt_session *s, const struct gt_session_purpose *purpose, void *self, struct gt_err *err);

/* The memory planned for the ranks of a dry run that share a device. */
struct gt_memory_planned {
	uint64_t bytes; /* for all of these ranks */
	int ranks;
	bool alike; /* each needs the same */
};

/* Check the plans of a dry session in the same way, without other ranks. */
int gt_memory_limit_check_plans(struct gt_session *s, const struct gt_session_purpose *purpose,
    void *self, const struct gt_memory_planned *planned, struct gt_err *err);

/* Add the same lists and hint to *err if a later allocation ran out of device memory. Return
 * err->code. */
int gt_memory_limit_explain(const struct gt_session *s, const struct gt_session_purpose *purpose,
    void *self, struct gt_err *err);

#endif
