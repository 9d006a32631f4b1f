/* device.c - the devices of tests: the CPU, or those of the backend in GTRAIN_TEST_BACKEND. */
#include "tests/common/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fake/far/far.h"

/* Each is its rank's alone. */
static struct gt_device *devices[FAR_DEVICES];

static const char *backend_name(void)
{
	const char *name = getenv("GTRAIN_TEST_BACKEND");

	return name ? name : gt_cpu_backend.name;
}

bool test_device_is_far(void)
{
	return !strcmp(backend_name(), far_backend.name);
}

bool test_device_is_cpu(void)
{
	return !strcmp(backend_name(), gt_cpu_backend.name);
}

static void check(int index, int rc, const struct gt_err *err)
{
	if (!rc)
		return;
	fprintf(stderr, "device %d: %s\n", index, err->text);
	abort();
}

/* In the list of tests/fake/far/backends.c, or of tests/cudasim/backends.c: naming it here is what
 * puts it in the program. */
static const struct gt_backend *find_backend(void)
{
	for (int i = 0; gt_backends[i]; i++)
		if (!strcmp(gt_backends[i]->name, backend_name()))
			return gt_backends[i];
	return NULL;
}

const struct gt_device *test_device(int index)
{
	const struct gt_backend *b = find_backend();
	int number = test_device_is_cpu() ? 0 : index;
	struct gt_err err = GT_ERR_INIT;

	if (!b) {
		fprintf(stderr, "GTRAIN_TEST_BACKEND: no backend '%s'\n", backend_name());
		abort();
	}
	if (!devices[index])
		check(index, gt_device_open(&devices[index], b, number, &err), &err);
	check(index, b->enter(number, &err), &err);
	return devices[index];
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
