/* chat.c - conversations, whose answers are trained on, and texts that are packed as they are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/base/mem.h"
#include "lib/base/text.h"
#include "lib/base/thread_pool.h"
#include "lib/data/chat/answers.h"
#include "lib/data/chat/pack.h"
#include "lib/data/core/source.h"
#include "lib/data/text/choose.h"
#include "lib/data/text/config.h"
#include "lib/data/text/json_lines.h"

/*
 * A sample is a conversation: its tokens, and behind them zeros. The target of each token is the
 * next one if that is a token of an answer, and otherwise ignored. As attention is causal, the
 * zeros change nothing.
 *
 * With pack=yes, a sample is a row of several conversations, and has the places of their tokens.
 * Each zero behind them is a conversation of its own. Rows are chosen when the data are opened, so
 * they are samples like others for the sampler, for any number of ranks and when a run is resumed.
 *
 *   tokens     7 8 9 4 5 0      targets    8 9 . 5 6 .
 *   places     0 1 2 0 1 0
 */
enum { DEFAULT_BLOCK = 64 };

struct chat {
	struct gt_source source;
	struct gt_tokenizer *tok;
	/* texts: the member of a row with its text, and the text behind it; NULL: conversations */
	const char *field, *end;
	json_t *config;               /* texts: that of the tokenizer; NULL: none */
	struct gt_chat_format format; /* conversations */
	enum gt_chat_answers answers;
	size_t most; /* tokens of a sample */
	struct gt_json_lines lines;
	struct gt_chat_samples *of_line; /* [lines.count] */
	struct gt_chat_samples all;      /* in the order of lines */
	bool packed;
	struct gt_packed_rows rows; /* if packed: the samples, whose documents are those of `all` */
};

/* ---- samples ---- */

/* Write the tokens of a conversation, their targets, and their places unless these are NULL. Return
 * the number of tokens. */
static size_t put_sample(
    int32_t *ids, int32_t *places, int32_t *target, const struct gt_chat_sample *s)
{
	for (size_t i = 0; i + 1 < s->count; i++) {
		ids[i] = s->ids[i] < 0 ? ~s->ids[i] : s->ids[i];
		target[i] = s->ids[i + 1] >= 0 ? s->ids[i + 1] : GT_DATA_IGNORE;
		if (places)
			places[i] = (int32_t)i;
	}
	return s->count - 1;
}

static int read_chat(struct gt_source *self, const struct gt_data_part *part, int64_t index,
    const struct gt_draw *draw, void *input, int32_t *target, struct gt_err *err)
{
	const struct chat *c = (const struct chat *)self;
	size_t block = self->info.targets, at = 0;
	int32_t *ids = input, *places = c->packed ? ids + block : NULL;

	(void)part;
	(void)draw;
	(void)err;
	if (!c->packed)
		at = put_sample(ids, NULL, target, &c->all.items[index]);
	for (size_t i = c->packed ? c->rows.first[index] : 0;
	     c->packed && i < c->rows.first[index + 1]; i++)
		at += put_sample(
		    ids + at, places + at, target + at, &c->all.items[c->rows.documents[i]]);
	for (; at < block; at++) {
		ids[at] = 0;
		target[at] = GT_DATA_IGNORE;
		if (places)
			places[at] = 0;
	}
	return 0;
}

static const struct gt_tokenizer *chat_tokenizer(const struct gt_source *self)
{
	return ((const struct chat *)self)->tok;
}

static const char *chat_vocab_name(const struct gt_source *self)
{
	(void)self;
	return "tokenizer.json";
}

/* With the template, so that the run's folder is all that its evaluation needs. */
static int save_chat_vocab(
    const struct gt_source *self, struct gt_file_name file, struct gt_err *err)
{
	const struct chat *c = (const struct chat *)self;
	int rc = gt_tokenizer_save(c->tok, file, err);

	if (rc || c->field)
		return rc || !c->config ? rc : gt_tokenizer_config_save(c->config, file, err);
	return gt_chat_format_save(&c->format, file, err);
}

static void close_chat(struct gt_source *self)
{
	struct chat *c = (struct chat *)self;

	for (size_t i = 0; c->of_line && i < c->lines.count; i++)
		gt_chat_samples_release(&c->of_line[i]);
	free(c->of_line);
	gt_chat_samples_release(&c->all);
	gt_packed_rows_release(&c->rows);
	gt_json_lines_release(&c->lines);
	gt_chat_format_release(&c->format);
	json_decref(c->config);
	gt_tokenizer_close(c->tok);
	gt_arena_release(&self->names);
	free(c);
}

static const struct gt_source_ops chat_ops = { .read = read_chat,
	.tokenizer = chat_tokenizer,
	.vocab_name = chat_vocab_name,
	.save_vocab = save_chat_vocab,
	.close = close_chat };

/* ---- reading ---- */

static int encode_conversation(
    const struct chat *c, struct gt_chat_samples *out, const json_t *row, struct gt_err *err)
{
	struct gt_chat_messages messages = { 0 };
	int rc = gt_chat_messages_read(&messages, row, err);

	if (!rc)
		rc = gt_chat_encode(out, &c->format, c->tok, &messages, c->answers, err);
	gt_chat_messages_release(&messages);
	return rc;
}

/* Cut a text into documents of at most `most` tokens and the token after them, so that each token
 * but the first is a target once. */
static int cut_text(const struct chat *c, struct gt_chat_samples *out, const int32_t *ids,
    size_t count, struct gt_err *err)
{
	for (size_t at = 0; at + 1 < count; at += c->most) {
		size_t n = count - at < c->most + 1 ? count - at : c->most + 1;
		struct gt_chat_sample *s;

		if (gt_grow(&out->items, out->count, &out->capacity, sizeof(*out->items), err))
			return err->code;
		s = &out->items[out->count];
		s->count = n;
		s->ids = gt_calloc(n, sizeof(*s->ids), err);
		if (!s->ids)
			return GT_ENOMEM;
		memcpy(s->ids, ids + at, n * sizeof(*s->ids));
		out->count++;
	}
	return 0;
}

static int encode_text(
    const struct chat *c, struct gt_chat_samples *out, const json_t *row, struct gt_err *err)
{
	struct gt_buf b = { 0 };
	const char *text;
	int32_t *ids = NULL;
	size_t size, count = 0;
	int rc = gt_json_lines_text(&text, &size, row, c->field, err);

	if (rc)
		return rc;
	gt_buf_add(&b, text, size);
	gt_buf_puts(&b, c->end);
	rc = gt_buf_check(&b, err);
	if (!rc)
		rc = gt_tokenizer_encode(c->tok, b.text, b.length, &ids, &count, err);
	if (!rc)
		rc = cut_text(c, out, ids, count, err);
	gt_buf_release(&b);
	free(ids);
	return rc;
}

static int encode_line(void *self, size_t i, struct gt_err *err)
{
	struct chat *c = self;
	json_t *row;
	int rc = gt_json_lines_parse(&row, &c->lines, i, err);

	if (rc)
		return rc;
	rc = c->field ? encode_text(c, &c->of_line[i], row, err)
	              : encode_conversation(c, &c->of_line[i], row, err);
	json_decref(row);
	return rc ? gt_json_lines_locate(&c->lines, i, err) : 0;
}

/* Move the samples of all lines into one list. */
static int join_lines(struct chat *c, const struct gt_data_request *request, struct gt_err *err)
{
	uint64_t bytes = 0;
	size_t count = 0;
	int rc;

	for (size_t i = 0; i < c->lines.count; i++)
		for (size_t k = 0; k < c->of_line[i].count; k++) {
			bytes += c->of_line[i].items[k].count * sizeof(int32_t);
			count++;
		}
	rc =
	    gt_data_check_memory(request, bytes, c->field ? "the texts" : "the conversations", err);
	if (rc)
		return rc;
	c->all.items = gt_calloc(count, sizeof(*c->all.items), err);
	if (!c->all.items)
		return GT_ENOMEM;
	for (size_t i = 0; i < c->lines.count; i++) {
		for (size_t k = 0; k < c->of_line[i].count; k++)
			c->all.items[c->all.count++] = c->of_line[i].items[k];
		c->of_line[i].count = 0;
	}
	return 0;
}

static int encode_lines(struct chat *c, const struct gt_data_request *request, struct gt_err *err)
{
	int rc;

	c->of_line = gt_calloc(c->lines.count, sizeof(*c->of_line), err);
	if (!c->of_line)
		return GT_ENOMEM;
	rc = gt_thread_pool_run(0, c->lines.count, encode_line, c, err);
	return rc ? rc : join_lines(c, request, err);
}

/* ---- describing ---- */

/* The tokens of a sample, at most `most`, and how many of them are targets. */
static size_t count_targets(const struct gt_chat_sample *s, size_t most)
{
	size_t targets = 0;

	for (size_t i = 1; i < s->count && i < most; i++)
		targets += s->ids[i] >= 0;
	return targets;
}

/* Facts about the samples, for notes. */
struct totals {
	size_t cut, dropped, tokens, targets, longest;
};

/* Cut conversations after block + 1 tokens, and leave out those without a target. */
static struct totals cut_samples(struct chat *c, size_t block)
{
	struct totals t = { 0 };
	size_t kept = 0;

	for (size_t i = 0; i < c->all.count; i++) {
		struct gt_chat_sample *s = &c->all.items[i];
		size_t targets = count_targets(s, block + 1);

		if (!targets) {
			free(s->ids);
			t.dropped++;
			continue;
		}
		t.cut += s->count > block + 1;
		s->count = s->count < block + 1 ? s->count : block + 1;
		t.longest = s->count - 1 > t.longest ? s->count - 1 : t.longest;
		t.tokens += s->count;
		t.targets += targets;
		c->all.items[kept++] = *s;
	}
	c->all.count = kept;
	return t;
}

/* Pack the conversations into rows of at most `block` tokens, and set *longest to the tokens of the
 * longest row. */
static int pack_samples(struct chat *c, size_t block, size_t *longest, struct gt_err *err)
{
	size_t *lengths = gt_calloc(c->all.count, sizeof(*lengths), err);
	int rc = lengths ? 0 : GT_ENOMEM;

	for (size_t i = 0; !rc && i < c->all.count; i++)
		lengths[i] = c->all.items[i].count - 1;
	if (!rc)
		rc = gt_pack_rows(&c->rows, lengths, c->all.count, block, err);
	for (size_t r = 0; !rc && r < c->rows.count; r++) {
		size_t tokens = 0;

		for (size_t i = c->rows.first[r]; i < c->rows.first[r + 1]; i++)
			tokens += lengths[c->rows.documents[i]];
		*longest = tokens > *longest ? tokens : *longest;
	}
	free(lengths);
	return rc;
}

static int note_totals(struct chat *c, const struct totals *t, size_t block, struct gt_err *err)
{
	struct gt_data_info *info = &c->source.info;
	char tokens[GT_TEXT_SIZE], targets[GT_TEXT_SIZE], rows[80] = "", text[300];

	if (c->packed)
		snprintf(rows, sizeof(rows), ", packed into %zu samples of %d tokens",
		    c->rows.count, info->form.block);
	snprintf(text, sizeof(text), "%zu %s%s; %s of %s tokens are %s", c->all.count,
	    c->field ? "documents" : "conversations", rows,
	    gt_text_count(targets, (double)t->targets), gt_text_count(tokens, (double)t->tokens),
	    c->field ? "targets" : "answers");
	info->interpretation = gt_arena_strdup(&c->source.names, text, err);
	if (!info->interpretation)
		return GT_ENOMEM;
	if (c->field || (!t->cut && !t->dropped))
		return 0;
	snprintf(text, sizeof(text),
	    "%zu conversations are cut after %zu tokens; %zu more are left out, as they have no "
	    "token of an answer before that",
	    t->cut, block + 1, t->dropped);
	info->note = gt_arena_strdup(&c->source.names, text, err);
	return info->note ? 0 : GT_ENOMEM;
}

/* The token that ends an answer: that is where generation stops. */
static int find_end(struct chat *c, struct gt_err *err)
{
	int32_t *end = &c->source.specials.ends[0];
	int rc = gt_chat_find_eos(end, &c->format, c->tok, err);

	c->source.specials.end_count = *end >= 0;
	return rc;
}

static int describe_chat(
    struct chat *c, const char *path, const struct gt_data_request *request, struct gt_err *err)
{
	struct gt_data_info *info = &c->source.info;
	size_t block = c->most;
	struct totals t = cut_samples(c, block);
	size_t longest = t.longest;

	if (!c->all.count && c->field)
		return gt_err_set(err, GT_EINVAL, "'%s' has no text of two tokens", path);
	if (!c->all.count) {
		gt_err_set(err, GT_EINVAL, "'%s' has no conversation with an answer%s", path,
		    t.dropped ? " that begins within the block" : "");
		return t.dropped ? gt_err_hint(err, "use a longer block than %zu", block)
		                 : err->code;
	}
	if (c->packed && pack_samples(c, block, &longest, err))
		return err->code;
	/* A longer block would have nothing but zeros at its end. */
	if (!request->fixed_size && !request->same_size)
		block = longest;
	info->form = (struct gt_sample_form){ .kind = GT_SAMPLE_TOKENS,
		.block = (int)block,
		.packed = c->packed,
		.classes = gt_tokenizer_size(c->tok) };
	info->masked = true; /* also of texts: padding has no targets */
	info->input_bytes = (c->packed ? 2 : 1) * block * sizeof(int32_t);
	info->targets = block;
	info->samples = c->source.length = (int64_t)(c->packed ? c->rows.count : c->all.count);
	return note_totals(c, &t, c->most, err);
}

static int choose_tokenizer(struct chat *c, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	enum gt_tokenizer_level level = GT_LEVEL_CHAR;
	int rc = gt_tokenizer_choose(&c->tok, &level, &c->source, spec, request, err);

	if (rc || (c->tok && gt_tokenizer_bpe(c->tok)))
		return rc;
	if (c->field) {
		gt_err_set(err, GT_EINVAL, "pack=yes needs a tokenizer of subwords");
		return gt_err_hint(err, "tokenizer=DIR: a folder with tokenizer.json");
	}
	gt_err_set(err, GT_EINVAL, "conversations need a tokenizer with special tokens");
	return gt_err_hint(
	    err, "tokenizer=DIR: a folder with tokenizer.json and tokenizer_config.json");
}

static int open_format(struct chat *c, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	int rc = gt_chat_format_open(&c->format, gt_spec_value(spec, "template"),
	    gt_spec_value(spec, "date"), gt_tokenizer_place(spec, request), err);

	if (rc == GT_EINVAL && !c->format.source && !*err->hint)
		gt_err_hint(err,
		    "give template=FILE; or put chat_template.jinja, or a tokenizer_config.json that "
		    "has one, into the folder of the tokenizer");
	return rc;
}

/* Read the rows of conversations or texts. */
static int read_rows(struct chat *c, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	int rc = gt_json_lines_open(&c->lines, spec->path, err);

	c->most = request->form.block > 0 ? (size_t)request->form.block : DEFAULT_BLOCK;
	if (!rc)
		rc = encode_lines(c, request, err);
	return rc ? rc : describe_chat(c, spec->path, request, err);
}

static int open_conversations(struct chat *c, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	static const char *const answers[] = { "all", "last", "each", NULL };
	int which = GT_CHAT_ALL, rc = gt_spec_choice(spec, "answers", answers, &which, err);

	c->answers = (enum gt_chat_answers)which;
	if (!rc)
		rc = gt_spec_yes_no(spec, "pack", &c->packed, err);
	if (!rc)
		rc = choose_tokenizer(c, spec, request, err);
	if (!rc)
		rc = open_format(c, spec, request, err);
	if (!rc)
		rc = read_rows(c, spec, request, err);
	return rc ? rc : find_end(c, err);
}

static int open_texts(struct chat *c, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	const char *field = gt_spec_value(spec, "field");
	int rc;

	c->packed = true;
	c->field = gt_arena_strdup(&c->source.names, field ? field : "text", err);
	if (!c->field)
		return GT_ENOMEM;
	rc = choose_tokenizer(c, spec, request, err);
	if (!rc)
		rc = gt_tokenizer_config_read(&c->config, gt_tokenizer_place(spec, request), err);
	c->end = gt_rows_end(spec, c->config);
	return rc ? rc : read_rows(c, spec, request, err);
}

static int open_any(struct gt_source **out, const struct gt_spec *spec,
    const struct gt_data_request *request, bool texts, struct gt_err *err)
{
	struct chat *c = gt_calloc(1, sizeof(*c), err);
	int rc;

	if (!c)
		return GT_ENOMEM;
	c->source.ops = &chat_ops;
	rc = texts ? open_texts(c, spec, request, err) : open_conversations(c, spec, request, err);
	if (rc)
		close_chat(&c->source);
	else
		*out = &c->source;
	return rc;
}

static int open_chat(struct gt_source **out, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	return open_any(out, spec, request, false, err);
}

int gt_text_open_packed(struct gt_source **out, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	return open_any(out, spec, request, true, err);
}

static const struct gt_setting settings[] = {
	{ "tokenizer", "PATH", "that of the run",
	    "a tokenizer.json, or a folder with one and with the chat template" },
	{ "template", "FILE", "that of the tokenizer", "a chat template" },
	{ "answers", "all|last|each", "all",
	    "answers that are trained on: all in one sample, the last, or each in its own" },
	{ "pack", "yes|no", "no",
	    "several conversations in a sample, which do not attend to each other" },
	{ "date", "YYYY-MM-DD", "not defined", "the day that the template writes as today" }, { 0 }
};

const struct gt_source_kind gt_chat_kind = {
	.form = { .name = "chat",
	    .path = "FILE|FOLDER|PATTERN",
	    .summary = "conversations in JSON lines, whose answers are trained on",
	    .settings = settings,
	    .example = "chat:train.jsonl,tokenizer=model" },
	.open = open_chat,
};
