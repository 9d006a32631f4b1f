/* dnnl_v2.c - calls of oneDNN 2 that have another form in oneDNN 3. */
#include <stdlib.h>

#include "kernels/cpu/dnnl_major.h"

dnnl_status_t gt_dnnl_md_new(
    gt_dnnl_md *out, int ndim, const dnnl_dims_t dims, dnnl_data_type_t type, dnnl_format_tag_t tag)
{
	dnnl_memory_desc_t *md = malloc(sizeof(*md));
	dnnl_status_t status = dnnl_out_of_memory;

	if (md)
		status = gt_dnnl_api->memory_desc_init_by_tag(md, ndim, dims, type, tag);
	if (status != dnnl_success) {
		free(md);
		md = NULL;
	}
	*out = md;
	return status;
}

void gt_dnnl_md_free(gt_dnnl_md md)
{
	free((dnnl_memory_desc_t *)md);
}

dnnl_status_t gt_dnnl_conv_forward(dnnl_primitive_desc_t *out, const struct gt_dnnl_conv *c,
    dnnl_engine_t engine, const_dnnl_primitive_attr_t attr)
{
	dnnl_convolution_desc_t conv;
	dnnl_status_t status =
	    gt_dnnl_api->dilated_convolution_forward_desc_init(&conv, dnnl_forward_training,
	        c->algorithm, c->x, c->w, c->bias, c->y, c->stride, c->dilation, c->pad, c->pad);

	if (status != dnnl_success)
		return status;
	return gt_dnnl_api->primitive_desc_create(out, &conv, attr, engine, NULL);
}

dnnl_status_t gt_dnnl_conv_input_grad(dnnl_primitive_desc_t *out, const struct gt_dnnl_conv *c,
    dnnl_engine_t engine, const_dnnl_primitive_attr_t attr, const_dnnl_primitive_desc_t hint)
{
	dnnl_convolution_desc_t conv;
	dnnl_status_t status = gt_dnnl_api->dilated_convolution_backward_data_desc_init(
	    &conv, c->algorithm, c->x, c->w, c->y, c->stride, c->dilation, c->pad, c->pad);

	if (status != dnnl_success)
		return status;
	return gt_dnnl_api->primitive_desc_create(out, &conv, attr, engine, hint);
}

dnnl_status_t gt_dnnl_conv_weight_grad(dnnl_primitive_desc_t *out, const struct gt_dnnl_conv *c,
    dnnl_engine_t engine, const_dnnl_primitive_attr_t attr, const_dnnl_primitive_desc_t hint)
{
	dnnl_convolution_desc_t conv;
	dnnl_status_t status = gt_dnnl_api->dilated_convolution_backward_weights_desc_init(
	    &conv, c->algorithm, c->x, c->w, NULL, c->y, c->stride, c->dilation, c->pad, c->pad);

	if (status != dnnl_success)
		return status;
	return gt_dnnl_api->primitive_desc_create(out, &conv, attr, engine, hint);
}

dnnl_status_t gt_dnnl_inner_product(dnnl_primitive_desc_t *out, const struct gt_dnnl_product *p,
    dnnl_engine_t engine, const_dnnl_primitive_attr_t attr)
{
	dnnl_inner_product_desc_t product;
	dnnl_status_t status = gt_dnnl_api->inner_product_forward_desc_init(
	    &product, dnnl_forward_training, p->a, p->b, p->bias, p->y);

	if (status != dnnl_success)
		return status;
	return gt_dnnl_api->primitive_desc_create(out, &product, attr, engine, NULL);
}

dnnl_status_t gt_dnnl_matmul(dnnl_primitive_desc_t *out, const struct gt_dnnl_product *p,
    dnnl_engine_t engine, const_dnnl_primitive_attr_t attr)
{
	dnnl_matmul_desc_t product;
	dnnl_status_t status = gt_dnnl_api->matmul_desc_init(&product, p->a, p->b, p->bias, p->y);

	if (status != dnnl_success)
		return status;
	return gt_dnnl_api->primitive_desc_create(out, &product, attr, engine, NULL);
}

dnnl_status_t gt_dnnl_append_sum(dnnl_post_ops_t ops)
{
	return gt_dnnl_api->post_ops_append_sum(ops, 1.0f);
}

dnnl_status_t gt_dnnl_append_leaky_relu(dnnl_post_ops_t ops, float slope)
{
	return gt_dnnl_api->post_ops_append_eltwise(ops, 1.0f, dnnl_eltwise_relu, slope, 0.0f);
}

const struct gt_dnnl_isa gt_dnnl_isas[] = {
	{ dnnl_cpu_isa_all, "any" },
	{ dnnl_cpu_isa_sse41, "SSE4.1" },
	{ dnnl_cpu_isa_avx, "AVX" },
	{ dnnl_cpu_isa_avx2, "AVX2" },
	{ dnnl_cpu_isa_avx2_vnni, "AVX2-VNNI" },
	{ dnnl_cpu_isa_avx512_mic, "AVX512-MIC" },
	{ dnnl_cpu_isa_avx512_mic_4ops, "AVX512-MIC-4OPS" },
	{ dnnl_cpu_isa_avx512_core, "AVX512" },
	{ dnnl_cpu_isa_avx512_core_vnni, "AVX512-VNNI" },
	{ dnnl_cpu_isa_avx512_core_bf16, "AVX512-BF16" },
	{ dnnl_cpu_isa_avx512_core_amx, "AMX" },
	{ 0, NULL },
};
