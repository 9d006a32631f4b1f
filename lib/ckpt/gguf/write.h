/* write.h - build a GGUF file, and write it with the weights of a model. */
#ifndef GT_CKPT_GGUF_WRITE_H
#define GT_CKPT_GGUF_WRITE_H

#include "lib/base/buf.h"
#include "lib/ckpt/gguf/gguf.h"
#include "lib/ckpt/write.h"

/*
 * Functions that add to a file copy their arguments. After an error they do nothing, and
 * gt_gguf_write() returns it.
 */
struct gt_gguf;

int gt_gguf_new(struct gt_gguf **out, struct gt_err *err);
void gt_gguf_free(struct gt_gguf *g); /* NULL is fine */

/* Return an arena that lives as long as the file, for tensors that no checkpoint has. */
struct gt_arena *gt_gguf_arena(struct gt_gguf *g);

/* ---- metadata ---- */

void gt_gguf_add_text(struct gt_gguf *g, const char *key, const char *value);
void gt_gguf_add_u32(struct gt_gguf *g, const char *key, uint32_t value);
void gt_gguf_add_f32(struct gt_gguf *g, const char *key, double value);
void gt_gguf_add_bool(struct gt_gguf *g, const char *key, bool value);

/* Begin an array of `count` elements, which the caller appends to the buffer: bytes by
 * gt_buf_add(), others by the functions below. */
struct gt_buf *gt_gguf_add_array(
    struct gt_gguf *g, const char *key, enum gt_gguf_value_type type, size_t count);
void gt_gguf_put_string(struct gt_buf *b, const char *bytes, size_t size);
void gt_gguf_put_i32(struct gt_buf *b, int32_t value);
void gt_gguf_put_f32(struct gt_buf *b, float value);

/* ---- tensors ---- */

struct gt_gguf_tensor {
	const char *name;
	const struct gt_gguf_type *type; /* of the elements in the file */
	int ndim;
	int64_t shape[GT_GGUF_MAX_DIMS]; /* as in PyTorch */
	/* The elements in the order in which they are written, whatever the shape: a view with
	 * strides may be an other order than that of the weight. Its storage is borrowed. */
	struct gt_tree_tensor view;
	float add; /* a number that is added to each element */
};

void gt_gguf_add_tensor(struct gt_gguf *g, const struct gt_gguf_tensor *t);

/* Return the type for rows of so many elements: `wanted`, or where they are not whole blocks of it
 * f16. */
const struct gt_gguf_type *gt_gguf_type_for(const struct gt_gguf_type *wanted, int64_t row);

/* Count the tensors, and the bytes of their elements in the file. */
void gt_gguf_tally(const struct gt_gguf *g, uint64_t *count, uint64_t *bytes);

/* Write the file, which appears whole or not at all. Of `options`, inputs, no_sync, losses
 * and progress are used. */
int gt_gguf_write(const char *path, struct gt_gguf *g, const struct gt_ckpt_write_options *options,
    struct gt_err *err);

#endif
