/* allreduce.c - gtrain bench allreduce: how fast ranks add up a buffer, and whether right. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/bench/measure.h"
#include "cmd/bench/options.h"
#include "cmd/json_out.h"
#include "cmd/ranks.h"
#include "lib/base/clock.h"
#include "lib/base/half.h"
#include "lib/base/measure.h"
#include "lib/base/mem.h"
#include "lib/base/text.h"
#include "lib/comm/comm.h"
#include "lib/comm/device_group.h"
#include "lib/comm/place.h"
#include "lib/device/name.h"
#include "lib/train/session.h"

/*
 * Columns and their meaning are nccl-tests' (github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md):
 * algbw is bytes over time; busbw is algbw times 2 (n - 1) / n, the bytes that each rank moves at
 * least if no switch adds up; #wrong counts elements that are not the sum.
 */

enum { ROUND_MS = 40, MAX_ITERATIONS = 20000 };

/* The measurements of one size, out of place (0) and in place (1). */
struct row {
	int64_t bytes, count;
	struct {
		double time_s;
		int64_t wrong;
	} place[2];
};

struct bench {
	struct gt_log *log;
	enum gt_comm_backend backend; /* the value of --backend */
	const char *name;             /* name of the groups of this backend */
	struct gt_comm comm;
	struct gt_device *device;
	int sharing; /* number of ranks that share this device */
	/* for the device's memory; the group of `comm` if that is the host's */
	struct gt_group *group;
	enum gt_dtype dtype;
	bool plain;
	struct row rows[GT_BENCH_MAX_SIZES];
	int row_count, rounds;
	void *in, *out; /* buffers of the largest size */
	void *host;     /* host copy of a buffer, if the device has its own memory */
};

static const enum gt_dtype dtypes[] = { GT_F32, GT_F16, GT_BF16 };
const char *const gt_bench_dtypes[] = { "fp32", "fp16", "bf16", NULL };
const char *const gt_bench_buffers[] = { "shared", "plain", NULL };

/* ---- sizes ---- */

static int read_sizes(struct bench *b, const char *text, struct gt_err *err)
{
	int64_t sizes[GT_BENCH_MAX_SIZES], element = (int64_t)gt_dtype_size(b->dtype);
	int rc = gt_bench_read_sizes(sizes, &b->row_count, text, err);

	for (int i = 0; !rc && i < b->row_count; i++)
		b->rows[i] = (struct row){ .bytes = sizes[i] / element * element,
			.count = sizes[i] / element };
	return rc;
}

/* ---- the elements that are added up ---- */

static void put_number(enum gt_dtype dtype, void *out, int64_t i, unsigned n)
{
	if (dtype == GT_F32)
		((float *)out)[i] = (float)n;
	else
		((uint16_t *)out)[i] =
		    dtype == GT_F16 ? gt_f16_of_float((float)n) : gt_bf16_of_float((float)n);
}

/* Element i of rank r: small, so that sums of 16 ranks are exact in every type, and different for
 * neighbours and for ranks. */
static unsigned number_of_element(int64_t i, int rank)
{
	return (unsigned)((i + i / 1021) % 7 + rank % 5);
}

static void fill_with_numbers(const struct bench *b, void *out, int64_t count)
{
	for (int64_t i = 0; i < count; i++)
		put_number(b->dtype, out, i, number_of_element(i, b->comm.world.rank));
}

static int64_t count_wrong(const struct bench *b, const void *sums, int64_t count)
{
	size_t size = gt_dtype_size(b->dtype);
	int64_t wrong = 0;

	for (int64_t i = 0; i < count; i++) {
		unsigned char wanted[4];
		unsigned sum = 0;

		for (int rank = 0; rank < b->comm.world.size; rank++)
			sum += number_of_element(i, rank);
		put_number(b->dtype, wanted, 0, sum);
		wrong += memcmp((const char *)sums + (size_t)i * size, wanted, size) != 0;
	}
	return wrong;
}

/* ---- measuring ---- */

static struct gt_collective sum_of(const struct bench *b, const struct row *row, bool in_place)
{
	return (struct gt_collective){ .kind = GT_ALL_REDUCE,
		.in = in_place ? b->out : b->in,
		.out = b->out,
		.count = row->count,
		.dtype = b->dtype,
		.reduction = GT_SUM,
		.what = "bench",
		.stream = b->device->compute };
}

/* The host memory from which a device's buffer is written, and into which it is read. */
static void *on_host(const struct bench *b, void *buffer)
{
	return b->host ? b->host : buffer;
}

static int verify_sums(struct bench *b, struct row *row, bool in_place, struct gt_err *err)
{
	struct gt_collective c = sum_of(b, row, in_place);
	size_t bytes = (size_t)row->bytes;
	int64_t *wrong = &row->place[in_place].wrong;
	int rc = 0;

	fill_with_numbers(b, on_host(b, (void *)c.in), row->count);
	if (b->host)
		rc = gt_device_write(b->device, (void *)c.in, b->host, bytes, err);
	if (!rc)
		rc = gt_group_run(b->group, &c, err);
	if (!rc && b->host)
		rc = gt_device_read(b->device, b->host, b->out, bytes, err);
	if (rc)
		return rc;
	*wrong = count_wrong(b, on_host(b, b->out), row->count);
	return gt_all_reduce(b->comm.group, wrong, 1, GT_I64, GT_SUM, err);
}

/* Make `calls` calls, from when all ranks are there until all are done; *each_s is one's time. */
static int time_calls(struct bench *b, const struct gt_collective *c, int64_t calls, double *each_s,
    struct gt_err *err)
{
	int rc = gt_barrier(b->comm.group, err);
	double start = gt_clock_s();

	for (int64_t i = 0; !rc && i < calls; i++)
		rc = gt_group_run(b->group, c, err);
	if (!rc)
		rc = gt_device_sync(b->device, err);
	*each_s = (gt_clock_s() - start) / (double)calls;
	return rc;
}

/* Enough calls to fill a round, the same number on all ranks. */
static int count_calls(
    struct bench *b, const struct gt_collective *c, int64_t *calls, struct gt_err *err)
{
	double each_s;
	int rc = time_calls(b, c, 2, &each_s, err); /* and warm up */

	if (!rc)
		rc = time_calls(b, c, 3, &each_s, err);
	if (rc)
		return rc;
	each_s = each_s > 1e-9 ? each_s : 1e-9;
	*calls = (int64_t)(ROUND_MS * 1e-3 / each_s) + 1;
	*calls = *calls < MAX_ITERATIONS ? *calls : MAX_ITERATIONS;
	return gt_broadcast(b->comm.group, calls, 1, GT_I64, 0, err);
}

static int measure_row(struct bench *b, struct row *row, bool in_place, struct gt_err *err)
{
	struct gt_collective c = sum_of(b, row, in_place);
	double times[GT_BENCH_MAX_ROUNDS];
	int64_t calls;
	int rc = verify_sums(b, row, in_place, err);

	if (rc)
		return rc;
	/* Sums in place would not stay finite. */
	rc = b->device->backend->zero(b->device->compute, (void *)c.in, (size_t)row->bytes, err);
	if (!rc)
		rc = count_calls(b, &c, &calls, err);
	for (int i = 0; !rc && i < b->rounds; i++)
		rc = time_calls(b, &c, calls, &times[i], err);
	if (!rc)
		row->place[in_place].time_s = gt_measure_median(times, b->rounds);
	return rc;
}

/* Allocate a buffer of the largest size from the group, or with `plain` from the device. */
static int take_buffer(struct bench *b, void **out, struct gt_err *err)
{
	size_t bytes = (size_t)b->rows[b->row_count - 1].bytes;

	if (!b->plain)
		return gt_group_alloc(b->group, bytes, out, err);
	return gt_device_alloc(b->device, bytes, out, err);
}

/* Whether `ranks` ranks can take so much each of a device's memory, which they share. */
static int check_device(
    const struct gt_backend *backend, int index, int ranks, int64_t bytes, struct gt_err *err)
{
	uint64_t available, total;
	int rc = backend->memory(index, &available, &total, err);

	if (rc || (uint64_t)bytes <= available / (uint64_t)ranks)
		return rc;
	return gt_err_set(err, GT_ENOMEM,
	    "%s:%d: no memory: %d rank%s %lld bytes each, %llu of %llu bytes are free",
	    backend->name, index, ranks, ranks == 1 ? " needs" : "s need", (long long)bytes,
	    (unsigned long long)available, (unsigned long long)total);
}

/*
 * Two buffers of the device, and one of the host where that is another memory. Where there is too
 * little, the host's system hands it out all the same, and ends a process when it is written. Each
 * rank looks before any of them takes memory, and all fail together.
 */
static int check_memory(struct bench *b, struct gt_err *err)
{
	const struct gt_device *d = b->device;
	int64_t bytes = b->rows[b->row_count - 1].bytes, failed;
	struct gt_err mine = GT_ERR_INIT;
	int rc = check_device(d->backend, d->index, b->sharing, 2 * bytes, &mine);

	if (!rc && !d->backend->host_memory)
		rc = check_device(&gt_cpu_backend, 0, b->comm.world.local_size, bytes, &mine);
	failed = rc != 0;
	if (gt_all_reduce(b->comm.group, &failed, 1, GT_I64, GT_MAX, err))
		return err->code;
	if (rc)
		*err = mine;
	else if (failed) {
		gt_err_set(err, GT_ENOMEM, "another rank has no memory for its buffers");
		gt_err_follow(err);
	}
	return err->code;
}

static int take_buffers(struct bench *b, struct gt_err *err)
{
	if (check_memory(b, err))
		return err->code;
	if (take_buffer(b, &b->in, err) || take_buffer(b, &b->out, err))
		return err->code;
	if (!b->device->backend->host_memory)
		b->host = gt_calloc(1, (size_t)b->rows[b->row_count - 1].bytes, err);
	return b->device->backend->host_memory || b->host ? 0 : GT_ENOMEM;
}

static void drop_buffer(const struct bench *b, void *buffer)
{
	if (b->plain)
		gt_device_free(b->device, buffer, (size_t)b->rows[b->row_count - 1].bytes);
	else
		gt_group_release(b->group, buffer);
}

static void drop_buffers(struct bench *b)
{
	drop_buffer(b, b->out);
	drop_buffer(b, b->in);
}

static int run_bench_rows(struct bench *b, struct gt_err *err)
{
	int rc = gt_bench_memory_hint(take_buffers(b, err), err);

	for (int i = 0; !rc && i < b->row_count; i++) {
		rc = measure_row(b, &b->rows[i], false, err);
		if (!rc)
			rc = measure_row(b, &b->rows[i], true, err);
	}
	if (!rc)
		drop_buffers(b);
	return rc;
}

/* ---- the table ---- */

static double algbw(const struct row *row, int place)
{
	return gt_text_real((double)row->bytes / row->place[place].time_s);
}

static double busbw(const struct bench *b, const struct row *row, int place)
{
	double n = b->comm.world.size;

	return gt_text_real(algbw(row, place) * 2 * (n - 1) / n);
}

static double average_busbw(const struct bench *b)
{
	double sum = 0;

	for (int i = 0; i < b->row_count; i++)
		sum += busbw(b, &b->rows[i], 0) + busbw(b, &b->rows[i], 1);
	return sum / (2 * b->row_count);
}

static void print_allreduce_text(const struct bench *b, const char *dtype)
{
	printf("%d rank%s, %s, %s buffers, medians of %d rounds\n", b->comm.world.size,
	    b->comm.world.size == 1 ? "" : "s", b->name, gt_bench_buffers[b->plain], b->rounds);
	printf("%12s %12s %6s %6s   %32s   %32s\n", "", "", "", "", "out of place           ",
	    "in place             ");
	printf("%12s %12s %6s %6s   %10s %7s %7s %6s   %10s %7s %7s %6s\n", "size", "count", "type",
	    "redop", "time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw", "#wrong");
	printf("%12s %12s %6s %6s   %10s %7s %7s %6s   %10s %7s %7s %6s\n", "(B)", "(elements)", "",
	    "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)", "");
	for (int i = 0; i < b->row_count; i++) {
		const struct row *row = &b->rows[i];

		printf("%12lld %12lld %6s %6s", (long long)row->bytes, (long long)row->count, dtype,
		    "sum");
		for (int place = 0; place < 2; place++)
			printf("   %10.1f %7.2f %7.2f %6lld", row->place[place].time_s * 1e6,
			    algbw(row, place) / 1e9, busbw(b, row, place) / 1e9,
			    (long long)row->place[place].wrong);
		putchar('\n');
	}
	printf("average bus bandwidth: %.2f GB/s\n", average_busbw(b) / 1e9);
}

static void print_allreduce_csv(const struct bench *b, const char *dtype, bool head)
{
	if (head)
		puts("size,count,type,redop,time_s,algbw,busbw,wrong,in_place_time_s,in_place_"
		     "algbw,in_place_busbw,in_place_wrong,backend");
	for (int i = 0; i < b->row_count; i++) {
		const struct row *row = &b->rows[i];

		printf("%lld,%lld,%s,sum", (long long)row->bytes, (long long)row->count, dtype);
		for (int place = 0; place < 2; place++)
			printf(",%.9f,%.0f,%.0f,%lld", row->place[place].time_s, algbw(row, place),
			    busbw(b, row, place), (long long)row->place[place].wrong);
		printf(",%s\n", b->name);
	}
}

static json_t *json_of_place(const struct bench *b, const struct row *row, int place)
{
	return json_pack("{sf so so sI}", "time_s", row->place[place].time_s, "algbw",
	    gt_json_number(algbw(row, place)), "busbw", gt_json_number(busbw(b, row, place)),
	    "wrong", (json_int_t)row->place[place].wrong);
}

static json_t *json_of(const struct bench *b, const char *dtype)
{
	json_t *rows = json_array();

	for (int i = 0; i < b->row_count; i++) {
		const struct row *row = &b->rows[i];

		json_array_append_new(
		    rows, json_pack("{sI sI so so}", "size", (json_int_t)row->bytes, "count",
		              (json_int_t)row->count, "out_of_place", json_of_place(b, row, 0),
		              "in_place", json_of_place(b, row, 1)));
	}
	return json_pack("{si ss ss ss ss so so}", "ranks", b->comm.world.size, "backend", b->name,
	    "buffers", gt_bench_buffers[b->plain], "type", dtype, "redop", "sum", "rows", rows,
	    "average_busbw", gt_json_number(average_busbw(b)));
}

/* One backend is an object, several are a list of them. */
static int print_allreduce_json(
    const struct bench *benches, int count, const char *dtype, struct gt_err *err)
{
	json_t *list = json_array();

	if (count == 1) {
		json_decref(list);
		return gt_cmd_print_json(json_of(benches, dtype), JSON_INDENT(2), err);
	}
	for (int i = 0; i < count; i++)
		json_array_append_new(list, json_of(&benches[i], dtype));
	return gt_cmd_print_json(json_pack("{so}", "backends", list), JSON_INDENT(2), err);
}

static int print_benches(const struct bench *benches, int count,
    const struct gt_bench_allreduce_cli *cli, struct gt_err *err)
{
	const char *dtype = gt_bench_dtypes[cli->dtype];

	if (cli->common.json)
		return print_allreduce_json(benches, count, dtype, err);
	for (int i = 0; i < count; i++) {
		if (i && !cli->csv)
			putchar('\n');
		if (cli->csv)
			print_allreduce_csv(&benches[i], dtype, !i);
		else
			print_allreduce_text(&benches[i], dtype);
	}
	return 0;
}

static int check_sums(const struct bench *b, struct gt_err *err)
{
	for (int i = 0; i < b->row_count; i++)
		for (int place = 0; place < 2; place++)
			if (b->rows[i].place[place].wrong)
				return gt_err_set(err, GT_EIO,
				    "%lld of %lld elements (all ranks together) are not the sum",
				    (long long)b->rows[i].place[place].wrong,
				    (long long)b->rows[i].count * b->comm.world.size);
	return 0;
}

/* Why the sums are slower than they could be. */
static void print_detour(struct bench *b, const struct gt_device_way *way)
{
	const struct gt_err *why = &way->why;
	char text[GT_CMD_MESSAGE];

	if (!why->code || b->comm.world.rank)
		return;
	gt_log_info(b->log, "GPUs reach each other by %s: %s", gt_device_way_text(way),
	    gt_cmd_message(text, why->text));
	if (why->hint[0])
		gt_log_info(b->log, "hint: %s", gt_cmd_message(text, why->hint));
}

/* The ranks of a host take the devices in turn. */
static int open_device(
    struct bench *b, const struct gt_bench_allreduce_cli *cli, struct gt_err *err)
{
	const struct gt_device_way_options options = { .name = gt_comm_way(b->backend) };
	struct gt_device_name *names, *mine;
	struct gt_device_way way;
	int64_t place;
	size_t count;
	int rc = gt_device_names_read(&names, &count, cli->device, gt_backends, err);

	if (rc)
		return rc;
	mine = &names[(size_t)b->comm.world.local_rank % count];
	rc = gt_device_open(&b->device, mine->backend, mine->index, err);
	free(names);
	if (!rc)
		rc = gt_place_of(&place, b->device, err);
	if (!rc)
		rc = gt_place_count(&b->sharing, place, b->comm.group, err);
	if (!rc)
		rc = gt_device_way_choose(&way, b->comm.group, b->device, &options, err);
	if (rc)
		return rc;
	print_detour(b, &way);
	return gt_device_group_open(&b->group, b->comm.group, b->device, &way, err);
}

static void close_device(struct bench *b)
{
	if (b->group != b->comm.group)
		gt_group_free(b->group);
	gt_device_close(b->device);
	free(b->host);
}

/* Join, measure and leave. */
static int bench_as_rank(struct bench *b, const struct gt_bench_allreduce_cli *cli,
    const struct gt_world *world, const char *command, struct gt_err *err)
{
	char agreement[192];
	struct gt_comm_options options = cli->comm;
	int rc;

	options.backend = b->backend;
	options.agreement = agreement;
	options.command = command;
	snprintf(agreement, sizeof(agreement), "version %s\nsizes %.60s\ndtype %s\nbackends %.60s",
	    GT_VERSION, cli->sizes, gt_bench_dtypes[cli->dtype], cli->backends);
	rc = gt_comm_join(&b->comm, world, &options, err);
	if (rc)
		return rc;
	gt_cmd_warn_of_secret(b->log, &b->comm);
	rc = open_device(b, cli, err);
	if (!rc) {
		b->name = b->group->ops->name;
		rc = run_bench_rows(b, err);
	}
	close_device(b);
	if (!rc)
		rc = gt_comm_finish(&b->comm, err);
	gt_comm_leave(&b->comm);
	return rc;
}

/* One backend behind the other. Ranks meet for each, which closes the socket that they find rank 0
 * by: it gets a copy. */
static int run_backends(struct bench *benches, int count, const struct gt_bench_allreduce_cli *cli,
    const struct gt_world *world, const char *command, struct gt_err *err)
{
	struct gt_world again = *world;
	int rc = 0;

	for (int i = 0; !rc && i < count; i++) {
		if (world->listen_fd)
			again.listen_fd = fcntl(world->listen_fd, F_DUPFD_CLOEXEC, 0);
		if (again.listen_fd < 0)
			return gt_err_sys(err, "cannot copy the socket of rank 0");
		rc = bench_as_rank(&benches[i], cli, &again, command, err);
	}
	if (!rc && !world->rank)
		rc = print_benches(benches, count, cli, err);
	for (int i = 0; !rc && i < count; i++)
		rc = check_sums(&benches[i], err);
	return rc;
}

/* ---- the command ---- */

static int read_options(struct bench *benches, int *count, const struct gt_bench_allreduce_cli *cli,
    struct gt_log *log, struct gt_err *err)
{
	int backends[GT_COMM_BACKENDS], rc;

	rc = gt_bench_read_words(
	    backends, count, cli->backends, gt_comm_backend_names, "backend", err);
	for (int i = 0; !rc && i < *count; i++) {
		struct bench *b = &benches[i];

		*b = (struct bench){ .log = log,
			.backend = (enum gt_comm_backend)backends[i],
			.dtype = dtypes[cli->dtype],
			.rounds = (int)cli->rounds,
			.plain = cli->buffers == 1 };
		rc = read_sizes(b, cli->sizes, err);
	}
	return rc;
}

/* Refuse a request that no rank could serve. */
static int check_backends(const struct bench *benches, int count,
    const struct gt_bench_allreduce_cli *cli, bool launch, const char *command, struct gt_err *err)
{
	struct gt_where where = { .devices = cli->device };
	int rc = 0;

	for (int i = 0; !rc && i < count; i++) {
		where.way = gt_comm_way(benches[i].backend);
		rc = gt_session_check_device(&where, &(struct gt_precision){ 0 }, err);
		if (!rc && launch && benches[i].backend == GT_COMM_MPI)
			rc = gt_cmd_fail_launch(cli->nproc, command, err);
	}
	return rc;
}

static int bench_allreduce(void *values, struct gt_cmd_env *env, struct gt_err *err)
{
	struct gt_bench_allreduce_cli *cli = values;
	struct bench benches[GT_COMM_BACKENDS];
	struct gt_cmd_ranks ranks = { .rank_0_prints = true };
	struct gt_world world;
	char *command = NULL;
	bool launch = false;
	int count, rc = read_options(benches, &count, cli, &env->log, err);

	ranks.nproc = cli->nproc;
	if (!rc)
		rc = gt_cmd_command_line(&command, env->argc, env->argv, err);
	if (!rc)
		rc = gt_cmd_find_world(&world, env, cli->nproc, &launch, err);
	if (!rc)
		rc = check_backends(benches, count, cli, launch, command, err);
	if (!rc)
		rc = launch ? gt_cmd_launch(&ranks, env, err)
		            : run_backends(benches, count, cli, &world, command, err);
	free(command);
	return rc;
}

const struct gt_cmd_work gt_cmd_bench_allreduce = { gt_bench_allreduce_options,
	sizeof(struct gt_bench_allreduce_cli), bench_allreduce };
