/* cursor.h - inside ckpt: read the elements of a tensor, one run after another. */
#ifndef GT_CKPT_TREE_CURSOR_H
#define GT_CKPT_TREE_CURSOR_H

#include "lib/ckpt/ckpt.h"

/*
 * Reads the elements [at, end) of a tensor, in order. All code that reads elements uses a cursor.
 * Set the fields from `tensor` to `room`, zero the others, and call gt_cursor_release() in every
 * case. The cursor does not compare the storage with its CRC-32. gt_storage_check() does; a caller
 * can also set `sum` and compare `crc`, if the tensor is all of its storage.
 *
 *	struct gt_cursor c = { .tensor = t, .end = count, .most = 1024 };
 *
 *	while ((rc = gt_cursor_next(&c, &run, &n, err)) > 0)
 *		use(run, n);
 *	gt_cursor_release(&c);
 */
struct gt_cursor {
	const struct gt_tree_tensor *tensor;
	uint64_t at, end; /* the next element; the first one that is not read */
	/* The largest number of elements in a run. With larger runs, strided tensors are read in a
	 * better order; a few MiB are enough for a fast read of a large transposed matrix. */
	size_t most;
	bool sum;     /* compute `crc` */
	bool keep;    /* keep mapped pages in memory, because they will be needed again */
	void *room;   /* memory for `most` elements; NULL: the cursor allocates it when needed */
	uint32_t crc; /* of the bytes of the runs so far, in the byte order of the storage */

	/* private */
	bool started, contiguous, little;
	uint64_t held; /* the first element whose page has not been released */
	void *owned;
};

/*
 * Read the next run. Its n elements are packed and in the host's byte order; their address need not
 * be aligned. They lie in the file's mapping, or in the cursor's room; there they are valid until
 * the next call. Returns 1, or 0 after the last run. Errors: GT_ENOMEM, or GT_EIO if the file
 * cannot be read. If elements are few or far apart, their pages are not mapped.
 */
int gt_cursor_next(struct gt_cursor *c, const void **run, size_t *n, struct gt_err *err);
void gt_cursor_release(struct gt_cursor *c);

/*
 * Make a tensor that has the elements of `t` in the order of the storage. It has no dimensions of
 * size 1 and no expanded dimensions (stride 0), and neighbouring dimensions are joined where
 * possible. Each of its elements stands for *repeats elements of `t`. This is for results such as
 * sums and minima: they do not depend on the order, and are computed much faster in this one.
 * out->shape and out->stride point into `dims`.
 */
void gt_ckpt_tensor_in_storage_order(struct gt_tree_tensor *out, const struct gt_tree_tensor *t,
    int64_t dims[2 * GT_TREE_MAX_DIMS], uint64_t *repeats);

/* ---- work for threads ---- */

/* Elements [at, at + count) of a job. One thread processes them. */
struct gt_piece {
	size_t job;
	uint64_t at, count;
};

/* A growing array of structs of `size` bytes, whose first member is a struct gt_piece. To make an
 * empty array, set `size` and zero the other fields. free(items) releases it. */
struct gt_pieces {
	size_t size, count, capacity;
	void *items;
};

/* Append a job of `count` elements as pieces of at most `most` elements. The other members of each
 * struct are zeroed. */
int gt_pieces_add(
    struct gt_pieces *p, size_t job, uint64_t count, uint64_t most, struct gt_err *err);

static inline void *gt_pieces_get(const struct gt_pieces *p, size_t i)
{
	return (unsigned char *)p->items + i * p->size;
}

#endif
