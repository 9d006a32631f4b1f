/* key.h - private: ECDSA keys of files, and the signatures that they make. */
#ifndef GT_CKPT_SIGN_KEY_H
#define GT_CKPT_SIGN_KEY_H

#include "lib/base/buf.h"
#include "lib/ckpt/sign/sign.h"

struct gt_sign_key;

/* Read a private or a public key. *out is NULL on failure. Errors: GT_EIO, GT_EFORMAT; GT_ENOTSUP
 * for other kinds of keys, for encrypted keys and for certificates. */
int gt_sign_key_open_private(struct gt_sign_key **out, const char *path, struct gt_err *err);
int gt_sign_key_open_public(struct gt_sign_key **out, const char *path, struct gt_err *err);
void gt_sign_key_close(struct gt_sign_key *key);

/* Set the facts about the key. Errors: GT_ENOMEM. */
int gt_sign_key_describe(
    struct gt_sign_facts *facts, const struct gt_sign_key *key, struct gt_err *err);

/* Append the signature of a message, a sequence of DER. Errors: GT_EIO if the system has no random
 * numbers. */
int gt_sign_key_sign(struct gt_buf *out, const struct gt_sign_key *key, const void *message,
    size_t size, struct gt_err *err);

/* Return whether the key has made this signature of the message. */
bool gt_sign_key_verify(const struct gt_sign_key *key, const void *signature, size_t signature_size,
    const void *message, size_t size);

#endif
