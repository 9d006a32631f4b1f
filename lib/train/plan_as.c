/* plan_as.c - plan a run again as another rank, or with other options. */
#include "lib/train/state.h"

int gt_train_plan_as(struct gt_train *out, const struct gt_train *t,
    const struct gt_train_options *options, int rank, struct gt_err *err)
{
	struct gt_parallel_options parallel;
	int world = gt_train_world(t), rc;

	*out = *t;
	out->s = (struct gt_session){ 0 };
	out->o = *options;
	out->o.global_batch = 0; /* options->accumulate is that of options->batch */
	out->o.where.group = NULL;
	if (out->o.nproc < world)
		out->o.nproc = world;
	out->steps = out->evals = out->references = (struct gt_program_pair){ 0 };
	rc = gt_train_set_ranks(out, err);
	if (rc)
		return rc;
	parallel = out->o.parallel;
	parallel.rank = rank;
	rc = gt_session_plan_open(&out->s, &t->s, t->s.device, &parallel, true, err);
	if (rc)
		return rc;
	gt_train_set_sampler(out);
	return gt_train_plan(out, err);
}
