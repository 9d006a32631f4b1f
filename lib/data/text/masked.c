/* masked.c - texts of which some tokens are hidden, for networks that learn to find them again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/base/philox.h"
#include "lib/base/text.h"
#include "lib/base/thread_pool.h"
#include "lib/data/core/source.h"
#include "lib/data/text/choose.h"
#include "lib/data/text/config.h"
#include "lib/data/text/json_lines.h"

/*
 * The tokens of all rows, each between the special tokens of the tokenizer, follow each other, and
 * are cut into samples of `block` tokens. When a sample is read, each token that is not special is
 * chosen with the probability `rate`. Of the chosen ones, 8 of 10 become the token that stands for
 * a hidden one, 1 of 10 another token, and 1 of 10 stays (Devlin et al., NAACL 2019). Targets are
 * the chosen tokens; the others are ignored. Example, with `c` and `e` chosen:
 *
 *   tokens    [CLS] a b   c    d e [SEP]
 *   input     [CLS] a b [MASK] d e [SEP]
 *   target      .   . .   c    . e   .
 *
 * The choice depends on the seed, the epoch, and the place of a token; in evaluations on the place
 * alone.
 */
enum { DEFAULT_BLOCK = 128, MAX_BLOCK = 1 << 20 };

static const double DEFAULT_RATE = 0.15;

struct row {
	int32_t *ids; /* [count] tokens; of special ones ~id */
	size_t count;
};

struct masked {
	struct gt_source source;
	struct gt_tokenizer *tok;
	json_t *config; /* gt_tokenizer_config_read() has read it; NULL: none */
	struct gt_bpe_template template;
	const char *text; /* the member of a row with its text */
	double rate;
	int32_t mask; /* the token for hidden ones */
	int32_t *ids; /* [count] tokens of all rows; of special ones ~id */
	size_t count;
	/* while the file is read */
	struct gt_json_lines lines;
	struct row *rows; /* [lines.count] */
};

/* ---- samples ---- */

/* Return the token that stands for `id`, which is chosen, by two random words. */
static int32_t hide_token(const struct masked *m, int32_t id, const uint32_t bits[2])
{
	const uint32_t tenth = UINT32_MAX / 10, size = (uint32_t)gt_tokenizer_size(m->tok);

	if (bits[0] < 8 * tenth)
		return m->mask;
	return bits[0] < 9 * tenth ? (int32_t)((uint64_t)bits[1] * size >> 32) : id;
}

static int read_masked(struct gt_source *self, const struct gt_data_part *part, int64_t index,
    const struct gt_draw *draw, void *input, int32_t *target, struct gt_err *err)
{
	const struct masked *m = (const struct masked *)self;
	const int64_t block = self->info.form.block;
	const double limit = m->rate * 4294967296.0;
	int32_t *out = input;

	(void)part;
	(void)err;
	for (int64_t i = 0; i < block; i++) {
		const uint64_t place = (uint64_t)(index * block + i);
		const uint32_t counter[4] = { (uint32_t)place, (uint32_t)(place >> 32), GT_RNG_MASK,
			draw->train ? draw->epoch : 0 };
		const int32_t id = m->ids[place];
		uint32_t bits[4];

		out[i] = id < 0 ? ~id : id;
		target[i] = GT_DATA_IGNORE;
		gt_philox(draw->train ? draw->seed : 0, counter, bits);
		if (id < 0 || bits[0] >= limit)
			continue;
		target[i] = id;
		out[i] = hide_token(m, id, bits + 1);
	}
	return 0;
}

static const struct gt_tokenizer *masked_tokenizer(const struct gt_source *self)
{
	return ((const struct masked *)self)->tok;
}

static const char *masked_vocab_name(const struct gt_source *self)
{
	(void)self;
	return "tokenizer.json";
}

static int save_masked_vocab(
    const struct gt_source *self, struct gt_file_name file, struct gt_err *err)
{
	const struct masked *m = (const struct masked *)self;
	int rc = gt_tokenizer_save(m->tok, file, err);

	return rc || !m->config ? rc : gt_tokenizer_config_save(m->config, file, err);
}

static void release_rows(struct masked *m)
{
	for (size_t i = 0; m->rows && i < m->lines.count; i++)
		free(m->rows[i].ids);
	free(m->rows);
	m->rows = NULL;
	gt_json_lines_release(&m->lines);
}

static void close_masked(struct gt_source *self)
{
	struct masked *m = (struct masked *)self;

	release_rows(m);
	free(m->ids);
	gt_tokenizer_close(m->tok);
	json_decref(m->config);
	gt_arena_release(&self->names);
	free(m);
}

static const struct gt_source_ops masked_ops = { .read = read_masked,
	.tokenizer = masked_tokenizer,
	.vocab_name = masked_vocab_name,
	.save_vocab = save_masked_vocab,
	.close = close_masked };

/* ---- reading ---- */

/* Put tokens [count] between the special tokens. */
static int add_special_tokens(
    const struct masked *m, struct row *out, const int32_t *ids, size_t count, struct gt_err *err)
{
	out->ids = gt_calloc(count + GT_BPE_PARTS, sizeof(*out->ids), err);
	if (!out->ids)
		return GT_ENOMEM;
	for (int k = 0; k < m->template.count; k++) {
		const struct gt_bpe_part *p = &m->template.part[k];

		if (!p->text) {
			out->ids[out->count++] = ~p->id;
			continue;
		}
		if (count)
			memcpy(out->ids + out->count, ids, count * sizeof(*ids));
		out->count += count;
	}
	return 0;
}

static int encode_row(void *self, size_t i, struct gt_err *err)
{
	struct masked *m = self;
	const char *text;
	int32_t *ids = NULL;
	size_t size, count = 0;
	json_t *row;
	int rc = gt_json_lines_parse(&row, &m->lines, i, err);

	if (rc)
		return rc;
	rc = gt_json_lines_text(&text, &size, row, m->text, err);
	if (rc && !*err->hint)
		gt_err_hint(err, "text=NAME names the member of a row with its text");
	if (!rc)
		rc = gt_tokenizer_encode(m->tok, text, size, &ids, &count, err);
	if (!rc)
		rc = add_special_tokens(m, &m->rows[i], ids, count, err);
	free(ids);
	json_decref(row);
	return rc ? gt_json_lines_locate(&m->lines, i, err) : 0;
}

static int join_rows(struct masked *m, const struct gt_data_request *request, struct gt_err *err)
{
	int rc;

	for (size_t i = 0; i < m->lines.count; i++)
		m->count += m->rows[i].count;
	rc = gt_data_check_memory(request, m->count * sizeof(*m->ids), "the texts", err);
	if (rc)
		return rc;
	m->ids = gt_calloc(m->count + 1, sizeof(*m->ids), err);
	if (!m->ids)
		return GT_ENOMEM;
	for (size_t i = 0, at = 0; i < m->lines.count; at += m->rows[i++].count)
		if (m->rows[i].count)
			memcpy(m->ids + at, m->rows[i].ids, m->rows[i].count * sizeof(*m->ids));
	return 0;
}

static int read_rows(
    struct masked *m, const char *path, const struct gt_data_request *request, struct gt_err *err)
{
	int rc = gt_json_lines_open(&m->lines, path, err);

	if (!rc) {
		m->rows = gt_calloc(m->lines.count, sizeof(*m->rows), err);
		rc =
		    m->rows ? gt_thread_pool_run(0, m->lines.count, encode_row, m, err) : GT_ENOMEM;
	}
	return rc ? rc : join_rows(m, request, err);
}

/* ---- settings ---- */

static int choose_rate(struct masked *m, const struct gt_spec *spec, struct gt_err *err)
{
	const char *given = gt_spec_value(spec, "rate");
	char *end;

	m->rate = given ? strtod(given, &end) : DEFAULT_RATE;
	if (!given || (*given && !*end && m->rate > 0 && m->rate < 1))
		return 0;
	return gt_err_set(err, GT_EINVAL, "rate=%.40s must be a number above 0 and below 1", given);
}

/* The token for hidden ones has one of the names that files of encoders use. */
static int choose_mask(struct masked *m, const struct gt_spec *spec, struct gt_err *err)
{
	static const char *const names[] = { "[MASK]", "<mask>" };
	const char *given = gt_spec_value(spec, "mask");

	m->mask = given ? gt_tokenizer_find(m->tok, given) : -1;
	for (size_t i = 0; !given && m->mask < 0 && i < sizeof(names) / sizeof(*names); i++)
		m->mask = gt_tokenizer_find(m->tok, names[i]);
	if (m->mask >= 0)
		return 0;
	if (given)
		return gt_err_set(
		    err, GT_EINVAL, "mask=%.60s is not a token of the tokenizer", given);
	gt_err_set(err, GT_EINVAL, "the tokenizer has neither [MASK] nor <mask>");
	return gt_err_hint(err, "mask=TOKEN names the token for hidden ones");
}

static int choose_settings(struct masked *m, const struct gt_spec *spec,
    const struct gt_data_request *request, int *block, struct gt_err *err)
{
	const char *text = gt_spec_value(spec, "text");
	struct gt_file_name place = gt_tokenizer_place(spec, request);
	int64_t tokens = request->same_size ? request->form.block : DEFAULT_BLOCK;
	int rc = gt_source_keep(&m->text, &m->source, text ? text : "text", err);

	if (!rc)
		rc = gt_spec_integer(spec, "block", 1, MAX_BLOCK, &tokens, err);
	*block = (int)tokens;
	if (!rc)
		rc = choose_rate(m, spec, err);
	if (!rc)
		rc = gt_tokenizer_choose_subwords(&m->tok, &m->source, spec, request,
		    "texts with hidden tokens need a tokenizer of subwords", GT_TOKENIZER_HINT,
		    err);
	if (!rc)
		rc = gt_tokenizer_config_read(&m->config, place, err);
	if (rc)
		return rc;
	rc = gt_bpe_template_read(&m->template, gt_tokenizer_bpe(m->tok), false, err);
	if (rc && place.path)
		gt_err_prefix(err, "'%s'", place.path);
	return rc ? rc : choose_mask(m, spec, err);
}

/* ---- opening ---- */

static int describe_masked(struct masked *m, const char *path, int block, struct gt_err *err)
{
	struct gt_data_info *info = &m->source.info;
	char rows[GT_TEXT_SIZE], tokens[GT_TEXT_SIZE], text[200];

	info->form = (struct gt_sample_form){ .kind = GT_SAMPLE_TOKENS,
		.block = block,
		.masks = true,
		.classes = gt_tokenizer_size(m->tok) };
	info->masked = true;
	info->input_bytes = gt_sample_input_words(&info->form) * sizeof(int32_t);
	info->targets = gt_sample_target_words(&info->form);
	info->samples = m->source.length = (int64_t)(m->count / (size_t)block);
	if (!info->samples) {
		gt_err_set(err, GT_EFORMAT, "'%s' has %zu tokens, and a sample has %d", path,
		    m->count, block);
		return gt_err_hint(err, "block=N makes shorter samples");
	}
	snprintf(text, sizeof(text), "%s texts of %s tokens, %.3g %% of which are hidden",
	    gt_text_count(rows, (double)m->lines.count), gt_text_count(tokens, (double)m->count),
	    100 * m->rate);
	return gt_source_keep(&info->interpretation, &m->source, text, err);
}

static int open_masked(struct gt_source **out, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	struct masked *m = gt_calloc(1, sizeof(*m), err);
	int block = 0, rc;

	if (!m)
		return GT_ENOMEM;
	m->source.ops = &masked_ops;
	rc = choose_settings(m, spec, request, &block, err);
	if (!rc)
		rc = read_rows(m, spec->path, request, err);
	if (!rc)
		rc = describe_masked(m, spec->path, block, err);
	release_rows(m);
	if (rc)
		close_masked(&m->source);
	else
		*out = &m->source;
	return rc;
}

static const struct gt_setting settings[] = {
	{ "text", "NAME", "text", "the member of a row with its text" },
	{ "block", "N", "128", "tokens of a sample" },
	{ "rate", "X", "0.15", "the part of the tokens that is hidden" },
	{ "mask", "TOKEN", "[MASK] or <mask>", "the token that stands for hidden ones" },
	{ "tokenizer", "PATH", "that of the run", "a tokenizer.json, or a folder with one" }, { 0 }
};

const struct gt_source_kind gt_masked_kind = {
	.form = { .name = "masked",
	    .path = "FILE|FOLDER|PATTERN",
	    .summary = "texts in JSON lines with hidden tokens, which encoders learn to find",
	    .settings = settings,
	    .example = "masked:texts.jsonl,tokenizer=model" },
	.json_lines = true,
	.open = open_masked,
};
