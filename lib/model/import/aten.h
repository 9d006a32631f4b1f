/* aten.h - private: the functions that rows of aten.c name; each emits the node im->node. */
#ifndef GT_MODEL_IMPORT_ATEN_H
#define GT_MODEL_IMPORT_ATEN_H

#include "lib/model/import/network.h"

/* ---- aten_layers.c ---- */
gt_aten_emit gt_aten_linear, gt_aten_addmm, gt_aten_conv2d, gt_aten_conv2d_padding,
    gt_aten_conv_transpose2d, gt_aten_conv1d, gt_aten_conv1d_padding, gt_aten_conv_transpose1d,
    gt_aten_embedding, gt_aten_index_select;

/* ---- aten_index.c ---- */
gt_aten_emit gt_aten_topk, gt_aten_sort, gt_aten_argsort, gt_aten_gather, gt_aten_index,
    gt_aten_index_put, gt_aten_histc, gt_aten_grouped_mm;

/* ---- aten_norm.c ---- */
gt_aten_emit gt_aten_batch_norm, gt_aten_group_norm, gt_aten_instance_norm, gt_aten_layer_norm,
    gt_aten_rms_norm;

/* ---- aten_pool.c ---- */
gt_aten_emit gt_aten_max_pool2d, gt_aten_avg_pool2d, gt_aten_adaptive_avg_pool2d,
    gt_aten_adaptive_max_pool2d, gt_aten_max_pool1d, gt_aten_avg_pool1d,
    gt_aten_adaptive_avg_pool1d, gt_aten_adaptive_max_pool1d, gt_aten_upsample_nearest,
    gt_aten_upsample_linear;

/* ---- aten_attention.c ---- */
gt_aten_emit gt_aten_attention;

/* ---- aten_recurrent.c ---- */
gt_aten_emit gt_aten_lstm, gt_aten_gru;

/* ---- aten_math.c ---- */
gt_aten_emit gt_aten_unary, gt_aten_relu, gt_aten_gelu, gt_aten_hardtanh, gt_aten_hardsigmoid,
    gt_aten_leaky_relu, gt_aten_elu, gt_aten_celu, gt_aten_selu, gt_aten_log_sigmoid,
    gt_aten_hardshrink, gt_aten_softshrink, gt_aten_threshold, gt_aten_prelu, gt_aten_glu,
    gt_aten_softplus, gt_aten_mish, gt_aten_clamp, gt_aten_binary, gt_aten_swapped, gt_aten_where,
    gt_aten_masked_fill, gt_aten_square, gt_aten_bernoulli, gt_aten_to, gt_aten_pow,
    gt_aten_reciprocal, gt_aten_floor_divide, gt_aten_sum_of_two, gt_aten_reverse_difference,
    gt_aten_addcmul, gt_aten_dropout, gt_aten_feature_dropout, gt_aten_sum, gt_aten_cumsum,
    gt_aten_mean, gt_aten_vector_norm;

/* ---- aten_products.c, aten_einsum.c ---- */
gt_aten_emit gt_aten_softmax, gt_aten_log_softmax, gt_aten_matmul, gt_aten_bmm, gt_aten_baddbmm,
    gt_aten_einsum;

/* ---- aten_loss.c ---- */
gt_aten_emit gt_aten_mse_loss, gt_aten_l1_loss, gt_aten_huber_loss, gt_aten_smooth_l1_loss,
    gt_aten_kl_div, gt_aten_binary_cross_entropy_with_logits, gt_aten_binary_cross_entropy,
    gt_aten_nll_loss, gt_aten_cross_entropy_loss;

/* ---- aten_shape.c ---- */
gt_aten_emit gt_aten_view, gt_aten_reshape, gt_aten_flatten, gt_aten_unflatten, gt_aten_unsqueeze,
    gt_aten_squeeze, gt_aten_expand, gt_aten_expand_as, gt_aten_broadcast_tensors,
    gt_aten_reshape_as, gt_aten_same, gt_aten_clone, gt_aten_copy, gt_aten_fill, gt_aten_zero,
    gt_aten_permute, gt_aten_transpose, gt_aten_swapaxes, gt_aten_t, gt_aten_slice, gt_aten_select,
    gt_aten_split, gt_aten_chunk, gt_aten_split_with_sizes, gt_aten_unbind, gt_aten_cat,
    gt_aten_stack, gt_aten_flip, gt_aten_roll, gt_aten_pad, gt_aten_pixel_shuffle,
    gt_aten_pixel_unshuffle, gt_aten_channel_shuffle;

#endif
