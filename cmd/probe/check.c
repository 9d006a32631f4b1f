/* check.c - problems of a machine, as text and as JSON. */
#include <string.h>

#include "cmd/probe/print.h"

static const char *const severities[] = {
	[GT_SEVERITY_WARNING] = "warning", [GT_SEVERITY_ERROR] = "error"
};

static void print_count(FILE *out, size_t count, const char *what)
{
	fprintf(out, "%zu %s%s", count, what, count == 1 ? "" : "s");
}

static void print_finding(FILE *out, bool color, const struct gt_finding *f, int width)
{
	const char *paint = f->severity == GT_SEVERITY_ERROR ? "\033[31m" : "\033[33m";

	fprintf(
	    out, "%s%s:%s ", color ? paint : "", severities[f->severity], color ? "\033[0m" : "");
	gt_probe_put_text(out, f->text, (int)strlen(severities[f->severity]) + 2, 2, width);
	fputs("\n  fix: ", out);
	gt_probe_put_text(out, f->fix, 7, 7, width);
	fputc('\n', out);
}

void gt_probe_print_findings(FILE *out, bool color, const struct gt_findings *findings, int width)
{
	fprintf(out, "\n%scheck%s     ", color ? "\033[1m" : "", color ? "\033[0m" : "");
	if (!findings->count)
		fputs("no problem found", out);
	if (findings->errors)
		print_count(out, findings->errors, "error");
	if (findings->count > findings->errors) {
		fputs(findings->errors ? ", " : "", out);
		print_count(out, findings->count - findings->errors, "warning");
	}
	fputc('\n', out);
	for (size_t i = 0; i < findings->count; i++)
		print_finding(out, color, &findings->item[i], width);
}

json_t *gt_probe_findings_json(const struct gt_findings *findings)
{
	json_t *list = json_array();

	for (size_t i = 0; i < findings->count; i++) {
		const struct gt_finding *f = &findings->item[i];
		json_t *finding = json_pack("{s:s, s:s, s:o, s:s}", "id", f->id, "severity",
		    severities[f->severity], "text", gt_probe_text_json(f->text), "fix", f->fix);

		if (json_array_append_new(list, finding)) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}
