/* constant.c - the op constant: a copy of its elements. */
#include <string.h>

#include "kernels/cpu/cpu.h"

static int run_constant(struct gt_call *call, struct gt_err *err)
{
	struct gt_tensor *y = &call->out[0];

	(void)err;
	memcpy(y->data, call->attrs.constant.elements,
	    (size_t)gt_tensor_elements(y) * gt_dtype_size(y->dtype));
	return 0;
}

/* Integers have the row of float32 (struct gt_kernel). */
const struct gt_kernel gt_cpu_constant_kernels[] = {
	{ .op = "constant", .dtype = GT_F32, .run = run_constant },
	{ .op = "constant", .dtype = GT_F64, .run = run_constant },
	{ .op = "constant", .dtype = GT_BF16, .run = run_constant },
	{ .op = "constant", .dtype = GT_F16, .run = run_constant },
	{ .op = NULL },
};
