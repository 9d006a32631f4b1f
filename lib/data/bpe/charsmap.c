/* charsmap.c - SentencePiece's table of texts and their replacements. */
#include "lib/data/bpe/charsmap.h"

#include <string.h>
#include <utf8proc.h>

#include "lib/base/text.h"

/*
 * The table is a trie as a double array (darts-clone), and texts that end with a NUL. It begins
 * with the bytes of the array, a uint32. A unit of the array, uint32, has:
 *
 *   bits 0-7 and 31   the byte that leads to this node; of a leaf, bit 31 is set and bits 0 to 30
 *                     are the place of the replacement
 *   bit 8             a key ends here: the child by the byte 0 is its leaf
 *   bits 9-31         the distance to the children, shifted by 8 more if bit 9 is set
 *
 * Each grapheme of a text that is shorter than 6 bytes is looked up, then each of its characters;
 * the replacement is that of the shortest key that the text begins with. So does the package.
 */
enum { LONGEST = 6 };

static uint32_t unit_at(const struct gt_bpe_charsmap *m, size_t at)
{
	const unsigned char *p = m->units + 4 * at;

	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint32_t offset_of(uint32_t unit)
{
	return (unit >> 10) << ((unit & 1u << 9) >> 6);
}

int gt_bpe_charsmap_init(
    struct gt_bpe_charsmap *m, const unsigned char *p, size_t n, struct gt_err *err)
{
	uint32_t size = 0;

	if (n >= 4)
		size = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
		       (uint32_t)p[3] << 24;
	if (n < 8 || size < 4 || size % 4 || size > n - 4)
		return gt_err_set(err, GT_EFORMAT, "the precompiled_charsmap is damaged");
	*m = (struct gt_bpe_charsmap){ p + 4, size / 4, (const char *)p + 4 + size, n - 4 - size };
	return 0;
}

/* The replacement of the shortest key that the text p [n] begins with, [*size]; NULL: none. */
static const char *find(
    const struct gt_bpe_charsmap *m, const unsigned char *p, size_t n, size_t *size)
{
	size_t node = offset_of(unit_at(m, 0));

	for (size_t i = 0; i < n; i++) {
		uint32_t unit;

		node ^= p[i];
		if (node >= m->count)
			return NULL;
		unit = unit_at(m, node);
		if ((unit & (1u << 31 | 0xFF)) != p[i])
			return NULL;
		node ^= offset_of(unit);
		if (unit >> 8 & 1) {
			size_t place;

			if (node >= m->count)
				return NULL;
			place = unit_at(m, node) & 0x7FFFFFFF;
			if (place >= m->text_size)
				return NULL;
			*size = strnlen(m->texts + place, m->text_size - place);
			return m->texts + place;
		}
	}
	return NULL;
}

/* A grapheme p [n]. */
static int put_grapheme(const struct gt_bpe_charsmap *m, struct gt_bpe_buffer *out,
    const unsigned char *p, size_t n, struct gt_err *err)
{
	size_t size;
	const char *found = n < LONGEST ? find(m, p, n, &size) : NULL;
	int rc = 0;

	if (found)
		return gt_bpe_buffer_put(out, (const unsigned char *)found, size, err);
	for (size_t i = 0; i < n && !rc;) {
		uint32_t code;
		size_t length = (size_t)gt_text_utf8(p + i, n - i, &code) ?: 1;

		found = find(m, p + i, length, &size);
		rc = found ? gt_bpe_buffer_put(out, (const unsigned char *)found, size, err)
		           : gt_bpe_buffer_put(out, p + i, length, err);
		i += length;
	}
	return rc;
}

int gt_bpe_charsmap_put(const struct gt_bpe_charsmap *m, struct gt_bpe_buffer *out,
    const unsigned char *p, size_t n, struct gt_err *err)
{
	utf8proc_int32_t state = 0;
	uint32_t before = 0, code;
	size_t from = 0;
	int rc = 0;

	for (size_t i = 0; i < n && !rc;) {
		size_t length = (size_t)gt_text_utf8(p + i, n - i, &code) ?: 1;

		if (i && utf8proc_grapheme_break_stateful(
		             (utf8proc_int32_t)before, (utf8proc_int32_t)code, &state)) {
			rc = put_grapheme(m, out, p + from, i - from, err);
			from = i;
		}
		before = code;
		i += length;
	}
	return rc || from == n ? rc : put_grapheme(m, out, p + from, n - from, err);
}
