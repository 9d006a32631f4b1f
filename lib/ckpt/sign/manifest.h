/* manifest.h - private: the list of a model's files with their digests, which a signature signs. */
#ifndef GT_CKPT_SIGN_MANIFEST_H
#define GT_CKPT_SIGN_MANIFEST_H

#include <jansson.h>
#include <nettle/sha2.h>

#include "lib/ckpt/sign/sign.h"

/* A file, or a part of it. */
struct gt_manifest_item {
	const char *name;    /* as struct gt_sign_difference has it */
	const char *file;    /* relative to the folder; "": the model is this file */
	uint64_t start, end; /* the bytes that are digested */
	unsigned char digest[SHA256_DIGEST_SIZE];
};

struct gt_manifest {
	const char *model; /* name of the model: the last part of its path */
	struct gt_manifest_item *items;
	size_t count, capacity;
	size_t files;        /* number of files that the items are of */
	uint64_t part_bytes; /* items are parts of files, of this size; 0: whole files */
	bool symlinks;       /* links to files are followed; else they are errors */
	/* [ignore_count] paths relative to the model that are left out, with all below them */
	const char **ignore;
	size_t ignore_count, ignore_capacity;
	const char *own; /* of them, the signature itself; NULL: it is elsewhere */
	/* [left_count] those that are there, and links to folders, by gt_manifest_find(); without
	 * the signature */
	const char **left_out;
	size_t left_count, left_capacity;
	struct gt_arena arena;
};

void gt_manifest_release(struct gt_manifest *m);

/* Leave out a path relative to the model; it is normalized: "./a//b/" is "a/b". Errors: GT_EINVAL
 * if it leads outside of the model; GT_ENOMEM. */
int gt_manifest_ignore(struct gt_manifest *m, const char *path, struct gt_err *err);

/* Leave out the paths of git, unless `keep`, which may be NULL, has an item at or below one. */
int gt_manifest_ignore_git(
    struct gt_manifest *m, const struct gt_manifest *keep, struct gt_err *err);

/* Leave out the signature `path`, if it is below the folder of the model; it need not exist. */
int gt_manifest_ignore_own(
    struct gt_manifest *m, const char *model, const char *path, struct gt_err *err);

/* Find the files of the model at `path`, and sort them by the parts of their paths. Set
 * m->symlinks, m->part_bytes and what is ignored before. Errors: GT_EIO, also if there is no file;
 * GT_EFORMAT for links, files of other kinds and names that are not UTF-8. */
int gt_manifest_find(struct gt_manifest *m, const char *path, struct gt_err *err);

/* Compute all digests. Errors: GT_EIO. */
int gt_manifest_digest(struct gt_manifest *m, const char *path, size_t threads,
    struct gt_progress *progress, struct gt_err *err);

/* Return the statement of in-toto, which the caller frees; NULL with err set if memory runs out. */
json_t *gt_manifest_to_json(const struct gt_manifest *m, struct gt_err *err);

/* Read a statement. Errors: GT_EFORMAT, GT_ENOTSUP, GT_ENOMEM. */
int gt_manifest_from_json(struct gt_manifest *m, const json_t *statement, struct gt_err *err);

#endif
