/* choose.h - private: the tokenizer of a text. */
#ifndef GT_DATA_TEXT_CHOOSE_H
#define GT_DATA_TEXT_CHOOSE_H

#include <jansson.h>

#include "lib/data/core/spec.h"
#include "lib/data/text/tokenizer.h"

struct gt_source;

#define GT_TOKENIZER_HINT                                                                          \
	"tokenizer=DIR: a folder with tokenizer.json, which "                                      \
	"AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR) of transformers writes"

/* Choose the tokenizer by the settings `level` and `tokenizer`, and by the vocabulary of the
 * request, and note in source->info if it is not that of the model. *tok, which is NULL before,
 * stays NULL if the text has to make its vocabulary; the caller closes it, also after an error.
 * Errors: those of gt_tokenizer_open(); GT_EINVAL. */
int gt_tokenizer_choose(struct gt_tokenizer **tok, enum gt_tokenizer_level *level,
    struct gt_source *source, const struct gt_spec *spec, const struct gt_data_request *request,
    struct gt_err *err);

/* The same for data that need a tokenizer of subwords, or else fail with these texts. */
int gt_tokenizer_choose_subwords(struct gt_tokenizer **tok, struct gt_source *source,
    const struct gt_spec *spec, const struct gt_data_request *request, const char *needs,
    const char *hint, struct gt_err *err);

/* Return the tokenizer that the setting `tokenizer` names, else the vocabulary of the request: a
 * file or a folder, borrowed; its path may be NULL. */
struct gt_file_name gt_tokenizer_place(
    const struct gt_spec *spec, const struct gt_data_request *request);

/* Return the text that ends each row: that of the setting `end`, the token that ends texts, or a
 * line feed. Borrowed from the spec, or from the config of the tokenizer, which may be NULL. */
const char *gt_rows_end(const struct gt_spec *spec, const json_t *config);

#endif
