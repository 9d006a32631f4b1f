/* conv_ways.c - the choice between gtrain's convolutions and cuDNN's. */
#include "kernels/cuda/conv/conv_ways.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cudnn/conv.h"
#include "kernels/cuda/library/fastest.h"
#include "lib/base/mem.h"

/*
 * The functions of conv_ways.h are for the ops conv2d, conv2d_input_grad and conv2d_weight_grad, in
 * the kernel tables of conv.cu and conv_grouped.cu. If cuDNN computes a call, call->state holds
 * cuDNN's plan, a prepared algorithm of cuDNN. Otherwise call->state is NULL, and gtrain's kernels
 * compute the call; those of the two files support every call.
 *
 * gt_conv_choose() makes this choice and sets call->state. It is called after the row has prepared
 * the call for gtrain's kernel. The first time a shape is seen, the function measures cuDNN's plans
 * and gtrain's kernel, and remembers the fastest one (fastest.h). It chooses gtrain's kernel
 *
 *   - if cuDNN is missing, has no usable plan, is not faster, or has a result that differs too much
 *     from the result of gtrain's kernel;
 *   - if the call has a bias, a residual, relu, float64 elements or an empty tensor;
 *   - if the call is marked `untimed`, which forbids measurements (lib/graph/kernel.h).
 *
 * Errors: the errors of gt_fastest(); GT_ENOMEM.
 */

enum { WAYS = 1 + GT_CUDNN_MAX_ENGINES };

static const size_t most_workspace = (size_t)256 << 20;

/* Where the three tensors of a call are: input 0 or 1, or OUT. */
enum { OUT = 2 };

struct places {
	const char *op;
	enum gt_cudnn_kind kind;
	int x, w, y;
};

static const struct places *places_of(const struct gt_call *call)
{
	static const struct places all[] = {
		{ "conv2d", GT_CUDNN_FORWARD, 0, 1, OUT },
		{ "conv2d_input_grad", GT_CUDNN_INPUT_GRAD, OUT, 1, 0 },
		{ "conv2d_weight_grad", GT_CUDNN_WEIGHT_GRAD, 0, OUT, 1 },
	};
	const struct places *p = all;

	while (strcmp(p->op, call->kernel->op) != 0)
		p++;
	return p;
}

static const struct gt_tensor *tensor_at(const struct gt_call *call, int place)
{
	return place == OUT ? &call->out[0] : &call->in[place];
}

/*
 * Whether cuDNN can take the call. The graph described to it (cudnn/conv.c) is the convolution
 * alone, so calls with a bias, a residual or relu stay with gtrain's kernels, and so does float64.
 */
static bool describe_cudnn_call(struct gt_cudnn_shape *out, const struct gt_call *call)
{
	const struct places *p = places_of(call);
	const struct gt_tensor *x = tensor_at(call, p->x), *w = tensor_at(call, p->w),
	                       *y = tensor_at(call, p->y);

	*out = (struct gt_cudnn_shape){ .kind = p->kind,
		.dtype = x->dtype,
		.window = call->attrs.conv.window,
		.relaxed = call->attrs.conv.relaxed,
		.tf32 = call->attrs.conv.tf32 };
	for (int i = 0; i < 4; i++) {
		out->x[i] = x->shape[i];
		out->w[i] = w->shape[i];
		out->y[i] = y->shape[i];
	}
	return x->dtype != GT_F64 && !gt_optional_input(call, 2) && !gt_optional_input(call, 3) &&
	       !call->attrs.conv.relu && gt_tensor_elements(x) && gt_tensor_elements(w) &&
	       gt_tensor_elements(y);
}

/* ---- timing: way 0 is gtrain's, way i is engine i - 1 ---- */

struct trial {
	struct gt_call own; /* the call with its tensors in the memory of the trial */
	struct gt_cudnn_conv *conv;
	bool planned[GT_CUDNN_MAX_ENGINES];
	void *expected; /* the result of gtrain's kernel */
	double *sums;   /* [GT_CONV_SUMS] */
};

static size_t bytes_for(const struct gt_tensor *t)
{
	return gt_aligned_bytes((size_t)gt_tensor_elements(t) * gt_dtype_size(t->dtype));
}

/* Set *bytes to the memory of the trial. An engine whose plan cannot be made, or needs too much
 * memory, is not used. */
static int prepare_trial(void *self, size_t *bytes, struct gt_err *err)
{
	struct trial *t = self;
	size_t work = t->own.workspace_bytes, wanted;
	struct gt_err ignored = GT_ERR_INIT;

	(void)err;
	for (int i = 0; i < gt_cudnn_conv_count(t->conv); i++) {
		t->planned[i] =
		    !gt_cudnn_conv_plan(t->conv, i, &wanted, &ignored) && wanted <= most_workspace;
		if (t->planned[i] && wanted > work)
			work = wanted;
	}
	*bytes = work + bytes_for(&t->own.out[0]) + gt_aligned_bytes(GT_CONV_SUMS * sizeof(double));
	for (int i = 0; i <= OUT; i++)
		*bytes += bytes_for(tensor_at(&t->own, i));
	return 0;
}

static int place_trial(void *self, char *memory, struct gt_err *err)
{
	struct trial *t = self;
	const struct places *p = places_of(&t->own);

	for (int i = 0; i <= OUT; i++) {
		((struct gt_tensor *)tensor_at(&t->own, i))->data = memory;
		memory += bytes_for(tensor_at(&t->own, i));
	}
	t->expected = memory;
	memory += bytes_for(&t->own.out[0]);
	t->sums = (double *)memory;
	memory += gt_aligned_bytes(GT_CONV_SUMS * sizeof(double));
	t->own.workspace = memory;
	return gt_cudnn_conv_bind(t->conv, tensor_at(&t->own, p->x)->data,
	    tensor_at(&t->own, p->w)->data, tensor_at(&t->own, p->y)->data, memory, err);
}

static int queue_trial(void *self, int i, struct gt_stream *stream, struct gt_err *err)
{
	struct trial *t = self;

	if (i && !t->planned[i - 1])
		return gt_err_set(err, GT_ENOTSUP, "cuDNN: there is no plan");
	if (i)
		return gt_cudnn_conv_run(t->conv, i - 1, stream->queue, err);
	t->own.stream = stream;
	return t->own.kernel->run(&t->own, err);
}

/*
 * Largest distance (gt_conv_distance()) of a correct result. 16-bit results are rounded, factors in
 * TF32 are rounded, and relaxed algorithms round intermediate values. A sum of n terms in float32
 * that is added term by term has an error of about sqrt(n) * 2e-8.
 */
static double tolerance_of(const struct gt_call *call)
{
	const struct gt_tensor *y = tensor_at(call, places_of(call)->y);
	double pixels = (double)gt_tensor_elements(y) / (double)y->shape[1];

	if (call->in[0].dtype != GT_F32 || call->attrs.conv.tf32 || call->attrs.conv.relaxed)
		return 1e-2;
	return 3e-5 + 1e-7 * sqrt(pixels);
}

/*
 * Compare the result of algorithm i with that of gtrain's kernel, which is algorithm 0. cuDNN's
 * notes do not mention every inexact engine: on an H200, engines for the weight gradient of float32
 * images with one channel were 4e-4 off and had no note on tensor cores. An engine may also leave
 * out elements: so they are NaN before it runs.
 */
static int verify_trial(
    void *self, int i, struct gt_stream *stream, bool *right, struct gt_err *err)
{
	struct trial *t = self;
	const struct gt_tensor *out = &t->own.out[0];
	size_t bytes = (size_t)gt_tensor_elements(out) * gt_dtype_size(out->dtype);
	struct gt_err ignored = GT_ERR_INIT;
	double distance = 0;
	int rc = gt_cuda_check(cudaMemsetAsync(out->data, 0xff, bytes, stream->queue),
	    stream->index, "timing a convolution", err);

	for (int k = 0; k < OUT && !i && !rc; k++)
		rc = gt_conv_fill(stream, tensor_at(&t->own, k), (uint32_t)k, err);
	if (rc)
		return rc;
	*right = !queue_trial(t, i, stream, &ignored);
	if (!*right)
		return 0;
	if (!i)
		return gt_cuda_check(cudaMemcpyAsync(t->expected, out->data, bytes,
		                         cudaMemcpyDeviceToDevice, stream->queue),
		    stream->index, "timing a convolution", err);
	rc = gt_conv_distance(stream, out, t->expected, t->sums, &distance, err);
	*right = !rc && distance <= tolerance_of(&t->own);
	return rc;
}

/* cuDNN's handle outlives the stream of the trial. */
static void finish_trial(void *self)
{
	const struct trial *t = self;

	gt_cudnn_conv_finish(t->conv);
}

/* Another version of gtrain may have faster kernels. REVISION: choices that were remembered before
 * results were verified do not count. */
enum { REVISION = 2 };

/* The parts of a window that a square one without dilation and groups has in a shorter form. */
static void form_text(char *out, size_t size, const struct gt_cudnn_shape *s)
{
	const struct gt_window *w = &s->window;

	out[0] = '\0';
	if (s->w[2] != s->w[3] || w->stride[0] != w->stride[1] || w->pad[0] != w->pad[1] ||
	    w->dilation[0] != 1 || w->dilation[1] != 1 || s->w[1] != s->x[1])
		snprintf(out, size, ":%" PRId64 "s%dp%dd%dx%dc%" PRId64, s->w[3], w->stride[1],
		    w->pad[1], w->dilation[0], w->dilation[1], s->w[1]);
}

static void conv_choice_key(
    char out[GT_CHOICE_KEY], const struct gt_call *call, const struct gt_cudnn_shape *s)
{
	char form[48];

	form_text(form, sizeof(form), s);
	snprintf(out, GT_CHOICE_KEY,
	    GT_VERSION "-%d:%s:%s:%" PRId64 "x%" PRId64 "x%" PRId64 "x%" PRId64 ":%" PRId64
	               "x%" PRId64 ":s%d:p%d%s%s",
	    REVISION, call->kernel->op, s->tf32 ? "tf32" : gt_dtype_name(s->dtype), s->x[0],
	    s->x[1], s->x[2], s->x[3], s->w[0], s->w[2], s->window.stride[0], s->window.pad[0],
	    form, s->relaxed ? ":relaxed" : "");
}

/*
 * Way 0 has a choice of zeros, which names gtrain's kernels. It comes first, so it is taken where
 * cuDNN is as fast (gt_fastest()).
 */
static int find_fastest(struct gt_call *call, const struct gt_cudnn_shape *shape,
    struct gt_cudnn_conv *conv, int *best, struct gt_err *err)
{
	struct trial trial = { .own = *call, .conv = conv };
	struct gt_choice choices[WAYS] = { 0 };
	char key[GT_CHOICE_KEY];
	struct gt_candidates candidates = { .what = "timing a convolution",
		.library = "cudnn",
		.version = gt_cudnn->GetVersion(),
		.key = key,
		.count = 1 + gt_cudnn_conv_count(conv),
		.choices = choices,
		.prepare = prepare_trial,
		.place = place_trial,
		.queue = queue_trial,
		.verify = verify_trial,
		.finish = finish_trial,
		.self = &trial };

	memcpy(choices + 1, gt_cudnn_conv_choices(conv),
	    (size_t)gt_cudnn_conv_count(conv) * sizeof(choices[0]));
	conv_choice_key(key, call, shape);
	return gt_fastest(&candidates, best, err);
}

/* ---- the row's functions ---- */

struct state {
	struct gt_cudnn_conv *conv;
	int chosen;
};

void gt_conv_release(struct gt_call *call)
{
	struct state *s = call->state;

	if (s)
		gt_cudnn_conv_free(s->conv);
	free(s);
	call->state = NULL;
}

/* Take engine `chosen`, unless its plan cannot be made any more. */
static int take_offer(
    struct gt_call *call, struct gt_cudnn_conv *conv, int chosen, struct gt_err *err)
{
	struct gt_err ignored = GT_ERR_INIT;
	size_t workspace_bytes;
	struct state *s;

	if (gt_cudnn_conv_plan(conv, chosen, &workspace_bytes, &ignored)) {
		gt_cudnn_conv_free(conv);
		return 0;
	}
	s = gt_calloc(1, sizeof(*s), err);
	if (!s) {
		gt_cudnn_conv_free(conv);
		return GT_ENOMEM;
	}
	*s = (struct state){ conv, chosen };
	call->state = s;
	call->launches = 1;
	call->workspace_bytes = workspace_bytes;
	return 0;
}

/* Choose for a call that cuDNN may compute. The caller has locked cuDNN's handle. */
static int choose_offer(
    struct gt_call *call, const struct gt_cudnn_shape *shape, void *handle, struct gt_err *err)
{
	const struct gt_cudnn_target target = { .handle = handle };
	struct gt_err ignored = GT_ERR_INIT;
	struct gt_cudnn_conv *conv;
	int best = 0, rc;

	if (gt_cudnn_conv_new(&conv, shape, target, &ignored))
		return 0;
	rc = gt_cudnn_conv_count(conv) ? find_fastest(call, shape, conv, &best, err) : 0;
	if (!rc && best > 0)
		return take_offer(call, conv, best - 1, err);
	gt_cudnn_conv_free(conv);
	return rc;
}

/*
 * Errors of cuDNN end the choice, not the run: gtrain has a kernel for each call. Errors of timing
 * and of memory are handed on.
 */
int gt_conv_choose(struct gt_call *call, struct gt_err *err)
{
	struct gt_err ignored = GT_ERR_INIT;
	struct gt_cudnn_shape shape;
	void *handle;
	int device, rc;

	call->state = NULL;
	if (call->untimed || !describe_cudnn_call(&shape, call) || gt_cudnn_open(&ignored) ||
	    gt_cudnn_enter(&device, &handle, &ignored))
		return 0;
	rc = choose_offer(call, &shape, handle, err);
	gt_cudnn_leave(device);
	return rc;
}

int gt_conv_bind(struct gt_call *call, struct gt_err *err)
{
	const struct places *p = places_of(call);
	struct state *s = call->state;

	if (!s)
		return 0;
	return gt_cudnn_conv_bind(s->conv, tensor_at(call, p->x)->data, tensor_at(call, p->w)->data,
	    tensor_at(call, p->y)->data, call->workspace, err);
}

int gt_conv_run(struct gt_call *call, struct gt_err *err)
{
	const struct state *s = call->state;
	void *handle;
	int device, rc;

	if (gt_cudnn_enter(&device, &handle, err))
		return err->code;
	rc = gt_cudnn_conv_run(s->conv, s->chosen, call->stream->queue, err);
	gt_cudnn_leave(device);
	return rc;
}
