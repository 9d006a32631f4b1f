/* adapter_write.c - write a low-rank adapter as a folder of PEFT. */
#include "lib/train/checkpoint/adapter_write.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/opt_json.h"
#include "lib/ckpt/write.h"

const char *gt_adapter_task(const struct gt_model *m)
{
	struct gt_model_input in;

	gt_model_preferred_input(m, &in);
	if (in.form.masks)
		return NULL;
	if (in.form.kind == GT_SAMPLE_TOKENS)
		return "CAUSAL_LM";
	return gt_model_longest_text(m) ? "SEQ_CLS" : NULL;
}

bool gt_adapter_is_transposed(const char *family)
{
	return family && !strcmp(family, "gpt2");
}

bool gt_adapter_ends_with(const char *module, const char *name)
{
	const size_t length = strlen(module), end = strlen(name);

	return length > end && module[length - end - 1] == '.' &&
	       !strcmp(module + length - end, name);
}

/* Return whether a module without an adapter has this name, or this end of a name. */
static bool is_of_plain(const struct gt_adapter_contents *c, const char *end)
{
	for (size_t i = 0; i < c->plain_count; i++)
		if (!strcmp(c->plain[i], end) || gt_adapter_ends_with(c->plain[i], end))
			return true;
	return false;
}

/* Return the shortest end of a module's name, in whole words, which no module has that is without
 * an adapter: PEFT takes all modules whose names have this end. */
static const char *shorten_module(const struct gt_adapter_contents *c, const char *module)
{
	const char *end = module + strlen(module);

	do {
		do
			end--;
		while (end > module && end[-1] != '.');
	} while (end > module && is_of_plain(c, end));
	return end;
}

static json_t *list_targets(const struct gt_adapter_contents *c)
{
	const struct gt_tree *dict = c->weights;
	json_t *list = json_array();

	for (size_t i = 0; list && i < dict->seq.count; i++) {
		char module[GT_LORA_NAME];
		bool is_b = false, there = false;
		const char *end;
		json_t *item;
		size_t k;

		if (!gt_lora_is_adapter(dict->seq.items[i].key->string.bytes, module, &is_b) ||
		    is_b)
			continue;
		end = shorten_module(c, module);
		json_array_foreach(list, k, item) there =
		    there || !strcmp(json_string_value(item), end);
		if (!there && json_array_append_new(list, json_string(end))) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

/* List the modules that are trained with the adapter, by their whole names in PEFT: it takes all
 * modules whose names have such an end. */
static json_t *list_trained(const struct gt_adapter_contents *c)
{
	const struct gt_tree *dict = c->weights;
	json_t *list = json_array();

	for (size_t i = 0; list && i < dict->seq.count; i++) {
		const char *name = gt_lora_without_prefix(dict->seq.items[i].key->string.bytes);
		char module[GT_LORA_NAME], whole[GT_LORA_WEIGHT_NAME];
		bool there = false;
		json_t *item;
		size_t k;

		if (!name || !gt_lora_is_trained(c->lora, name, module, NULL))
			continue;
		gt_lora_name_trained(whole, module);
		json_array_foreach(list, k, item) there =
		    there || !strcmp(json_string_value(item), whole);
		if (!there && json_array_append_new(list, json_string(whole))) {
			json_decref(list);
			return NULL;
		}
	}
	if (list && !json_array_size(list)) {
		json_decref(list);
		return json_null();
	}
	return list;
}

static bool ends_in(const char *name, size_t length, const char *end)
{
	const size_t n = strlen(end);

	return n <= length && !strncmp(name + length - n, end, n);
}

/* Return whether a module, or one that it is in, is a head by PEFT's rule, but not trained under
 * the name of the head. */
static bool is_other_head(const struct gt_adapter_contents *c, const char *module)
{
	char weight[GT_LORA_WEIGHT_NAME], trained[GT_LORA_NAME] = "";

	snprintf(weight, sizeof(weight), "%s.weight", module);
	(void)gt_lora_is_trained(c->lora, weight, trained, NULL);
	for (const char *end = strchr(weight, '.'); end; end = strchr(end + 1, '.')) {
		const size_t length = (size_t)(end - weight);

		if (ends_in(weight, length, "classifier") || ends_in(weight, length, "score"))
			return strlen(trained) != length;
	}
	return false;
}

/* Return the task that PEFT can do with the adapter. */
static const char *find_task(const struct gt_adapter_contents *c)
{
	const struct gt_tree *dict = c->weights;
	char module[GT_LORA_NAME];
	bool other = false;

	if (!c->task || strcmp(c->task, "SEQ_CLS") != 0)
		return c->task;
	for (size_t i = 0; i < c->plain_count; i++)
		other |= is_other_head(c, c->plain[i]);
	for (size_t i = 0; i < dict->seq.count; i++)
		if (gt_lora_is_adapter(dict->seq.items[i].key->string.bytes, module, NULL))
			other |= is_other_head(c, module);
	return other ? NULL : c->task;
}

static json_t *make_config(const struct gt_adapter_contents *c)
{
	const struct gt_lora *l = c->lora;
	bool whole = l->alpha == floor(l->alpha);

	return json_pack("{s:s,s:s?,s:s?,s:i,s:o,s:f,s:b,s:o,s:s,s:b,s:b,s:b,s:b,s:o}", "peft_type",
	    "LORA", "task_type", find_task(c), "base_model_name_or_path", c->base, "r", l->rank,
	    "lora_alpha", whole ? json_integer((json_int_t)l->alpha) : json_real(l->alpha),
	    "lora_dropout", l->dropout, "use_rslora", l->root, "target_modules", list_targets(c),
	    "bias", "none", "fan_in_fan_out", c->transposed, "inference_mode", true,
	    "init_lora_weights", true, "use_dora", false, "modules_to_save", list_trained(c));
}

static int write_config(
    const struct gt_adapter_contents *c, const struct gt_folder *folder, struct gt_err *err)
{
	json_t *config = make_config(c);
	char *text = config ? gt_json_dumps(config, JSON_INDENT(2) | JSON_SORT_KEYS) : NULL;
	char *path = gt_folder_path(folder, GT_ADAPTER_CONFIG, err);
	struct gt_atomic_file file;
	int rc = path ? 0 : GT_ENOMEM;

	json_decref(config);
	if (!rc && !text)
		rc = gt_err_set(err, GT_ENOMEM, "out of memory: %s", GT_ADAPTER_CONFIG);
	if (!rc)
		rc = gt_atomic_open_at(&file, (struct gt_file_name){ folder, path }, err);
	if (!rc) {
		fprintf(file.stream, "%s\n", text);
		rc = gt_atomic_commit(&file, err);
	}
	free(text);
	free(path);
	return rc;
}

int gt_adapter_write(
    const struct gt_adapter_contents *c, const struct gt_folder *folder, struct gt_err *err)
{
	char *path = gt_folder_path(folder, GT_ADAPTER_WEIGHTS, err);
	int rc = path ? gt_ckpt_write(path, "safetensors", c->weights, NULL, err) : GT_ENOMEM;

	free(path);
	return rc ? rc : write_config(c, folder, err);
}
