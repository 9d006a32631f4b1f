/* pack.h - private: several documents in each sample. */
#ifndef GT_DATA_CHAT_PACK_H
#define GT_DATA_CHAT_PACK_H

#include <stddef.h>

#include "lib/base/err.h"

/* Rows of documents. */
struct gt_packed_rows {
	size_t count;      /* rows */
	size_t *first;     /* [count + 1] where in `documents` a row begins */
	size_t *documents; /* indices of documents */
};

/*
 * Pack documents of lengths[count], each from 1 to `block`, into rows of at most `block` tokens.
 * Longer documents come first, and each goes into the row that it fills best. The result depends on
 * the arguments alone. Rows are in the order of their first documents, and documents in theirs.
 *
 *   example   lengths 3 5 2 4, block 8: rows 0 1 and 2 3
 *
 * Release *out, also after an error. Errors: GT_ENOMEM.
 * Source: best-fit decreasing; Ding et al., "Fewer Truncations Improve Language Modeling", arXiv
 * 2404.10830.
 */
int gt_pack_rows(struct gt_packed_rows *out, const size_t *lengths, size_t count, size_t block,
    struct gt_err *err);
void gt_packed_rows_release(struct gt_packed_rows *p);

#endif
