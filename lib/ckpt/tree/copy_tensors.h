/* copy_tensors.h - inside ckpt: bytes of tensors, copied into an output by several threads. */
#ifndef GT_CKPT_TREE_COPY_TENSORS_H
#define GT_CKPT_TREE_COPY_TENSORS_H

#include "lib/ckpt/write.h"

/*
 * Every format is written the same way: lay out the file (all sizes are known before a byte is
 * written), copy the tensors into their places, then write the headers, which contain the CRCs of
 * the copied bytes. This is the second step.
 */

/* One place of the output. Either all elements of a tensor in order, contiguous, little-endian,
 * converted to `as`; or, where `tensor` is NULL, the first size_bytes of a storage, little-endian
 * (`as` tells the size of the elements that are swapped). */
#define GT_COPY_NOWHERE UINT64_MAX /* an offset: compute the sum, write nothing */

struct gt_copy_place {
	uint64_t offset, size_bytes;
	const struct gt_tree_tensor *tensor;
	struct gt_storage *storage;
	enum gt_dtype as;
	uint32_t crc;       /* set: the CRC-32 of the bytes written */
	uint64_t overflows; /* set: finite elements that became infinite */
};

/*
 * Copy tensors to `count` places of the file `fd`. Places don't overlap; gaps are left as they are.
 * Threads take pieces of a few MiB, and every storage that is read has its CRC-32 compared on the
 * way. Bytes that are copied unchanged out of a file are summed in its mapping, and written from
 * there while they are in the cache: the processor has to read them for the sum, and
 * copy_file_range() would read them once more (1 GiB on ext4, 2 threads: 0.8 s against 1.4 s; files
 * cannot share blocks, because records aligned to 64 bytes rarely begin where blocks do).
 * Memory: a few MiB per thread, whatever the tensors; mapped pages are given back as they are done.
 * Errors: GT_EFORMAT for a damaged source, GT_EIO, GT_ENOTSUP and GT_EINVAL as
 * gt_ckpt_tensor_read(); the content of the output is then undefined. GT_ENOTSUP, before anything
 * is written, if a few bytes are repeated too often: see gt_repeats_end().
 */
int gt_copy_tensors(int fd, struct gt_copy_place *places, size_t count, struct gt_err *err);

/* Add the losses of the conversions made; `losses` may be NULL. */
void gt_copy_losses(
    const struct gt_copy_place *places, size_t count, struct gt_ckpt_write_losses *losses);

/* A place at GT_COPY_NOWHERE. It computes the sum of a tensor's elements converted to `as`, or of
 * all bytes of a storage. */
struct gt_copy_place gt_copy_sum(const struct gt_tree_tensor *tensor, enum gt_dtype as);
struct gt_copy_place gt_copy_sum_of_storage(struct gt_storage *storage);

/* The same as gt_copy_tensors() for places at GT_COPY_NOWHERE, by `threads` threads (0: one per
 * processor). */
int gt_copy_sums(struct gt_copy_place *places, size_t count, size_t threads, struct gt_err *err);

/*
 * Compare each storage of the tensors with its CRC-32 once, by several threads. Call this before
 * elements are used. Tensors marked in skip[count] (NULL: none) are left out. Errors: as
 * gt_storage_check().
 */
int gt_storages_check(const struct gt_tree_tensor *const *tensors, const bool *skip, size_t count,
    size_t threads, struct gt_err *err);

#endif
