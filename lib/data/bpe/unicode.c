/* unicode.c - properties and normalization forms of Unicode, by utf8proc. */
#include "lib/data/bpe/unicode.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "lib/base/mem.h"
#include "lib/base/text.h"

int gt_bpe_buffer_put(
    struct gt_bpe_buffer *out, const unsigned char *p, size_t n, struct gt_err *err)
{
	if (out->limit && n > out->limit - out->n)
		return gt_err_set(err, GT_ENOTSUP,
		    "replacements that make a text longer than %zu bytes are not supported",
		    out->limit);
	if (!out->p || out->capacity - out->n < n) {
		size_t capacity = 2 * out->capacity > out->n + n ? 2 * out->capacity : out->n + n;
		unsigned char *grown = gt_reallocarray(out->p, capacity + 16, 1, err);

		if (!grown)
			return GT_ENOMEM;
		out->p = grown;
		out->capacity = capacity + 16;
	}
	if (n)
		memcpy(out->p + out->n, p, n);
	out->n += n;
	return 0;
}

int gt_bpe_buffer_put_code(struct gt_bpe_buffer *out, uint32_t code, struct gt_err *err)
{
	unsigned char text[4];

	return gt_bpe_buffer_put(out, text, (size_t)gt_text_put_utf8(text, code), err);
}

bool gt_bpe_is_mark(uint32_t code)
{
	utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)code);

	return c == UTF8PROC_CATEGORY_MN || c == UTF8PROC_CATEGORY_MC || c == UTF8PROC_CATEGORY_ME;
}

bool gt_bpe_is_nonspacing(uint32_t code)
{
	return utf8proc_category((utf8proc_int32_t)code) == UTF8PROC_CATEGORY_MN;
}

bool gt_bpe_is_control(uint32_t code)
{
	utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)code);

	return c == UTF8PROC_CATEGORY_CC || c == UTF8PROC_CATEGORY_CF || c == UTF8PROC_CATEGORY_CO;
}

int gt_bpe_put_lower(struct gt_bpe_buffer *out, uint32_t code, struct gt_err *err)
{
	/* The only character that is two in lower case: utf8proc maps a character to one. */
	if (code == 0x130)
		return gt_bpe_buffer_put(out, (const unsigned char *)"i\xCC\x87", 3, err);
	return gt_bpe_buffer_put_code(out, (uint32_t)utf8proc_tolower((utf8proc_int32_t)code), err);
}

/* ---- normalization forms ---- */

static const struct {
	int options;
	/* Characters below this one stay as they are, and do not combine with each other. */
	uint32_t plain;
} forms[] = {
	[GT_BPE_NFC] = { UTF8PROC_STABLE | UTF8PROC_COMPOSE, 0x300 },
	[GT_BPE_NFD] = { UTF8PROC_STABLE | UTF8PROC_DECOMPOSE, 0xC0 },
	[GT_BPE_NFKC] = { UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT, 0xA0 },
	[GT_BPE_NFKD] = { UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT, 0xA0 },
};

/* Append a stretch of text, all of which is decomposed first. */
static int put_stretch(
    struct gt_bpe_buffer *out, int options, const unsigned char *p, size_t n, struct gt_err *err)
{
	utf8proc_ssize_t room = (utf8proc_ssize_t)n + 32, count;
	utf8proc_int32_t *codes = NULL;
	int rc = 0;

	for (;;) {
		utf8proc_int32_t *grown =
		    gt_reallocarray(codes, (size_t)room + 1, sizeof(*codes), err);

		if (!grown) {
			free(codes);
			return GT_ENOMEM;
		}
		codes = grown;
		count = utf8proc_decompose(
		    p, (utf8proc_ssize_t)n, codes, room, (utf8proc_option_t)options);
		if (count <= room)
			break;
		room = count;
	}
	if (count > 0)
		count = utf8proc_normalize_utf32(codes, count, (utf8proc_option_t)options);
	if (count < 0)
		rc = gt_err_set(
		    err, GT_EFORMAT, "the text is not normalized: %s", utf8proc_errmsg(count));
	for (utf8proc_ssize_t i = 0; i < count && !rc; i++)
		rc = gt_bpe_buffer_put_code(out, (uint32_t)codes[i], err);
	free(codes);
	return rc;
}

/* The bytes of plain characters at the beginning of p [n]; *last is the bytes of the last one. */
static size_t count_plain(const unsigned char *p, size_t n, uint32_t plain, size_t *last)
{
	size_t at = 0;

	*last = 0;
	while (at < n) {
		uint32_t code = p[at];
		int length = code < 0x80 ? 1 : gt_text_utf8(p + at, n - at, &code);

		if (!length || code >= plain)
			break;
		*last = (size_t)length;
		at += *last;
	}
	return at;
}

/*
 * Most of a text is plain. What is not, is normalized in stretches: from the plain character before
 * it, with which it may combine, to the next ASCII character, with which nothing before it does.
 */
int gt_bpe_put_form(struct gt_bpe_buffer *out, enum gt_bpe_form form, const unsigned char *p,
    size_t n, struct gt_err *err)
{
	int rc = 0;

	for (size_t at = 0; at < n && !rc;) {
		size_t last, plain = count_plain(p + at, n - at, forms[form].plain, &last), end;

		last = at + plain < n ? last : 0;
		plain -= last;
		rc = gt_bpe_buffer_put(out, p + at, plain, err);
		at += plain;
		end = at + last;
		while (end < n && p[end] >= 0x80)
			end++;
		if (!rc && end > at)
			rc = put_stretch(out, forms[form].options, p + at, end - at, err);
		at = end;
	}
	return rc;
}
