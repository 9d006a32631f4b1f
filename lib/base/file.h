/* file.h - map whole files for reading, and write files that appear complete or not at all. */
#ifndef GT_BASE_FILE_H
#define GT_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "lib/base/folder.h"
#include "lib/base/mem.h"

/* A file mapped read-only. An empty file has size 0 and data NULL. */
struct gt_mapping {
	const unsigned char *data;
	size_t size;
	/* -1: the file is empty, or the bytes are memory of the caller */
	int fd;
	uint64_t start; /* offset of `data` in the file: not 0 only in a part (gt_map_part()) */
};

/* Map a regular file. Errors: GT_EIO, also for a directory or a device; GT_ENOMEM. gt_unmap() does
 * not free `data` if fd is -1. */
int gt_map(struct gt_mapping *out, const char *path, struct gt_err *err);
int gt_map_at(struct gt_mapping *out, struct gt_file_name file, struct gt_err *err);
void gt_unmap(struct gt_mapping *map);

/* Return a part of a mapping, [offset, offset + size), which lies within. It borrows the mapping,
 * so it is not passed to gt_unmap(). */
struct gt_mapping gt_map_part(const struct gt_mapping *map, uint64_t offset, size_t size);

/* Read from a file or pipe to its end. The caller frees *out. Errors: GT_EIO; GT_ENOMEM, also for
 * more than `max` bytes. */
int gt_read_to_end(void **out, size_t *size, int fd, size_t max, struct gt_err *err);

/* Read `size` bytes at `offset`, within the mapping, from the file. Use this for offsets, sizes and
 * counts, and check the copy, because another process may change the mapping at any time. Errors:
 * GT_EIO, gt_map_shrank(). */
int gt_map_peek(
    const struct gt_mapping *map, uint64_t offset, void *out, size_t size, struct gt_err *err);

/* Do the same to new memory in the arena. Errors: also GT_ENOMEM. */
int gt_map_copy(const struct gt_mapping *map, uint64_t offset, size_t size, struct gt_arena *arena,
    unsigned char **out, struct gt_err *err);

/* Set the error for a file that became shorter while it was read, for a read that ended early or
 * failed with EFAULT. Returns GT_EIO. The handler of SIGBUS prints the same texts. */
#define GT_MAP_SHRANK "a file became shorter while it was read"
#define GT_MAP_SHRANK_HINT                                                                         \
	"if another process writes it, wait until that is done; else the disk may be failing"
int gt_map_shrank(struct gt_err *err);

/* Return the path of the mapping that contains `address`, with control characters escaped, or NULL:
 * at most 64 mappings are known, and no path of 1000 bytes. Valid until gt_unmap(). Takes no lock,
 * for the handler of SIGBUS. */
const char *gt_map_path_at(const void *address);

/* Find bytes outside of holes, if the file system reports holes: the first offset from `offset` on
 * that is in none (or map->size), or an offset, at most `end`, such that only holes lie between. */
uint64_t gt_map_data(const struct gt_mapping *map, uint64_t offset);
uint64_t gt_map_data_end(const struct gt_mapping *map, uint64_t end);

/* Remove pages at and around these bytes from this process's memory. They stay in the system's
 * cache. */
void gt_map_forget(const struct gt_mapping *map, uint64_t offset, uint64_t size);

/* A file that is written as PATH.tmp-PID-N in the same folder, until gt_atomic_commit() renames it
 * to PATH or gt_atomic_abandon() removes it. It gets the permissions, group and, if possible, owner
 * of an old file, else 0666 and the umask. Hard links keep the old content. Symbolic links are
 * followed, but not within an open folder (gt_atomic_open_at()), which must stay open. Errors: also
 * if PATH is not a regular file, or a link of /proc such as /dev/stdout. Files that a killed
 * process left are removed at the next open of the same path (temporary.h). */
struct gt_atomic_file {
	FILE *stream;           /* write here; NULL after gt_atomic_finish() */
	char *path, *temporary; /* the final path, with links resolved, and the temporary one */
	int folder;             /* descriptor of the folder, borrowed; or AT_FDCWD */
	size_t name;            /* path + name and temporary + name are relative to `folder` */
	bool no_sync; /* may be set: no fsync(), so the file may be lost if the power fails */
};

int gt_atomic_open(struct gt_atomic_file *f, const char *path, struct gt_err *err);
int gt_atomic_open_at(struct gt_atomic_file *f, struct gt_file_name file, struct gt_err *err);

/* Flush, sync, close and rename the file, and sync the folder. Errors: those of earlier writes,
 * too. The old file is unchanged, unless the text says "the new content is in place". */
int gt_atomic_commit(struct gt_atomic_file *f, struct gt_err *err);

/* Remove the temporary file, if there is one. */
void gt_atomic_abandon(struct gt_atomic_file *f);

/* Flush, sync and close the file, which keeps its temporary name. Commit or abandon it
 * afterwards. */
int gt_atomic_finish(struct gt_atomic_file *f, struct gt_err *err);

/* Commit files of one folder: after all are synced, all but the last are renamed, then the last,
 * which names the others. All are closed, also after an error, which says how many are new, if
 * any. */
int gt_atomic_commit_all(struct gt_atomic_file *files, size_t count, struct gt_err *err);

/* Sync, unless `no_sync` is set, and close an existing file whose bytes were changed. `path` is for
 * the error (GT_EIO), which says that the new content is in place. */
int gt_change_finish(int fd, const char *path, bool no_sync, struct gt_err *err);

/* Remove all temporary files and folders of this process before it ends early, for example after
 * Ctrl-C. Not for signal handlers. Later opens, commits and changes in other threads block. */
void gt_atomic_end(void);

/* Remove the temporary files, not the folders, in the handler of a signal that the thread has
 * caused. Waits at most 0.1 s for the lock; if the thread itself holds it, the files stay. */
void gt_atomic_end_by_fault(void);

/* Enclose a change of a file in place: gt_atomic_end() waits for its end. */
void gt_atomic_enter(void);
void gt_atomic_leave(void);

#endif
