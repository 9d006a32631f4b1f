/* edit.c - strings of a pickle replaced: which opcodes change, then the new bytes. */
#include "lib/ckpt/pickle/pickle.h"

#include <stdlib.h>
#include <string.h>

#include "lib/ckpt/bytes.h"

/* The text wanted at a use: its own, or a change's. */
struct want {
	const char *text;
	size_t length;
	const struct gt_tree *string;
	size_t use;
};

/* An opcode that is written anew. */
struct patch {
	size_t at, length; /* offset and length of the old opcode */
	unsigned char op;
	size_t width; /* bytes of the length field that follows the opcode */
	const char *text;
	size_t text_length;
	size_t grown; /* bytes that the patches before this one add; modulo 2^64, they may shrink */
};

struct splice {
	const unsigned char *bytes;
	size_t size;
	const struct gt_pickle_layout *layout;
	struct want *wants;    /* [use_count], by string, then by place */
	struct patch *patches; /* by place; one more at the end */
	size_t count;
};

/* ---- the wanted texts ---- */

/*
 * Uses of one string become neighbours, and the first of them is the opcode that writes the
 * string: its new text decides which of the others must change.
 */
static int compare_wants(const void *a, const void *b)
{
	const struct want *x = a, *y = b;

	if (x->string != y->string)
		return (uintptr_t)x->string < (uintptr_t)y->string ? -1 : 1;
	return (x->use > y->use) - (x->use < y->use);
}

/* Uses and changes are both sorted by place. */
static int collect_wants(
    struct splice *s, const struct gt_pickle_change *changes, size_t count, struct gt_err *err)
{
	size_t next = 0;

	for (size_t i = 0; i < s->layout->use_count; i++) {
		const struct gt_pickle_use *use = &s->layout->uses[i];
		struct want *w = &s->wants[i];

		*w = (struct want){ use->string->string.bytes, use->string->string.length,
			use->string, i };
		if (next == count || changes[next].at != use->at)
			continue;
		w->text = changes[next++].to;
		w->length = strlen(w->text);
	}
	if (next < count)
		return gt_err_set(
		    err, GT_EINVAL, "pickle: byte %zu: no string is put there", changes[next].at);
	qsort(s->wants, s->layout->use_count, sizeof(*s->wants), compare_wants);
	return 0;
}

static bool same_text(const struct want *w, const char *text, size_t length)
{
	return w->length == length && !memcmp(w->text, text, length);
}

/* ---- which opcodes change ---- */

static bool brings_back(unsigned char op)
{
	return op == GT_PICKLE_GET || op == GT_PICKLE_BINGET || op == GT_PICKLE_LONG_BINGET ||
	       op == GT_PICKLE_DUP;
}

/*
 * The opcode for a text of `length` bytes in the family of `op`; false when `op` is no text's. A
 * short opcode is used only where the old one was short, because SHORT_BINUNICODE came with
 * protocol 4, and a reader of protocol 2 may reject it. Text by the line (STRING, UNICODE)
 * becomes text by length, which needs no escapes.
 */
static bool choose_text_opcode(struct patch *p, unsigned char op, size_t length)
{
	switch (op) {
	case GT_PICKLE_STRING:
	case GT_PICKLE_SHORT_BINSTRING:
	case GT_PICKLE_BINSTRING:
		p->op = op == GT_PICKLE_SHORT_BINSTRING && length < 256 ? op : GT_PICKLE_BINSTRING;
		break;
	case GT_PICKLE_UNICODE:
	case GT_PICKLE_SHORT_BINUNICODE:
	case GT_PICKLE_BINUNICODE:
	case GT_PICKLE_BINUNICODE8:
		p->op =
		    op == GT_PICKLE_SHORT_BINUNICODE && length < 256 ? op : GT_PICKLE_BINUNICODE;
		break;
	default:
		return false;
	}
	p->width =
	    p->op == GT_PICKLE_SHORT_BINSTRING || p->op == GT_PICKLE_SHORT_BINUNICODE ? 1 : 4;
	return length <= INT32_MAX; /* BINSTRING's length has a sign */
}

/* Write the text of `w` where it is used, in the family of the string's first opcode. */
static int add_patch(
    struct splice *s, const struct want *first, const struct want *w, struct gt_err *err)
{
	const struct gt_pickle_use *use = &s->layout->uses[w->use];
	unsigned char op = s->bytes[use->at];
	struct patch *p = &s->patches[s->count];

	*p = (struct patch){
		.at = use->at, .length = use->length, .text = w->text, .text_length = w->length
	};
	if ((w != first && !brings_back(op)) ||
	    !choose_text_opcode(p, s->bytes[s->layout->uses[first->use].at], w->length))
		return gt_err_set(err, GT_ENOTSUP,
		    "pickle: byte %zu: opcode 0x%02x: its text cannot be changed", use->at, op);
	s->count++;
	return 0;
}

/* The uses of one string: the first one writes it, the others ask for it. */
static int patch_string(struct splice *s, const struct want *uses, size_t count, struct gt_err *err)
{
	const struct gt_tree *old = uses->string;
	int rc = 0;

	if (!same_text(uses, old->string.bytes, old->string.length))
		rc = add_patch(s, uses, uses, err);
	for (size_t i = 1; !rc && i < count; i++)
		if (!same_text(&uses[i], uses->text, uses->length))
			rc = add_patch(s, uses, &uses[i], err);
	return rc;
}

static size_t patch_bytes(const struct patch *p)
{
	return 1 + p->width + p->text_length;
}

static int make_patches(struct splice *s, struct gt_err *err)
{
	size_t n = s->layout->use_count, end;
	int rc = 0;

	for (size_t i = 0; !rc && i < n; i = end) {
		for (end = i + 1; end < n && s->wants[end].string == s->wants[i].string;)
			end++;
		rc = patch_string(s, &s->wants[i], end - i, err);
	}
	qsort(s->patches, s->count, sizeof(*s->patches), gt_compare_numbers);
	for (size_t i = 0; i < s->count; i++)
		/*
		 * The patch behind the last one has no bytes; its `grown` is the growth of the
		 * whole.
		 */
		s->patches[i + 1].grown =
		    s->patches[i].grown + patch_bytes(&s->patches[i]) - s->patches[i].length;
	return rc;
}

/* ---- the new bytes ---- */

static unsigned char *put_patch(unsigned char *out, const struct patch *p)
{
	*out++ = p->op;
	out = gt_put_le(out, p->text_length, p->width);
	memcpy(out, p->text, p->text_length);
	return out + p->text_length;
}

/*
 * The bytes that all before `end` grows by. A frame that ends inside an opcode was wrong before:
 * which of the two ways it is wrong afterwards does not matter. Example: a frame whose body is
 * [11, 31), and a string at byte 15 whose new text is 2 bytes shorter.
 *
 *   growth(11)    0                       no patch is before the body
 *   growth(31)    2^64 - 2                the patch at 15 is
 *   new length    20 + (2^64 - 2) - 0     18, because size_t wraps around
 */
static size_t growth(const struct splice *s, size_t end)
{
	size_t low = 0, high = s->count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (s->patches[middle].at < end)
			low = middle + 1;
		else
			high = middle;
	}
	return s->patches[low].grown;
}

/* Copy the old bytes up to `end`, which a frame's header may lie in. */
static unsigned char *put_old(
    const struct splice *s, unsigned char *out, size_t *at, size_t end, size_t *frame)
{
	for (; *frame < s->layout->frame_count && s->layout->frames[*frame] < end; ++*frame) {
		size_t header = s->layout->frames[*frame], body = header + 1 + 8;
		/*
		 * The header itself is FRAME and 8 bytes of length. Its body is measured by the
		 * old places, at which patches are listed.
		 */
		uint64_t length = gt_get_le(s->bytes + header + 1, 8);

		memcpy(out, s->bytes + *at, header + 1 - *at);
		out += header + 1 - *at;
		out = gt_put_le(out, length + growth(s, body + length) - growth(s, body), 8);
		*at = body;
	}
	memcpy(out, s->bytes + *at, end - *at);
	out += end - *at;
	*at = end;
	return out;
}

static int put_all(
    const struct splice *s, unsigned char **out, size_t *out_size, struct gt_err *err)
{
	size_t at = 0, frame = 0;
	unsigned char *p;

	*out_size = s->size + growth(s, s->size);
	*out = gt_calloc(*out_size, 1, err);
	if (!*out)
		return GT_ENOMEM;
	p = *out;
	for (size_t i = 0; i < s->count; i++) {
		p = put_old(s, p, &at, s->patches[i].at, &frame);
		p = put_patch(p, &s->patches[i]);
		at += s->patches[i].length;
	}
	put_old(s, p, &at, s->size, &frame);
	return 0;
}

/*
 * Write the pickle [bytes, bytes + size) again, with `count` changes. gt_pickle_read() has filled
 * `layout` when it read this pickle. The changes are sorted by `at`; no two have the same `at`. The
 * caller frees *out with free().
 *
 * A pickle contains the text of a string at its first use; later uses fetch the string from the
 * memo. If the first use changes, the new text is written at this use. A later use that has the
 * same new text still fetches it from the memo. A later use that must have another text (the old
 * text, for instance) gets an opcode that contains this text. So each change affects only its own
 * use. A new opcode contains the same type of string as the opcode of the first use: a string of
 * Python 2 (BINSTRING) or Unicode (BINUNICODE). A new opcode is short (SHORT_BINSTRING,
 * SHORT_BINUNICODE) only if the opcode of the first use was short, because a reader of protocol 2
 * may refuse SHORT_BINUNICODE. The lengths of frames are computed again.
 *
 * Example: in {"m.w": 1, "x": "m.w"}, the key "m.w" becomes "w".
 *
 *   before                             after
 *   PROTO 2, EMPTY_DICT, BINPUT 0      unchanged
 *   MARK                               unchanged
 *   BINUNICODE "m.w", BINPUT 1         BINUNICODE "w", BINPUT 1    the change is at this opcode
 *   BININT1 1                          unchanged
 *   BINUNICODE "x", BINPUT 2           unchanged
 *   BINGET 1                           BINUNICODE "m.w"            this later use keeps its text
 *   SETITEMS, STOP                     unchanged
 *
 * Errors: GT_EINVAL if the opcode at the offset of a change does not put a string on the stack.
 * GT_ENOTSUP if no opcode that contains the text can replace that opcode. GT_ENOMEM.
 */
int gt_pickle_edit(unsigned char **out, size_t *out_size, const unsigned char *bytes, size_t size,
    const struct gt_pickle_layout *layout, const struct gt_pickle_change *changes, size_t count,
    struct gt_err *err)
{
	struct splice s = { .bytes = bytes, .size = size, .layout = layout };
	int rc = GT_ENOMEM;

	*out = NULL;
	s.wants = gt_calloc(layout->use_count, sizeof(*s.wants), err);
	s.patches = gt_calloc(layout->use_count + 1, sizeof(*s.patches), err);
	if (s.wants && s.patches)
		rc = collect_wants(&s, changes, count, err);
	if (!rc)
		rc = make_patches(&s, err);
	if (!rc)
		rc = put_all(&s, out, out_size, err);
	free(s.wants);
	free(s.patches);
	return rc;
}
