/* buf.h - a text buffer that grows as text is added. */
#ifndef GT_BASE_BUF_H
#define GT_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/err.h"
#include "lib/base/mem.h"

/*
 * A text buffer. A zeroed struct is an empty buffer. Functions that add text do not report errors:
 * if memory runs out, the text is not added. At the end, gt_buf_check(), gt_buf_take() or
 * gt_buf_keep() reports that text is missing.
 */
struct gt_buf {
	char *text; /* ends with a zero byte, and may contain other zero bytes; NULL: empty */
	/* Bytes of text without the zero byte at the end, and bytes allocated. */
	size_t length, capacity;
	bool failed; /* text is missing, because memory ran out */
};

/* Add text: `count` bytes, a string, or formatted text. */
void gt_buf_add(struct gt_buf *b, const void *bytes, size_t count);
void gt_buf_puts(struct gt_buf *b, const char *text);
void gt_buf_printf(struct gt_buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Shorten the text to `length` bytes. Do nothing if the text is not longer. */
void gt_buf_cut(struct gt_buf *b, size_t length);

/* Return the text, or "" if the buffer is empty. The pointer is valid until the buffer changes. */
const char *gt_buf_text(const struct gt_buf *b);

/* Return 0 if the text is complete, or GT_ENOMEM if text is missing. */
int gt_buf_check(const struct gt_buf *b, struct gt_err *err);

/* Move the text to *text, which the caller frees, and write its length to *length. `length` may be
 * NULL. The buffer is empty afterwards, also after an error. Errors: GT_ENOMEM if text is missing;
 * *text is then NULL. */
int gt_buf_take(struct gt_buf *b, char **text, size_t *length, struct gt_err *err);

/* Copy the text into an arena, release the buffer, and return the copy. Return NULL with err set if
 * text is missing or memory runs out; the buffer is then released, too. */
char *gt_buf_keep(struct gt_buf *b, struct gt_arena *arena, struct gt_err *err);

void gt_buf_release(struct gt_buf *b);

/* A list of names as text. Only the first `max` names are written: "'a', 'b' and 3 more". To start
 * a list, set `max`, and set the other members to zero. */
struct gt_name_list {
	struct gt_buf text;
	/* The number of names added, and the maximum number of names in the text. */
	size_t count, max;
};

/* Add a name. It is formatted as by printf(). */
void gt_name_list_add(struct gt_name_list *l, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Return the text of the list, or "" if the list is empty. Do not add names after this call. */
const char *gt_name_list_text(struct gt_name_list *l);
void gt_name_list_release(struct gt_name_list *l);

#endif
