/* copy_tensors.h - private: copy tensors into an output file with several threads. */
#ifndef GT_CKPT_TREE_COPY_TENSORS_H
#define GT_CKPT_TREE_COPY_TENSORS_H

#include "lib/base/progress.h"
#include "lib/ckpt/write.h"

/*
 * A checkpoint of any format is written in three steps. First, compute the layout of the file: all
 * sizes are known before a byte is written. Second, copy the tensors to their places. Third, write
 * the headers, which contain the CRC-32 of the copied bytes. The functions below do the second
 * step.
 */

/* A value of gt_copy_place.offset: the data are not written; only their CRC-32 is computed. */
#define GT_COPY_NOWHERE UINT64_MAX

/*
 * A place: a range of bytes in the output file, and the data to copy to this range. If `tensor` is
 * not NULL, the data are all elements of this tensor, in order, contiguous, little-endian,
 * converted to the type `as`. Otherwise the data are the first size_bytes bytes of `storage`,
 * little-endian. The size of `as` is then the size of an element, which is needed to change the
 * byte order.
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
 * Copy tensors to `count` places of the file `fd`. Places must not overlap; bytes between places
 * are not written. Threads work on pieces of a few MiB. If the source file has a CRC-32 of a
 * storage that is read, the bytes of the storage are compared with this CRC-32.
 *
 * If bytes are copied from a file without a change, their CRC-32 is computed in the mapping of that
 * file. The bytes are then written from the mapping while they are still in the CPU cache.
 * copy_file_range() is not used: the CPU has to read the bytes anyway for their CRC-32, and
 * copy_file_range() would read them again. For 1 GiB on ext4 and 2 threads, a copy with
 * copy_file_range() takes 1.4 s, and this copy takes 0.8 s. copy_file_range() can also let two
 * files share blocks of the disk. But blocks could rarely be shared here: records are aligned to 64
 * bytes, and so rarely begin at the start of a block.
 *
 * The bytes are counted on the progress line `progress`, which may be NULL.
 *
 * Memory: a few MiB per thread, for tensors of any size; mapped pages are released after use.
 * Errors: GT_EFORMAT for a damaged source; GT_EIO; GT_ENOTSUP or GT_EINVAL if elements cannot be
 * converted to `as`, as in gt_ckpt_tensor_read(). After these errors the content of the output is
 * undefined. GT_ENOTSUP also if strides make tensors far larger than their storages
 * (gt_repeats_end(), tree.h); then nothing is written.
 */
int gt_copy_tensors(int fd, struct gt_copy_place *places, size_t count,
    struct gt_progress *progress, struct gt_err *err);

/*
 * Count the finite elements that became infinite (gt_copy_place.overflows) in all places that were
 * written, and the places with such elements. Add both numbers to `losses`, which may be NULL.
 */
void gt_copy_losses(
    const struct gt_copy_place *places, size_t count, struct gt_ckpt_write_losses *losses);

/*
 * Return a place at GT_COPY_NOWHERE, for gt_copy_sums(). gt_copy_sum(): to compute the CRC-32 of
 * the elements of a tensor, converted to `as`. gt_copy_sum_of_storage(): to compute the CRC-32 of
 * all bytes of a storage.
 */
struct gt_copy_place gt_copy_sum(const struct gt_tree_tensor *tensor, enum gt_dtype as);
struct gt_copy_place gt_copy_sum_of_storage(struct gt_storage *storage);

/*
 * Do the work of gt_copy_tensors() for places at GT_COPY_NOWHERE, which need no file. `threads` is
 * the number of threads (0: one per processor, at most 16).
 */
int gt_copy_sums(struct gt_copy_place *places, size_t count, size_t threads, struct gt_err *err);

/*
 * Compare each storage of `count` tensors with its CRC-32, once, with `threads` threads (0: one per
 * processor, at most 16). Call this before the elements are used. Tensor i is left out if skip[i]
 * is true; `skip`, an array [count], may be NULL. Errors: GT_EFORMAT for a damaged storage; GT_EIO;
 * GT_ENOMEM.
 */
int gt_storages_check(const struct gt_tree_tensor *const *tensors, const bool *skip, size_t count,
    size_t threads, struct gt_err *err);

#endif
