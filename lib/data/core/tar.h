/* tar.h - private: read the files of a tar archive in order. */
#ifndef GT_DATA_CORE_TAR_H
#define GT_DATA_CORE_TAR_H

#include "lib/data/core/byte_stream.h"

enum gt_tar_kind { GT_TAR_FILE, GT_TAR_FOLDER, GT_TAR_HARD_LINK, GT_TAR_SYMLINK };

/* A reader of an archive (ustar, long names of GNU, paths and sizes of pax), and its entry. Devices
 * and the like are skipped. */
struct gt_tar {
	struct gt_byte_stream *in;
	char *path; /* path of the entry; the caller may change it in place */
	enum gt_tar_kind kind;
	uint64_t size; /* bytes of its content */
	/* set with the error: the file does not begin as a tar */
	bool not_tar;
	/* private to tar.c */
	uint64_t unread;  /* bytes of the content not read yet */
	uint64_t padding; /* bytes after the content */
	int64_t pax_size; /* size of the next file by a pax header; -1: none */
	int metas;        /* headers since the last entry */
};

/* Begin to read `in`, which is borrowed. */
void gt_tar_init(struct gt_tar *t, struct gt_byte_stream *in);
void gt_tar_release(struct gt_tar *t);

/* Go to the next entry; *there is false at the end marker, after which at most 64 MiB may follow.
 * Errors, without the name: GT_EFORMAT, GT_ENOTSUP (a sparse file), GT_EIO, GT_ENOMEM. */
int gt_tar_next(struct gt_tar *t, bool *there, struct gt_err *err);

/* Read `size` bytes of the content, at most those that are left. Errors: GT_EFORMAT if it is cut
 * short. */
int gt_tar_read(struct gt_tar *t, void *out, uint64_t size, struct gt_err *err);

/* Return the content in an archive that is not compressed, borrowed, before gt_tar_read(). */
const unsigned char *gt_tar_borrow(struct gt_tar *t);

#endif
