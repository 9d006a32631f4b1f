/* cuda.h - declarations that the files of the CUDA backend share. */
#ifndef GT_KERNELS_CUDA_CUDA_H
#define GT_KERNELS_CUDA_CUDA_H

/*
 * The C files call CUDA's run-time library. backend.c implements devices, memory, streams, events
 * and copies; host_call.c implements host calls, which are calls of host functions from a stream;
 * capture.c records the work of streams and replays it, with CUDA graphs. Kernels are in the .cu
 * files, written in C++ with the macros of gpu.cuh. Most .cu files export a table of kernels, or
 * functions for the tables of range.cu and update.cu, whose arguments are ranges of memory, not
 * tensors. All files are compiled for GPUs with the toolkit's <cuda_runtime.h>, and for
 * tests with the simulator's header of that name (tests/cudasim/).
 */
#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "lib/device/backend.h"
#include "lib/graph/fault.h"
#include "lib/graph/kernel.h"
#include "lib/optim/step_kernels.h"

enum { GT_CUDA_SCRATCH_BYTES = 64 * 1024 };

struct gt_stream {
	cudaStream_t queue;
	int index; /* index of the device */
	/* device memory of GT_CUDA_SCRATCH_BYTES bytes, in which a kernel leaves data for the next
	 * kernel of the stream */
	void *scratch;
	struct gt_fault_slot *faults; /* the fault slot of the device (fault.cuh) */
	struct gt_cuda_calls *calls;  /* host calls (host_call.c); NULL before the first one */
	bool captured;                /* the stream's work is being captured (capture.c) */
};

/*
 * The fault slot of a device. A fault is an invalid value that a kernel finds in its data
 * (lib/graph/fault.h). The kernel stores the fault in the slot, and the host reads it. The slot is
 * in pinned host memory; kernels access it at the same address. The counters count faults. If
 * `written` is ahead of `taken`, a fault waits to be reported. The host and kernels never write the
 * same counter, because atomic operations of a GPU are not atomic for the host.
 */
struct gt_fault_slot {
	unsigned taken; /* faults that the host has read; the host writes this */
	/* kernels write this: if several threads find faults at the same time, only one of them can
	 * increment this counter, and only this thread stores its fault */
	unsigned claimed;
	unsigned written; /* faults that are completely stored; kernels write this */
	struct gt_fault fault;
};

/* Check `e`, the result of a CUDA function. Return 0 for success; otherwise return GT_EDEVICE, with
 * `what` and CUDA's error text in the message. `what` is the name of a function or kernel, and
 * `index` is the index of the device. CUDA reports an error of a kernel in a later call, which may
 * be a call of any function. */
int gt_cuda_check(cudaError_t e, int index, const char *what, struct gt_err *err);

/* Call this after a kernel launch. Return 0 if the kernel was queued; otherwise return the error.
 * The function may also return the error of an earlier host call on the device
 * (gt_cuda_call_error() in host_call.h). */
int gt_cuda_launched(const struct gt_stream *stream, const char *kernel, struct gt_err *err);

/* ---- peer.c ---- */

/* Copies between two GPUs: gt_cuda_peer_open() enables direct copies if the GPUs support them, and
 * gt_cuda_copy_peer() queues one copy. These are functions of gt_cuda_backend
 * (lib/device/backend.h). */
int gt_cuda_peer_open(int index, int peer, bool *direct, struct gt_err *err);
int gt_cuda_copy_peer(struct gt_stream *stream, void *to, int to_index, const void *from,
    int from_index, size_t bytes, struct gt_err *err);

/* ---- peak.c ---- */

/*
 * Return the peak floating-point operations per second of matrix products; 0 if it is not known.
 * The peak is the number of multiprocessors, times their highest clock, times the operations per
 * multiprocessor and clock cycle. The last factor depends on the compute capability. A multiply-add
 * counts as two operations.
 *
 * Products of 16-bit types use tensor cores and sum in float32. If `tf32` is set, products of
 * float32 also use tensor cores, at half the rate of 16-bit types. Some GPUs, for example GeForce,
 * do fewer operations per multiprocessor and clock cycle than others with the same compute
 * capability; this function uses the same factor for all GPUs of one compute capability. Data
 * sheets may assume a lower clock (H100 SXM: 1.83 GHz, although 1.98 GHz is possible).
 *
 * Sources: CUDA C++ Programming Guide, "Throughput of Native Arithmetic Instructions" (float32);
 * NVIDIA's papers on the architectures Volta, Turing, Ampere (GA100, GA102), Ada, Hopper and
 * Blackwell (tensor cores).
 */
double gt_cuda_peak_flops(int index, enum gt_dtype dtype, bool tf32);

/* ---- fault.c ---- */

/* gt_cuda_faults_open() sets *out to the fault slot of a device, borrowed. Call it once for each
 * new stream, and call gt_cuda_faults_close() when the stream is freed. The first open of a device
 * creates the slot, and the last close frees it. Errors: GT_ENOMEM, GT_EDEVICE. */
int gt_cuda_faults_open(struct gt_fault_slot **out, int index, struct gt_err *err);
void gt_cuda_faults_close(int index);

/* Call this after the host has waited for the device. If the slot holds a fault, empty the slot and
 * return the fault as an error; otherwise return 0. */
int gt_cuda_faults_take(int index, struct gt_err *err);

/* ---- tables of the backend ---- */

extern const struct gt_device_groups gt_nccl_groups;      /* nccl/communicator.c */
extern const struct gt_device_groups gt_cuda_ring_groups; /* ring/connect.c */

extern const struct gt_range_kernels gt_cuda_ranges; /* range.cu */
extern const struct gt_step_kernels gt_cuda_steps;   /* update.cu */
/* The kernels that update parameters: in update.cu, or in files of their own. */
#define GT_CUDA_UPDATE(NAME, name) extern const struct gt_update_kernel gt_cuda_##name;
GT_UPDATES(GT_CUDA_UPDATE)
#undef GT_CUDA_UPDATE
extern const struct gt_kernel gt_cuda_elementwise_kernels[], gt_cuda_cast_kernels[],
    gt_cuda_dropout_kernels[], gt_cuda_matmul_kernels[], gt_cuda_norm_kernels[],
    gt_cuda_norm_grad_kernels[];
extern const struct gt_kernel gt_cuda_batch_norm_kernels[], gt_cuda_batch_norm_sync_kernels[],
    gt_cuda_batch_norm_grad_kernels[], gt_cuda_batch_norm_grad_sync_kernels[],
    gt_cuda_pool_kernels[], gt_cuda_shape_kernels[], gt_cuda_conv_kernels[],
    gt_cuda_conv_grouped_kernels[], gt_cuda_attention_kernels[], gt_cuda_attention_grad_kernels[],
    gt_cuda_attention_cached_kernels[], gt_cuda_loss_kernels[], gt_cuda_regression_loss_kernels[],
    gt_cuda_loss_sharded_kernels[], gt_cuda_embedding_kernels[], gt_cuda_embedding_grad_kernels[],
    gt_cuda_linear_cross_entropy_kernels[], gt_cuda_rms_norm_kernels[], gt_cuda_rope_kernels[],
    gt_cuda_map_kernels[], gt_cuda_recurrent_kernels[], gt_cuda_sum_kernels[],
    gt_cuda_arrange_kernels[], gt_cuda_constant_kernels[], gt_cuda_resample_kernels[],
    gt_cuda_softmax_kernels[], gt_cuda_batched_matmul_kernels[], gt_cuda_index_kernels[],
    gt_cuda_grouped_kernels[];

/* ---- step.cu: kernels of a step that do not update parameters (lib/optim/step_kernels.h) ---- */

int gt_cuda_squares(struct gt_stream *stream, const float *g, int64_t count,
    struct gt_step_scalars *s, struct gt_err *err);
int gt_cuda_begin_step(struct gt_stream *stream, struct gt_step_scalars *s, struct gt_err *err);
int gt_cuda_add_losses(struct gt_stream *stream, struct gt_step_scalars *s, const float *losses,
    int64_t count, struct gt_err *err);
int gt_cuda_begin_update(struct gt_stream *stream, struct gt_step_scalars *s, struct gt_err *err);
int gt_cuda_copy_rows(struct gt_stream *stream, float *to, int64_t to_stride, const float *from,
    int64_t from_stride, int64_t length, int64_t rows, struct gt_err *err);

#ifdef __cplusplus
}
#endif

#endif
