/* task.c - published tests of language models: their documents, and the scores. */
#include "lib/train/task.h"

#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/file.h"
#include "lib/base/text.h"
#include "lib/train/task_text.h"

const char *const gt_task_words[] = { "none", "hellaswag", "lambada", "bits-per-byte", NULL };

/* Tokens whose last `scored` ones are scored, given those before them. */
struct request {
	int32_t *ids; /* [count] */
	int count, scored;
	double characters; /* of the continuation: an ending of HellaSwag */
};

/* A document: requests first .. first + count - 1. */
struct document {
	size_t first, count;
	int gold;            /* the right ending */
	double words, bytes; /* of a text */
};

struct gt_task {
	enum gt_task_kind kind;
	struct gt_task_tokens tokens;
	struct request *requests;
	size_t request_count, request_capacity;
	struct document *documents;
	size_t document_count, document_capacity;
	int32_t *inputs, *targets; /* [request_count, block] of gt_task_dataset() */
};

void gt_task_close(struct gt_task *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->request_count; i++)
		free(t->requests[i].ids);
	free(t->requests);
	free(t->documents);
	free(t->inputs);
	free(t->targets);
	free(t);
}

/* ---- requests ---- */

static int add_document(struct gt_task *t, const struct document *d, struct gt_err *err)
{
	int rc = gt_grow(
	    &t->documents, t->document_count, &t->document_capacity, sizeof(*t->documents), err);

	if (!rc)
		t->documents[t->document_count++] = *d;
	return rc;
}

/* Add a request for the last `scored` of ids[count], `before` those before them: NULL, or a token.
 * Of too many tokens the last ones stay, one more than the model reads: it is only a target. */
static int add_request(struct gt_task *t, const int32_t *before, const int32_t *ids, size_t count,
    size_t scored, double characters, struct gt_err *err)
{
	size_t most = (size_t)t->tokens.most + 1, extra;
	struct request *r;
	int rc = gt_grow(
	    &t->requests, t->request_count, &t->request_capacity, sizeof(*t->requests), err);

	if (rc)
		return rc;
	if (count > most) {
		ids += count - most;
		count = most;
	}
	extra = before && count < most;
	if (scored > count + extra - 1)
		scored = count + extra - 1;
	r = &t->requests[t->request_count];
	*r = (struct request){ .count = (int)(count + extra),
		.scored = (int)scored,
		.characters = characters,
		.ids = gt_calloc(count + extra, sizeof(*ids), err) };
	if (!r->ids)
		return GT_ENOMEM;
	t->request_count++;
	if (extra)
		r->ids[0] = *before;
	memcpy(r->ids + extra, ids, count * sizeof(*ids));
	return 0;
}

static int encode(const struct gt_task *t, const char *text, size_t size, int32_t **ids,
    size_t *count, struct gt_err *err)
{
	return gt_tokenizer_encode(t->tokens.tokenizer, text, size, ids, count, err);
}

/*
 * Add a request for a continuation of a context. Both are encoded as one text, and the tokens after
 * as many as the context alone has are the continuation's. White space at the end of the context
 * belongs to the continuation.
 */
static int add_pair(struct gt_task *t, const char *context, size_t context_size, const char *more,
    double characters, struct gt_err *err)
{
	size_t kept = gt_task_strip(context, context_size, NULL), all_count = 0, count = 0;
	int32_t *all = NULL, *ids = NULL;
	struct gt_buf whole = { 0 };
	int rc;

	gt_buf_add(&whole, context, context_size);
	gt_buf_puts(&whole, more);
	rc = gt_buf_check(&whole, err);
	if (!rc)
		rc = encode(t, gt_buf_text(&whole), whole.length, &all, &all_count, err);
	if (!rc && kept)
		rc = encode(t, context, kept, &ids, &count, err);
	if (!rc && all_count <= count)
		rc = gt_err_set(err, GT_EFORMAT, "a continuation has no tokens of its own");
	if (!rc && !count && t->tokens.first < 0)
		rc = gt_err_set(err, GT_EFORMAT,
		    "there is no text before the continuation, and the model has no token that "
		    "begins or ends texts");
	if (!rc)
		rc = add_request(t, count ? NULL : &t->tokens.first, all, all_count,
		    all_count - count, characters, err);
	gt_buf_release(&whole);
	free(all);
	free(ids);
	return rc;
}

/*
 * Add the requests of a whole text: each token is scored once, after as many others as the model
 * reads. With most = 4 and tokens 0 to 9, the model reads B 0 1 2, then 3 4 5 6, then 5 6 7 8, of
 * which only the last two predictions count.
 */
static int add_text(struct gt_task *t, const char *text, size_t size, struct gt_err *err)
{
	struct document d = { .first = t->request_count,
		.words = (double)gt_task_words_of(text, size),
		.bytes = (double)size };
	size_t most = (size_t)t->tokens.most, n = 0, done;
	const int32_t *first = t->tokens.first < 0 ? NULL : &t->tokens.first;
	int32_t *ids = NULL;
	int rc = encode(t, text, size, &ids, &n, err);

	done = n < most ? n : most;
	if (!rc && n < (first ? 1 : 2))
		rc = gt_err_set(err, GT_EFORMAT, "the text is too short");
	if (!rc)
		rc = add_request(t, first, ids, done, done - !first, 0, err);
	while (!rc && done < n) {
		size_t scored = n - done < most ? n - done : most, end = done + scored;

		rc = add_request(t, NULL, ids + end - most - 1, most + 1, scored, 0, err);
		done = end;
	}
	free(ids);
	d.count = t->request_count - d.first;
	return rc ? rc : add_document(t, &d, err);
}

/* ---- lines ---- */

static int get_text(
    const char **text, size_t *size, const json_t *line, const char *member, struct gt_err *err)
{
	const json_t *value = json_object_get(line, member);

	*text = json_string_value(value);
	*size = json_string_length(value);
	return *text ? 0 : gt_err_set(err, GT_EFORMAT, "no text '%s'", member);
}

/* "ACTIVITY: A B", cleaned. */
static int build_question(struct gt_buf *out, const json_t *line, struct gt_err *err)
{
	struct gt_buf raw = { 0 };
	const char *activity, *a, *b;
	size_t activity_size, a_size, b_size;
	int rc = get_text(&activity, &activity_size, line, "activity_label", err);

	if (!rc)
		rc = get_text(&a, &a_size, line, "ctx_a", err);
	if (!rc)
		rc = get_text(&b, &b_size, line, "ctx_b", err);
	if (rc)
		return rc;
	gt_buf_add(&raw, activity, activity_size);
	gt_buf_puts(&raw, ": ");
	gt_buf_add(&raw, a, a_size);
	gt_buf_puts(&raw, " ");
	gt_task_capitalize(&raw, b, b_size);
	gt_task_clean(out, gt_buf_text(&raw), raw.length);
	out->failed |= raw.failed;
	gt_buf_release(&raw);
	return gt_buf_check(out, err);
}

static int add_ending(
    struct gt_task *t, const struct gt_buf *question, const json_t *ending, struct gt_err *err)
{
	struct gt_buf clean = { 0 };
	int rc;

	if (!json_is_string(ending))
		return gt_err_set(err, GT_EFORMAT, "an ending is not a text");
	gt_buf_puts(&clean, " ");
	gt_task_clean(&clean, json_string_value(ending), json_string_length(ending));
	rc = gt_buf_check(&clean, err);
	if (!rc)
		rc = add_pair(t, gt_buf_text(question), question->length, gt_buf_text(&clean),
		    (double)gt_task_characters(clean.text + 1, clean.length - 1), err);
	gt_buf_release(&clean);
	return rc;
}

static int add_hellaswag(struct gt_task *t, const json_t *line, struct gt_err *err)
{
	const json_t *label = json_object_get(line, "label"), *ending;
	const json_t *endings = json_object_get(line, "endings");
	struct document d = { .first = t->request_count };
	struct gt_buf question = { 0 };
	int64_t gold = json_is_integer(label) ? json_integer_value(label) : -1;
	size_t i;
	int rc;

	if (json_is_string(label) && !gt_text_parse_int(&gold, json_string_value(label)))
		gold = -1;
	if (gold < 0 || gold >= (int64_t)json_array_size(endings))
		return gt_err_set(
		    err, GT_EFORMAT, "no 'label' that is the number of one of the 'endings'");
	rc = build_question(&question, line, err);
	json_array_foreach((json_t *)endings, i, ending) if (!rc) rc =
	    add_ending(t, &question, ending, err);
	gt_buf_release(&question);
	d.gold = (int)gold;
	d.count = t->request_count - d.first;
	return rc ? rc : add_document(t, &d, err);
}

/* The last word is what follows the last space. */
static int add_lambada(struct gt_task *t, const json_t *line, struct gt_err *err)
{
	struct document d = { .first = t->request_count, .count = 1 };
	struct gt_buf word = { 0 };
	const char *text, *space;
	size_t size, context;
	int rc = get_text(&text, &size, line, "text", err);

	if (rc)
		return rc;
	space = memrchr(text, ' ', size);
	context = space ? (size_t)(space - text) : 0;
	gt_buf_puts(&word, " ");
	gt_buf_puts(&word, space ? space + 1 : text);
	rc = gt_buf_check(&word, err);
	if (!rc)
		rc = add_pair(t, text, context, gt_buf_text(&word), 0, err);
	gt_buf_release(&word);
	return rc ? rc : add_document(t, &d, err);
}

/* The member is "text"; wikitext's is "page". */
static int add_text_line(struct gt_task *t, const json_t *line, struct gt_err *err)
{
	const char *text;
	size_t size;
	int rc = get_text(&text, &size, line, json_object_get(line, "text") ? "text" : "page", err);

	return rc ? rc : add_text(t, text, size, err);
}

static int add_line(struct gt_task *t, const char *text, size_t size, struct gt_err *err)
{
	static int (*const add[])(struct gt_task * t, const json_t *line,
	    struct gt_err *err) = { [GT_TASK_HELLASWAG] = add_hellaswag,
		[GT_TASK_LAMBADA] = add_lambada,
		[GT_TASK_BITS_PER_BYTE] = add_text_line };
	json_error_t error;
	json_t *line = json_loadb(text, size, 0, &error);
	int rc;

	if (!json_is_object(line))
		rc = gt_err_set(err, GT_EFORMAT, "not an object of JSON");
	else
		rc = add[t->kind](t, line, err);
	json_decref(line);
	return rc;
}

static int read_lines(struct gt_task *t, const struct gt_mapping *map, struct gt_err *err)
{
	const char *text = (const char *)map->data;
	size_t number = 0;

	for (size_t at = 0; at < map->size; number++) {
		const char *end = memchr(text + at, '\n', map->size - at);
		size_t size = end ? (size_t)(end - (text + at)) : map->size - at;

		if (gt_task_strip(text + at, size, NULL) && add_line(t, text + at, size, err))
			return gt_err_prefix(err, "line %zu", number + 1);
		at += size + 1;
	}
	return t->document_count ? 0 : gt_err_set(err, GT_EFORMAT, "the file has no lines");
}

int gt_task_open(struct gt_task **out, enum gt_task_kind kind, const char *path,
    const struct gt_task_tokens *tokens, struct gt_err *err)
{
	struct gt_task *t = gt_calloc(1, sizeof(*t), err);
	struct gt_mapping map;
	int rc = t ? gt_map(&map, path, err) : GT_ENOMEM;

	*out = NULL;
	if (!rc) {
		t->kind = kind;
		t->tokens = *tokens;
		rc = kind == GT_TASK_BITS_PER_BYTE && !gt_text_ends_with(path, ".jsonl")
		         ? add_text(t, (const char *)map.data, map.size, err)
		         : read_lines(t, &map, err);
		if (rc)
			gt_err_prefix(err, "'%s'", path);
		gt_unmap(&map);
	}
	if (rc)
		gt_task_close(t);
	else
		*out = t;
	return rc;
}

/* ---- samples ---- */

/* Sample i: the tokens of request i but for the last, and as targets those that are scored. */
static void fill_sample(struct gt_task *t, size_t i, int block)
{
	const struct request *r = &t->requests[i];
	int32_t *input = t->inputs + i * (size_t)block, *target = t->targets + i * (size_t)block;

	for (int k = 0; k < block; k++) {
		input[k] = k < r->count - 1 ? r->ids[k] : 0;
		target[k] = k < r->count - 1 && k >= r->count - 1 - r->scored ? r->ids[k + 1]
		                                                              : GT_DATA_IGNORE;
	}
}

int gt_task_dataset(struct gt_dataset **out, struct gt_task *t,
    const struct gt_data_request *request, struct gt_err *err)
{
	struct gt_data_request like = *request;
	struct gt_dataset *form = NULL;
	struct gt_batch batch = { .count = (int)t->request_count };
	int longest = 2, rc;

	if (t->request_count > INT_MAX)
		return gt_err_set(err, GT_ENOMEM, "too many texts");
	for (size_t i = 0; i < t->request_count; i++)
		if (t->requests[i].count > longest)
			longest = t->requests[i].count;
	if (!request->fixed_size)
		like.form.block = longest - 1;
	like.form.classes = gt_tokenizer_size(t->tokens.tokenizer);
	like.memory = batch.count;
	like.like = NULL;
	batch.input_bytes = (size_t)like.form.block * sizeof(int32_t);
	t->inputs = gt_calloc(t->request_count, batch.input_bytes, err);
	t->targets = gt_calloc(t->request_count, batch.input_bytes, err);
	if (!t->inputs || !t->targets)
		return GT_ENOMEM;
	for (size_t i = 0; i < t->request_count; i++)
		fill_sample(t, i, like.form.block);
	batch.input = t->inputs;
	batch.target = t->targets;
	rc = gt_dataset_open(&form, "memory", &like, err);
	if (!rc)
		rc = gt_dataset_of_batch(out, form, &batch, batch.count, err);
	gt_dataset_close(form);
	return rc;
}

/* ---- scores ---- */

/* The mean of ones and zeros, and its standard error: the deviation of a sample, over sqrt(n). */
static void add_share(struct gt_task_scores *out, const char *name, double sum)
{
	double n = (double)out->documents, mean = sum / n;

	out->scores[out->count++] =
	    (struct gt_task_score){ name, mean, n > 1 ? sqrt(mean * (1 - mean) / (n - 1)) : NAN };
}

static void add_score(struct gt_task_scores *out, const char *name, double value)
{
	out->scores[out->count++] = (struct gt_task_score){ name, value, NAN };
}

/* Return whether the right ending is the likeliest; of equal ones the first counts. */
static bool is_right(const struct gt_task *t, const struct document *d,
    const struct gt_batch_stats *stats, bool per_character)
{
	double best = 0;
	size_t likeliest = 0;

	for (size_t k = 0; k < d->count; k++) {
		double characters = t->requests[d->first + k].characters;
		double value = -stats[d->first + k].loss / (per_character ? characters : 1);

		if (!k || value > best) {
			best = value;
			likeliest = k;
		}
	}
	return likeliest == (size_t)d->gold;
}

static void measure_hellaswag(
    struct gt_task_scores *out, const struct gt_task *t, const struct gt_batch_stats *stats)
{
	double right = 0, right_per_character = 0;

	for (size_t i = 0; i < t->document_count; i++) {
		right += is_right(t, &t->documents[i], stats, false);
		right_per_character += is_right(t, &t->documents[i], stats, true);
	}
	add_share(out, "acc", right);
	add_share(out, "acc_norm", right_per_character);
}

static void measure_lambada(
    struct gt_task_scores *out, const struct gt_task *t, const struct gt_batch_stats *stats)
{
	double right = 0, loss = 0;

	for (size_t i = 0; i < t->document_count; i++) {
		loss += stats[i].loss;
		right += stats[i].top1 == stats[i].count; /* NOLINT: counts are whole numbers */
	}
	add_share(out, "acc", right);
	add_score(out, "perplexity", exp(loss / (double)t->document_count));
}

static void measure_text(
    struct gt_task_scores *out, const struct gt_task *t, const struct gt_batch_stats *stats)
{
	double loss = 0, words = 0, bytes = 0;

	for (size_t i = 0; i < t->request_count; i++)
		loss += stats[i].loss;
	for (size_t i = 0; i < t->document_count; i++) {
		words += t->documents[i].words;
		bytes += t->documents[i].bytes;
	}
	add_score(out, "bits_per_byte", loss / bytes / M_LN2);
	add_score(out, "byte_perplexity", exp(loss / bytes));
	add_score(out, "word_perplexity", exp(loss / words));
}

void gt_task_measure(
    struct gt_task_scores *out, const struct gt_task *t, const struct gt_batch_stats *stats)
{
	static void (*const measure[])(struct gt_task_scores *, const struct gt_task *,
	    const struct gt_batch_stats *) = { [GT_TASK_HELLASWAG] = measure_hellaswag,
		[GT_TASK_LAMBADA] = measure_lambada,
		[GT_TASK_BITS_PER_BYTE] = measure_text };

	*out = (struct gt_task_scores){ .documents = (int64_t)t->document_count };
	measure[t->kind](out, t, stats);
}
