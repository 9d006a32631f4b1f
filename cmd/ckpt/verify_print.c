/* verify_print.c - findings of gtrain ckpt verify as text and as JSON. */
#include <inttypes.h>
#include <string.h>

#include "cmd/ckpt/verify.h"
#include "cmd/json_out.h"
#include "cmd/table_out.h"
#include "lib/base/text.h"

static const char *const kinds[] = {
	[GT_FINDING_DAMAGE] = "damage",
	[GT_FINDING_UNREAD] = "unread",
	[GT_FINDING_GLOBAL] = "global",
	[GT_FINDING_NUMBER] = "number",
	[GT_FINDING_NOTE] = "note",
};

bool gt_ckpt_verify_fails(const struct gt_verify *v, bool strict)
{
	return v->kinds[GT_FINDING_DAMAGE] || v->kinds[GT_FINDING_UNREAD] ||
	       v->kinds[GT_FINDING_GLOBAL] || (strict && v->kinds[GT_FINDING_NUMBER]);
}

/* ---- text ---- */

static const char *verdict(const struct gt_verify_global *g)
{
	return g->allowed ? "allowed" : g->dangerous ? "DANGEROUS" : "not allowed";
}

static void print_globals(FILE *out, const struct gt_verify *v)
{
	struct gt_table table = { .out = out };

	for (int round = 0; round < 2; round++) {
		table.measuring = !round;
		for (size_t i = 0; i < v->global_count; i++) {
			const struct gt_verify_global *g = &v->globals[i];
			const char *cells[] = { "global", g->name, verdict(g),
				g->called ? "called" : "named", g->where };

			gt_table_row(&table, cells, 5);
		}
	}
}

void gt_ckpt_verify_finding(FILE *out, const struct gt_verify_finding *f,
    const struct gt_verify_finding *next, int indent, bool color)
{
	bool bad = f->kind != GT_FINDING_NUMBER && f->kind != GT_FINDING_NOTE;
	const char *on = bad ? "\033[31m" : "\033[33m";
	char message[GT_CMD_MESSAGE];

	fprintf(out, "%*s%s%s:%s ", indent, "", color ? on : "", kinds[f->kind],
	    color ? "\033[0m" : "");
	gt_log_put(out, gt_cmd_message(message, f->text));
	if (*f->hint && (!next || strcmp(f->hint, next->hint))) {
		fprintf(out, "\n%*s  hint: ", indent, "");
		gt_log_put(out, gt_cmd_message(message, f->hint));
	}
	fputc('\n', out);
}

void gt_ckpt_verify_text(FILE *out, const struct gt_verify *v, bool color)
{
	char file[GT_TEXT_SIZE], checked[GT_TEXT_SIZE], dead[GT_TEXT_SIZE];

	fprintf(out, "%s, %s: %zu tensor%s",
	    *v->format      ? v->format
	    : v->over_limit ? "not unpacked"
	                    : "not a checkpoint",
	    gt_text_bytes(file, v->file_bytes), v->tensors, v->tensors == 1 ? "" : "s");
	if (v->records)
		fprintf(out, ", %zu records, %s compared with checksums", v->records,
		    gt_text_bytes(checked, v->checked_bytes));
	if (v->dead_bytes)
		fprintf(out, ", %s dead", gt_text_bytes(dead, v->dead_bytes));
	fputc('\n', out);
	print_globals(out, v);
	for (size_t i = 0; i < v->finding_count; i++)
		gt_ckpt_verify_finding(out, &v->findings[i],
		    i + 1 < v->finding_count ? &v->findings[i + 1] : NULL, 0, color);
	if (!v->finding_count)
		fputs("nothing is wrong\n", out);
}

/* ---- JSON ---- */

static void put_finding(FILE *out, const struct gt_verify_finding *f)
{
	char message[GT_CMD_MESSAGE];

	fprintf(out, "{\"kind\": \"%s\", \"text\": ", kinds[f->kind]);
	gt_json_text(out, gt_cmd_message(message, f->text));
	fputs(", \"hint\": ", out);
	gt_json_text(out, gt_cmd_message(message, f->hint));
	fputc('}', out);
}

static void put_global(FILE *out, const struct gt_verify_global *g)
{
	fputs("{\"name\": ", out);
	gt_json_text(out, g->name);
	fputs(", \"where\": ", out);
	gt_json_text(out, g->where);
	fprintf(out,
	    ", \"at\": %zu, \"count\": %zu, \"called\": %s, \"allowed\": %s, "
	    "\"dangerous\": %s}",
	    g->at, g->count, g->called ? "true" : "false", g->allowed ? "true" : "false",
	    g->dangerous ? "true" : "false");
}

void gt_ckpt_verify_json_members(
    FILE *out, const struct gt_verify *v, const struct gt_repair *repair, bool strict)
{
	fputs("\"format\": ", out);
	if (*v->format)
		gt_json_text(out, v->format);
	else
		fputs("null", out);
	fprintf(out, ", \"ok\": %s", gt_ckpt_verify_fails(v, strict) ? "false" : "true");
	fputs(", \"findings\": [", out);
	for (size_t i = 0; i < v->finding_count; i++) {
		fputs(i ? ",\n  " : "\n  ", out);
		put_finding(out, &v->findings[i]);
	}
	fputs("], \"globals\": [", out);
	for (size_t i = 0; i < v->global_count; i++) {
		fputs(i ? ",\n  " : "\n  ", out);
		put_global(out, &v->globals[i]);
	}
	fprintf(out,
	    "], \"records\": %zu, \"tensors\": %zu, \"checked_bytes\": %" PRIu64
	    ", \"file_bytes\": %" PRIu64 ", \"dead_bytes\": %" PRIu64,
	    v->records, v->tensors, v->checked_bytes, v->file_bytes, v->dead_bytes);
	if (repair)
		fprintf(out, ", \"cut_bytes\": %" PRIu64, repair->old_bytes - repair->new_bytes);
}

void gt_ckpt_verify_json(
    FILE *out, const struct gt_verify *v, const struct gt_repair *repair, bool strict)
{
	putc('{', out);
	gt_ckpt_verify_json_members(out, v, repair, strict);
	fputs("}\n", out);
}
