/* sum.c - the op sum: sums over any dimensions of a tensor. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/narrow.h"
#include "kernels/cpu/parallel.h"
#include "kernels/loops.h"

/*
 * The dimensions of the input, in their order in memory, are those of the result ("kept") and
 * those that are summed. If the last one is summed, a sum goes over runs of memory ("runs"); else a
 * vector of neighbouring results is a sum of vectors ("columns"). Terms are added in float32 in
 * groups, and groups in double. A chunk is the terms that one thread adds; chunks of a result are
 * added in their order, so the result does not depend on the number of threads.
 */
enum {
	SUM_COLUMNS = 1024, /* columns of a block */
	SUM_GROUP = 64,     /* rows that are added in float32 */
	SUM_SPAN = 8192     /* the same of few columns, in elements */
};

struct sum_job {
	const struct gt_call *call;
	struct gt_loops loops; /* of gt_loops_of_sum() */
	bool columns;
	int64_t length; /* size of the last dimension of the loops */
	int64_t kept;   /* results, or vectors of results */
	int64_t terms;  /* pieces of runs, or vectors, of a result */
	int64_t piece;  /* runs: elements of a piece, fewer in the last of a run */
	int64_t pieces; /* runs: pieces of a run */
	int64_t chunk;  /* terms of a chunk */
	int64_t chunks; /* pieces of a result */
};

static bool sum_keeps(const struct sum_job *job, int d)
{
	return job->loops.stride[1][d] != 0;
}

static void start_sum(struct sum_job *job, const struct gt_call *call)
{
	int last;

	*job = (struct sum_job){ .call = call, .kept = 1, .terms = 1 };
	gt_loops_of_sum(&job->loops, call);
	last = job->loops.ndim - 1;
	job->columns = sum_keeps(job, last);
	job->length = job->loops.shape[last];
	for (int d = 0; d < last; d++)
		*(sum_keeps(job, d) ? &job->kept : &job->terms) *= job->loops.shape[d];
	job->piece = gt_min(job->length, GT_SUM_BLOCK);
	job->pieces = gt_ceil_div(job->length, job->piece);
	if (job->columns) {
		job->chunk = gt_max(SUM_GROUP, GT_GRAIN / gt_min(job->length, SUM_COLUMNS));
	} else {
		job->terms *= job->pieces;
		job->chunk = gt_max(1, GT_GRAIN / job->piece);
	}
	job->chunks = gt_ceil_div(job->terms, job->chunk);
}

/* Return the element at which item i begins of those dimensions before the last one that are kept,
 * or not. `tensor`: 0: of the input, 1: of the output. */
static int64_t sum_base(const struct sum_job *job, int64_t i, bool kept, int tensor)
{
	const struct gt_loops *l = &job->loops;
	int64_t base = 0;

	for (int d = l->ndim - 2; d >= 0; d--) {
		if (sum_keeps(job, d) != kept)
			continue;
		base += i % l->shape[d] * l->stride[tensor][d];
		i /= l->shape[d];
	}
	return base;
}

static const void *sum_element(const struct sum_job *job, int64_t index)
{
	const struct gt_tensor *x = &job->call->in[0];

	return (const char *)x->data + index * (int64_t)gt_dtype_size(x->dtype);
}

static int prepare_sum(struct gt_call *call, struct gt_err *err)
{
	struct sum_job job;

	(void)err;
	start_sum(&job, call);
	call->workspace_bytes = (size_t)(job.kept * job.chunks) *
	                        (size_t)(job.columns ? job.length : 1) * sizeof(double);
	return 0;
}

#define REAL_BITS 32
#include "kernels/cpu/sum.inc"
#define REAL_BITS 64
#include "kernels/cpu/sum.inc"

const struct gt_kernel GT_ISA(gt_cpu_sum_kernels)[] = {
	GT_ROWS(sum, .prepare = prepare_sum),
	{ .op = "sum", .dtype = GT_BF16, .prepare = prepare_sum, .run = sum_f32 },
	{ .op = "sum", .dtype = GT_F16, .prepare = prepare_sum, .run = sum_f32 },
	{ .op = NULL },
};
