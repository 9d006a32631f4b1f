/* tar.h - private: read the files of a tar archive in order. */
#ifndef GT_DATA_CORE_TAR_H
#define GT_DATA_CORE_TAR_H

#include "lib/data/core/byte_stream.h"

enum gt_tar_kind { GT_TAR_FILE, GT_TAR_FOLDER, GT_TAR_HARD_LINK, GT_TAR_SYMLINK };

/* A reader of an archive, and the entry that it has come to. It reads ustar, GNU's long names and
 * pax's paths and sizes. Devices and other entries without bytes to use are skipped. */
struct gt_tar {
	struct gt_byte_stream *in;
	char *path; /* of the entry, as the archive has it; the caller may change it in place */
	enum gt_tar_kind kind;
	uint64_t size; /* bytes of the entry's content */
	/* the archive does not begin with the header of a tar: set with the error */
	bool foreign;
	/* private to tar.c */
	uint64_t unread;  /* bytes of the content that were not read yet */
	uint64_t padding; /* bytes behind the content */
	int64_t pax_size; /* of the next file, from a pax header; -1: none */
	int metas;        /* headers since the last entry */
};

/* Begin to read the archive `in`, which is borrowed. */
void gt_tar_init(struct gt_tar *t, struct gt_byte_stream *in);
void gt_tar_release(struct gt_tar *t);

/*
 * Go to the next entry. *there is false at the end marker of the archive. At most 64 MiB of other
 * bytes may follow the marker in a compressed archive, whose checksum is then compared.
 *
 * Errors: GT_EFORMAT (not a tar, bad checksum, cut short), GT_ENOTSUP (a sparse file), GT_EIO,
 * GT_ENOMEM. They do not name the archive.
 */
int gt_tar_next(struct gt_tar *t, bool *there, struct gt_err *err);

/* Read the next `size` bytes of the entry's content, at most those that are left. Errors:
 * GT_EFORMAT if the archive is cut short; those of gt_byte_stream_read(). */
int gt_tar_read(struct gt_tar *t, void *out, uint64_t size, struct gt_err *err);

/* Return the content of the entry in an archive that is not compressed. It is borrowed from the
 * archive. Call this before gt_tar_read(). */
const unsigned char *gt_tar_borrow(struct gt_tar *t);

#endif
