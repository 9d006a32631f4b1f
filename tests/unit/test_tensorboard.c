/* test_tensorboard.c - files of events: CRC, messages, records, histograms, failing writes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/file.h"
#include "lib/base/protobuf.h"
#include "lib/train/tensorboard/crc32c.h"
#include "lib/train/tensorboard/events.h"
#include "lib/train/tensorboard/histogram.h"
#include "tests/common/planted.h"

/* The vectors of RFC 3720, and the usual check value. */
static void crc_has_known_values(void **state)
{
	unsigned char zeros[32] = { 0 }, ones[32], rising[32], all[300];

	(void)state;
	for (int i = 0; i < 32; i++) {
		ones[i] = 0xff;
		rising[i] = (unsigned char)i;
	}
	assert_int_equal(gt_crc32c(zeros, 32), 0x8a9136aa);
	assert_int_equal(gt_crc32c(ones, 32), 0x62a8ab43);
	assert_int_equal(gt_crc32c(rising, 32), 0x46dd794e);
	assert_int_equal(gt_crc32c("123456789", 9), 0xe3069283);
	assert_int_equal(gt_crc32c("", 0), 0);
	for (size_t i = 0; i < sizeof(all); i++) {
		all[i] = (unsigned char)(i * i + 7);
		assert_int_equal(gt_crc32c(all, i), gt_crc32c_plain(all, i));
	}
}

static void expect_bytes(struct gt_buf *b, const void *bytes, size_t size)
{
	assert_false(b->failed);
	assert_int_equal(b->length, size);
	assert_memory_equal(b->text, bytes, size);
	gt_buf_release(b);
}

static void numbers_have_their_lowest_byte_first(void **state)
{
	const double both[] = { 1, -2.5 };
	struct gt_buf b = { 0 };

	(void)state;
	gt_protobuf_double(&b, 1, 1);
	expect_bytes(&b, "\x09\0\0\0\0\0\0\xf0\x3f", 9);
	gt_protobuf_doubles(&b, 4, 2, both);
	expect_bytes(&b, "\x22\x10\0\0\0\0\0\0\xf0\x3f\0\0\0\0\0\0\x04\xc0", 18);
}

/* The size of a message has one byte up to 127, two up to 16383, then three. */
static void a_message_in_place_is_like_one_of_its_own(void **state)
{
	static const size_t sizes[] = { 0, 1, 125, 126, 127, 16380, 16381, 16384 };
	static char text[20000];

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		struct gt_buf apart = { 0 }, inner = { 0 }, same = { 0 };
		size_t outer, begin;

		memset(text, 'x', sizes[i]);
		text[sizes[i]] = '\0';
		gt_protobuf_text(&inner, 1, text);
		gt_protobuf_int(&inner, 2, 300);
		gt_protobuf_message(&apart, 3, &inner);
		gt_protobuf_message(&inner, 5, &apart);
		gt_protobuf_int(&inner, 6, 1);
		outer = gt_protobuf_begin(&same, 5);
		begin = gt_protobuf_begin(&same, 3);
		gt_protobuf_text(&same, 1, text);
		gt_protobuf_int(&same, 2, 300);
		gt_protobuf_end(&same, begin);
		gt_protobuf_end(&same, outer);
		gt_protobuf_int(&same, 6, 1);
		expect_bytes(&same, inner.text, inner.length);
		gt_buf_release(&inner);
	}
}

/* ---- histograms ---- */

static void histogram_counts_all_finite_numbers(void **state)
{
	static float numbers[1000];
	double rows[GT_HISTOGRAM_BUCKETS][3], sum = 0;
	struct gt_histogram h = { 0 };

	(void)state;
	for (int i = 0; i < 1000; i++)
		numbers[i] = (float)(i % 301) / 10;
	numbers[3] = NAN;
	numbers[4] = -INFINITY;
	gt_histogram_widen(&h, numbers, 500);
	gt_histogram_widen(&h, numbers + 500, 500);
	gt_histogram_count(&h, numbers, 500);
	gt_histogram_count(&h, numbers + 500, 500);
	gt_histogram_rows(rows, &h, 2);
	assert_int_equal(h.finite, 998);
	assert_true(rows[0][0] == 0 && rows[GT_HISTOGRAM_BUCKETS - 1][1] == 60);
	for (int i = 0; i < GT_HISTOGRAM_BUCKETS; i++) {
		assert_true(i == 0 || rows[i][0] == rows[i - 1][1]);
		assert_true(fabs(rows[i][0] - 2 * i) < 1e-9);
		sum += rows[i][2];
	}
	assert_true(sum == 998);
	/* 1000 = 3 * 301 + 97: the last bucket has 29.0 to 30.0, three times */
	assert_true(rows[GT_HISTOGRAM_BUCKETS - 1][2] == 33);
}

static void equal_numbers_are_in_the_last_bucket(void **state)
{
	const float numbers[] = { 5, 5, 5 };
	double rows[GT_HISTOGRAM_BUCKETS][3];
	struct gt_histogram h = { 0 };

	(void)state;
	gt_histogram_widen(&h, numbers, 3);
	gt_histogram_count(&h, numbers, 3);
	gt_histogram_rows(rows, &h, 1);
	for (int i = 0; i < GT_HISTOGRAM_BUCKETS; i++)
		assert_true(rows[i][0] == 5 && rows[i][1] == 5);
	assert_true(rows[GT_HISTOGRAM_BUCKETS - 1][2] == 3);
}

static void numbers_far_apart_have_finite_edges(void **state)
{
	const float numbers[] = { -3e38f, 0, 3e38f };
	struct gt_histogram h = { 0 };
	int64_t sum = 0;

	(void)state;
	gt_histogram_widen(&h, numbers, 3);
	gt_histogram_count(&h, numbers, 3);
	for (int i = 0; i < GT_HISTOGRAM_BUCKETS; i++)
		sum += h.counts[i];
	assert_int_equal(sum, 3);
	assert_int_equal(h.counts[0], 1);
	assert_int_equal(h.counts[GT_HISTOGRAM_BUCKETS / 2], 1);
}

/* ---- the file ---- */

struct place {
	char root[PLANTED_ROOT];
	struct gt_folder folder;
	struct gt_log log;
	char *said;
	size_t said_size;
	struct gt_events events;
};

static void open_place(struct place *p)
{
	*p = (struct place){ 0 };
	planted_make(p->root, &(struct planted_file){ 0 });
	p->log.stream = open_memstream(&p->said, &p->said_size);
	assert_non_null(p->log.stream);
	assert_int_equal(gt_folder_open(&p->folder, p->root, GT_ERR_IGNORED), 0);
	assert_int_equal(gt_events_open(&p->events, &p->folder, 0, &p->log, GT_ERR_IGNORED), 0);
}

static void close_place(struct place *p)
{
	gt_events_close(&p->events);
	gt_folder_close(&p->folder);
	fclose(p->log.stream);
	free(p->said);
	planted_remove(p->root);
}

static uint64_t lowest_first(const unsigned char *p, int bytes)
{
	uint64_t value = 0;

	for (int i = 0; i < bytes; i++)
		value |= (uint64_t)p[i] << 8 * i;
	return value;
}

static uint64_t masked(const unsigned char *p, size_t size)
{
	uint32_t crc = gt_crc32c_plain(p, size);

	return (crc >> 15 | crc << 17) + 0xa282ead8U;
}

/* Check the CRCs of all records, and return their number. `text` is in the last one. */
static int count_records(const char *path, const void *text, size_t text_size)
{
	struct gt_mapping map;
	size_t at = 0, size = 0;
	int count = 0;

	assert_int_equal(gt_map(&map, path, GT_ERR_IGNORED), 0);
	for (; at < map.size; at += size + 16, count++) {
		const unsigned char *p = map.data + at;

		assert_true(map.size - at >= 16);
		size = lowest_first(p, 8);
		assert_int_equal(lowest_first(p + 8, 4), masked(p, 8));
		assert_true(map.size - at - 16 >= size);
		assert_int_equal(lowest_first(p + 12 + size, 4), masked(p + 12, size));
	}
	assert_non_null(memmem(map.data + at - size - 4, size, text, text_size));
	gt_unmap(&map);
	return count;
}

static void records_have_sizes_and_crcs(void **state)
{
	/* tag, metadata { plugin { name }, class }, number */
	static const char value[] = "\x0a\x06"
	                            "a/loss"
	                            "\x4a\x0d\x0a\x09\x0a\x07scalars"
	                            "\x20\x01"
	                            "\x15\0\0\x20\x40";
	struct place p;
	char *path;

	(void)state;
	open_place(&p);
	path = strdup(p.events.path);
	gt_events_text(&p.events, 3, "t", "**bold**");
	gt_events_scalar(&p.events, 300, "a/loss", 2.5);
	gt_events_close(&p.events);
	/* the version, and the start of the session */
	assert_int_equal(count_records(path, value, sizeof(value) - 1), 4);
	free(path);
	close_place(&p);
}

static void a_second_file_of_the_same_second_has_its_own_name(void **state)
{
	struct gt_events other;
	struct place p;

	(void)state;
	open_place(&p);
	assert_int_equal(gt_events_open(&other, &p.folder, 7, &p.log, GT_ERR_IGNORED), 0);
	assert_string_not_equal(other.path, p.events.path);
	gt_events_close(&other);
	close_place(&p);
}

static void bytes_that_are_no_utf8_are_replaced(void **state)
{
	struct place p;
	char *path;

	(void)state;
	open_place(&p);
	path = strdup(p.events.path);
	gt_events_text(&p.events, 0, "t\xff", "a\xc3\xa4 b\xc3 c\xed\xa0\x80");
	gt_events_close(&p.events);
	assert_int_equal(count_records(path, "a\xc3\xa4 b? c???", 11), 3);
	free(path);
	close_place(&p);
}

/* A file that cannot be written is reported once. */
static void expect_one_warning(struct place *p, const char *reason)
{
	int lines = 0;

	for (int i = 0; i < 3; i++) {
		gt_events_scalar(&p->events, i, "a", 1);
		p->events.flushed = -10; /* as if a second had passed */
		gt_events_flush(&p->events);
	}
	gt_events_end(&p->events, GT_SESSION_SUCCESS);
	gt_events_close(&p->events);
	fflush(p->log.stream);
	for (const char *s = p->said; *s; s++)
		lines += *s == '\n';
	assert_int_equal(lines, 1);
	assert_non_null(strstr(p->said, "warning: cannot write '"));
	assert_non_null(strstr(p->said, reason));
}

static void a_full_disk_is_reported_once(void **state)
{
	struct place p;

	(void)state;
	open_place(&p);
	fclose(p.events.stream);
	p.events.stream = fopen("/dev/full", "w");
	assert_non_null(p.events.stream);
	expect_one_warning(&p, "No space left on device; the run continues without it");
	close_place(&p);
}

static void a_removed_file_is_reported_once(void **state)
{
	struct place p;

	(void)state;
	open_place(&p);
	assert_int_equal(unlink(p.events.path), 0);
	expect_one_warning(&p, "it was removed; the run continues without it");
	close_place(&p);
}

/* In steps, events take no memory. */
static void a_number_needs_no_new_memory(void **state)
{
	const char *text;
	struct place p;

	(void)state;
	open_place(&p);
	gt_events_scalar(&p.events, 1, "train/samples_per_s", 1e9);
	text = p.events.event.text;
	for (int i = 2; i < 100; i++)
		gt_events_scalar(&p.events, i * 1000000000000, "train/samples_per_s", NAN);
	assert_ptr_equal(p.events.event.text, text);
	assert_true(p.events.event.capacity <= 1024);
	close_place(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(crc_has_known_values),
		cmocka_unit_test(numbers_have_their_lowest_byte_first),
		cmocka_unit_test(a_message_in_place_is_like_one_of_its_own),
		cmocka_unit_test(histogram_counts_all_finite_numbers),
		cmocka_unit_test(equal_numbers_are_in_the_last_bucket),
		cmocka_unit_test(numbers_far_apart_have_finite_edges),
		cmocka_unit_test(records_have_sizes_and_crcs),
		cmocka_unit_test(a_second_file_of_the_same_second_has_its_own_name),
		cmocka_unit_test(bytes_that_are_no_utf8_are_replaced),
		cmocka_unit_test(a_full_disk_is_reported_once),
		cmocka_unit_test(a_removed_file_is_reported_once),
		cmocka_unit_test(a_number_needs_no_new_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
