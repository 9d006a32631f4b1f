/* config.c - tokenizer_config.json, read and written. */
#include "lib/data/text/config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/base/opt_json.h"
#include "lib/base/python_json.h"
#include "lib/data/text/tokenizer.h"

enum { MAX_CONFIG = 16 << 20 };

static const char file_name[] = "tokenizer_config.json", template_name[] = "chat_template.jinja";
static const char template_key[] = "chat_template";

/* Return the path of a file beside a tokenizer, which the caller frees. */
static char *path_beside(struct gt_file_name tokenizer, const char *name, struct gt_err *err)
{
	const char *slash = strrchr(tokenizer.path, '/');
	struct stat st;

	if (!tokenizer.folder && !stat(tokenizer.path, &st) && S_ISDIR(st.st_mode))
		return gt_asprintf(err, "%s/%s", tokenizer.path, name);
	return gt_asprintf(
	    err, "%.*s%s", slash ? (int)(slash + 1 - tokenizer.path) : 0, tokenizer.path, name);
}

/* A file beside a tokenizer. */
struct beside {
	char *path;
	struct gt_mapping map;
	const char *text; /* [map.size]; NULL: there is no such file */
};

/* Map a file. Release *out, also after an error. */
static int open_beside(
    struct beside *out, struct gt_file_name tokenizer, const char *name, struct gt_err *err)
{
	struct gt_file_name file = { .folder = tokenizer.folder };
	int rc;

	*out = (struct beside){ .map.fd = -1 };
	file.path = out->path = path_beside(tokenizer, name, err);
	if (!out->path)
		return GT_ENOMEM;
	if (!gt_file_exists(file))
		return 0;
	rc = gt_map_at(&out->map, file, err);
	if (!rc && out->map.size > MAX_CONFIG)
		rc = gt_err_set(err, GT_EFORMAT, "'%s': %zu bytes, more than %d", out->path,
		    out->map.size, MAX_CONFIG);
	out->text = out->map.data ? (const char *)out->map.data : "";
	return rc;
}

static void release_beside(struct beside *file)
{
	gt_unmap(&file->map);
	free(file->path);
}

/* Set *out to the object in the file, or to an empty one if there is no file. */
static int read_object(json_t **out, struct gt_file_name tokenizer, struct gt_err *err)
{
	struct beside file;
	json_error_t where;
	int rc = open_beside(&file, tokenizer, file_name, err);

	if (!rc && file.text) {
		*out = gt_python_json_loadb(file.text, file.map.size, 0, &where);
		if (!*out)
			rc = gt_err_set(err, GT_EFORMAT, "'%s': line %d: %.160s", file.path,
			    where.line, where.text);
		else if (!json_is_object(*out))
			rc = gt_err_set(err, GT_EFORMAT, "'%s' has no JSON object", file.path);
	} else if (!rc) {
		*out = json_object();
		rc = *out ? 0 : gt_err_set(err, GT_ENOMEM, "out of memory: %s", file_name);
	}
	release_beside(&file);
	return rc;
}

/* Put the text of chat_template.jinja into the object, if there is such a file. */
static int read_template(json_t *config, struct gt_file_name tokenizer, struct gt_err *err)
{
	struct beside file;
	int rc = open_beside(&file, tokenizer, template_name, err);

	if (!rc && file.text &&
	    json_object_set_new(config, template_key, json_stringn(file.text, file.map.size)))
		rc = gt_err_set(err, GT_EFORMAT, "'%s' is not UTF-8", file.path);
	release_beside(&file);
	return rc;
}

int gt_tokenizer_config_read(json_t **out, struct gt_file_name tokenizer, struct gt_err *err)
{
	int rc;

	*out = NULL;
	if (!tokenizer.path)
		return 0;
	rc = read_object(out, tokenizer, err);
	if (!rc)
		rc = read_template(*out, tokenizer, err);
	if (!rc && json_object_size(*out))
		return 0;
	json_decref(*out);
	*out = NULL;
	return rc;
}

int gt_tokenizer_config_write(
    const json_t *config, struct gt_file_name tokenizer, bool no_sync, struct gt_err *err)
{
	char *path = path_beside(tokenizer, file_name, err);
	char *text = config ? gt_json_dumps(config, JSON_INDENT(2) | JSON_SORT_KEYS) : NULL;
	struct gt_atomic_file file;
	int rc = path ? 0 : GT_ENOMEM;

	if (!rc && !text)
		rc = gt_err_set(err, GT_ENOMEM, "out of memory: %s", file_name);
	if (!rc)
		rc = gt_atomic_open_at(&file, (struct gt_file_name){ tokenizer.folder, path }, err);
	if (!rc) {
		file.no_sync = no_sync;
		fprintf(file.stream, "%s\n", text);
		rc = gt_atomic_commit(&file, err);
	}
	free(text);
	free(path);
	return rc;
}

/* ---- members ---- */

/* The text of a token, which is a string or {"content": string, ...}. */
json_t *gt_tokenizer_special(const json_t *config, const char *name)
{
	json_t *json = json_object_get(config, name);
	json_t *content = json_is_object(json) ? json_object_get(json, "content") : json;

	return json_is_string(content) ? content : NULL;
}

json_t *gt_tokenizer_specials(const json_t *config)
{
	static const char *const names[] = { "bos_token", "eos_token", "unk_token", "sep_token",
		"pad_token", "cls_token", "mask_token" };
	json_t *specials = json_object();

	for (size_t i = 0; specials && i < sizeof(names) / sizeof(*names); i++) {
		json_t *text = gt_tokenizer_special(config, names[i]);

		if (text && json_object_set(specials, names[i], text)) {
			json_decref(specials);
			specials = NULL;
		}
	}
	return specials;
}

const char *gt_tokenizer_chat_template(const json_t *config)
{
	const json_t *json = json_object_get(config, template_key), *item;
	size_t i;

	json_array_foreach(json, i, item)
	{
		const char *name = json_string_value(json_object_get(item, "name"));

		if (name && !strcmp(name, "default"))
			return json_string_value(json_object_get(item, "template"));
	}
	return json_string_value(json);
}

json_t *gt_tokenizer_config_copy(const json_t *config)
{
	const char *template = gt_tokenizer_chat_template(config);
	json_t *copy = gt_tokenizer_specials(config);

	if (copy && template && json_object_set_new(copy, template_key, json_string(template))) {
		json_decref(copy);
		return NULL;
	}
	return copy;
}

int gt_tokenizer_config_save(const json_t *config, struct gt_file_name copy, struct gt_err *err)
{
	json_t *needed = gt_tokenizer_config_copy(config);
	int rc = gt_tokenizer_config_write(needed, copy, false, err);

	json_decref(needed);
	return rc;
}

/* Set a special token that the config lacks. Return false if memory runs out. */
static bool add_missing(
    json_t *config, const char *name, const struct gt_tokenizer *tok, int32_t id)
{
	size_t length;
	const char *text = id < 0 ? NULL : gt_tokenizer_first_text(tok, id, &length);

	if (!text || json_object_get(config, name))
		return true;
	return !json_object_set_new(config, name, json_stringn(text, length));
}

json_t *gt_tokenizer_encoder_config(const struct gt_tokenizer *tok, const json_t *config)
{
	const struct gt_bpe *bpe = gt_tokenizer_bpe(tok);
	const int32_t padding = gt_bpe_padding(bpe);
	int32_t first = -1, last = -1, mask = gt_bpe_find(bpe, "[MASK]");
	struct gt_bpe_template template;
	json_t *out = gt_tokenizer_config_copy(config);

	if (!gt_bpe_template_read(&template, bpe, false, GT_ERR_IGNORED) && template.count > 1) {
		const struct gt_bpe_part *end = &template.part[template.count - 1];

		first = template.part[0].text ? -1 : template.part[0].id;
		last = end->text ? -1 : end->id;
	}
	mask = mask < 0 ? gt_bpe_find(bpe, "<mask>") : mask;
	if (out && add_missing(out, "cls_token", tok, first) &&
	    add_missing(out, "sep_token", tok, last) && add_missing(out, "mask_token", tok, mask) &&
	    add_missing(out, "pad_token", tok, gt_bpe_is_added(bpe, padding) ? padding : -1))
		return out;
	json_decref(out);
	return NULL;
}
