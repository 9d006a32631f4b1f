/* test_data_text.c - tokens, vocabularies and windows. */
#include "tests/unit/data_fixture.h"

#include "lib/data/chat/pack.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

static const struct gt_draw eval_draw;

static void check_ids(const int32_t *got, const int32_t *wanted, size_t n)
{
	assert_memory_equal(got, wanted, n * sizeof(*got));
}

static void test_characters_are_numbered_by_code_point(void **state)
{
	const struct gt_data_request request = { .form.block = 3 };
	int32_t input[3], target[3];
	struct gt_dataset *data;
	struct fixture f;

	(void)state;
	fixture_open(&f);
	put_text(&f, "t/2.txt", "\xC3\xA9z");
	put_text(&f, "t/1.txt", "ba\xE2\x82\xAC");
	put_text(&f, "t/3.md", "ignored");
	data = open_data("text", in(&f, "t"), "", &request);
	/* "ba€éz": a 0, b 1, z 2, é 3, € 4 */
	assert_int_equal(gt_dataset_info(data)->form.kind, GT_SAMPLE_TOKENS);
	assert_int_equal(gt_dataset_info(data)->form.classes, 5);
	assert_int_equal(gt_dataset_info(data)->samples, 2);
	assert_int_equal(gt_dataset_read(data, 0, &eval_draw, input, target, NULL), 0);
	check_ids(input, (int32_t[]){ 1, 0, 4 }, 3);
	check_ids(target, (int32_t[]){ 0, 4, 3 }, 3);
	assert_int_equal(gt_dataset_read(data, 1, &eval_draw, input, target, NULL), 0);
	check_ids(input, (int32_t[]){ 3, 0, 0 }, 3);
	check_ids(target, (int32_t[]){ 2, GT_DATA_IGNORE, GT_DATA_IGNORE }, 3);
	gt_dataset_close(data);
	fixture_close(&f);
}

static void test_bytes_are_themselves(void **state)
{
	const struct gt_data_request request = { .form.block = 2 };
	int32_t input[2], target[2];
	struct gt_dataset *data;
	struct fixture f;

	(void)state;
	fixture_open(&f);
	put_bytes(&f, "b", "\xFF\x00\x80", 3);
	data = open_data("text", in(&f, "b"), ",level=byte", &request);
	assert_int_equal(gt_dataset_info(data)->form.classes, 256);
	assert_int_equal(gt_dataset_read(data, 0, &eval_draw, input, target, NULL), 0);
	check_ids(input, (int32_t[]){ 255, 0 }, 2);
	check_ids(target, (int32_t[]){ 0, 128 }, 2);
	gt_dataset_close(data);
	fixture_close(&f);
}

/* A text in which token number i is i, by a vocabulary of its own: every window tells its place.
 * More than 256 characters, so tokens take two bytes; more than 65536 would take four. */
static void put_counting_text(const struct fixture *f, const char *name, int n)
{
	FILE *file = create(f, name);

	for (int i = 0; i < n; i++) {
		unsigned c = 0x10000u + (unsigned)i;

		fprintf(file, "%c%c%c%c", 0xF0 | c >> 18, 0x80 | (c >> 12 & 63),
		    0x80 | (c >> 6 & 63), 0x80 | (c & 63));
	}
	fclose(file);
}

static void test_evaluation_predicts_every_token_once(void **state)
{
	static const struct {
		int tokens, block;
	} cases[] = { { 300, 7 }, { 301, 100 }, { 101, 100 }, { 5, 1 }, { 66000, 64 },
		{ 257, 256 } };

	(void)state;
	for (size_t c = 0; c < sizeof(cases) / sizeof(*cases); c++) {
		const struct gt_data_request request = { .form.block = cases[c].block };
		int32_t input[256], target[256];
		struct gt_dataset *data;
		struct fixture f;
		int next = 1;

		fixture_open(&f);
		put_counting_text(&f, "t", cases[c].tokens);
		data = open_data("text", in(&f, "t"), "", &request);
		for (int64_t i = 0; i < gt_dataset_info(data)->samples; i++) {
			assert_int_equal(
			    gt_dataset_read(data, i, &eval_draw, input, target, NULL), 0);
			for (int k = 0; k < cases[c].block; k++) {
				if (target[k] == GT_DATA_IGNORE) {
					assert_int_equal(input[k], 0);
					continue;
				}
				assert_int_equal(target[k], next++);
				assert_int_equal(input[k], target[k] - 1);
			}
		}
		assert_int_equal(next, cases[c].tokens);
		gt_dataset_close(data);
		fixture_close(&f);
	}
}

/* Where the first window of an epoch begins; all windows are checked on the way. */
static int read_epoch(struct gt_dataset *data, uint64_t seed, uint32_t epoch, int tokens, int *seen)
{
	const struct gt_draw draw = { .train = true, .seed = seed, .epoch = epoch };
	int block = gt_dataset_info(data)->form.block, first = -1;
	int32_t input[16], target[16], again[16];

	memset(seen, 0, (size_t)tokens * sizeof(*seen));
	for (int64_t i = 0; i < gt_dataset_info(data)->samples; i++) {
		assert_int_equal(gt_dataset_read(data, i, &draw, input, target, NULL), 0);
		assert_int_equal(gt_dataset_read(data, i, &draw, again, target, NULL), 0);
		check_ids(input, again, (size_t)block);
		first = first < 0 ? input[0] : first;
		assert_int_equal(input[0], (first + i * block) % (tokens - 1));
		for (int k = 0; k < block; k++) {
			assert_int_equal(target[k], input[k] + 1);
			seen[target[k]]++;
		}
	}
	return first;
}

static void test_training_shifts_the_windows(void **state)
{
	enum { TOKENS = 101, BLOCK = 16 };
	const struct gt_data_request request = { .form.block = BLOCK };
	int seen[TOKENS], shifts[BLOCK] = { 0 }, kinds = 0;
	struct gt_dataset *data;
	struct fixture f;

	(void)state;
	fixture_open(&f);
	put_counting_text(&f, "t", TOKENS);
	data = open_data("text", in(&f, "t"), "", &request);
	for (uint32_t epoch = 0; epoch < 64; epoch++) {
		int shift = read_epoch(data, 5, epoch, TOKENS, seen);

		assert_in_range(shift, 0, BLOCK - 1);
		shifts[shift]++;
		for (int i = 1; i < TOKENS; i++)
			assert_in_range(seen[i], 1, 2);
	}
	for (int i = 0; i < BLOCK; i++)
		kinds += shifts[i] > 0;
	assert_true(kinds > BLOCK / 2);
	assert_int_equal(
	    read_epoch(data, 5, 3, TOKENS, seen), read_epoch(data, 5, 3, TOKENS, seen));
	gt_dataset_close(data);
	fixture_close(&f);
}

static void test_the_last_tokens_are_held_out(void **state)
{
	const struct gt_data_request request = { .form.block = 10 };
	struct gt_dataset *data, *train, *val;
	int32_t input[10], target[10];
	struct gt_err err = GT_ERR_INIT;
	const struct gt_draw draw = { .train = true, .seed = 1 };
	struct fixture f;
	int next = 91;

	(void)state;
	fixture_open(&f);
	put_counting_text(&f, "t", 100);
	data = open_data("text", in(&f, "t"), "", &request);
	assert_int_equal(gt_dataset_split(data, 0.1, &train, &val, &err), 0);
	gt_dataset_close(data);
	assert_int_equal(gt_dataset_info(train)->samples, 9);
	assert_int_equal(gt_dataset_info(val)->samples, 1);
	for (int64_t i = 0; i < 9; i++) {
		assert_int_equal(gt_dataset_read(train, i, &draw, input, target, NULL), 0);
		for (int k = 0; k < 10; k++)
			assert_in_range(target[k], 1, 89);
	}
	gt_dataset_close(train);
	assert_int_equal(gt_dataset_read(val, 0, &eval_draw, input, target, NULL), 0);
	for (int k = 0; k < 9; k++)
		assert_int_equal(target[k], next++);
	assert_int_equal(target[9], GT_DATA_IGNORE);
	assert_int_equal(gt_dataset_split(val, 0.5, &train, &data, &err), GT_EINVAL);
	assert_non_null(strstr(err.text, "10 tokens are too few to hold out 5"));
	gt_dataset_close(val);
	fixture_close(&f);
}

static void check_encode(
    const struct gt_tokenizer *tok, const char *text, const int32_t *wanted, size_t count)
{
	int32_t *ids;
	size_t n, length = 0, at = 0;

	assert_int_equal(gt_tokenizer_encode(tok, text, strlen(text), &ids, &n, NULL), 0);
	assert_int_equal(n, count);
	check_ids(ids, wanted, count);
	for (size_t i = 0; i < n; i++) {
		const char *piece = gt_tokenizer_text(tok, ids[i], &length);

		assert_memory_equal(piece, text + at, length);
		at += length;
	}
	assert_int_equal(at, strlen(text));
	free(ids);
}

static void test_the_vocabulary_survives(void **state)
{
	struct gt_data_request request = { .form.block = 2 };
	struct gt_dataset *data, *again;
	struct gt_err err = GT_ERR_INIT;
	struct gt_tokenizer *tok;
	struct gt_mapping map;
	struct fixture f;
	int32_t *ids;
	size_t n;

	(void)state;
	fixture_open(&f);
	put_bytes(&f, "t", "b\n\0\"\xC3\xA9", 6);
	put_text(&f, "u", "\"\"bb");
	data = open_data("text", in(&f, "t"), "", &request);
	assert_int_equal(gt_dataset_save_vocab(
	                     data, (struct gt_file_name){ .path = in(&f, "vocab.json") }, &err),
	    0);
	assert_int_equal(gt_map(&map, in(&f, "vocab.json"), &err), 0);
	assert_int_equal(
	    map.size, strlen("{\"level\":\"char\",\"tokens\":[\"\\u0000\",\"\\n\",\"\\\"\","
	                     "\"b\",\"\xC3\xA9\"]}\n"));
	gt_unmap(&map);
	assert_int_equal(
	    gt_tokenizer_open(&tok, (struct gt_file_name){ .path = in(&f, "vocab.json") }, &err),
	    0);
	assert_int_equal(gt_tokenizer_size(tok), 5);
	check_encode(tok, "b\xC3\xA9\"\n", (int32_t[]){ 3, 4, 2, 1 }, 4);
	assert_int_equal(gt_tokenizer_encode(tok, "ba", 2, &ids, &n, &err), GT_EFORMAT);
	assert_non_null(strstr(err.text, "'a' (U+0061) at byte 1"));
	assert_null(ids);
	assert_int_equal(gt_tokenizer_encode(tok, "b\xC3", 2, &ids, &n, &err), GT_EFORMAT);
	assert_null(gt_tokenizer_text(tok, 5, &n));
	assert_null(gt_tokenizer_text(tok, -1, &n));
	gt_tokenizer_close(tok);
	/* Another text is read with it. */
	request.vocab.path = in(&f, "vocab.json");
	again = open_data("text", in(&f, "u"), "", &request);
	assert_int_equal(gt_dataset_info(again)->form.classes, 5);
	gt_dataset_close(again);
	gt_dataset_close(data);
	fixture_close(&f);
}

static void test_the_vocabulary_of_bytes_survives(void **state)
{
	struct gt_data_request request = { .form.block = 2 };
	struct gt_dataset *data;
	struct gt_tokenizer *tok;
	struct fixture f;

	(void)state;
	fixture_open(&f);
	put_text(&f, "t", "abc");
	data = open_data("text", in(&f, "t"), ",level=byte", &request);
	assert_int_equal(
	    gt_dataset_save_vocab(data, (struct gt_file_name){ .path = in(&f, "v") }, NULL), 0);
	gt_dataset_close(data);
	assert_int_equal(
	    gt_tokenizer_open(&tok, (struct gt_file_name){ .path = in(&f, "v") }, NULL), 0);
	assert_int_equal(gt_tokenizer_size(tok), 256);
	check_encode(tok,
	    "\xC3\xA9"
	    "a",
	    (int32_t[]){ 0xC3, 0xA9, 'a' }, 3);
	gt_tokenizer_close(tok);
	/* The file decides where the options are silent. */
	request.vocab.path = in(&f, "v");
	data = open_data("text", in(&f, "t"), "", &request);
	assert_int_equal(gt_dataset_info(data)->form.classes, 256);
	gt_dataset_close(data);
	fixture_close(&f);
}

static void test_malformed_utf8_is_refused(void **state)
{
	static const char *const texts[] = { "\x80", "\xC0\x80", "\xC3", "\xE0\x80\x80",
		"\xED\xA0\x80", "\xF4\x90\x80\x80", "\xF8\x88\x80\x80\x80", "\xE2\x82", "\xC3(" };
	struct gt_tokenizer *tok;
	struct fixture f;

	(void)state;
	fixture_open(&f);
	put_text(&f, "v", "{\"level\":\"char\",\"tokens\":[\"a\"]}");
	assert_int_equal(
	    gt_tokenizer_open(&tok, (struct gt_file_name){ .path = in(&f, "v") }, NULL), 0);
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		struct gt_err err = GT_ERR_INIT;
		int32_t *ids;
		size_t n;

		assert_int_equal(
		    gt_tokenizer_encode(tok, texts[i], strlen(texts[i]), &ids, &n, &err),
		    GT_EFORMAT);
		assert_non_null(strstr(err.text, "not UTF-8 at byte 0"));
	}
	gt_tokenizer_close(tok);
	fixture_close(&f);
}

/* Half a file is rewritten over and over: as many bytes, but twice as many characters. */
struct rewriter {
	const char *path;
	atomic_bool stop;
};

enum { REWRITTEN = 1 << 16 };

static void *rewrite(void *arg)
{
	static char narrow[REWRITTEN], wide[REWRITTEN];
	struct rewriter *r = arg;
	FILE *file = fopen(r->path, "r+b");

	memset(narrow, 'a', sizeof(narrow));
	for (size_t i = 0; i < sizeof(wide); i += 2)
		memcpy(wide + i, "\xC3\xA9", 2);
	for (int i = 0; file && !atomic_load(&r->stop); i++) {
		rewind(file);
		fwrite(i % 2 ? narrow : wide, 1, REWRITTEN, file);
		fflush(file);
	}
	if (file)
		fclose(file);
	return NULL;
}

static void test_a_text_may_change_while_it_is_read(void **state)
{
	static char text[2 * REWRITTEN];
	struct rewriter r = { .path = NULL };
	time_t end = time(NULL) + 2;
	char path[512], spec[600];
	bool seen = false;
	pthread_t thread;
	struct fixture f;

	(void)state;
	fixture_open(&f);
	memset(text, 'a', sizeof(text));
	memcpy(text + REWRITTEN, "\xC3\xA9", 2); /* both characters are there in any case */
	put_bytes(&f, "t.txt", text, sizeof(text));
	snprintf(path, sizeof(path), "%s", in(&f, "t.txt"));
	snprintf(spec, sizeof(spec), "text:%s", path);
	r.path = path;
	assert_int_equal(pthread_create(&thread, NULL, rewrite, &r), 0);
	while (!seen && time(NULL) < end) {
		struct gt_err err = GT_ERR_INIT;
		struct gt_dataset *data;
		int rc = gt_dataset_open(&data, spec, NULL, &err);

		assert_true(!rc || rc == GT_EFORMAT);
		seen = rc && strstr(err.text, "t.txt' changed while it was read");
		gt_dataset_close(data);
	}
	atomic_store(&r.stop, true);
	pthread_join(thread, NULL);
	fixture_close(&f);
	if (!seen) {
		print_message("skipped: no change fell into a reading\n");
		skip();
	}
}

static void test_tiny_shakespeare(void **state)
{
	struct gt_dataset *data = open_data("text", real_data("tinyshakespeare.txt"), "", NULL);

	(void)state;
	assert_int_equal(gt_dataset_info(data)->form.classes, 65);
	assert_int_equal(gt_dataset_info(data)->samples, (1115394 - 1 + 63) / 64);
	gt_dataset_close(data);
}

/* Documents of lengths, and the rows that they are packed into, each behind its first length. */
static void test_documents_are_packed(void **state)
{
	static const struct {
		size_t block, count, lengths[8];
		const char *rows;
	} cases[] = {
		{ 8, 4, { 3, 5, 2, 4 }, "01|23|" },
		{ 8, 5, { 8, 1, 7, 4, 4 }, "0|12|34|" },
		{ 5, 5, { 1, 1, 1, 1, 1 }, "01234|" },
		{ 3, 1, { 2 }, "0|" },
		{ 200, 6, { 120, 70, 70, 130, 80, 130 }, "04|15|23|" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct gt_err err = GT_ERR_INIT;
		struct gt_packed_rows p;
		char text[32] = "";

		assert_int_equal(
		    gt_pack_rows(&p, cases[i].lengths, cases[i].count, cases[i].block, &err), 0);
		for (size_t r = 0; r < p.count; r++) {
			for (size_t k = p.first[r]; k < p.first[r + 1]; k++)
				snprintf(text + strlen(text), sizeof(text) - strlen(text), "%zu",
				    p.documents[k]);
			strcat(text, "|");
		}
		assert_string_equal(text, cases[i].rows);
		gt_packed_rows_release(&p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_characters_are_numbered_by_code_point),
		cmocka_unit_test(test_bytes_are_themselves),
		cmocka_unit_test(test_evaluation_predicts_every_token_once),
		cmocka_unit_test(test_training_shifts_the_windows),
		cmocka_unit_test(test_the_last_tokens_are_held_out),
		cmocka_unit_test(test_the_vocabulary_survives),
		cmocka_unit_test(test_documents_are_packed),
		cmocka_unit_test(test_the_vocabulary_of_bytes_survives),
		cmocka_unit_test(test_malformed_utf8_is_refused),
		cmocka_unit_test(test_a_text_may_change_while_it_is_read),
		cmocka_unit_test(test_tiny_shakespeare),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
