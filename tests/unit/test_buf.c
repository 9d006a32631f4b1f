/* test_buf.c - text that grows, lists of the first few names, strings as JSON. */
#include "lib/base/buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <jansson.h>

#include "lib/base/json_string.h"
#include "lib/base/text.h"

static void text_grows(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_buf b = { 0 };
	char expected[1000] = "", *text;
	size_t length;

	(void)state;
	assert_string_equal(gt_buf_text(&b), "");
	for (int i = 0; i < 100; i++) {
		gt_buf_printf(&b, "%d", i);
		gt_buf_puts(&b, i % 2 ? "," : "");
		gt_buf_add(&b, "\n ", 1);
		sprintf(expected + strlen(expected), "%d%s\n", i, i % 2 ? "," : "");
		assert_string_equal(gt_buf_text(&b), expected);
		assert_int_equal(b.length, strlen(expected));
	}
	gt_buf_cut(&b, 5);
	gt_buf_cut(&b, 7); /* no shorter */
	gt_buf_add(&b, "x\0y", 4);
	assert_int_equal(gt_buf_take(&b, &text, &length, &err), 0);
	assert_int_equal(length, 9);
	assert_memory_equal(text, "0\n1,\nx\0y\0", 10);
	free(text);
	assert_null(b.text);
	assert_int_equal(gt_buf_take(&b, &text, NULL, &err), 0);
	assert_string_equal(text, "");
	free(text);
}

static void text_moves_to_an_arena(void **state)
{
	struct gt_arena arena = { 0 };
	struct gt_buf b = { 0 };
	char *empty = gt_buf_keep(&b, &arena, GT_ERR_IGNORED), *kept;

	(void)state;
	gt_buf_puts(&b, "kept");
	kept = gt_buf_keep(&b, &arena, GT_ERR_IGNORED);
	assert_null(b.text);
	assert_string_equal(empty, "");
	assert_string_equal(kept, "kept");
	gt_arena_release(&arena);
}

static void missing_memory_is_reported_at_the_end(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_arena arena = { 0 };
	struct gt_buf b = { 0 };
	char old[] = "old", *text = old;

	(void)state;
	gt_buf_add(&b, "", (size_t)-1); /* no such memory: nothing is read */
	gt_buf_puts(&b, "more");
	assert_int_equal(gt_buf_check(&b, &err), GT_ENOMEM);
	assert_non_null(strstr(err.text, "out of memory"));
	assert_int_equal(gt_buf_take(&b, &text, NULL, &err), GT_ENOMEM);
	assert_null(text);
	gt_buf_add(&b, "", (size_t)-1);
	assert_null(gt_buf_keep(&b, &arena, &err));
	assert_int_equal(gt_buf_check(&b, &err), 0); /* it is empty again */
	assert_int_equal(arena.used, 0);
}

static void lists_name_the_first_few(void **state)
{
	static const struct {
		size_t max, count;
		const char *text;
	} row[] = {
		{ 2, 0, "" },
		{ 2, 1, "'n0'" },
		{ 2, 2, "'n0', 'n1'" },
		{ 2, 3, "'n0', 'n1' and 1 more" },
		{ 3, 12, "'n0', 'n1', 'n2' and 9 more" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
		struct gt_name_list list = { .max = row[i].max };

		for (size_t k = 0; k < row[i].count; k++)
			gt_name_list_add(&list, "'n%zu'", k);
		assert_int_equal(list.count, row[i].count);
		assert_string_equal(gt_name_list_text(&list), row[i].text);
		gt_name_list_release(&list);
	}
}

/* ---- JSON ---- */

static void assert_json(const char *text, size_t length, const char *expected)
{
	struct gt_buf b = { 0 };
	char *file;
	size_t size;
	FILE *out = open_memstream(&file, &size);

	assert_non_null(out);
	gt_buf_json(&b, text, length);
	gt_json_string(out, text, length);
	fclose(out);
	assert_string_equal(gt_buf_text(&b), file);
	if (expected)
		assert_string_equal(file, expected);
	free(file);
	gt_buf_release(&b);
}

static void strings_are_escaped(void **state)
{
	static const struct {
		const char *text;
		size_t length;
		const char *json;
	} row[] = {
		{ "", 0, "\"\"" }, { "layer1.0.weight", 15, "\"layer1.0.weight\"" },
		{ "a\"b\\c/d", 7, "\"a\\\"b\\\\c/d\"" }, { "\b\f\n\r\t", 5, "\"\\b\\f\\n\\r\\t\"" },
		{ "\x01\x1f\x7f", 3, "\"\\u0001\\u001f\\u007f\"" }, { "a\0b", 3, "\"a\\u0000b\"" },
		{ "ä€😀", 9, "\"ä€😀\"" }, { "\xff", 1, "\"\\ufffd\"" },
		{ "a\xc3", 2, "\"a\\ufffd\"" },                                /* cut */
		{ "\xed\xa0\x80", 3, "\"\\ufffd\\ufffd\\ufffd\"" },            /* a surrogate */
		{ "\xc0\x80z", 3, "\"\\ufffd\\ufffdz\"" },                     /* overlong */
		{ "\xf4\x90\x80\x80", 4, "\"\\ufffd\\ufffd\\ufffd\\ufffd\"" }, /* past U+10FFFF */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++)
		assert_json(row[i].text, row[i].length, row[i].json);
}

/* Whatever the bytes are, the result is JSON; and the text itself where it was UTF-8. */
static void any_bytes_make_json(void **state)
{
	static const char *const parts[] = { "a", "\"", "\\", "\n", "\x7f", "ä", "😀", "\xf0",
		"\x9f", "\xed\xa0", "\x80", "plain " };
	unsigned seed = (unsigned)time(NULL);

	(void)state;
	print_message("seed %u\n", seed);
	for (int round = 0; round < 2000; round++) {
		struct gt_buf text = { 0 }, json = { 0 };
		json_t *value;

		for (int n = rand_r(&seed) % 12; n > 0; n--)
			gt_buf_puts(
			    &text, parts[(size_t)rand_r(&seed) % (sizeof(parts) / sizeof(*parts))]);
		gt_buf_json(&json, gt_buf_text(&text), text.length);
		value = json_loads(gt_buf_text(&json), JSON_DECODE_ANY, NULL);
		if (!value)
			fail_msg("'%s' is no JSON", gt_buf_text(&json));
		if (gt_text_is_utf8(gt_buf_text(&text)))
			assert_string_equal(json_string_value(value), gt_buf_text(&text));
		json_decref(value);
		gt_buf_release(&text);
		gt_buf_release(&json);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_grows),
		cmocka_unit_test(text_moves_to_an_arena),
		cmocka_unit_test(missing_memory_is_reported_at_the_end),
		cmocka_unit_test(lists_name_the_first_few),
		cmocka_unit_test(strings_are_escaped),
		cmocka_unit_test(any_bytes_make_json),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
