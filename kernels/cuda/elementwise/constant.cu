/* constant.cu - the op constant: a copy of its elements, which the device holds. */
#include "kernels/cuda/core/rows.cuh"

static size_t constant_bytes(const struct gt_call *call)
{
	return (size_t)gt_tensor_elements(&call->out[0]) * gt_dtype_size(call->out[0].dtype);
}

/* Copies are no kernels. */
static int prepare_constant(struct gt_call *call, struct gt_err *)
{
	call->launches = 0;
	return 0;
}

/* A run may be captured, and a captured copy must not read the memory of the host. As other memory,
 * this is taken and given back in the order of a stream without other work (runtime/backend.c). */
static int bind_constant(struct gt_call *call, struct gt_err *err)
{
	size_t bytes = constant_bytes(call);
	cudaError_t e;

	if (call->state || !bytes)
		return 0;
	e = cudaMallocAsync(&call->state, bytes, nullptr);
	if (e != cudaSuccess)
		call->state = nullptr;
	if (e == cudaSuccess)
		e = cudaMemcpyAsync(call->state, call->attrs.constant.elements, bytes,
		    cudaMemcpyHostToDevice, nullptr);
	if (e == cudaSuccess)
		e = cudaStreamSynchronize(nullptr);
	return gt_cuda_check(e, call->stream->index, "cudaMallocAsync", err);
}

static int run_constant(struct gt_call *call, struct gt_err *err)
{
	if (!call->state)
		return 0;
	return gt_cuda_check(cudaMemcpyAsync(call->out[0].data, call->state, constant_bytes(call),
	                         cudaMemcpyDeviceToDevice, call->stream->queue),
	    call->stream->index, "cudaMemcpyAsync", err);
}

static void release_constant(struct gt_call *call)
{
	if (call->state && (cudaFreeAsync(call->state, nullptr) != cudaSuccess ||
	                       cudaStreamSynchronize(nullptr) != cudaSuccess))
		cudaGetLastError(); /* that of an earlier kernel, which later calls report, too */
	call->state = nullptr;
}

#define ROW(type)                                                                                  \
	{                                                                                          \
		"constant", type, nullptr, prepare_constant, bind_constant, run_constant,          \
		    release_constant                                                               \
	}

/* Integers have the row of float32 (struct gt_kernel). */
const struct gt_kernel gt_cuda_constant_kernels[] = { ROW(GT_F32), ROW(GT_F64), ROW(GT_BF16),
	ROW(GT_F16), {} };
