/* documents.c - documents of JSON lines become samples. */
#include "lib/data/chat/documents.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "lib/base/mem.h"
#include "lib/base/text.h"
#include "lib/base/thread_pool.h"
#include "lib/data/text/choose.h"

/*
 * A sample is a document: its tokens, and behind them zeros. The target of each token is the next
 * one if that is a target, such as a token of an answer, and otherwise ignored. As attention is
 * causal, the zeros change nothing.
 *
 * A packed sample is a row of several documents, and has the places of their tokens. Each zero
 * behind them is a document of its own. Rows are chosen when the data are opened, so they are
 * samples like others for the sampler, for any number of ranks and when a run is resumed.
 *
 *   tokens     7 8 9 4 5 0      targets    8 9 . 5 6 .
 *   places     0 1 2 0 1 0
 *
 * A pair is two documents, each of the length of a block, and behind them its reference.
 */
enum { DEFAULT_BLOCK = 64 };

int gt_document_add(
    struct gt_document **out, struct gt_document_list *list, size_t count, struct gt_err *err)
{
	if (gt_grow(&list->items, list->count, &list->capacity, sizeof(*list->items), err))
		return err->code;
	*out = &list->items[list->count];
	(*out)->count = count;
	(*out)->ids = gt_calloc(count, sizeof(*(*out)->ids), err);
	if (!(*out)->ids)
		return GT_ENOMEM;
	list->count++;
	return 0;
}

void gt_document_list_release(struct gt_document_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->items[i].ids);
	free(list->items);
	*list = (struct gt_document_list){ 0 };
}

/* ---- samples ---- */

/* Write the tokens of a document, their targets, and their places unless these are NULL. Return
 * the number of tokens. */
static size_t put_document(
    int32_t *ids, int32_t *places, int32_t *target, const struct gt_document *s)
{
	for (size_t i = 0; i + 1 < s->count; i++) {
		ids[i] = s->ids[i] < 0 ? ~s->ids[i] : s->ids[i];
		target[i] = s->ids[i + 1] >= 0 ? s->ids[i + 1] : GT_DATA_IGNORE;
		if (places)
			places[i] = (int32_t)i;
	}
	return s->count - 1;
}

/* Write zeros up to the end of a block, and ignore their targets. */
static void pad_block(int32_t *ids, int32_t *places, int32_t *target, size_t from, size_t block)
{
	for (size_t i = from; i < block; i++) {
		ids[i] = 0;
		target[i] = GT_DATA_IGNORE;
		if (places)
			places[i] = 0;
	}
}

static void read_row(
    const struct gt_documents *d, int64_t index, int32_t *ids, int32_t *target, size_t block)
{
	int32_t *places = ids + block;
	size_t at = 0;

	for (size_t i = d->rows.first[index]; i < d->rows.first[index + 1]; i++)
		at += put_document(
		    ids + at, places + at, target + at, &d->all.items[d->rows.documents[i]]);
	pad_block(ids, places, target, at, block);
}

static int read_documents(struct gt_source *self, const struct gt_data_part *part, int64_t index,
    const struct gt_draw *draw, void *input, int32_t *target, struct gt_err *err)
{
	const struct gt_documents *d = (const struct gt_documents *)self;
	const size_t block = (size_t)self->info.form.block, each = (size_t)d->kind->each;
	int32_t *ids = input;

	(void)part;
	(void)draw;
	(void)err;
	if (d->packed) {
		read_row(d, index, ids, target, block);
		return 0;
	}
	for (size_t k = 0; k < each; k++, ids += block, target += block) {
		const struct gt_document *s = &d->all.items[(size_t)index * each + k];

		pad_block(ids, NULL, target, put_document(ids, NULL, target, s), block);
	}
	if (d->reference)
		memcpy(ids, &d->reference[index], sizeof(*ids));
	return 0;
}

static float *documents_reference(struct gt_source *self, int64_t index)
{
	return &((struct gt_documents *)self)->reference[index];
}

/* The checksum of all tokens and of the borders between documents. */
static uint32_t documents_checksum(const struct gt_source *self)
{
	const struct gt_documents *d = (const struct gt_documents *)self;
	uLong sum = crc32(0, NULL, 0);

	for (size_t i = 0; i < d->all.count; i++) {
		const struct gt_document *s = &d->all.items[i];

		sum = crc32_z(sum, (const Bytef *)&s->count, sizeof(s->count));
		sum = crc32_z(sum, (const Bytef *)s->ids, s->count * sizeof(*s->ids));
	}
	return (uint32_t)sum;
}

static const struct gt_tokenizer *documents_tokenizer(const struct gt_source *self)
{
	return ((const struct gt_documents *)self)->tok;
}

static const char *documents_vocab_name(const struct gt_source *self)
{
	(void)self;
	return "tokenizer.json";
}

/* So that the run's folder is all that its evaluation needs. */
static int save_documents_vocab(
    const struct gt_source *self, struct gt_file_name file, struct gt_err *err)
{
	const struct gt_documents *d = (const struct gt_documents *)self;
	int rc = gt_tokenizer_save(d->tok, file, err);

	return rc ? rc : d->kind->save(d, file, err);
}

static void close_documents(struct gt_source *self)
{
	struct gt_documents *d = (struct gt_documents *)self;

	for (size_t i = 0; d->of_line && i < d->lines.count; i++)
		gt_document_list_release(&d->of_line[i]);
	free(d->of_line);
	gt_document_list_release(&d->all);
	gt_packed_rows_release(&d->rows);
	free(d->reference);
	gt_json_lines_release(&d->lines);
	d->kind->release(d);
	gt_tokenizer_close(d->tok);
	gt_arena_release(&self->names);
	free(d);
}

static const struct gt_source_ops documents_ops = { .read = read_documents,
	.tokenizer = documents_tokenizer,
	.vocab_name = documents_vocab_name,
	.save_vocab = save_documents_vocab,
	.reference = documents_reference,
	.checksum = documents_checksum,
	.close = close_documents };

void gt_documents_init(struct gt_documents *d, const struct gt_document_kind *kind)
{
	d->source.ops = &documents_ops;
	d->kind = kind;
}

/* ---- reading ---- */

static int encode_line(void *self, size_t i, struct gt_err *err)
{
	struct gt_documents *d = self;
	json_t *row;
	int rc = gt_json_lines_parse(&row, &d->lines, i, err);

	if (rc)
		return rc;
	rc = d->kind->encode(d, &d->of_line[i], row, err);
	json_decref(row);
	return rc ? gt_json_lines_locate(&d->lines, i, err) : 0;
}

/* Move the samples of all lines into one list. */
static int join_lines(
    struct gt_documents *d, const struct gt_data_request *request, struct gt_err *err)
{
	uint64_t bytes = 0;
	size_t count = 0;
	char what[40];
	int rc;

	for (size_t i = 0; i < d->lines.count; i++)
		for (size_t k = 0; k < d->of_line[i].count; k++) {
			bytes += d->of_line[i].items[k].count * sizeof(int32_t);
			count++;
		}
	snprintf(what, sizeof(what), "the %s", d->kind->name);
	rc = gt_data_check_memory(request, bytes, what, err);
	if (rc)
		return rc;
	d->all.items = gt_calloc(count, sizeof(*d->all.items), err);
	if (!d->all.items)
		return GT_ENOMEM;
	for (size_t i = 0; i < d->lines.count; i++) {
		for (size_t k = 0; k < d->of_line[i].count; k++)
			d->all.items[d->all.count++] = d->of_line[i].items[k];
		d->of_line[i].count = 0;
	}
	return 0;
}

static int encode_lines(
    struct gt_documents *d, const struct gt_data_request *request, struct gt_err *err)
{
	int rc;

	d->of_line = gt_calloc(d->lines.count, sizeof(*d->of_line), err);
	if (!d->of_line)
		return GT_ENOMEM;
	rc = gt_thread_pool_run(0, d->lines.count, encode_line, d, err);
	return rc ? rc : join_lines(d, request, err);
}

/* ---- describing ---- */

/* The tokens of a sample, at most `most`, and how many of them are targets. */
static size_t count_targets(const struct gt_document *s, size_t most)
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

/* Whether two documents have the same tokens up to block + 1. */
static bool are_alike(const struct gt_document *a, const struct gt_document *b, size_t block)
{
	const size_t n = a->count < block + 1 ? a->count : block + 1;

	return (b->count < block + 1 ? b->count : block + 1) == n &&
	       !memcmp(a->ids, b->ids, n * sizeof(*a->ids));
}

/* Cut the documents of a sample after block + 1 tokens. Return false if one has no target then, or
 * those of a pair are alike: there is nothing to learn from it. */
static bool cut_sample(struct gt_document *s, int each, size_t block, struct totals *t)
{
	for (int k = 0; k < each; k++)
		if (!count_targets(&s[k], block + 1))
			return false;
	if (each > 1 && are_alike(&s[0], &s[1], block))
		return false;
	for (int k = 0; k < each; k++) {
		t->targets += count_targets(&s[k], block + 1);
		t->cut += s[k].count > block + 1;
		s[k].count = s[k].count < block + 1 ? s[k].count : block + 1;
		t->longest = s[k].count - 1 > t->longest ? s[k].count - 1 : t->longest;
		t->tokens += s[k].count;
	}
	return true;
}

/* Cut documents, and leave out samples without a target. */
static struct totals cut_documents(struct gt_documents *d, size_t block)
{
	const int each = d->kind->each;
	struct totals t = { 0 };
	size_t kept = 0;

	for (size_t i = 0; i < d->all.count; i += (size_t)each) {
		struct gt_document *s = &d->all.items[i];
		bool keeps = cut_sample(s, each, block, &t);

		t.dropped += !keeps;
		for (int k = 0; k < each; k++)
			if (keeps)
				d->all.items[kept++] = s[k];
			else
				free(s[k].ids);
	}
	d->all.count = kept;
	return t;
}

/* Pack the documents into rows of at most `block` tokens, and set *longest to the tokens of the
 * longest row. */
static int pack_documents(struct gt_documents *d, size_t block, size_t *longest, struct gt_err *err)
{
	size_t *lengths = gt_calloc(d->all.count, sizeof(*lengths), err);
	int rc = lengths ? 0 : GT_ENOMEM;

	for (size_t i = 0; !rc && i < d->all.count; i++)
		lengths[i] = d->all.items[i].count - 1;
	if (!rc)
		rc = gt_pack_rows(&d->rows, lengths, d->all.count, block, err);
	for (size_t r = 0; !rc && r < d->rows.count; r++) {
		size_t tokens = 0;

		for (size_t i = d->rows.first[r]; i < d->rows.first[r + 1]; i++)
			tokens += lengths[d->rows.documents[i]];
		*longest = tokens > *longest ? tokens : *longest;
	}
	free(lengths);
	return rc;
}

static int note_totals(
    struct gt_documents *d, const struct totals *t, size_t block, struct gt_err *err)
{
	struct gt_data_info *info = &d->source.info;
	char tokens[GT_TEXT_SIZE], targets[GT_TEXT_SIZE], rows[80] = "", text[300];

	if (d->packed)
		snprintf(rows, sizeof(rows), ", packed into %zu samples of %d tokens",
		    d->rows.count, info->form.block);
	snprintf(text, sizeof(text), "%zu %s%s; %s of %s tokens are %s",
	    d->all.count / (size_t)d->kind->each, d->kind->name, rows,
	    gt_text_count(targets, (double)t->targets), gt_text_count(tokens, (double)t->tokens),
	    d->kind->targets);
	if (gt_source_keep(&info->interpretation, &d->source, text, err))
		return GT_ENOMEM;
	if (!t->cut && !t->dropped)
		return 0;
	if (d->kind->each > 1)
		snprintf(text, sizeof(text),
		    "%zu answers are cut after %zu tokens; %zu pairs are left out, as their answers "
		    "begin or differ behind that",
		    t->cut, block + 1, t->dropped);
	else
		snprintf(text, sizeof(text),
		    "%zu %s are cut after %zu tokens; %zu more are left out, as they have no token "
		    "of an answer before that",
		    t->cut, d->kind->name, block + 1, t->dropped);
	return gt_source_keep(&info->note, &d->source, text, err);
}

static int describe_samples(struct gt_documents *d, size_t block, struct gt_err *err)
{
	struct gt_data_info *info = &d->source.info;
	const bool paired = d->kind->each > 1;

	info->form = (struct gt_sample_form){ .kind = GT_SAMPLE_TOKENS,
		.block = (int)block,
		.packed = d->packed,
		.paired = paired,
		.classes = gt_tokenizer_size(d->tok) };
	/* Also of texts: padding has no targets. The loss of a pair counts pairs. */
	info->masked = !paired;
	info->input_bytes = gt_sample_input_words(&info->form) * sizeof(int32_t);
	info->targets = gt_sample_target_words(&info->form);
	info->samples = d->source.length =
	    (int64_t)(d->packed ? d->rows.count : d->all.count / (size_t)d->kind->each);
	if (paired)
		d->reference = gt_calloc((size_t)info->samples, sizeof(*d->reference), err);
	return paired && !d->reference ? GT_ENOMEM : 0;
}

static int describe_documents(struct gt_documents *d, const char *path,
    const struct gt_data_request *request, struct gt_err *err)
{
	size_t block = d->most;
	struct totals t = cut_documents(d, block);
	size_t longest = t.longest;

	if (!d->all.count) {
		gt_err_set(err, GT_EINVAL, "'%s' has %s%s", path, d->kind->none,
		    t.dropped ? " that begins within the block" : "");
		return t.dropped ? gt_err_hint(err, "use a longer block than %zu", block)
		                 : err->code;
	}
	if (d->packed && pack_documents(d, block, &longest, err))
		return err->code;
	/* A longer block would have nothing but zeros at its end. */
	if (!request->fixed_size && !request->same_size)
		block = longest;
	return describe_samples(d, block, err) ? err->code : note_totals(d, &t, d->most, err);
}

int gt_documents_choose_tokenizer(struct gt_documents *d, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	return gt_tokenizer_choose_subwords(&d->tok, &d->source, spec, request,
	    d->kind->needs_subwords, d->kind->tokenizer_hint, err);
}

int gt_documents_read(struct gt_documents *d, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	int rc = gt_json_lines_open(&d->lines, spec->path, err);

	d->most = request->form.block > 0 ? (size_t)request->form.block : DEFAULT_BLOCK;
	if (!rc)
		rc = encode_lines(d, request, err);
	return rc ? rc : describe_documents(d, spec->path, request, err);
}
