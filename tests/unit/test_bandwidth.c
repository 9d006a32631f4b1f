/* test_bandwidth.c - memory for copies: it is written, asked for in bounds, and given back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/device/backend.h"
#include "lib/device/bandwidth.h"

enum { MIB = 1 << 20, BYTES = 64 * MIB };

static int64_t resident_bytes(void)
{
	long long all = 0, resident = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%lld %lld", &all, &resident), 2);
	fclose(f);
	return resident * sysconf(_SC_PAGESIZE);
}

/* A page that was never written is one of zeros, which all such pages share. */
static void test_memory_is_there(void **state)
{
	const struct gt_device_name cpu = { &gt_cpu_backend, 0 };
	int64_t before = resident_bytes();
	struct gt_err err = GT_ERR_INIT;
	struct gt_copies *c;

	(void)state;
	assert_int_equal(gt_copies_open(&c, &cpu, 1, BYTES, &err), 0);
	assert_true(resident_bytes() - before > 2 * (BYTES - MIB));
	gt_copies_close(c);
}

/* ---- a CPU with limits ---- */

static uint64_t free_bytes;
static int streams, entries_left;

static int memory(int index, uint64_t *available, uint64_t *total, struct gt_err *err)
{
	(void)index;
	(void)err;
	*available = free_bytes;
	*total = free_bytes;
	return 0;
}

static int enter(int index, struct gt_err *err)
{
	(void)index;
	return entries_left-- > 0 ? 0 : gt_err_set(err, GT_EDEVICE, "no entry");
}

static int stream_new(struct gt_stream **out, int index, struct gt_err *err)
{
	streams++;
	return gt_cpu_backend.stream_new(out, index, err);
}

static void stream_free(struct gt_stream *stream)
{
	streams--;
	gt_cpu_backend.stream_free(stream);
}

static struct gt_backend limited(uint64_t bytes, int entries)
{
	struct gt_backend b = gt_cpu_backend;

	streams = 0;
	free_bytes = bytes;
	entries_left = entries;
	b.memory = memory;
	b.enter = enter;
	b.stream_new = stream_new;
	b.stream_free = stream_free;
	return b;
}

/* Two buffers, of which a system that hands out too much would give both. */
static void test_bounds(void **state)
{
	static const struct {
		uint64_t available;
		int rc;
	} cases[] = { { 2 * MIB, 0 }, { 2 * MIB - 1, GT_ENOMEM }, { 0, GT_ENOMEM } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct gt_backend b = limited(cases[i].available, 9);
		const struct gt_device_name name = { &b, 0 };
		struct gt_err err = GT_ERR_INIT;
		struct gt_copies *c;

		assert_int_equal(gt_copies_open(&c, &name, 1, MIB, &err), cases[i].rc);
		assert_int_equal(!!c, !cases[i].rc);
		assert_int_equal(!!strstr(err.text, "no memory: "), !!cases[i].rc);
		gt_copies_close(c);
		assert_int_equal(streams, 0);
	}
}

/* A device that can be entered no more, as after a kernel's fault, is closed all the same. */
static void test_lost_device_is_closed(void **state)
{
	const struct gt_backend b = limited(2 * MIB, 1);
	const struct gt_device_name name = { &b, 0 };
	struct gt_err err = GT_ERR_INIT;
	struct gt_copies *c;

	(void)state;
	assert_int_equal(gt_copies_open(&c, &name, 1, 4096, &err), 0);
	gt_copies_close(c);
	assert_int_equal(streams, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory_is_there),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_lost_device_is_closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
