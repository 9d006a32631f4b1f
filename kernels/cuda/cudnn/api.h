/* api.h - declarations of cuDNN's types and functions; the library is opened when it is needed. */
#ifndef GT_KERNELS_CUDA_CUDNN_API_H
#define GT_KERNELS_CUDA_CUDNN_API_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* gtrain's own declarations: no header of cuDNN is needed, and abi.cc compares them with it.
 * Enumerations are ints. Source: NVIDIA, "cuDNN Backend API". */

enum gt_cudnn_number {
	/* versions from 9.0 to below 10.0 */
	GT_CUDNN_VERSION = 90000,
	GT_CUDNN_VERSION_END = 100000,
	/* statuses; the thousands are the kind of error */
	GT_CUDNN_SUCCESS = 0,
	GT_CUDNN_BAD_PARAM = 2000,
	GT_CUDNN_NOT_FINALIZED = 2004,
	GT_CUDNN_NOT_SUPPORTED = 3000,
	GT_CUDNN_EXECUTION_FAILED = 5000,
	/* element types */
	GT_CUDNN_F32 = 0,
	GT_CUDNN_F16 = 2,
	GT_CUDNN_BF16 = 9,
	GT_CUDNN_CROSS_CORRELATION = 1, /* the kernel is not flipped */
	/* heuristics, which propose engines */
	GT_CUDNN_HEUR_A = 3,
	GT_CUDNN_HEUR_B = 1,
	GT_CUDNN_HEUR_FALLBACK = 2,
	/* properties of an engine's numbers */
	GT_CUDNN_NOTE_TENSOR_CORE = 0,
	GT_CUDNN_NOTE_DOWN_CONVERT = 1,
	GT_CUDNN_NOTE_REDUCED_SUMS = 2,
	GT_CUDNN_NOTE_FFT = 3,
	GT_CUDNN_NOTE_NONDETERMINISTIC = 4,
	GT_CUDNN_NOTE_WINOGRAD = 5,
	GT_CUDNN_NOTE_WINOGRAD_4X4 = 6,
	GT_CUDNN_NOTE_WINOGRAD_6X6 = 7,
	GT_CUDNN_NOTE_WINOGRAD_13X13 = 8,
	/* types of attributes */
	GT_CUDNN_HANDLE = 0,
	GT_CUDNN_DATA_TYPE = 1,
	GT_CUDNN_INT64 = 3,
	GT_CUDNN_FLOAT = 4,
	GT_CUDNN_POINTER = 6,
	GT_CUDNN_MODE = 7,
	GT_CUDNN_HEUR_MODE = 8,
	GT_CUDNN_KNOB = 9,
	GT_CUDNN_NOTE = 11,
	GT_CUDNN_DESCRIPTOR = 15,
	GT_CUDNN_CHAR = 24
};

/* Descriptors. An engine computes an operation; a knob is a setting of it; a config is an engine
 * with settings; a pack has the pointers to the tensors. */
enum gt_cudnn_kind {
	GT_CUDNN_CONVOLUTION = 1,
	GT_CUDNN_ENGINE = 2,
	GT_CUDNN_CONFIG = 3,
	GT_CUDNN_HEURISTICS = 4,
	GT_CUDNN_PLAN = 5,
	GT_CUDNN_KNOB_CHOICE = 7,
	GT_CUDNN_FORWARD = 10,
	GT_CUDNN_WEIGHT_GRAD = 11,
	GT_CUDNN_INPUT_GRAD = 12,
	GT_CUDNN_GRAPH = 15,
	GT_CUDNN_PACK = 16,
	GT_CUDNN_TENSOR = 17,
	GT_CUDNN_PROPERTIES = 38 /* properties of a device; since cuDNN 9.8 */
};

/* Attributes, with the kind of their descriptor. */
enum gt_cudnn_attribute {
	GT_CUDNN_CONVOLUTION_COMPUTE = 100,
	GT_CUDNN_CONVOLUTION_MODE = 101,
	GT_CUDNN_CONVOLUTION_DILATIONS = 102,
	GT_CUDNN_CONVOLUTION_STRIDES = 103,
	GT_CUDNN_CONVOLUTION_PADS_AFTER = 104,
	GT_CUDNN_CONVOLUTION_PADS_BEFORE = 105,
	GT_CUDNN_CONVOLUTION_DIMS = 106,
	GT_CUDNN_HEURISTICS_MODE = 200,
	GT_CUDNN_HEURISTICS_GRAPH = 201,
	GT_CUDNN_HEURISTICS_RESULTS = 202,
	GT_CUDNN_HEURISTICS_PROPERTIES = 204,
	GT_CUDNN_CONFIG_ENGINE = 300,
	GT_CUDNN_CONFIG_KNOBS = 302,
	GT_CUDNN_PLAN_HANDLE = 400,
	GT_CUDNN_PLAN_CONFIG = 401,
	GT_CUDNN_PLAN_WORKSPACE = 402,
	GT_CUDNN_PLAN_PROPERTIES = 407,
	GT_CUDNN_KNOB_CHOICE_TYPE = 600,
	GT_CUDNN_KNOB_CHOICE_VALUE = 601,
	GT_CUDNN_FORWARD_ALPHA = 700,
	GT_CUDNN_FORWARD_BETA = 701,
	GT_CUDNN_FORWARD_CONVOLUTION = 702,
	GT_CUDNN_FORWARD_W = 703,
	GT_CUDNN_FORWARD_X = 704,
	GT_CUDNN_FORWARD_Y = 705,
	GT_CUDNN_INPUT_GRAD_ALPHA = 706,
	GT_CUDNN_INPUT_GRAD_BETA = 707,
	GT_CUDNN_INPUT_GRAD_CONVOLUTION = 708,
	GT_CUDNN_INPUT_GRAD_W = 709,
	GT_CUDNN_INPUT_GRAD_DX = 710,
	GT_CUDNN_INPUT_GRAD_DY = 711,
	GT_CUDNN_WEIGHT_GRAD_ALPHA = 712,
	GT_CUDNN_WEIGHT_GRAD_BETA = 713,
	GT_CUDNN_WEIGHT_GRAD_CONVOLUTION = 714,
	GT_CUDNN_WEIGHT_GRAD_DW = 715,
	GT_CUDNN_WEIGHT_GRAD_X = 716,
	GT_CUDNN_WEIGHT_GRAD_DY = 717,
	GT_CUDNN_GRAPH_HANDLE = 800,
	GT_CUDNN_GRAPH_OPS = 801,
	GT_CUDNN_TENSOR_ALIGNMENT = 900,
	GT_CUDNN_TENSOR_TYPE = 901,
	GT_CUDNN_TENSOR_SIZES = 902,
	GT_CUDNN_TENSOR_STRIDES = 903,
	GT_CUDNN_TENSOR_ID = 906,
	GT_CUDNN_PACK_IDS = 1000,
	GT_CUDNN_PACK_POINTERS = 1001,
	GT_CUDNN_PACK_WORKSPACE = 1003,
	GT_CUDNN_ENGINE_INDEX = 1301,
	GT_CUDNN_ENGINE_NOTES = 1303,
	GT_CUDNN_PROPERTIES_JSON = 2702
};

/* X(result, name without cudnn, arguments). */
#define GT_CUDNN_FUNCTIONS(X)                                                                      \
	X(size_t, GetVersion, (void))                                                              \
	X(const char *, GetErrorString, (int status))                                              \
	X(void, GetLastErrorString, (char *text, size_t bytes))                                    \
	X(int, Create, (void **handle))                                                            \
	X(int, SetStream, (void *handle, cudaStream_t stream))                                     \
	X(int, BackendCreateDescriptor, (int kind, void **out))                                    \
	X(int, BackendDestroyDescriptor, (void *descriptor))                                       \
	X(int, BackendFinalize, (void *descriptor))                                                \
	X(int, BackendSetAttribute,                                                                \
	    (void *descriptor, int attribute, int type, int64_t count, const void *values))        \
	X(int, BackendGetAttribute,                                                                \
	    (const void *descriptor, int attribute, int type, int64_t wanted, int64_t *count,      \
	        void *values))                                                                     \
	X(int, BackendExecute, (void *handle, void *plan, void *pack))

/* Call cudnnNAME() as gt_cudnn->NAME(). */
struct gt_cudnn_api {
#define GT_CUDNN_MEMBER(result, name, arguments) result(*name) arguments;
	GT_CUDNN_FUNCTIONS(GT_CUDNN_MEMBER)
#undef GT_CUDNN_MEMBER
};

/* The members are NULL until gt_cudnn_open() has succeeded. */
extern const struct gt_cudnn_api *const gt_cudnn;

/* Open the library once, for the whole process. Any thread may call this. Errors: GT_EDEVICE. */
int gt_cudnn_open(struct gt_err *err);

/* Lock the current device's handle, which the first call creates. It is borrowed until
 * gt_cudnn_leave(); after an error it is not locked. */
int gt_cudnn_enter(int *device, void **handle, struct gt_err *err);
void gt_cudnn_leave(int device);

/* Open a library and check its version. For gt_cudnn_open() and tests. */
int gt_cudnn_find(struct gt_cudnn_api *out, const char *library_name, struct gt_err *err);

/* Return 0, or GT_EDEVICE with `what` and the library's text. */
int gt_cudnn_check(int status, const char *what, struct gt_err *err);

#ifdef __cplusplus
}
#endif

#endif
