/* sample.h - the form of a sample: the input of a model and its target. */
#ifndef GT_BASE_SAMPLE_H
#define GT_BASE_SAMPLE_H

#include <stdbool.h>

enum gt_sample_kind {
	GT_SAMPLE_IMAGE,  /* input: uint8 [height, width, channels]; target: int32, the class */
	GT_SAMPLE_VECTOR, /* input: float32 [features]; target: int32, the class */
	GT_SAMPLE_TOKENS  /* input: int32 [block]; target: int32 [block], the next token of each */
};

enum { GT_MAX_CHANNELS = 4 };

/* How data sets and models describe their samples. Members of other kinds are 0. */
struct gt_sample_form {
	enum gt_sample_kind kind;
	int height, width, channels; /* images */
	int features;                /* vectors: numbers per sample */
	int block;                   /* tokens per sample */
	int classes;     /* number of classes, or size of the vocabulary; 1 for regression */
	bool regression; /* the target is a number, not a class */
	/* Images: pixels are normalized as (pixel / 255 - mean) / std. */
	float mean[GT_MAX_CHANNELS], std[GT_MAX_CHANNELS];
};

#endif
