/* node_attrs.h - private: the attributes of collectives and other nodes of this module. */
#ifndef GT_PARALLEL_NODE_ATTRS_H
#define GT_PARALLEL_NODE_ATTRS_H

#include <string.h>

#include "lib/graph/attrs.h"

/* The attributes of a node of this module, one member for each family of ops. They are the member
 * `own` of union gt_attrs. */
union gt_node_attrs {
	/* This member covers every byte: see union gt_attrs. */
	int64_t all[6];
	struct {
		int index; /* index of the bucket */
		/* only for the op all_gather_start, which gathers the parameters of the bucket from
		 * all ranks: 1 if the forward part of the graph uses them, 2 if the backward part
		 * does */
		int gather;
		int64_t count; /* elements of the bucket */
	} bucket; /* a range of gradients that one collective sums (lib/parallel/data/buckets.h) */
	struct {
		int axis; /* enum gt_axis: the ranks of this axis of the grid of ranks take part */
		/* all_gather: number of ranks of the axis. If a rank simulates several virtual
		 * ranks (lib/parallel/virtual/rewrite.h): number of all virtual ranks */
		int ranks;
		int reduction; /* all_reduce: enum gt_reduction of lib/comm/group.h */
	} collective;
	/* pipe_recv and pipe_send: type and shape of the output. The output of pipe_send is a
	 * token: zeros that stand for a result, such as the loss, that only a later stage of the
	 * pipeline computes (lib/parallel/pipeline/stage.h). */
	struct {
		enum gt_dtype dtype;
		int ndim; /* -1: pipe_send has no output */
		int64_t shape[GT_MAX_DIMS];
		/* The link to another stage that the data use: an enum gt_pipe_link of
		 * lib/parallel/pipeline/stage.h, or GT_PIPE_LINKS + i for tied parameter number i
		 * (a parameter that several stages hold). */
		int link;
		bool wait; /* pipe_send: wait until the data have been sent */
	} pipe;
	/* scatter: rank 0 sends each rank its samples. gather: each rank sends its rows of results
	 * to rank 0 (lib/parallel/data/scatter.h). */
	struct {
		enum gt_dtype dtype; /* scatter: dtype, ndim and shape of the output */
		int ndim;
		/* gather: shape[0] is the number of rows of all ranks on rank 0, and 0 on other
		 * ranks; dtype, ndim and the rest of the shape are not used */
		int64_t shape[GT_MAX_DIMS];
	} scatter;
};

static_assert(sizeof(union gt_node_attrs) == sizeof(((union gt_attrs *)0)->own),
    "gt_attrs.own holds the attributes");

/* Return the attributes of a node or of a call. */
static inline union gt_node_attrs gt_node_attrs(const union gt_attrs *attrs)
{
	union gt_node_attrs own;

	memcpy(&own, attrs->own, sizeof(own));
	return own;
}

/* Return attributes for gt_emit(). Zero *own before you set its members. */
static inline union gt_attrs gt_node_attrs_pack(const union gt_node_attrs *own)
{
	union gt_attrs attrs;

	memcpy(attrs.own, own, sizeof(attrs.own));
	return attrs;
}

#endif
