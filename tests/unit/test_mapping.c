/* test_mapping.c - files that are mapped: only regular ones, by which path, and which pages. */
#include "lib/base/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/base/copy.h"

/* Each test has its own empty folder, which is the current one while it runs. */
static int enter(void **state)
{
	char folder[] = "/tmp/gtrain-test-mapping-XXXXXX";

	*state = mkdtemp(folder) ? strdup(folder) : NULL;
	return *state ? chdir(*state) : -1;
}

static int leave(void **state)
{
	char command[100];

	snprintf(command, sizeof(command), "rm -rf '%s'", (char *)*state);
	free(*state);
	return chdir("/") || system(command);
}

static void write_plain(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static void map_takes_files_only(void **state)
{
	static const struct {
		const char *path, *text;
	} cases[] = { { "missing", "cannot open 'missing'" }, { "folder", "is a directory" },
		{ "/dev/null", "is a device or pipe" } };
	struct gt_mapping map;

	(void)state;
	assert_int_equal(mkdir("folder", 0777), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct gt_err err = GT_ERR_INIT;

		assert_int_equal(gt_map(&map, cases[i].path, &err), GT_EIO);
		assert_non_null(strstr(err.text, cases[i].text));
		assert_null(map.data);
		gt_unmap(&map);
	}
	write_plain("empty", "");
	assert_int_equal(gt_map(&map, "empty", NULL), 0);
	assert_null(map.data);
	assert_int_equal(map.size, 0);
	gt_unmap(&map);
}

static void a_mapped_byte_names_its_file(void **state)
{
	enum { MOST = 64, SOME = MOST + 6 };
	struct gt_mapping maps[SOME];
	int known = 0;

	(void)state;
	write_plain("file", "12345");
	write_plain("other", "12345");
	for (int i = 0; i < SOME; i++)
		assert_int_equal(gt_map(&maps[i], i % 2 ? "file" : "other", NULL), 0);
	for (int i = 0; i < SOME; i++) {
		const char *path = gt_map_path_at(maps[i].data + 4);

		if (path)
			assert_string_equal(path, i % 2 ? "file" : "other");
		assert_null(gt_map_path_at(maps[i].data + 5));
		known += path != NULL;
	}
	assert_int_equal(known, MOST); /* the table is full */
	for (int i = 0; i < SOME; i++) {
		const unsigned char *data = maps[i].data;

		gt_unmap(&maps[i]);
		assert_null(gt_map_path_at(data));
	}
	assert_int_equal(gt_map(&maps[0], "./file", NULL), 0);
	assert_string_equal(gt_map_path_at(maps[0].data), "./file");
	gt_unmap(&maps[0]);
	assert_null(gt_map_path_at(NULL));
	write_plain("a\nb\xc2\x9b\u202e\xff", "12345"); /* as it is safe on a terminal */
	assert_int_equal(gt_map(&maps[0], "a\nb\xc2\x9b\u202e\xff", NULL), 0);
	assert_string_equal(gt_map_path_at(maps[0].data), "a\\nb\\u009b\\u202e\\xff");
	gt_unmap(&maps[0]);
}

static void writing_from_a_truncated_file_names_it(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_mapping map;
	FILE *out = fopen("out", "w");

	(void)state;
	assert_non_null(out);
	write_plain("file", "12345");
	assert_int_equal(gt_map(&map, "file", NULL), 0);
	assert_int_equal(truncate("file", 0), 0);
	assert_int_equal(gt_write_at(fileno(out), 0, map.data, map.size, &err), GT_EIO);
	assert_string_equal(err.text, "'file': " GT_MAP_SHRANK);
	assert_string_equal(err.hint, GT_MAP_SHRANK_HINT);
	gt_unmap(&map);
	fclose(out);
}

/* Pages of mapped files that are in this process's memory, in bytes. */
static long mapped_bytes(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	long all, resident, shared;

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%ld %ld %ld", &all, &resident, &shared), 3);
	fclose(f);
	return shared * sysconf(_SC_PAGESIZE);
}

/* Touching a byte maps its neighbours, too. */
static void forgotten_files_take_no_memory(void **state)
{
	enum { STEP = 300000, SIZE = 100 * STEP, MOST = 4 << 20 };
	struct gt_mapping map;
	char *bytes = calloc(1, SIZE);
	FILE *f = fopen("file", "w");
	long before;
	int sum = 0;

	(void)state;
	assert_true(bytes && f && fwrite(bytes, 1, SIZE, f) == SIZE && !fclose(f));
	free(bytes);
	assert_int_equal(gt_map(&map, "file", NULL), 0);
	before = mapped_bytes();
	for (uint64_t at = STEP / 2; at < SIZE; at += STEP) {
		sum += map.data[at];
		gt_map_forget(&map, at, 1);
	}
	assert_int_equal(sum, 0);
	assert_true(mapped_bytes() - before < MOST);
	gt_unmap(&map);
}

/* Bytes that were written are never in a hole, wherever they lie. */
static void holes_are_between_what_was_written(void **state)
{
	enum { MIB = 1 << 20, AT = 200 * MIB + 5000, SIZE = 500 * MIB };
	struct gt_mapping map;
	FILE *f = fopen("sparse", "w");

	(void)state;
	assert_non_null(f);
	assert_int_equal(fseek(f, AT, SEEK_SET), 0);
	assert_int_equal(fputc('x', f), 'x');
	assert_int_equal(fflush(f), 0);
	assert_int_equal(ftruncate(fileno(f), SIZE), 0);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(gt_map(&map, "sparse", NULL), 0);
	assert_true(gt_map_data(&map, 0) <= AT && gt_map_data(&map, AT) == AT);
	assert_true(gt_map_data_end(&map, SIZE) > AT && gt_map_data_end(&map, AT + 1) == AT + 1);
	if (gt_map_data(&map, 0) > 0) { /* else the file system tells of none */
		assert_true(gt_map_data(&map, 0) > AT - 2 * MIB);
		assert_true(gt_map_data_end(&map, SIZE) < AT + 2 * MIB);
		assert_int_equal(gt_map_data(&map, AT + 2 * MIB), SIZE);
		assert_int_equal(gt_map_data_end(&map, AT - 2 * MIB), 0);
	}
	gt_unmap(&map);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, enter, leave)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_FOLDER(map_takes_files_only),
		IN_FOLDER(a_mapped_byte_names_its_file),
		IN_FOLDER(writing_from_a_truncated_file_names_it),
		IN_FOLDER(forgotten_files_take_no_memory),
		IN_FOLDER(holes_are_between_what_was_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
