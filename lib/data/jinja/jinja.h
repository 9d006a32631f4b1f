/* jinja.h - private: chat templates, in the subset of Jinja that they use. */
#ifndef GT_DATA_JINJA_JINJA_H
#define GT_DATA_JINJA_JINJA_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "lib/base/err.h"

/*
 * A template turns a conversation into text, as the method apply_chat_template() of the package
 * transformers does: blocks lose the line feed after them (trim_blocks) and the blanks before them
 * (lstrip_blocks), an undefined variable is the empty text, and tojson writes what Python's
 * json.dumps() writes.
 *
 * Statements are for, if, set, break, continue and generation. All other statements, and functions,
 * filters and tests that are not in the tables, are refused with their name and line when the
 * template is parsed.
 *
 * A template is data of a stranger. Its size and nesting, and the steps, memory and output of a
 * rendering have limits; it reads nothing but the variables.
 */
struct gt_jinja;

enum {
	GT_JINJA_MAX_SOURCE = 1 << 20, /* bytes of a template */
	GT_JINJA_MAX_DEPTH = 100,      /* nested blocks and parentheses */
/* A fuzzer has less memory and time. */
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
	GT_JINJA_MAX_STEPS = 100000,
	GT_JINJA_MAX_OUTPUT = 4 << 20,
	GT_JINJA_MAX_MEMORY = 16 << 20
#else
	GT_JINJA_MAX_STEPS = 2000000,
	GT_JINJA_MAX_OUTPUT = 64 << 20, /* bytes */
	GT_JINJA_MAX_MEMORY = 256 << 20 /* bytes of values */
#endif
};

/* Parse a template. Errors: GT_EFORMAT, GT_ENOTSUP (a part of Jinja that is not supported),
 * GT_ENOMEM; the text begins with the line. */
int gt_jinja_parse(struct gt_jinja **out, const char *source, size_t size, struct gt_err *err);
void gt_jinja_close(struct gt_jinja *t);

/* Return whether the template marks text with {% generation %}. */
bool gt_jinja_has_marks(const struct gt_jinja *t);

/* Bytes begin .. end - 1 of a text. */
struct gt_jinja_span {
	size_t begin, end;
};

/* The result of a rendering. */
struct gt_jinja_text {
	char *text; /* [size], ended by a zero byte */
	size_t size;
	struct gt_jinja_span
	    *marks; /* [mark_count] the texts of the generation blocks, ascending */
	size_t mark_count, mark_capacity;
};

/* A day, for strftime_now(); year 0: the function is not defined. */
struct gt_jinja_date {
	int year, month, day; /* month and day from 1 on */
};

/* Parse YYYY-MM-DD. Errors: GT_EINVAL. */
int gt_jinja_date_parse(struct gt_jinja_date *out, const char *text, struct gt_err *err);

/* Render a template with the members of the object `variables`. Release *out, also after an error.
 * Errors: GT_EFORMAT, also if the template calls raise_exception(); GT_ENOTSUP, GT_ENOMEM. */
int gt_jinja_render(struct gt_jinja_text *out, const struct gt_jinja *t, const json_t *variables,
    const struct gt_jinja_date *date, struct gt_err *err);
void gt_jinja_text_release(struct gt_jinja_text *text);

#endif
