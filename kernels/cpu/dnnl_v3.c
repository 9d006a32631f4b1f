/* dnnl_v3.c - calls of oneDNN 3 that have another form in oneDNN 2. */
#include "kernels/cpu/dnnl_major.h"

dnnl_status_t gt_dnnl_md_new(
    gt_dnnl_md *out, int ndim, const dnnl_dims_t dims, dnnl_data_type_t type, dnnl_format_tag_t tag)
{
	dnnl_memory_desc_t md = NULL;
	dnnl_status_t status = gt_dnnl_api->memory_desc_create_with_tag(&md, ndim, dims, type, tag);

	*out = status == dnnl_success ? md : NULL;
	return status;
}

void gt_dnnl_md_free(gt_dnnl_md md)
{
	if (md)
		gt_dnnl_api->memory_desc_destroy((dnnl_memory_desc_t)md);
}

dnnl_status_t gt_dnnl_conv_forward(dnnl_primitive_desc_t *out, const struct gt_dnnl_conv *c,
    dnnl_engine_t engine, const_dnnl_primitive_attr_t attr)
{
	return gt_dnnl_api->convolution_forward_primitive_desc_create(out, engine,
	    dnnl_forward_training, c->algorithm, c->x, c->w, c->bias, c->y, c->stride, c->dilation,
	    c->pad, c->pad, attr);
}

dnnl_status_t gt_dnnl_conv_input_grad(dnnl_primitive_desc_t *out, const struct gt_dnnl_conv *c,
    dnnl_engine_t engine, const_dnnl_primitive_attr_t attr, const_dnnl_primitive_desc_t hint)
{
	return gt_dnnl_api->convolution_backward_data_primitive_desc_create(out, engine,
	    c->algorithm, c->x, c->w, c->y, c->stride, c->dilation, c->pad, c->pad, hint, attr);
}

dnnl_status_t gt_dnnl_conv_weight_grad(dnnl_primitive_desc_t *out, const struct gt_dnnl_conv *c,
    dnnl_engine_t engine, const_dnnl_primitive_attr_t attr, const_dnnl_primitive_desc_t hint)
{
	return gt_dnnl_api->convolution_backward_weights_primitive_desc_create(out, engine,
	    c->algorithm, c->x, c->w, NULL, c->y, c->stride, c->dilation, c->pad, c->pad, hint,
	    attr);
}

dnnl_status_t gt_dnnl_inner_product(dnnl_primitive_desc_t *out, const struct gt_dnnl_product *p,
    dnnl_engine_t engine, const_dnnl_primitive_attr_t attr)
{
	return gt_dnnl_api->inner_product_forward_primitive_desc_create(
	    out, engine, dnnl_forward_training, p->a, p->b, p->bias, p->y, attr);
}

dnnl_status_t gt_dnnl_matmul(dnnl_primitive_desc_t *out, const struct gt_dnnl_product *p,
    dnnl_engine_t engine, const_dnnl_primitive_attr_t attr)
{
	return gt_dnnl_api->matmul_primitive_desc_create(
	    out, engine, p->a, p->b, p->bias, p->y, attr);
}

dnnl_status_t gt_dnnl_append_sum(dnnl_post_ops_t ops)
{
	return gt_dnnl_api->post_ops_append_sum(ops, 1.0f, 0, dnnl_data_type_undef);
}

dnnl_status_t gt_dnnl_append_leaky_relu(dnnl_post_ops_t ops, float slope)
{
	return gt_dnnl_api->post_ops_append_eltwise(ops, dnnl_eltwise_relu, slope, 0.0f);
}

/* The names that oneDNN has given to instruction sets since version 3.0. */
const struct gt_dnnl_isa gt_dnnl_isas[] = {
	{ dnnl_cpu_isa_default, "any" },
	{ dnnl_cpu_isa_sse41, "SSE4.1" },
	{ dnnl_cpu_isa_avx, "AVX" },
	{ dnnl_cpu_isa_avx2, "AVX2" },
	{ dnnl_cpu_isa_avx2_vnni, "AVX2-VNNI" },
	{ dnnl_cpu_isa_avx512_core, "AVX512" },
	{ dnnl_cpu_isa_avx512_core_vnni, "AVX512-VNNI" },
	{ dnnl_cpu_isa_avx512_core_bf16, "AVX512-BF16" },
	{ dnnl_cpu_isa_avx512_core_fp16, "AVX512-FP16" },
	{ dnnl_cpu_isa_avx512_core_amx, "AMX" },
	{ 0, NULL },
};
