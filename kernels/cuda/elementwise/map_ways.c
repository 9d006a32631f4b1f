/* map_ways.c - the choice between interpreting and compiling a program of the op map. */
#include "kernels/cuda/elementwise/map_ways.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/elementwise/map_source.h"
#include "kernels/cuda/library/fastest.h"
#include "kernels/cuda/nvrtc/kernel.h"
#include "lib/graph/map_program.h"

/*
 * gt_map_choose() is called when a plan is made, for programs that are not one function of whole
 * tensors. The first time a program is seen with these types, sizes and layout, the function
 * compiles it (map_source.c), measures the interpreter and the compiled program, and remembers the
 * faster one (fastest.h). It chooses the interpreter
 *
 *   - if NVRTC is missing or cannot compile the program; call->note then has the reason, and this
 *     choice is not remembered;
 *   - if the compiled program is not faster, or one bit of its results differs: so the choice never
 *     changes a result;
 *   - if the call is marked `untimed`, which forbids measurements (lib/graph/kernel.h).
 *
 * Errors: the errors of gt_fastest(); GT_ENOMEM.
 */

enum way { INTERPRETED, COMPILED, WAYS };

static const char timing[] = "timing an expression";

struct trial {
	struct gt_call own; /* the call with its tensors in the memory of the trial */
	const char *source;
	struct gt_nvrtc_kernel *kernel;
	const char *note;
	void *expected[GT_MAX_OUTPUTS]; /* the results of the interpreter */
	unsigned *differences;
};

static size_t tensor_bytes(const struct gt_tensor *t)
{
	return (size_t)gt_tensor_elements(t) * gt_dtype_size(t->dtype);
}

static int prepare_trial(void *self, size_t *bytes, struct gt_err *err)
{
	struct trial *t = self;

	t->kernel = gt_nvrtc_kernel_get(t->source, GT_MAP_SOURCE_NAME, &t->note);
	if (!t->kernel)
		return gt_err_set(err, GT_ENOTSUP, "%s", t->note);
	*bytes = gt_aligned_bytes(sizeof(*t->differences));
	for (int i = 0; i < t->own.inputs; i++)
		*bytes += gt_aligned_bytes(tensor_bytes(&t->own.in[i]));
	for (int j = 0; j < t->own.outputs; j++)
		*bytes += 2 * gt_aligned_bytes(tensor_bytes(&t->own.out[j]));
	return 0;
}

/* Take bytes from the memory of the trial. */
static void *take(char **memory, size_t bytes)
{
	void *p = *memory;

	*memory += gt_aligned_bytes(bytes);
	return p;
}

static int place_trial(void *self, char *memory, struct gt_err *err)
{
	struct trial *t = self;

	(void)err;
	t->differences = take(&memory, sizeof(*t->differences));
	for (int i = 0; i < t->own.inputs; i++)
		t->own.in[i].data = take(&memory, tensor_bytes(&t->own.in[i]));
	for (int j = 0; j < t->own.outputs; j++) {
		t->own.out[j].data = take(&memory, tensor_bytes(&t->own.out[j]));
		t->expected[j] = take(&memory, tensor_bytes(&t->own.out[j]));
	}
	return 0;
}

static int queue_trial(void *self, int i, struct gt_stream *stream, struct gt_err *err)
{
	struct trial *t = self;

	t->own.stream = stream;
	t->own.state = i == COMPILED ? t->kernel : NULL;
	return t->own.kernel->run(&t->own, err);
}

static int check_trial(cudaError_t e, const struct gt_stream *stream, struct gt_err *err)
{
	return gt_cuda_check(e, stream->index, timing, err);
}

/* Keep the results of the interpreter, which have been computed. */
static int keep_expected(struct trial *t, const struct gt_stream *stream, struct gt_err *err)
{
	cudaError_t e = cudaSuccess;

	for (int j = 0; j < t->own.outputs && !e; j++)
		e = cudaMemcpyAsync(t->expected[j], t->own.out[j].data,
		    tensor_bytes(&t->own.out[j]), cudaMemcpyDeviceToDevice, stream->queue);
	return check_trial(e, stream, err);
}

/* Outputs have all bits set before the compiled program runs: it might leave out elements. */
static int verify_trial(
    void *self, int i, struct gt_stream *stream, bool *right, struct gt_err *err)
{
	struct trial *t = self;
	unsigned differences = 0;
	cudaError_t e;
	int rc = 0;

	if (i == INTERPRETED)
		return keep_expected(t, stream, err);
	e = cudaMemsetAsync(t->differences, 0, sizeof(differences), stream->queue);
	for (int j = 0; j < t->own.outputs && !e; j++)
		e = cudaMemsetAsync(
		    t->own.out[j].data, 0xff, tensor_bytes(&t->own.out[j]), stream->queue);
	rc = check_trial(e, stream, err);
	if (!rc)
		rc = queue_trial(t, i, stream, err);
	for (int j = 0; j < t->own.outputs && !rc; j++)
		rc = gt_map_count_differences(
		    stream, t->differences, &t->own.out[j], t->expected[j], err);
	if (rc)
		return rc;
	e = cudaMemcpyAsync(&differences, t->differences, sizeof(differences),
	    cudaMemcpyDeviceToHost, stream->queue);
	if (!e)
		e = cudaStreamSynchronize(stream->queue);
	*right = !differences;
	if (differences)
		t->note = "expressions compiled by NVRTC differ in bits, and are interpreted";
	return check_trial(e, stream, err);
}

/* FNV-1a. */
static uint64_t hash_text(const char *text)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3;
	return hash;
}

/* The source has the types and the layout. Another version of gtrain may have another interpreter,
 * and NVRTC's version names the file of choices. */
static int find_fastest(
    struct gt_call *call, const char *source, int version, int *best, struct gt_err *err)
{
	/* the interpreter comes first: it is taken where the other one is as fast */
	const struct gt_choice choices[WAYS] = { [COMPILED] = { .words = { 1 } } };
	struct trial trial = { .own = *call, .source = source };
	char key[GT_CHOICE_KEY];
	const struct gt_candidates candidates = { .what = timing,
		.library = "nvrtc",
		.version = (size_t)version,
		.key = key,
		.count = WAYS,
		.choices = choices,
		.numbers = true,
		.prepare = prepare_trial,
		.place = place_trial,
		.queue = queue_trial,
		.verify = verify_trial,
		.self = &trial };
	int rc;

	/* a node's call has places for more, which are not present */
	trial.own.inputs = call->attrs.map.program->inputs;
	trial.own.outputs = call->attrs.map.program->outputs;
	snprintf(key, sizeof(key), GT_VERSION ":map:%016" PRIx64 ":%" PRId64, hash_text(source),
	    gt_tensor_elements(&call->out[0]));
	rc = gt_fastest(&candidates, best, err);
	call->note = trial.note;
	if (rc == GT_ENOTSUP && trial.note && !trial.kernel) {
		*best = INTERPRETED;
		*err = GT_ERR_INIT;
		return 0;
	}
	return rc;
}

int gt_map_choose(struct gt_call *call, struct gt_err *err)
{
	int version, best = INTERPRETED, rc;
	char *source;

	call->state = NULL;
	if (call->untimed || gt_nvrtc_version(&version, &call->note))
		return 0;
	rc = gt_map_source(&source, call, err);
	if (rc)
		return rc;
	rc = find_fastest(call, source, version, &best, err);
	if (!rc && best == COMPILED)
		call->state = gt_nvrtc_kernel_get(source, GT_MAP_SOURCE_NAME, &call->note);
	free(source);
	return rc;
}
