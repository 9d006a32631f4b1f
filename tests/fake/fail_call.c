/* fail_call.c - preloaded: makes chosen calls of the C library fail. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

/*
 * FAIL_CALL="fsync:2:EIO,pwrite:1:SHORT": the second call of fsync in the process fails with EIO,
 * and the first of pwrite writes half of its bytes. "*" in place of a number: every call. Errors go
 * by name, those of strerrorname_np(). A function of several names counts as one: openat as open,
 * renameat as rename, unlinkat as unlink. Threads share the counts; a forked process goes on with
 * them. Calls inside the C library, such as flushing a stream, are not seen.
 */
enum function {
	CLOSE,
	COPY_FILE_RANGE,
	FSYNC,
	FTRUNCATE,
	MEMFD_CREATE,
	MMAP,
	OPEN,
	PREAD,
	PWRITE,
	READ,
	RENAME,
	UNLINK,
	WRITE,
	FUNCTIONS
};

static const char *const names[FUNCTIONS] = { "close", "copy_file_range", "fsync", "ftruncate",
	"memfd_create", "mmap", "open", "pread", "pwrite", "read", "rename", "unlink", "write" };
static atomic_int counts[FUNCTIONS];

enum { SHORT_CALL = -1, MAX_ERRNO = 200 };

static int error_of(const char *name, size_t length)
{
	if (length == 5 && !strncmp(name, "SHORT", length))
		return SHORT_CALL;
	for (int i = 1; i < MAX_ERRNO; i++) {
		const char *known = strerrorname_np(i);

		if (known && strlen(known) == length && !strncmp(known, name, length))
			return i;
	}
	fprintf(stderr, "FAIL_CALL: no error is called '%.*s'\n", (int)length, name);
	_exit(127);
}

/* The error that this call is to have, SHORT_CALL, or 0. */
static int fault(enum function f)
{
	const char *wanted = getenv("FAIL_CALL");
	size_t length = strlen(names[f]);
	int count = atomic_fetch_add(&counts[f], 1) + 1;

	while (wanted && *wanted) {
		size_t end = strcspn(wanted, ",");

		if (!strncmp(wanted, names[f], length) && wanted[length] == ':') {
			const char *number = wanted + length + 1, *error = strchr(number, ':') + 1;

			if (*number == '*' || atoi(number) == count)
				return error_of(error, (size_t)(wanted + end - error));
		}
		wanted += end + (wanted[end] == ',');
	}
	return 0;
}

/* The definition of a function whose calls fail alike: `group` is its number above. */
#define FAILING(group, type, name, parameters, arguments)                                          \
	type name parameters                                                                       \
	{                                                                                          \
		int error = fault(group);                                                          \
		type(*real) parameters = (type(*) parameters)dlsym(RTLD_NEXT, #name);              \
                                                                                                   \
		if (error > 0) {                                                                   \
			errno = error;                                                             \
			return (type)-1;                                                           \
		}                                                                                  \
		return real arguments;                                                             \
	}

/* The same where `size` bytes are asked for, of which half are done by a SHORT call. */
#define FAILING_SIZED(group, name, parameters, arguments)                                          \
	ssize_t name parameters                                                                    \
	{                                                                                          \
		int error = fault(group);                                                          \
		ssize_t(*real) parameters = (ssize_t(*) parameters)dlsym(RTLD_NEXT, #name);        \
                                                                                                   \
		if (error > 0) {                                                                   \
			errno = error;                                                             \
			return -1;                                                                 \
		}                                                                                  \
		size = error ? size / 2 : size;                                                    \
		return real arguments;                                                             \
	}

FAILING(CLOSE, int, close, (int fd), (fd))
FAILING(FSYNC, int, fsync, (int fd), (fd))
FAILING(FTRUNCATE, int, ftruncate, (int fd, off_t size), (fd, size))
FAILING(MEMFD_CREATE, int, memfd_create, (const char *name, unsigned flags), (name, flags))
FAILING(MMAP, void *, mmap, (void *at, size_t size, int prot, int flags, int fd, off_t offset),
    (at, size, prot, flags, fd, offset))
FAILING(RENAME, int, rename, (const char *from, const char *to), (from, to))
FAILING(RENAME, int, renameat, (int a, const char *from, int b, const char *to), (a, from, b, to))
FAILING(UNLINK, int, unlink, (const char *path), (path))
FAILING(UNLINK, int, unlinkat, (int folder, const char *path, int flags), (folder, path, flags))
FAILING_SIZED(READ, read, (int fd, void *bytes, size_t size), (fd, bytes, size))
FAILING_SIZED(PREAD, pread, (int fd, void *bytes, size_t size, off_t at), (fd, bytes, size, at))
FAILING_SIZED(WRITE, write, (int fd, const void *bytes, size_t size), (fd, bytes, size))
FAILING_SIZED(
    PWRITE, pwrite, (int fd, const void *bytes, size_t size, off_t at), (fd, bytes, size, at))
FAILING_SIZED(COPY_FILE_RANGE, copy_file_range,
    (int in, off_t *from, int out, off_t *to, size_t size, unsigned flags),
    (in, from, out, to, size, flags))

static bool takes_mode(int flags)
{
	return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
}

int openat(int folder, const char *path, int flags, ...)
{
	int (*real)(int, const char *, int, ...) =
	    (int (*)(int, const char *, int, ...))dlsym(RTLD_NEXT, "openat");
	int error = fault(OPEN);
	mode_t mode = 0;
	va_list ap;

	va_start(ap, flags);
	if (takes_mode(flags))
		mode = va_arg(ap, mode_t);
	va_end(ap);
	if (error > 0) {
		errno = error;
		return -1;
	}
	return real(folder, path, flags, mode);
}

int open(const char *path, int flags, ...)
{
	mode_t mode = 0;
	va_list ap;

	va_start(ap, flags);
	if (takes_mode(flags))
		mode = va_arg(ap, mode_t);
	va_end(ap);
	return openat(AT_FDCWD, path, flags, mode);
}
