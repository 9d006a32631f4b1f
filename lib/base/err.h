/* err.h - errors as values: a code, one line that names the fault, one with a hint. */
#ifndef GT_BASE_ERR_H
#define GT_BASE_ERR_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Every fallible function returns 0 or one of these and takes `struct gt_err *err` last. The
 * lowest layer that knows the cause writes the text; layers above pass it on, or add the file's
 * name once with gt_err_prefix(). Texts are lower case, without a full stop, the fault first, names
 * quoted, numbers given: "tensor 'conv1.weight': 4096 bytes past the end of the file".
 */
enum gt_code {
	GT_OK = 0,
	GT_EINVAL = -1,   /* an argument or option is wrong */
	GT_ENOMEM = -2,   /* no memory */
	GT_EIO = -3,      /* the system refused to read, write or open */
	GT_EFORMAT = -4,  /* bytes from outside break the rules of their format */
	GT_EDEVICE = -5,  /* a device or its library failed */
	GT_ENOTSUP = -6,  /* well formed, but nothing here can do it */
	GT_EDIVERGED = -7 /* a model or its results are not finite */
};

/* The formats below may name options in braces (option_names.h). */
struct gt_err {
	int code;
	char text[480];
	char hint[480];
	bool follows;       /* another rank failed first; its error has the cause */
	bool device_memory; /* GT_ENOMEM: it is a device that has too little memory left */
};

#define GT_ERR_INIT ((struct gt_err){ 0 })

/* Pass this to a call whose error is ignored. It is valid until the end of the block. */
#define GT_ERR_IGNORED (&(struct gt_err){ 0 })

/*
 * Store code, text; clear the hint. Returns code, so that `return gt_err_set(...)` reads well. A
 * name from a file may contain any character: code that prints a text escapes them (gt_log_put()).
 * `err` is never NULL, here and everywhere.
 */
int gt_err_set(struct gt_err *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same, with ": " and the text of errno (read on entry) at the end. Adds a hint if this errno
 * has one cause: a limit, a full or failing disk, a wrong path. */
int gt_err_sys(struct gt_err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Add a hint to the error already stored. Returns err->code. */
int gt_err_hint(struct gt_err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Put "PREFIX: " before the stored text. Returns err->code. */
int gt_err_prefix(struct gt_err *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
