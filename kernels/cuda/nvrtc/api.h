/* api.h - declarations of NVRTC's functions; the library is opened when it is needed. */
#ifndef GT_KERNELS_CUDA_NVRTC_API_H
#define GT_KERNELS_CUDA_NVRTC_API_H

#include <stddef.h>

#include "lib/base/err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* gtrain's own declarations: no header of NVRTC is needed, and abi.cc compares them with it.
 * Statuses are ints, 0 is success; a program is an opaque pointer. Source: NVIDIA, "NVRTC". */

/* X(result, name without nvrtc, arguments). */
#define GT_NVRTC_FUNCTIONS(X)                                                                      \
	X(const char *, GetErrorString, (int status))                                              \
	X(int, CreateProgram,                                                                      \
	    (void **program, const char *source, const char *name, int headers,                    \
	        const char *const *header, const char *const *header_names))                       \
	X(int, DestroyProgram, (void **program))                                                   \
	X(int, CompileProgram, (void *program, int count, const char *const *options))             \
	X(int, GetCUBINSize, (void *program, size_t *bytes))                                       \
	X(int, GetCUBIN, (void *program, char *cubin))                                             \
	X(int, GetProgramLogSize, (void *program, size_t *bytes))                                  \
	X(int, GetProgramLog, (void *program, char *log))

/* Call nvrtcNAME() as api->NAME(). */
struct gt_nvrtc_api {
#define GT_NVRTC_MEMBER(result, name, arguments) result(*name) arguments;
	GT_NVRTC_FUNCTIONS(GT_NVRTC_MEMBER)
#undef GT_NVRTC_MEMBER
	int version; /* 13000 is 13.0 */
};

/* Open the library for a driver that runs CUDA up to `driver`. Errors: GT_EDEVICE. */
int gt_nvrtc_find(struct gt_nvrtc_api *out, int driver, struct gt_err *err);

/*
 * Compile a source for GPUs with the compute capability `arch` (90 is 9.0), without contraction to
 * multiply-adds. *cubin, of *bytes bytes, is the caller's. `name` is that of the kernel, for
 * errors: GT_EDEVICE, with the first line of the compiler's log; GT_ENOMEM.
 */
int gt_nvrtc_compile(char **cubin, size_t *bytes, const struct gt_nvrtc_api *api,
    const char *source, const char *name, int arch, struct gt_err *err);

#ifdef __cplusplus
}
#endif

#endif
