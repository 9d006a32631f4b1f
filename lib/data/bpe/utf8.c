/* utf8.c - texts that are not UTF-8 made so. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/text.h"
#include "lib/data/bpe/inside.h"

static const unsigned char replacement[] = { 0xEF, 0xBF, 0xBD }; /* U+FFFD */

/* The bytes of the second byte of a character that begins with `lead`. */
static bool may_follow(unsigned char lead, unsigned char second)
{
	unsigned char min = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
	unsigned char max = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;

	return second >= min && second <= max;
}

/* An ill-formed part goes as far as it could still have become a character (Unicode, D93b). */
static size_t damaged(const unsigned char *p, size_t n)
{
	size_t wanted = p[0] >= 0xF0 ? 4 : p[0] >= 0xE0 ? 3 : 2, i = 1;

	if (p[0] < 0xC2 || p[0] > 0xF4 || n < 2 || !may_follow(p[0], p[1]))
		return 1;
	while (i < wanted && i < n && (p[i] & 0xC0) == 0x80)
		i++;
	return i;
}

int gt_bpe_repair(unsigned char **out, size_t *size, int64_t *parts, const unsigned char *p,
    size_t n, struct gt_err *err)
{
	size_t first = gt_text_utf8_bytes(p, n), at = first, written = 0;

	*out = NULL;
	*parts = 0;
	*size = n;
	if (first == n)
		return 0;
	/* One byte may become three. */
	*out = gt_calloc(n + 2 * (n - first), 1, err);
	if (!*out)
		return GT_ENOMEM;
	for (size_t from = 0;; at = from + gt_text_utf8_bytes(p + from, n - from)) {
		memcpy(*out + written, p + from, at - from);
		written += at - from;
		if (at == n)
			break;
		memcpy(*out + written, replacement, sizeof(replacement));
		written += sizeof(replacement);
		++*parts;
		from = at + damaged(p + at, n - at);
	}
	*size = written;
	return 0;
}
