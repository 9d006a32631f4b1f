/* count.h - private: the different words of texts, and how often each occurs. */
#ifndef GT_DATA_BPE_COUNT_H
#define GT_DATA_BPE_COUNT_H

#include "lib/base/progress.h"
#include "lib/data/bpe/inside.h"

struct gt_bpe_counted {
	const unsigned char *p; /* [n] */
	size_t n;
	int64_t times;
};

struct gt_bpe_counts {
	struct gt_bpe_key key;
	struct gt_bpe_counted *words; /* [count] */
	size_t count, capacity;
	uint32_t *slots; /* [mask + 1], hash table of places in words plus 1; 0: free slot */
	uint32_t mask;
	struct gt_arena arena; /* memory of the words */
};

/* Count the words of a text, line by line, on all processors, and add them to `counts`, a zeroed
 * struct at first. The text is UTF-8. `progress` may be NULL. Errors: GT_EFORMAT (the text
 * changes), GT_ENOMEM. */
int gt_bpe_count(struct gt_bpe_counts *counts, const unsigned char *text, size_t size,
    struct gt_progress *progress, struct gt_err *err);
void gt_bpe_counts_release(struct gt_bpe_counts *counts);

#endif
