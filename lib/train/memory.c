/* memory.c - plans that fit into memory, and the memory that a run takes. */
#include <limits.h>
#include <stdio.h>

#include "lib/base/text.h"
#include "lib/device/cpu.h"
#include "lib/optim/average.h"
#include "lib/train/checkpoint/saver.h"
#include "lib/train/evaluate.h"
#include "lib/train/reference.h"
#include "lib/train/state.h"

const char *const gt_recompute_names[] = {
	[GT_RECOMPUTE_NONE] = "none",
	[GT_RECOMPUTE_ALL] = "all",
	[GT_RECOMPUTE_AUTO] = "auto",
	[GT_RECOMPUTE_MODES] = NULL,
};

/* ---- the memory of a run ---- */

/* The batches that loaders keep in host memory: training and an evaluation read at once. */
static uint64_t loader_bytes(const struct gt_train *t)
{
	const struct gt_loader_options options = gt_train_loader_options(t);
	struct gt_loader_options evaluation = {
		.sampler = t->sampler, .workers = t->o.workers, .prefetch = GT_EVALUATE_PREFETCH
	};
	uint64_t bytes = gt_feeder_bytes(t->data, &options);

	evaluation.sampler.batch = t->batch / gt_train_virtual_ranks(t);
	if (t->val)
		evaluation.sampler.samples = gt_dataset_info(t->val)->samples;
	return bytes + (t->val ? gt_feeder_bytes(t->val, &evaluation) : 0);
}

/* The bytes of batches that the plan does not count. A described GPU is planned as a CPU, which
 * reads batches where the loader has them. */
static uint64_t more_batches(const struct gt_train *t)
{
	const struct gt_program *p = gt_program_pair_any(&t->steps);

	if (t->o.where.described_gpu)
		return p->input_bytes + p->target_bytes;
	if (!t->s.device->backend->host_memory || !t->reads || gt_dataset_is_memory(t->data))
		return 0;
	return loader_bytes(t);
}

void gt_train_add_memory(const struct gt_session *s, void *self, struct gt_session_memory *m)
{
	const struct gt_train *t = self;
	uint64_t work = (uint64_t)gt_optim_work_bytes(s->store, &t->o.optim), copy;

	m->optimizer += work;
	m->batches += more_batches(t);
	m->total += work + more_batches(t);
	if (!t->o.save_async || !t->o.out)
		return;
	copy = gt_saver_copy_bytes(s->store, s->parallel, t->o.save_sharded);
	if (s->dry && !t->o.save_sharded) /* the plan is that of all ranks, and rank 0 has it all */
		copy /= (uint64_t)gt_train_world(t);
	*(s->device->backend->host_memory ? &m->copy : &m->pinned_copy) = copy;
	m->total += m->copy;
}

void gt_train_memory(struct gt_session_memory *out, const struct gt_train *t)
{
	gt_session_memory(out, &t->s);
	gt_train_add_memory(&t->s, (void *)t, out);
}

uint64_t gt_report_memory(uint64_t gpu_bytes)
{
	return gpu_bytes ? gpu_bytes : gt_cpu_resident_bytes();
}

void gt_train_log_memory(const struct gt_train *t)
{
	const struct gt_recompute *r = gt_train_recomputed(t);
	char text[8][GT_TEXT_SIZE],
	    batches[GT_TEXT_SIZE + 16] = "", collectives[GT_TEXT_SIZE + 16] = "",
	                           copy[GT_TEXT_SIZE + 40] = "", blocks[80] = "", stage[40] = "";
	struct gt_session_memory m;

	if (gt_parallel_seat(t->s.parallel, GT_AXIS_DATA) ||
	    gt_parallel_seat(t->s.parallel, GT_AXIS_TENSOR))
		return;
	gt_train_memory(&m, t);
	if (t->o.parallel.stages > 1)
		snprintf(stage, sizeof(stage), " of stage %d",
		    gt_parallel_seat(t->s.parallel, GT_AXIS_PIPELINE));
	if (t->o.recompute)
		snprintf(
		    blocks, sizeof(blocks), "; recomputes %d of %d blocks", r->done, r->blocks);
	if (m.batches)
		snprintf(
		    batches, sizeof(batches), ", %s batches", gt_text_bytes(text[4], m.batches));
	if (m.collectives)
		snprintf(collectives, sizeof(collectives), ", %s collectives",
		    gt_text_bytes(text[6], m.collectives));
	if (m.copy || m.pinned_copy)
		snprintf(copy, sizeof(copy), ", %s copy of a checkpoint%s",
		    gt_text_bytes(text[7], m.copy + m.pinned_copy),
		    m.copy ? "" : " in host memory");
	gt_log_info(t->log,
	    "memory%s%s: %s parameters, %s gradients, %s optimizer state, %s activations%s%s%s, "
	    "%s total%s",
	    stage, gt_train_world(t) > 1 ? " per rank" : "",
	    gt_text_bytes(text[0], m.parameters + m.buffers), gt_text_bytes(text[1], m.gradients),
	    gt_text_bytes(text[2], m.optimizer), gt_text_bytes(text[3], m.arena), batches,
	    collectives, copy, gt_text_bytes(text[5], m.total), blocks);
}

/* ---- plans ---- */

const struct gt_recompute *gt_train_recomputed(const struct gt_train *t)
{
	return &gt_program_pair_any(&t->steps)->recompute;
}

/* Plan the steps with at most `max` blocks computed again, in place of plans that were there. */
static int plan_steps(struct gt_train *t, int max, struct gt_err *err)
{
	struct gt_program_options options = gt_session_program_options(&t->s, GT_MODEL_TRAIN);

	options.runs = t->runs;
	options.recompute = max;
	gt_program_pair_release(&t->steps);
	return gt_program_pair_init(&t->steps, &options, gt_sampler_rank_samples(&t->sampler),
	    t->sampler.batch, t->o.drop_last, err);
}

static uint64_t less(uint64_t bytes, uint64_t reserve)
{
	return bytes > reserve ? bytes - reserve : 0;
}

static int wait_for_ranks(const struct gt_train *t, struct gt_err *err)
{
	return t->s.group && t->s.group->size > 1 ? gt_barrier(t->s.group, err) : 0;
}

/* A rank's share of the free memory of its device, with the bytes that it has taken already. The
 * ranks that share a device look at the same state of it: all have taken the memory of their
 * stores, groups and libraries, and none times algorithms. */
static int find_free_of_device(const struct gt_train *t, uint64_t *bytes, struct gt_err *err)
{
	const struct gt_device *d = t->s.device;
	uint64_t total;
	int rc = wait_for_ranks(t, err);

	if (!rc)
		rc = d->backend->memory(d->index, bytes, &total, err);
	if (!rc)
		rc = wait_for_ranks(t, err);
	if (!rc)
		*bytes = less(*bytes / (uint64_t)t->s.sharing + gt_session_early_bytes(&t->s),
		    gt_session_reserve(total));
	return rc;
}

/* The memory that a rank may take: of its device; or its share of the host's, and of the address
 * space that its process has left. */
int gt_train_free_memory(const struct gt_train *t, uint64_t *bytes, struct gt_err *err)
{
	uint64_t ranks = (uint64_t)gt_train_host_ranks(t), own;
	struct gt_cpu_available there;

	if (t->o.where.described_bytes) {
		*bytes = less(
		    t->o.where.described_bytes, gt_session_reserve(t->o.where.described_bytes));
		return 0;
	}
	if (!t->s.device->backend->host_memory) {
		*bytes = t->s.free_bytes / (uint64_t)t->s.sharing;
		return t->s.free_bytes ? 0 : find_free_of_device(t, bytes, err);
	}
	gt_cpu_memory_available(&there);
	own = there.process_bytes;
	if (gt_parallel_is_threads(t->o.parallel.kind))
		own /= ranks;
	*bytes = there.host_bytes / ranks < own ? there.host_bytes / ranks : own;
	*bytes = less(*bytes, gt_session_reserve(UINT64_MAX));
	return 0;
}

static bool fits(const struct gt_train *t, uint64_t bytes)
{
	struct gt_session_memory m;

	gt_train_memory(&m, t);
	return m.total <= bytes;
}

/* Ranks that run collectives need the same order of nodes: let all recompute as many blocks as the
 * rank that recomputes most. Stages of a pipeline differ in their blocks. */
static int agree_on_recompute(const struct gt_train *t, int *blocks, struct gt_err *err)
{
	static const enum gt_axis axes[] = { GT_AXIS_DATA, GT_AXIS_TENSOR };
	int32_t max = *blocks;
	int rc = 0;

	for (size_t i = 0; !rc && i < sizeof(axes) / sizeof(axes[0]); i++) {
		struct gt_group *group = gt_parallel_axis(t->s.parallel, axes[i]);

		if (group && group->size > 1)
			rc = gt_all_reduce(group, &max, 1, GT_I32, GT_MAX, err);
	}
	*blocks = max;
	return rc;
}

/* Recompute as few blocks as make the plans fit into memory, or all if none do. Each recomputed
 * block takes time, and plans take no memory, except that the first one loads the libraries of a
 * device. */
static int plan_steps_to_fit(struct gt_train *t, struct gt_err *err)
{
	bool host = t->s.device->backend->host_memory;
	uint64_t bytes = 0;
	int max = 0, agreed, rc = host ? gt_train_free_memory(t, &bytes, err) : 0;

	if (!rc)
		rc = plan_steps(t, max, err);
	if (!rc && !host)
		rc = gt_train_free_memory(t, &bytes, err);
	while (!rc && !fits(t, bytes) && max++ < gt_train_recomputed(t)->blocks)
		rc = plan_steps(t, max, err);
	if (rc || !t->s.group)
		return rc;
	agreed = gt_train_recomputed(t)->done;
	rc = agree_on_recompute(t, &agreed, err);
	return rc || agreed == gt_train_recomputed(t)->done ? rc : plan_steps(t, agreed, err);
}

/* Return whether evaluations note predictions: only one class of each sample, and no next tokens.
 * In a pipeline, the logits are on the last stage, and gt_evaluate() looks for them on each. */
static bool notes_predictions(const struct gt_train *t)
{
	const struct gt_model_input *in = &t->s.input;

	return t->o.predictions && t->o.parallel.stages <= 1 && in->form.kind != GT_SAMPLE_TOKENS &&
	       in->form.target == GT_SAMPLE_CLASS && !in->loss.output;
}

/* Return whether a program may ask for the scores of its samples (struct gt_evaluate_options). */
static bool gives_scores(const struct gt_train *t)
{
	return t->o.memory && t->s.input.form.kind != GT_SAMPLE_TOKENS && !t->s.input.loss.output;
}

struct gt_evaluate_options gt_train_evaluation(const struct gt_train *t)
{
	return (struct gt_evaluate_options){ .batch = t->batch / gt_train_virtual_ranks(t),
		.workers = t->o.workers,
		.pageable = t->o.pageable,
		.top = notes_predictions(t),
		.plan_scores = gives_scores(t),
		.progress = gt_train_rank(t) ? NULL : t->log->progress };
}

/* Add the planes that training needs, so that plans count their memory. */
static int add_planes(struct gt_train *t, struct gt_err *err)
{
	int rc = gt_optim_add_planes(t->s.store, &t->o.optim, err);

	return rc ? rc : gt_average_add_plane(t->s.store, &t->o.average, err);
}

int gt_train_plan(struct gt_train *t, struct gt_err *err)
{
	const struct gt_evaluate_options evaluation = gt_train_evaluation(t);
	int rc = add_planes(t, err);

	gt_session_add_pair(&t->s, &t->steps);
	gt_session_add_pair(&t->s, &t->evals);
	if (!rc)
		rc = t->o.recompute == GT_RECOMPUTE_AUTO
		         ? plan_steps_to_fit(t, err)
		         : plan_steps(t, t->o.recompute == GT_RECOMPUTE_ALL ? INT_MAX : 0, err);
	if (!rc && (t->val || gt_dataset_is_memory(t->data)))
		rc =
		    gt_evaluate_plan(&t->evals, &t->s, t->val ? t->val : t->data, &evaluation, err);
	if (!rc)
		rc = gt_reference_plan(t, err);
	return rc ? rc : gt_sample_text_plan(&t->sample_text, t, err);
}
