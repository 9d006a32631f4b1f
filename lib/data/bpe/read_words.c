/* read_words.c - the normalizer and the pre_tokenizer of a tokenizer.json. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/text.h"
#include "lib/data/bpe/inside.h"

/* How the package's ByteLevel matches words. */
static const char gpt2_words[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+"
                                 "|\\s+(?!\\S)|\\s+";

/* ---- bytes: stages ---- */

static int add_stage(struct gt_bpe *bpe, const char *pattern, size_t size, bool drop_matches,
    bool drop_gaps, struct gt_err *err)
{
	struct gt_bpe_stage *stage = &bpe->stages[bpe->stage_count];

	if (bpe->stage_count == GT_BPE_MAX_STAGES)
		return gt_err_set(
		    err, GT_ENOTSUP, "'pre_tokenizer': more than %d stages", GT_BPE_MAX_STAGES);
	*stage = (struct gt_bpe_stage){ .drop_matches = drop_matches, .drop_gaps = drop_gaps };
	bpe->stage_count++;
	return pattern ? gt_bpe_pattern_open(&stage->pattern, pattern, size, err) : 0;
}

static int read_byte_level(struct gt_bpe *bpe, const json_t *json, struct gt_err *err)
{
	static const char where[] = "pre_tokenizer";
	bool prefix, words, unused;
	int rc =
	    gt_bpe_check_keys(json, where, "type add_prefix_space trim_offsets use_regex", err);

	if (!rc)
		rc = gt_bpe_read_bool(&prefix, json, "add_prefix_space", true, where, err);
	if (!rc)
		rc = gt_bpe_read_bool(&words, json, "use_regex", true, where, err);
	if (!rc) /* offsets are not used */
		rc = gt_bpe_read_bool(&unused, json, "trim_offsets", true, where, err);
	if (!rc && prefix)
		rc = add_stage(bpe, NULL, 0, false, false, err);
	if (!rc && words)
		rc = add_stage(bpe, gpt2_words, sizeof(gpt2_words) - 1, false, false, err);
	bpe->bytes = true;
	return rc;
}

static int read_split(struct gt_bpe *bpe, const json_t *json, struct gt_err *err)
{
	const json_t *pattern = json_object_get(json, "pattern");
	const json_t *regex = json_object_get(pattern, "Regex");
	const char *how = json_string_value(json_object_get(json, "behavior"));
	bool invert, removed = how && !strcmp(how, "Removed");
	int rc = gt_bpe_check_keys(json, "pre_tokenizer", "type pattern behavior invert", err);

	if (!rc)
		rc = gt_bpe_read_bool(&invert, json, "invert", false, "pre_tokenizer", err);
	if (rc)
		return rc;
	if (!json_is_string(regex) || json_object_size(pattern) != 1)
		return gt_err_set(err, GT_ENOTSUP,
		    "'pre_tokenizer': Split is supported with a pattern {\"Regex\": ...} alone");
	if (!removed && (!how || strcmp(how, "Isolated") != 0))
		return gt_err_set(err, GT_ENOTSUP,
		    "'pre_tokenizer': the behavior '%.40s' of Split is not supported",
		    how ? how : "");
	rc = add_stage(bpe, json_string_value(regex), json_string_length(regex), removed && !invert,
	    removed && invert, err);
	return rc ? gt_err_prefix(err, "'pre_tokenizer'") : 0;
}

static int read_digits(struct gt_bpe *bpe, const json_t *json, struct gt_err *err)
{
	bool each;
	int rc = gt_bpe_check_keys(json, "pre_tokenizer", "type individual_digits", err);

	if (!rc)
		rc =
		    gt_bpe_read_bool(&each, json, "individual_digits", false, "pre_tokenizer", err);
	if (rc)
		return rc;
	return each ? add_stage(bpe, "\\p{N}", 5, false, false, err)
	            : add_stage(bpe, "\\p{N}+", 6, false, false, err);
}

/* ---- characters: Metaspace ---- */

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
	struct gt_bpe_chars *c = &bpe->chars;
	uint32_t mark;
	bool split;
	int rc;

	if (c->normalizer)
		return gt_err_set(err, GT_ENOTSUP,
		    "'pre_tokenizer': Metaspace behind a normalizer is not supported");
	rc = gt_bpe_read_metaspace(&mark, &c->when, &split, json, "pre_tokenizer", err);
	if (rc)
		return rc;
	c->from = ' ';
	c->to_size = gt_text_put_utf8(c->to, mark);
	c->prefix_size = c->when == GT_BPE_PREFIX_NEVER ? 0 : c->to_size;
	memcpy(c->prefix, c->to, sizeof(c->prefix));
	c->unless_there = true;
	c->split = split ? mark : 0;
	return 0;
}

/* ---- both ---- */

/* A Sequence's parts; ByteLevel is the last one. */
static int read_sequence(struct gt_bpe *bpe, const json_t *json, struct gt_err *err)
{
	const json_t *list = json_object_get(json, "pretokenizers"), *part;
	size_t n = json_array_size(list);
	int rc = gt_bpe_check_keys(json, "pre_tokenizer", "type pretokenizers", err);

	if (!rc && (!n || strcmp(gt_bpe_type(json_array_get(list, n - 1)), "ByteLevel") != 0))
		return gt_err_set(err, GT_ENOTSUP,
		    "'pre_tokenizer': a Sequence is supported only with ByteLevel at its end");
	for (size_t i = 0; i < n && !rc; i++) {
		part = json_array_get(list, i);
		if (!strcmp(gt_bpe_type(part), "Split"))
			rc = read_split(bpe, part, err);
		else if (!strcmp(gt_bpe_type(part), "Digits"))
			rc = read_digits(bpe, part, err);
		else if (!strcmp(gt_bpe_type(part), "ByteLevel") && i + 1 == n)
			rc = read_byte_level(bpe, part, err);
		else
			rc = gt_bpe_unsupported(part, "pre_tokenizer", err);
	}
	return rc;
}

int gt_bpe_read_pre_tokenizer(struct gt_bpe *bpe, const json_t *json, struct gt_err *err)
{
	int rc;

	if (!json || json_is_null(json))
		return 0;
	if (!strcmp(gt_bpe_type(json), "Metaspace"))
		return read_metaspace(bpe, json, err);
	if (!strcmp(gt_bpe_type(json), "ByteLevel"))
		rc = read_byte_level(bpe, json, err);
	else if (!strcmp(gt_bpe_type(json), "Sequence"))
		rc = read_sequence(bpe, json, err);
	else
		rc = gt_bpe_unsupported(json, "pre_tokenizer", err);
	if (!rc && bpe->chars.normalizer)
		rc =
		    gt_err_set(err, GT_ENOTSUP, "a 'normalizer' before ByteLevel is not supported");
	return rc;
}

/* ---- normalizers ---- */

static int read_prepend(struct gt_bpe *bpe, const json_t *json, struct gt_err *err)
{
	const json_t *text = json_object_get(json, "prepend");
	struct gt_bpe_chars *c = &bpe->chars;
	size_t n = json_string_length(text);
	int rc = gt_bpe_check_keys(json, "normalizer", "type prepend", err);

	if (rc)
		return rc;
	/* No program writes Prepend after Replace, or twice. */
	if (c->from || c->prefix_size || !n || n > GT_BPE_MAX_REPLACED)
		return gt_err_set(err, GT_ENOTSUP,
		    "'normalizer': Prepend is supported once, first, and with 1 to %d bytes",
		    GT_BPE_MAX_REPLACED);
	memcpy(c->prefix, json_string_value(text), n);
	c->prefix_size = (int)n;
	c->when = GT_BPE_PREFIX_ALWAYS;
	return 0;
}

static int read_replace(struct gt_bpe *bpe, const json_t *json, struct gt_err *err)
{
	const json_t *text = json_object_get(json, "content"), *literal;
	struct gt_bpe_chars *c = &bpe->chars;
	unsigned char from[4];
	size_t n = json_string_length(text);
	int rc = gt_bpe_check_keys(json, "normalizer", "type pattern content", err);

	if (rc)
		return rc;
	literal = gt_bpe_read_literal(json_object_get(json, "pattern"), "normalizer", err);
	if (!literal)
		return GT_ENOTSUP;
	if (c->from || !n || n > GT_BPE_MAX_REPLACED)
		return gt_err_set(err, GT_ENOTSUP,
		    "'normalizer': Replace is supported once, and with a content of 1 to %d bytes",
		    GT_BPE_MAX_REPLACED);
	rc = gt_bpe_read_char(&c->from, literal, "normalizer", err);
	if (rc)
		return rc;
	memcpy(c->to, json_string_value(text), n);
	c->to_size = (int)n;
	n = (size_t)gt_text_put_utf8(from, c->from);
	if (!c->from || memmem(c->prefix, (size_t)c->prefix_size, from, n))
		return gt_err_set(err, GT_ENOTSUP,
		    "'normalizer': Replace of a character that Prepend adds is not supported");
	return 0;
}

static int read_normalizer(struct gt_bpe *bpe, const json_t *json, struct gt_err *err)
{
	bpe->chars.normalizer = true;
	if (!strcmp(gt_bpe_type(json), "Prepend"))
		return read_prepend(bpe, json, err);
	if (!strcmp(gt_bpe_type(json), "Replace"))
		return read_replace(bpe, json, err);
	return gt_bpe_unsupported(json, "normalizer", err);
}

int gt_bpe_read_normalizer(struct gt_bpe *bpe, const json_t *json, struct gt_err *err)
{
	const json_t *list = json_object_get(json, "normalizers");
	json_t *part;
	size_t i;
	int rc;

	if (!json || json_is_null(json))
		return 0;
	if (strcmp(gt_bpe_type(json), "Sequence") != 0)
		return read_normalizer(bpe, json, err);
	rc = gt_bpe_check_keys(json, "normalizer", "type normalizers", err);
	json_array_foreach(list, i, part)
	{
		if (!rc)
			rc = read_normalizer(bpe, part, err);
	}
	return rc;
}
