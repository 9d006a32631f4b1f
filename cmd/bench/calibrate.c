/* calibrate.c - gtrain bench calibrate: measure the rates that gtrain plan computes with. */
#include "cmd/bench/calibrate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/bench/measure.h"
#include "lib/base/file.h"
#include "lib/base/text.h"
#include "lib/base/walk.h"
#include "lib/device/cpu.h"
#include "lib/plan/calibration.h"

/* ---- the machine ---- */

/* Processes that this one starts compute with so many threads. */
static int choose_threads(struct gt_bench_calibrate *b, size_t processors, struct gt_err *err)
{
	const char *variable = getenv("OMP_NUM_THREADS");
	int64_t threads = b->cli->threads;

	if (!threads && (!variable || !gt_text_parse_int(&threads, variable) || threads < 1))
		threads = (int64_t)processors;
	snprintf(b->threads, sizeof(b->threads), "%lld", (long long)threads);
	if (setenv("OMP_NUM_THREADS", b->threads, 1))
		return gt_err_sys(err, "cannot set OMP_NUM_THREADS");
	return 0;
}

/* Ranks with processors of their own. */
static void choose_busy(struct gt_bench_calibrate *b, int64_t processors)
{
	int64_t ranks = b->cli->nproc, threads = atoll(b->threads);

	b->busy_ranks = b->host && ranks <= processors ? (int)ranks : 1;
	if (threads * ranks > processors)
		threads = processors / ranks;
	snprintf(
	    b->busy_threads, sizeof(b->busy_threads), "%lld", threads < 1 ? 1 : (long long)threads);
}

static int describe_machine(
    char machine[GT_MACHINE_SIZE], const struct gt_device_name *name, struct gt_err *err)
{
	if (name->backend->host_memory)
		return gt_calibration_machine(machine, err);
	return name->backend->describe(name->index, machine, GT_MACHINE_SIZE, err);
}

static int find_machine(struct gt_bench_calibrate *b, struct gt_err *err)
{
	struct gt_device_name *names = NULL;
	char machine[GT_MACHINE_SIZE];
	struct gt_cpu cpu = { 0 };
	size_t count = 0;
	int rc = gt_bench_read_devices(&names, &count, b->cli->device, err);

	if (!rc && count > 1)
		rc = gt_err_set(
		    err, GT_EINVAL, "--device: one device is calibrated, not %zu", count);
	if (!rc)
		rc = describe_machine(machine, &names[0], err);
	if (!rc)
		rc = gt_cpu_read(&cpu, "", err);
	if (!rc)
		rc = choose_threads(b, cpu.usable, err);
	if (!rc) {
		b->host = names[0].backend->host_memory;
		choose_busy(b, (int64_t)cpu.usable);
		b->out = json_pack("{s:s,s:s%,s:s,s:I,s:I,s:n,s:n,s:{}}", "format",
		    GT_CALIBRATION_FORMAT, "machine", machine, strlen(machine), "device",
		    names[0].backend->name, "processors", (json_int_t)cpu.usable, "threads",
		    (json_int_t)atoll(b->threads), "link", "busy", "ops");
		rc = b->out ? 0 : gt_err_set(err, GT_EFORMAT, "the machine's name is not UTF-8");
	}
	gt_cpu_release(&cpu);
	free(names);
	return rc;
}

/* ---- the file ---- */

static int write_file(const struct gt_bench_calibrate *b, struct gt_err *err)
{
	struct gt_atomic_file f;
	int rc = gt_atomic_open(&f, b->cli->output, err);

	if (rc)
		return rc;
	if (json_dumpf(b->out, f.stream, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) ||
	    fputc('\n', f.stream) == EOF) {
		rc = gt_err_sys(err, "cannot write '%s'", b->cli->output);
		gt_atomic_abandon(&f);
		return rc;
	}
	return gt_atomic_commit(&f, err);
}

/* Check that the file can be written before rates are measured for it. */
static int check_output(const char *path, struct gt_err *err)
{
	struct gt_atomic_file f;
	int rc = gt_atomic_open(&f, path, err);

	if (!rc)
		gt_atomic_abandon(&f);
	return rc;
}

static double largest_rate(const json_t *curve)
{
	double most = 0;
	const json_t *pair;
	size_t i;

	json_array_foreach(curve, i, pair)
	{
		double rate = json_number_value(json_array_get(pair, 1));

		most = rate > most ? rate : most;
	}
	return most;
}

/* The ops of the steps, weighted by their times, with all ranks at work. */
static void print_busy(const struct gt_bench_calibrate *b)
{
	const json_t *busy = json_object_get(b->out, "busy");
	double slower = json_number_value(json_object_get(busy, "slower"));

	if (slower > 0)
		printf(
		    "ranks          %lld at once (--threads %lld): ops take %.2f times as long\n",
		    (long long)json_integer_value(json_object_get(busy, "ranks")),
		    (long long)json_integer_value(json_object_get(busy, "threads")), slower);
}

static void print_link(const json_t *link)
{
	double copied_per_s = json_number_value(json_object_get(link, "copied_per_s"));

	printf("all-reduce     %.1f us, and %.2f GB/s that each of %lld ranks sends",
	    1e6 * json_number_value(json_object_get(link, "base_s")),
	    json_number_value(json_object_get(link, "bytes_per_s")) / 1e9,
	    (long long)json_integer_value(json_object_get(link, "ranks")));
	if (copied_per_s > 0)
		printf(", %.2f GB/s if buffers are copied first", copied_per_s / 1e9);
	putchar('\n');
}

static void print_summary(const struct gt_bench_calibrate *b)
{
	json_t *products = json_object_get(b->out, "products"), *curve, *step;
	const json_t *link = json_object_get(b->out, "link");
	const json_t *copies = json_object_get(b->out, "copies");
	const json_t *last = json_array_get(copies, json_array_size(copies) - 1);
	const char *type;
	size_t i;

	printf("machine        %s\n", json_string_value(json_object_get(b->out, "machine")));
	json_object_foreach(products, type, curve)
	    printf("products %-5s %.1f GFLOP/s at most\n", type, largest_rate(curve) / 1e9);
	printf("memory         %.1f GB/s, %.1f GB/s at most\n",
	    json_number_value(json_array_get(last, 1)) / 1e9, largest_rate(copies) / 1e9);
	if (!json_is_null(link))
		print_link(link);
	printf("ops            %zu\n", json_object_size(json_object_get(b->out, "ops")));
	print_busy(b);
	json_array_foreach(json_object_get(b->out, "steps"), i, step)
	    printf("step           %s: %.1f ms, computed from the rates %.1f ms\n",
	        json_string_value(json_object_get(step, "model")),
	        1e3 * json_number_value(json_object_get(step, "measured_s")),
	        1e3 * json_number_value(json_object_get(step, "planned_s")));
}

/* ---- the command ---- */

static int measure(void *self, struct gt_log *log, struct gt_err *err)
{
	struct gt_bench_calibrate *b = self;
	int rc = gt_bench_calibrate_rates(b, log, err);

	return rc ? rc : gt_bench_calibrate_ops(b, log, err);
}

/* After a signal there is no file, unless all was measured. */
static int run_until_stopped(
    struct gt_bench_calibrate *b, struct gt_cmd_env *env, struct gt_err *err)
{
	const struct gt_bench_work work = { .folder = b->folder,
		.dir = b->cli->dir,
		.stop = &b->stop,
		.measure = measure,
		.self = b };
	bool done;
	int rc = gt_bench_measure(&done, &work, env, err);

	if (rc || !done)
		return rc;
	rc = write_file(b, err);
	if (!rc && b->cli->common.json)
		rc = gt_cmd_print_json(json_incref(b->out), JSON_INDENT(2), err);
	else if (!rc)
		print_summary(b);
	return rc;
}

static int bench_calibrate(void *values, struct gt_cmd_env *env, struct gt_err *err)
{
	struct gt_bench_calibrate b = { .cli = values };
	ssize_t n = readlink("/proc/self/exe", b.self, sizeof(b.self) - 1);
	int rc = 0;

	if (n < 0)
		rc = gt_err_sys(err, "cannot find this program's file");
	if (!rc)
		rc = find_machine(&b, err);
	if (!rc)
		rc = check_output(b.cli->output, err);
	if (!rc)
		rc = gt_bench_calibrate_check(&b, err);
	if (!rc)
		rc = run_until_stopped(&b, env, err);
	json_decref(b.out);
	return rc;
}

const struct gt_cmd_work gt_cmd_bench_calibrate = { gt_bench_calibrate_options,
	sizeof(struct gt_bench_calibrate_cli), bench_calibrate };
