/* plan.c - the plan of a run, as text and as JSON. */
#include "cmd/train/plan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/table_out.h"
#include "lib/base/text.h"

static json_int_t field(const json_t *plan, const char *name)
{
	return json_integer_value(json_object_get(plan, name));
}

/* `key` is the key of the JSON document. */
static void print_bytes(const json_t *memory, const char *key)
{
	const char *name = !strcmp(key, "arena")             ? "activations"
	                   : !strcmp(key, "checkpoint_copy") ? "copy of a checkpoint"
	                   : !strcmp(key, "pinned_checkpoint_copy")
	                       ? "host memory for the copy of a checkpoint"
	                       : key;
	char size[GT_TEXT_SIZE];

	if (json_is_null(json_object_get(memory, key)))
		printf("  %-12s not known, and not counted\n", name);
	else
		printf("  %-12s %s\n", name, gt_text_bytes(size, (uint64_t)field(memory, key)));
}

static void print_stages(const json_t *plan)
{
	const json_t *stages = json_object_get(plan, "stages"), *stage;
	char a[GT_TEXT_SIZE], b[GT_TEXT_SIZE];
	size_t i;

	if (stages)
		printf("pipeline       %zu stages, %lld chunks\n", json_array_size(stages),
		    (long long)field(plan, "chunks"));
	json_array_foreach(stages, i, stage)
	{
		printf(
		    "  stage %-6zu %4.1f %% of the work, %lld parameters from %s on, %s, %s sent per step\n",
		    i, 100 * json_real_value(json_object_get(stage, "work")),
		    (long long)field(stage, "parameters"),
		    json_string_value(json_object_get(stage, "first")),
		    gt_text_bytes(a, (uint64_t)field(stage, "memory_bytes")),
		    gt_text_bytes(b, (uint64_t)field(stage, "communicated_bytes_per_step")));
	}
}

static void print_plan_text(const json_t *plan)
{
	const json_t *memory = json_object_get(plan, "memory_bytes");
	static const char *const parts[] = { "parameters", "gradients", "optimizer", "buffers",
		"arena", "batches", "collectives", "checkpoint_copy", "total",
		"pinned_checkpoint_copy" };
	char a[GT_TEXT_SIZE], b[GT_TEXT_SIZE];

	printf("model          %s, %lld parameters",
	    json_string_value(json_object_get(plan, "model")),
	    (long long)field(plan, "parameters"));
	if (field(plan, "frozen_parameters"))
		printf(", %lld of them frozen", (long long)field(plan, "frozen_parameters"));
	putchar('\n');
	printf("data           %lld samples, %lld steps per epoch\n",
	    (long long)field(plan, "samples"), (long long)field(plan, "steps_per_epoch"));
	printf("steps          %lld, of %lld x %lld samples", (long long)field(plan, "steps"),
	    (long long)field(plan, "accumulate"), (long long)field(plan, "batch"));
	if (field(plan, "ranks") > 1)
		printf(" on each of %lld ranks", (long long)field(plan, "ranks"));
	if (json_object_get(plan, "stages"))
		printf(", %zu of which are stages of one model",
		    json_array_size(json_object_get(plan, "stages")));
	if (json_object_get(plan, "tensor_parallel"))
		printf(", %lld of which share each layer and its samples",
		    (long long)field(plan, "tensor_parallel"));
	putchar('\n');
	printf("work           %s FLOP per step in ",
	    gt_text_count(a, (double)field(plan, "flops_per_step")));
	if (field(plan, "runs") > 1)
		printf("%lld x ", (long long)field(plan, "runs"));
	printf("%lld kernels\n", (long long)field(plan, "kernels"));
	printf("communication  %lld bytes per step\n",
	    (long long)field(plan, "communicated_bytes_per_step"));
	print_stages(plan);
	printf("recompute      %lld of %lld blocks\n", (long long)field(plan, "recomputed_blocks"),
	    (long long)field(plan, "blocks"));
	printf("memory per device%s\n", json_object_get(plan, "stages") ? ", of stage 0" : "");
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (json_object_get(memory, parts[i]))
			print_bytes(memory, parts[i]);
	printf("activations would take %s if temporaries shared no memory\n",
	    gt_text_bytes(b, (uint64_t)field(plan, "arena_bytes_without_sharing")));
}

/* ---- time and memory of ops ---- */

enum { COLUMNS = 5 };

static double number_of_member(const json_t *object, const char *name)
{
	return json_number_value(json_object_get(object, name));
}

static void op_row(struct gt_table *table, const char *name, const json_t *op, double runs)
{
	char cells[COLUMNS - 1][GT_TEXT_SIZE];

	snprintf(cells[0], GT_TEXT_SIZE, "%.0f", runs * number_of_member(op, "nodes"));
	snprintf(cells[1], GT_TEXT_SIZE, "%.0f", runs * number_of_member(op, "launches"));
	snprintf(cells[2], GT_TEXT_SIZE, "%.3f", number_of_member(op, "bytes") / 1e9);
	snprintf(cells[3], GT_TEXT_SIZE, "%.3f", number_of_member(op, "flops") / 1e9);
	gt_table_row(table, (const char *[COLUMNS]){ name, cells[0], cells[1], cells[2], cells[3] },
	    COLUMNS);
}

/* "24 to 26 in each of 12 blocks" */
static void print_blocks(const json_t *plan, double runs)
{
	const json_t *blocks = json_object_get(plan, "model_blocks"), *block;
	double least = INFINITY, max = 0;
	size_t i;

	json_array_foreach(blocks, i, block)
	{
		least = fmin(least, runs * number_of_member(block, "launches"));
		max = fmax(max, runs * number_of_member(block, "launches"));
	}
	if (json_array_size(blocks))
		printf("launches       %.0f to %.0f in each of %zu blocks\n", least, max,
		    json_array_size(blocks));
}

/* "recognized     4 x attention, 9 x rms norm" */
static void print_recognized(const json_t *plan)
{
	json_t *found = json_object_get(plan, "recognized"), *count;
	const char *name, *before = "recognized     ";

	json_object_foreach(found, name, count)
	{
		printf("%s%lld x %s", before, (long long)json_integer_value(count), name);
		before = ", ";
	}
	if (json_object_size(found))
		putchar('\n');
}

/* By op, per step, those that move most bytes first. */
static void print_ops(const json_t *plan)
{
	static const char *const head[COLUMNS] = { "op", "nodes", "launches", "GB", "GFLOP" };
	const json_t *ops = json_object_get(plan, "ops"), *op;
	double runs = (double)field(plan, "runs");
	json_t *total =
	    json_pack("{s:i,s:i,s:f,s:f}", "nodes", (int)field(plan, "kernels"), "launches",
	        (int)field(plan, "launches"), "bytes", number_of_member(plan, "bytes_per_step"),
	        "flops", number_of_member(plan, "flops_per_step"));
	struct gt_table table = { .out = stdout, .right = { false, true, true, true, true } };
	size_t i;

	print_recognized(plan);
	print_blocks(plan, runs);
	for (int round = 0; round < 2; round++) {
		table.measuring = !round;
		gt_table_row(&table, head, COLUMNS);
		json_array_foreach(ops, i, op)
		    op_row(&table, json_string_value(json_object_get(op, "name")), op, runs);
		op_row(&table, "total", total, runs);
	}
	json_decref(total);
}

int gt_cmd_print_plan(const struct gt_train *t, bool json, bool verbose, struct gt_err *err)
{
	json_t *plan = gt_train_describe(t, err);

	if (!plan)
		return GT_ENOMEM;
	if (json)
		return gt_cmd_print_json(plan, JSON_INDENT(2), err);
	print_plan_text(plan);
	if (verbose)
		print_ops(plan);
	json_decref(plan);
	return 0;
}
