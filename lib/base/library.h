/* library.h - open libraries at run time, and find their functions. */
#ifndef GT_BASE_LIBRARY_H
#define GT_BASE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/err.h"

/* A function of a library, and its pointer in the caller's struct of pointers. If several rows have
 * one slot, the first of them that the library has is taken. */
struct gt_library_function {
	const char *name; /* NULL: the end of the table */
	size_t slot;      /* offset of the pointer in the struct */
	bool optional;    /* the pointer is NULL if the library does not have the function */
};

/* A library, and the words of its errors. */
struct gt_library {
	const struct gt_library_function *functions;
	/* the beginning of the error of a library that cannot be opened, such as "cannot open
	 * oneDNN"; NULL: the error is the system's text alone */
	const char *cannot_open;
	const char *hint; /* the hint of all errors; NULL: none */
	int code;         /* the code of all errors */
};

/* Open the library file `file`. Set *handle, or set it to NULL on failure. Libraries that have
 * threads or register handlers must stay open until the process ends. */
int gt_library_open(
    void **handle, const struct gt_library *library, const char *file, struct gt_err *err);

/* Find all functions of the open library, and set their pointers in the struct `pointers`. If a
 * function is missing, all these pointers are NULL. `name` is the library's name in the error. */
int gt_library_find(void *pointers, const struct gt_library *library, void *handle,
    const char *name, struct gt_err *err);

/* Close a library. NULL is fine. */
void gt_library_close(void *handle);

#endif
