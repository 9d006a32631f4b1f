/* pass.h - passes that rewrite a graph: the list of all passes, and functions that they share. */
#ifndef GT_GRAPH_PASS_H
#define GT_GRAPH_PASS_H

#include "lib/device/precision.h"
#include "lib/graph/op.h"

/* Options and results of the pass recompute, which saves memory. The pass chooses blocks of the
 * model, such as the layers of a transformer. The plan does not keep the temporaries of a chosen
 * block until the backward part. Instead, it computes the forward part of the block again just
 * before the backward part of the block. */
struct gt_recompute {
	/* in: recompute at most this number of blocks; INT_MAX: all. The pass chooses the blocks
	 * that free the most memory. */
	int max;
	int blocks; /* out: the number of blocks that free memory if they are recomputed */
	int done;   /* out: the number of recomputed blocks */
};

/* The options of the passes. */
struct gt_pass_options {
	struct gt_value *loss; /* the scalar to differentiate; NULL: forward part only */
	/* nodes add gradients to the gradients in the store (lib/store/store.h), so that a step can
	 * have several micro-batches */
	bool accumulate;
	enum gt_layout images; /* the layout that the backend wants for images */
	/* The backward pass begins with the gradient of the loss: the graph's input "scale" if
	 * precision.scaled is set, else 1. */
	struct gt_precision precision;
	bool copies; /* the store keeps working copies of the parameters in the low type */
	/* The backend's kernel tables, NULL-terminated. Some ops exist only in some backends:
	 * passes insert such an op only if these tables have a row for it. NULL: passes insert no
	 * such op. */
	const struct gt_kernel *const *kernels;
	struct gt_recompute *recompute; /* NULL: recompute nothing */
	/* Limits for the pass fuse_head, from the backend (struct gt_backend in
	 * lib/device/backend.h). The pass computes logits and loss chunk by chunk if the logits
	 * have more than logits_bytes bytes, or if the bytes of a row of logits are not a multiple
	 * of logits_align (0: any number is fine). */
	size_t logits_bytes, logits_align;
};

/*
 * A pass may replace an output or a gradient by a new value of the same name. So callers have to
 * look up these values again after the passes (gt_graph_find()). A pass may run the clean-up
 * passes: gt_pass_common, which computes equal nodes only once, and gt_pass_dead, which removes
 * nodes that no result needs.
 */
struct gt_pass {
	const char *name;
	const char *purpose;                                    /* one line of text for messages */
	bool (*applies)(const struct gt_pass_options *options); /* whether to run the pass */
	int (*run)(struct gt_graph *g, const struct gt_pass_options *options, struct gt_err *err);
};

/* All passes in the order in which they run, NULL-terminated. */
extern const struct gt_pass *const gt_passes[];

/* Run every pass that applies with these options, in the order of gt_passes. */
int gt_passes_run(struct gt_graph *g, const struct gt_pass_options *options, struct gt_err *err);

/* Set depends[id] for each value id: true if the value depends on a parameter, or on a value from
 * another rank. Such values have gradients. */
void gt_find_dependents(const struct gt_graph *g, bool *depends);

/* Set *out to the data type that v will have after the pass autocast, which gives products and
 * convolutions the low type. v is a value of the forward graph of a whole model. The graph is
 * unchanged afterwards. */
int gt_autocast_type(enum gt_dtype *out, struct gt_graph *g, const struct gt_value *v,
    const struct gt_precision *precision, struct gt_err *err);

/* ---- functions that passes share: rewrite.c ---- */

/* Return an array with the number of reads of each value, indexed by value id, or NULL on error.
 * The caller frees the array with free(). Each input of a node is one read. If the host reads the
 * value (outputs, gradients), this is one more read.
 */
int *gt_count_uses(const struct gt_graph *g, struct gt_err *err);

/* Return the node that writes the temporary v, if the op of the node is `op` and v has exactly one
 * reader. Else return NULL. v may be NULL. In this function and in gt_sole_cast(), `uses` is the
 * result of gt_count_uses().
 */
struct gt_node *gt_sole_maker(const struct gt_value *v, const struct gt_op *op, const int *uses);

/* Return the cast node that reads the temporary v and writes the type `to`, if v has exactly one
 * reader. Else return NULL. The output of the cast may have any role, so a caller must check the
 * role before it removes the output. */
struct gt_node *gt_sole_cast(
    const struct gt_graph *g, const struct gt_value *v, enum gt_dtype to, const int *uses);

/* Return whether the kernel tables have a row for the op and the data type. Return false if
 * `tables` is NULL.
 */
bool gt_has_kernel(
    const struct gt_kernel *const *tables, const struct gt_op *op, enum gt_dtype dtype);

/* Replace the input `from` by `to` in every node from index `first` on. */
void gt_replace_uses(
    struct gt_graph *g, size_t first, const struct gt_value *from, struct gt_value *to);

/* Make v the output of n with index `output`. If v is NULL, n loses that output. */
void gt_make_output(struct gt_node *n, int output, struct gt_value *v);

/* Remove a node from the graph's list of nodes. gt_remove_node() removes the node at `index`, and
 * gt_drop_node() the node n. If n is NULL, nothing is done. */
void gt_remove_node(struct gt_graph *g, size_t index);
void gt_drop_node(struct gt_graph *g, const struct gt_node *n);

/* Move the last node of the list, which was just emitted, to `index`. The index of each node from
 * there on increases by 1. */
void gt_place_last(struct gt_graph *g, size_t index);

/* Return the index of node n in the list of nodes. */
size_t gt_node_index(const struct gt_graph *g, const struct gt_node *n);

/* The passes. Each is defined in a file of lib/graph/passes. */
extern const struct gt_pass gt_pass_fuse_relu, gt_pass_fold_batch_norm, gt_pass_relax,
    gt_pass_autocast, gt_pass_fuse_norm, gt_pass_backward, gt_pass_fuse_accumulate,
    gt_pass_accumulate, gt_pass_common, gt_pass_dead, gt_pass_working_copies, gt_pass_fuse_products,
    gt_pass_layout, gt_pass_tf32, gt_pass_recompute, gt_pass_fuse_head;

#endif
