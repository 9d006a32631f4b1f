/* snapshot.c - training checkpoints, written and read. */
#include "lib/train/snapshot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/ckpt/ckpt.h"
#include "lib/ckpt/digest.h"
#include "lib/train/weights.h"

/* ---- the order of torch.optim ---- */

/* Parameters in the order of their groups. split: group 0 holds the first `first_count`, those
 * that decay. */
struct groups {
	const struct gt_slot **slots;
	size_t count, first_count;
};

static int make_groups(struct groups *g, const struct gt_store *store, struct gt_err *err)
{
	*g = (struct groups){ 0 };
	g->slots = gt_calloc(store->slot_count, sizeof(*g->slots), err);
	if (!g->slots)
		return GT_ENOMEM;
	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < store->slot_count; i++) {
			const struct gt_slot *slot = &store->slots[i];

			if (slot->role == GT_PARAMETER && slot->decay == (pass == 0))
				g->slots[g->count++] = slot;
		}
		if (pass == 0)
			g->first_count = g->count;
	}
	return 0;
}

/* ---- writing ---- */

struct writer {
	const struct gt_snapshot *s;
	const struct gt_whole *whole;
	struct gt_arena *a;
	struct gt_err *err;
	bool failed;
};

static struct gt_tree *number(struct writer *w, double x)
{
	return gt_tree_float(w->a, x, w->err);
}

static struct gt_tree *integer(struct writer *w, int64_t x)
{
	return gt_tree_int(w->a, x, w->err);
}

static struct gt_tree *boolean(struct writer *w, bool x)
{
	return gt_tree_bool(w->a, x, w->err);
}

static void put(struct writer *w, struct gt_tree *dict, const char *key, struct gt_tree *value)
{
	if (!dict || gt_tree_set(dict, key, value, w->a, w->err))
		w->failed = true;
}

static struct gt_tree *state_tensor(
    struct writer *w, const struct gt_slot *slot, int which, const float *flat)
{
	const void *host = gt_whole_find(w->whole, slot, which);

	if (!host)
		host = gt_weights_host(w->s->store, flat + slot->offset,
		    (size_t)slot->count * sizeof(float), w->a, w->err);
	return host ? gt_tree_tensor(w->a, GT_F32, slot->ndim, slot->shape, host, w->err) : NULL;
}

/* torch.optim keeps Adam's `step` as a float32 scalar tensor per parameter. */
static struct gt_tree *step_tensor(struct writer *w)
{
	float *steps = gt_arena_alloc(w->a, sizeof(*steps), w->err);

	if (!steps)
		return NULL;
	*steps = (float)gt_optim_steps(w->s->optim);
	return gt_tree_tensor(w->a, GT_F32, 0, NULL, steps, w->err);
}

static struct gt_tree *parameter_state(struct writer *w, const struct gt_slot *slot)
{
	struct gt_tree *state = gt_tree_dict(w->a, w->err);
	const char *name;
	float *flat;

	if (gt_optim_options(w->s->optim)->kind != GT_SGD)
		put(w, state, "step", step_tensor(w));
	for (int i = 0; (name = gt_optim_state(w->s->optim, i, &flat)); i++)
		put(w, state, name, state_tensor(w, slot, i, flat));
	return state;
}

static struct gt_tree *param_group(struct writer *w, size_t first, size_t last, bool decay)
{
	const struct gt_optim_options *o = gt_optim_options(w->s->optim);
	struct gt_tree *group = gt_tree_dict(w->a, w->err), *params = gt_tree_list(w->a, w->err);
	struct gt_tree *betas;

	put(w, group, "lr", number(w, w->s->lr));
	put(w, group, "weight_decay", number(w, decay ? o->weight_decay : 0));
	put(w, group, "maximize", boolean(w, false));
	put(w, group, "foreach", gt_tree_none(w->a, w->err));
	if (o->kind == GT_SGD) {
		put(w, group, "momentum", number(w, o->momentum));
		put(w, group, "dampening", number(w, o->dampening));
		put(w, group, "nesterov", boolean(w, o->nesterov));
	} else {
		betas = gt_tree_tuple(w->a, w->err);
		if (!betas || gt_tree_append(betas, number(w, o->beta1), w->a, w->err) ||
		    gt_tree_append(betas, number(w, o->beta2), w->a, w->err))
			w->failed = true;
		put(w, group, "betas", betas);
		put(w, group, "eps", number(w, o->eps));
		put(w, group, "amsgrad", boolean(w, false));
		put(w, group, "capturable", boolean(w, false));
	}
	for (size_t i = first; i < last; i++)
		if (!params || gt_tree_append(params, integer(w, (int64_t)i), w->a, w->err))
			w->failed = true;
	put(w, group, "params", params);
	return group;
}

static struct gt_tree *optimizer_tree(struct writer *w)
{
	struct gt_tree *tree = gt_tree_dict(w->a, w->err), *state = gt_tree_dict(w->a, w->err);
	struct gt_tree *groups = gt_tree_list(w->a, w->err);
	struct groups g;

	if (!state || !groups || make_groups(&g, w->s->store, w->err)) {
		w->failed = true;
		return NULL;
	}
	/* Before the first step torch.optim has no state, and SGD without momentum never has. */
	for (size_t i = 0; gt_optim_steps(w->s->optim) && i < g.count; i++)
		if (gt_tree_set_int(
		        state, (int64_t)i, parameter_state(w, g.slots[i]), w->a, w->err))
			w->failed = true;
	if (g.first_count &&
	    gt_tree_append(groups, param_group(w, 0, g.first_count, true), w->a, w->err))
		w->failed = true;
	if (g.count > g.first_count &&
	    gt_tree_append(groups, param_group(w, g.first_count, g.count, false), w->a, w->err))
		w->failed = true;
	free(g.slots);
	put(w, tree, "state", state);
	put(w, tree, "param_groups", groups);
	return tree;
}

static struct gt_tree *json_tree(struct writer *w, const json_t *json);

static struct gt_tree *json_container(struct writer *w, const json_t *json)
{
	struct gt_tree *tree;
	const char *key;
	json_t *value;
	size_t i;

	if (json_is_array(json)) {
		tree = gt_tree_list(w->a, w->err);
		json_array_foreach(json, i,
		    value) if (!tree || gt_tree_append(tree, json_tree(w, value), w->a, w->err))
		    w->failed = true;
		return tree;
	}
	tree = gt_tree_dict(w->a, w->err);
	json_object_foreach((json_t *)json, key, value) put(w, tree, key, json_tree(w, value));
	return tree;
}

static struct gt_tree *json_tree(struct writer *w, const json_t *json)
{
	if (json_is_boolean(json))
		return boolean(w, json_is_true(json));
	if (json_is_integer(json))
		return integer(w, json_integer_value(json));
	if (json_is_real(json))
		return number(w, json_real_value(json));
	if (json_is_string(json))
		return gt_tree_string(w->a, json_string_value(json), w->err);
	if (json_is_array(json) || json_is_object(json))
		return json_container(w, json);
	return gt_tree_none(w->a, w->err);
}

static struct gt_tree *scheduler_tree(struct writer *w)
{
	struct gt_tree *tree = gt_tree_dict(w->a, w->err), *last = gt_tree_list(w->a, w->err);

	if (!last || gt_tree_append(last, number(w, w->s->lr), w->a, w->err))
		w->failed = true;
	put(w, tree, "last_epoch", integer(w, w->s->step));
	put(w, tree, "_last_lr", last);
	return tree;
}

static struct gt_tree *best_tree(struct writer *w)
{
	struct gt_tree *tree = gt_tree_dict(w->a, w->err);

	put(w, tree, "step", integer(w, w->s->best_step));
	put(w, tree, "score", number(w, w->s->best_score));
	return tree;
}

static int write_all(
    const struct gt_snapshot *s, const struct gt_whole *whole, const char *path, struct gt_err *err)
{
	struct gt_arena a = { 0 };
	struct writer w = { .s = s, .whole = whole, .a = &a, .err = err };
	struct gt_tree *root = gt_tree_dict(&a, err);
	int rc;

	put(&w, root, "model", gt_weights_tree(s->store, whole, s->model, &a, err));
	put(&w, root, "optimizer", optimizer_tree(&w));
	put(&w, root, "lr_scheduler", scheduler_tree(&w));
	put(&w, root, "scaler", gt_tree_dict(&a, err));
	put(&w, root, "epoch", integer(&w, s->epoch));
	put(&w, root, "step", integer(&w, s->step));
	if (s->best_step >= 0)
		put(&w, root, "best", best_tree(&w));
	if (s->config)
		put(&w, root, "config", json_tree(&w, s->config));
	rc = w.failed ? err->code : gt_torch_save(path, root, err);
	gt_arena_release(&a);
	return rc;
}

static bool writes_files(const struct gt_parallel *p)
{
	return !p || !gt_parallel_rank(p);
}

int gt_snapshot_save(const struct gt_snapshot *s, const char *path, struct gt_err *err)
{
	struct gt_whole whole;
	int rc = gt_whole_collect(&whole, s->parallel, s->store, s->optim, err);

	if (!rc && writes_files(s->parallel))
		rc = write_all(s, &whole, path, err);
	gt_whole_release(&whole);
	return rc;
}

static int write_model(const struct gt_store *store, const struct gt_whole *whole,
    const struct gt_model *model, const char *path, struct gt_err *err)
{
	struct gt_arena a = { 0 };
	struct gt_tree *tree = gt_weights_tree(store, whole, model, &a, err);
	int rc = tree ? gt_torch_save(path, tree, err) : err->code;

	gt_arena_release(&a);
	return rc;
}

int gt_snapshot_save_model(const struct gt_store *store, struct gt_parallel *parallel,
    const struct gt_model *model, const char *path, struct gt_err *err)
{
	struct gt_whole whole;
	int rc = gt_whole_collect(&whole, parallel, store, NULL, err);

	if (!rc && writes_files(parallel))
		rc = write_model(store, &whole, model, path, err);
	gt_whole_release(&whole);
	return rc;
}

/* ---- reading ---- */

static bool same_shape(const struct gt_slot *slot, const struct gt_tree_tensor *t)
{
	bool same = t->ndim == slot->ndim;

	for (int i = 0; same && i < t->ndim; i++)
		same = t->shape[i] == slot->shape[i];
	return same;
}

static int load_state(const struct gt_snapshot *s, const struct gt_slot *slot,
    const struct gt_tree *tensor, const char *name, float *flat, struct gt_err *err)
{
	size_t bytes = (size_t)slot->count * sizeof(float);
	void *host;
	int rc;

	if (!tensor || tensor->kind != GT_TREE_TENSOR || !same_shape(slot, &tensor->tensor)) {
		gt_err_set(err, GT_EFORMAT,
		    "optimizer state '%s' of '%s' is missing or of another shape", name,
		    slot->name);
		return gt_err_hint(err, "was it saved with another --optimizer?");
	}
	host = gt_calloc(1, bytes, err);
	if (!host)
		return GT_ENOMEM;
	rc = gt_tensor_read(&tensor->tensor, GT_F32, host, err);
	if (!rc && s->parallel)
		rc = gt_parallel_deal(s->parallel, slot, GT_HELD_STATE, flat, host, err);
	else if (!rc)
		rc = s->store->backend->copy_in(
		    s->store->device, flat + slot->offset, host, bytes, err);
	free(host);
	return rc;
}

/* The parameters that a file's group numbers; NULL where it has none. */
static const struct gt_tree *group_params(const struct gt_tree *groups, size_t i)
{
	const struct gt_tree *params = NULL;

	if (groups && groups->kind == GT_TREE_LIST && i < groups->seq.count)
		params = gt_tree_get(groups->seq.items[i].value, "params");
	return params && params->kind == GT_TREE_LIST ? params : NULL;
}

/* Match the groups of the file with ours: numbers[i] is what the file calls g->slots[i]. */
static int match_groups(struct groups *g, const struct gt_snapshot *s,
    const struct gt_tree *optimizer, int64_t *numbers, struct gt_err *err)
{
	const struct gt_tree *groups = gt_tree_get(optimizer, "param_groups");
	const struct gt_tree *first = group_params(groups, 0), *second = group_params(groups, 1);
	size_t firsts = first ? first->seq.count : 0, seconds = second ? second->seq.count : 0;
	size_t wanted = g->first_count ? g->first_count : g->count;

	if (firsts == g->count && !second) {
		/* One group: torch's order is that of declaration. */
		g->count = 0;
		for (size_t i = 0; i < s->store->slot_count; i++)
			if (s->store->slots[i].role == GT_PARAMETER)
				g->slots[g->count++] = &s->store->slots[i];
	} else if (firsts != wanted || seconds != g->count - wanted || group_params(groups, 2)) {
		gt_err_set(err, GT_EFORMAT,
		    "the optimizer's groups hold %zu and %zu parameters, here they are %zu and %zu",
		    firsts, seconds, wanted, g->count - wanted);
		return gt_err_hint(
		    err, "first those that decay, then the others; or all in one group");
	}
	for (size_t i = 0; i < g->count; i++) {
		const struct gt_tree *list = i < firsts ? first : second;

		if (!gt_tree_as_int(
		        list->seq.items[i < firsts ? i : i - firsts].value, &numbers[i]))
			return gt_err_set(
			    err, GT_EFORMAT, "the optimizer's 'params' are not numbers");
	}
	return 0;
}

/* Adam's own count, the first parameter's, may lag behind the run's: PyTorch skips steps whose
 * gradients overflow. The others' are read to see that they are sound. */
static int count_steps(const struct gt_snapshot *s, const struct gt_tree *state,
    const int64_t *numbers, size_t count, int64_t *steps, struct gt_err *err)
{
	*steps = s->step;
	for (size_t i = 0; s->step && i < count; i++) {
		const struct gt_tree *one = gt_tree_get_int(state, numbers[i]);
		int64_t found = 0;
		int rc = gt_tree_read_int(gt_tree_get(one, "step"), &found, err);

		if (rc < 0)
			return gt_err_prefix(
			    err, "optimizer state 'step' of parameter %lld", (long long)numbers[i]);
		if (!i && found > 0)
			*steps = found;
	}
	return 0;
}

static int load_optimizer(
    const struct gt_snapshot *s, const struct gt_tree *optimizer, struct gt_err *err)
{
	const struct gt_tree *state = gt_tree_get(optimizer, "state");
	int64_t *numbers = gt_calloc(s->store->slot_count, sizeof(*numbers), err);
	struct groups g;
	const char *name;
	int64_t steps;
	float *flat;
	int rc = make_groups(&g, s->store, err);

	if (!numbers)
		rc = GT_ENOMEM;
	if (!rc && (!state || state->kind != GT_TREE_DICT))
		rc = gt_err_set(err, GT_EFORMAT, "no optimizer state under 'optimizer'");
	if (!rc)
		rc = match_groups(&g, s, optimizer, numbers, err);
	for (size_t i = 0; !rc && s->step > 0 && i < g.count; i++) {
		const struct gt_tree *one = gt_tree_get_int(state, numbers[i]);

		for (int k = 0; !rc && (name = gt_optim_state(s->optim, k, &flat)); k++)
			rc = load_state(s, g.slots[i], gt_tree_get(one, name), name, flat, err);
	}
	if (!rc)
		rc = count_steps(s, state, numbers, g.count, &steps, err);
	if (!rc)
		gt_optim_set_steps(s->optim, steps);
	free(numbers);
	free(g.slots);
	return rc;
}

static bool same_option(const json_t *wanted, const struct gt_tree *found)
{
	int64_t whole;
	double real;

	if (json_is_string(wanted))
		return found->kind == GT_TREE_STRING &&
		       !strcmp(found->string.bytes, json_string_value(wanted));
	if (json_is_boolean(wanted))
		return gt_tree_as_int(found, &whole) && whole == json_is_true(wanted);
	if (json_is_integer(wanted)) /* a double does not hold every seed */
		return gt_tree_as_int(found, &whole) && whole == json_integer_value(wanted);
	if (json_is_number(wanted))
		return gt_tree_as_float(found, &real) && real == json_number_value(wanted);
	return found->kind == GT_TREE_NONE;
}

/* What makes the global batch: a step takes the same samples whoever shares them out how. */
static const char *const factors[] = { "batch", "accumulate", "nproc" };

enum { FACTORS = sizeof(factors) / sizeof(*factors) };

static bool is_factor(const char *key)
{
	for (int i = 0; i < FACTORS; i++)
		if (!strcmp(key, factors[i]))
			return true;
	return false;
}

/* The product of them, or -1 where the file says something that overflows. One that is not said,
 * by a checkpoint from before there were ranks, is 1. */
static int64_t samples_per_step(const struct gt_tree *config)
{
	static const char *const divisors[] = { "pipeline-parallel", "tensor-parallel" };
	int64_t samples = 1, factor;

	for (int i = 0; i < FACTORS; i++)
		if (gt_tree_as_int(gt_tree_get(config, factors[i]), &factor) &&
		    __builtin_mul_overflow(samples, factor, &samples))
			return -1;
	/* Ranks that share a model take the same samples. */
	for (int i = 0; i < 2; i++)
		if (gt_tree_as_int(gt_tree_get(config, divisors[i]), &factor) && factor > 1)
			samples /= factor;
	return samples;
}

/* A run that went on with other settings would silently be neither the old one nor a new one. */
static int check_config(const struct gt_tree *found, const json_t *wanted, struct gt_err *err)
{
	int64_t samples = 1;
	const char *key;
	json_t *value;

	if (!found || !wanted)
		return 0;
	for (int i = 0; i < FACTORS; i++)
		samples *= json_integer_value(json_object_get(wanted, factors[i]));
	json_object_foreach((json_t *)wanted, key, value)
	{
		const struct gt_tree *theirs = gt_tree_get(found, key);

		/* What an older file does not know of was not asked for. */
		if (theirs ? same_option(value, theirs) : !is_factor(key) && !json_is_true(value))
			continue;
		if (is_factor(key) && samples == samples_per_step(found))
			continue;
		gt_err_set(err, GT_EINVAL, "it was trained with another --%s", key);
		return gt_err_hint(err,
		    "leave --%s as it was; --init-from starts a new run from its weights", key);
	}
	if (samples == samples_per_step(found))
		return 0;
	gt_err_set(err, GT_EINVAL, "it was trained with another global batch");
	return gt_err_hint(err, "--nproc over --pipeline-parallel and --tensor-parallel, times "
	                        "--batch and --accumulate, must stay");
}

static int load_position(struct gt_snapshot *s, const struct gt_tree *root, struct gt_err *err)
{
	const struct gt_tree *best = gt_tree_get(root, "best");
	int rc = gt_tree_read_int(gt_tree_get(root, "step"), &s->step, err);

	if (rc < 0)
		return gt_err_prefix(err, "'step'");
	if (!rc || s->step < 0) {
		gt_err_set(err, GT_EFORMAT, "no training checkpoint: it has no 'step'");
		return gt_err_hint(
		    err, "--init-from starts a new run from a file with weights alone");
	}
	s->best_step = -1;
	s->best_score = -INFINITY;
	rc = gt_tree_read_float(gt_tree_get(best, "score"), &s->best_score, err);
	if (rc > 0)
		rc = gt_tree_read_int(gt_tree_get(best, "step"), &s->best_step, err);
	return rc < 0 ? gt_err_prefix(err, "'best'") : 0;
}

int gt_snapshot_load(struct gt_snapshot *s, const char *path, struct gt_err *err)
{
	const struct gt_weights_options strict = { .parallel = s->parallel };
	struct gt_weights_report report = { 0 };
	struct gt_state_dict sd = { 0 };
	const struct gt_tree *root;
	struct gt_ckpt *ckpt;
	int rc = gt_ckpt_open(&ckpt, path, err);

	if (rc)
		return rc;
	root = gt_ckpt_root(ckpt);
	rc = gt_digest_check(ckpt, false, err);
	if (!rc)
		rc = load_position(s, root, err);
	if (!rc)
		rc = check_config(gt_tree_get(root, "config"), s->config, err);
	if (!rc)
		rc = gt_state_dict_find(&sd, root, err);
	if (!rc)
		rc = gt_weights_load(s->store, s->model, &sd, &strict, &report, err);
	if (!rc)
		rc = load_optimizer(s, gt_tree_get(root, "optimizer"), err);
	if (rc)
		gt_err_prefix(err, "%s", path);
	gt_weights_report_release(&report);
	gt_state_dict_release(&sd);
	gt_ckpt_close(ckpt);
	return rc;
}
