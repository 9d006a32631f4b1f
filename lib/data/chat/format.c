/* format.c - the chat template of a tokenizer, and its special tokens. */
#include "lib/data/chat/format.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/file.h"
#include "lib/data/text/beside.h"

/* ---- tokenizer_config.json ---- */

static int read_specials(struct gt_chat_format *f, const json_t *config, struct gt_err *err)
{
	static const char *const names[] = { "bos_token", "eos_token", "unk_token", "sep_token",
		"pad_token", "cls_token", "mask_token" };

	f->specials = json_object();
	if (!f->specials)
		return gt_err_set(err, GT_ENOMEM, "out of memory: special tokens");
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		json_t *text = gt_tokenizer_special(config, names[i]);

		if (text && json_object_set(f->specials, names[i], text))
			return gt_err_set(err, GT_ENOMEM, "out of memory: special tokens");
	}
	return 0;
}

/* "chat_template" is a string, or a list of {"name", "template"}, of which "default" is taken. */
static const char *find_template(const json_t *config)
{
	const json_t *json = json_object_get(config, "chat_template"), *item;
	size_t i;

	json_array_foreach(json, i, item)
	{
		const char *name = json_string_value(json_object_get(item, "name"));

		if (name && !strcmp(name, "default"))
			return json_string_value(json_object_get(item, "template"));
	}
	return json_string_value(json);
}

static int read_config(struct gt_chat_format *f, struct gt_file_name tokenizer, struct gt_err *err)
{
	json_t *config;
	int rc = gt_tokenizer_config_read(&config, tokenizer, err);

	if (!rc)
		rc = read_specials(f, config, err);
	if (!rc && !f->source && find_template(config)) {
		f->source = gt_strdup(find_template(config), err);
		rc = f->source ? 0 : GT_ENOMEM;
	}
	json_decref(config);
	return rc;
}

/* ---- opening ---- */

static int read_template(
    struct gt_chat_format *f, const char *given, struct gt_file_name tokenizer, struct gt_err *err)
{
	struct gt_mapping map;
	size_t size;
	int rc;

	if (!given)
		return tokenizer.path ? gt_read_beside(&f->source, &size, tokenizer,
		                            "chat_template.jinja", err)
		                      : 0;
	rc = gt_map(&map, given, err);
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

int gt_chat_format_open(struct gt_chat_format *out, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	const char *date = gt_spec_value(spec, "date"), *template = gt_spec_value(spec, "template");
	const struct gt_file_name tokenizer = gt_tokenizer_place(spec, request);
	int rc;

	*out = (struct gt_chat_format){ 0 };
	rc = date ? gt_jinja_date_parse(&out->date, date, err) : 0;
	if (!rc)
		rc = read_template(out, template, tokenizer, err);
	if (!rc)
		rc = read_config(out, tokenizer, err);
	if (!rc && !out->source) {
		gt_err_set(err, GT_EINVAL, "there is no chat template beside the tokenizer");
		rc = gt_err_hint(err,
		    "give template=FILE; or put chat_template.jinja, or a tokenizer_config.json that "
		    "has one, into the folder of the tokenizer");
	}
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

int gt_chat_format_save(
    const struct gt_chat_format *f, struct gt_file_name tokenizer, struct gt_err *err)
{
	struct gt_file_name name = { .folder = tokenizer.folder };
	struct gt_atomic_file file;
	char *path = gt_path_beside(tokenizer, GT_TOKENIZER_CONFIG, err);
	json_t *config = json_pack("{s:s}", "chat_template", f->source);
	int rc = path && config ? 0 : gt_err_set(err, GT_ENOMEM, "out of memory: chat template");

	name.path = path;
	if (!rc && json_object_update(config, f->specials))
		rc = gt_err_set(err, GT_ENOMEM, "out of memory: chat template");
	if (!rc)
		rc = gt_atomic_open_at(&file, name, err);
	if (!rc) {
		/* A failed write leaves its mark on the stream, which the commit reads. */
		json_dumpf(config, file.stream, JSON_INDENT(2));
		fputc('\n', file.stream);
		rc = gt_atomic_commit(&file, err);
	}
	json_decref(config);
	free(path);
	return rc;
}
