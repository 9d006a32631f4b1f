/* gemm.c - gtrain bench gemm: how fast products of matrices are, by shape and type. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/bench/measure.h"
#include "cmd/bench/options.h"
#include "cmd/json_out.h"
#include "cmd/table_out.h"
#include "lib/base/half.h"
#include "lib/base/philox.h"
#include "lib/base/text.h"
#include "lib/graph/ops/ops.h"
#include "lib/graph/pass.h"
#include "lib/graph/plan.h"

enum { MAX_SHAPES = 64, TYPES = 4, MOST = 1 << 24, COLUMNS = 9, CELL = 64 };

/* C [m, n] = A [m, k] B [k, n]. */
struct shape {
	int64_t m, n, k;
};

struct row {
	char device[GT_DEVICE_NAME_SIZE];
	struct shape shape;
	int type;
	double time_s, peak; /* peak 0: not known */
	const char *no_time; /* why it was not measured, or NULL */
};

struct bench {
	struct gt_measure measure;
	struct gt_device_name *names;
	size_t name_count;
	struct shape shapes[MAX_SHAPES];
	int shape_count;
	int types[TYPES], type_count; /* indices into types */
	struct row *rows;
	int row_count;
};

/* A product made runnable. */
struct product {
	struct gt_device *device;
	struct gt_graph *graph;
	struct gt_store *store;
	struct gt_plan *plan;
	struct gt_value *a, *b;
	void *arena;
	size_t arena_bytes;
};

static const struct {
	const char *name;
	enum gt_dtype dtype;
	bool tf32;
} types[TYPES] = { { "fp32", GT_F32, false }, { "fp16", GT_F16, false }, { "bf16", GT_BF16, false },
	{ "tf32", GT_F32, true } };

/*
 * Unless shapes are given: products with M = N = K, and those of gpt2 (queries, keys and values;
 * projection; the two of the multilayer perceptron; the head), of 16 x 1024 tokens on a GPU, of 256
 * on the CPU.
 */
static const char near_shapes[] = "512x512x512,1024x1024x1024,2048x2048x2048,256x2304x768,"
                                  "256x768x768,256x3072x768,256x768x3072,256x50257x768";
static const char far_shapes[] = "2048x2048x2048,4096x4096x4096,8192x8192x8192,16384x2304x768,"
                                 "16384x768x768,16384x3072x768,16384x768x3072,16384x50257x768";

/* ---- options ---- */

/* Up to the next ',', which *text is moved behind; NULL at the end. */
static const char *next_word(const char **text, size_t *length)
{
	const char *word = *text;

	if (!word)
		return NULL;
	*length = strcspn(word, ",");
	*text = word[*length] ? word + *length + 1 : NULL;
	return word;
}

/* Three numbers with an 'x' between them. */
static bool parse_shape(struct shape *out, const char *word, size_t length)
{
	int64_t *sides[] = { &out->m, &out->n, &out->k };
	char text[64], *rest = text;

	if (length >= sizeof(text))
		return false;
	snprintf(text, sizeof(text), "%.*s", (int)length, word);
	for (int i = 0; i < 3; i++) {
		char *side = strsep(&rest, "x");

		if (!side || !gt_text_parse_int(sides[i], side) || *sides[i] < 1 ||
		    *sides[i] > MOST)
			return false;
	}
	return !rest;
}

static int read_shapes(struct bench *b, const char *text, struct gt_err *err)
{
	const char *word;
	size_t length;

	while ((word = next_word(&text, &length))) {
		if (b->shape_count == MAX_SHAPES)
			return gt_err_set(
			    err, GT_EINVAL, "--shapes: more than %d shapes", MAX_SHAPES);
		if (!parse_shape(&b->shapes[b->shape_count++], word, length)) {
			gt_err_set(err, GT_EINVAL,
			    "--shapes: '%.*s' is not MxNxK, three numbers from 1 to %d",
			    length < 60 ? (int)length : 60, word, MOST);
			return gt_err_hint(err, "as in --shapes 4096x4096x4096,256x2304x768");
		}
	}
	return 0;
}

static int find_type(const char *word, size_t length)
{
	for (int i = 0; i < TYPES; i++)
		if (strlen(types[i].name) == length && !memcmp(types[i].name, word, length))
			return i;
	return -1;
}

static int read_types(struct bench *b, const char *text, struct gt_err *err)
{
	const char *word;
	size_t length;

	while ((word = next_word(&text, &length))) {
		int type = find_type(word, length);

		if (type < 0 || b->type_count == TYPES) {
			gt_err_set(err, GT_EINVAL, "--dtype: '%.*s' is %s",
			    length < 60 ? (int)length : 60, word,
			    type < 0 ? "not a type" : "one type too many");
			return gt_err_hint(
			    err, "types are fp32, tf32, fp16 and bf16; a list is fp32,bf16");
		}
		b->types[b->type_count++] = type;
	}
	return 0;
}

static int read_options(struct bench *b, const struct gt_bench_gemm_cli *cli, struct gt_err *err)
{
	int rc = gt_bench_read_devices(&b->names, &b->name_count, cli->device, err);

	if (rc)
		return rc;
	b->measure = (struct gt_measure){ .rounds = (int)cli->rounds, .seconds = cli->seconds };
	rc = read_types(b, cli->dtypes, err);
	if (!rc)
		rc = read_shapes(b,
		    cli->shapes                        ? cli->shapes
		    : b->names[0].backend->host_memory ? near_shapes
		                                       : far_shapes,
		    err);
	if (rc)
		return rc;
	b->rows = gt_calloc(
	    b->name_count * (size_t)(b->type_count * b->shape_count), sizeof(*b->rows), err);
	return b->rows ? 0 : GT_ENOMEM;
}

/* ---- measuring ---- */

static void put_random_number(enum gt_dtype dtype, void *out, int64_t i, float x)
{
	if (dtype == GT_F32)
		((float *)out)[i] = x;
	else
		((uint16_t *)out)[i] = dtype == GT_F16 ? gt_f16_of_float(x) : gt_bf16_of_float(x);
}

/* Random numbers from -1 to 1: a GPU that multiplies zeros draws less power, and is faster than
 * with a model's. A piece of them is repeated. */
static int fill_operand(struct product *p, const struct gt_value *v, struct gt_err *err)
{
	enum { PIECE = 1 << 16 };
	size_t bytes = gt_value_bytes(v), piece = PIECE * gt_dtype_size(v->dtype);
	char *to = gt_plan_address(p->plan, v);
	void *host = gt_calloc(1, piece, err);
	int rc = host ? 0 : GT_ENOMEM;

	for (int64_t i = 0; !rc && i < PIECE; i++)
		put_random_number(v->dtype, host, i,
		    (float)(2 * gt_philox_double(gt_philox_u64(1, (uint64_t)i, 0, 0)) - 1));
	for (size_t at = 0; !rc && at < bytes; at += piece)
		rc = gt_device_write(
		    p->device, to + at, host, bytes - at < piece ? bytes - at : piece, err);
	free(host);
	return rc;
}

static int build(struct product *p, const struct row *row, struct gt_err *err)
{
	const int64_t a[] = { row->shape.m, row->shape.k }, b[] = { row->shape.k, row->shape.n };
	enum gt_dtype dtype = types[row->type].dtype;
	int rc = gt_graph_new(&p->graph, err);

	if (rc)
		return rc;
	p->a = gt_input(p->graph, "a", dtype, 2, a);
	p->b = gt_input(p->graph, "b", dtype, 2, b);
	gt_output(p->graph, gt_matmul(p->graph, p->a, p->b, NULL, false, false), "c");
	rc = gt_graph_status(p->graph, err);
	if (!rc && types[row->type].tf32)
		rc = gt_pass_tf32.run(p->graph, NULL, err);
	if (!rc)
		rc = gt_store_new(&p->store, p->graph, p->device, false, err);
	if (!rc)
		rc = gt_store_alloc(p->store, err);
	return rc ? rc : gt_plan_new(&p->plan, p->graph, p->store, NULL, err);
}

/* Compare with the free memory before: Linux grants the CPU more than there is, and kills the
 * process when it uses it. */
static int take_product_memory(struct product *p, struct gt_err *err)
{
	uint64_t available, total;
	int rc = p->device->backend->memory(p->device->index, &available, &total, err);

	p->arena_bytes = gt_plan_arena_bytes(p->plan);
	if (!rc && p->arena_bytes > available)
		rc = gt_err_set(err, GT_ENOMEM, "a product of %zu bytes", p->arena_bytes);
	return rc ? rc : gt_device_alloc(p->device, p->arena_bytes, &p->arena, err);
}

static void release_product(struct product *p)
{
	gt_plan_free(p->plan);
	if (p->arena)
		gt_device_free(p->device, p->arena, p->arena_bytes);
	gt_store_free(p->store);
	gt_graph_free(p->graph);
}

static int multiply(void *self, int64_t times, struct gt_err *err)
{
	struct product *p = self;
	int rc = 0;

	for (int64_t i = 0; !rc && i < times; i++)
		rc = gt_plan_run(p->plan, err);
	return rc ? rc : gt_device_sync(p->device, err);
}

/* Errors: GT_ENOTSUP where the device does not have the type. */
static int check_type(const struct row *row, const struct gt_device *device, struct gt_err *err)
{
	const struct gt_backend *b = device->backend;
	bool tf32 = types[row->type].tf32;

	if (!b->check_products)
		return tf32 ? gt_err_set(err, GT_ENOTSUP, "tf32 needs a GPU") : 0;
	return b->check_products(device->index, types[row->type].dtype, tf32, err);
}

static int measure_product(
    const struct bench *b, struct row *row, struct gt_device *device, struct gt_err *err)
{
	struct product p = { .device = device };
	int rc = check_type(row, device, err);

	if (!rc)
		rc = build(&p, row, err);
	if (!rc)
		rc = take_product_memory(&p, err);
	if (!rc)
		rc = gt_plan_bind(p.plan, p.arena, err);
	if (!rc)
		rc = fill_operand(&p, p.a, err);
	if (!rc)
		rc = fill_operand(&p, p.b, err);
	if (!rc)
		rc = gt_measure(&row->time_s, &b->measure, multiply, &p, err);
	release_product(&p);
	return rc;
}

/* A product that is too large, or that a library has no algorithm for, is a row without a time, and
 * does not cost the others theirs. */
static int measure_row(
    const struct bench *b, struct row *row, struct gt_device *device, struct gt_err *err)
{
	int rc = measure_product(b, row, device, err);

	if (rc == GT_ENOMEM)
		row->no_time = "too large";
	else if (rc == GT_ENOTSUP)
		row->no_time = "not supported";
	else
		return rc;
	*err = GT_ERR_INIT;
	return 0;
}

static int measure_all(struct bench *b, const struct gt_device_name *name, struct gt_err *err)
{
	struct gt_device *device;
	int rc = gt_device_open(&device, name->backend, name->index, err);

	for (int t = 0; !rc && t < b->type_count; t++)
		for (int s = 0; !rc && s < b->shape_count; s++) {
			struct row *row = &b->rows[b->row_count++];

			gt_bench_device(row->device, name);
			row->type = b->types[t];
			row->shape = b->shapes[s];
			if (name->backend->peak_flops)
				row->peak = name->backend->peak_flops(
				    name->index, types[row->type].dtype, types[row->type].tf32);
			rc = measure_row(b, row, device, err);
		}
	gt_device_close(device);
	return rc;
}

/* ---- the table ---- */

static double flops(const struct row *row)
{
	return 2 * (double)row->shape.m * (double)row->shape.n * (double)row->shape.k / row->time_s;
}

/* Each matrix is read or written once. */
static double bytes_per_s(const struct row *row)
{
	const struct shape *s = &row->shape;
	double elements =
	    (double)s->m * (double)s->k + (double)s->k * (double)s->n + (double)s->m * (double)s->n;

	return elements * (double)gt_dtype_size(types[row->type].dtype) / row->time_s;
}

static void print_gemm_row(struct gt_table *table, const struct row *row)
{
	char cells[COLUMNS][CELL] = { { 0 } };
	const char *texts[COLUMNS];
	const int64_t sides[] = { row->shape.m, row->shape.n, row->shape.k };

	snprintf(cells[0], CELL, "%s", row->device);
	snprintf(cells[1], CELL, "%s", types[row->type].name);
	for (int i = 0; i < 3; i++)
		snprintf(cells[2 + i], CELL, "%lld", (long long)sides[i]);
	if (!row->no_time) {
		snprintf(cells[5], CELL, "%.1f", row->time_s * 1e6);
		gt_bench_rate(cells[6], CELL, flops(row), 1e12);
		gt_bench_rate(cells[7], CELL, bytes_per_s(row), 1e9);
	} else {
		snprintf(cells[5], CELL, "%s", row->no_time);
	}
	if (!row->no_time && row->peak > 0)
		snprintf(cells[8], CELL, "%.1f %%", 100 * flops(row) / row->peak);
	for (int i = 0; i < COLUMNS; i++)
		texts[i] = cells[i];
	gt_table_row(table, texts, COLUMNS);
}

/* Whether the peak of any product is known. */
static bool has_peak(const struct bench *b)
{
	for (int i = 0; i < b->row_count; i++)
		if (b->rows[i].peak > 0)
			return true;
	return false;
}

static int print_gemm_text(const struct bench *b, struct gt_err *err)
{
	static const char *const titles[] = { "device", "type", "M", "N", "K", "time (us)",
		"TFLOP/s", "GB/s", "of peak" };
	struct gt_table table = { .out = stdout };
	char text[200], name[GT_DEVICE_NAME_SIZE];

	for (size_t i = 0; i < b->name_count; i++) {
		const struct gt_device_name *n = &b->names[i];

		if (n->backend->describe(n->index, text, sizeof(text), err))
			return err->code;
		printf("%s: %s\n", gt_bench_device(name, n), text);
	}
	printf("C [M, N] = A [M, K] B [K, N], medians of %d rounds\n", b->measure.rounds);
	for (int i = 2; i < COLUMNS; i++)
		table.right[i] = true;
	for (int measuring = 1; measuring >= 0; measuring--) {
		table.measuring = measuring;
		gt_table_row(&table, titles, has_peak(b) ? COLUMNS : COLUMNS - 1);
		for (int i = 0; i < b->row_count; i++)
			print_gemm_row(&table, &b->rows[i]);
	}
	return 0;
}

static void print_gemm_csv(const struct bench *b)
{
	puts("device,type,m,n,k,time_s,flops_per_s,bytes_per_s,peak_flops_per_s");
	for (int i = 0; i < b->row_count; i++) {
		const struct row *row = &b->rows[i];

		printf("%s,%s,%lld,%lld,%lld,", row->device, types[row->type].name,
		    (long long)row->shape.m, (long long)row->shape.n, (long long)row->shape.k);
		if (!row->no_time)
			printf("%.9f,%.0f,%.0f,", row->time_s, flops(row), bytes_per_s(row));
		else
			fputs(",,,", stdout);
		if (row->peak > 0)
			printf("%.0f", row->peak);
		putchar('\n');
	}
}

static json_t *figure(const struct row *row, double value)
{
	return row->no_time ? json_null() : json_real(value);
}

static int print_gemm_json(const struct bench *b, struct gt_err *err)
{
	json_t *rows = json_array();

	for (int i = 0; i < b->row_count; i++) {
		const struct row *row = &b->rows[i];
		bool known = row->peak > 0;

		json_array_append_new(rows,
		    json_pack("{ss ss sI sI sI so so so so so}", "device", row->device, "type",
		        types[row->type].name, "m", (json_int_t)row->shape.m, "n",
		        (json_int_t)row->shape.n, "k", (json_int_t)row->shape.k, "time_s",
		        figure(row, row->time_s), "flops_per_s", figure(row, flops(row)),
		        "bytes_per_s", figure(row, bytes_per_s(row)), "peak_flops_per_s",
		        known ? json_real(row->peak) : json_null(), "share_of_peak",
		        known && !row->no_time ? json_real(flops(row) / row->peak) : json_null()));
	}
	return gt_cmd_print_json(
	    json_pack("{si so}", "rounds", b->measure.rounds, "rows", rows), JSON_INDENT(2), err);
}

static int bench_gemm(void *values, struct gt_cmd_env *env, struct gt_err *err)
{
	const struct gt_bench_gemm_cli *cli = values;
	struct bench b = { 0 };
	int rc;

	(void)env;
	gt_cmd_set_threads(0);
	rc = read_options(&b, cli, err);
	for (size_t i = 0; !rc && i < b.name_count; i++)
		rc = measure_all(&b, &b.names[i], err);
	if (!rc && cli->common.json)
		rc = print_gemm_json(&b, err);
	else if (!rc && cli->csv)
		print_gemm_csv(&b);
	else if (!rc)
		rc = print_gemm_text(&b, err);
	free(b.rows);
	free(b.names);
	return rc;
}

const struct gt_cmd_work gt_cmd_bench_gemm = { gt_bench_gemm_options,
	sizeof(struct gt_bench_gemm_cli), bench_gemm };
