/* dnnl_api.h - the functions of the library oneDNN, which is opened when it is first needed. */
#ifndef GT_KERNELS_CPU_DNNL_API_H
#define GT_KERNELS_CPU_DNNL_API_H

#include <dnnl.h>
#include <stddef.h>

#include "lib/base/err.h"

/* Call dnnl_NAME() as gt_dnnl_api->NAME(). Functions of one major version are called by dnnl_v2.c
 * or dnnl_v3.c. */
#if DNNL_VERSION_MAJOR == 2
#define GT_DNNL_MAJOR_FUNCTIONS(X)                                                                 \
	X(dilated_convolution_backward_data_desc_init)                                             \
	X(dilated_convolution_backward_weights_desc_init)                                          \
	X(dilated_convolution_forward_desc_init)                                                   \
	X(inner_product_forward_desc_init)                                                         \
	X(matmul_desc_init)                                                                        \
	X(memory_desc_init_by_tag)                                                                 \
	X(primitive_desc_create)
#else
#define GT_DNNL_MAJOR_FUNCTIONS(X)                                                                 \
	X(convolution_backward_data_primitive_desc_create)                                         \
	X(convolution_backward_weights_primitive_desc_create)                                      \
	X(convolution_forward_primitive_desc_create)                                               \
	X(inner_product_forward_primitive_desc_create)                                             \
	X(matmul_primitive_desc_create)                                                            \
	X(memory_desc_create_with_tag)                                                             \
	X(memory_desc_destroy)
#endif

#define GT_DNNL_FUNCTIONS(X)                                                                       \
	GT_DNNL_MAJOR_FUNCTIONS(X)                                                                 \
	X(engine_create)                                                                           \
	X(engine_destroy)                                                                          \
	X(get_effective_cpu_isa)                                                                   \
	X(get_primitive_cache_capacity)                                                            \
	X(memory_create)                                                                           \
	X(memory_desc_equal)                                                                       \
	X(memory_desc_get_size)                                                                    \
	X(memory_destroy)                                                                          \
	X(memory_set_data_handle)                                                                  \
	X(post_ops_append_eltwise)                                                                 \
	X(post_ops_append_sum)                                                                     \
	X(post_ops_create)                                                                         \
	X(post_ops_destroy)                                                                        \
	X(primitive_attr_create)                                                                   \
	X(primitive_attr_destroy)                                                                  \
	X(primitive_attr_set_post_ops)                                                             \
	X(primitive_attr_set_scratchpad_mode)                                                      \
	X(primitive_create)                                                                        \
	X(primitive_desc_clone)                                                                    \
	X(primitive_desc_destroy)                                                                  \
	X(primitive_desc_query)                                                                    \
	X(primitive_desc_query_md)                                                                 \
	X(primitive_destroy)                                                                       \
	X(primitive_execute)                                                                       \
	X(reorder_primitive_desc_create)                                                           \
	X(set_primitive_cache_capacity)                                                            \
	X(sgemm)                                                                                   \
	X(stream_create)                                                                           \
	X(stream_destroy)                                                                          \
	X(stream_wait)                                                                             \
	X(version)

/* Pointers, with the types of <dnnl.h>. */
struct gt_dnnl_api {
#define GT_DNNL_MEMBER(name) __typeof__(dnnl_##name) *name;
	GT_DNNL_FUNCTIONS(GT_DNNL_MEMBER)
#undef GT_DNNL_MEMBER
};

/* A memory descriptor: shape, data type and memory format. What it points to depends on the major
 * version. */
typedef __typeof__(dnnl_primitive_desc_query_md(NULL, dnnl_query_src_md, 0)) gt_dnnl_md;

/* The members are NULL until gt_dnnl_api_load() has succeeded. */
extern const struct gt_dnnl_api *const gt_dnnl_api;

/* Open oneDNN once, for the whole process. Any thread may call this. Errors: GT_EDEVICE if the
 * library or a function is missing. */
int gt_dnnl_api_load(struct gt_err *err);

#endif
