/* table.c - the kernels of one instruction set, in the order in which they are preferred. */
#include "kernels/cpu/cpu.h"

static const struct gt_kernel *const tables[] = {
	GT_ISA(gt_cpu_packed_kernels),
	GT_ISA(gt_cpu_gemv_kernels),
	gt_cpu_matmul_kernels,
	gt_cpu_batched_matmul_kernels,
	gt_cpu_grouped_kernels,
	gt_cpu_conv_winograd_kernels,
	gt_cpu_conv_kernels,
	GT_ISA(gt_cpu_attention_kernels),
	GT_ISA(gt_cpu_attention_cached_kernels),
	GT_ISA(gt_cpu_rope_kernels),
	GT_ISA(gt_cpu_recurrent_kernels),
	GT_ISA(gt_cpu_reduce_kernels),
	GT_ISA(gt_cpu_norm_kernels),
	GT_ISA(gt_cpu_softmax_kernels),
	GT_ISA(gt_cpu_batch_norm_kernels),
	GT_ISA(gt_cpu_batch_norm_sync_kernels),
	GT_ISA(gt_cpu_elementwise_kernels),
	GT_ISA(gt_cpu_map_kernels),
	GT_ISA(gt_cpu_sum_kernels),
	GT_ISA(gt_cpu_dropout_kernels),
	GT_ISA(gt_cpu_shape_kernels),
	gt_cpu_arrange_kernels,
	gt_cpu_constant_kernels,
	GT_ISA(gt_cpu_pool_kernels),
	GT_ISA(gt_cpu_resample_kernels),
	GT_ISA(gt_cpu_embedding_kernels),
	GT_ISA(gt_cpu_index_kernels),
	GT_ISA(gt_cpu_loss_kernels),
	GT_ISA(gt_cpu_regression_loss_kernels),
	GT_ISA(gt_cpu_linear_cross_entropy_kernels),
	GT_ISA(gt_cpu_cast_kernels),
	GT_ISA(gt_cpu_half_kernels),
	NULL,
};

const struct gt_cpu_set GT_ISA(
    gt_cpu_set) = { tables, &GT_ISA(gt_cpu_ranges), &GT_ISA(gt_cpu_steps) };
