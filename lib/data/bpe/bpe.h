/* bpe.h - private: tokenizers of subwords, from files of other programs. */
#ifndef GT_DATA_BPE_BPE_H
#define GT_DATA_BPE_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/folder.h"

/*
 * A tokenizer turns a text into ids of tokens, as encode(text, add_special_tokens=False) of Hugging
 * Face's package `tokenizers` does; gt_bpe_template_read() has the special tokens.
 *
 *   text -- added tokens --> segments -- normalizer, pre_tokenizer --> words -- model --> ids
 *
 * 1. Find added tokens such as `<|endoftext|>`, from left to right, the longest one first. The text
 *    between them is cut into segments.
 * 2. Normalize each segment (NFC, lower case, a replacement), and cut it into words: by regular
 *    expressions, or at spaces. Without a pre_tokenizer, a word is a whole segment.
 * 3. Turn each word into ids. Byte-pair encoding splits the word into characters or bytes, and
 *    merges the adjacent pair with the lowest rank, its position in the file, until no pair can be
 *    merged; unknown characters become bytes or unk_token. WordPiece takes the longest token again
 *    and again; Unigram takes the tokens whose product of probabilities is the largest.
 *
 * A tokenizer of bytes has ByteLevel at the end of its pre_tokenizer, and merges (GPT-2, Llama 3).
 * All others are tokenizers of characters.
 *
 * Ill-formed UTF-8 is read as U+FFFD, as Python's errors="replace" does. A field of tokenizer.json
 * that is not supported is an error.
 */
struct gt_bpe;

enum {
	GT_BPE_MAX_TOKENS = 1 << 22,
	GT_BPE_MAX_FILE = 40 << 20,
	/* commas of a file, which limit the memory of its JSON */
	GT_BPE_MAX_COMMAS = 4000000,
	GT_BPE_MAX_TOKEN = 1 << 12, /* bytes */
	GT_BPE_DIGEST = 65          /* SHA-256 in hexadecimal */
};

/* Read a tokenizer.json, a model of SentencePiece, or a folder with one of them or with vocab.json
 * and merges.txt of GPT-2. Errors: GT_EIO, GT_EFORMAT, GT_ENOTSUP (a field), GT_ENOMEM. */
int gt_bpe_open(struct gt_bpe **out, struct gt_file_name file, struct gt_err *err);

/* Read a tokenizer from the bytes of a tokenizer.json, or of a model of SentencePiece. */
int gt_bpe_parse(struct gt_bpe **out, const char *text, size_t size, struct gt_err *err);

/* Return another reference, to be closed, too. */
struct gt_bpe *gt_bpe_share(const struct gt_bpe *bpe);
void gt_bpe_close(struct gt_bpe *bpe);

/* Return the highest id plus 1. */
int gt_bpe_size(const struct gt_bpe *bpe);

/* Return the id of the token that the post_processor puts before a text; -1: none. */
int32_t gt_bpe_begin(const struct gt_bpe *bpe);

/* Return whether a token is an added one, such as `<|endoftext|>`. */
bool gt_bpe_is_added(const struct gt_bpe *bpe, int32_t id);

/* Return whether the post_processor adds the token `begin` (-1: none) and no other. */
bool gt_bpe_adds_only(const struct gt_bpe *bpe, int32_t begin);

/* Return whether the file has 'truncation' or 'padding', which are not applied. */
bool gt_bpe_is_cut_short(const struct gt_bpe *bpe);

/* Return the SHA-256 of the tokenizer.json in hexadecimal, and its bytes; borrowed. */
const char *gt_bpe_digest(const struct gt_bpe *bpe);
const char *gt_bpe_source(const struct gt_bpe *bpe, size_t *size);

/* Set *out, which the caller frees, to a tokenizer.json whose post_processor adds only `begin` (-1:
 * none). */
int gt_bpe_source_with_begin(
    char **out, const struct gt_bpe *bpe, int32_t begin, struct gt_err *err);

/* The order of special tokens and of a text, or of two, as the post_processor puts them. */
struct gt_bpe_part {
	int text; /* 1: the first text; 2: the second; 0: the token `id` */
	int32_t id;
	int type; /* of its tokens, as in token_type_ids */
};

enum { GT_BPE_PARTS = 16, GT_BPE_MAX_TYPE = 255 };

struct gt_bpe_template {
	int count;
	struct gt_bpe_part part[GT_BPE_PARTS];
};

/* Read the post_processor for one text or for two, each of which is in *out once. Without a
 * post_processor there are no special tokens, and the second text has type 1. Errors: GT_EFORMAT,
 * GT_ENOTSUP, GT_ENOMEM. */
int gt_bpe_template_read(
    struct gt_bpe_template *out, const struct gt_bpe *bpe, bool two, struct gt_err *err);

/* Return the id of the token with this text in the file; -1: there is none. */
int32_t gt_bpe_find(const struct gt_bpe *bpe, const char *text);

/* Return the token behind short texts: that of the file's 'padding', else [PAD] or <pad>, else
 * 0. */
int32_t gt_bpe_padding(const struct gt_bpe *bpe);

/* Return the text of a token [*length], borrowed; some decoders give the `first` token of a text
 * another one. It may end inside a UTF-8 character. NULL: no such token. */
const char *gt_bpe_text(const struct gt_bpe *bpe, int32_t id, bool first, size_t *length);

/* Receives ids in the order of the text. If it fails, encoding stops. */
typedef int gt_bpe_sink(void *self, const int32_t *ids, size_t count, struct gt_err *err);

/* Shows progress, in bytes; never called by two threads at once. */
typedef void gt_bpe_watch(void *self, int64_t done, int64_t total);

/* Tokenize a text on all processors, and hand the ids to `sink`. `watch` and `repaired`, the number
 * of ill-formed parts, may be NULL. The text may be a mapped file that others change. Errors:
 * GT_EFORMAT (a pattern takes too many steps), GT_ENOMEM, those of the sink. */
int gt_bpe_encode(const struct gt_bpe *bpe, const char *text, size_t size, gt_bpe_sink *sink,
    gt_bpe_watch *watch, void *self, int64_t *repaired, struct gt_err *err);

#endif
