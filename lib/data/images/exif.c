/* exif.c - the orientation in a JPEG's Exif part, and pixels turned by it. */
#include "lib/data/images/exif.h"

#include <stdbool.h>
#include <string.h>

/* The TIFF file in the segment, of which every number is checked before it is used. */
struct tiff {
	const unsigned char *p;
	size_t size;
	bool big_endian;
};

static unsigned get16(const struct tiff *t, size_t at)
{
	const unsigned char *p = t->p + at;

	return t->big_endian ? (unsigned)p[0] << 8 | p[1] : (unsigned)p[1] << 8 | p[0];
}

static uint32_t get32(const struct tiff *t, size_t at)
{
	uint32_t first = get16(t, at), second = get16(t, at + 2);

	return t->big_endian ? first << 16 | second : second << 16 | first;
}

/* A directory: the number of its entries, and these, of 12 bytes: tag, type, count, value. */
static int find_orientation(const struct tiff *t)
{
	enum { TAG = 0x112, SHORT = 3, ENTRY = 12 };
	size_t at = get32(t, 4), count;

	if (at > t->size - 2)
		return 1;
	count = get16(t, at);
	at += 2;
	for (; count && t->size - at >= ENTRY; count--, at += ENTRY) {
		unsigned value = get16(t, at + 8);

		if (get16(t, at) == TAG)
			return get16(t, at + 2) == SHORT && value >= 1 && value <= 8 ? (int)value
			                                                             : 1;
	}
	return 1;
}

static int read_segment(const unsigned char *p, size_t size)
{
	enum { NAME = 6, HEADER = 8 };
	struct tiff t = { p + NAME, size - NAME, false };

	if (size < NAME + HEADER || memcmp(p, "Exif\0", NAME) != 0)
		return 0;
	if (!memcmp(t.p, "MM\0*", 4))
		t.big_endian = true;
	else if (memcmp(t.p, "II*\0", 4) != 0)
		return 1;
	return find_orientation(&t);
}

/* Segments are a marker, FF and a number, and two bytes that tell the length of the rest, these
 * two included. They go on to the first scan (SOS) or to the end (EOI). */
int gt_exif_orientation(const unsigned char *jpeg, size_t size)
{
	enum { SOS = 0xDA, EOI = 0xD9, APP1 = 0xE1 };
	size_t at = 2;

	while (size >= 4 && at <= size - 4 && jpeg[at] == 0xFF) {
		size_t length = (size_t)jpeg[at + 2] << 8 | jpeg[at + 3];
		unsigned marker = jpeg[at + 1];
		int found = 0;

		if (marker == 0xFF) { /* a byte of padding */
			at++;
			continue;
		}
		if (marker == SOS || marker == EOI || length < 2 || length > size - at - 2)
			break;
		if (marker == APP1)
			found = read_segment(jpeg + at + 4, length - 2);
		if (found)
			return found;
		at += 2 + length;
	}
	return 1;
}

/*
 * Where the pixel comes from that is shown at (x, y), in a picture of width W and height H as it is
 * stored:
 *
 *   1  x, y              3  W-1-x, H-1-y      5  y, x        7  W-1-y, H-1-x
 *   2  W-1-x, y          4  x, H-1-y          6  y, H-1-x    8  W-1-y, x
 */
void gt_exif_turn(
    uint8_t *out, const uint8_t *pixels, int width, int height, int channels, int orientation)
{
	bool exchanged = orientation >= 5;
	bool flip_x = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
	bool flip_y = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
	int rows = exchanged ? width : height, columns = exchanged ? height : width;

	for (int y = 0; y < rows; y++)
		for (int x = 0; x < columns; x++, out += channels) {
			int from_x = exchanged ? y : x, from_y = exchanged ? x : y;

			from_x = flip_x ? width - 1 - from_x : from_x;
			from_y = flip_y ? height - 1 - from_y : from_y;
			memcpy(out, pixels + ((size_t)from_y * width + from_x) * channels,
			    (size_t)channels);
		}
}
