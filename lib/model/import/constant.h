/* constant.h - private: tensors that do not depend on the data, computed during the import. */
#ifndef GT_MODEL_IMPORT_CONSTANT_H
#define GT_MODEL_IMPORT_CONSTANT_H

#include "lib/ckpt/ckpt.h"
#include "lib/graph/attrs.h"
#include "lib/graph/map_program.h"

/*
 * Positions, masks and tables of indices are computed by nodes of the network, from sizes and from
 * constants in the archive. gtrain computes them once, when it makes its graph.
 *
 * Elements of all types are kept as doubles, rounded to the type; whole numbers beyond 2^53 are
 * refused. As in PyTorch, a view shares its elements with the tensor that it views, so a node that
 * overwrites a view changes the tensor. Strides are in elements; that of a dimension along which
 * all elements are the same may be 0.
 */
struct gt_constant {
	enum gt_dtype dtype; /* GT_F32, GT_F64, GT_BOOL, GT_U8 or a signed integer */
	int ndim;
	int64_t shape[GT_MAX_DIMS], stride[GT_MAX_DIMS];
	double *elements;      /* the first one */
	const double *storage; /* tells views of one tensor from other tensors */
	bool stored;           /* the elements belong to a buffer of the network */
};

/* The most elements of all constants of a network together: some masks of 4096 tokens. A fuzzer,
 * which has less memory and time, would report so many as a finding. */
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
enum { GT_CONSTANT_ELEMENTS = 1 << 21 };
#else
enum { GT_CONSTANT_ELEMENTS = 1 << 27 };
#endif

/*
 * The memory of the constants of a network. Errors of its functions are GT_EINVAL, as those of ops,
 * so that the importer names the file and the node.
 *
 * A small file may ask for large constants, so the data bound them: `most` elements, which leaves
 * room for many masks of the tokens of a batch, and for those that are in the file. Views of one
 * element may have more; the elements that are read one by one, all together, are at most 16 times
 * as many.
 */
struct gt_constants {
	struct gt_arena arena;
	int64_t elements, read, most;
	struct gt_err *err; /* the first error; functions do nothing after it */
};

/* Set all->most for samples of `tokens` tokens, 0 for other samples, in batches of `batch`. */
void gt_constants_limit(struct gt_constants *all, int64_t batch, int64_t tokens);

/* Count elements that are about to be read one by one; false with an error if they are too many. */
bool gt_constants_read(struct gt_constants *all, int64_t elements);

/* Return a new constant of zeros, or NULL with an error. */
struct gt_constant *gt_constant_new(
    struct gt_constants *all, enum gt_dtype dtype, int ndim, const int64_t *shape);

/* Return a constant with the elements of a tensor in a checkpoint. */
struct gt_constant *gt_constant_read(struct gt_constants *all, const struct gt_tree_tensor *tensor);

/* Return a view of c, whose shape and strides the caller changes. */
struct gt_constant *gt_constant_view(struct gt_constants *all, const struct gt_constant *c);

/* Return c broadcast to a shape as in NumPy; NULL without an error if that is not possible, or if
 * the shape has more than 16 * GT_CONSTANT_ELEMENTS elements. */
struct gt_constant *gt_constant_expand(
    struct gt_constants *all, const struct gt_constant *c, int ndim, const int64_t *shape);

/* Return a view of c with another shape, or a copy where its strides allow none. One size may be
 * -1; NULL without an error: the number of elements is another. */
struct gt_constant *gt_constant_reshape(
    struct gt_constants *all, const struct gt_constant *c, int ndim, const int64_t *shape);

/* Write the elements of `from`, broadcast and converted, over those of `to`. Return false without
 * an error if the shapes do not fit. */
bool gt_constant_write(
    struct gt_constants *all, struct gt_constant *to, const struct gt_constant *from);

/* Return a function of the elements of one to three constants, broadcast as in NumPy. */
struct gt_constant *gt_constant_apply(struct gt_constants *all, enum gt_function f,
    enum gt_dtype dtype, int count, const struct gt_constant *const *in);

/* Round a number to a type, as a conversion from float64 does. */
double gt_constant_round(enum gt_dtype dtype, double x);

/* Set *out to element `at` of a tensor of indices, between 0 and `size`; a negative one counts from
 * the end. Return false for one outside. */
bool gt_constant_index(
    const struct gt_constant *ids, const int64_t *at, int64_t size, int64_t *out);

/* Return the element with these indices. */
static inline double *gt_constant_at(const struct gt_constant *c, const int64_t *index)
{
	double *p = c->elements;

	for (int i = 0; i < c->ndim; i++)
		p += index[i] * c->stride[i];
	return p;
}

/* Advance the indices of a tensor in row-major order; return false behind the last element. */
bool gt_constant_next(int ndim, const int64_t *shape, int64_t *index);

int64_t gt_constant_count(const struct gt_constant *c);

#endif
