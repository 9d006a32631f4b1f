/* calls.h - calls of kernels made by hand: tensors, a row out of a table, prepare to release. */
#ifndef GT_TESTS_COMMON_CALLS_H
#define GT_TESTS_COMMON_CALLS_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <omp.h>

#include "kernels/cpu/cpu.h"
#include "lib/base/philox.h"

/* The instruction sets of this processor; where GTRAIN_TEST_BACKEND names a device
 * (tests/common/device.h), the kernels of that alone. Tensors are the host's in any case. */
struct test_set {
	const char *name;
	const struct gt_cpu_set *set;
};

int test_sets(struct test_set out[3]);

/* Whether a device has no row for the call: not all have one for every op yet. The CPU has all. */
bool test_lacks(
    const struct test_set *set, const char *op, enum gt_dtype dtype, const struct gt_call *call);

void *test_alloc(size_t bytes);

/* A tensor of `ndim` first dimensions of shape; images (ndim 4, floating-point) lie
 * channels-last. */
struct gt_tensor test_tensor(enum gt_dtype dtype, int ndim, const int64_t *shape);

struct gt_tensor test_tensor1(enum gt_dtype dtype, int64_t n);

struct gt_tensor test_tensor2(enum gt_dtype dtype, int64_t a, int64_t b);

struct gt_tensor test_tensor3(enum gt_dtype dtype, int64_t a, int64_t b, int64_t c);

struct gt_tensor test_tensor4(enum gt_dtype dtype, int64_t n, int64_t c, int64_t h, int64_t w);

/* Numbers that are equal in both dimensions; no dilation. */
struct gt_window test_window(int kernel, int stride, int pad);

double test_get(const struct gt_tensor *t, int64_t i);

void test_put(struct gt_tensor *t, int64_t i, double v);

/* Where [n, c, h, w] lies in memory. */
int64_t test_at(const struct gt_tensor *t, int64_t n, int64_t c, int64_t h, int64_t w);

/* Uniform in [low, high), floats whatever the dtype, so that float32 and float64 start from the
 * same. */
void test_random(struct gt_tensor *t, uint32_t seed, double low, double high);

/* Whole numbers in [low, high). */
void test_random_int(struct gt_tensor *t, uint32_t seed, int64_t low, int64_t high);

const struct gt_kernel *test_row(
    const struct gt_cpu_set *set, const char *op, enum gt_dtype dtype, const struct gt_call *call);

/* prepare, bind, run, release; the code of run. */
int test_run(const struct gt_cpu_set *set, const char *op, enum gt_dtype dtype,
    struct gt_call *call, struct gt_err *err);

/* The call is refused with GT_EINVAL and this text, which a device puts its name before. A device
 * leaves results all the same. */
void test_refuses(const struct test_set *set, const char *op, enum gt_dtype dtype,
    struct gt_call *call, const char *text);

void test_release(struct gt_call *call);

/* Copy a call that has not been run, with its tensors. An output that is an input stays so. */
void test_copy(struct gt_call *to, const struct gt_call *from);

/*
 * Run a row that takes the call, its workspace full of NaN, twice: nothing may depend on the
 * numbers that a run leaves there. Fails on any error.
 */
void test_launch(
    const struct gt_cpu_set *set, const char *op, enum gt_dtype dtype, struct gt_call *call);

/* The same for this row, whether it would accept the call or not. */
void test_launch_row(const struct gt_kernel *k, struct gt_call *call);

/* Largest difference, as a share of the largest number in b. NaN gives NaN. */
double test_distance(const struct gt_tensor *a, const struct gt_tensor *b);

#define assert_near(a, b, tolerance, ...)                                                          \
	do {                                                                                       \
		double far_ = test_distance(a, b);                                                 \
		if (!(far_ <= (tolerance))) {                                                      \
			print_error("off by %g: ", far_);                                          \
			print_error(__VA_ARGS__);                                                  \
			fail();                                                                    \
		}                                                                                  \
	} while (0)

#endif
