/* attrs.h - the attributes of ops: the constants of a node, such as stride or eps. */
#ifndef GT_GRAPH_ATTRS_H
#define GT_GRAPH_ATTRS_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/blocks.h"
#include "lib/base/regression.h"
#include "lib/base/sample.h"
#include "lib/device/dtype.h"
#include "lib/device/layout.h"

struct gt_map_program; /* map_program.h */

/* The tanh approximation of GELU, and its exact formula. */
enum gt_gelu { GT_GELU_TANH, GT_GELU_ERF };

/* Views that divide an image into windows have six dimensions, volumes with a batch five. */
enum { GT_MAX_DIMS = 8, GT_ATTR_WORDS = 12 };

/* linear_cross_entropy: the rows of a chunk are a multiple of this, which aligns the chunks. */
enum { GT_HEAD_ROWS = 16 };

/*
 * Windows that move over images; pairs are for height and width, in pixels. A tap is one of the
 * kernel[0] x kernel[1] elements of a window, and `dilation` the distance between neighbouring
 * taps. Window i begins at row i * stride[0] - pad[0]; taps outside of the image are padding.
 */
struct gt_window {
	int kernel[2], stride[2], pad[2], dilation[2];
};

struct gt_arrangement; /* lib/graph/arrangement.h */

enum { GT_ROPE_PAIRS = 256 };

/* Angles of rotary positions other than the powers of theta. In a head, the columns j and j + pairs
 * are rotated together, for j < pairs; the columns from 2 * pairs on are copied. All members have
 * 64 or 32 bits without padding, and unused frequencies are 0 (gt_graph_intern()). */
struct gt_rope_angles {
	double scale; /* factor of cosines and sines */
	int64_t pairs;
	float frequency[GT_ROPE_PAIRS]; /* angle between neighbouring tokens */
};

/* The attributes of a node: a member for each family of ops. Zero the union before you set a
 * member, because passes compare its bytes. "Forward only" attributes are for graphs without a
 * backward part. In a shard (lib/graph/shard.h), `first` or `first_head` is its first head, row or
 * class, and `whole` or `all_heads` the number of all; 0, 0 means no shard. With `tf32`, kernels
 * may round float32 factors to TF32. */
union gt_attrs {
	/* every byte; the first member, because `= { 0 }` zeroes only that */
	int64_t all[GT_ATTR_WORDS];
	int64_t own[GT_ATTR_WORDS]; /* attributes of ops outside of lib/graph */
	struct {
		bool trans_a, trans_b; /* transpose the first, the second factor */
		bool relaxed;          /* the kernel may reorder additions; forward only */
		bool tf32;
		enum gt_block block; /* how the second factor is stored; forward only */
	} matmul;
	struct {
		struct gt_window window;
		int groups; /* of channels, each convolved by itself */
		bool relu;  /* apply max(0, .) at the end; forward only */
		/* the kernel may use algorithms that round more often; forward only */
		bool relaxed;
		bool tf32; /* the kernel may round float32 factors to TF32 */
		/* conv2d_input_grad: size of the forward op's input, in pixels */
		int64_t in_height, in_width;
	} conv;
	struct {
		struct gt_window window;
		/* the image is divided into so many windows (height and width), instead of
		 * `window`; 0, 0: it is not */
		int parts[2];
		bool ceil_mode;   /* also windows that reach past the padding at the end */
		bool exclude_pad; /* average: of the elements in the image alone */
		/* gradient ops: size of the forward op's input, in pixels */
		int64_t in_height, in_width;
	} pool;
	struct {
		int size[2];    /* height and width of the result */
		float scale[2]; /* distance of neighbouring pixels of the result, in the input */
		bool linear;    /* between pixels of the input, instead of the nearest one */
		bool align;     /* linear: the centres of corner pixels stay where they are */
		/* gradient op: size of the forward op's input, in pixels */
		int64_t in_height, in_width;
	} resample;
	struct {
		double eps;
		/* weight of a batch in the running statistics */
		double momentum;
		bool relu; /* batch norm: apply max(0, .) */
		/* layer norm: 16-bit type of the output; GT_F32: the input's type */
		enum gt_dtype low;
	} norm;
	struct {
		enum gt_gelu kind;
	} gelu;
	struct {
		double p; /* probability that an element becomes 0 */
		/* word 2 of Philox's counter, which differs between the dropouts of a model */
		uint32_t stream;
		/* If x has only some rows of each sample: index of the first element, and number of
		 * elements of the whole sample. Otherwise 0, 0. */
		int64_t first, sample;
	} dropout;
	struct {
		int heads;       /* heads of the queries */
		double p;        /* dropout probability of the attention probabilities */
		uint32_t stream; /* as for dropout */
		int first_head, all_heads;
		int kv_heads; /* heads of keys and of values; 0: `heads` */
		bool full;    /* a token also attends to later tokens */
		bool tf32;    /* the kernel may round float32 factors to TF32 */
		/* attention_cached alone: a token attends to so many tokens at most, itself among
		 * them; 0: to all */
		int window;
		double cap; /* likewise: scores become cap * tanh(score / cap); 0: they do not */
	} attention;
	struct {
		int heads, kv_heads;
		double theta; /* base of the rotation frequencies, unless there are `angles` */
		const struct gt_rope_angles *angles; /* of gt_graph_intern(); NULL: none */
	} rope;
	struct {
		int64_t rows; /* gradient ops: number of rows of the table */
		int64_t first, whole;
		enum gt_dtype low; /* 16-bit type of the output; GT_F32: the table's type */
		/* the row at index padding - 1 has no gradient; 0: all rows have one */
		int64_t padding;
		/* how the table, whose rows have `width` elements, is stored; forward only */
		enum gt_block block;
		int64_t width;
	} embedding;
	struct {
		enum gt_block block;
		int64_t columns;
		enum gt_dtype to;
	} decode;
	struct {
		int64_t first, whole;
		/* cross-entropy: part of a target that is spread over all classes, 0 to 1 */
		double smoothing;
		bool each; /* cross-entropy: the losses of rows, not their sum */
	} loss;
	struct gt_regression regression;
	struct {
		int64_t rows; /* rows of logits per chunk */
		bool tf32;    /* the kernel may round float32 factors to TF32 */
	} head;               /* linear_cross_entropy */
	struct {
		int stride;
		int64_t front, back; /* channels of zeros before and after */
		/* gradient op: size of the forward op's input, in pixels */
		int64_t in_height, in_width;
	} subsample;
	struct {
		float mean[GT_MAX_CHANNELS], std[GT_MAX_CHANNELS]; /* per channel of the image */
	} normalize;
	struct {
		int ndim;
		int64_t shape[GT_MAX_DIMS];
		enum gt_dtype dtype; /* view_bytes: the type of the result */
	} reshape;
	struct {
		const struct gt_map_program *program; /* of gt_graph_intern() */
		int ndim;                             /* the outputs have at least this shape */
		int64_t shape[GT_MAX_DIMS];
	} map;
	struct {
		unsigned dims; /* bit d: the sum goes over dimension d */
		bool keep;     /* these dimensions remain, with size 1 */
	} sum;
	struct {
		bool log; /* the logarithm of the softmax */
	} softmax;
	struct {
		int64_t size;  /* topk, index_scatter: elements of a row of the result */
		bool smallest; /* topk: the smallest elements instead of the largest */
		bool distinct; /* index_scatter: no row has an index twice */
	} index;
	struct {
		bool reverse; /* the last step comes first */
		bool initial; /* gradient ops: also compute the gradients of the initial states */
		bool tf32;    /* the kernel may round float32 factors to TF32 */
	} recurrent;
	struct {
		enum gt_layout to;
	} reorder;
	struct {
		/* lib/graph/arrangement.h, interned in the graph (gt_graph_intern()) */
		const struct gt_arrangement *arrangement;
	} arrange;
	struct {
		enum gt_dtype to;
	} cast;
	struct {
		double value;
		enum gt_dtype dtype;
		int ndim;
		int64_t shape[GT_MAX_DIMS];
	} fill;
	struct {
		const void *elements; /* of gt_graph_intern() */
		enum gt_dtype dtype;
		int ndim;
		int64_t shape[GT_MAX_DIMS];
	} constant;
};

/* Return the number of heads that keys and values of an attention node have. */
static inline int gt_attrs_kv_heads(const union gt_attrs *attrs)
{
	return attrs->attention.kv_heads ? attrs->attention.kv_heads : attrs->attention.heads;
}

static_assert(
    sizeof(union gt_attrs) == GT_ATTR_WORDS * sizeof(int64_t), "gt_attrs.all covers every member");

#endif
