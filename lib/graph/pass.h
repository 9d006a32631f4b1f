/* pass.h - passes that rewrite a graph: the list of all passes, and functions that they share. */
#ifndef GT_GRAPH_PASS_H
#define GT_GRAPH_PASS_H

#include "lib/device/precision.h"
#include "lib/graph/op.h"

/* The pass recompute saves memory: it computes the forward part of some blocks of the model again
 * just before their backward part, so that their temporaries need not be kept. */
struct gt_recompute {
	int max;    /* in: most blocks to recompute, those that free most; INT_MAX: all */
	int blocks; /* out: blocks that would free memory */
	int done;   /* out: recomputed blocks */
};

struct gt_pass_options {
	struct gt_value *loss; /* the scalar to differentiate; NULL: forward part only */
	bool accumulate; /* add to the gradients in the store: a step has several micro-batches */
	enum gt_layout images; /* layout that the backend wants */
	/* if `scaled`, the gradient of the loss is the input "scale", else 1 */
	struct gt_precision precision;
	bool copies; /* the store keeps working copies of the parameters in the low type */
	/* The backend's tables, NULL-terminated: some passes insert ops only if they have a row for
	 * it. NULL: no such op. */
	const struct gt_kernel *const *kernels;
	struct gt_recompute *recompute;    /* NULL: recompute nothing */
	size_t logits_bytes, logits_align; /* limits for fuse_head (struct gt_backend) */
};

/* A pass may replace outputs and gradients by new values of the same names: find them again with
 * gt_graph_find(). It may run the clean-up passes: gt_pass_common computes equal nodes only once,
 * gt_pass_dead removes nodes that no result needs. */
struct gt_pass {
	const char *name;
	const char *purpose; /* a line for messages */
	bool (*applies)(const struct gt_pass_options *options);
	int (*run)(struct gt_graph *g, const struct gt_pass_options *options, struct gt_err *err);
};

/* All passes in the order in which they run, NULL-terminated. */
extern const struct gt_pass *const gt_passes[];

/* Run each pass that applies. */
int gt_passes_run(struct gt_graph *g, const struct gt_pass_options *options, struct gt_err *err);

/* Set depends[id] if the value depends on a parameter or another rank, and so has a gradient. */
void gt_find_dependents(const struct gt_graph *g, bool *depends);

/* Find the type that v, a value of a model's forward graph, gets in autocast. The graph is
 * unchanged afterwards. */
int gt_autocast_type(enum gt_dtype *out, struct gt_graph *g, const struct gt_value *v,
    const struct gt_precision *precision, struct gt_err *err);

/* ---- functions that passes share: rewrite.c ---- */

/* Count the reads of each value, by id; one more if the host reads it. The caller frees the array.
 * NULL on error. */
int *gt_count_uses(const struct gt_graph *g, struct gt_err *err);

/* Return the node that writes v if it has this op and v, a temporary or NULL, has one reader; else
 * NULL. `uses` is the result of gt_count_uses(). */
struct gt_node *gt_sole_maker(const struct gt_value *v, const struct gt_op *op, const int *uses);

/* Return the cast to the type `to` that is the only reader of the temporary v, or NULL. Check the
 * role of its output before you remove it. */
struct gt_node *gt_sole_cast(
    const struct gt_graph *g, const struct gt_value *v, enum gt_dtype to, const int *uses);

/* Return whether the tables, which may be NULL, have a row for the op and type. */
bool gt_has_kernel(
    const struct gt_kernel *const *tables, const struct gt_op *op, enum gt_dtype dtype);

/* Replace the input `from` in every node from index `first` on. */
void gt_replace_uses(
    struct gt_graph *g, size_t first, const struct gt_value *from, struct gt_value *to);

/* Make v (or NULL) an output of n. */
void gt_make_output(struct gt_node *n, int output, struct gt_value *v);

/* Remove a node, by its index or as itself (NULL is fine), from the graph's list. */
void gt_remove_node(struct gt_graph *g, size_t index);
void gt_drop_node(struct gt_graph *g, const struct gt_node *n);

/* Move the last node of the list to `index`. */
void gt_place_last(struct gt_graph *g, size_t index);

size_t gt_node_index(const struct gt_graph *g, const struct gt_node *n);

/* The passes. Each is defined in a file of lib/graph/passes. */
extern const struct gt_pass gt_pass_fuse_relu, gt_pass_fold_batch_norm, gt_pass_relax,
    gt_pass_autocast, gt_pass_fuse_norm, gt_pass_backward, gt_pass_fuse_accumulate,
    gt_pass_accumulate, gt_pass_common, gt_pass_dead, gt_pass_working_copies, gt_pass_fuse_products,
    gt_pass_layout, gt_pass_tf32, gt_pass_reread, gt_pass_recompute, gt_pass_fuse_head,
    gt_pass_fuse_map;

#endif
