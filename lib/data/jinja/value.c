/* value.c - values of templates: made, compared and searched. */
#include <string.h>

#include "lib/data/jinja/inside.h"

int gt_jinja_spend(struct gt_jinja_run *r, size_t steps, struct gt_err *err)
{
	if (steps < (size_t)(GT_JINJA_MAX_STEPS - r->steps)) {
		r->steps += (int64_t)steps;
		return 0;
	}
	return gt_err_set(
	    err, GT_ENOTSUP, "the template takes more than %d steps", GT_JINJA_MAX_STEPS);
}

/* Reading 64 bytes takes about as long as a step. */
size_t gt_jinja_bytes_cost(size_t size)
{
	return size / 64;
}

size_t gt_jinja_get_cost(const struct gt_jinja_dict *d, size_t size)
{
	return d->count / 8 + d->count * gt_jinja_bytes_cost(size);
}

const char *gt_jinja_kind_name(const struct gt_jinja_value *v)
{
	static const char *const names[] = { "an undefined value", "none", "a truth value",
		"a number", "a number", "a string", "a list", "a dict", "a namespace", "a loop",
		"a function" };

	return names[v->kind];
}

/* ---- making ---- */

struct gt_jinja_value gt_jinja_string(const char *text, size_t size)
{
	return (struct gt_jinja_value){ .kind = GT_JINJA_STRING, .text = text, .size = size };
}

struct gt_jinja_value gt_jinja_bool(bool truth)
{
	return (struct gt_jinja_value){ .kind = GT_JINJA_BOOL, .truth = truth };
}

struct gt_jinja_value gt_jinja_int(int64_t n)
{
	return (struct gt_jinja_value){ .kind = GT_JINJA_INT, .integer = n };
}

/* Memory for values. The message says that the template, not this machine, wants too much. */
static void *alloc(struct gt_jinja_run *r, size_t count, size_t size, struct gt_err *err)
{
	if (count > (GT_JINJA_MAX_MEMORY - r->arena.used) / size) {
		gt_err_set(err, GT_ENOTSUP, "the template takes more than %d MiB of memory",
		    GT_JINJA_MAX_MEMORY >> 20);
		return NULL;
	}
	return gt_arena_alloc(&r->arena, count * size + !count, err);
}

int gt_jinja_copy_string(struct gt_jinja_value *out, struct gt_jinja_run *r, const char *text,
    size_t size, struct gt_err *err)
{
	char *copy = alloc(r, size + 1, 1, err);

	if (!copy)
		return err->code;
	if (size)
		memcpy(copy, text, size);
	*out = gt_jinja_string(copy, size);
	return gt_jinja_spend(r, size / 256, err);
}

int gt_jinja_take_string(
    struct gt_jinja_value *out, struct gt_jinja_run *r, struct gt_buf *b, struct gt_err *err)
{
	int rc = gt_buf_check(b, err);

	if (!rc)
		rc = gt_jinja_copy_string(out, r, gt_buf_text(b), b->length, err);
	gt_buf_release(b);
	return rc;
}

int gt_jinja_new_list(
    struct gt_jinja_value *out, struct gt_jinja_run *r, size_t count, struct gt_err *err)
{
	struct gt_jinja_list *list = alloc(r, 1, sizeof(*list), err);

	if (!list)
		return err->code;
	list->items = alloc(r, count, sizeof(*list->items), err);
	if (!list->items)
		return err->code;
	list->count = count;
	*out = (struct gt_jinja_value){ .kind = GT_JINJA_LIST, .list = list };
	return gt_jinja_spend(r, count, err);
}

int gt_jinja_new_dict(struct gt_jinja_value *out, struct gt_jinja_run *r, struct gt_err *err)
{
	struct gt_jinja_dict *dict = alloc(r, 1, sizeof(*dict), err);

	if (!dict)
		return err->code;
	*out = (struct gt_jinja_value){ .kind = GT_JINJA_DICT, .dict = dict };
	return 0;
}

/* ---- dicts ---- */

struct gt_jinja_value *gt_jinja_get(const struct gt_jinja_dict *d, const char *key, size_t size)
{
	for (size_t i = 0; i < d->count; i++)
		if (d->pairs[i].key.size == size && !memcmp(d->pairs[i].key.text, key, size))
			return &d->pairs[i].value;
	return NULL;
}

int gt_jinja_put(struct gt_jinja_dict *d, struct gt_jinja_run *r, struct gt_jinja_value key,
    struct gt_jinja_value value, struct gt_err *err)
{
	struct gt_jinja_value *old = gt_jinja_get(d, key.text, key.size);

	if (!old && d->count == d->capacity) {
		size_t capacity = d->capacity ? 2 * d->capacity : 4;
		struct gt_jinja_pair *pairs = alloc(r, capacity, sizeof(*pairs), err);

		if (!pairs)
			return err->code;
		if (d->count)
			memcpy(pairs, d->pairs, d->count * sizeof(*pairs));
		d->pairs = pairs;
		d->capacity = capacity;
	}
	if (old)
		*old = value;
	else
		d->pairs[d->count++] = (struct gt_jinja_pair){ key, value };
	return gt_jinja_spend(r, 1 + gt_jinja_get_cost(d, key.size), err);
}

/* ---- asking ---- */

bool gt_jinja_is_true(const struct gt_jinja_value *v)
{
	switch (v->kind) {
	case GT_JINJA_UNDEFINED:
	case GT_JINJA_NONE:
		return false;
	case GT_JINJA_BOOL:
		return v->truth;
	case GT_JINJA_INT:
		return v->integer != 0;
	case GT_JINJA_REAL:
		return v->real != 0;
	case GT_JINJA_STRING:
		return v->size > 0;
	case GT_JINJA_LIST:
		return v->list->count > 0;
	case GT_JINJA_DICT:
		return v->dict->count > 0;
	default:
		return true;
	}
}

bool gt_jinja_number(double *out, const struct gt_jinja_value *v)
{
	*out = v->kind == GT_JINJA_BOOL  ? v->truth
	       : v->kind == GT_JINJA_INT ? (double)v->integer
	                                 : v->real;
	return v->kind == GT_JINJA_BOOL || v->kind == GT_JINJA_INT || v->kind == GT_JINJA_REAL;
}

static int equal_values(bool *out, struct gt_jinja_run *r, const struct gt_jinja_value *a,
    const struct gt_jinja_value *b, int depth, struct gt_err *err);

static int equal_lists(bool *out, struct gt_jinja_run *r, const struct gt_jinja_list *a,
    const struct gt_jinja_list *b, int depth, struct gt_err *err)
{
	int rc = 0;

	*out = a->count == b->count && a->tuple == b->tuple;
	for (size_t i = 0; !rc && *out && i < a->count; i++)
		rc = equal_values(out, r, &a->items[i], &b->items[i], depth + 1, err);
	return rc;
}

static int equal_dicts(bool *out, struct gt_jinja_run *r, const struct gt_jinja_dict *a,
    const struct gt_jinja_dict *b, int depth, struct gt_err *err)
{
	int rc = 0;

	*out = a->count == b->count;
	for (size_t i = 0; !rc && *out && i < a->count; i++) {
		const struct gt_jinja_pair *p = &a->pairs[i];
		const struct gt_jinja_value *other = gt_jinja_get(b, p->key.text, p->key.size);

		*out = other != NULL;
		rc = gt_jinja_spend(r, gt_jinja_get_cost(b, p->key.size), err);
		if (!rc && other)
			rc = equal_values(out, r, &p->value, other, depth + 1, err);
	}
	return rc;
}

/* A template can nest a list in itself by turns of a loop, so depth and steps have bounds. */
static int equal_values(bool *out, struct gt_jinja_run *r, const struct gt_jinja_value *a,
    const struct gt_jinja_value *b, int depth, struct gt_err *err)
{
	double x, y;

	*out = false;
	if (depth > 2 * GT_JINJA_MAX_DEPTH)
		return gt_err_set(err, GT_ENOTSUP, "a value is too large to be compared");
	if (gt_jinja_spend(r, 1, err))
		return err->code;
	if (a->kind == GT_JINJA_INT && b->kind == GT_JINJA_INT) {
		*out = a->integer == b->integer;
		return 0;
	}
	if (gt_jinja_number(&x, a) && gt_jinja_number(&y, b)) {
		*out = x == y;
		return 0;
	}
	if (a->kind != b->kind)
		return 0;
	switch (a->kind) {
	case GT_JINJA_STRING:
		if (a->size != b->size)
			return 0;
		*out = !memcmp(a->text, b->text, a->size);
		return gt_jinja_spend(r, gt_jinja_bytes_cost(a->size), err);
	case GT_JINJA_LIST:
		return equal_lists(out, r, a->list, b->list, depth, err);
	case GT_JINJA_DICT:
		return equal_dicts(out, r, a->dict, b->dict, depth, err);
	case GT_JINJA_UNDEFINED:
	case GT_JINJA_NONE:
		*out = true;
		return 0;
	default:
		*out = a->dict == b->dict;
		return 0;
	}
}

int gt_jinja_equal(bool *out, struct gt_jinja_run *r, const struct gt_jinja_value *a,
    const struct gt_jinja_value *b, struct gt_err *err)
{
	return equal_values(out, r, a, b, 0, err);
}

int gt_jinja_compare(int *out, struct gt_jinja_run *r, const struct gt_jinja_value *a,
    const struct gt_jinja_value *b, struct gt_err *err)
{
	double x, y;

	if (a->kind == GT_JINJA_STRING && b->kind == GT_JINJA_STRING) {
		size_t least = a->size < b->size ? a->size : b->size;

		*out = least ? memcmp(a->text, b->text, least) : 0;
		if (!*out)
			*out = (a->size > b->size) - (a->size < b->size);
		return gt_jinja_spend(r, gt_jinja_bytes_cost(least), err);
	}
	if (!gt_jinja_number(&x, a) || !gt_jinja_number(&y, b))
		return gt_err_set(err, GT_EFORMAT, "%s is compared with %s", gt_jinja_kind_name(a),
		    gt_jinja_kind_name(b));
	if (a->kind == GT_JINJA_INT && b->kind == GT_JINJA_INT)
		*out = (a->integer > b->integer) - (a->integer < b->integer);
	else
		*out = (x > y) - (x < y);
	return 0;
}

int gt_jinja_contains(bool *out, struct gt_jinja_run *r, const struct gt_jinja_value *container,
    const struct gt_jinja_value *item, struct gt_err *err)
{
	bool text = item->kind == GT_JINJA_STRING;
	int rc;

	*out = false;
	switch (container->kind) {
	case GT_JINJA_UNDEFINED:
		return 0;
	case GT_JINJA_STRING:
		if (!text)
			return gt_err_set(err, GT_EFORMAT, "%s is looked for in a string",
			    gt_jinja_kind_name(item));
		*out = !item->size ||
		       memmem(container->text, container->size, item->text, item->size) != NULL;
		return gt_jinja_spend(r, gt_jinja_bytes_cost(container->size), err);
	case GT_JINJA_DICT:
		*out = text && gt_jinja_get(container->dict, item->text, item->size);
		return gt_jinja_spend(
		    r, text ? gt_jinja_get_cost(container->dict, item->size) : 0, err);
	case GT_JINJA_LIST:
		rc = 0;
		for (size_t i = 0; !rc && !*out && i < container->list->count; i++)
			rc = gt_jinja_equal(out, r, &container->list->items[i], item, err);
		return rc;
	default:
		return gt_err_set(
		    err, GT_EFORMAT, "a value is looked for in %s", gt_jinja_kind_name(container));
	}
}

int gt_jinja_items(struct gt_jinja_list *out, struct gt_jinja_run *r,
    const struct gt_jinja_value *v, struct gt_err *err)
{
	struct gt_jinja_value list;
	size_t count, at = 0;
	int rc;

	*out = (struct gt_jinja_list){ 0 };
	if (v->kind == GT_JINJA_UNDEFINED)
		return 0;
	if (v->kind == GT_JINJA_LIST) {
		*out = *v->list;
		return 0;
	}
	if (v->kind != GT_JINJA_DICT && v->kind != GT_JINJA_STRING)
		return gt_err_set(err, GT_EFORMAT, "%s has no items", gt_jinja_kind_name(v));
	count = v->kind == GT_JINJA_DICT ? v->dict->count : gt_jinja_length(v->text, v->size);
	rc = gt_jinja_new_list(&list, r, count, err);
	if (rc)
		return rc;
	*out = *list.list;
	for (size_t i = 0; i < count; i++) {
		size_t step = 0;

		if (v->kind == GT_JINJA_DICT) {
			out->items[i] = v->dict->pairs[i].key;
			continue;
		}
		step = gt_jinja_step(v->text + at, v->size - at);
		out->items[i] = gt_jinja_string(v->text + at, step);
		at += step;
	}
	return 0;
}
