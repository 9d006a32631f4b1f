/* describe.c - describe the cost of a run before it begins. */
#include <math.h>
#include <stdlib.h>

#include "lib/train/state.h"

double gt_train_step_flops(const struct gt_train *t)
{
	struct gt_plan_summary s;

	gt_plan_summarize(gt_program_pair_any(&t->steps)->plan, &s);
	return s.cost.flops * (double)t->runs;
}

/* Whole numbers as long as JSON's integers reach. */
static json_int_t step_flops(const struct gt_train *t)
{
	return (json_int_t)fmin(gt_train_step_flops(t), 9e18);
}

/* Bytes that rank 0 sends to all others: weights, their samples, and the gradient of their outputs,
 * or, where they compute the loss themselves, targets. It receives as much, less samples and
 * targets. */
static json_int_t dealt_bytes(const struct gt_train *t, const struct gt_program *p)
{
	int64_t n = gt_train_world(t), weights = (int64_t)gt_store_flat_bytes(t->s.store);
	int64_t samples = (int64_t)p->input_bytes / n, targets = (int64_t)p->target_bytes / n,
	        outputs = (int64_t)gt_value_bytes(p->io.logits);
	int64_t more = t->o.parallel.reproducible ? targets : outputs;

	return (json_int_t)((weights + t->runs * (samples + more)) * (n - 1));
}

/* Bytes that each rank sends; it receives as many. */
static json_int_t communicated_bytes(const struct gt_train *t, const struct gt_program *p)
{
	if (gt_train_world(t) > 1 && gt_parallel_reads_on_one(t->o.parallel.kind))
		return dealt_bytes(t, p);
	return (json_int_t)gt_parallel_sent(t->s.parallel, t->runs);
}

/* Figures of one rank are those of the first stage; or NULL, and `plan` is freed. */
static json_t *add_stages(json_t *plan, const struct gt_train *t, struct gt_err *err)
{
	json_t *stages = gt_train_describe_stages(t, err);

	if (stages && !json_object_set_new(plan, "stages", stages) &&
	    !json_object_set_new(
	        plan, "chunks", json_integer(gt_parallel_chunks(t->s.parallel, t->batch))))
		return plan;
	json_decref(plan);
	return NULL;
}

static json_t *list_plan_parts(
    const struct gt_train *t, const struct gt_program *p, enum gt_plan_parts by, struct gt_err *err)
{
	struct gt_plan_part *parts = NULL;
	json_t *list = json_array();
	size_t count = 0;
	int rc = gt_plan_parts(&parts, &count, p->plan, by, err);

	for (size_t i = 0; !rc && i < count; i++)
		json_array_append_new(list,
		    json_pack("{s:s%,s:i,s:i,s:f,s:f}", "name", parts[i].name, parts[i].length,
		        "nodes", parts[i].steps, "launches", parts[i].launches, "bytes",
		        (parts[i].cost.bytes_read + parts[i].cost.bytes_written) * (double)t->runs,
		        "flops", parts[i].cost.flops * (double)t->runs));
	free(parts);
	if (json_array_size(list) == count && !rc)
		return list;
	json_decref(list);
	return NULL;
}

/* The patterns that were recognized in an imported network, and how often. */
static json_t *list_recognized(const struct gt_graph *g)
{
	json_t *found = json_object();

	for (int i = 0; i < g->recognized_count; i++)
		json_object_set_new(
		    found, g->recognized[i].name, json_integer((json_int_t)g->recognized[i].count));
	return found;
}

/* Add nodes, launches, bytes and FLOPs of a step, by op and by block of the model. */
static json_t *add_parts(json_t *plan, const struct gt_train *t, const struct gt_program *p,
    const struct gt_plan_summary *s, struct gt_err *err)
{
	double bytes = (s->cost.bytes_read + s->cost.bytes_written) * (double)t->runs;
	json_t *parts = json_pack("{s:i,s:f,s:o?,s:o?,s:o?}", "launches", s->launches,
	    "bytes_per_step", bytes, "ops", list_plan_parts(t, p, GT_PLAN_OPS, err), "model_blocks",
	    list_plan_parts(t, p, GT_PLAN_BLOCKS, err), "recognized", list_recognized(p->graph));
	bool added = json_array_size(json_object_get(parts, "ops")) &&
	             json_object_get(parts, "model_blocks") &&
	             json_object_get(parts, "recognized") && !json_object_update(plan, parts);

	json_decref(parts);
	if (added)
		return plan;
	json_decref(plan);
	gt_err_set(err, GT_ENOMEM, "out of memory");
	return NULL;
}

json_t *gt_train_describe(const struct gt_train *t, struct gt_err *err)
{
	const struct gt_program *p = gt_program_pair_any(&t->steps);
	struct gt_plan_summary s;
	struct gt_session_memory m;
	json_t *out;

	gt_plan_summarize(p->plan, &s);
	gt_train_memory(&m, t);
	out = json_pack(
	    "{s:s,s:I,s:i,s:i,s:i,s:I,s:I,s:I,s:i,s:i,s:I,s:{s:I,s:I,s:I,s:I,s:I,s:I,s:o,s:I},s:I,s:I,"
	    "s:i,s:i}",
	    "model", gt_model_name(t->s.model), "parameters",
	    (json_int_t)(t->s.store->parameter_count + t->s.store->frozen_count), "batch",
	    t->o.batch, "accumulate", t->o.accumulate, "ranks", gt_train_world(t), "samples",
	    (json_int_t)t->sampler.samples, "steps_per_epoch", (json_int_t)t->steps_per_epoch,
	    "steps", (json_int_t)t->o.lr_schedule.total, "runs", t->runs, "kernels", s.steps,
	    "flops_per_step", step_flops(t), "memory_bytes", "parameters", (json_int_t)m.parameters,
	    "gradients", (json_int_t)m.gradients, "optimizer", (json_int_t)m.optimizer, "buffers",
	    (json_int_t)m.buffers, "arena", (json_int_t)m.arena, "batches", (json_int_t)m.batches,
	    "collectives",
	    m.unknown_collectives ? json_null() : json_integer((json_int_t)m.collectives), "total",
	    (json_int_t)m.total, "arena_bytes_without_sharing", (json_int_t)s.temporary_bytes,
	    "communicated_bytes_per_step", communicated_bytes(t, p), "blocks", p->recompute.blocks,
	    "recomputed_blocks", p->recompute.done);
	if (!out)
		gt_err_set(err, GT_ENOMEM, "out of memory");
	if (out && (m.copy || m.pinned_copy))
		json_object_set_new(json_object_get(out, "memory_bytes"),
		    m.copy ? "checkpoint_copy" : "pinned_checkpoint_copy",
		    json_integer((json_int_t)(m.copy + m.pinned_copy)));
	if (out && t->s.store->frozen_count)
		json_object_set_new(
		    out, "frozen_parameters", json_integer((json_int_t)t->s.store->frozen_count));
	if (out && t->o.parallel.tensor > 1)
		json_object_set_new(out, "tensor_parallel", json_integer(t->o.parallel.tensor));
	if (out)
		out = add_parts(out, t, p, &s, err);
	return out && t->o.parallel.stages > 1 ? add_stages(out, t, err) : out;
}
