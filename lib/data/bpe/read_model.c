/* read_model.c - the model of a tokenizer.json: its vocabulary and merges; and the added tokens. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/text.h"
#include "lib/data/bpe/inside.h"

/* ---- the vocabulary ---- */

int gt_bpe_find_added_size(int *size, const json_t *added, struct gt_err *err)
{
	json_t *token;
	size_t i;

	json_array_foreach(added, i, token)
	{
		json_int_t id = json_integer_value(json_object_get(token, "id"));

		if (id < 0 || id >= GT_BPE_MAX_TOKENS)
			return gt_err_set(err, GT_EFORMAT,
			    "the id of added token %zu is not a number from 0 to %d", i,
			    GT_BPE_MAX_TOKENS - 1);
		*size = id >= *size ? (int)id + 1 : *size;
	}
	return 0;
}

static int find_size(int *size, const json_t *vocab, const json_t *added, struct gt_err *err)
{
	const char *key;
	json_t *value;
	size_t n;

	*size = 0;
	json_object_keylen_foreach((json_t *)vocab, key, n, value)
	{
		json_int_t id = json_integer_value(value);

		if (!json_is_integer(value) || id < 0 || id >= GT_BPE_MAX_TOKENS)
			return gt_err_set(err, GT_EFORMAT,
			    "the id of token '%.80s' is not a number from 0 to %d", key,
			    GT_BPE_MAX_TOKENS - 1);
		if (n > GT_BPE_MAX_TOKEN)
			return gt_err_set(
			    err, GT_EFORMAT, "a token has more than %d bytes", GT_BPE_MAX_TOKEN);
		*size = id >= *size ? (int)id + 1 : *size;
	}
	if (gt_bpe_find_added_size(size, added, err))
		return err->code;
	return *size ? 0 : gt_err_set(err, GT_EFORMAT, "the vocabulary is empty");
}

int gt_bpe_read_vocab(
    struct gt_bpe *bpe, const json_t *vocab, const json_t *added, struct gt_err *err)
{
	const char *key;
	json_t *value;
	size_t n;
	int size = 0, rc;

	if (!json_is_object(vocab))
		return gt_err_set(err, GT_EFORMAT, "'model': 'vocab' must be an object");
	rc = find_size(&size, vocab, added, err);
	if (!rc)
		rc = gt_bpe_vocab_init(&bpe->vocab, size, err);
	if (rc)
		return rc;
	json_object_keylen_foreach((json_t *)vocab, key, n, value)
	{
		char own[GT_BPE_MAX_TOKEN];
		size_t size_own = bpe->hides_nul ? gt_bpe_show_nul(own, key, n) : n;

		rc = gt_bpe_vocab_add(&bpe->vocab, (int32_t)json_integer_value(value),
		    bpe->hides_nul ? own : key, size_own, err);
		if (rc)
			return rc;
	}
	bpe->model_size = (int)json_object_size(vocab);
	return 0;
}

/* ---- merges ---- */

/* The two tokens of a merge: "a b", or ["a", "b"]. */
static bool take_apart(const json_t *merge, struct gt_bpe_string *a, struct gt_bpe_string *b)
{
	const char *text = json_string_value(merge);
	const json_t *left = json_array_get(merge, 0), *right = json_array_get(merge, 1);
	size_t n = json_string_length(merge);
	const char *space = text ? memchr(text, ' ', n) : NULL;

	if (json_array_size(merge) == 2 && json_is_string(left) && json_is_string(right)) {
		*a = (struct gt_bpe_string){ (const unsigned char *)json_string_value(left),
			(uint32_t)json_string_length(left) };
		*b = (struct gt_bpe_string){ (const unsigned char *)json_string_value(right),
			(uint32_t)json_string_length(right) };
		return true;
	}
	if (!space || memchr(space + 1, ' ', n - (size_t)(space - text) - 1))
		return false;
	*a = (struct gt_bpe_string){ (const unsigned char *)text, (uint32_t)(space - text) };
	*b = (struct gt_bpe_string){ (const unsigned char *)space + 1, (uint32_t)(n - a->n - 1) };
	return true;
}

static int read_merge(struct gt_bpe *bpe, const json_t *json, size_t rank, struct gt_err *err)
{
	const struct gt_bpe_vocab *v = &bpe->vocab;
	unsigned char both[2 * GT_BPE_MAX_TOKEN];
	struct gt_bpe_string a, b;
	int32_t left, right, id = -1;

	if (!take_apart(json, &a, &b))
		return gt_err_set(err, GT_EFORMAT, "merge %zu is not two tokens", rank);
	left = gt_bpe_vocab_find(v, a.p, a.n);
	right = gt_bpe_vocab_find(v, b.p, b.n);
	if (left >= 0 && right >= 0) {
		memcpy(both, a.p, a.n);
		memcpy(both + a.n, b.p, b.n);
		id = gt_bpe_vocab_find(v, both, a.n + b.n);
	}
	if (id < 0)
		return gt_err_set(err, GT_EFORMAT,
		    "merge %zu, of '%.*s' and '%.*s', is of a token that the vocabulary lacks",
		    rank, a.n > 60 ? 60 : (int)a.n, (const char *)a.p, b.n > 60 ? 60 : (int)b.n,
		    (const char *)b.p);
	gt_bpe_merges_add(&bpe->vocab, &(struct gt_bpe_merge){ (uint32_t)left, (uint32_t)right,
	                                   (uint32_t)rank, (uint32_t)id });
	return 0;
}

static int read_merges(struct gt_bpe *bpe, const json_t *merges, struct gt_err *err)
{
	size_t i, count = json_array_size(merges);
	json_t *merge;
	int rc = 0;

	if (!json_is_array(merges) || count > GT_BPE_MAX_TOKENS)
		return gt_err_set(err, GT_EFORMAT,
		    "'model': 'merges' must be a list of at most %d pairs", GT_BPE_MAX_TOKENS);
	rc = gt_bpe_merges_init(&bpe->vocab, count, err);
	json_array_foreach(merges, i, merge)
	{
		if (!rc)
			rc = read_merge(bpe, merge, i, err);
	}
	return rc;
}

/* ---- other fields ---- */

/* Fields that the reference has and this one does without: null, or values without effect. */
static int check_unused(const json_t *model, struct gt_err *err)
{
	static const char *const empty[] = { "continuing_subword_prefix", "end_of_word_suffix" };
	const json_t *dropout = json_object_get(model, "dropout");

	if (dropout && !json_is_null(dropout) && json_number_value(dropout) != 0)
		return gt_err_set(err, GT_ENOTSUP, "'model': 'dropout' is not supported");
	for (size_t i = 0; i < 2; i++) {
		const json_t *value = json_object_get(model, empty[i]);

		if (value && !json_is_null(value) &&
		    strcmp(json_string_value(value) ?: "-", "") != 0)
			return gt_err_set(
			    err, GT_ENOTSUP, "'model': '%s' is not supported", empty[i]);
	}
	return 0;
}

int gt_bpe_read_unk(struct gt_bpe *bpe, const json_t *model, struct gt_err *err)
{
	const json_t *unk = json_object_get(model, "unk_token");

	bpe->unk = -1;
	if (!unk || json_is_null(unk))
		return 0;
	if (json_is_string(unk))
		bpe->unk = gt_bpe_vocab_find(&bpe->vocab,
		    (const unsigned char *)json_string_value(unk), json_string_length(unk));
	if (bpe->unk < 0)
		return gt_err_set(
		    err, GT_EFORMAT, "'model': 'unk_token' is not a token of the vocabulary");
	return 0;
}

static int read_bpe(
    struct gt_bpe *bpe, const json_t *model, const json_t *added, struct gt_err *err)
{
	int rc = gt_bpe_check_keys(model, "model",
	    "type dropout unk_token continuing_subword_prefix end_of_word_suffix fuse_unk "
	    "byte_fallback ignore_merges vocab merges",
	    err);

	if (!rc)
		rc = check_unused(model, err);
	if (!rc)
		rc = gt_bpe_read_bool(&bpe->fuse_unk, model, "fuse_unk", false, "model", err);
	if (!rc)
		rc = gt_bpe_read_bool(
		    &bpe->byte_fallback, model, "byte_fallback", false, "model", err);
	if (!rc)
		rc = gt_bpe_read_bool(
		    &bpe->ignore_merges, model, "ignore_merges", false, "model", err);
	if (!rc)
		rc = gt_bpe_read_vocab(bpe, json_object_get(model, "vocab"), added, err);
	if (!rc)
		rc = read_merges(bpe, json_object_get(model, "merges"), err);
	bpe->word = gt_bpe_word_of_merges;
	return rc ? rc : gt_bpe_read_unk(bpe, model, err);
}

/* Older files of the package lack the type of BPE. */
int gt_bpe_read_model(struct gt_bpe *bpe, const json_t *json, struct gt_err *err)
{
	static const struct {
		const char *type;
		int (*read)(struct gt_bpe *bpe, const json_t *model, const json_t *added,
		    struct gt_err *err);
	} models[] = {
		{ "BPE", read_bpe },
		{ "WordPiece", gt_bpe_read_wordpiece },
		{ "Unigram", gt_bpe_read_unigram },
	};
	const json_t *model = json_object_get(json, "model");
	const char *type = json_object_get(model, "type") ? gt_bpe_type(model) : "BPE";

	if (!json_is_object(model))
		return gt_err_set(err, GT_EFORMAT, "'model' must be an object");
	for (size_t i = 0; i < sizeof(models) / sizeof(*models); i++)
		if (!strcmp(models[i].type, type))
			return models[i].read(
			    bpe, model, json_object_get(json, "added_tokens"), err);
	return gt_bpe_unsupported(model, "model", err);
}

/* ---- added tokens ---- */

/* The id that the reference gives the next token that the model lacks, whatever the file says. */
static int32_t next_id(const struct gt_bpe *bpe, int32_t highest)
{
	return highest >= bpe->model_size ? highest + 1 : bpe->model_size;
}

static int check_id(struct gt_bpe *bpe, const json_t *token, const char *text, size_t n,
    int32_t *highest, struct gt_err *err)
{
	int32_t id = (int32_t)json_integer_value(json_object_get(token, "id"));
	int32_t known = gt_bpe_vocab_find(&bpe->vocab, (const unsigned char *)text, n);
	int32_t wanted = known >= 0 ? known : next_id(bpe, *highest);

	if (id != wanted)
		return gt_err_set(err, GT_EFORMAT,
		    "the added token '%.60s' has the id %d, but would be given %d", text, (int)id,
		    (int)wanted);
	*highest = id > *highest ? id : *highest;
	return known >= 0 ? 0 : gt_bpe_vocab_add(&bpe->vocab, id, text, n, err);
}

static int read_added(struct gt_bpe *bpe, const json_t *token, int32_t *highest, struct gt_err *err)
{
	struct gt_bpe_added *out = &bpe->added.tokens[bpe->added.count];
	const json_t *content = json_object_get(token, "content");
	size_t n = json_string_length(content);
	bool single_word, special;
	int rc = gt_bpe_check_keys(
	    token, "added_tokens", "id content single_word lstrip rstrip normalized special", err);

	if (!rc && (!n || n > GT_BPE_MAX_TOKEN || !json_is_integer(json_object_get(token, "id"))))
		rc = gt_err_set(err, GT_EFORMAT,
		    "'added_tokens': a token without id, or without a content of 1 to %d bytes",
		    GT_BPE_MAX_TOKEN);
	if (!rc)
		rc = gt_bpe_read_bool(
		    &single_word, token, "single_word", false, "added_tokens", err);
	if (!rc && single_word)
		rc = gt_err_set(err, GT_ENOTSUP, "'added_tokens': 'single_word' is not supported");
	if (!rc)
		rc = gt_bpe_read_bool(&out->left, token, "lstrip", false, "added_tokens", err);
	if (!rc)
		rc = gt_bpe_read_bool(&out->right, token, "rstrip", false, "added_tokens", err);
	if (!rc)
		rc = gt_bpe_read_bool(&special, token, "special", false, "added_tokens", err);
	if (!rc)
		rc = gt_bpe_read_bool(
		    &out->normalized, token, "normalized", !special, "added_tokens", err);
	if (!rc)
		rc = check_id(bpe, token, json_string_value(content), n, highest, err);
	if (rc)
		return rc;
	out->id = (int32_t)json_integer_value(json_object_get(token, "id"));
	out->text = bpe->vocab.tokens[out->id];
	out->place = bpe->added.count++;
	return 0;
}

/* The tokens are sorted later, when it is known how the normalizers change them. */
int gt_bpe_read_added(struct gt_bpe *bpe, const json_t *json, struct gt_err *err)
{
	const json_t *list = json_object_get(json, "added_tokens");
	int32_t highest = -1;
	json_t *token;
	size_t i;
	int rc = 0;

	if (list && !json_is_null(list) && !json_is_array(list))
		return gt_err_set(err, GT_EFORMAT, "'added_tokens' must be a list");
	bpe->added.tokens = gt_calloc(json_array_size(list), sizeof(*bpe->added.tokens), err);
	if (!bpe->added.tokens)
		return GT_ENOMEM;
	json_array_foreach(list, i, token)
	{
		if (!rc)
			rc = read_added(bpe, token, &highest, err);
	}
	return rc;
}
