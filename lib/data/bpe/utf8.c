/* utf8.c - texts that are not UTF-8 made so. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/text.h"
#include "lib/data/bpe/inside.h"

static const unsigned char replacement[] = { 0xEF, 0xBF, 0xBD }; /* U+FFFD */

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
		from = at + gt_text_utf8_damaged(p + at, n - at);
	}
	*size = written;
	return 0;
}
