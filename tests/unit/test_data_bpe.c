/* test_data_bpe.c - texts of byte pairs: their ids, the cache, runs' tokenizers, and writing. */
#include <dirent.h>

#include "lib/data/core/description.h"
#include "lib/data/text/tokenizer.h"
#include "tests/unit/data_fixture.h"

static const char tokenizer[] =
    "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"model\":{\"vocab\":{"
    "\"a\":0,\"b\":1,\"ab\":2,\"\xC4\xA0\":3,\"\xC4\xA0"
    "ab\":4,\"\xC3\x83\":5,\"\xC2\xA9\":6,\"\xC4\x8A\":7,\"\xC3\xB0\":8,\"\xC5\x81\":9,\"\xC4\xBA\":10,"
    "\"\xC4\xA2\":11},\"merges\":[\"a b\",\"\xC4\xA0 ab\"]}}";
/* The same text with another order of fields: another file. */
static const char other[] =
    "{\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}}";

enum { LARGE = 1500000 };

static void begin(struct fixture *f)
{
	fixture_open(f);
	put_text(f, "tok/tokenizer.json", tokenizer);
	put_text(f, "other/tokenizer.json", other);
	assert_int_equal(setenv("XDG_CACHE_HOME", in(f, "cache"), 1), 0);
}

static struct gt_dataset *open_text(
    const struct fixture *f, const char *name, const struct gt_data_request *request)
{
	char options[600];

	snprintf(options, sizeof(options), ",level=bpe,tokenizer=%s", in(f, "tok"));
	return open_data("text", in(f, name), options, request);
}

static void test_ids(void **state)
{
	const struct gt_data_request request = { .form.block = 4 };
	static const struct gt_draw draw;
	int32_t input[4], target[4];
	struct gt_dataset *data;
	struct fixture f;

	(void)state;
	begin(&f);
	put_text(&f, "t/1.txt", "ab aba\n");
	put_text(&f, "t/2.txt", "ba b"); /* a text of its own: nothing is merged across */
	data = open_text(&f, "t", &request);
	assert_int_equal(gt_dataset_info(data)->form.classes, 12);
	assert_int_equal(gt_dataset_info(data)->samples, 2);
	assert_null(gt_dataset_info(data)->note);
	assert_int_equal(gt_dataset_read(data, 0, &draw, input, target, NULL), 0);
	assert_memory_equal(input, ((int32_t[]){ 2, 4, 0, 7 }), sizeof(input));
	assert_memory_equal(target, ((int32_t[]){ 4, 0, 7, 1 }), sizeof(target));
	assert_string_equal(gt_dataset_vocab_name(data), "tokenizer.json");
	assert_int_equal(
	    gt_dataset_save_vocab(data, (struct gt_file_name){ .path = in(&f, "saved") }, NULL), 0);
	gt_dataset_close(data);
	fixture_close(&f);
}

/* The only file of the cache, "" if there is none. */
static const char *cached(const struct fixture *f)
{
	static char name[512];
	DIR *dir = opendir(in(f, "cache/gtrain/tokens"));
	int count = 0;

	*name = '\0';
	for (struct dirent *e; dir && (e = readdir(dir));)
		if (e->d_name[0] != '.') {
			snprintf(name, sizeof(name), "%s/%.200s", in(f, "cache/gtrain/tokens"),
			    e->d_name);
			count++;
		}
	if (dir)
		closedir(dir);
	assert_true(count <= 1);
	return name;
}

/* Sum up the tokens of a data set. */
static uint64_t sum_of(struct gt_dataset *data)
{
	const struct gt_data_info *info = gt_dataset_info(data);
	static const struct gt_draw draw;
	int32_t input[64], target[64];
	uint64_t sum = (uint64_t)info->samples;

	for (int64_t i = 0; i < info->samples; i++) {
		assert_int_equal(gt_dataset_read(data, i, &draw, input, target, NULL), 0);
		for (int k = 0; k < 64; k++)
			sum = sum * 31 + (uint64_t)input[k] + (uint64_t)target[k];
	}
	return sum;
}

static void put_large(const struct fixture *f)
{
	char *text = malloc(LARGE);

	assert_non_null(text);
	for (size_t i = 0; i < LARGE; i++)
		text[i] = "ab ab\na"[(i * 2654435761u >> 9) % 7];
	put_bytes(f, "large.txt", text, LARGE);
	free(text);
}

/* Write one byte of the cache's file. */
static void damage(const char *path, long at)
{
	FILE *file = fopen(path, "r+b");

	assert_non_null(file);
	assert_int_equal(fseek(file, at, at < 0 ? SEEK_END : SEEK_SET), 0);
	fputc(0x77, file);
	fclose(file);
}

static void test_cache(void **state)
{
	static const long places[] = { 0, 9, 13, 17, 21, 25, 33, 41, 75, 1000, -1 };
	struct gt_dataset *data;
	struct gt_mapping map;
	struct fixture f;
	char path[512];
	uint64_t sum;

	(void)state;
	begin(&f);
	put_large(&f);
	data = open_text(&f, "large.txt", NULL);
	sum = sum_of(data);
	gt_dataset_close(data);
	snprintf(path, sizeof(path), "%s", cached(&f));
	assert_true(*path);
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		damage(path, places[i]);
		data = open_text(&f, "large.txt", NULL);
		assert_int_equal(sum_of(data), sum);
		assert_string_equal(cached(&f), path);
		gt_dataset_close(data);
	}
	assert_int_equal(truncate(path, 5000), 0);
	data = open_text(&f, "large.txt", NULL);
	assert_int_equal(sum_of(data), sum);
	gt_dataset_close(data);
	/* It is read where it is whole: the time of its making does not change. */
	assert_int_equal(gt_map(&map, path, NULL), 0);
	assert_true(map.size > 100000);
	gt_unmap(&map);
	/* No folder for it: in memory, with a note. */
	setenv("XDG_CACHE_HOME", "/dev/null", 1);
	data = open_text(&f, "large.txt", NULL);
	assert_int_equal(sum_of(data), sum);
	assert_non_null(strstr(gt_dataset_info(data)->note, "are not kept"));
	gt_dataset_close(data);
	fixture_close(&f);
}

/* Opening again reads the file and writes none; another text or tokenizer has another file. */
static void test_cache_is_read(void **state)
{
	struct gt_dataset *data;
	struct stat before, after;
	struct fixture f;
	char path[512];
	FILE *file;

	(void)state;
	begin(&f);
	put_large(&f);
	gt_dataset_close(open_text(&f, "large.txt", NULL));
	snprintf(path, sizeof(path), "%s", cached(&f));
	assert_int_equal(stat(path, &before), 0);
	gt_dataset_close(open_text(&f, "large.txt", NULL));
	assert_int_equal(stat(path, &after), 0);
	assert_int_equal(before.st_ino, after.st_ino);
	file = fopen(in(&f, "large.txt"), "ab");
	assert_non_null(file);
	fputs("a", file);
	fclose(file);
	assert_int_equal(unlink(path), 0);
	data = open_text(&f, "large.txt", NULL);
	assert_string_not_equal(cached(&f), path);
	gt_dataset_close(data);
	fixture_close(&f);
}

static void test_damaged_text(void **state)
{
	const struct gt_data_request request = { .form.block = 2 };
	struct gt_dataset *data;
	struct fixture f;

	(void)state;
	begin(&f);
	put_text(&f, "t.txt", "ab\xFF\xFE ab ab");
	data = open_text(&f, "t.txt", &request);
	assert_non_null(strstr(gt_dataset_info(data)->note, "read as U+FFFD: 2"));
	gt_dataset_close(data);
	fixture_close(&f);
}

/* The effects of the tokenizer that a model was trained with. */
static void test_other_tokenizers(void **state)
{
	struct {
		const char *options;
		bool folder; /* the run has its tokenizer */
		const char *vocab;
		int rc;
		const char *text; /* of the error or the note */
	} rows[] = {
		{ "", true, "tok/tokenizer.json", 0, NULL },
		{ ",level=bpe,tokenizer=tok", true, "tok/tokenizer.json", 0, NULL },
		{ ",level=bpe,tokenizer=tok", false, NULL, 0, NULL },
		{ ",tokenizer=other", true, "tok/tokenizer.json", GT_EINVAL,
		    "is not the tokenizer" },
		{ ",tokenizer=other", false, NULL, GT_EINVAL, "is not the tokenizer" },
		{ ",level=byte", true, "tok/tokenizer.json", GT_EINVAL, "is of level bpe" },
		{ "", true, "other/tokenizer.json", GT_EFORMAT, "is not the tokenizer" },
		{ "", false, "other", 0, "another tokenizer" },
		{ "", false, NULL, GT_EIO, "is missing" },
	};
	struct gt_data_description known, read;
	struct gt_dataset *data;
	struct gt_folder folder;
	struct gt_err err = GT_ERR_INIT;
	struct fixture f;
	json_t *json;

	(void)state;
	begin(&f);
	put_text(&f, "t.txt", "ababab ab ab ababab ab");
	assert_int_equal(chdir(f.folder), 0);
	data = open_text(&f, "t.txt", &(struct gt_data_request){ .form.block = 2 });
	gt_data_describe(&known, data);
	json = gt_data_description_to_json(&known, false, &err);
	assert_non_null(json);
	assert_int_equal(gt_data_description_from_json(&read, json, &err), 0);
	assert_string_equal(read.tokenizer_digest, known.tokenizer_digest);
	assert_null(read.tokenizer);
	json_decref(json);
	gt_dataset_close(data);
	assert_int_equal(gt_folder_open(&folder, ".", &err), 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct gt_folder inside = { 0 };
		struct gt_data_request request = { .form.block = 2, .like = &read };
		char spec[200], name[100], path[200];
		int rc;

		snprintf(spec, sizeof(spec), "text:t.txt%s", rows[i].options);
		if (rows[i].folder) {
			snprintf(name, sizeof(name), "%s", rows[i].vocab);
			*strchr(name, '/') = '\0';
			assert_int_equal(gt_folder_open_in(&inside, &folder, name, false, &err), 0);
			snprintf(path, sizeof(path), "%s/tokenizer.json", inside.path);
			request.vocab = (struct gt_file_name){ &inside, path };
		} else {
			request.vocab.path = rows[i].vocab;
		}
		rc = gt_dataset_open(&data, spec, &request, &err);
		if (rc != rows[i].rc || (rc && !strstr(err.text, rows[i].text)))
			fail_msg("row %zu: %d, %s", i, rc, err.text);
		if (!rc && rows[i].text)
			assert_non_null(strstr(gt_dataset_info(data)->note, rows[i].text));
		if (!rc && !rows[i].text)
			assert_null(gt_dataset_info(data)->note);
		gt_dataset_close(data);
		gt_folder_close(&inside);
	}
	gt_folder_close(&folder);
	assert_int_equal(chdir("/"), 0);
	fixture_close(&f);
}

/* Characters are written when they are whole. */
static void test_writer(void **state)
{
	static const struct {
		int32_t ids[6];
		int count;
		const char *now, *end; /* before and after the end */
	} rows[] = {
		{ { 2, 4, 7 }, 3, "ab ab\n", "ab ab\n" },
		{ { 5 }, 1, "", "\xEF\xBF\xBD" },
		{ { 5, 6 }, 2, "\xC3\xA9", "\xC3\xA9" },
		{ { 5, 0 }, 2,
		    "\xEF\xBF\xBD"
		    "a",
		    "\xEF\xBF\xBD"
		    "a" },
		{ { 6, 5 }, 2, "\xEF\xBF\xBD", "\xEF\xBF\xBD\xEF\xBF\xBD" },
		{ { 8, 9, 10 }, 3, "", "\xEF\xBF\xBD" },
		{ { 8, 9, 10, 11 }, 4, "\xF0\x9F\x98\x80", "\xF0\x9F\x98\x80" },
		{ { 8, 9, 10, 1 }, 4,
		    "\xEF\xBF\xBD"
		    "b",
		    "\xEF\xBF\xBD"
		    "b" },
		{ { 8, 6, 99, -1 }, 4, "", "\xEF\xBF\xBD" },
	};
	struct gt_tokenizer *tok;
	struct fixture f;

	(void)state;
	begin(&f);
	assert_int_equal(
	    gt_tokenizer_open(&tok, (struct gt_file_name){ .path = in(&f, "tok") }, NULL), 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		char *text = NULL;
		size_t size = 0;
		struct gt_token_writer w = { .tok = tok, .out = open_memstream(&text, &size) };

		for (int k = 0; k < rows[i].count; k++)
			gt_token_writer_put(&w, rows[i].ids[k]);
		fflush(w.out);
		if (strcmp(text, rows[i].now) != 0)
			fail_msg("row %zu: '%s'", i, text);
		gt_token_writer_end(&w);
		fclose(w.out);
		assert_string_equal(text, rows[i].end);
		free(text);
	}
	gt_tokenizer_close(tok);
	fixture_close(&f);
}

/* Control characters of a vocabulary, for a terminal and as they are. */
static void test_terminal(void **state)
{
	/* Bytes 1b and 07, LF, TAB, the two bytes of U+009B, and a letter. */
	static const char escape[] =
	    "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
	    "\"model\":{\"vocab\":{\"a\":0,\"\\u011b]0;x\\u0107\":1,\"\\u010a\":2,"
	    "\"\\u0109\":3,\"\\u00c2\":4,\"\\u013d\":5,\"\\u00c3\\u00a9\":6},\"merges\":[]}}";
	static const int32_t ids[] = { 1, 2, 3, 4, 5, 6, 0, 4 };
	struct gt_tokenizer *tok;
	struct fixture f;

	(void)state;
	begin(&f);
	put_text(&f, "tok/tokenizer.json", escape);
	assert_int_equal(
	    gt_tokenizer_open(&tok, (struct gt_file_name){ .path = in(&f, "tok") }, NULL), 0);
	for (int terminal = 0; terminal < 2; terminal++) {
		char *text = NULL;
		size_t size = 0;
		struct gt_token_writer w = {
			.tok = tok, .out = open_memstream(&text, &size), .terminal = terminal
		};

		for (size_t k = 0; k < sizeof(ids) / sizeof(*ids); k++)
			gt_token_writer_put(&w, ids[k]);
		gt_token_writer_end(&w);
		fclose(w.out);
		assert_string_equal(text, terminal ? "\\x1b]0;x\\x07\n\t\\u009b\xC3\xA9"
		                                     "a\xEF\xBF\xBD"
		                                   : "\x1b]0;x\a\n\t\xC2\x9B\xC3\xA9"
		                                     "a\xEF\xBF\xBD");
		free(text);
	}
	gt_tokenizer_close(tok);
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ids),
		cmocka_unit_test(test_cache),
		cmocka_unit_test(test_cache_is_read),
		cmocka_unit_test(test_damaged_text),
		cmocka_unit_test(test_other_tokenizers),
		cmocka_unit_test(test_writer),
		cmocka_unit_test(test_terminal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
