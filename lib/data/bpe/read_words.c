/* read_words.c - the pre_tokenizer of a tokenizer.json: a row for each kind. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/text.h"
#include "lib/data/bpe/inside.h"

static const char place[] = "pre_tokenizer"; /* in messages */

/* ---- stages ---- */

/* Return the new stage, borrowed; NULL with err set if there are too many. */
static struct gt_bpe_stage *add_stage(
    struct gt_bpe *bpe, enum gt_bpe_stage_kind kind, struct gt_err *err)
{
	struct gt_bpe_stage *stage = &bpe->stages[bpe->stage_count];

	if (bpe->stage_count == GT_BPE_MAX_STAGES) {
		gt_err_set(
		    err, GT_ENOTSUP, "'pre_tokenizer': more than %d stages", GT_BPE_MAX_STAGES);
		return NULL;
	}
	bpe->stage_count++;
	*stage = (struct gt_bpe_stage){ .kind = kind };
	return stage;
}

/* A stage that cuts by a pattern of this program. */
static int add_split(
    struct gt_bpe *bpe, const char *pattern, enum gt_bpe_behavior behavior, struct gt_err *err)
{
	struct gt_bpe_stage *stage = add_stage(bpe, GT_BPE_SPLIT, err);

	if (!stage)
		return err->code;
	stage->behavior = behavior;
	return gt_bpe_pattern_open_perl(&stage->pattern, pattern, err);
}

static int read_behavior(enum gt_bpe_behavior *out, const json_t *json, struct gt_err *err)
{
	static const char *const names[] = { [GT_BPE_ISOLATED] = "Isolated",
		[GT_BPE_REMOVED] = "Removed",
		[GT_BPE_PREVIOUS] = "MergedWithPrevious",
		[GT_BPE_NEXT] = "MergedWithNext",
		[GT_BPE_CONTIGUOUS] = "Contiguous" };
	const char *name = json_string_value(json_object_get(json, "behavior"));

	for (size_t i = 0; name && i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(name, names[i])) {
			*out = (enum gt_bpe_behavior)i;
			return 0;
		}
	return gt_err_set(err, GT_ENOTSUP,
	    "'pre_tokenizer': the behavior '%.40s' of %.40s is not supported", name ? name : "",
	    gt_bpe_type(json));
}

/* ---- kinds with patterns of their own ---- */

/* Characters of words in the syntax of Rust, in which the package is written. */
#define WORD_CHARS "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200C}\\x{200D}"

static const char spaces[] = "[" GT_BPE_SPACES "]";
static const char punctuation[] = "[!-/:-@\\[-`{-~\\p{P}]";

static int read_byte_level(struct gt_bpe *bpe, const json_t *json, struct gt_err *err)
{
	bool prefix, words, unused;
	int rc = gt_bpe_read_bool(&prefix, json, "add_prefix_space", true, place, err);

	if (!rc)
		rc = gt_bpe_read_bool(&words, json, "use_regex", true, place, err);
	if (!rc) /* offsets are not used */
		rc = gt_bpe_read_bool(&unused, json, "trim_offsets", true, place, err);
	if (!rc && prefix && !add_stage(bpe, GT_BPE_SPACE, err))
		return err->code;
	if (!rc && words)
		rc = add_split(bpe, GT_BPE_GPT2_WORDS, GT_BPE_ISOLATED, err);
	return rc ? rc : add_stage(bpe, GT_BPE_LETTERS, err) ? 0 : err->code;
}

static int read_whitespace(struct gt_bpe *bpe, const json_t *json, struct gt_err *err)
{
	int rc = add_split(
	    bpe, "[" WORD_CHARS "]+|[^" WORD_CHARS GT_BPE_SPACES "]+", GT_BPE_REMOVED, err);

	(void)json;
	if (!rc)
		bpe->stages[bpe->stage_count - 1].invert = true;
	return rc;
}

static int read_whitespace_split(struct gt_bpe *bpe, const json_t *json, struct gt_err *err)
{
	(void)json;
	return add_split(bpe, spaces, GT_BPE_REMOVED, err);
}

static int read_punctuation(struct gt_bpe *bpe, const json_t *json, struct gt_err *err)
{
	enum gt_bpe_behavior behavior = GT_BPE_ISOLATED;
	int rc = json_object_get(json, "behavior") ? read_behavior(&behavior, json, err) : 0;

	return rc ? rc : add_split(bpe, punctuation, behavior, err);
}

static int read_bert(struct gt_bpe *bpe, const json_t *json, struct gt_err *err)
{
	int rc = read_whitespace_split(bpe, json, err);

	return rc ? rc : add_split(bpe, punctuation, GT_BPE_ISOLATED, err);
}

static int read_digits(struct gt_bpe *bpe, const json_t *json, struct gt_err *err)
{
	bool each;
	int rc = gt_bpe_read_bool(&each, json, "individual_digits", false, place, err);

	return rc ? rc : add_split(bpe, "\\p{N}", each ? GT_BPE_ISOLATED : GT_BPE_CONTIGUOUS, err);
}

/* ---- Split ---- */

static int read_pattern(struct gt_bpe_stage *stage, const json_t *pattern, struct gt_err *err)
{
	const json_t *regex = json_object_get(pattern, "Regex");
	const json_t *literal = json_object_get(pattern, "String");
	size_t n = json_string_length(literal);
	uint32_t code;
	int rc;

	if (json_object_size(pattern) != 1 || (!json_is_string(regex) && !n))
		return gt_err_set(err, GT_EFORMAT,
		    "'pre_tokenizer': the pattern of Split is neither {\"String\": ...} nor "
		    "{\"Regex\": ...}");
	if (regex)
		rc = gt_bpe_pattern_open(
		    &stage->pattern, json_string_value(regex), json_string_length(regex), err);
	else
		rc = gt_bpe_pattern_open_literal(
		    &stage->pattern, json_string_value(literal), n, err);
	if (literal &&
	    (size_t)gt_text_utf8((const unsigned char *)json_string_value(literal), n, &code) == n)
		stage->literal = code;
	return rc ? gt_err_prefix(err, "'pre_tokenizer'") : 0;
}

static int read_split(struct gt_bpe *bpe, const json_t *json, struct gt_err *err)
{
	struct gt_bpe_stage *stage = add_stage(bpe, GT_BPE_SPLIT, err);
	int rc = stage ? 0 : err->code;

	if (!rc)
		rc = gt_bpe_read_bool(&stage->invert, json, "invert", false, place, err);
	if (!rc)
		rc = read_behavior(&stage->behavior, json, err);
	return rc ? rc : read_pattern(stage, json_object_get(json, "pattern"), err);
}

/* ---- Metaspace ---- */

/* Older files have add_prefix_space, newer ones prepend_scheme. */
static int read_scheme(
    enum gt_bpe_prefix *out, const json_t *json, const char *where, struct gt_err *err)
{
	static const char *const names[] = { "never", "always", "first" };
	const json_t *scheme = json_object_get(json, "prepend_scheme");
	const char *word = json_string_value(scheme);
	bool add;
	int rc = gt_bpe_read_bool(&add, json, "add_prefix_space", true, where, err), found = -1;

	if (rc)
		return rc;
	*out = add ? GT_BPE_PREFIX_ALWAYS : GT_BPE_PREFIX_NEVER;
	if (!scheme)
		return 0;
	for (int i = 0; i < 3; i++)
		if (word && !strcmp(word, names[i]))
			found = i;
	if (found < 0 || (!add && found != GT_BPE_PREFIX_NEVER))
		return gt_err_set(err, GT_ENOTSUP,
		    "'%s': the prepend_scheme '%.40s' is not supported here", where,
		    word ? word : "");
	*out = (enum gt_bpe_prefix)found;
	return 0;
}

int gt_bpe_read_metaspace(uint32_t *mark, enum gt_bpe_prefix *when, bool *split, const json_t *json,
    const char *where, struct gt_err *err)
{
	int rc = gt_bpe_check_keys(
	    json, where, "type replacement str_rep add_prefix_space prepend_scheme split", err);

	if (!rc)
		rc = gt_bpe_read_char(mark, json_object_get(json, "replacement"), where, err);
	if (!rc)
		rc = read_scheme(when, json, where, err);
	return rc ? rc : gt_bpe_read_bool(split, json, "split", true, where, err);
}

static int read_metaspace(struct gt_bpe *bpe, const json_t *json, struct gt_err *err)
{
	struct gt_bpe_stage *stage = add_stage(bpe, GT_BPE_MARK, err);
	unsigned char text[4];
	uint32_t mark;
	bool split;
	int rc = stage ? 0 : err->code;

	if (!rc)
		rc = gt_bpe_read_metaspace(&stage->mark, &stage->when, &split, json, place, err);
	if (rc || !split)
		return rc;
	mark = stage->mark;
	stage = add_stage(bpe, GT_BPE_SPLIT, err);
	if (!stage)
		return err->code;
	stage->behavior = GT_BPE_NEXT;
	stage->literal = mark;
	return gt_bpe_pattern_open_literal(
	    &stage->pattern, (const char *)text, (size_t)gt_text_put_utf8(text, mark), err);
}

/* ---- the table ---- */

static const struct {
	const char *type, *keys;
	int (*read)(struct gt_bpe *bpe, const json_t *json, struct gt_err *err);
} kinds[] = {
	{ "ByteLevel", "type add_prefix_space trim_offsets use_regex", read_byte_level },
	{ "Split", "type pattern behavior invert", read_split },
	{ "Metaspace", "type replacement str_rep add_prefix_space prepend_scheme split",
	    read_metaspace },
	{ "Whitespace", "type", read_whitespace },
	{ "WhitespaceSplit", "type", read_whitespace_split },
	{ "Punctuation", "type behavior", read_punctuation },
	{ "Digits", "type individual_digits", read_digits },
	{ "BertPreTokenizer", "type", read_bert },
};

int gt_bpe_read_pre_tokenizer(struct gt_bpe *bpe, const json_t *json, struct gt_err *err)
{
	const json_t *list = json_object_get(json, "pretokenizers");
	json_t *part;
	size_t i;
	int rc;

	if (!json || json_is_null(json))
		return 0;
	for (i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		if (strcmp(kinds[i].type, gt_bpe_type(json)) != 0)
			continue;
		rc = gt_bpe_check_keys(json, place, kinds[i].keys, err);
		return rc ? rc : kinds[i].read(bpe, json, err);
	}
	if (strcmp(gt_bpe_type(json), "Sequence") != 0)
		return gt_bpe_unsupported(json, place, err);
	rc = gt_bpe_check_keys(json, place, "type pretokenizers", err);
	if (!rc && !json_is_array(list))
		rc = gt_err_set(err, GT_EFORMAT, "'pre_tokenizer': a Sequence has no list");
	json_array_foreach(list, i, part)
	{
		if (!rc)
			rc = gt_bpe_read_pre_tokenizer(bpe, part, err);
	}
	return rc;
}

/* ---- simpler, and faster, with the same words ---- */

/* Remove all stages but the first `count`. */
static void drop_stages(struct gt_bpe *bpe, int count)
{
	while (bpe->stage_count > count)
		gt_bpe_pattern_close(bpe->stages[--bpe->stage_count].pattern);
}

/* Merges of bytes need no letters: the symbols of bytes are found by a table. */
static void simplify_letters(struct gt_bpe *bpe)
{
	int last = bpe->stage_count - 1;
	bool letters = last >= 0 && bpe->stages[last].kind == GT_BPE_LETTERS;

	if (!letters || bpe->word != gt_bpe_word_of_merges)
		return;
	/* An unknown letter has its own symbols, of its bytes. */
	for (int b = 0; b < 256 && bpe->byte_fallback; b++) {
		unsigned char text[4];
		int n = gt_text_put_utf8(text, bpe->letters[b]);

		if (gt_bpe_vocab_find(&bpe->vocab, text, (size_t)n) < 0)
			return;
	}
	bpe->bytes = true;
	drop_stages(bpe, last);
}

/* A lone Metaspace is done as the text is read (chars.c). */
static void simplify_metaspace(struct gt_bpe *bpe)
{
	const struct gt_bpe_stage *mark = &bpe->stages[0];
	bool split = bpe->stage_count == 2 && bpe->stages[1].kind == GT_BPE_SPLIT &&
	             bpe->stages[1].behavior == GT_BPE_NEXT && !bpe->stages[1].invert;
	struct gt_bpe_chars *c = &bpe->chars;

	if (!bpe->stage_count || mark->kind != GT_BPE_MARK ||
	    (bpe->stage_count > 1 && !(split && bpe->stages[1].literal == mark->mark)))
		return;
	c->from = ' ';
	c->to_size = gt_text_put_utf8(c->to, mark->mark);
	c->when = mark->when;
	c->prefix_size = c->when == GT_BPE_PREFIX_NEVER ? 0 : c->to_size;
	memcpy(c->prefix, c->to, sizeof(c->prefix));
	c->unless_there = true;
	c->split = split ? mark->mark : 0;
	drop_stages(bpe, 0);
}

/* A Split by a character that the normalizer replaces never cuts. */
static void simplify_splits(struct gt_bpe *bpe)
{
	for (int i = 0; i < bpe->stage_count; i++) {
		const struct gt_bpe_stage *stage = &bpe->stages[i];

		if (stage->kind != GT_BPE_SPLIT || stage->invert || !stage->literal ||
		    !gt_bpe_normalizers_remove(&bpe->normalizers, stage->literal))
			return;
	}
	drop_stages(bpe, 0);
}

/* Whether some token that is found in normalized text does not look there as in the file. */
static int find_changed_tokens(const struct gt_bpe *bpe, bool *found, struct gt_err *err)
{
	*found = false;
	for (size_t i = 0; i < bpe->added.count && !*found; i++) {
		const struct gt_bpe_added *a = &bpe->added.tokens[i];
		unsigned char *text;
		size_t size;

		if (!a->normalized)
			continue;
		if (gt_bpe_normalize(&bpe->normalizers, &text, &size, a->text.p, a->text.n, err))
			return err->code;
		*found = text != NULL;
		free(text);
	}
	return 0;
}

/* Prepend and Replace of a character are done as the text is read (chars.c). */
static int simplify_normalizers(struct gt_bpe *bpe, struct gt_err *err)
{
	const struct gt_bpe_normalizer *prepend, *replace;
	struct gt_bpe_chars *c = &bpe->chars;
	bool changed;

	bpe->normalizes = bpe->normalizers.count > 0;
	if (bpe->bytes || bpe->stage_count || c->from ||
	    !gt_bpe_normalizers_are_simple(&bpe->normalizers, &prepend, &replace) ||
	    (prepend && prepend->to_size > GT_BPE_MAX_REPLACED) ||
	    (replace && replace->to_size > GT_BPE_MAX_REPLACED))
		return 0;
	if (find_changed_tokens(bpe, &changed, err))
		return err->code;
	if (changed)
		return 0;
	bpe->normalizes = false;
	if (prepend) {
		memcpy(c->prefix, prepend->to, prepend->to_size);
		c->prefix_size = (int)prepend->to_size;
		c->when = GT_BPE_PREFIX_ALWAYS;
	}
	if (replace) {
		gt_text_utf8((const unsigned char *)replace->from, replace->from_size, &c->from);
		memcpy(c->to, replace->to, replace->to_size);
		c->to_size = (int)replace->to_size;
	}
	return 0;
}

int gt_bpe_simplify_words(struct gt_bpe *bpe, struct gt_err *err)
{
	simplify_letters(bpe);
	simplify_metaspace(bpe);
	simplify_splits(bpe);
	return simplify_normalizers(bpe, err);
}
