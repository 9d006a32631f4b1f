/* shard.h - the pass of tensor parallelism, and the rules that shard each op. */
#ifndef GT_GRAPH_SHARD_H
#define GT_GRAPH_SHARD_H

#include "lib/graph/op.h"
#include "lib/graph/sharding.h"

/*
 * Several ranks share each layer and compute on the same samples. The pass rewrites the forward
 * graph of a model for one of these ranks. It goes over the nodes from the first to the last, and
 * calls the rule of each node's op. A value is either whole or sharded. A whole value has the same
 * bits on all ranks. A rank has only some columns of a sharded value, or some rows of a sharded
 * embedding table. Example: one layer of two products, on two ranks:
 *
 *   one rank                        each of two ranks
 *   y = matmul(x [2,8], W [6,8])    x' = copy(x)              f: sums the gradient of x over ranks
 *                                   y = matmul(x', W [3,8])   y [2,3], sharded
 *   z = relu(y)                     z = relu(y)               sharded like y
 *   u = matmul(z, V [5,6]) + b      u' = matmul(z, V [5,3])   a summand of u on each rank
 *                                   u = sum(u') + b           g: gradient of u' = gradient of u
 *
 * f and g are the names in the Megatron-LM paper. The pass does not depend on individual ops, and
 * the rules do not depend on how ranks communicate: copy and sum are nodes of struct
 * gt_shard_nodes, which lib/parallel provides. Source: Shoeybi et al., "Megatron-LM", arXiv
 * 1909.08053, figure 3 and section 3.
 */

/* How the columns of a value are sharded. The columns consist of `blocks` blocks, and each block of
 * `units` units of equal size. A rank holds some units of every block (struct gt_sharding). If
 * `units` is 0, the value is whole. */
struct gt_column_shards {
	int64_t blocks, units;
};

struct gt_shard_pass;

/* How an op is sharded (gt_op.shard). */
struct gt_shard_rule {
	/* Rewrite a node for one rank with the functions at the end of this header. */
	int (*rewrite)(struct gt_shard_pass *s, struct gt_node *node);
	/* Optional, for an op that maps columns of in[0] to columns of out[0]. `offered` describes
	 * the shards that the producer of in[0] can make. Return the shards of in[0] that the op
	 * can compute with. NULL: in[0] must be whole. */
	struct gt_column_shards (*takes)(
	    const struct gt_node *node, struct gt_column_shards offered);
};

/* A rule for ops that all ranks compute in full: no input may be sharded. */
extern const struct gt_shard_rule gt_shard_whole;

/* A rule for ops that work element by element and have one output: out[0] has the shards of
 * in[0]. */
extern const struct gt_shard_rule gt_shard_follow;

/* Functions that emit the nodes by which ranks communicate. Each returns NULL if x is NULL. */
struct gt_shard_nodes {
	/* Return x, a whole value, unchanged. In the backward pass, sum the gradient of x over the
	 * ranks. */
	struct gt_value *(*copy)(struct gt_graph *g, struct gt_value *x);
	/* Return the sum of x over the ranks. The gradient of x is the gradient of the result. */
	struct gt_value *(*sum)(struct gt_graph *g, struct gt_value *x);
	/* Return the maximum of x over the ranks, element by element. The node has no gradient. */
	struct gt_value *(*max)(struct gt_graph *g, struct gt_value *x);
};

/* The arguments and the state of the pass. The caller sets the members from g to err. */
struct gt_shard_pass {
	struct gt_graph *g;
	/* index of this rank among the ranks that share each layer, and the number of these
	 * ranks */
	int rank, ranks;
	const struct gt_shard_nodes *nodes;
	/* The pass calls this function for every parameter that it shards. The function must copy
	 * sharding->name if it needs the name later. */
	int (*note)(void *self, const struct gt_sharding *sharding, struct gt_err *err);
	/* Optional: return whether a parameter stays whole because it is whole in an earlier graph
	 * of the model. Example: an evaluation graph, which has no dropout, could shard more
	 * parameters than the training graph. */
	bool (*stays_whole)(void *self, const char *name);
	void *self; /* passed to note() and stays_whole() */
	struct gt_err *err;
	/* Private to the pass: */
	struct gt_column_shards *shards; /* [shards_count], by value id */
	size_t shards_count;
	size_t at; /* index in the list of nodes at which the next new node is placed */
	bool past; /* `at` is after the current node, or the current node was removed */
};

/* Rewrite the graph. Errors: GT_ENOTSUP for an op without a rule, and the errors of the rules. */
int gt_shard_graph(struct gt_shard_pass *s);

/* ---- functions that rules call; the current node is the node that the rule rewrites ---- */

/* Return how the columns of a value are sharded. */
struct gt_column_shards gt_shard_columns(const struct gt_shard_pass *s, const struct gt_value *v);
/* Return whether a value is sharded; false for NULL. */
bool gt_shard_is_sharded(const struct gt_shard_pass *s, const struct gt_value *v);

/* Set how the columns of v, an output of the current node, are sharded. */
void gt_shard_set(
    struct gt_shard_pass *s, const struct gt_value *v, struct gt_column_shards shards);

/* Return how many units per block this rank holds. *first is the index of the first unit. */
int64_t gt_shard_units(
    const struct gt_shard_pass *s, struct gt_column_shards shards, int64_t *first);

/* Reduce the shape of a parameter to this rank's shard along `dim`. If v is NULL, do nothing.
 * Errors: GT_ENOTSUP if v is not a parameter or is already sharded, GT_EINVAL if there are fewer
 * units than there are ranks. */
int gt_shard_parameter(
    struct gt_shard_pass *s, struct gt_value *v, int dim, struct gt_column_shards shards);

/* Infer the shapes of a node's outputs again, after its inputs or attributes have changed. */
int gt_shard_infer(struct gt_shard_pass *s, struct gt_node *node);

/* Return the node that reads v if there is exactly one read of v, else NULL. */
struct gt_node *gt_shard_only_reader(const struct gt_shard_pass *s, const struct gt_value *v);

/*
 * Place new nodes in the graph. gt_shard_copy(), gt_shard_sum() and gt_shard_max() emit a node of
 * struct gt_shard_nodes and place it. gt_shard_place() places the node that the caller emitted
 * last; v is its output. New nodes are placed before the current node, one after the other. After a
 * call of gt_shard_place_after() they are placed after the current node. No rules are applied to
 * new nodes. All functions except gt_shard_place_after() return the output of the new node, or NULL
 * with the graph's error set.
 */
struct gt_value *gt_shard_copy(struct gt_shard_pass *s, struct gt_value *x);
struct gt_value *gt_shard_sum(struct gt_shard_pass *s, struct gt_value *x);
struct gt_value *gt_shard_max(struct gt_shard_pass *s, struct gt_value *x);
struct gt_value *gt_shard_place(struct gt_shard_pass *s, struct gt_value *v);
void gt_shard_place_after(struct gt_shard_pass *s);

/* In all nodes after the last placed node, replace the input `from` by `to`. If `from` is an output
 * of the graph, `to` becomes this output. */
void gt_shard_replace(struct gt_shard_pass *s, struct gt_value *from, struct gt_value *to);

/* Remove the current node. The rule may place no more nodes afterwards. */
void gt_shard_remove(struct gt_shard_pass *s);

#endif
