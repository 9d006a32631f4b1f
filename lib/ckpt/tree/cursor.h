/* cursor.h - private: read a tensor's elements block by block; split work among threads. */
#ifndef GT_CKPT_TREE_CURSOR_H
#define GT_CKPT_TREE_CURSOR_H

#include "lib/ckpt/ckpt.h"

/*
 * A cursor reads the elements [at, end) of a tensor, in order, in runs: blocks of consecutive
 * elements. All code that reads elements uses a cursor. Set the fields from `tensor` to `buffer`,
 * and zero the others. At the end call gt_cursor_release(), also after an error. The cursor does
 * not compare the storage (struct gt_storage) with its CRC-32. A caller that needs this comparison
 * calls gt_storage_check(). There is another way if the cursor reads all elements of a contiguous
 * tensor that fills its storage (gt_ckpt_tensor_is_whole()). Then the caller may set `sum`, and
 * compare `crc` with the CRC-32 of the storage after the last run.
 *
 *	struct gt_cursor c = { .tensor = t, .end = count, .max = 1024 };
 *
 *	while ((rc = gt_cursor_next(&c, &run, &n, err)) > 0)
 *		use(run, n);
 *	gt_cursor_release(&c);
 */
struct gt_cursor {
	const struct gt_tree_tensor *tensor;
	uint64_t at;  /* index of the next element to read */
	uint64_t end; /* index after the last element to read */
	/*
	 * The maximum number of elements in a run. A large maximum makes strided tensors faster to
	 * read; runs of a few MiB are enough for a large transposed matrix.
	 */
	size_t max;
	bool sum;  /* compute `crc` */
	bool keep; /* keep mapped pages in memory, because they will be read again */
	/* a buffer for `max` elements; NULL: the cursor allocates one if it needs it */
	void *buffer;
	uint32_t crc; /* CRC-32 of the bytes of all runs so far, in the byte order of the storage */

	/* The fields below are private. */
	bool started, contiguous, little;
	uint64_t held; /* index of the first element whose page has not been released */
	void *owned;
};

/*
 * Read the next run: set *run to its address and *n to its number of elements. The elements are
 * packed and in the host's byte order; their address need not be aligned. They are in the mapping
 * of the file or in the buffer `buffer`. In the buffer, they are valid until the next call. Return
 * 1, or 0 after the last run. If the elements are few or far apart, the cursor reads them from the
 * file with a system call. So it does not load pages of the mapping into memory. Errors: GT_ENOMEM;
 * GT_EIO if the file cannot be read.
 */
int gt_cursor_next(struct gt_cursor *c, const void **run, size_t *n, struct gt_err *err);
void gt_cursor_release(struct gt_cursor *c);

/*
 * Set *out to a tensor that has the elements of `t` in the order of the storage. *out has no
 * dimensions of size 1 and no expanded dimensions (stride 0); neighboring dimensions are joined
 * where possible. Each element of *out stands for *repeats elements of `t`. Use *out for results
 * that do not depend on the order of elements, such as sums and minima: reading in the order of the
 * storage is much faster. out->shape and out->stride point into `dims`.
 */
void gt_ckpt_tensor_in_storage_order(struct gt_tree_tensor *out, const struct gt_tree_tensor *t,
    int64_t dims[2 * GT_TREE_MAX_DIMS], uint64_t *repeats);

/* ---- pieces of work for threads ---- */

/*
 * A job is, for example, the work on all elements of one tensor. A piece is a part of a job that
 * one thread does: the elements [at, at + count) of the job with the index `job`.
 */
struct gt_piece {
	size_t job;
	uint64_t at, count;
};

/*
 * A growing array of structs of `size` bytes. The first member of each struct is a struct gt_piece.
 * To make an empty array, set `size` and zero the other fields. free(items) releases the array.
 */
struct gt_pieces {
	size_t size, count, capacity;
	void *items;
};

/*
 * Split the job with the index `job`, which has `count` elements, into pieces of at most `max`
 * elements, and append these pieces to the array. In each new struct, the members after the struct
 * gt_piece are zeroed.
 * Errors: GT_ENOMEM.
 */
int gt_pieces_add(
    struct gt_pieces *p, size_t job, uint64_t count, uint64_t max, struct gt_err *err);

/* Return struct i of the array. */
static inline void *gt_pieces_get(const struct gt_pieces *p, size_t i)
{
	return (unsigned char *)p->items + i * p->size;
}

#endif
