/* sets.h - well-known data sets: their files, publishers, sizes and checksums. */
#ifndef GT_DATA_GET_SETS_H
#define GT_DATA_GET_SETS_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"

enum { GT_SET_ADDRESSES = 3 };

/* A file of a set. */
struct gt_set_file {
	const char *name;
	uint64_t size_bytes;
	const char *sha256;                      /* 64 hexadecimal digits */
	const char *addresses[GT_SET_ADDRESSES]; /* in the order of trying; NULL after the last */
};

/*
 * A set is in a folder of its name. If its files have to be unpacked, the only file is an archive
 * (tar, compressed with gzip), and `parts` are the unpacked files in the folder `parts_folder`.
 */
struct gt_set {
	const char *name;
	const char *summary; /* half a line: lower case, no full stop */
	const char *license; /* as the publisher states it, or where to read about it */
	const char *model;   /* a value of --model that takes it; '@' stands for the folder */
	const char *data;    /* a value of --data; '@' stands for the folder */
	const char *kind;    /* the meaning of `--data NAME`: a kind of data, */
	const char *path; /* and a path in the folder, "" for itself; NULL: no data to train on */
	bool weights;     /* the folder has weights to start from */
	const struct gt_set_file *files; /* ended by one without a name */
	const char *parts_folder;        /* NULL: nothing is unpacked */
	const struct gt_set_file *parts; /* ended by one without a name; without addresses */
};

/* The table, ended by a row without a name. */
const struct gt_set *gt_sets(void);

/* The set of this name, or NULL. */
const struct gt_set *gt_set_find(const char *name);

/* The folder of all sets in the user's cache, yours to free(). NULL: there is none, or no
 * memory. */
char *gt_sets_folder(void);

/* PATH of a set below the folder of all sets, yours to free(). */
char *gt_set_path(
    const struct gt_set *set, const char *folder, const char *path, struct gt_err *err);

/*
 * Whether the files that commands read (the parts of an archive, or the files themselves) have the
 * right sizes.
 */
bool gt_set_is_there(const struct gt_set *set, const char *folder);

/* All bytes that are downloaded. */
uint64_t gt_set_size(const struct gt_set *set);

#endif
