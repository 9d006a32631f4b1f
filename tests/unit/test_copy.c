/* test_copy.c - bytes from file to file: by the kernel, by hand where it refuses, and failing. */
#include "lib/base/copy.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/base/file.h"

enum { BYTES = 3 << 20, PIECES = 64 };

/*
 * The kernel's answers to give, and the calls made: this program's copy_file_range() goes before
 * the C library's.
 */
static struct {
	int error;  /* of calls from number `after` on; 0: none */
	int after;  /* calls that go through before */
	size_t max; /* bytes that one call copies; 0: as many as are asked for */
	int calls;
	size_t sizes[PIECES];
} kernel;

ssize_t copy_file_range(
    int in, off64_t *in_at, int out, off64_t *out_at, size_t size, unsigned int flags)
{
	if (kernel.calls < PIECES)
		kernel.sizes[kernel.calls] = size;
	if (kernel.calls++ >= kernel.after && kernel.error) {
		errno = kernel.error;
		return -1;
	}
	if (kernel.max && size > kernel.max)
		size = kernel.max;
	return syscall(SYS_copy_file_range, in, in_at, out, out_at, size, flags);
}

struct fixture {
	int in, out;
	unsigned char *bytes; /* of `in`; the bytes missing at the end of `out` */
	struct gt_err err;
};

static int temporary(void)
{
	char path[] = "/tmp/gt_copy_XXXXXX";
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(unlink(path), 0);
	return fd;
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->bytes = malloc(BYTES);
	assert_non_null(f->bytes);
	for (size_t i = 0; i < BYTES; i++)
		f->bytes[i] = (unsigned char)(i * 2654435761u >> 13);
	f->in = temporary();
	f->out = temporary();
	assert_int_equal(pwrite(f->in, f->bytes, BYTES, 0), BYTES);
	memset(&kernel, 0, sizeof(kernel));
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	close(f->in);
	close(f->out);
	free(f->bytes);
	free(f);
	return 0;
}

static off_t length(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return st.st_size;
}

static void expect(struct fixture *f, uint64_t out_at, uint64_t in_at, uint64_t size)
{
	unsigned char *back = malloc(size + 1);

	assert_non_null(back);
	assert_int_equal(pread(f->out, back, size, (off_t)out_at), (ssize_t)size);
	assert_memory_equal(back, f->bytes + in_at, size);
	free(back);
}

static void copies_runs(void **state)
{
	static const struct {
		uint64_t out_at, in_at, size;
	} cases[] = {
		{ 0, 0, BYTES }, { 0, 1, BYTES - 1 }, { 100, 0, 5 },
		{ 4096 + 64, 64, 3 * 4096 },       /* blocks could be shared, after a head */
		{ 7, 4095, 4098 },                 /* could not */
		{ 64, 64, 100 },                   /* a head that is all */
		{ (uint64_t)5 << 30, 8192, 8192 }, /* beyond 4 GiB */
	};
	static const int errors[] = { 0, EXDEV, EINVAL, ENOSYS, EOPNOTSUPP, EPERM };
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		for (size_t k = 0; k < 2 * sizeof(errors) / sizeof(*errors); k++) {
			assert_int_equal(ftruncate(f->out, 0), 0);
			memset(&kernel, 0, sizeof(kernel));
			kernel.error = errors[k / 2];
			if (gt_copy_range(f->out, cases[i].out_at, f->in, cases[i].in_at,
			        cases[i].size, k % 2, &f->err))
				fail_msg("%zu %zu: %s", i, k, f->err.text);
			expect(f, cases[i].out_at, cases[i].in_at, cases[i].size);
			assert_int_equal(length(f->out), cases[i].out_at + cases[i].size);
			/* after one refusal there is no second call */
			assert_true(kernel.calls > 0);
			assert_true(!kernel.error || kernel.calls == 1);
		}
}

static void leaves_what_is_around(void **state)
{
	static const int errors[] = { 0, EXDEV };
	struct fixture *f = *state;
	char all[16];

	for (size_t k = 0; k < 2; k++) {
		kernel.error = errors[k];
		assert_int_equal(pwrite(f->out, "0123456789abcdef", 16, 0), 16);
		assert_int_equal(lseek(f->in, 3, SEEK_SET), 3);
		assert_int_equal(gt_copy_range(f->out, 4, f->in, 10, 3, false, &f->err), 0);
		assert_int_equal(pread(f->out, all, 16, 0), 16);
		assert_memory_equal(all, "0123", 4);
		assert_memory_equal(all + 4, f->bytes + 10, 3);
		assert_memory_equal(all + 7, "789abcdef", 9);
		assert_int_equal(lseek(f->in, 0, SEEK_CUR), 3);
		assert_int_equal(lseek(f->out, 0, SEEK_CUR), 0);
	}
}

/* Where offsets agree within their blocks, a call of its own copies the bytes before a block. */
static void asks_for_whole_blocks(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(gt_copy_range(f->out, 4096 + 64, f->in, 64, 10000, false, &f->err), 0);
	assert_int_equal(kernel.calls, 2);
	assert_int_equal(kernel.sizes[0], 4096 - 64);
	assert_int_equal(kernel.sizes[1], 10000 - (4096 - 64));
	kernel.calls = 0;
	assert_int_equal(gt_copy_range(f->out, 65, f->in, 64, 10000, false, &f->err), 0);
	assert_int_equal(kernel.calls, 1);
	/* and another those before a whole piece, 128 MiB */
	kernel.calls = 0;
	assert_int_equal(
	    gt_copy_range(f->out, (128 << 20) - 4096, f->in, 0, 10000, false, &f->err), 0);
	assert_int_equal(kernel.calls, 2);
	assert_int_equal(kernel.sizes[0], 4096);
}

static void goes_on_after_a_short_copy(void **state)
{
	struct fixture *f = *state;

	kernel.max = 1000;
	assert_int_equal(gt_copy_range(f->out, 1, f->in, 0, 10500, true, &f->err), 0);
	assert_int_equal(kernel.calls, 11);
	expect(f, 1, 0, 10500);
	/* and when the kernel gives up in the middle */
	memset(&kernel, 0, sizeof(kernel));
	kernel.max = 1000;
	kernel.error = EXDEV;
	kernel.after = 2;
	assert_int_equal(ftruncate(f->out, 0), 0);
	assert_int_equal(gt_copy_range(f->out, 1, f->in, 0, 10500, true, &f->err), 0);
	assert_int_equal(kernel.calls, 3);
	expect(f, 1, 0, 10500);
}

/* Zero bytes are no work: neither file is touched, not even one that is none. */
static void copies_nothing(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(gt_copy_range(-1, 5, -1, 5, 0, true, &f->err), 0);
	assert_int_equal(gt_copy_range(f->out, 0, f->in, BYTES, 0, true, &f->err), 0);
	assert_int_equal(gt_write_at(-1, 0, "", 0, &f->err), 0);
	assert_int_equal(kernel.calls, 0);
	assert_int_equal(length(f->out), 0);
}

/* Holes read as zeros, by the kernel's copy and by ours. */
static void copies_holes(void **state)
{
	static const int errors[] = { 0, EXDEV };
	struct fixture *f = *state;
	char *back = calloc(1, BYTES);

	assert_non_null(back);
	assert_int_equal(ftruncate(f->in, 0), 0);
	assert_int_equal(ftruncate(f->in, BYTES), 0);
	assert_int_equal(pwrite(f->in, "middle", 6, BYTES / 2), 6);
	for (size_t k = 0; k < 2; k++) {
		kernel.error = errors[k];
		assert_int_equal(ftruncate(f->out, 0), 0);
		assert_int_equal(pwrite(f->out, "what was here", 13, 0), 13);
		assert_int_equal(gt_copy_range(f->out, 0, f->in, 0, BYTES, true, &f->err), 0);
		assert_int_equal(pread(f->out, back, BYTES, 0), BYTES);
		for (size_t i = 0; i < BYTES; i++) {
			size_t at = i - BYTES / 2;

			assert_int_equal(back[i], at < 6 ? "middle"[at] : 0);
		}
	}
	free(back);
}

static void says_what_failed(void **state)
{
	static const int errors[] = { 0, EXDEV };
	struct fixture *f = *state;
	int closed = dup(f->out);

	for (size_t k = 0; k < 2; k++) { /* a file that is shorter than it was */
		kernel.error = errors[k];
		assert_int_equal(
		    gt_copy_range(f->out, 0, f->in, BYTES - 10, 11, false, &f->err), GT_EIO);
		assert_non_null(strstr(f->err.text, GT_MAP_SHRANK));
	}
	kernel.error = ENOSPC;
	assert_int_equal(gt_copy_range(f->out, 0, f->in, 5, 11, false, &f->err), GT_EIO);
	assert_non_null(strstr(f->err.text, "cannot copy 11 bytes from byte 5: No space left"));
	assert_int_equal(close(closed), 0);
	assert_int_equal(gt_write_at(closed, 3, "x", 1, &f->err), GT_EIO);
	assert_non_null(strstr(f->err.text, "cannot write 1 bytes at byte 3"));
}

/* A write from a mapping whose file was truncated fails. */
static void says_whose_end_came(void **state)
{
	struct fixture *f = *state;
	const char *bytes = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, f->in, 0);

	assert_true(bytes != MAP_FAILED);
	assert_int_equal(gt_write_at(f->out, 0, bytes, BYTES, &f->err), 0);
	assert_int_equal(ftruncate(f->in, 4096), 0);
	assert_int_equal(gt_write_at(f->out, 0, bytes, BYTES, &f->err), GT_EIO);
	assert_string_equal(f->err.text, GT_MAP_SHRANK);
	assert_string_equal(f->err.hint, GT_MAP_SHRANK_HINT);
	munmap((void *)bytes, BYTES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(copies_runs, setup, teardown),
		cmocka_unit_test_setup_teardown(leaves_what_is_around, setup, teardown),
		cmocka_unit_test_setup_teardown(asks_for_whole_blocks, setup, teardown),
		cmocka_unit_test_setup_teardown(goes_on_after_a_short_copy, setup, teardown),
		cmocka_unit_test_setup_teardown(copies_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(copies_holes, setup, teardown),
		cmocka_unit_test_setup_teardown(says_what_failed, setup, teardown),
		cmocka_unit_test_setup_teardown(says_whose_end_came, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
