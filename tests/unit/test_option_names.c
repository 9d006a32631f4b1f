/* test_option_names.c - messages that name options, for programs with options and for others. */
#include "lib/base/option_names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/base/err.h"
#include "lib/base/log.h"

/* As it is for a program without a command line, and with one. */
static void expect(const char *text, const char *plain, const char *options)
{
	char shown[1200];

	gt_option_names_render(shown, sizeof(shown), text, "");
	assert_string_equal(shown, plain);
	gt_option_names_render(shown, sizeof(shown), text, "--");
	assert_string_equal(shown, options);
}

static void braces_name_options(void **state)
{
	struct gt_err err = GT_ERR_INIT, inner = GT_ERR_INIT;

	(void)state;
	gt_err_set(&err, GT_EINVAL, "{min-lr} %g is above {lr} %g", 0.5, 0.25);
	expect(err.text, "min-lr 0.5 is above lr 0.25", "--min-lr 0.5 is above --lr 0.25");
	gt_err_hint(&err, "{broadcast-buffers}=no, or another {%s}", "parallel");
	expect(err.hint, "broadcast-buffers=no, or another parallel",
	    "--broadcast-buffers=no, or another --parallel");
	gt_err_prefix(&err, "{val}");
	expect(
	    err.text, "val: min-lr 0.5 is above lr 0.25", "--val: --min-lr 0.5 is above --lr 0.25");
	gt_err_set(&inner, GT_EINVAL, "one rank: %s", err.text);
	expect(inner.text, "one rank: val: min-lr 0.5 is above lr 0.25",
	    "one rank: --val: --min-lr 0.5 is above --lr 0.25");
	gt_err_sys(&inner, "{out}");
	assert_true(inner.text[0] == GT_OPTION_MARK && !strncmp(inner.text + 1, "out: ", 5));
}

/* Only names in a format are options; braces of arguments, as in names of files, are text. */
static void other_braces_are_text(void **state)
{
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	gt_err_set(&err, GT_EINVAL, "'%s' is not {\"lr\": 1}, {}, {Lr}, { lr}, {lr or '{'",
	    "model_{epoch}.pth");
	expect(err.text, "'model_{epoch}.pth' is not {\"lr\": 1}, {}, {Lr}, { lr}, {lr or '{'",
	    "'model_{epoch}.pth' is not {\"lr\": 1}, {}, {Lr}, { lr}, {lr or '{'");
	/* A byte from outside that names nothing is left to gt_log_put(). */
	gt_err_set(&err, GT_EINVAL, "'%s'", "\x1f\x1f-x\x1f");
	expect(err.text, "'\x1f\x1f-x\x1f'", "'\x1f\x1f-x\x1f'");
}

static void long_texts_are_cut(void **state)
{
	char big[900], text[12];
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	memset(big, 'x', sizeof(big));
	big[sizeof(big) - 1] = '\0';
	gt_err_set(&err, GT_EINVAL, "{lr} %s", big);
	assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
	gt_err_set(&err, GT_EINVAL, "{batch}{batch}");
	for (size_t size = 1; size <= sizeof(text); size++) {
		memset(text, 'z', sizeof(text));
		gt_option_names_render(text, size, err.text, "--");
		assert_int_equal(strlen(text), size - 1);
		assert_int_equal(strncmp(text, "--batch--batch", size - 1), 0);
		for (size_t i = size; i < sizeof(text); i++)
			assert_int_equal(text[i], 'z');
	}
}

static void logs_name_options(void **state)
{
	static const struct {
		const char *before, *shown;
	} row[] = {
		{ NULL, "warning: data: 1\\x1b\ndata is read\n" },
		{ "--", "warning: --data: 1\\x1b\n--data is read\n" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
		char *shown = NULL;
		size_t size;
		struct gt_log log = { .stream = open_memstream(&shown, &size),
			.level = GT_LOG_NORMAL,
			.before_options = row[i].before };

		assert_non_null(log.stream);
		gt_log_warn(&log, "{%s}: %s", "data", "1\x1b");
		gt_log_info(&log, "{data} is read");
		fclose(log.stream);
		assert_string_equal(shown, row[i].shown);
		free(shown);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(braces_name_options),
		cmocka_unit_test(other_braces_are_text),
		cmocka_unit_test(long_texts_are_cut),
		cmocka_unit_test(logs_name_options),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
