/* file.h - whole files: map them to read, write them so that they appear whole or not at all. */
#ifndef GT_BASE_FILE_H
#define GT_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "lib/base/folder.h"
#include "lib/base/mem.h"

/* A file mapped read-only. An empty file has size 0, data NULL and fd -1. */
struct gt_mapping {
	const unsigned char *data;
	size_t size;
	int fd; /* the same file, open; -1: the bytes do not come from a file */
};

/* Map `path`; directories and devices are errors. Release with gt_unmap(), which does not free
 * bytes that were not mapped from a file. */
int gt_map(struct gt_mapping *out, const char *path, struct gt_err *err);
int gt_map_at(struct gt_mapping *out, struct gt_file_name file, struct gt_err *err);
void gt_unmap(struct gt_mapping *map);

/* Read a descriptor, which may be a pipe, to its end: *out is [*size] bytes, yours to free().
 * Errors: GT_EIO; GT_ENOMEM, also beyond `most` bytes. */
int gt_read_to_end(void **out, size_t *size, int fd, size_t most, struct gt_err *err);

/*
 * Copy [offset, offset + size) of the file, which must lie within map->size. Another process may
 * write to the file at any time, and a mapping shows each write at once. A size that was checked in
 * the mapping may differ when it is used. So copy offsets, sizes and counts, check the copy, and
 * use the copy. A copy also keeps the pages around these bytes out of this process's memory.
 * Errors: GT_EIO; gt_map_shrank() where the file has become shorter.
 */
int gt_map_peek(
    const struct gt_mapping *map, uint64_t offset, void *out, size_t size, struct gt_err *err);

/* The same into memory of the arena; *out is NULL on failure. */
int gt_map_copy(const struct gt_mapping *map, uint64_t offset, size_t size, struct gt_arena *arena,
    unsigned char **out, struct gt_err *err);

/*
 * The error for a file that another process truncates while it is read. A read of the mapping ends
 * the process (SIGBUS); a system call that reads it fails (EFAULT), and returns this: GT_EIO.
 */
#define GT_MAP_SHRANK "a file became shorter while it was read"
#define GT_MAP_SHRANK_HINT                                                                         \
	"if another process writes it, wait until that is done; else the disk may be failing"
int gt_map_shrank(struct gt_err *err);

/*
 * A hole is a part of a file without blocks on the disk. It reads as zeros, so a search for other
 * bytes may skip it. gt_map_data() returns the first byte at or after `offset` that may be outside
 * all holes, or map->size; gt_map_data_end() returns `end`, or less if a hole ends at `end`. If the
 * file system does not report holes, or the bytes do not come from a file, there are none.
 */
uint64_t gt_map_data(const struct gt_mapping *map, uint64_t offset);
uint64_t gt_map_data_end(const struct gt_mapping *map, uint64_t end);

/*
 * The bytes [offset, offset + size) will not be needed soon: remove their pages, and the pages that
 * the system mapped around them, from this process's memory. The pages stay in the system's cache
 * and can be read again.
 */
void gt_map_forget(const struct gt_mapping *map, uint64_t offset, uint64_t size);

/*
 * A file being written under a temporary name in the same folder, PATH.tmp-PID-N.
 * gt_atomic_commit() flushes, syncs, renames over the final name and syncs the folder;
 * gt_atomic_abandon() removes the temporary file. Call one of the two. Every write is checked: a
 * full disk is an error at commit at the latest. A new file gets the permissions that the umask
 * leaves; a replaced one keeps its own, its group and, where the system lets this process give
 * files away, its owner. Other hard links to a replaced file keep the old content. If the path is a
 * symbolic link, the link stays, and the file it points to is written, which need not exist yet;
 * the temporary file is then beside that file. A path that exists and is not a regular file is an
 * error. gt_atomic_open_at() does not follow a link in a folder. The folder must stay open until
 * the file is committed or abandoned.
 *
 * A process that is killed leaves its temporary files. They are removed when the same path is
 * opened here again, if no process with this PID exists and no process holds their lock.
 */
struct gt_atomic_file {
	FILE *stream;           /* write here, or to its descriptor; NULL when finished */
	char *path, *temporary; /* `path`: with symbolic links resolved */
	int folder;             /* borrowed descriptor, or AT_FDCWD */
	size_t name;            /* offset in both paths of the name in that folder */
	bool no_sync; /* set after opening to skip fsync(): a power cut may then lose the file */
};

int gt_atomic_open(struct gt_atomic_file *f, const char *path, struct gt_err *err);
int gt_atomic_open_at(struct gt_atomic_file *f, struct gt_file_name file, struct gt_err *err);

/* An error leaves the file as it was, unless it says "the new content is in place": then only the
 * folder could not be synced after the rename. */
int gt_atomic_commit(struct gt_atomic_file *f, struct gt_err *err);
void gt_atomic_abandon(struct gt_atomic_file *f);

/*
 * The first half of a commit, for one file of several: the file is flushed, synced and closed, but
 * still has the temporary name, under which it can be read. Then commit or abandon it.
 */
int gt_atomic_finish(struct gt_atomic_file *f, struct gt_err *err);

/*
 * Commit files of one folder which belong together: all are finished before the first is renamed,
 * and the last file, which names the others, is renamed after the others are on the disk. An error
 * before the renames leaves everything as it was. A kill or an error between two renames leaves
 * some files new and others as they were; the error says how many. An error after the last rename
 * says "the new content is in place". Afterwards no file is open.
 */
int gt_atomic_commit_all(struct gt_atomic_file *files, size_t count, struct gt_err *err);

/*
 * End a change in place that was written in full: sync the file, unless `no_sync`, and close it.
 * The error says that the new content is in place. `path` is for the message.
 */
int gt_change_finish(int fd, const char *path, bool no_sync, struct gt_err *err);

/*
 * Call this before the process ends, from any thread, though not from a signal's handler: it
 * removes the temporary files of all open files. A thread that opens, commits or abandons a file
 * afterwards waits for the end of the process.
 */
void gt_atomic_end(void);

/*
 * The same for the handler of a signal that a thread has caused itself, such as SIGBUS. If that
 * thread was between the two calls below, this gives up after a moment, and the files stay.
 */
void gt_atomic_end_by_fault(void);

/* Call these before and after a change in place that must not be interrupted: gt_atomic_end() waits
 * for its end. */
void gt_atomic_enter(void);
void gt_atomic_leave(void);

#endif
