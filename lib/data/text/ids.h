/* ids.h - private: the ids of a text's tokens, in memory or in the user's cache. */
#ifndef GT_DATA_TEXT_IDS_H
#define GT_DATA_TEXT_IDS_H

#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/data/bpe/bpe.h"
#include "lib/data/core/data.h"

/* A list of ids. Each id takes as few bytes as the size of the vocabulary allows: uint8, uint16 or
 * int32. */
struct gt_ids {
	int64_t count;
	int width;             /* bytes of an id: 1, 2 or 4 */
	const void *ids;       /* [count] */
	void *own;             /* the memory of the ids, if they are not in a cache file */
	struct gt_mapping map; /* the mapped cache file, if the ids are in one */
	int64_t repaired;      /* number of ill-formed parts of the text, read as U+FFFD */
	char *cache_error;     /* why the cache file could not be written; owned; NULL: no error */
};

/* Return the bytes per id (1, 2 or 4) for a vocabulary of `size` tokens. */
int gt_ids_width(int size);

/*
 * Tokenize files [count], one after the other. Each file is a separate text.
 *
 * If all files together have 1 MiB or more, their ids are stored in a file in the user's cache, and
 * this file is mapped into memory. The file is tokens/KEY.ids below gt_user_cache_path(). KEY is a
 * digest of the texts and the tokenizer. If several processes need the same ids, the first one
 * tokenizes, and the others wait. A cache file that is damaged or belongs to another text is
 * written again. If the user has no cache folder, or the cache file cannot be written, the ids stay
 * in memory, where they may take at most request->memory_bytes.
 *
 * request->log shows the progress; only rank 0 has a log. Errors: GT_ENOMEM, and the errors of
 * gt_bpe_encode().
 */
int gt_ids_open(struct gt_ids *out, const struct gt_bpe *bpe, const struct gt_mapping *files,
    size_t count, const struct gt_data_request *request, struct gt_err *err);
void gt_ids_release(struct gt_ids *ids);

#endif
