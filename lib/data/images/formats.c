/* formats.c - formats of pictures, known by their first bytes and by the ends of names. */
#include <string.h>
#include <strings.h>

#include "lib/data/images/images.h"

/* A question mark in a signature stands for any byte. A format may have several rows. */
static const struct row {
	struct gt_image_format format;
	const char *endings[4];
	const char *signature;
	size_t length; /* bytes of the signature; 0: there is none */
} table[] = {
	{ { "JPEG", GT_DECODER_JPEG }, { ".jpg", ".jpeg" }, "\xFF\xD8\xFF", 3 },
	{ { "PNG", GT_DECODER_PNG }, { ".png" }, "\x89PNG\r\n\x1A\n", 8 },
	{ { "WebP", GT_DECODER_WEBP }, { ".webp" }, "RIFF????WEBP", 12 },
	{ { "GIF", GT_DECODER_NONE }, { ".gif" }, "GIF8", 4 },
	{ { "BMP", GT_DECODER_NONE }, { ".bmp" }, "BM????\0\0\0\0", 10 },
	{ { "TIFF", GT_DECODER_NONE }, { ".tif", ".tiff" }, "II*\0", 4 },
	{ { "TIFF", GT_DECODER_NONE }, { NULL }, "MM\0*", 4 },
	{ { "HEIC", GT_DECODER_NONE }, { ".heic", ".heif" }, "????ftyphe", 10 },
	{ { "HEIC", GT_DECODER_NONE }, { NULL }, "????ftypmif1", 12 },
	{ { "AVIF", GT_DECODER_NONE }, { ".avif" }, "????ftypavif", 12 },
	{ { "JPEG 2000", GT_DECODER_NONE }, { ".jp2", ".j2k" }, "\0\0\0\x0CjP  ", 8 },
	{ { "JPEG XL", GT_DECODER_NONE }, { ".jxl" }, "\0\0\0\x0CJXL ", 8 },
	{ { "JPEG XL", GT_DECODER_NONE }, { NULL }, "\xFF\x0A", 2 },
	{ { "PNM", GT_DECODER_NONE }, { ".ppm", ".pgm", ".pnm" }, "P6\n", 3 },
	{ { "PNM", GT_DECODER_NONE }, { NULL }, "P5\n", 3 },
	{ { "PSD", GT_DECODER_NONE }, { ".psd" }, "8BPS", 4 },
	{ { "TGA", GT_DECODER_NONE }, { ".tga" }, NULL, 0 },
};

enum { ROWS = sizeof(table) / sizeof(*table), ENDINGS = 4 };

static bool has_signature(const struct row *r, const unsigned char *data, size_t size)
{
	if (!r->length || size < r->length)
		return false;
	for (size_t i = 0; i < r->length; i++)
		if (r->signature[i] != '?' && data[i] != (unsigned char)r->signature[i])
			return false;
	return true;
}

const struct gt_image_format *gt_image_format_of_bytes(const unsigned char *data, size_t size)
{
	for (int i = 0; i < ROWS; i++)
		if (has_signature(&table[i], data, size))
			return &table[i].format;
	return NULL;
}

const struct gt_image_format *gt_image_format_of_name(const char *path)
{
	size_t length = strlen(path);

	for (int i = 0; i < ROWS * ENDINGS; i++) {
		const char *ending = table[i / ENDINGS].endings[i % ENDINGS];
		size_t n = ending ? strlen(ending) : 0;

		if (ending && length >= n && !strcasecmp(path + length - n, ending))
			return &table[i / ENDINGS].format;
	}
	return NULL;
}
