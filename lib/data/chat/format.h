/* format.h - private: the chat template of a tokenizer, and what it is rendered with. */
#ifndef GT_DATA_CHAT_FORMAT_H
#define GT_DATA_CHAT_FORMAT_H

#include "lib/base/folder.h"
#include "lib/data/jinja/jinja.h"
#include "lib/data/text/tokenizer.h"

struct gt_chat_format {
	struct gt_jinja *template;
	char *source;     /* its text */
	json_t *specials; /* an object: special tokens by names such as "eos_token" */
	struct gt_jinja_date date;
};

/*
 * Open the file `template`, or the template of a tokenizer (gt_tokenizer_config_read()), whose
 * special tokens are taken. `date` is a day, YYYY-MM-DD. Both may be NULL.
 *
 * Release *out, also after an error. Errors: GT_EINVAL without a hint if there is no template
 * (out->source is NULL); those of gt_jinja_parse() and gt_tokenizer_config_read().
 */
int gt_chat_format_open(struct gt_chat_format *out, const char *template, const char *date,
    struct gt_file_name tokenizer, struct gt_err *err);
void gt_chat_format_release(struct gt_chat_format *f);

/* Render the first `count` of a list of messages, with the prompt for an answer or without. `tools`
 * may be NULL. Release *out, also after an error. Errors: those of gt_jinja_render(). */
int gt_chat_render(struct gt_jinja_text *out, const struct gt_chat_format *f,
    const json_t *messages, size_t count, const json_t *tools, bool prompt, struct gt_err *err);

/* Set *out to the token of the tokenizer that is the special token "eos_token"; -1: there is none.
 * Errors: those of gt_tokenizer_encode(). */
int gt_chat_find_eos(int32_t *out, const struct gt_chat_format *f, const struct gt_tokenizer *tok,
    struct gt_err *err);

/* Write template and special tokens to tokenizer_config.json, beside the file of the tokenizer. */
int gt_chat_format_save(
    const struct gt_chat_format *f, struct gt_file_name tokenizer, struct gt_err *err);

#endif
