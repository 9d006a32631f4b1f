/* normalize.c - the normalizers of a tokenizer.json: a row for each kind. */
#include "lib/data/bpe/normalize.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/base64.h"
#include "lib/base/text.h"
#include "lib/base/thread_pool.h"
#include "lib/data/bpe/inside.h"

typedef int read_fn(struct gt_bpe_normalizers *all, struct gt_bpe_normalizer *n, const json_t *json,
    struct gt_err *err);
typedef int apply_fn(const struct gt_bpe_normalizer *n, struct gt_bpe_buffer *out,
    const unsigned char *p, size_t size, struct gt_err *err);
/* A function that appends what becomes of one character, of these bytes. */
typedef int char_fn(
    struct gt_bpe_buffer *out, uint32_t code, const unsigned char *p, size_t n, struct gt_err *err);

struct gt_bpe_normalizer_kind {
	const char *type, *keys;
	read_fn *read; /* NULL: the type has no settings */
	apply_fn *apply;
	/* The normalizer changes a text in front of an ASCII character and from there on as if they
	 * were two texts. */
	bool local;
	bool keeps_ascii;      /* the normalizer changes no text of ASCII characters */
	enum gt_bpe_form form; /* apply_form() */
	char_fn *put;          /* apply_chars() */
};

static const char where[] = "normalizer";

/* ---- their settings ---- */

static int copy_string(const char **out, size_t *size, struct gt_bpe_normalizers *all,
    const json_t *json, struct gt_err *err)
{
	size_t n = json_string_length(json);
	char *copy = gt_arena_alloc(&all->arena, n + 1, err);

	if (!copy)
		return GT_ENOMEM;
	memcpy(copy, json_string_value(json), n);
	*out = copy;
	*size = n;
	return 0;
}

static int read_prepend(struct gt_bpe_normalizers *all, struct gt_bpe_normalizer *n,
    const json_t *json, struct gt_err *err)
{
	const json_t *text = json_object_get(json, "prepend");

	if (!json_is_string(text))
		return gt_err_set(err, GT_EFORMAT, "'normalizer': Prepend has no 'prepend'");
	return copy_string(&n->to, &n->to_size, all, text, err);
}

static int read_replace(struct gt_bpe_normalizers *all, struct gt_bpe_normalizer *n,
    const json_t *json, struct gt_err *err)
{
	const json_t *pattern = json_object_get(json, "pattern");
	const json_t *literal = json_object_get(pattern, "String");
	const json_t *regex = json_object_get(pattern, "Regex");
	const json_t *content = json_object_get(json, "content");
	int rc;

	if (json_object_size(pattern) != 1 || !json_is_string(content) ||
	    (!json_string_length(literal) && !json_is_string(regex)))
		return gt_err_set(err, GT_EFORMAT,
		    "'normalizer': Replace needs a 'pattern', {\"String\": ...} or "
		    "{\"Regex\": ...}, and a 'content'");
	rc = copy_string(&n->to, &n->to_size, all, content, err);
	if (!rc && regex) {
		rc = gt_bpe_pattern_open(
		    &n->pattern, json_string_value(regex), json_string_length(regex), err);
		return rc ? gt_err_prefix(err, "'normalizer'") : 0;
	}
	return rc ? rc : copy_string(&n->from, &n->from_size, all, literal, err);
}

static int read_strip(struct gt_bpe_normalizers *all, struct gt_bpe_normalizer *n,
    const json_t *json, struct gt_err *err)
{
	int rc = gt_bpe_read_bool(&n->left, json, "strip_left", true, where, err);

	(void)all;
	return rc ? rc : gt_bpe_read_bool(&n->right, json, "strip_right", true, where, err);
}

/* The table is bytes as base64. */
static int read_precompiled(struct gt_bpe_normalizers *all, struct gt_bpe_normalizer *n,
    const json_t *json, struct gt_err *err)
{
	const json_t *text = json_object_get(json, "precompiled_charsmap");
	struct gt_buf bytes = { 0 };
	const char *kept = NULL;
	size_t size;
	int rc = GT_EFORMAT;

	if (json_is_string(text))
		rc = gt_base64_decode(
		    &bytes, json_string_value(text), json_string_length(text), err);
	if (rc == GT_EFORMAT)
		gt_err_set(err, GT_EFORMAT, "'normalizer': the precompiled_charsmap is not base64");
	size = bytes.length;
	if (!rc)
		kept = gt_buf_keep(&bytes, &all->arena, err);
	gt_buf_release(&bytes);
	if (!kept)
		return err->code;
	return gt_bpe_charsmap_init(&n->charsmap, (const unsigned char *)kept, size, err);
}

/* Without strip_accents, accents are removed where letters become lower case. */
static int read_bert(struct gt_bpe_normalizers *all, struct gt_bpe_normalizer *n,
    const json_t *json, struct gt_err *err)
{
	int rc = gt_bpe_read_bool(&n->clean, json, "clean_text", true, where, err);

	(void)all;
	if (!rc)
		rc = gt_bpe_read_bool(&n->chinese, json, "handle_chinese_chars", true, where, err);
	if (!rc)
		rc = gt_bpe_read_bool(&n->lower, json, "lowercase", true, where, err);
	return rc ? rc : gt_bpe_read_bool(&n->accents, json, "strip_accents", n->lower, where, err);
}

/* ---- their work ---- */

static int apply_form(const struct gt_bpe_normalizer *n, struct gt_bpe_buffer *out,
    const unsigned char *p, size_t size, struct gt_err *err)
{
	return gt_bpe_put_form(out, n->kind->form, p, size, err);
}

static int map_chars(struct gt_bpe_buffer *out, const unsigned char *p, size_t size, char_fn *put,
    struct gt_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < size && !rc;) {
		uint32_t code = p[i];
		int length = code < 0x80 ? 1 : gt_text_utf8(p + i, size - i, &code);

		if (!length)
			return gt_err_set(err, GT_EFORMAT, "the text changed while it was read");
		rc = put(out, code, p + i, (size_t)length, err);
		i += (size_t)length;
	}
	return rc;
}

static int put_lower(
    struct gt_bpe_buffer *out, uint32_t code, const unsigned char *p, size_t n, struct gt_err *err)
{
	unsigned char c = *p;

	if (code >= 0x80)
		return gt_bpe_put_lower(out, code, err);
	c = c >= 'A' && c <= 'Z' ? (unsigned char)(c | 0x20) : c;
	return gt_bpe_buffer_put(out, &c, n, err);
}

static int put_unless_mark(
    struct gt_bpe_buffer *out, uint32_t code, const unsigned char *p, size_t n, struct gt_err *err)
{
	return code >= 0x300 && gt_bpe_is_mark(code) ? 0 : gt_bpe_buffer_put(out, p, n, err);
}

static int put_unless_nonspacing(
    struct gt_bpe_buffer *out, uint32_t code, const unsigned char *p, size_t n, struct gt_err *err)
{
	return code >= 0x300 && gt_bpe_is_nonspacing(code) ? 0 : gt_bpe_buffer_put(out, p, n, err);
}

/* White space becomes a space, but next line (U+0085), vertical tab and form feed are control
 * characters. */
static int put_clean(
    struct gt_bpe_buffer *out, uint32_t code, const unsigned char *p, size_t n, struct gt_err *err)
{
	if (code == '\t' || code == '\n' || code == '\r')
		return gt_bpe_buffer_put(out, (const unsigned char *)" ", 1, err);
	if (code == 0xFFFD || gt_bpe_is_control(code))
		return 0;
	if (gt_bpe_is_space(code))
		return gt_bpe_buffer_put(out, (const unsigned char *)" ", 1, err);
	return gt_bpe_buffer_put(out, p, n, err);
}

static bool is_chinese(uint32_t c)
{
	static const uint32_t ranges[][2] = { { 0x3400, 0x4DBF }, { 0x4E00, 0x9FFF },
		{ 0xF900, 0xFAFF }, { 0x20000, 0x2A6DF }, { 0x2A700, 0x2B81F },
		{ 0x2B920, 0x2CEAF }, { 0x2F800, 0x2FA1F } };

	for (size_t i = 0; i < sizeof(ranges) / sizeof(*ranges); i++)
		if (c >= ranges[i][0] && c <= ranges[i][1])
			return true;
	return false;
}

static int put_apart(
    struct gt_bpe_buffer *out, uint32_t code, const unsigned char *p, size_t n, struct gt_err *err)
{
	static const unsigned char space[] = " ";
	bool apart = is_chinese(code);
	int rc = apart ? gt_bpe_buffer_put(out, space, 1, err) : 0;

	if (!rc)
		rc = gt_bpe_buffer_put(out, p, n, err);
	return !rc && apart ? gt_bpe_buffer_put(out, space, 1, err) : rc;
}

static int apply_chars(const struct gt_bpe_normalizer *n, struct gt_bpe_buffer *out,
    const unsigned char *p, size_t size, struct gt_err *err)
{
	return map_chars(out, p, size, n->kind->put, err);
}

/* Return whether each step of a BertNormalizer turns a character into one that it leaves alone. */
static bool is_plain(unsigned char c)
{
	return (c >= 0x20 && c < 0x7F) || c == '\t' || c == '\n' || c == '\r';
}

/* Append what becomes of plain characters. */
static int put_plain(const struct gt_bpe_normalizer *n, struct gt_bpe_buffer *out,
    const unsigned char *p, size_t size, struct gt_err *err)
{
	const size_t begin = out->n;
	int rc = gt_bpe_buffer_put(out, p, size, err);

	for (size_t i = begin; !rc && i < out->n; i++) {
		unsigned char c = out->p[i];

		c = n->clean && c < 0x20 ? ' ' : c;
		out->p[i] = n->lower && c >= 'A' && c <= 'Z' ? (unsigned char)(c | 0x20) : c;
	}
	return rc;
}

/* Append what becomes of other characters. `a` and `b` are buffers that keep their memory. */
static int put_others(const struct gt_bpe_normalizer *n, struct gt_bpe_buffer *out,
    struct gt_bpe_buffer *a, struct gt_bpe_buffer *b, const unsigned char *p, size_t size,
    struct gt_err *err)
{
	char_fn *const steps[] = { n->clean ? put_clean : NULL, n->chinese ? put_apart : NULL,
		n->accents ? put_unless_nonspacing : NULL, n->lower ? put_lower : NULL };
	int rc;

	a->n = 0;
	rc = gt_bpe_buffer_put(a, p, size, err);
	for (int i = 0; i < 4 && !rc; i++) {
		struct gt_bpe_buffer now;

		if (!steps[i])
			continue;
		if (i == 2) { /* accents are characters of their own once letters are decomposed */
			b->n = 0;
			rc = gt_bpe_put_form(b, GT_BPE_NFD, a->p, a->n, err);
			now = *a, *a = *b, *b = now;
		}
		b->n = 0;
		if (!rc)
			rc = map_chars(b, a->p, a->n, steps[i], err);
		now = *a, *a = *b, *b = now;
	}
	return rc ? rc : gt_bpe_buffer_put(out, a->p, a->n, err);
}

/* Decomposition leaves plain characters alone, and orders only the marks between them. */
static int apply_bert(const struct gt_bpe_normalizer *n, struct gt_bpe_buffer *out,
    const unsigned char *p, size_t size, struct gt_err *err)
{
	struct gt_bpe_buffer a = { 0 }, b = { 0 };
	int rc = 0;

	for (size_t i = 0, end; i < size && !rc; i = end) {
		const bool plain = is_plain(p[i]);

		end = i + 1;
		while (end < size && is_plain(p[end]) == plain)
			end++;
		rc = plain ? put_plain(n, out, p + i, end - i, err)
		           : put_others(n, out, &a, &b, p + i, end - i, err);
	}
	free(a.p);
	free(b.p);
	return rc;
}

static int apply_precompiled(const struct gt_bpe_normalizer *n, struct gt_bpe_buffer *out,
    const unsigned char *p, size_t size, struct gt_err *err)
{
	return gt_bpe_charsmap_put(&n->charsmap, out, p, size, err);
}

static int apply_prepend(const struct gt_bpe_normalizer *n, struct gt_bpe_buffer *out,
    const unsigned char *p, size_t size, struct gt_err *err)
{
	int rc = size ? gt_bpe_buffer_put(out, (const unsigned char *)n->to, n->to_size, err) : 0;

	return rc ? rc : gt_bpe_buffer_put(out, p, size, err);
}

static int apply_strip(const struct gt_bpe_normalizer *n, struct gt_bpe_buffer *out,
    const unsigned char *p, size_t size, struct gt_err *err)
{
	size_t from = n->left ? gt_bpe_space_after(p, 0, size) : 0;
	size_t to = n->right ? size - gt_bpe_space_before(p, from, size) : size;

	return gt_bpe_buffer_put(out, p + from, to - from, err);
}

static int replace_matches(const struct gt_bpe_normalizer *n, struct gt_bpe_matcher *m,
    struct gt_bpe_buffer *out, const unsigned char *p, size_t size, struct gt_err *err)
{
	int rc = 0;

	for (size_t at = 0, start, end; at < size && !rc; at = end) {
		rc = gt_bpe_match(n->pattern, m, p, size, at, &start, &end, err);
		if (!rc)
			rc = gt_bpe_buffer_put(out, p + at, start - at, err);
		if (!rc && end > start)
			rc = gt_bpe_buffer_put(out, (const unsigned char *)n->to, n->to_size, err);
	}
	return rc;
}

static int apply_replace(const struct gt_bpe_normalizer *n, struct gt_bpe_buffer *out,
    const unsigned char *p, size_t size, struct gt_err *err)
{
	const unsigned char *end = p + size, *found;
	struct gt_bpe_matcher *m;
	int rc = 0;

	if (n->pattern) {
		rc = gt_bpe_matcher_open(&m, err);
		if (!rc)
			rc = replace_matches(n, m, out, p, size, err);
		gt_bpe_matcher_close(m);
		return rc;
	}
	for (; !rc && (found = memmem(p, (size_t)(end - p), n->from, n->from_size));
	     p = found + n->from_size) {
		rc = gt_bpe_buffer_put(out, p, (size_t)(found - p), err);
		if (!rc)
			rc = gt_bpe_buffer_put(out, (const unsigned char *)n->to, n->to_size, err);
	}
	return rc ? rc : gt_bpe_buffer_put(out, p, (size_t)(end - p), err);
}

/* ---- the table ---- */

static const struct gt_bpe_normalizer_kind kinds[] = {
	{ .type = "NFC",
	    .keys = "type",
	    .apply = apply_form,
	    .form = GT_BPE_NFC,
	    .local = true,
	    .keeps_ascii = true },
	{ .type = "NFD",
	    .keys = "type",
	    .apply = apply_form,
	    .form = GT_BPE_NFD,
	    .local = true,
	    .keeps_ascii = true },
	{ .type = "NFKC",
	    .keys = "type",
	    .apply = apply_form,
	    .form = GT_BPE_NFKC,
	    .local = true,
	    .keeps_ascii = true },
	{ .type = "NFKD",
	    .keys = "type",
	    .apply = apply_form,
	    .form = GT_BPE_NFKD,
	    .local = true,
	    .keeps_ascii = true },
	{ .type = "Lowercase",
	    .keys = "type",
	    .apply = apply_chars,
	    .put = put_lower,
	    .local = true },
	{ .type = "StripAccents",
	    .keys = "type",
	    .apply = apply_chars,
	    .put = put_unless_mark,
	    .local = true,
	    .keeps_ascii = true },
	{ .type = "Strip",
	    .keys = "type strip_left strip_right",
	    .read = read_strip,
	    .apply = apply_strip },
	{ .type = "Prepend", .keys = "type prepend", .read = read_prepend, .apply = apply_prepend },
	{ .type = "Replace",
	    .keys = "type pattern content",
	    .read = read_replace,
	    .apply = apply_replace },
	{ .type = "Precompiled",
	    .keys = "type precompiled_charsmap",
	    .read = read_precompiled,
	    .apply = apply_precompiled,
	    .local = true },
	{ .type = "BertNormalizer",
	    .keys = "type clean_text handle_chinese_chars strip_accents lowercase",
	    .read = read_bert,
	    .apply = apply_bert,
	    .local = true },
};

enum { KINDS = sizeof(kinds) / sizeof(*kinds) };

static int read_one(struct gt_bpe_normalizers *all, const json_t *json, struct gt_err *err)
{
	struct gt_bpe_normalizer *n = &all->list[all->count];
	int rc;

	if (all->count == GT_BPE_MAX_NORMALIZERS)
		return gt_err_set(err, GT_ENOTSUP, "'normalizer': more than %d normalizers",
		    GT_BPE_MAX_NORMALIZERS);
	for (int i = 0; i < KINDS; i++) {
		if (strcmp(kinds[i].type, gt_bpe_type(json)) != 0)
			continue;
		rc = gt_bpe_check_keys(json, where, kinds[i].keys, err);
		all->count++; /* what it owns is released from here on */
		n->kind = &kinds[i];
		return rc || !kinds[i].read ? rc : kinds[i].read(all, n, json, err);
	}
	return gt_bpe_unsupported(json, where, err);
}

int gt_bpe_normalizers_read(struct gt_bpe_normalizers *n, const json_t *json, struct gt_err *err)
{
	const json_t *list = json_object_get(json, "normalizers");
	json_t *part;
	size_t i;
	int rc;

	if (!json || json_is_null(json))
		return 0;
	if (strcmp(gt_bpe_type(json), "Sequence") != 0)
		return read_one(n, json, err);
	rc = gt_bpe_check_keys(json, where, "type normalizers", err);
	if (!rc && !json_is_array(list))
		rc = gt_err_set(err, GT_EFORMAT, "'normalizer': a Sequence has no list");
	json_array_foreach(list, i, part)
	{
		if (!rc)
			rc = gt_bpe_normalizers_read(n, part, err);
	}
	return rc;
}

void gt_bpe_normalizers_release(struct gt_bpe_normalizers *n)
{
	for (int i = 0; i < n->count; i++)
		gt_bpe_pattern_close(n->list[i].pattern);
	gt_arena_release(&n->arena);
}

static bool is_one_char(const char *text, size_t n, uint32_t *code)
{
	return n && (size_t)gt_text_utf8((const unsigned char *)text, n, code) == n;
}

static bool replaces_char(const struct gt_bpe_normalizer *n, uint32_t *code)
{
	return n->kind->apply == apply_replace && !n->pattern &&
	       is_one_char(n->from, n->from_size, code);
}

bool gt_bpe_normalizers_are_simple(const struct gt_bpe_normalizers *n,
    const struct gt_bpe_normalizer **prepend, const struct gt_bpe_normalizer **replace)
{
	const struct gt_bpe_normalizer *at = n->list, *end = n->list + n->count;
	uint32_t code;

	*prepend = *replace = NULL;
	if (at < end && at->kind->apply == apply_prepend)
		*prepend = at++;
	if (at < end && replaces_char(at, &code) && code && at->to_size)
		*replace = at++;
	if (*prepend && *replace &&
	    memmem((*prepend)->to, (*prepend)->to_size, (*replace)->from, (*replace)->from_size))
		return false;
	return at == end;
}

bool gt_bpe_normalizers_remove(const struct gt_bpe_normalizers *n, uint32_t code)
{
	const struct gt_bpe_normalizer *last = n->count ? &n->list[n->count - 1] : NULL;
	uint32_t from;

	return last && replaces_char(last, &from) && from == code &&
	       !memmem(last->to, last->to_size, last->from, last->from_size);
}

/* ---- texts ---- */

static bool is_ascii(const unsigned char *p, size_t n)
{
	size_t i = 0;

	for (; i + 8 <= n; i += 8) {
		uint64_t word;

		memcpy(&word, p + i, 8);
		if (word & 0x8080808080808080u)
			return false;
	}
	for (; i < n; i++)
		if (p[i] >= 0x80)
			return false;
	return true;
}

/* Replacements of replacements could make any number of bytes of a short text. Normalization forms
 * make at most 11 bytes of one. */
enum { LEAST_LIMIT = 1 << 16, MOST_GROWTH = 64 };

int gt_bpe_normalize(const struct gt_bpe_normalizers *list, unsigned char **out, size_t *size,
    const unsigned char *p, size_t n, struct gt_err *err)
{
	struct gt_bpe_buffer now = { .limit = LEAST_LIMIT + MOST_GROWTH * n }, next = now;
	const unsigned char *at = p;
	bool ascii = is_ascii(p, n);
	int rc = 0;

	*size = n;
	*out = NULL;
	for (int i = 0; i < list->count && !rc; i++) {
		const struct gt_bpe_normalizer *one = &list->list[i];
		struct gt_bpe_buffer before = now;

		if (ascii && one->kind->keeps_ascii)
			continue;
		next.n = 0;
		rc = gt_bpe_buffer_put(&next, NULL, 0, err);
		if (!rc)
			rc = one->kind->apply(one, &next, at, *size, err);
		now = next;
		next = before;
		at = now.p;
		*size = now.n;
		ascii = !rc && is_ascii(at, *size);
	}
	free(next.p);
	if (!rc && at != p && (*size != n || memcmp(at, p, n) != 0)) {
		*out = now.p;
		return 0;
	}
	free(now.p);
	*size = n;
	return rc;
}

/* ---- many threads ---- */

enum { BLOCK = 1 << 18 };

struct job {
	const struct gt_bpe_normalizers *list;
	struct gt_bpe_normalized *blocks;
};

static int run_block(void *self, size_t i, struct gt_err *err)
{
	struct job *job = self;
	struct gt_bpe_normalized *b = &job->blocks[i];

	return gt_bpe_normalize(job->list, &b->out, &b->size, b->p, b->n, err);
}

/* The first place at or after `at` that is the end of the text, or in front of an ASCII character
 * that no normalizer removes. */
static size_t find_block_end(const unsigned char *p, size_t n, size_t at)
{
	while (at < n && (p[at] < 0x20 || p[at] >= 0x7F))
		at++;
	return at < n ? at : n;
}

/* Divide a text into blocks; blocks NULL: only count them. */
static size_t divide(
    struct gt_bpe_normalized *blocks, const struct gt_bpe_normalized *text, bool local)
{
	size_t count = 0, at = 0;

	do {
		size_t end = local ? find_block_end(text->p, text->n, at + BLOCK) : text->n;

		if (blocks)
			blocks[count] =
			    (struct gt_bpe_normalized){ .p = text->p + at, .n = end - at };
		at = end;
		count++;
	} while (at < text->n);
	return count;
}

/* Put the blocks of a text together, and free them. */
static int join(struct gt_bpe_normalized *text, struct gt_bpe_normalized *blocks, size_t count,
    struct gt_err *err)
{
	bool changed = false;
	size_t at = 0;
	int rc = 0;

	text->size = 0;
	text->out = count == 1 ? blocks[0].out : NULL;
	for (size_t i = 0; i < count; i++) {
		changed |= blocks[i].out != NULL;
		text->size += blocks[i].size;
	}
	if (count == 1 || !changed)
		return 0;
	text->out = gt_calloc(text->size, 1, err);
	rc = text->out ? 0 : GT_ENOMEM;
	for (size_t i = 0; i < count; at += blocks[i++].size) {
		if (!rc && blocks[i].size)
			memcpy(text->out + at, blocks[i].out ? blocks[i].out : blocks[i].p,
			    blocks[i].size);
		free(blocks[i].out);
	}
	return rc;
}

static bool is_local(const struct gt_bpe_normalizers *list)
{
	uint32_t code;

	for (int i = 0; i < list->count; i++)
		if (!list->list[i].kind->local &&
		    !(i + 1 == list->count && replaces_char(&list->list[i], &code)))
			return false;
	return true;
}

int gt_bpe_normalize_all(const struct gt_bpe_normalizers *list, struct gt_bpe_normalized *texts,
    size_t count, struct gt_err *err)
{
	bool local = is_local(list);
	struct job job = { .list = list };
	size_t blocks = 0, at = 0;
	int rc;

	for (size_t i = 0; i < count; i++)
		blocks += divide(NULL, &texts[i], local);
	job.blocks = gt_calloc(blocks, sizeof(*job.blocks), err);
	if (!job.blocks)
		return GT_ENOMEM;
	for (size_t i = 0; i < count; i++)
		at += divide(job.blocks + at, &texts[i], local);
	rc = gt_thread_pool_run(0, blocks, run_block, &job, err);
	at = 0;
	for (size_t i = 0; i < count; i++) {
		size_t own = divide(NULL, &texts[i], local);

		if (rc)
			for (size_t k = 0; k < own; k++)
				free(job.blocks[at + k].out);
		else
			rc = join(&texts[i], job.blocks + at, own, err);
		at += own;
	}
	free(job.blocks);
	return rc;
}
