/* shard.h - the pass of tensor parallelism, and the rules that shard each op. */
#ifndef GT_GRAPH_SHARD_H
#define GT_GRAPH_SHARD_H

#include "lib/graph/op.h"
#include "lib/graph/sharding.h"

/*
 * Several ranks share each layer and compute on the same samples. The pass rewrites the forward
 * graph of a model for one of these ranks: it calls the rule of each node's op, from the first node
 * to the last. A whole value has the same bits on all ranks. A rank has some columns of a sharded
 * value, or some rows of an embedding table. Example: one layer of two products, on two ranks:
 *
 *   one rank                        each of two ranks
 *   y = matmul(x [2,8], W [6,8])    x' = copy(x)              f: sums the gradient of x over ranks
 *                                   y = matmul(x', W [3,8])   y [2,3], sharded
 *   z = relu(y)                     z = relu(y)               sharded like y
 *   u = matmul(z, V [5,6]) + b      u' = matmul(z, V [5,3])   a summand of u on each rank
 *                                   u = sum(u') + b           g: gradient of u' = gradient of u
 *
 * copy and sum are nodes of struct gt_shard_nodes, which lib/parallel provides; f and g are their
 * names in the source: Shoeybi et al., "Megatron-LM", arXiv 1909.08053, figure 3 and section 3.
 */

/* The columns of a value: `blocks` blocks of `units` equal units each. A rank holds some units of
 * every block (struct gt_sharding). 0 units: the value is whole. */
struct gt_column_shards {
	int64_t blocks, units;
};

struct gt_shard_pass;

/* How an op is sharded (gt_op.shard). */
struct gt_shard_rule {
	/* Rewrite a node for one rank. */
	int (*rewrite)(struct gt_shard_pass *s, struct gt_node *node);
	/* Optional, for an op that maps columns of in[0] to those of out[0]: return shards of in[0]
	 * that the op can compute with, when the producer can make `offered`. NULL: in[0] must be
	 * whole. */
	struct gt_column_shards (*takes)(const struct gt_shard_pass *s, const struct gt_node *node,
	    struct gt_column_shards offered);
	/* Optional: return whether this rank computes with a single unit of the columns of in[k],
	 * and other ranks with the same one. *units is the number of units, *unit its index. The
	 * columns that the rule then expects are those of in[0]. */
	bool (*takes_unit)(const struct gt_shard_pass *s, const struct gt_node *node, int k,
	    int64_t *units, int64_t *unit);
	/* Optional: return whether the op can compute with the rows of in[1] that a rank has. */
	bool (*takes_rows)(const struct gt_shard_pass *s, const struct gt_node *node);
};

/* The rule of ops that all ranks compute in full, and of ops without a rule: no input may be
 * sharded. */
extern const struct gt_shard_rule gt_shard_whole;

/* The rule of ops that work element by element: out[0] has the shards of in[0]. */
extern const struct gt_shard_rule gt_shard_follow;

/* Functions that emit the nodes by which ranks communicate. They return NULL for NULL. */
struct gt_shard_nodes {
	/* Return x unchanged; the backward pass sums its gradient over the ranks. */
	struct gt_value *(*copy)(struct gt_graph *g, struct gt_value *x);
	/* Sum x over the ranks; its gradient is that of the result. */
	struct gt_value *(*sum)(struct gt_graph *g, struct gt_value *x);
	/* Return the maximum over the ranks, element by element, without a gradient. */
	struct gt_value *(*max)(struct gt_graph *g, struct gt_value *x);
};

/* The arguments and the state of the pass. The caller sets the members from g to err. */
struct gt_shard_pass {
	struct gt_graph *g;
	/* index of this rank among those that share each layer, and their number */
	int rank, ranks;
	const struct gt_shard_nodes *nodes;
	/* Called for every parameter that the pass shards. sharding->name is borrowed. */
	int (*note)(void *self, const struct gt_sharding *sharding, struct gt_err *err);
	/* Optional: whether a parameter stays whole because it is whole in an earlier graph of the
	 * model, such as a training graph, whose dropouts an evaluation graph lacks. */
	bool (*stays_whole)(void *self, const char *name);
	void *self;
	/* also shard products without a partner, whose input or output all ranks need whole */
	bool alone;
	struct gt_err *err;
	/* Private to the pass: */
	struct gt_column_shards *shards; /* [shards_count], by value id */
	size_t shards_count;
	size_t at; /* index at which the next new node is placed */
	bool past; /* `at` is after the current node, or that node was removed */
};

/* Return whether two products of the graph, which is not rewritten yet, become a pair: the first
 * weight is sharded by columns, the second one by rows. */
bool gt_shard_has_pair(const struct gt_shard_pass *s);

/* Rewrite the graph. Errors: GT_ENOTSUP for an op without a rule, and the errors of the rules. */
int gt_shard_graph(struct gt_shard_pass *s);

/* ---- functions that rules call; the current node is the node that the rule rewrites ---- */

struct gt_column_shards gt_shard_columns(const struct gt_shard_pass *s, const struct gt_value *v);
/* Return false for NULL. */
bool gt_shard_is_sharded(const struct gt_shard_pass *s, const struct gt_value *v);

/* Set how the columns of v, an output of the current node, are sharded. */
void gt_shard_set(
    struct gt_shard_pass *s, const struct gt_value *v, struct gt_column_shards shards);

/* Return how many units per block this rank holds, and the index of the first one. */
int64_t gt_shard_units(
    const struct gt_shard_pass *s, struct gt_column_shards shards, int64_t *first);

/* Reduce a parameter (or NULL) to this rank's shard along `dim`. Errors: GT_ENOTSUP if it is no
 * parameter or already sharded, GT_EINVAL if units are fewer than ranks. */
int gt_shard_parameter(
    struct gt_shard_pass *s, struct gt_value *v, int dim, struct gt_column_shards shards);

/* Infer the shapes again, after inputs or attributes have changed. */
int gt_shard_infer(struct gt_shard_pass *s, struct gt_node *node);

/* Return the only node that reads v, else NULL. */
struct gt_node *gt_shard_only_reader(const struct gt_shard_pass *s, const struct gt_value *v);

/* Return the product by a weight that makes the columns of v, perhaps with ops after it that follow
 * its columns; or NULL. */
const struct gt_node *gt_shard_product_of(const struct gt_value *v);

/* Emit and place a node of struct gt_shard_nodes, or place the node emitted last, whose output is
 * v: before the current node in order of the calls, after it once gt_shard_place_after() was
 * called. New nodes are not rewritten. Return the output, or NULL with the graph's error set. */
struct gt_value *gt_shard_copy(struct gt_shard_pass *s, struct gt_value *x);
struct gt_value *gt_shard_sum(struct gt_shard_pass *s, struct gt_value *x);
struct gt_value *gt_shard_max(struct gt_shard_pass *s, struct gt_value *x);
struct gt_value *gt_shard_place(struct gt_shard_pass *s, struct gt_value *v);
void gt_shard_place_after(struct gt_shard_pass *s);

/* Replace `from` by `to` in all nodes after the last placed one, and as an output of the graph. */
void gt_shard_replace(struct gt_shard_pass *s, struct gt_value *from, struct gt_value *to);

/* Remove the current node. The rule may place no more nodes. */
void gt_shard_remove(struct gt_shard_pass *s);

#endif
