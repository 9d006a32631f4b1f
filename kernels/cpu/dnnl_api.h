/* dnnl_api.h - the functions of the library oneDNN, which is opened when it is first needed. */
#ifndef GT_KERNELS_CPU_DNNL_API_H
#define GT_KERNELS_CPU_DNNL_API_H

#include <dnnl.h>

#include "lib/base/err.h"

/* The functions of oneDNN that gtrain uses, without the prefix dnnl_. To call dnnl_NAME(), write
 * gt_dnnl_api->NAME(). */
#define GT_DNNL_FUNCTIONS(X)                                                                       \
	X(convolution_backward_data_desc_init)                                                     \
	X(convolution_backward_weights_desc_init)                                                  \
	X(convolution_forward_desc_init)                                                           \
	X(engine_create)                                                                           \
	X(engine_destroy)                                                                          \
	X(get_effective_cpu_isa)                                                                   \
	X(inner_product_forward_desc_init)                                                         \
	X(matmul_desc_init)                                                                        \
	X(memory_create)                                                                           \
	X(memory_desc_equal)                                                                       \
	X(memory_desc_get_size)                                                                    \
	X(memory_desc_init_by_tag)                                                                 \
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
	X(primitive_desc_create)                                                                   \
	X(primitive_desc_destroy)                                                                  \
	X(primitive_desc_query_md)                                                                 \
	X(primitive_destroy)                                                                       \
	X(primitive_execute)                                                                       \
	X(reorder_primitive_desc_create)                                                           \
	X(sgemm)                                                                                   \
	X(stream_create)                                                                           \
	X(stream_destroy)                                                                          \
	X(stream_wait)                                                                             \
	X(version)

/* A pointer to each of these functions, with the type that <dnnl.h> declares. */
struct gt_dnnl_api {
#define GT_DNNL_MEMBER(name) __typeof__(dnnl_##name) *name;
	GT_DNNL_FUNCTIONS(GT_DNNL_MEMBER)
#undef GT_DNNL_MEMBER
};

/* All members are NULL until gt_dnnl_api_load() has succeeded, and all are set afterwards. */
extern const struct gt_dnnl_api *const gt_dnnl_api;

/*
 * Open the library oneDNN, unless it is open already. Its major version must be that of the file
 * <dnnl.h> with which gtrain was compiled. The library is never closed. Any thread may call this
 * function, any number of times: only the first call does the work, and all calls return its
 * result.
 *
 * Errors: GT_EDEVICE if the library or one of the functions is missing.
 */
int gt_dnnl_api_load(struct gt_err *err);

#endif
