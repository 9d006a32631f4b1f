/* tokens.c - tokens that other programs have written to files, as one stream cut into windows. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/mem.h"
#include "lib/base/philox.h"
#include "lib/data/core/shard_names.h"
#include "lib/data/core/source.h"

/* llm.c's header: 256 int32, of which the first are magic, version and the number of tokens.
 * Source: llm.c, dev/data/data_common.py. */
enum { HEADER_BYTES = 1024, MAGIC_16 = 20240520, VERSION_16 = 1, MAGIC_32 = 20240801 };
enum { VERSION_32 = 7, DEFAULT_BLOCK = 64, MAX_VOCAB = 1 << 24 };

/* A file of tokens, mapped. */
struct shard {
	struct gt_mapping map;
	const char *path;
	const unsigned char *tokens;
	int width;      /* bytes of a token: 2 or 4 */
	int64_t first;  /* number of its first token in the stream */
	int64_t length; /* in tokens */
};

struct tokens {
	struct gt_source source;
	struct shard *shards; /* [count] */
	size_t count;
	uint32_t vocab; /* the model may have more tokens than the spec gives the files */
};

/* ---- samples ---- */

/* Windows that predict every token but the first. */
static int64_t samples_in(const struct gt_source *self, int64_t length)
{
	return (length - 1 + self->info.form.block - 1) / self->info.form.block;
}

static const struct shard *find_shard(const struct tokens *t, int64_t at)
{
	size_t low = 0, high = t->count - 1;

	while (low < high) {
		size_t mid = high - (high - low) / 2;

		if (t->shards[mid].first <= at)
			low = mid;
		else
			high = mid - 1;
	}
	return &t->shards[low];
}

/* A token is checked whenever it is read, as the file may be changed meanwhile. */
static int get_token(const struct tokens *t, int64_t at, int32_t *out, struct gt_err *err)
{
	const struct shard *s = find_shard(t, at);
	const unsigned char *p = s->tokens + (at - s->first) * s->width;
	uint32_t id = (uint32_t)p[0] | (uint32_t)p[1] << 8;

	if (s->width == 4)
		id |= (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
	if (id < t->vocab) {
		*out = (int32_t)id;
		return 0;
	}
	gt_err_set(err, GT_EFORMAT, "'%s': token %u at byte %lld is beyond the vocabulary of %u",
	    s->path, id, (long long)(p - s->map.data), t->vocab);
	return gt_err_hint(
	    err, "vocab=N tells how many different tokens there are, type= their size");
}

/* The pairs (token, next token) of the part form a ring in training, as in a text. */
static int read_tokens(struct gt_source *self, const struct gt_data_part *part, int64_t index,
    const struct gt_draw *draw, void *input, int32_t *target, struct gt_err *err)
{
	const struct tokens *t = (const struct tokens *)self;
	int64_t block = self->info.form.block, pairs = part->length - 1, at = index * block;
	int32_t *in = input;
	int rc = 0;

	if (draw->train)
		at = (at + (int64_t)gt_philox_below(
		               gt_philox_u64(draw->seed, 0, GT_RNG_WINDOW, draw->epoch),
		               (uint64_t)block)) %
		     pairs;
	for (int64_t i = 0; i < block && !rc; i++, at++) {
		if (draw->train && at == pairs)
			at = 0;
		in[i] = 0;
		target[i] = GT_DATA_IGNORE;
		if (at >= pairs)
			continue;
		rc = get_token(t, part->first + at, &in[i], err);
		if (!rc)
			rc = get_token(t, part->first + at + 1, &target[i], err);
	}
	return rc;
}

static void close_tokens(struct gt_source *self)
{
	struct tokens *t = (struct tokens *)self;

	for (size_t i = 0; i < t->count; i++)
		gt_unmap(&t->shards[i].map);
	free(t->shards);
	gt_arena_release(&self->names);
	free(t);
}

static const struct gt_source_ops tokens_ops = {
	.read = read_tokens, .samples_in = samples_in, .close = close_tokens
};

/* ---- files ---- */

static int read_shard_header(struct shard *s, const int32_t *header, struct gt_err *err)
{
	int64_t max = ((int64_t)s->map.size - HEADER_BYTES) / s->width;
	int version = s->width == 2 ? VERSION_16 : VERSION_32;
	bool cut = (s->map.size - HEADER_BYTES) % (size_t)s->width;

	if (header[1] != version)
		return gt_err_set(err, GT_ENOTSUP, "'%s': version %d of llm.c's tokens, not %d",
		    s->path, header[1], version);
	if (header[2] != max || cut)
		return gt_err_set(err, GT_EFORMAT,
		    "'%s': the header says %d tokens, but there are bytes for %lld%s", s->path,
		    header[2], (long long)max, cut ? " and a part of one" : "");
	s->length = header[2];
	s->tokens = s->map.data + HEADER_BYTES;
	return 0;
}

/* A file with llm.c's header, or with nothing but tokens of `width` bytes, as nanoGPT has it. */
static int open_shard(struct shard *s, int width, struct gt_err *err)
{
	int32_t header[3] = { 0 };
	int rc = gt_map(&s->map, s->path, err);

	if (rc)
		return rc;
	if (s->map.size >= HEADER_BYTES)
		memcpy(header, s->map.data, sizeof(header));
	s->width = header[0] == MAGIC_16 ? 2 : header[0] == MAGIC_32 ? 4 : width;
	if (header[0] == MAGIC_16 || header[0] == MAGIC_32)
		return read_shard_header(s, header, err);
	if (s->map.size % (size_t)width)
		return gt_err_set(err, GT_EFORMAT,
		    "'%s': %zu bytes are no whole number of tokens of %d bytes", s->path,
		    s->map.size, width);
	s->length = (int64_t)(s->map.size / (size_t)width);
	s->tokens = s->map.data;
	return 0;
}

static int open_shards(
    struct tokens *t, const struct gt_shard_names *files, int width, struct gt_err *err)
{
	int rc = 0;

	t->shards = gt_calloc(files->count, sizeof(*t->shards), err);
	if (!t->shards)
		return GT_ENOMEM;
	for (size_t i = 0; i < files->count && !rc; i++) {
		struct shard *s = &t->shards[t->count];

		s->path = gt_arena_strdup(&t->source.names, files->names[i], err);
		rc = s->path ? open_shard(s, width, err) : GT_ENOMEM;
		s->first = t->source.length;
		t->source.length += s->length;
		t->count += rc != GT_ENOMEM || s->map.data;
	}
	return rc;
}

static int open_token_files(struct tokens *t, const char *path, int width, struct gt_err *err)
{
	struct gt_shard_names files;
	struct stat st;
	int rc = !stat(path, &st) && S_ISDIR(st.st_mode)
	             ? gt_shard_names_in(&files, path, ".bin", err)
	             : gt_shard_names(&files, path, err);

	if (!rc)
		rc = open_shards(t, &files, width, err);
	gt_shard_names_release(&files);
	return rc;
}

/* ---- opening ---- */

static int read_settings(struct tokens *t, const struct gt_spec *spec,
    const struct gt_data_request *request, int *width, struct gt_err *err)
{
	static const char *const types[] = { "uint16", "uint32", NULL };
	const struct gt_data_description *like = request->like;
	int64_t vocab = like && like->form.classes ? like->form.classes : request->form.classes;
	int type = 0;
	int rc = gt_spec_choice(spec, "type", types, &type, err);

	if (!rc)
		rc = gt_spec_integer(spec, "vocab", 1, MAX_VOCAB, &vocab, err);
	if (!rc && !vocab) {
		gt_err_set(err, GT_EINVAL, "the vocabulary size of the tokens is not known");
		gt_err_hint(err, "add vocab=N to the data, or set it in {model}: gpt:vocab=50257");
		rc = GT_EINVAL;
	}
	t->source.info.form.classes = (int)vocab;
	t->vocab = (uint32_t)vocab;
	*width = type ? 4 : 2;
	return rc;
}

static int describe_tokens(struct tokens *t, const char *path, int block, struct gt_err *err)
{
	struct gt_data_info *info = &t->source.info;

	if (t->source.length <= block) {
		gt_err_set(err, GT_EINVAL,
		    "'%s' has %lld tokens, too few for one block of %d and the token after it",
		    path, (long long)t->source.length, block);
		return gt_err_hint(err, "use more tokens or a shorter block");
	}
	info->form.kind = GT_SAMPLE_TOKENS;
	info->form.block = block;
	info->input_bytes = (size_t)block * sizeof(int32_t);
	info->targets = (size_t)block;
	info->samples = samples_in(&t->source, t->source.length);
	return 0;
}

/* Tokens of 32 bits, below 65536, have their high half, zero, behind the low one. */
static bool looks_wider(const struct shard *s)
{
	enum { LEAST = 64, MOST = 8192 };
	int64_t count = s->length < MOST ? s->length : MOST;
	bool any = false;

	if (s->width != 2 || s->tokens != s->map.data || count < LEAST)
		return false;
	for (int64_t i = 0; i < count; i++) {
		bool zero = !s->tokens[2 * i] && !s->tokens[2 * i + 1];

		if (i % 2 && !zero)
			return false;
		any |= !zero;
	}
	return any;
}

static int note_width(struct tokens *t, const struct gt_spec *spec, struct gt_err *err)
{
	char note[400];

	if (gt_spec_value(spec, "type") || !looks_wider(&t->shards[0]))
		return 0;
	snprintf(note, sizeof(note),
	    "every second token of '%.200s' is 0, as in a file of uint32: add type=uint32, or "
	    "type=uint16 if the tokens are right",
	    t->shards[0].path);
	t->source.info.note = gt_arena_strdup(&t->source.names, note, err);
	return t->source.info.note ? 0 : GT_ENOMEM;
}

static int open_tokens(struct gt_source **out, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	struct tokens *t = gt_calloc(1, sizeof(*t), err);
	int width, rc;

	if (!t)
		return GT_ENOMEM;
	t->source.ops = &tokens_ops;
	rc = read_settings(t, spec, request, &width, err);
	if (!rc)
		rc = open_token_files(t, spec->path, width, err);
	if (!rc)
		rc = describe_tokens(t, spec->path,
		    request->form.block > 0 ? request->form.block : DEFAULT_BLOCK, err);
	if (!rc)
		rc = note_width(t, spec, err);
	if (rc)
		close_tokens(&t->source);
	else
		*out = &t->source;
	return rc;
}

static const struct gt_setting settings[] = {
	{ "vocab", "N", "that of the training data or the model", "number of different tokens" },
	{ "type", "uint16|uint32", "uint16", "type of the tokens in files without a header" }, { 0 }
};

const struct gt_source_kind gt_tokens_kind = {
	.form = { .name = "tokens",
	    .path = "FILE|FOLDER|PATTERN",
	    .summary = "tokens in files of llm.c or nanoGPT, in the order of their names",
	    .settings = settings,
	    .example = "tokens:train.bin,vocab=50257" },
	.open = open_tokens,
};
