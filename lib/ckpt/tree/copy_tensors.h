/* copy_tensors.h - inside ckpt: copy tensors into an output file with several threads. */
#ifndef GT_CKPT_TREE_COPY_TENSORS_H
#define GT_CKPT_TREE_COPY_TENSORS_H

#include "lib/ckpt/write.h"

/*
 * A checkpoint of any format is written in three steps. First compute the layout of the file; all
 * sizes are known before a byte is written. Then copy the tensors to their places. Last write the
 * headers, which contain the CRC-32 of the copied bytes. The functions below do the second step.
 */

/* An offset that means: compute the CRC-32 of the bytes, but write nothing. */
#define GT_COPY_NOWHERE UINT64_MAX

/*
 * A place in the output, which is a range of bytes, and the data to copy to it. If `tensor` is not
 * NULL, the data are all elements of this tensor, in order, contiguous, little-endian, converted to
 * `as`. Otherwise they are the first size_bytes of `storage`, little-endian; the size of `as` is
 * then the size of an element, which is needed to change the byte order.
 */
struct gt_copy_place {
	uint64_t offset, size_bytes;
	const struct gt_tree_tensor *tensor;
	struct gt_storage *storage;
	enum gt_dtype as;
	uint32_t crc;       /* result: CRC-32 of the bytes that were written */
	uint64_t overflows; /* result: number of finite elements that became infinite */
};

/*
 * Copy tensors to `count` places of the file `fd`. Places must not overlap; bytes between places
 * are not written. Threads work on pieces of a few MiB. Every storage that is read is compared with
 * its CRC-32.
 *
 * If bytes are copied from a file without a change, their CRC-32 is computed in the mapping of that
 * file, and they are written from the mapping while they are in the CPU cache. copy_file_range() is
 * not used: the CPU has to read the bytes anyway, and copy_file_range() would read them again. For
 * 1 GiB on ext4 with 2 threads, this takes 0.8 s instead of 1.4 s. File systems could rarely share
 * the blocks, because records that are aligned to 64 bytes rarely begin at a block.
 *
 * Memory: a few MiB per thread, for tensors of any size; mapped pages are released after use.
 * Errors: GT_EFORMAT for a damaged source; GT_EIO; GT_ENOTSUP and GT_EINVAL as for
 * gt_ckpt_tensor_read(). The content of the output is then undefined. GT_ENOTSUP, before anything
 * is written, if tensors repeat few bytes too often (gt_repeats_end()).
 */
int gt_copy_tensors(int fd, struct gt_copy_place *places, size_t count, struct gt_err *err);

/*
 * Add to `losses` the number of finite elements that became infinite, and of places with such
 * elements. `losses` may be NULL.
 */
void gt_copy_losses(
    const struct gt_copy_place *places, size_t count, struct gt_ckpt_write_losses *losses);

/*
 * Return a place at GT_COPY_NOWHERE, which computes the CRC-32 of the elements of a tensor,
 * converted to `as`, or of all bytes of a storage.
 */
struct gt_copy_place gt_copy_sum(const struct gt_tree_tensor *tensor, enum gt_dtype as);
struct gt_copy_place gt_copy_sum_of_storage(struct gt_storage *storage);

/*
 * Process places at GT_COPY_NOWHERE like gt_copy_tensors(), with `threads` threads (0: one per
 * processor).
 */
int gt_copy_sums(struct gt_copy_place *places, size_t count, size_t threads, struct gt_err *err);

/*
 * Compare each storage of `count` tensors with its CRC-32, once, with `threads` threads (0: one per
 * processor). Call this before the elements are used. Tensors with skip[i] set are left out; skip,
 * [count], may be NULL. Errors: as for gt_storage_check().
 */
int gt_storages_check(const struct gt_tree_tensor *const *tensors, const bool *skip, size_t count,
    size_t threads, struct gt_err *err);

#endif
