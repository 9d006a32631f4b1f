/* arguments.c - the arguments of layers, in the order of torch.nn, with its defaults. */
#include "lib/model/sequence/sequence.h"

/* clang-format off */
#define INPLACE { "inplace", GT_ARGUMENT_BOOL, "False" }
#define END { NULL, GT_ARGUMENT_FIXED, NULL }

const struct gt_argument gt_arguments_none[] = { END };

const struct gt_argument gt_arguments_inplace[] = { INPLACE, END };

const struct gt_argument gt_arguments_linear[] = {
	{ "in_features", GT_ARGUMENT_COUNT, NULL },
	{ "out_features", GT_ARGUMENT_COUNT, NULL },
	{ "bias", GT_ARGUMENT_BOOL, "True" },
	END
};

const struct gt_argument gt_arguments_conv[] = {
	{ "in_channels", GT_ARGUMENT_COUNT, NULL },
	{ "out_channels", GT_ARGUMENT_COUNT, NULL },
	{ "kernel_size", GT_ARGUMENT_SIZE, NULL },
	{ "stride", GT_ARGUMENT_SIZE, "1" },
	{ "padding", GT_ARGUMENT_PADDING, "0" },
	{ "dilation", GT_ARGUMENT_SIZE, "1" },
	{ "groups", GT_ARGUMENT_COUNT, "1" },
	{ "bias", GT_ARGUMENT_BOOL, "True" },
	{ "padding_mode", GT_ARGUMENT_FIXED, "'zeros'" },
	END
};

const struct gt_argument gt_arguments_conv_transpose[] = {
	{ "in_channels", GT_ARGUMENT_COUNT, NULL },
	{ "out_channels", GT_ARGUMENT_COUNT, NULL },
	{ "kernel_size", GT_ARGUMENT_SIZE, NULL },
	{ "stride", GT_ARGUMENT_SIZE, "1" },
	{ "padding", GT_ARGUMENT_MARGIN, "0" },
	{ "output_padding", GT_ARGUMENT_MARGIN, "0" },
	{ "groups", GT_ARGUMENT_COUNT, "1" },
	{ "bias", GT_ARGUMENT_BOOL, "True" },
	{ "dilation", GT_ARGUMENT_SIZE, "1" },
	{ "padding_mode", GT_ARGUMENT_FIXED, "'zeros'" },
	END
};

const struct gt_argument gt_arguments_embedding[] = {
	{ "num_embeddings", GT_ARGUMENT_COUNT, NULL },
	{ "embedding_dim", GT_ARGUMENT_COUNT, NULL },
	{ "padding_idx", GT_ARGUMENT_FIXED, "None" },
	{ "max_norm", GT_ARGUMENT_FIXED, "None" },
	END
};

const struct gt_argument gt_arguments_batch_norm[] = {
	{ "num_features", GT_ARGUMENT_COUNT, NULL },
	{ "eps", GT_ARGUMENT_NUMBER, "1e-05" },
	{ "momentum", GT_ARGUMENT_NUMBER, "0.1" },
	{ "affine", GT_ARGUMENT_FIXED, "True" },
	{ "track_running_stats", GT_ARGUMENT_FIXED, "True" },
	END
};

const struct gt_argument gt_arguments_layer_norm[] = {
	{ "normalized_shape", GT_ARGUMENT_COUNTS, NULL },
	{ "eps", GT_ARGUMENT_NUMBER, "1e-05" },
	{ "elementwise_affine", GT_ARGUMENT_FIXED, "True" },
	{ "bias", GT_ARGUMENT_BOOL, "True" },
	END
};

const struct gt_argument gt_arguments_rms_norm[] = {
	{ "normalized_shape", GT_ARGUMENT_COUNTS, NULL },
	{ "eps", GT_ARGUMENT_NUMBER, "None" },
	{ "elementwise_affine", GT_ARGUMENT_FIXED, "True" },
	END
};

const struct gt_argument gt_arguments_dropout[] = {
	{ "p", GT_ARGUMENT_PROBABILITY, "0.5" },
	INPLACE,
	END
};

const struct gt_argument gt_arguments_leaky_relu[] = {
	{ "negative_slope", GT_ARGUMENT_NUMBER, "0.01" },
	INPLACE,
	END
};

const struct gt_argument gt_arguments_elu[] = {
	{ "alpha", GT_ARGUMENT_NUMBER, "1.0" },
	INPLACE,
	END
};

const struct gt_argument gt_arguments_gelu[] = {
	{ "approximate", GT_ARGUMENT_GELU, "'none'" },
	END
};

const struct gt_argument gt_arguments_softplus[] = {
	{ "beta", GT_ARGUMENT_NUMBER, "1.0" },
	{ "threshold", GT_ARGUMENT_NUMBER, "20.0" },
	END
};

const struct gt_argument gt_arguments_hardtanh[] = {
	{ "min_val", GT_ARGUMENT_NUMBER, "-1.0" },
	{ "max_val", GT_ARGUMENT_NUMBER, "1.0" },
	INPLACE,
	END
};

const struct gt_argument gt_arguments_max_pool[] = {
	{ "kernel_size", GT_ARGUMENT_SIZE, NULL },
	{ "stride", GT_ARGUMENT_SIZE, "None" },
	{ "padding", GT_ARGUMENT_MARGIN, "0" },
	{ "dilation", GT_ARGUMENT_SIZE, "1" },
	{ "return_indices", GT_ARGUMENT_FIXED, "False" },
	{ "ceil_mode", GT_ARGUMENT_BOOL, "False" },
	END
};

const struct gt_argument gt_arguments_avg_pool1d[] = {
	{ "kernel_size", GT_ARGUMENT_SIZE, NULL },
	{ "stride", GT_ARGUMENT_SIZE, "None" },
	{ "padding", GT_ARGUMENT_MARGIN, "0" },
	{ "ceil_mode", GT_ARGUMENT_BOOL, "False" },
	{ "count_include_pad", GT_ARGUMENT_BOOL, "True" },
	END
};

const struct gt_argument gt_arguments_avg_pool2d[] = {
	{ "kernel_size", GT_ARGUMENT_SIZE, NULL },
	{ "stride", GT_ARGUMENT_SIZE, "None" },
	{ "padding", GT_ARGUMENT_MARGIN, "0" },
	{ "ceil_mode", GT_ARGUMENT_BOOL, "False" },
	{ "count_include_pad", GT_ARGUMENT_BOOL, "True" },
	{ "divisor_override", GT_ARGUMENT_FIXED, "None" },
	END
};

const struct gt_argument gt_arguments_adaptive_pool[] = {
	{ "output_size", GT_ARGUMENT_SIZE, NULL },
	END
};

const struct gt_argument gt_arguments_flatten[] = {
	{ "start_dim", GT_ARGUMENT_DIM, "1" },
	{ "end_dim", GT_ARGUMENT_DIM, "-1" },
	END
};

const struct gt_argument gt_arguments_unflatten[] = {
	{ "dim", GT_ARGUMENT_DIM, NULL },
	{ "unflattened_size", GT_ARGUMENT_SHAPE, NULL },
	END
};
/* clang-format on */
