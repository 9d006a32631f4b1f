/* tokenizer.h - private: create tokenizers, and convert them to JSON. */
#ifndef GT_DATA_TEXT_TOKENIZER_H
#define GT_DATA_TEXT_TOKENIZER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/data/bpe/bpe.h"
#include "lib/data/core/data.h"

enum { GT_CODE_POINTS = 0x110000 }; /* number of Unicode code points */

/* Create a tokenizer with 256 tokens: the bytes. */
int gt_tokenizer_new_bytes(struct gt_tokenizer **out, struct gt_err *err);

/* Create a tokenizer of characters: its tokens are Unicode code points. Code point c is a token if
 * bit c % 8 of byte seen[c / 8] is set. `seen` has GT_CODE_POINTS / 8 bytes. Ids are given in
 * ascending order of the code points. */
int gt_tokenizer_new_chars(struct gt_tokenizer **out, const uint8_t *seen, struct gt_err *err);

/* Create a tokenizer of byte-pair encoding from tokenizer.json, or from a folder that contains
 * tokenizer.json, or vocab.json and merges.txt (gt_bpe_open()). */
int gt_tokenizer_new_bpe(struct gt_tokenizer **out, struct gt_file_name file, struct gt_err *err);

/* The level of a tokenizer is the kind of its tokens: characters, bytes, or byte pairs. A level is
 * the index of its name in gt_tokenizer_levels. */
enum gt_tokenizer_level { GT_LEVEL_CHAR, GT_LEVEL_BYTE, GT_LEVEL_BPE };
extern const char *const gt_tokenizer_levels[]; /* ended by NULL */

enum gt_tokenizer_level gt_tokenizer_level(const struct gt_tokenizer *tok);

/* Return the struct gt_bpe of a tokenizer of byte-pair encoding, borrowed; NULL for other
 * levels. */
const struct gt_bpe *gt_tokenizer_bpe(const struct gt_tokenizer *tok);

bool gt_tokenizer_is_bytes(const struct gt_tokenizer *tok);

/* Return the id of a code point, or of a byte for a tokenizer of bytes; -1 if it is not a token.
 * Not for byte-pair encoding. */
int32_t gt_tokenizer_id(const struct gt_tokenizer *tok, uint32_t code);

/* Set *err to GT_EFORMAT and return this code. The message says that the code point `code`, at byte
 * `offset` of a text, is not a token. */
int gt_tokenizer_fail_unknown(uint32_t code, size_t offset, struct gt_err *err);

/* Return the content of a vocabulary file (gt_dataset_save_vocab()) as JSON, which the caller
 * frees; NULL if memory runs out. For byte-pair encoding, the JSON has only the tokenizer's digest
 * (a hash that identifies it). */
json_t *gt_tokenizer_to_json(const struct gt_tokenizer *tok);
/* Create a tokenizer from JSON that gt_tokenizer_to_json() wrote. JSON for byte-pair encoding is an
 * error, because it has only a digest. After an error *out is NULL. Errors: GT_EFORMAT,
 * GT_ENOMEM. */
int gt_tokenizer_from_json(struct gt_tokenizer **out, const json_t *json, struct gt_err *err);

#endif
