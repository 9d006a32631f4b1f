/* graph.c - values, nodes and the builder. */
#include "lib/graph/graph.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/option_names.h"
#include "lib/graph/op.h"

/* One of the graph's attributes that are too large for union gt_attrs. */
struct interned {
	size_t size;
	const void *bytes;
};

static int compare_interned(const void *a, const void *b)
{
	const struct interned *x = a, *y = b;

	if (x->size != y->size)
		return x->size < y->size ? -1 : 1;
	return memcmp(x->bytes, y->bytes, x->size);
}

/* A name, and the value that has it: NULL if passes took it away. */
struct named {
	const char *name; /* must be first for gt_index_by_name */
	struct gt_value *value;
};

int gt_graph_new(struct gt_graph **out, struct gt_err *err)
{
	struct gt_graph *g = gt_calloc(1, sizeof(*g), err);

	*out = g;
	if (!g)
		return GT_ENOMEM;
	g->scope = "";
	g->interned.compare = compare_interned;
	g->stored.compare = g->others.compare = gt_index_by_name;
	return 0;
}

void gt_graph_free(struct gt_graph *g)
{
	if (!g)
		return;
	free(g->values);
	free(g->nodes);
	gt_index_release(&g->interned);
	gt_index_release(&g->stored);
	gt_index_release(&g->others);
	gt_arena_release(&g->arena);
	free(g);
}

int gt_graph_status(const struct gt_graph *g, struct gt_err *err)
{
	if (g->err.code && err)
		*err = g->err;
	return g->err.code;
}

void *gt_graph_fail(struct gt_graph *g, int code, const char *format, ...)
{
	va_list ap;

	if (g->err.code)
		return NULL;
	g->err.code = code;
	va_start(ap, format);
	gt_option_names_vformat(g->err.text, sizeof(g->err.text), format, ap);
	va_end(ap);
	if (*g->scope)
		gt_err_prefix(&g->err, "%s", g->scope);
	return NULL;
}

int gt_node_prefix(const struct gt_node *n, struct gt_err *err)
{
	size_t length = strlen(n->op->name);

	/* The failure of another rank has nothing to do with this node. */
	if (err->follows)
		return err->code;
	if (strncmp(err->text, n->op->name, length) != 0 || err->text[length] != ':')
		gt_err_prefix(err, "%s", n->op->name);
	return *n->scope ? gt_err_prefix(err, "%s", n->scope) : err->code;
}

void gt_graph_scope(struct gt_graph *g, const char *format, ...)
{
	char text[128];
	const char *copy;
	va_list ap;

	if (g->err.code)
		return;
	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	copy = gt_arena_strdup(&g->arena, text, &g->err);
	if (copy)
		g->scope = copy;
}

size_t gt_scope_block(const char *scope)
{
	const char *p = scope;

	while (*p) {
		size_t length = strcspn(p, "."), name = length;

		while (name && isdigit((unsigned char)p[name - 1]))
			name--;
		p += length;
		if (name < length && (!name || p[-1 - (ptrdiff_t)(length - name)] == '_'))
			break;
		p += *p == '.';
	}
	return (size_t)(p - scope);
}

static struct gt_value *value_new(struct gt_graph *g, enum gt_role role)
{
	struct gt_value *v;

	if (gt_grow(&g->values, g->value_count, &g->value_capacity, sizeof(*g->values), &g->err))
		return NULL;
	v = gt_arena_alloc(&g->arena, sizeof(*v), &g->err);
	if (!v)
		return NULL;
	v->id = (int)g->value_count;
	v->role = role;
	g->values[g->value_count++] = v;
	return v;
}

/* Dimensions come from options and files: their product must fit, for 16-byte elements. */
static bool shape_is_sane(int ndim, const int64_t *shape)
{
	int64_t n = 16;

	if (ndim < 0 || ndim > GT_MAX_DIMS)
		return false;
	for (int i = 0; i < ndim; i++)
		if (shape[i] < 1 || __builtin_mul_overflow(n, shape[i], &n))
			return false;
	return true;
}

static bool is_stored(enum gt_role role)
{
	return role == GT_PARAMETER || role == GT_BUFFER || role == GT_CACHE;
}

/* ---- names ---- */

static struct gt_index *names_of(struct gt_graph *g, const struct gt_value *v)
{
	return is_stored(v->role) ? &g->stored : &g->others;
}

/* Return the value that got this name in an index, and still has it, or NULL. */
static struct gt_value *find_in(const struct gt_index *names, const char *name)
{
	const struct named *found = gt_index_find(names, &name);

	return found ? found->value : NULL;
}

/* Return the value with this name that is stored, or is not. Passes may change the role of a value
 * that has its name already, such as a parameter's gradient. */
static struct gt_value *find_value(const struct gt_graph *g, const char *name, bool stored)
{
	struct gt_value *v = find_in(stored ? &g->stored : &g->others, name);

	if (!v || is_stored(v->role) != stored)
		v = find_in(stored ? &g->others : &g->stored, name);
	return v && is_stored(v->role) == stored ? v : NULL;
}

static void forget_name(struct gt_index *names, const struct gt_value *v)
{
	struct named *entry = gt_index_find(names, &v->name);

	if (entry && entry->value == v)
		entry->value = NULL;
}

/* A name that another value had before becomes this one's. */
void gt_value_set_name(struct gt_graph *g, struct gt_value *v, const char *name)
{
	struct named *new, *entry;

	if (v->name) {
		forget_name(&g->stored, v);
		forget_name(&g->others, v);
	}
	v->name = name ? gt_arena_strdup(&g->arena, name, &g->err) : NULL;
	new = v->name ? gt_arena_alloc(&g->arena, sizeof(*new), &g->err) : NULL;
	if (!new)
		return;
	*new = (struct named){ v->name, v };
	entry = gt_index_add(names_of(g, v), new, &g->err);
	if (entry)
		entry->value = v;
}

void gt_value_take_name(struct gt_graph *g, struct gt_value *v, struct gt_value *from)
{
	const char *name = from->name;

	v->role = from->role;
	gt_value_set_name(g, from, NULL);
	from->role = GT_TEMPORARY;
	gt_value_set_name(g, v, name);
}

/* ---- values ---- */

static struct gt_value *declare(struct gt_graph *g, enum gt_role role, const char *name,
    enum gt_dtype dtype, int ndim, const int64_t *shape)
{
	struct gt_value *v;

	if (g->err.code)
		return NULL;
	if (!shape_is_sane(ndim, shape))
		return gt_graph_fail(
		    g, GT_EINVAL, "'%s': a dimension is not positive or too large", name);
	if (find_value(g, name, is_stored(role)))
		return gt_graph_fail(g, GT_EINVAL, "'%s' is declared twice", name);
	v = value_new(g, role);
	if (!v)
		return NULL;
	gt_value_set_name(g, v, name);
	v->dtype = dtype;
	v->ndim = ndim;
	for (int i = 0; i < ndim; i++)
		v->shape[i] = shape[i];
	return g->err.code ? NULL : v;
}

struct gt_value *gt_input(
    struct gt_graph *g, const char *name, enum gt_dtype dtype, int ndim, const int64_t *shape)
{
	return declare(g, GT_INPUT, name, dtype, ndim, shape);
}

struct gt_value *gt_parameter(struct gt_graph *g, const char *name, enum gt_dtype dtype, int ndim,
    const int64_t *shape, struct gt_init init, bool decay)
{
	struct gt_value *v = declare(g, GT_PARAMETER, name, dtype, ndim, shape);

	if (v) {
		v->init = init;
		v->decay = decay;
		v->lr_scale = 1;
	}
	return v;
}

struct gt_value *gt_buffer(struct gt_graph *g, const char *name, enum gt_dtype dtype, int ndim,
    const int64_t *shape, struct gt_init init)
{
	struct gt_value *v = declare(g, GT_BUFFER, name, dtype, ndim, shape);

	if (v)
		v->init = init;
	return v;
}

struct gt_value *gt_cache(
    struct gt_graph *g, const char *name, enum gt_dtype dtype, int ndim, const int64_t *shape)
{
	return declare(g, GT_CACHE, name, dtype, ndim, shape);
}

struct gt_value *gt_output(struct gt_graph *g, struct gt_value *v, const char *name)
{
	if (g->err.code || !v)
		return NULL;
	if (!v->producer || v->role != GT_TEMPORARY)
		return gt_graph_fail(
		    g, GT_EINVAL, "output '%s': not a value that a node makes", name);
	if (gt_graph_find(g, name))
		return gt_graph_fail(g, GT_EINVAL, "'%s' is declared twice", name);
	v->role = GT_OUTPUT;
	gt_value_set_name(g, v, name);
	return g->err.code ? NULL : v;
}

struct gt_value *gt_temporary(struct gt_graph *g, enum gt_dtype dtype, int64_t count)
{
	struct gt_value *v = g->err.code ? NULL : value_new(g, GT_TEMPORARY);

	if (!v)
		return NULL;
	v->dtype = dtype;
	v->ndim = 1;
	v->shape[0] = count;
	return v;
}

/* Add a temporary with the type, shape and layout of another value. */
static struct gt_value *temporary_like(struct gt_graph *g, const struct gt_value *like)
{
	struct gt_value *v = value_new(g, GT_TEMPORARY);

	if (!v)
		return NULL;
	v->dtype = like->dtype;
	v->layout = like->layout;
	v->ndim = like->ndim;
	memcpy(v->shape, like->shape, sizeof(v->shape));
	return v;
}

struct gt_value *gt_temporary_within(
    struct gt_graph *g, struct gt_value *whole, int64_t first, const struct gt_value *like)
{
	struct gt_value *v = g->err.code || !whole ? NULL : temporary_like(g, like);

	if (!v)
		return NULL;
	v->within = whole;
	v->within_first = first;
	return v;
}

struct gt_value *gt_graph_find(const struct gt_graph *g, const char *name)
{
	return find_value(g, name, false);
}

struct gt_value *gt_graph_find_stored(const struct gt_graph *g, const char *name)
{
	return find_value(g, name, true);
}

static bool inputs_given(
    struct gt_graph *g, const struct gt_op *op, int inputs, struct gt_value *const *in)
{
	if (inputs < op->min_inputs || inputs > op->max_inputs) {
		gt_graph_fail(g, GT_EINVAL, "%s: %d inputs, %d to %d wanted", op->name, inputs,
		    op->min_inputs, op->max_inputs);
		return false;
	}
	for (int i = 0; i < op->min_inputs; i++) {
		if (!in[i]) {
			gt_graph_fail(g, GT_EINVAL, "%s: input %d is missing", op->name, i);
			return false;
		}
	}
	return true;
}

struct gt_node *gt_emit(struct gt_graph *g, const struct gt_op *op, const union gt_attrs *attrs,
    int inputs, struct gt_value *const *in)
{
	struct gt_err why = GT_ERR_INIT;
	struct gt_node *n;

	if (g->err.code || !inputs_given(g, op, inputs, in))
		return NULL;
	if (gt_grow(&g->nodes, g->node_count, &g->node_capacity, sizeof(*g->nodes), &g->err))
		return NULL;
	n = gt_arena_alloc(&g->arena, sizeof(*n), &g->err);
	if (!n)
		return NULL;
	n->op = op;
	if (attrs)
		n->attrs = *attrs;
	n->scope = g->scope;
	n->inputs = op->max_inputs;
	n->outputs = op->outputs;
	for (int i = 0; i < inputs; i++)
		n->in[i] = in[i];
	for (int i = 0; i < op->outputs; i++) {
		n->out[i] = value_new(g, GT_TEMPORARY);
		if (!n->out[i])
			return NULL;
		n->out[i]->producer = n;
	}
	if (op->infer(n, &why))
		return gt_graph_fail(g, why.code, "%s: %s", op->name, why.text);
	for (int i = 0; i < op->outputs; i++)
		if (n->out[i] && !shape_is_sane(n->out[i]->ndim, n->out[i]->shape))
			return gt_graph_fail(
			    g, GT_EINVAL, "%s: output %d would be empty or too large", op->name, i);
	g->nodes[g->node_count++] = n;
	return n;
}

void gt_append_node(struct gt_graph *g, struct gt_node *n)
{
	if (g->err.code ||
	    gt_grow(&g->nodes, g->node_count, &g->node_capacity, sizeof(*g->nodes), &g->err))
		return;
	g->nodes[g->node_count++] = n;
}

struct gt_node *gt_node_copy(struct gt_graph *g, const struct gt_node *n)
{
	struct gt_node *copy =
	    g->err.code ? NULL : gt_arena_alloc(&g->arena, sizeof(*copy), &g->err);

	if (!copy)
		return NULL;
	*copy = *n;
	for (int k = 0; k < n->outputs; k++) {
		if (!n->out[k])
			continue;
		copy->out[k] = temporary_like(g, n->out[k]);
		if (!copy->out[k])
			return NULL;
		copy->out[k]->producer = copy;
	}
	gt_append_node(g, copy);
	return g->err.code ? NULL : copy;
}

const void *gt_graph_intern(struct gt_graph *g, const void *bytes, size_t size)
{
	const struct interned like = { size, bytes }, *found;
	struct interned *new;
	void *copy;

	if (g->err.code)
		return NULL;
	found = gt_index_find(&g->interned, &like);
	if (found)
		return found->bytes;
	new = gt_arena_alloc(&g->arena, sizeof(*new), &g->err);
	copy = gt_arena_alloc(&g->arena, size + !size, &g->err);
	if (!new || !copy)
		return NULL;
	memcpy(copy, bytes, size);
	*new = (struct interned){ size, copy };
	g->interned_bytes += size;
	return gt_index_add(&g->interned, new, &g->err) ? copy : NULL;
}

int64_t gt_value_elements(const struct gt_value *v)
{
	int64_t n = 1;

	for (int i = 0; i < v->ndim; i++)
		n *= v->shape[i];
	return n;
}

bool gt_value_same_shape(const struct gt_value *a, const struct gt_value *b)
{
	for (int i = 0; i < a->ndim && a->ndim == b->ndim; i++)
		if (a->shape[i] != b->shape[i])
			return false;
	return a->ndim == b->ndim;
}

size_t gt_value_bytes(const struct gt_value *v)
{
	return (size_t)gt_value_elements(v) * gt_dtype_size(v->dtype);
}

static void print_graph_value(FILE *f, const struct gt_value *v)
{
	static const char *const roles[] = {
		[GT_INPUT] = "input ",
		[GT_PARAMETER] = "",
		[GT_BUFFER] = "buffer ",
		[GT_TEMPORARY] = "",
		[GT_GRADIENT] = "gradient ",
		[GT_WORKING_COPY] = "copy ",
		[GT_CACHE] = "cache ",
		[GT_OUTPUT] = "output ",
	};

	if (!v) {
		fputs("-", f);
		return;
	}
	fputs(roles[v->role], f);
	if (v->name)
		fprintf(f, "%s", v->name);
	else if (v->parameter)
		fprintf(f, "of %s", v->parameter->name);
	else
		fprintf(f, "%%%d", v->id);
}

static void print_shape(FILE *f, const struct gt_value *v)
{
	fprintf(f, " %s[", gt_dtype_name(v->dtype));
	for (int i = 0; i < v->ndim; i++)
		fprintf(f, "%s%lld", i ? "," : "", (long long)v->shape[i]);
	fputs(v->layout == GT_CHANNELS_LAST ? "] channels-last" : "]", f);
}

/* A node is printed as "outputs = op(inputs) attributes  # scope". "-" stands for an optional value
 * that the node lacks. */
static void print_node(FILE *f, const struct gt_node *n)
{
	int given = n->inputs, shown = 0;

	for (int i = 0; i < n->outputs; i++) {
		if (!n->out[i])
			continue;
		fputs(shown++ ? ", " : "", f);
		print_graph_value(f, n->out[i]);
		print_shape(f, n->out[i]);
	}
	fprintf(f, "%s%s(", shown ? " = " : "", n->op->name);
	while (given > 0 && !n->in[given - 1])
		given--;
	for (int i = 0; i < given; i++) {
		fputs(i ? ", " : "", f);
		print_graph_value(f, n->in[i]);
	}
	fputc(')', f);
	if (n->op->print)
		n->op->print(n, f);
	fprintf(f, "%s%s%s\n", n->is_repeat ? " again" : "", *n->scope ? "  # " : "", n->scope);
}

char *gt_graph_print(const struct gt_graph *g, struct gt_err *err)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	if (!f) {
		gt_err_sys(err, "cannot print the graph");
		return NULL;
	}
	for (size_t i = 0; i < g->node_count; i++)
		print_node(f, g->nodes[i]);
	if (fclose(f)) {
		gt_err_sys(err, "cannot print the graph");
		free(text);
		return NULL;
	}
	return text;
}
