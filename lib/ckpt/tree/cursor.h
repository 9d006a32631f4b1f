/* cursor.h - private: read a tensor's elements block by block; split work among threads. */
#ifndef GT_CKPT_TREE_CURSOR_H
#define GT_CKPT_TREE_CURSOR_H

#include "lib/ckpt/ckpt.h"

/*
 * A cursor reads the elements [at, end) of a tensor in runs of consecutive elements. Set the
 * fields from `tensor` to `buffer`, zero the others, and call gt_cursor_release() in every case.
 * An example is in tree/cursor.c.
 */
struct gt_cursor {
	const struct gt_tree_tensor *tensor;
	uint64_t at;  /* index of the next element to read */
	uint64_t end; /* index after the last element to read */
	/* maximum number of elements in a run; a few MiB are enough for transposed matrices */
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
 * Read the next run, packed and in host byte order, perhaps unaligned, valid until the next call.
 * Return 1, or 0 at the end.
 */
int gt_cursor_next(struct gt_cursor *c, const void **run, size_t *n, struct gt_err *err);
void gt_cursor_release(struct gt_cursor *c);

/*
 * Set *out to the elements of `t` in storage order, each for *repeats elements; shape and stride
 * point into `dims`.
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
 * An array of structs of `size` bytes that begin with a struct gt_piece. Zero the other fields;
 * free(items).
 */
struct gt_pieces {
	size_t size, count, capacity;
	void *items;
};

/* Append the elements of a job as pieces of at most `max` elements; other members are zeroed. */
int gt_pieces_add(
    struct gt_pieces *p, size_t job, uint64_t count, uint64_t max, struct gt_err *err);

/* Return struct i of the array. */
static inline void *gt_pieces_get(const struct gt_pieces *p, size_t i)
{
	return (unsigned char *)p->items + i * p->size;
}

#endif
