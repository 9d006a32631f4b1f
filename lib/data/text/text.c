/* text.c - a text as one stream of tokens, cut into windows. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/buf.h"
#include "lib/base/mem.h"
#include "lib/base/philox.h"
#include "lib/base/text.h"
#include "lib/data/core/source.h"
#include "lib/data/text/choose.h"
#include "lib/data/text/config.h"
#include "lib/data/text/ids.h"
#include "lib/data/text/json_lines.h"
#include "lib/data/text/tokenizer.h"

struct text {
	struct gt_source source;
	struct gt_tokenizer *tok;
	int width;          /* bytes that hold one token: 1, 2 or 4 */
	const void *tokens; /* [source.length] */
	void *own;          /* memory of characters or bytes; NULL for byte pairs */
	struct gt_ids ids;  /* memory of byte pairs */
	json_t *config;     /* gt_tokenizer_config_read() has read it; NULL: none */
};

/* The files of a text while it is being read. */
struct files {
	char **paths;
	struct gt_mapping *maps;
	size_t count;
	char *joined; /* memory of the only map, where it is not mapped from a file */
};

static void release_files(struct files *f)
{
	for (size_t i = 0; i < f->count; i++) {
		if (f->maps)
			gt_unmap(&f->maps[i]);
		free(f->paths[i]);
	}
	free(f->maps);
	free(f->paths);
	free(f->joined);
}

static int is_txt(const struct dirent *entry)
{
	const char *dot = strrchr(entry->d_name, '.');

	return entry->d_name[0] != '.' && dot && !strcmp(dot, ".txt");
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int list_folder(struct files *f, const char *path, struct gt_err *err)
{
	struct dirent **found = NULL;
	int n = scandir(path, &found, is_txt, by_name), rc = 0;

	if (n < 0)
		return gt_err_sys(err, "cannot list '%s'", path);
	if (n == 0) {
		gt_err_set(err, GT_EINVAL, "the folder '%s' has no .txt files", path);
		rc = gt_err_hint(err, "put the text into files whose names end in .txt");
	} else {
		f->paths = gt_calloc((size_t)n, sizeof(*f->paths), err);
		rc = f->paths ? 0 : GT_ENOMEM;
	}
	for (int i = 0; i < n; i++) {
		if (!rc) {
			f->paths[i] = gt_asprintf(err, "%s/%s", path, found[i]->d_name);
			f->count += f->paths[i] != NULL;
			rc = f->paths[i] ? 0 : GT_ENOMEM;
		}
		free(found[i]);
	}
	free(found);
	return rc;
}

static int open_text_files(struct files *f, const char *path, struct gt_err *err)
{
	struct stat st;
	int rc = 0;

	if (!stat(path, &st) && S_ISDIR(st.st_mode)) {
		rc = list_folder(f, path, err);
	} else {
		f->paths = gt_calloc(1, sizeof(*f->paths), err);
		if (f->paths)
			f->paths[0] = gt_strdup(path, err);
		f->count = f->paths && f->paths[0];
		rc = f->count ? 0 : GT_ENOMEM;
	}
	if (!rc) {
		f->maps = gt_calloc(f->count, sizeof(*f->maps), err);
		rc = f->maps ? 0 : GT_ENOMEM;
	}
	for (size_t i = 0; i < f->count && !rc; i++)
		rc = gt_map(&f->maps[i], f->paths[i], err);
	return rc;
}

/* ---- JSON lines ---- */

/* Choose the text that ends each row, and note it if it is that of the tokenizer. */
static int choose_end(
    struct text *t, const char **out, const struct gt_spec *spec, struct gt_err *err)
{
	char note[300];

	*out = gt_rows_end(spec, t->config);
	if (gt_spec_value(spec, "end") || !gt_tokenizer_special(t->config, "eos_token"))
		return 0;
	snprintf(note, sizeof(note), "each text ends with '%.200s'", *out);
	t->source.info.interpretation = gt_arena_strdup(&t->source.names, note, err);
	return t->source.info.interpretation ? 0 : GT_ENOMEM;
}

static int join_row(struct gt_buf *b, const struct gt_json_lines *lines, size_t i,
    const char *field, const char *end, struct gt_err *err)
{
	const char *text;
	size_t size;
	json_t *row;
	int rc = gt_json_lines_parse(&row, lines, i, err);

	if (rc)
		return rc;
	rc = gt_json_lines_text(&text, &size, row, field, err);
	if (!rc) {
		gt_buf_add(b, text, size);
		gt_buf_puts(b, end);
	}
	json_decref(row);
	return rc ? gt_json_lines_locate(lines, i, err) : 0;
}

/* Join the texts of all rows in memory, as if they were one file. */
static int open_rows(struct text *t, struct files *f, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	const char *field = gt_spec_value(spec, "field"), *end;
	struct gt_json_lines lines = { 0 };
	struct gt_buf b = { 0 };
	size_t size;
	int rc = choose_end(t, &end, spec, err);

	if (!rc)
		rc = gt_json_lines_open(&lines, spec->path, err);
	for (size_t i = 0; !rc && i < lines.count; i++) {
		rc = join_row(&b, &lines, i, field ? field : "text", end, err);
		if (!rc)
			rc = gt_data_check_memory(request, b.length, "the text", err);
	}
	gt_json_lines_release(&lines);
	if (!rc)
		rc = gt_buf_take(&b, &f->joined, &size, err);
	gt_buf_release(&b);
	if (rc)
		return rc;
	f->paths = gt_calloc(1, sizeof(*f->paths), err);
	f->maps = gt_calloc(1, sizeof(*f->maps), err);
	if (!f->paths || !f->maps)
		return GT_ENOMEM;
	f->maps[0] =
	    (struct gt_mapping){ .data = (const unsigned char *)f->joined, .size = size, .fd = -1 };
	f->paths[0] = gt_strdup(spec->path, err);
	f->count = 1;
	return f->paths[0] ? 0 : GT_ENOMEM;
}

/* ---- plain text ---- */

/* Count the characters of a file and mark those that occur. */
static int scan_chars(
    const struct gt_mapping *map, uint8_t *seen, int64_t *count, struct gt_err *err)
{
	for (size_t i = 0; i < map->size;) {
		uint32_t code = 0;
		int step = gt_text_utf8(map->data + i, map->size - i, &code);

		if (!step) {
			gt_err_set(err, GT_EFORMAT, "not UTF-8 at byte %zu", i);
			return gt_err_hint(err, "level=byte takes any bytes");
		}
		seen[code >> 3] |= (uint8_t)(1u << (code & 7));
		++*count;
		i += (size_t)step;
	}
	return 0;
}

/* Count the tokens of all files, and make the vocabulary where none was given. */
static int scan_text(struct text *t, const struct files *f, bool bytes, struct gt_err *err)
{
	uint8_t *seen;
	int rc = 0;

	if (bytes) {
		for (size_t i = 0; i < f->count; i++)
			t->source.length += (int64_t)f->maps[i].size;
		return t->tok ? 0 : gt_tokenizer_new_bytes(&t->tok, err);
	}
	seen = gt_calloc(GT_CODE_POINTS / 8, 1, err);
	if (!seen)
		return GT_ENOMEM;
	for (size_t i = 0; i < f->count && !rc; i++) {
		rc = scan_chars(&f->maps[i], seen, &t->source.length, err);
		if (rc)
			gt_err_prefix(err, "'%s'", f->paths[i]);
	}
	if (!rc && !t->tok)
		rc = gt_tokenizer_new_chars(&t->tok, seen, err);
	free(seen);
	return rc;
}

/* A character has at most 4 bytes, and a token takes at least one: refuse a text that is too long
 * in any case before all of it is read. */
static int check_size(
    const struct files *f, const struct gt_data_request *request, struct gt_err *err)
{
	uint64_t size = 0;

	for (size_t i = 0; i < f->count; i++)
		size += f->maps[i].size / 4;
	return gt_data_check_memory(request, size, "the text", err);
}

static void put_token(struct text *t, int64_t i, int32_t id)
{
	if (t->width == 1)
		((uint8_t *)t->own)[i] = (uint8_t)id;
	else if (t->width == 2)
		((uint16_t *)t->own)[i] = (uint16_t)id;
	else
		((int32_t *)t->own)[i] = id;
}

static int32_t get_token(const struct text *t, int64_t i)
{
	if (t->width == 1)
		return ((const uint8_t *)t->tokens)[i];
	if (t->width == 2)
		return ((const uint16_t *)t->tokens)[i];
	return ((const int32_t *)t->tokens)[i];
}

static int changed(const char *path, struct gt_err *err)
{
	gt_err_set(err, GT_EFORMAT, "'%s' changed while it was read", path);
	return gt_err_hint(err, "run again once nobody writes to it");
}

/*
 * Store the tokens of a file that scan_text() has found to be well formed, from *at on. The mapping
 * shows other processes' writes to the file, so each token is checked again.
 */
static int encode_file(
    struct text *t, const struct gt_mapping *map, const char *path, int64_t *at, struct gt_err *err)
{
	bool bytes = gt_tokenizer_is_bytes(t->tok);

	for (size_t i = 0; i < map->size;) {
		uint32_t code = map->data[i];
		int step = bytes ? 1 : gt_text_utf8(map->data + i, map->size - i, &code);
		int32_t id = gt_tokenizer_id(t->tok, code);

		if (!step || *at >= t->source.length)
			return changed(path, err);
		if (id < 0) {
			gt_tokenizer_fail_unknown(code, i, err);
			return gt_err_prefix(err, "'%s'", path);
		}
		put_token(t, (*at)++, id);
		i += (size_t)step;
	}
	return 0;
}

static int encode(struct text *t, const struct files *f, const struct gt_data_request *request,
    struct gt_err *err)
{
	int64_t at = 0;
	int rc;

	t->width = gt_ids_width(gt_tokenizer_size(t->tok));
	rc = gt_data_check_memory(
	    request, (uint64_t)t->source.length * (uint64_t)t->width, "the text", err);
	if (rc)
		return rc;
	t->tokens = t->own = gt_calloc((size_t)t->source.length, (size_t)t->width, err);
	if (!t->own)
		return GT_ENOMEM;
	for (size_t i = 0; i < f->count && !rc; i++)
		rc = encode_file(t, &f->maps[i], f->paths[i], &at, err);
	if (!rc && at < t->source.length)
		return changed(f->paths[f->count - 1], err);
	return rc;
}

/* Windows that predict every token but the first. */
static int64_t samples_in(const struct gt_source *self, int64_t length)
{
	return (length - 1 + self->info.form.block - 1) / self->info.form.block;
}

/*
 * The pairs (token, next token) of the part form a ring in training. Window `index` takes `block`
 * pairs of the ring from shift + index * block on. So each pair is a real one, and each window is
 * full.
 */
static void read_train(const struct text *t, const struct gt_data_part *part, int64_t index,
    const struct gt_draw *draw, int32_t *input, int32_t *target)
{
	int64_t block = t->source.info.form.block, pairs = part->length - 1;
	int64_t shift = (int64_t)gt_philox_below(
	    gt_philox_u64(draw->seed, 0, GT_RNG_WINDOW, draw->epoch), (uint64_t)block);
	int64_t at = (shift + index * block) % pairs;

	for (int64_t i = 0; i < block; i++) {
		input[i] = get_token(t, part->first + at);
		target[i] = get_token(t, part->first + at + 1);
		at = at + 1 < pairs ? at + 1 : 0;
	}
}

static void read_eval(const struct text *t, const struct gt_data_part *part, int64_t index,
    int32_t *input, int32_t *target)
{
	int64_t block = t->source.info.form.block, at = index * block;

	for (int64_t i = 0; i < block; i++, at++) {
		bool inside = at + 1 < part->length;

		input[i] = inside ? get_token(t, part->first + at) : 0;
		target[i] = inside ? get_token(t, part->first + at + 1) : GT_DATA_IGNORE;
	}
}

static int read_text(struct gt_source *self, const struct gt_data_part *part, int64_t index,
    const struct gt_draw *draw, void *input, int32_t *target, struct gt_err *err)
{
	const struct text *t = (const struct text *)self;

	(void)err;
	if (draw->train)
		read_train(t, part, index, draw, input, target);
	else
		read_eval(t, part, index, input, target);
	return 0;
}

static const char *text_vocab_name(const struct gt_source *self)
{
	return gt_tokenizer_bpe(((const struct text *)self)->tok) ? "tokenizer.json" : "vocab.json";
}

/* The chat template stays with the tokenizer, so that an export of the run has it. */
static int save_text_vocab(
    const struct gt_source *self, struct gt_file_name file, struct gt_err *err)
{
	const struct text *t = (const struct text *)self;
	int rc = gt_tokenizer_save(t->tok, file, err);

	return rc || !t->config ? rc : gt_tokenizer_config_save(t->config, file, err);
}

static void close_text(struct gt_source *self)
{
	struct text *t = (struct text *)self;

	gt_arena_release(&self->names);
	gt_tokenizer_close(t->tok);
	gt_ids_release(&t->ids);
	json_decref(t->config);
	free(t->own);
	free(t);
}

static const struct gt_tokenizer *text_tokenizer(const struct gt_source *self)
{
	return ((const struct text *)self)->tok;
}

static const struct gt_source_ops text_ops = { .read = read_text,
	.samples_in = samples_in,
	.tokenizer = text_tokenizer,
	.vocab_name = text_vocab_name,
	.save_vocab = save_text_vocab,
	.close = close_text };

/* ---- the text ---- */

static int describe_text(struct text *t, const char *path, int block, struct gt_err *err)
{
	struct gt_data_info *info = &t->source.info;

	if (t->source.length <= block) {
		gt_err_set(err, GT_EINVAL,
		    "'%s' has %lld tokens, too few for one block of %d and the token after it",
		    path, (long long)t->source.length, block);
		return gt_err_hint(err, "use a longer text or a shorter block");
	}
	*info = (struct gt_data_info){ .form = { .kind = GT_SAMPLE_TOKENS,
		                           .block = block,
		                           .classes = gt_tokenizer_size(t->tok) },
		.note = info->note,
		.interpretation = info->interpretation,
		.input_bytes = (size_t)block * sizeof(int32_t),
		.targets = (size_t)block };
	info->samples = samples_in(&t->source, t->source.length);
	return 0;
}

/* Characters and bytes are counted before they are kept. */
static int read_plain(struct text *t, const struct files *files, bool bytes, const char *path,
    const struct gt_data_request *request, struct gt_err *err)
{
	bool own_vocab = !t->tok && !bytes;
	int rc = check_size(files, request, err);

	if (!rc)
		rc = scan_text(t, files, bytes, err);
	if (!rc)
		rc =
		    describe_text(t, path, request->form.block > 0 ? request->form.block : 64, err);
	t->source.info.own_vocab = own_vocab;
	return rc ? rc : encode(t, files, request, err);
}

/* Note damaged parts of the text, or ids that are not kept, in place of an older note. */
static int note_ids(struct text *t, struct gt_err *err)
{
	char note[600] = "";

	if (t->ids.repaired)
		snprintf(note, sizeof(note),
		    "parts of the text that are not UTF-8 are read as U+FFFD: %lld",
		    (long long)t->ids.repaired);
	else if (t->ids.cache_error)
		snprintf(note, sizeof(note), "the tokens of the text are not kept: %s",
		    t->ids.cache_error);
	else if (gt_bpe_is_cut_short(gt_tokenizer_bpe(t->tok)))
		snprintf(note, sizeof(note),
		    "'truncation' and 'padding' of the tokenizer are not applied");
	if (!*note)
		return 0;
	t->source.info.note = gt_arena_strdup(&t->source.names, note, err);
	return t->source.info.note ? 0 : GT_ENOMEM;
}

static int read_pairs(struct text *t, const struct files *files, const char *path,
    const struct gt_data_request *request, struct gt_err *err)
{
	int rc =
	    gt_ids_open(&t->ids, gt_tokenizer_bpe(t->tok), files->maps, files->count, request, err);

	if (rc)
		return gt_err_prefix(err, "'%s'", path);
	t->width = t->ids.width;
	t->tokens = t->ids.ids;
	t->source.length = t->ids.count;
	rc = note_ids(t, err);
	return rc ? rc
	          : describe_text(t, path, request->form.block > 0 ? request->form.block : 64, err);
}

static int open_any(struct gt_source **out, const struct gt_spec *spec, bool rows,
    const struct gt_data_request *request, struct gt_err *err)
{
	struct text *t = gt_calloc(1, sizeof(*t), err);
	enum gt_tokenizer_level level = GT_LEVEL_CHAR;
	struct files files = { 0 };
	int rc;

	if (!t)
		return GT_ENOMEM;
	t->source.ops = &text_ops;
	rc = gt_tokenizer_choose(&t->tok, &level, &t->source, spec, request, err);
	if (!rc && request->inputs) {
		rc = gt_text_open_lines(out, t->tok, request, err);
		t->tok = NULL;
		close_text(&t->source);
		return rc;
	}
	if (!rc && level == GT_LEVEL_BPE)
		rc = gt_tokenizer_config_read(&t->config, gt_tokenizer_place(spec, request), err);
	if (!rc)
		rc = rows ? open_rows(t, &files, spec, request, err)
		          : open_text_files(&files, spec->path, err);
	if (!rc && level == GT_LEVEL_BPE)
		rc = read_pairs(t, &files, spec->path, request, err);
	else if (!rc)
		rc = read_plain(t, &files, level == GT_LEVEL_BYTE, spec->path, request, err);
	release_files(&files);
	if (rc)
		close_text(&t->source);
	else
		*out = &t->source;
	return rc;
}

static int open_text(struct gt_source **out, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	return open_any(out, spec, false, request, err);
}

static int open_jsonl(struct gt_source **out, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	bool packed = false;
	int rc = gt_spec_yes_no(spec, "pack", &packed, err);

	if (rc)
		return rc;
	return packed && !request->inputs ? gt_text_open_packed(out, spec, request, err)
	                                  : open_any(out, spec, true, request, err);
}

/* clang-format off */
#define TOKEN_SETTINGS \
	{ "level", "char|byte|bpe", "char", \
	    "tokens are characters, bytes, or those of a tokenizer" }, \
	{ "tokenizer", "PATH", "that of the run", \
	    "for bpe: a tokenizer.json, or a folder with one" }
/* clang-format on */

static const struct gt_setting text_settings[] = { TOKEN_SETTINGS, { 0 } };

static const struct gt_setting jsonl_settings[] = { TOKEN_SETTINGS,
	{ "field", "NAME", "text", "the member of a row that has its text" },
	{ "end", "TEXT", "the token that ends texts, or a line feed",
	    "text behind that of each row" },
	{ "pack", "yes|no", "no",
	    "rows are documents, which do not attend to each other; several in a sample" },
	{ 0 } };

static const char *const input_keys[] = { NULL };

const struct gt_source_kind gt_text_kind = {
	.form = { .name = "text",
	    .path = "FILE|FOLDER",
	    .summary = "UTF-8 text: a file, or a folder's .txt files in the order of their names",
	    .settings = text_settings,
	    .example = "text:input.txt,level=byte" },
	.input_keys = input_keys,
	.open = open_text,
};

const struct gt_source_kind gt_jsonl_kind = {
	.form = { .name = "jsonl",
	    .path = "FILE|FOLDER|PATTERN",
	    .summary = "texts in JSON lines, one behind the other",
	    .settings = jsonl_settings,
	    .example = "jsonl:train.jsonl,tokenizer=model" },
	.open = open_jsonl,
};
