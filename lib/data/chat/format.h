/* format.h - private: the chat template of a tokenizer, and what it is rendered with. */
#ifndef GT_DATA_CHAT_FORMAT_H
#define GT_DATA_CHAT_FORMAT_H

#include "lib/data/core/spec.h"
#include "lib/data/jinja/jinja.h"

struct gt_chat_format {
	struct gt_jinja *template;
	char *source;     /* its text */
	json_t *specials; /* an object: special tokens by names such as "eos_token" */
	struct gt_jinja_date date;
};

/*
 * Open the template that the setting `template` names. Without it, open chat_template.jinja beside
 * the tokenizer, or read "chat_template" in tokenizer_config.json. Special tokens come from
 * tokenizer_config.json. The tokenizer is that of the setting `tokenizer`, else the vocabulary of
 * the request.
 *
 * Release *out, also after an error. Errors: GT_EINVAL if there is no template; GT_EIO; those of
 * gt_jinja_parse().
 */
int gt_chat_format_open(struct gt_chat_format *out, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err);
void gt_chat_format_release(struct gt_chat_format *f);

/* Write template and special tokens to tokenizer_config.json, beside the file of the tokenizer. */
int gt_chat_format_save(
    const struct gt_chat_format *f, struct gt_file_name tokenizer, struct gt_err *err);

#endif
