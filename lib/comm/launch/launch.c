/* launch.c - start the ranks of this host, watch them, and leave nothing behind. */
#include "lib/comm/launch/launch.h"

#include <stdlib.h>

#include "lib/base/mem.h"
#include "lib/comm/launch/job.h"
#include "lib/comm/world/world.h"

static int run_once(struct gt_launch *l, struct gt_err *err)
{
	int rc;

	l->first = l->follower = -1;
	l->status = 0;
	l->ask_at = l->kill_at = 0;
	rc = gt_launch_start(l, err);
	if (!rc)
		return gt_launch_watch(l, false, err);
	(void)gt_launch_watch(l, true, GT_ERR_IGNORED);
	return rc;
}

/* Whether there is to be another start; says so. */
static bool again(struct gt_launch *l)
{
	const struct gt_launch_options *o = l->options;

	/* A rank that is left behind may still hold memory of its GPU. */
	if (l->first < 0 || l->left_behind || l->restart >= o->max_restarts)
		return false;
	if (l->stop_requests || l->in_vain) {
		gt_log_warn(o->log, "rank %d failed, and the ranks are not restarted: %s", l->first,
		    l->stop_requests ? "the run was asked to end"
		                     : "the same error would occur again");
		return false;
	}
	l->restart++;
	gt_log_warn(o->log,
	    "rank %d was the first to end badly: all ranks are started again (restart %d of %d)",
	    l->first, l->restart, o->max_restarts);
	return true;
}

int gt_launch(
    struct gt_launch_end *end, const struct gt_launch_options *options, struct gt_err *err)
{
	struct gt_launch l = { .options = options };
	int rc;

	*end = (struct gt_launch_end){ .status = 1, .rank = -1 };
	if (options->nproc < 1 || options->nproc > GT_WORLD_MAX_RANKS)
		return gt_err_set(err, GT_EINVAL, "%d ranks: not from 1 to %d", options->nproc,
		    GT_WORLD_MAX_RANKS);
	l.rank = gt_calloc((size_t)options->nproc, sizeof(*l.rank), err);
	if (!l.rank)
		return err->code;
	rc = gt_launch_take_signals(&l, err);
	l.drawing.stream = options->log->stream;
	options->log->progress = &l.drawing;
	if (!rc) {
		do
			rc = run_once(&l, err);
		while (!rc && again(&l));
		gt_launch_give_back_signals(&l);
	}
	gt_progress_hide(&l.drawing);
	options->log->progress = NULL;
	free(l.rank);
	if (!rc)
		*end = (struct gt_launch_end){ l.status, l.first, l.asked };
	return rc;
}
