/* beside.c - files beside a tokenizer. */
#include "lib/data/text/beside.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/file.h"
#include "lib/base/python_json.h"

enum { MAX_CONFIG = 16 << 20 };

char *gt_path_beside(struct gt_file_name tokenizer, const char *name, struct gt_err *err)
{
	const char *slash = strrchr(tokenizer.path, '/');
	struct stat st;

	if (!tokenizer.folder && !stat(tokenizer.path, &st) && S_ISDIR(st.st_mode))
		return gt_asprintf(err, "%s/%s", tokenizer.path, name);
	return gt_asprintf(
	    err, "%.*s%s", slash ? (int)(slash + 1 - tokenizer.path) : 0, tokenizer.path, name);
}

int gt_read_beside(
    char **out, size_t *size, struct gt_file_name tokenizer, const char *name, struct gt_err *err)
{
	struct gt_file_name file = { .folder = tokenizer.folder };
	struct gt_mapping map = { .fd = -1 };
	char *path = gt_path_beside(tokenizer, name, err);
	int rc = path ? 0 : GT_ENOMEM;

	*out = NULL;
	file.path = path;
	if (!rc && gt_file_exists(file)) {
		rc = gt_map_at(&map, file, err);
		if (!rc && map.size > MAX_CONFIG)
			rc = gt_err_set(err, GT_EFORMAT, "'%s': %zu bytes, more than %d", path,
			    map.size, MAX_CONFIG);
		*size = map.size;
		*out = rc ? NULL : gt_calloc(map.size + 1, 1, err);
		if (!rc && !*out)
			rc = GT_ENOMEM;
		if (!rc && map.size)
			memcpy(*out, map.data, map.size);
		gt_unmap(&map);
	}
	free(path);
	return rc;
}

struct gt_file_name gt_tokenizer_place(
    const struct gt_spec *spec, const struct gt_data_request *request)
{
	const char *given = gt_spec_value(spec, "tokenizer");

	return given ? (struct gt_file_name){ .path = given } : request->vocab;
}

int gt_tokenizer_config_read(json_t **out, struct gt_file_name tokenizer, struct gt_err *err)
{
	json_error_t where;
	char *text = NULL;
	size_t size = 0;
	int rc = 0;

	*out = NULL;
	if (tokenizer.path)
		rc = gt_read_beside(&text, &size, tokenizer, GT_TOKENIZER_CONFIG, err);
	if (rc || !text)
		return rc;
	*out = gt_python_json_loadb(text, size, 0, &where);
	free(text);
	if (json_is_object(*out))
		return 0;
	rc = gt_err_set(err, GT_EFORMAT, "'" GT_TOKENIZER_CONFIG "' of the tokenizer: %.120s",
	    *out ? "the JSON is not an object" : where.text);
	json_decref(*out);
	*out = NULL;
	return rc;
}

/* The text of a token, which is a string or {"content": string, ...}. */
json_t *gt_tokenizer_special(const json_t *config, const char *name)
{
	json_t *json = json_object_get(config, name);
	json_t *content = json_is_object(json) ? json_object_get(json, "content") : json;

	return json_is_string(content) ? content : NULL;
}
