/* fuzz_tokenizer.c - fuzz target: a tokenizer.json, a NUL, and its text; or a .model file. */
#include <stdlib.h>
#include <string.h>

#include "lib/data/bpe/inside.h"
#include "tests/fuzz/fuzz.h"

/* Longer texts only take longer. */
enum { MOST_TEXT = 4096 };

static int collect(void *self, const int32_t *ids, size_t count, struct gt_err *err)
{
	return gt_bpe_ids_put(self, (const uint32_t *)ids, count, err);
}

static int encode(const struct gt_bpe *bpe, const char *text, size_t size, struct gt_bpe_ids *out)
{
	struct gt_err err = GT_ERR_INIT;
	int64_t repaired;
	int rc = gt_bpe_encode(bpe, text, size, collect, NULL, out, &repaired, &err);

	if (rc)
		fuzz_check_error(rc, &err);
	return rc;
}

/* Every id is a token's, with bytes that can be read. */
static void check_ids(const struct gt_bpe *bpe, const struct gt_bpe_ids *ids)
{
	size_t length, sum = 0;

	for (size_t i = 0; i < ids->count; i++) {
		const char *text = gt_bpe_text(bpe, ids->ids[i], !i, &length);

		fuzz_require(text);
		for (size_t k = 0; k < length; k++)
			sum += (unsigned char)text[k];
	}
	fuzz_require(sum <= ids->count * 255 * 2 * GT_BPE_MAX_TOKEN);
}

/* Words that end where no merge could join their ends are those of the whole segment. */
static void check_cuts(
    struct gt_bpe *bpe, const char *text, size_t size, const struct gt_bpe_ids *ids)
{
	struct gt_bpe_ids whole = { 0 };
	bool soft = bpe->chars.soft;

	if (gt_bpe_has_pieces(bpe) || !soft)
		return;
	bpe->chars.soft = false;
	if (!encode(bpe, text, size, &whole)) {
		fuzz_require(whole.count == ids->count);
		fuzz_require(
		    !ids->count || !memcmp(whole.ids, ids->ids, ids->count * sizeof(*ids->ids)));
	}
	bpe->chars.soft = soft;
	free(whole.ids);
}

/* Special tokens are tokens, and each text is there once. */
static void check_template(const struct gt_bpe *bpe, int texts)
{
	struct gt_bpe_template t;
	struct gt_err err = GT_ERR_INIT;
	int rc = gt_bpe_template_read(&t, bpe, texts == 2, &err), seen = 0;

	if (rc) {
		fuzz_check_error(rc, &err);
		return;
	}
	for (int i = 0; i < t.count; i++) {
		seen += t.part[i].text != 0;
		fuzz_require(t.part[i].id >= 0 && t.part[i].id < gt_bpe_size(bpe));
	}
	fuzz_require(seen == texts);
}

void fuzz_tokenizer(const unsigned char *bytes, size_t size)
{
	/* A model of SentencePiece has many NULs: all of it is the text, too. */
	bool model = size && *bytes == '\n';
	const unsigned char *end = model ? NULL : memchr(bytes, 0, size);
	const char *text = (const char *)(end ? end + 1 : bytes);
	size_t json = end ? (size_t)(end - bytes) : size, left = end ? size - json - 1 : size;
	struct gt_bpe_ids ids = { 0 };
	struct gt_err err = GT_ERR_INIT;
	struct gt_bpe *bpe;
	int rc = gt_bpe_parse(&bpe, (const char *)bytes, json, &err);

	if (rc) {
		fuzz_check_error(rc, &err);
		return;
	}
	left = left < MOST_TEXT ? left : MOST_TEXT;
	if (!encode(bpe, text, left, &ids)) {
		check_ids(bpe, &ids);
		check_cuts(bpe, text, left, &ids);
	}
	check_template(bpe, 1);
	check_template(bpe, 2);
	free(ids.ids);
	gt_bpe_close(bpe);
}
