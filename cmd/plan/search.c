/* search.c - try layouts, and keep the fastest that fit. */
#include "cmd/plan/search.h"

#include <stdlib.h>
#include <string.h>

#include "cmd/plan/trials.h"
#include "lib/base/text.h"
#include "lib/base/thread_pool.h"

/*
 * Layouts are tried by their numbers of tensor-parallel ranks t, powers of two within a host, and
 * of stages p. The other ranks are data-parallel, and each has the same samples in a step. For each
 * (t, p), micro-batches (with stages: chunks) grow from one sample on, until they do not fit or are
 * no faster. Each is planned with the modes in an order of less memory, and the search goes on to
 * the next mode only if the last one does not fit; zero1, which divides the update, is tried if the
 * update takes more than a twentieth of a step. If a mode does not fit, all blocks are computed
 * again before the next mode is tried.
 *
 * Whether a layout is tried depends on those before it. So the search runs twice: first ahead, with
 * the (t, p) divided among threads, each of which knows the layouts that are planned so far; then
 * in order, on one thread, which finds nearly all of its layouts planned. Only the second run
 * counts, so the result is the same for any number of threads.
 */

enum {
	STAGES_MOST = 32,
	CHUNKS_MOST = 32, /* a plan has the nodes of all chunks */
	SIZES_MOST = 32,  /* micro-batches of 2^i samples */
	RUNS_MOST = 512,
	PATIENCE = 2 /* end after so many sizes without a faster one */
};

/* The numbers of ranks of a search on two axes. */
struct axes {
	int tensor, stages;
};

struct search {
	const struct gt_plan_command *c;
	const struct gt_cluster *cluster;
	int64_t samples;
	struct gt_plan_trials *trials;
	struct axes *axes; /* [axes_count] all of them, in their order */
	size_t axes_count;
	size_t at;  /* index in `axes` of those of the present layouts */
	bool ahead; /* a run whose result is only the trials */

	/* The layouts that were tried: */
	const struct gt_plan_trial *best[GT_PLAN_BEST]; /* [count] that fit, the fastest first */
	int count, tried;
	uint64_t least_bytes; /* memory of the smallest one */
	double update_part;   /* part of the step of the last one that the update takes */
	/* with one stage, and the present number of tensor-parallel ranks: seconds of computation
	 * for a sample in micro-batches of 2^i; 0: not known */
	double sample_s[SIZES_MOST];
	struct gt_err first; /* why the first layout is not possible */
};

static bool given(const struct search *s, const char *name)
{
	return gt_opts_source(&s->c->env.opts, name) != GT_OPT_DEFAULT;
}

/* ---- layouts that are too slow ---- */

/* Return the i of 2^i. */
static int log2_of(int64_t size)
{
	int i = 0;

	while (size > 1 && i < SIZES_MOST - 1) {
		size /= 2;
		i++;
	}
	return i;
}

static void note_speed(struct search *s, const struct gt_plan_layout *l)
{
	const struct gt_train_options *o = &l->options;

	if (l->outline.stages == 1 && !o->recompute && o->parallel.tensor == s->axes[s->at].tensor)
		s->sample_s[log2_of(o->batch)] =
		    l->times->compute_s / ((double)o->batch * o->accumulate);
}

/*
 * Return whether a pipeline is slower than the layouts that were kept. Without communication, p
 * stages that are equally fast compute c chunks in (c + p - 1) / c of the time of their samples.
 * The kept layouts are compared with 3/4 of that, as stages differ.
 */
static bool is_too_slow(const struct search *s, const struct gt_train_options *o, int64_t size)
{
	double stages = o->parallel.stages, chunks = (double)(o->batch / size);
	double sample_s = s->sample_s[log2_of(size)], step_s;

	if (s->count < GT_PLAN_BEST || stages < 2 || !(sample_s > 0))
		return false;
	step_s = sample_s * o->batch / stages * (chunks + stages - 1) / chunks;
	return 0.75 * step_s > (double)s->samples / s->best[GT_PLAN_BEST - 1]->layout.samples_per_s;
}

/* ---- one layout ---- */

/* Insert a layout that fits among the best, unless these are faster. */
static void keep(struct search *s, const struct gt_plan_trial *trial)
{
	double rate = trial->layout.samples_per_s;
	int i = s->count;

	if (i == GT_PLAN_BEST && s->best[i - 1]->layout.samples_per_s >= rate)
		return;
	if (i == GT_PLAN_BEST)
		i--;
	else
		s->count++;
	for (; i > 0 && s->best[i - 1]->layout.samples_per_s < rate; i--)
		s->best[i] = s->best[i - 1];
	s->best[i] = trial;
}

/* Count a layout as tried. */
static void note_trial(struct search *s, const struct gt_plan_trial *trial)
{
	const struct gt_plan_layout *l = &trial->layout;

	if (trial->why.code) {
		if (!s->first.code)
			s->first = trial->why;
		return;
	}
	s->tried++;
	note_speed(s, l);
	if (!s->least_bytes || l->memory_bytes < s->least_bytes)
		s->least_bytes = l->memory_bytes;
	if (!l->fits)
		return;
	s->update_part = l->times[l->slowest].update_s / l->times[l->slowest].step_s;
	keep(s, trial);
}

/* Plan with these options; *rate is the rate if it fits, else 0. A layout that is not possible does
 * not fit. Errors: GT_ENOMEM. */
static int try_options(
    struct search *s, const struct gt_train_options *o, double *rate, struct gt_err *err)
{
	const struct gt_plan_trial *trial;
	int rc = gt_plan_try(&trial, s->trials, o, s->at, err);

	*rate = 0;
	if (rc)
		return rc;
	note_trial(s, trial);
	if (!trial->why.code && trial->layout.fits)
		*rate = trial->layout.samples_per_s;
	return 0;
}

/* Try a mode, and, if it does not fit, try it with all blocks computed again. */
static int try_mode(struct search *s, const struct gt_train_options *options,
    enum gt_parallel_kind kind, double *rate, struct gt_err *err)
{
	struct gt_train_options o = *options;
	int rc;

	o.parallel.kind = kind;
	rc = try_options(s, &o, rate, err);
	if (rc || *rate > 0 || given(s, "recompute"))
		return rc;
	o.recompute = GT_RECOMPUTE_ALL;
	return try_options(s, &o, rate, err);
}

static int try_modes(
    struct search *s, const struct gt_train_options *o, int data, double *best, struct gt_err *err)
{
	static const enum gt_parallel_kind modes[] = { GT_PARALLEL_DDP, GT_PARALLEL_ZERO1,
		GT_PARALLEL_ZERO2, GT_PARALLEL_ZERO3 };
	double rate;
	int rc = 0;

	*best = 0;
	if (given(s, "parallel") || data == 1)
		return try_mode(s, o, o->parallel.kind, best, err);
	for (size_t i = 0; !rc && i < sizeof(modes) / sizeof(*modes); i++) {
		if (*best > 0 && (modes[i] > GT_PARALLEL_ZERO1 || s->update_part < 0.05))
			break;
		rc = try_mode(s, o, modes[i], &rate, err);
		if (rate > *best)
			*best = rate;
	}
	return rc;
}

/* ---- sizes ---- */

/* Set batch, accumulation and chunks for micro-batches, or chunks, of `size` samples; `samples` are
 * those of a rank in a step. Return false if there is no such layout. A pipeline computes all
 * samples in one run, as it is empty between runs. */
static bool set_size(
    const struct search *s, struct gt_train_options *o, int64_t samples, int64_t size)
{
	int64_t parts = samples / size;

	if (samples % size || samples > GT_TRAIN_MAX_BATCHES)
		return false;
	if (o->parallel.stages > 1) {
		o->batch = (int)samples;
		o->accumulate = 1;
		if (!given(s, "chunks"))
			o->parallel.chunks = (int)parts;
		return parts <= CHUNKS_MOST;
	}
	o->batch = (int)size;
	o->accumulate = (int)parts;
	return parts <= RUNS_MOST;
}

static void learn_trial(void *self, const struct gt_plan_trial *trial)
{
	struct search *s = self;

	if (trial->group <= s->at)
		note_trial(s, trial);
}

/* Take the layouts of these axes and earlier ones that any thread has tried so far. */
static void learn(struct search *s)
{
	s->count = 0;
	memset(s->sample_s, 0, sizeof(s->sample_s));
	gt_plan_each_trial(s->trials, learn_trial, s);
}

/* Try micro-batches of 1, 2, 4, ... samples. */
static int try_sizes(struct search *s, struct gt_err *err)
{
	int ranks = s->cluster->hosts * s->cluster->devices;
	int tensor = s->axes[s->at].tensor, stages = s->axes[s->at].stages;
	int data = ranks / (tensor * stages);
	struct gt_train_options o = s->c->cli.train;
	int64_t samples = s->samples / data;
	double best = 0, rate;
	int slower = 0, rc = 0;

	if (s->samples % data)
		return 0;
	o.parallel.tensor = tensor;
	o.parallel.stages = stages;
	o.drop_last = true; /* a plan for the rest of an epoch is not needed yet */
	for (int64_t size = 1; !rc && size <= samples && slower < PATIENCE; size *= 2) {
		if (s->ahead)
			learn(s);
		if (!set_size(s, &o, samples, size) || is_too_slow(s, &o, size))
			continue;
		rc = try_modes(s, &o, data, &rate, err);
		slower = rate > 1.01 * best ? 0 : slower + 1;
		if (rate > best)
			best = rate;
		else if (best > 0 && !(rate > 0)) /* larger ones do not fit either */
			break;
	}
	return rc;
}

/* ---- all layouts ---- */

/* The next number of ranks on an axis: all powers of two up to `most`, or the one that is given. */
static int next_number(const struct search *s, const char *option, int chosen, int now, int most)
{
	int next = now ? 2 * now : 1;

	if (given(s, option))
		return now ? 0 : chosen > 1 ? chosen : 1;
	return next <= most ? next : 0;
}

/* List the axes of the search, which the caller frees. */
static int list_axes(struct search *s, struct gt_err *err)
{
	const struct gt_parallel_options *p = &s->c->cli.train.parallel;
	int ranks = s->cluster->hosts * s->cluster->devices, tensor = 0, rc = 0;
	size_t capacity = 0;

	while (!rc && (tensor = next_number(
	                   s, "tensor-parallel", p->tensor, tensor, s->cluster->devices)) > 0) {
		int stages = 0;

		while (!rc && (stages = next_number(
		                   s, "pipeline-parallel", p->stages, stages, STAGES_MOST)) > 0) {
			if (ranks % (tensor * stages))
				continue;
			rc = gt_grow(&s->axes, s->axes_count, &capacity, sizeof(*s->axes), err);
			if (!rc)
				s->axes[s->axes_count++] = (struct axes){ tensor, stages };
		}
	}
	return rc;
}

static int try_axes_ahead(void *self, size_t at, struct gt_err *err)
{
	struct search s = *(const struct search *)self;

	s.ahead = true;
	s.at = at;
	return try_sizes(&s, err);
}

/* One thread alone would only find out earlier what it finds out in order. */
static int try_all(struct search *s, struct gt_err *err)
{
	size_t threads = gt_thread_pool_size(0);
	int rc = 0;

	if (threads > 1)
		rc = gt_thread_pool_run(threads, s->axes_count, try_axes_ahead, s, err);
	for (s->at = 0; !rc && s->at < s->axes_count; s->at++) {
		if (s->at && s->axes[s->at].tensor != s->axes[s->at - 1].tensor)
			memset(s->sample_s, 0, sizeof(s->sample_s));
		rc = try_sizes(s, err);
	}
	return rc;
}

/* ---- the best ---- */

static int conclude(
    const struct search *s, int found, int tried, uint64_t least_bytes, struct gt_err *err)
{
	char need[GT_TEXT_SIZE], have[GT_TEXT_SIZE];

	if (found)
		return 0;
	if (!tried && s->first.code) {
		*err = s->first;
		return err->code;
	}
	if (!tried)
		return gt_err_set(err, GT_EINVAL,
		    "no layout of %d ranks has a step of %lld samples",
		    s->cluster->hosts * s->cluster->devices, (long long)s->samples);
	gt_err_set(err, GT_ENOMEM,
	    "none of %d layouts fits: the smallest needs %s, a device has %s", tried,
	    gt_text_bytes(need, least_bytes),
	    gt_text_bytes(have, (uint64_t)s->cluster->device.memory_bytes));
	return gt_err_hint(err, "more devices, or --amp bf16, need less memory of each");
}

/* The best layouts, planned for the data as they are. */
struct whole {
	const struct search *s;
	struct gt_plan_layout layouts[GT_PLAN_BEST]; /* [s->count] */
};

static int plan_whole(void *self, size_t i, struct gt_err *err)
{
	struct whole *w = self;
	struct gt_train_options o = w->s->best[i]->layout.options;

	o.drop_last = w->s->c->cli.train.drop_last;
	return gt_plan_layout(&w->layouts[i], w->s->trials->t, &o, w->s->cluster, false, err);
}

/* Add a layout, which is taken over. */
static void add_found(struct gt_plan_found *f, const struct gt_plan_layout *layout)
{
	int i = f->count++;

	for (; i > 0 && f->best[i - 1].samples_per_s < layout->samples_per_s; i--)
		f->best[i] = f->best[i - 1];
	f->best[i] = *layout;
}

/* Plan all stages of the best layouts, for the data as they are. Some may not fit then. */
static int plan_wholly(struct gt_plan_found *out, const struct search *s, struct gt_err *err)
{
	struct whole w = { .s = s };
	uint64_t least_bytes = 0;
	int rc = gt_thread_pool_run(0, (size_t)s->count, plan_whole, &w, err);

	for (int i = 0; i < s->count; i++) {
		const struct gt_plan_layout *l = &w.layouts[i];

		if (!least_bytes || l->memory_bytes < least_bytes)
			least_bytes = l->memory_bytes;
		if (rc || !l->fits)
			gt_plan_layout_release(&w.layouts[i]);
		else
			add_found(out, l);
	}
	out->tried = s->tried;
	return rc ? rc : conclude(s, out->count, s->tried, least_bytes, err);
}

int gt_plan_search(struct gt_plan_found *out, const struct gt_train *t,
    const struct gt_plan_command *c, const struct gt_cluster *cluster, int64_t samples,
    struct gt_err *err)
{
	struct gt_plan_trials trials;
	struct search s = { .c = c,
		.cluster = cluster,
		.samples = samples,
		.trials = &trials,
		.first = GT_ERR_INIT };
	int rc;

	*out = (struct gt_plan_found){ 0 };
	gt_plan_trials_open(&trials, t, cluster);
	rc = list_axes(&s, err);
	if (!rc)
		rc = try_all(&s, err);
	if (!rc)
		rc = conclude(&s, s.count, s.tried, s.least_bytes, err);
	if (!rc)
		rc = plan_wholly(out, &s, err);
	gt_plan_trials_close(&trials);
	free(s.axes);
	return rc;
}

void gt_plan_found_release(struct gt_plan_found *found)
{
	for (int i = 0; i < found->count; i++)
		gt_plan_layout_release(&found->best[i]);
	found->count = 0;
}
