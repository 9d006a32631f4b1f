/* names.c - the words for the ways to share work: modes, pipeline schedules, compression. */
#include "lib/parallel/parallel.h"

const char *const gt_parallel_names[] = {
	[GT_PARALLEL_DDP] = "ddp",
	[GT_PARALLEL_MIRRORED] = "mirrored",
	[GT_PARALLEL_DP] = "dp",
	[GT_PARALLEL_ZERO1] = "zero1",
	[GT_PARALLEL_ZERO2] = "zero2",
	[GT_PARALLEL_ZERO3] = "zero3",
	[GT_PARALLEL_KINDS] = NULL,
};

const char *const gt_pipeline_schedule_names[] = {
	[GT_PIPELINE_GPIPE] = "gpipe",
	[GT_PIPELINE_1F1B] = "1f1b",
	[GT_PIPELINE_SCHEDULES] = NULL,
};

const char *const gt_compress_names[] = {
	[GT_COMPRESS_NONE] = "none",
	[GT_COMPRESS_FP16] = "fp16",
	[GT_COMPRESS_BF16] = "bf16",
	[GT_COMPRESS_KINDS] = NULL,
};
