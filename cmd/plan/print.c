/* print.c - a plan as text and as JSON. */
#include <stdio.h>
#include <string.h>

#include "cmd/json_out.h"
#include "cmd/plan/plan.h"
#include "cmd/table_out.h"
#include "lib/base/log.h"
#include "lib/base/text.h"

static const char *const bound_names[GT_BOUNDS] = { [GT_BOUND_PRODUCTS] = "products",
	[GT_BOUND_VECTOR] = "other arithmetic",
	[GT_BOUND_MEMORY] = "memory",
	[GT_BOUND_LAUNCH] = "launches" };
static const char *const bound_keys[GT_BOUNDS] = { [GT_BOUND_PRODUCTS] = "products_s",
	[GT_BOUND_VECTOR] = "vector_s",
	[GT_BOUND_MEMORY] = "memory_s",
	[GT_BOUND_LAUNCH] = "launch_s" };

/* The axes of which a step's table has a row. */
static const enum gt_axis axes[] = { GT_AXIS_DATA, GT_AXIS_TENSOR, GT_AXIS_PIPELINE };
enum { AXES = sizeof(axes) / sizeof(*axes) };

/* ---- text ---- */

enum { INDENT = 15, WIDTH = 80 };

/* Print a line with its name, or without one, wrapped at WIDTH columns between words. */
static void print_line(const char *name, const char *text)
{
	int column = printf("%-*s", INDENT, name);
	size_t length;

	for (bool first = true; *text; text += length + (text[length] == ' '), first = false) {
		char word[400];

		length = strcspn(text, " ");
		snprintf(word, sizeof(word), "%.*s", (int)length, text);
		if (!first && column + 1 + (int)length > WIDTH) {
			printf("\n%*s", INDENT, "");
			column = INDENT;
		} else if (!first) {
			putchar(' ');
			column++;
		}
		gt_log_put(stdout, word);
		column += (int)length;
	}
	putchar('\n');
}

static void print_layout(const struct gt_plan_report *r)
{
	const struct gt_plan_layout *l = r->layout;
	const struct gt_train_outline *o = &l->outline;
	char count[GT_TEXT_SIZE], text[500];

	snprintf(text, sizeof(text), "%.400s, %s parameters", l->options.model,
	    gt_text_count(count, (double)o->parameters));
	print_line("model", text);
	printf("cluster        %d host%s of %d x ", r->cluster->hosts,
	    r->cluster->hosts == 1 ? "" : "s", r->cluster->devices);
	gt_log_put(stdout, r->cluster->device.name);
	printf("\nlayout         %s", gt_parallel_names[l->options.parallel.kind]);
	printf(", %d data-parallel x %d tensor-parallel x %d stage%s", o->data, o->tensor,
	    o->stages, o->stages == 1 ? "" : "s");
	if (o->stages > 1)
		printf(" of %d chunks", o->chunks);
	printf("\nbatch          %d x accumulate %d x %d = %lld samples in a step\n",
	    l->options.batch, l->options.accumulate, o->data, (long long)o->step_samples);
}

static void print_stage_memory(const struct gt_plan_layout *l, int stage)
{
	const struct gt_session_memory *m = &l->stages[stage].memory;
	const struct {
		uint64_t bytes;
		const char *of;
	} parts[] = { { m->parameters + m->buffers, "weights" }, { m->gradients, "gradients" },
		{ m->optimizer, "optimizer" }, { m->arena, "activations" },
		{ m->batches, "batches" }, { m->collectives, "collectives" } };
	char text[300] = "", name[24] = "", bytes[GT_TEXT_SIZE];
	size_t used = 0;

	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		if (parts[i].bytes)
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s %s",
			    used ? ", " : "", gt_text_bytes(bytes, parts[i].bytes), parts[i].of);
	if (l->stages[stage].recomputed)
		snprintf(text + used, sizeof(text) - used, ", %d of %d blocks recomputed",
		    l->stages[stage].recomputed, l->stages[stage].blocks);
	if (l->outline.stages > 1)
		snprintf(name, sizeof(name), "  stage %d", stage);
	print_line(name, text);
}

static void print_memory(const struct gt_plan_report *r)
{
	const struct gt_plan_layout *l = r->layout;
	char a[GT_TEXT_SIZE], b[GT_TEXT_SIZE];

	printf("memory         %s of the %s of a device%s\n", gt_text_bytes(a, l->memory_bytes),
	    gt_text_bytes(b, (uint64_t)r->cluster->device.memory_bytes),
	    l->fits ? "" : ": it does not fit");
	for (int i = 0; i < l->outline.stages; i++)
		print_stage_memory(l, i);
}

/* A row of the table of a step: milliseconds, and the part of the step. */
static void print_part(const char *what, double seconds, double step_s)
{
	if (seconds > 0)
		printf(
		    "  %-28s %10.3f ms  %5.1f %%\n", what, 1e3 * seconds, 100 * seconds / step_s);
}

static void print_times(const struct gt_plan_report *r)
{
	const struct gt_plan_layout *l = r->layout;
	const struct gt_step_times *t = &l->times[l->slowest];
	char what[64];

	printf("step           %.3f ms", 1e3 * t->step_s);
	if (l->outline.stages > 1)
		printf("; stage %d, which waits least:", l->slowest);
	putchar('\n');
	for (int i = 0; i < GT_BOUNDS; i++) {
		snprintf(what, sizeof(what), "compute: %s", bound_names[i]);
		print_part(what, t->bound_s[i], t->step_s);
	}
	for (int i = 0; i < AXES; i++) {
		snprintf(what, sizeof(what), "communication: %s", gt_axis_name(axes[i]));
		print_part(what, t->exposed_s[axes[i]], t->step_s);
	}
	print_part("waiting for other stages", t->bubble_s, t->step_s);
	print_part("optimizer", t->update_s, t->step_s);
	if (t->hidden_s > 0)
		printf("  %-28s %10.3f ms\n", "hidden communication", 1e3 * t->hidden_s);
}

static void print_rates(const struct gt_plan_report *r)
{
	const struct gt_plan_layout *l = r->layout;
	double tokens = l->samples_per_s * (double)l->outline.tokens_per_sample;
	char a[GT_TEXT_SIZE], b[GT_TEXT_SIZE];

	printf("rate           %s samples/s", gt_text_count(a, l->samples_per_s));
	if (tokens > 0)
		printf(", %s tokens/s", gt_text_count(b, tokens));
	if (l->peak_share > 0)
		printf(", %.1f %% of the devices' peak", 100 * l->peak_share);
	putchar('\n');
	if (r->cluster->price_per_hour > 0)
		printf("price          %.2f for 10^9 %s\n",
		    r->cluster->price_per_hour * l->outline.ranks / 3600 * 1e9 /
		        (tokens > 0 ? tokens : l->samples_per_s),
		    tokens > 0 ? "tokens" : "samples");
}

void gt_plan_print(const struct gt_plan_report *r)
{
	struct gt_plan_limit limit;
	char text[300];

	gt_plan_find_limit(&limit, r->layout, r->cluster);
	print_layout(r);
	print_memory(r);
	print_times(r);
	print_rates(r);
	snprintf(text, sizeof(text), "%s, %.0f %% of the step%s%s", limit.what, 100 * limit.part,
	    *limit.advice ? "; to change it: " : "", limit.advice);
	print_line("limit", text);
	printf("command        %s\n", r->command); /* one line, to be copied */
	if (r->note)
		print_line("note", r->note);
}

/* ---- the table of a search ---- */

enum { COLUMNS = 9, CELL = 48 };

static void print_row(struct gt_table *table, const struct gt_plan_layout *l)
{
	const struct gt_train_outline *o = &l->outline;
	char cells[COLUMNS][CELL], text[GT_TEXT_SIZE];
	const char *texts[COLUMNS];

	snprintf(cells[0], CELL, "%s%s", gt_parallel_names[l->options.parallel.kind],
	    l->options.recompute ? ", recompute" : "");
	snprintf(cells[1], CELL, "%d", o->data);
	snprintf(cells[2], CELL, "%d", o->tensor);
	snprintf(cells[3], CELL, "%d", o->stages);
	snprintf(cells[4], CELL, "%d", l->options.batch / o->chunks);
	snprintf(cells[5], CELL, "%d", l->options.accumulate * o->chunks);
	snprintf(cells[6], CELL, "%s", gt_text_bytes(text, l->memory_bytes));
	snprintf(cells[7], CELL, "%.3f", 1e3 * l->times[l->slowest].step_s);
	snprintf(cells[8], CELL, "%s", gt_text_count(text, l->samples_per_s));
	for (int i = 0; i < COLUMNS; i++)
		texts[i] = cells[i];
	gt_table_row(table, texts, COLUMNS);
}

void gt_plan_print_table(const struct gt_plan_layout *layouts, int count, int tried)
{
	static const char *const titles[COLUMNS] = { "mode", "data", "tensor", "stages",
		"micro-batch", "parts", "memory", "step ms", "samples/s" };
	struct gt_table table = { .out = stdout };

	for (int i = 1; i < COLUMNS; i++)
		table.right[i] = true;
	printf("the best of %d layout%s:\n", tried, tried == 1 ? "" : "s");
	for (int measuring = 1; measuring >= 0; measuring--) {
		table.measuring = measuring;
		gt_table_row(&table, titles, COLUMNS);
		for (int i = 0; i < count; i++)
			print_row(&table, &layouts[i]);
	}
	putchar('\n');
}

/* ---- JSON ---- */

/* Names of files may have bytes that are not UTF-8. */
static json_t *describe_text(const char *text)
{
	return gt_json_string_value(text, strlen(text));
}

static json_t *describe_memory(const struct gt_train_stage *s)
{
	const struct gt_session_memory *m = &s->memory;

	return json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "parameters",
	    (json_int_t)m->parameters, "gradients", (json_int_t)m->gradients, "optimizer",
	    (json_int_t)m->optimizer, "buffers", (json_int_t)m->buffers, "arena",
	    (json_int_t)m->arena, "batches", (json_int_t)m->batches, "collectives",
	    (json_int_t)m->collectives, "total", (json_int_t)m->total);
}

static json_t *describe_times(const struct gt_step_times *t)
{
	json_t *out =
	    json_pack("{s:f,s:f,s:f,s:f,s:f}", "step_s", t->step_s, "compute_s", t->compute_s,
	        "waiting_s", t->bubble_s, "optimizer_s", t->update_s, "hidden_s", t->hidden_s);
	json_t *bounds = json_object(), *exposed = json_object();

	for (int i = 0; i < GT_BOUNDS; i++)
		json_object_set_new(bounds, bound_keys[i], json_real(t->bound_s[i]));
	for (int i = 0; i < AXES; i++)
		json_object_set_new(
		    exposed, gt_axis_name(axes[i]), json_real(t->exposed_s[axes[i]]));
	json_object_set_new(out, "compute", bounds);
	json_object_set_new(out, "communication_s", exposed);
	return out;
}

static json_t *describe_stages(const struct gt_plan_layout *l)
{
	json_t *list = json_array();

	for (int i = 0; i < l->outline.stages; i++)
		json_array_append_new(list,
		    json_pack("{s:o,s:o,s:i,s:i}", "memory_bytes", describe_memory(&l->stages[i]),
		        "times", describe_times(&l->times[i]), "blocks", l->stages[i].blocks,
		        "recomputed_blocks", l->stages[i].recomputed));
	return list;
}

static json_t *describe_sent(const struct gt_plan_layout *l)
{
	json_t *sent = json_object();

	for (int i = 0; i < AXES; i++)
		json_object_set_new(sent, gt_axis_name(axes[i]), json_real(l->sent[axes[i]]));
	return sent;
}

json_t *gt_plan_describe(const struct gt_plan_report *r)
{
	const struct gt_plan_layout *l = r->layout;
	const struct gt_train_outline *o = &l->outline;
	struct gt_plan_limit limit;
	json_t *out;

	gt_plan_find_limit(&limit, l, r->cluster);
	out = json_pack("{s:o,s:I,s:{s:o,s:i,s:i,s:s,s:f},s:{s:s,s:i,s:i,s:i,s:i,s:i,s:i},s:I,s:b}",
	    "model", describe_text(l->options.model), "parameters", (json_int_t)o->parameters,
	    "cluster", "name", describe_text(r->cluster_name), "hosts", r->cluster->hosts,
	    "devices_per_host", r->cluster->devices, "device", r->cluster->device.name,
	    "device_memory_bytes", r->cluster->device.memory_bytes, "layout", "parallel",
	    gt_parallel_names[l->options.parallel.kind], "data", o->data, "tensor", o->tensor,
	    "stages", o->stages, "chunks", o->chunks, "batch", l->options.batch, "accumulate",
	    l->options.accumulate, "memory_bytes", (json_int_t)l->memory_bytes, "fits", l->fits);
	json_object_set_new(out, "slowest_stage", json_integer(l->slowest));
	json_object_set_new(out, "stages", describe_stages(l));
	json_object_set_new(out, "step_s", json_real(l->times[l->slowest].step_s));
	json_object_set_new(out, "sent_bytes", describe_sent(l));
	json_object_set_new(out, "flops_per_step", json_real(l->flops));
	json_object_set_new(out, "samples_per_step", json_integer(o->step_samples));
	json_object_set_new(out, "samples_per_s", json_real(l->samples_per_s));
	if (o->tokens_per_sample)
		json_object_set_new(out, "tokens_per_s",
		    json_real(l->samples_per_s * (double)o->tokens_per_sample));
	json_object_set_new(
	    out, "peak_share", l->peak_share > 0 ? json_real(l->peak_share) : json_null());
	json_object_set_new(out, "limit",
	    json_pack(
	        "{s:s,s:f,s:s}", "what", limit.what, "part", limit.part, "advice", limit.advice));
	json_object_set_new(out, "command", describe_text(r->command));
	json_object_set_new(out, "note", r->note ? json_string(r->note) : json_null());
	return out;
}
