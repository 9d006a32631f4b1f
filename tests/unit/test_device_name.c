/* test_device_name.c - lists of devices, as --device names them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/device/name.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* A machine of one CPU, four GPUs, and no device of a third kind. */
static int one(void)
{
	return 1;
}

static int four(void)
{
	return 4;
}

static int none(void)
{
	return 0;
}

static int say_why(int index, char *text, size_t size, struct gt_err *err)
{
	(void)text;
	(void)size;
	return gt_err_set(err, GT_EDEVICE, "gone:%d: its driver is on holiday", index);
}

static const struct gt_backend cpu = { .name = "cpu", .count = one },
                               cuda = { .name = "cuda", .count = four },
                               gone = { .name = "gone", .count = none, .describe = say_why };
static const struct gt_backend *const machine[] = { &cpu, &cuda, &gone, NULL };

/* The devices of each list, written out in full; NULL: refused, with `text` in the message. */
static const struct {
	const char *list, *names;
	int code;
	const char *text;
} lists[] = {
	{ "cpu", "cpu:0", 0, NULL },
	{ "cpu:0", "cpu:0", 0, NULL },
	{ "cuda", "cuda:0 cuda:1 cuda:2 cuda:3", 0, NULL },
	{ "cuda:0", "cuda:0", 0, NULL },
	{ "cuda:3", "cuda:3", 0, NULL },
	{ "cuda:0,cuda:2", "cuda:0 cuda:2", 0, NULL },
	{ "cuda:0,2", "cuda:0 cuda:2", 0, NULL },
	{ "cuda:2,0,1", "cuda:2 cuda:0 cuda:1", 0, NULL },
	{ "cuda:3,1,cuda:0,2", "cuda:3 cuda:1 cuda:0 cuda:2", 0, NULL },
	{ "", NULL, GT_EINVAL, "empty device name" },
	{ ",", NULL, GT_EINVAL, "empty device name" },
	{ "cuda:0,", NULL, GT_EINVAL, "empty device name" },
	{ ",cuda:0", NULL, GT_EINVAL, "empty device name" },
	{ "cuda:0,,1", NULL, GT_EINVAL, "empty device name" },
	{ ":1", NULL, GT_EINVAL, "':1' is not a device" },
	{ "cuda:", NULL, GT_EINVAL, "'cuda:' is not a device" },
	{ "cuda:x", NULL, GT_EINVAL, "'cuda:x' is not a device" },
	{ "cuda:1x", NULL, GT_EINVAL, "'cuda:1x' is not a device" },
	{ "cuda:-1", NULL, GT_EINVAL, "'cuda:-1' is not a device" },
	{ "cuda:+1", NULL, GT_EINVAL, "'cuda:+1' is not a device" },
	{ "cuda:01", NULL, GT_EINVAL, "'cuda:01' is not a device" },
	{ "cuda:1024", NULL, GT_EINVAL, "'cuda:1024' is not a device" },
	{ "cuda:4294967296", NULL, GT_EINVAL, "'cuda:4294967296' is not a device" },
	{ "0", NULL, GT_EINVAL, "'0' is not a device" },
	{ "0,cuda:1", NULL, GT_EINVAL, "'0' is not a device" },
	{ "gpu", NULL, GT_ENOTSUP, "computes on 'cpu', 'cuda', 'gone' only, not on 'gpu'" },
	{ "CUDA:0", NULL, GT_ENOTSUP, "not on 'CUDA'" },
	{ "cuda0", NULL, GT_ENOTSUP, "not on 'cuda0'" },
	{ " cuda:0", NULL, GT_ENOTSUP, "not on ' cuda'" },
	{ "cuda:0, 1", NULL, GT_ENOTSUP, "not on ' 1'" },
	{ "cuda:4", NULL, GT_EDEVICE, "there is no cuda:4: this machine has cuda:0 to cuda:3" },
	{ "cuda:0,1023", NULL, GT_EDEVICE, "there is no cuda:1023" },
	{ "cpu,1", NULL, GT_EDEVICE, "there is no cpu:1: this machine has cpu:0 alone" },
	{ "gone", NULL, GT_EDEVICE, "gone:0: its driver is on holiday" },
	{ "gone:1", NULL, GT_EDEVICE, "gone:1: its driver is on holiday" },
	{ "cuda:0,cuda:0", NULL, GT_EINVAL, "device 'cuda:0' is listed twice" },
	{ "cuda:0,1,0", NULL, GT_EINVAL, "device 'cuda:0' is listed twice" },
	{ "cuda,cuda:1", NULL, GT_EINVAL, "device 'cuda:1' is listed twice" },
	{ "cpu,cpu", NULL, GT_EINVAL, "device 'cpu:0' is listed twice" },
	{ "cpu,cuda:0", NULL, GT_EINVAL, "devices of 'cpu' and 'cuda' in one list" },
	{ "cuda:0,cpu", NULL, GT_EINVAL, "devices of 'cuda' and 'cpu' in one list" },
};

static void joined(char *text, size_t size, const struct gt_device_name *names, size_t count)
{
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < count; i++) {
		used += (size_t)snprintf(text + used, size - used, "%s%s:%d", i ? " " : "",
		    names[i].backend->name, names[i].index);
		assert_true(used < size);
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
		int rc = gt_device_names_read(&names, &count, lists[i].list, machine, &err);

		assert_int_equal(rc, lists[i].code);
		if (lists[i].names) {
			joined(text, sizeof(text), names, count);
			assert_string_equal(text, lists[i].names);
		} else {
			assert_null(names);
			assert_int_equal(count, 0);
			if (!strstr(err.text, lists[i].text))
				fail_msg("'%s' gives \"%s\"", lists[i].list, err.text);
			assert_true(err.hint[0] != '\0');
		}
		free(names);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lists),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
