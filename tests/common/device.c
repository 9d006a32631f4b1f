/* device.c - the devices of tests: the CPU, or those of the backend in GTRAIN_TEST_BACKEND. */
#include "tests/common/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fake/far/far.h"

enum { BACKENDS = 4 };

/* Each is its rank's alone; of every backend, as some tests compare two. */
static struct gt_device *devices[BACKENDS][FAR_DEVICES];

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

bool test_takes_row(size_t k, size_t i)
{
	const char *thorough = getenv("THOROUGH");

	return test_device_is_cpu() || (thorough && *thorough) || i % k == 0;
}

static void check(int index, int rc, const struct gt_err *err)
{
	if (!rc)
		return;
	fprintf(stderr, "device %d: %s\n", index, err->text);
	abort();
}

/*
 * In the list of tests/fake/far/backends.c, or of tests/cudasim/backends.c: this reference puts it
 * into the program.
 */
static int find_backend(void)
{
	int i = 0;

	while (i < BACKENDS && gt_backends[i] && strcmp(gt_backends[i]->name, backend_name()) != 0)
		i++;
	if (i < BACKENDS && gt_backends[i])
		return i;
	fprintf(stderr, "GTRAIN_TEST_BACKEND: no backend '%s'\n", backend_name());
	abort();
}

const struct gt_device *test_device(int index)
{
	int backend = find_backend(), number = index % gt_backends[backend]->count();
	struct gt_device **d = &devices[backend][index];
	struct gt_err err = GT_ERR_INIT;

	if (!*d) {
		check(index, gt_device_open(d, gt_backends[backend], number, &err), &err);
		(*d)->untimed = getenv("GTRAIN_TEST_UNTIMED");
	}
	check(index, gt_backends[backend]->enter(number, &err), &err);
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
