/* shard.h - how ops are sharded: the pass of tensor parallelism, and its rules. */
#ifndef GT_GRAPH_SHARD_H
#define GT_GRAPH_SHARD_H

#include "lib/graph/op.h"
#include "lib/graph/sharding.h"

/*
 * The pass goes over a forward graph from its first node to its last. The rule of each node's op
 * rewrites the node for one of several ranks that share each layer. All ranks compute on the same
 * samples. A value is either whole, with the same bits on all ranks, or sharded by its columns (a
 * table of an embedding: by its rows). This is how two products become one layer on two ranks:
 *
 *   one rank                        each of two ranks
 *   y = matmul(x [2,8], W [6,8])    x' = copy(x)              f: its gradient is summed over ranks
 *                                   y = matmul(x', W [3,8])   y [2,3], sharded
 *   z = relu(y)                     z = relu(y)               follows its input
 *   u = matmul(z, V [5,6]) + b      u' = matmul(z, V [5,3])   a summand of u on each rank
 *                                   u = sum(u') + b           g: its gradient is that of u
 *
 * The pass does not know individual ops, and the rules do not know how ranks communicate: copy and
 * sum are nodes of struct gt_shard_nodes, which lib/parallel provides. Source: Shoeybi et al.,
 * "Megatron-LM", arXiv 1909.08053, figure 3 and section 3.
 */

/* How the columns of a value are sharded: see struct gt_sharding. units 0: the value is whole. */
struct gt_cut {
	int64_t blocks, units;
};

struct gt_shard_pass;

/* The rule of an op (gt_op.shard). */
struct gt_shard_rule {
	/* Rewrite a node for one rank, by the functions below. */
	int (*rewrite)(struct gt_shard_pass *s, struct gt_node *node);
	/* Optional, for an op that maps columns of in[0] to columns of out[0]: how in[0] can be
	 * sharded. NULL: in[0] must be whole. */
	struct gt_cut (*takes)(const struct gt_node *node, struct gt_cut offered);
};

/* A rule for ops that all ranks compute in full: none of the inputs may be sharded. */
extern const struct gt_shard_rule gt_shard_whole;

/* Element by element: out[0] is sharded as in[0] is. For ops with one output. */
extern const struct gt_shard_rule gt_shard_follow;

/* The nodes by which ranks communicate, as builders: NULL in, NULL out. */
struct gt_shard_nodes {
	/* x itself, which is whole; its gradient is the sum of the ranks' gradients. */
	struct gt_value *(*copy)(struct gt_graph *g, struct gt_value *x);
	/* The sum and the maximum of the ranks' x. The gradient of the sum is that of the result;
	 * the maximum has none. */
	struct gt_value *(*sum)(struct gt_graph *g, struct gt_value *x);
	struct gt_value *(*max)(struct gt_graph *g, struct gt_value *x);
};

struct gt_shard_pass {
	struct gt_graph *g;
	/* this rank's number, and the number of ranks, among those that share each layer */
	int rank, ranks;
	const struct gt_shard_nodes *nodes;
	/* Called with every sharded parameter. It has to copy the name. */
	int (*note)(void *self, const struct gt_sharding *sharding, struct gt_err *err);
	void *self;
	struct gt_err *err;
	/* The pass's own. */
	struct gt_cut *cuts; /* [cut_count], by value id */
	size_t cut_count;
	size_t at; /* where the next node is placed */
	bool past; /* the place is after the current node, or there is no current node */
};

/* Rewrite the graph. Errors: GT_ENOTSUP for an op without a rule, and those of the rules. */
int gt_shard_graph(struct gt_shard_pass *s);

/* ---- for rules ---- */

/* How a value is sharded; and whether it is (NULL: no). */
struct gt_cut gt_shard_cut(const struct gt_shard_pass *s, const struct gt_value *v);
bool gt_shard_is_cut(const struct gt_shard_pass *s, const struct gt_value *v);

/* Set how an output of the current node is sharded. */
void gt_shard_set(struct gt_shard_pass *s, const struct gt_value *v, struct gt_cut cut);

/* This rank's units of a cut: sets *first and returns their number. */
int64_t gt_shard_units(const struct gt_shard_pass *s, struct gt_cut cut, int64_t *first);

/* Reduce a parameter to this rank's shard along `dim`. NULL is fine. Errors: GT_ENOTSUP if it is
 * not a parameter or already sharded, GT_EINVAL if it has fewer units than there are ranks. */
int gt_shard_parameter(struct gt_shard_pass *s, struct gt_value *v, int dim, struct gt_cut cut);

/* Infer the shapes of a node's outputs again, after its inputs or attributes have changed. */
int gt_shard_infer(struct gt_shard_pass *s, struct gt_node *node);

/* The only node that reads v, or NULL. */
struct gt_node *gt_shard_only_reader(const struct gt_shard_pass *s, const struct gt_value *v);

/*
 * Emit nodes. The first three emit nodes of struct gt_shard_nodes; gt_shard_place() takes the node
 * just emitted, which makes v. Nodes are placed before the current node, one after the other; after
 * a call of gt_shard_behind() they are placed after it. No rules are applied to them. All functions
 * return their result, or NULL with the graph's error.
 */
struct gt_value *gt_shard_copy(struct gt_shard_pass *s, struct gt_value *x);
struct gt_value *gt_shard_sum(struct gt_shard_pass *s, struct gt_value *x);
struct gt_value *gt_shard_max(struct gt_shard_pass *s, struct gt_value *x);
struct gt_value *gt_shard_place(struct gt_shard_pass *s, struct gt_value *v);
void gt_shard_behind(struct gt_shard_pass *s);

/* Replace `from` by `to` in all nodes after the nodes placed so far, and for the host if `from` is
 * an output. */
void gt_shard_replace(struct gt_shard_pass *s, struct gt_value *from, struct gt_value *to);

/* Remove the current node. No more nodes may be placed. */
void gt_shard_remove(struct gt_shard_pass *s);

#endif
