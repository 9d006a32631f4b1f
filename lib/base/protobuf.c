/* protobuf.c - the encoding of protocol buffers: keys, integers of variable length, bytes. */
#include "lib/base/protobuf.h"

#include <stdbool.h>
#include <string.h>

/* The last three bits of a field's key say how its value is written. */
enum wire { WIRE_VARINT = 0, WIRE_64_BITS = 1, WIRE_BYTES = 2, WIRE_32_BITS = 5 };

enum { VARINT_MAX = 10 }; /* bytes */

/* Seven bits per byte, the lowest first. All bytes but the last one have their top bit set. Returns
 * the number of bytes. */
static size_t encode_varint(unsigned char bytes[VARINT_MAX], uint64_t value)
{
	size_t n = 0;

	do {
		bytes[n] = (unsigned char)(value & 0x7f);
		value >>= 7;
		bytes[n++] |= value ? 0x80 : 0;
	} while (value);
	return n;
}

static void add_varint(struct gt_buf *b, uint64_t value)
{
	unsigned char bytes[VARINT_MAX];

	gt_buf_add(b, bytes, encode_varint(bytes, value));
}

/* The lowest byte first, on every machine. */
static void add_64_bits(struct gt_buf *b, double value)
{
	unsigned char bytes[8];
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	for (int i = 0; i < 8; i++)
		bytes[i] = (unsigned char)(bits >> 8 * i);
	gt_buf_add(b, bytes, sizeof(bytes));
}

static void add_key(struct gt_buf *b, int field, enum wire wire)
{
	add_varint(b, (uint64_t)field << 3 | wire);
}

void gt_protobuf_int(struct gt_buf *message, int field, int64_t value)
{
	add_key(message, field, WIRE_VARINT);
	add_varint(message, (uint64_t)value);
}

void gt_protobuf_ints(struct gt_buf *message, int field, int count, const int64_t *values)
{
	for (int i = 0; i < count; i++)
		gt_protobuf_int(message, field, values[i]);
}

void gt_protobuf_float(struct gt_buf *message, int field, float value)
{
	unsigned char bytes[4];
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	for (int i = 0; i < 4; i++)
		bytes[i] = (unsigned char)(bits >> 8 * i);
	add_key(message, field, WIRE_32_BITS);
	gt_buf_add(message, bytes, sizeof(bytes));
}

void gt_protobuf_double(struct gt_buf *message, int field, double value)
{
	add_key(message, field, WIRE_64_BITS);
	add_64_bits(message, value);
}

void gt_protobuf_doubles(struct gt_buf *message, int field, size_t count, const double *values)
{
	gt_protobuf_start(message, field, count * sizeof(*values));
	for (size_t i = 0; i < count; i++)
		add_64_bits(message, values[i]);
}

void gt_protobuf_start(struct gt_buf *message, int field, uint64_t size)
{
	add_key(message, field, WIRE_BYTES);
	add_varint(message, size);
}

void gt_protobuf_bytes(struct gt_buf *message, int field, const void *bytes, size_t size)
{
	gt_protobuf_start(message, field, size);
	gt_buf_add(message, bytes, size);
}

void gt_protobuf_text(struct gt_buf *message, int field, const char *text)
{
	gt_protobuf_bytes(message, field, text, strlen(text));
}

void gt_protobuf_message(struct gt_buf *message, int field, struct gt_buf *value)
{
	gt_protobuf_bytes(message, field, gt_buf_text(value), value->length);
	message->failed |= value->failed;
	gt_buf_release(value);
}

size_t gt_protobuf_begin(struct gt_buf *message, int field)
{
	add_key(message, field, WIRE_BYTES);
	return message->length;
}

/* The size stands before the fields, and its own size depends on theirs: so they move. */
void gt_protobuf_end(struct gt_buf *message, size_t begin)
{
	unsigned char bytes[VARINT_MAX];
	size_t size = message->length - begin, n = encode_varint(bytes, size);

	gt_buf_add(message, bytes, n);
	if (message->failed) /* then text is missing, so that `begin` may be beyond the end */
		return;
	memmove(message->text + begin + n, message->text + begin, size);
	memcpy(message->text + begin, bytes, n);
}

/* ---- reading ---- */

/* Read an integer of variable length. */
static bool read_varint(struct gt_protobuf_reader *r, uint64_t *value)
{
	*value = 0;
	for (int i = 0; i < VARINT_MAX && r->left; i++) {
		unsigned char byte = *r->p++;

		r->left--;
		*value |= (uint64_t)(byte & 0x7f) << 7 * i;
		if (!(byte & 0x80))
			return true;
	}
	return false;
}

/* Read a number of `size` bytes, the lowest first. */
static bool read_fixed(struct gt_protobuf_reader *r, size_t size, uint64_t *value)
{
	*value = 0;
	if (r->left < size)
		return false;
	for (size_t i = 0; i < size; i++)
		*value |= (uint64_t)r->p[i] << 8 * i;
	r->p += size;
	r->left -= size;
	return true;
}

static bool read_value(struct gt_protobuf_reader *r, struct gt_protobuf_field *field, unsigned wire)
{
	switch (wire) {
	case WIRE_VARINT:
		return read_varint(r, &field->value);
	case WIRE_64_BITS:
		return read_fixed(r, 8, &field->value);
	case WIRE_32_BITS:
		return read_fixed(r, 4, &field->value);
	case WIRE_BYTES:
		if (!read_varint(r, &field->value) || field->value > r->left)
			return false;
		field->bytes = r->p;
		field->size = (size_t)field->value;
		r->p += field->size;
		r->left -= field->size;
		return true;
	default:
		return false;
	}
}

int gt_protobuf_next(
    struct gt_protobuf_reader *r, struct gt_protobuf_field *field, struct gt_err *err)
{
	uint64_t key;

	*field = (struct gt_protobuf_field){ 0 };
	if (!r->left)
		return 0;
	if (!read_varint(r, &key) || key >> 3 == 0 || key >> 3 > INT32_MAX)
		return gt_err_set(err, GT_EFORMAT, "the key of a field is damaged");
	field->number = (int)(key >> 3);
	if (!read_value(r, field, key & 7))
		return gt_err_set(err, GT_EFORMAT, "field %d is damaged", field->number);
	return 1;
}

bool gt_protobuf_next_packed(struct gt_protobuf_reader *r, size_t size, uint64_t *out)
{
	const struct gt_protobuf_reader before = *r;

	if (size ? read_fixed(r, size, out) : read_varint(r, out))
		return true;
	*r = before;
	return false;
}

float gt_protobuf_float_of(const struct gt_protobuf_field *field)
{
	uint32_t bits = (uint32_t)field->value;
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}
