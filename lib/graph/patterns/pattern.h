/* pattern.h - private: formulas, their search in a graph, and the functions of the table's rows. */
#ifndef GT_GRAPH_PATTERNS_PATTERN_H
#define GT_GRAPH_PATTERNS_PATTERN_H

#include "lib/graph/expr.h"
#include "lib/graph/ops/ops.h"

/*
 * A formula is written as in Python: "x * rsqrt(mean(x * x) + E) * w". A small letter stands for a
 * tensor, the same one wherever the letter is, and a capital one for a number. The functions are
 * those of lib/graph/ops/functions.inc in small letters, and those below. Products and sums match
 * in any order and grouping, and a quotient matches a product with the inverse.
 *
 *   mean(a)      the mean over the last dimension, which remains with size 1
 *   matmul(a, b) the product of matrices (the op matmul without a bias, or batched_matmul)
 *   softmax(a)   the softmax over the last dimension
 *   dropout(a)   a with some elements dropped, or a itself
 *
 * A formula is held as terms of products: number * letter * factor^(exponent / 2) * ...
 */
enum { GT_FORMULA_FACTORS = 4, GT_FORMULA_TERMS = 3, GT_FORMULA_ATOMS = 24 };

enum { GT_ATOM_MATMUL = GT_FUNCTION_COUNT, GT_ATOM_SOFTMAX, GT_ATOM_DROPOUT, GT_ATOM_TOTAL };

struct gt_formula_product {
	double number;
	char letter; /* of a number that is one more factor; 0: none */
	int count;
	struct {
		int exponent; /* in halves: 2 for a factor, -2 for its inverse, 1 for its root */
		int atom;     /* index in gt_formula.atom */
	} factor[GT_FORMULA_FACTORS];
};

struct gt_formula_atom {
	enum { GT_ATOM_TENSOR, GT_ATOM_FUNCTION, GT_ATOM_SUM, GT_ATOM_MEAN } kind;
	char letter;  /* tensors */
	int function; /* enum gt_function, or one of those above */
	int count;
	struct gt_formula_product term[GT_FORMULA_TERMS]; /* terms of a sum, arguments */
};

struct gt_formula {
	struct gt_formula_product whole;
	int count;
	struct gt_formula_atom atom[GT_FORMULA_ATOMS];
};

/* Parse a formula of the table. Returns false if it is none. */
bool gt_formula_parse(struct gt_formula *f, const char *text);

enum { GT_MATCH_VALUES = 40, GT_LETTERS = 26 };

/* A part of a graph that a formula describes. */
struct gt_match {
	struct gt_graph *g;
	struct gt_value *root;
	struct gt_value *tensor['z' - 'a' + 1]; /* of each small letter, or NULL */
	double number['Z' - 'A' + 1];           /* of each capital letter that is in `numbers` */
	unsigned numbers;                       /* bits */
	/* the root, and values that the formula computes on the way to it */
	struct gt_value *inner[GT_MATCH_VALUES];
	int inners;
	const int *uses; /* gt_count_uses() */
};

/* Return whether a formula describes how v is computed, from tensors that do not change. Then set
 * m. Only nodes of the formula may read inner values; `uses` is the result of gt_count_uses(). With
 * NULL for it, others may, too. */
bool gt_match_find(struct gt_match *m, struct gt_graph *g, const struct gt_formula *f,
    struct gt_value *v, const int *uses);

/* Return the tensor or the number of a letter. */
struct gt_value *gt_match_tensor(const struct gt_match *m, char letter);
double gt_match_number(const struct gt_match *m, char letter);

/* Return the inner node with an op, the one nearest to the root; NULL: there is none. */
struct gt_node *gt_match_node(const struct gt_match *m, const struct gt_op *op);

/* Return whether two values are computed in the same way from the same values. */
bool gt_match_same(const struct gt_value *a, const struct gt_value *b);

/* Return the node of a constant tensor, which may be viewed in another shape, or NULL. */
const struct gt_node *gt_match_constant(const struct gt_value *v);

/* Return element i of a constant in row-major order, as a double. */
double gt_match_element(const struct gt_node *constant, int64_t i);

/* A row of the table. */
struct gt_pattern {
	const char *name;       /* for messages, after a number: "rms norm"; NULL: not mentioned */
	const char *formula;    /* NULL: `write` looks at the node itself */
	const struct gt_op *op; /* without a formula: the op of the node */
	/* Emit nodes that compute m->root faster, and return their result. NULL: the match lacks
	 * something that the formula does not say; what was emitted is dropped. */
	struct gt_value *(*write)(const struct gt_match *m);
};

/* All patterns, in the order in which they are tried; ended by a row without a function. */
extern const struct gt_pattern gt_patterns[];

/* ---- norms.c, activations.c ---- */
typedef struct gt_value *gt_pattern_write(const struct gt_match *m);
gt_pattern_write gt_pattern_layer_norm, gt_pattern_rms_norm, gt_pattern_gelu_tanh,
    gt_pattern_gelu_erf, gt_pattern_silu, gt_pattern_swiglu;

/* ---- products.c ---- */
gt_pattern_write gt_pattern_transposed_weight, gt_pattern_transposed_weights, gt_pattern_bias,
    gt_pattern_moved_rows;

/* ---- moves.c ---- */
gt_pattern_write gt_pattern_same, gt_pattern_copy, gt_pattern_view;

/* ---- attention.c, rope.c ---- */
gt_pattern_write gt_pattern_attention, gt_pattern_attention_hidden, gt_pattern_attention_seen,
    gt_pattern_attention_added, gt_pattern_shared_heads, gt_pattern_rope;

/* ---- tokens.c ---- */
gt_pattern_write gt_pattern_positions, gt_pattern_patch_tokens;

/* Return the queries (part 0), keys (1) or values (2) of an attention node, [B, T, heads, D]. */
struct gt_value *gt_pattern_heads(struct gt_graph *g, const struct gt_node *attention, int part);

/* Return [B, T, heads, D] as [B, heads, T, D], or the other way round. */
struct gt_value *gt_pattern_swap(struct gt_graph *g, struct gt_value *x);

#endif
