/* arrangement.h - copies by strides: which elements of tensors go where in another tensor. */
#ifndef GT_GRAPH_ARRANGEMENT_H
#define GT_GRAPH_ARRANGEMENT_H

#include "lib/base/err.h"
#include "lib/graph/attrs.h"

/*
 * The attribute of the op `arrange` (ops/arrange.c): an output tensor made of pieces of the inputs.
 * Places count the elements of a tensor in the order of its memory: row-major, until a pass gives
 * images another layout (passes/layout.c). A piece has an index space of its own, `shape`. The
 * element (i0, i1, ...) of this space is copied from one place of an input to one of the output:
 *
 *   input[from.first + i0 * from.strides[0] + i1 * from.strides[1] + ...]
 *   output[to.first + i0 * to.strides[0] + i1 * to.strides[1] + ...]
 *
 * Example: y = [x^T, z] for x [2, 3] and z [3], so y is [3, 3], has two pieces:
 *
 *   shape [3, 2]   from x: first 0, strides 1, 3    to: first 0, strides 3, 1
 *   shape [3]      from z: first 0, strides 1       to: first 2, strides 3
 *
 * Elements of the output that no piece writes are 0. No element of an input is read twice, and none
 * of the output written twice. So the gradient of an input is again an arrangement: its pieces,
 * with `from` and `to` exchanged, of the gradient of the output. An input that is expanded (stride
 * 0) is read more than once; its gradient would be a sum, so that is no arrangement.
 */
enum { GT_MAX_PIECES = 8 };

/* Places in a tensor, counted in elements. Strides may be negative. */
struct gt_places {
	int64_t first, strides[GT_MAX_DIMS];
};

/* All members have 64 bits, so that no byte is padding, and those past `ndim` are 0: equal pieces
 * have equal bytes (gt_graph_intern()). A piece without dimensions is one element. */
struct gt_arrange_piece {
	int64_t input; /* index of the node's input */
	int64_t ndim, shape[GT_MAX_DIMS];
	struct gt_places from, to;
};

struct gt_arrangement {
	int64_t ndim, shape[GT_MAX_DIMS]; /* of the output */
	int64_t count;                    /* pieces */
	struct gt_arrange_piece pieces[GT_MAX_PIECES];
};

/*
 * Check an arrangement of `inputs` tensors with these numbers of elements. Errors: GT_EINVAL if a
 * piece is not inside of its tensors, if an input is in no piece, or if an element may be read or
 * written twice. The last check is quick, and refuses some arrangements that are valid: within a
 * piece, each stride must exceed the sum of all steps by smaller strides, and two pieces must be
 * apart as ranges of memory, or as ranges modulo one of their strides.
 */
int gt_arrangement_check(
    const struct gt_arrangement *a, int inputs, const int64_t *elements, struct gt_err *err);

/* Return the number of elements of a piece, of all pieces, or of the output. */
int64_t gt_arrange_piece_elements(const struct gt_arrange_piece *p);
int64_t gt_arrangement_copied(const struct gt_arrangement *a);
int64_t gt_arrangement_elements(const struct gt_arrangement *a);

/* Describe the same copy by the fewest dimensions: in the order of the output's memory, without
 * dimensions of size 1, neighbours joined where both sides allow it. Output strides are then
 * positive, and decrease. */
void gt_arrange_piece_simplify(struct gt_arrange_piece *p);

/*
 * Let a simplified piece, which reads what `maker` makes, read the input of `maker` instead: its
 * number becomes the piece's input. Returns false if the elements that it reads are not in one
 * piece of `maker`, or if that is no copy by strides; the piece is then unchanged. The pieces of
 * `maker` are simplified, too.
 */
bool gt_arrange_piece_pass(struct gt_arrange_piece *p, const struct gt_arrangement *maker);

/*
 * Change a simplified piece of row-major images [N, C, H, W] for images whose memory is
 * [N, H, W, C]. `from_image` is the shape of the input if it is such an image, else NULL;
 * `to_image` that of the output. Returns false if the piece is not a box of the image; it is
 * undefined then.
 */
bool gt_arrange_piece_lay_out(
    struct gt_arrange_piece *p, const int64_t *from_image, const int64_t *to_image);

/*
 * Simplify a piece, and let it copy larger elements: two neighbours become one as long as both
 * sides allow it and the element has at most `most` bytes. `size` is the size of an element in
 * bytes. Returns the new size. Tensors must be aligned to it.
 */
int gt_arrange_piece_widen(struct gt_arrange_piece *p, int size, int most);

#endif
