/* calibrate_rates.c - rates of products, copies and all-reduces, by other commands of bench. */
#include <stdio.h>
#include <string.h>

#include "cmd/bench/calibrate.h"
#include "lib/plan/calibration.h"

enum { SIZES_MOST = 32 };

/* Run a command of bench, and set *rows to the rows that it prints; *document owns them. */
static int read_rows(json_t **document, const json_t **rows, const struct gt_bench_calibrate *b,
    const char *const *words, struct gt_err *err)
{
	char why[GT_BENCH_ERROR_LINE_BYTES] = "";
	int status,
	    rc = gt_bench_run_json(document, &status, (char *const *)words, b->stop, why, err);

	*rows = json_object_get(*document, "rows");
	if (!rc && !json_array_size(*rows))
		rc = gt_err_set(err, GT_EIO, "%s %s: %s", words[1], words[2], why);
	return rc;
}

static double number_in(const json_t *object, const char *key)
{
	return json_number_value(json_object_get(object, key));
}

/* Sizes and rates of one curve are appended in the order of the rows, which ascend. */
static void add_point(json_t *curve, double size, double rate)
{
	json_array_append_new(curve, json_pack("[f,f]", size, rate));
}

static void add_products(json_t *products, const json_t *rows)
{
	static const struct {
		const char *row, *type;
	} types[] = { { "fp32", "f32" }, { "tf32", "tf32" }, { "fp16", "f16" },
		{ "bf16", "bf16" } };
	const json_t *row;
	size_t i;

	for (size_t t = 0; t < sizeof(types) / sizeof(*types); t++) {
		json_t *curve = json_array();

		json_array_foreach(rows, i, row)
		{
			double m = number_in(row, "m"), rate = number_in(row, "flops_per_s");
			const char *type = json_string_value(json_object_get(row, "type"));

			if (rate > 0 && type && !strcmp(type, types[t].row))
				add_point(curve, 2 * m * m * m, rate);
		}
		if (json_array_size(curve))
			json_object_set(products, types[t].type, curve);
		json_decref(curve);
	}
}

static int measure_products(struct gt_bench_calibrate *b, const char *rounds, struct gt_err *err)
{
	const char *const words[] = { b->self, "bench", "gemm", "--device", b->cli->device,
		"--shapes",
		b->host ? "32x32x32,64x64x64,128x128x128,256x256x256,512x512x512,1024x1024x1024"
		        : "128x128x128,256x256x256,512x512x512,1024x1024x1024,2048x2048x2048,"
		          "4096x4096x4096,8192x8192x8192",
		"--dtype", "fp32,tf32,fp16,bf16", "--rounds", rounds, "--json", "--quiet", NULL };
	json_t *document = NULL, *products = json_object();
	const json_t *rows;
	int rc = read_rows(&document, &rows, b, words, err);

	if (!rc)
		add_products(products, rows);
	json_object_set_new(b->out, "products", products);
	json_decref(document);
	return rc;
}

/* A copy reads and writes. */
static int measure_copies(struct gt_bench_calibrate *b, const char *rounds, struct gt_err *err)
{
	const char *const words[] = { b->self, "bench", "copy", "--device", b->cli->device,
		"--sizes", b->host ? "16K..64M" : "64K..1G", "--rounds", rounds, "--json",
		"--quiet", NULL };
	json_t *document = NULL, *curve = json_array();
	const json_t *rows, *row;
	size_t i;
	int rc = read_rows(&document, &rows, b, words, err);

	json_array_foreach(rc ? NULL : rows, i, row)
	{
		const char *kind = json_string_value(json_object_get(row, "copy"));

		if (kind && !strcmp(kind, "within"))
			add_point(
			    curve, 2 * number_in(row, "bytes"), 2 * number_in(row, "bytes_per_s"));
	}
	json_object_set_new(b->out, "copies", curve);
	json_decref(document);
	return rc;
}

/* Fit the latency and the rate of a link: each rank sends 2 (n - 1) / n of the buffer. Returns
 * whether there were rows enough. */
static bool fit_link(double *base_s, double *bytes_per_s, const json_t *rows, int64_t ranks)
{
	double bytes[SIZES_MOST], time_s[SIZES_MOST];
	const json_t *row;
	int count = 0;
	size_t i;

	json_array_foreach(rows, i, row)
	{
		double seconds = number_in(json_object_get(row, "in_place"), "time_s");

		if (seconds > 0 && count < SIZES_MOST) {
			bytes[count] =
			    2.0 * (double)(ranks - 1) / (double)ranks * number_in(row, "size");
			time_s[count++] = seconds;
		}
	}
	if (count >= 2)
		gt_calibration_fit(base_s, bytes_per_s, bytes, time_s, count);
	return count >= 2;
}

/* Measure all-reduces on buffers of one kind (bench allreduce --buffers). */
static int measure_buffers(double *base_s, double *bytes_per_s, bool *fits,
    struct gt_bench_calibrate *b, const char *buffers, const char *rounds, struct gt_err *err)
{
	char nproc[24];
	const char *const words[] = { b->self, "bench", "allreduce", "--device", b->cli->device,
		"--nproc", nproc, "--sizes", "4K..16M", "--buffers", buffers, "--rounds", rounds,
		"--json", "--quiet", NULL };
	json_t *document = NULL;
	const json_t *rows;
	int rc;

	snprintf(nproc, sizeof(nproc), "%lld", (long long)b->cli->nproc);
	rc = read_rows(&document, &rows, b, words, err);
	*fits = !rc && fit_link(base_s, bytes_per_s, rows, b->cli->nproc);
	json_decref(document);
	return rc;
}

/* On a CPU, measure buffers outside of shared memory, too. Their latency is taken to be that of
 * shared ones. */
static int measure_link(struct gt_bench_calibrate *b, const char *rounds, struct gt_err *err)
{
	double base_s, bytes_per_s, copied_per_s, unused;
	json_t *link = NULL;
	bool fits;
	int rc = measure_buffers(&base_s, &bytes_per_s, &fits, b, "shared", rounds, err);

	if (!rc && fits)
		link = json_pack("{s:I,s:f,s:f}", "ranks", (json_int_t)b->cli->nproc, "base_s",
		    base_s, "bytes_per_s", bytes_per_s);
	if (!rc && b->host)
		rc = measure_buffers(&unused, &copied_per_s, &fits, b, "plain", rounds, err);
	if (!rc && b->host && fits && link)
		json_object_set_new(link, "copied_per_s", json_real(copied_per_s));
	if (link)
		json_object_set_new(b->out, "link", link);
	return rc;
}

int gt_bench_calibrate_rates(struct gt_bench_calibrate *b, struct gt_log *log, struct gt_err *err)
{
	char rounds[24];
	int rc;

	snprintf(rounds, sizeof(rounds), "%lld", (long long)b->cli->rounds);
	gt_log_info(log, "matrix products");
	rc = measure_products(b, rounds, err);
	if (!rc)
		gt_log_info(log, "copies");
	if (!rc)
		rc = measure_copies(b, rounds, err);
	if (!rc && b->cli->nproc > 1)
		gt_log_info(log, "all-reduces of %lld ranks", (long long)b->cli->nproc);
	if (!rc && b->cli->nproc > 1)
		rc = measure_link(b, rounds, err);
	return rc;
}
