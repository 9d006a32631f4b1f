/* library.h - open libraries at run time, and find their functions. */
#ifndef GT_BASE_LIBRARY_H
#define GT_BASE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/err.h"

/* A function of a library. Of several with one slot, the first that the library has is taken. */
struct gt_library_function {
	const char *name; /* NULL: the end of the table */
	size_t slot;      /* offset of its pointer in the caller's struct */
	bool optional;    /* the pointer may be NULL */
};

struct gt_library {
	const struct gt_library_function *functions;
	const char *cannot_open; /* begins the error, such as "cannot open oneDNN"; or NULL */
	const char *hint;        /* hint of all errors, or NULL */
	int code;                /* code of all errors */
	bool global;             /* libraries that it opens look for its symbols */
};

/* Return whether this is the static program (`make static`), which opens no libraries. */
bool gt_library_is_static(void);

/* Return the hint where a library is missing: `hint`, or that of the static program. */
const char *gt_library_hint(const char *hint);

/* Open a library; *handle is NULL on failure, which is certain in the static program. Do not close
 * one that has threads or handlers. */
int gt_library_open(
    void **handle, const struct gt_library *library, const char *file, struct gt_err *err);

/* Set the pointers to all functions, or to NULL if one is missing. `name` is for the error. */
int gt_library_find(void *pointers, const struct gt_library *library, void *handle,
    const char *name, struct gt_err *err);

/* Close a library, or NULL. */
void gt_library_close(void *handle);

#endif
