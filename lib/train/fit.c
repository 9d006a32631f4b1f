/* fit.c - options that make a training run need less memory, tried by plans that are never run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/train/memory_limit.h"
#include "lib/train/state.h"

/* The memory of a run with these options: that of this rank. */
static int plan_other(
    uint64_t *bytes, const struct gt_train *t, const struct gt_train_options *o, struct gt_err *err)
{
	struct gt_train other;
	struct gt_session_memory m;
	int rc = gt_train_plan_as(&other, t, o, gt_train_rank(t), err);

	if (!rc)
		gt_train_memory(&m, &other);
	*bytes = rc ? 0 : m.total;
	gt_session_plan_close(&other.s);
	return rc;
}

static bool try_options(struct gt_trials *trials, const struct gt_train *t,
    const struct gt_train_options *o, const char *words)
{
	uint64_t bytes = 0;
	int rc = plan_other(&bytes, t, o, GT_ERR_IGNORED);

	return gt_trial_add(trials, rc, bytes, words);
}

/* The next smaller batch to try: a divisor between a half and a quarter, so that accumulation makes
 * up for it exactly; else a half. */
static int next_batch(int batch, int whole)
{
	for (int next = batch / 2; next > batch / 4; next--)
		if (whole % next == 0)
			return next;
	return batch / 2;
}

/* Accumulation makes up for a smaller batch, as far as the option goes. With --reproducible, all
 * micro-batches of a step are in one plan: only fewer samples in a step need less memory. */
static void set_batch(struct gt_train_options *o, int batch, char words[GT_TRIAL_WORDS])
{
	int64_t accumulate = (int64_t)o->accumulate * ((o->batch + batch / 2) / batch);

	o->batch = batch;
	if (o->parallel.reproducible || accumulate > GT_TRAIN_MAX_BATCHES) {
		gt_trial_words(words, "{batch} %d, of fewer samples in a step", batch);
		return;
	}
	o->accumulate = (int)accumulate;
	if (o->global_batch)
		gt_trial_words(words, "{batch} %d", batch);
	else
		gt_trial_words(words, "{batch} %d {accumulate} %d", batch, o->accumulate);
}

/* The largest batch that fits, beside other options, which `beside` names with a blank behind them;
 * the smallest one, if none does. */
static bool try_batches(struct gt_trials *trials, const struct gt_train *t,
    const struct gt_train_options *from, const char *beside)
{
	char batch[GT_TRIAL_WORDS], words[2 * GT_TRIAL_WORDS];

	for (int b = from->batch; b > 1;) {
		struct gt_train_options o = *from;

		b = next_batch(b, from->batch);
		set_batch(&o, b, batch);
		snprintf(words, sizeof(words), "%s%s", beside, batch);
		if (try_options(trials, t, &o, words))
			return true;
		if (b > 1)
			gt_trial_drop_last(trials);
	}
	return false;
}

/* ZeRO is for several ranks: those there are, or one for each GPU. */
static int zero_ranks(const struct gt_train *t)
{
	int world = gt_train_world(t);

	return world > 1 || t->s.device->backend->host_memory ? world
	                                                      : t->s.device->backend->count();
}

static bool try_zero(struct gt_trials *trials, const struct gt_train *t, int ranks)
{
	static const enum gt_parallel_kind kinds[] = { GT_PARALLEL_ZERO1, GT_PARALLEL_ZERO2,
		GT_PARALLEL_ZERO3 };
	bool fits = false, started = gt_train_world(t) > 1;
	char words[GT_TRIAL_WORDS];

	for (size_t i = 0; ranks > 1 && i < sizeof(kinds) / sizeof(*kinds); i++) {
		const char *name = gt_parallel_names[kinds[i]];
		struct gt_train_options o = t->o;

		if (t->o.parallel.kind == kinds[i] && started)
			continue;
		o.parallel.kind = kinds[i];
		o.nproc = ranks;
		if (started)
			gt_trial_words(words, "{parallel} %s", name);
		else
			gt_trial_words(
			    words, "{device} cuda {nproc} %d {parallel} %s", ranks, name);
		fits |= try_options(trials, t, &o, words);
	}
	return fits;
}

/* Together, where none of them alone is enough. */
static void try_all(struct gt_trials *trials, const struct gt_train *t)
{
	char parallel[GT_TRIAL_WORDS] = "", words[GT_TRIAL_WORDS + 1];
	struct gt_train_options o = t->o;

	o.recompute = GT_RECOMPUTE_ALL;
	if (gt_train_world(t) > 1) {
		o.parallel.kind = GT_PARALLEL_ZERO3;
		gt_trial_words(parallel, "{parallel} %s", gt_parallel_names[o.parallel.kind]);
	}
	gt_trial_words(words, "{recompute}%s%.40s", *parallel ? " " : "", parallel);
	if (!try_options(trials, t, &o, words) && o.batch > 1) {
		gt_trial_drop_last(trials);
		strcat(words, " ");
		try_batches(trials, t, &o, words);
	}
}

void gt_train_try_others(const struct gt_session *s, void *self, struct gt_trials *trials)
{
	const struct gt_train *t = self;
	struct gt_train_options o = t->o;
	int ranks = zero_ranks(t);
	char words[GT_TRIAL_WORDS];
	bool fits = false;

	(void)s;
	o.recompute = GT_RECOMPUTE_ALL;
	gt_trial_words(words, "{recompute}");
	if (t->o.recompute == GT_RECOMPUTE_NONE)
		fits = try_options(trials, t, &o, words);
	fits |= try_batches(trials, t, &t->o, "");
	fits |= try_zero(trials, t, ranks);
	if (!fits)
		try_all(trials, t);
}
