/* copy_tensors.h - private: copy tensors into an output file with several threads. */
#ifndef GT_CKPT_TREE_COPY_TENSORS_H
#define GT_CKPT_TREE_COPY_TENSORS_H

#include "lib/ckpt/write.h"

/*
 * A checkpoint of any format is written in three steps. First, compute the layout of the file: all
 * sizes are known before a byte is written. Second, copy the tensors to their places. Third, write
 * the headers, which contain the CRC-32 of the copied bytes. The functions below do the second
 * step.
 */

/* The offset of a place that is not written: only the CRC-32 of its bytes is computed. */
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
 * file, and they are written from the mapping while they are still in the CPU cache.
 * copy_file_range() is not used: the CPU has to read the bytes anyway for their CRC-32, and
 * copy_file_range() would read them again. Without copy_file_range(), a copy of 1 GiB on ext4 with
 * 2 threads takes 0.8 s instead of 1.4 s. copy_file_range() can also let two files share blocks of
 * the disk. But this sharing would rarely be possible: records are aligned to 64 bytes, and so
 * rarely begin at the start of a block.
 *
 * Memory: a few MiB per thread, for tensors of any size; mapped pages are released after use.
 * Errors: GT_EFORMAT for a damaged source; GT_EIO; GT_ENOTSUP and GT_EINVAL as for
 * gt_ckpt_tensor_read(). After these errors the content of the output is undefined. GT_ENOTSUP is
 * also returned, before anything is written, if the strides of tensors repeat the same few bytes
 * too often (gt_repeats_end()).
 */
int gt_copy_tensors(int fd, struct gt_copy_place *places, size_t count, struct gt_err *err);

/*
 * Count the finite elements that became infinite (gt_copy_place.overflows) in all places that were
 * written, and the places with such elements. Add both numbers to `losses`, which may be NULL.
 */
void gt_copy_losses(
    const struct gt_copy_place *places, size_t count, struct gt_ckpt_write_losses *losses);

/*
 * Return a place at GT_COPY_NOWHERE, to compute the CRC-32 of the elements of a tensor, converted
 * to `as`, or of all bytes of a storage.
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
 * is true; `skip`, an array [count], may be NULL. Errors: as for gt_storage_check().
 */
int gt_storages_check(const struct gt_tree_tensor *const *tensors, const bool *skip, size_t count,
    size_t threads, struct gt_err *err);

#endif
