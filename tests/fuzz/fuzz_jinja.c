/* fuzz_jinja.c - fuzz target: a chat template, and perhaps a NUL and the JSON of its variables. */
#include <stdlib.h>
#include <string.h>

#include "lib/data/jinja/jinja.h"
#include "tests/fuzz/fuzz.h"

static const char usual[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \" a \\n\"}, {\"role\": \"user\","
    "\"content\": \"b\\u00e9\"}, {\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{"
    "\"function\": {\"name\": \"f\", \"arguments\": {\"x\": 1.5, \"y\": [true, null, {}]}}}]}],"
    "\"tools\": [], \"add_generation_prompt\": true, \"bos_token\": \"<s>\", \"n\": 3}";

static json_t *read_variables(const char *text, size_t size)
{
	json_t *json = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);

	if (json_is_object(json))
		return json;
	json_decref(json);
	return json_loads(usual, 0, NULL);
}

/* The text ends with a zero byte, and the marks follow each other in it. */
static void check_text(const struct gt_jinja_text *text)
{
	size_t at = 0;

	fuzz_require(text->text && !text->text[text->size]);
	for (size_t i = 0; i < text->mark_count; i++) {
		fuzz_require(text->marks[i].begin <= text->marks[i].end);
		fuzz_require(text->marks[i].end <= text->size);
		fuzz_require(at <= text->marks[i].end);
		at = text->marks[i].end;
	}
}

void fuzz_jinja(const unsigned char *bytes, size_t size)
{
	const unsigned char *end = size ? memchr(bytes, 0, size) : NULL;
	const size_t length = end ? (size_t)(end - bytes) : size;
	const struct gt_jinja_date date = { 2025, 3, 9 };
	struct gt_jinja_text out = { 0 };
	struct gt_err err = GT_ERR_INIT;
	struct gt_jinja *t;
	json_t *variables;
	int rc = gt_jinja_parse(&t, size ? (const char *)bytes : "", length, &err);

	if (rc) {
		fuzz_check_error(rc, &err);
		return;
	}
	variables = read_variables(end ? (const char *)end + 1 : "", end ? size - length - 1 : 0);
	fuzz_require(variables);
	rc = gt_jinja_render(&out, t, variables, length % 2 ? &date : NULL, &err);
	if (rc)
		fuzz_check_error(rc, &err);
	else
		check_text(&out);
	gt_jinja_text_release(&out);
	json_decref(variables);
	gt_jinja_close(t);
}
