/* tokenizer.h - inside data: how vocabularies are made and written. */
#ifndef GT_DATA_TOKENIZER_H
#define GT_DATA_TOKENIZER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/data/bpe/bpe.h"
#include "lib/data/data.h"

enum { GT_CODE_POINTS = 0x110000 };

/* A tokenizer whose units are the 256 bytes. */
int gt_tokenizer_new_bytes(struct gt_tokenizer **out, struct gt_err *err);

/* A tokenizer of the code points whose bits are set in seen [GT_CODE_POINTS / 8], in ascending
 * order. */
int gt_tokenizer_new_chars(struct gt_tokenizer **out, const uint8_t *seen, struct gt_err *err);

/* A tokenizer of byte-pair encoding from a file or a folder. */
int gt_tokenizer_new_bpe(struct gt_tokenizer **out, struct gt_file_name file, struct gt_err *err);

/* The units of a text. The number of a level is the index of its name in gt_tokenizer_levels. */
enum gt_tokenizer_level { GT_LEVEL_CHAR, GT_LEVEL_BYTE, GT_LEVEL_BPE };
extern const char *const gt_tokenizer_levels[]; /* ended by NULL */

enum gt_tokenizer_level gt_tokenizer_level(const struct gt_tokenizer *tok);

/* Borrowed; NULL for other levels. */
const struct gt_bpe *gt_tokenizer_bpe(const struct gt_tokenizer *tok);

bool gt_tokenizer_is_bytes(const struct gt_tokenizer *tok);

/* The id of a code point, or of a byte for a tokenizer of bytes; -1 where it has none. */
int32_t gt_tokenizer_id(const struct gt_tokenizer *tok, uint32_t code);

/* Set and return GT_EFORMAT: the code point at `offset` has no id. The error names it. */
int gt_tokenizer_unknown(uint32_t code, size_t offset, struct gt_err *err);

/* Return the content of a vocabulary file (gt_dataset_save_vocab()) as JSON, which the caller
 * frees, or NULL if memory runs out; for byte-pair encoding it is only the digest. Read such JSON
 * as a tokenizer; a digest cannot be read. Errors: GT_EFORMAT, GT_ENOMEM; *out is then NULL. */
json_t *gt_tokenizer_to_json(const struct gt_tokenizer *tok);
int gt_tokenizer_from_json(struct gt_tokenizer **out, const json_t *json, struct gt_err *err);

#endif
