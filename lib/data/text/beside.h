/* beside.h - private: files beside a tokenizer. */
#ifndef GT_DATA_TEXT_BESIDE_H
#define GT_DATA_TEXT_BESIDE_H

#include <jansson.h>

#include "lib/data/core/spec.h"

#define GT_TOKENIZER_CONFIG "tokenizer_config.json"

/* Return the tokenizer that the setting `tokenizer` names, else the vocabulary of the request: a
 * file or a folder, borrowed; its path may be NULL. */
struct gt_file_name gt_tokenizer_place(
    const struct gt_spec *spec, const struct gt_data_request *request);

/* Return the path of a file beside a tokenizer. The caller frees it. NULL with err set. */
char *gt_path_beside(struct gt_file_name tokenizer, const char *name, struct gt_err *err);

/* Set *out to the text [*size] of a file beside a tokenizer, or to NULL if it does not exist. The
 * caller frees it. Errors: GT_EIO; GT_EFORMAT for more than 16 MiB. */
int gt_read_beside(
    char **out, size_t *size, struct gt_file_name tokenizer, const char *name, struct gt_err *err);

/* Set *out to the object in tokenizer_config.json, for json_decref(), or to NULL if there is no
 * such file. Errors: GT_EFORMAT, GT_EIO. */
int gt_tokenizer_config_read(json_t **out, struct gt_file_name tokenizer, struct gt_err *err);

/* Return the text of the special token `name`, such as "eos_token", borrowed from `config`; NULL:
 * there is none. */
json_t *gt_tokenizer_special(const json_t *config, const char *name);

#endif
