/* node_attrs.h - private: the attributes of collectives and other nodes of this module. */
#ifndef GT_PARALLEL_NODE_ATTRS_H
#define GT_PARALLEL_NODE_ATTRS_H

#include <string.h>

#include "lib/graph/attrs.h"

/* The attributes of this module's nodes, one member for each family of ops: the member `own` of
 * union gt_attrs. */
union gt_node_attrs {
	/* all bytes */
	int64_t all[GT_ATTR_WORDS];
	struct {
		int index;
		/* all_gather_start: 1 for readers in the forward part, 2 for the backward part */
		int gather;
		int64_t count; /* elements */
	} bucket;              /* see data/buckets.h */
	struct {
		int axis; /* enum gt_axis */
		/* all_gather: number of ranks, or of all virtual ranks */
		int ranks;
		int reduction; /* all_reduce: enum gt_reduction */
	} collective;
	/* pipe_recv, pipe_send: type and shape of the output, which is a token for pipe_send
	 * (pipeline/stage.h) */
	struct {
		enum gt_dtype dtype;
		int ndim; /* -1: no output */
		int64_t shape[GT_MAX_DIMS];
		/* see gt_pipe_recv() */
		int link;
		bool wait; /* pipe_send: wait for the end */
		/* pipe_send: the next message of the stage is a receive, with which this one may
		 * be exchanged */
		bool meets;
	} pipe;
	/* scatter and gather (data/scatter.h) */
	struct {
		enum gt_dtype dtype; /* scatter: the output */
		int ndim;
		/* gather: only shape[0], the rows of all ranks on rank 0, else 0 */
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

/* Return attributes for gt_emit(). *own was zeroed before its members were set. */
static inline union gt_attrs gt_node_attrs_pack(const union gt_node_attrs *own)
{
	union gt_attrs attrs;

	memcpy(attrs.own, own, sizeof(attrs.own));
	return attrs;
}

#endif
