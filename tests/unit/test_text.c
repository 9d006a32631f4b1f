/* test_text.c - numbers, sizes and times in text; the nearest word. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "lib/base/suggest.h"
#include "lib/base/text.h"

static void ints(void **state)
{
	static const struct {
		const char *text;
		bool good;
		int64_t value;
	} row[] = {
		{ "0", true, 0 },
		{ "-7", true, -7 },
		{ "+7", true, 7 },
		{ "9223372036854775807", true, INT64_MAX },
		{ "9223372036854775808", false, 0 },
		{ "-9223372036854775808", true, INT64_MIN },
		{ "", false, 0 },
		{ "-", false, 0 },
		{ " 5", false, 0 },
		{ "5 ", false, 0 },
		{ "5x", false, 0 },
		{ "0x10", false, 0 },
		{ "1e3", false, 0 },
		{ "1.0", false, 0 },
		{ "--5", false, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
		int64_t value = 42;

		if (gt_text_parse_int(&value, row[i].text) != row[i].good)
			fail_msg("'%s' is %s", row[i].text, row[i].good ? "good" : "bad");
		assert_int_equal(value, row[i].good ? row[i].value : 42);
	}
}

static void doubles(void **state)
{
	static const char *const bad[] = { "", "-", ".", "inf", "-inf", "nan", "0x1p3", "-0x1",
		"1e", "1e400", "1,5", " 1", "1 ", "1.5.2", "e5" };
	static const struct {
		const char *text;
		double value;
	} good[] = { { "0", 0 }, { "1e-3", 1e-3 }, { "-2.5E+2", -250 }, { ".5", .5 }, { "3.", 3 } };
	double value;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		value = 42;
		if (gt_text_parse_double(&value, bad[i]))
			fail_msg("'%s' was taken for %g", bad[i], value);
		assert_true(value == 42);
	}
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		assert_true(gt_text_parse_double(&value, good[i].text));
		assert_true(value == good[i].value);
	}
}

static void sizes(void **state)
{
	static const struct {
		const char *text;
		int64_t bytes; /* -1: refused */
	} row[] = { { "0", 0 }, { "4096", 4096 }, { "64K", 65536 }, { "64k", 65536 },
		{ "25M", 25 << 20 }, { "1.5G", 3ll << 29 },
		{ "9007199254740993", 9007199254740993 }, { "8589934591G", 8589934591ll << 30 },
		{ "8589934592G", -1 }, { "0.3K", -1 }, { "-1", -1 }, { "-0.0K", -1 }, { "K", -1 },
		{ "1T", -1 }, { "1KB", -1 }, { "1 K", -1 }, { "", -1 }, { "0x10K", -1 } };

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
		int64_t bytes = -1;
		bool good = gt_text_parse_size(&bytes, row[i].text);

		if (good != (row[i].bytes >= 0) || (good && bytes != row[i].bytes))
			fail_msg("'%s' gave %d, %lld", row[i].text, good, (long long)bytes);
	}
}

static void nan_has_no_sign(void **state)
{
	static const struct {
		double value;
		const char *text;
	} row[] = { { 1.5, "1.5" }, { -1.5, "-1.5" }, { -0.0, "-0" }, { NAN, "nan" },
		{ -NAN, "nan" }, { INFINITY, "inf" }, { -INFINITY, "-inf" } };
	char text[GT_TEXT_SIZE];

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
		snprintf(text, sizeof(text), "%g", gt_text_real(row[i].value));
		assert_string_equal(text, row[i].text);
	}
	assert_string_equal(gt_text_count(text, -NAN), "nan");
}

static void durations(void **state)
{
	static const struct {
		const char *text;
		double seconds; /* -1: refused */
	} row[] = { { "90", 90 }, { "90s", 90 }, { "1.5m", 90 }, { "2h", 7200 }, { "0", 0 },
		{ "-1s", -1 }, { "1d", -1 }, { "1ms", -1 }, { "m", -1 }, { "", -1 } };

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
		double seconds = -1;

		gt_text_parse_duration(&seconds, row[i].text);
		if (seconds != row[i].seconds)
			fail_msg("'%s' gave %g", row[i].text, seconds);
	}
}

static void writing(void **state)
{
	char s[GT_TEXT_SIZE];

	(void)state;
	assert_string_equal(gt_text_bytes(s, 0), "0 B");
	assert_string_equal(gt_text_bytes(s, 1023), "1023 B");
	assert_string_equal(gt_text_bytes(s, 1024), "1 KiB");
	assert_string_equal(gt_text_bytes(s, 1536), "1.5 KiB");
	assert_string_equal(gt_text_bytes(s, 25u << 20), "25 MiB");
	assert_string_equal(gt_text_bytes(s, (1u << 20) - 1), "1 MiB");
	assert_string_equal(gt_text_bytes(s, UINT64_MAX), "16 EiB");
	assert_string_equal(gt_text_count(s, 0), "0");
	assert_string_equal(gt_text_count(s, 999), "999");
	assert_string_equal(gt_text_count(s, 999.7), "1k");
	assert_string_equal(gt_text_count(s, 17200), "17.2k");
	assert_string_equal(gt_text_count(s, 1.254e6), "1.25M");
	assert_string_equal(gt_text_count(s, 124.4e6), "124M");
	assert_string_equal(gt_text_count(s, 100), "100");
	assert_string_equal(gt_text_number(s, -7), "-7");
	assert_string_equal(gt_text_number(s, 0.1), "0.1");
	assert_string_equal(gt_text_number(s, 1700000000.5), "1700000000.5");
	assert_string_equal(gt_text_number(s, 0.1 + 0.2), "0.30000000000000004");
	assert_string_equal(gt_text_duration(s, 21.4), "0:21");
	assert_string_equal(gt_text_duration(s, 59.6), "1:00");
	assert_string_equal(gt_text_duration(s, 725), "12:05");
	assert_string_equal(gt_text_duration(s, 3723), "1:02:03");
	assert_string_equal(gt_text_duration(s, 2 * 86400 + 11045), "2d 03:04:05");
	assert_string_equal(gt_text_duration(s, NAN), "-:--");
	assert_string_equal(gt_text_duration(s, INFINITY), "-:--");
	assert_string_equal(gt_text_duration(s, -1), "-:--");
}

static void nearest_word(void **state)
{
	static const char *const words[] = { "train", "eval", "generate", "probe", "batch", "betas",
		"momentum", "lr-schedule" };
	static const struct {
		const char *typed, *best;
	} row[] = { { "trian", "train" }, { "tran", "train" }, { "traiin", "train" },
		{ "eavl", "eval" }, { "gen", "generate" }, { "gnerate", "generate" },
		{ "bacth", "batch" }, { "lr-scheduler", "lr-schedule" },
		{ "lr_schedule", "lr-schedule" }, { "momemtun", "momentum" }, { "xyz", NULL },
		{ "", NULL }, { "e", NULL }, { "batch", "batch" } };
	char longest[200];

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
		struct gt_suggest near = { .word = row[i].typed };

		for (size_t j = 0; j < sizeof(words) / sizeof(*words); j++)
			gt_suggest_offer(&near, words[j]);
		if (!row[i].best)
			assert_null(near.best);
		else
			assert_string_equal(near.best, row[i].best);
	}
	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	struct gt_suggest near = { .word = longest };

	gt_suggest_offer(&near, longest);
	assert_null(near.best);
}

static void endings(void **state)
{
	(void)state;
	assert_true(gt_text_ends_with("a/data.pkl", ".pkl"));
	assert_true(gt_text_ends_with(".pkl", ".pkl"));
	assert_true(gt_text_ends_with("a", ""));
	assert_false(gt_text_ends_with("pkl", ".pkl"));
	assert_false(gt_text_ends_with("a.pkl2", ".pkl"));
}

/* ---- UTF-8 ---- */

static void utf8(void **state)
{
	static const struct {
		const char *text;
		size_t size, good; /* bytes; of these UTF-8, from the first on */
	} row[] = {
		{ "", 0, 0 },
		{ "eight by eight ASCII", 20, 20 },
		{ "a\0b", 3, 3 },
		{ "\x7f\xc2\x80\xdf\xbf", 5, 5 },
		{ "\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf", 12, 12 },
		{ "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", 8, 8 },
		{ "eight by\xff", 9, 8 },
		{ "abc\x80", 4, 3 },               /* a second byte first */
		{ "\xc1\xbf", 2, 0 },              /* overlong */
		{ "x\xe0\x9f\xbf", 4, 1 },         /* overlong */
		{ "x\xf0\x8f\xbf\xbf", 5, 1 },     /* overlong */
		{ "x\xf4\x90\x80\x80", 5, 1 },     /* past U+10FFFF */
		{ "x\xed\xa0\x80", 4, 1 },         /* a surrogate */
		{ "xyz\xe2\x82", 5, 3 },           /* cut */
		{ "abcdefg\xe2\x82\xac", 10, 10 }, /* across eight */
		{ "abcdefgh\xe2\x82\xac\xe2", 12, 11 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
		char text[32] = "";

		assert_int_equal(gt_text_utf8_bytes(row[i].text, row[i].size), row[i].good);
		memcpy(text, row[i].text, row[i].size);
		if (strlen(text) == row[i].size)
			assert_int_equal(gt_text_is_utf8(text), row[i].good == row[i].size);
	}
}

/* Every code point but surrogates, and no other sequence of up to 3 bytes. */
static void all_of_utf8(void **state)
{
	unsigned char p[4];
	size_t good = 0;

	(void)state;
	for (uint32_t c = 0; c < 1u << 24; c++) {
		uint32_t code = 0;
		int n;

		p[0] = (unsigned char)(c >> 16);
		p[1] = (unsigned char)(c >> 8);
		p[2] = (unsigned char)c;
		n = gt_text_utf8(p, 3, &code);
		if (n != 3)
			continue;
		good++;
		if (code < 0x800 || code > 0xffff || (code >= 0xd800 && code < 0xe000))
			fail_msg("%06x is read as U+%X", c, code);
	}
	assert_int_equal(good, 0x10000 - 0x800 - 0x800);
}

static void encoded_utf8(void **state)
{
	(void)state;
	for (uint32_t c = 0; c < 0x110000; c++) {
		unsigned char p[5] = { 0, 0, 0, 0, 0xee };
		uint32_t code = 0;
		int n = gt_text_put_utf8(p, c);

		if (c >= 0xd800 && c < 0xe000) {
			assert_true(n == 3 && gt_text_is_surrogate(p, 3));
			continue;
		}
		assert_int_equal(gt_text_utf8(p, 4, &code), n);
		assert_int_equal(code, c);
		assert_int_equal(p[4], 0xee);
	}
}

static void damaged_utf8(void **state)
{
	static const struct {
		const char *text;
		size_t size, damaged;
		bool is_begun;
	} row[] = { { "\xe2\x82", 2, 2, true }, { "\xe2\x82x", 3, 2, false },
		{ "\xf0", 1, 1, true }, { "\xf0\x90\x80", 3, 3, true },
		{ "\xf0\x8f\x80", 3, 1, false }, { "\xf4\x90", 2, 1, false },
		{ "\xed\xa0\x80", 3, 1, false }, { "\xc1\xbf", 2, 1, false },
		{ "\xc2", 1, 1, true }, { "\xc2x", 2, 1, false }, { "\x80\x80", 2, 1, false },
		{ "\xf5", 1, 1, false }, { "\xf0\x90\x80\xff", 4, 3, false } };

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
		const unsigned char *p = (const unsigned char *)row[i].text;

		assert_int_equal(gt_text_utf8_damaged(p, row[i].size), row[i].damaged);
		assert_int_equal(gt_text_utf8_is_begun(p, row[i].size), row[i].is_begun);
	}
}

static void surrogates(void **state)
{
	static const struct {
		const char *text;
		size_t size;
		bool is_one;
	} row[] = { { "\xed\xa0\x80", 3, true }, { "\xed\xbf\xbfx", 4, true },
		{ "\xed\x9f\xbf", 3, false }, { "\xed\xa0", 2, false }, { "\xed\xa0x", 3, false },
		{ "abc", 3, false }, { "", 0, false } };

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++)
		assert_int_equal(gt_text_is_surrogate(row[i].text, row[i].size), row[i].is_one);
}

static void plain_text(void **state)
{
	(void)state;
	assert_true(gt_text_is_plain("a\tb\r\n\xC3\xA9", 7));
	assert_false(gt_text_is_plain("", 0));
	assert_false(gt_text_is_plain("a\0b", 3));
	assert_false(gt_text_is_plain("\x1B[0m", 4));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_text),
		cmocka_unit_test(utf8),
		cmocka_unit_test(all_of_utf8),
		cmocka_unit_test(encoded_utf8),
		cmocka_unit_test(damaged_utf8),
		cmocka_unit_test(surrogates),
		cmocka_unit_test(ints),
		cmocka_unit_test(doubles),
		cmocka_unit_test(sizes),
		cmocka_unit_test(nan_has_no_sign),
		cmocka_unit_test(durations),
		cmocka_unit_test(writing),
		cmocka_unit_test(nearest_word),
		cmocka_unit_test(endings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
