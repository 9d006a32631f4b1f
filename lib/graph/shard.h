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
 * The pass knows no op, and the rules know no communication: copy and sum are nodes of
 * struct gt_shard_nodes, which lib/parallel hands in.
 * Source: Shoeybi et al., "Megatron-LM", arXiv 1909.08053, figure 3 and section 3.
 */

/* How the columns of a value are sharded: as struct gt_sharding has it. No units: it is whole. */
struct gt_cut {
	int64_t blocks, units;
};

struct gt_shard_pass;

/* The rule of an op (gt_op.shard). */
struct gt_shard_rule {
	/* Rewrite a node for one rank, by the functions below. */
	int (*rewrite)(struct gt_shard_pass *s, struct gt_node *node);
	/* Optional, of an op that takes columns of in[0] and makes columns of out[0]: how in[0]
	 * can be sharded. NULL: no op before it may shard in[0] for its sake. */
	struct gt_cut (*takes)(const struct gt_node *node, struct gt_cut offered);
};

/* All ranks compute the whole of it, and none of its inputs may be sharded. */
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
	int rank, ranks; /* of those that share each layer */
	const struct gt_shard_nodes *nodes;
	/* Called with every parameter that was sharded, whose name it has to copy. */
	int (*note)(void *self, const struct gt_sharding *sharding, struct gt_err *err);
	void *self;
	struct gt_err *err;
	/* The pass's own. */
	struct gt_cut *cuts; /* [cut_count], by value id */
	size_t cut_count;
	size_t at; /* where the next node is placed */
	bool past; /* that is behind the node in hand, or there is none */
};

/* Rewrite the graph. Errors: GT_ENOTSUP for an op without a rule, and those of the rules. */
int gt_shard_graph(struct gt_shard_pass *s);

/* ---- for rules ---- */

/* How a value is sharded; and whether it is (NULL: no). */
struct gt_cut gt_shard_cut(const struct gt_shard_pass *s, const struct gt_value *v);
bool gt_shard_is_cut(const struct gt_shard_pass *s, const struct gt_value *v);

/* From now on, an output of the node in hand is sharded like this. */
void gt_shard_set(struct gt_shard_pass *s, const struct gt_value *v, struct gt_cut cut);

/* This rank's units of a cut: *first and the number of them. */
int64_t gt_shard_units(const struct gt_shard_pass *s, struct gt_cut cut, int64_t *first);

/* Leave of a parameter this rank's shard along `dim`. NULL is fine. Errors: GT_ENOTSUP where it is
 * no parameter or sharded already, GT_EINVAL where it has fewer units than there are ranks. */
int gt_shard_parameter(struct gt_shard_pass *s, struct gt_value *v, int dim, struct gt_cut cut);

/* Infer the shapes of a node's outputs anew, after its inputs or attributes have changed. */
int gt_shard_infer(struct gt_shard_pass *s, struct gt_node *node);

/* The only node that reads v, or NULL. */
struct gt_node *gt_shard_only_reader(const struct gt_shard_pass *s, const struct gt_value *v);

/*
 * Emit nodes: those of struct gt_shard_nodes, and gt_shard_place() for the one just emitted, which
 * makes v. They are placed before the node in hand, one after the other; after gt_shard_behind()
 * behind it. No rule is applied to them. All return their result, or NULL with the graph's error.
 */
struct gt_value *gt_shard_copy(struct gt_shard_pass *s, struct gt_value *x);
struct gt_value *gt_shard_sum(struct gt_shard_pass *s, struct gt_value *x);
struct gt_value *gt_shard_max(struct gt_shard_pass *s, struct gt_value *x);
struct gt_value *gt_shard_place(struct gt_shard_pass *s, struct gt_value *v);
void gt_shard_behind(struct gt_shard_pass *s);

/* Let `to` stand for `from`: for the nodes that come behind those placed so far, and for the host
 * where `from` is an output. */
void gt_shard_replace(struct gt_shard_pass *s, struct gt_value *from, struct gt_value *to);

/* Remove the node in hand. Nodes may be placed no more. */
void gt_shard_remove(struct gt_shard_pass *s);

#endif
