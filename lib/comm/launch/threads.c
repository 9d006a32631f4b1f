/* threads.c - the ranks of a job as threads of one process. */
#include "lib/comm/launch/threads.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/base/thread_pool.h"
#include "lib/comm/ring/ring.h"

enum { NOBODY = -1 };

struct job {
	gt_thread_fn *fn;
	void *self;
	bool ring;
	atomic_int first; /* rank to fail */
};

struct member {
	struct job *job;
	struct gt_group *group;
	int rank;
	pthread_t thread;
	bool started;
	struct gt_err err;
};

/* The first failing rank is noted before others can see that it has left. */
static void *live(void *context)
{
	struct member *m = context;
	int nobody = NOBODY;

	m->err = GT_ERR_INIT;
	if ((m->job->ring && gt_ring_of_shm(&m->group, &m->err)) ||
	    m->job->fn(m->job->self, m->group, &m->err))
		atomic_compare_exchange_strong(&m->job->first, &nobody, m->rank);
	gt_group_free(m->group);
	return NULL;
}

/* Seats of threads that cannot be started are given up, or the others would wait for them. */
static int start_member_threads(struct member *members, int size, struct gt_err *err)
{
	int failed = 0;

	for (int r = 1; r < size; r++) {
		struct member *m = &members[r];

		failed = failed ? failed : pthread_create(&m->thread, NULL, live, m);
		m->started = !failed;
		if (failed)
			gt_group_free(m->group);
	}
	return failed ? gt_thread_fail(err, failed, "cannot start a thread") : 0;
}

/*
 * The error of the rank that failed first; but one that follows from another's failure gives way to
 * that. A rank that fails closes the groups of its axes before this one, and another rank may see
 * that and be done before it:
 *
 *	rank 0: out of memory; leaves its tensor group; ends
 *	rank 1: "rank 0 left the group", which follows; ends first
 */
static int report_first_error(const struct member *members, int size, int first, struct gt_err *err)
{
	if (first == NOBODY)
		return 0;
	for (int r = 0; members[first].err.follows && r < size; r++)
		if (members[r].err.code && !members[r].err.follows)
			first = r;
	*err = members[first].err;
	return first && strcmp(err->text, members[0].err.text)
	           ? gt_err_prefix(err, "rank %d", first)
	           : err->code;
}

int gt_threads_run(int size, const struct gt_threads_options *options, gt_thread_fn *fn, void *self,
    struct gt_err *err)
{
	struct job job = { fn, self, options->ring, NOBODY };
	struct gt_group **groups = gt_calloc((size_t)size, sizeof(*groups), err);
	struct member *members = gt_calloc((size_t)size, sizeof(*members), err);
	int rc = GT_ENOMEM;

	if (!groups || !members)
		goto out;
	rc = gt_shm_of_threads(groups, size, &options->shm, err);
	if (rc)
		goto out;
	for (int r = 0; r < size; r++)
		members[r] = (struct member){ .job = &job, .group = groups[r], .rank = r };
	rc = start_member_threads(members, size, err);
	if (rc)
		gt_group_free(members[0].group);
	else
		live(&members[0]);
	for (int r = 1; r < size; r++)
		if (members[r].started)
			pthread_join(members[r].thread, NULL);
	if (!rc)
		rc = report_first_error(members, size, job.first, err);
out:
	free(members);
	free(groups);
	return rc;
}
