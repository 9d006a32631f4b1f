/* der.c - values of ASN.1 in DER, and their armor, PEM. */
#include "lib/ckpt/sign/der.h"

#include <string.h>

#include "lib/base/base64.h"

/* ---- DER ---- */

bool gt_der_is(const struct asn1_der_iterator *i, enum asn1_type type)
{
	return i->type == type;
}

bool gt_der_enter(struct asn1_der_iterator *i, struct gt_der_bytes bytes)
{
	enum asn1_iterator_result r = asn1_der_iterator_first(i, bytes.size, bytes.data);

	if (r != ASN1_ITERATOR_CONSTRUCTED || !gt_der_is(i, ASN1_SEQUENCE))
		return false;
	r = asn1_der_decode_constructed_last(i);
	return r == ASN1_ITERATOR_PRIMITIVE || r == ASN1_ITERATOR_CONSTRUCTED;
}

bool gt_der_enter_at(
    struct asn1_der_iterator *inner, struct asn1_der_iterator *i, enum asn1_type type)
{
	enum asn1_iterator_result r;

	if (!gt_der_is(i, type))
		return false;
	r = asn1_der_decode_constructed(i, inner);
	return r == ASN1_ITERATOR_PRIMITIVE || r == ASN1_ITERATOR_CONSTRUCTED;
}

struct gt_der_bytes gt_der_content(const struct asn1_der_iterator *i)
{
	return (struct gt_der_bytes){ i->data, i->length };
}

void gt_der_add(struct gt_buf *out, unsigned char tag, const void *content, size_t size)
{
	unsigned char head[2 + sizeof(size)] = { tag };
	size_t bytes = 0;

	while (size >= 0x80 && bytes < sizeof(size) && size >> 8 * bytes)
		bytes++;
	if (!bytes) {
		head[1] = (unsigned char)size;
	} else {
		head[1] = (unsigned char)(0x80 | bytes);
		for (size_t i = 0; i < bytes; i++)
			head[2 + i] = (unsigned char)(size >> 8 * (bytes - 1 - i));
	}
	gt_buf_add(out, head, 2 + bytes);
	gt_buf_add(out, content, size);
}

/* ---- PEM ---- */

static const char *find_text(const char *text, size_t size, size_t at, const char *words)
{
	return memmem(text + at, size - at, words, strlen(words));
}

bool gt_pem_next(struct gt_pem_block *b, size_t *at, const char *text, size_t size)
{
	static const char begin[] = "-----BEGIN ", end[] = "-----END ", dashes[] = "-----";
	const char *start = find_text(text, size, *at, begin), *after, *stop, *blank;

	if (!start)
		return false;
	*b = (struct gt_pem_block){ .label = start + strlen(begin) };
	after = find_text(text, size, (size_t)(b->label - text), dashes);
	if (!after)
		return false;
	b->label_size = (size_t)(after - b->label);
	b->body = after + strlen(dashes);
	stop = find_text(text, size, (size_t)(b->body - text), end);
	if (!stop)
		return false;
	b->body_size = (size_t)(stop - b->body);
	*at = (size_t)(stop - text) + strlen(end);
	b->encrypted = find_text(b->body, b->body_size, 0, "ENCRYPTED") != NULL;
	/* Headers end with an empty line. */
	blank = find_text(b->body, b->body_size, 0, "\n\n");
	if (blank && memchr(b->body, ':', b->body_size)) {
		b->body_size -= (size_t)(blank - b->body);
		b->body = blank;
	}
	return true;
}

int gt_pem_decode(struct gt_buf *out, const struct gt_pem_block *block, struct gt_err *err)
{
	return gt_base64_decode(out, block->body, block->body_size, err);
}

void gt_pem_add(struct gt_buf *out, const char *label, const void *bytes, size_t size)
{
	enum { LINE = 64 };
	struct gt_buf text = { 0 };

	gt_base64_add(&text, bytes, size);
	gt_buf_printf(out, "-----BEGIN %s-----\n", label);
	for (size_t i = 0; i < text.length; i += LINE)
		gt_buf_printf(out, "%.*s\n", LINE, text.text + i);
	gt_buf_printf(out, "-----END %s-----\n", label);
	out->failed |= text.failed;
	gt_buf_release(&text);
}
