/* conv_calls.h - calls of convolutions on a simulated GPU, and the engine of cuDNN for each. */
#ifndef GT_TESTS_CUDASIM_CONV_CALLS_H
#define GT_TESTS_CUDASIM_CONV_CALLS_H

#include "tests/common/calls.h"
#include "tests/common/device.h"
#include "tests/cudasim/cudasim.h"

/* Of lib/cudnn.cc: the fastest engines that float32, 16 bits and relaxed convolutions may take. A
 * faster one computes wrong results. OWN stands for gtrain's kernels. */
enum { OWN = -1, F32_ENGINE = 9, HALF_ENGINE = 5, TF32_ENGINE = 5, RELAXED_ENGINE = 8 };

static inline void ok(int rc, const struct gt_err *err)
{
	if (rc)
		fail_msg("%s", err->text);
}

struct conv_case {
	int64_t b, c, h, w, o;
	int k, stride, pad, dilation, groups;
};

static const struct conv_case cases[] = {
	{ 2, 3, 8, 8, 16, 3, 1, 1, 1, 1 },
	{ 3, 16, 9, 7, 8, 3, 2, 1, 1, 1 },
	{ 2, 8, 8, 8, 12, 1, 2, 0, 1, 1 },
	{ 1, 6, 7, 6, 5, 5, 1, 2, 1, 1 },
	{ 1, 17, 5, 6, 1, 3, 3, 2, 1, 1 },
	{ 1, 1, 1, 1, 1, 1, 1, 0, 1, 1 },
	{ 2, 8, 8, 9, 8, 3, 1, 2, 2, 1 },
	{ 2, 8, 8, 7, 16, 3, 2, 1, 1, 4 },
	{ 1, 5, 6, 7, 5, 3, 1, 1, 1, 5 },
};
enum { CASES = sizeof(cases) / sizeof(cases[0]) };

static const char *const ops[] = { "conv2d", "conv2d_input_grad", "conv2d_weight_grad" };

static inline int64_t out_of(int64_t n, const struct conv_case *c)
{
	return (n + 2 * c->pad - c->dilation * (c->k - 1) - 1) / c->stride + 1;
}

static inline struct gt_tensor tensor_of(enum gt_dtype dtype, const struct conv_case *c, char which)
{
	struct gt_tensor t;

	if (which == 'x')
		return test_tensor4(dtype, c->b, c->c, c->h, c->w);
	if (which == 'y')
		return test_tensor4(dtype, c->b, c->o, out_of(c->h, c), out_of(c->w, c));
	t = test_tensor4(dtype, c->o, c->c / c->groups, c->k, c->k);
	t.layout = GT_PLAIN;
	return t;
}

/* A call of ops[op]. Inputs are numbers of 16 bits, so that all types begin with the same. */
static inline struct gt_call call_of(int op, enum gt_dtype dtype, const struct conv_case *c)
{
	static const char tensors[3][4] = { "xwy", "ywx", "xyw" };
	struct gt_call call = { .inputs = 2, .outputs = 1 };

	for (int i = 0; i < 2; i++) {
		call.in[i] = tensor_of(dtype, c, tensors[op][i]);
		test_random_int(&call.in[i], (uint32_t)tensors[op][i], -64, 64);
		for (int64_t k = 0; k < gt_tensor_elements(&call.in[i]); k++)
			test_put(&call.in[i], k, test_get(&call.in[i], k) / 64);
	}
	call.out[0] = tensor_of(dtype, c, tensors[op][2]);
	call.attrs.conv.window = test_window(c->k, c->stride, c->pad);
	for (int i = 0; i < 2; i++)
		call.attrs.conv.window.dilation[i] = c->dilation;
	call.attrs.conv.groups = c->groups;
	call.attrs.conv.in_height = c->h;
	call.attrs.conv.in_width = c->w;
	return call;
}

static inline const struct gt_cpu_set *gpu(void)
{
	struct test_set set[3];

	test_sets(set);
	return set[0].set;
}

/* Run a call: the engine that it is run with, twice, and nothing else if its choice is known. */
static inline int run(int op, struct gt_call *call)
{
	long queued = cudasim_cudnn.queued;

	cudasim_cudnn.engine = OWN;
	call->workspace_bytes = 0;
	test_launch(gpu(), ops[op], call->out[0].dtype, call);
	return cudasim_cudnn.queued == queued ? OWN : (int)cudasim_cudnn.engine;
}

/* The engine that a call of its own shape takes; `channels` names the shape. */
static inline int engine_of(int64_t channels, bool untimed, bool relaxed)
{
	struct conv_case c = { 1, channels, 3, 3, 2, 3, 1, 1, 1, 1 };
	struct gt_call call = call_of(0, GT_F32, &c);
	const struct gt_kernel *k;
	struct gt_err err = GT_ERR_INIT;
	int engine = OWN;

	call.untimed = untimed;
	call.attrs.conv.relaxed = relaxed;
	k = test_row(gpu(), "conv2d", GT_F32, &call);
	call.kernel = k;
	ok(k->prepare(&call, &err), &err);
	if (call.state) {
		k->release(&call);
		assert_null(call.state);
		engine = run(0, &call);
	}
	test_release(&call);
	return engine;
}

#endif
