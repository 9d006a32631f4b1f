/* verify.h - gtrain ckpt verify: print the errors found in a checkpoint; decide the exit status. */
#ifndef GT_CMD_CKPT_VERIFY_H
#define GT_CMD_CKPT_VERIFY_H

#include "cmd/cmd.h"
#include "lib/ckpt/sign/sign.h"
#include "lib/ckpt/tools/verify.h"

/* `verify` has the findings of a check of a checkpoint (lib/ckpt/tools/verify.h). Return whether
 * these findings make the command fail. The command fails if the file is damaged, if a part of the
 * file could not be read, or if a pickle names globals (classes or functions) that a safe loader
 * rejects. With `strict`, the command also fails if a tensor contains NaN or Inf. */
bool gt_ckpt_verify_fails(const struct gt_verify *verify, bool strict);

/* Print one finding as a line, after `indent` spaces; a hint follows on a line of its own, unless
 * `next`, the finding after this one or NULL, has the same hint. */
void gt_ckpt_verify_finding(FILE *out, const struct gt_verify_finding *finding,
    const struct gt_verify_finding *next, int indent, bool color);

/* Print the findings as text, or as one JSON document. `repair` is the result of the option
 * --repair, or NULL if this option is not given. The caller must check the stream for write
 * errors. */
void gt_ckpt_verify_text(FILE *out, const struct gt_verify *verify, bool color);
void gt_ckpt_verify_json(
    FILE *out, const struct gt_verify *verify, const struct gt_repair *repair, bool strict);

/* Print the members of that JSON document, without the braces around them. */
void gt_ckpt_verify_json_members(
    FILE *out, const struct gt_verify *verify, const struct gt_repair *repair, bool strict);

/* How several files are checked. */
struct gt_ckpt_verify_how {
	bool json, strict;
	size_t threads; /* as for gt_verify() */
};

/* Return whether `path` is a folder that has no checkpoint of its own, and so is searched. */
bool gt_ckpt_verify_searches(const char *path);

/*
 * Check all operands of the command. In a folder that is searched, each checkpoint is checked,
 * and each file that is named like one or holds pickles. Print a row for each file as soon as it is
 * checked, or one JSON document. Set env->status to GT_EXIT_FAILED if a file has faults. Errors:
 * GT_EIO if there is no checkpoint at all; GT_ENOMEM.
 */
int gt_ckpt_verify_all(
    struct gt_cmd_env *env, const struct gt_ckpt_verify_how *how, struct gt_err *err);

/* Check a model against a signature, and print the differences. Set env->status to GT_EXIT_FAILED
 * if there are any. Errors: those of gt_sign_check(). */
int gt_ckpt_verify_signature(struct gt_cmd_env *env, const struct gt_sign_check_options *options,
    bool json, struct gt_err *err);

#endif
