/* cuda.h - declarations that the files of the CUDA backend share. */
#ifndef GT_KERNELS_CUDA_CUDA_H
#define GT_KERNELS_CUDA_CUDA_H

/*
 * The C files call CUDA's run-time: backend.c has devices, memory, streams, events and copies;
 * host_call.c has host functions that streams call; capture.c has CUDA graphs. Kernels are in the
 * .cu files, written in C++ with the macros of gpu.cuh. Each of these exports one table of rows, or
 * functions of the table of range kernels (range.cu). All are compiled for GPUs against the
 * toolkit's <cuda_runtime.h>, and for tests against the simulator's (tests/cudasim/).
 */
#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "lib/device/backend.h"
#include "lib/graph/fault.h"
#include "lib/graph/kernel.h"

enum { GT_CUDA_SCRATCH_BYTES = 64 * 1024 };

struct gt_stream {
	cudaStream_t queue;
	int index;     /* of the device */
	void *scratch; /* [GT_CUDA_SCRATCH_BYTES]: from one kernel of the stream to the next */
	struct gt_fault_slot *faults; /* slot of the device: fault.cuh */
	struct gt_cuda_calls *calls;  /* of the host (host_call.c); NULL until the first */
	bool captured;                /* its work is being captured (capture.c) */
	/* the products for the shapes updated on this stream (muon_products.c) */
	struct gt_muon_products *muon;
};

/*
 * The slot of a device, in pinned host memory, which kernels access at the same address. The
 * counters count faults; if `written` is ahead of `taken`, a fault waits to be reported. Each
 * counter is written only by the host or only by kernels, because a GPU's atomics are not atomic
 * for the host.
 */
struct gt_fault_slot {
	unsigned taken;   /* by the host */
	unsigned claimed; /* kernels write it: the thread that increments it writes the fault */
	unsigned written; /* by kernels */
	struct gt_fault fault;
};

/* 0, or GT_EDEVICE with CUDA's error text after `what`, the name of a function or kernel. An error
 * of a kernel is reported by the next call, which may be any function. */
int gt_cuda_check(cudaError_t e, int index, const char *what, struct gt_err *err);

/* Call this after a launch: return 0 if the kernel was queued, otherwise the error. */
int gt_cuda_launched(const struct gt_stream *stream, const char *kernel, struct gt_err *err);

/* ---- peer.c: lib/device/backend.h ---- */

int gt_cuda_peer_open(int index, int peer, bool *direct, struct gt_err *err);
int gt_cuda_copy_peer(struct gt_stream *stream, void *to, int to_index, const void *from,
    int from_index, size_t bytes, struct gt_err *err);

/* ---- peak.c ---- */

/*
 * The peak operations per second of matrix products: the number of multiprocessors, times their
 * highest clock, times operations per multiprocessor and cycle, which depend on the compute
 * capability. A multiply-add counts as two operations. 16-bit types go through tensor cores and add
 * up in float32; so does float32 with `tf32`, at half the rate of 16 bits. Some GPUs with the same
 * capability, such as GeForce, are slower. Data sheets may assume a lower clock (H100 SXM: 1.83
 * GHz, although 1.98 is possible).
 *
 * Sources: CUDA C++ Programming Guide, "Throughput of Native Arithmetic Instructions" (float32);
 * NVIDIA's papers on the architectures Volta, Turing, Ampere (GA100, GA102), Ada, Hopper and
 * Blackwell (tensor cores).
 */
double gt_cuda_peak_flops(int index, enum gt_dtype dtype, bool tf32);

/* ---- fault.c ---- */

/* The slot of a device. Each stream opens it when it is created and closes it when it is freed. The
 * first stream of a device creates the slot, and the last one frees it. */
int gt_cuda_faults_open(struct gt_fault_slot **out, int index, struct gt_err *err);
void gt_cuda_faults_close(int index);

/* Call this after a wait: take a fault out of the slot and return it as an error; 0 if there is
 * none. */
int gt_cuda_faults_take(int index, struct gt_err *err);

/* ---- the tables of the backend ---- */

extern const struct gt_device_groups gt_nccl_groups;      /* nccl/communicator.c */
extern const struct gt_device_groups gt_cuda_ring_groups; /* ring/connect.c */

extern const struct gt_range_kernels gt_cuda_ranges; /* range.cu */
extern const struct gt_kernel gt_cuda_elementwise_kernels[], gt_cuda_cast_kernels[],
    gt_cuda_dropout_kernels[], gt_cuda_matmul_kernels[], gt_cuda_norm_kernels[];
extern const struct gt_kernel gt_cuda_batch_norm_kernels[], gt_cuda_batch_norm_sync_kernels[],
    gt_cuda_batch_norm_grad_kernels[], gt_cuda_batch_norm_grad_sync_kernels[],
    gt_cuda_pool_kernels[], gt_cuda_shape_kernels[], gt_cuda_conv_kernels[],
    gt_cuda_attention_kernels[], gt_cuda_attention_grad_kernels[],
    gt_cuda_attention_cached_kernels[], gt_cuda_loss_kernels[], gt_cuda_square_error_kernels[],
    gt_cuda_loss_sharded_kernels[], gt_cuda_embedding_kernels[], gt_cuda_embedding_grad_kernels[],
    gt_cuda_linear_cross_entropy_kernels[], gt_cuda_rms_norm_kernels[], gt_cuda_rope_kernels[];

/* ---- range kernels with a file of their own: lib/device/backend.h ---- */

int gt_cuda_squares(struct gt_stream *stream, const float *g, int64_t count,
    struct gt_step_scalars *s, struct gt_err *err);
int gt_cuda_begin_step(struct gt_stream *stream, struct gt_step_scalars *s, struct gt_err *err);
int gt_cuda_add_losses(struct gt_stream *stream, struct gt_step_scalars *s, const float *losses,
    int64_t count, struct gt_err *err);
int gt_cuda_begin_update(struct gt_stream *stream, struct gt_step_scalars *s, struct gt_err *err);
int gt_cuda_muon(struct gt_stream *stream, float *p, const float *g, float *buf, int64_t rows,
    int64_t cols, float *work, const struct gt_update_options *o, const struct gt_step_scalars *s,
    struct gt_err *err);

#ifdef __cplusplus
}
#endif

#endif
