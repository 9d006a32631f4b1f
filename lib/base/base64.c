/* base64.c - bytes as base64, and back, by nettle. */
#include "lib/base/base64.h"

#include <nettle/base64.h>
#include <stdlib.h>
#include <string.h>

void gt_base64_add(struct gt_buf *out, const void *bytes, size_t size)
{
	size_t length = BASE64_ENCODE_RAW_LENGTH(size);
	char *text = malloc(length ? length : 1);

	if (!text) {
		out->failed = true;
		return;
	}
	base64_encode_raw(text, size, bytes);
	gt_buf_add(out, text, length);
	free(text);
}

int gt_base64_decode(struct gt_buf *out, const char *text, size_t size, struct gt_err *err)
{
	size_t used = BASE64_DECODE_LENGTH(size);
	uint8_t *bytes = gt_calloc(used, 1, err);
	struct base64_decode_ctx decoder;
	bool right;

	if (!bytes)
		return GT_ENOMEM;
	base64_decode_init(&decoder);
	right = base64_decode_update(&decoder, &used, bytes, size, text) &&
	        base64_decode_final(&decoder);
	if (right)
		gt_buf_add(out, bytes, used);
	explicit_bzero(bytes, BASE64_DECODE_LENGTH(size));
	free(bytes);
	return right ? gt_buf_check(out, err) : gt_err_set(err, GT_EFORMAT, "damaged base64");
}
