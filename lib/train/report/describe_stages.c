/* describe_stages.c - the cost of each stage of a pipeline. */
#include "lib/parallel/pipeline/pipeline.h"
#include "lib/train/state.h"

/* Plan the first rank of a stage. */
static int open_stage(
    struct gt_train *stage, const struct gt_train *t, int index, struct gt_err *err)
{
	int ranks = gt_train_world(t) / t->o.parallel.stages;

	return gt_train_plan_as(stage, t, &t->o, index * ranks, err);
}

int gt_train_stage_memory(
    struct gt_session_memory *out, const struct gt_train *t, int index, struct gt_err *err)
{
	struct gt_train stage;
	int rc = open_stage(&stage, t, index, err);

	if (!rc)
		gt_train_memory(out, &stage);
	gt_session_plan_close(&stage.s);
	return rc;
}

static json_t *describe_stage(const struct gt_train *stage, int index)
{
	const struct gt_pipeline_cut *cut = gt_pipeline_stages(stage->s.parallel);
	const struct gt_recompute *r = gt_train_recomputed(stage);
	const struct gt_store *store = stage->s.store;
	struct gt_session_memory m;
	int64_t parameters = 0;
	double all = 0;

	gt_train_memory(&m, stage);
	for (int i = 0; i < cut->stages; i++)
		all += cut->flops[i];
	for (size_t i = 0; i < store->slot_count; i++)
		if (gt_slot_is_weight(&store->slots[i]) && !store->slots[i].on_other_ranks)
			parameters += gt_slot_plain(&store->slots[i]).count;
	return json_pack("{s:s,s:f,s:I,s:I,s:I,s:I,s:i,s:i}", "first", cut->first[index], "work",
	    cut->flops[index] / all, "parameters", (json_int_t)parameters, "arena_bytes",
	    (json_int_t)m.arena, "memory_bytes", (json_int_t)m.total, "communicated_bytes_per_step",
	    (json_int_t)gt_parallel_sent(stage->s.parallel, stage->runs), "blocks", r->blocks,
	    "recomputed_blocks", r->done);
}

json_t *gt_train_describe_stages(const struct gt_train *t, struct gt_err *err)
{
	json_t *list = json_array();
	int rc = 0;

	for (int i = 0; !rc && list && i < t->o.parallel.stages; i++) {
		struct gt_train s;

		rc = open_stage(&s, t, i, err);
		if (!rc && json_array_append_new(list, describe_stage(&s, i)))
			rc = gt_err_set(err, GT_ENOMEM, "out of memory");
		gt_session_plan_close(&s.s);
	}
	if (!list)
		gt_err_set(err, GT_ENOMEM, "out of memory");
	if (rc)
		json_decref(list);
	return rc ? NULL : list;
}
