/* ids.h - inside data: the ids of a text's tokens, in memory or in the user's cache. */
#ifndef GT_DATA_IDS_H
#define GT_DATA_IDS_H

#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/data/bpe/bpe.h"
#include "lib/data/data.h"

/* Each id in as few bytes as the vocabulary allows: uint8, uint16 or int32. */
struct gt_ids {
	int64_t count;
	int width;             /* 1, 2 or 4 */
	const void *ids;       /* [count] */
	void *own;             /* the ids, if they are in memory */
	struct gt_mapping map; /* or the file that they lie in */
	int64_t repaired;      /* parts of the text that were not UTF-8 */
	char *trouble;         /* why the cache could not be written; owned; NULL: no error */
};

/* The bytes that hold an id below `size`. */
int gt_ids_width(int size);

/*
 * The ids of files, one after the other: each is a text of its own. Those of a megabyte or more are
 * kept in the user's cache (tokens/KEY.ids below gt_user_cache_path()), by the digests of text and
 * tokenizer, and mapped from there. If several processes need the same ids, the first one tokenizes
 * and the others wait. A cache file that is damaged or belongs to another text is written again.
 * Without a cache folder the ids stay in memory, up to the limit of the request.
 *
 * Rank 0 shows the progress in its log. Errors: GT_ENOMEM, and those of gt_bpe_encode().
 */
int gt_ids_open(struct gt_ids *out, const struct gt_bpe *bpe, const struct gt_mapping *files,
    size_t count, const struct gt_data_request *request, struct gt_err *err);
void gt_ids_release(struct gt_ids *ids);

#endif
