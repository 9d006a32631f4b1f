/* torch_script.c - TorchScript's modules in the shape of pickled ones: which attribute is what. */
#include <stdlib.h>
#include <string.h>

#include "lib/ckpt/args.h"
#include "lib/ckpt/torch_zip.h"

/*
 * An object's pickle has its attributes in order, whatever they are. What is a parameter, what a
 * buffer and what neither stands in the source of its class:
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

struct shaper {
	struct gt_torch_archive *archive;
	struct text *sources; /* [records], read when first needed */
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

/* The file's text; of length 0 where there is none. */
static int source_of(struct shaper *s, const char *class_name, struct text *out)
{
	const struct gt_zip_record *r = source_record(s, class_name);
	const unsigned char *bytes;
	struct text *known;
	int rc;

	*out = (struct text){ "", 0 };
	if (!r)
		return 0;
	known = &s->sources[r - s->archive->zip.records];
	if (!known->at) {
		rc = gt_zip_open_record(&s->archive->zip, r, s->archive->arena, &bytes, s->err);
		if (rc)
			return rc;
		*known = (struct text){ (const char *)bytes, r->size };
	}
	*out = *known;
	return 0;
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

struct module_class {
	bool known;                      /* the source says that it is a module */
	struct text parameters, buffers; /* what stands in the brackets; `at` NULL: not told */
};

static void read_list(const struct text *line, const char *name, struct text *out)
{
	size_t n = strlen(name);

	if (starts(line, name, n))
		*out = (struct text){ line->at + n, line->length - n };
}

static int class_of(struct shaper *s, const char *class_name, struct module_class *out)
{
	const char *name = strrchr(class_name, '.') + 1;
	size_t n = strlen(name);
	struct text text, line;
	int rc = source_of(s, class_name, &text);

	*out = (struct module_class){ 0 };
	while (!rc && !out->known && next_line(&text, &line))
		out->known = starts(&line, "class ", 6) && line.length == n + 15 &&
		             !memcmp(line.at + 6, name, n) &&
		             !memcmp(line.at + 6 + n, "(Module):", 9);
	while (!rc && out->known && next_line(&text, &line) && starts(&line, "  ", 2)) {
		read_list(&line, "  __parameters__ = [", &out->parameters);
		read_list(&line, "  __buffers__ = [", &out->buffers);
	}
	return rc;
}

/* Whether "name" stands in the list. */
static bool lists(const struct text *list, const struct gt_tree *name)
{
	size_t n = name->string.length;

	for (size_t i = 0; i + n + 2 <= list->length; i++)
		if (list->at[i] == '"' && list->at[i + n + 1] == '"' &&
		    !memcmp(list->at + i + 1, name->string.bytes, n))
			return true;
	return false;
}

/* ---- the objects ---- */

static bool is_script_object(const struct gt_tree *node)
{
	return is_kind(node, GT_TREE_OPAQUE) && node->opaque.args &&
	       is_kind(node->opaque.state, GT_TREE_DICT) &&
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
	if (!c->parameters.at && value->kind == GT_TREE_TENSOR) /* of unknown source: all */
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
	struct module_class c;
	int rc;

	if (gt_tree_get(object->opaque.state, "_modules"))
		return 0; /* shared by two modules */
	rc = class_of(s, object->opaque.class_name, &c);
	if (rc || !c.known)
		return rc;
	for (int i = 0; i < PART_COUNT; i++)
		if (!(parts[i] = gt_tree_dict(arena, s->err)))
			return GT_ENOMEM;
	for (int i = 0; !rc && i < REST; i++)
		rc = gt_tree_set(parts[REST], names[i], parts[i], arena, s->err);
	if (!rc)
		rc = deal(s, object->opaque.state, &c, parts);
	if (!rc)
		object->opaque.state = parts[REST];
	return rc;
}

int gt_torchscript_shape(struct gt_torch_archive *a, struct gt_tree *root, struct gt_err *err)
{
	struct shaper s = { .archive = a, .err = err };
	struct gt_torch_part constants = { 0 };
	int rc = gt_torch_archive_read(a, "constants", &constants, err);

	if (rc)
		return gt_err_prefix(err, "constants.pkl");
	if (!is_script_object(root))
		return 0;
	s.sources = gt_calloc(a->zip.count, sizeof(*s.sources), err);
	if (!s.sources)
		return GT_ENOMEM;
	rc = shape(&s, root);
	if (!rc && gt_tree_is_seq(constants.tree) && constants.tree->seq.count)
		rc =
		    gt_tree_set(root->opaque.state, "constants.pkl", constants.tree, a->arena, err);
	/* The parts nest deeper than the attributes did. */
	if (!rc)
		rc = gt_tree_check(root, a->arena, err);
	free(s.sources);
	return rc;
}
