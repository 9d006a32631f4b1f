/* format.c - the chat template of a tokenizer, and its special tokens. */
#include "lib/data/chat/format.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/file.h"
#include "lib/data/text/config.h"

static int read_template(struct gt_chat_format *f, const char *given, struct gt_err *err)
{
	struct gt_mapping map;
	int rc = gt_map(&map, given, err);

	if (rc)
		return rc;
	if (map.size > GT_JINJA_MAX_SOURCE)
		rc = gt_err_set(err, GT_ENOTSUP, "'%s': %zu bytes, more than %d", given, map.size,
		    GT_JINJA_MAX_SOURCE);
	f->source = rc ? NULL : gt_calloc(map.size + 1, 1, err);
	if (!rc && !f->source)
		rc = GT_ENOMEM;
	if (!rc && map.size)
		memcpy(f->source, map.data, map.size);
	gt_unmap(&map);
	return rc;
}

/* Take the special tokens, and the template unless one is given. */
static int read_config(struct gt_chat_format *f, struct gt_file_name tokenizer, struct gt_err *err)
{
	json_t *config;
	int rc = gt_tokenizer_config_read(&config, tokenizer, err);

	if (rc)
		return rc;
	f->specials = gt_tokenizer_specials(config);
	if (!f->specials)
		rc = gt_err_set(err, GT_ENOMEM, "out of memory: special tokens");
	if (!rc && !f->source && gt_tokenizer_chat_template(config)) {
		f->source = gt_strdup(gt_tokenizer_chat_template(config), err);
		rc = f->source ? 0 : GT_ENOMEM;
	}
	json_decref(config);
	return rc;
}

int gt_chat_format_open(struct gt_chat_format *out, const char *template, const char *date,
    struct gt_file_name tokenizer, struct gt_err *err)
{
	int rc;

	*out = (struct gt_chat_format){ 0 };
	rc = date ? gt_jinja_date_parse(&out->date, date, err) : 0;
	if (!rc && template)
		rc = read_template(out, template, err);
	if (!rc)
		rc = read_config(out, tokenizer, err);
	if (!rc && !out->source)
		rc = gt_err_set(err, GT_EINVAL, "there is no chat template beside the tokenizer");
	if (rc)
		return rc;
	rc = gt_jinja_parse(&out->template, out->source, strlen(out->source), err);
	return rc ? gt_err_prefix(err, "the chat template") : 0;
}

void gt_chat_format_release(struct gt_chat_format *f)
{
	gt_jinja_close(f->template);
	free(f->source);
	json_decref(f->specials);
	*f = (struct gt_chat_format){ 0 };
}

/* The variables of a template. */
static json_t *make_variables(const struct gt_chat_format *f, const json_t *messages, size_t count,
    const json_t *tools, bool prompt)
{
	/* The values of specials are shared by threads, so they get no more references. */
	json_t *variables = json_deep_copy(f->specials), *list = json_array();

	for (size_t i = 0; i < count; i++)
		if (json_array_append(list, json_array_get(messages, i)))
			goto failed;
	if (!variables || json_object_set(variables, "messages", list) ||
	    json_object_set_new(variables, "tools", tools ? json_deep_copy(tools) : json_null()) ||
	    json_object_set_new(variables, "documents", json_null()) ||
	    json_object_set_new(variables, "add_generation_prompt", json_boolean(prompt)))
		goto failed;
	json_decref(list);
	return variables;
failed:
	json_decref(list);
	json_decref(variables);
	return NULL;
}

int gt_chat_render(struct gt_jinja_text *out, const struct gt_chat_format *f,
    const json_t *messages, size_t count, const json_t *tools, bool prompt, struct gt_err *err)
{
	json_t *variables = make_variables(f, messages, count, tools, prompt);
	int rc;

	*out = (struct gt_jinja_text){ 0 };
	if (!variables)
		return gt_err_set(err, GT_ENOMEM, "out of memory: a conversation");
	rc = gt_jinja_render(out, f->template, variables, &f->date, err);
	json_decref(variables);
	return rc ? gt_err_prefix(err, "the chat template") : 0;
}

int gt_chat_find_eos(int32_t *out, const struct gt_chat_format *f, const struct gt_tokenizer *tok,
    struct gt_err *err)
{
	const json_t *text = json_object_get(f->specials, "eos_token");
	int32_t *ids = NULL;
	size_t count = 0;
	int rc = text ? gt_tokenizer_encode(tok, json_string_value(text), json_string_length(text),
	                    &ids, &count, err)
	              : 0;

	*out = !rc && count == 1 ? *ids : -1;
	free(ids);
	return rc;
}

int gt_chat_format_save(
    const struct gt_chat_format *f, struct gt_file_name tokenizer, struct gt_err *err)
{
	json_t *config = json_pack("{s:s}", "chat_template", f->source);
	int rc = config && !json_object_update(config, f->specials)
	             ? gt_tokenizer_config_write(config, tokenizer, false, err)
	             : gt_err_set(err, GT_ENOMEM, "out of memory: chat template");

	json_decref(config);
	return rc;
}
