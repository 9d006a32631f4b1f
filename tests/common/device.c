/* device.c - the devices of tests. */
#include "tests/common/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICES = 8 };

/* Each is its rank's alone. */
static struct gt_device *devices[DEVICES];

const struct gt_device *test_device(int index)
{
	struct gt_err err = GT_ERR_INIT;

	if (!devices[index] && gt_device_open(&devices[index], &gt_cpu_backend, 0, &err)) {
		fprintf(stderr, "device %d: %s\n", index, err.text);
		abort();
	}
	return devices[index];
}

void test_device_ruin(int index, void *p, size_t bytes)
{
	struct gt_err err = GT_ERR_INIT;
	void *nan = malloc(bytes ? bytes : 1);

	if (!nan)
		abort();
	memset(nan, 0xff, bytes);
	if (gt_device_write(test_device(index), p, nan, bytes, &err))
		abort();
	free(nan);
}
