/* snapshot.c - the trees of training checkpoints: snapshots. */
#include "lib/train/checkpoint/snapshot.h"

#include <stdlib.h>

#include "lib/ckpt/ckpt.h"
#include "lib/train/checkpoint/snapshot_layout.h"
#include "lib/train/checkpoint/weights.h"
#include "lib/train/run/about.h"

/*
 * A snapshot is a training checkpoint that gtrain writes. It holds the full state of a run: a dict
 * with these entries.
 *
 *   "model"          state_dict of the model
 *   "optimizer"      state_dict of torch.optim
 *   "lr_scheduler"   {"last_epoch": steps done, "_last_lr": [learning rate of the last step]}
 *   "scaler"         state_dict of torch.amp.GradScaler; {} if the loss is not scaled
 *   "epoch", "step"  epochs and steps done
 *   "epoch_samples"  samples read so far in the current epoch
 *   "data_samples"   samples of the training data, including those that --val-split holds out
 *   "best"           only if there was an evaluation: "step", "score" and "loss" of the best
 *                    evaluation, the number of evaluations after it ("evaluations_since"), and the
 *                    step of the latest evaluation ("evaluated_step")
 *   "config"         options of the run
 *   "no_weight_decay"  only if the run resumed from another program's checkpoint, whose groups
 *                    differ from those of a new run in weight decay: the list of the names of the
 *                    parameters without weight decay
 *   "model_NAME"     state_dict with the average of the weights (lib/optim/average.h), if the run
 *                    keeps one; NAME is that of its plane
 *   "gtrain.about"   only in a set (saver.h): the facts that are metadata of the state_dicts in a
 *                    file
 *
 * In most runs, "optimizer" has one param_group, or two if some parameters have no weight decay:
 * first the group with weight decay, then the group without weight decay. There are more groups if
 * parameters have different factors of the learning rate (lr_scale), or if the run's optimizer
 * leaves some parameters to a second optimizer (gt_snapshot_groups_of()). The groups of the second
 * optimizer have the options and states of the second optimizer. In each group, parameters are in
 * the order of declaration. The parameters are numbered, and the numbers continue from one group to
 * the next, as in torch.optim.
 */

/* ---- the order of torch.optim ---- */

/* Return the first parameter that is in no group yet: it begins the next group. */
static const struct gt_slot *first_left(const struct gt_snapshot_groups *g,
    const struct gt_store *store, enum gt_optim_kind kind, bool own, bool decay)
{
	for (size_t i = 0; i < store->slot_count; i++) {
		const struct gt_slot *slot = &store->slots[i];
		size_t k = 0;

		if (slot->role != GT_PARAMETER || slot->decay != decay ||
		    (gt_optim_rule_of(kind, slot) == gt_optim_rule(kind)) != own)
			continue;
		while (k < g->count && g->slots[k] != slot)
			k++;
		if (k == g->count)
			return slot;
	}
	return NULL;
}

static void add_group(struct gt_snapshot_groups *g, const struct gt_store *store,
    enum gt_optim_kind kind, const struct gt_slot *first)
{
	struct gt_snapshot_group *group = &g->groups[g->group_count++];

	*group = (struct gt_snapshot_group){ .rule = gt_optim_rule_of(kind, first),
		.decay = first->decay,
		.lr_scale = first->lr_scale };
	for (size_t i = 0; i < store->slot_count; i++) {
		const struct gt_slot *slot = &store->slots[i];

		if (slot->role != GT_PARAMETER || slot->decay != first->decay ||
		    slot->lr_scale != first->lr_scale ||
		    gt_optim_rule_of(kind, slot) != group->rule)
			continue;
		group->count++;
		g->slots[g->count++] = slot;
	}
}

/*
 * The groups are sorted
 *
 *   1. by optimizer: first the parameters that the run's optimizer updates, then the parameters
 *      that it leaves to a second optimizer (`fallback` of struct gt_optim_rule)
 *   2. by weight decay: first the parameters with weight decay, then the parameters without
 *   3. by lr_scale: one group for each value, in the order in which the values first occur in the
 *      declarations
 *
 * In a group, parameters are in the order of declaration.
 */
int gt_snapshot_groups_of(struct gt_snapshot_groups *out, const struct gt_store *store,
    enum gt_optim_kind kind, struct gt_err *err)
{
	const struct gt_slot *first;

	*out = (struct gt_snapshot_groups){ 0 };
	out->slots = gt_calloc(store->slot_count, sizeof(*out->slots), err);
	out->groups = gt_calloc(store->slot_count, sizeof(*out->groups), err);
	if (!out->slots || !out->groups)
		return GT_ENOMEM;
	for (int i = 0; i < 4; i++)
		while ((first = first_left(out, store, kind, i < 2, i % 2 == 0)))
			add_group(out, store, kind, first);
	return 0;
}

void gt_snapshot_groups_release(struct gt_snapshot_groups *g)
{
	free(g->slots);
	free(g->groups);
}

/* ---- the tree ---- */

struct writer {
	const struct gt_snapshot *s;
	struct gt_arena *a;
	struct gt_err *err;
	bool failed;
};

static struct gt_tree *make_float_node(struct writer *w, double x)
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

static void put_dict_value(
    struct writer *w, struct gt_tree *dict, const char *key, struct gt_tree *value)
{
	if (!dict || gt_tree_set(dict, key, value, w->a, w->err))
		w->failed = true;
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
	const struct gt_store *store = w->s->store;

	if (gt_optim_rule_of(gt_optim_options(w->s->optim)->kind, slot)->counts_steps)
		put_dict_value(w, state, "step", step_tensor(w));
	for (size_t i = 0; i < store->plane_count; i++)
		if (store->planes[i]->saved == GT_SAVED_STATE &&
		    gt_plane_holds(store, store->planes[i], slot))
			put_dict_value(w, state, store->planes[i]->name,
			    gt_weights_tensor(
			        w->s->parallel, store, store->planes[i], slot, w->a, w->err));
	return state;
}

static struct gt_tree *tuple(struct writer *w, const double *numbers, int count)
{
	struct gt_tree *tree = gt_tree_tuple(w->a, w->err);

	for (int i = 0; i < count; i++)
		if (!tree || gt_tree_append(tree, make_float_node(w, numbers[i]), w->a, w->err))
			w->failed = true;
	return tree;
}

static struct gt_tree *member_value(
    struct writer *w, const struct gt_optim_member *m, const struct gt_optim_options *o)
{
	const void *at = (const char *)o + m->offset;

	switch (m->type) {
	case GT_MEMBER_NUMBER:
		return make_float_node(w, *(const double *)at);
	case GT_MEMBER_PAIR:
		return tuple(w, at, 2);
	case GT_MEMBER_BOOL:
		return boolean(w, *(const bool *)at);
	case GT_MEMBER_WORD:
		return gt_tree_string(w->a, m->words[*(const int *)at], w->err);
	case GT_MEMBER_FALSE:
	case GT_MEMBER_TRUE:
		break;
	case GT_MEMBER_INTEGER:
		return integer(w, m->count);
	case GT_MEMBER_CONSTANTS:
		return m->count > 1 ? tuple(w, m->constants, m->count)
		                    : make_float_node(w, *m->constants);
	}
	return boolean(w, m->type == GT_MEMBER_TRUE);
}

/* Return the param_group of a group whose first parameter has the number `first`. */
static struct gt_tree *param_group(
    struct writer *w, const struct gt_snapshot_group *g, size_t first)
{
	const struct gt_optim_options *o = gt_optim_options(w->s->optim);
	const struct gt_optim_member *m = g->rule->members;
	struct gt_tree *group = gt_tree_dict(w->a, w->err), *params = gt_tree_list(w->a, w->err);
	double factor = g->rule == gt_optim_rule(o->kind) ? 1 : o->fallback_lr_factor;

	put_dict_value(w, group, "lr", make_float_node(w, w->s->lr * factor * g->lr_scale));
	put_dict_value(
	    w, group, "weight_decay", make_float_node(w, g->decay ? o->weight_decay : 0));
	put_dict_value(w, group, "maximize", boolean(w, false));
	put_dict_value(w, group, "foreach", gt_tree_none(w->a, w->err));
	for (; m->name; m++)
		put_dict_value(w, group, m->name, member_value(w, m, o));
	for (size_t i = first; i < first + g->count; i++)
		if (!params || gt_tree_append(params, integer(w, (int64_t)i), w->a, w->err))
			w->failed = true;
	put_dict_value(w, group, "params", params);
	return group;
}

static struct gt_tree *optimizer_tree(struct writer *w)
{
	struct gt_tree *tree = gt_tree_dict(w->a, w->err), *state = gt_tree_dict(w->a, w->err);
	struct gt_tree *groups = gt_tree_list(w->a, w->err);
	enum gt_optim_kind kind = gt_optim_options(w->s->optim)->kind;
	struct gt_snapshot_groups g;
	size_t first = 0;

	if (gt_snapshot_groups_of(&g, w->s->store, kind, w->err) || !state || !groups) {
		gt_snapshot_groups_release(&g);
		w->failed = true;
		return NULL;
	}
	/* Before the first step torch.optim has no state, and SGD without momentum never has. */
	for (size_t i = 0; gt_optim_steps(w->s->optim) && i < g.count; i++)
		if (gt_tree_set_int(
		        state, (int64_t)i, parameter_state(w, g.slots[i]), w->a, w->err))
			w->failed = true;
	for (size_t i = 0; i < g.group_count; first += g.groups[i++].count)
		if (gt_tree_append(groups, param_group(w, &g.groups[i], first), w->a, w->err))
			w->failed = true;
	gt_snapshot_groups_release(&g);
	put_dict_value(w, tree, "state", state);
	put_dict_value(w, tree, "param_groups", groups);
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
	json_object_foreach((json_t *)json, key, value)
	    put_dict_value(w, tree, key, json_tree(w, value));
	return tree;
}

static struct gt_tree *json_tree(struct writer *w, const json_t *json)
{
	if (json_is_boolean(json))
		return boolean(w, json_is_true(json));
	if (json_is_integer(json))
		return integer(w, json_integer_value(json));
	if (json_is_real(json))
		return make_float_node(w, json_real_value(json));
	if (json_is_string(json))
		return gt_tree_string(w->a, json_string_value(json), w->err);
	if (json_is_array(json) || json_is_object(json))
		return json_container(w, json);
	return gt_tree_none(w->a, w->err);
}

static struct gt_tree *scheduler_tree(struct writer *w)
{
	struct gt_tree *tree = gt_tree_dict(w->a, w->err), *last = gt_tree_list(w->a, w->err);

	if (!last || gt_tree_append(last, make_float_node(w, w->s->lr), w->a, w->err))
		w->failed = true;
	put_dict_value(w, tree, "last_epoch", integer(w, w->s->step));
	put_dict_value(w, tree, "_last_lr", last);
	return tree;
}

/* torch.amp.GradScaler.state_dict(): empty where it is not enabled. */
static struct gt_tree *scaler_tree(struct writer *w)
{
	const struct gt_scaler *s = gt_optim_scaler(w->s->optim);
	struct gt_tree *tree = gt_tree_dict(w->a, w->err);

	if (!s->growth_interval)
		return tree;
	put_dict_value(w, tree, "scale", make_float_node(w, s->scale));
	put_dict_value(w, tree, "growth_factor", make_float_node(w, s->growth_factor));
	put_dict_value(w, tree, "backoff_factor", make_float_node(w, s->backoff_factor));
	put_dict_value(w, tree, "growth_interval", integer(w, s->growth_interval));
	put_dict_value(w, tree, "_growth_tracker", integer(w, s->growth_tracker));
	return tree;
}

static struct gt_tree *best_tree(struct writer *w)
{
	struct gt_tree *tree = gt_tree_dict(w->a, w->err);

	put_dict_value(w, tree, "step", integer(w, w->s->best_step));
	put_dict_value(w, tree, "score", make_float_node(w, w->s->best_score));
	put_dict_value(w, tree, "loss", make_float_node(w, w->s->best_loss));
	put_dict_value(w, tree, "evaluations_since", integer(w, w->s->evaluations_since_best));
	put_dict_value(w, tree, "evaluated_step", integer(w, w->s->evaluated_step));
	return tree;
}

/* The names of the parameters without weight decay. */
static struct gt_tree *undecayed_tree(struct writer *w)
{
	struct gt_tree *list = gt_tree_list(w->a, w->err);
	const struct gt_store *store = w->s->store;

	for (size_t i = 0; i < store->slot_count; i++) {
		const struct gt_slot *slot = &store->slots[i];

		if (slot->role != GT_PARAMETER || slot->decay)
			continue;
		if (!list ||
		    gt_tree_append(list, gt_tree_string(w->a, slot->name, w->err), w->a, w->err))
			w->failed = true;
	}
	return list;
}

/* ---- files ---- */

/* Return the state_dict of the model, with the facts about the run. */
static struct gt_tree *state_dict(const struct gt_snapshot *s, const struct gt_plane *parameters,
    struct gt_arena *a, struct gt_err *err)
{
	struct gt_tree *dict =
	    gt_weights_tree(s->parallel, s->store, parameters, s->model, s->no_base, a, err);

	if (dict && s->about && gt_tree_set_metadata(dict, GT_ABOUT_NAME, s->about, a, err))
		return NULL;
	return dict;
}

/* Running means of the parameters; before the first step there are none. */
static void put_means(struct writer *w, struct gt_tree *root)
{
	const struct gt_store *store = w->s->store;
	char key[GT_SNAPSHOT_KEY];

	for (size_t i = 0; w->s->step && i < store->plane_count; i++)
		if (store->planes[i]->saved == GT_SAVED_MEAN)
			put_dict_value(w, root, gt_snapshot_mean_key(key, store->planes[i]),
			    state_dict(w->s, store->planes[i], w->a, w->err));
}

static struct gt_tree *snapshot_tree(struct writer *w)
{
	const struct gt_snapshot *s = w->s;
	struct gt_tree *root = gt_tree_dict(w->a, w->err);

	put_dict_value(w, root, "model", state_dict(s, s->store->parameters, w->a, w->err));
	put_dict_value(w, root, "optimizer", optimizer_tree(w));
	put_dict_value(w, root, "lr_scheduler", scheduler_tree(w));
	put_dict_value(w, root, "scaler", scaler_tree(w));
	put_dict_value(w, root, "epoch", integer(w, s->epoch));
	put_dict_value(w, root, "step", integer(w, s->step));
	put_dict_value(w, root, "epoch_samples", integer(w, s->samples));
	put_dict_value(w, root, "data_samples", integer(w, s->data_samples));
	if (s->best_step >= 0)
		put_dict_value(w, root, "best", best_tree(w));
	if (s->own_decay)
		put_dict_value(w, root, "no_weight_decay", undecayed_tree(w));
	if (s->config)
		put_dict_value(w, root, "config", json_tree(w, s->config));
	if (s->is_set && s->about)
		put_dict_value(w, root, GT_ABOUT_NAME, gt_tree_string(w->a, s->about, w->err));
	put_means(w, root);
	return root;
}

int gt_snapshot_tree(
    struct gt_tree **out, const struct gt_snapshot *s, struct gt_arena *a, struct gt_err *err)
{
	struct writer w = { .s = s, .a = a, .err = err };

	*out = snapshot_tree(&w);
	return w.failed ? err->code : 0;
}

/* Rank 0 writes the tree, unless it is NULL, and releases it; the other ranks send their elements
 * while it does. They end together, even if rank 0 fails. */
static int save_tree(const struct gt_snapshot *s, struct gt_tree *tree, struct gt_arena *a,
    struct gt_file_name file, struct gt_err *err)
{
	int rc = tree ? gt_torch_save(file, tree, err) : err->code;

	gt_arena_release(a);
	return gt_parallel_end_fetches(s->parallel, rc ? GT_ERR_IGNORED : err) && !rc ? err->code
	                                                                              : rc;
}

int gt_snapshot_save(const struct gt_snapshot *s, struct gt_file_name file, struct gt_err *err)
{
	struct gt_arena a = { 0 };
	struct gt_tree *tree;

	if (gt_parallel_rank(s->parallel))
		return gt_parallel_serve(s->parallel, err);
	return save_tree(s, gt_snapshot_tree(&tree, s, &a, err) ? NULL : tree, &a, file, err);
}

int gt_snapshot_save_model(
    const struct gt_snapshot *s, struct gt_file_name file, struct gt_err *err)
{
	struct gt_arena a = { 0 };

	if (gt_parallel_rank(s->parallel))
		return gt_parallel_serve(s->parallel, err);
	return save_tree(s, state_dict(s, s->store->parameters, &a, err), &a, file, err);
}
