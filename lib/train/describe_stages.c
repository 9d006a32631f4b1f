/* describe_stages.c - what each stage of a pipeline will cost. */
#include "lib/parallel/pipeline.h"
#include "lib/train/inside.h"

/* One stage's plan, which nobody will run. */
struct stage {
	struct gt_parallel *parallel;
	struct gt_store *store;
	struct gt_program program;
};

static int open_stage(struct stage *s, const struct gt_train *t, int index, struct gt_err *err)
{
	struct gt_parallel_options options = t->o.parallel;
	int64_t samples = gt_sampler_rank_samples(&t->sampler);
	int rc;

	*s = (struct stage){ 0 };
	options.ranks = gt_train_world(t);
	options.rank = index * gt_train_data_world(t);
	rc = gt_parallel_new(&s->parallel, &options, NULL, err);
	if (!rc)
		rc = gt_program_store(
		    &s->store, t->model, &t->input, t->device, true, s->parallel, err);
	if (!rc)
		rc = gt_program_init(&s->program,
		    &(struct gt_program_options){ .model = t->model,
		        .input = &t->input,
		        .purpose = GT_MODEL_TRAIN,
		        .store = s->store,
		        .accumulate = gt_train_adds_up(t),
		        .parallel = s->parallel },
		    samples < t->batch ? (int)samples : t->batch, err);
	return rc;
}

static void close_stage(struct stage *s)
{
	gt_program_release(&s->program);
	gt_store_free(s->store);
	gt_parallel_free(s->parallel);
}

static json_t *describe(const struct stage *s, const struct gt_train *t, int index)
{
	const struct gt_pipeline_cut *cut = gt_pipeline_stages(s->parallel);
	int64_t state = gt_train_kept_bytes(t, s->store);
	int64_t parameters = 0;
	struct gt_plan_summary plan;
	double all = 0;

	gt_plan_summarize(s->program.plan, &plan);
	for (int i = 0; i < cut->stages; i++)
		all += cut->flops[i];
	for (size_t i = 0; i < s->store->slot_count; i++)
		if (s->store->slots[i].role == GT_PARAMETER && !s->store->slots[i].elsewhere)
			parameters += s->store->slots[i].count;
	return json_pack("{s:s,s:f,s:I,s:I,s:I,s:I}", "first", cut->first[index], "work",
	    cut->flops[index] / all, "parameters", (json_int_t)parameters, "arena_bytes",
	    (json_int_t)plan.arena_bytes, "memory_bytes",
	    (json_int_t)(plan.parameter_bytes + plan.gradient_bytes + plan.buffer_bytes +
	                 plan.arena_bytes + (size_t)state),
	    "communicated_bytes_per_step", (json_int_t)gt_parallel_sent(s->parallel, t->runs));
}

json_t *gt_train_describe_stages(const struct gt_train *t, struct gt_err *err)
{
	json_t *list = json_array();
	int rc = 0;

	for (int i = 0; !rc && list && i < t->o.parallel.stages; i++) {
		struct stage s;

		rc = open_stage(&s, t, i, err);
		if (!rc && json_array_append_new(list, describe(&s, t, i)))
			rc = gt_err_set(err, GT_ENOMEM, "out of memory");
		close_stage(&s);
	}
	if (!list)
		gt_err_set(err, GT_ENOMEM, "out of memory");
	if (rc)
		json_decref(list);
	return rc ? NULL : list;
}
