/* attrs.h - the attributes of ops: constants beside their inputs. */
#ifndef GT_GRAPH_ATTRS_H
#define GT_GRAPH_ATTRS_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/device/dtype.h"
#include "lib/device/layout.h"

enum gt_gelu { GT_GELU_TANH, GT_GELU_ERF };

enum { GT_MAX_CHANNELS = 4, GT_MAX_DIMS = 4 };

/* Chunks of a multiple of this many rows begin at multiples of 32 bytes, in all types. */
enum { GT_HEAD_ROWS = 16 };

/*
 * One member per family of ops. Zero the union before setting members: the common-subexpression
 * pass compares the bytes of two nodes to decide whether they compute the same.
 */
union gt_attrs {
	/* covers every byte; it is first, because `= { 0 }` zeroes only the first member */
	int64_t all[6];
	struct {
		bool trans_a, trans_b;
		bool relaxed; /* terms of sums may be added in another order; forward only */
		bool tf32;    /* float32 factors may be rounded to TF32: the pass tf32 */
	} matmul;
	struct {
		int kernel, stride, pad; /* square */
		bool relu;               /* max(0, .) after bias and residual; forward only */
		/* algorithms that round more than a plain sum are allowed; forward only */
		bool relaxed;
		bool tf32; /* as of matmul */
		/* conv2d_input_grad: size of the input of the forward pass */
		int64_t in_height, in_width;
	} conv;
	struct {
		int kernel, stride, pad;
		int64_t in_height, in_width; /* gradients */
	} pool;
	struct {
		double eps;
		double momentum; /* batch norm: weight of the new statistics */
		bool relu;       /* batch norm: apply max(0, .) to the output */
		/* Layer norm of a float32 input: the 16-bit type of its output. GT_F32: outputs
		 * have the type of the input. */
		enum gt_dtype low;
	} norm;
	struct {
		enum gt_gelu kind;
	} gelu;
	struct {
		double p;        /* probability of dropping */
		uint32_t stream; /* counter word 2 of Philox: distinct per dropout of a model */
		/* If x has only some rows of each sample: the element at which they begin, and the
		 * elements of a whole sample; 0, 0: whole samples. */
		int64_t first, sample;
	} dropout;
	struct {
		int heads;
		double p; /* dropout of the attention probabilities */
		uint32_t stream;
		/* of a shard: its first head, and all heads of the layer; 0, 0: no shard */
		int first_head, all_heads;
		int kv_heads; /* heads of keys and values; 0: as many as of queries */
		bool full;    /* a token also attends to later tokens; else it is causal */
		bool tf32;    /* as of matmul */
	} attention;
	struct {
		int heads, kv_heads; /* heads of queries; heads of keys and of values */
		double theta;
	} rope;
	struct {
		int64_t rows; /* rows of the table; for gradients */
		/* of a shard: its first row, and all rows of the table; 0, 0: no shard */
		int64_t first, whole;
		enum gt_dtype low; /* type of the output, of 16 bits; GT_F32: the table's type */
	} embedding;
	struct {
		/* of a shard: its first class, and all classes; 0, 0: no shard */
		int64_t first, whole;
	} loss;
	struct {
		int64_t rows; /* rows of logits per chunk; a multiple of GT_HEAD_ROWS */
		bool tf32;    /* as of matmul */
	} head;
	struct {
		int stride;                  /* takes every stride-th row and column */
		int64_t front, back;         /* channels of zeros put before and after */
		int64_t in_height, in_width; /* gradient */
	} subsample;
	struct {
		float mean[GT_MAX_CHANNELS], std[GT_MAX_CHANNELS];
	} normalize;
	struct {
		int ndim;
		int64_t shape[GT_MAX_DIMS];
	} reshape;
	struct {
		enum gt_layout to;
	} reorder;
	struct {
		enum gt_dtype to;
	} cast;
	struct {
		int index;
		int turn;      /* all_gather_start: 1, or 2 in the backward part */
		int64_t count; /* elements, if the node allocates memory for them */
	} bucket;              /* of lib/parallel/data/buckets.h */
	struct {
		int axis;      /* enum gt_axis of lib/parallel/parallel.h */
		int ranks;     /* all_gather: of the axis */
		int reduction; /* all_reduce: enum gt_reduction of lib/comm/group.h */
	} collective;
	struct {
		enum gt_dtype dtype;
		int ndim; /* -1: none */
		int64_t shape[GT_MAX_DIMS];
		int link;  /* of lib/parallel/pipeline/stage.h */
		bool wait; /* pipe_send: return when it is done */
	} pipe;
	struct {
		enum gt_dtype dtype; /* scatter: of the output, with its shape */
		int ndim;
		int64_t shape[GT_MAX_DIMS]; /* gather: only [0] is set, to the rows of all ranks */
	} scatter;                          /* of lib/parallel/data/scatter.h */
	struct {
		double value;
		enum gt_dtype dtype;
		int ndim;
		int64_t shape[GT_MAX_DIMS];
	} fill;
};

/* Heads of keys and values of an attention. */
static inline int gt_attrs_kv_heads(const union gt_attrs *attrs)
{
	return attrs->attention.kv_heads ? attrs->attention.kv_heads : attrs->attention.heads;
}

static_assert(sizeof(union gt_attrs) == 6 * sizeof(int64_t), "gt_attrs.all covers every member");

#endif
