/* write.c - a GGUF file is put together and written. */
#include "lib/ckpt/gguf/write.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/blocks.h"
#include "lib/base/copy.h"
#include "lib/base/meter.h"
#include "lib/ckpt/bytes.h"
#include "lib/ckpt/format.h"
#include "lib/ckpt/tree/cast.h"
#include "lib/ckpt/tree/cursor.h"
#include "lib/ckpt/tree/tree.h"

enum {
	VERSION = 3,
	PIECE = 64 << 10 /* elements that are converted at a time: whole blocks */
};

struct gt_gguf {
	struct gt_err err; /* the first error */
	struct gt_arena arena;
	struct gt_buf metadata, infos;
	uint64_t entries;
	struct gt_gguf_tensor *tensors;
	uint64_t *places; /* [count] in the data */
	size_t count, capacity, place_capacity;
	uint64_t bytes; /* the size of the data, with padding */
};

int gt_gguf_new(struct gt_gguf **out, struct gt_err *err)
{
	*out = gt_calloc(1, sizeof(**out), err);
	return *out ? 0 : GT_ENOMEM;
}

void gt_gguf_free(struct gt_gguf *g)
{
	if (!g)
		return;
	gt_buf_release(&g->metadata);
	gt_buf_release(&g->infos);
	free(g->tensors);
	free(g->places);
	gt_arena_release(&g->arena);
	free(g);
}

struct gt_arena *gt_gguf_arena(struct gt_gguf *g)
{
	return &g->arena;
}

/* ---- metadata ---- */

void gt_gguf_put_string(struct gt_buf *b, const char *bytes, size_t size)
{
	gt_buf_add_le(b, size, 8);
	gt_buf_add(b, bytes, size);
}

void gt_gguf_put_i32(struct gt_buf *b, int32_t value)
{
	gt_buf_add_le(b, (uint32_t)value, 4);
}

void gt_gguf_put_f32(struct gt_buf *b, float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	gt_buf_add_le(b, bits, 4);
}

static struct gt_buf *begin_entry(struct gt_gguf *g, const char *key, enum gt_gguf_value_type type)
{
	g->entries++;
	gt_gguf_put_string(&g->metadata, key, strlen(key));
	gt_buf_add_le(&g->metadata, type, 4);
	return &g->metadata;
}

void gt_gguf_add_text(struct gt_gguf *g, const char *key, const char *value)
{
	gt_gguf_put_string(begin_entry(g, key, GT_GGUF_STRING), value, strlen(value));
}

void gt_gguf_add_u32(struct gt_gguf *g, const char *key, uint32_t value)
{
	gt_buf_add_le(begin_entry(g, key, GT_GGUF_U32), value, 4);
}

void gt_gguf_add_f32(struct gt_gguf *g, const char *key, double value)
{
	gt_gguf_put_f32(begin_entry(g, key, GT_GGUF_F32), (float)value);
}

void gt_gguf_add_bool(struct gt_gguf *g, const char *key, bool value)
{
	gt_buf_add_le(begin_entry(g, key, GT_GGUF_BOOL), value, 1);
}

struct gt_buf *gt_gguf_add_array(
    struct gt_gguf *g, const char *key, enum gt_gguf_value_type type, size_t count)
{
	struct gt_buf *b = begin_entry(g, key, GT_GGUF_ARRAY);

	gt_buf_add_le(b, type, 4);
	gt_buf_add_le(b, count, 8);
	return b;
}

/* ---- tensors ---- */

static uint64_t count_elements(const struct gt_gguf_tensor *t)
{
	uint64_t count = 1;

	for (int i = 0; i < t->ndim; i++)
		count *= (uint64_t)t->shape[i];
	return count;
}

static uint64_t tensor_bytes(const struct gt_gguf_tensor *t)
{
	return count_elements(t) / t->type->elements * t->type->bytes;
}

static uint64_t pad(uint64_t bytes)
{
	return (bytes + GT_GGUF_ALIGN - 1) / GT_GGUF_ALIGN * GT_GGUF_ALIGN;
}

static int keep_tensor(struct gt_gguf *g, const struct gt_gguf_tensor *t, struct gt_err *err)
{
	const size_t dims = (size_t)t->view.ndim * sizeof(int64_t);
	int64_t *copy = gt_arena_alloc(&g->arena, 2 * dims + sizeof(*copy), err);
	char *name = gt_arena_strdup(&g->arena, t->name, err);
	int rc = copy && name ? 0 : GT_ENOMEM;
	struct gt_gguf_tensor *own;

	if (!rc)
		rc = gt_grow(&g->tensors, g->count, &g->capacity, sizeof(*g->tensors), err);
	if (!rc)
		rc = gt_grow(&g->places, g->count, &g->place_capacity, sizeof(*g->places), err);
	if (rc)
		return rc;
	if (dims) {
		memcpy(copy, t->view.shape, dims);
		memcpy(copy + t->view.ndim, t->view.stride, dims);
	}
	own = &g->tensors[g->count];
	*own = *t;
	own->name = name;
	own->view.shape = copy;
	own->view.stride = copy + t->view.ndim;
	g->places[g->count++] = g->bytes;
	return 0;
}

void gt_gguf_add_tensor(struct gt_gguf *g, const struct gt_gguf_tensor *t)
{
	if (g->err.code || keep_tensor(g, t, &g->err))
		return;
	gt_gguf_put_string(&g->infos, t->name, strlen(t->name));
	gt_buf_add_le(&g->infos, (uint64_t)t->ndim, 4);
	for (int i = t->ndim - 1; i >= 0; i--)
		gt_buf_add_le(&g->infos, (uint64_t)t->shape[i], 8);
	gt_buf_add_le(&g->infos, t->type->id, 4);
	gt_buf_add_le(&g->infos, g->bytes, 8);
	g->bytes = pad(g->bytes + tensor_bytes(t));
}

const struct gt_gguf_type *gt_gguf_type_for(const struct gt_gguf_type *wanted, int64_t row)
{
	return row % wanted->elements ? gt_gguf_type_named("f16") : wanted;
}

void gt_gguf_tally(const struct gt_gguf *g, uint64_t *count, uint64_t *bytes)
{
	*count = g->count;
	*bytes = 0;
	for (size_t i = 0; i < g->count; i++)
		*bytes += tensor_bytes(&g->tensors[i]);
}

/* ---- the file ---- */

struct writer {
	struct gt_gguf *g;
	const struct gt_ckpt_write_options *options;
	struct gt_meter meter;
	int fd;
	uint64_t data_at;
	float *values;        /* [PIECE] */
	unsigned char *bytes; /* room for a piece as the file has it */
};

/* An infinite scale makes a block NaN. */
static int encode_blocks(
    struct writer *w, const struct gt_gguf_type *type, size_t n, struct gt_err *err)
{
	if (!gt_cast_finite(GT_F32, w->values, n)) {
		gt_err_set(err, GT_EFORMAT, "it holds NaN or Inf, which blocks of %s do not have",
		    type->name);
		return gt_err_hint(err, "'gtrain ckpt verify' lists the tensors that hold them");
	}
	for (size_t i = 0; i < n; i += type->elements) {
		unsigned char *block = w->bytes + i / type->elements * type->bytes;

		type->encode(w->values + i, block);
		if (isinf(gt_block_scale(block))) {
			gt_err_set(err, GT_EFORMAT,
			    "it holds numbers that are beyond the range of %s", type->name);
			return gt_err_hint(err, "{type} f32 keeps weights as they are");
		}
	}
	return 0;
}

/* Encode n elements, and count those that became infinite. */
static int encode(struct writer *w, const struct gt_gguf_type *type, size_t n, uint64_t *overflows,
    struct gt_err *err)
{
	int rc;

	if (type->encode)
		return encode_blocks(w, type, n, err);
	rc = gt_cast(GT_F32, w->values, type->dtype, w->bytes, n, err);
	if (rc)
		return rc;
	*overflows +=
	    gt_cast_infinite(type->dtype, w->bytes, n) - gt_cast_infinite(GT_F32, w->values, n);
	if (gt_host_is_big())
		gt_ckpt_tensor_swap(type->dtype, w->bytes, n);
	return 0;
}

static int write_pieces(
    struct writer *w, const struct gt_gguf_tensor *t, uint64_t at, struct gt_err *err)
{
	struct gt_cursor c = {
		.tensor = &t->view, .end = (uint64_t)gt_ckpt_tensor_count(&t->view), .max = PIECE
	};
	uint64_t overflows = 0;
	const void *run;
	size_t n;
	int rc = gt_storage_check(t->view.storage, err);

	while (!rc && (rc = gt_cursor_next(&c, &run, &n, err)) > 0) {
		const size_t size = n / t->type->elements * t->type->bytes;

		rc = gt_cast(t->view.dtype, run, GT_F32, w->values, n, err);
		for (size_t i = 0; !rc && t->add != 0 && i < n; i++)
			w->values[i] += t->add;
		if (!rc)
			rc = encode(w, t->type, n, &overflows, err);
		if (!rc)
			rc = gt_write_at(w->fd, at, w->bytes, size, err);
		at += size;
		gt_meter_add(&w->meter, size);
	}
	gt_cursor_release(&c);
	if (!rc && overflows && w->options->losses) {
		w->options->losses->values += overflows;
		w->options->losses->tensors++;
	}
	return rc;
}

/* Write a tensor. Elements of a storage that is read by a function are read in their own order, so
 * a view in another order needs them in memory. */
static int write_tensor(struct writer *w, size_t i, struct gt_err *err)
{
	struct gt_gguf_tensor t = w->g->tensors[i];
	struct gt_storage *from = t.view.storage, loaded = { .key = "", .location = "cpu" };
	void *memory = NULL;
	int rc = 0;

	if (from->read && !gt_ckpt_tensor_is_contiguous(&t.view)) {
		memory = gt_calloc(from->size_bytes, 1, err);
		rc = memory ? from->read(from->self, 0, memory, from->size_bytes, err) : GT_ENOMEM;
		loaded.bytes = memory;
		loaded.size_bytes = from->size_bytes;
		loaded.swapped = from->swapped;
		loaded.name = from->name;
		t.view.storage = &loaded;
	}
	if (!rc)
		rc = write_pieces(w, &t, w->data_at + w->g->places[i], err);
	free(memory);
	return rc ? gt_err_prefix(err, "tensor '%s'", t.name) : 0;
}

static int write_header(struct writer *w, struct gt_err *err)
{
	struct gt_buf head = { 0 };
	int rc;

	gt_buf_puts(&head, GT_GGUF_MAGIC);
	gt_buf_add_le(&head, VERSION, 4);
	gt_buf_add_le(&head, w->g->count, 8);
	gt_buf_add_le(&head, w->g->entries, 8);
	gt_buf_add(&head, gt_buf_text(&w->g->metadata), w->g->metadata.length);
	gt_buf_add(&head, gt_buf_text(&w->g->infos), w->g->infos.length);
	w->data_at = pad(head.length);
	rc = gt_buf_check(&head, err);
	if (!rc)
		rc = gt_write_at(w->fd, 0, head.text, head.length, err);
	gt_buf_release(&head);
	return rc;
}

static int write_gguf(void *self, int fd, struct gt_err *err)
{
	struct writer *w = self;
	int rc;

	w->fd = fd;
	rc = write_header(w, err);
	w->values = gt_calloc(PIECE, sizeof(*w->values), err);
	w->bytes = gt_calloc(PIECE, sizeof(*w->values), err);
	if (!rc && (!w->values || !w->bytes))
		rc = GT_ENOMEM;
	gt_meter_begin(&w->meter, w->options->progress, "writing, MiB", w->g->bytes);
	for (size_t i = 0; !rc && i < w->g->count; i++)
		rc = write_tensor(w, i, err);
	gt_meter_end(&w->meter);
	/* Padding between tensors and behind the last one is zero. */
	if (!rc && ftruncate(fd, (off_t)(w->data_at + w->g->bytes)))
		rc = gt_err_sys(err, "cannot write");
	free(w->values);
	free(w->bytes);
	return rc;
}

int gt_gguf_write(const char *path, struct gt_gguf *g, const struct gt_ckpt_write_options *options,
    struct gt_err *err)
{
	struct writer w = { .g = g, .options = options };
	int rc = gt_ckpt_check_output(path, options, err);

	if (!rc && g->err.code) {
		*err = g->err;
		rc = err->code;
	}
	if (!rc)
		rc = gt_buf_check(&g->metadata, err);
	if (!rc)
		rc = gt_buf_check(&g->infos, err);
	if (!rc)
		rc = gt_ckpt_write_file(
		    (struct gt_file_name){ .path = path }, options->no_sync, write_gguf, &w, err);
	return rc;
}
