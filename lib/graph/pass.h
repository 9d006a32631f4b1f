/* pass.h - rewriting a graph: the list of passes, and the steps they share. */
#ifndef GT_GRAPH_PASS_H
#define GT_GRAPH_PASS_H

#include "lib/graph/op.h"

/* Blocks of a model whose forward part is computed again before their backward part. */
struct gt_recompute {
	/* recompute at most this number of blocks, those that free most memory; INT_MAX: all */
	int most;
	int blocks; /* out: the number of blocks that would free memory */
	int done;   /* out: the number of recomputed blocks */
};

/* Facts that the passes need about the plan that will be made. */
struct gt_pass_options {
	struct gt_value *loss; /* the scalar to differentiate; NULL: forward part only */
	bool scaled;           /* the backward pass begins with the input "scale" instead of 1 */
	bool accumulate; /* gradients add to those in the store (several micro-batches a step) */
	enum gt_layout images; /* the layout that the backend wants */
	/* type of products and convolutions, bfloat16 or float16; GT_F32: as built */
	enum gt_dtype low;
	/* embeddings, and sums of both types, also have this type; else they are float32 */
	bool low_sums;
	bool copies; /* the store keeps copies of the parameters in this type */
	bool tf32;   /* float32 factors of products and convolutions are rounded to TF32 */
	/* The backend's tables: passes use an op that is not in all backends only if it has a row
	 * here. NULL: they use none of these ops. */
	const struct gt_kernel *const *kernels;
	struct gt_recompute *recompute;    /* NULL: keep all that the backward part reads */
	size_t logits_bytes, logits_align; /* as in struct gt_backend */
};

/*
 * A pass may replace the value of an output or a gradient, which keeps its name. So callers have to
 * look up such values again after the passes. Clean-up passes may also be called by other passes.
 */
struct gt_pass {
	const char *name;
	const char *purpose; /* one line for people */
	bool (*applies)(const struct gt_pass_options *options);
	int (*run)(struct gt_graph *g, const struct gt_pass_options *options, struct gt_err *err);
};

/* All passes in the order in which they run, NULL-terminated. */
extern const struct gt_pass *const gt_passes[];

/* Run every pass that applies. */
int gt_passes_run(struct gt_graph *g, const struct gt_pass_options *options, struct gt_err *err);

/* Set depends[id] for each value: whether it depends on a parameter or on another rank's value, so
 * that it has a gradient. */
void gt_find_dependents(const struct gt_graph *g, bool *depends);

/* autocast.c: the type that v, a value of a whole model's forward graph, will have after autocast
 * with these options (low, low_sums; low GT_F32: without autocast). The graph is not changed. */
int gt_autocast_type(enum gt_dtype *out, struct gt_graph *g, const struct gt_value *v,
    const struct gt_pass_options *options, struct gt_err *err);

/* ---- steps that passes share: rewrite.c ---- */

/* The number of reads of each value, by value id; yours to free(). A value that the host reads
 * (output, gradient) has one more. */
int *gt_count_uses(const struct gt_graph *g, struct gt_err *err);

/* The node that makes v, if it is of this op, only one node reads v, and the host does not; else
 * NULL. v may be NULL. `uses` is that of gt_count_uses(), here and below. */
struct gt_node *gt_sole_maker(const struct gt_value *v, const struct gt_op *op, const int *uses);

/* The node that casts v to this type, if no other node reads v, and the host does not; else NULL.
 * The result of the cast may have any role: the caller that drops it has to look. */
struct gt_node *gt_sole_cast(
    const struct gt_graph *g, const struct gt_value *v, enum gt_dtype to, const int *uses);

/* Whether the tables have a row for the op in this type; false if `tables` is NULL. */
bool gt_has_kernel(
    const struct gt_kernel *const *tables, const struct gt_op *op, enum gt_dtype dtype);

/* Let every node from `first` on read `to` where it read `from`. */
void gt_replace_uses(
    struct gt_graph *g, size_t first, const struct gt_value *from, struct gt_value *to);

/* Let n write v as this output. If v is NULL, n does not write that output. */
void gt_make_output(struct gt_node *n, int output, struct gt_value *v);

/* Remove the node at `index` from the list; or remove this node, which may be NULL. */
void gt_remove_node(struct gt_graph *g, size_t index);
void gt_drop_node(struct gt_graph *g, const struct gt_node *n);

/* Move the last node of the list, just emitted, to `index`; nodes from there on move up. */
void gt_place_last(struct gt_graph *g, size_t index);

/* The index of a node in the list. */
size_t gt_node_index(const struct gt_graph *g, const struct gt_node *n);

extern const struct gt_pass gt_pass_fuse_relu, gt_pass_fold_batch_norm, gt_pass_relax,
    gt_pass_autocast, gt_pass_fuse_norm, gt_pass_backward, gt_pass_fuse_accumulate,
    gt_pass_accumulate, gt_pass_common, gt_pass_dead, gt_pass_working_copies, gt_pass_fuse_products,
    gt_pass_layout, gt_pass_tf32, gt_pass_recompute, gt_pass_fuse_head;

#endif
