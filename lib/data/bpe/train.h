/* train.h - train a tokenizer of byte-pair encoding on texts. */
#ifndef GT_DATA_BPE_TRAIN_H
#define GT_DATA_BPE_TRAIN_H

#include <stdio.h>

#include "lib/base/file.h"
#include "lib/base/progress.h"

struct gt_bpe_training {
	const struct gt_mapping *files; /* [count] texts */
	size_t count;
	int size;                     /* tokens of the vocabulary, at most */
	int64_t min_frequency;        /* a pair that occurs less often is not merged */
	struct gt_progress *progress; /* shows bytes that are counted, then merges; may be NULL */
	/* Results: numbers of tokens and of merges, of different words, and of the bytes read. */
	int tokens, merges;
	size_t words;
	int64_t bytes;
	int64_t repaired; /* ill-formed parts of the texts, read as U+FFFD */
};

/*
 * Train a tokenizer in the form of GPT-2, with the special token `<|endoftext|>`, and write it as
 * tokenizer.json to `out`; the caller checks the stream. The file is the one that Hugging Face's
 * package `tokenizers` writes for these files, by BpeTrainer with the alphabet of ByteLevel.
 *
 *   texts -- lines, ByteLevel --> words with their numbers -- merges --> tokens
 *
 * Words are counted on all processors; a word does not cross the end of a line. Then the pair of
 * adjacent tokens that occurs most often becomes a token, again and again; of pairs that occur
 * equally often, the one with the lower ids.
 *
 * Errors: GT_EINVAL if the size is less than 257, GT_ENOMEM.
 */
int gt_bpe_train(struct gt_bpe_training *t, FILE *out, struct gt_err *err);

#endif
