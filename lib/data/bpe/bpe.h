/* bpe.h - private: tokenizers of byte-pair encoding, from files of other programs. */
#ifndef GT_DATA_BPE_BPE_H
#define GT_DATA_BPE_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/folder.h"

/*
 * A tokenizer turns a text into ids of tokens. It is read from a file: tokenizer.json, written by
 * Hugging Face's package `tokenizers`, or GPT-2's vocab.json and merges.txt. The ids are equal to
 * the result of that package's encode(text, add_special_tokens=False). The post_processor, which
 * adds special tokens around a text, is parsed but never applied.
 *
 *   text -- added tokens --> segments -- normalizer, pre_tokenizer --> words -- merges --> ids
 *
 * 1. Find added tokens such as `<|endoftext|>`, from left to right. If several begin at the same
 *    byte, the longest one is taken. The stretches of text between them are called segments.
 * 2. Cut each segment into words. There are two kinds of tokenizers:
 *    bytes       A regular expression matches the words. The pre_tokenizer is ByteLevel, alone or
 *                after Split and Digits in a Sequence; there is no normalizer (GPT-2, llama 3).
 *    characters  A word may be a whole segment. The pre_tokenizer is Metaspace or none; the
 *                normalizer is Prepend, Replace or none (llama 2).
 * 3. Split each word into symbols (single characters or bytes), and merge pairs of adjacent symbols
 *    into tokens. The file lists the pairs to merge; the position of a pair in this list is its
 *    rank. The pair with the lowest rank is merged first; of equal pairs, the leftmost one is
 *    merged first. A character that is not a symbol is replaced by its bytes (byte_fallback) or by
 *    unk_token.
 *
 * If a text is not UTF-8, each maximal ill-formed part is read as one U+FFFD, as Python's
 * errors="replace" does.
 *
 * If tokenizer.json has a field that is not supported, reading it fails; the error names the field.
 * Character classes in patterns follow PCRE2's version of Unicode (Unicode 14.0 in PCRE2 10.42).
 * Characters that Unicode added later are neither letters nor numbers.
 */
struct gt_bpe;

enum {
	GT_BPE_MAX_TOKENS = 1 << 22,
	GT_BPE_MAX_FILE = 40 << 20, /* bytes; the largest known file has 33 million bytes */
	/* Limit of commas in a file, which limits the number of JSON values. The JSON parser takes
	 * some hundred bytes of memory per value; the largest known files have two million
	 * values. */
	GT_BPE_MAX_COMMAS = 4000000,
	GT_BPE_MAX_TOKEN = 1 << 12, /* bytes of one token's text */
	GT_BPE_DIGEST = 65          /* bytes: SHA-256 in hexadecimal, and a terminating zero */
};

/* Read a tokenizer. `file` is a tokenizer.json, or a folder. The folder has either tokenizer.json,
 * or both vocab.json and merges.txt. These two files have no settings, so the settings of GPT-2 are
 * used, with the added token "<|endoftext|>" if vocab.json has it. Close *out with gt_bpe_close().
 * Errors: GT_EIO, GT_EFORMAT, GT_ENOTSUP (a field that is not supported), GT_ENOMEM. */
int gt_bpe_open(struct gt_bpe **out, struct gt_file_name file, struct gt_err *err);

/* Read a tokenizer from the bytes of a tokenizer.json. Errors: GT_EFORMAT, GT_ENOTSUP,
 * GT_ENOMEM. */
int gt_bpe_parse(struct gt_bpe **out, const char *text, size_t size, struct gt_err *err);

/* Return another reference to a tokenizer, which is immutable. Close both references. */
struct gt_bpe *gt_bpe_share(const struct gt_bpe *bpe);
void gt_bpe_close(struct gt_bpe *bpe);

/* Return the highest id plus 1. */
int gt_bpe_size(const struct gt_bpe *bpe);

/* Return the id of the token that the post_processor puts before a text; -1: none. gt_bpe_encode()
 * does not add this token. */
int32_t gt_bpe_begin(const struct gt_bpe *bpe);

/* Return true if the post_processor puts the token `begin` before a text, and adds no other tokens.
 * If `begin` is -1, return true if the post_processor adds no tokens. */
bool gt_bpe_adds_only(const struct gt_bpe *bpe, int32_t begin);

/* gt_bpe_source() returns the bytes of the tokenizer.json; gt_bpe_digest() returns the SHA-256 of
 * these bytes, in hexadecimal. Both results are borrowed. */
const char *gt_bpe_digest(const struct gt_bpe *bpe);
const char *gt_bpe_source(const struct gt_bpe *bpe, size_t *size);

/* Set *out to the text of a tokenizer.json with the same tokens and another post_processor. The new
 * post_processor adds only the token `begin` before a text. `begin` is the id of a token; -1: the
 * new post_processor adds no tokens. The caller frees *out. Errors: GT_ENOMEM. */
int gt_bpe_source_with_begin(
    char **out, const struct gt_bpe *bpe, int32_t begin, struct gt_err *err);

/*
 * Return the text of a token, borrowed, or NULL if no token has this id. The text has *length
 * bytes, and may end inside a UTF-8 character.
 *
 *   first   the token is the first one of a text; some decoders drop spaces there
 *   *skip   the number of bytes at the start of the text that must not be written
 */
const char *gt_bpe_text(
    const struct gt_bpe *bpe, int32_t id, bool first, size_t *length, size_t *skip);

/* A caller's function that receives ids in the order of the text. If it fails, encoding stops. */
typedef int gt_bpe_sink(void *self, const int32_t *ids, size_t count, struct gt_err *err);

/* A caller's function that shows progress, in bytes. Only one thread calls it at a time. */
typedef void gt_bpe_watch(void *self, int64_t done, int64_t total);

/*
 * Tokenize a text on all processors, and hand its ids to `sink`. The ids do not depend on the
 * number of processors. Threads work on chunks of the text. A chunk begins where a word certainly
 * begins, or at a guessed position that is later compared with the end of the previous chunk
 * (encode.c).
 *
 *   sink, watch   called with `self`; `watch` may be NULL
 *   *repaired     number of ill-formed parts that were read as U+FFFD; may be NULL
 *
 * Memory: the text is processed about 64 MiB at a time, which limits the memory used, with two
 * exceptions. The merges of a single long word need memory for the whole word. And the whole text
 * is copied in three cases: it is not UTF-8; the tokenizer adds a space before it; PCRE2 interprets
 * a pattern, because it cannot compile patterns to machine code on this machine.
 *
 * The text may be a mapped file. If another process writes to the file at the same time, the ids
 * may be wrong, but memory is not damaged.
 *
 * Errors: GT_EFORMAT (a pattern that takes too many steps), GT_ENOMEM, and errors of the sink.
 */
int gt_bpe_encode(const struct gt_bpe *bpe, const char *text, size_t size, gt_bpe_sink *sink,
    gt_bpe_watch *watch, void *self, int64_t *repaired, struct gt_err *err);

#endif
