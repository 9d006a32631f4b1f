/* about.c - facts about a run, stored in its config.json and its checkpoints. */
#include "lib/train/run/about.h"

#include "lib/base/opt_json.h"
#include "lib/ckpt/ckpt.h"

/* Add to an object, which may be NULL for want of memory, and is released on failure. */
static json_t *add_about_data(
    json_t *object, const struct gt_data_description *d, bool whole, struct gt_err *err)
{
	json_t *described = gt_data_description_to_json(d, whole, err);

	if (object && described &&
	    !json_object_set_new(object, GT_OPT_ABOUT,
	        json_pack("{s:s,s:O}", "version", GT_VERSION, "data", described))) {
		json_decref(described);
		return object;
	}
	json_decref(described);
	json_decref(object);
	gt_err_set(err, GT_ENOMEM, "out of memory: facts about the run");
	return NULL;
}

json_t *gt_about_add(const json_t *config, const struct gt_dataset *data, struct gt_err *err)
{
	struct gt_data_description d;

	gt_data_describe(&d, data);
	return add_about_data(json_copy((json_t *)config), &d, false, err);
}

/* ---- in checkpoints ---- */

/*
 * The facts are a JSON text in the metadata of the state_dict (gt_state_dict_metadata()), or an
 * entry of the root in a distributed checkpoint, which has no metadata of this kind:
 *
 *   {"model": "lenet", "loss": "cross-entropy", "about": {"version": "0.1.0",
 *    "data": {"kind": "image", "classes": 2, ..., "vocab": ...}}}
 *
 * A model with adapters also has "lora" and perhaps "base" (struct gt_about_run).
 *
 * Other programs ignore it. gtrain reads it like a config.json that has only the entries "model",
 * "loss", "lora" and "about". The text depends only on the model, the loss, the adapters, the
 * training data and gtrain's version.
 */
char *gt_about_text(
    const struct gt_about_run *run, const struct gt_data_description *data, struct gt_err *err)
{
	json_t *json = json_pack("{s:s*,s:s*,s:s*,s:s*}", "model", run->model, "loss", run->loss,
	    "lora", run->lora, "base", run->base);
	char *text;

	json = add_about_data(json, data, true, err);
	if (!json)
		return NULL;
	text = gt_json_dumps(json, JSON_COMPACT | JSON_ENSURE_ASCII);
	json_decref(json);
	if (!text)
		gt_err_set(err, GT_ENOMEM, "out of memory: facts about the run");
	return text;
}

static int parse_about_json(json_t **out, const char *text, const char *path, struct gt_err *err)
{
	json_error_t where;

	/* A NUL may be a character of the vocabulary. */
	*out = json_loads(text, JSON_ALLOW_NUL, &where);
	if (*out)
		return 0;
	return gt_err_set(
	    err, GT_EFORMAT, "'%s': '" GT_ABOUT_NAME "' is not JSON: %s", path, where.text);
}

int gt_about_open(json_t **out, struct gt_file_name file, struct gt_err *err)
{
	struct gt_err unread = GT_ERR_INIT;
	const struct gt_tree *entry;
	struct gt_state_dict sd;
	struct gt_ckpt *ckpt;
	const char *text;
	int rc = 0;

	*out = NULL;
	if (gt_ckpt_open_at(&ckpt, file, &unread))
		return 0;
	if (!gt_state_dict_find(&sd, gt_ckpt_root(ckpt), &unread)) {
		text = gt_state_dict_metadata(&sd, GT_ABOUT_NAME);
		entry = gt_tree_get(gt_ckpt_root(ckpt), GT_ABOUT_NAME);
		if (!text && entry && entry->kind == GT_TREE_STRING)
			text = entry->string.bytes;
		if (text)
			rc = parse_about_json(out, text, file.path, err);
		gt_state_dict_release(&sd);
	}
	gt_ckpt_close(ckpt);
	return rc;
}

int gt_about_read(struct gt_data_description *out, const json_t *config, struct gt_err *err)
{
	const json_t *data = json_object_get(json_object_get(config, GT_OPT_ABOUT), "data");

	*out = (struct gt_data_description){ 0 };
	if (data && gt_data_description_from_json(out, data, err))
		return gt_err_prefix(err, "'%s', 'data'", GT_OPT_ABOUT);
	return 0;
}
