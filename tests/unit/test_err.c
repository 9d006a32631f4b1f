/* test_err.c - errors carry their code, text and hint. */
#include "lib/base/err.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void set_stores_code_and_text_and_clears_the_hint(void **state)
{
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	assert_int_equal(gt_err_set(&err, GT_EINVAL, "old"), GT_EINVAL);
	assert_int_equal(gt_err_hint(&err, "do %s", "this"), GT_EINVAL);
	assert_string_equal(err.hint, "do this");
	assert_int_equal(gt_err_set(&err, GT_EFORMAT, "'%s': %d bytes", "a", 3), GT_EFORMAT);
	assert_int_equal(err.code, GT_EFORMAT);
	assert_string_equal(err.text, "'a': 3 bytes");
	assert_string_equal(err.hint, "");
}

static void sys_appends_the_system_s_reason(void **state)
{
	static const struct {
		int number, code;
	} cases[] = { { ENOENT, GT_EIO }, { ENOSPC, GT_EIO }, { ENOMEM, GT_ENOMEM } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct gt_err err = GT_ERR_INIT;
		char wanted[200] = "cannot open 'x': ";

		strcat(wanted, strerror(cases[i].number));
		errno = cases[i].number;
		assert_int_equal(gt_err_sys(&err, "cannot open '%s'", "x"), cases[i].code);
		assert_int_equal(err.code, cases[i].code);
		assert_string_equal(err.text, wanted);
	}
}

static void prefix_goes_before_and_keeps_code_and_hint(void **state)
{
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	gt_err_set(&err, GT_EFORMAT, "bad");
	gt_err_hint(&err, "download it again");
	assert_int_equal(gt_err_prefix(&err, "%s.pth", "model"), GT_EFORMAT);
	assert_string_equal(err.text, "model.pth: bad");
	assert_string_equal(err.hint, "download it again");
}

/* Whatever the length, the text ends inside its array. */
static void long_texts_are_cut(void **state)
{
	char big[2000];
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	gt_err_set(&err, GT_EINVAL, "%s", big);
	assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
	gt_err_hint(&err, "%s", big);
	assert_int_equal(strlen(err.hint), sizeof(err.hint) - 1);
	gt_err_prefix(&err, "%s", big);
	assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
	errno = EIO;
	gt_err_sys(&err, "%s", big);
	assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(set_stores_code_and_text_and_clears_the_hint),
		cmocka_unit_test(sys_appends_the_system_s_reason),
		cmocka_unit_test(prefix_goes_before_and_keeps_code_and_hint),
		cmocka_unit_test(long_texts_are_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
