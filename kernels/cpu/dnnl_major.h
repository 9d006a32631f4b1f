/* dnnl_major.h - calls of oneDNN whose form depends on its major version. */
#ifndef GT_KERNELS_CPU_DNNL_MAJOR_H
#define GT_KERNELS_CPU_DNNL_MAJOR_H

#include "kernels/cpu/dnnl_api.h"

/*
 * dnnl_v2.c and dnnl_v3.c both define these functions. The Makefile compiles the file of the major
 * version of <dnnl.h>. All functions need gt_dnnl_api_load() to have succeeded, and return oneDNN's
 * status. Where *out is a primitive descriptor, the caller destroys it.
 */

/* Create a memory descriptor, which gt_dnnl_md_free() frees. A dimension of `dims` is a number of
 * elements. */
dnnl_status_t gt_dnnl_md_new(gt_dnnl_md *out, int ndim, const dnnl_dims_t dims,
    dnnl_data_type_t type, dnnl_format_tag_t tag);
void gt_dnnl_md_free(gt_dnnl_md md);

/* A convolution of two-dimensional images. For a gradient, the descriptor of the tensor whose
 * gradient is computed describes the gradient, and `y` describes the gradient of the output. */
struct gt_dnnl_conv {
	dnnl_alg_kind_t algorithm;
	gt_dnnl_md x, w, bias, y; /* `bias` is NULL without a bias, and is ignored by gradients */
	/* for height and width; oneDNN's dilation is 0 between neighbours */
	dnnl_dims_t stride, dilation, pad;
};

/* `hint` is the descriptor of the forward convolution. `attr` may be NULL. */
dnnl_status_t gt_dnnl_conv_forward(dnnl_primitive_desc_t *out, const struct gt_dnnl_conv *c,
    dnnl_engine_t engine, const_dnnl_primitive_attr_t attr);
dnnl_status_t gt_dnnl_conv_input_grad(dnnl_primitive_desc_t *out, const struct gt_dnnl_conv *c,
    dnnl_engine_t engine, const_dnnl_primitive_attr_t attr, const_dnnl_primitive_desc_t hint);
dnnl_status_t gt_dnnl_conv_weight_grad(dnnl_primitive_desc_t *out, const struct gt_dnnl_conv *c,
    dnnl_engine_t engine, const_dnnl_primitive_attr_t attr, const_dnnl_primitive_desc_t hint);

/* A product y = a b + bias. `bias` is NULL without a bias. */
struct gt_dnnl_product {
	gt_dnnl_md a, b, bias, y;
};

/* The inner product takes b as weights [n, k], the matrix product as [k, n]. */
dnnl_status_t gt_dnnl_inner_product(dnnl_primitive_desc_t *out, const struct gt_dnnl_product *p,
    dnnl_engine_t engine, const_dnnl_primitive_attr_t attr);
dnnl_status_t gt_dnnl_matmul(dnnl_primitive_desc_t *out, const struct gt_dnnl_product *p,
    dnnl_engine_t engine, const_dnnl_primitive_attr_t attr);

/* Append an operation on the result: add the earlier content of the output; or multiply negative
 * elements by `slope`. */
dnnl_status_t gt_dnnl_append_sum(dnnl_post_ops_t ops);
dnnl_status_t gt_dnnl_append_leaky_relu(dnnl_post_ops_t ops, float slope);

/* Names of instruction sets, from narrow to wide; the last entry has the name NULL. */
struct gt_dnnl_isa {
	dnnl_cpu_isa_t isa;
	const char *name;
};

extern const struct gt_dnnl_isa gt_dnnl_isas[];

#endif
