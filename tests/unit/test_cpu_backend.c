/* test_cpu_backend.c - the CPU's memory, its description, and the choice of an instruction set. */
#include <sys/wait.h>
#include <unistd.h>

#include "tests/common/calls.h"

static void test_memory(void **state)
{
	static const size_t sizes[] = { 0, 1, 65, (size_t)5 << 20 };
	const struct gt_backend *b = gt_backend_find("cpu");
	struct gt_stream *stream;

	(void)state;
	assert_int_equal(b->stream_new(&stream, 0, GT_ERR_IGNORED), 0);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct gt_err err = GT_ERR_INIT;
		unsigned char *p, last = 7, back = 0;
		void *out;

		assert_int_equal(b->alloc(0, sizes[i], &out, &err), 0);
		p = out;
		assert_true((uintptr_t)p % GT_DEVICE_ALIGN == 0);
		for (size_t k = 0; k < sizes[i]; k++)
			assert_true(p[k] == 0);
		if (sizes[i]) {
			assert_int_equal(b->copy_in(stream, p + sizes[i] - 1, &last, 1, &err), 0);
			assert_int_equal(b->copy_out(stream, &back, p + sizes[i] - 1, 1, &err), 0);
			assert_int_equal(back, 7);
		}
		b->free(0, out, sizes[i]);
	}
}

/* Short memory, and memory that is written past the caches, aligned or not. */
static void zeros_end_where_they_are_to_end(void **state)
{
	static const struct {
		size_t first, size;
	} cases[] = { { 8, 0 }, { 1, 1 }, { 3, 70001 }, { 16, (33 << 20) + 5 },
		{ 7, (33 << 20) + 5 } };
	const struct gt_backend *b = gt_backend_find("cpu");
	struct gt_err err = GT_ERR_INIT;
	size_t all = (size_t)34 << 20;
	struct gt_stream *stream;
	unsigned char *p;
	void *out;

	(void)state;
	assert_int_equal(b->stream_new(&stream, 0, &err), 0);
	assert_int_equal(b->alloc(0, all, &out, &err), 0);
	p = out;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		unsigned char *from = p + cases[i].first, *end = from + cases[i].size;

		memset(p, 255, all);
		assert_int_equal(b->zero(stream, from, cases[i].size, &err), 0);
		assert_true(from[-1] == 255 && *end == 255);
		if (cases[i].size)
			assert_true(!*from && !memcmp(from, from + 1, cases[i].size - 1));
	}
	b->free(0, out, all);
}

static void test_no_memory(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	void *out;

	(void)state;
	assert_int_equal(gt_cpu_backend.alloc(0, SIZE_MAX / 2, &out, &err), GT_ENOMEM);
	assert_null(out);
	assert_non_null(strstr(err.text, "9223372036854775807 bytes"));
}

/* In a child, as the choice is made once: 0 where the backend took `set`, 1 where not, 2 for an
 * error. */
static int child_choice(const char *isa, const struct gt_cpu_set *set)
{
	pid_t pid = fork();
	int status = 0;

	if (!pid) {
		struct gt_err err = GT_ERR_INIT;
		char text[200];
		int rc;

		setenv("GTRAIN_CPU_ISA", isa, 1);
		rc = gt_cpu_backend.describe(0, text, sizeof(text), &err);
		if (rc)
			_exit(strstr(err.text, isa) ? 2 : 3);
		if (!set || gt_cpu_backend.kernels() != set->tables ||
		    gt_cpu_backend.ranges() != set->ranges)
			_exit(1);
		_exit(strstr(text, isa) ? 0 : 1);
	}
	assert_true(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void test_choice(void **state)
{
	static const char *const names[] = { "base", "avx2", "avx512" };
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	for (int i = 0; i < sets; i++)
		assert_int_equal(child_choice(set[i].name, set[i].set), 0);
	/* An instruction set that this processor lacks is an error. */
	for (int i = sets; i < 3; i++)
		assert_int_equal(child_choice(names[i], NULL), 2);
	assert_int_equal(child_choice("mmx", NULL), 2);
}

/* Each table has tests of all its rows, in test_kernels_*.c; test a new one, then list it. */
static void test_tables_are_known(void **state)
{
	static const char *const first_ops[] = { "matmul", "conv2d", "attention",
		"attention_cached", "bias_grad", "layer_norm", "batch_norm", "batch_norm_moments",
		"add", "dropout", "subsample", "max_pool2d", "embedding", "cross_entropy", "cast",
		"linear_cross_entropy", "rope", "regression_loss", "map", "sum", "arrange",
		"resample", "lstm", "batched_matmul", "grouped_matmul", "topk", "softmax",
		"constant" };
	const struct gt_kernel *const *table = gt_cpu_set_base.tables;

	(void)state;
	for (int i = 0; table[i]; i++) {
		bool known = false;

		for (size_t j = 0; j < sizeof(first_ops) / sizeof(first_ops[0]); j++)
			known |= !strcmp(table[i]->op, first_ops[j]);
		if (!known)
			fail_msg("the table that begins with '%s' has no tests", table[i]->op);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_choice),
		cmocka_unit_test(test_tables_are_known),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(zeros_end_where_they_are_to_end),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
