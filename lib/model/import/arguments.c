/* arguments.c - arguments and results of a network's nodes, for the rows of aten.c. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/model/import/network.h"

/* ---- errors ---- */

static const char *target_of(const json_t *node)
{
	const char *target = json_string_value(json_object_get(node, "target"));
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
	if (find_source(json_string_value(trace), source, sizeof(source)))
		gt_graph_fail(im->g, GT_ENOTSUP, "%s%s%s (%s)", target_of(im->node),
		    *text == ':' ? "" : " ", text, source);
	else
		gt_graph_fail(im->g, GT_ENOTSUP, "%s%s%s", target_of(im->node),
		    *text == ':' ? "" : " ", text);
	gt_err_prefix(&im->g->err, "'%s'", im->network->file);
	return NULL;
}

/* ---- arguments ---- */

/* Find an argument: an object with one key, such as {"as_int": 2}. Set *kind to this key, and
 * return the value. Return NULL if the argument is missing or None. */
static const json_t *find_argument(struct gt_import *im, const char *name, const char **kind)
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
		*kind = json_object_iter_key(first);
		return strcmp(*kind, "as_none") ? json_object_iter_value(first) : NULL;
	}
	return NULL;
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
	const json_t *value = find_argument(im, name, &kind);
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
	const json_t *value = find_argument(im, name, &kind);
	const char *text = json_string_value(value);

	if (!value)
		return missing;
	if (json_is_number(value))
		return json_number_value(value);
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
	const json_t *value = find_argument(im, name, &kind);

	if (!value)
		return missing;
	if (!json_is_boolean(value))
		fail_kind(im, name, kind);
	return json_is_true(value);
}

const char *gt_import_string(struct gt_import *im, const char *name, const char *missing)
{
	const char *kind;
	const json_t *value = find_argument(im, name, &kind);

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
	const json_t *value = find_argument(im, name, &kind), *item;
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

int gt_import_dim(struct gt_import *im, const char *name, int64_t missing, int ndim)
{
	int64_t dim = gt_import_int(im, name, missing);

	if (dim < 0)
		dim += ndim;
	if (dim >= 0 && dim < ndim)
		return (int)dim;
	gt_import_fail(im, ": the argument '%s' is no dimension of %d", name, ndim);
	return 0;
}

/* ---- tensors ---- */

static const char *tensor_argument(struct gt_import *im, const char *name)
{
	const char *kind;
	const json_t *value = find_argument(im, name, &kind);

	return value && !strcmp(kind, "as_tensor")
	           ? json_string_value(json_object_get(value, "name"))
	           : NULL;
}

static struct gt_binding *binding_of(struct gt_import *im, const char *argument, const char *tensor)
{
	struct gt_binding *b = tensor ? gt_index_find(&im->bindings, &tensor) : NULL;

	if (!b)
		return gt_import_fail(
		    im, ": the argument '%s' is no tensor that is known", argument);
	if (b->overwritten)
		return gt_import_fail(
		    im, "reads '%s', which %s has overwritten", tensor, b->overwritten);
	return b;
}

static struct gt_value *value_of_tensor(
    struct gt_import *im, const char *argument, const char *tensor)
{
	struct gt_binding *b = binding_of(im, argument, tensor);

	if (b && !b->value)
		return gt_import_fail(im,
		    "reads '%s', a constant: networks with constant tensors cannot be imported yet",
		    b->name);
	return b ? b->value : NULL;
}

struct gt_binding *gt_import_binding(struct gt_import *im, const char *name)
{
	return binding_of(im, name, tensor_argument(im, name));
}

struct gt_value *gt_import_tensor(struct gt_import *im, const char *name)
{
	return value_of_tensor(im, name, tensor_argument(im, name));
}

struct gt_value *gt_import_optional(struct gt_import *im, const char *name)
{
	const char *kind;

	return find_argument(im, name, &kind) ? gt_import_tensor(im, name) : NULL;
}

struct gt_map_operand gt_import_operand(struct gt_import *im, const char *name)
{
	const char *kind;

	if (find_argument(im, name, &kind) && !strcmp(kind, "as_tensor"))
		return (struct gt_map_operand){ .value = gt_import_tensor(im, name) };
	return (
	    struct gt_map_operand){ .is_number = true, .number = gt_import_float(im, name, NAN) };
}

int gt_import_tensors(
    struct gt_import *im, const char *name, struct gt_value *out[GT_IMPORT_TENSORS])
{
	const char *kind;
	const json_t *value = find_argument(im, name, &kind), *item;
	size_t i;

	if (!json_is_array(value) || json_array_size(value) > GT_IMPORT_TENSORS ||
	    !json_array_size(value)) {
		gt_import_fail(im, ": the argument '%s' is no list of up to %d tensors", name,
		    GT_IMPORT_TENSORS);
		return 0;
	}
	json_array_foreach(value, i, item) out[i] =
	    value_of_tensor(im, name, json_string_value(json_object_get(item, "name")));
	return im->g->err.code ? 0 : (int)json_array_size(value);
}

bool gt_import_same_shape(const struct gt_value *a, const struct gt_value *b)
{
	return a && b && a->ndim == b->ndim && a->dtype == b->dtype &&
	       !memcmp(a->shape, b->shape, sizeof(a->shape));
}

/* ---- results ---- */

/* The name of the node's output, or of element i of a list. */
static const char *name_result(const struct gt_import *im, size_t i)
{
	const json_t *output = json_array_get(json_object_get(im->node, "outputs"), 0);
	const json_t *tensor = json_object_get(output, "as_tensor");

	if (!tensor)
		tensor = json_array_get(json_object_get(output, "as_tensors"), i);
	return json_string_value(json_object_get(tensor, "name"));
}

static struct gt_binding *bind_result(struct gt_import *im, size_t i, struct gt_value *v)
{
	const char *name = name_result(im, i);
	struct gt_binding *b;

	if (!v || im->g->err.code)
		return NULL;
	if (!name)
		return gt_import_fail(im, ": its result is no tensor");
	b = gt_arena_alloc(&im->g->arena, sizeof(*b), &im->g->err);
	if (!b)
		return NULL;
	*b = (struct gt_binding){ .name = name, .value = v, .next = im->list };
	if (gt_index_add(&im->bindings, b, &im->g->err) != b)
		return gt_import_fail(im, ": its result '%s' has the name of another", name);
	im->list = b;
	return b;
}

static struct gt_binding *owner_of(struct gt_binding *b)
{
	return b->owner ? b->owner : b;
}

/* The tensor that is the node's first argument. */
static struct gt_binding *first_argument(struct gt_import *im)
{
	const json_t *first = json_array_get(json_object_get(im->node, "inputs"), 0);
	const char *name = json_string_value(json_object_get(first, "name"));

	return gt_import_binding(im, name ? name : "");
}

struct gt_value *gt_import_first(struct gt_import *im)
{
	const struct gt_binding *b = first_argument(im);

	return b ? value_of_tensor(im, "first", b->name) : NULL;
}

/* Whether the node's function overwrites its first argument: "relu_" in "relu_.default". */
static bool overwrites(const struct gt_import *im)
{
	const char *target = target_of(im->node), *dot = strchr(target, '.');

	return dot && dot > target && dot[-1] == '_';
}

/* Nodes of gtrain's graph overwrite nothing, so the old names keep the old elements. A network that
 * reads one of them later would get these, so such a read is an error. */
void gt_import_result(struct gt_import *im, struct gt_value *v)
{
	struct gt_binding *of = overwrites(im) ? first_argument(im) : NULL;
	struct gt_binding *b = bind_result(im, 0, v);

	if (!b || !of)
		return;
	b->owner = owner_of(of);
	for (struct gt_binding *other = im->list; other; other = other->next)
		if (other != b && owner_of(other) == b->owner)
			other->overwritten = target_of(im->node);
}

void gt_import_part(struct gt_import *im, size_t i, struct gt_value *v)
{
	struct gt_binding *of = first_argument(im);
	struct gt_binding *b = bind_result(im, i, v);

	if (b && of)
		b->owner = owner_of(of);
}

void gt_import_view(struct gt_import *im, struct gt_value *v)
{
	gt_import_part(im, 0, v);
}
