/* verify.c - gtrain train --verify-parallel: modes side by side with one rank. */
#include "cmd/train/verify.h"

#include <stdlib.h>
#include <string.h>

#include "cmd/json_out.h"
#include "cmd/table_out.h"
#include "cmd/train/threads.h"
#include "lib/base/text.h"
#include "lib/comm/comm.h"
#include "lib/train/verify/verify.h"

enum { COLUMNS = 7, CELL = 24 };

static void print_verify_row(struct gt_table *table, const struct gt_verify_row *row)
{
	char cells[5][CELL], verdict[GT_CMD_MESSAGE + CELL], message[GT_CMD_MESSAGE];
	const char *all[COLUMNS] = { row->mode, cells[0], cells[1], cells[2], cells[3], cells[4],
		verdict };

	snprintf(cells[0], CELL, "%d", row->ranks);
	snprintf(cells[1], CELL, "%lld", (long long)row->last_batch);
	snprintf(cells[2], CELL, "%.1e", gt_text_real(row->loss));
	snprintf(cells[3], CELL, "%.1e", gt_text_real(row->gradient));
	snprintf(cells[4], CELL, "%.1e", gt_text_real(row->weight));
	snprintf(verdict, sizeof(verdict), "%s", row->good ? "same" : "differs");
	if (*row->why) {
		snprintf(
		    verdict, sizeof(verdict), "left out: %s", gt_cmd_message(message, row->why));
		for (int i = 1; i < COLUMNS - 1; i++)
			all[i] = "-";
	}
	gt_table_row(table, all, COLUMNS);
}

static bool same_bounds(const struct gt_verify_row *a, const struct gt_verify_row *b)
{
	return !memcmp(&a->bounds, &b->bounds, sizeof(a->bounds));
}

/* Print bounds that are not those of the first row, once for all modes that have them. */
static void print_other_bounds(const struct gt_verify_row *rows, int count)
{
	for (int i = 1; i < count; i++) {
		int before = 0, behind = 0;

		if (*rows[i].why || same_bounds(&rows[i], rows))
			continue;
		for (int k = 1; k < count; k++)
			if (k != i && !*rows[k].why && same_bounds(&rows[i], &rows[k]))
				*(k < i ? &before : &behind) += 1;
		if (before)
			continue;
		printf("; of %s", rows[i].mode);
		if (behind)
			printf(" and %d more", behind);
		printf(": %g, %g, %g", rows[i].bounds.loss, rows[i].bounds.gradient,
		    rows[i].bounds.weight);
	}
}

static void print_table(const struct gt_verify_row *rows, int count)
{
	static const char *const head[COLUMNS] = { "mode", "ranks", "last batch", "loss",
		"gradient", "weight", "" };
	struct gt_table table = {
		.out = stdout, .measuring = true, .right = { false, true, true, true, true, true }
	};

	for (int round = 0; round < 2; round++, table.measuring = false) {
		gt_table_row(&table, head, COLUMNS);
		for (int i = 0; i < count; i++)
			print_verify_row(&table, &rows[i]);
	}
	printf("largest relative differences from one rank over %d steps; bounds: %g, %g, %g",
	    GT_VERIFY_STEPS, rows->bounds.loss, rows->bounds.gradient, rows->bounds.weight);
	print_other_bounds(rows, count);
	putchar('\n');
}

/* A mode that was left out has no number. */
static json_t *json_row_number(const struct gt_verify_row *row, double x)
{
	return *row->why ? json_null() : gt_json_number(x);
}

static int print_verify_json(const struct gt_verify_row *rows, int count, struct gt_err *err)
{
	json_t *modes = json_array();

	for (int i = 0; i < count; i++) {
		const struct gt_verify_row *r = &rows[i];
		char message[GT_CMD_MESSAGE];

		json_array_append_new(modes,
		    json_pack("{s:s,s:i,s:I,s:o,s:o,s:o,s:{s:f,s:f,s:f},s:o,s:s,s:s,s:s,s:I}",
		        "mode", r->mode, "ranks", r->ranks, "last_batch", (json_int_t)r->last_batch,
		        "loss", json_row_number(r, r->loss), "gradient",
		        json_row_number(r, r->gradient), "weight", json_row_number(r, r->weight),
		        "bounds", "loss", r->bounds.loss, "gradient", r->bounds.gradient, "weight",
		        r->bounds.weight, "same", *r->why ? json_null() : json_boolean(r->good),
		        "why_not", gt_cmd_message(message, r->why), "first", r->what, "tensor",
		        r->tensor, "step", (json_int_t)r->step));
	}
	return gt_cmd_print_json(
	    json_pack("{s:i,s:o}", "steps", GT_VERIFY_STEPS, "modes", modes), 0, err);
}

static int check_rows(const struct gt_verify_row *rows, int count, struct gt_err *err)
{
	for (int i = 0; i < count; i++) {
		const struct gt_verify_row *r = &rows[i];
		const char *of = *r->tensor ? " of '" : "", *end = *r->tensor ? "'" : "";

		if (r->good)
			continue;
		gt_err_set(err, GT_EDIVERGED,
		    "%s on %d ranks is not one rank: the %s%s%s%s differs by %.1e at step %lld",
		    r->mode, r->ranks, r->what, of, r->tensor, end, gt_text_real(r->difference),
		    (long long)r->step);
		return gt_err_hint(
		    err, "this is a mistake of gtrain's, not yours; please report it");
	}
	return 0;
}

static void enter_verify_rank(void *self, struct gt_group *group)
{
	const int64_t *threads = self;

	(void)group;
	gt_cmd_set_threads(*threads);
}

int gt_cmd_train_verify(const struct gt_train_cli *cli, struct gt_err *err)
{
	struct gt_verify_row *rows;
	int64_t threads;
	struct gt_verify_options o = { .train = &cli->train,
		.ranks = gt_cmd_train_thread_ranks(cli),
		.threads = { .shm = { .timeout_s = cli->comm.timeout_s },
		    .ring = cli->comm.backend == GT_COMM_RING },
		.enter = enter_verify_rank,
		.self = &threads };
	int count = gt_verify_count(o.ranks), rc;

	rows = gt_calloc((size_t)count, sizeof(*rows), err);
	rc = rows ? gt_train_check_options(&cli->train, o.ranks, err) : GT_ENOMEM;
	if (!rc)
		rc = gt_cmd_divide_processors(&threads, cli->threads, o.ranks, err);
	if (!rc)
		rc = gt_verify_parallel(rows, &o, err);
	if (!rc && cli->common.json)
		rc = print_verify_json(rows, count, err);
	else if (!rc)
		print_table(rows, count);
	if (!rc)
		rc = check_rows(rows, count, err);
	free(rows);
	return rc;
}
