/* test_data_sets.c - archives of data sets, and the table of sets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "tests/unit/get_fixture.h"

enum { PART_SIZE = 70000, MOST_ARCHIVE = 400000 };

static unsigned char archive[MOST_ARCHIVE];
static size_t archive_size;
static char archive_sum[2 * SHA256_DIGEST_SIZE + 1], part_sum[2 * SHA256_DIGEST_SIZE + 1];
static struct gt_set_file archives[2] = { { .name = "a.tar.gz",
    .sha256 = archive_sum,
    .addresses = { "http://publisher.invalid/a.tar.gz" } } };
static struct gt_set_file parts[3] = { { .name = "one.bin", .sha256 = part_sum },
	{ .name = "names.txt" } };
static const struct gt_set packed = {
	.name = "set", .files = archives, .parts_folder = "batches", .parts = parts
};

static size_t add_file(unsigned char *tar, const char *name, const void *bytes, size_t size)
{
	unsigned sum = 0;

	memset(tar, 0, 512);
	snprintf((char *)tar, 100, "%s", name);
	snprintf((char *)tar + 124, 12, "%011o", (unsigned)size);
	memset(tar + 148, ' ', 8);
	tar[156] = '0';
	for (int i = 0; i < 512; i++)
		sum += tar[i];
	snprintf((char *)tar + 148, 8, "%06o", sum);
	memcpy(tar + 512, bytes, size);
	return 512 + (size + 511) / 512 * 512;
}

/*
 * An archive of files that a set wants and of others; `kept` bytes of the tar, whose rest is
 * missing.
 */
static void make_archive(const char *first, size_t kept)
{
	static unsigned char tar[MOST_ARCHIVE];
	size_t size = 0;
	z_stream z = { 0 };

	memset(tar, 0, sizeof(tar));
	size += add_file(tar + size, "batches/readme.html", "hello", 5);
	size += add_file(tar + size, "../names.txt", "evil", 4);
	size += add_file(tar + size, first, body, PART_SIZE);
	size += add_file(tar + size, "batches/names.txt", "cat\ndog\n", 8);
	size += 1024;
	assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
	z.next_in = tar;
	z.avail_in = (uInt)(kept && kept < size ? kept : size);
	z.next_out = archive;
	z.avail_out = sizeof(archive);
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	archive_size = z.total_out;
	deflateEnd(&z);
	sum_of(archive_sum, archive, archive_size);
	archives[0].size_bytes = archive_size;
}

static void archives_are_unpacked_and_their_parts_are_checked(void **state)
{
	static const struct {
		const char *first;
		size_t kept, part_size;
		const char *error;
	} cases[] = {
		{ "batches/one.bin", 0, PART_SIZE, NULL },
		{ "./batches/one.bin", 0, PART_SIZE, NULL },
		{ "batches/two.bin", 0, PART_SIZE, "there is no 'one.bin' in the archive" },
		{ "batches/one.bin", 4096, PART_SIZE, "the archive is cut short" },
		{ "batches/one.bin", 0, PART_SIZE + 1, "'one.bin' in the archive has 70000 bytes" },
		{ "batches/one.bin", 0, 0, "'one.bin' in the archive is not the one expected" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct gt_err err = GT_ERR_INIT;
		struct place p;
		int rc;

		open_place(&p, "whole");
		make_archive(cases[i].first, cases[i].kept);
		http_server.body = archive;
		http_server.size = archive_size;
		parts[0].size_bytes = cases[i].part_size;
		sum_of(part_sum, body, cases[i].part_size ? PART_SIZE : 1);
		rc = gt_get_set(&p.get, &packed, &err);
		if (!!rc != !!cases[i].error || (rc && !strstr(err.text, cases[i].error)))
			fail_msg("case %zu: %s", i, err.text);
		assert_int_equal(size_of(&p, "batches/one.bin"), rc ? -1 : PART_SIZE);
		assert_int_equal(size_of(&p, "batches/readme.html"), -1);
		assert_int_equal(size_of(&p, "names.txt"), -1);
		assert_int_equal(size_of(&p, "../names.txt"), -1);
		if (!rc) {
			assert_true(gt_set_is_there(&packed, p.f.folder));
			unlink(in(&p.f, "set/a.tar.gz")); /* its parts are enough */
			assert_int_equal(gt_get_set(&p.get, &packed, &err), 0);
			assert_int_equal(http_server.requests, 1);
			plant(&p, "batches/one.bin", "x", 1);
			assert_false(gt_set_is_there(&packed, p.f.folder));
			assert_int_equal(gt_get_set(&p.get, &packed, &err), GT_EFORMAT);
		}
		close_place(&p);
	}
}

/* ---- the table of sets ---- */

static bool is_sum(const char *text)
{
	return strlen(text) == 64 && strspn(text, "0123456789abcdef") == 64;
}

static void the_rows_of_the_table_are_complete(void **state)
{
	(void)state;
	for (const struct gt_set *s = gt_sets(); s->name; s++) {
		uint64_t total = 0;

		assert_ptr_equal(gt_set_find(s->name), s);
		assert_true(s->summary && s->license && s->model && s->data);
		assert_true(!s->kind == !s->path);
		for (const struct gt_set_file *f = s->files; f->name; f++) {
			assert_true(f->size_bytes > 0 && is_sum(f->sha256));
			assert_non_null(f->addresses[0]);
			for (int i = 0; i < GT_SET_ADDRESSES && f->addresses[i]; i++) {
				const char *name = strrchr(f->addresses[i], '/') + 1;

				assert_int_equal(strncmp(f->addresses[i], "http", 4), 0);
				assert_string_equal(name, f->name);
			}
			total += f->size_bytes;
		}
		assert_int_equal(gt_set_size(s), total);
		assert_true(!s->parts == !s->parts_folder);
		for (const struct gt_set_file *f = s->parts; f && f->name; f++)
			assert_true(!f->sha256 || (is_sum(f->sha256) && f->size_bytes));
		assert_true(!s->parts || !s->files[1].name);
	}
	assert_null(gt_set_find("mnis"));
}

/* The copy of a text whose checksum the table has, where the machine has one. */
static void real_files_have_the_checksums_of_the_table(void **state)
{
	const char *data = getenv("GTRAIN_TEST_DATA");
	struct gt_mapping map;
	char path[512], sum[2 * SHA256_DIGEST_SIZE + 1];

	(void)state;
	snprintf(path, sizeof(path), "%s/tinyshakespeare.txt", data ? data : "../shared/data");
	if (gt_map(&map, path, GT_ERR_IGNORED)) {
		printf("data: no '%s'\n", path);
		skip();
	}
	sum_of(sum, map.data, map.size);
	assert_string_equal(sum, gt_set_find("shakespeare")->files[0].sha256);
	assert_int_equal(map.size, gt_set_find("shakespeare")->files[0].size_bytes);
	gt_unmap(&map);
}

#define FETCH(name) cmocka_unit_test_setup(name, needs_curl)

int main(void)
{
	const struct CMUnitTest tests[] = {
		FETCH(archives_are_unpacked_and_their_parts_are_checked),
		cmocka_unit_test(the_rows_of_the_table_are_complete),
		cmocka_unit_test(real_files_have_the_checksums_of_the_table),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
