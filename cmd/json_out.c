/* json_out.c - numbers and strings as JSON. */
#include "cmd/json_out.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/table_out.h"
#include "lib/base/text.h"

void gt_json_real(FILE *out, double value)
{
	char text[GT_TEXT_SIZE];

	if (!isfinite(value)) {
		fputs("null", out);
		return;
	}
	fputs(gt_text_number(text, value), out);
	/* Readers that tell the types apart take 1 for an integer. */
	if (!strpbrk(text, ".e"))
		fputs(".0", out);
}

json_t *gt_json_number(double value)
{
	return isfinite(value) ? json_real(value) : json_null();
}

json_t *gt_json_string_value(const char *text, size_t length)
{
	struct gt_buf json = { 0 };
	json_t *value = NULL;

	gt_buf_json(&json, text, length);
	if (!json.failed)
		value = json_loadb(json.text, json.length, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
	gt_buf_release(&json);
	return value;
}

static void print_csv_field(FILE *out, const json_t *value)
{
	if (json_is_string(value))
		gt_csv_field(out, json_string_value(value));
	else if (json_is_real(value))
		gt_json_real(out, json_real_value(value));
	else if (json_is_integer(value))
		fprintf(out, "%lld", (long long)json_integer_value(value));
	else if (json_is_boolean(value))
		fputs(json_is_true(value) ? "true" : "false", out);
}

void gt_json_print_csv(FILE *out, json_t *rows)
{
	json_t *row, *value;
	const char *key;
	size_t i;

	json_array_foreach(rows, i, row)
	{
		const char *comma = "";

		if (!i) {
			json_object_foreach(row, key, value)
			{
				fprintf(out, "%s%s", comma, key);
				comma = ",";
			}
			putc('\n', out);
			comma = "";
		}
		json_object_foreach(row, key, value)
		{
			fputs(comma, out);
			print_csv_field(out, value);
			comma = ",";
		}
		putc('\n', out);
	}
	json_decref(rows);
}
