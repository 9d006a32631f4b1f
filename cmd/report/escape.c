/* escape.c - texts of users in HTML and in scripts. */
#include <string.h>

#include "cmd/report/report.h"
#include "lib/base/json_string.h"
#include "lib/base/text.h"

static void put_html(FILE *out, const char *text)
{
	for (; *text; text++) {
		const char *entity = *text == '&'    ? "&amp;"
		                     : *text == '<'  ? "&lt;"
		                     : *text == '>'  ? "&gt;"
		                     : *text == '"'  ? "&quot;"
		                     : *text == '\'' ? "&#39;"
		                                     : NULL;

		if (entity)
			fputs(entity, out);
		else
			fputc(*text, out);
	}
}

void gt_report_put_plain(FILE *out, const char *text)
{
	char shown[GT_LOG_CHARACTER];

	while (*text) {
		text += gt_log_character(shown, text);
		put_html(out, shown);
	}
}

/* A long word, such as a path or a list, may break after its separators. */
void gt_report_put_text(FILE *out, const char *text)
{
	char shown[GT_LOG_CHARACTER];

	fputs("<bdi>", out);
	while (*text) {
		char last = *text;

		text += gt_log_character(shown, text);
		put_html(out, shown);
		if (*text && strchr(",/:;", last))
			fputs("<wbr>", out);
	}
	fputs("</bdi>", out);
}

void gt_report_put_lines(FILE *out, const char *text)
{
	char line[512];

	for (size_t length; *text; text += length) {
		size_t whole = strcspn(text, "\n"), most = sizeof(line) - 1;

		if (!whole) {
			fputs("<br>", out);
			length = 1;
			continue;
		}
		length = whole < most ? whole : gt_text_utf8_bytes(text, most);
		length = length ? length : 1;
		memcpy(line, text, length);
		line[length] = '\0';
		gt_report_put_plain(out, line);
	}
}

/* In a script element, "</script" and "<!--" have a meaning even within strings. */
void gt_report_put_json(FILE *out, const char *text)
{
	struct gt_buf json = { 0 }, visible = { 0 };
	char shown[GT_LOG_CHARACTER];

	while (*text) {
		text += gt_log_character(shown, text);
		gt_buf_puts(&visible, shown);
	}
	gt_buf_json(&json, gt_buf_text(&visible), visible.length);
	for (const char *p = gt_buf_text(&json); *p; p++)
		if (*p == '<' || *p == '>' || *p == '&')
			fprintf(out, "\\u%04x", (unsigned)*p);
		else
			fputc(*p, out);
	gt_buf_release(&json);
	gt_buf_release(&visible);
}
