/* half.c - ops in types of 16 bits, computed in float32 by the kernels that do so. */
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/narrow.h"
#include "kernels/cpu/parallel.h"
#include "lib/base/mem.h"

/*
 * A row here takes a call some of whose tensors have 16 bits an element, makes the same call of it
 * in float32, and has this instruction set's float32 kernel run that one: "whole", with copies of
 * these tensors in the workspace, or, where element e of the output depends on the elements e
 * alone, "tiles", with a few thousand elements at a time on the stack. Every result is rounded
 * once, when it is narrowed. A kernel that does the work of two ops rounds the values between them,
 * too: gt_call.narrow tells it the types. Tensors of other types are handed on as they are: float32
 * vectors of normalisations, indices, random numbers. Where a file of this folder has a row for a
 * type of 16 bits of its own (oneDNN's products), that row stands before these.
 */
enum { TENSORS = GT_MAX_INPUTS + GT_MAX_OUTPUTS, TILE = 2048, LINE_BYTES = 64 };

struct half {
	const struct gt_kernel *kernel;
	struct gt_call inner; /* whole: the call in float32 */
	size_t at[TENSORS];   /* whole: where in the workspace the copy of a tensor is */
};

/* Tensor i of a call: the inputs, then the outputs. */
static struct gt_tensor *tensor_of(struct gt_call *call, int i)
{
	return i < GT_MAX_INPUTS ? &call->in[i] : &call->out[i - GT_MAX_INPUTS];
}

static bool is_half(const struct gt_tensor *t)
{
	return t->present && gt_dtype_wide(t->dtype) != t->dtype;
}

static void widen_call(struct gt_call *inner, const struct gt_call *call)
{
	*inner = *call;
	inner->workspace_bytes = 0;
	inner->state = NULL;
	for (int i = 0; i < TENSORS; i++)
		if (is_half(tensor_of(inner, i)))
			tensor_of(inner, i)->dtype = GT_F32;
}

/* The float32 kernel of the same op for such a call, or NULL. */
static const struct gt_kernel *find_wide_kernel(const struct gt_call *call)
{
	const struct gt_kernel *const *tables = GT_ISA(gt_cpu_set).tables;
	struct gt_call inner;

	widen_call(&inner, call);
	for (; *tables; tables++)
		for (const struct gt_kernel *k = *tables; k->op; k++) {
			inner.kernel = k;
			if (k->dtype == GT_F32 && !strcmp(k->op, call->kernel->op) &&
			    (!k->accepts || k->accepts(&inner)))
				return k;
		}
	return NULL;
}

static struct half *state_new(struct gt_call *call, struct gt_err *err)
{
	struct half *h = gt_calloc(1, sizeof(*h), err);

	if (h)
		h->kernel = find_wide_kernel(call);
	call->state = h;
	return h;
}

/* ---- whole tensors ---- */

static void release_whole(struct gt_call *call)
{
	struct half *h = call->state;

	if (h && h->kernel->release)
		h->kernel->release(&h->inner);
	free(h);
	call->state = NULL;
}

static size_t whole_lines(size_t bytes)
{
	return (size_t)gt_round_up((int64_t)bytes, LINE_BYTES);
}

static int prepare_whole(struct gt_call *call, struct gt_err *err)
{
	struct half *h = state_new(call, err);
	size_t bytes;

	if (!h)
		return GT_ENOMEM;
	widen_call(&h->inner, call);
	h->inner.kernel = h->kernel;
	if (h->kernel->prepare && h->kernel->prepare(&h->inner, err)) {
		free(h);
		call->state = NULL;
		return err->code;
	}
	bytes = whole_lines(h->inner.workspace_bytes);
	for (int i = 0; i < TENSORS; i++) {
		if (!is_half(tensor_of(call, i)))
			continue;
		h->at[i] = bytes;
		bytes +=
		    whole_lines((size_t)gt_tensor_elements(tensor_of(call, i)) * sizeof(float));
	}
	call->workspace_bytes = bytes;
	return 0;
}

static int bind_whole(struct gt_call *call, struct gt_err *err)
{
	struct half *h = call->state;

	for (int i = 0; i < TENSORS; i++) {
		const struct gt_tensor *t = tensor_of(call, i);

		tensor_of(&h->inner, i)->data =
		    is_half(t) ? (char *)call->workspace + h->at[i] : t->data;
	}
	h->inner.workspace = call->workspace;
	return h->kernel->bind ? h->kernel->bind(&h->inner, err) : 0;
}

static void widen_tensor(const struct gt_tensor *to, const struct gt_tensor *from)
{
	int64_t n = gt_tensor_elements(from);

#pragma omp parallel for schedule(static) if (n >= GT_FORK_MIN)
	for (int64_t i = 0; i < n; i += GT_GRAIN)
		gt_widen((float *)to->data + i, (const uint16_t *)from->data + i,
		    gt_min(GT_GRAIN, n - i), from->dtype);
}

static void narrow_tensor(const struct gt_tensor *to, const struct gt_tensor *from)
{
	int64_t n = gt_tensor_elements(to);

#pragma omp parallel for schedule(static) if (n >= GT_FORK_MIN)
	for (int64_t i = 0; i < n; i += GT_GRAIN)
		gt_narrow((uint16_t *)to->data + i, (const float *)from->data + i,
		    gt_min(GT_GRAIN, n - i), to->dtype);
}

static int run_whole(struct gt_call *call, struct gt_err *err)
{
	struct half *h = call->state;
	int rc;

	for (int i = 0; i < call->inputs; i++)
		if (is_half(&call->in[i]))
			widen_tensor(&h->inner.in[i], &call->in[i]);
	h->inner.narrow = call;
	rc = h->kernel->run(&h->inner, err);
	for (int i = 0; i < call->outputs && !rc; i++)
		if (is_half(&call->out[i]))
			narrow_tensor(&call->out[i], &h->inner.out[i]);
	return rc;
}

/* ---- tiles ---- */

static int prepare_tiles(struct gt_call *call, struct gt_err *err)
{
	return state_new(call, err) ? 0 : GT_ENOMEM;
}

static void release_tiles(struct gt_call *call)
{
	free(call->state);
	call->state = NULL;
}

/* Elements [from, from + n) of the call. */
static void run_tile(struct gt_call *call, int64_t from, int64_t n)
{
	enum { MOST = 3 }; /* tensors of an elementwise op */
	_Alignas(64) float buffers[MOST][TILE];
	const struct half *h = call->state;
	struct gt_call tile = { .attrs = call->attrs,
		.inputs = call->inputs,
		.outputs = call->outputs,
		.kernel = h->kernel };
	int used = 0;

	for (int i = 0; i < TENSORS; i++) {
		const struct gt_tensor *t = tensor_of(call, i);
		struct gt_tensor *to = tensor_of(&tile, i);

		if (!t->present)
			continue;
		*to = (struct gt_tensor){ .present = true, .dtype = t->dtype, .ndim = 1, { n } };
		to->data = (char *)t->data + (size_t)from * gt_dtype_size(t->dtype);
		if (!is_half(t))
			continue;
		to->dtype = GT_F32;
		to->data = buffers[used++];
		if (i < GT_MAX_INPUTS)
			gt_widen(to->data, (const uint16_t *)t->data + from, n, t->dtype);
	}
	h->kernel->run(&tile, GT_ERR_IGNORED); /* no elementwise kernel fails */
	for (int i = 0; i < call->outputs; i++)
		if (is_half(&call->out[i]))
			gt_narrow((uint16_t *)call->out[i].data + from, tile.out[i].data, n,
			    call->out[i].dtype);
}

static int run_tiles(struct gt_call *call, struct gt_err *err)
{
	int64_t n = gt_tensor_elements(&call->out[0]);

	(void)err;
#pragma omp parallel for schedule(static) if (n >= GT_FORK_MIN)
	for (int64_t from = 0; from < n; from += TILE)
		run_tile(call, from, gt_min(TILE, n - from));
	return 0;
}

/* ---- the rows ---- */

static bool accepts(const struct gt_call *call)
{
	return find_wide_kernel(call);
}

/* A call of float32 that makes 16 bits. */
static bool accepts_low_output(const struct gt_call *call)
{
	return is_half(&call->out[0]) && find_wide_kernel(call);
}

#define ROW(name, type, accepts_it, bind_it, how)                                                  \
	{                                                                                          \
		.op = #name, .dtype = type, .accepts = accepts_it, .prepare = prepare_##how,       \
		.bind = bind_it, .run = run_##how, .release = release_##how                        \
	}
#define TILES(name)                                                                                \
	ROW(name, GT_BF16, accepts, NULL, tiles), ROW(name, GT_F16, accepts, NULL, tiles)
#define WHOLE(name)                                                                                \
	ROW(name, GT_BF16, accepts, bind_whole, whole),                                            \
	    ROW(name, GT_F16, accepts, bind_whole, whole)

const struct gt_kernel GT_ISA(gt_cpu_half_kernels)[] = {
	TILES(add),
	TILES(relu),
	TILES(relu_grad),
	TILES(gelu),
	TILES(gelu_grad),
	TILES(swiglu),
	TILES(copy),
	TILES(fill),
	WHOLE(matmul),
	WHOLE(batched_matmul),
	WHOLE(grouped_matmul),
	WHOLE(grouped_matmul_grad),
	WHOLE(softmax),
	WHOLE(softmax_grad),
	WHOLE(conv2d),
	WHOLE(conv2d_input_grad),
	WHOLE(conv2d_weight_grad),
	WHOLE(attention),
	WHOLE(attention_grad),
	WHOLE(lstm),
	WHOLE(lstm_grad),
	WHOLE(gru),
	WHOLE(gru_grad),
	WHOLE(bias_add),
	WHOLE(bias_grad),
	WHOLE(embedding),
	ROW(embedding, GT_F32, accepts_low_output, bind_whole, whole),
	WHOLE(embedding_grad),
	WHOLE(position_grad),
	WHOLE(topk),
	WHOLE(index_gather),
	WHOLE(index_scatter),
	WHOLE(layer_norm),
	ROW(layer_norm, GT_F32, accepts_low_output, bind_whole, whole),
	WHOLE(layer_norm_grad),
	WHOLE(add_layer_norm),
	WHOLE(add_layer_norm_grad),
	WHOLE(swiglu_grad),
	WHOLE(rms_norm),
	WHOLE(rms_norm_grad),
	WHOLE(rope),
	WHOLE(rope_grad),
	WHOLE(batch_norm),
	WHOLE(batch_norm_grad),
	WHOLE(batch_norm_eval),
	WHOLE(batch_norm_moments),
	WHOLE(batch_norm_apply),
	WHOLE(batch_norm_grad_sums),
	WHOLE(batch_norm_grad_apply),
	WHOLE(dropout),
	WHOLE(subsample),
	WHOLE(subsample_grad),
	WHOLE(patch_tokens),
	WHOLE(patch_tokens_grad),
	WHOLE(last_position),
	WHOLE(max_pool2d),
	WHOLE(max_pool2d_grad),
	WHOLE(avg_pool2d),
	WHOLE(avg_pool2d_grad),
	WHOLE(resample),
	WHOLE(resample_grad),
	{ .op = NULL },
};
