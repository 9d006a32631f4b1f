/* charsmap.h - private: SentencePiece's table of texts and their replacements. */
#ifndef GT_DATA_BPE_CHARSMAP_H
#define GT_DATA_BPE_CHARSMAP_H

#include "lib/data/bpe/unicode.h"

struct gt_bpe_charsmap {
	const unsigned char *units; /* [count] uint32 */
	size_t count;
	const char *texts; /* [text_size] */
	size_t text_size;
};

/* Check the sizes of a table p [n], which is borrowed. Errors: GT_EFORMAT. */
int gt_bpe_charsmap_init(
    struct gt_bpe_charsmap *m, const unsigned char *p, size_t n, struct gt_err *err);

/* Append a text p [n], with its replacements. */
int gt_bpe_charsmap_put(const struct gt_bpe_charsmap *m, struct gt_bpe_buffer *out,
    const unsigned char *p, size_t n, struct gt_err *err);

#endif
