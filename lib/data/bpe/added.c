/* added.c - added tokens, which are found in a text before it is cut into words. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/text.h"
#include "lib/data/bpe/inside.h"

/* Compare tokens by pass, then by their bytes. A token that begins another one comes before it. */
static int compare_added_tokens(const void *x, const void *y)
{
	const struct gt_bpe_added *a = x, *b = y;
	size_t least = a->text.n < b->text.n ? a->text.n : b->text.n;
	int order;

	if (a->normalized != b->normalized)
		return a->normalized ? 1 : -1;
	order = memcmp(a->text.p, b->text.p, least);
	if (order || a->text.n != b->text.n)
		return order ? order : a->text.n < b->text.n ? -1 : 1;
	return a->id < b->id ? -1 : a->id > b->id;
}

static int compare_ids(const void *x, const void *y)
{
	const struct gt_bpe_added *a = x, *b = y;

	if (a->id != b->id)
		return a->id < b->id ? -1 : 1;
	return a->place < b->place ? -1 : 1;
}

/* The reference gives a token that is listed twice the flags of the last time. */
static void remove_repeated(struct gt_bpe_added_list *list)
{
	size_t kept = 0;

	qsort(list->tokens, list->count, sizeof(*list->tokens), compare_ids);
	for (size_t i = 0; i < list->count; i++)
		if (i + 1 == list->count || list->tokens[i + 1].id != list->tokens[i].id)
			list->tokens[kept++] = list->tokens[i];
	list->count = kept;
}

void gt_bpe_added_sort(struct gt_bpe_added_list *list)
{
	uint32_t at = 0;

	if (list->count) {
		remove_repeated(list);
		qsort(list->tokens, list->count, sizeof(*list->tokens), compare_added_tokens);
	}
	for (int pass = 0; pass < 2; pass++)
		for (unsigned b = 0; b <= 256; b++) {
			list->first[pass][b] = at;
			while (b < 256 && at < list->count && list->tokens[at].normalized == pass &&
			       list->tokens[at].text.p[0] == b)
				at++;
		}
}

/* Return the first of the tokens [low, high) whose byte number `at` is at least `byte`. These
 * tokens are longer than `at` bytes, and agree in the bytes before it. */
static uint32_t find_byte(
    const struct gt_bpe_added_list *list, uint32_t low, uint32_t high, size_t at, unsigned byte)
{
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (list->tokens[middle].text.p[at] < byte)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/*
 * The longest token that begins here, or NULL. The tokens that agree with the text are a range that
 * each further byte makes smaller, so a place takes as many steps as bytes that agree.
 */
static const struct gt_bpe_added *find_here(
    const struct gt_bpe_added_list *list, int pass, const unsigned char *p, size_t left)
{
	uint32_t low = list->first[pass][*p], high = list->first[pass][*p + 1];
	const struct gt_bpe_added *found = NULL;

	for (size_t at = 1; low < high; at++) {
		if (list->tokens[low].text.n == at) {
			found = &list->tokens[low];
			while (low < high && list->tokens[low].text.n == at)
				low++;
		}
		if (at == left)
			break;
		low = find_byte(list, low, high, at, p[at]);
		high = find_byte(list, low, high, at, p[at] + 1u);
	}
	return found;
}

static int add_item(struct gt_bpe_items *out, const unsigned char *p, size_t n, int32_t id,
    bool begins, struct gt_err *err)
{
	int rc = gt_grow(&out->items, out->count, &out->capacity, sizeof(*out->items), err);

	if (!rc)
		out->items[out->count++] = (struct gt_bpe_item){ p, n, id, begins };
	return rc;
}

size_t gt_bpe_space_before(const unsigned char *text, size_t least, size_t at)
{
	size_t from = at;
	uint32_t code;

	while (from > least) {
		size_t back = 1;

		while (back < 4 && from - back > least && (text[from - back] & 0xC0) == 0x80)
			back++;
		if (!gt_text_utf8(text + from - back, back, &code) || !gt_bpe_is_space(code))
			break;
		from -= back;
	}
	return at - from;
}

size_t gt_bpe_space_after(const unsigned char *text, size_t at, size_t size)
{
	size_t to = at;
	uint32_t code;
	int n;

	while (
	    to < size && (n = gt_text_utf8(text + to, size - to, &code)) && gt_bpe_is_space(code))
		to += (size_t)n;
	return to - at;
}

/* Search a stretch of text for the tokens of pass `pass`. Text between tokens goes to the next
 * pass, or after pass `last` to the list. */
static int split_pass(const struct gt_bpe_added_list *list, int pass, int last,
    const unsigned char *text, size_t size, bool begins, struct gt_bpe_items *out,
    struct gt_err *err)
{
	size_t done = 0;
	int rc = 0;

	if (pass > last)
		return size ? add_item(out, text, size, -1, begins, err) : 0;
	if (list->first[pass][0] == list->first[pass][256])
		return split_pass(list, pass + 1, last, text, size, begins, out, err);
	for (size_t i = 0; i < size && !rc;) {
		const uint32_t *first = &list->first[pass][text[i]];
		const struct gt_bpe_added *found =
		    first[0] == first[1] ? NULL : find_here(list, pass, text + i, size - i);
		size_t from = i, to;

		if (!found) {
			i++;
			continue;
		}
		i = to = i + found->text.n;
		if (found->left && from > done)
			from -= gt_bpe_space_before(text, done, from);
		if (found->right)
			to += gt_bpe_space_after(text, to, size);
		if (from > done)
			rc = split_pass(list, pass + 1, last, text + done, from - done,
			    begins && !done, out, err);
		if (!rc)
			rc = add_item(out, text + from, to - from, found->id, false, err);
		done = to;
	}
	if (!rc && done < size)
		rc = split_pass(
		    list, pass + 1, last, text + done, size - done, begins && !done, out, err);
	return rc;
}

/* Normalize the segments of out->items, and search them for the tokens of the second pass. */
static int split_normalized(const struct gt_bpe_added_list *list,
    const struct gt_bpe_normalizers *normalizers, struct gt_bpe_items *out, struct gt_err *err)
{
	struct gt_bpe_items first = *out;
	size_t at = 0;
	int rc;

	*out = (struct gt_bpe_items){ 0 };
	out->texts = gt_calloc(first.count, sizeof(*out->texts), err);
	rc = out->texts ? 0 : GT_ENOMEM;
	for (size_t i = 0; i < first.count && !rc; i++)
		if (first.items[i].id < 0)
			out->texts[out->text_count++] =
			    (struct gt_bpe_normalized){ .p = first.items[i].p,
				    .n = first.items[i].n };
	if (!rc)
		rc = gt_bpe_normalize_all(normalizers, out->texts, out->text_count, err);
	for (size_t i = 0; i < first.count && !rc; i++) {
		const struct gt_bpe_item *item = &first.items[i];
		const struct gt_bpe_normalized *text = &out->texts[at];

		if (item->id >= 0) {
			rc = add_item(out, item->p, item->n, item->id, false, err);
			continue;
		}
		rc = split_pass(list, 1, 1, text->out ? text->out : text->p, text->size,
		    item->begins, out, err);
		at++;
	}
	free(first.items);
	return rc;
}

int gt_bpe_added_split(const struct gt_bpe_added_list *list,
    const struct gt_bpe_normalizers *normalizers, const unsigned char *text, size_t size,
    struct gt_bpe_items *out, struct gt_err *err)
{
	int rc;

	*out = (struct gt_bpe_items){ 0 };
	rc = split_pass(list, 0, normalizers ? 0 : 1, text, size, true, out, err);
	return rc || !normalizers ? rc : split_normalized(list, normalizers, out, err);
}

void gt_bpe_items_release(struct gt_bpe_items *items)
{
	for (size_t i = 0; i < items->text_count; i++)
		free(items->texts[i].out);
	free(items->texts);
	free(items->items);
}

bool gt_bpe_is_added(const struct gt_bpe *bpe, int32_t id)
{
	for (size_t i = 0; i < bpe->added.count; i++)
		if (bpe->added.tokens[i].id == id)
			return true;
	return false;
}
