/* weights.c - copy weights between a store and a state_dict. */
#include "lib/train/checkpoint/weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/ckpt/edit/rename.h"
#include "lib/ckpt/tools/digest.h"
#include "lib/model/lora.h"
#include "lib/train/checkpoint/naming.h"
#include "lib/train/finite.h"
#include "lib/train/run/about.h"

/* ---- names ---- */

/* Does `name` match a pattern with at most one "*" for digits? */
static bool matches_digit_pattern(const char *pattern, const char *name)
{
	const char *star = strchr(pattern, '*');
	size_t before = star ? (size_t)(star - pattern) : strlen(pattern);
	size_t digits;

	if (!star)
		return !strcmp(pattern, name);
	if (strncmp(pattern, name, before))
		return false;
	digits = strspn(name + before, "0123456789");
	return digits > 0 && !strcmp(star + 1, name + before + digits);
}

static const struct gt_model_alias *alias_of(const struct gt_model *model, const char *name)
{
	const struct gt_model_alias *a = gt_model_aliases(model);

	while (a->name && !matches_digit_pattern(a->name, name))
		a++;
	return a->name ? a : NULL;
}

/* The slot that an alias of `name` means: the number in `name` stands for the "*" of alias->own. */
static const struct gt_slot *slot_of(
    const struct gt_store *store, const struct gt_model_alias *alias, const char *name)
{
	const char *star = strchr(alias->own, '*'), *number = name + strcspn(alias->name, "*");
	char own[256];

	if (!star)
		return gt_store_find(store, alias->own);
	snprintf(own, sizeof(own), "%.*s%.*s%s", (int)(star - alias->own), alias->own,
	    (int)strspn(number, "0123456789"), number, star + 1);
	return gt_store_find(store, own);
}

/* ---- loading ---- */

/* The source of a slot: a tensor, or several that follow each other in its elements. */
struct source {
	int parts; /* 0: none is known */
	struct part {
		const struct gt_tree_tensor *tensor; /* NULL: missing */
		const char *key;
		bool own; /* true: the part has its own name; false: an alias */
	} * part;         /* [parts] */
};

struct fit {
	const struct gt_weights_options *options;
	const struct gt_lora *lora; /* of the model, or NULL */
	struct source *sources;     /* [slot_count] */
};

/* ---- the head of another number of classes ---- */

/* Return whether a slot keeps its value, whatever the file has for it. */
static bool is_left(const struct fit *fit, const struct gt_slot *slot)
{
	return fit->options->no_trained && gt_lora_is_trained(fit->lora, slot->name, NULL, NULL);
}

/* Return whether a slot is one of the last layer that the file may have for other classes. */
static bool is_head(const struct fit *fit, const struct gt_slot *slot)
{
	const struct gt_weights_options *o = fit->options;

	for (int i = 0; i < o->head_count; i++)
		if (!strcmp(o->head[i], slot->name))
			return !is_left(fit, slot);
	return false;
}

static bool has_head(const struct fit *fit, const struct gt_store *store)
{
	for (size_t i = 0; i < store->slot_count; i++)
		if (is_head(fit, &store->slots[i]))
			return true;
	return false;
}

/* Return whether a file of a network for another task lacks this slot, besides the head. */
static bool is_for_task(const struct gt_model *model, const struct gt_slot *slot)
{
	const char *const *name = gt_model_task_layers(model);

	while (name && *name && strcmp(*name, slot->name) != 0)
		name++;
	return name && *name;
}

/* Return whether the file is that of a network for another task: it has nothing of the head. */
static bool lacks_head(
    const struct gt_store *store, const struct gt_model *model, const struct fit *fit)
{
	bool lacks = !fit->options->no_base && gt_model_task_layers(model) && has_head(fit, store);

	for (size_t i = 0; lacks && i < store->slot_count; i++)
		lacks = !fit->sources[i].parts || !is_head(fit, &store->slots[i]);
	return lacks;
}

/* Whether nothing but the first dimension, the classes, is different. */
static bool other_classes(const struct gt_slot *slot, const struct gt_tree_tensor *t)
{
	if (t->ndim != slot->ndim || !t->ndim || t->shape[0] == slot->shape[0])
		return false;
	for (int i = 1; i < t->ndim; i++)
		if (t->shape[i] != slot->shape[i])
			return false;
	return true;
}

/* The head is one layer: either all of it is new, or nothing. */
static void leave_head(const struct gt_store *store, struct fit *fit)
{
	for (size_t i = 0; i < store->slot_count; i++)
		if (is_head(fit, &store->slots[i]))
			fit->sources[i] = (struct source){ 0 };
}

/* ---- names and shapes ---- */

/* The list outlives the checkpoint that the name comes from, so it gets a copy in `a`. */
static int add_parameter_name(const char ***list, size_t *count, size_t *capacity, const char *name,
    struct gt_arena *a, struct gt_err *err)
{
	const char *copy = gt_arena_strdup(a, name, err);

	if (!copy || gt_grow(list, *count + 1, capacity, sizeof(**list), err))
		return GT_ENOMEM;
	(*list)[(*count)++] = copy;
	(*list)[*count] = NULL;
	return 0;
}

/* Set *out to a slot of the shape of a part. Returns false if the slot has no such part. */
static bool shape_part(
    struct gt_slot *out, const struct gt_slot *slot, const struct gt_names_place *place)
{
	*out = gt_slot_plain(slot);
	if (place->stacked && (out->ndim < 2 || place->part >= place->parts * out->shape[0]))
		return false;
	if (place->stacked)
		memmove(out->shape, out->shape + 1, (size_t)--out->ndim * sizeof(*out->shape));
	if (place->parts > 1 && (!out->ndim || out->shape[0] % place->parts))
		return false;
	if (out->ndim)
		out->shape[0] /= place->parts;
	return true;
}

/* Return how many tensors make a slot. */
static int count_parts(const struct gt_slot *slot, const struct gt_names_place *place)
{
	return place->parts * (place->stacked ? (int)gt_slot_plain(slot).shape[0] : 1);
}

static int check_shape(const struct gt_slot *stored, const struct gt_names_place *place,
    const char *name, const struct gt_tree_tensor *t, struct gt_err *err)
{
	struct gt_slot slot;
	char have[96] = "", want[96] = "";
	bool same = shape_part(&slot, stored, place) && t->ndim == slot.ndim;

	for (int i = 0; same && i < t->ndim; i++)
		same = t->shape[i] == slot.shape[i];
	if (same)
		return 0;
	for (int i = 0; i < t->ndim && strlen(have) < 64; i++)
		sprintf(have + strlen(have), "%s%lld", i ? ", " : "", (long long)t->shape[i]);
	for (int i = 0; i < slot.ndim; i++)
		sprintf(want + strlen(want), "%s%lld", i ? ", " : "", (long long)slot.shape[i]);
	gt_err_set(
	    err, GT_EFORMAT, "tensor '%s' has shape [%s], the model wants [%s]", name, have, want);
	err->mismatch = true;
	return gt_err_hint(err, "is it a checkpoint of this model, with these settings?");
}

/* The slot that a key of the checkpoint names. */
struct target {
	const struct gt_slot *slot;         /* NULL: nowhere */
	const struct gt_model_alias *alias; /* by which it was found, or NULL */
	struct gt_names_place place;
};

/* Find the slot of a key by its own name, or by an alias of the model. */
static bool find_own(
    struct target *t, const struct gt_store *store, const struct gt_model *model, const char *name)
{
	t->slot = gt_store_find(store, name);
	t->alias = t->slot ? NULL : alias_of(model, name);
	if (t->alias && t->alias->own)
		t->slot = slot_of(store, t->alias, name);
	return t->slot || t->alias;
}

const struct gt_slot *gt_weights_find(
    const struct gt_store *store, const struct gt_model *model, const char *name)
{
	struct target t;

	find_own(&t, store, model, name);
	return t.slot;
}

/* Do the same for a key that another program has named. */
static bool find_target(struct target *t, struct gt_store *store, const struct gt_model *model,
    const struct gt_names_table *names, const char *key)
{
	*t = (struct target){ .place = { .parts = 1 } };
	if (gt_lora_without_prefix(key) && gt_model_lora(model))
		key = gt_lora_without_prefix(key);
	if (names && gt_names_to_own(&t->place, names, key, false) &&
	    find_own(t, store, model, t->place.name))
		return true;
	t->place = (struct gt_names_place){ .parts = 1 };
	if (find_own(t, store, model, key))
		return true;
	return names && gt_names_to_own(&t->place, names, key, true) &&
	       find_own(t, store, model, t->place.name);
}

/* The tensors under an alias and under the own name of a value are copies of each other: a model
 * that computes with one of them alone would ignore the other. */
static int check_copies(const struct gt_slot *slot, const struct source *source, int part,
    const char *name, const struct gt_tree_tensor *tensor, struct gt_err *err)
{
	int rc =
	    gt_ckpt_tensor_same(source->part[part].tensor, tensor, gt_slot_plain(slot).dtype, err);

	return rc < 0 ? gt_err_prefix(err, "tensor '%s'", name)
	       : rc   ? 0
	              : gt_weights_differ(source->part[part].key, name, err);
}

/* Take a tensor for a part of a value. */
static int take_part(const struct fit *fit, struct gt_store *store, const struct target *t,
    const char *name, const struct gt_tree_tensor *tensor, const struct gt_weights_report *report,
    struct gt_err *err)
{
	struct source *source = &fit->sources[t->slot - store->slots];
	int part = t->place.part, rc = 0;

	if (source->part[part].tensor && !(report->new_head && is_head(fit, t->slot)))
		rc = check_copies(t->slot, source, part, name, tensor, err);
	source->part[part].tensor = tensor;
	source->part[part].key = name;
	source->part[part].own |= !t->alias;
	return rc;
}

static int fit_entry(struct gt_store *store, const struct gt_model *model, const char *name,
    const struct gt_tree_tensor *tensor, struct fit *fit, size_t *capacity,
    struct gt_weights_report *report, struct gt_err *err)
{
	struct gt_slot shape;
	struct source *source;
	struct target t;
	int part, parts;

	if (!find_target(&t, store, model, fit->options->names, name) ||
	    (!t.slot && t.alias->own) ||
	    (t.slot && t.place.stacked && !shape_part(&shape, t.slot, &t.place)))
		return add_parameter_name(&report->unexpected, &report->unexpected_count, capacity,
		    name, &report->arena, err);
	if (!t.slot || is_left(fit, t.slot))
		return 0;
	source = &fit->sources[t.slot - store->slots];
	part = t.place.part;
	parts = count_parts(t.slot, &t.place);
	if ((source->parts && source->parts != parts) ||
	    (!t.alias && source->parts && source->part[part].own)) {
		gt_err_set(err, GT_EINVAL, "two keys of the checkpoint are '%s'", t.slot->name);
		return fit->options->no_map
		           ? GT_EINVAL
		           : gt_err_hint(err, "does a {map} match more than it should?");
	}
	if (!source->parts)
		source->part =
		    gt_arena_alloc(&report->arena, (size_t)parts * sizeof(*source->part), err);
	if (!source->part)
		return GT_ENOMEM;
	if (!source->parts)
		memset(source->part, 0, (size_t)parts * sizeof(*source->part));
	source->parts = parts;
	if (is_head(fit, t.slot) && other_classes(t.slot, tensor)) {
		report->new_head = true;
		report->head_classes = tensor->shape[0];
	} else if (check_shape(
	               t.slot, &t.place, source->parts > 1 ? name : t.slot->name, tensor, err)) {
		return err->code;
	}
	return take_part(fit, store, &t, name, tensor, report, err);
}

int gt_weights_differ(const char *a, const char *b, struct gt_err *err)
{
	gt_err_set(err, GT_EFORMAT,
	    "tensors '%s' and '%s' differ, but the model uses one tensor for both", a, b);
	return gt_err_hint(err,
	    "the checkpoint's model has two tensors here, such as a last layer not tied to the embedding");
}

static bool is_whole(const struct source *source)
{
	for (int i = 0; i < source->parts; i++)
		if (!source->part[i].tensor)
			return false;
	return source->parts > 0;
}

/* Return whether a slot is a weight that adapters leave as it is. */
static bool is_base(const struct gt_lora *l, const struct gt_slot *slot)
{
	return slot->frozen && !gt_lora_has(l, slot->name);
}

/* Return whether the file may lack a slot. */
static bool may_lack(const struct fit *fit, const struct gt_slot *slot)
{
	return (fit->options->no_base && is_base(fit->lora, slot)) || is_left(fit, slot) ||
	       (fit->options->no_adapters && gt_lora_is_adapter(slot->name, NULL, NULL));
}

static int find_missing(const struct gt_store *store, const struct gt_model *model,
    const struct fit *fit, struct gt_weights_report *report, struct gt_err *err)
{
	size_t capacity = 0, random_capacity = 0;

	for (size_t i = 0; i < store->slot_count; i++) {
		const char *name = store->slots[i].name, *leaf = strrchr(name, '.');

		/* Files older than PyTorch 0.4.1 don't count batches. */
		if (is_whole(&fit->sources[i]) || (leaf && !strcmp(leaf, ".num_batches_tracked")))
			continue;
		if (may_lack(fit, &store->slots[i]))
			continue;
		if ((report->new_head && is_head(fit, &store->slots[i])) ||
		    (report->lacks_head && is_for_task(model, &store->slots[i]))) {
			if (add_parameter_name(&report->random, &report->random_count,
			        &random_capacity, name, &report->arena, err))
				return GT_ENOMEM;
			continue;
		}
		if (add_parameter_name(&report->missing, &report->missing_count, &capacity, name,
		        &report->arena, err))
			return GT_ENOMEM;
	}
	return 0;
}

/* Other names help only if keys are missing, too, for which others may be meant. */
static int hint_at_names(
    const struct gt_weights_options *o, const struct gt_weights_report *r, struct gt_err *err)
{
	if (!o->no_map && !o->no_strict)
		return gt_err_hint(
		    err, "{map} REGEX=REPLACEMENT renames keys, {strict}=no goes on without them");
	if (!r->missing_count || !r->unexpected_count)
		return gt_err_hint(err, "does {model} name the network of this checkpoint?");
	return o->no_map ? gt_err_hint(err, "'gtrain ckpt rename' renames keys of a checkpoint")
	                 : gt_err_hint(err, "{map} REGEX=REPLACEMENT renames keys");
}

static int complain(
    const struct gt_weights_options *o, const struct gt_weights_report *r, struct gt_err *err)
{
	if (r->missing_count)
		gt_err_set(err, GT_EFORMAT,
		    "%zu keys are missing, the first is '%s'; %zu unexpected%s%s%s",
		    r->missing_count, r->missing[0], r->unexpected_count,
		    r->unexpected_count ? ", the first is '" : "",
		    r->unexpected_count ? r->unexpected[0] : "", r->unexpected_count ? "'" : "");
	else
		gt_err_set(err, GT_EFORMAT, "%zu keys are unexpected, the first is '%s'",
		    r->unexpected_count, r->unexpected[0]);
	err->mismatch = true;
	return hint_at_names(o, r, err);
}

int gt_weights_check_finite(const struct gt_slot *slot, const char *what, const void *host,
    enum gt_dtype dtype, struct gt_err *err)
{
	double value;

	if (gt_all_finite_host(host, slot->count, dtype, &value))
		return 0;
	gt_err_set(err, GT_EFORMAT, "%s '%s' holds %g", what, slot->name, value);
	return gt_err_hint(err, "'gtrain ckpt verify' lists the tensors that hold NaN or Inf; "
	                        "try an earlier checkpoint");
}

static int read_parts(
    char *host, const struct gt_slot *slot, const struct source *source, struct gt_err *err)
{
	size_t bytes = gt_slot_bytes(slot) / (size_t)source->parts;
	int rc = 0;

	for (int i = 0; !rc && i < source->parts; i++)
		rc = gt_ckpt_tensor_read(
		    source->part[i].tensor, slot->dtype, host + (size_t)i * bytes, err);
	return rc ? gt_err_prefix(err, "tensor '%s'", slot->name) : 0;
}

/* Blocks of quantized elements have no NaN, and infinite scales make all their elements NaN. */
static int pack_tensor(
    void *blocks, const struct gt_slot *slot, const float *plain, struct gt_err *err)
{
	const int64_t count = slot->packing.shape[0] * slot->packing.shape[1];
	const enum gt_block block = slot->packing.block;
	float largest = 0;

#pragma omp parallel for simd reduction(max : largest)
	for (int64_t i = 0; i < count; i++)
		largest = fmaxf(largest, fabsf(plain[i]));
	if (largest >= gt_block_types[block].limit) {
		gt_err_set(err, GT_EFORMAT,
		    "tensor '%s' holds a number of size %g, beyond the range of %s", slot->name,
		    (double)largest, gt_block_names[block]);
		return gt_err_hint(err, "fp32 and bf16 have numbers of this size");
	}
	gt_slot_pack(slot, plain, blocks);
	return 0;
}

static int copy_tensor(struct gt_store *store, const struct gt_weights_options *o,
    const struct gt_slot *slot, const struct source *source, struct gt_err *err)
{
	const struct gt_slot plain = gt_slot_plain(slot);
	const bool packed = slot->packing.block;
	void *host = gt_calloc((size_t)plain.count, gt_dtype_size(plain.dtype), err);
	void *blocks = packed ? gt_calloc((size_t)slot->count, 1, err) : NULL;
	int rc = host && (blocks || !packed) ? 0 : GT_ENOMEM;

	if (!rc)
		rc = read_parts(host, &plain, source, err);
	if (!rc && (o->finite || packed))
		rc = gt_weights_check_finite(&plain, "tensor", host, plain.dtype, err);
	if (!rc && packed)
		rc = pack_tensor(blocks, slot, host, err);
	if (!rc)
		rc = gt_parallel_scatter_slot(o->parallel, gt_store_plane_of(store, slot->role),
		    slot, packed ? blocks : host, err);
	free(blocks);
	free(host);
	return rc;
}

/* The note of a state_dict, or "" if it says only where all checkpoints of gtrain have the weights.
 */
static const char *useful_note(const struct gt_state_dict *sd)
{
	bool own = gt_state_dict_metadata(sd, GT_ABOUT_NAME);

	return own && !strcmp(sd->note, "state_dict found under 'model'") ? "" : sd->note;
}

/* The model, as gt_naming_find() asks for its names. */
struct namer {
	struct gt_store *store;
	const struct gt_model *model;
	const struct gt_names_table *names;
};

static bool knows_name(void *self, const char *name)
{
	const struct namer *n = self;
	struct target t;

	return find_target(&t, n->store, n->model, n->names, name);
}

int gt_weights_find_naming(struct gt_naming *out, struct gt_store *store,
    const struct gt_model *model, const struct gt_state_dict *sd,
    const struct gt_weights_options *options, struct gt_err *err)
{
	const char **names = gt_calloc(sd->count + 1, sizeof(*names), err);
	struct namer self = { store, model, options->names };

	if (!names)
		return GT_ENOMEM;
	for (size_t i = 0; i < sd->count; i++)
		names[i] = sd->entries[i].name;
	gt_naming_find(out, options->maps, names, sd->count, knows_name, &self);
	free(names);
	return 0;
}

/* The note about the state_dict, and about the prefix that is removed. */
static int write_note(struct gt_weights_report *report, const struct gt_state_dict *sd,
    const struct gt_naming *naming, struct gt_err *err)
{
	const char *note = useful_note(sd);
	char *both = NULL;

	if (*naming->prefix)
		note = both = gt_asprintf(err, "%s%s'%s' removed from %zu key%s", note,
		    *note ? "; " : "", naming->prefix, sd->count, sd->count == 1 ? "" : "s");
	report->note = note ? gt_arena_strdup(&report->arena, note, err) : NULL;
	free(both);
	return report->note ? 0 : err->code;
}

/* Find the slot of each entry. */
static int fit_entries(struct gt_store *store, const struct gt_model *model,
    const struct gt_state_dict *sd, const struct gt_naming *naming, struct fit *fit,
    struct gt_weights_report *report, struct gt_err *err)
{
	struct gt_renames renames;
	size_t capacity = 0;
	int rc = gt_renames_init(&renames, naming->maps, err);

	for (size_t i = 0; !rc && i < sd->count; i++) {
		const char *name =
		    gt_renames_apply(&renames, sd->entries[i].name, &report->arena, err);

		rc = name ? fit_entry(store, model, name, sd->entries[i].tensor, fit, &capacity,
		                report, err)
		          : err->code;
	}
	gt_renames_release(&renames);
	return rc;
}

/*
 * Copy the tensors of a state_dict into the store. The keys are renamed as gt_weights_find_naming()
 * says. A key is then the name of a parameter or buffer, or an alias: another name for the same
 * tensor (struct gt_model_alias). Shapes must be equal; data types are converted. Release *report
 * even after an error.
 *
 * Errors that leave the store unchanged:
 *
 *   GT_EFORMAT  a key is missing or unexpected, and options->lenient is not set. The message has
 *               the first missing key and the first unexpected key.
 *   GT_EFORMAT  a tensor has a wrong shape
 *   GT_EINVAL   two keys mean the same tensor
 *   GT_EFORMAT  the file has a tensor under its name and under its alias, and the two differ
 *
 * An error after which a part of the store may be overwritten:
 *
 *   GT_EFORMAT  options->finite is set, and a tensor has an element that is NaN or infinite
 */
int gt_weights_load(struct gt_store *store, const struct gt_model *model,
    const struct gt_state_dict *sd, const struct gt_weights_options *options,
    struct gt_weights_report *report, struct gt_err *err)
{
	struct fit fit = { .options = options, .lora = gt_model_lora(model) };
	struct gt_naming naming = { 0 };
	int rc;

	*report = (struct gt_weights_report){ .note = "",
		.new_head = options->new_head && has_head(&fit, store) };
	fit.sources = gt_calloc(store->slot_count, sizeof(*fit.sources), err);
	rc = fit.sources ? gt_weights_find_naming(&naming, store, model, sd, options, err)
	                 : GT_ENOMEM;
	if (!rc)
		rc = write_note(report, sd, &naming, err);
	if (!rc)
		rc = fit_entries(store, model, sd, &naming, &fit, report, err);
	if (!rc && lacks_head(store, model, &fit))
		report->new_head = report->lacks_head = true;
	if (!rc && report->new_head)
		leave_head(store, &fit);
	if (!rc)
		rc = find_missing(store, model, &fit, report, err);
	if (!rc && !options->lenient && (report->missing_count || report->unexpected_count))
		rc = complain(options, report, err);
	for (size_t i = 0; !rc && i < store->slot_count; i++)
		if (is_whole(&fit.sources[i]))
			rc = copy_tensor(store, options, &store->slots[i], &fit.sources[i], err);
	free(fit.sources);
	return rc;
}

void gt_weights_report_release(struct gt_weights_report *report)
{
	free(report->missing);
	free(report->random);
	free(report->unexpected);
	gt_arena_release(&report->arena);
	*report = (struct gt_weights_report){ 0 };
}

int gt_weights_load_file(struct gt_store *store, const struct gt_model *model,
    struct gt_file_name file, const struct gt_weights_options *options,
    struct gt_weights_report *report, struct gt_err *err)
{
	struct gt_state_dict sd = { 0 };
	struct gt_ckpt *ckpt = NULL;
	int rc = gt_ckpt_open_at(&ckpt, file, err);

	*report = (struct gt_weights_report){ 0 };
	if (rc)
		return rc;
	rc = gt_digest_check(ckpt, false, NULL, err);
	if (!rc)
		rc = gt_state_dict_find(&sd, gt_ckpt_root(ckpt), err);
	if (!rc)
		rc = gt_weights_load(store, model, &sd, options, report, err);
	if (rc)
		gt_err_prefix(err, "%s", file.path);
	gt_state_dict_release(&sd);
	gt_ckpt_close(ckpt);
	return rc;
}

/* Return the 16-bit type of all matrices; GT_BLOCK_NONE: one has another type, or there is none. */
static enum gt_block type_of_matrices(const struct gt_state_dict *sd)
{
	bool low = false, half = false, other = false;

	for (size_t i = 0; i < sd->count; i++) {
		const struct gt_tree_tensor *t = sd->entries[i].tensor;

		if (t->ndim != 2 || !gt_dtype_is_float(t->dtype))
			continue;
		low |= t->dtype == GT_BF16;
		half |= t->dtype == GT_F16;
		other |= t->dtype != GT_BF16 && t->dtype != GT_F16;
	}
	return other || low == half ? GT_BLOCK_NONE : low ? GT_BLOCK_BF16 : GT_BLOCK_F16;
}

int gt_weights_find_block(enum gt_block *out, struct gt_file_name file, struct gt_err *err)
{
	struct gt_state_dict sd = { 0 };
	struct gt_ckpt *ckpt = NULL;
	int rc = gt_ckpt_open_at(&ckpt, file, err);

	*out = GT_BLOCK_NONE;
	if (rc)
		return rc;
	rc = gt_state_dict_find(&sd, gt_ckpt_root(ckpt), err);
	if (!rc)
		*out = type_of_matrices(&sd);
	else
		gt_err_prefix(err, "%s", file.path);
	gt_state_dict_release(&sd);
	gt_ckpt_close(ckpt);
	return rc;
}

/* ---- writing ---- */

/* Read a tensor while it is written to a file. */
static int read_source(void *self, uint64_t offset, void *out, size_t bytes, struct gt_err *err)
{
	const struct gt_weights_source *t = self;
	size_t size = gt_dtype_size(gt_plane_dtype(t->plane, t->slot));

	return gt_parallel_fetch(t->parallel, t->plane, t->slot, (int64_t)(offset / size),
	    (int64_t)(bytes / size), out, err);
}

struct gt_tree *gt_weights_tensor(struct gt_parallel *parallel, const struct gt_store *store,
    const struct gt_plane *plane, const struct gt_slot *slot, struct gt_arena *a,
    struct gt_err *err)
{
	bool here =
	    store->device->backend->host_memory && !gt_parallel_is_sharded(parallel, plane, slot);
	struct gt_tree *tensor = gt_tree_tensor(a, gt_plane_dtype(plane, slot), slot->ndim,
	    slot->shape, here ? gt_slot_first(store, plane, slot) : NULL, err);
	struct gt_weights_source *source = gt_arena_alloc(a, sizeof(*source), err);

	if (!tensor || !source)
		return NULL;
	*source = (struct gt_weights_source){ parallel, plane, slot };
	tensor->tensor.storage->read = here ? NULL : read_source;
	tensor->tensor.storage->self = source;
	return tensor;
}

struct gt_tree *gt_weights_tree(struct gt_parallel *parallel, const struct gt_store *store,
    const struct gt_plane *parameters, const struct gt_model *model, bool no_base,
    struct gt_arena *a, struct gt_err *err)
{
	struct gt_tree *dict = gt_tree_dict(a, err);

	if (!dict)
		return NULL;
	for (size_t i = 0; i < store->slot_count; i++) {
		const struct gt_slot *slot = &store->slots[i];
		const struct gt_plane *plane =
		    slot->role == GT_PARAMETER ? parameters : store->buffers;

		if (no_base && is_base(gt_model_lora(model), slot))
			continue;
		if (gt_tree_set(dict, slot->name,
		        gt_weights_tensor(parallel, store, plane, slot, a, err), a, err))
			return NULL;
	}
	for (const struct gt_model_alias *alias = gt_model_aliases(model); alias->name; alias++) {
		const struct gt_tree *own = alias->own ? gt_tree_get(dict, alias->own) : NULL;

		if (!alias->written || !own)
			continue;
		if (gt_tree_set(dict, alias->name, (struct gt_tree *)own, a, err))
			return NULL;
	}
	return dict;
}
