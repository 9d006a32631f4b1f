/* sets.h - well-known data sets: their files, publishers, sizes and checksums. */
#ifndef GT_DATA_GET_SETS_H
#define GT_DATA_GET_SETS_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"

enum { GT_SET_ADDRESSES = 3 }; /* largest number of addresses of a file */

/* A file of a data set. */
struct gt_set_file {
	const char *name;
	uint64_t size_bytes;                     /* 0: not known */
	const char *sha256;                      /* 64 hexadecimal digits; NULL: not known */
	const char *addresses[GT_SET_ADDRESSES]; /* tried in this order; unused ones are NULL */
};

/*
 * A well-known data set. Its files are stored in a folder that has the name of the data set. If the
 * publisher offers an archive (tar, compressed with gzip), `files` has only the archive, and
 * `parts` lists the unpacked files in the subfolder `parts_folder`.
 */
struct gt_set {
	const char *name;
	const char *summary; /* a short phrase: lower case, no full stop */
	/* the license's name, or the publisher and an address with more details */
	const char *license;
	const char *model; /* a value of --model that suits the data; '@' stands for the folder */
	const char *data;  /* a value of --data that reads the set; '@' stands for the folder */
	/* `--data NAME` means KIND:FOLDER/PATH: KIND is `kind`, FOLDER is the folder of the set,
	 * and PATH is `path`. If `path` is "", KIND:FOLDER is meant. `kind` and `path` are NULL if
	 * the set has no data to train on. */
	const char *kind;
	const char *path;
	/* pretrained weights, a value of --init-from; '@' stands for the folder; NULL: none */
	const char *weights;
	const struct gt_set_file *files; /* the last row has no name */
	const char *parts_folder;        /* NULL: there is no archive */
	const struct gt_set_file *parts; /* without addresses; the last row has no name */
};

/* Return the table of data sets; its last row has no name. */
const struct gt_set *gt_sets(void);

/* Return the data set with this name, or NULL. */
const struct gt_set *gt_set_find(const char *name);

/* Set the hint of an error about the missing file or folder `name`, if this is the name of
 * well-known weights or, without `weights`, of a well-known tokenizer: its path, or the command
 * that fetches it. Return err->code. */
int gt_set_hint_missing(const char *name, bool weights, struct gt_err *err);

/* Return the folder of all data sets in the user's cache; the caller frees it with free(). NULL:
 * the user has no cache folder, or memory ran out. */
char *gt_sets_folder(void);

/* Return FOLDER/NAME/PATH, the path of a set's file below `folder`, the folder of all data sets. An
 * empty `path` gives the set's own folder. The caller frees the result with free(). NULL: memory
 * ran out. */
char *gt_set_path(
    const struct gt_set *set, const char *folder, const char *path, struct gt_err *err);

/* Return whether the data set exists in `folder`, the folder of all data sets: its files exist and
 * have the right sizes. If the publisher offers an archive, only the unpacked files are checked. */
bool gt_set_is_there(const struct gt_set *set, const char *folder);

/* Return the number of bytes to download for all files. */
uint64_t gt_set_size(const struct gt_set *set);

#endif
