/* arguments.c - errors of a network's nodes, and their arguments that are numbers. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/model/import/lower.h"
#include "lib/model/import/network.h"

/* ---- errors ---- */

const char *gt_import_target(const struct gt_import *im)
{
	const char *target = json_string_value(json_object_get(im->node, "target"));
	const char *aten = "torch.ops.aten.";

	if (target && !strncmp(target, aten, strlen(aten)))
		return target + strlen(aten);
	return target ? target : "";
}

/* Find the user's own line in a trace such as
 *   File "/home/me/net.py", line 12, in forward
 *     x = self.conv(x)
 * which is the last one outside of PyTorch; return false if there is none. */
static bool find_source(const char *trace, char *out, size_t size)
{
	bool found = false;

	for (const char *p = trace; p && (p = strstr(p, "File \"")); p++) {
		const char *file = p + strlen("File \""), *end = strchr(file, '"');
		const char *line = end ? strstr(end, "line ") : NULL;
		const char *code = line ? strchr(line, '\n') : NULL;
		const char *base = file;

		if (!line)
			break;
		for (const char *c = file; c < end; c++)
			if (*c == '/')
				base = c + 1;
		if (memmem(file, (size_t)(end - file), "/torch/", strlen("/torch/")))
			continue;
		code = code ? code + strspn(code, " \n") : "";
		snprintf(out, size, "%.*s:%d: %.*s", (int)(end - base), base,
		    atoi(line + strlen("line ")), (int)strcspn(code, "\n"), code);
		found = true;
	}
	return found;
}

void *gt_import_fail(struct gt_import *im, const char *format, ...)
{
	const json_t *trace = json_object_get(json_object_get(im->node, "metadata"), "stack_trace");
	char text[200], source[160];
	va_list ap;

	if (im->g->err.code)
		return NULL;
	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	if (im->origin)
		gt_graph_fail(im->g, GT_ENOTSUP, "%s '%s' of opset %d%s%s", gt_lower_op(im),
		    gt_lower_node_name(im), im->network->opset, *text == ':' ? "" : " ", text);
	else if (find_source(json_string_value(trace), source, sizeof(source)))
		gt_graph_fail(im->g, GT_ENOTSUP, "%s%s%s (%s)", gt_import_target(im),
		    *text == ':' ? "" : " ", text, source);
	else
		gt_graph_fail(im->g, GT_ENOTSUP, "%s%s%s", gt_import_target(im),
		    *text == ':' ? "" : " ", text);
	gt_err_prefix(&im->g->err, "'%s'", im->network->file);
	return NULL;
}

/* ---- arguments ---- */

const json_t *gt_import_find(struct gt_import *im, const char *name, const char **kind)
{
	const json_t *inputs = json_object_get(im->node, "inputs"), *input;
	size_t i;

	json_array_foreach(inputs, i, input)
	{
		const char *its = json_string_value(json_object_get(input, "name"));
		const json_t *argument = json_object_get(input, "arg");
		void *first = json_object_iter((json_t *)argument);

		if (!its || strcmp(its, name) != 0 || !first)
			continue;
		if (json_object_size(argument) > 1)
			gt_import_fail(im, ": the argument '%s' is given in several forms", name);
		*kind = json_object_iter_key(first);
		return strcmp(*kind, "as_none") ? json_object_iter_value(first) : NULL;
	}
	return NULL;
}

const char *gt_import_argument(const struct gt_import *im, size_t i)
{
	const json_t *input = json_array_get(json_object_get(im->node, "inputs"), i);
	const char *name = json_string_value(json_object_get(input, "name"));

	return name ? name : "";
}

static void fail_kind(struct gt_import *im, const char *name, const char *kind)
{
	gt_import_fail(im, ": the argument '%s' is given %s", name, kind);
}

/* A whole number: {"as_int": 2}, or {"as_name": "sym_size_int"}, whose value the file has as an
 * expression. */
static bool read_size(const struct gt_import *im, const json_t *size, int64_t *out)
{
	const json_t *value = json_object_get(size, "as_int");
	const char *name = json_string_value(json_object_get(size, "as_name"));
	const char *expression;

	if (json_is_integer(value)) {
		*out = json_integer_value(value);
		return true;
	}
	if (!name)
		return false;
	value = json_object_get(im->network->sizes, name);
	if (json_is_integer(json_object_get(value, "as_int"))) {
		*out = json_integer_value(json_object_get(value, "as_int"));
		return true;
	}
	expression =
	    json_string_value(json_object_get(json_object_get(value, "as_expr"), "expr_str"));
	return expression && gt_symbols_compute(&im->symbols, expression, out);
}

int64_t gt_import_int(struct gt_import *im, const char *name, int64_t missing)
{
	const char *kind;
	const json_t *value = gt_import_find(im, name, &kind);
	int64_t out;

	if (!value)
		return missing;
	if (json_is_integer(value))
		return json_integer_value(value);
	if (!strcmp(kind, "as_sym_int") && read_size(im, value, &out))
		return out;
	fail_kind(im, name, kind);
	return missing;
}

double gt_import_float(struct gt_import *im, const char *name, double missing)
{
	const char *kind;
	const json_t *value = gt_import_find(im, name, &kind);
	const char *text = json_string_value(value);
	int64_t size;

	if (!value)
		return missing;
	if (json_is_number(value))
		return json_number_value(value);
	if (!strcmp(kind, "as_sym_int") && read_size(im, value, &size))
		return (double)size;
	if (json_is_boolean(value))
		return json_is_true(value);
	if (text && !strcmp(text, "Infinity"))
		return INFINITY;
	if (text && !strcmp(text, "-Infinity"))
		return -INFINITY;
	if (text && !strcmp(text, "NaN"))
		return NAN;
	fail_kind(im, name, kind);
	return missing;
}

bool gt_import_bool(struct gt_import *im, const char *name, bool missing)
{
	const char *kind;
	const json_t *value = gt_import_find(im, name, &kind);

	if (!value)
		return missing;
	if (!json_is_boolean(value))
		fail_kind(im, name, kind);
	return json_is_true(value);
}

const char *gt_import_string(struct gt_import *im, const char *name, const char *missing)
{
	const char *kind;
	const json_t *value = gt_import_find(im, name, &kind);

	if (!value)
		return missing;
	if (!json_is_string(value))
		fail_kind(im, name, kind);
	return json_is_string(value) ? json_string_value(value) : missing;
}

int gt_import_ints(
    struct gt_import *im, const char *name, int64_t out[GT_MAX_DIMS], int count, int64_t missing)
{
	const char *kind;
	const json_t *value = gt_import_find(im, name, &kind), *item;
	size_t i;

	for (int k = 0; k < count; k++)
		out[k] = missing;
	if (!value || (json_is_array(value) && !json_array_size(value)))
		return count;
	if (!json_is_array(value) || json_array_size(value) > GT_MAX_DIMS) {
		fail_kind(im, name, json_is_array(value) ? "more numbers than dimensions" : kind);
		return count;
	}
	json_array_foreach(value, i, item)
	{
		out[i] = json_integer_value(item);
		if (!json_is_integer(item) && !read_size(im, item, &out[i]))
			fail_kind(im, name, kind);
	}
	return (int)json_array_size(value);
}

void gt_import_pair(struct gt_import *im, const char *name, int64_t missing, int out[2])
{
	int64_t sizes[GT_MAX_DIMS];
	int count = gt_import_ints(im, name, sizes, 2, missing);

	for (int i = 0; i < 2; i++) {
		int64_t size = count == 1 ? sizes[0] : sizes[i];

		if (count < 1 || count > 2 || size < 0 || size > INT32_MAX)
			gt_import_fail(im, ": the argument '%s' is not two sizes", name);
		else
			out[i] = (int)size;
	}
}

int gt_import_single(struct gt_import *im, const char *name, int64_t missing)
{
	int64_t sizes[GT_MAX_DIMS];

	if (gt_import_ints(im, name, sizes, 1, missing) != 1 || sizes[0] < 0 ||
	    sizes[0] > INT32_MAX) {
		gt_import_fail(im, ": the argument '%s' is not one size", name);
		return 0;
	}
	return (int)sizes[0];
}

int gt_import_floats(struct gt_import *im, const char *name, double out[GT_MAX_DIMS])
{
	const char *kind;
	const json_t *value = gt_import_find(im, name, &kind), *item;
	size_t i;

	if (!value)
		return 0;
	if (!json_is_array(value) || json_array_size(value) > GT_MAX_DIMS) {
		fail_kind(im, name, json_is_array(value) ? "more numbers than dimensions" : kind);
		return 0;
	}
	json_array_foreach(value, i, item)
	{
		out[i] = json_number_value(item);
		if (!json_is_number(item))
			fail_kind(im, name, kind);
	}
	return (int)json_array_size(value);
}

int gt_import_dim(struct gt_import *im, const char *name, int64_t missing, int ndim)
{
	int64_t given = gt_import_int(im, name, missing), dim = given < 0 ? given + ndim : given;

	if (dim >= 0 && dim < ndim)
		return (int)dim;
	gt_import_fail(im, ": the argument '%s' is %lld, and a tensor has %d dimensions", name,
	    (long long)given, ndim);
	return 0;
}
