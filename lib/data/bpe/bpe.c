/* bpe.c - a tokenizer of byte-pair encoding is opened, shared and closed. */
#include "lib/data/bpe/bpe.h"

#include <nettle/base16.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/buf.h"
#include "lib/base/file.h"
#include "lib/base/python_json.h"
#include "lib/base/text.h"
#include "lib/data/bpe/inside.h"
#include "lib/data/get/sets.h"

/* ---- the fields of tokenizer.json ---- */

/* The symbols of bytes: letters of the alphabet, or <0x00> to <0xFF>. */
static void find_byte_ids(struct gt_bpe *bpe)
{
	unsigned char text[8];

	bpe->all_bytes = true;
	for (int b = 0; b < 256; b++) {
		int n = snprintf((char *)text, sizeof(text), "<0x%02X>", b);

		if (bpe->bytes)
			n = gt_text_put_utf8(text, bpe->letters[b]);
		bpe->byte_ids[b] = gt_bpe_vocab_find(&bpe->vocab, text, (size_t)n);
		bpe->all_bytes &= bpe->byte_ids[b] >= 0;
	}
}

/* Tokens that are found in normalized text are normalized, too. */
static int normalize_added(struct gt_bpe *bpe, struct gt_err *err)
{
	for (size_t i = 0; i < bpe->added.count && bpe->normalizes; i++) {
		struct gt_bpe_added *a = &bpe->added.tokens[i];
		unsigned char *text = NULL, *copy;
		size_t size;
		int rc = 0;

		if (a->normalized)
			rc = gt_bpe_normalize(
			    &bpe->normalizers, &text, &size, a->text.p, a->text.n, err);
		if (rc)
			return rc;
		if (!text)
			continue;
		copy = gt_arena_alloc(&bpe->vocab.arena, size + 1, err);
		if (copy)
			memcpy(copy, text, size);
		free(text);
		if (!copy)
			return GT_ENOMEM;
		a->text = (struct gt_bpe_string){ copy, (uint32_t)size };
	}
	gt_bpe_added_sort(&bpe->added);
	return 0;
}

/* What a file says about batches of texts is of no use for one text. */
static bool is_set(const json_t *json, const char *key)
{
	const json_t *value = json_object_get(json, key);

	return value && !json_is_null(value);
}

/* The only version that there is; the library tokenizers reads no other, and files without one. */
static int check_version(const json_t *json, struct gt_err *err)
{
	const json_t *version = json_object_get(json, "version");
	const char *text = json_string_value(version);

	if (!version || (text && !strcmp(text, "1.0")))
		return 0;
	if (!text)
		return gt_err_set(err, GT_EFORMAT, "'version' must be a string");
	return gt_err_set(err, GT_ENOTSUP, "'version' is '%.60s': only 1.0 is supported", text);
}

int gt_bpe_read(struct gt_bpe *bpe, const json_t *json, struct gt_err *err)
{
	int rc = gt_bpe_check_keys(json, "tokenizer.json",
	    "version truncation padding added_tokens normalizer pre_tokenizer post_processor "
	    "decoder model",
	    err);

	for (int b = 0; b < 256; b++)
		bpe->letters[b] = gt_bpe_letter_of((unsigned char)b);
	if (!rc)
		rc = check_version(json, err);
	if (!rc)
		rc = gt_bpe_normalizers_read(
		    &bpe->normalizers, json_object_get(json, "normalizer"), err);
	if (!rc)
		rc = gt_bpe_read_pre_tokenizer(bpe, json_object_get(json, "pre_tokenizer"), err);
	if (!rc)
		rc = gt_bpe_read_post_processor(bpe, json_object_get(json, "post_processor"), err);
	if (!rc)
		rc = gt_bpe_read_model(bpe, json, err);
	if (!rc)
		rc = gt_bpe_read_added(bpe, json, err);
	if (!rc)
		rc = gt_bpe_simplify_words(bpe, err);
	if (!rc)
		rc = normalize_added(bpe, err);
	if (rc)
		return rc;
	bpe->cut_short = is_set(json, "truncation") || is_set(json, "padding");
	gt_bpe_choose_padding(bpe, json_object_get(json, "padding"));
	find_byte_ids(bpe);
	if (!bpe->bytes)
		rc = gt_bpe_chars_prepare(bpe, err);
	return rc ? rc : gt_bpe_read_decoder(bpe, json_object_get(json, "decoder"), err);
}

/* ---- opening ---- */

static void write_digest(struct gt_bpe *bpe)
{
	unsigned char sum[SHA256_DIGEST_SIZE];
	struct sha256_ctx sha;

	sha256_init(&sha);
	sha256_update(&sha, bpe->source_size, (const void *)bpe->source);
	sha256_digest(&sha, SHA256_DIGEST_SIZE, sum);
	base16_encode_update(bpe->digest, SHA256_DIGEST_SIZE, sum); /* the struct is zeroed */
}

static int check_commas(const char *text, size_t size, struct gt_err *err)
{
	size_t commas = 0;

	for (size_t i = 0; i < size; i++)
		commas += text[i] == ',';
	if (commas <= GT_BPE_MAX_COMMAS)
		return 0;
	return gt_err_set(err, GT_EFORMAT, "%zu commas, more than %d", commas, GT_BPE_MAX_COMMAS);
}

/* Sets *hides_nul if keys of the result stand for others (nul.c). */
static int parse_json(
    json_t **out, bool *hides_nul, const char *text, size_t size, struct gt_err *err)
{
	json_error_t where;
	char *copy = NULL;

	*out = NULL;
	if (check_commas(text, size, err))
		return err->code;
	if (size > GT_BPE_MAX_FILE)
		return gt_err_set(
		    err, GT_EFORMAT, "%zu bytes, more than %d", size, GT_BPE_MAX_FILE);
	if (gt_bpe_hide_nul(&copy, &size, text, size, err))
		return err->code;
	*hides_nul = copy != NULL;
	*out = gt_python_json_loadb(
	    copy ? copy : text, size, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &where);
	free(copy);
	if (*out)
		return 0;
	return gt_err_set(err, GT_EFORMAT, "not JSON: line %d: %.120s", where.line, where.text);
}

/* Takes `source`. */
static int open_source(struct gt_bpe **out, char *source, size_t size, const json_t *json,
    bool hides_nul, struct gt_err *err)
{
	struct gt_bpe *bpe = gt_calloc(1, sizeof(*bpe), err);
	int rc;

	*out = NULL;
	if (!bpe) {
		free(source);
		return GT_ENOMEM;
	}
	bpe->source = source;
	bpe->source_size = size;
	bpe->begin = -1;
	bpe->hides_nul = hides_nul;
	atomic_init(&bpe->owners, 1);
	rc = gt_bpe_read(bpe, json, err);
	if (rc) {
		gt_bpe_close(bpe);
		return rc;
	}
	write_digest(bpe);
	*out = bpe;
	return 0;
}

static int open_json(struct gt_bpe **out, const char *text, size_t size, struct gt_err *err)
{
	json_t *json;
	bool hides_nul;
	char *copy;
	int rc = parse_json(&json, &hides_nul, text, size, err);

	*out = NULL;
	if (rc)
		return rc;
	copy = gt_calloc(size + 1, 1, err);
	if (copy)
		memcpy(copy, text, size);
	rc = copy ? open_source(out, copy, size, json, hides_nul, err) : GT_ENOMEM;
	json_decref(json);
	return rc;
}

/* Open a tokenizer.json that was made of other files. Takes `json`. */
static int open_converted(struct gt_bpe **out, json_t *json, struct gt_err *err)
{
	char *text = json_dumps(json, JSON_COMPACT);
	int rc = text ? open_source(out, text, strlen(text), json, false, err)
	              : gt_err_set(err, GT_ENOMEM, "out of memory: the tokenizer");

	json_decref(json);
	return rc;
}

int gt_bpe_parse(struct gt_bpe **out, const char *text, size_t size, struct gt_err *err)
{
	json_t *json;
	int rc;

	*out = NULL;
	if (!gt_bpe_is_sentencepiece(text, size))
		return open_json(out, text, size, err);
	if (size > GT_BPE_MAX_FILE)
		return gt_err_set(
		    err, GT_EFORMAT, "%zu bytes, more than %d", size, GT_BPE_MAX_FILE);
	rc = gt_bpe_convert_sentencepiece(&json, text, size, err);
	return rc ? rc : open_converted(out, json, err);
}

static int open_tokenizer_file(struct gt_bpe **out, struct gt_file_name file, struct gt_err *err)
{
	struct gt_mapping map;
	int rc = gt_map_at(&map, file, err);

	if (rc)
		return rc;
	rc = gt_bpe_parse(out, map.data ? (const char *)map.data : "", map.size, err);
	gt_unmap(&map);
	return rc ? gt_err_prefix(err, "tokenizer '%s'", file.path) : 0;
}

/* GPT-2's two files as one tokenizer.json. */
static int join_files(json_t **out, const struct gt_mapping *vocab, const struct gt_mapping *merges,
    struct gt_err *err)
{
	json_t *json = NULL;
	bool hides_nul;
	int rc = parse_json(
	    &json, &hides_nul, vocab->data ? (const char *)vocab->data : "", vocab->size, err);

	if (!rc && hides_nul) /* GPT-2 writes the byte 0 as a letter */
		rc = gt_err_set(err, GT_ENOTSUP, "a token with U+0000 is not supported");
	if (rc) {
		json_decref(json);
		return gt_err_prefix(err, "vocab.json");
	}
	rc = gt_bpe_convert_gpt2(
	    out, json, merges->data ? (const char *)merges->data : "", merges->size, err);
	json_decref(json);
	return rc ? gt_err_prefix(err, "merges.txt") : 0;
}

static int open_gpt2(
    struct gt_bpe **out, const char *vocab_path, const char *merges_path, struct gt_err *err)
{
	struct gt_mapping vocab = { 0 }, merges = { 0 };
	json_t *json = NULL;
	int rc = gt_map(&vocab, vocab_path, err);

	if (!rc)
		rc = gt_map(&merges, merges_path, err);
	if (!rc)
		rc = join_files(&json, &vocab, &merges, err);
	if (!rc)
		rc = open_converted(out, json, err);
	if (!rc)
		(*out)->is_gpt2 = true;
	gt_unmap(&vocab);
	gt_unmap(&merges);
	return rc;
}

static int open_folder(struct gt_bpe **out, const char *folder, struct gt_err *err)
{
	static const char *const files[] = { "tokenizer.json", "merges.txt", "tokenizer.model",
		"spiece.model", "sentencepiece.bpe.model" };
	struct gt_arena arena = { 0 };
	char *paths[5], *vocab = NULL;
	size_t found = 0;
	int rc = 0;

	for (size_t i = 0; i < 5 && !rc; i++) {
		struct gt_buf b = { 0 };

		gt_buf_printf(&b, "%s/%s", folder, files[i]);
		paths[i] = gt_buf_keep(&b, &arena, err);
		rc = paths[i] ? 0 : GT_ENOMEM;
	}
	while (!rc && found < 5 && !gt_file_exists((struct gt_file_name){ .path = paths[found] }))
		found++;
	if (!rc && found == 5) {
		gt_err_set(err, GT_EIO, "the folder '%s' holds no tokenizer", folder);
		rc = gt_err_hint(err, "a tokenizer is tokenizer.json, or vocab.json and "
		                      "merges.txt, or tokenizer.model of SentencePiece");
	} else if (!rc && found == 1) {
		vocab = gt_asprintf(err, "%s/vocab.json", folder);
		rc = vocab ? open_gpt2(out, vocab, paths[1], err) : GT_ENOMEM;
		rc = rc ? gt_err_prefix(err, "tokenizer '%s'", folder) : 0;
	} else if (!rc) {
		rc = open_tokenizer_file(out, (struct gt_file_name){ .path = paths[found] }, err);
	}
	free(vocab);
	gt_arena_release(&arena);
	return rc;
}

/*
 * vocab.json and merges.txt have no settings, so the settings of GPT-2 are used, with the added
 * token "<|endoftext|>" if vocab.json has it. Character classes in patterns follow PCRE2's version
 * of Unicode (Unicode 14.0 in PCRE2 10.42).
 */
int gt_bpe_open(struct gt_bpe **out, struct gt_file_name file, struct gt_err *err)
{
	struct stat st;

	*out = NULL;
	if (!file.folder && stat(file.path, &st)) {
		gt_err_sys(err, "cannot open '%s'", file.path);
		return gt_set_hint_missing(file.path, false, err);
	}
	if (!file.folder && S_ISDIR(st.st_mode))
		return open_folder(out, file.path, err);
	return open_tokenizer_file(out, file, err);
}

struct gt_bpe *gt_bpe_share(const struct gt_bpe *bpe)
{
	/* The count alone changes. */
	struct gt_bpe *own = (struct gt_bpe *)bpe;

	atomic_fetch_add(&own->owners, 1);
	return own;
}

void gt_bpe_close(struct gt_bpe *bpe)
{
	if (!bpe || atomic_fetch_sub(&bpe->owners, 1) > 1)
		return;
	for (int i = 0; i < bpe->stage_count; i++)
		gt_bpe_pattern_close(bpe->stages[i].pattern);
	gt_bpe_normalizers_release(&bpe->normalizers);
	gt_bpe_chars_release(&bpe->chars);
	gt_bpe_vocab_release(&bpe->vocab);
	free(bpe->added.tokens);
	json_decref(bpe->post_processor);
	free(bpe->scores);
	free(bpe->texts);
	free(bpe->first_texts);
	free(bpe->source);
	free(bpe);
}

int gt_bpe_size(const struct gt_bpe *bpe)
{
	return bpe->vocab.size;
}

int32_t gt_bpe_begin(const struct gt_bpe *bpe)
{
	return bpe->begin;
}

bool gt_bpe_adds_only(const struct gt_bpe *bpe, int32_t begin)
{
	return bpe->begin == begin && !bpe->adds_others;
}

int32_t gt_bpe_find(const struct gt_bpe *bpe, const char *text)
{
	return gt_bpe_vocab_find(&bpe->vocab, (const unsigned char *)text, strlen(text));
}

int32_t gt_bpe_padding(const struct gt_bpe *bpe)
{
	return bpe->padding;
}

bool gt_bpe_is_cut_short(const struct gt_bpe *bpe)
{
	return bpe->cut_short;
}

const char *gt_bpe_digest(const struct gt_bpe *bpe)
{
	return bpe->digest;
}

const char *gt_bpe_source(const struct gt_bpe *bpe, size_t *size)
{
	*size = bpe->source_size;
	return bpe->source;
}
