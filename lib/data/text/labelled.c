/* labelled.c - texts, or pairs of texts, each with a class, for networks that take tokens. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/base/text.h"
#include "lib/base/thread_pool.h"
#include "lib/data/core/fields.h"
#include "lib/data/core/source.h"
#include "lib/data/text/choose.h"
#include "lib/data/text/config.h"
#include "lib/data/text/labels.h"

/*
 * A sample has the tokens of a row between the special tokens of the tokenizer, and padding behind
 * them. It has the fields that the network takes. Example, for two texts of 3 and 2 tokens:
 *
 *   input_ids        [CLS] a b c [SEP] d e [SEP] [PAD] [PAD]
 *   attention_mask     1   1 1 1   1   1 1   1     0     0
 *   token_type_ids     0   0 0 0   0   1 1   1     0     0
 */
enum { DEFAULT_BLOCK = 512, MAX_BLOCK = 1 << 20 };

struct row {
	int32_t *ids;  /* [length[0] + length[1]] the tokens of the first text, and of the second */
	int length[2]; /* the second is 0 if there is one text */
	bool cut;      /* they are shorter than the texts */
	int32_t class;
	const char *name; /* "FILE:LINE" */
};

struct labelled {
	struct gt_source source;               /* target.name: the member of a row with its class */
	const struct gt_data_request *request; /* while the source is opened */
	struct gt_tokenizer *tok;
	json_t *config; /* gt_tokenizer_config_read() has read it; NULL: none */
	struct gt_bpe_template template;
	int specials;     /* special tokens of a sample */
	int most;         /* tokens of a sample at most */
	struct row *rows; /* [count] */
	size_t count, capacity;
	/* the file that is being read, its first row, and the labels of its rows */
	struct gt_json_lines lines;
	size_t first;
	json_t **labels; /* [lines.count] */
};

/* ---- samples ---- */

/* Write one value to the places `at` .. `at` + count - 1 of a field. */
static void put_value(
    const struct gt_sample_field *field, char *out, int at, int count, int32_t value)
{
	float real = (float)value;

	for (int i = at; i < at + count; i++)
		memcpy(out + (size_t)i * sizeof(value),
		    field->type == GT_FIELD_INT ? (const void *)&value : &real, sizeof(value));
}

/* Write the field of a sample whose texts have these tokens. */
static void put_field(
    const struct labelled *l, const struct row *row, const struct gt_sample_field *field, char *out)
{
	const enum gt_field_meaning meaning = gt_field_meaning(field);
	int at = 0;

	for (int i = 0; i < l->template.count; i++) {
		const struct gt_bpe_part *p = &l->template.part[i];
		int length = p->text ? row->length[p->text - 1] : 1;

		if (meaning == GT_FIELD_MASK)
			put_value(field, out, at, length, 1);
		else if (meaning == GT_FIELD_TYPES)
			put_value(field, out, at, length, p->type);
		else if (!p->text)
			put_value(field, out, at, 1, p->id);
		else
			memcpy(out + (size_t)at * sizeof(*row->ids),
			    row->ids + (p->text == 2 ? row->length[0] : 0),
			    (size_t)length * sizeof(*row->ids));
		at += length;
	}
	put_value(field, out, at, field->shape[0] - at,
	    meaning == GT_FIELD_DATA ? gt_tokenizer_padding(l->tok) : 0);
}

static int32_t class_of_row(const struct gt_source *self, int64_t index)
{
	return ((const struct labelled *)self)->rows[index].class;
}

static int read_row(struct gt_source *self, const struct gt_data_part *part, int64_t index,
    const struct gt_draw *draw, void *input, int32_t *target, struct gt_err *err)
{
	const struct labelled *l = (const struct labelled *)self;
	const struct gt_sample_form *form = &self->info.form;

	(void)part;
	(void)draw;
	(void)err;
	for (int i = 0; i < form->field_count; i++)
		put_field(l, &l->rows[index], &form->fields[i],
		    (char *)input + gt_sample_field_at(form, i));
	*target = class_of_row(self, index);
	return 0;
}

static const char *row_name(const struct gt_source *self, int64_t index)
{
	return ((const struct labelled *)self)->rows[index].name;
}

static const struct gt_tokenizer *labelled_tokenizer(const struct gt_source *self)
{
	return ((const struct labelled *)self)->tok;
}

static const char *labelled_vocab_name(const struct gt_source *self)
{
	(void)self;
	return "tokenizer.json";
}

static int save_labelled_vocab(
    const struct gt_source *self, struct gt_file_name file, struct gt_err *err)
{
	const struct labelled *l = (const struct labelled *)self;
	int rc = gt_tokenizer_save(l->tok, file, err);

	return rc || !l->config ? rc : gt_tokenizer_config_save(l->config, file, err);
}

/* Labels and lines are needed until each row has its class. */
static void release_lines(struct labelled *l)
{
	for (size_t i = 0; l->labels && i < l->lines.count; i++)
		json_decref(l->labels[i]);
	free(l->labels);
	l->labels = NULL;
	gt_json_lines_release(&l->lines);
}

static void close_labelled(struct gt_source *self)
{
	struct labelled *l = (struct labelled *)self;

	release_lines(l);
	for (size_t i = 0; i < l->count; i++)
		free(l->rows[i].ids);
	free(l->rows);
	gt_tokenizer_close(l->tok);
	json_decref(l->config);
	gt_arena_release(&self->names);
	free(l);
}

static const struct gt_source_ops labelled_ops = { .read = read_row,
	.class_of = class_of_row,
	.name = row_name,
	.tokenizer = labelled_tokenizer,
	.vocab_name = labelled_vocab_name,
	.save_vocab = save_labelled_vocab,
	.close = close_labelled };

/* ---- reading ---- */

/* Shorten the longer text first, until both have at most `most` tokens. */
static void cut_lengths(int length[2], int most)
{
	int shorter = length[0] <= length[1] ? 0 : 1, longer = !shorter;

	if (length[0] + length[1] <= most)
		return;
	if (length[shorter] > most / 2)
		length[shorter] = most / 2;
	length[longer] = most - length[shorter];
}

static int encode_member(const struct labelled *l, const json_t *row, const char *name,
    int32_t **ids, size_t *count, struct gt_err *err)
{
	const char *text;
	size_t size;
	int rc = gt_json_lines_text(&text, &size, row, name, err);

	if (rc && !*err->hint)
		return gt_err_hint(
		    err, "text=NAME and second=NAME name the members of a row with its texts");
	if (rc)
		return rc;
	return gt_tokenizer_encode(l->tok, text, size, ids, count, err);
}

/* Keep the tokens ids[2] that a sample has room for. */
static int keep_tokens(const struct labelled *l, struct row *out, int32_t *const ids[2],
    const size_t count[2], struct gt_err *err)
{
	for (int k = 0; k < 2; k++)
		out->length[k] = count[k] < MAX_BLOCK ? (int)count[k] : MAX_BLOCK;
	out->cut = out->length[0] + out->length[1] > l->most - l->specials;
	cut_lengths(out->length, l->most - l->specials);
	/* A network has nothing to look at where all is padding. */
	if (!count[0] && !count[1] && !l->specials)
		return gt_err_set(err, GT_EFORMAT, "the row has no tokens");
	out->ids = gt_calloc((size_t)(out->length[0] + out->length[1]) + 1, sizeof(*out->ids), err);
	if (!out->ids)
		return GT_ENOMEM;
	for (int k = 0, at = 0; k < 2; at += out->length[k++])
		if (out->length[k])
			memcpy(out->ids + at, ids[k], (size_t)out->length[k] * sizeof(**ids));
	return 0;
}

static int encode_texts(
    const struct labelled *l, struct row *out, const json_t *row, struct gt_err *err)
{
	int32_t *ids[2] = { NULL };
	size_t count[2] = { 0 };
	int rc = 0;

	for (int k = 0; !rc && k < 2 && l->source.texts[k]; k++)
		rc = encode_member(l, row, l->source.texts[k], &ids[k], &count[k], err);
	if (!rc)
		rc = keep_tokens(l, out, ids, count, err);
	free(ids[0]);
	free(ids[1]);
	return rc;
}

static int encode_row(void *self, size_t i, struct gt_err *err)
{
	struct labelled *l = self;
	json_t *row;
	int rc = gt_json_lines_parse(&row, &l->lines, i, err);

	if (rc)
		return rc;
	if (!l->source.unlabelled)
		rc = gt_label_take(&l->labels[i], row, l->source.target.name, err);
	if (!rc)
		rc = encode_texts(l, &l->rows[l->first + i], row, err);
	json_decref(row);
	return rc ? gt_json_lines_locate(&l->lines, i, err) : 0;
}

static int add_row(struct labelled *l, size_t i, struct gt_err *err)
{
	const struct gt_json_line *line = &l->lines.lines[i];
	char *name = gt_asprintf(err, "%s:%ld", l->lines.files.names[line->file], line->number);
	struct row row = { .class = GT_DATA_IGNORE };
	int rc = name ? gt_source_keep(&row.name, &l->source, name, err) : GT_ENOMEM;

	free(name);
	if (!rc)
		rc = gt_grow(&l->rows, l->count, &l->capacity, sizeof(row), err);
	if (!rc)
		l->rows[l->count++] = row;
	return rc;
}

/* Give the rows of the file their classes. */
static int take_classes(struct labelled *l, struct gt_err *err)
{
	int32_t *classes = gt_calloc(l->lines.count, sizeof(*classes), err);
	int rc = !classes
	             ? GT_ENOMEM
	             : gt_labels_number(classes, l->labels, &l->source, l->request, &l->lines, err);

	for (size_t i = 0; !rc && i < l->lines.count; i++)
		l->rows[l->first + i].class = classes[i];
	free(classes);
	return rc;
}

static int read_path(struct labelled *l, const char *path, struct gt_err *err)
{
	int rc = gt_json_lines_open(&l->lines, path, err);

	l->first = l->count;
	for (size_t i = 0; !rc && i < l->lines.count; i++)
		rc = add_row(l, i, err);
	if (!rc) {
		l->labels = gt_calloc(l->lines.count, sizeof(*l->labels), err);
		rc = l->labels ? gt_thread_pool_run(0, l->lines.count, encode_row, l, err)
		               : GT_ENOMEM;
	}
	if (!rc && !l->source.unlabelled)
		rc = take_classes(l, err);
	release_lines(l);
	return rc;
}

/* Labelled rows are in the files of the spec; those for predictions in the files of the request. */
static int read_paths(struct labelled *l, const struct gt_spec *spec, struct gt_err *err)
{
	const struct gt_data_request *request = l->request;
	int rc = 0;

	if (!request->inputs)
		return read_path(l, spec->path, err);
	l->source.info.form.classes = request->form.classes;
	for (int i = 0; !rc && i < request->input_count; i++) {
		if (!strcmp(request->inputs[i], "-"))
			return gt_err_set(
			    err, GT_ENOTSUP, "labelled texts are read from files, not from '-'");
		rc = read_path(l, request->inputs[i], err);
	}
	return rc;
}

/* ---- fields ---- */

/* Return the field of the network that takes the tokens. */
static const struct gt_sample_field *find_ids(const struct gt_data_request *request)
{
	const struct gt_sample_form *form = &request->form;

	for (int i = 0; i < form->field_count; i++)
		if (gt_field_meaning(&form->fields[i]) == GT_FIELD_DATA)
			return &form->fields[i];
	return NULL;
}

/* Check that the network takes tokens, and nothing that texts do not have. */
static int check_network(const struct gt_data_request *request, struct gt_err *err)
{
	const struct gt_sample_form *form = &request->form;
	const struct gt_sample_field *ids = find_ids(request);

	if (!gt_fields_wanted(request) || !ids) {
		gt_err_set(err, GT_EINVAL,
		    "labelled texts are for classifiers that take tokens as an input");
		return gt_err_hint(err,
		    "such as bert, or an exported network (.pt2) with the inputs input_ids and "
		    "attention_mask; jsonl:FILE reads the texts alone, for a language model");
	}
	for (int i = 0; i < form->field_count; i++) {
		const struct gt_sample_field *f = &form->fields[i];
		bool other = f != ids && gt_field_meaning(f) == GT_FIELD_DATA;

		if (!other && f->ndim == 1 && f->type != GT_FIELD_PIXELS &&
		    (f != ids || f->type == GT_FIELD_INT))
			continue;
		gt_err_set(err, GT_EINVAL, "the network takes the input '%s', which is %s", f->name,
		    other ? "not known of a text" : "not a row of tokens");
		return gt_fields_hint(request, NULL, err);
	}
	return 0;
}

/* Return the tokens that each sample has to have, or 0: any number. `given`: the setting `block` is
 * there, which a run overrules in its own evaluations alone. */
static int required_length(const struct gt_data_request *request, bool given)
{
	const struct gt_data_description *like = request->like;
	const struct gt_sample_field *ids = find_ids(request);

	if (!ids->open)
		return ids->shape[0];
	if (like && like->form.field_count && !request->new_classes &&
	    (!given || request->same_size))
		return like->form.fields[0].shape[0];
	return 0;
}

/* Set the tokens of a sample at most. *fixed: samples have no fewer. */
static int choose_block(
    struct labelled *l, const struct gt_spec *spec, bool *fixed, struct gt_err *err)
{
	const struct gt_data_request *request = l->request;
	const int limit = request->form.block; /* of the model; 0: none */
	const bool given = gt_spec_value(spec, "block");
	const int required = required_length(request, given);
	int64_t block = limit && limit < DEFAULT_BLOCK ? limit : DEFAULT_BLOCK;
	int rc = gt_spec_integer(spec, "block", 1, MAX_BLOCK, &block, err);

	if (!rc && required && given && block != required)
		return gt_err_set(err, GT_EINVAL, "block=%lld, but the %s %d tokens",
		    (long long)block,
		    find_ids(request)->open ? "model is trained with" : "network takes", required);
	*fixed = required;
	l->most = required ? required : (int)block;
	for (int i = 0; i < l->template.count; i++)
		l->specials += !l->template.part[i].text;
	if (!rc && l->most <= l->specials)
		return gt_err_set(err, GT_EINVAL,
		    "%d tokens in a sample have no room for a text between %d special tokens",
		    l->most, l->specials);
	return rc;
}

/* The fields have `block` tokens. Positions follow from their number. */
static int describe_fields(struct labelled *l, int block, struct gt_err *err)
{
	const struct gt_sample_form *wanted = &l->request->form;
	struct gt_data_info *info = &l->source.info;
	struct gt_sample_form *form = &info->form;

	form->kind = GT_SAMPLE_VECTOR;
	for (int i = 0; i < wanted->field_count; i++) {
		struct gt_sample_field *f = &form->fields[form->field_count];

		if (gt_field_meaning(&wanted->fields[i]) == GT_FIELD_POSITIONS)
			continue;
		*f = wanted->fields[i];
		f->open = 0;
		f->shape[0] = block;
		form->field_count++;
	}
	info->targets = 1;
	info->samples = l->source.length = (int64_t)l->count;
	return gt_fields_finish(info, err);
}

/* Note how many texts are cut, behind what is noted already. */
static int note_cut(struct labelled *l, const char *what, struct gt_err *err)
{
	struct gt_data_info *info = &l->source.info;
	size_t cut = 0;
	char *note;
	int rc;

	for (size_t i = 0; i < l->count; i++)
		cut += l->rows[i].cut;
	if (!cut)
		return 0;
	note = gt_asprintf(err, "%s%scut after %d tokens: %zu of %zu %s",
	    info->note ? info->note : "", info->note ? "; " : "", l->most, cut, l->count, what);
	rc = note ? gt_source_keep(&info->note, &l->source, note, err) : GT_ENOMEM;
	free(note);
	return rc;
}

static int note_rows(struct labelled *l, int longest, struct gt_err *err)
{
	const char *what = l->source.texts[1] ? "pairs of texts" : "texts";
	char count[GT_TEXT_SIZE], text[200];
	int rc;

	snprintf(text, sizeof(text), "%s %s of at most %d tokens, with special tokens",
	    gt_text_count(count, (double)l->count), what, longest);
	rc = gt_source_keep(&l->source.info.interpretation, &l->source, text, err);
	return rc ? rc : note_cut(l, what, err);
}

static int describe_rows(struct labelled *l, bool fixed, struct gt_err *err)
{
	uint64_t bytes = 0;
	int longest = 0, rc;

	for (size_t i = 0; i < l->count; i++) {
		int length = l->rows[i].length[0] + l->rows[i].length[1] + l->specials;

		longest = length > longest ? length : longest;
		bytes += sizeof(*l->rows) + (size_t)length * sizeof(int32_t);
	}
	rc = gt_data_check_memory(l->request, bytes, "the texts", err);
	if (!rc)
		rc = describe_fields(l, fixed ? l->most : longest ? longest : 1, err);
	return rc ? rc : note_rows(l, longest, err);
}

/* ---- opening ---- */

/* Set *out to the value of a setting; to `initial`, which may be NULL, if it is not given. An empty
 * value means none. */
static int take_name(struct labelled *l, const char **out, const struct gt_spec *spec,
    const char *key, const char *initial, struct gt_err *err)
{
	const char *given = gt_spec_value(spec, key), *name = given ? given : initial;

	*out = NULL;
	return name && *name ? gt_source_keep(out, &l->source, name, err) : 0;
}

/* The members of a row have the names of the training by default. An evaluation has as many
 * texts. */
static int choose_members(struct labelled *l, const struct gt_spec *spec, struct gt_err *err)
{
	const struct gt_data_description *like = l->request->like;
	const bool known = like && like->texts[0];
	const char *label = known ? like->target.name : NULL;
	struct gt_source *s = &l->source;
	int rc = take_name(l, &s->texts[0], spec, "text", known ? like->texts[0] : "text", err);

	if (!rc)
		rc = take_name(l, &s->texts[1], spec, "second", known ? like->texts[1] : NULL, err);
	if (!rc)
		rc = take_name(l, &s->target.name, spec, "label", label ? label : "label", err);
	if (!rc && (!s->texts[0] || !s->target.name))
		return gt_err_set(
		    err, GT_EINVAL, "%s= has no name", s->texts[0] ? "label" : "text");
	if (!rc && known && like->form.field_count && s->texts[1] && !like->texts[1] &&
	    !l->request->new_classes)
		return gt_err_set(err, GT_EINVAL,
		    "second=%s, but the model was trained on rows with one text", s->texts[1]);
	return rc;
}

static int open_tokenizer(struct labelled *l, const struct gt_spec *spec, struct gt_err *err)
{
	struct gt_file_name place = gt_tokenizer_place(spec, l->request);
	int rc = gt_tokenizer_choose_subwords(&l->tok, &l->source, spec, l->request,
	    "labelled texts need a tokenizer of subwords", GT_TOKENIZER_HINT, err);

	if (!rc)
		rc = gt_tokenizer_config_read(&l->config, place, err);
	if (rc)
		return rc;
	rc = gt_bpe_template_read(
	    &l->template, gt_tokenizer_bpe(l->tok), l->source.texts[1] != NULL, err);
	return rc && place.path ? gt_err_prefix(err, "'%s'", place.path) : rc;
}

static int open_rows(struct labelled *l, const struct gt_spec *spec, struct gt_err *err)
{
	bool fixed = false;
	int rc = check_network(l->request, err);

	l->source.unlabelled = l->request->inputs;
	if (!rc)
		rc = choose_members(l, spec, err);
	if (!rc)
		rc = open_tokenizer(l, spec, err);
	if (!rc)
		rc = choose_block(l, spec, &fixed, err);
	if (!rc)
		rc = read_paths(l, spec, err);
	return rc ? rc : describe_rows(l, fixed, err);
}

static int open_labelled(struct gt_source **out, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	struct labelled *l = gt_calloc(1, sizeof(*l), err);
	int rc;

	if (!l)
		return GT_ENOMEM;
	l->source.ops = &labelled_ops;
	l->request = request;
	rc = open_rows(l, spec, err);
	l->request = NULL;
	if (rc)
		close_labelled(&l->source);
	else
		*out = &l->source;
	return rc;
}

static const struct gt_setting settings[] = {
	{ "text", "NAME", "that of the run, or text", "the member of a row with its text" },
	{ "second", "NAME", "that of the run",
	    "the member with the second text, if samples are pairs of texts" },
	{ "label", "NAME", "that of the run, or label",
	    "the member with the class: a word or a whole number" },
	{ "block", "N", "that of the run, or the longest row, at most 512",
	    "tokens of a sample, with special tokens; longer texts are cut" },
	{ "tokenizer", "PATH", "that of the run", "a tokenizer.json, or a folder with one" }, { 0 }
};

static const char *const input_keys[] = { "text", "second", "block", "tokenizer", NULL };

const struct gt_source_kind gt_labelled_kind = {
	.form = { .name = "labelled",
	    .path = "FILE|FOLDER|PATTERN",
	    .summary = "texts in JSON lines, each with a class, for networks that take tokens",
	    .settings = settings,
	    .example = "labelled:reviews.jsonl,tokenizer=model" },
	.json_lines = true,
	.input_keys = input_keys,
	.open = open_labelled,
};
