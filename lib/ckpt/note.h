/* note.h - what a command has to say about its work: lines of text, as long as they have to be. */
#ifndef GT_CKPT_NOTE_H
#define GT_CKPT_NOTE_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/err.h"

/* All zero is an empty note. Adding never fails; gt_note_check() tells once whether there was
 * memory for all of it. */
struct gt_note {
	char *text; /* zero-terminated; NULL: nothing yet */
	size_t length, room;
	bool cut; /* something is missing: there was no memory */
};

/* Add text. */
void gt_note_add(struct gt_note *note, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Add a line, which is ended by '\n'. */
void gt_note_line(struct gt_note *note, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* What was added; "" where that is nothing. Valid until more is added. */
const char *gt_note_text(const struct gt_note *note);

/* 0, or GT_ENOMEM where something is missing. */
int gt_note_check(const struct gt_note *note, struct gt_err *err);

void gt_note_release(struct gt_note *note);

#endif
