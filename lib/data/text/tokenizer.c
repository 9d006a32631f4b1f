/* tokenizer.c - characters, bytes or byte pairs to ids and back. */
#include "lib/data/text/tokenizer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/base/text.h"

/* All characters there are, escaped and divided by commas and spaces, are 17 MiB of JSON; the
 * parser takes some 20 times the size of a file. */
enum { MAX_FILE_BYTES = 32 << 20 };

struct token {
	unsigned char text[4]; /* UTF-8, or one byte */
	unsigned char length;
};

struct gt_tokenizer {
	struct gt_bpe *bpe; /* NULL: the rest tells */
	bool bytes;
	int size;
	struct token *tokens; /* [size] */
	int32_t *ids;         /* [codes], by code point; -1: none */
	uint32_t codes;
};

static struct token encode_code(uint32_t code)
{
	struct token t;

	t.length = (unsigned char)gt_text_put_utf8(t.text, code);
	return t;
}

/* Room for `size` tokens of code points below `codes`. */
static struct gt_tokenizer *new_tokenizer(int size, uint32_t codes, struct gt_err *err)
{
	struct gt_tokenizer *tok = gt_calloc(1, sizeof(*tok), err);

	if (!tok)
		return NULL;
	tok->tokens = gt_calloc((size_t)size, sizeof(*tok->tokens), err);
	tok->ids = tok->tokens ? gt_calloc(codes, sizeof(*tok->ids), err) : NULL;
	if (!tok->ids) {
		gt_tokenizer_close(tok);
		return NULL;
	}
	tok->codes = codes;
	memset(tok->ids, 0xFF, codes * sizeof(*tok->ids));
	return tok;
}

/* The caller makes sure that the buffer is large enough. */
static void add_token(struct gt_tokenizer *tok, uint32_t code)
{
	tok->ids[code] = tok->size;
	tok->tokens[tok->size++] = tok->bytes ? (struct token){ { code }, 1 } : encode_code(code);
}

int gt_tokenizer_new_bytes(struct gt_tokenizer **out, struct gt_err *err)
{
	struct gt_tokenizer *tok = *out = new_tokenizer(256, 256, err);

	if (!tok)
		return GT_ENOMEM;
	tok->bytes = true;
	for (uint32_t c = 0; c < 256; c++)
		add_token(tok, c);
	return 0;
}

int gt_tokenizer_new_chars(struct gt_tokenizer **out, const uint8_t *seen, struct gt_err *err)
{
	struct gt_tokenizer *tok;
	uint32_t codes = 0;
	int size = 0;

	for (uint32_t c = 0; c < GT_CODE_POINTS; c++)
		if (seen[c >> 3] >> (c & 7) & 1) {
			size++;
			codes = c + 1;
		}
	tok = *out = new_tokenizer(size, codes, err);
	if (!tok)
		return GT_ENOMEM;
	for (uint32_t c = 0; c < codes; c++)
		if (seen[c >> 3] >> (c & 7) & 1)
			add_token(tok, c);
	return 0;
}

/* Takes `bpe`. */
static int new_bpe(struct gt_tokenizer **out, struct gt_bpe *bpe, struct gt_err *err)
{
	*out = gt_calloc(1, sizeof(**out), err);
	if (!*out) {
		gt_bpe_close(bpe);
		return GT_ENOMEM;
	}
	(*out)->bpe = bpe;
	(*out)->size = gt_bpe_size(bpe);
	return 0;
}

int gt_tokenizer_new_bpe(struct gt_tokenizer **out, struct gt_file_name file, struct gt_err *err)
{
	struct gt_bpe *bpe;
	int rc = gt_bpe_open(&bpe, file, err);

	*out = NULL;
	return rc ? rc : new_bpe(out, bpe, err);
}

int gt_tokenizer_copy(struct gt_tokenizer **out, const struct gt_tokenizer *tok, struct gt_err *err)
{
	struct gt_tokenizer *copy;

	if (tok->bpe)
		return new_bpe(out, gt_bpe_share(tok->bpe), err);
	copy = *out = new_tokenizer(tok->size, tok->codes, err);
	if (!copy)
		return GT_ENOMEM;
	copy->bytes = tok->bytes;
	copy->size = tok->size;
	memcpy(copy->tokens, tok->tokens, (size_t)tok->size * sizeof(*tok->tokens));
	memcpy(copy->ids, tok->ids, tok->codes * sizeof(*tok->ids));
	return 0;
}

const char *const gt_tokenizer_levels[] = { "char", "byte", "bpe", NULL };

enum gt_tokenizer_level gt_tokenizer_level(const struct gt_tokenizer *tok)
{
	return tok->bpe ? GT_LEVEL_BPE : tok->bytes ? GT_LEVEL_BYTE : GT_LEVEL_CHAR;
}

const struct gt_bpe *gt_tokenizer_bpe(const struct gt_tokenizer *tok)
{
	return tok->bpe;
}

int32_t gt_tokenizer_begin(const struct gt_tokenizer *tok)
{
	return tok->bpe ? gt_bpe_begin(tok->bpe) : -1;
}

const char *gt_tokenizer_digest(const struct gt_tokenizer *tok)
{
	return tok->bpe ? gt_bpe_digest(tok->bpe) : "";
}

bool gt_tokenizer_is_bytes(const struct gt_tokenizer *tok)
{
	return tok->bytes;
}

/* Ids are positions in the list, whatever its order. */
static int read_tokens(struct gt_tokenizer **out, const json_t *list, struct gt_err *err)
{
	size_t count = json_array_size(list);
	struct gt_tokenizer *tok;

	if (!count || count > GT_CODE_POINTS)
		return gt_err_set(err, GT_EFORMAT,
		    "\"tokens\" must be a list of 1 to %d characters", GT_CODE_POINTS);
	tok = *out = new_tokenizer((int)count, GT_CODE_POINTS, err);
	if (!tok)
		return GT_ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const json_t *item = json_array_get(list, i);
		size_t length = json_string_length(item);
		uint32_t code;

		if (!length || (size_t)gt_text_utf8((const unsigned char *)json_string_value(item),
		                   length, &code) != length)
			return gt_err_set(err, GT_EFORMAT, "token %zu is not a character", i);
		if (tok->ids[code] >= 0)
			return gt_err_set(err, GT_EFORMAT, "tokens %d and %zu are the same",
			    (int)tok->ids[code], i);
		add_token(tok, code);
	}
	return 0;
}

static int read_json(struct gt_tokenizer **out, const json_t *json, struct gt_err *err)
{
	const char *level = json_string_value(json_object_get(json, "level"));

	if (level && !strcmp(level, "byte"))
		return gt_tokenizer_new_bytes(out, err);
	if (level && !strcmp(level, "char"))
		return read_tokens(out, json_object_get(json, "tokens"), err);
	return gt_err_set(err, GT_EFORMAT,
	    "\"level\" is neither \"char\" nor \"byte\", and there is no \"model\"");
}

int gt_tokenizer_from_json(struct gt_tokenizer **out, const json_t *json, struct gt_err *err)
{
	int rc;

	*out = NULL;
	rc = read_json(out, json, err);
	if (rc) {
		gt_tokenizer_close(*out);
		*out = NULL;
	}
	return rc;
}

/* Whether this is a folder, or another program's tokenizer: a JSON file with the entry "model",
 * which a vocabulary of characters cannot hold, not as a token either, or no JSON file. */
static bool is_bpe(struct gt_file_name file)
{
	static const char key[] = "\"model\"";
	struct gt_mapping map;
	struct stat st;
	bool found;

	if (!file.folder && !stat(file.path, &st) && S_ISDIR(st.st_mode))
		return true;
	if (gt_map_at(&map, file, GT_ERR_IGNORED))
		return false;
	found = map.size && (*(const char *)map.data == '\n' ||
	                        memmem(map.data, map.size, key, sizeof(key) - 1));
	gt_unmap(&map);
	return found;
}

int gt_tokenizer_open(struct gt_tokenizer **out, struct gt_file_name file, struct gt_err *err)
{
	struct gt_mapping map;
	json_error_t where;
	json_t *json;
	int rc;

	if (is_bpe(file))
		return gt_tokenizer_new_bpe(out, file, err);
	rc = gt_map_at(&map, file, err);
	*out = NULL;
	if (rc)
		return rc;
	if (map.size > MAX_FILE_BYTES) {
		rc = gt_err_set(err, GT_EFORMAT, "vocabulary '%s': %zu bytes, more than %d",
		    file.path, map.size, MAX_FILE_BYTES);
		gt_unmap(&map);
		return rc;
	}
	/* A NUL is a character like any other. */
	json = json_loadb(map.data ? (const char *)map.data : "", map.size, JSON_ALLOW_NUL, &where);
	if (json)
		rc = gt_tokenizer_from_json(out, json, err);
	else
		rc = gt_err_set(err, GT_EFORMAT, "line %d: %s", where.line, where.text);
	json_decref(json);
	gt_unmap(&map);
	if (rc) {
		gt_err_prefix(err, "vocabulary '%s'", file.path);
		if (rc == GT_EFORMAT)
			gt_err_hint(err, "the file was not written by gtrain, or was changed");
	}
	return rc;
}

int gt_tokenizer_size(const struct gt_tokenizer *tok)
{
	return tok->size;
}

int32_t gt_tokenizer_id(const struct gt_tokenizer *tok, uint32_t code)
{
	return code < tok->codes ? tok->ids[code] : -1;
}

int gt_tokenizer_fail_unknown(uint32_t code, size_t offset, struct gt_err *err)
{
	struct token t = encode_code(code);

	if (code < 0x20 || code == 0x7F)
		t.length = 0;
	gt_err_set(err, GT_EFORMAT,
	    "the character '%.*s' (U+%04X) at byte %zu is not in the vocabulary", t.length,
	    (const char *)t.text, (unsigned)code, offset);
	return gt_err_hint(err,
	    "the vocabulary has the characters of the training text alone; a model that is trained on "
	    "text:FILE,level=byte or level=bpe reads any text");
}

struct collected {
	int32_t *ids;
	size_t count;
};

static int collect_ids(void *self, const int32_t *ids, size_t count, struct gt_err *err)
{
	struct collected *all = self;
	int32_t *grown = gt_reallocarray(all->ids, all->count + count, sizeof(*ids), err);

	if (!grown)
		return GT_ENOMEM;
	memcpy(grown + all->count, ids, count * sizeof(*ids));
	all->ids = grown;
	all->count += count;
	return 0;
}

static int encode_bpe(const struct gt_bpe *bpe, const char *text, size_t length, int32_t **ids,
    size_t *count, struct gt_err *err)
{
	struct collected all = { gt_calloc(1, sizeof(*all.ids), err), 0 };
	int rc = all.ids ? gt_bpe_encode(bpe, text, length, collect_ids, NULL, &all, NULL, err)
	                 : GT_ENOMEM;

	if (rc) {
		free(all.ids);
		all = (struct collected){ 0 };
	}
	*ids = all.ids;
	*count = all.count;
	return rc;
}

int gt_tokenizer_encode(const struct gt_tokenizer *tok, const char *text, size_t length,
    int32_t **ids, size_t *count, struct gt_err *err)
{
	const unsigned char *bytes = (const unsigned char *)text;
	int rc = 0;

	*count = 0;
	if (tok->bpe)
		return encode_bpe(tok->bpe, text, length, ids, count, err);
	*ids = gt_calloc(length, sizeof(**ids), err);
	if (!*ids)
		return GT_ENOMEM;
	for (size_t i = 0; i < length && !rc;) {
		uint32_t code = bytes[i];
		int step = tok->bytes ? 1 : gt_text_utf8(bytes + i, length - i, &code);
		int32_t id = step ? gt_tokenizer_id(tok, code) : -1;

		if (!step)
			rc = gt_err_set(err, GT_EFORMAT, "the text is not UTF-8 at byte %zu", i);
		else if (id < 0)
			rc = gt_tokenizer_fail_unknown(code, i, err);
		else
			(*ids)[(*count)++] = id;
		i += (size_t)step;
	}
	if (rc) {
		free(*ids);
		*ids = NULL;
		*count = 0;
	}
	return rc;
}

const char *gt_tokenizer_text(const struct gt_tokenizer *tok, int32_t id, size_t *length)
{
	if (tok->bpe)
		return gt_bpe_text(tok->bpe, id, false, length);
	if (id < 0 || id >= tok->size)
		return NULL;
	*length = tok->tokens[id].length;
	return (const char *)tok->tokens[id].text;
}

const char *gt_tokenizer_first_text(const struct gt_tokenizer *tok, int32_t id, size_t *length)
{
	return gt_bpe_text(tok->bpe, id, true, length);
}

int32_t gt_tokenizer_find(const struct gt_tokenizer *tok, const char *text)
{
	return gt_bpe_find(tok->bpe, text);
}

int32_t gt_tokenizer_padding(const struct gt_tokenizer *tok)
{
	return gt_bpe_padding(tok->bpe);
}

json_t *gt_tokenizer_to_json(const struct gt_tokenizer *tok)
{
	json_t *list,
	    *json = json_pack("{s:s}", "level", gt_tokenizer_levels[gt_tokenizer_level(tok)]);

	if (tok->bpe && json &&
	    json_object_set_new(json, "sha256", json_string(gt_tokenizer_digest(tok))))
		goto failed;
	if (tok->bytes || tok->bpe || !json)
		return json;
	list = json_array();
	if (!list || json_object_set_new(json, "tokens", list))
		goto failed;
	for (int i = 0; i < tok->size; i++)
		if (json_array_append_new(list,
		        json_stringn((const char *)tok->tokens[i].text, tok->tokens[i].length)))
			goto failed;
	return json;
failed:
	json_decref(json);
	return NULL;
}

static int save_source(
    const char *source, size_t size, struct gt_file_name name, struct gt_err *err)
{
	struct gt_atomic_file file;
	int rc = gt_atomic_open_at(&file, name, err);

	if (rc)
		return rc;
	fwrite(source, 1, size, file.stream);
	return gt_atomic_commit(&file, err);
}

int gt_tokenizer_save_with_begin(
    const struct gt_tokenizer *tok, int32_t begin, struct gt_file_name name, struct gt_err *err)
{
	char *source;
	size_t length;
	int rc;

	if (gt_bpe_adds_only(tok->bpe, begin) ||
	    (begin >= 0 && !gt_tokenizer_text(tok, begin, &length)))
		return gt_tokenizer_save(tok, name, err);
	rc = gt_bpe_source_with_begin(&source, tok->bpe, begin, err);
	if (!rc)
		rc = save_source(source, strlen(source), name, err);
	free(source);
	return rc;
}

int gt_tokenizer_save(const struct gt_tokenizer *tok, struct gt_file_name name, struct gt_err *err)
{
	struct gt_atomic_file file;
	const char *source;
	json_t *json;
	size_t size;
	int rc;

	if (tok->bpe) {
		source = gt_bpe_source(tok->bpe, &size);
		return save_source(source, size, name, err);
	}
	json = gt_tokenizer_to_json(tok);
	if (!json)
		return gt_err_set(err, GT_ENOMEM, "out of memory: the vocabulary");
	rc = gt_atomic_open_at(&file, name, err);
	if (!rc) {
		/* A failed write leaves its mark on the stream, which the commit reads. */
		json_dumpf(json, file.stream, JSON_COMPACT);
		fputc('\n', file.stream);
		rc = gt_atomic_commit(&file, err);
	}
	json_decref(json);
	return rc;
}

void gt_tokenizer_close(struct gt_tokenizer *tok)
{
	if (!tok)
		return;
	gt_bpe_close(tok->bpe);
	free(tok->tokens);
	free(tok->ids);
	free(tok);
}
