/* der.h - private: values of ASN.1 in DER, and their armor, PEM. */
#ifndef GT_CKPT_SIGN_DER_H
#define GT_CKPT_SIGN_DER_H

#include <nettle/asn1.h>
#include <stdbool.h>

#include "lib/base/buf.h"

enum {
	GT_DER_CONTEXT_0 = ASN1_CLASS_CONTEXT_SPECIFIC | ASN1_TYPE_CONSTRUCTED,
	GT_DER_SEQUENCE_TAG = 0x30 /* the byte that begins a sequence */
};

/* Bytes that belong to someone else. */
struct gt_der_bytes {
	const unsigned char *data;
	size_t size;
};

/* Begin to read the sequence that `bytes` are, to their end, and step to its first value. */
bool gt_der_enter(struct asn1_der_iterator *i, struct gt_der_bytes bytes);

/* Step into the sequence, or another constructed value, at `i`. */
bool gt_der_enter_at(
    struct asn1_der_iterator *inner, struct asn1_der_iterator *i, enum asn1_type type);

/* Return whether the value at `i` has this type. */
bool gt_der_is(const struct asn1_der_iterator *i, enum asn1_type type);

/* Return the content of the value at `i`. */
struct gt_der_bytes gt_der_content(const struct asn1_der_iterator *i);

/* Append a value: tag, length and content. */
void gt_der_add(struct gt_buf *out, unsigned char tag, const void *content, size_t size);

/* A block of a PEM file: the label is "PUBLIC KEY" in "-----BEGIN PUBLIC KEY-----". */
struct gt_pem_block {
	const char *label; /* [label_size] */
	size_t label_size;
	const char *body; /* [body_size] lines of base64, perhaps after headers */
	size_t body_size;
	bool encrypted; /* a header says so */
};

/* Find the next block of a text from *at on, and move *at behind it. False: there is none. */
bool gt_pem_next(struct gt_pem_block *block, size_t *at, const char *text, size_t size);

/* Decode a block to out->text. Errors: GT_EFORMAT, GT_ENOMEM. */
int gt_pem_decode(struct gt_buf *out, const struct gt_pem_block *block, struct gt_err *err);

/* Append bytes as a block of PEM, in lines of 64 characters. */
void gt_pem_add(struct gt_buf *out, const char *label, const void *bytes, size_t size);

#endif
