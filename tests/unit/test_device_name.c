/* test_device_name.c - device names and lists of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/device/name.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* What each list means, written out in full; NULL: refused, with `text` in the message. */
static const struct {
	const char *list, *names, *text;
} lists[] = {
	{ "cpu", "cpu", NULL },
	{ "cuda", "cuda:0", NULL },
	{ "cuda:0", "cuda:0", NULL },
	{ "cuda:7", "cuda:7", NULL },
	{ "cuda:1023", "cuda:1023", NULL },
	{ "cuda:0,cuda:2", "cuda:0 cuda:2", NULL },
	{ "cuda:0,2", "cuda:0 cuda:2", NULL },
	{ "cuda:2,0,1", "cuda:2 cuda:0 cuda:1", NULL },
	{ "cuda,1", "cuda:0 cuda:1", NULL },
	{ "cuda:3,1,cuda:0,2", "cuda:3 cuda:1 cuda:0 cuda:2", NULL },
	{ "", NULL, "empty device name" },
	{ ",", NULL, "empty device name" },
	{ "cuda:0,", NULL, "empty device name" },
	{ ",cuda:0", NULL, "empty device name" },
	{ "cuda:0,,1", NULL, "empty device name" },
	{ "gpu", NULL, "'gpu' is not a device" },
	{ "CUDA:0", NULL, "'CUDA:0' is not a device" },
	{ "cuda:", NULL, "'cuda:' is not a device" },
	{ "cuda:x", NULL, "'cuda:x' is not a device" },
	{ "cuda:1x", NULL, "'cuda:1x' is not a device" },
	{ "cuda:-1", NULL, "'cuda:-1' is not a device" },
	{ "cuda:+1", NULL, "'cuda:+1' is not a device" },
	{ "cuda:01", NULL, "'cuda:01' is not a device" },
	{ "cuda:1024", NULL, "'cuda:1024' is not a device" },
	{ "cuda:4294967296", NULL, "'cuda:4294967296' is not a device" },
	{ "cuda:99999999999999999999999", NULL, "is not a device" },
	{ "cuda0", NULL, "'cuda0' is not a device" },
	{ "cpu:0", NULL, "'cpu:0' is not a device" },
	{ "0", NULL, "'0' is not a device" },
	{ "0,cuda:1", NULL, "'0' is not a device" },
	{ "cpu,1", NULL, "'1' is not a device" },
	{ " cuda:0", NULL, "' cuda:0' is not a device" },
	{ "cuda:0, 1", NULL, "' 1' is not a device" },
	{ "cuda:0,cuda:0", NULL, "device 'cuda:0' is listed twice" },
	{ "cuda:0,1,0", NULL, "device 'cuda:0' is listed twice" },
	{ "cuda,cuda:0", NULL, "device 'cuda:0' is listed twice" },
	{ "cpu,cpu", NULL, "device 'cpu' is listed twice" },
	{ "cpu,cuda:0", NULL, "the CPU and GPUs in one list" },
	{ "cuda:0,cpu", NULL, "the CPU and GPUs in one list" },
};

static void joined(char *text, size_t size, const struct gt_device_name *names, size_t count)
{
	char name[GT_DEVICE_NAME_SIZE];

	text[0] = '\0';
	for (size_t i = 0; i < count; i++) {
		assert_true(strlen(text) + sizeof(name) + 1 < size);
		strcat(text, i ? " " : "");
		strcat(text, gt_device_name_format(name, &names[i]));
	}
}

static void test_lists(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(lists); i++) {
		struct gt_device_name *names = (void *)1;
		struct gt_err err = GT_ERR_INIT;
		size_t count = 99;
		char text[256];
		int rc = gt_device_name_parse_list(&names, &count, lists[i].list, &err);

		if (lists[i].names) {
			assert_int_equal(rc, 0);
			joined(text, sizeof(text), names, count);
			assert_string_equal(text, lists[i].names);
		} else {
			assert_int_equal(rc, GT_EINVAL);
			assert_null(names);
			assert_int_equal(count, 0);
			if (!strstr(err.text, lists[i].text))
				fail_msg("'%s' gives \"%s\"", lists[i].list, err.text);
			assert_true(err.hint[0] != '\0');
		}
		free(names);
	}
}

static void test_single(void **state)
{
	static const char *const refused[] = { "", "1", "cuda:0,1", "cuda:0,cuda:1", "cpu,cpu" };
	struct gt_device_name name;

	(void)state;
	assert_int_equal(gt_device_name_parse(&name, "cuda:3", GT_ERR_IGNORED), 0);
	assert_int_equal(name.type, GT_DEVICE_CUDA);
	assert_int_equal(name.index, 3);
	assert_int_equal(gt_device_name_parse(&name, "cuda", GT_ERR_IGNORED), 0);
	assert_int_equal(name.type, GT_DEVICE_CUDA);
	assert_int_equal(name.index, 0);
	assert_int_equal(gt_device_name_parse(&name, "cpu", GT_ERR_IGNORED), 0);
	assert_int_equal(name.type, GT_DEVICE_CPU);
	assert_int_equal(name.index, 0);
	for (size_t i = 0; i < COUNT(refused); i++)
		assert_int_equal(
		    gt_device_name_parse(&name, refused[i], GT_ERR_IGNORED), GT_EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_single),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
