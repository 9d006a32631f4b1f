/* config.h - tokenizer_config.json: special tokens, and the template of conversations. */
#ifndef GT_DATA_TEXT_CONFIG_H
#define GT_DATA_TEXT_CONFIG_H

#include <jansson.h>

#include "lib/base/folder.h"

/*
 * Read the file beside that of a tokenizer, or in its folder, into *out, an object for
 * json_decref(). As in transformers, chat_template.jinja replaces the member "chat_template". NULL:
 * there is neither file, or no tokenizer (its path is NULL). Errors, which name the file:
 * GT_EFORMAT, also for more than 16 MiB; GT_EIO.
 */
int gt_tokenizer_config_read(json_t **out, struct gt_file_name tokenizer, struct gt_err *err);

/* Write the file beside that of a tokenizer. `no_sync`: as in gt_atomic_file. */
int gt_tokenizer_config_write(
    const json_t *config, struct gt_file_name tokenizer, bool no_sync, struct gt_err *err);

/* Return the text of the special token `name`, such as "eos_token", borrowed from `config`; NULL:
 * there is none. */
json_t *gt_tokenizer_special(const json_t *config, const char *name);

/* Return the special tokens of `config` as texts by their names, for json_decref(); NULL: no
 * memory. */
json_t *gt_tokenizer_specials(const json_t *config);

/* Return the text of the chat template, borrowed from `config`: a string, or "default" in a list of
 * templates. NULL: there is none. */
const char *gt_tokenizer_chat_template(const json_t *config);

/* Write what a copy of the tokenizer needs of `config` beside the file of the copy. */
int gt_tokenizer_config_save(const json_t *config, struct gt_file_name copy, struct gt_err *err);

/* Return what a copy of the tokenizer needs of `config`: special tokens and template, for
 * json_decref(). NULL: no memory. */
json_t *gt_tokenizer_config_copy(const json_t *config);

struct gt_tokenizer;

/* Return the special tokens of an encoder's tokenizer, for json_decref(): those of the config,
 * which may be NULL, and else those that the tokenizer shows: around texts, of padding and for
 * hidden tokens. NULL: no memory. */
json_t *gt_tokenizer_encoder_config(const struct gt_tokenizer *tok, const json_t *config);

#endif
