/* adopt.c - continue a run from another program's checkpoint. */
#include "lib/train/run/adopt.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/text.h"
#include "lib/train/run/resume.h"

/* ---- which optimizer it is ---- */

/* The keys that the groups of torch.optim's optimizers have, and have not. Adam and AdamW have the
 * same ones before PyTorch 2.7. */
static const struct {
	enum gt_optim_kind kind;
	const char *has[3], *lacks[3];
} marks[] = {
	{ GT_MUON, { "ns_steps" }, { NULL } },
	{ GT_SGD, { "momentum", "dampening" }, { "betas", "alpha", "ns_steps" } },
	{ GT_ADAM, { "betas", "amsgrad" }, { "momentum_decay", "ns_steps" } },
};

static bool has_marks(const struct gt_tree *group, size_t k)
{
	for (int i = 0; i < 3; i++)
		if ((marks[k].has[i] && !gt_tree_get(group, marks[k].has[i])) ||
		    (marks[k].lacks[i] && gt_tree_get(group, marks[k].lacks[i])))
			return false;
	return true;
}

/* The optimizer's name; of Adam and AdamW, which may look alike, the one that the run wants. */
static const char *name_of(const struct gt_tree *group, enum gt_optim_kind wanted)
{
	const struct gt_tree *decoupled = gt_tree_get(group, "decoupled_weight_decay");

	for (size_t k = 0; k < sizeof(marks) / sizeof(*marks); k++) {
		if (!has_marks(group, k))
			continue;
		if (marks[k].kind != GT_ADAM)
			return gt_optim_names[marks[k].kind];
		if (decoupled && decoupled->kind == GT_TREE_BOOL)
			return gt_optim_names[decoupled->boolean ? GT_ADAMW : GT_ADAM];
		return gt_optim_names[wanted == GT_ADAM ? GT_ADAM : GT_ADAMW];
	}
	return NULL;
}

/* Name the settings of an optimizer that nobody here knows. */
static int fail_unknown(const struct gt_tree *group, struct gt_err *err)
{
	char names[120] = "";
	size_t used = 0;

	for (size_t i = 0; group->kind == GT_TREE_DICT && i < group->seq.count; i++) {
		const struct gt_tree *key = group->seq.items[i].key;

		if (key->kind == GT_TREE_STRING && used < sizeof(names))
			used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s",
			    used ? ", " : "", key->string.bytes);
	}
	gt_err_set(err, GT_EINVAL, "its optimizer, with the settings %s, is none of this program",
	    *names ? names : "of no name");
	return gt_err_hint(err, "{init-from} starts a new run from its weights alone");
}

static int check_kind(const struct gt_tree *group, enum gt_optim_kind kind, struct gt_err *err)
{
	const char *name = name_of(group, kind);

	if (!name)
		return fail_unknown(group, err);
	if (!strcmp(name, gt_optim_names[kind]))
		return 0;
	gt_err_set(err, GT_EINVAL, "its optimizer is %s, not %s", name, gt_optim_names[kind]);
	return gt_err_hint(err,
	    "{optimizer} %s goes on with it; {init-from} starts a new run from its weights", name);
}

/* ---- its settings ---- */

static bool number(double *out, const struct gt_tree *group, const char *key)
{
	return gt_tree_as_float(gt_tree_get(group, key), out);
}

static int check_settings(const struct gt_tree *group, struct gt_err *err)
{
	enum rule { ZERO, NOT_NEGATIVE };
	static const struct {
		const char *key;
		enum rule rule;
	} settings[] = {
		{ "amsgrad", ZERO },
		{ "maximize", ZERO },
		{ "dampening", ZERO },
		{ "lr", NOT_NEGATIVE },
		{ "initial_lr", NOT_NEGATIVE },
		{ "weight_decay", NOT_NEGATIVE },
		{ "momentum", NOT_NEGATIVE },
		{ "eps", NOT_NEGATIVE },
		{ "nesterov", NOT_NEGATIVE },
	};

	for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++) {
		const char *key = settings[i].key;
		const struct gt_tree *node = gt_tree_get(group, key);
		double value;

		if (!node || node->kind == GT_TREE_NONE)
			continue;
		if (!gt_tree_as_float(node, &value))
			return gt_err_set(
			    err, GT_EFORMAT, "its optimizer's setting '%s' is not a number", key);
		if (settings[i].rule == ZERO && value != 0)
			return gt_err_set(err, GT_ENOTSUP,
			    "its optimizer has %s=%g, which is not supported", key,
			    gt_text_real(value));
		if (settings[i].rule == NOT_NEGATIVE && !(value >= 0 && isfinite(value)))
			return gt_err_set(err, GT_EFORMAT,
			    "its optimizer has %s=%g, which is not a finite number of 0 or more",
			    key, gt_text_real(value));
	}
	return 0;
}

static bool is_list(const struct gt_tree *node)
{
	return node->kind == GT_TREE_LIST || node->kind == GT_TREE_TUPLE;
}

/* Numbers, yes or no, or a pair of numbers; a setting of another type is no reason. */
static bool same_setting(const struct gt_tree *a, const struct gt_tree *b)
{
	double x, y;

	if (is_list(a) && is_list(b) && a->seq.count == b->seq.count) {
		for (size_t i = 0; i < a->seq.count; i++)
			if (!same_setting(a->seq.items[i].value, b->seq.items[i].value))
				return false;
		return true;
	}
	return !gt_tree_as_float(a, &x) || !gt_tree_as_float(b, &y) || x == y;
}

/* The groups may differ in the learning rate and in weight decay, but in nothing else. */
static int check_groups(const struct gt_saved *s, struct gt_err *err)
{
	static const char *const shared[] = { "betas", "eps", "momentum", "nesterov" };
	const struct gt_tree *first = gt_saved_param_group(s, 0), *group;

	for (size_t i = 0; (group = gt_saved_param_group(s, i)); i++) {
		if (check_settings(group, err))
			return err->code;
		for (int k = 0; k < 4; k++) {
			const struct gt_tree *a = gt_tree_get(first, shared[k]);
			const struct gt_tree *b = gt_tree_get(group, shared[k]);

			if (!a || !b || same_setting(a, b))
				continue;
			gt_err_set(err, GT_ENOTSUP,
			    "the groups 0 and %zu of its optimizer have different %s", i,
			    shared[k]);
			return gt_err_hint(
			    err, "{init-from} starts a new run from its weights alone");
		}
	}
	return 0;
}

/* Take a setting over unless it is given. */
static void take(struct gt_train *t, unsigned bit, double *field, double value)
{
	if (t->o.given & bit || !(value >= 0))
		return;
	*field = value;
	t->o.given |= bit;
}

/* Groups may have no weight decay, as biases often have; the others have the same one. */
static int find_weight_decay(double *out, const struct gt_saved *s, bool given, struct gt_err *err)
{
	const struct gt_tree *group;
	double value;

	*out = 0;
	for (size_t i = 0; (group = gt_saved_param_group(s, i)); i++) {
		if (!number(&value, group, "weight_decay") || value == 0 || value == *out)
			continue;
		if (*out > 0 && !given) {
			gt_err_set(err, GT_ENOTSUP,
			    "the groups of its optimizer have weight decays of %g and %g", *out,
			    value);
			return gt_err_hint(err, "{weight-decay} X replaces these values by X");
		}
		*out = value;
	}
	return 0;
}

static void warn_of_others(const struct gt_train *t, const struct gt_tree *group)
{
	const struct gt_optim_options *o = &t->o.optim;
	const struct gt_tree *betas = gt_tree_get(group, "betas");
	double a = o->beta1, b = o->beta2, eps = o->eps, nesterov = o->nesterov;

	if (gt_train_rank(t))
		return;
	if (betas && is_list(betas) && betas->seq.count == 2) {
		gt_tree_as_float(betas->seq.items[0].value, &a);
		gt_tree_as_float(betas->seq.items[1].value, &b);
	}
	if (o->kind != GT_SGD && (a != o->beta1 || b != o->beta2))
		gt_log_warn(
		    t->log, "its betas were %g,%g; {betas} %g,%g counts", a, b, o->beta1, o->beta2);
	if (o->kind != GT_SGD && number(&eps, group, "eps") && eps != o->eps)
		gt_log_warn(t->log, "its eps was %g; {eps} %g counts", eps, o->eps);
	if (o->kind == GT_SGD && number(&nesterov, group, "nesterov") && nesterov != o->nesterov)
		gt_log_warn(t->log, "its momentum was %sNesterov's, and now is%s",
		    nesterov != 0 ? "" : "not ", nesterov != 0 ? " not" : "");
}

int gt_foreign_apply_optimizer(struct gt_train *t, struct gt_err *err)
{
	const struct gt_tree *group = gt_saved_param_group(&t->saved, 0);
	double momentum = -1, decay;

	if (check_kind(group, t->o.optim.kind, err) || check_groups(&t->saved, err) ||
	    find_weight_decay(&decay, &t->saved, t->o.given & GT_GIVEN_WEIGHT_DECAY, err))
		return err->code;
	number(&momentum, group, "momentum");
	take(t, GT_GIVEN_MOMENTUM, &t->o.optim.momentum, momentum);
	take(t, GT_GIVEN_WEIGHT_DECAY, &t->o.optim.weight_decay, decay);
	warn_of_others(t, group);
	return 0;
}

int gt_foreign_apply_lr(struct gt_train *t, struct gt_err *err)
{
	const char **maps = gt_load_maps(&t->o.load, err);
	const struct gt_snapshot s = {
		.store = t->s.store, .model = t->s.model, .maps = maps && *maps ? maps : NULL
	};
	double lr;

	if (!maps)
		return GT_ENOMEM;
	/* gt_snapshot_load() reports an optimizer that does not match. It loads the weights first,
	 * so a checkpoint of another model is reported as such. */
	if (!gt_snapshot_find_lr(&lr, &s, &t->o.optim, &t->saved, GT_ERR_IGNORED) && lr > 0)
		take(t, GT_GIVEN_LR, &t->o.lr_schedule.lr, lr);
	free(maps);
	return 0;
}

/* ---- report ---- */

static size_t count_states(const struct gt_saved *s)
{
	const struct gt_tree *state = gt_tree_get(s->optimizer, "state");

	return state && state->kind == GT_TREE_DICT ? state->seq.count : 0;
}

void gt_foreign_log(
    const struct gt_train *t, const struct gt_weights_report *report, size_t undecayed)
{
	const struct gt_saved *s = &t->saved;
	double lr = gt_schedule_lr(&t->o.lr_schedule, t->step);
	int64_t position = gt_resume_position(t, t->step);

	if (gt_train_rank(t))
		return;
	gt_log_info(
	    t->log, "a checkpoint of %s%s%s", s->form, *report->note ? ": " : "", report->note);
	gt_log_info(t->log,
	    "taken: %zu tensors of weights, %s with states of %zu parameters, step %lld, epoch "
	    "%lld, lr %g",
	    t->s.store->slot_count, gt_optim_names[t->o.optim.kind], count_states(s),
	    (long long)t->step, (long long)(position / t->steps_per_epoch), lr);
	if (undecayed)
		gt_log_warn(t->log,
		    "weight decay: %zu parameters (biases and norms) had it in the checkpoint, and have "
		    "none in this run",
		    undecayed);
	if (s->scheduler)
		gt_log_info(t->log, "its schedule is left: the next steps follow {lr-schedule} %s",
		    gt_schedule_names[t->o.lr_schedule.kind]);
	if (*s->left)
		gt_log_info(t->log, "left: %s", s->left);
}
