/* snapshot_load.c - training checkpoints, read. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/text.h"
#include "lib/ckpt/ckpt.h"
#include "lib/ckpt/edit/rename.h"
#include "lib/train/amp.h"
#include "lib/train/run/resume.h"
#include "lib/train/run/snapshot_layout.h"
#include "lib/train/run/weights.h"

static const char word_letters[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

static bool has_entries(const struct gt_tree *dict)
{
	return dict && dict->kind == GT_TREE_DICT && dict->seq.count;
}

/* ---- states of the optimizer ---- */

static bool same_shape(const struct gt_slot *slot, const struct gt_tree_tensor *t)
{
	bool same = t->ndim == slot->ndim;

	for (int i = 0; same && i < t->ndim; i++)
		same = t->shape[i] == slot->shape[i];
	return same;
}

static bool fits(const struct gt_slot *slot, const struct gt_tree *tensor)
{
	return tensor && tensor->kind == GT_TREE_TENSOR && same_shape(slot, &tensor->tensor);
}

/* Read a tensor that fits into flat memory that ranks hold as they do states; `what` of the slot it
 * is, for messages. */
static int load_flat(const struct gt_snapshot *s, const struct gt_slot *slot,
    const struct gt_tree *tensor, const char *what, float *flat, struct gt_err *err)
{
	size_t bytes = (size_t)slot->count * sizeof(float);
	void *host;
	int rc;

	host = gt_calloc(1, bytes, err);
	if (!host)
		return GT_ENOMEM;
	rc = gt_ckpt_tensor_read(&tensor->tensor, GT_F32, host, err);
	if (!rc)
		rc = gt_weights_check_finite(slot, what, host, GT_F32, err);
	if (!rc)
		rc = gt_parallel_scatter_slot(s->parallel, slot, GT_HELD_STATE, flat, host, err);
	free(host);
	return rc;
}

static int load_state(const struct gt_snapshot *s, const struct gt_slot *slot,
    const struct gt_tree *tensor, const char *name, float *flat, struct gt_err *err)
{
	char what[64];

	if (!fits(slot, tensor)) {
		gt_err_set(err, GT_EFORMAT,
		    "optimizer state '%s' of '%s' is missing or of another shape", name,
		    slot->name);
		return gt_err_hint(err, "was it saved with another {optimizer}?");
	}
	snprintf(what, sizeof(what), "optimizer state '%s' of", name);
	return load_flat(s, slot, tensor, what, flat, err);
}

/* The mean of the weights. Buffers are those of the model. */
static int load_ema(const struct gt_snapshot *s, const struct gt_tree *root, struct gt_err *err)
{
	const struct gt_tree *dict = gt_tree_get(root, "model_ema");
	int rc = 0;

	for (size_t i = 0; !rc && s->step && i < s->store->slot_count; i++) {
		const struct gt_slot *slot = &s->store->slots[i];
		const struct gt_tree *tensor = gt_tree_get(dict, slot->name);

		if (slot->role != GT_PARAMETER)
			continue;
		if (!fits(slot, tensor)) {
			gt_err_set(err, GT_EFORMAT,
			    "'%s' under 'model_ema' is missing or of another shape", slot->name);
			return gt_err_hint(err, "was it saved without {ema}?");
		}
		rc = load_flat(s, slot, tensor, "mean of", gt_ema_flat(s->ema), err);
	}
	gt_ema_set_updates(s->ema, s->step);
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

/* Numbers of parameters, as in "3, 4 and 1". */
static void list_counts(char *out, size_t size, const size_t *counts, size_t n)
{
	size_t used = 0;

	snprintf(out, size, "none");
	for (size_t i = 0; i < n && used < size; i++)
		used += (size_t)snprintf(out + used, size - used, "%s%zu",
		    !i          ? ""
		    : i + 1 < n ? ", "
		                : " and ",
		    counts[i]);
}

enum { MOST_LISTED = 10 };

/* The file has other groups than this optimizer. */
static int fail_groups(
    const struct gt_snapshot_groups *g, const struct gt_tree *groups, struct gt_err *err)
{
	size_t counts[MOST_LISTED], n = 0;
	char there[120], here[120];
	const struct gt_tree *params;

	for (; n < MOST_LISTED && (params = group_params(groups, n)); n++)
		counts[n] = params->seq.count;
	list_counts(there, sizeof(there), counts, n);
	for (n = 0; n < MOST_LISTED && n < g->group_count; n++)
		counts[n] = g->groups[n].count;
	list_counts(here, sizeof(here), counts, n);
	gt_err_set(err, GT_EFORMAT, "the optimizer's groups hold %s parameters, here they are %s",
	    there, here);
	return gt_err_hint(err,
	    "first those that decay, then the others, each by their {lr-scale}; or all in one "
	    "group");
}

/* A prefix that all names have and the model has not, as Lightning's modules have the name of their
 * attribute: "model." of "model.conv1.weight". 0: there is none. */
static size_t strange_prefix(const struct gt_state_dict *sd, const struct gt_store *store)
{
	const char *first = sd->count ? sd->entries[0].name : "";
	size_t length = strspn(first, word_letters) + 1;

	if (first[length - 1] != '.')
		return 0;
	for (size_t i = 0; i < sd->count; i++)
		if (strncmp(sd->entries[i].name, first, length))
			return 0;
	for (size_t i = 0; i < store->slot_count; i++)
		if (!strncmp(store->slots[i].name, first, length))
			return 0;
	return length;
}

/* The rules by which keys of the file become names of the model. */
struct naming {
	const char *const *maps; /* as in struct gt_weights_options */
	const char *own[2];
	char cut[80]; /* the prefix, as a rule */
};

/* Those that were given for a file of another program; else one that cuts off a strange prefix. */
static void find_naming(struct naming *n, const struct gt_snapshot *s, const struct gt_saved *saved,
    const struct gt_state_dict *sd)
{
	size_t prefix = saved->foreign && !s->maps ? strange_prefix(sd, s->store) : 0;

	*n = (struct naming){ .maps = saved->foreign ? s->maps : NULL };
	if (!prefix || prefix >= sizeof(n->cut) - 8)
		return;
	snprintf(n->cut, sizeof(n->cut), "^%.*s\\.=", (int)prefix - 1, sd->entries[0].name);
	n->own[0] = n->cut;
	n->maps = n->own;
}

static int find_places(size_t *places, const struct gt_store *store, const struct gt_state_dict *sd,
    const struct naming *naming, struct gt_err *err)
{
	struct gt_renames renames;
	struct gt_arena arena = { 0 };
	int rc = gt_renames_init(&renames, naming->maps, err);

	for (size_t i = 0; !rc && i < sd->count; i++) {
		const char *name = gt_renames_apply(&renames, sd->entries[i].name, &arena, err);
		const struct gt_slot *slot = name ? gt_store_find(store, name) : NULL;

		rc = name ? 0 : err->code;
		if (slot)
			places[slot - store->slots] = i + 1;
	}
	gt_renames_release(&renames);
	gt_arena_release(&arena);
	return rc;
}

/* Put a group's slots into the order of the file's state_dict, that of the modules of the network
 * which was trained, and so of its parameters() and of its optimizer's groups. A slot without a
 * place there, which has another name in the file, leaves all as declared. */
static void sort_by_places(
    const struct gt_slot **slots, size_t count, const struct gt_store *store, const size_t *places)
{
	for (size_t i = 0; i < count; i++)
		if (!places[slots[i] - store->slots])
			return;
	for (size_t i = 1; i < count; i++) {
		const struct gt_slot *slot = slots[i];
		size_t k = i;

		for (; k && places[slots[k - 1] - store->slots] > places[slot - store->slots]; k--)
			slots[k] = slots[k - 1];
		slots[k] = slot;
	}
}

/* Of a file of another program. Those that are no pickles have their keys sorted. */
static int sort_groups(struct gt_snapshot_groups *g, const struct gt_snapshot *s,
    const struct gt_saved *saved, const struct gt_state_dict *sd, const struct naming *naming,
    struct gt_err *err)
{
	size_t at = 0, *places; /* of each slot among the file's keys, from 1; 0: none */
	int rc;

	if (!saved->foreign || strncmp(gt_ckpt_format(saved->files[0]), "torch", 5))
		return 0;
	places = gt_calloc(s->store->slot_count, sizeof(*places), err);
	if (!places)
		return GT_ENOMEM;
	rc = find_places(places, s->store, sd, naming, err);
	for (size_t i = 0; !rc && i < g->group_count; at += g->groups[i++].count)
		sort_by_places(g->slots + at, g->groups[i].count, s->store, places);
	free(places);
	return rc;
}

/* One group: torch's order is that of declaration. */
static void take_one_group(struct gt_snapshot_groups *g, const struct gt_store *store)
{
	g->count = 0;
	for (size_t i = 0; i < store->slot_count; i++)
		if (store->slots[i].role == GT_PARAMETER)
			g->slots[g->count++] = &store->slots[i];
	g->group_count = 1;
	g->groups[0].count = g->count;
}

/* Match the groups of the file with ours: numbers[i] is the number of g->slots[i] in the file. */
static int match_groups(struct gt_snapshot_groups *g, const struct gt_snapshot *s,
    const struct gt_tree *optimizer, int64_t *numbers, struct gt_err *err)
{
	const struct gt_tree *groups = gt_tree_get(optimizer, "param_groups");
	const struct gt_tree *params = group_params(groups, 0);
	size_t at = 0;

	if (params && params->seq.count == g->count && !group_params(groups, 1))
		take_one_group(g, s->store);
	if (group_params(groups, g->group_count))
		return fail_groups(g, groups, err);
	for (size_t i = 0; i < g->group_count; i++) {
		params = group_params(groups, i);
		if (!params || params->seq.count != g->groups[i].count)
			return fail_groups(g, groups, err);
		for (size_t k = 0; k < params->seq.count; k++)
			if (!gt_tree_as_int(params->seq.items[k].value, &numbers[at++]))
				return gt_err_set(
				    err, GT_EFORMAT, "the optimizer's 'params' are not numbers");
	}
	return 0;
}

/* The rate and the weight decay of a group of another program's file. */
static void read_group(const struct gt_tree *groups, size_t i, double *lr, double *decay)
{
	const struct gt_tree *group = groups->seq.items[i].value;

	*lr = *decay = 0;
	if (!gt_tree_as_float(gt_tree_get(group, "initial_lr"), lr))
		gt_tree_as_float(gt_tree_get(group, "lr"), lr);
	gt_tree_as_float(gt_tree_get(group, "weight_decay"), decay);
}

static int fail_rates(double first, double lr, size_t i, struct gt_err *err)
{
	gt_err_set(err, GT_EINVAL,
	    "groups 0 and %zu of its optimizer have learning rates of %g and %g", i, first, lr);
	return gt_err_hint(
	    err, "{lr-scale} GLOB=X multiplies the learning rate of the matching parameters by X");
}

static int fail_decay(const char *name, struct gt_err *err)
{
	gt_err_set(err, GT_EINVAL,
	    "its optimizer has no weight decay for '%s', which has some in this run", name);
	return gt_err_hint(
	    err, "{weight-decay} 0 continues without weight decay; {init-from} starts a new run");
}

/* Check another program's groups: the ratios of their learning rates must be those of {lr-scale},
 * and a parameter without weight decay there must have none here. A single group may have any
 * rate. */
static int check_groups(const struct gt_snapshot_groups *g, struct gt_snapshot *s,
    const struct gt_tree *groups, struct gt_err *err)
{
	bool one = !group_params(groups, 1), decays = gt_optim_options(s->optim)->weight_decay > 0;
	double first, lr, decay;
	size_t k = 0;

	s->undecayed = 0;
	read_group(groups, 0, &first, &decay);
	for (size_t i = 0; i < g->group_count; i++) {
		size_t end = k + g->groups[i].count;

		read_group(groups, i, &lr, &decay);
		if (!one &&
		    fabs(lr * g->groups[0].lr_scale - first * g->groups[i].lr_scale) > 1e-6 * first)
			return fail_rates(first, lr, i, err);
		for (; decays && k < end; k++) {
			if (g->slots[k]->decay && decay == 0)
				return fail_decay(g->slots[k]->name, err);
			s->undecayed += !g->slots[k]->decay && decay > 0;
		}
		k = end;
	}
	return 0;
}

/* No run does as many steps; counting goes on from them without overflow. */
static const int64_t most_steps = INT64_C(1) << 53;

/* The steps that the optimizer has counted for a parameter; 0: the file does not tell. */
static int read_steps(
    int64_t *steps, const struct gt_tree *state, int64_t number, struct gt_err *err)
{
	const struct gt_tree *step = gt_tree_get(gt_tree_get_int(state, number), "step");
	int rc = step ? gt_tree_read_int(step, steps, err) : 0;

	if (rc < 0)
		return gt_err_prefix(
		    err, "optimizer state 'step' of parameter %lld", (long long)number);
	if (!step)
		*steps = 0;
	else if (!rc || *steps < 0 || *steps > most_steps)
		return gt_err_set(err, GT_EFORMAT,
		    "optimizer state 'step' of parameter %lld is no number of steps",
		    (long long)number);
	return 0;
}

static int fail_steps(int64_t steps, int64_t found, int64_t number, struct gt_err *err)
{
	gt_err_set(err, GT_ENOTSUP,
	    "its optimizer has counted %lld steps for some parameters, %lld for parameter %lld",
	    (long long)steps, (long long)found, (long long)number);
	return gt_err_hint(err, "{init-from} starts a new run from its weights alone");
}

/* The count of Adam, the same for all parameters, may lag behind that of the run: PyTorch skips a
 * step if its gradients overflow. */
static int count_steps(const struct gt_snapshot *s, const struct gt_tree *state,
    const int64_t *numbers, size_t count, int64_t *steps, struct gt_err *err)
{
	bool known = false;

	*steps = s->step;
	for (size_t i = 0; s->step && i < count; i++) {
		int64_t found;

		if (read_steps(&found, state, numbers[i], err))
			return err->code;
		if (known && found > 0 && found != *steps)
			return fail_steps(*steps, found, numbers[i], err);
		if (!known && found > 0) {
			*steps = found;
			known = true;
		}
	}
	return 0;
}

/* Whether the file's run was without momentum, so that there is no state of it. torch.optim.SGD has
 * then no entries, or None. */
static bool is_without_momentum(const struct gt_tree *optimizer, const struct gt_tree *one)
{
	const struct gt_tree *groups = gt_tree_get(optimizer, "param_groups");
	const struct gt_tree *buffer = gt_tree_get(one, "momentum_buffer");
	double momentum = 1;

	if (group_params(groups, 0))
		gt_tree_as_float(gt_tree_get(groups->seq.items[0].value, "momentum"), &momentum);
	return buffer ? buffer->kind == GT_TREE_NONE : momentum == 0;
}

/* Whether there was no update so far: all steps, whose loss was scaled, were skipped. */
static bool is_fresh(const struct gt_tree *scaler, const struct gt_tree *state)
{
	return has_entries(scaler) && !has_entries(state);
}

/* Of others' SGD without momentum there is no state, after updates either. */
static bool is_updated(
    const struct gt_snapshot *s, const struct gt_saved *saved, const struct gt_tree *state)
{
	if (saved->foreign && gt_optim_options(s->optim)->kind == GT_SGD)
		return has_entries(state);
	return s->step > 0 && !is_fresh(saved->scaler, state);
}

static int load_optimizer(struct gt_snapshot *s, const struct gt_saved *saved,
    const struct gt_state_dict *sd, const struct naming *naming, struct gt_err *err)
{
	const struct gt_tree *optimizer = saved->optimizer;
	const struct gt_tree *state = gt_tree_get(optimizer, "state");
	int64_t *numbers = gt_calloc(s->store->slot_count, sizeof(*numbers), err);
	struct gt_snapshot_groups g;
	const char *name;
	int64_t steps;
	bool updated;
	float *flat;
	int rc = gt_snapshot_groups_of(&g, s->store, gt_optim_options(s->optim)->kind, err);

	if (!numbers)
		rc = GT_ENOMEM;
	if (!rc && (!state || state->kind != GT_TREE_DICT))
		rc = gt_err_set(err, GT_EFORMAT, "no optimizer state under 'optimizer'");
	if (!rc)
		rc = match_groups(&g, s, optimizer, numbers, err);
	if (!rc)
		rc = sort_groups(&g, s, saved, sd, naming, err);
	if (!rc && saved->foreign)
		rc = check_groups(&g, s, gt_tree_get(optimizer, "param_groups"), err);
	updated = is_updated(s, saved, state);
	for (size_t i = 0; !rc && updated && i < g.count; i++) {
		const struct gt_tree *one = gt_tree_get_int(state, numbers[i]);

		if (gt_optim_options(s->optim)->kind == GT_SGD &&
		    is_without_momentum(optimizer, one))
			continue; /* it begins with zeros */
		for (int k = 0; !rc && (name = gt_optim_state(s->optim, g.slots[i], k, &flat)); k++)
			rc = load_state(s, g.slots[i], gt_tree_get(one, name), name, flat, err);
	}
	if (!rc)
		rc = count_steps(s, state, numbers, g.count, &steps, err);
	if (!rc)
		rc = gt_optim_set_steps(s->optim, updated ? steps : 0, err);
	free(numbers);
	gt_snapshot_groups_release(&g);
	return rc;
}

/* ---- the loss scale ---- */

static int read_scaler(struct gt_scaler *out, const struct gt_tree *dict, struct gt_err *err)
{
	const struct {
		const char *key;
		double *real;
		int64_t *whole;
	} members[] = {
		{ "scale", &out->scale, NULL },
		{ "growth_factor", &out->growth_factor, NULL },
		{ "backoff_factor", &out->backoff_factor, NULL },
		{ "growth_interval", NULL, &out->growth_interval },
		{ "_growth_tracker", NULL, &out->growth_tracker },
	};

	for (size_t i = 0; i < sizeof(members) / sizeof(*members); i++) {
		const struct gt_tree *value = gt_tree_get(dict, members[i].key);
		int rc = members[i].real ? gt_tree_read_float(value, members[i].real, err)
		                         : gt_tree_read_int(value, members[i].whole, err);

		if (rc < 0)
			return gt_err_prefix(err, "'scaler': '%s'", members[i].key);
		if (!rc)
			return gt_err_set(err, GT_EFORMAT, "'scaler' has no '%s'", members[i].key);
	}
	return 0;
}

/* Whether steps can be taken with it; NaN compares as false. */
static bool is_sound(const struct gt_scaler *s)
{
	return (float)s->scale > 0 && isfinite((float)s->scale) && s->growth_factor >= 1 &&
	       isfinite((float)s->growth_factor) && s->backoff_factor > 0 &&
	       s->backoff_factor <= 1 && s->growth_interval > 0 && s->growth_tracker >= 0 &&
	       s->growth_tracker < s->growth_interval;
}

/* Of a run whose loss was not scaled there is none: the scale begins anew. */
static int load_scaler(const struct gt_snapshot *s, const struct gt_tree *dict, struct gt_err *err)
{
	struct gt_scaler scaler;

	if (!gt_optim_scaler(s->optim)->growth_interval || !has_entries(dict))
		return 0;
	if (read_scaler(&scaler, dict, err))
		return err->code;
	if (!is_sound(&scaler))
		return gt_err_set(err, GT_EFORMAT,
		    "'scaler': scale %g, growth_factor %g, backoff_factor %g, growth_interval "
		    "%lld and _growth_tracker %lld scale no loss",
		    gt_text_real(scaler.scale), gt_text_real(scaler.growth_factor),
		    gt_text_real(scaler.backoff_factor), (long long)scaler.growth_interval,
		    (long long)scaler.growth_tracker);
	return gt_optim_set_scaler(s->optim, &scaler, err);
}

/* ---- the file ---- */

static int amp_of_file(const struct gt_tree *config)
{
	const struct gt_tree *word = gt_tree_get(config, "amp");

	for (int i = 0; word && word->kind == GT_TREE_STRING && i < GT_AMPS; i++)
		if (!strcmp(word->string.bytes, gt_amp_names[i]))
			return i;
	return -1;
}

int gt_snapshot_load_position(struct gt_snapshot *s, const struct gt_tree *root, struct gt_err *err)
{
	const struct gt_tree *best = gt_tree_get(root, "best");
	int rc = gt_tree_read_int(gt_tree_get(root, "step"), &s->step, err);

	if (rc < 0)
		return gt_err_prefix(err, "'step'");
	if (!rc || s->step < 0) {
		gt_err_set(err, GT_EFORMAT, "no training checkpoint: it has no 'step'");
		return gt_err_hint(
		    err, "{init-from} starts a new run from a file with weights alone");
	}
	s->best_step = -1;
	s->best_score = -INFINITY;
	rc = gt_tree_read_float(gt_tree_get(best, "score"), &s->best_score, err);
	if (isnan(s->best_score)) /* no later score would be larger */
		return gt_err_set(err, GT_EFORMAT, "'best': its score is nan");
	if (rc > 0)
		rc = gt_tree_read_int(gt_tree_get(best, "step"), &s->best_step, err);
	s->best_epoch = -1;
	if (rc > 0)
		rc = gt_tree_read_int(gt_tree_get(best, "epoch"), &s->best_epoch, err);
	return rc < 0 ? gt_err_prefix(err, "'best'") : 0;
}

int gt_snapshot_load(struct gt_snapshot *s, const struct gt_saved *saved,
    struct gt_weights_report *report, struct gt_err *err)
{
	struct gt_weights_options strict = { .finite = true,
		.no_map = !saved->foreign,
		.no_strict = true,
		.parallel = s->parallel };
	struct gt_state_dict sd = { 0 };
	struct naming naming;
	int rc = 0;

	*report = (struct gt_weights_report){ 0 };
	s->amp = amp_of_file(saved->config);
	s->best_step = s->best_epoch = -1;
	s->best_score = -INFINITY;
	if (!saved->foreign)
		rc = gt_snapshot_load_position(s, saved->root, err);
	if (!rc)
		rc = gt_state_dict_find(&sd, saved->root, err);
	find_naming(&naming, s, saved, &sd);
	strict.maps = naming.maps;
	if (!rc)
		rc = gt_weights_load(s->store, s->model, &sd, &strict, report, err);
	if (!rc)
		rc = load_optimizer(s, saved, &sd, &naming, err);
	if (!rc)
		rc = load_scaler(s, saved->scaler, err);
	if (!rc && s->ema)
		rc = load_ema(s, saved->root, err);
	gt_state_dict_release(&sd);
	return rc;
}
