/* bundle.h - private: a signed statement in a bundle of Sigstore. */
#ifndef GT_CKPT_SIGN_BUNDLE_H
#define GT_CKPT_SIGN_BUNDLE_H

#include <jansson.h>

#include "lib/ckpt/sign/key.h"

/* Return a bundle, which the caller frees, in which the key signs the statement. `facts` name the
 * key. NULL with err set on failure. */
json_t *gt_bundle_sign(const json_t *statement, const struct gt_sign_key *key,
    const struct gt_sign_facts *facts, struct gt_err *err);

/* Read a bundle from the file `path`, check that the key signed it, and return its statement, which
 * the caller frees. NULL with err set on failure: errors as in gt_sign_check(). */
json_t *gt_bundle_check(const char *path, const struct gt_sign_key *key,
    const struct gt_sign_facts *facts, struct gt_err *err);

/* Check that `path` does not exist, is empty, or is a bundle, so that a signature may replace it.
 * Errors: GT_EINVAL, GT_EIO. */
int gt_bundle_check_output(const char *path, struct gt_err *err);

#endif
