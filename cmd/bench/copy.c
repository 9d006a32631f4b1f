/* copy.c - gtrain bench copy: how fast bytes move between the host and devices, by size. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/bench/measure.h"
#include "cmd/bench/options.h"
#include "cmd/json_out.h"
#include "cmd/table_out.h"
#include "lib/base/mem.h"
#include "lib/base/text.h"
#include "lib/device/bandwidth.h"

enum { COLUMNS = 7, CELL = 48 };

/* Copies of one kind, in all sizes. */
struct series {
	enum gt_copy kind;
	size_t from, to; /* devices; the same where there is one */
	int table;       /* series with the same number are columns of one table */
	bool direct;     /* between two: the driver says that they go straight */
	double time_s[GT_BENCH_MAX_SIZES];
};

struct bench {
	struct gt_measure measure;
	struct gt_device_name *names;
	size_t count;
	int64_t sizes[GT_BENCH_MAX_SIZES];
	int size_count;
	struct gt_copies *copies;
	struct series *series;
	size_t series_count;
	int tables;
};

/* ---- measuring ---- */

static int measure_copies(
    struct bench *b, enum gt_copy kind, size_t from, size_t to, struct gt_err *err)
{
	struct series *s = &b->series[b->series_count];
	int rc = 0;

	if (!gt_copies_has(b->copies, kind))
		return 0;
	*s = (struct series){ .kind = kind, .from = from, .to = to, .table = b->tables };
	s->direct = from != to && gt_copies_direct(b->copies, from, to) &&
	            (kind == GT_COPY_PEER || gt_copies_direct(b->copies, to, from));
	b->series_count++;
	for (int i = 0; !rc && i < b->size_count; i++)
		rc = gt_copies_measure(&s->time_s[i], b->copies, kind, from, to,
		    (size_t)b->sizes[i], &b->measure, err);
	return rc;
}

/* Measure the copies of each device, then of each pair: there, back, and both at once. */
static int measure_all(struct bench *b, struct gt_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < b->count; i++, b->tables++)
		for (enum gt_copy kind = 0; !rc && kind <= GT_COPY_WITHIN; kind++)
			rc = measure_copies(b, kind, i, i, err);
	for (size_t i = 0; i < b->count; i++)
		for (size_t k = i + 1; !rc && k < b->count; k++, b->tables++) {
			rc = measure_copies(b, GT_COPY_PEER, i, k, err);
			if (!rc)
				rc = measure_copies(b, GT_COPY_PEER, k, i, err);
			if (!rc)
				rc = measure_copies(b, GT_COPY_PEERS, i, k, err);
		}
	return rc;
}

static int read_options(struct bench *b, const struct gt_bench_copy_cli *cli, struct gt_err *err)
{
	int rc = gt_bench_read_sizes(b->sizes, &b->size_count, cli->sizes, err);

	b->measure = (struct gt_measure){ .rounds = (int)cli->rounds, .seconds = cli->seconds };
	if (!rc)
		rc = gt_bench_read_devices(&b->names, &b->count, cli->device, err);
	if (rc)
		return rc;
	b->series = gt_calloc(
	    b->count * (GT_COPY_WITHIN + 1) + b->count * b->count * 2, sizeof(*b->series), err);
	if (!b->series)
		return GT_ENOMEM;
	return gt_bench_memory_hint(gt_copies_open(&b->copies, b->names, b->count,
	                                (size_t)b->sizes[b->size_count - 1], err),
	    err);
}

/* ---- the table ---- */

static double bytes_per_s(const struct bench *b, const struct series *s, int size)
{
	double ways = s->kind == GT_COPY_PEERS ? 2 : 1;

	return ways * (double)b->sizes[size] / s->time_s[size];
}

/* "host" for an end that is no device. */
static const char *end_name(
    char buffer[GT_DEVICE_NAME_SIZE], const struct bench *b, const struct series *s, bool source)
{
	bool in = s->kind == GT_COPY_PINNED_IN || s->kind == GT_COPY_PAGEABLE_IN;
	bool out = s->kind == GT_COPY_PINNED_OUT || s->kind == GT_COPY_PAGEABLE_OUT;

	if (source ? in : out)
		return "host";
	return gt_bench_device(buffer, &b->names[source ? s->from : s->to]);
}

static void put_title(char *cell, const struct bench *b, const struct series *s)
{
	static const char *const titles[GT_COPIES] = { "pinned in", "pageable in", "pinned out",
		"pageable out", "within" };
	char from[GT_DEVICE_NAME_SIZE], to[GT_DEVICE_NAME_SIZE];

	if (s->kind == GT_COPY_PEER)
		snprintf(
		    cell, CELL, "%s > %s", end_name(from, b, s, true), end_name(to, b, s, false));
	else
		snprintf(
		    cell, CELL, "%s", s->kind == GT_COPY_PEERS ? "both ways" : titles[s->kind]);
}

/* Row -1 has the titles. */
static void print_copy_row(
    struct gt_table *table, const struct bench *b, const struct series *s, size_t count, int size)
{
	char cells[COLUMNS][CELL], text[GT_TEXT_SIZE];
	const char *texts[COLUMNS];

	if (size < 0)
		snprintf(cells[0], CELL, "size");
	else
		snprintf(cells[0], CELL, "%s", gt_text_bytes(text, (uint64_t)b->sizes[size]));
	for (size_t i = 0; i < count; i++)
		if (size < 0)
			put_title(cells[i + 1], b, &s[i]);
		else
			gt_bench_rate(cells[i + 1], CELL, bytes_per_s(b, &s[i], size), 1e9);
	for (size_t i = 0; i <= count; i++)
		texts[i] = cells[i];
	gt_table_row(table, texts, count + 1);
}

static void print_table(const struct bench *b, const struct series *s, size_t count)
{
	struct gt_table table = { .out = stdout };

	for (size_t i = 0; i <= count; i++)
		table.right[i] = true;
	for (int measuring = 1; measuring >= 0; measuring--) {
		table.measuring = measuring;
		for (int size = -1; size < b->size_count; size++)
			print_copy_row(&table, b, s, count, size);
	}
}

/* The line above a table: a device, or a pair. */
static int print_heading(const struct bench *b, const struct series *s, struct gt_err *err)
{
	char from[GT_DEVICE_NAME_SIZE], to[GT_DEVICE_NAME_SIZE], text[200];
	const struct gt_device_name *name = &b->names[s->from];
	int rc;

	gt_bench_device(from, name);
	if (s->from != s->to) {
		printf("\n%s and %s: %s\n", from, gt_bench_device(to, &b->names[s->to]),
		    s->direct ? "copies are direct" : "copies go through the host");
		return 0;
	}
	rc = name->backend->describe(name->index, text, sizeof(text), err);
	if (!rc)
		printf("\n%s: %s\n", from, text);
	return rc;
}

static int print_copy_text(const struct bench *b, struct gt_err *err)
{
	size_t count;
	int rc = 0;

	printf("copies in GB/s, medians of %d rounds\n", b->measure.rounds);
	for (size_t i = 0; !rc && i < b->series_count; i += count) {
		const struct series *s = &b->series[i];

		for (count = 1; i + count < b->series_count && s[count].table == s->table;)
			count++;
		rc = print_heading(b, s, err);
		if (!rc)
			print_table(b, s, count);
	}
	return rc;
}

static void print_copy_csv(const struct bench *b)
{
	char from[GT_DEVICE_NAME_SIZE], to[GT_DEVICE_NAME_SIZE];

	puts("copy,from,to,bytes,time_s,bytes_per_s");
	for (size_t i = 0; i < b->series_count; i++)
		for (int size = 0; size < b->size_count; size++) {
			const struct series *s = &b->series[i];

			printf("%s,%s,%s,%lld,%.9f,%.0f\n", gt_copy_names[s->kind],
			    end_name(from, b, s, true), end_name(to, b, s, false),
			    (long long)b->sizes[size], s->time_s[size], bytes_per_s(b, s, size));
		}
}

static int print_copy_json(const struct bench *b, struct gt_err *err)
{
	char from[GT_DEVICE_NAME_SIZE], to[GT_DEVICE_NAME_SIZE];
	json_t *rows = json_array();

	for (size_t i = 0; i < b->series_count; i++)
		for (int size = 0; size < b->size_count; size++) {
			const struct series *s = &b->series[i];

			json_array_append_new(rows,
			    json_pack("{ss ss ss sI sf sf so}", "copy", gt_copy_names[s->kind],
			        "from", end_name(from, b, s, true), "to", end_name(to, b, s, false),
			        "bytes", (json_int_t)b->sizes[size], "time_s", s->time_s[size],
			        "bytes_per_s", bytes_per_s(b, s, size), "direct",
			        s->from == s->to ? json_null() : json_boolean(s->direct)));
		}
	return gt_cmd_print_json(
	    json_pack("{si so}", "rounds", b->measure.rounds, "rows", rows), JSON_INDENT(2), err);
}

static int bench_copy(void *values, struct gt_cmd_env *env, struct gt_err *err)
{
	const struct gt_bench_copy_cli *cli = values;
	struct bench b = { 0 };
	int rc;

	(void)env;
	gt_cmd_set_threads(0);
	rc = read_options(&b, cli, err);
	if (!rc)
		rc = measure_all(&b, err);
	if (!rc && cli->common.json)
		rc = print_copy_json(&b, err);
	else if (!rc && cli->csv)
		print_copy_csv(&b);
	else if (!rc)
		rc = print_copy_text(&b, err);
	gt_copies_close(b.copies);
	free(b.series);
	free(b.names);
	return rc;
}

const struct gt_cmd_work gt_cmd_bench_copy = { gt_bench_copy_options,
	sizeof(struct gt_bench_copy_cli), bench_copy };
