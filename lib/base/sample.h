/* sample.h - the form of a sample: the input of a model and its target. */
#ifndef GT_BASE_SAMPLE_H
#define GT_BASE_SAMPLE_H

enum gt_sample_kind {
	GT_SAMPLE_IMAGE,  /* input: uint8 [height, width, channels] */
	GT_SAMPLE_VECTOR, /* input: float32 [features] */
	GT_SAMPLE_TOKENS  /* input: int32 [block]; target: int32 [block], the next token of each */
};

/* The target of a sample. Of tokens, each has a class: the next token. */
enum gt_sample_target {
	GT_SAMPLE_CLASS,  /* int32 */
	GT_SAMPLE_NUMBER, /* float32 */
	GT_SAMPLE_LABELS  /* float32 [classes]: 1 for each label that holds, 0 for the others */
};

enum { GT_MAX_CHANNELS = 4 };

/* How data sets and models describe their samples. Members of other kinds are 0. */
struct gt_sample_form {
	enum gt_sample_kind kind;
	int height, width, channels; /* images */
	int features;                /* vectors: numbers per sample */
	int block;                   /* tokens per sample */
	/* number of classes or labels, or size of the vocabulary; 1 for a number */
	int classes;
	enum gt_sample_target target;
	/* Images: pixels are normalized as (pixel / 255 - mean) / std. */
	float mean[GT_MAX_CHANNELS], std[GT_MAX_CHANNELS];
};

#endif
