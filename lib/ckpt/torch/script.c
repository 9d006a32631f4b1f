/* script.c - TorchScript's modules in the shape of pickled ones: parameters and buffers. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/index.h"
#include "lib/ckpt/torch/zip.h"
#include "lib/ckpt/tree/tree.h"

/*
 * An object's pickle has all its attributes in order. The source of its class lists those that are
 * parameters and those that are buffers:
 *     class Linear(Module):
 *       __parameters__ = ["weight", "bias", ]
 *       __buffers__ = []
 * in code/__torch__/torch/nn/modules/linear.py for __torch__.torch.nn.modules.linear.Linear.
 * Source: torch/csrc/jit/serialization/python_print.cpp, printNamedType().
 */

struct text {
	const char *at;
	size_t length;
};

/* The lists in a module's source. `told` is false for a list that the source does not have. */
struct names {
	bool told;
	size_t count;
	struct text *items; /* sorted */
};

struct module_class {
	const struct gt_zip_record *source;
	struct text name;
	struct names parameters, buffers;
};

struct shaper {
	struct gt_torch_archive *archive;
	bool *read;              /* [records]: the source's classes are known */
	struct gt_index classes; /* all that were met */
	struct gt_err *err;
};

/* ---- the source ---- */

/* The file that a class is in: dots become slashes, the class itself comes off. */
static const struct gt_zip_record *source_record(const struct shaper *s, const char *class_name)
{
	const char *last = strrchr(class_name, '.');
	char path[600];
	size_t n = (size_t)(last - class_name), at = strlen("code/");

	if (n + at + sizeof(".py") > sizeof(path))
		return NULL;
	memcpy(path, "code/", at);
	for (size_t i = 0; i < n; i++)
		path[at++] = class_name[i] == '.' ? '/' : class_name[i];
	memcpy(path + at, ".py", sizeof(".py"));
	return gt_torch_archive_find(s->archive, path);
}

/* Take the next line off the text. */
static bool next_line(struct text *text, struct text *line)
{
	const char *end = text->length ? memchr(text->at, '\n', text->length) : NULL;

	if (!text->length)
		return false;
	*line = (struct text){ text->at, end ? (size_t)(end - text->at) : text->length };
	text->at += line->length + (end != NULL);
	text->length -= line->length + (end != NULL);
	return true;
}

static bool starts(const struct text *line, const char *with, size_t length)
{
	return line->length >= length && !memcmp(line->at, with, length);
}

static int compare_texts(const void *a, const void *b)
{
	const struct text *x = a, *y = b;
	size_t n = x->length < y->length ? x->length : y->length;
	int order = n ? memcmp(x->at, y->at, n) : 0;

	return order ? order : (x->length > y->length) - (x->length < y->length);
}

static int compare_classes(const void *a, const void *b)
{
	const struct module_class *x = a, *y = b;

	if (x->source != y->source)
		return (uintptr_t)x->source < (uintptr_t)y->source ? -1 : 1;
	return compare_texts(&x->name, &y->name);
}

/* The next text in quotes. */
static bool next_quoted(struct text *list, struct text *out)
{
	const char *open = list->length ? memchr(list->at, '"', list->length) : NULL, *close;

	if (!open)
		return false;
	open++;
	close = memchr(open, '"', (size_t)(list->at + list->length - open));
	if (!close)
		return false;
	*out = (struct text){ open, (size_t)(close - open) };
	list->length -= (size_t)(close + 1 - list->at);
	list->at = close + 1;
	return true;
}

/* If the line is this list, its names. */
static int read_list(
    struct shaper *s, const struct text *line, const char *start, struct names *out)
{
	size_t n = strlen(start), count = 0;
	struct text rest, name;

	if (!starts(line, start, n))
		return 0;
	rest = (struct text){ line->at + n, line->length - n };
	while (next_quoted(&rest, &name))
		count++;
	*out = (struct names){ .told = true };
	out->items = gt_arena_alloc(s->archive->arena, (count + 1) * sizeof(name), s->err);
	if (!out->items)
		return GT_ENOMEM;
	rest = (struct text){ line->at + n, line->length - n };
	while (next_quoted(&rest, &name))
		out->items[out->count++] = name;
	qsort(out->items, count, sizeof(name), compare_texts);
	return 0;
}

/* "class NAME(Module):"; *out stays NULL for other lines, and for a class that is there twice. */
static int read_class(struct shaper *s, const struct gt_zip_record *source, const struct text *line,
    struct module_class **out)
{
	static const char start[] = "class ", end[] = "(Module):";
	size_t around = strlen(start) + strlen(end);
	struct module_class *c, *first;

	*out = NULL;
	if (!starts(line, start, strlen(start)) || line->length < around ||
	    memcmp(line->at + line->length - strlen(end), end, strlen(end)))
		return 0;
	c = gt_arena_alloc(s->archive->arena, sizeof(*c), s->err);
	if (!c)
		return GT_ENOMEM;
	*c = (struct module_class){ .source = source,
		.name = { line->at + strlen(start), line->length - around } };
	first = gt_index_add(&s->classes, c, s->err);
	*out = first == c ? c : NULL;
	return first ? 0 : GT_ENOMEM;
}

/* All modules of a file, in one pass. */
static int read_source(struct shaper *s, const struct gt_zip_record *r)
{
	struct module_class *c = NULL;
	const unsigned char *bytes;
	struct text text, line;
	int rc = gt_zip_open_record(&s->archive->zip, r, s->archive->arena, &bytes, s->err);

	text = (struct text){ (const char *)bytes, rc ? 0 : r->size };
	while (!rc && next_line(&text, &line)) {
		if (!starts(&line, "  ", 2)) {
			rc = read_class(s, r, &line, &c);
			continue;
		}
		if (c)
			rc = read_list(s, &line, "  __parameters__ = [", &c->parameters);
		if (c && !rc)
			rc = read_list(s, &line, "  __buffers__ = [", &c->buffers);
	}
	return rc;
}

/* NULL for a class that no source says is a module. */
static int class_of(struct shaper *s, const char *class_name, const struct module_class **out)
{
	const char *name = strrchr(class_name, '.') + 1;
	struct module_class like = { source_record(s, class_name), { name, strlen(name) }, { 0 },
		{ 0 } };
	bool *read = like.source ? &s->read[like.source - s->archive->zip.records] : NULL;
	int rc = read && !*read ? read_source(s, like.source) : 0;

	*out = NULL;
	if (rc || !read)
		return rc;
	*read = true;
	*out = gt_index_find(&s->classes, &like);
	return 0;
}

static bool lists(const struct names *names, const struct gt_tree *name)
{
	struct text wanted = { name->string.bytes, name->string.length };

	return names->count &&
	       bsearch(&wanted, names->items, names->count, sizeof(wanted), compare_texts);
}

/* ---- the objects ---- */

static bool is_script_object(const struct gt_tree *node)
{
	return gt_tree_is(node, GT_TREE_OPAQUE) && node->opaque.args &&
	       gt_tree_is(node->opaque.state, GT_TREE_DICT) &&
	       !strncmp(node->opaque.class_name, "__torch__.", 10);
}

enum part { PARAMETERS, BUFFERS, MODULES, REST, PART_COUNT };

static enum part part_of(const struct module_class *c, const struct gt_tree_item *item)
{
	const struct gt_tree *value = item->value;

	if (is_script_object(value))
		return MODULES;
	if (item->key->kind != GT_TREE_STRING)
		return REST;
	if (!c->parameters.told &&
	    value->kind ==
	        GT_TREE_TENSOR) /* the code does not list the parameters: decide by requires_grad */
		return value->tensor.requires_grad ? PARAMETERS : BUFFERS;
	if (lists(&c->parameters, item->key))
		return PARAMETERS;
	return lists(&c->buffers, item->key) ? BUFFERS : REST;
}

static int shape(struct shaper *s, struct gt_tree *object);

/* Deal the attributes out to the parts; sub-modules first take their own shape. Objects of classes
 * that are no modules stay attributes. */
static int deal(struct shaper *s, const struct gt_tree *state, const struct module_class *c,
    struct gt_tree *const *parts)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < state->seq.count; i++) {
		const struct gt_tree_item *item = &state->seq.items[i];
		enum part part = part_of(c, item);

		if (part == MODULES) {
			rc = shape(s, item->value);
			if (!gt_tree_get(item->value->opaque.state, "_modules"))
				part = REST;
		}
		if (!rc)
			rc = gt_tree_push(
			    parts[part], item->key, item->value, s->archive->arena, s->err);
	}
	return rc;
}

static int shape(struct shaper *s, struct gt_tree *object)
{
	static const char *const names[] = { "_parameters", "_buffers", "_modules" };
	struct gt_arena *arena = s->archive->arena;
	struct gt_tree *parts[PART_COUNT];
	const struct module_class *c;
	int rc;

	if (gt_tree_get(object->opaque.state, "_modules"))
		return 0; /* shared by two modules */
	rc = class_of(s, object->opaque.class_name, &c);
	if (rc || !c)
		return rc;
	for (int i = 0; i < PART_COUNT; i++)
		if (!(parts[i] = gt_tree_dict(arena, s->err)))
			return GT_ENOMEM;
	for (int i = 0; !rc && i < REST; i++)
		rc = gt_tree_set(parts[REST], names[i], parts[i], arena, s->err);
	if (!rc)
		rc = deal(s, object->opaque.state, c, parts);
	if (!rc)
		object->opaque.state = parts[REST];
	return rc;
}

/*
 * Change the objects of TorchScript modules to the form of pickled nn.Modules, so that
 * gt_state_dict_find() handles both in the same way. The state of each module then has
 * `_parameters`, `_buffers` and `_modules`, followed by the other attributes. The tensors of
 * constants.pkl are added to the state of the root module, under "constants.pkl".
 */
int gt_torchscript_shape(struct gt_torch_archive *a, struct gt_tree *root, struct gt_err *err)
{
	struct shaper s = { .archive = a, .err = err, .classes.compare = compare_classes };
	struct gt_torch_part constants = { 0 };
	int rc = gt_torch_archive_read(a, "constants", &constants, err);

	if (rc)
		return gt_err_prefix(err, "constants.pkl");
	if (!is_script_object(root))
		return 0;
	s.read = gt_calloc(a->zip.count, sizeof(*s.read), err);
	if (!s.read)
		return GT_ENOMEM;
	rc = shape(&s, root);
	if (!rc && gt_tree_is_seq(constants.tree) && constants.tree->seq.count)
		rc =
		    gt_tree_set(root->opaque.state, "constants.pkl", constants.tree, a->arena, err);
	/* The parts nest deeper than the attributes did. */
	if (!rc)
		rc = gt_tree_check(root, a->arena, err);
	gt_index_release(&s.classes);
	free(s.read);
	return rc;
}
