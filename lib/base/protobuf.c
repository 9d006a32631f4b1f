/* protobuf.c - the encoding of protocol buffers: keys, integers of variable length, bytes. */
#include "lib/base/protobuf.h"

#include <string.h>

/* The last three bits of a field's key say how its value is written. */
enum wire { WIRE_VARINT = 0, WIRE_BYTES = 2, WIRE_32_BITS = 5 };

/* Seven bits per byte, the lowest first. All bytes but the last one have their top bit set. */
static void add_varint(struct gt_buf *b, uint64_t value)
{
	unsigned char bytes[10];
	size_t n = 0;

	do {
		bytes[n] = (unsigned char)(value & 0x7f);
		value >>= 7;
		bytes[n++] |= value ? 0x80 : 0;
	} while (value);
	gt_buf_add(b, bytes, n);
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
