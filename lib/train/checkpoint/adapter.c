/* adapter.c - low-rank adapters as folders of PEFT. */
#include "lib/train/checkpoint/adapter.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/base/new_folder.h"
#include "lib/base/opt_json.h"
#include "lib/model/lora.h"
#include "lib/train/checkpoint/adapter_write.h"
#include "lib/train/checkpoint/pretrained.h"
#include "lib/train/checkpoint/snapshot.h"

static const char config_name[] = GT_ADAPTER_CONFIG;
static const char weights_name[] = GT_ADAPTER_WEIGHTS;
static const char old_weights_name[] = "adapter_model.bin";

/* ---- adapter_config.json ---- */

/* Entries that do not change what the weights compute, or that are read. Others must be off. */
static const char *const known[] = { "peft_type", "r", "lora_alpha", "lora_dropout", "use_rslora",
	"target_modules", "bias", "init_lora_weights", "auto_mapping", "base_model_name_or_path",
	"corda_config", "ensure_weight_tying", "eva_config", "exclude_modules", "fan_in_fan_out",
	"inference_mode", "layers_pattern", "layers_to_transform", "loftq_config", "lora_ga_config",
	"megatron_core", "modules_to_save", "peft_version", "qalora_group_size", "revision",
	"runtime_config", "task_type", NULL };

static bool is_known(const char *key)
{
	int i = 0;

	while (known[i] && strcmp(known[i], key) != 0)
		i++;
	return known[i] != NULL;
}

static bool is_off(const json_t *value)
{
	return !value || json_is_null(value) || json_is_false(value) ||
	       (json_is_object(value) && !json_object_size(value)) ||
	       (json_is_array(value) && !json_array_size(value)) ||
	       (json_is_number(value) && json_number_value(value) == 0) ||
	       (json_is_string(value) && !strcmp(json_string_value(value), "none"));
}

static int fail_entry(const char *key, const json_t *value, struct gt_err *err)
{
	char *text = gt_json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);

	gt_err_set(err, GT_ENOTSUP, "'%.60s' is %.80s, which gtrain does not have", key,
	    text ? text : "set");
	free(text);
	return err->code;
}

/* Initial weights of some kinds change those of the model, too. */
static bool keeps_model(const json_t *init)
{
	return !json_is_string(init) || !strcmp(json_string_value(init), "gaussian");
}

static bool is_list_of_texts(const json_t *value)
{
	json_t *item;
	size_t i;

	json_array_foreach((json_t *)value, i, item)
	{
		if (!json_is_string(item))
			return false;
	}
	return json_is_array(value);
}

static int check_entries(const json_t *config, struct gt_err *err)
{
	const json_t *type = json_object_get(config, "peft_type");
	const char *key;
	json_t *value;

	if (!json_is_string(type) || strcmp(json_string_value(type), "LORA") != 0)
		return type ? fail_entry("peft_type", type, err)
		            : gt_err_set(err, GT_EFORMAT, "'peft_type' is missing");
	json_object_foreach((json_t *)config, key, value)
	{
		bool fits = is_known(key) || is_off(value);

		if (!strcmp(key, "bias"))
			fits = is_off(value);
		else if (!strcmp(key, "modules_to_save"))
			fits = json_is_null(value) || is_list_of_texts(value);
		else if (!strcmp(key, "init_lora_weights"))
			fits = keeps_model(value);
		if (!fits)
			return fail_entry(key, value, err);
	}
	return 0;
}

/* Read a number of the settings. One that is missing is 0. */
static int read_number(struct gt_lora *l, enum gt_lora_number setting, const json_t *config,
    const char *key, struct gt_err *err)
{
	const json_t *value = json_object_get(config, key);
	const char *wanted = gt_lora_set(l, setting, json_number_value(value));

	return wanted ? gt_err_set(err, GT_EFORMAT, "'%s' is not %s", key, wanted) : 0;
}

static int read_settings(struct gt_lora *l, const json_t *config, struct gt_err *err)
{
	*l = (struct gt_lora){ 0 };
	if (check_entries(config, err) || read_number(l, GT_LORA_RANK, config, "r", err) ||
	    read_number(l, GT_LORA_ALPHA, config, "lora_alpha", err) ||
	    read_number(l, GT_LORA_DROPOUT, config, "lora_dropout", err))
		return err->code;
	l->root = json_is_true(json_object_get(config, "use_rslora"));
	return 0;
}

/* ---- the layers of an adapter ---- */

/* Add a pattern to those before it. */
static void add_target(struct gt_buf *targets, const char *before, const char *name)
{
	gt_buf_printf(targets, "%s%s%s", targets->length ? "|" : "", before, name);
}

/* Return whether a list of names has a module, by PEFT's rule: such a name is the end of a module's
 * name, or all of it. */
static bool has_module(const json_t *names, const char *module)
{
	json_t *item;
	size_t k;

	json_array_foreach((json_t *)names, k, item)
	{
		const char *name = json_string_value(item);

		if (name && (gt_adapter_ends_with(module, name) || !strcmp(module, name)))
			return true;
	}
	return false;
}

/* Return entry i of the state_dict as the module of A, or false. */
static bool module_at(char module[GT_LORA_NAME], const struct gt_state_dict *sd, size_t i)
{
	bool is_b = false;

	return gt_lora_is_adapter(sd->entries[i].name, module, &is_b) && !is_b;
}

/* Write the names in target_modules as patterns. Return false if they are not all of the adapter's
 * layers. */
static bool write_rule(struct gt_buf *targets, const json_t *config, const struct gt_state_dict *sd)
{
	const json_t *names = json_object_get(config, "target_modules");
	char module[GT_LORA_NAME];
	size_t found = 0, all = 0, k;
	json_t *item;

	if (!json_is_array(names) || !is_off(json_object_get(config, "layers_to_transform")))
		return false;
	json_array_foreach((json_t *)names, k, item)
	{
		const char *name = json_string_value(item);
		bool end = false, whole = false;

		if (!name || strpbrk(name, "*?[\\|,"))
			return false;
		for (size_t i = 0; i < sd->count; i++) {
			if (!module_at(module, sd, i))
				continue;
			end = end || gt_adapter_ends_with(module, name);
			whole = whole || !strcmp(module, name);
		}
		if (end)
			add_target(targets, "*.", name);
		if (whole)
			add_target(targets, "", name);
	}
	for (size_t i = 0; i < sd->count; i++) {
		if (!module_at(module, sd, i))
			continue;
		all++;
		found += has_module(names, module);
	}
	return found == all;
}

/* Each A needs its B, and each B its A: a half of an adapter would be left out in silence. */
static int check_halves(const struct gt_state_dict *sd, struct gt_err *err)
{
	for (size_t i = 0; i < sd->count; i++) {
		char module[GT_LORA_NAME], other[GT_LORA_WEIGHT_NAME];
		bool is_b;

		if (!gt_lora_is_adapter(sd->entries[i].name, module, &is_b))
			continue;
		gt_lora_name_weight(other, module, !is_b);
		if (!gt_state_dict_get(sd, other))
			return gt_err_set(err, GT_EFORMAT, "'%.120s' has no '%.120s' beside it",
			    sd->entries[i].name, other);
	}
	return 0;
}

static int find_targets(
    char **out, const json_t *config, const struct gt_state_dict *sd, struct gt_err *err)
{
	struct gt_buf targets = { 0 };
	char module[GT_LORA_NAME];
	size_t length, layers = 0;

	for (size_t i = 0; i < sd->count; i++)
		layers += module_at(module, sd, i);
	if (!layers)
		return gt_err_set(err, GT_EFORMAT, "the adapter has no weights");
	if (!write_rule(&targets, config, sd)) {
		gt_buf_release(&targets);
		targets = (struct gt_buf){ 0 };
		for (size_t i = 0; i < sd->count; i++)
			if (module_at(module, sd, i))
				add_target(&targets, "", module);
	}
	return gt_buf_take(&targets, out, &length, err);
}

/* ---- modules that are trained with the adapter ---- */

/* Return the length of the outermost module of a parameter that modules_to_save lists, or 0. By
 * PEFT's rule, a name in the list is the end of a module's name, which begins with PEFT's prefix:
 * "classifier" lists "pre_classifier", too. */
static size_t find_saved_module(const json_t *config, const char *own)
{
	const json_t *list = json_object_get(config, "modules_to_save");
	char name[GT_LORA_WEIGHT_NAME];
	const size_t prefix = GT_LORA_PREFIX;

	gt_lora_name_trained(name, own);
	for (const char *end = strchr(name + prefix, '.'); end; end = strchr(end + 1, '.')) {
		const size_t length = (size_t)(end - name);
		json_t *item;
		size_t k;

		json_array_foreach((json_t *)list, k, item)
		{
			const char *word = json_string_value(item);
			const size_t n = word ? strlen(word) : 0;

			if (n && n <= length && !strncmp(end - n, word, n))
				return length - prefix;
		}
	}
	return 0;
}

/* Each entry that is no half of an adapter is a parameter of such a module: add it to the
 * patterns. */
static int find_trained(
    char **out, const json_t *config, const struct gt_state_dict *sd, struct gt_err *err)
{
	struct gt_lora so_far = { 0 };
	struct gt_buf trained = { 0 };
	char module[GT_LORA_NAME];
	size_t length;

	for (size_t i = 0; i < sd->count; i++) {
		const char *name = gt_lora_without_prefix(sd->entries[i].name);

		if (!name || gt_lora_is_trained(&so_far, name, NULL, NULL))
			continue;
		snprintf(
		    module, sizeof(module), "%.*s", (int)find_saved_module(config, name), name);
		add_target(&trained, "", module);
		free(so_far.trained);
		so_far.trained = gt_strdup(gt_buf_text(&trained), err);
		if (!so_far.trained)
			break;
	}
	gt_lora_release(&so_far);
	return trained.length ? gt_buf_take(&trained, out, &length, err) : err->code;
}

/* Check that each entry is a weight of an adapter, or of a trained module. */
static int check_names(const json_t *config, const struct gt_state_dict *sd, struct gt_err *err)
{
	for (size_t i = 0; i < sd->count; i++) {
		const char *name = sd->entries[i].name, *trained = gt_lora_without_prefix(name);
		char module[GT_LORA_NAME];
		const bool fits = trained ? find_saved_module(config, trained) > 0 &&
		                                strlen(trained) < GT_LORA_NAME
		                          : gt_lora_is_adapter(name, module, NULL);

		if (fits && !strpbrk(trained ? trained : module, "*?[\\|,"))
			continue;
		return gt_err_set(
		    err, GT_ENOTSUP, "'%.120s' is not a weight of a linear layer's adapter", name);
	}
	return 0;
}

/* A layer is trained as a whole, or has an A and a B. */
static int check_twice(const struct gt_lora *l, const struct gt_state_dict *sd, struct gt_err *err)
{
	char module[GT_LORA_NAME], weight[GT_LORA_WEIGHT_NAME];

	for (size_t i = 0; i < sd->count; i++) {
		if (!module_at(module, sd, i))
			continue;
		snprintf(weight, sizeof(weight), "%s.weight", module);
		if (gt_lora_is_trained(l, weight, NULL, NULL))
			return gt_err_set(err, GT_EFORMAT,
			    "the layer '%.120s' has an adapter, and is trained as a whole, too",
			    module);
	}
	return 0;
}

/* ---- reading ---- */

static int find_weights(char **out, const char *folder, struct gt_err *err)
{
	for (int i = 0; i < 2; i++) {
		*out = gt_asprintf(err, "%s/%s", folder, i ? old_weights_name : weights_name);
		if (!*out)
			return GT_ENOMEM;
		if (gt_file_exists((struct gt_file_name){ .path = *out }))
			return 0;
		free(*out);
		*out = NULL;
	}
	return gt_err_set(err, GT_EIO, "the folder '%s' has no %s beside its %s", folder,
	    weights_name, config_name);
}

static int read_targets(
    struct gt_lora *l, const char *weights, const json_t *config, struct gt_err *err)
{
	struct gt_state_dict sd = { 0 };
	struct gt_ckpt *ckpt;
	int rc = gt_ckpt_open(&ckpt, weights, err);

	if (rc)
		return rc;
	rc = gt_state_dict_find_as_is(&sd, gt_ckpt_root(ckpt), err);
	if (!rc)
		rc = check_names(config, &sd, err);
	if (!rc)
		rc = check_halves(&sd, err);
	if (!rc)
		rc = find_targets(&l->targets, config, &sd, err);
	if (!rc)
		rc = find_trained(&l->trained, config, &sd, err);
	if (!rc)
		rc = check_twice(l, &sd, err);
	if (rc)
		gt_err_prefix(err, "'%s'", weights);
	gt_state_dict_release(&sd);
	gt_ckpt_close(ckpt);
	return rc;
}

bool gt_adapter_is_folder(const char *path)
{
	char *config = gt_asprintf(GT_ERR_IGNORED, "%s/%s", path, config_name);
	bool found = config && gt_file_exists((struct gt_file_name){ .path = config });

	free(config);
	return found;
}

int gt_adapter_open(struct gt_adapter *out, const char *folder, struct gt_err *err)
{
	struct gt_lora l = { 0 };
	json_t *config = NULL;
	int rc = gt_pretrained_read_file(&config, folder, config_name, err);

	*out = (struct gt_adapter){ 0 };
	if (!rc && !config) {
		gt_err_set(err, GT_EIO, "the folder '%s' has no %s", folder, config_name);
		rc = gt_err_hint(err, "an adapter is a folder that PEFT or a run of {lora} wrote");
	}
	if (!rc && read_settings(&l, config, err))
		rc = gt_err_prefix(err, "'%s/%s'", folder, config_name);
	if (!rc)
		rc = find_weights(&out->weights, folder, err);
	if (!rc)
		rc = read_targets(&l, out->weights, config, err);
	if (!rc) {
		out->transposed = json_is_true(json_object_get(config, "fan_in_fan_out"));
		out->spec = gt_lora_spec(&l, err);
		rc = out->spec ? 0 : GT_ENOMEM;
	}
	gt_lora_release(&l);
	out->config = config;
	return rc;
}

void gt_adapter_release(struct gt_adapter *adapter)
{
	free(adapter->spec);
	free(adapter->weights);
	json_decref(adapter->config);
	*adapter = (struct gt_adapter){ 0 };
}

int gt_adapter_check_absent(
    const struct gt_adapter *adapter, const char *module, int ndim, struct gt_err *err)
{
	const json_t *names = json_object_get(adapter->config, "target_modules");
	const json_t *others = json_object_get(adapter->config, "exclude_modules");
	char name[GT_LORA_WEIGHT_NAME];

	snprintf(name, sizeof(name), "%s.weight", module);
	if (find_saved_module(adapter->config, name)) {
		gt_err_set(err, GT_EFORMAT,
		    "'%s' has no weights for '%.120s', which its modules_to_save name",
		    adapter->weights, module);
		return gt_err_hint(err, "is the file whole?");
	}
	if (ndim != 2 || !json_is_array(names) || !has_module(names, module) ||
	    !is_off(json_object_get(adapter->config, "layers_to_transform")) ||
	    json_is_string(others) || has_module(others, module))
		return 0;
	gt_err_set(err, GT_EFORMAT,
	    "'%s' has no weights for '%.120s', which its target_modules name", adapter->weights,
	    module);
	return gt_err_hint(err, "is the file whole, and was the adapter trained for this model?");
}

int gt_adapter_check(const char *lora, struct gt_err *err)
{
	struct gt_adapter adapter;
	int rc;

	if (!gt_adapter_is_folder(lora)) {
		rc = gt_lora_check(lora, err);
		if (rc && !strchr(lora, '='))
			gt_err_hint(err,
			    "give settings such as r=8,alpha=16, or a folder with an %s",
			    config_name);
		return rc;
	}
	rc = gt_adapter_open(&adapter, lora, err);
	gt_adapter_release(&adapter);
	return rc ? gt_err_prefix(err, "{lora}") : 0;
}

int gt_adapter_choose(struct gt_adapter *out, const char **spec, const char *lora,
    const struct gt_run_ckpt *ckpt, struct gt_err *err)
{
	const char *own = gt_run_ckpt_lora(ckpt);

	*out = (struct gt_adapter){ 0 };
	*spec = own;
	if (!lora)
		return 0;
	if (own) {
		gt_err_set(err, GT_EINVAL, "{lora}: '%s' has an adapter of its own", ckpt->path);
		return gt_err_hint(err, "leave {lora} out, or name the model without an adapter");
	}
	if (gt_adapter_open(out, lora, err))
		return gt_err_prefix(err, "{lora}");
	*spec = out->spec;
	return 0;
}

/* ---- loading ---- */

/* Return whether a slot is the weight of a layer, or of another module, that the adapter does not
 * have. */
static bool is_plain(const struct gt_store *store, const struct gt_lora *l, const char *name,
    char module[GT_LORA_NAME])
{
	char a[GT_LORA_WEIGHT_NAME];

	if (gt_lora_has(l, name) || !gt_lora_name_module(module, name))
		return false;
	gt_lora_name_weight(a, module, false);
	return !gt_store_find((struct gt_store *)store, a);
}

/* The adapter has to have all layers of the model that it says it has. */
static int check_whole(const struct gt_store *store, const struct gt_lora *l,
    const struct gt_adapter *adapter, struct gt_err *err)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < store->slot_count; i++) {
		const struct gt_slot *slot = &store->slots[i];
		char module[GT_LORA_NAME];

		if (is_plain(store, l, slot->name, module))
			rc = gt_adapter_check_absent(adapter, module, slot->ndim, err);
	}
	return rc;
}

static int load_weights(struct gt_session *s, struct gt_file_name file,
    const struct gt_load_options *load, const struct gt_weights_options *options,
    struct gt_err *err)
{
	struct gt_weights_report report = { 0 };
	int rc = gt_session_load(s, file, load, options, &report, err);

	gt_weights_report_release(&report);
	return rc;
}

int gt_adapter_load(struct gt_session *s, const struct gt_adapter *adapter, struct gt_err *err)
{
	const struct gt_weights_options options = {
		.no_base = true, .no_map = true, .no_strict = true, .finite = true
	};
	const struct gt_load_options as_they_are = { 0 };
	int rc = check_whole(s->store, gt_model_lora(s->model), adapter, err);

	return rc ? rc
	          : load_weights(s, (struct gt_file_name){ .path = adapter->weights }, &as_they_are,
	                &options, err);
}

int gt_adapter_load_base(struct gt_session *s, const char *base, struct gt_err *err)
{
	const struct gt_weights_options options = { .no_adapters = true,
		.no_trained = true,
		.no_map = true,
		.no_strict = true,
		.finite = true };
	const struct gt_load_options as_they_are = { 0 };
	struct gt_run_ckpt from;
	int rc = gt_run_ckpt_open(&from, base, GT_RUN_BEST, err);

	if (!rc) {
		const struct gt_load_options load = gt_run_ckpt_load(&from, &as_they_are);

		rc = load_weights(s, from.file, &load, &options, err);
	}
	gt_run_ckpt_release(&from);
	return rc ? gt_err_prefix(err, "the weights to which the adapter is added") : 0;
}

int gt_adapter_load_around(struct gt_session *s, const struct gt_adapter *adapter,
    const struct gt_run_ckpt *ckpt, const struct gt_load_options *load,
    const struct gt_weights_options *options, struct gt_weights_report *report, struct gt_err *err)
{
	const char *base = adapter->spec ? NULL : gt_run_ckpt_base(ckpt);
	struct gt_weights_options o = *options;
	int rc = base ? gt_adapter_load_base(s, base, err) : 0;

	*report = (struct gt_weights_report){ 0 };
	o.no_adapters = o.no_trained = adapter->spec != NULL;
	o.no_base = base != NULL;
	if (!rc)
		rc = gt_session_load(s, ckpt->file, load, &o, report, err);
	return rc || !adapter->spec ? rc : gt_adapter_load(s, adapter, err);
}

/* ---- writing ---- */

/* List the modules whose weights the model has and the adapter has not. A module that is trained
 * has no A and B, so it is one of them for the names of targets. */
static int list_plain(struct gt_adapter_contents *c, const struct gt_store *store,
    struct gt_arena *a, struct gt_err *err)
{
	const char **plain = gt_arena_alloc(a, (store->slot_count + 1) * sizeof(*plain), err);

	if (!plain)
		return GT_ENOMEM;
	c->plain = plain;
	for (size_t i = 0; i < store->slot_count; i++) {
		char module[GT_LORA_NAME];

		if (!is_plain(store, NULL, store->slots[i].name, module))
			continue;
		plain[c->plain_count] = gt_arena_strdup(a, module, err);
		if (!plain[c->plain_count++])
			return GT_ENOMEM;
	}
	return 0;
}

static int list_weights(
    struct gt_tree *dict, const struct gt_snapshot *s, struct gt_arena *a, struct gt_err *err)
{
	const struct gt_store *store = s->store;
	int rc = 0;

	for (size_t i = 0; !rc && i < store->slot_count; i++) {
		const struct gt_slot *slot = &store->slots[i];
		char name[GT_LORA_WEIGHT_NAME];

		if (!gt_lora_has(gt_model_lora(s->model), slot->name))
			continue;
		snprintf(name, sizeof(name), "%s", slot->name);
		if (!gt_lora_is_adapter(slot->name, NULL, NULL))
			gt_lora_name_trained(name, slot->name);
		rc = gt_tree_set(dict, name,
		    gt_weights_tensor(
		        s->parallel, store, gt_store_plane_of(s->store, slot->role), slot, a, err),
		    a, err);
	}
	return rc;
}

static int write_folder(
    const struct gt_snapshot *s, const char *base, struct gt_file_name folder, struct gt_err *err)
{
	struct gt_arena a = { 0 };
	struct gt_new_folder new;
	struct gt_adapter_contents contents = { .lora = gt_model_lora(s->model),
		.weights = gt_tree_dict(&a, err),
		.base = base,
		.transposed = gt_adapter_is_transposed(gt_model_family(s->model)),
		.task = gt_adapter_task(s->model) };
	int rc = contents.weights ? list_plain(&contents, s->store, &a, err) : GT_ENOMEM;

	if (!rc)
		rc = list_weights(contents.weights, s, &a, err);
	if (!rc)
		rc = gt_new_folder_open_at(&new, folder, true, err);
	if (!rc) {
		rc = gt_adapter_write(&contents, &new.folder, err);
		if (!rc)
			rc = gt_new_folder_commit(&new, false, err);
		else
			gt_new_folder_abandon(&new);
	}
	gt_arena_release(&a);
	return rc;
}

int gt_adapter_save(
    const struct gt_snapshot *s, const char *base, struct gt_file_name folder, struct gt_err *err)
{
	int rc;

	if (gt_parallel_rank(s->parallel))
		return gt_parallel_serve(s->parallel, err);
	rc = write_folder(s, base, folder, err);
	return gt_parallel_end_fetches(s->parallel, rc ? GT_ERR_IGNORED : err) && !rc ? err->code
	                                                                              : rc;
}
