/* test_cublaslt.c - the library of products is found by name, or refused, on simulated GPUs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
/* cmocka wants these first */
#include <cmocka.h>

#include "kernels/cuda/library/cublaslt.h"
#include "lib/device/backend.h"
#include "tests/cudasim/cudasim.h"

static void test_missing_library(void **state)
{
	static const char *const none[] = { "libcublasLt.so.none", "libnone.so", NULL };
	static const char *const other[] = { "libnone.so", "libm.so.6", NULL };
	struct gt_err err = GT_ERR_INIT;
	struct gt_lt_api api = { 0 };
	void *handle;

	(void)state;
	assert_int_equal(gt_lt_find(&api, &handle, none, &err), GT_EDEVICE);
	assert_non_null(strstr(err.text, "products of matrices on GPUs need cuBLASLt: "
	                                 "libcublasLt.so.none: cannot open"));
	assert_non_null(strstr(err.hint, "libcublas-13-0"));
	err = GT_ERR_INIT;
	assert_int_equal(gt_lt_find(&api, &handle, other, &err), GT_EDEVICE);
	assert_string_equal(err.text, "libm.so.6 has no function 'cublasLtGetVersion'");
	assert_non_null(strstr(err.hint, "libcublas-13-0"));
	assert_null(api.Matmul);
}

/* The library of a newer CUDA than the driver's opens, and creates no handle. */
static void test_library_for_another_driver(void **state)
{
	static const char *const names[] = { "libcublasLt.so.13", "libnone.so", "libcublasLt.so.13",
		NULL };
	struct gt_err err = GT_ERR_INIT;
	struct gt_lt_api api = { 0 };
	static void *handle; /* the library frees it */

	(void)state;
	assert_int_equal(gt_cuda_backend.enter(0, &err), 0);
	cudasim_products.create_status = 3;
	cudasim_products.create_fails = 1;
	assert_int_equal(gt_lt_find(&api, &handle, names, &err), GT_EDEVICE);
	assert_string_equal(
	    err.text, "libcublasLt.so.13: cublasLtCreate: out of memory (status 3)");
	cudasim_products.create_status = 1;
	cudasim_products.create_fails = 2;
	assert_int_equal(gt_lt_find(&api, &handle, names, &err), GT_EDEVICE);
	assert_string_equal(
	    err.text, "libcublasLt.so.13: cublasLtCreate: not initialized (status 1)");
	cudasim_products.create_fails = 1;
	assert_int_equal(gt_lt_find(&api, &handle, names, &err), 0);
	assert_true(handle && api.Matmul);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_missing_library),
		cmocka_unit_test(test_library_for_another_driver),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
