/* ids.h - private: the ids of a text's tokens, in memory or in the user's cache. */
#ifndef GT_DATA_TEXT_IDS_H
#define GT_DATA_TEXT_IDS_H

#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/data/bpe/bpe.h"
#include "lib/data/core/data.h"

/* A list of ids, each with as few bytes as the vocabulary allows. */
struct gt_ids {
	int64_t count;
	int width;             /* 1, 2 or 4: uint8, uint16 or int32 */
	const void *ids;       /* [count] */
	void *own;             /* their memory, if they are not in a file */
	struct gt_mapping map; /* the mapped file of the cache */
	int64_t repaired;      /* ill-formed parts of the text, read as U+FFFD */
	char *cache_error;     /* why the cache was not written; owned; NULL: no error */
};

/* Return the bytes of an id for a vocabulary of `size` tokens. */
int gt_ids_width(int size);

/* Tokenize files [count], each a separate text. Ids of 1 MiB of text or more are stored in the
 * user's cache and mapped; other processes wait for them. Without a cache they may take
 * request->memory_bytes. */
int gt_ids_open(struct gt_ids *out, const struct gt_bpe *bpe, const struct gt_mapping *files,
    size_t count, const struct gt_data_request *request, struct gt_err *err);
void gt_ids_release(struct gt_ids *ids);

#endif
