/* cursor.h - inside ckpt: the elements of a tensor, run by run: the one way to read them. */
#ifndef GT_CKPT_TREE_CURSOR_H
#define GT_CKPT_TREE_CURSOR_H

#include "lib/ckpt/ckpt.h"

/*
 * A walk through the elements [at, end) of a tensor, in order. Set the first fields and zero the
 * others; gt_cursor_release() is due in every case. The storage is not compared with its CRC-32:
 * gt_storage_check() does that, or `sum`, where the tensor is all of its storage.
 *
 *	struct gt_cursor c = { .tensor = t, .end = count, .most = 1024 };
 *
 *	while ((rc = gt_cursor_next(&c, &run, &n, err)) > 0)
 *		use(run, n);
 *	gt_cursor_release(&c);
 */
struct gt_cursor {
	const struct gt_tree_tensor *tensor;
	uint64_t at, end; /* elements: the next one, and where the walk ends */
	size_t most;      /* elements of a run. The larger, the better the order in which a strided
	                   * tensor is read: a few MiB make a large transposed matrix quick */
	bool sum;         /* make `crc` on the way */
	bool keep;        /* the pages will be needed again; else they are given back */
	void *room;       /* for `most` elements; NULL: the cursor allocates it where it needs it */
	uint32_t crc;     /* of the bytes of the runs so far, in the byte order of the storage */

	/* its own */
	bool started, contiguous, little;
	uint64_t held; /* the first element whose page has not been given back */
	void *owned;
};

/*
 * The next run: its n elements are packed, at any address, in the host's byte order: in the file's
 * mapping, or in the cursor's room until the next call. Returns 1; 0 after the last run; or
 * GT_ENOMEM, or GT_EIO when the file cannot be read. Elements that are few, or far apart, are read
 * without mapping their pages.
 */
int gt_cursor_next(struct gt_cursor *c, const void **run, size_t *n, struct gt_err *err);
void gt_cursor_release(struct gt_cursor *c);

/*
 * The same elements in the order in which they lie in the storage, dimensions of one element or
 * none taken away, neighbours joined; each element that an expanded dimension (stride 0) repeats is
 * there once, and *repeats says how often it counts. For sums, minima and the like, which do not
 * ask for the order, and are quick only with it. `dims` gets shape and stride.
 */
void gt_ckpt_tensor_in_storage_order(struct gt_tree_tensor *out, const struct gt_tree_tensor *t,
    int64_t dims[2 * GT_TREE_MAX_DIMS], uint64_t *repeats);

/* ---- work for threads ---- */

/* Elements [at, at + count) of a job, which one thread takes. */
struct gt_piece {
	size_t job;
	uint64_t at, count;
};

/* A growing array of structs of `size` bytes, the first member of which is a gt_piece. Zeroed but
 * for `size`, it is empty; release by free(items). */
struct gt_pieces {
	size_t size, count, capacity;
	void *items;
};

/* Append a job of `count` elements, cut into pieces of at most `most`; the rest of each is zero. */
int gt_pieces_add(
    struct gt_pieces *p, size_t job, uint64_t count, uint64_t most, struct gt_err *err);

static inline void *gt_pieces_get(const struct gt_pieces *p, size_t i)
{
	return (unsigned char *)p->items + i * p->size;
}

#endif
