/* test_bpe_train.c - lib/data/bpe/train.c: merges by hand, and words counted by many threads. */
#include "lib/base/buf.h"
#include "lib/data/bpe/count.h"
#include "lib/data/bpe/train.h"
#include "tests/unit/data_fixture.h"

/* Train on a text; the caller frees *file. */
static int train(
    char **file, struct gt_bpe_training *t, const char *text, int size, struct gt_err *err)
{
	struct gt_mapping map = { .data = (void *)text, .size = strlen(text), .fd = -1 };
	size_t length;
	FILE *out = open_memstream(file, &length);
	int rc;

	assert_non_null(out);
	t->files = &map;
	t->count = 1;
	t->size = size;
	rc = gt_bpe_train(t, out, err);
	assert_int_equal(fclose(out), 0);
	return rc;
}

/* The tokens that were merged, in their order: "ab aab". */
static const char *merged_tokens(const struct gt_bpe *bpe)
{
	static char line[256];

	*line = '\0';
	for (int i = 257; i < gt_bpe_size(bpe); i++) {
		size_t n, used = strlen(line);
		const char *text = gt_bpe_text(bpe, i, false, &n);

		snprintf(
		    line + used, sizeof(line) - used, "%s%.*s", i > 257 ? "," : "", (int)n, text);
	}
	return line;
}

static const struct {
	const char *text;
	int size;
	int64_t min_frequency;
	const char *tokens;
	int merges;
} rows[] = {
	{ "aab aab\nab", 1000, 0, "ab,aab, aab", 3 },
	{ "aab aab\nab", 258, 0, "ab", 1 },
	{ "aab aab\nab", 1000, 2, "ab,aab", 2 },
	/* A word ends with its line, and a pair of the same number with lower ids is first. */
	{ "cd\ncd\nab\nab\n\n\n", 1000, 2, "ab,cd", 2 },
	/* The last pair is merged only if its letters are left over. */
	{ "aaaaa", 259, 0, "aa,aaa", 2 },
	{ "abc abc zbc zbc bc bc ab ab abx", 1000, 2, "bc, a, ab,zbc, bc, zbc", 6 },
	{ "", 1000, 0, "", 0 },
	{ "\xFF", 1000, 0, "\xBF\xBD,\xEF\xBF\xBD", 2 },
};

static void merges_are_those_of_the_most_frequent_pairs(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct gt_bpe_training t = { .min_frequency = rows[i].min_frequency };
		struct gt_err err = GT_ERR_INIT;
		struct gt_bpe *bpe = NULL;
		char *file;

		if (train(&file, &t, rows[i].text, rows[i].size, &err) ||
		    gt_bpe_parse(&bpe, file, strlen(file), &err))
			fail_msg("row %zu: %s", i, err.text);
		assert_string_equal(merged_tokens(bpe), rows[i].tokens);
		assert_int_equal(t.merges, rows[i].merges);
		assert_int_equal(t.tokens, gt_bpe_size(bpe));
		assert_int_equal(t.repaired, i == 7);
		gt_bpe_close(bpe);
		free(file);
	}
}

static void a_vocabulary_without_all_bytes_is_refused(void **state)
{
	struct gt_bpe_training t = { 0 };
	struct gt_err err = GT_ERR_INIT;
	char *file;

	(void)state;
	assert_int_equal(train(&file, &t, "ab", 256, &err), GT_EINVAL);
	assert_non_null(strstr(err.text, "256 tokens"));
	free(file);
}

/* Lines of three megabytes, which several threads count. */
static void words_of_all_chunks_are_counted(void **state)
{
	enum { LINES = 300000 };
	struct gt_bpe_counts counts = { 0 };
	struct gt_err err = GT_ERR_INIT;
	struct gt_buf text = { 0 };

	(void)state;
	for (int i = 0; i < LINES; i++)
		gt_buf_puts(&text, i % 3 ? "ab cd. x\n" : "one12\n");
	assert_int_equal(
	    gt_bpe_count(&counts, (unsigned char *)text.text, text.length, NULL, &err), 0);
	assert_int_equal(counts.count, 7); /* ab, cd, ., x, one, 12, line feed */
	for (size_t i = 0; i < counts.count; i++) {
		const struct gt_bpe_counted *w = &counts.words[i];
		int64_t times = *w->p == '\n'               ? LINES
		                : strchr("o1", (char)*w->p) ? LINES / 3
		                                            : LINES / 3 * 2;

		assert_int_equal(w->times, times);
	}
	gt_bpe_counts_release(&counts);
	gt_buf_release(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(merges_are_those_of_the_most_frequent_pairs),
		cmocka_unit_test(a_vocabulary_without_all_bytes_is_refused),
		cmocka_unit_test(words_of_all_chunks_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
