/* snapshot_load.c - load training checkpoints. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/text.h"
#include "lib/ckpt/ckpt.h"
#include "lib/train/amp.h"
#include "lib/train/checkpoint/naming.h"
#include "lib/train/checkpoint/snapshot_layout.h"
#include "lib/train/checkpoint/snapshot_match.h"
#include "lib/train/checkpoint/weights.h"
#include "lib/train/run/resume.h"

static bool has_entries(const struct gt_tree *dict)
{
	return dict && dict->kind == GT_TREE_DICT && dict->seq.count;
}

/* ---- states of the optimizer ---- */

/* Check the values of a state. */
static int check_range(const struct gt_optim_state_row *row, const struct gt_slot *slot,
    const float *host, struct gt_err *err)
{
	for (int64_t i = 0; i < slot->count; i++) {
		if (host[i] >= row->min && host[i] <= row->max)
			continue;
		gt_err_set(err, GT_EFORMAT,
		    "optimizer state '%s' of '%s' holds %g, which is not from %g to %g", row->name,
		    slot->name, (double)host[i], (double)row->min, (double)row->max);
		return gt_err_hint(err,
		    "the file is damaged; {init-from} starts a new run from its "
		    "weights alone");
	}
	return 0;
}

/* Read a tensor that fits a slot into a plane of float32; `what` of the slot it is, for messages.
 * `row` has the limits of the values; it may be NULL. */
static int load_tensor(const struct gt_snapshot *s, const struct gt_plane *plane,
    const struct gt_slot *slot, const struct gt_tree *tensor, const char *what,
    const struct gt_optim_state_row *row, struct gt_err *err)
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
	if (!rc && row)
		rc = check_range(row, slot, host, err);
	if (!rc)
		rc = gt_parallel_scatter_slot(s->parallel, plane, slot, host, err);
	free(host);
	return rc;
}

/* `order`: that of the parameters in the file. */
static int load_state(const struct gt_snapshot *s, const struct gt_slot *slot,
    const struct gt_tree *tensor, const struct gt_optim_state_row *row,
    enum gt_snapshot_order order, struct gt_err *err)
{
	static const char *const others[] = {
		[GT_ORDER_CERTAIN] = "",
		[GT_ORDER_MODEL] = ", or are its parameters in another order than the model",
		[GT_ORDER_STATE_DICT] =
		    ", or are its parameters in another order than the state_dict",
	};
	char what[64];

	if (!gt_snapshot_fits(slot, tensor)) {
		gt_err_set(err, GT_EFORMAT,
		    "optimizer state '%s' of '%s' is missing or of another shape", row->name,
		    slot->name);
		err->mismatch = true;
		return gt_err_hint(err, "was it saved with another {optimizer}%s?", others[order]);
	}
	snprintf(what, sizeof(what), "optimizer state '%s' of", row->name);
	return load_tensor(s, gt_store_plane(s->store, row->name), slot, tensor, what, row, err);
}

const char *gt_snapshot_mean_key(char out[GT_SNAPSHOT_KEY], const struct gt_plane *plane)
{
	snprintf(out, GT_SNAPSHOT_KEY, "model_%s", plane->name);
	return out;
}

/* Load a running mean of the parameters. Buffers are those of the model. */
static int load_mean(const struct gt_snapshot *s, const struct gt_plane *plane,
    const struct gt_tree *root, struct gt_err *err)
{
	char key[GT_SNAPSHOT_KEY];
	const struct gt_tree *dict = gt_tree_get(root, gt_snapshot_mean_key(key, plane));
	int rc = 0;

	for (size_t i = 0; !rc && s->step && i < s->store->slot_count; i++) {
		const struct gt_slot *slot = &s->store->slots[i];
		const struct gt_tree *tensor = gt_tree_get(dict, slot->name);

		if (!gt_plane_holds(s->store, plane, slot))
			continue;
		if (!gt_snapshot_fits(slot, tensor)) {
			gt_err_set(err, GT_EFORMAT,
			    "'%s' under '%s' is missing or of another shape", slot->name, key);
			err->mismatch = true;
			return gt_err_hint(err, "was it saved without {%s}?", plane->name);
		}
		rc = load_tensor(s, plane, slot, tensor, "mean of", NULL, err);
	}
	return rc;
}

static int load_means(const struct gt_snapshot *s, const struct gt_tree *root, struct gt_err *err)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < s->store->plane_count; i++)
		if (s->store->planes[i]->saved == GT_SAVED_MEAN)
			rc = load_mean(s, s->store->planes[i], root, err);
	return rc;
}

/* No run does as many steps; counting goes on from them without overflow. */
static const int64_t most_steps = INT64_C(1) << 53;

/* Read the steps that the optimizer has counted for a parameter; 0: the file does not have them. */
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
    const struct gt_snapshot_match *match, int64_t *steps, struct gt_err *err)
{
	bool known = false;

	*steps = s->step;
	for (size_t i = 0; s->step && i < match->groups.count; i++) {
		int64_t found, number = match->places[i].number;

		if (read_steps(&found, state, number, err))
			return err->code;
		if (known && found > 0 && found != *steps)
			return fail_steps(*steps, found, number, err);
		if (!known && found > 0) {
			*steps = found;
			known = true;
		}
	}
	return 0;
}

/* Whether the file's run was without momentum, so that there is no state of it. torch.optim.SGD has
 * then no entries, or None. */
static bool is_without_momentum(const struct gt_saved *saved, const struct gt_tree *one)
{
	const struct gt_tree *buffer = gt_tree_get(one, "momentum_buffer");
	double momentum = 1;

	gt_tree_as_float(gt_tree_get(gt_saved_param_group(saved, 0), "momentum"), &momentum);
	return buffer ? buffer->kind == GT_TREE_NONE : momentum == 0;
}

/* Whether there was no update so far: all steps, whose loss was scaled, were skipped. */
static bool is_fresh(const struct gt_tree *scaler, const struct gt_tree *state)
{
	return has_entries(scaler) && !has_entries(state);
}

/* Return whether a parameter was updated. SGD without momentum has no state in checkpoints of other
 * programs, even after updates. */
static bool is_updated(
    const struct gt_snapshot *s, const struct gt_saved *saved, const struct gt_tree *state)
{
	if (saved->other_program && gt_optim_options(s->optim)->kind == GT_SGD)
		return has_entries(state);
	return s->step > 0 && !is_fresh(saved->scaler, state);
}

/* The states of one parameter, all that the optimizer keeps. */
static int load_states(const struct gt_snapshot *s, const struct gt_saved *saved,
    const struct gt_snapshot_match *match, size_t i, struct gt_err *err)
{
	const struct gt_slot *slot = match->groups.slots[i];
	const struct gt_tree *one =
	    gt_tree_get_int(gt_tree_get(saved->optimizer, "state"), match->places[i].number);
	const struct gt_optim_options *o = gt_optim_options(s->optim);
	int rc = 0;

	if (o->kind == GT_SGD && is_without_momentum(saved, one))
		return 0; /* the momentum begins with zeros */
	for (size_t k = 0; !rc && k < s->store->plane_count; k++) {
		const struct gt_optim_state_row *row =
		    gt_optim_state_of(o, slot, s->store->planes[k]->name);

		if (row)
			rc = load_state(
			    s, slot, gt_tree_get(one, row->name), row, match->order, err);
	}
	return rc;
}

static int load_optimizer(struct gt_snapshot *s, const struct gt_saved *saved,
    const struct gt_state_dict *sd, const struct gt_naming *naming, struct gt_err *err)
{
	const struct gt_tree *state = gt_tree_get(saved->optimizer, "state");
	struct gt_snapshot_match match = { 0 };
	bool updated = is_updated(s, saved, state);
	int64_t steps;
	int rc = 0;

	if (!state || state->kind != GT_TREE_DICT)
		rc = gt_err_set(err, GT_EFORMAT, "no optimizer state under 'optimizer'");
	if (!rc)
		rc = gt_snapshot_match(
		    &match, s, gt_optim_options(s->optim), saved, sd, naming, err);
	s->assumed = match.assumed;
	for (size_t i = 0; !rc && updated && i < match.groups.count; i++)
		rc = load_states(s, saved, &match, i, err);
	if (!rc)
		rc = count_steps(s, state, &match, &steps, err);
	if (!rc)
		rc = gt_optim_set_steps(s->optim, updated ? steps : 0, err);
	gt_snapshot_match_release(&match);
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

/* Load the loss scale. If the loss of the saved run was not scaled, the scale begins anew. */
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

/* gtrain writes all entries together. */
static int fail_entry(const char *key, struct gt_err *err)
{
	gt_err_set(err, GT_EFORMAT,
	    "it has no '%s': an earlier commit of gtrain " GT_VERSION " wrote the file", key);
	return gt_err_hint(err, "{init-from} starts a new run from its weights");
}

static int read_best(struct gt_snapshot *s, const struct gt_tree *best, struct gt_err *err)
{
	const struct {
		const char *key;
		int64_t *value;
	} counts[] = { { "step", &s->best_step },
		{ "evaluations_since", &s->evaluations_since_best },
		{ "evaluated_step", &s->evaluated_step } };
	int rc = gt_tree_read_float(gt_tree_get(best, "score"), &s->best_score, err);

	if (isnan(s->best_score)) /* no later score would be larger */
		return gt_err_set(err, GT_EFORMAT, "its score is nan");
	if (!rc)
		return best ? fail_entry("score", err) : 0;
	for (size_t i = 0; rc > 0 && i < sizeof(counts) / sizeof(*counts); i++) {
		rc = gt_tree_read_int(gt_tree_get(best, counts[i].key), counts[i].value, err);
		if (!rc)
			return fail_entry(counts[i].key, err);
	}
	if (rc > 0)
		rc = gt_tree_read_float(gt_tree_get(best, "loss"), &s->best_loss, err);
	if (!rc)
		return fail_entry("loss", err);
	if (isnan(s->best_loss))
		s->best_loss = -INFINITY;
	if (rc > 0 && s->evaluations_since_best > s->step) /* at most one for each step */
		return gt_err_set(err, GT_EFORMAT,
		    "its 'evaluations_since' is %lld, but the run has done only %lld steps",
		    (long long)s->evaluations_since_best, (long long)s->step);
	return rc < 0 ? rc : 0;
}

static void forget_best(struct gt_snapshot *s)
{
	s->best_step = s->evaluated_step = -1;
	s->evaluations_since_best = 0;
	s->best_score = s->best_loss = -INFINITY;
}

int gt_snapshot_load_position(struct gt_snapshot *s, const struct gt_tree *root, struct gt_err *err)
{
	int rc = gt_tree_read_int(gt_tree_get(root, "step"), &s->step, err);

	if (rc < 0)
		return gt_err_prefix(err, "'step'");
	if (!rc || s->step < 0) {
		gt_err_set(err, GT_EFORMAT, "no training checkpoint: it has no 'step'");
		return gt_err_hint(
		    err, "{init-from} starts a new run from a file with weights alone");
	}
	forget_best(s);
	return read_best(s, gt_tree_get(root, "best"), err) ? gt_err_prefix(err, "'best'") : 0;
}

/* Another program's file is loaded by the rules of the user, or without a prefix of its names. */
static int find_naming(struct gt_naming *out, const struct gt_snapshot *s,
    const struct gt_saved *saved, const struct gt_state_dict *sd, struct gt_err *err)
{
	const struct gt_weights_options options = { .maps = saved->other_program ? s->maps : NULL };

	return gt_weights_find_naming(out, s->store, s->model, sd, &options, err);
}

int gt_snapshot_load(struct gt_snapshot *s, const struct gt_saved *saved,
    struct gt_weights_report *report, struct gt_err *err)
{
	const struct gt_weights_options strict = { .finite = true,
		.maps = saved->other_program ? s->maps : NULL,
		.no_map = !saved->other_program,
		.no_strict = true,
		.no_base = s->no_base,
		.parallel = s->parallel };
	struct gt_naming naming = { 0 };
	struct gt_state_dict sd = { 0 };
	int rc = 0;

	*report = (struct gt_weights_report){ 0 };
	s->amp = amp_of_file(saved->config);
	forget_best(s);
	if (!saved->other_program)
		rc = gt_snapshot_load_position(s, saved->root, err);
	if (!rc)
		rc = gt_state_dict_find(&sd, saved->root, err);
	if (!rc)
		rc = find_naming(&naming, s, saved, &sd, err);
	if (!rc)
		rc = gt_weights_load(s->store, s->model, &sd, &strict, report, err);
	if (!rc)
		rc = load_optimizer(s, saved, &sd, &naming, err);
	if (!rc)
		rc = load_scaler(s, saved->scaler, err);
	if (!rc)
		rc = load_means(s, saved->root, err);
	gt_state_dict_release(&sd);
	return rc;
}

/* Parameters have weight decay as in the file. If it has none for any, that tells nothing. */
static void take_decay(struct gt_snapshot *s, const struct gt_snapshot_match *match)
{
	for (size_t i = 0; match->decays && i < match->groups.count; i++) {
		struct gt_slot *slot = &s->store->slots[match->groups.slots[i] - s->store->slots];

		s->own_decay |= slot->decay != match->places[i].decay;
		slot->decay = match->places[i].decay;
	}
}

/*
 * Set the member `decay` of each parameter to whether its group in the file has a weight decay
 * above 0, and s->own_decay if this changes a parameter. If no group has a weight decay, change
 * nothing.
 *
 * *lr is the learning rate for parameters whose lr_scale is 1. If a scheduler has changed the rate,
 * *lr is the rate before these changes (`initial_lr`). A group counts only if this run updates at
 * least one of its parameters.
 */
int gt_snapshot_take_groups(double *lr, struct gt_snapshot *s,
    const struct gt_optim_options *options, const struct gt_saved *saved, struct gt_err *err)
{
	struct gt_naming naming = { 0 };
	struct gt_snapshot_match match = { 0 };
	struct gt_state_dict sd = { 0 };
	int rc = gt_state_dict_find(&sd, saved->root, err);

	if (!rc)
		rc = find_naming(&naming, s, saved, &sd, err);
	if (!rc)
		rc = gt_snapshot_match(&match, s, options, saved, &sd, &naming, err);
	if (!rc)
		take_decay(s, &match);
	*lr = match.base_lr;
	gt_snapshot_match_release(&match);
	gt_state_dict_release(&sd);
	return rc;
}

int gt_snapshot_read_decay(struct gt_snapshot *s, const struct gt_tree *root, struct gt_err *err)
{
	const struct gt_tree *list = gt_tree_get(root, "no_weight_decay");

	if (!list)
		return 0;
	if (list->kind != GT_TREE_LIST)
		return gt_err_set(err, GT_EFORMAT, "'no_weight_decay' is no list of names");
	for (size_t i = 0; i < s->store->slot_count; i++)
		s->store->slots[i].decay = s->store->slots[i].role == GT_PARAMETER;
	for (size_t i = 0; i < list->seq.count; i++) {
		const struct gt_tree *name = list->seq.items[i].value;
		const struct gt_slot *slot = name->kind == GT_TREE_STRING
		                                 ? gt_store_find(s->store, name->string.bytes)
		                                 : NULL;

		if (!slot || slot->role != GT_PARAMETER)
			return gt_err_set(err, GT_EFORMAT,
			    "'no_weight_decay': element %zu is not the name of a parameter", i);
		s->store->slots[slot - s->store->slots].decay = false;
	}
	s->own_decay = true;
	return 0;
}
