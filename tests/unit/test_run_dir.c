/* test_run_dir.c - run directories: names, locks, checkpoints that stay, damage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/train/run/run_dir.h"
#include "tests/common/planted.h"

#define COUNT(a) (sizeof(a) / sizeof(*(a)))
#define RUN      "{\"model\": \"lenet\", \"data\": \"mnist:x\"}"

enum { NAMES = 8, PATH_SIZE = 256 };

/* ROOT/NAME in a buffer of the caller's. */
static const char *in(char path[PATH_SIZE], const char *root, const char *name)
{
	assert_true(snprintf(path, PATH_SIZE, "%s/%s", root, name) < PATH_SIZE);
	return path;
}

static bool exists(const char *root, const char *name)
{
	char path[PATH_SIZE];
	struct stat st;

	return !lstat(in(path, root, name), &st);
}

static void write_file(const char *root, const char *name, const char *text, size_t size)
{
	char path[PATH_SIZE];
	FILE *f = fopen(in(path, root, name), "w");

	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, size, f), size);
	assert_int_equal(fclose(f), 0);
}

static void make_folder(const char *root, const char *name)
{
	char path[PATH_SIZE];

	assert_int_equal(gt_make_dirs(in(path, root, name), GT_ERR_IGNORED), 0);
}

/* An empty folder of the test's own. */
static void make_root(char root[PLANTED_ROOT])
{
	planted_make(root, &(struct planted_file){ 0 });
}

/* A run directory with these files in checkpoints/, each of its own name; NULL ends the list. */
static void make_run(char root[PLANTED_ROOT], const char *const names[NAMES])
{
	char path[PATH_SIZE];

	make_root(root);
	make_folder(root, "checkpoints");
	for (int i = 0; i < NAMES && names[i]; i++) {
		snprintf(path, sizeof(path), "checkpoints/%s", names[i]);
		write_file(root, path, names[i], strlen(names[i]));
	}
}

/* ---- checkpoints ---- */

#define STEP(n) "step-" #n ".pth"
#define SET(n)  "step-" #n ".dcp"

static void the_latest_checkpoint_is_that_of_the_largest_step(void **state)
{
	static const struct {
		const char *names[NAMES];
		int64_t latest;
	} cases[] = {
		{ { NULL }, -1 },
		{ { STEP(00000000) }, 0 },
		{ { STEP(00000009), STEP(00000010), STEP(00000002) }, 10 },
		/* by number, not by letter */
		{ { STEP(100000000), STEP(99999999) }, 100000000 },
		{ { STEP(9223372036854775807), STEP(00000001) }, INT64_MAX },
		/* no checkpoints: names of other lengths, of too large a number, being saved */
		{ { SET(00000003), STEP(00000002) }, 3 },
		{ { SET(00000003), STEP(00000003), STEP(00000004) }, 4 },
		{ { STEP(00000003), STEP(7), STEP(0000000000008) }, 3 },
		{ { STEP(00000003), STEP(99999999999999999999) }, 3 },
		{ { STEP(00000003), STEP(00000004) ".tmp-4711-0", STEP(00000005) ".bak" }, 3 },
		{ { STEP(00000003), "step--0000004.pth", "step-+0000004.pth", "step- 0000004.pth" },
		    3 },
		{ { "Step-00000004.pth", "step-00000004.PTH", "old-step-00000004.pth" }, -1 },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct gt_err err = GT_ERR_INIT;
		char root[PLANTED_ROOT];
		struct gt_run_dir dir;
		int64_t step = -7;

		make_run(root, cases[i].names);
		assert_int_equal(gt_run_dir_open(&dir, root, &err), 0);
		assert_int_equal(gt_run_dir_latest_step(&step, &dir, &err), 0);
		if (step != cases[i].latest)
			fail_msg("case %zu: step %lld, not %lld", i, (long long)step,
			    (long long)cases[i].latest);
		/* A run that begins anew must not find steps of another one. */
		if (step > 0) {
			assert_int_equal(gt_run_dir_check_unused(&dir, step, false, &err), 0);
			assert_int_equal(
			    gt_run_dir_check_unused(&dir, step - 1, true, &err), GT_EINVAL);
			assert_non_null(strstr(err.text, "holds a run that is at step"));
		} else {
			assert_int_equal(gt_run_dir_check_unused(&dir, 0, false, &err), 0);
		}
		gt_run_dir_close(&dir);
		planted_remove(root);
	}
}

static void only_the_newest_checkpoints_stay(void **state)
{
	static const struct {
		int64_t keep;
		const char *names[NAMES], *left[NAMES];
	} cases[] = {
		{ 0, { STEP(00000001), STEP(00000002) }, { STEP(00000001), STEP(00000002) } },
		{ 1, { STEP(00000001), STEP(00000003), STEP(00000002) }, { STEP(00000003) } },
		{ 2, { STEP(00000001), STEP(00000003), STEP(00000002) },
		    { STEP(00000002), STEP(00000003) } },
		{ 3, { STEP(00000001), STEP(00000003), STEP(00000002) },
		    { STEP(00000001), STEP(00000002), STEP(00000003) } },
		{ 9, { STEP(00000001) }, { STEP(00000001) } },
		{ 1, { NULL }, { NULL } },
		{ 1, { STEP(99999999), STEP(100000000) }, { STEP(100000000) } },
		/* People's own files stay, and don't count. */
		{ 1, { STEP(00000001), STEP(00000002), "step-9.pth", "best of all.pth" },
		    { STEP(00000002), "step-9.pth", "best of all.pth" } },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct gt_err err = GT_ERR_INIT;
		char root[PLANTED_ROOT], path[PATH_SIZE];
		struct gt_run_dir dir;
		int before = 0, left = 0;

		make_run(root, cases[i].names);
		assert_int_equal(gt_run_dir_open(&dir, root, &err), 0);
		assert_int_equal(gt_run_dir_prune(&dir, cases[i].keep, &err), 0);
		gt_run_dir_close(&dir);
		for (; before < NAMES && cases[i].names[before]; before++) {
			snprintf(path, sizeof(path), "checkpoints/%s", cases[i].names[before]);
			left += exists(root, path);
		}
		for (int k = 0; k < NAMES && cases[i].left[k]; k++, left--) {
			snprintf(path, sizeof(path), "checkpoints/%s", cases[i].left[k]);
			if (!exists(root, path))
				fail_msg("case %zu: '%s' is gone", i, cases[i].left[k]);
		}
		assert_int_equal(left, 0);
		planted_remove(root);
	}
}

/* The names that are read are those that are written. */
static void checkpoints_are_found_by_the_names_they_get(void **state)
{
	static const int64_t steps[] = { 0, 1, 1000, 99999999, 100000000, INT64_MAX };

	(void)state;
	for (size_t i = 0; i < COUNT(steps); i++) {
		struct gt_err err = GT_ERR_INIT;
		char root[PLANTED_ROOT], *path;
		struct gt_run_dir dir;
		int64_t step;

		make_run(root, (const char *const[NAMES]){ NULL });
		assert_int_equal(gt_run_dir_open(&dir, root, &err), 0);
		path = gt_run_dir_checkpoint(&dir, steps[i], i % 2, &err);
		assert_non_null(path);
		write_file("/", path, "x", 1);
		assert_int_equal(gt_run_dir_latest_step(&step, &dir, &err), 0);
		assert_int_equal(step, steps[i]);
		assert_int_equal(gt_run_dir_form(&dir, step), i % 2);
		free(path);
		gt_run_dir_close(&dir);
		planted_remove(root);
	}
}

/* ---- the directory ---- */

static void a_missing_directory_is_free_and_is_made(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	char root[PLANTED_ROOT], path[PATH_SIZE];
	struct gt_run_dir dir;

	(void)state;
	make_root(root);
	in(path, root, "some/new/run");
	assert_int_equal(gt_run_dir_check(path, &err), 0);
	assert_int_equal(gt_run_dir_check_files(path, &err), 0);
	assert_false(exists(root, "some"));
	assert_int_equal(gt_run_dir_open(&dir, path, &err), GT_EIO);
	assert_null(dir.folder.path);
	assert_int_equal(gt_run_dir_create(&dir, path, &err), 0);
	assert_true(exists(path, "checkpoints"));
	gt_run_dir_close(&dir);
	gt_run_dir_close(&dir); /* once more is fine */
	planted_remove(root);
}

/* A folder of a run that is read may lack checkpoints/. */
static void a_run_without_checkpoints_is_read(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	char root[PLANTED_ROOT];
	struct gt_run_dir dir;
	int64_t step;

	(void)state;
	make_root(root);
	assert_int_equal(gt_run_dir_open(&dir, root, &err), 0);
	assert_int_equal(gt_run_dir_latest_step(&step, &dir, &err), 0);
	assert_int_equal(step, -1);
	assert_int_equal(gt_run_dir_prune(&dir, 1, &err), 0);
	gt_run_dir_close(&dir);
	assert_false(exists(root, "checkpoints"));
	for (int best = 0; best < 2; best++) {
		bool found = !best;

		assert_int_equal(gt_run_dir_has_best(&found, root, &err), 0);
		assert_int_equal(found, best);
		write_file(root, "best.pth", "x", 1);
	}
	planted_remove(root);
}

static void one_run_writes_at_a_time(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	char root[PLANTED_ROOT];
	struct gt_run_dir first, second, reader;

	(void)state;
	make_root(root);
	assert_int_equal(gt_run_dir_create(&first, root, &err), 0);
	assert_int_equal(gt_run_dir_create(&second, root, &err), GT_EIO);
	assert_non_null(strstr(err.text, "another run is writing into '"));
	assert_null(second.folder.path);
	assert_int_equal(gt_run_dir_check(root, &err), GT_EIO);
	assert_non_null(strstr(err.text, "another run is writing into '"));
	/* Others may read. */
	assert_int_equal(gt_run_dir_check_files(root, &err), 0);
	assert_int_equal(gt_run_dir_open(&reader, root, &err), 0);
	gt_run_dir_close(&reader);
	gt_run_dir_close(&first);
	/* A check keeps no lock, and neither does a run that has ended. */
	assert_int_equal(gt_run_dir_check(root, &err), 0);
	assert_int_equal(gt_run_dir_create(&second, root, &err), 0);
	gt_run_dir_close(&second);
	planted_remove(root);
}

static void files_that_a_killed_run_was_writing_go(void **state)
{
	static const struct {
		const char *name;
		bool stays;
	} cases[] = {
		{ "config.json.tmp-4711-0", false },
		{ "checkpoints/step-00001000.pth.tmp-1-12", false },
		{ "a.tmp-1-1", false },
		{ "config.json", true },
		{ "checkpoints/step-00001000.pth", true },
		{ "config.json.tmp", true },
		{ "config.json.tmp-4711", true },
		{ "config.json.tmp-4711-", true },
		{ "config.json.tmp--0", true },
		{ "config.json.tmp-x-0", true },
		{ "config.json.tmp-4711-0x", true },
		{ "trace.tmp-1-1-1", true },
	};
	struct gt_err err = GT_ERR_INIT;
	char root[PLANTED_ROOT];
	struct gt_run_dir dir, second;

	(void)state;
	make_run(root, (const char *const[NAMES]){ NULL });
	for (size_t i = 0; i < COUNT(cases); i++)
		write_file(root, cases[i].name, RUN, strlen(RUN));
	/* Neither readers nor checks remove them: some run may be writing. */
	assert_int_equal(gt_run_dir_open(&dir, root, &err), 0);
	gt_run_dir_close(&dir);
	assert_int_equal(gt_run_dir_check(root, &err), 0);
	for (size_t i = 0; i < COUNT(cases); i++)
		assert_true(exists(root, cases[i].name));
	assert_int_equal(gt_run_dir_create(&dir, root, &err), 0);
	for (size_t i = 0; i < COUNT(cases); i++)
		if (exists(root, cases[i].name) != cases[i].stays)
			fail_msg("'%s' %s", cases[i].name, cases[i].stays ? "is gone" : "stays");
	/* Those of the run that has the lock stay. */
	write_file(root, "model.pth.tmp-1-0", "x", 1);
	assert_int_equal(gt_run_dir_create(&second, root, &err), GT_EIO);
	assert_true(exists(root, "model.pth.tmp-1-0"));
	gt_run_dir_close(&dir);
	planted_remove(root);
}

/* ---- files in the way ---- */

enum obstacle { A_LINK, A_FOLDER, A_PIPE, A_FILE, LINK_TO_FOLDER };

static void put(const char *root, const char *name, enum obstacle what)
{
	char path[PATH_SIZE];

	switch (what) {
	case A_LINK:
		assert_int_equal(symlink("/etc/passwd", in(path, root, name)), 0);
		return;
	case A_FOLDER:
		assert_int_equal(mkdir(in(path, root, name), 0700), 0);
		return;
	case A_PIPE:
		assert_int_equal(mkfifo(in(path, root, name), 0600), 0);
		return;
	case A_FILE:
		write_file(root, name, "x", 1);
		return;
	case LINK_TO_FOLDER:
		assert_int_equal(symlink("/tmp", in(path, root, name)), 0);
	}
}

/* Each is refused before any work is done, or is no file of a run's. */
static void anything_in_the_place_of_a_file_is_refused(void **state)
{
	static const struct {
		const char *folder, *name;
		enum obstacle what;
		const char *text; /* NULL: it may be there */
	} cases[] = {
		{ NULL, "config.json", A_LINK, "config.json' is a symbolic link" },
		{ NULL, "metrics.jsonl", A_LINK, "metrics.jsonl' is a symbolic link" },
		{ NULL, "metrics.jsonl", A_PIPE, "metrics.jsonl' is a device or pipe" },
		{ NULL, "vocab.json", A_FOLDER, "vocab.json' is a directory" },
		{ NULL, "tokenizer.json", A_LINK, "tokenizer.json' is a symbolic link" },
		{ NULL, "model.pth", A_FOLDER, "model.pth' is a directory" },
		{ NULL, "best.pth", A_PIPE, "best.pth' is a device or pipe" },
		{ NULL, "model_ema.pth", A_LINK, "model_ema.pth' is a symbolic link" },
		{ NULL, "checkpoints", LINK_TO_FOLDER, "checkpoints' is a symbolic link" },
		{ NULL, "checkpoints", A_PIPE, "checkpoints' is a device or pipe" },
		{ NULL, "checkpoints", A_FILE, "checkpoints' is a file, not a directory" },
		{ NULL, "log", LINK_TO_FOLDER, "log' is a symbolic link" },
		{ NULL, "trace", A_PIPE, "trace' is a device or pipe" },
		{ "checkpoints", "step-00000001.pth", A_LINK, "00001.pth' is a symbolic link" },
		{ "checkpoints", "step-00000001.pth", A_FOLDER, "00001.pth' is a directory" },
		{ "log", "rank-0.log", A_LINK, "rank-0.log' is a symbolic link" },
		{ "trace", "rank-12.json.gz", A_FOLDER, "rank-12.json.gz' is a directory" },
		{ NULL, "model.pth", A_FILE, NULL },
		{ NULL, "notes", A_LINK, NULL },
		{ NULL, "step-00000001.pth", A_PIPE, NULL },
		{ NULL, "log", A_FILE, NULL },
		{ "checkpoints", "mine.pth", A_LINK, NULL },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct gt_err err = GT_ERR_INIT;
		char root[PLANTED_ROOT], folder[PATH_SIZE];
		struct gt_run_dir dir;
		int rc;

		make_root(root);
		if (cases[i].folder)
			make_folder(root, cases[i].folder);
		put(cases[i].folder ? in(folder, root, cases[i].folder) : root, cases[i].name,
		    cases[i].what);
		rc = gt_run_dir_create(&dir, root, &err);
		gt_run_dir_close(&dir);
		if (rc != (cases[i].text ? GT_EIO : 0) || (rc && !strstr(err.text, cases[i].text)))
			fail_msg("case %zu, '%s': code %d, \"%s\"", i, cases[i].name, rc, err.text);
		if (cases[i].text && cases[i].what != A_FILE) {
			assert_int_equal(gt_run_dir_check_files(root, &err), GT_EIO);
			assert_int_equal(gt_run_dir_check(root, &err), GT_EIO);
		}
		planted_remove(root);
	}
}

static void a_path_that_is_no_directory_is_refused(void **state)
{
	static const char *const paths[] = { "file", "file/run", "loop", "loop/run" };
	char root[PLANTED_ROOT], path[PATH_SIZE];

	(void)state;
	make_root(root);
	write_file(root, "file", "x", 1);
	assert_int_equal(symlink("loop", in(path, root, "loop")), 0);
	for (size_t i = 0; i < COUNT(paths); i++) {
		struct gt_err err = GT_ERR_INIT;
		struct gt_run_dir dir;

		in(path, root, paths[i]);
		assert_int_equal(gt_run_dir_open(&dir, path, &err), GT_EIO);
		assert_int_equal(gt_run_dir_create(&dir, path, &err), GT_EIO);
		assert_null(dir.folder.path);
		assert_int_equal(gt_run_dir_check(path, &err), GT_EIO);
		assert_non_null(strstr(err.text, paths[i]));
	}
	planted_remove(root);
}

/* ---- config.json ---- */

static void config_json_of_others_is_not_written_over(void **state)
{
	static const struct {
		const char *text;
		bool runs;
	} cases[] = {
		{ RUN, true },
		{ "{\"model\": \"\", \"data\": \"\", \"more\": [1]}", true },
		{ "{\"model\": \"lenet\"}", false },
		{ "{\"data\": \"mnist:x\"}", false },
		{ "{\"model\": 1, \"data\": \"mnist:x\"}", false },
		{ "{\"model\": \"lenet\", \"data\": null}", false },
		{ "{\"model_type\": \"gpt2\"}", false },
		{ "[\"model\", \"data\"]", false },
		{ "{}", false },
		{ "", false },
		{ "{\"model\": \"lenet\", ", false },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct gt_err err = GT_ERR_INIT;
		char root[PLANTED_ROOT];
		struct gt_run_dir dir;
		int rc;

		make_root(root);
		write_file(root, "config.json", cases[i].text, strlen(cases[i].text));
		rc = gt_run_dir_create(&dir, root, &err);
		gt_run_dir_close(&dir);
		if (rc != (cases[i].runs ? 0 : GT_EIO))
			fail_msg("case %zu: code %d, \"%s\"", i, rc, err.text);
		if (rc) {
			assert_non_null(strstr(err.text, "/config.json' is there already and "
			                                 "belongs to no run"));
			assert_false(exists(root, "checkpoints"));
		}
		planted_remove(root);
	}
}

static void damage_to_config_json_is_told_with_its_line(void **state)
{
	static const struct {
		const char *text;
		size_t size;      /* 0: of the string */
		const char *says; /* NULL: it is whole */
	} cases[] = {
		{ RUN, 0, NULL },
		{ "{\"a\": \"\\u0000\"}", 0, NULL }, /* a name may hold the character NUL */
		{ "", 0, "config.json' is damaged: line 1: " },
		{ "{\"model\": \"lenet\",\n \"data\": ", 0, "config.json' is damaged: line 2: " },
		{ "{\"model\": \"lenet\",\n\n\n \"data\" \"x\"}", 0, "is damaged: line 4: " },
		{ RUN "\n}", 0, "is damaged: line 2: end of file expected" },
		{ "{\"a\": NaN}", 0, "is damaged: line 1: " },
		{ "{\"a\": \"\xff\"}", 0, "is damaged: line 1: unable to decode byte 0xff" },
		{ "{\"a\": 1e999}", 0, "is damaged: line 1: real number overflow" },
		{ "{\"a\": 1}\0", 9, "is damaged: line 1: end of file expected" },
		{ "\0\0\0\0", 4, "is damaged: line 1: " },
		{ "\"text\"", 0, "is damaged: line 1: " },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		size_t size = cases[i].size ? cases[i].size : strlen(cases[i].text);
		struct gt_err err = GT_ERR_INIT;
		char root[PLANTED_ROOT];
		struct gt_run_dir dir;
		json_t *config = json_null();
		int rc;

		make_root(root);
		write_file(root, "config.json", cases[i].text, size);
		assert_int_equal(gt_run_dir_open(&dir, root, &err), 0);
		rc = gt_run_dir_read_config(&config, &dir, &err);
		if (rc != (cases[i].says ? GT_EFORMAT : 0) ||
		    (rc && !strstr(err.text, cases[i].says)))
			fail_msg("case %zu: code %d, \"%s\"", i, rc, err.text);
		assert_int_equal(json_is_object(config), !rc);
		json_decref(config);
		gt_run_dir_close(&dir);
		planted_remove(root);
	}
}

/* Brackets without end must not end the stack. */
static void deep_config_json_is_refused(void **state)
{
	enum { DEPTH = 1000000 };
	struct gt_err err = GT_ERR_INIT;
	char root[PLANTED_ROOT], *text = malloc(DEPTH);
	struct gt_run_dir dir;
	json_t *config;

	(void)state;
	assert_non_null(text);
	memset(text, '[', DEPTH);
	make_root(root);
	write_file(root, "config.json", text, DEPTH);
	assert_int_equal(gt_run_dir_open(&dir, root, &err), 0);
	assert_int_equal(gt_run_dir_read_config(&config, &dir, &err), GT_EFORMAT);
	assert_null(config);
	gt_run_dir_close(&dir);
	planted_remove(root);
	free(text);
}

static void a_missing_config_json_is_no_error_and_a_link_is_one(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	char root[PLANTED_ROOT], path[PATH_SIZE];
	struct gt_run_dir dir;
	json_t *config = json_null();

	(void)state;
	make_root(root);
	assert_int_equal(gt_run_dir_open(&dir, root, &err), 0);
	assert_int_equal(gt_run_dir_read_config(&config, &dir, &err), 0);
	assert_null(config);
	write_file(root, "elsewhere.json", RUN, strlen(RUN));
	assert_int_equal(symlink("elsewhere.json", in(path, root, "config.json")), 0);
	assert_int_equal(gt_run_dir_read_config(&config, &dir, &err), GT_EIO);
	assert_null(config);
	gt_run_dir_close(&dir);
	planted_remove(root);
}

static void config_json_is_read_as_it_was_written(void **state)
{
	static const char *const texts[] = { "{}", RUN,
		"{\"a\":[1,2.5,-1e-300,true,null],\"b\":{\"c\":\"\\\"\\\\\\n\\u0001\\u20ac\"}}",
		"{\"lr\":0.1,\"most\":9223372036854775807,\"name\":\"\\u0000\"}" };
	struct gt_err err = GT_ERR_INIT;
	char root[PLANTED_ROOT];
	struct gt_run_dir dir;

	(void)state;
	make_root(root);
	assert_int_equal(gt_run_dir_create(&dir, root, &err), 0);
	for (size_t i = 0; i < COUNT(texts); i++) {
		json_t *config = json_loads(texts[i], JSON_ALLOW_NUL, NULL), *again;

		assert_non_null(config);
		assert_int_equal(gt_run_dir_write_config(&dir, config, &err), 0);
		assert_int_equal(gt_run_dir_read_config(&again, &dir, &err), 0);
		assert_true(json_equal(config, again));
		json_decref(config);
		json_decref(again);
	}
	gt_run_dir_close(&dir);
	planted_remove(root);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_latest_checkpoint_is_that_of_the_largest_step),
		cmocka_unit_test(only_the_newest_checkpoints_stay),
		cmocka_unit_test(checkpoints_are_found_by_the_names_they_get),
		cmocka_unit_test(a_missing_directory_is_free_and_is_made),
		cmocka_unit_test(a_run_without_checkpoints_is_read),
		cmocka_unit_test(one_run_writes_at_a_time),
		cmocka_unit_test(files_that_a_killed_run_was_writing_go),
		cmocka_unit_test(anything_in_the_place_of_a_file_is_refused),
		cmocka_unit_test(a_path_that_is_no_directory_is_refused),
		cmocka_unit_test(config_json_of_others_is_not_written_over),
		cmocka_unit_test(damage_to_config_json_is_told_with_its_line),
		cmocka_unit_test(deep_config_json_is_refused),
		cmocka_unit_test(a_missing_config_json_is_no_error_and_a_link_is_one),
		cmocka_unit_test(config_json_is_read_as_it_was_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
