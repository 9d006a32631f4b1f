/* file.h - map whole files for reading, and write files that appear complete or not at all. */
#ifndef GT_BASE_FILE_H
#define GT_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "lib/base/folder.h"
#include "lib/base/mem.h"

/* A file mapped read-only. For an empty file, size is 0, data is NULL, and fd is -1. */
struct gt_mapping {
	const unsigned char *data;
	size_t size;
	/* descriptor of the mapped file; -1: the file is empty, or the bytes are memory of the
	 * caller */
	int fd;
};

/* Map a regular file, given by its path or by its name in an open folder (struct gt_file_name,
 * folder.h). Release the mapping with gt_unmap(). gt_unmap() does not free `data` if fd is -1.
 * Errors: GT_EIO, also for a directory or a device; GT_ENOMEM. */
int gt_map(struct gt_mapping *out, const char *path, struct gt_err *err);
int gt_map_at(struct gt_mapping *out, struct gt_file_name file, struct gt_err *err);
void gt_unmap(struct gt_mapping *map);

/* Read from the file descriptor `fd`, which may be a pipe, until its end. Set *out to the bytes,
 * which the caller frees, and *size to their number. Errors: GT_EIO; GT_ENOMEM, also if there are
 * more than `max` bytes. */
int gt_read_to_end(void **out, size_t *size, int fd, size_t max, struct gt_err *err);

/*
 * Copy `size` bytes from `offset` of a mapped file to `out`. offset + size must be at most
 * map->size.
 *
 * Another process may write to the file at any time, and the mapping shows each write at once. So a
 * number that was checked in the mapping may be different when it is used. Copy offsets, sizes and
 * counts with this function, check the copy, and use the copy. This function reads from the file,
 * not from the mapping, so it adds no pages to the memory of this process.
 *
 * Errors: GT_EIO; the error of gt_map_shrank() if the file has become shorter.
 */
int gt_map_peek(
    const struct gt_mapping *map, uint64_t offset, void *out, size_t size, struct gt_err *err);

/* Copy `size` bytes from `offset` of a mapped file to new memory in the arena, and set *out to this
 * memory. The rules and the errors are those of gt_map_peek(), and GT_ENOMEM. *out is NULL on
 * failure. */
int gt_map_copy(const struct gt_mapping *map, uint64_t offset, size_t size, struct gt_arena *arena,
    unsigned char **out, struct gt_err *err);

/*
 * Set the error for a file that another process has truncated while it was read, and return GT_EIO.
 * If a system call reads from the missing part of the mapping, it fails with EFAULT; the code that
 * made the system call then calls this function. If other code reads from the missing part, the
 * process gets SIGBUS. The handler of SIGBUS prints the two texts below, and the path that
 * gt_map_path_at() returns.
 */
#define GT_MAP_SHRANK "a file became shorter while it was read"
#define GT_MAP_SHRANK_HINT                                                                         \
	"if another process writes it, wait until that is done; else the disk may be failing"
int gt_map_shrank(struct gt_err *err);

/*
 * Return the path of the file whose mapping contains `address`, or NULL if the path is not known.
 * Control characters in the path are escaped, as gt_log_put() does. The path is valid until
 * gt_unmap(). The handler of SIGBUS may call this: the function takes no lock. At most 64 mappings
 * at a time have known paths. A path of about 1000 bytes or more is never known.
 */
const char *gt_map_path_at(const void *address);

/*
 * Skip holes. A hole is a part of a file without blocks on the disk. It reads as zeros, so a search
 * for other bytes can skip it. If the file system does not report holes, or the bytes do not come
 * from a file, these functions assume that there are no holes.
 *
 * gt_map_data() returns the first offset, from `offset` on, that is not in a hole. If the rest of
 * the file is a hole, it returns map->size. gt_map_data_end() searches backwards from `end`. It
 * returns an offset that is not above `end`; all bytes from this offset to `end` are in holes.
 */
uint64_t gt_map_data(const struct gt_mapping *map, uint64_t offset);
uint64_t gt_map_data_end(const struct gt_mapping *map, uint64_t end);

/*
 * Remove `size` bytes at `offset` from the memory of this process. Call this if the bytes will not
 * be needed soon. The system may have mapped more pages around these bytes; those are removed, too.
 * All these pages stay in the system's cache, and can be read again.
 */
void gt_map_forget(const struct gt_mapping *map, uint64_t offset, uint64_t size);

/*
 * A file that is written under a temporary name in the same folder, PATH.tmp-PID-N, and then
 * renamed to PATH. If this temporary name would be too long for a file system, it begins with only
 * a part of the file's name. After gt_atomic_open(), call either gt_atomic_commit() or
 * gt_atomic_abandon().
 *
 * - Commit: flush and sync the file, rename it to its final name, and sync the folder. Commit also
 *   reports earlier failed writes, for example because the disk is full.
 * - Abandon: remove the temporary file.
 * - Permissions: a new file gets 0666 without the bits of the umask. A file that replaces an old
 *   one gets the old permissions and the old group. It also gets the old owner if this process is
 *   allowed to change owners.
 * - Hard links: other hard links to the old file keep the old content.
 * - Symbolic links: gt_atomic_open() follows them, also to a file that does not exist yet. The link
 *   stays, and the temporary file is in the folder of the link's target. gt_atomic_open_at() with a
 *   folder does not follow links. The caller must keep this folder open until commit or abandon.
 * - Errors: gt_atomic_open() fails if the path exists and is not a regular file. It also fails if
 *   the path is a link to an open file in /proc, for example /dev/stdout: a rename would replace
 *   the open file by a new one, and the earlier content of the open file would be lost.
 *
 * If a process is killed by SIGKILL, its temporary files stay. The next open of the same path
 * removes those files that are no longer in use: no process has the PID in the name, and no process
 * holds the lock that gt_atomic_open() takes on the file.
 */
struct gt_atomic_file {
	FILE *stream; /* write here, or to its descriptor; NULL after gt_atomic_finish() */
	/* The final path with symbolic links resolved, and the temporary path. */
	char *path, *temporary;
	int folder;  /* descriptor of the folder, borrowed; or AT_FDCWD */
	size_t name; /* path + name and temporary + name are the two paths relative to `folder` */
	/* The caller may set this after opening. fsync() is then not called, so the file may be
	 * lost if the power fails. */
	bool no_sync;
};

/* Create the temporary file. Errors: GT_EIO, GT_ENOMEM. */
int gt_atomic_open(struct gt_atomic_file *f, const char *path, struct gt_err *err);
int gt_atomic_open_at(struct gt_atomic_file *f, struct gt_file_name file, struct gt_err *err);

/* Give the file its final name. If the text of an error says "the new content is in place", the
 * file has its final name, and only the sync of the folder has failed. After any other error the
 * old file is unchanged. */
int gt_atomic_commit(struct gt_atomic_file *f, struct gt_err *err);

/* Remove the temporary file. Do nothing if the struct is zeroed. */
void gt_atomic_abandon(struct gt_atomic_file *f);

/*
 * Do the first half of a commit: flush, sync and close the file. The file keeps its temporary name,
 * and can be read under this name. Afterwards the caller must commit or abandon it.
 */
int gt_atomic_finish(struct gt_atomic_file *f, struct gt_err *err);

/*
 * Commit several files of one folder that belong together. The last file in `files` is the index,
 * which names the others. First all files are flushed, synced and closed. Then all files but the
 * index are renamed, and the folder is synced. Then the index is renamed, and the folder is synced
 * again. All files are closed afterwards, also after an error.
 *
 * - An error before the first rename: all old files are unchanged.
 * - An error between two renames, or the process is killed there: some files are new, and the other
 *   ones are old. The text of the error gives the number of new files.
 * - An error after the last rename: the text says "the new content is in place".
 */
int gt_atomic_commit_all(struct gt_atomic_file *files, size_t count, struct gt_err *err);

/*
 * Complete a change in place: the caller has written new bytes to an existing file. Sync the file,
 * unless `no_sync` is set, and close its descriptor `fd`. `path` is for the text of an error, which
 * also says that the new content is in place. Errors: GT_EIO.
 */
int gt_change_finish(int fd, const char *path, bool no_sync, struct gt_err *err);

/*
 * Remove all temporary files and temporary folders of this process. Call this if the process has to
 * end early, for example after Ctrl-C. Call it from any thread, but not from a signal handler. If
 * another thread opens, commits or abandons a file afterwards, that thread blocks until the process
 * ends.
 */
void gt_atomic_end(void);

/*
 * Remove the temporary files of this process, but not its temporary folders. Call this from the
 * handler of a signal that the running thread has caused, such as SIGBUS. This function waits at
 * most 0.1 s for the lock that gt_atomic_enter() takes. If the lock does not become free, for
 * example because the thread itself holds it, the files stay.
 */
void gt_atomic_end_by_fault(void);

/* Protect a change of a file in place against an early end of the process. Call gt_atomic_enter()
 * before the change, and gt_atomic_leave() after it. Between the two calls, gt_atomic_end()
 * waits. */
void gt_atomic_enter(void);
void gt_atomic_leave(void);

#endif
