/* families.h - private: the families of models that llama.cpp has, and its names. */
#ifndef GT_MODEL_GGUF_FAMILIES_H
#define GT_MODEL_GGUF_FAMILIES_H

#include "lib/model/decoder.h"

/* Whether projections have a bias. */
enum gt_gguf_biases {
	GT_GGUF_BIASES_OFF, /* llama.cpp reads none */
	GT_GGUF_BIASES_ON,  /* it needs them */
	GT_GGUF_BIASES_ANY
};

/* A family of models, and how llama.cpp computes it. */
struct gt_gguf_family {
	const char *family; /* gt_model_family() */
	const char *arch;   /* llama.cpp's name, with which keys of its settings begin */
	enum gt_gguf_biases attention_bias, mlp_bias;
	/* Rows of queries and keys are in the order of rotations of neighbours: 0, n/2, 1, ... */
	bool rotates_neighbours;
	bool needs_head;  /* the last layer must be in the file even if it is tied */
	const char *rope; /* kinds of scaled positions, separated by spaces */
	/* Letters of the layers with a window, and with positions, which repeat; NULL: no layer has
	 * a window, each has positions. */
	const char *windowed, *positions;
	bool caps; /* scores and logits are always capped; otherwise never */
	/* a model of so many layers divides scores by the root of width / heads; 0: none does */
	int wide_scores;
};

/* Return the row of a model, or NULL. */
const struct gt_gguf_family *gt_gguf_family_of(const struct gt_model *m);

/* How elements of a weight are arranged in the file. */
enum gt_gguf_order {
	GT_GGUF_AS_IT_IS,
	GT_GGUF_TRANSPOSED,  /* a matrix of Conv1D */
	GT_GGUF_NEIGHBOURS,  /* rows of queries or keys for rotations of neighbours */
	GT_GGUF_PARTS_FIRST, /* rows of each head become all queries, keys, values */
};

/* A weight in the file. */
struct gt_gguf_place {
	char name[128];
	enum gt_gguf_order order;
	int heads;     /* of GT_GGUF_NEIGHBOURS and GT_GGUF_PARTS_FIRST */
	bool plus_one; /* the factor of a norm, which is 1 + the weight, is written */
	bool whole;    /* f32, whatever the type of the file */
};

/* Set *out to the place of a parameter of the model. Return false if it has none. */
bool gt_gguf_find_place(struct gt_gguf_place *out, const struct gt_model *m, const char *name);

#endif
