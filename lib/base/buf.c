/* buf.c - text that grows. */
#include "lib/base/buf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Allocate memory for `more` bytes and a zero. */
static bool grow(struct gt_buf *b, size_t more)
{
	size_t capacity = b->capacity ? b->capacity : 64;
	char *text;

	if (more < b->capacity - b->length)
		return true;
	if (more >= SIZE_MAX / 4 - b->length)
		return false;
	while (capacity <= b->length + more)
		capacity *= 2;
	text = gt_reallocarray(b->text, capacity, 1, GT_ERR_IGNORED);
	if (!text)
		return false;
	b->text = text;
	b->capacity = capacity;
	return true;
}

void gt_buf_add(struct gt_buf *b, const void *bytes, size_t count)
{
	if (!grow(b, count)) {
		b->failed = true;
		return;
	}
	if (count)
		memcpy(b->text + b->length, bytes, count);
	b->length += count;
	b->text[b->length] = '\0';
}

void gt_buf_puts(struct gt_buf *b, const char *text)
{
	gt_buf_add(b, text, strlen(text));
}

static void print_to_buf(struct gt_buf *b, const char *format, va_list args)
{
	va_list again;
	int n;

	va_copy(again, args);
	n = vsnprintf(NULL, 0, format, again);
	va_end(again);
	if (n < 0 || !grow(b, (size_t)n)) {
		b->failed = true;
		return;
	}
	vsnprintf(b->text + b->length, (size_t)n + 1, format, args);
	b->length += (size_t)n;
}

void gt_buf_printf(struct gt_buf *b, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print_to_buf(b, format, args);
	va_end(args);
}

void gt_buf_cut(struct gt_buf *b, size_t length)
{
	if (length >= b->length)
		return;
	b->length = length;
	b->text[length] = '\0';
}

const char *gt_buf_text(const struct gt_buf *b)
{
	return b->text ? b->text : "";
}

int gt_buf_check(const struct gt_buf *b, struct gt_err *err)
{
	if (!b->failed)
		return 0;
	return gt_err_set(
	    err, GT_ENOMEM, "out of memory: a text of more than %zu bytes", b->length);
}

int gt_buf_take(struct gt_buf *b, char **text, size_t *length, struct gt_err *err)
{
	int rc;

	gt_buf_add(b, "", 0); /* adds nothing, but allocates the text */
	rc = gt_buf_check(b, err);
	*text = NULL;
	if (length)
		*length = rc ? 0 : b->length;
	if (!rc) {
		*text = b->text;
		b->text = NULL;
	}
	gt_buf_release(b);
	return rc;
}

char *gt_buf_keep(struct gt_buf *b, struct gt_arena *arena, struct gt_err *err)
{
	char *copy = NULL;

	if (!gt_buf_check(b, err))
		copy = gt_arena_alloc(arena, b->length + 1, err); /* zeroed */
	if (copy && b->length)
		memcpy(copy, b->text, b->length);
	gt_buf_release(b);
	return copy;
}

void gt_buf_release(struct gt_buf *b)
{
	free(b->text);
	*b = (struct gt_buf){ 0 };
}

void gt_name_list_add(struct gt_name_list *l, const char *format, ...)
{
	va_list args;

	if (l->count++ >= l->max)
		return;
	if (l->text.length)
		gt_buf_puts(&l->text, ", ");
	va_start(args, format);
	print_to_buf(&l->text, format, args);
	va_end(args);
}

const char *gt_name_list_text(struct gt_name_list *l)
{
	if (l->count > l->max)
		gt_buf_printf(&l->text, " and %zu more", l->count - l->max);
	l->count = l->max;
	return gt_buf_text(&l->text);
}

void gt_name_list_release(struct gt_name_list *l)
{
	gt_buf_release(&l->text);
}
