/* buf.h - text that grows. */
#ifndef GT_BASE_BUF_H
#define GT_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/err.h"
#include "lib/base/mem.h"

/*
 * A zeroed struct is an empty buffer. Functions that add text do not report errors. If memory runs
 * out, text is missing, and gt_buf_check(), gt_buf_take() or gt_buf_keep() reports this at the end.
 */
struct gt_buf {
	char *text; /* zero-terminated, may hold zeros; NULL: nothing was added */
	size_t length, room;
	bool failed; /* something is missing */
};

void gt_buf_add(struct gt_buf *b, const void *bytes, size_t count);
void gt_buf_puts(struct gt_buf *b, const char *text);
void gt_buf_printf(struct gt_buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Go back to an earlier, shorter length. */
void gt_buf_cut(struct gt_buf *b, size_t length);

/* Return the text so far, "" if there is none. It is valid until more text is added. */
const char *gt_buf_text(const struct gt_buf *b);

/* Return 0, or GT_ENOMEM if text is missing. */
int gt_buf_check(const struct gt_buf *b, struct gt_err *err);

/* Hand the text over: it is yours to free(), and the buffer is empty again. `length` may be NULL.
 * GT_ENOMEM if text is missing; *text is then NULL. */
int gt_buf_take(struct gt_buf *b, char **text, size_t *length, struct gt_err *err);

/* Return a copy of the text in an arena, and release the buffer. NULL with err set if memory runs
 * out. */
char *gt_buf_keep(struct gt_buf *b, struct gt_arena *arena, struct gt_err *err);

void gt_buf_release(struct gt_buf *b);

/* A list that names only its first `most` items: "'a', 'b' and 3 more". Set `most` and zero the
 * other members. */
struct gt_name_list {
	struct gt_buf text;
	size_t count, most;
};

void gt_name_list_add(struct gt_name_list *l, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Return the list, "" if it is empty. Nothing may be added to it any more. */
const char *gt_name_list_text(struct gt_name_list *l);
void gt_name_list_release(struct gt_name_list *l);

#endif
