/* markdown.c - escape texts, so that names of files and classes cannot change a table. */
#include "lib/train/tensorboard/markdown.h"

#include <string.h>

void gt_markdown_add(struct gt_buf *b, const char *text)
{
	for (; *text; text++) {
		if (*text == '<')
			gt_buf_puts(b, "&lt;");
		else if (*text == '&')
			gt_buf_puts(b, "&amp;");
		else if ((unsigned char)*text < ' ')
			gt_buf_puts(b, " ");
		else
			gt_buf_printf(
			    b, "%s%c", strchr("\\`*_{}[]()#+-.!|>~", *text) ? "\\" : "", *text);
	}
}

/* Lines that begin with four spaces are not formatted. */
void gt_markdown_add_verbatim(struct gt_buf *b, const char *text, size_t size)
{
	gt_buf_puts(b, "    ");
	for (size_t i = 0; i < size; i++) {
		if (text[i] == '\n')
			gt_buf_puts(b, "\n    ");
		else
			gt_buf_add(b, text[i] ? &text[i] : "?", 1);
	}
	gt_buf_puts(b, "\n\n");
}
