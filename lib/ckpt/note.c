/* note.c - lines of text that grow. */
#include "lib/ckpt/note.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/mem.h"

/* Room for `more` bytes and a zero. */
static bool grow(struct gt_note *note, size_t more)
{
	size_t room = note->room;
	char *text;

	while (room <= note->length + more)
		room = room ? 2 * room : 256;
	if (room == note->room)
		return true;
	text = gt_reallocarray(note->text, room, 1, GT_ERR_IGNORED);
	if (!text)
		return false;
	note->text = text;
	note->room = room;
	return true;
}

static void add(struct gt_note *note, const char *format, va_list args)
{
	va_list again;
	int n;

	va_copy(again, args);
	n = vsnprintf(NULL, 0, format, again);
	va_end(again);
	if (n < 0 || !grow(note, (size_t)n)) {
		note->cut = true;
		return;
	}
	vsnprintf(note->text + note->length, (size_t)n + 1, format, args);
	note->length += (size_t)n;
}

void gt_note_add(struct gt_note *note, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	add(note, format, args);
	va_end(args);
}

void gt_note_line(struct gt_note *note, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	add(note, format, args);
	va_end(args);
	gt_note_add(note, "\n");
}

const char *gt_note_text(const struct gt_note *note)
{
	return note->text ? note->text : "";
}

int gt_note_check(const struct gt_note *note, struct gt_err *err)
{
	return note->cut ? gt_err_set(err, GT_ENOMEM, "out of memory: what there is to say") : 0;
}

void gt_note_release(struct gt_note *note)
{
	free(note->text);
	*note = (struct gt_note){ 0 };
}
