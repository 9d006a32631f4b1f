/* copy_tensors.h - private: copy tensors into an output file with several threads. */
#ifndef GT_CKPT_TREE_COPY_TENSORS_H
#define GT_CKPT_TREE_COPY_TENSORS_H

#include "lib/base/progress.h"
#include "lib/ckpt/write.h"

/*
 * Writers compute the layout of a file, copy the tensors to their places with these functions, and
 * then write headers with the CRC-32 of the copied bytes.
 */

/* A value of gt_copy_place.offset: the data are not written; only their CRC-32 is computed. */
#define GT_COPY_NOWHERE UINT64_MAX

/*
 * A range of the output, and the data for it: all elements of `tensor`, contiguous, converted to
 * `as`; or, if it is NULL, the first size_bytes of `storage`, whose elements have the size of
 * `as`. Both are little-endian.
 */
struct gt_copy_place {
	uint64_t offset, size_bytes;
	const struct gt_tree_tensor *tensor;
	struct gt_storage *storage;
	enum gt_dtype as;
	uint32_t crc; /* result: CRC-32 of the bytes that were written */
	/* result: number of finite elements that became infinite by the conversion to `as` */
	uint64_t overflows;
};

/*
 * Copy tensors to places of the file `fd` that do not overlap, and check the storages that are
 * read. After an error the output is undefined. `progress` may be NULL.
 */
int gt_copy_tensors(int fd, struct gt_copy_place *places, size_t count,
    struct gt_progress *progress, struct gt_err *err);

/* Add the overflows of all written places to `losses`, which may be NULL. */
void gt_copy_losses(
    const struct gt_copy_place *places, size_t count, struct gt_ckpt_write_losses *losses);

/*
 * Return a place at GT_COPY_NOWHERE, for the CRC-32 of the elements of a tensor as type `as`, or
 * of all bytes of a storage.
 */
struct gt_copy_place gt_copy_sum(const struct gt_tree_tensor *tensor, enum gt_dtype as);
struct gt_copy_place gt_copy_sum_of_storage(struct gt_storage *storage);

/* Compute the CRC-32 of places at GT_COPY_NOWHERE. `threads` 0: one per processor, at most 16.
 * Bytes are counted on `progress`, which may be NULL. */
int gt_copy_sums(struct gt_copy_place *places, size_t count, size_t threads,
    struct gt_progress *progress, struct gt_err *err);

/*
 * Compare the storages of tensors with their CRC-32, except if skip[i]; `skip` may be NULL. Call
 * this before elements are used. `threads` and `progress` as above.
 */
int gt_storages_check(const struct gt_tree_tensor *const *tensors, const bool *skip, size_t count,
    size_t threads, struct gt_progress *progress, struct gt_err *err);

#endif
