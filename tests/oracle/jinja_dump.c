/* jinja_dump.c - render chat templates, for a script that compares the texts with others. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/python_json.h"
#include "lib/data/jinja/jinja.h"

/* Render {"template", "variables", "date"}. The result is {"text", "marks"} or {"error"}. */
static json_t *render(const json_t *job)
{
	const json_t *source = json_object_get(job, "template");
	const char *day = json_string_value(json_object_get(job, "date"));
	struct gt_jinja_date date = { 0 };
	struct gt_jinja_text out = { 0 };
	struct gt_jinja *t = NULL;
	struct gt_err err = GT_ERR_INIT;
	json_t *result, *marks = json_array();
	int rc = day ? gt_jinja_date_parse(&date, day, &err) : 0;

	if (!rc)
		rc =
		    gt_jinja_parse(&t, json_string_value(source), json_string_length(source), &err);
	if (!rc)
		rc = gt_jinja_render(&out, t, json_object_get(job, "variables"), &date, &err);
	for (size_t i = 0; !rc && i < out.mark_count; i++)
		json_array_append_new(
		    marks, json_pack("[i,i]", (int)out.marks[i].begin, (int)out.marks[i].end));
	if (rc) {
		json_decref(marks);
		result = json_pack("{s:s}", "error", err.text);
	} else {
		result = json_pack("{s:s%,s:o}", "text", out.text, out.size, "marks", marks);
	}
	gt_jinja_text_release(&out);
	gt_jinja_close(t);
	return result;
}

/* jinja_dump: each line of standard input is a job, and each line of standard output its result. */
int main(void)
{
	char *line = NULL;
	size_t capacity = 0;
	ssize_t length;

	while ((length = getline(&line, &capacity, stdin)) > 0) {
		json_error_t where;
		json_t *job = gt_python_json_loadb(line, (size_t)length, JSON_ALLOW_NUL, &where);
		json_t *result = job ? render(job) : json_pack("{s:s}", "error", where.text);

		json_dumpf(result, stdout, JSON_COMPACT);
		putchar('\n');
		json_decref(result);
		json_decref(job);
	}
	free(line);
	return fflush(stdout) ? 1 : 0;
}
