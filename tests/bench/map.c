/* map.c - time expressions: interpreted, and as a plan chooses to run them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/device/backend.h"
#include "lib/graph/kernel.h"
#include "tests/common/map_programs.h"

/*
 * bench_map [DEVICE [BYTES]]: DEVICE is cpu or cuda:N, default cuda:0; BYTES are those of a tensor,
 * default 64 MiB. A row has the times of a run interpreted and chosen, the best of ROUNDS, their
 * ratio, and the bytes per second that the chosen one reads and writes. "chosen" is compiled by
 * NVRTC if that is faster (kernels/cuda/elementwise/map_ways.c); its note follows, if there is one.
 * Results of both must have the same bits. Set XDG_CACHE_HOME to an empty folder to measure the
 * choice anew.
 */

enum { ROUNDS = 5 };

static const struct row {
	const char *name;
	const struct gt_map_program *program;
	bool broadcast; /* the last input has one row */
} rows[] = {
	{ "chain of ten", &test_chain_of_ten, false },
	{ "chain of ten, broadcast", &test_chain_of_ten, true },
	{ "x * sigmoid(x)", &test_swish, false },
	{ "gelu by hand", &test_gelu_by_hand, false },
};

struct bench {
	const struct gt_device *device;
	int64_t bytes;
	struct gt_err err;
};

static void check(const struct bench *b, int rc)
{
	if (!rc)
		return;
	fprintf(stderr, "bench_map: %s\n", b->err.text);
	exit(1);
}

static const struct gt_kernel *find_kernel(const struct bench *b, struct gt_call *call)
{
	for (const struct gt_kernel *const *table = b->device->backend->kernels(); *table; table++)
		for (const struct gt_kernel *k = *table; k->op; k++) {
			call->kernel = k;
			if (!strcmp(k->op, "map") && k->dtype == call->out[0].dtype &&
			    (!k->accepts || k->accepts(call)))
				return k;
		}
	fprintf(stderr, "bench_map: the device has no kernel for map\n");
	exit(1);
}

/* ---- tensors ---- */

static size_t bytes_of(const struct gt_tensor *t)
{
	return (size_t)gt_tensor_elements(t) * gt_dtype_size(t->dtype);
}

/* Random bits that are numbers from 0.5 to 1, with either sign, in float32 and in bfloat16. */
static void fill(struct bench *b, const struct gt_tensor *t)
{
	size_t words = bytes_of(t) / sizeof(uint16_t);
	uint16_t *host = malloc(bytes_of(t));

	if (!host)
		check(b, gt_err_set(&b->err, GT_ENOMEM, "no memory for %zu words", words));
	for (size_t i = 0; i < words; i++)
		host[i] = (uint16_t)(0x3f00 | ((uint32_t)i * 2654435761u >> 16 & 0x807f));
	check(b, gt_device_write(b->device, t->data, host, bytes_of(t), &b->err));
	free(host);
}

static struct gt_tensor new_tensor(
    struct bench *b, enum gt_dtype dtype, int64_t count, int64_t last)
{
	struct gt_tensor t = {
		.present = true, .dtype = dtype, .ndim = 2, .shape = { count, last }
	};

	check(b, gt_device_alloc(b->device, bytes_of(&t), &t.data, &b->err));
	fill(b, &t);
	return t;
}

static void free_tensor(const struct bench *b, const struct gt_tensor *t)
{
	gt_device_free(b->device, t->data, bytes_of(t));
}

/* ---- a row ---- */

/* Return the seconds of a run, the best of the rounds. */
static double best_run(struct bench *b, struct gt_call *call)
{
	double best = 1e9;
	int runs = b->bytes >= 1 << 20 ? 50 : 1;

	for (int round = 0; round <= ROUNDS; round++) { /* the first warms up */
		double began = gt_clock_s(), spent;

		for (int i = 0; i < runs; i++)
			check(b, call->kernel->run(call, &b->err));
		check(b, gt_device_sync(b->device, &b->err));
		spent = (gt_clock_s() - began) / runs;
		best = round && spent < best ? spent : best;
	}
	return best;
}

/* Prepare a call and run it; *seconds are those of a run. Return its note. */
static const char *time_way(struct bench *b, struct gt_call *call, bool untimed, double *seconds)
{
	void *data[GT_MAX_INPUTS + 1] = { call->out[0].data };

	call->untimed = untimed;
	call->state = NULL;
	call->note = NULL;
	for (int i = 0; i < call->inputs; i++)
		data[1 + i] = call->in[i].data, call->in[i].data = NULL;
	call->out[0].data = NULL;
	if (call->kernel->prepare)
		check(b, call->kernel->prepare(call, &b->err));
	call->out[0].data = data[0];
	for (int i = 0; i < call->inputs; i++)
		call->in[i].data = data[1 + i];
	if (call->kernel->bind)
		check(b, call->kernel->bind(call, &b->err));
	*seconds = best_run(b, call);
	if (call->kernel->release)
		call->kernel->release(call);
	return call->note;
}

static void read_result(struct bench *b, const struct gt_call *call, void **host)
{
	*host = malloc(bytes_of(&call->out[0]));
	if (!*host)
		check(b, gt_err_set(&b->err, GT_ENOMEM, "no memory for a result"));
	check(b,
	    gt_device_read(b->device, *host, call->out[0].data, bytes_of(&call->out[0]), &b->err));
}

static void run_row(struct bench *b, const struct row *row, enum gt_dtype dtype)
{
	enum { LAST = 1024 };
	int64_t count = b->bytes / (int64_t)gt_dtype_size(dtype) / LAST;
	struct gt_call call = { .inputs = row->program->inputs,
		.outputs = 1,
		.stream = b->device->compute,
		.attrs.map.program = row->program };
	double interpreted, chosen, moved;
	const char *note;
	void *x, *y;

	for (int i = 0; i < call.inputs; i++)
		call.in[i] =
		    new_tensor(b, dtype, row->broadcast && i + 1 == call.inputs ? 1 : count, LAST);
	call.out[0] = new_tensor(b, dtype, count, LAST);
	find_kernel(b, &call);
	time_way(b, &call, true, &interpreted);
	read_result(b, &call, &x);
	note = time_way(b, &call, false, &chosen);
	read_result(b, &call, &y);
	moved = (double)bytes_of(&call.out[0]);
	for (int i = 0; i < call.inputs; i++)
		moved += (double)bytes_of(&call.in[i]);
	printf("%-26s %-9s %10.1f us interpreted %10.1f us chosen %6.2f x %8.0f GB/s%s%s\n",
	    row->name, gt_dtype_name(dtype), interpreted * 1e6, chosen * 1e6, interpreted / chosen,
	    moved / chosen * 1e-9, note ? "  " : "", note ? note : "");
	fflush(stdout);
	if (memcmp(x, y, bytes_of(&call.out[0])))
		check(b, gt_err_set(&b->err, GT_EINVAL, "%s: the bits differ", row->name));
	for (int i = 0; i < call.inputs; i++)
		free_tensor(b, &call.in[i]);
	free_tensor(b, &call.out[0]);
	free(x);
	free(y);
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "cuda:0";
	char kind[16] = "";
	struct bench b = { .bytes = argc > 2 ? atoll(argv[2]) : 64 << 20 };
	struct gt_device *device;
	int index = 0;

	if (sscanf(name, "%15[a-z]:%d", kind, &index) < 1 || b.bytes < 4096) {
		fprintf(stderr, "usage: bench_map [cpu|cuda:N [BYTES]]\n");
		return 2;
	}
	check(&b, gt_device_open(&device, gt_backend_find(kind), index, &b.err));
	b.device = device;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		run_row(&b, &rows[i], GT_F32);
		run_row(&b, &rows[i], GT_BF16);
	}
	gt_device_close(device);
	return 0;
}
