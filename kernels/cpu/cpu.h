/* cpu.h - rows of the CPU's kernel tables, and how they are put together. */
#ifndef GT_KERNELS_CPU_CPU_H
#define GT_KERNELS_CPU_CPU_H

#include "lib/device/backend.h"
#include "lib/graph/kernel.h"

/*
 * Files of this folder are compiled once per instruction set, with GT_ISA_NAME base, avx2 or
 * avx512. So one source is both the portable reference and the vector code. Exceptions are
 * backend.c, math.c, and the files of oneDNN, which chooses instructions itself (dnnl_api.c,
 * dnnl.c, matmul.c, conv.c, conv_winograd.c). A file exports only one table,
 * GT_ISA(gt_cpu_NAME_kernels), or one function of range.c's table (muon.c). If the code is the same
 * for float32 and float64, it is in NAME.inc, which NAME.c includes once for each type (real.inc).
 * Types of 16 bits are converted to float32 and computed by the same functions (half.c), unless
 * oneDNN has a faster one.
 */
#define GT_ISA_JOIN(name, isa)  name##_##isa
#define GT_ISA_JOIN2(name, isa) GT_ISA_JOIN(name, isa)
#define GT_ISA(name)            GT_ISA_JOIN2(name, GT_ISA_NAME)

/* The tables of one instruction set (table.c), NULL-terminated, and its range kernels (range.c). */
struct gt_cpu_set {
	const struct gt_kernel *const *tables;
	const struct gt_range_kernels *ranges;
};

extern const struct gt_cpu_set gt_cpu_set_base;
#if defined(__x86_64__)
extern const struct gt_cpu_set gt_cpu_set_avx2, gt_cpu_set_avx512;
#endif

#ifdef GT_ISA_NAME
/* The tables that table.c puts together. */
extern const struct gt_kernel GT_ISA(gt_cpu_gemv_kernels)[], GT_ISA(gt_cpu_attention_kernels)[],
    GT_ISA(gt_cpu_attention_cached_kernels)[], GT_ISA(gt_cpu_reduce_kernels)[],
    GT_ISA(gt_cpu_norm_kernels)[], GT_ISA(gt_cpu_batch_norm_kernels)[],
    GT_ISA(gt_cpu_batch_norm_sync_kernels)[], GT_ISA(gt_cpu_elementwise_kernels)[],
    GT_ISA(gt_cpu_dropout_kernels)[], GT_ISA(gt_cpu_shape_kernels)[], GT_ISA(gt_cpu_pool_kernels)[],
    GT_ISA(gt_cpu_embedding_kernels)[], GT_ISA(gt_cpu_loss_kernels)[],
    GT_ISA(gt_cpu_cast_kernels)[], GT_ISA(gt_cpu_half_kernels)[];
extern const struct gt_range_kernels GT_ISA(gt_cpu_ranges);
/* A function of the range kernels (muon.c). */
int GT_ISA(gt_cpu_muon)(struct gt_stream *stream, float *p, const float *g, float *buf,
    int64_t rows, int64_t cols, float *work, const struct gt_update_options *o,
    const struct gt_step_scalars *s, struct gt_err *err);
extern const struct gt_kernel GT_ISA(gt_cpu_linear_cross_entropy_kernels)[],
    GT_ISA(gt_cpu_square_error_kernels)[], GT_ISA(gt_cpu_rope_kernels)[];
#endif

/* y [m, n] = op(a) op(b), or y += op(a) op(b): float32 by oneDNN, which must be loaded, or float64.
 * An error names the op of the kernel's call (matmul.c). */
struct gt_cpu_product {
	enum gt_dtype dtype;
	bool trans_a, trans_b, add;
	int64_t m, n, k;
};

int gt_cpu_multiply(const struct gt_cpu_product *p, void *y, const void *a, const void *b,
    const struct gt_call *call, struct gt_err *err);

/* oneDNN's rows, the same for all instruction sets (float32, and bfloat16 where the processor has
 * AVX-512), and the plain loops beside them (float64). */
extern const struct gt_kernel gt_cpu_matmul_kernels[], gt_cpu_conv_winograd_kernels[],
    gt_cpu_conv_kernels[];

#endif
