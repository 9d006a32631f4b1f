/* fastest.c - ways to do a piece of work, timed side by side. */
#include "kernels/cuda/library/fastest.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/runtime/queues.h"
#include "lib/base/mem.h"

/*
 * An operation on the current device of the calling thread, and `count` algorithms that compute it.
 * Preferred algorithms come first: a later algorithm is chosen only if it is more than 2% faster
 * than the best one before it. The functions of struct gt_candidates are called with `self` as
 * their first argument:
 *
 *   prepare   Set *bytes to the device memory that the measurement needs.
 *   place     Use `memory`, which has the requested size, for the measurement. It has the
 *             alignment of device memory. If `numbers` is set, the memory contains random bits,
 *             the same for every type: read as bfloat16 or float32, their absolute values are 0.5
 *             to 1; as float16, 1.75 to 1.88; as float64, 2^-15 to 2^-7. If `numbers` is not set,
 *             all bytes are 0. With zeros, a GPU draws less power and runs at a higher clock than
 *             with the data of a real model, and the measured times are too short.
 *   queue     Queue the operation with algorithm i on the stream. If the first call for algorithm
 *             i fails, the algorithm is not used.
 *   verify    Optional, may be NULL. Called once, after the first run of algorithm i: run the
 *             algorithm on data that verify() chooses, and set *right to false if the result is
 *             wrong. *right is true before the call. An algorithm with a wrong result is not used.
 *             Algorithms are verified in the order of their indices.
 *   finish    Optional, may be NULL. Called when all queued work is done: stop using the stream,
 *             which is destroyed after this call.
 *
 * If the choice for this operation is already known, none of these functions is called.
 */

enum {
	ROUNDS = 4, /* rounds, of which the fastest counts */
	RUNS = 4    /* runs in each round */
};

/* Times closer than this are the same: then the order of the ways decides. */
static const float better = 0.98f;

/* A stream, events and memory for timing work, all NULL at first. */
struct trial {
	const struct gt_candidates *of;
	struct gt_stream stream; /* on the current device; only its first two members are set */
	cudaEvent_t begin, end;
	char *memory;
};

size_t gt_aligned_bytes(size_t bytes)
{
	return (bytes + GT_DEVICE_ALIGN - 1) / GT_DEVICE_ALIGN * GT_DEVICE_ALIGN;
}

static int check_trial(const struct trial *t, cudaError_t e, struct gt_err *err)
{
	return gt_cuda_check(e, t->stream.index, t->of->what, err);
}

static void trial_release(struct trial *t)
{
	if (t->stream.queue) {
		if (t->memory)
			cudaFreeAsync(t->memory, t->stream.queue);
		cudaStreamSynchronize(t->stream.queue);
		if (t->of->finish)
			t->of->finish(t->of->self);
		gt_cuda_queue_give(t->stream.index, t->stream.queue);
	}
	if (t->begin)
		cudaEventDestroy(t->begin);
	if (t->end)
		cudaEventDestroy(t->end);
	cudaGetLastError();
}

/*
 * Fill the memory with random numbers of any type. Each 16-bit word has a random sign, and a random
 * mantissa for bfloat16. The magnitudes are 0.5 to 1 in bfloat16 and float32, 1.75 to 1.88 in
 * float16, and 2^-15 to 2^-7 in float64. The host writes the first 8 KiB. Then the device doubles
 * the filled part until the memory is full.
 */
static cudaError_t fill_trial_memory(char *memory, size_t bytes, cudaStream_t stream)
{
	uint16_t numbers[4096];
	size_t filled = bytes < sizeof(numbers) ? bytes : sizeof(numbers);
	cudaError_t e;

	for (uint32_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		numbers[i] = (uint16_t)(0x3f00 | (i * 2654435761u >> 16 & 0x807f));
	e = cudaMemcpyAsync(memory, numbers, filled, cudaMemcpyHostToDevice, stream);
	while (!e && filled < bytes) {
		size_t more = bytes - filled < filled ? bytes - filled : filled;

		e = cudaMemcpyAsync(
		    memory + filled, memory, more, cudaMemcpyDeviceToDevice, stream);
		filled += more;
	}
	return e;
}

/* *there is false where the device has no memory for it. Memory is taken in the order of the
 * stream, as backend.c takes it. */
static int trial_init(struct trial *t, bool *there, struct gt_err *err)
{
	size_t bytes = 0;
	cudaError_t e;
	int rc = t->of->prepare(t->of->self, &bytes, err);

	if (rc)
		return rc;
	e = gt_cuda_queue_take(t->stream.index, &t->stream.queue);
	if (!e)
		e = cudaMallocAsync((void **)&t->memory, bytes, t->stream.queue);
	*there = e == cudaSuccess;
	if (e == cudaErrorMemoryAllocation) {
		t->memory = NULL;
		cudaGetLastError();
		return 0;
	}
	if (!e)
		e = cudaEventCreateWithFlags(&t->begin, cudaEventDefault);
	if (!e)
		e = cudaEventCreateWithFlags(&t->end, cudaEventDefault);
	if (!e && t->of->numbers)
		e = fill_trial_memory(t->memory, bytes, t->stream.queue);
	else if (!e)
		e = cudaMemsetAsync(t->memory, 0, bytes, t->stream.queue);
	rc = check_trial(t, e, err);
	return rc ? rc : t->of->place(t->of->self, t->memory, err);
}

static int queue_candidate(struct trial *t, int i, struct gt_err *err)
{
	return t->of->queue(t->of->self, i, &t->stream, err);
}

/* The time of a round in milliseconds. */
static int time_round(struct trial *t, int way, float *ms, struct gt_err *err)
{
	cudaError_t e = cudaEventRecord(t->begin, t->stream.queue);
	int rc = 0;

	for (int i = 0; i < RUNS && !rc; i++)
		rc = queue_candidate(t, way, err);
	if (rc)
		return rc;
	if (!e)
		e = cudaEventRecord(t->end, t->stream.queue);
	if (!e)
		e = cudaEventSynchronize(t->end);
	if (!e)
		e = cudaEventElapsedTime(ms, t->begin, t->end);
	return check_trial(t, e, err);
}

/* Run each way once, which also warms up. ms[i] becomes INFINITY where way i does not fail, and NAN
 * where it fails or its result is wrong. Without timing, one way that works is enough. */
static int try_all(struct trial *t, float *ms, struct gt_err *err)
{
	bool found = false;

	for (int i = 0; i < t->of->count; i++) {
		struct gt_err ignored = GT_ERR_INIT;
		bool runs = !(found && t->of->untimed) && !queue_candidate(t, i, &ignored);

		if (runs && t->of->verify && t->of->verify(t->of->self, i, &t->stream, &runs, err))
			return err->code;
		ms[i] = runs ? INFINITY : NAN;
		found |= runs;
	}
	return 0;
}

/* The ways take turns: the clock of an idle GPU is slow, and rises while the first rounds run. */
static int time_rounds(struct trial *t, float *ms, struct gt_err *err)
{
	for (int i = 0; i < ROUNDS * t->of->count; i++) {
		int way = i % t->of->count;
		float spent = 0;

		if (isnan(ms[way]))
			continue;
		if (time_round(t, way, &spent, err))
			return err->code;
		ms[way] = fminf(ms[way], spent);
	}
	return 0;
}

/* Without memory to find out, *best is 0 and *timed is false. */
static int time_all(const struct gt_candidates *c, int *best, bool *timed, struct gt_err *err)
{
	struct trial t = { .of = c };
	float *ms = gt_calloc((size_t)c->count, sizeof(*ms), err);
	int rc;

	if (!ms)
		return err->code;
	rc = gt_cuda_check(cudaGetDevice(&t.stream.index), 0, "cudaGetDevice", err);
	if (!rc)
		rc = trial_init(&t, timed, err);
	*best = *timed ? -1 : 0;
	if (!rc && *timed)
		rc = try_all(&t, ms, err);
	if (!rc && *timed && !c->untimed)
		rc = time_rounds(&t, ms, err);
	for (int i = 0; i < c->count && !rc && *timed; i++)
		if (!isnan(ms[i]) && (*best < 0 || ms[i] < ms[*best] * better))
			*best = i;
	trial_release(&t);
	free(ms);
	return rc;
}

/* ---- remembered choices ---- */

/* A newer driver compiles kernels anew, and may schedule them in another way. The driver takes a
 * millisecond to describe a GPU, and a plan has hundreds of nodes: so this is done once. */
static int describe_gpu(char text[GT_CHOICE_GPU], int index, struct gt_err *err)
{
	struct cudaDeviceProp gpu;
	int driver = 0;
	int rc = gt_cuda_check(
	    cudaGetDeviceProperties(&gpu, index), index, "cudaGetDeviceProperties", err);

	if (!rc)
		rc = gt_cuda_check(
		    cudaDriverGetVersion(&driver), index, "cudaDriverGetVersion", err);
	if (rc)
		return rc;
	for (char *p = gpu.name; *p; p++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.", *p))
			*p = '-';
	snprintf(text, GT_CHOICE_GPU, "driver-%d-%.60s", driver, gpu.name);
	return 0;
}

/* Form the name of the file of choices for the library and the GPU. The caller holds the lock of
 * choices. */
static int file_name(char out[GT_CHOICE_NAME], const struct gt_candidates *c, struct gt_err *err)
{
	char text[GT_CHOICE_GPU] = "", *gpu = text;
	int index = 0;
	int rc = gt_cuda_check(cudaGetDevice(&index), 0, "cudaGetDevice", err);

	if (!rc && gt_choices_gpu(index))
		gpu = gt_choices_gpu(index);
	if (!rc && !*gpu)
		rc = describe_gpu(gpu, index, err);
	if (!rc)
		snprintf(out, GT_CHOICE_NAME, "%.16s-%zu-%s.txt", c->library, c->version, gpu);
	return rc;
}

/* The number of the way that was chosen earlier, or -1. Words from a file are taken only if the
 * same are offered. */
static int find_choice(const char *name, const struct gt_candidates *c)
{
	struct gt_choice known;

	if (gt_choices_find(name, c->key, &known))
		for (int i = 0; i < c->count; i++)
			if (!memcmp(&c->choices[i], &known, sizeof(known)))
				return i;
	return -1;
}

/*
 * Set *best to the index of the fastest algorithm, or to -1 if no algorithm works. The choice is
 * remembered (choices.h). A remembered choice is used only if it is one of c->choices. If there is
 * not enough device memory for the measurement, *best is 0, and this choice is not remembered.
 *
 * Errors: GT_EDEVICE; GT_ENOMEM; the errors of prepare(), place() and verify(); the errors of
 * queue_candidate(), except in the first call for an algorithm.
 */
int gt_fastest(const struct gt_candidates *c, int *best, struct gt_err *err)
{
	char name[GT_CHOICE_NAME];
	bool timed = false;
	int rc;

	*best = -1;
	gt_choices_begin();
	rc = file_name(name, c, err);
	if (!rc)
		*best = find_choice(name, c);
	if (!rc && *best < 0) {
		gt_choices_read(name);
		*best = find_choice(name, c);
	}
	if (!rc && *best < 0) {
		rc = time_all(c, best, &timed, err);
		if (!rc && timed && *best >= 0)
			gt_choices_add(name, c->key, &c->choices[*best]);
	}
	gt_choices_end();
	return rc;
}
