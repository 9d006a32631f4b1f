/* cpu.h - the CPU's tables of kernels: one set of tables for each instruction set. */
#ifndef GT_KERNELS_CPU_CPU_H
#define GT_KERNELS_CPU_CPU_H

#include "lib/device/backend.h"
#include "lib/graph/kernel.h"
#include "lib/optim/step_kernels.h"

/*
 * A kernel table lists functions that compute ops (struct gt_kernel, lib/graph/kernel.h). Most
 * files of this folder are compiled once for each instruction set: base, avx2 and avx512. The macro
 * GT_ISA_NAME is the name of the instruction set. Compiled for `base`, a source file is the
 * portable reference; compiled for the others, the same file is the vector code.
 *
 * Some files are compiled only once: backend.c, math.c, arrange.c, and the files that leave the
 * computation to the library oneDNN (dnnl_api.c, dnnl.c, matmul.c, batched_matmul.c, conv.c,
 * conv_winograd.c). oneDNN chooses its instructions itself.
 *
 * A file NAME.c that is compiled for each instruction set exports one kernel table,
 * GT_ISA(gt_cpu_NAME_kernels). There are these exceptions. table.c exports the struct gt_cpu_set,
 * range.c a struct gt_range_kernels, and step.c a struct gt_step_kernels. The kernels that update
 * parameters (GT_UPDATES), which step.c lists, are in step.c or in files of their own. Code that is
 * the same for float32 and float64 is in NAME.inc. NAME.c includes NAME.inc once for each of the
 * two types. real.inc defines the macros that stand for the type.
 *
 * For 16-bit types, half.c converts the inputs to float32, calls the float32 kernel, and rounds the
 * results. If oneDNN has a faster kernel for the 16-bit type, that kernel is used instead.
 */
#define GT_ISA_JOIN(name, isa)  name##_##isa
#define GT_ISA_JOIN2(name, isa) GT_ISA_JOIN(name, isa)
#define GT_ISA(name)            GT_ISA_JOIN2(name, GT_ISA_NAME)

/* All kernels of one instruction set. */
struct gt_cpu_set {
	/* list of kernel tables, NULL-terminated (table.c) */
	const struct gt_kernel *const *tables;
	/* kernels for ranges of memory, for example the memory of all gradients (range.c) */
	const struct gt_range_kernels *ranges;
	const struct gt_step_kernels *steps; /* kernels of a training step (step.c) */
};

/* backend.c chooses one of these sets at run time. */
extern const struct gt_cpu_set gt_cpu_set_base;
#if defined(__x86_64__)
extern const struct gt_cpu_set gt_cpu_set_avx2, gt_cpu_set_avx512;
#endif

#ifdef GT_ISA_NAME
/* The kernel tables of this instruction set. table.c lists them in `tables`. */
extern const struct gt_kernel GT_ISA(gt_cpu_packed_kernels)[], GT_ISA(gt_cpu_gemv_kernels)[],
    GT_ISA(gt_cpu_attention_kernels)[], GT_ISA(gt_cpu_attention_cached_kernels)[],
    GT_ISA(gt_cpu_reduce_kernels)[], GT_ISA(gt_cpu_norm_kernels)[],
    GT_ISA(gt_cpu_batch_norm_kernels)[], GT_ISA(gt_cpu_batch_norm_sync_kernels)[],
    GT_ISA(gt_cpu_elementwise_kernels)[], GT_ISA(gt_cpu_dropout_kernels)[],
    GT_ISA(gt_cpu_shape_kernels)[], GT_ISA(gt_cpu_pool_kernels)[],
    GT_ISA(gt_cpu_embedding_kernels)[], GT_ISA(gt_cpu_loss_kernels)[],
    GT_ISA(gt_cpu_cast_kernels)[], GT_ISA(gt_cpu_half_kernels)[];
extern const struct gt_range_kernels GT_ISA(gt_cpu_ranges);
extern const struct gt_step_kernels GT_ISA(gt_cpu_steps);
extern const struct gt_kernel GT_ISA(gt_cpu_linear_cross_entropy_kernels)[],
    GT_ISA(gt_cpu_regression_loss_kernels)[], GT_ISA(gt_cpu_rope_kernels)[],
    GT_ISA(gt_cpu_map_kernels)[], GT_ISA(gt_cpu_sum_kernels)[], GT_ISA(gt_cpu_softmax_kernels)[],
    GT_ISA(gt_cpu_resample_kernels)[], GT_ISA(gt_cpu_recurrent_kernels)[],
    GT_ISA(gt_cpu_index_kernels)[];
/* The kernels that update parameters. */
#define GT_CPU_UPDATE(NAME, name) extern const struct gt_update_kernel GT_ISA(gt_cpu_##name);
GT_UPDATES(GT_CPU_UPDATE)
#undef GT_CPU_UPDATE
#endif

/* Return whether the output has the same type as the first input. A kernel that supports only such
 * calls has this function as its member `accepts` (struct gt_kernel). If the input has 32 bits and
 * the output has 16 bits, a kernel of half.c computes the call instead. */
static inline bool gt_cpu_accepts_one_type(const struct gt_call *call)
{
	return call->out[0].dtype == call->in[0].dtype;
}

/* A matrix product for gt_cpu_multiply(). All matrices are row-major. */
struct gt_cpu_product {
	enum gt_dtype dtype; /* GT_F32 or GT_F64 */
	/* trans_a: the factor `a` is stored as [k, m] instead of [m, k]. trans_b: the factor `b` is
	 * stored as [n, k] instead of [k, n]. add: add the product to the result `y` instead of
	 * overwriting `y`. */
	bool trans_a, trans_b, add;
	int64_t m, n, k;
	/* elements from one row of `a`, as it is stored, or of `y` (in float32 alone), to the
	 * next; 0: no gaps */
	int64_t a_stride, y_stride;
};

/*
 * Compute y = op(a) * op(b), or y += op(a) * op(b) if p->add is set (matmul.c). op(a) is the
 * transpose of `a` if p->trans_a is set, otherwise `a` itself. op(b) depends on p->trans_b in the
 * same way.
 *
 *   op(a) [m, k], op(b) [k, n], y [m, n]
 *
 * oneDNN computes products in float32, so call gt_dnnl_api_load() before the first such product.
 * Plain loops compute products in float64. `call` is used only for the text of errors.
 */
int gt_cpu_multiply(const struct gt_cpu_product *p, void *y, const void *a, const void *b,
    const struct gt_call *call, struct gt_err *err);

/* The kernel tables that all instruction sets share. Products and convolutions let oneDNN compute
 * in float32, and in bfloat16 if the processor has AVX-512. They compute in float64 with plain
 * loops. Arrangements copy elements of any type, as fast in each instruction set. */
extern const struct gt_kernel gt_cpu_matmul_kernels[], gt_cpu_conv_winograd_kernels[],
    gt_cpu_conv_kernels[], gt_cpu_arrange_kernels[], gt_cpu_constant_kernels[],
    gt_cpu_batched_matmul_kernels[], gt_cpu_grouped_kernels[];

#endif
