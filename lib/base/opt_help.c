/* opt_help.c - an option table as `--help` shows it. */
#include <stdio.h>
#include <string.h>

#include "lib/base/opt.h"

enum { WIDTH = 80, HELP_COLUMN = 28 };

/* Print "      --lr-schedule constant|step|cosine|wsd". Returns the number of columns. */
static int print_left(FILE *stream, const struct gt_opt *row)
{
	char form[160];
	int columns;

	columns = row->letter ? fprintf(stream, "  -%c, --%s", row->letter, row->name)
	                      : fprintf(stream, "      --%s", row->name);
	gt_opt_form(form, sizeof(form), row);
	return columns + fprintf(stream, "%s", form);
}

/* Write words from `column` on, breaking lines at WIDTH. Returns the column reached. */
static int print_wrapped(FILE *stream, const char *text, int column)
{
	while (*text) {
		int length = (int)strcspn(text, " ");

		if (column > HELP_COLUMN && column + 1 + length > WIDTH) {
			fprintf(stream, "\n%*s", HELP_COLUMN, "");
			column = HELP_COLUMN;
		}
		if (column > HELP_COLUMN)
			column += fprintf(stream, " ");
		column += fprintf(stream, "%.*s", length, text);
		text += length;
		text += strspn(text, " ");
	}
	return column;
}

/* Write the value used without the option: "(default: 64)". A flag has none. If the option is
 * required, `otherwise` is the condition under which it may be left out. */
static void describe_default(char *out, size_t size, const struct gt_opt *row)
{
	const char *value = row->otherwise ? row->otherwise : row->initial;

	if (row->flags & GT_OPT_REQUIRED && row->otherwise)
		snprintf(out, size, "(required, unless %s)", row->otherwise);
	else if (row->flags & GT_OPT_REQUIRED)
		snprintf(out, size, "(required)");
	else if (value)
		snprintf(out, size, "(default: %s)", value);
	else
		*out = '\0';
}

void gt_help_finish_row(FILE *stream, int column, const char *help, const char *ending)
{
	if (column > HELP_COLUMN - 2) {
		fputc('\n', stream);
		column = 0;
	}
	fprintf(stream, "%*s", HELP_COLUMN - column, "");
	column = print_wrapped(stream, help, HELP_COLUMN);
	print_wrapped(stream, ending, column);
	fputc('\n', stream);
}

static void print_option_row(FILE *stream, const struct gt_opt *row)
{
	char ending[160];

	describe_default(ending, sizeof(ending), row);
	gt_help_finish_row(stream, print_left(stream, row), row->help, ending);
}

void gt_opt_print_help(FILE *stream, const struct gt_opt *table, bool color)
{
	for (const struct gt_opt *row = table; row->type != GT_OPT_END; row++) {
		if (row->type != GT_OPT_HEADING)
			print_option_row(stream, row);
		else
			fprintf(stream, "%s%s%s:%s\n", row == table ? "" : "\n",
			    color ? "\033[1m" : "", row->help, color ? "\033[0m" : "");
	}
}
