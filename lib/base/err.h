/* err.h - errors as values: a code, one line of text, and one line with a hint. */
#ifndef GT_BASE_ERR_H
#define GT_BASE_ERR_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The code of an error. Each function that can fail returns 0 or one of these codes, and its last
 * parameter is `struct gt_err *err`. The function that finds the error writes the text. Its callers
 * pass the error on; one of them may add the name of the file with gt_err_prefix().
 *
 * A text is lower case and has no full stop. It says first what is wrong, quotes names, and gives
 * numbers: "tensor 'conv1.weight': 4096 bytes past the end of the file".
 */
enum gt_code {
	GT_OK = 0,
	GT_EINVAL = -1,  /* an argument or option is wrong */
	GT_ENOMEM = -2,  /* memory ran out */
	GT_EIO = -3,     /* the system could not open, read or write something */
	GT_EFORMAT = -4, /* bytes of a file or a message break the rules of their format */
	GT_EDEVICE = -5, /* a device or its library failed */
	GT_ENOTSUP = -6, /* the request is valid, but this program or build cannot do it */
	/* weights or results are not finite, or two parallel modes give different results */
	GT_EDIVERGED = -7
};

/* An error. */
struct gt_err {
	int code; /* enum gt_code */
	char text[480];
	char hint[480];     /* how to solve the problem; "" if there is no hint */
	bool follows;       /* a consequence of the failure of another rank: gt_err_follow() */
	int lost;           /* this rank plus 1 is late or gone; 0: none is */
	bool device_memory; /* with GT_ENOMEM: the memory of a device ran out */
	/* with GT_EFORMAT: the file is intact, but it belongs to another model or other options */
	bool mismatch;
	bool over_limit; /* with GT_ENOTSUP: a file asks for more memory than a limit allows */
	/* repeating the call will not help until the user solves the problem, for example a full
	 * file system */
	bool lasting;
};

#define GT_ERR_INIT ((struct gt_err){ 0 })

/* Pass this as `err` to ignore the error of a call. The pointer is valid until the end of the block
 * of C code. */
#define GT_ERR_IGNORED (&(struct gt_err){ 0 })

/*
 * Set the code and the text of an error, and clear the hint. Return `code`, for use as `return
 * gt_err_set(...)`. In all functions, `err` must not be NULL.
 *
 * The text may contain names from files, so it may contain any character. Print it with
 * gt_log_put(), which escapes control characters. In this function and in all functions below, the
 * format may contain names of options in braces, such as {batch}. The program later prints them in
 * its own form, such as --batch (option_names.h).
 */
int gt_err_set(struct gt_err *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Set the error of a system call that has just failed. The text is the formatted text, then ": "
 * and the description of errno. The code is GT_ENOMEM if errno is ENOMEM, otherwise GT_EIO. If
 * errors with this errno have one common cause (a limit, a full or failing disk, or a wrong path),
 * set a hint about this cause. Set err->lasting if the cause is a full or read-only file system, a
 * quota, or the maximum size of a file. Return the code. */
int gt_err_sys(struct gt_err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Set the hint of an error. Return err->code. */
int gt_err_hint(struct gt_err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Mark an error of this rank as a mere consequence of the failure of another rank of the job. The
 * error of the other rank states the cause. Return err->code. */
int gt_err_follow(struct gt_err *err);

/* Put the formatted prefix and ": " before the text of an error. Return err->code. */
int gt_err_prefix(struct gt_err *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
