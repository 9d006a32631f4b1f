/* device.c - the devices of tests: the CPU, or those of the backend in GTRAIN_TEST_BACKEND. */
#include "tests/common/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fake/far/far.h"

/* Each is its rank's alone. The CPU's, the far ones. */
static struct gt_device *devices[2][FAR_DEVICES];

bool test_device_is_far(void)
{
	const char *name = getenv("GTRAIN_TEST_BACKEND");

	return name && !strcmp(name, far_backend.name);
}

static void check(int index, int rc, const struct gt_err *err)
{
	if (!rc)
		return;
	fprintf(stderr, "device %d: %s\n", index, err->text);
	abort();
}

const struct gt_device *test_device(int index)
{
	bool far = test_device_is_far();
	const struct gt_backend *b = gt_backends[far]; /* tests/fake/far/backends.c */
	struct gt_device **d = &devices[far][index];
	struct gt_err err = GT_ERR_INIT;

	if (!*d)
		check(index, gt_device_open(d, b, far ? index : 0, &err), &err);
	check(index, b->enter(far ? index : 0, &err), &err);
	return *d;
}

void *test_device_copy(const void *p, size_t bytes)
{
	struct gt_err err = GT_ERR_INIT;
	void *host = malloc(bytes ? bytes : 1);

	if (!host)
		abort();
	check(0, gt_device_read(test_device(0), host, p, bytes, &err), &err);
	return host;
}

void test_device_ruin(void *p, size_t bytes)
{
	struct gt_err err = GT_ERR_INIT;
	void *nan = malloc(bytes ? bytes : 1);

	if (!nan)
		abort();
	memset(nan, 0xff, bytes);
	check(0, gt_device_write(test_device(0), p, nan, bytes, &err), &err);
	free(nan);
}
