/* tensor.c - read a tensor of ONNX: its type, its shape, and where its elements are. */
#include <math.h>
#include <string.h>

#include "lib/ckpt/bytes.h"
#include "lib/ckpt/onnx/proto.h"
#include "lib/ckpt/onnx/read.h"
#include "lib/ckpt/tree/cast.h"

const char *gt_onnx_text(
    struct gt_arena *a, const struct gt_protobuf_field *field, struct gt_err *err)
{
	char *text;

	if (!field->bytes || memchr(field->bytes, 0, field->size)) {
		gt_err_set(err, GT_EFORMAT, "field %d is no text", field->number);
		return NULL;
	}
	text = gt_arena_alloc(a, field->size + 1, err);
	if (text)
		memcpy(text, field->bytes, field->size);
	return text;
}

int gt_onnx_read_pair(struct gt_arena *a, const struct gt_protobuf_field *message,
    const char *pair[2], struct gt_err *err)
{
	struct gt_protobuf_reader r = { message->bytes, message->size };
	struct gt_protobuf_field field;
	int rc;

	pair[0] = pair[1] = "";
	while ((rc = gt_protobuf_next(&r, &field, err)) > 0) {
		if (field.number != 1 && field.number != 2)
			continue;
		pair[field.number - 1] = gt_onnx_text(a, &field, err);
		if (!pair[field.number - 1])
			return err->code;
	}
	return rc;
}

/* ---- lists of numbers ---- */

/* Read the next element of a field: of several that are packed, or of one. */
static bool next_number(struct gt_protobuf_reader *r, const struct gt_protobuf_field *field,
    size_t size, bool *done, uint64_t *out)
{
	if (!field->bytes) {
		*out = field->value;
		return !*done && (*done = true);
	}
	if (!r->left)
		return false;
	return gt_protobuf_next_packed(r, size, out);
}

int gt_onnx_add_ints(json_t *list, const struct gt_protobuf_field *field, struct gt_err *err)
{
	struct gt_protobuf_reader r = { field->bytes, field->size };
	bool done = false;
	uint64_t x;

	while (next_number(&r, field, 0, &done, &x))
		if (json_array_append_new(list, json_integer((json_int_t)x)))
			return gt_err_set(err, GT_ENOMEM, "no memory for a list of numbers");
	return r.left ? gt_err_set(err, GT_EFORMAT, "a list of numbers is damaged") : 0;
}

json_t *gt_onnx_real(double number)
{
	if (isfinite(number))
		return json_real(number);
	return json_string(isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity");
}

int gt_onnx_add_floats(json_t *list, const struct gt_protobuf_field *field, struct gt_err *err)
{
	struct gt_protobuf_reader r = { field->bytes, field->size };
	bool done = false;
	struct gt_protobuf_field one = { 0 };

	while (next_number(&r, field, 4, &done, &one.value))
		if (json_array_append_new(list, gt_onnx_real((double)gt_protobuf_float_of(&one))))
			return gt_err_set(err, GT_ENOMEM, "no memory for a list of numbers");
	return r.left ? gt_err_set(err, GT_EFORMAT, "a list of numbers is damaged") : 0;
}

static double number_of(const json_t *x)
{
	const char *text = json_string_value(x);

	if (!text)
		return json_number_value(x);
	return *text == 'N' ? (double)NAN : *text == '-' ? -INFINITY : INFINITY;
}

struct gt_tree *gt_onnx_tensor_of(
    struct gt_arena *a, enum gt_dtype dtype, const json_t *numbers, struct gt_err *err)
{
	int ndim = json_is_array(numbers) ? 1 : 0;
	int64_t count = ndim ? (int64_t)json_array_size(numbers) : 1;
	char *elements = gt_arena_alloc(a, (size_t)count * sizeof(int64_t) + 1, err);

	if (!elements)
		return NULL;
	for (int64_t i = 0; i < count; i++) {
		const json_t *x = ndim ? json_array_get(numbers, (size_t)i) : numbers;
		int64_t whole = json_integer_value(x);
		float real = (float)number_of(x);

		if (dtype == GT_I64)
			memcpy(elements + i * 8, &whole, sizeof(whole));
		else
			memcpy(elements + i * 4, &real, sizeof(real));
	}
	return gt_tree_tensor(a, dtype, ndim, &count, elements, err);
}

/* ---- tensors ---- */

/* A tensor while it is read. */
struct parts {
	int64_t dims[GT_TREE_MAX_DIMS];
	int ndim;
	int64_t type, location;
	const char *name;
	struct gt_protobuf_field raw; /* bytes NULL: it has none */
	bool has_numbers;             /* in one of the fields for numbers */
	bool segment;
};

static int add_dims(struct parts *p, const struct gt_protobuf_field *field, struct gt_err *err)
{
	struct gt_protobuf_reader r = { field->bytes, field->size };
	bool done = false;
	uint64_t size;

	while (next_number(&r, field, 0, &done, &size)) {
		if (p->ndim == GT_TREE_MAX_DIMS)
			return gt_err_set(
			    err, GT_ENOTSUP, "more than %d dimensions", GT_TREE_MAX_DIMS);
		p->dims[p->ndim++] = (int64_t)size;
	}
	return r.left ? gt_err_set(err, GT_EFORMAT, "its dimensions are damaged") : 0;
}

static int read_part(
    struct parts *p, const struct gt_protobuf_field *field, struct gt_arena *a, struct gt_err *err)
{
	switch (field->number) {
	case GT_ONNX_DIMS:
		return add_dims(p, field, err);
	case GT_ONNX_DATA_TYPE:
		p->type = (int64_t)field->value;
		return 0;
	case GT_ONNX_SEGMENT:
		p->segment = true;
		return 0;
	case GT_ONNX_TENSOR_NAME:
		p->name = gt_onnx_text(a, field, err);
		return p->name ? 0 : err->code;
	case GT_ONNX_RAW_DATA:
		p->raw = *field;
		return 0;
	case GT_ONNX_DATA_LOCATION:
		p->location = (int64_t)field->value;
		return 0;
	case GT_ONNX_FLOAT_DATA:
	case GT_ONNX_INT32_DATA:
	case GT_ONNX_INT64_DATA:
	case GT_ONNX_DOUBLE_DATA:
	case GT_ONNX_UINT64_DATA:
		p->has_numbers = true;
		return 0;
	default:
		return 0;
	}
}

/* The field for numbers of a type, and the bytes of each in it; 0: an integer of variable
 * length. */
static int numbers_field(enum gt_dtype dtype, size_t *size)
{
	*size = dtype == GT_F32 ? 4 : dtype == GT_F64 ? 8 : 0;
	switch (dtype) {
	case GT_F32:
		return GT_ONNX_FLOAT_DATA;
	case GT_F64:
		return GT_ONNX_DOUBLE_DATA;
	case GT_I64:
		return GT_ONNX_INT64_DATA;
	case GT_U32:
	case GT_U64:
		return GT_ONNX_UINT64_DATA;
	default: /* half precision as its bits */
		return GT_ONNX_INT32_DATA;
	}
}

/* Read elements from the fields for numbers. */
static int read_numbers(const struct gt_protobuf_field *message, struct gt_storage *storage,
    enum gt_dtype dtype, struct gt_arena *a, struct gt_err *err)
{
	struct gt_protobuf_reader r = { message->bytes, message->size };
	struct gt_protobuf_field field;
	size_t size, width = gt_dtype_size(dtype), count = storage->size_bytes / width, at = 0;
	int number = numbers_field(dtype, &size), rc;
	unsigned char *out;
	uint64_t x;

	if (count > message->size) /* a number has at least one byte */
		return gt_err_set(err, GT_EFORMAT, "it has fewer numbers than elements");
	out = gt_arena_alloc(a, storage->size_bytes + 1, err);
	if (!out)
		return GT_ENOMEM;
	while ((rc = gt_protobuf_next(&r, &field, err)) > 0) {
		struct gt_protobuf_reader packed = { field.bytes, field.size };
		bool done = false;

		if (field.number != number)
			continue;
		while (next_number(&packed, &field, size, &done, &x)) {
			if (at == count)
				return gt_err_set(
				    err, GT_EFORMAT, "it has more numbers than elements");
			gt_put_le(out + at++ * width, x, width);
		}
		if (packed.left)
			return gt_err_set(err, GT_EFORMAT, "its numbers are damaged");
	}
	if (!rc && at != count)
		rc = gt_err_set(err, GT_EFORMAT, "it has %zu numbers for %zu elements", at, count);
	storage->bytes = out;
	return rc;
}

static int read_raw(const struct gt_onnx_reader *r, const struct parts *p,
    struct gt_storage *storage, struct gt_err *err)
{
	if (p->raw.size != storage->size_bytes)
		return gt_err_set(err, GT_EFORMAT, "its elements have %zu bytes, not %zu",
		    p->raw.size, storage->size_bytes);
	storage->bytes = p->raw.bytes;
	storage->map = &r->ckpt->map;
	storage->file_offset = (uint64_t)(p->raw.bytes - r->ckpt->map.data);
	return 0;
}

static int read_elements(struct gt_onnx_reader *r, const struct gt_protobuf_field *message,
    const struct parts *p, struct gt_tree_tensor *t, struct gt_err *err)
{
	enum { HERE = 0, IN_ANOTHER_FILE = 1 };

	t->storage->swapped = gt_host_is_big();
	if (p->segment)
		return gt_err_set(err, GT_ENOTSUP, "a part of a tensor (segment)");
	if (p->location == IN_ANOTHER_FILE)
		return gt_onnx_read_external(r, message, t->storage, err);
	if (p->location != HERE)
		return gt_err_set(
		    err, GT_EFORMAT, "its data_location is %lld", (long long)p->location);
	if (p->raw.bytes)
		return read_raw(r, p, t->storage, err);
	if (!p->has_numbers && t->storage->size_bytes)
		return gt_err_set(err, GT_EFORMAT, "it has no elements");
	return read_numbers(message, t->storage, t->dtype, r->arena, err);
}

/* Return the tensor without its elements. */
static struct gt_tree *make_tensor(
    const struct gt_onnx_reader *r, const struct parts *p, struct gt_err *err)
{
	int64_t stride[GT_TREE_MAX_DIMS], bytes;
	enum gt_dtype dtype;

	if (!gt_onnx_dtype(p->type, &dtype)) {
		gt_err_set(err, GT_ENOTSUP, "it has elements of type %lld, which gtrain lacks",
		    (long long)p->type);
		return NULL;
	}
	if (!gt_ckpt_tensor_contiguous_stride(p->ndim, p->dims, stride) ||
	    (p->ndim && __builtin_mul_overflow(p->dims[0] ? stride[0] : 0, p->dims[0], &bytes)) ||
	    (p->ndim && __builtin_mul_overflow(bytes, (int64_t)gt_dtype_size(dtype), &bytes))) {
		gt_err_set(err, GT_EFORMAT, "its shape is negative or overflows");
		return NULL;
	}
	return gt_tree_tensor(r->arena, dtype, p->ndim, p->dims, NULL, err);
}

int gt_onnx_read_tensor(struct gt_onnx_reader *r, const struct gt_protobuf_field *message,
    struct gt_tree **out, const char **name, struct gt_err *err)
{
	struct gt_protobuf_reader fields = { message->bytes, message->size };
	struct parts p = { .name = "" };
	struct gt_protobuf_field field;
	int rc;

	*out = NULL;
	if (!message->bytes)
		return gt_err_set(err, GT_EFORMAT, "a tensor is no message");
	while ((rc = gt_protobuf_next(&fields, &field, err)) > 0)
		if (read_part(&p, &field, r->arena, err))
			return err->code;
	*name = p.name;
	if (!rc) {
		*out = make_tensor(r, &p, err);
		rc = *out ? read_elements(r, message, &p, &(*out)->tensor, err) : err->code;
	}
	if (!rc) {
		(*out)->tensor.storage->name = p.name;
		rc = gt_ckpt_tensor_check(&(*out)->tensor, err);
	}
	return rc ? gt_err_prefix(err, "the tensor '%.200s'", p.name) : 0;
}
