/* bpe.h - inside data: tokenizers of byte-pair encoding, from files of other programs. */
#ifndef GT_DATA_BPE_BPE_H
#define GT_DATA_BPE_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/folder.h"

/*
 * A tokenizer turns a text into ids of tokens. It is defined by a file: tokenizer.json, as the
 * package `tokenizers` of Hugging Face writes it, or GPT-2's vocab.json and merges.txt. The ids are
 * those of that package's encode(text, add_special_tokens=False); so the post_processor, which adds
 * special tokens around a text, is parsed but never applied.
 *
 *   text -- added tokens --> segments -- normalizer, pre_tokenizer --> words -- merges --> ids
 *
 * 1. Added tokens (`<|endoftext|>`) are found first: the leftmost, and of these the longest.
 * 2. The text between them is cut into words. There are two kinds of tokenizers:
 *    bytes       pre_tokenizer ByteLevel, alone or in a Sequence behind Split and Digits, without
 *                normalizer (GPT-2, llama 3). A word is matched by a regular expression
 *    characters  pre_tokenizer Metaspace or none, normalizer Prepend, Replace or none (llama 2).
 *                A word may be a whole segment
 * 3. Adjacent symbols of a word are merged until no pair has a rank: each time the pair with the
 * lowest rank, and of equal pairs the leftmost. A character without a symbol becomes its bytes
 * (byte_fallback), or
 *    unk_token.
 *
 * Text that is not UTF-8: each maximal ill-formed part is read as one U+FFFD, as by Python's
 * errors="replace".
 *
 * Any other field of tokenizer.json is an error that names the field. Character classes in patterns
 * follow PCRE2's version of Unicode (14.0 in 10.42); characters that were added later are neither
 * letters nor numbers.
 */
struct gt_bpe;

enum {
	GT_BPE_MAX_TOKENS = 1 << 22,
	GT_BPE_MAX_FILE = 40 << 20, /* bytes; the largest known have 33 million */
	/* Commas in it: the parser takes some hundred bytes for each value, and the largest
	 * known files have two million. */
	GT_BPE_MAX_COMMAS = 4000000,
	GT_BPE_MAX_TOKEN = 1 << 12, /* bytes of one token's text */
	GT_BPE_DIGEST = 65          /* SHA-256 in hexadecimal, with a zero at the end */
};

/* Read FILE, or FOLDER/tokenizer.json, or FOLDER/vocab.json and FOLDER/merges.txt. The latter are
 * read as a tokenizer.json of GPT-2's settings; "<|endoftext|>" is an added token if it is there.
 * Errors: GT_EIO, GT_EFORMAT, GT_ENOTSUP (a field that is not supported), GT_ENOMEM. */
int gt_bpe_open(struct gt_bpe **out, struct gt_file_name file, struct gt_err *err);

/* The same from the bytes of a tokenizer.json. */
int gt_bpe_parse(struct gt_bpe **out, const char *text, size_t size, struct gt_err *err);

/* Return another reference to the tokenizer, which is immutable. Close both. */
struct gt_bpe *gt_bpe_share(const struct gt_bpe *bpe);
void gt_bpe_close(struct gt_bpe *bpe);

/* One more than the highest id. */
int gt_bpe_size(const struct gt_bpe *bpe);

/* The token that the post_processor puts before a text, -1: none. gt_bpe_encode() does not add
 * it. */
int32_t gt_bpe_begin(const struct gt_bpe *bpe);

/* SHA-256 of the bytes of its tokenizer.json, and these bytes, borrowed. */
const char *gt_bpe_digest(const struct gt_bpe *bpe);
const char *gt_bpe_source(const struct gt_bpe *bpe, size_t *size);

/* The bytes that a token stands for inside a text, borrowed, maybe a part of a character. NULL:
 * there is no such id. `first`: at the beginning of a text, where some decoders leave out a space;
 * *skip is the number of bytes to leave out there. */
const char *gt_bpe_text(
    const struct gt_bpe *bpe, int32_t id, bool first, size_t *length, size_t *skip);

/* Takes ids in the order of the text, and may fail. */
typedef int gt_bpe_sink(void *self, const int32_t *ids, size_t count, struct gt_err *err);

/* Called with the number of bytes done, by one thread at a time. */
typedef void gt_bpe_watch(void *self, int64_t done, int64_t total);

/*
 * Tokenize a text on all processors. The ids do not depend on the number of processors. A chunk
 * begins where a word certainly begins, or at a guess, which is later compared with the end of the
 * chunk before (encode.c). *repaired is the number of parts that were not UTF-8; it may be NULL.
 * `watch` may be NULL. The text is processed about 64 MiB at a time, which bounds the memory used,
 * with two exceptions. A text that is not UTF-8, or that begins with an added space, is copied. The
 * merges of a single long word need memory for the whole word. The text may be a mapped file. If
 * another process writes to it at the same time, the ids may be wrong, but memory is not damaged.
 * Errors: GT_EFORMAT (a pattern that takes too many steps), GT_ENOMEM, and those of the sink.
 */
int gt_bpe_encode(const struct gt_bpe *bpe, const char *text, size_t size, gt_bpe_sink *sink,
    gt_bpe_watch *watch, void *self, int64_t *repaired, struct gt_err *err);

#endif
