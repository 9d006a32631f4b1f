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

/* Create a tokenizer of characters: c is a token if bit c % 8 of seen[c / 8] is set,
 * [GT_CODE_POINTS / 8]. Ids ascend. */
int gt_tokenizer_new_chars(struct gt_tokenizer **out, const uint8_t *seen, struct gt_err *err);

/* Create a tokenizer of byte-pair encoding (gt_bpe_open()). */
int gt_tokenizer_new_bpe(struct gt_tokenizer **out, struct gt_file_name file, struct gt_err *err);

/* The kind of tokens, and their names, ended by NULL. */
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

/* Return the content of a vocabulary file, which the caller frees; NULL: no memory. Byte pairs have
 * only a digest. */
json_t *gt_tokenizer_to_json(const struct gt_tokenizer *tok);
/* Create a tokenizer from this JSON, but not for byte pairs. After an error *out is NULL. */
int gt_tokenizer_from_json(struct gt_tokenizer **out, const json_t *json, struct gt_err *err);

#endif
