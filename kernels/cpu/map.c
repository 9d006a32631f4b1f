/* map.c - the op map: a program, evaluated in blocks of elements. */
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/narrow.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vmath.h"
#include "kernels/loops.h"
#include "lib/graph/map_program.h"

/*
 * A program runs for a block of elements at a time, step by step: each step is a loop over the
 * block. Slots of the program are pointers to blocks: tensors of the type of the computation
 * themselves, else buffers of the thread, which stay in the L1 cache. Inputs of other types, or
 * that repeat within the block, are copied to buffers before the steps, and outputs of 16 bits are
 * rounded after them. A loop over a block costs a call and its constants, so larger blocks are
 * faster until they leave the L1 cache. A single step without buffers takes GT_GRAIN elements at
 * once. Short runs have blocks of another size, as the elements at the end of a block may be
 * computed by other instructions.
 */
enum { MAP_BLOCK = 256, SHORT_BLOCK = 128 };

/*
 * Two steps are one loop if the second adds the result of the first to another slot, or multiplies
 * it by one, and nothing else reads that result: it stays in a register. Example: 4 = RELU(0),
 * 4 = MUL(4, 3) is the loop y[i] = relu(a[i]) * d[i].
 */
enum { THEN_NOTHING, THEN_ADD, THEN_MUL, THEN_COUNT };

struct fused_step {
	uint8_t function, then; /* GT_F_*, THEN_* */
	uint8_t to, from[3];
	uint8_t other; /* the slot that is added or multiplied by */
};

/*
 * Return x, in a way that keeps compilers from contracting a * b + d, which is rounded once, so
 * that a loop of two steps has the bits of two loops: they do not know that n, the elements of a
 * block, is below 2^40, so that the shift gives 0.
 */
static inline __attribute__((always_inline)) float rounded_f32(float x, int64_t n)
{
	return gt_float_of(gt_bits_of(x) ^ (int32_t)(n >> 40));
}

static inline __attribute__((always_inline)) double rounded_f64(double x, int64_t n)
{
	int64_t bits;

	memcpy(&bits, &x, sizeof(bits));
	bits ^= n >> 40;
	memcpy(&x, &bits, sizeof(bits));
	return x;
}

/*
 * While the processor computes a block of a long program, it looks ahead too little to load the
 * next ones: loads and arithmetic would take turns. So blocks are prefetched this many elements
 * ahead, where tensors are larger than caches.
 */
enum { PREFETCH_AHEAD = 512, PREFETCH_MIN = 1 << 18 };

/* A call: out[0] is tensor 0 of the loops, input i is tensor 1 + i. */
struct map_job {
	const struct gt_call *call;
	const struct gt_map_program *program;
	struct gt_loops loops;
	int64_t runs, length; /* runs along the last dimension of the loops, of `length` elements */
	int64_t block;        /* elements per block */
	int64_t prefetched;   /* elements of an input if they are prefetched, else 0 */
	/* Each input and output has a slot. `bytes` are the bytes per element. A bit of `direct`
	 * is set if the tensor has the type of the computation, a bit of `whole` if it is an input
	 * that lies in memory as the outputs do. */
	uint8_t bytes[GT_MAP_INPUTS + GT_MAP_OUTPUTS];
	unsigned direct, whole;
	int fused; /* number of loops per block */
	struct fused_step step[GT_MAP_STEPS];
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

static const struct gt_tensor *map_tensor(const struct map_job *job, int slot)
{
	int inputs = job->program->inputs;

	return slot < inputs ? &job->call->in[slot] : &job->call->out[slot - inputs];
}

static const void *map_element(const struct map_job *job, int slot, int64_t index)
{
	return (const char *)map_tensor(job, slot)->data + index * job->bytes[slot];
}

/* Return whether a slot is read by the steps from k on, before one of them writes it. */
static bool slot_is_read(const struct gt_map_program *p, int k, int slot)
{
	for (; k < p->steps; k++) {
		const uint8_t *from = p->step[k].from;

		if (from[0] == slot || from[1] == slot || from[2] == slot)
			return true;
		if (p->step[k].to == slot)
			return false;
	}
	return false;
}

/* Return THEN_NOTHING unless step k + 1 can be in the loop of step k. *other is its other
 * argument. */
static int fuse_next(const struct gt_map_program *p, int k, uint8_t *other)
{
	const struct gt_map_step *s = &p->step[k], *next = s + 1;
	int first_row = p->inputs + p->outputs + p->numbers, mine;

	if (k + 1 == p->steps || s->to < first_row ||
	    (next->function != GT_F_ADD && next->function != GT_F_MUL))
		return THEN_NOTHING;
	mine = next->from[0] == s->to ? 0 : 1;
	if (next->from[mine] != s->to || next->from[!mine] == s->to ||
	    (next->to != s->to && slot_is_read(p, k + 2, s->to)))
		return THEN_NOTHING;
	*other = next->from[!mine];
	return next->function == GT_F_ADD ? THEN_ADD : THEN_MUL;
}

/* Set the loops of the job. */
static void fuse_steps(struct map_job *job)
{
	const struct gt_map_program *p = job->program;

	for (int k = 0; k < p->steps; k++) {
		const struct gt_map_step *s = &p->step[k];
		struct fused_step *f = &job->step[job->fused++];

		*f = (struct fused_step){ .function = s->function, .to = s->to };
		memcpy(f->from, s->from, sizeof(f->from));
		f->then = fuse_next(p, k, &f->other);
		if (f->then)
			f->to = p->step[++k].to;
	}
}

/* Prefetch elements `at` to at + n - 1 of the inputs that are whole. */
static void prefetch_blocks(const struct map_job *job, int64_t at, int64_t n)
{
	n = gt_min(n, job->prefetched - at);
	for (int i = 0; i < job->program->inputs && n > 0; i++) {
		const char *from = map_element(job, i, at), *end = from + n * job->bytes[i];

		for (; job->whole >> i & 1 && from < end; from += 64)
			__builtin_prefetch(from);
	}
}

static void start_map(struct map_job *job, const struct gt_call *call, enum gt_dtype real)
{
	const struct gt_map_program *p = call->attrs.map.program;
	bool simple = p->steps == 1 && !p->numbers && call->out[0].dtype == real;

	*job = (struct map_job){ .call = call, .program = p };
	gt_loops_of_map(&job->loops, call);
	job->length = job->loops.shape[job->loops.ndim - 1];
	job->runs = gt_tensor_elements(&call->out[0]) / job->length;
	for (int s = 0; s < p->inputs + p->outputs; s++) {
		enum gt_dtype dtype = map_tensor(job, s)->dtype;

		job->bytes[s] = (uint8_t)gt_dtype_size(dtype);
		job->direct |= (unsigned)(dtype == real) << s;
		if (s >= p->inputs)
			continue;
		job->whole |= (unsigned)gt_loops_are_whole(&job->loops, 1 + s) << s;
		simple = simple && dtype == real && map_stride(job, s) == 1;
	}
	job->block = simple ? GT_GRAIN : MAP_BLOCK;
	if (!simple && job->runs * job->length >= PREFETCH_MIN)
		job->prefetched = job->runs * job->length;
	fuse_steps(job);
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
