/* resume.c - resume a run with other options, at the right place in the data. */
#include "lib/train/run/resume.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/opt_json.h"
#include "lib/ckpt/ckpt.h"
#include "lib/train/checkpoint/snapshot.h"
#include "lib/train/option_table.h"
#include "lib/train/state.h"

/* ---- whether the run may continue ---- */

static bool same_list(const json_t *wanted, const struct gt_tree *found)
{
	bool same = found->kind == GT_TREE_LIST && found->seq.count == json_array_size(wanted);

	for (size_t i = 0; same && i < found->seq.count; i++) {
		const struct gt_tree *item = found->seq.items[i].value;

		same = item->kind == GT_TREE_STRING &&
		       !strcmp(item->string.bytes, json_string_value(json_array_get(wanted, i)));
	}
	return same;
}

static bool same_option(const json_t *wanted, const struct gt_tree *found)
{
	int64_t whole;
	double real;

	if (json_is_string(wanted))
		return found->kind == GT_TREE_STRING &&
		       !strcmp(found->string.bytes, json_string_value(wanted));
	if (json_is_array(wanted))
		return same_list(wanted, found);
	if (json_is_boolean(wanted))
		return gt_tree_as_int(found, &whole) && whole == json_is_true(wanted);
	if (json_is_integer(wanted)) /* a double does not hold every seed */
		return gt_tree_as_int(found, &whole) && whole == json_integer_value(wanted);
	if (json_is_number(wanted))
		return gt_tree_as_float(found, &real) && real == json_number_value(wanted);
	return found->kind == GT_TREE_NONE;
}

/* Whether an option that may be left out was given: a flag, a list, or a number without
 * a default. */
static bool is_given(const json_t *value)
{
	return json_is_true(value) || json_is_real(value) || json_array_size(value);
}

/* A run that went on with other settings would silently be neither the old one nor a new one. */
static int check_config(const struct gt_tree *found, const json_t *wanted, struct gt_err *err)
{
	const struct gt_opt *row;
	const char *key;
	json_t *value;

	if (!found)
		return 0;
	json_object_foreach((json_t *)wanted, key, value)
	{
		const struct gt_tree *theirs = gt_tree_get(found, key);

		/* An option that is newer than the file was off then. */
		if (theirs ? same_option(value, theirs) : !is_given(value))
			continue;
		if (!strcmp(key, "model") && theirs->kind == GT_TREE_STRING &&
		    gt_model_same(json_string_value(value), theirs->string.bytes))
			continue;
		row = gt_opt_find(gt_train_option_table(), key, strlen(key));
		gt_err_set(
		    err, GT_EINVAL, "it was trained with another {%s}: %s", key, row->resume.text);
		return gt_err_hint(err,
		    "leave {%s} as it was; {init-from} starts a new run from its weights", key);
	}
	return 0;
}

/* The spec of an exported network is the same for all of them, so their graphs are compared. */
static int check_network(const struct gt_train *t, struct gt_err *err)
{
	if (!t->network || !t->ckpt.network || gt_model_same(t->network, t->ckpt.network))
		return 0;
	gt_err_set(err, GT_EINVAL, "it was trained with another {model}, '%s'", t->ckpt.network);
	return gt_err_hint(
	    err, "leave {model} as it was; {init-from} starts a new run from its weights");
}

/* A run keeps the rules for the names of its first weights, which are not those of its own. */
static int check_maps(const struct gt_tree *config, const char *const *maps, struct gt_err *err)
{
	const struct gt_tree *theirs = gt_tree_get(config, "map");
	json_t *given = json_array();
	bool same;

	for (; *maps; maps++)
		json_array_append_new(given, json_string(*maps));
	same = !json_array_size(given) || (theirs && same_list(given, theirs));
	json_decref(given);
	if (same)
		return 0;
	gt_err_set(err, GT_EINVAL, "{resume}: {map} is only for checkpoints of other programs");
	return gt_err_hint(err, "leave out {map}; 'gtrain ckpt rename' renames such keys");
}

/* Which samples are held out depends on their number. */
static int check_split(const struct gt_train *t, struct gt_err *err)
{
	int64_t before = t->resumed.data_samples, here = gt_train_data_samples(t);

	if (!t->whole || !before || before == here)
		return 0;
	gt_err_set(err, GT_EINVAL,
	    "{data} has %lld samples, but %lld in the training so far: {val-split} would hold out "
	    "samples that the run has trained on",
	    (long long)here, (long long)before);
	return gt_err_hint(
	    err, "give {data} as it was; {init-from} starts a new run from the weights");
}

/*
 * Check that the run may continue from its checkpoint (t->saved, t->resumed):
 *
 *   - The run must not end before the checkpoint's step.
 *   - An option that must not change (GT_RESUME_FIXED) must have the value that "config" of
 *     the checkpoint has. If "config" lacks the option, this run must not use the option either.
 *   - If this run has rules of --map, they must be equal to the rules in "config".
 *   - With --val-split, the training data must have the number of samples that is stored in the
 *     checkpoint.
 *
 * A checkpoint that another program wrote has no "config", so its options and rules are not
 * checked. Errors: GT_EINVAL, with a message that does not name the file.
 */
int gt_resume_check(const struct gt_train *t, struct gt_err *err)
{
	const char **maps = gt_load_maps(&t->o.load, err);
	json_t *fixed = maps ? gt_train_fixed_options(t, err) : NULL;
	int rc = fixed ? 0 : GT_ENOMEM;

	if (!rc && !t->saved.other_program)
		rc = check_config(t->saved.config, fixed, err);
	if (!rc)
		rc = check_network(t, err);
	if (!rc && !t->saved.other_program)
		rc = check_maps(t->saved.config, maps, err);
	if (!rc)
		rc = check_split(t, err);
	json_decref(fixed);
	free(maps);
	if (rc || t->resumed.step <= t->o.lr_schedule.total)
		return rc;
	gt_err_set(err, GT_EINVAL, "at step %lld, but the run ends at step %lld",
	    (long long)t->resumed.step, (long long)t->o.lr_schedule.total);
	return gt_err_hint(err, "to continue, set {steps} or {epochs} to a later end");
}

/* ---- the place in the data ---- */

static int64_t step_samples(const struct gt_train *t)
{
	return (int64_t)t->o.batch * t->o.accumulate * gt_session_data_world(&t->s);
}

/* The steps that an epoch had in the run of the checkpoint; 0: it does not tell. */
static int64_t old_steps_per_epoch(const struct gt_train *t)
{
	int64_t step = t->resumed.step_samples, samples = t->sampler.samples;
	const json_t *drop_last = json_object_get(t->resumed.config, "drop-last");

	if (!step)
		return 0;
	return json_is_true(drop_last) ? samples / step : samples / step + (samples % step != 0);
}

/* Compute the samples that were read of an epoch from the step, if the checkpoint does not have
 * their number. */
static void count_from_step(struct gt_snapshot_progress *p, const struct gt_train *t)
{
	int64_t here = step_samples(t), each = old_steps_per_epoch(t);

	if (!each || p->step_samples == here) {
		p->epoch = p->step / t->steps_per_epoch;
		p->samples = p->step % t->steps_per_epoch * here;
		return;
	}
	p->epoch = p->step / each;
	p->samples = p->step % each * p->step_samples;
}

/* Complete the progress of another program's checkpoint. Its batches may have been of another size,
 * so its epoch counts if epoch and step disagree. An epoch number may be that of the last epoch or
 * of the next. If only one of epoch and step is known, it gives the other. */
static void complete_progress(struct gt_snapshot_progress *p, const struct gt_train *t)
{
	int64_t each = t->steps_per_epoch, epoch = p->epoch, by_step;

	if (p->step < 0 && (epoch < 0 || __builtin_mul_overflow(epoch, each, &p->step)))
		p->step = 0;
	by_step = p->step / each;
	p->epoch = by_step;
	p->samples = p->step % each * step_samples(t);
	if (epoch >= 0 && by_step != epoch && by_step - 1 != epoch) {
		p->epoch = epoch;
		p->samples = 0;
	}
}

/*
 * Find the position in the training data where the run begins, and set t->from_step and
 * t->from_position for gt_resume_position(). A new run begins at position 0. A resumed run begins
 * after the samples that were read before the checkpoint was saved. For a resumed run, the caller
 * sets t->resumed and t->steps_per_epoch before the call. If another program wrote the checkpoint,
 * this function also sets t->resumed.step. It computes the step from the epoch if the checkpoint
 * lacks the step.
 *
 * Epochs of this run may have another number of steps than epochs before the checkpoint. The run
 * then also continues in the epoch of the checkpoint, after the samples that were read. If this
 * position is inside a step of this run, all samples of this step are read, some of them for the
 * second time.
 *
 * Errors: GT_EFORMAT if the epoch in the checkpoint is too large.
 */
int gt_resume_find_position(struct gt_train *t, struct gt_err *err)
{
	struct gt_snapshot_progress p = t->resumed;
	int64_t in_epoch;

	t->from_step = t->from_position = 0;
	if (!t->resumes)
		return 0;
	if (t->saved.other_program) {
		complete_progress(&p, t);
		t->resumed.step = p.step;
	} else if (p.samples < 0) {
		count_from_step(&p, t);
	}
	in_epoch = p.samples / step_samples(t);
	if (in_epoch > t->steps_per_epoch)
		in_epoch = t->steps_per_epoch;
	t->from_step = p.step;
	if (__builtin_mul_overflow(p.epoch, t->steps_per_epoch, &t->from_position) ||
	    __builtin_add_overflow(t->from_position, in_epoch, &t->from_position))
		return gt_err_set(
		    err, GT_EFORMAT, "%s: too many epochs: %lld", t->ckpt.path, (long long)p.epoch);
	return 0;
}

/* Return the position in the training data after `step` steps of the run. The unit of positions is
 * one step of this run, with this run's number of samples per step. So epoch 0 ends at position
 * t->steps_per_epoch. The position differs from `step` if the steps before the checkpoint had
 * another number of samples. */
int64_t gt_resume_position(const struct gt_train *t, int64_t step)
{
	return t->from_position + step - t->from_step;
}

/* ---- changes ---- */

enum { VALUE = 120 };

/* A value of config.json as one types it; without one, "none". */
static void print_option_value(char out[VALUE], const json_t *value)
{
	char *text = NULL;

	if (json_is_string(value))
		snprintf(out, VALUE, "%s", json_string_value(value));
	else if (json_is_boolean(value))
		snprintf(out, VALUE, "%s", json_is_true(value) ? "yes" : "no");
	else if (json_is_real(value))
		snprintf(out, VALUE, "%g", json_real_value(value));
	else if (json_is_array(value) && json_array_size(value))
		snprintf(out, VALUE, "%s", (text = gt_json_dumps(value, JSON_COMPACT)) ? text : "");
	else if (json_is_integer(value))
		snprintf(out, VALUE, "%lld", (long long)json_integer_value(value));
	else
		snprintf(out, VALUE, "none");
	free(text);
}

/* The effect of a change: numbers where the run has some. */
static void print_effect(char out[VALUE], const struct gt_train *t, const struct gt_opt *row)
{
	int64_t before = old_steps_per_epoch(t), after = t->steps_per_epoch;

	if (row->resume.says == GT_RESUME_SAYS_EPOCH && before == after)
		snprintf(out, VALUE, "an epoch has %lld steps, as before", (long long)after);
	else if (row->resume.says == GT_RESUME_SAYS_EPOCH && before)
		snprintf(out, VALUE, "an epoch has %lld steps now, not %lld", (long long)after,
		    (long long)before);
	else if (row->resume.says == GT_RESUME_SAYS_END)
		snprintf(
		    out, VALUE, "the run ends at step %lld", (long long)t->o.lr_schedule.total);
	else
		snprintf(out, VALUE, "%s", row->resume.text);
}

/* Whether an option has another value than in the checkpoint, which says its value then. */
static bool is_other(const struct gt_train *t, const char *option, const char *value)
{
	const json_t *old = json_object_get(t->resumed.config, option);
	const char *text = json_string_value(old);

	if (!old || !text || !value)
		return old && (text || value);
	return strcmp(text, value) != 0;
}

/*
 * Set t->best_step, best_score, best_loss, evaluations_since_best and evaluated_step from a loaded
 * checkpoint.
 *
 * If the evaluations used other validation data than this run, log a line and forget the best
 * evaluation, because the scores of different data cannot be compared. The same holds if they
 * measured another loss; for classes and tokens they measure cross-entropy with any --loss. Two
 * runs have the same validation data if their options --val are equal, or, without --val, their
 * options --data.
 */
void gt_resume_set_best(struct gt_train *t, const struct gt_snapshot *s)
{
	const char *option = t->o.val ? "val" : "data"; /* which {val-split} divides */
	bool data = is_other(t, "val", t->o.val) || (!t->o.val && is_other(t, "data", t->o.data));
	bool measured = t->s.input.form.target != GT_SAMPLE_CLASS || t->s.input.loss.output;
	bool loss = measured && is_other(t, "loss", t->o.loss);

	t->best_step = s->best_step;
	t->best_score = s->best_score;
	t->best_loss = s->best_loss;
	t->evaluated_step = t->best_step < 0 ? s->step : s->evaluated_step;
	t->evaluations_since_best = s->evaluations_since_best;
	if (t->best_step < 0 || !t->val || (!data && !loss))
		return;
	if (!gt_train_rank(t))
		gt_log_info(t->log,
		    "{%s}: the best evaluation so far, at step %lld, used %s and no longer counts",
		    data ? option : "loss", (long long)t->best_step,
		    data ? "other data" : "another loss");
	t->best_step = -1;
	t->best_score = t->best_loss = -INFINITY;
	t->evaluations_since_best = 0;
}

/* --amp has a warning of its own; an option that was unset and excludes another goes with it. */
static bool is_told(const struct gt_opt *row, const json_t *value)
{
	return row->resume.kind != GT_RESUME_FIXED && strcmp(row->name, "amp") &&
	       !(json_is_null(value) && row->resume.says == GT_RESUME_SAYS_END);
}

/* The first option that changed of those that shape the learning rate; NULL: none. Others in this
 * list may have followed it. */
static const char *changed_rate(const struct gt_train *t, const json_t *config)
{
	static const char *const options[] = { "lr-schedule", "lr", "warmup", "min-lr", "lr-step",
		"lr-gamma", "decay-steps" };

	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++) {
		const json_t *old = json_object_get(t->resumed.config, options[i]);
		const json_t *value = json_object_get(config, options[i]);

		if (old && value && !gt_opt_json_equal(old, value))
			return options[i];
	}
	return NULL;
}

/* The schedule is a function of the step, as if it had been used from the first step on: where the
 * last step had another rate than it says, the rate jumps. */
static void log_rate(const struct gt_train *t, const json_t *config)
{
	const struct gt_schedule *s = &t->o.lr_schedule;
	const double before = t->resumed.lr, next = gt_schedule_lr(s, t->step);
	const double follows = t->resumed.other_program ? next : gt_schedule_lr(s, t->step - 1);
	const char *option = changed_rate(t, config), *schedule = gt_schedule_names[s->kind];
	char change[VALUE];

	if (t->step < 1 || t->step >= s->total ||
	    !(fabs(follows - before) > fmax(follows, before) / 100))
		return;
	snprintf(change, sizeof(change), "the learning rate goes from %.3g to %.3g at step %lld",
	    before, next, (long long)t->step + 1);
	if (t->resumed.other_program)
		gt_log_info(t->log,
		    "%s, because the next steps follow {lr-schedule} %s of this run", change,
		    schedule);
	else if (option)
		gt_log_info(t->log, "%s, because {%s} changed", change, option);
	else
		gt_log_info(t->log, "%s, because the %s now ends at step %lld", change, schedule,
		    (long long)s->total);
}

/* `config` holds the options of this run. For each option that is not GT_RESUME_FIXED and has
 * another value in `config` than in the checkpoint, log a line with the name of the option, both
 * values and the effect. The option `amp` is left out, because gt_train_open() logs a warning about
 * `amp`. `epochs` and `steps` are left out if they have no value in `config`. If the
 * learning rate of the next step does not continue that of the last step, log a line with both
 * rates and the reason. */
void gt_resume_log_changes(const struct gt_train *t, const json_t *config)
{
	char from[VALUE], to[VALUE], effect[VALUE];

	for (const struct gt_opt *row = gt_train_option_table(); row->type != GT_OPT_END; row++) {
		const json_t *old = json_object_get(t->resumed.config, row->name);
		const json_t *value = json_object_get(config, row->name);

		if (!old || !value || gt_opt_json_equal(old, value) || !is_told(row, value))
			continue;
		print_option_value(from, old);
		print_option_value(to, value);
		print_effect(effect, t, row);
		gt_log_info(t->log, "{%s} %s -> %s: %s", row->name, from, to, effect);
	}
	log_rate(t, config);
}
