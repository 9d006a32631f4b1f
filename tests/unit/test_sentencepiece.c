/* test_sentencepiece.c - models of SentencePiece: ids by hand, and damaged files. */
#include "lib/base/buf.h"
#include "lib/base/protobuf.h"
#include "lib/data/bpe/inside.h"
#include "tests/unit/data_fixture.h"

static int put_ids(void *self, const int32_t *ids, size_t count, struct gt_err *err)
{
	(void)err;
	for (size_t i = 0; i < count; i++)
		gt_buf_printf(
		    self, "%s%d", ((struct gt_buf *)self)->length ? " " : "", (int)ids[i]);
	return 0;
}

/* The ids as text, "3 2", which the caller frees. */
static char *encode(const struct gt_bpe *bpe, const char *text)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_buf line = { 0 };
	char *taken;

	if (gt_bpe_encode(bpe, text, strlen(text), put_ids, NULL, &line, NULL, &err))
		fail_msg("%s", err.text);
	assert_int_equal(gt_buf_take(&line, &taken, NULL, &err), 0);
	return taken;
}

static void add_piece(struct gt_buf *model, const char *text, float score, int type)
{
	struct gt_buf piece = { 0 };

	gt_protobuf_text(&piece, 1, text);
	gt_protobuf_float(&piece, 2, score);
	if (type != 1)
		gt_protobuf_int(&piece, 3, type);
	gt_protobuf_message(model, 1, &piece);
}

/* A table that replaces A by a. */
static void add_charsmap(struct gt_buf *normalizer)
{
	unsigned char table[4 + 4 * 512 + 2] = { 0, 8 };
	uint32_t units[512] = { [0] = 256u << 10,
		[256 ^ 'A'] = 1u << 10 | 1u << 8 | 'A',
		[(256 ^ 'A') ^ 1] = 1u << 31 };

	for (int i = 0; i < 512; i++)
		for (int k = 0; k < 4; k++)
			table[4 + 4 * i + k] = (unsigned char)(units[i] >> 8 * k);
	table[4 + 4 * 512] = 'a';
	gt_protobuf_bytes(normalizer, 2, table, sizeof(table));
}

/* A model of this type: 1 is Unigram, 2 is BPE. */
static struct gt_buf make_sentencepiece(int type, bool charsmap, bool single_spaces)
{
	static const struct {
		const char *text;
		float score;
		int type;
	} pieces[] = { { "<unk>", 0, 2 }, { "</s>", 0, 3 }, { "\u2581a", -1, 1 }, { "ab", -2, 1 },
		{ "\u2581", -3, 1 }, { "a", -4, 1 }, { "b", -5, 1 }, { "<u>", 0, 4 } };
	struct gt_buf model = { 0 }, trainer = { 0 }, normalizer = { 0 };

	for (size_t i = 0; i < sizeof(pieces) / sizeof(*pieces); i++)
		add_piece(&model, pieces[i].text, pieces[i].score, pieces[i].type);
	gt_protobuf_int(&trainer, 3, type);
	gt_protobuf_message(&model, 2, &trainer);
	if (charsmap)
		add_charsmap(&normalizer);
	gt_protobuf_int(&normalizer, 4, single_spaces);
	gt_protobuf_message(&model, 3, &normalizer);
	return model;
}

static void ids_are_those_of_the_pieces(void **state)
{
	static const struct {
		int type;
		bool charsmap, single_spaces;
		const char *text, *ids;
	} rows[] = {
		{ 2, false, false, "ab  abb</s>", "2 6 4 2 6 6 1" },
		{ 2, false, true, "  ab  a ", "2 6 2" },
		{ 2, true, false, "Ab<u>cdb", "2 6 7 4 0 6" },
		{ 1, true, true, " A  bAB", "2 4 6 5 0" },
		{ 1, false, false, "ab", "4 3" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct gt_buf model =
		    make_sentencepiece(rows[i].type, rows[i].charsmap, rows[i].single_spaces);
		struct gt_err err = GT_ERR_INIT;
		struct gt_bpe *bpe;
		char *ids;

		if (gt_bpe_parse(&bpe, model.text, model.length, &err))
			fail_msg("row %zu: %s", i, err.text);
		ids = encode(bpe, rows[i].text);
		assert_string_equal(ids, rows[i].ids);
		free(ids);
		gt_bpe_close(bpe);
		gt_buf_release(&model);
	}
}

/* It is cut short, or a byte is changed. */
static void a_damaged_model_is_refused_or_another_one(void **state)
{
	struct gt_buf model = make_sentencepiece(1, true, true);

	(void)state;
	for (size_t at = 0; at < model.length; at += at < 200 ? 1 : 97)
		for (int change = 0; change < 2; change++) {
			struct gt_err err = GT_ERR_INIT;
			struct gt_bpe *bpe;
			char before = model.text[at];
			size_t n = change ? model.length : at;

			model.text[at] = (char)(before ^ (change ? 0x15 : 0));
			if (!gt_bpe_parse(&bpe, model.text, n, &err))
				free(encode(bpe, "Ab <u> c"));
			else
				assert_true(*err.text && !strchr(err.text, '\n'));
			gt_bpe_close(bpe);
			model.text[at] = before;
		}
	gt_buf_release(&model);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ids_are_those_of_the_pieces),
		cmocka_unit_test(a_damaged_model_is_refused_or_another_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
