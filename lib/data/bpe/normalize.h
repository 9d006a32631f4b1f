/* normalize.h - private: the normalizers of a tokenizer.json, which change a text. */
#ifndef GT_DATA_BPE_NORMALIZE_H
#define GT_DATA_BPE_NORMALIZE_H

#include <jansson.h>

#include "lib/base/mem.h"
#include "lib/data/bpe/charsmap.h"
#include "lib/data/bpe/unicode.h"

struct gt_bpe_pattern;
struct gt_bpe_matcher;

/* Most normalizers of a tokenizer, those of nested sequences included. */
enum { GT_BPE_MAX_NORMALIZERS = 32 };

/* One normalizer: a row of the table in normalize.c, and its settings. */
struct gt_bpe_normalizer {
	const struct gt_bpe_normalizer_kind *kind;
	/* Replace: each `from`, or each match of `pattern`, becomes `to`. Prepend: `to`. */
	const char *from, *to; /* [from_size], [to_size] */
	size_t from_size, to_size;
	struct gt_bpe_pattern *pattern;
	struct gt_bpe_charsmap charsmap;     /* Precompiled */
	bool left, right;                    /* Strip */
	bool clean, chinese, accents, lower; /* BertNormalizer */
};

struct gt_bpe_normalizers {
	struct gt_bpe_normalizer list[GT_BPE_MAX_NORMALIZERS]; /* [count], in their order */
	int count;
	struct gt_arena arena; /* memory of their texts */
};

/* Read the value of "normalizer"; NULL or null: there is none. Errors: GT_ENOTSUP, GT_EFORMAT,
 * GT_ENOMEM. */
int gt_bpe_normalizers_read(struct gt_bpe_normalizers *n, const json_t *json, struct gt_err *err);
void gt_bpe_normalizers_release(struct gt_bpe_normalizers *n);

/* If the list is a Prepend (optional) and a Replace of one character by a text, in this order, set
 * *prepend and *replace, borrowed, and return true. *prepend is NULL without a Prepend. */
bool gt_bpe_normalizers_are_simple(const struct gt_bpe_normalizers *n,
    const struct gt_bpe_normalizer **prepend, const struct gt_bpe_normalizer **replace);

/* Return whether no text that comes from the normalizers contains the character: the last one
 * replaces it. */
bool gt_bpe_normalizers_remove(const struct gt_bpe_normalizers *n, uint32_t code);

/* Normalize a text p [n]. The caller frees *out; NULL: nothing was changed. */
int gt_bpe_normalize(const struct gt_bpe_normalizers *list, unsigned char **out, size_t *size,
    const unsigned char *p, size_t n, struct gt_err *err);

/* A text, and what it becomes. */
struct gt_bpe_normalized {
	const unsigned char *p; /* [n] */
	size_t n;
	unsigned char *out; /* [size], which the caller frees, also after an error; NULL: the text
	                     * was not changed */
	size_t size;
};

/* Normalize texts [count] on all processors. A long text is divided if each normalizer changes it
 * piece by piece. */
int gt_bpe_normalize_all(const struct gt_bpe_normalizers *list, struct gt_bpe_normalized *texts,
    size_t count, struct gt_err *err);

#endif
