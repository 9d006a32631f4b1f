/* adopt.c - continue a run from another program's checkpoint. */
#include "lib/train/checkpoint/adopt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/train/checkpoint/settings.h"
#include "lib/train/run/resume.h"

/* ---- which optimizer it is ---- */

/* Return whether the optimizer may have written the groups (gt_optim_rule.group). */
static bool may_have_written(const struct gt_tree *group, const struct gt_optim_rule *rule)
{
	const struct gt_tree *decoupled = gt_tree_get(group, "decoupled_weight_decay");

	if (!rule->group.has[0])
		return false;
	for (int i = 0; i < GT_GROUP_KEYS; i++)
		if ((rule->group.has[i] && !gt_tree_get(group, rule->group.has[i])) ||
		    (rule->group.lacks[i] && gt_tree_get(group, rule->group.lacks[i])))
			return false;
	return !decoupled || decoupled->kind != GT_TREE_BOOL ||
	       decoupled->boolean == rule->decoupled;
}

/* Return the name of the optimizer that wrote the groups, or NULL. Adam and AdamW have the same
 * keys before PyTorch 2.7: then return the optimizer of the run if it is one of them, and otherwise
 * the later row, AdamW. */
static const char *find_optimizer_name(const struct gt_tree *group, enum gt_optim_kind wanted)
{
	if (may_have_written(group, gt_optim_rule(wanted)))
		return gt_optim_names[wanted];
	for (int kind = GT_OPTIM_KINDS - 1; kind >= 0; kind--)
		if (may_have_written(group, gt_optim_rule((enum gt_optim_kind)kind)))
			return gt_optim_names[kind];
	return NULL;
}

/* Name the settings of an optimizer that gtrain does not have. */
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
	gt_err_set(err, GT_EINVAL, "gtrain does not have its optimizer; the settings in it are: %s",
	    *names ? names : "none");
	return gt_err_hint(err, "{init-from} starts a new run from its weights alone");
}

static int check_kind(const struct gt_tree *group, enum gt_optim_kind kind, struct gt_err *err)
{
	const char *name = find_optimizer_name(group, kind);

	if (!name)
		return fail_unknown(group, err);
	if (!strcmp(name, gt_optim_names[kind]))
		return 0;
	gt_err_set(err, GT_EINVAL, "its optimizer is %s, not %s", name, gt_optim_names[kind]);
	return gt_err_hint(err,
	    "{optimizer} %s goes on with it; {init-from} starts a new run from its weights", name);
}

/* ---- its settings ---- */

int gt_adopt_optimizer(struct gt_train *t, struct gt_err *err)
{
	const struct gt_tree *group = gt_saved_param_group(&t->saved, 0);
	int rc = check_kind(group, t->o.optim.kind, err);

	return rc ? rc : gt_adopt_settings(t, err);
}

static int take_lr(struct gt_train *t, double lr, struct gt_err *err)
{
	if (t->o.lr_schedule.lr != 0)
		return 0;
	if (lr == 0) {
		gt_err_set(err, GT_EINVAL, "its optimizer has the learning rate 0");
		return gt_err_hint(err, "{lr} X sets the highest rate of this run");
	}
	t->o.lr_schedule.lr = lr;
	return 0;
}

static int take_groups(struct gt_train *t, struct gt_snapshot *s, struct gt_err *err)
{
	const char **maps = gt_load_maps(&t->o.load, err);
	double lr;
	int rc = maps ? 0 : GT_ENOMEM;

	s->maps = maps && *maps ? maps : NULL;
	/* gt_snapshot_load() reports an optimizer that does not match. It loads the weights first,
	 * so a checkpoint of another model is reported as such. */
	if (!rc && !gt_snapshot_take_groups(&lr, s, &t->o.optim, &t->saved, GT_ERR_IGNORED))
		rc = take_lr(t, lr, err);
	free(maps);
	return rc;
}

int gt_adopt_groups(struct gt_train *t, struct gt_err *err)
{
	struct gt_snapshot s = { .store = t->s.store, .model = t->s.model };
	int rc = t->saved.other_program ? take_groups(t, &s, err)
	                                : gt_snapshot_read_decay(&s, t->saved.root, err);

	t->own_decay = s.own_decay;
	return rc ? gt_err_prefix(err, "%s", t->ckpt.path) : 0;
}

/* ---- report ---- */

static size_t count_states(const struct gt_saved *s)
{
	const struct gt_tree *state = gt_tree_get(s->optimizer, "state");

	return state && state->kind == GT_TREE_DICT ? state->seq.count : 0;
}

/* Log which parameters have weight decay. */
static void log_decay(const struct gt_train *t, bool assumed)
{
	const struct gt_store *store = t->s.store;
	size_t decayed = 0, others = 0;

	for (size_t i = 0; i < store->slot_count; i++)
		if (store->slots[i].role == GT_PARAMETER)
			store->slots[i].decay ? decayed++ : others++;
	if (t->o.optim.weight_decay > 0)
		gt_log_info(t->log, "weight decay %g: %zu parameters have it, %zu have none%s",
		    t->o.optim.weight_decay, decayed, others,
		    assumed ? ", as in a new run, because the file does not tell which ones" : "");
}

void gt_adopt_log(const struct gt_train *t, const struct gt_weights_report *report, bool assumed)
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
	log_decay(t, assumed);
	if (s->scheduler)
		gt_log_info(t->log,
		    "its schedule is not used: the next steps follow {lr-schedule} %s",
		    gt_schedule_names[t->o.lr_schedule.kind]);
	if (*s->left)
		gt_log_info(t->log, "these parts of it are not used: %s", s->left);
}
