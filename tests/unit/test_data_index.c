/* test_data_index.c - long lists of images, kept in the user's cache until something changes. */
#include <dirent.h>
#include <dlfcn.h>
#include <fts.h>
#include <time.h>

#include "lib/base/philox.h"
#include "tests/unit/tar_fixture.h"

enum { SEED = 31, CLASSES = 10, PER_CLASS = 1000, SAMPLES = CLASSES * PER_CLASS };

/*
 * Lists of files that have changed within the last 2 seconds are not kept, so this process's clock
 * is later.
 */
time_t time(time_t *out)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	if (out)
		*out = ts.tv_sec + 10;
	return ts.tv_sec + 10;
}

static int walks; /* of folders */

FTS *fts_open(char *const *paths, int options, int (*compare)(const FTSENT **, const FTSENT **))
{
	FTS *(*real)(char *const *, int, int (*)(const FTSENT **, const FTSENT **)) =
	    (FTS * (*)(char *const *, int, int (*)(const FTSENT **, const FTSENT **)))
	        dlsym(RTLD_NEXT, "fts_open");

	walks++;
	return real(paths, options, compare);
}

static void begin(struct fixture *f)
{
	fixture_open(f);
	assert_int_equal(setenv("XDG_CACHE_HOME", in(f, "cache"), 1), 0);
}

static void make_tree(const struct fixture *f, const char *name)
{
	char path[512];

	put_png(f, "base.png", 6, 5, 1);
	for (int i = 0; i < SAMPLES; i++) {
		snprintf(path, sizeof(path), "%s/class-%d", in(f, name), i / PER_CLASS);
		assert_int_equal(gt_make_dirs(path, NULL), 0);
		snprintf(path + strlen(path), 32, "/%d.png", i);
		assert_int_equal(link(in(f, "base.png"), path), 0);
	}
}

/* Open, and how many folders were walked for that. */
static struct gt_dataset *open_counting(
    const struct fixture *f, const char *kind, const char *name, int *walked)
{
	struct gt_dataset *data;

	walks = 0;
	data = open_data(kind, in(f, name), ",size=160", NULL);
	*walked = walks;
	return data;
}

/* The same samples with the same names, classes and, of some, pixels. */
static void check_same(struct gt_dataset *a, struct gt_dataset *b)
{
	static uint8_t first[160 * 160 * 3], second[sizeof(first)];
	static const struct gt_draw draw;
	int64_t n = gt_dataset_info(a)->samples;
	int32_t class, other;

	assert_int_equal(gt_dataset_info(b)->samples, n);
	assert_int_equal(gt_dataset_info(b)->form.classes, gt_dataset_info(a)->form.classes);
	for (int64_t i = 0; i < n; i++)
		assert_string_equal(gt_dataset_sample_name(a, i), gt_dataset_sample_name(b, i));
	for (int64_t i = 0; i < n; i += 97) {
		assert_int_equal(gt_dataset_read(a, i, &draw, first, &class, NULL), 0);
		assert_int_equal(gt_dataset_read(b, i, &draw, second, &other, NULL), 0);
		assert_int_equal(class, other);
		assert_memory_equal(first, second, sizeof(first));
	}
}

/* How often the folder is walked to open it twice, with the expected number. */
static void expect_walks(
    const struct fixture *f, const char *name, int first, int second, int64_t samples, int classes)
{
	int walked[2];
	struct gt_dataset *a = open_counting(f, "images", name, &walked[0]);
	struct gt_dataset *b = open_counting(f, "images", name, &walked[1]);

	assert_int_equal(gt_dataset_info(a)->samples, samples);
	assert_int_equal(gt_dataset_info(a)->form.classes, classes);
	check_same(a, b);
	assert_int_equal(walked[0], first);
	assert_int_equal(walked[1], second);
	gt_dataset_close(a);
	gt_dataset_close(b);
}

/* The names in a folder are its own, and those of folders below it: a change of any counts. */
static void test_changes_of_folders(void **state)
{
	char from[512], to[512];
	struct fixture f;

	(void)state;
	begin(&f);
	make_tree(&f, "tree");
	expect_walks(&f, "tree", 1, 0, SAMPLES, CLASSES);
	expect_walks(&f, "tree", 0, 0, SAMPLES, CLASSES);
	put_png(&f, "tree/class-3/new.png", 6, 5, 2);
	expect_walks(&f, "tree", 1, 0, SAMPLES + 1, CLASSES);
	assert_int_equal(unlink(in(&f, "tree/class-3/new.png")), 0);
	expect_walks(&f, "tree", 1, 0, SAMPLES, CLASSES);
	put_png(&f, "tree/class-3/deep/er/new.png", 6, 5, 2);
	expect_walks(&f, "tree", 1, 0, SAMPLES + 1, CLASSES);
	put_png(&f, "tree/class-3/deep/er/newer.png", 6, 5, 2);
	expect_walks(&f, "tree", 1, 0, SAMPLES + 2, CLASSES);
	put_png(&f, "tree/another/new.png", 6, 5, 2);
	expect_walks(&f, "tree", 1, 0, SAMPLES + 3, CLASSES + 1);
	snprintf(from, sizeof(from), "%s", in(&f, "tree/another"));
	snprintf(to, sizeof(to), "%s", in(&f, "tree/renamed"));
	assert_int_equal(rename(from, to), 0);
	expect_walks(&f, "tree", 1, 0, SAMPLES + 3, CLASSES + 1);
	snprintf(to, sizeof(to), "%s", in(&f, "moved"));
	assert_int_equal(rename(in(&f, "tree"), to), 0);
	expect_walks(&f, "moved", 1, 0, SAMPLES + 3, CLASSES + 1);
	/* A short list is not kept. */
	put_png(&f, "small/a/1.png", 6, 5, 1);
	walks = 0;
	for (int i = 1; i < 3; i++) {
		gt_dataset_close(open_data("images", in(&f, "small"), "", NULL));
		assert_int_equal(walks, i);
	}
	fixture_close(&f);
}

/* The only index in the cache. */
static const char *index_of(const struct fixture *f)
{
	static char path[512];
	DIR *dir = opendir(in(f, "cache/gtrain/images"));
	struct dirent *entry;
	int found = 0;

	assert_non_null(dir);
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.') {
			snprintf(path, sizeof(path), "%s/%.255s", in(f, "cache/gtrain/images"),
			    entry->d_name);
			found++;
		}
	closedir(dir);
	assert_int_equal(found, 1);
	return path;
}

/* Any byte changed, any length: the list is made anew, and is right. */
static void test_damaged_index(void **state)
{
	struct gt_dataset *good, *data;
	unsigned char *whole, *bytes;
	struct gt_mapping map;
	size_t length;
	struct fixture f;
	int walked;

	(void)state;
	begin(&f);
	make_tree(&f, "tree");
	good = open_counting(&f, "images", "tree", &walked);
	assert_int_equal(gt_map(&map, index_of(&f), NULL), 0);
	length = map.size;
	whole = malloc(length);
	bytes = malloc(length);
	assert_true(whole && bytes);
	memcpy(whole, map.data, length);
	gt_unmap(&map);
	for (uint64_t i = 0; i < 40; i++) {
		/* Half of them in the header and the first stamps. */
		uint64_t limit = i % 2 ? 200 : length;
		size_t at = gt_philox_below(gt_philox_u64(SEED, i, 0, 0), limit);
		size_t size = i % 5 ? length : at;
		FILE *file;

		memcpy(bytes, whole, length);
		bytes[at] ^=
		    (unsigned char)(1 + gt_philox_below(gt_philox_u64(SEED, i, 1, 0), 255));
		file = fopen(index_of(&f), "wb");
		assert_non_null(file);
		assert_int_equal(fwrite(bytes, 1, size, file), size);
		assert_int_equal(fclose(file), 0);
		data = open_counting(&f, "images", "tree", &walked);
		assert_int_equal(walked, 1);
		check_same(good, data);
		gt_dataset_close(data);
	}
	free(whole);
	free(bytes);
	gt_dataset_close(good);
	fixture_close(&f);
}

/* An index that lies where that of another folder is looked for. */
static void test_index_of_another_folder(void **state)
{
	char first[512], second[512];
	struct gt_dataset *data;
	struct fixture f;
	int walked;

	(void)state;
	begin(&f);
	make_tree(&f, "tree");
	make_tree(&f, "other");
	gt_dataset_close(open_counting(&f, "images", "tree", &walked));
	snprintf(first, sizeof(first), "%s", index_of(&f));
	snprintf(second, sizeof(second), "%s", in(&f, "kept"));
	assert_int_equal(rename(first, second), 0);
	gt_dataset_close(open_counting(&f, "images", "other", &walked));
	snprintf(first, sizeof(first), "%s", index_of(&f));
	assert_int_equal(rename(second, first), 0);
	data = open_counting(&f, "images", "other", &walked);
	assert_int_equal(walked, 1);
	gt_dataset_close(data);
	fixture_close(&f);
}

/* ---- archives ---- */

/* A sample of each number: an image, and for WebDataset its class. */
static void make_tar(const struct fixture *f, const char *name, int samples, bool labelled)
{
	static struct archive a;
	FILE *file = create(f, name);
	char path[64];

	for (int i = 0; i < samples; i++) {
		a.size = 0;
		snprintf(path, sizeof(path), "class-%d/%d.png", i * 7 % CLASSES, i);
		add_png(&a, path, i);
		snprintf(path + strlen(path) - 4, 8, ".cls");
		if (labelled)
			add_entry(&a, path, '0', &"0123456789"[i % 10], 1);
		assert_int_equal(fwrite(a.bytes, 1, a.size, file), a.size);
	}
	a.size = 0;
	add_end(&a);
	assert_int_equal(fwrite(a.bytes, 1, a.size, file), a.size);
	assert_int_equal(fclose(file), 0);
}

/* The index of an archive stands for its headers, until the archive is another one. */
static void test_archives(void **state)
{
	static const char *const kinds[] = { "images", "webdataset" };

	(void)state;
	for (int k = 0; k < 2; k++) {
		struct gt_dataset *first, *second, *third;
		struct stat before, after;
		struct fixture f;
		int walked;

		begin(&f);
		make_tar(&f, "a.tar", SAMPLES, k);
		first = open_counting(&f, kinds[k], "a.tar", &walked);
		assert_int_equal(stat(index_of(&f), &before), 0);
		second = open_counting(&f, kinds[k], "a.tar", &walked);
		assert_int_equal(stat(index_of(&f), &after), 0);
		assert_int_equal(before.st_ino, after.st_ino); /* not written again */
		assert_int_equal(gt_dataset_info(first)->samples, SAMPLES);
		check_same(first, second);
		make_tar(&f, "b.tar", SAMPLES + 1, k);
		assert_int_equal(rename(in(&f, "b.tar"), in(&f, "a.tar")), 0);
		third = open_counting(&f, kinds[k], "a.tar", &walked);
		assert_int_equal(gt_dataset_info(third)->samples, SAMPLES + 1);
		assert_int_equal(stat(index_of(&f), &after), 0);
		assert_true(before.st_ino != after.st_ino);
		gt_dataset_close(first);
		gt_dataset_close(second);
		gt_dataset_close(third);
		fixture_close(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_changes_of_folders),
		cmocka_unit_test(test_damaged_index),
		cmocka_unit_test(test_index_of_another_folder),
		cmocka_unit_test(test_archives),
	};

	print_message("seed %d\n", SEED);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
