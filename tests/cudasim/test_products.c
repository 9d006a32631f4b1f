/* test_products.c - products on simulated GPUs: the choice of algorithms, and its file. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
/* cmocka wants these first */
#include <cmocka.h>

#include "kernels/cuda/library/cublaslt.h"
#include "kernels/cuda/library/product.h"
#include "lib/base/half.h"
#include "lib/device/backend.h"
#include "tests/cudasim/cudasim.h"

/* Of lib/cublaslt.cc: the first one proposed; the fastest that a product may use; the one after. */
enum { FIRST = 0, FASTEST = 1, SECOND = 5 };

#define FILE_NAME "cublaslt-130000-driver-13000-simulated-GPU.txt"

/* The user's cache. */
static char folder[] = "/tmp/gtrain-products.XXXXXX";

static const struct gt_backend *const b = &gt_cuda_backend;

static void ok(int rc, const struct gt_err *err)
{
	if (rc)
		fail_msg("%s", err->text);
}

static struct gt_product_shape shape_of(int64_t m, int64_t n, int64_t k)
{
	return (struct gt_product_shape){ .dtype = GT_F32, .m = m, .n = n, .k = k };
}

static struct gt_product *product_of(const struct gt_product_shape *s)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_product *p;

	ok(b->enter(0, &err), &err);
	ok(gt_product_new(&p, s, &err), &err);
	return p;
}

/* ---- choices ---- */

/* The algorithm that a product runs with, on memory that is aligned to 64 bytes and no more. */
static int algorithm_of(const struct gt_product_shape *s)
{
	struct gt_product *p = product_of(s);
	struct gt_err err = GT_ERR_INIT;
	struct gt_device *d;
	size_t bytes = (size_t)(s->m * s->n + s->m * s->k + s->k * s->n) * sizeof(float) + 1024;
	char *x, *a, *y, *work;

	ok(gt_device_open(&d, b, 0, &err), &err);
	ok(gt_device_alloc(d, bytes, (void **)&x, &err), &err);
	ok(gt_device_alloc(d, gt_product_workspace(p), (void **)&work, &err), &err);
	a = x + 64;
	y = x + 448;
	ok(gt_product_run(p, d->compute, y, a, a, y, 1, 0, work, &err), &err);
	ok(gt_device_sync(d, &err), &err);
	gt_device_free(d, x, bytes);
	gt_device_free(d, work, gt_product_workspace(p));
	gt_device_close(d);
	gt_product_free(p);
	return cudasim_products.algorithm;
}

/* Those that are not deterministic, need more alignment or more workspace would be faster. */
static void test_fastest(void **state)
{
	struct gt_product_shape s = shape_of(3, 4, 5);
	long queued;

	(void)state;
	queued = cudasim_products.queued;
	gt_product_free(product_of(&s));
	assert_true(cudasim_products.queued > queued);
	queued = cudasim_products.queued;
	assert_int_equal(algorithm_of(&s), FASTEST);
	assert_int_equal(cudasim_products.queued, queued + 1); /* the run alone */
}

/* A driver takes a millisecond to describe a GPU: gtrain asks it for that once. */
static void test_described_once(void **state)
{
	struct gt_product_shape s = shape_of(3, 5, 5);
	long descriptions;

	(void)state;
	gt_product_free(product_of(&s));
	descriptions = cudasim_descriptions();
	for (s.m = 4; s.m < 7; s.m++)
		gt_product_free(product_of(&s));
	assert_int_equal(cudasim_descriptions(), descriptions);
}

/* Shapes, types, biases, ends, gaps between rows, TF32 and batches have choices of their own. */
static void test_keys(void **state)
{
	const struct gt_product_shape same = shape_of(6, 7, 8);
	struct gt_product_shape s[16];

	(void)state;
	for (int i = 0; i < 16; i++)
		s[i] = same;
	s[1].m = 9;
	s[2].n = 9;
	s[3].k = 9;
	s[4].trans_a = true;
	s[5].dtype = GT_BF16;
	s[6].bias = true;
	for (int i = 7; i < 10; i++)
		s[i].dtype = GT_BF16;
	s[7].wide = true;
	s[8].end = GT_PRODUCT_GELU;
	s[9].end = GT_PRODUCT_SUMS_B;
	s[10].a_stride = 16;
	s[11].y_stride = 16;
	s[12].tf32 = true;
	for (int i = 13; i < 16; i++) {
		s[i].batch = i < 15 ? 3 : 4;
		s[i].a_step = 6 * 8;
		s[i].b_step = i == 14 ? 0 : 8 * 7;
		s[i].y_step = 6 * 7;
	}
	for (int i = 0; i < 16; i++) {
		long queued = cudasim_products.queued;

		gt_product_free(product_of(&s[i]));
		if (cudasim_products.queued == queued)
			fail_msg("shape %d was not timed", i);
	}
}

/* The first one, whatever its time, and whatever was chosen by time. */
static void test_untimed(void **state)
{
	struct gt_product_shape s = shape_of(3, 4, 6);

	(void)state;
	assert_int_equal(algorithm_of(&s), FASTEST);
	s.untimed = true;
	cudasim_products.slow = FIRST + 1;
	assert_int_equal(algorithm_of(&s), FIRST);
	cudasim_products.slow = 0;
	assert_int_equal(algorithm_of(&s), FIRST);
	s.untimed = false;
	assert_int_equal(algorithm_of(&s), FASTEST);
}

static pthread_barrier_t together;

static void *make_product(void *device)
{
	struct gt_product_shape s = shape_of(100, 101, 102);
	struct gt_err err = GT_ERR_INIT;
	struct gt_product *p = NULL;
	int rc = b->enter((int)(intptr_t)device, &err);

	pthread_barrier_wait(&together);
	if (!rc)
		rc = gt_product_new(&p, &s, &err);
	gt_product_free(p);
	return (void *)(intptr_t)rc;
}

/* Ranks that are threads, with a GPU each, measure once: without a file, too. */
static void test_several_threads(void **state)
{
	enum { THREADS = 4 };
	struct gt_product_shape s = shape_of(33, 34, 35);
	pthread_t threads[THREADS];
	long once, queued = cudasim_products.queued;

	(void)state;
	setenv("XDG_CACHE_HOME", "/dev/null", 1);
	pthread_barrier_init(&together, NULL, THREADS);
	gt_product_free(product_of(&s));
	once = cudasim_products.queued - queued;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(
		    pthread_create(&threads[i], NULL, make_product, (void *)(intptr_t)(i % 2)), 0);
	for (int i = 0; i < THREADS; i++) {
		void *rc;

		assert_int_equal(pthread_join(threads[i], &rc), 0);
		assert_null(rc);
	}
	assert_int_equal(cudasim_products.queued - queued, 2 * once);
	pthread_barrier_destroy(&together);
	setenv("XDG_CACHE_HOME", folder, 1);
}

static void test_no_memory_to_time(void **state)
{
	struct gt_product_shape s = shape_of(10, 11, 12);
	long queued = cudasim_products.queued;
	struct gt_product *p;

	(void)state;
	cudasim_fail_allocation(1);
	p = product_of(&s);
	cudasim_fail_allocation(0);
	gt_product_free(p);
	assert_int_equal(cudasim_products.queued, queued);
	assert_int_equal(algorithm_of(&s), FASTEST); /* it is timed as soon as it can be */
}

static void test_no_algorithm(void **state)
{
	struct gt_product_shape s = { .dtype = GT_F64, .bias = true, .m = 2, .n = 3, .k = 4 };
	struct gt_err err = GT_ERR_INIT;
	struct gt_product *p;

	(void)state;
	ok(b->enter(0, &err), &err);
	assert_int_equal(gt_product_new(&p, &s, &err), GT_ENOTSUP);
	assert_null(p);
	assert_string_equal(
	    err.text, "cuBLASLt has no algorithm for a product of 2 x 4 and 4 x 3 in float64");
}

/* y = 2 a b^T + 3 c, on both devices. */
static void test_sum_of_products(void **state)
{
	const float a[] = { 1, 2, 3, 4 }, c[] = { 10, 20, 30, 40, 50, 60 };
	const float w[] = { 1, 0, 0, 1, 1, 1 }, want[] = { 32, 64, 96, 126, 158, 194 };
	struct gt_product_shape s = { .dtype = GT_F32, .trans_b = true, .m = 2, .n = 3, .k = 2 };
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	for (int index = 0; index < 2; index++) {
		struct gt_device *d;
		struct gt_product *p;
		char *x;
		float y[6];

		ok(gt_device_open(&d, b, index, &err), &err);
		ok(gt_product_new(&p, &s, &err), &err);
		ok(gt_device_alloc(d, (1 << 20) + 1024, (void **)&x, &err), &err);
		ok(gt_device_write(d, x, a, sizeof(a), &err), &err);
		ok(gt_device_write(d, x + 256, w, sizeof(w), &err), &err);
		ok(gt_device_write(d, x + 512, c, sizeof(c), &err), &err);
		ok(gt_product_run(
		       p, d->compute, x + 768, x, x + 256, x + 512, 2, 3, x + 1024, &err),
		    &err);
		ok(gt_device_read(d, y, x + 768, sizeof(y), &err), &err);
		assert_memory_equal(y, want, sizeof(y));
		gt_product_free(p);
		gt_device_free(d, x, (1 << 20) + 1024);
		gt_device_close(d);
	}
}

/* y [1, 1] = a b with and without TF32: 1 + 2^-11 and its negative are half way between two of its
 * numbers, so they are rounded away from zero; 1 + 2^-12 is not far enough. */
static void test_tf32(void **state)
{
	static const struct {
		float a, b, whole, rounded;
	} rows[] = {
		{ 1 + 0x1p-11F, 1, 1 + 0x1p-11F, 1 + 0x1p-10F },
		{ -1 - 0x1p-11F, 1, -1 - 0x1p-11F, -1 - 0x1p-10F },
		{ 1, 1 + 0x1p-12F, 1 + 0x1p-12F, 1 },
		{ 0x1p100F, 3 + 0x1p-20F, 0x1p100F * (3 + 0x1p-20F), 0x1p100F * 3 },
	};
	struct gt_err err = GT_ERR_INIT;
	struct gt_device *d;
	char *x;

	(void)state;
	ok(gt_device_open(&d, b, 0, &err), &err);
	ok(gt_device_alloc(d, (1 << 20) + 1024, (void **)&x, &err), &err);
	for (size_t i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
		struct gt_product_shape s = shape_of(1, 1, 1);
		struct gt_product *p;
		float y = 0;

		s.tf32 = i % 2;
		ok(gt_product_new(&p, &s, &err), &err);
		ok(gt_device_write(d, x, &rows[i / 2].a, sizeof(y), &err), &err);
		ok(gt_device_write(d, x + 256, &rows[i / 2].b, sizeof(y), &err), &err);
		ok(gt_product_run(
		       p, d->compute, x + 512, x, x + 256, x + 512, 1, 0, x + 1024, &err),
		    &err);
		ok(gt_device_read(d, &y, x + 512, sizeof(y), &err), &err);
		assert_true(y == (s.tf32 ? rows[i / 2].rounded : rows[i / 2].whole));
		gt_product_free(p);
	}
	gt_device_free(d, x, (1 << 20) + 1024);
	gt_device_close(d);
}

/* Rows apart: of a, which is read transposed, and of y, whose gaps stay as they are; of bfloat16,
 * and added to float32. y [2, 3] += a^T [2, 4] b [4, 3]. */
static void test_rows_apart(void **state)
{
	enum { A_ROW = 5, Y_ROW = 4 };
	const float want[2 * Y_ROW] = { 23, 29, 35, 99, 37, 45, 53, 99 };
	struct gt_product_shape s = { .dtype = GT_BF16, .trans_a = true, .m = 2, .n = 3, .k = 4 };
	uint16_t a[4 * A_ROW], w[12];
	float y[2 * Y_ROW] = { 5, 7, 9, 99, 1, 1, 1, 99 };
	struct gt_err err = GT_ERR_INIT;
	struct gt_product *p;
	struct gt_device *d;
	char *x;

	(void)state;
	s.wide = true;
	s.a_stride = A_ROW;
	s.y_stride = Y_ROW;
	for (int i = 0; i < 4 * A_ROW; i++)
		a[i] = gt_bf16_of_float(i % A_ROW < 2 ? (float)(1 + i % A_ROW) : NAN);
	for (int i = 0; i < 12; i++)
		w[i] = gt_bf16_of_float((float)i);
	ok(gt_device_open(&d, b, 0, &err), &err);
	ok(gt_product_new(&p, &s, &err), &err);
	ok(gt_device_alloc(d, (1 << 20) + 1024, (void **)&x, &err), &err);
	ok(gt_device_write(d, x, a, sizeof(a), &err), &err);
	ok(gt_device_write(d, x + 256, w, sizeof(w), &err), &err);
	ok(gt_device_write(d, x + 512, y, sizeof(y), &err), &err);
	ok(gt_product_run(p, d->compute, x + 512, x, x + 256, x + 512, 1, 1, x + 1024, &err), &err);
	ok(gt_device_read(d, y, x + 512, sizeof(y), &err), &err);
	assert_memory_equal(y, want, sizeof(y));
	gt_product_free(p);
	gt_device_free(d, x, (1 << 20) + 1024);
	gt_device_close(d);
}

/* ---- the file: each child is a process that knows nothing yet ---- */

static char *path_in_folder(const char *name)
{
	static char path[200];

	snprintf(path, sizeof(path), "%s/gtrain/%s", folder, name);
	return path;
}

enum { TIMED = 64 };

/* A process that makes a product of the shape that only children have. */
static pid_t start_child(int slow)
{
	pid_t pid = fork();

	if (!pid) {
		struct gt_product_shape s = shape_of(20, 21, 22);
		int timed;

		cudasim_products.slow = slow + 1;
		gt_product_free(product_of(&s));
		timed = cudasim_products.queued > 0;
		_exit(algorithm_of(&s) | (timed ? TIMED : 0));
	}
	assert_true(pid > 0);
	return pid;
}

static int end_child(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* `slow` is the number of an algorithm, or -1. */
static int child(int slow)
{
	return end_child(start_child(slow));
}

static void test_file(void **state)
{
	struct stat st;
	char command[100];

	(void)state;
	assert_int_equal(child(-1), FASTEST | TIMED);
	assert_int_equal(stat(path_in_folder(FILE_NAME), &st), 0);
	assert_int_equal(child(-1), FASTEST);
	/* the file's, whatever a measurement would say now */
	assert_int_equal(child(FASTEST), FASTEST);
	/* nothing else stays in the folder */
	snprintf(command, sizeof(command), "test $(ls -A %s/gtrain | wc -l) = 2", folder);
	assert_int_equal(system(command), 0);
}

static void write_file(const char *text, size_t bytes)
{
	FILE *f = fopen(path_in_folder(FILE_NAME), "w");

	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, bytes, f), bytes);
	assert_int_equal(fclose(f), 0);
}

/* Whatever stands there, the product is right, and the next process has a good file. */
static void check_damaged(const char *what, const char *text, size_t bytes)
{
	write_file(text, bytes);
	if (child(FASTEST) != (SECOND | TIMED))
		fail_msg("a file that is %s: was not timed again", what);
	if (child(FASTEST) != SECOND)
		fail_msg("a file that was %s: is not good again", what);
}

static void test_damaged_file(void **state)
{
	char good[1000], bad[1000], *hex;
	size_t size;
	FILE *f;

	(void)state;
	unlink(path_in_folder(FILE_NAME));
	assert_int_equal(child(-1), FASTEST | TIMED);
	f = fopen(path_in_folder(FILE_NAME), "r");
	assert_non_null(f);
	size = fread(good, 1, sizeof(good) - 1, f);
	good[size] = '\0';
	fclose(f);
	check_damaged("empty", "", 0);
	check_damaged("cut short", good, size - 1);
	check_damaged("cut in the middle", good, size / 2);
	memcpy(bad, good, sizeof(bad));
	hex = strrchr(bad, ' ') + 1;
	hex[20] = '7'; /* another algorithm: none that is offered */
	check_damaged("changed", bad, size);
	memcpy(bad, good, sizeof(bad));
	strrchr(bad, ' ')[5] = 'x';
	check_damaged("no hexadecimal", bad, size);
	memset(bad, 'x', sizeof(bad));
	check_damaged("one long line", bad, sizeof(bad));
	memset(bad, 0, sizeof(bad));
	check_damaged("zeros", bad, sizeof(bad));
	write_file(good, size);
	assert_int_equal(child(FASTEST), FASTEST);
}

/* Bytes that this process has read from files so far. */
static long read_so_far(void)
{
	FILE *f = fopen("/proc/self/io", "r");
	long bytes = 0;

	assert_non_null(f);
	assert_int_equal(fscanf(f, "rchar: %ld", &bytes), 1);
	fclose(f);
	return bytes;
}

/* A long file is read once, and again after another process has changed it. */
static void test_file_is_read_once(void **state)
{
	enum { LINES = 300 };
	struct gt_product_shape s = shape_of(30, 31, 32);
	char *text = malloc(LINES * 200), *end = text;
	long before, queued;

	(void)state;
	for (int i = 0; i < LINES; i++)
		end += sprintf(end, "line-%d %0128d\n", i, i);
	write_file(text, (size_t)(end - text));
	before = read_so_far();
	gt_product_free(product_of(&s));
	assert_true(read_so_far() - before >= end - text);
	before = read_so_far();
	for (s.m = 33; s.m < 36; s.m++)
		gt_product_free(product_of(&s));
	assert_true(read_so_far() - before < end - text);
	assert_int_equal(child(-1), FASTEST | TIMED);
	s = shape_of(20, 21, 22);
	queued = cudasim_products.queued;
	gt_product_free(product_of(&s));
	assert_int_equal(cudasim_products.queued, queued);
	free(text);
	unlink(path_in_folder(FILE_NAME));
}

static void test_no_file(void **state)
{
	(void)state;
	unlink(path_in_folder(FILE_NAME));
	assert_int_equal(mkdir(path_in_folder(FILE_NAME), 0777), 0);
	assert_int_equal(child(-1), FASTEST | TIMED);
	assert_int_equal(rmdir(path_in_folder(FILE_NAME)), 0);
	setenv("XDG_CACHE_HOME", "/dev/null", 1);
	assert_int_equal(child(-1), FASTEST | TIMED);
	setenv("XDG_CACHE_HOME", "/proc", 1);
	assert_int_equal(child(-1), FASTEST | TIMED);
	unsetenv("XDG_CACHE_HOME");
	unsetenv("HOME");
	assert_int_equal(child(-1), FASTEST | TIMED);
	setenv("HOME", folder, 1);
	assert_int_equal(child(-1), FASTEST | TIMED);
	assert_int_equal(child(-1), FASTEST);
	setenv("XDG_CACHE_HOME", folder, 1);
	assert_int_equal(child(-1), FASTEST | TIMED);
}

/* Processes that begin together measure once. */
static void test_several_processes(void **state)
{
	enum { CHILDREN = 4 };
	pid_t pids[CHILDREN];
	int timed = 0;

	(void)state;
	unlink(path_in_folder(FILE_NAME));
	for (int i = 0; i < CHILDREN; i++)
		pids[i] = start_child(i % 2 ? FASTEST : SECOND);
	for (int i = 0; i < CHILDREN; i++)
		timed += end_child(pids[i]) >= TIMED;
	assert_int_equal(timed, 1);
}

static int set_up(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	return setenv("XDG_CACHE_HOME", folder, 1);
}

static int tear_down(void **state)
{
	char command[100];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_file),
		cmocka_unit_test(test_damaged_file),
		cmocka_unit_test(test_no_file),
		cmocka_unit_test(test_several_processes),
		cmocka_unit_test(test_file_is_read_once),
		cmocka_unit_test(test_fastest),
		cmocka_unit_test(test_described_once),
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_untimed),
		cmocka_unit_test(test_several_threads),
		cmocka_unit_test(test_no_memory_to_time),
		cmocka_unit_test(test_no_algorithm),
		cmocka_unit_test(test_sum_of_products),
		cmocka_unit_test(test_tf32),
		cmocka_unit_test(test_rows_apart),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
