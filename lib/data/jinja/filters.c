/* filters.c - the filters of templates. */
#include <math.h>
#include <string.h>

#include "lib/base/text.h"
#include "lib/data/jinja/inside.h"

/* ---- arguments ---- */

const struct gt_jinja_function *gt_jinja_row(
    const struct gt_jinja_function *rows, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(rows[i].name, name))
			return &rows[i];
	return NULL;
}

/* The parameters before the space at `text`, or its end. */
static size_t word_length(const char *text)
{
	return strcspn(text, " ");
}

/* The position of a parameter in the list; -1: there is none. */
static int find_parameter(const char *list, const char *name)
{
	for (int i = 0; *list; i++) {
		size_t n = word_length(list);

		if (strlen(name) == n && !memcmp(list, name, n))
			return i;
		list += n + (list[n] == ' ');
	}
	return -1;
}

static int count_parameters(const char *list)
{
	int count = *list != '\0';

	for (; *list; list++)
		count += *list == ' ';
	return count;
}

int gt_jinja_call(struct gt_jinja_run *r, const struct gt_jinja_function *f,
    struct gt_jinja_value *v, const struct gt_jinja_args *args, struct gt_err *err)
{
	for (int i = 0; f->parameters && i < args->count; i++) {
		const char *name = args->names[i];

		if (name && find_parameter(f->parameters, name) < 0)
			return gt_err_set(
			    err, GT_ENOTSUP, "%s has no argument '%.60s'", f->name, name);
		if (!name && i >= count_parameters(f->parameters))
			return gt_err_set(err, GT_ENOTSUP, "%s takes %d argument%s at most",
			    f->name, count_parameters(f->parameters),
			    count_parameters(f->parameters) == 1 ? "" : "s");
	}
	return f->call(r, v, args, err);
}

const struct gt_jinja_value *gt_jinja_arg(
    const struct gt_jinja_args *args, int position, const char *name)
{
	for (int i = 0; i < args->count; i++)
		if (args->names[i] ? !strcmp(args->names[i], name) : i == position)
			return &args->values[i];
	return NULL;
}

int gt_jinja_string_arg(struct gt_jinja_value *out, const struct gt_jinja_args *args, int position,
    const char *name, struct gt_err *err)
{
	const struct gt_jinja_value *v = gt_jinja_arg(args, position, name);

	if (!v || v->kind != GT_JINJA_STRING)
		return gt_err_set(err, GT_EFORMAT, "argument '%s' is %s, not a string", name,
		    v ? gt_jinja_kind_name(v) : "missing");
	*out = *v;
	return 0;
}

/* ---- text ---- */

/* Replace *v by its text, as most filters do with what is no string. */
static int to_string(struct gt_jinja_run *r, struct gt_jinja_value *v, struct gt_err *err)
{
	struct gt_buf b = { 0 };
	int rc;

	if (v->kind == GT_JINJA_STRING)
		return 0;
	rc = gt_jinja_append(&b, v, err);
	if (!rc)
		return gt_jinja_take_string(v, r, &b, err);
	gt_buf_release(&b);
	return rc;
}

static int filter_string(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	(void)args;
	return to_string(r, v, err);
}

static int filter_trim(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	const struct gt_jinja_value *chars = gt_jinja_arg(args, 0, "chars");
	int rc = to_string(r, v, err);

	if (!rc && chars && chars->kind != GT_JINJA_STRING)
		chars = NULL;
	return rc ? rc : gt_jinja_strip(v, r, chars, true, true, err);
}

/* Call a method of strings that has the filter's name. */
static int by_method(struct gt_jinja_run *r, struct gt_jinja_value *v, const char *name,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	int rc = to_string(r, v, err);

	return rc ? rc : gt_jinja_method(GT_JINJA_STRING, name)->call(r, v, args, err);
}

static int filter_upper(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	return by_method(r, v, "upper", args, err);
}

static int filter_lower(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	return by_method(r, v, "lower", args, err);
}

static int filter_capitalize(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	return by_method(r, v, "capitalize", args, err);
}

static int filter_replace(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	return by_method(r, v, "replace", args, err);
}

/* ---- numbers ---- */

static int filter_int(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	const struct gt_jinja_value *otherwise = gt_jinja_arg(args, 0, "default");
	struct gt_jinja_value text;
	double x = 0;
	int64_t n = 0;
	bool found = gt_jinja_number(&x, v) && fabs(x) < 9e18;

	if (v->kind == GT_JINJA_INT)
		return 0;
	if (found)
		n = (int64_t)x;
	if (v->kind == GT_JINJA_STRING) {
		char copy[32];

		text = *v;
		if (gt_jinja_strip(&text, r, NULL, true, true, err))
			return err->code;
		if (text.size < sizeof(copy)) {
			memcpy(copy, text.text, text.size);
			copy[text.size] = '\0';
			found = gt_text_parse_int(&n, copy);
			if (!found && gt_text_parse_double(&x, copy) && fabs(x) < 9e18) {
				n = (int64_t)x;
				found = true;
			}
		}
	}
	*v = found ? gt_jinja_int(n) : otherwise ? *otherwise : gt_jinja_int(0);
	return 0;
}

/* ---- lists ---- */

/* Replace an item by its attribute of this name. */
static int take_attribute(struct gt_jinja_run *r, struct gt_jinja_value *item,
    const struct gt_jinja_value *name, struct gt_err *err)
{
	if (memchr(name->text, '.', name->size))
		return gt_err_set(err, GT_ENOTSUP, "attribute '%.60s' with a point", name->text);
	return gt_jinja_item(item, r, name, err);
}

static int filter_length(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	size_t count, steps = 0;

	(void)args;
	switch (v->kind) {
	case GT_JINJA_STRING:
		count = gt_jinja_length(v->text, v->size);
		steps = gt_jinja_bytes_cost(v->size);
		break;
	case GT_JINJA_LIST:
		count = v->list->count;
		break;
	case GT_JINJA_DICT:
		count = v->dict->count;
		break;
	case GT_JINJA_UNDEFINED:
		count = 0;
		break;
	default:
		return gt_err_set(err, GT_EFORMAT, "the length of %s", gt_jinja_kind_name(v));
	}
	*v = gt_jinja_int((int64_t)count);
	return gt_jinja_spend(r, steps, err);
}

/* Replace *v by a new list of the first `count` of these items. */
static int keep_items(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_value *items, size_t count, struct gt_err *err)
{
	int rc = gt_jinja_new_list(v, r, count, err);

	if (!rc && count)
		memcpy(v->list->items, items, count * sizeof(*items));
	return rc;
}

static int filter_list(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	struct gt_jinja_list items;
	int rc = gt_jinja_items(&items, r, v, err);

	(void)args;
	return rc ? rc : keep_items(r, v, items.items, items.count, err);
}

static int take_one(struct gt_jinja_run *r, struct gt_jinja_value *v, bool last, struct gt_err *err)
{
	struct gt_jinja_list items;
	int rc = gt_jinja_items(&items, r, v, err);

	if (rc)
		return rc;
	*v = items.count ? items.items[last ? items.count - 1 : 0]
	                 : (struct gt_jinja_value){ .kind = GT_JINJA_UNDEFINED };
	return 0;
}

static int filter_first(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	(void)args;
	return take_one(r, v, false, err);
}

static int filter_last(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	(void)args;
	return take_one(r, v, true, err);
}

static int filter_reverse(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	bool text = v->kind == GT_JINJA_STRING;
	struct gt_buf b = { 0 };
	int rc = filter_list(r, v, args, err);

	if (rc)
		return rc;
	for (size_t i = 0, n = v->list->count; i < n / 2; i++) {
		struct gt_jinja_value item = v->list->items[i];

		v->list->items[i] = v->list->items[n - 1 - i];
		v->list->items[n - 1 - i] = item;
	}
	for (size_t i = 0; text && i < v->list->count; i++)
		gt_buf_add(&b, v->list->items[i].text, v->list->items[i].size);
	return text ? gt_jinja_take_string(v, r, &b, err) : 0;
}

static int filter_join(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	const struct gt_jinja_value *between = gt_jinja_arg(args, 0, "d"),
	                            *attribute = gt_jinja_arg(args, 1, "attribute");
	struct gt_jinja_list items;
	struct gt_buf b = { 0 };
	int rc = gt_jinja_items(&items, r, v, err);

	if (!rc)
		rc = gt_jinja_spend(r, items.count, err);
	for (size_t i = 0; !rc && i < items.count; i++) {
		struct gt_jinja_value item = items.items[i];

		if (i && between)
			rc = gt_jinja_append(&b, between, err);
		if (!rc && attribute && attribute->kind == GT_JINJA_STRING)
			rc = take_attribute(r, &item, attribute, err);
		if (!rc)
			rc = gt_jinja_append(&b, &item, err);
		if (!rc && b.length > GT_JINJA_MAX_OUTPUT)
			rc = gt_err_set(err, GT_ENOTSUP, "the text of join is too long");
	}
	if (!rc)
		return gt_jinja_take_string(v, r, &b, err);
	gt_buf_release(&b);
	return rc;
}

static int filter_default(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	const struct gt_jinja_value *value = gt_jinja_arg(args, 0, "default_value"),
	                            *falsy = gt_jinja_arg(args, 1, "boolean");
	bool missing = v->kind == GT_JINJA_UNDEFINED ||
	               (falsy && gt_jinja_is_true(falsy) && !gt_jinja_is_true(v));

	(void)r;
	(void)err;
	if (missing)
		*v = value ? *value : gt_jinja_string("", 0);
	return 0;
}

static int filter_items(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	if (v->kind == GT_JINJA_UNDEFINED)
		return gt_jinja_new_list(v, r, 0, err);
	if (v->kind != GT_JINJA_DICT)
		return gt_err_set(err, GT_EFORMAT, "the items of %s", gt_jinja_kind_name(v));
	return gt_jinja_method(GT_JINJA_DICT, "items")->call(r, v, args, err);
}

/* ---- items by a test or an attribute ---- */

/* Whether an item has an attribute that passes a test, or that is true. */
static int passes(bool *out, struct gt_jinja_run *r, struct gt_jinja_value item,
    const struct gt_jinja_args *args, bool attribute, struct gt_err *err)
{
	const struct gt_jinja_value *test = gt_jinja_arg(args, attribute, "");
	const struct gt_jinja_function *f;
	struct gt_jinja_args rest = { .count = 0 };
	struct gt_jinja_value name;
	int rc = 0;

	if (attribute) {
		rc = gt_jinja_string_arg(&name, args, 0, "attribute", err);
		if (!rc)
			rc = take_attribute(r, &item, &name, err);
	}
	if (!rc && test && test->kind == GT_JINJA_STRING) {
		f = gt_jinja_test(test->text);
		if (!f)
			return gt_err_set(
			    err, GT_ENOTSUP, "test '%.60s' is not supported", test->text);
		for (int i = 1 + attribute; i < args->count; i++)
			rest.values[rest.count++] = args->values[i];
		rc = gt_jinja_call(r, f, &item, &rest, err);
	}
	*out = gt_jinja_is_true(&item);
	return rc;
}

static int select_items(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, bool attribute, bool wanted, struct gt_err *err)
{
	int rc = filter_list(r, v, args, err);
	size_t kept = 0;

	for (size_t i = 0; !rc && i < v->list->count; i++) {
		bool passed = false;

		rc = passes(&passed, r, v->list->items[i], args, attribute, err);
		if (passed == wanted)
			v->list->items[kept++] = v->list->items[i];
	}
	if (!rc)
		v->list->count = kept;
	return rc;
}

static int filter_select(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	return select_items(r, v, args, false, true, err);
}

static int filter_reject(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	return select_items(r, v, args, false, false, err);
}

static int filter_selectattr(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	return select_items(r, v, args, true, true, err);
}

static int filter_rejectattr(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	return select_items(r, v, args, true, false, err);
}

/* map('FILTER', ...) or map(attribute='NAME'). */
static int filter_map(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	const struct gt_jinja_value *attribute = gt_jinja_arg(args, -1, "attribute"),
	                            *filter = gt_jinja_arg(args, 0, "");
	const struct gt_jinja_value *name = attribute ? attribute : filter;
	const struct gt_jinja_function *f = NULL;
	struct gt_jinja_args rest = { .count = 0 };
	int rc = filter_list(r, v, args, err);

	if (!rc && (!name || name->kind != GT_JINJA_STRING))
		rc = gt_err_set(err, GT_EFORMAT, "map needs a filter or an attribute");
	if (!rc && !attribute) {
		f = gt_jinja_filter(name->text);
		if (!f)
			rc = gt_err_set(
			    err, GT_ENOTSUP, "filter '%.60s' is not supported", name->text);
		for (int i = 1; i < args->count; i++) {
			rest.names[rest.count] = args->names[i];
			rest.values[rest.count++] = args->values[i];
		}
	}
	for (size_t i = 0; !rc && i < v->list->count; i++)
		rc = f ? gt_jinja_call(r, f, &v->list->items[i], &rest, err)
		       : take_attribute(r, &v->list->items[i], name, err);
	return rc;
}

/* Everything is printed as it is; nothing is escaped. */
static int filter_safe(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err)
{
	return filter_string(r, v, args, err);
}

static const struct gt_jinja_function rows[] = {
	{ "trim", "chars", filter_trim },
	{ "tojson", GT_JINJA_TOJSON_PARAMETERS, gt_jinja_tojson },
	{ "length", "", filter_length },
	{ "count", "", filter_length },
	{ "string", "", filter_string },
	{ "safe", "", filter_safe },
	{ "int", "default", filter_int },
	{ "upper", "", filter_upper },
	{ "lower", "", filter_lower },
	{ "capitalize", "", filter_capitalize },
	{ "replace", "old new count", filter_replace },
	{ "list", "", filter_list },
	{ "first", "", filter_first },
	{ "last", "", filter_last },
	{ "reverse", "", filter_reverse },
	{ "join", "d attribute", filter_join },
	{ "default", "default_value boolean", filter_default },
	{ "d", "default_value boolean", filter_default },
	{ "items", "", filter_items },
	{ "select", NULL, filter_select },
	{ "reject", NULL, filter_reject },
	{ "selectattr", NULL, filter_selectattr },
	{ "rejectattr", NULL, filter_rejectattr },
	{ "map", NULL, filter_map },
};

const struct gt_jinja_function *gt_jinja_filter(const char *name)
{
	return gt_jinja_row(rows, sizeof(rows) / sizeof(*rows), name);
}
