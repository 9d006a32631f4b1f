/* json.c - values of templates from JSON, and the filter tojson. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/text.h"
#include "lib/data/jinja/inside.h"

/* ---- from JSON ---- */

static int read_array(struct gt_jinja_value *out, struct gt_jinja_run *r, const json_t *json,
    int depth, struct gt_err *err)
{
	int rc = gt_jinja_new_list(out, r, json_array_size(json), err);

	for (size_t i = 0; !rc && i < out->list->count; i++)
		rc = gt_jinja_from_json(
		    &out->list->items[i], r, json_array_get(json, i), depth + 1, err);
	return rc;
}

static int read_object(struct gt_jinja_value *out, struct gt_jinja_run *r, const json_t *json,
    int depth, struct gt_err *err)
{
	int rc = gt_jinja_new_dict(out, r, err);
	json_t *object = (json_t *)json, *item;
	struct gt_jinja_value key, value;
	const char *name;

	if (rc)
		return rc;
	json_object_foreach(object, name, item)
	{
		rc = gt_jinja_copy_string(&key, r, name, strlen(name), err);
		if (!rc)
			rc = gt_jinja_from_json(&value, r, item, depth + 1, err);
		if (!rc)
			rc = gt_jinja_put(out->dict, r, key, value, err);
		if (rc)
			return rc;
	}
	return 0;
}

int gt_jinja_from_json(struct gt_jinja_value *out, struct gt_jinja_run *r, const json_t *json,
    int depth, struct gt_err *err)
{
	if (depth > GT_JINJA_MAX_DEPTH)
		return gt_err_set(
		    err, GT_ENOTSUP, "more than %d nested lists and dicts", GT_JINJA_MAX_DEPTH);
	switch (json_typeof(json)) {
	case JSON_OBJECT:
		return read_object(out, r, json, depth, err);
	case JSON_ARRAY:
		return read_array(out, r, json, depth, err);
	case JSON_STRING:
		return gt_jinja_copy_string(
		    out, r, json_string_value(json), json_string_length(json), err);
	case JSON_INTEGER:
		*out = gt_jinja_int(json_integer_value(json));
		return 0;
	case JSON_REAL:
		*out =
		    (struct gt_jinja_value){ .kind = GT_JINJA_REAL, .real = json_real_value(json) };
		return 0;
	case JSON_NULL:
		*out = (struct gt_jinja_value){ .kind = GT_JINJA_NONE };
		return 0;
	default:
		*out = gt_jinja_bool(json_is_true(json));
		return 0;
	}
}

/* ---- tojson ---- */

/* The way of writing, as the arguments of Python's json.dumps() say. */
struct writer {
	struct gt_jinja_run *run;
	struct gt_buf *b;
	bool ascii, sorted, lines;               /* lines: each item on a line of its own */
	struct gt_jinja_value indent, item, key; /* indent of a level; separators */
};

static void write_escape(const struct writer *w, uint32_t code)
{
	if (code > 0xFFFF) {
		code -= 0x10000;
		gt_buf_printf(
		    w->b, "\\u%04x\\u%04x", 0xD800 + (code >> 10), 0xDC00 + (code & 0x3FF));
	} else {
		gt_buf_printf(w->b, "\\u%04x", code);
	}
}

static void write_string(const struct writer *w, const struct gt_jinja_value *v)
{
	static const char from[] = "\"\\\n\r\t\b\f", to[] = "\"\\nrtbf";

	gt_buf_puts(w->b, "\"");
	for (size_t at = 0, step; at < v->size; at += step) {
		const char *p = v->text + at, *found = *p ? strchr(from, *p) : NULL;
		uint32_t code = (unsigned char)*p;

		step = gt_jinja_step(p, v->size - at);
		gt_text_utf8((const unsigned char *)p, v->size - at, &code);
		if (found)
			gt_buf_printf(w->b, "\\%c", to[found - from]);
		else if (code < ' ' || (w->ascii && code > 126))
			write_escape(w, code);
		else
			gt_buf_add(w->b, p, step);
	}
	gt_buf_puts(w->b, "\"");
}

static void write_line(const struct writer *w, int depth)
{
	if (!w->lines)
		return;
	gt_buf_puts(w->b, "\n");
	for (int i = 0; i < depth; i++)
		gt_buf_add(w->b, w->indent.text, w->indent.size);
}

static int write_value(
    const struct writer *w, const struct gt_jinja_value *v, int depth, struct gt_err *err);

static int write_items(
    const struct writer *w, const struct gt_jinja_list *l, int depth, struct gt_err *err)
{
	int rc = 0;

	gt_buf_puts(w->b, "[");
	for (size_t i = 0; !rc && i < l->count; i++) {
		if (i)
			gt_buf_add(w->b, w->item.text, w->item.size);
		write_line(w, depth + 1);
		rc = write_value(w, &l->items[i], depth + 1, err);
	}
	if (l->count)
		write_line(w, depth);
	gt_buf_puts(w->b, "]");
	return rc;
}

static int compare_pairs(const void *a, const void *b)
{
	const struct gt_jinja_value *x = &((const struct gt_jinja_pair *)a)->key,
	                            *y = &((const struct gt_jinja_pair *)b)->key;
	int order = memcmp(x->text, y->text, x->size < y->size ? x->size : y->size);

	return order ? order : (x->size > y->size) - (x->size < y->size);
}

/* Sort a copy of the pairs of a dict by their keys. A key is compared with some others. */
static int sort_pairs(struct gt_jinja_pair **out, struct gt_jinja_run *r,
    const struct gt_jinja_dict *d, struct gt_err *err)
{
	int rc = 0;

	*out = gt_calloc(d->count, sizeof(**out), err);
	if (!*out)
		return GT_ENOMEM;
	memcpy(*out, d->pairs, d->count * sizeof(**out));
	for (size_t i = 0; !rc && i < d->count; i++)
		rc = gt_jinja_spend(r, 1 + 16 * gt_jinja_bytes_cost(d->pairs[i].key.size), err);
	if (!rc)
		qsort(*out, d->count, sizeof(**out), compare_pairs);
	return rc;
}

static int write_pairs(
    const struct writer *w, const struct gt_jinja_dict *d, int depth, struct gt_err *err)
{
	struct gt_jinja_pair *sorted = NULL;
	int rc = w->sorted && d->count ? sort_pairs(&sorted, w->run, d, err) : 0;

	gt_buf_puts(w->b, "{");
	for (size_t i = 0; !rc && i < d->count; i++) {
		const struct gt_jinja_pair *p = sorted ? &sorted[i] : &d->pairs[i];

		if (i)
			gt_buf_add(w->b, w->item.text, w->item.size);
		write_line(w, depth + 1);
		write_string(w, &p->key);
		gt_buf_add(w->b, w->key.text, w->key.size);
		rc = write_value(w, &p->value, depth + 1, err);
	}
	if (d->count)
		write_line(w, depth);
	gt_buf_puts(w->b, "}");
	free(sorted);
	return rc;
}

static int write_value(
    const struct writer *w, const struct gt_jinja_value *v, int depth, struct gt_err *err)
{
	if (depth > 2 * GT_JINJA_MAX_DEPTH || w->b->length > GT_JINJA_MAX_OUTPUT)
		return gt_err_set(err, GT_ENOTSUP, "a value is too large for tojson");
	switch (v->kind) {
	case GT_JINJA_STRING:
		write_string(w, v);
		return 0;
	case GT_JINJA_LIST:
		return write_items(w, v->list, depth, err);
	case GT_JINJA_DICT:
		return write_pairs(w, v->dict, depth, err);
	case GT_JINJA_NONE:
		gt_buf_puts(w->b, "null");
		return 0;
	case GT_JINJA_BOOL:
		gt_buf_puts(w->b, v->truth ? "true" : "false");
		return 0;
	case GT_JINJA_INT:
		return gt_jinja_append(w->b, v, err);
	case GT_JINJA_REAL:
		if (isfinite(v->real))
			gt_jinja_append_real(w->b, v->real);
		else
			gt_buf_puts(w->b, isnan(v->real) ? "NaN"
			                  : v->real < 0  ? "-Infinity"
			                                 : "Infinity");
		return 0;
	default:
		return gt_err_set(err, GT_EFORMAT, "tojson cannot write %s", gt_jinja_kind_name(v));
	}
}

/* indent: a number of spaces, or a string. */
static int read_indent(
    struct writer *w, struct gt_jinja_run *r, const struct gt_jinja_value *v, struct gt_err *err)
{
	static const char spaces[] = "                ";

	if (!v || v->kind == GT_JINJA_NONE)
		return 0;
	w->lines = true;
	w->item.size = 1;
	if (v->kind == GT_JINJA_STRING) {
		w->indent = *v;
		return gt_jinja_spend(r, v->size, err);
	}
	if (v->kind != GT_JINJA_INT || v->integer < 0 || v->integer > 16)
		return gt_err_set(err, GT_ENOTSUP, "indent of tojson is not a number up to 16");
	w->indent = gt_jinja_string(spaces, (size_t)v->integer);
	return 0;
}

static int read_separators(struct writer *w, const struct gt_jinja_value *v, struct gt_err *err)
{
	if (!v || v->kind == GT_JINJA_NONE)
		return 0;
	if (v->kind != GT_JINJA_LIST || v->list->count != 2 ||
	    v->list->items[0].kind != GT_JINJA_STRING || v->list->items[1].kind != GT_JINJA_STRING)
		return gt_err_set(err, GT_EFORMAT, "separators of tojson are not two strings");
	w->item = v->list->items[0];
	w->key = v->list->items[1];
	return 0;
}

int gt_jinja_tojson(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	const struct gt_jinja_value *ascii = gt_jinja_arg(args, 0, "ensure_ascii"),
	                            *sorted = gt_jinja_arg(args, 3, "sort_keys");
	struct gt_buf b = { 0 };
	struct writer w = { .run = r,
		.b = &b,
		.ascii = ascii && gt_jinja_is_true(ascii),
		.sorted = sorted && gt_jinja_is_true(sorted),
		.item = gt_jinja_string(", ", 2),
		.key = gt_jinja_string(": ", 2) };
	int rc = read_indent(&w, r, gt_jinja_arg(args, 1, "indent"), err);

	if (!rc)
		rc = read_separators(&w, gt_jinja_arg(args, 2, "separators"), err);
	if (!rc)
		rc = write_value(&w, v, 0, err);
	if (!rc)
		return gt_jinja_take_string(v, r, &b, err);
	gt_buf_release(&b);
	return rc;
}
