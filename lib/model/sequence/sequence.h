/* sequence.h - private: stacks of torch.nn's layers in one line, as an architecture. */
#ifndef GT_MODEL_SEQUENCE_SEQUENCE_H
#define GT_MODEL_SEQUENCE_SEQUENCE_H

#include "lib/model/arch.h"

/*
 * The spec of a model "seq:LAYER,LAYER,..." has layers as Python code writes them:
 *
 *   seq:Conv2d(3,16,3,padding=1),ReLU,MaxPool2d(2),Flatten,Linear(4096,10)
 *
 * parse.c reads the text into a struct gt_sequence, and text.c writes it. layers.c has a row for
 * each layer, with its arguments (arguments.c) and a function that emits its nodes. Messages name
 * layers by their index from 0, which is also the first part of the names of their parameters:
 * "0.weight".
 */

/* The values that an argument takes. */
enum gt_argument_form {
	GT_ARGUMENT_COUNT,  /* a whole number from 1 on */
	GT_ARGUMENT_DIM,    /* the index of a dimension; a negative one counts from the end */
	GT_ARGUMENT_COUNTS, /* whole numbers from 1 on */
	GT_ARGUMENT_SHAPE,  /* whole numbers from 1 on, one of which may be -1 */
	/* a number for each dimension of the image, or one for all: from 1 on, or from 0 on */
	GT_ARGUMENT_SIZE,
	GT_ARGUMENT_MARGIN,
	GT_ARGUMENT_PADDING, /* GT_ARGUMENT_MARGIN, or 'same' or 'valid' */
	GT_ARGUMENT_NUMBER,
	GT_ARGUMENT_PROBABILITY, /* from 0 on, below 1 */
	GT_ARGUMENT_BOOL,
	GT_ARGUMENT_GELU, /* 'none' or 'tanh' */
	GT_ARGUMENT_FIXED /* its default, and nothing else */
};

struct gt_argument {
	const char *name;
	enum gt_argument_form form;
	const char *initial; /* the default as text; NULL: the argument must be given */
};

enum { GT_SEQUENCE_ARGUMENTS = 10, GT_SEQUENCE_INTS = 6 };

/* The value of an argument, as Python reads it. */
struct gt_argument_value {
	enum {
		GT_VALUE_MISSING,
		GT_VALUE_NONE,
		GT_VALUE_BOOL,
		GT_VALUE_INT,
		GT_VALUE_FLOAT,
		GT_VALUE_TEXT,
		GT_VALUE_TUPLE
	} kind;
	double number;                  /* of a BOOL (0 or 1), an INT or a FLOAT */
	int64_t ints[GT_SEQUENCE_INTS]; /* of an INT or a TUPLE */
	int count;                      /* of `ints` */
	char text[16];
};

struct gt_sequence_row;

struct gt_sequence_layer {
	const struct gt_sequence_row *row;
	struct gt_argument_value values[GT_SEQUENCE_ARGUMENTS]; /* in the order of row->arguments */
};

struct gt_sequence {
	char *text; /* the spec without "seq:", as gt_sequence_print() writes it */
	struct gt_sequence_layer *layers;
	size_t count, capacity;
};

/* Parse a spec without "seq:". Errors: GT_EINVAL, which name the layer and the argument; GT_ENOMEM.
 */
int gt_sequence_parse(struct gt_sequence **out, const char *text, struct gt_err *err);
void gt_sequence_free(struct gt_sequence *s); /* NULL is fine */

/* Return the largest probability of a dropout; 0: nothing is random. */
double gt_sequence_dropout(const struct gt_sequence *s);

/* Return whether two sequences compute the same from the same weights, but for dropouts. */
bool gt_sequence_same(const struct gt_sequence *a, const struct gt_sequence *b);

/* The architecture of all sequences, named "seq": the layers are gt_arch_config.sequence. */
extern const struct gt_arch gt_arch_sequence;

/* ---- parse.c, text.c ---- */

/* Return the default of an argument; GT_VALUE_MISSING: it has none. */
struct gt_argument_value gt_argument_initial(const struct gt_argument *a);

/* Return whether two values are equal. */
bool gt_argument_same(const struct gt_argument_value *a, const struct gt_argument_value *b);

/* Set s->text. Errors: GT_ENOMEM. */
int gt_sequence_print(struct gt_sequence *s, struct gt_err *err);

/* ---- arguments.c ---- */

/* Lists of arguments, each ended by a row of NULL. */
extern const struct gt_argument gt_arguments_none[], gt_arguments_inplace[], gt_arguments_linear[],
    gt_arguments_conv[], gt_arguments_conv_transpose[], gt_arguments_embedding[],
    gt_arguments_batch_norm[], gt_arguments_layer_norm[], gt_arguments_rms_norm[],
    gt_arguments_dropout[], gt_arguments_leaky_relu[], gt_arguments_elu[], gt_arguments_gelu[],
    gt_arguments_softplus[], gt_arguments_hardtanh[], gt_arguments_max_pool[],
    gt_arguments_avg_pool1d[], gt_arguments_avg_pool2d[], gt_arguments_adaptive_pool[],
    gt_arguments_flatten[], gt_arguments_unflatten[];

/* ---- layers.c ---- */

/* One layer while its nodes are emitted. */
struct gt_sequence_call {
	struct gt_graph *g;
	const struct gt_sequence_layer *layer;
	size_t index;
	struct gt_value *rng; /* NULL: nothing is random */
	bool train;
};

/* The input of a layer: any floating-point values, or ids of tokens, or both. */
enum gt_sequence_input { GT_TAKES_FLOAT, GT_TAKES_IDS, GT_TAKES_BOTH };

struct gt_sequence_row {
	const char *name;                    /* the class in torch.nn */
	const struct gt_argument *arguments; /* as in its constructor; ended by a row of NULL */
	/* Emit the nodes for input x, and return the result. Errors are stored in the graph. */
	struct gt_value *(*emit)(const struct gt_sequence_call *call, struct gt_value *x);
	int dims; /* dimensions of the image, of layers that have one: 1 or 2 */
	enum gt_sequence_input takes;
	/* for `emit`: the function of rows that compute it for each element */
	enum gt_function function;
	/* the argument with the number of input channels or features, and that with the number of
	 * output channels or features; each counted from 1, 0: none */
	int in, out;
};

/* All layers, ended by a row of NULL. */
extern const struct gt_sequence_row gt_sequence_rows[];

#endif
