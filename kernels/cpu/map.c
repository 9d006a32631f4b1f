/* map.c - the op map: a program, evaluated in blocks of elements. */
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/narrow.h"
#include "kernels/cpu/parallel.h"
#include "kernels/loops.h"
#include "lib/graph/map_program.h"

/*
 * A program runs for a block of elements at a time, step by step: each step is a loop over the
 * block. Slots of the program are pointers to blocks: tensors of the type of the computation
 * themselves, else buffers of the thread, which stay in the L1 cache. Inputs of other types, or
 * that repeat within the block, are copied to buffers before the steps, and outputs of 16 bits are
 * rounded after them. With larger blocks, calls cost less, but the processor reads ahead less while
 * it computes: from memory, blocks of 128 elements are up to twice as fast as those of 1024. A
 * single step without buffers takes GT_GRAIN elements at once.
 */
enum { MAP_BLOCK = 128 };

/* A call: out[0] is tensor 0 of the loops, input i is tensor 1 + i. */
struct map_job {
	const struct gt_call *call;
	const struct gt_map_program *program;
	struct gt_loops loops;
	int64_t runs, length; /* runs along the last dimension of the loops, of `length` elements */
	int64_t block;        /* elements per block */
};

static int64_t map_stride(const struct map_job *job, int input)
{
	return job->loops.stride[1 + input][job->loops.ndim - 1];
}

/* Whether an input is the same for all runs. */
static bool map_input_repeats(const struct map_job *job, int input)
{
	for (int d = 0; d + 1 < job->loops.ndim; d++)
		if (job->loops.stride[1 + input][d])
			return false;
	return true;
}

/* Return the index of the element of an input at which run r begins. */
static int64_t map_base(const struct map_job *job, int input, int64_t r)
{
	const struct gt_loops *l = &job->loops;
	int64_t base = 0;

	for (int d = l->ndim - 2; d >= 0; d--) {
		base += r % l->shape[d] * l->stride[1 + input][d];
		r /= l->shape[d];
	}
	return base;
}

static const void *map_element(const struct gt_tensor *t, int64_t index)
{
	return (const char *)t->data + index * (int64_t)gt_dtype_size(t->dtype);
}

static void start_map(struct map_job *job, const struct gt_call *call, enum gt_dtype real)
{
	const struct gt_map_program *p = call->attrs.map.program;
	bool simple = p->steps == 1 && !p->numbers && call->out[0].dtype == real;

	*job = (struct map_job){ .call = call, .program = p };
	gt_loops_of_map(&job->loops, call);
	job->length = job->loops.shape[job->loops.ndim - 1];
	job->runs = gt_tensor_elements(&call->out[0]) / job->length;
	for (int i = 0; i < p->inputs; i++)
		simple = simple && call->in[i].dtype == real && map_stride(job, i) == 1;
	job->block = simple ? GT_GRAIN : MAP_BLOCK;
}

#define REAL_BITS 32
#include "kernels/cpu/map.inc"
#define REAL_BITS 64
#include "kernels/cpu/map.inc"

const struct gt_kernel GT_ISA(gt_cpu_map_kernels)[] = {
	GT_ROWS(map),
	{ .op = "map", .dtype = GT_BF16, .run = map_f32 },
	{ .op = "map", .dtype = GT_F16, .run = map_f32 },
	{ .op = NULL },
};
