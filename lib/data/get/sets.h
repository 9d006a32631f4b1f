/* sets.h - well-known data sets: their files, publishers, sizes and checksums. */
#ifndef GT_DATA_GET_SETS_H
#define GT_DATA_GET_SETS_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"

enum { GT_SET_ADDRESSES = 3 };

/* A file of a data set. */
struct gt_set_file {
	const char *name;
	uint64_t size_bytes;                     /* 0: not known */
	const char *sha256;                      /* 64 hexadecimal digits; NULL: not known */
	const char *addresses[GT_SET_ADDRESSES]; /* tried in this order; NULL: unused */
};

/* A well-known data set, in a folder of its name. If it is an archive, `parts` are the unpacked
 * files in `parts_folder`. */
struct gt_set {
	const char *name;
	const char *summary; /* a short phrase: lower case, no full stop */
	/* name of the license, or publisher and address */
	const char *license;
	const char *model; /* a value of --model for it; '@' is the folder */
	const char *data;  /* a value of --data for it */
	/* `--data NAME` means KIND:FOLDER or KIND:FOLDER/PATH; NULL: no data to train on */
	const char *kind;
	const char *path;
	/* pretrained weights, a value of --init-from; NULL: none */
	const char *weights;
	const struct gt_set_file *files; /* the last row has no name */
	const char *parts_folder;        /* NULL: there is no archive */
	const struct gt_set_file *parts; /* without addresses; the last row has no name */
};

/* Return all data sets, ended by one without a name. */
const struct gt_set *gt_sets(void);

/* Return the data set with this name, or NULL. */
const struct gt_set *gt_set_find(const char *name);

/* Set the hint about the missing `name`, if it is well-known (`weights`, else tokenizers): its
 * path, or the command that fetches it. Return err->code. */
int gt_set_hint_missing(const char *name, bool weights, struct gt_err *err);

/* Return the folder of all data sets in the cache, which the caller frees. NULL: there is none, or
 * no memory. */
char *gt_sets_folder(void);

/* Return FOLDER/NAME/PATH, or FOLDER/NAME for "", which the caller frees. */
char *gt_set_path(
    const struct gt_set *set, const char *folder, const char *path, struct gt_err *err);

/* Return whether its files, or unpacked files, are in `folder` with the right sizes. */
bool gt_set_is_there(const struct gt_set *set, const char *folder);

/* Return the bytes to download. */
uint64_t gt_set_size(const struct gt_set *set);

#endif
