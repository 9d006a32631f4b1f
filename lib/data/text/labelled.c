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
#include "lib/data/text/json_lines.h"

/*
 * A sample has the tokens of a row between the special tokens of the tokenizer, and padding behind
 * them. It has the fields that the network takes. Example, for two texts of 3 and 2 tokens:
 *
 *   input_ids        [CLS] a b c [SEP] d e [SEP] [PAD] [PAD]
 *   attention_mask     1   1 1 1   1   1 1   1     0     0
 *   token_type_ids     0   0 0 0   0   1 1   1     0     0
 */
enum { DEFAULT_BLOCK = 512, MAX_BLOCK = 1 << 20, MAX_CLASSES = 1 << 16 };

struct row {
	int32_t *ids;  /* [length[0] + length[1]] the tokens of the first text, and of the second */
	int length[2]; /* the second is 0 if there is one text */
	bool cut;      /* they are shorter than the texts */
	json_t *label; /* a string or a whole number; NULL: an input for a prediction */
	int32_t class;
	const char *name; /* "FILE:LINE" */
};

struct labelled {
	struct gt_source source;
	const struct gt_data_request *request; /* while the source is opened */
	struct gt_tokenizer *tok;
	const char *label; /* the member of a row with its class */
	struct gt_bpe_template template;
	int specials;     /* special tokens of a sample */
	int most;         /* tokens of a sample at most */
	struct row *rows; /* [count] */
	size_t count, capacity;
	/* the file that is being read; its first row */
	struct gt_json_lines lines;
	size_t first;
};

/* ---- samples ---- */

/* Store one token in all fields of a sample. */
static void put_token(
    const struct gt_sample_form *form, char *input, int at, int32_t id, int mask, int type)
{
	for (int i = 0; i < form->field_count; i++) {
		const struct gt_sample_field *f = &form->fields[i];
		enum gt_field_meaning meaning = gt_field_meaning(f);
		int32_t value = meaning == GT_FIELD_MASK    ? mask
		                : meaning == GT_FIELD_TYPES ? type
		                                            : id;
		float real = (float)value;

		memcpy(input + gt_sample_field_at(form, i) + (size_t)at * sizeof(value),
		    f->type == GT_FIELD_INT ? (const void *)&value : &real, sizeof(value));
	}
}

static int32_t class_of_row(const struct gt_source *self, int64_t index)
{
	return ((const struct labelled *)self)->rows[index].class;
}

static int read_row(struct gt_source *self, const struct gt_data_part *part, int64_t index,
    const struct gt_draw *draw, void *input, int32_t *target, struct gt_err *err)
{
	const struct labelled *l = (const struct labelled *)self;
	const struct row *row = &l->rows[index];
	const struct gt_sample_form *form = &self->info.form;
	const int block = form->fields[0].shape[0];
	int at = 0;

	(void)part;
	(void)draw;
	(void)err;
	for (int i = 0; i < l->template.count; i++) {
		const struct gt_bpe_part *p = &l->template.part[i];
		const int32_t *ids = p->text == 2 ? row->ids + row->length[0] : row->ids;
		int length = p->text ? row->length[p->text - 1] : 1;

		for (int k = 0; k < length; k++)
			put_token(form, input, at++, p->text ? ids[k] : p->id, 1, p->type);
	}
	while (at < block)
		put_token(form, input, at++, l->template.padding, 0, 0);
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
	return gt_tokenizer_save(((const struct labelled *)self)->tok, file, err);
}

/* Labels are needed until each row has its class. */
static void drop_labels(struct labelled *l)
{
	for (size_t i = 0; i < l->count; i++) {
		json_decref(l->rows[i].label);
		l->rows[i].label = NULL;
	}
}

static void close_labelled(struct gt_source *self)
{
	struct labelled *l = (struct labelled *)self;

	drop_labels(l);
	for (size_t i = 0; i < l->count; i++)
		free(l->rows[i].ids);
	free(l->rows);
	gt_json_lines_release(&l->lines);
	gt_tokenizer_close(l->tok);
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

/* Keep the tokens of the texts that a sample has room for. */
static int encode_texts(
    const struct labelled *l, struct row *out, const json_t *row, struct gt_err *err)
{
	int32_t *ids[2] = { NULL };
	size_t count[2] = { 0 };
	int rc = encode_member(l, row, l->source.texts[0], &ids[0], &count[0], err);

	if (!rc && l->source.texts[1])
		rc = encode_member(l, row, l->source.texts[1], &ids[1], &count[1], err);
	for (int k = 0; k < 2; k++)
		out->length[k] = count[k] < MAX_BLOCK ? (int)count[k] : MAX_BLOCK;
	out->cut = out->length[0] + out->length[1] > l->most - l->specials;
	cut_lengths(out->length, l->most - l->specials);
	/* A network has nothing to look at where all is padding. */
	if (!rc && !count[0] && !count[1] && !l->specials)
		rc = gt_err_set(err, GT_EFORMAT, "the row has no tokens");
	if (!rc)
		out->ids = gt_calloc(
		    (size_t)(out->length[0] + out->length[1]) + 1, sizeof(*out->ids), err);
	for (int k = 0, at = 0; !rc && out->ids && k < 2; at += out->length[k++])
		if (out->length[k])
			memcpy(out->ids + at, ids[k], (size_t)out->length[k] * sizeof(**ids));
	free(ids[0]);
	free(ids[1]);
	return rc ? rc : out->ids ? 0 : GT_ENOMEM;
}

static int take_label(
    const struct labelled *l, struct row *out, const json_t *row, struct gt_err *err)
{
	json_t *label = json_object_get(row, l->label);
	const char *text = json_string_value(label);

	if (l->source.unlabelled)
		return 0;
	if (json_is_integer(label) ||
	    (text && *text && strlen(text) == json_string_length(label))) {
		out->label = json_incref(label);
		return 0;
	}
	if (!label) {
		gt_err_set(err, GT_EFORMAT, "the row has no label '%.60s'", l->label);
		return gt_err_hint(err, "label=NAME names the member with the class");
	}
	return gt_err_set(
	    err, GT_EFORMAT, "the label '%.60s' is neither a word nor a whole number", l->label);
}

static int encode_row(void *self, size_t i, struct gt_err *err)
{
	struct labelled *l = self;
	struct row *out = &l->rows[l->first + i];
	json_t *row;
	int rc = gt_json_lines_parse(&row, &l->lines, i, err);

	if (rc)
		return rc;
	rc = take_label(l, out, row, err);
	if (!rc)
		rc = encode_texts(l, out, row, err);
	json_decref(row);
	return rc ? gt_json_lines_locate(&l->lines, i, err) : 0;
}

static int name_row(struct labelled *l, size_t i, struct gt_err *err)
{
	const struct gt_json_line *line = &l->lines.lines[i];
	char *name = gt_asprintf(err, "%s:%ld", l->lines.files.names[line->file], line->number);
	struct row row = { .class = GT_DATA_IGNORE,
		.name = name ? gt_arena_strdup(&l->source.names, name, err) : NULL };

	free(name);
	if (!row.name || gt_grow(&l->rows, l->count, &l->capacity, sizeof(row), err))
		return GT_ENOMEM;
	l->rows[l->count++] = row;
	return 0;
}

static int read_path(struct labelled *l, const char *path, struct gt_err *err)
{
	int rc = gt_json_lines_open(&l->lines, path, err);

	l->first = l->count;
	for (size_t i = 0; !rc && i < l->lines.count; i++)
		rc = name_row(l, i, err);
	if (!rc)
		rc = gt_thread_pool_run(0, l->lines.count, encode_row, l, err);
	gt_json_lines_release(&l->lines);
	return rc;
}

static int read_paths(struct labelled *l, const struct gt_spec *spec, struct gt_err *err)
{
	const struct gt_data_request *request = l->request;
	int rc = 0;

	if (!request->inputs)
		return read_path(l, spec->path, err);
	for (int i = 0; !rc && i < request->input_count; i++) {
		if (!strcmp(request->inputs[i], "-"))
			return gt_err_set(
			    err, GT_ENOTSUP, "labelled texts are read from files, not from '-'");
		rc = read_path(l, request->inputs[i], err);
	}
	return rc;
}

/* ---- classes ---- */

static int fail_label(const struct row *row, const char *fault, struct gt_err *err)
{
	gt_err_set(err, GT_EFORMAT, "the label %s", fault);
	return gt_err_prefix(err, "'%s'", row->name);
}

/* Whole numbers are classes themselves, but for the ignored one. */
static int take_numbers(struct labelled *l, struct gt_err *err)
{
	const struct gt_data_request *request = l->request;
	int *classes = &l->source.info.form.classes;

	for (size_t i = 0; i < l->count; i++) {
		json_int_t number = json_integer_value(l->rows[i].label);

		if (request->ignores && number == request->ignored)
			continue;
		if (number < 0 || number >= MAX_CLASSES)
			return fail_label(&l->rows[i], "is not a class from 0 to 65535", err);
		l->rows[i].class = (int32_t)number;
		*classes = (int)number >= *classes ? (int)number + 1 : *classes;
	}
	return 0;
}

static int compare_words(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Words are the classes 0, 1, ... in the order of their bytes. */
static int take_words(struct labelled *l, struct gt_err *err)
{
	struct gt_source *s = &l->source;
	const char **words = gt_calloc(l->count, sizeof(*words), err), **names;
	size_t count = 0;

	if (!words)
		return GT_ENOMEM;
	for (size_t i = 0; i < l->count; i++)
		words[i] = json_string_value(l->rows[i].label);
	qsort(words, l->count, sizeof(*words), compare_words);
	for (size_t i = 0; i < l->count; i++)
		if (!count || strcmp(words[count - 1], words[i]))
			words[count++] = words[i];
	names =
	    count <= MAX_CLASSES ? gt_arena_alloc(&s->names, count * sizeof(*names), err) : NULL;
	if (count > MAX_CLASSES)
		gt_err_set(
		    err, GT_EFORMAT, "%zu different labels, more than %d", count, MAX_CLASSES);
	for (size_t i = 0; names && i < count; i++)
		if (!(names[i] = gt_arena_strdup(&s->names, words[i], err)))
			names = NULL;
	free(words);
	if (!names)
		return err->code;
	for (size_t i = 0; i < l->count; i++) {
		const char *word = json_string_value(l->rows[i].label);
		const char **found = bsearch(&word, names, count, sizeof(*names), compare_words);

		l->rows[i].class = (int32_t)(found - names);
	}
	s->class_names = (const char *const *)names;
	s->info.form.classes = (int)count;
	return 0;
}

static int take_classes(struct labelled *l, struct gt_err *err)
{
	bool words = json_is_string(l->rows[0].label);
	int rc;

	if (l->source.unlabelled) {
		l->source.info.form.classes = l->request->form.classes;
		return 0;
	}
	for (size_t i = 0; i < l->count; i++)
		if (json_is_string(l->rows[i].label) != words)
			return fail_label(&l->rows[i],
			    words ? "is a number, but that of the first row is a word"
			          : "is a word, but that of the first row is a number",
			    err);
	rc = words ? take_words(l, err) : take_numbers(l, err);
	drop_labels(l);
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
		gt_err_set(err, GT_EINVAL, "labelled texts are for a network that takes tokens");
		return gt_err_hint(err,
		    "such as an exported network (.pt2) with the inputs input_ids and "
		    "attention_mask");
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

/* Set the tokens of a sample at most: those that the network takes, or those in training; else
 * those of the setting. *fixed: samples have no fewer. */
static int choose_block(
    struct labelled *l, const struct gt_spec *spec, bool *fixed, struct gt_err *err)
{
	const struct gt_data_description *like = l->request->like;
	const struct gt_sample_field *ids = find_ids(l->request);
	int64_t block = DEFAULT_BLOCK;
	int known = ids->open ? 0 : ids->shape[0];
	int rc = gt_spec_integer(spec, "block", 1, MAX_BLOCK, &block, err);

	if (!known && like && like->form.field_count)
		known = like->form.fields[0].shape[0];
	if (!rc && known && gt_spec_value(spec, "block") && block != known)
		return gt_err_set(err, GT_EINVAL, "block=%lld, but the network takes %d tokens",
		    (long long)block, known);
	*fixed = known;
	l->most = known ? known : (int)block;
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

static int keep_text(const char **out, struct labelled *l, const char *text, struct gt_err *err)
{
	*out = gt_arena_strdup(&l->source.names, text, err);
	return *out ? 0 : GT_ENOMEM;
}

static int note_rows(struct labelled *l, int longest, struct gt_err *err)
{
	const char *what = l->source.texts[1] ? "pairs of texts" : "texts";
	struct gt_data_info *info = &l->source.info;
	char count[GT_TEXT_SIZE], text[200];
	size_t cut = 0;
	int rc;

	for (size_t i = 0; i < l->count; i++)
		cut += l->rows[i].cut;
	snprintf(text, sizeof(text), "%s %s of at most %d tokens, with special tokens",
	    gt_text_count(count, (double)l->count), what, longest);
	rc = keep_text(&info->interpretation, l, text, err);
	if (rc || !cut || info->note)
		return rc;
	snprintf(
	    text, sizeof(text), "cut after %d tokens: %zu of %zu %s", l->most, cut, l->count, what);
	return keep_text(&info->note, l, text, err);
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
	if (!rc)
		rc = take_classes(l, err);
	return rc ? rc : note_rows(l, longest, err);
}

/* ---- opening ---- */

/* Set *out to the value of a setting; to `initial`, which may be NULL, if it is not given. */
static int keep_name(struct labelled *l, const char **out, const struct gt_spec *spec,
    const char *key, const char *initial, struct gt_err *err)
{
	const char *given = gt_spec_value(spec, key);

	*out = given || initial ? gt_arena_strdup(&l->source.names, given ? given : initial, err)
	                        : NULL;
	return *out || (!given && !initial) ? 0 : GT_ENOMEM;
}

/* The members of a row have the names of the training by default, and are as many. */
static int choose_members(struct labelled *l, const struct gt_spec *spec, struct gt_err *err)
{
	const struct gt_data_description *like = l->request->like;
	const bool known = like && like->texts[0];
	const char **texts = l->source.texts;
	int rc = keep_name(l, &texts[0], spec, "text", known ? like->texts[0] : "text", err);

	if (!rc)
		rc = keep_name(l, &texts[1], spec, "second", known ? like->texts[1] : NULL, err);
	if (!rc && known && texts[1] && !like->texts[1])
		rc = gt_err_set(err, GT_EINVAL,
		    "second=%s, but the model was trained on rows with one text", texts[1]);
	return rc ? rc : keep_name(l, &l->label, spec, "label", "label", err);
}

static int open_tokenizer(struct labelled *l, const struct gt_spec *spec, struct gt_err *err)
{
	enum gt_tokenizer_level level = GT_LEVEL_CHAR;
	int rc = gt_tokenizer_choose(&l->tok, &level, &l->source, spec, l->request, err);

	if (!rc && (!l->tok || !gt_tokenizer_bpe(l->tok))) {
		gt_err_set(err, GT_EINVAL, "labelled texts need a tokenizer of subwords");
		return gt_err_hint(err, "tokenizer=DIR: a folder with tokenizer.json");
	}
	return rc ? rc
	          : gt_bpe_template_read(
	                &l->template, gt_tokenizer_bpe(l->tok), l->source.texts[1] != NULL, err);
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
	{ "label", "NAME", "label", "the member with the class: a word or a whole number" },
	{ "block", "N", "the longest row, at most 512",
	    "tokens of a sample, with special tokens; longer texts are cut" },
	{ "tokenizer", "PATH", "that of the run", "a tokenizer.json, or a folder with one" }, { 0 }
};

static const char *const input_keys[] = { "text", "second", "tokenizer", NULL };

const struct gt_source_kind gt_labelled_kind = {
	.form = { .name = "labelled",
	    .path = "FILE|FOLDER|PATTERN",
	    .summary = "texts in JSON lines, each with a class, for networks that take tokens",
	    .settings = settings,
	    .example = "labelled:reviews.jsonl,tokenizer=model" },
	.input_keys = input_keys,
	.open = open_labelled,
};
