/* unicode.h - private: properties and normalization forms of Unicode, by utf8proc. */
#ifndef GT_DATA_BPE_UNICODE_H
#define GT_DATA_BPE_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

/* Bytes that grow. The caller frees `p`. */
struct gt_bpe_buffer {
	unsigned char *p; /* [n] */
	size_t n, capacity;
	size_t limit; /* most bytes that it may hold; 0: any number */
};

/* Append bytes p [n]. Errors: GT_ENOTSUP above the limit, GT_ENOMEM. */
int gt_bpe_buffer_put(
    struct gt_bpe_buffer *out, const unsigned char *p, size_t n, struct gt_err *err);
/* Append a character as UTF-8. */
int gt_bpe_buffer_put_code(struct gt_bpe_buffer *out, uint32_t code, struct gt_err *err);

enum gt_bpe_form { GT_BPE_NFC, GT_BPE_NFD, GT_BPE_NFKC, GT_BPE_NFKD };

/* Append a text p [n] in a normalization form. Errors: GT_EFORMAT if the text is not UTF-8,
 * GT_ENOMEM. */
int gt_bpe_put_form(struct gt_bpe_buffer *out, enum gt_bpe_form form, const unsigned char *p,
    size_t n, struct gt_err *err);

/* Return whether the general category of a character is a mark (Mn, Mc, Me), a nonspacing mark
 * (Mn), or a control, format or private-use character (Cc, Cf, Co). */
bool gt_bpe_is_mark(uint32_t code);
bool gt_bpe_is_nonspacing(uint32_t code);
bool gt_bpe_is_control(uint32_t code);

/* Append a character in lower case. */
int gt_bpe_put_lower(struct gt_bpe_buffer *out, uint32_t code, struct gt_err *err);

#endif
