/* convert.c - convert checkpoints from one format to another. */
#include "lib/ckpt/tools/convert.h"

#include <string.h>
#include <strings.h>

#include "lib/ckpt/pickle/pickle.h"
#include "lib/ckpt/torch/module.h"
#include "lib/ckpt/torch/torch.h"
#include "lib/ckpt/tree/metadata.h"
#include "lib/ckpt/tree/raw.h"
#include "lib/ckpt/tree/tree.h"

/* ---- formats ---- */

static const struct {
	const char *word, *format;
	bool flat; /* names and tensors alone */
} formats[] = {
	{ "pth", "torch-zip", false },
	{ "legacy", "torch-legacy", false },
	{ "safetensors", "safetensors", true },
	{ "npz", "npz", true },
	{ "dcp", "dcp", false },
};

const char *const gt_convert_words[] = { "pth", "legacy", "safetensors", "npz", "dcp", NULL };

static const struct {
	const char *ending, *word;
} endings[] = {
	{ ".pth", "pth" },
	{ ".pt", "pth" },
	{ ".th", "pth" },
	{ ".bin", "pth" },
	{ ".ckpt", "pth" },
	{ ".tar", "pth" },
	{ ".safetensors", "safetensors" },
	{ ".safetensors.index.json", "safetensors" },
	{ ".npz", "npz" },
};

/* Return whether a path is a name with this ending, in letters of either case. */
static bool has_ending(const char *text, const char *ending)
{
	size_t n = strlen(text), m = strlen(ending);

	return n > m && !strcasecmp(text + n - m, ending);
}

int gt_convert_format(const char **format, const char *to, const char *path, struct gt_err *err)
{
	for (size_t i = 0; !to && i < sizeof(endings) / sizeof(*endings); i++)
		if (has_ending(path, endings[i].ending))
			to = endings[i].word;
	for (size_t i = 0; to && i < sizeof(formats) / sizeof(*formats); i++) {
		if (strcmp(formats[i].word, to))
			continue;
		*format = formats[i].format;
		return 0;
	}
	if (to)
		gt_err_set(err, GT_EINVAL, "{to}: no format is called '%.40s'", to);
	else
		gt_err_set(err, GT_EINVAL, "the ending of '%.200s' names no format", path);
	return err->code;
}

static bool is_flat(const char *format)
{
	for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++)
		if (!strcmp(formats[i].format, format))
			return formats[i].flat;
	return false;
}

/* ---- state_dicts ---- */

struct gt_tree *gt_convert_state_dict(
    const struct gt_state_dict *sd, struct gt_arena *a, struct gt_err *err)
{
	struct gt_tree *dict = gt_tree_dict(a, err);

	if (!dict)
		return NULL;
	for (size_t i = 0; i < sd->count; i++) {
		struct gt_tree *node = gt_tree_new(a, GT_TREE_TENSOR, err);

		if (!node)
			return NULL;
		node->tensor = *sd->entries[i].tensor;
		node->tensor.requires_grad = node->tensor.parameter = false;
		node->tensor.attributes = NULL;
		if (gt_tree_set(dict, sd->entries[i].name, node, a, err))
			return NULL;
	}
	dict->seq.ordered = sd->node->kind != GT_TREE_DICT || sd->node->seq.ordered;
	if (gt_metadata_keep(dict, sd, a, err))
		return NULL;
	return dict;
}

/* The dtype of a tensor that torch saved as _rebuild_tensor_v3(storage, offset, size, stride,
 * requires_grad, hooks, dtype), and that gtrain left alone; NULL for other objects. */
static const char *unknown_dtype(const struct gt_tree *node)
{
	static const char rebuild[] = "torch._utils._rebuild_tensor_v3";
	enum gt_dtype known;
	const char *name;

	if (!gt_tree_is_object_of(node, rebuild) || node->opaque.args->kind != GT_TREE_TUPLE ||
	    !gt_tree_is_class(gt_tree_value(node->opaque.args, 6)))
		return NULL;
	name = gt_tree_value(node->opaque.args, 6)->opaque.class_name;
	return gt_torch_dtype(name, &known) || gt_raw_of_torch(name) ? NULL : name;
}

int gt_convert_check_types(const struct gt_state_dict *sd, struct gt_err *err)
{
	for (size_t i = 0; sd->node->kind == GT_TREE_DICT && i < sd->node->seq.count; i++) {
		const struct gt_tree_item *item = &sd->node->seq.items[i];
		const char *dtype = unknown_dtype(item->value);

		if (!dtype || !gt_tree_is_text(item->key))
			continue;
		gt_err_set(err, GT_ENOTSUP,
		    "tensor '%.200s' is of a type that gtrain does not know, %.80s",
		    item->key->string.bytes, dtype);
		return gt_err_hint(err,
		    "'gtrain ckpt convert' to a .pth keeps it; 'gtrain ckpt select "
		    "{keys}' takes other tensors");
	}
	return 0;
}

static bool holds(const struct gt_tree *node, const struct gt_tree *wanted)
{
	struct gt_walk w = { 0 };

	if (node == wanted)
		return true;
	while (gt_walk_next(node, &w))
		if ((w.part == GT_PART_VALUE || w.part == GT_PART_ITEMS) && holds(w.node, wanted))
			return true;
	return false;
}

/* List the values beside the path from the root down to the state_dict. */
static void list_left(
    struct gt_name_list *left, const struct gt_tree *node, const struct gt_state_dict *sd)
{
	const struct gt_tree *next = NULL;
	bool here;

	if (node->kind == GT_TREE_OPAQUE && node->opaque.items)
		node = node->opaque.items;
	here = node == sd->node;
	for (size_t i = 0; gt_tree_is_seq(node) && i < node->seq.count; i++) {
		const struct gt_tree_item *item = &node->seq.items[i];
		bool taken = here
		                 ? item->value->kind == GT_TREE_TENSOR && gt_tree_is_text(item->key)
		                 : !next && holds(item->value, sd->node);

		if (!taken)
			item->key ? gt_tree_list_key(left, item->key)
			          : gt_name_list_add(left, "[%zu]", i);
		else if (!here)
			next = item->value;
	}
	if (next)
		list_left(left, next, sd);
}

void gt_convert_note(struct gt_buf *note, const char *path, const struct gt_tree *root,
    const struct gt_state_dict *sd)
{
	const char *before = path ? path : "", *colon = path ? ": " : "";
	struct gt_name_list left = { .max = 6 };

	if (sd->note[0])
		gt_buf_printf(note, "%s%s%s%s\n", before, colon,
		    gt_module_is(sd->node) ? "the weights of " : "", sd->note);
	list_left(&left, root, sd);
	if (left.count)
		gt_buf_printf(
		    note, "%s%sleft behind: %s\n", before, colon, gt_name_list_text(&left));
	gt_name_list_release(&left);
}

static int flatten(struct gt_tree **out, const struct gt_tree *root, struct gt_arena *a,
    struct gt_buf *note, struct gt_err *err)
{
	struct gt_state_dict sd;
	int rc = gt_state_dict_find_as_is(&sd, root, err);

	if (rc) {
		if (rc == GT_EFORMAT)
			gt_err_hint(err,
			    "a .pth takes anything; this format takes a dict of names and "
			    "tensors, which `gtrain ckpt ls` finds");
		return rc;
	}
	rc = gt_convert_check_types(&sd, err);
	if (!rc) {
		*out = gt_convert_state_dict(&sd, a, err);
		gt_convert_note(note, NULL, root, &sd);
		rc = *out ? 0 : GT_ENOMEM;
	}
	gt_state_dict_release(&sd);
	return rc;
}

/* ---- objects: modules, and objects that weights_only=True refuses ---- */

struct object_conversion {
	struct gt_arena *arena;
	bool weights_only;  /* take refused objects out */
	size_t left_out;    /* tensors of modules */
	struct gt_buf path; /* the steps from the root to the node, joined by dots */
	struct gt_name_list modules, refused, unread; /* paths of nodes in the tree */
};

static void name_place(
    const struct object_conversion *r, struct gt_name_list *places, const char *class)
{
	if (!r->path.length) /* the root, which has no name */
		places->count++;
	else if (class)
		gt_name_list_add(places, "'%.100s' (%.80s)", gt_buf_text(&r->path), class);
	else
		gt_name_list_add(places, "'%.100s'", gt_buf_text(&r->path));
}

static int convert_node(struct object_conversion *r, struct gt_tree **node, struct gt_err *err);

/* Convert a part of a node; the step to it is the key or the number. */
static int convert_part(struct object_conversion *r, const struct gt_tree *key, size_t number,
    struct gt_tree **node, struct gt_err *err)
{
	size_t before = r->path.length;
	int rc;

	gt_tree_put_step(&r->path, key, number);
	rc = convert_node(r, node, err);
	gt_buf_cut(&r->path, before);
	return rc;
}

/*
 * Values that were taken out: a dict loses their keys; a list keeps its length, with None in their
 * places.
 */
static int convert_items(struct object_conversion *r, struct gt_tree *seq, struct gt_err *err)
{
	bool dict = seq->kind == GT_TREE_DICT;
	size_t kept = 0;
	int rc = 0;

	for (size_t i = 0; !rc && i < seq->seq.count; i++) {
		struct gt_tree_item item = seq->seq.items[i];
		struct gt_tree *key = (struct gt_tree *)item.key;

		rc = convert_part(r, item.key, i, &item.value, err);
		if (!rc && dict && key->kind == GT_TREE_OPAQUE)
			rc = convert_node(r, &key, err);
		if (!rc && !dict && !item.value) {
			item.value = gt_tree_new(r->arena, GT_TREE_NONE, err);
			rc = item.value ? 0 : GT_ENOMEM;
		}
		if (item.value && (!dict || key))
			seq->seq.items[kept++] = item;
	}
	if (!rc)
		seq->seq.count = kept;
	if (!rc && seq->seq.attributes)
		rc = convert_node(r, &seq->seq.attributes, err);
	if (rc || !seq->seq.defaults)
		return rc;
	name_place(r, &r->refused, "collections.defaultdict");
	if (r->weights_only)
		seq->seq.defaults = NULL;
	return 0;
}

/* An object's arguments, items and state may be, or contain, modules; so may attributes. */
static int convert_parts(struct object_conversion *r, struct gt_tree *object, struct gt_err *err)
{
	struct gt_walk w = { 0 };
	int rc = 0;

	while (!rc && gt_walk_next(object, &w))
		rc = convert_node(r, w.slot, err);
	return rc;
}

/* Whether torch.load(weights_only=True) would make this object again. Long integers and bytes are
 * no objects there. */
static bool is_allowed(const struct gt_tree *object)
{
	const char *name = object->opaque.class_name;

	if (object->opaque.args &&
	    (!strcmp(name, "builtins.int") || !strcmp(name, "builtins.bytes")))
		return true;
	return gt_global_classify(name) == GT_GLOBAL_ALLOWED;
}

static int convert_module(struct object_conversion *r, struct gt_tree **node, struct gt_err *err)
{
	struct gt_state_dict sd;
	int rc = gt_state_dict_find_as_is(&sd, *node, err);

	if (rc)
		return rc;
	*node = gt_convert_state_dict(&sd, r->arena, err);
	name_place(r, &r->modules, NULL);
	r->left_out += sd.left_out;
	gt_state_dict_release(&sd);
	return *node ? 0 : GT_ENOMEM;
}

/*
 * Put the state_dict in the place of each module, and NULL in the place of a node that is taken
 * out. The tree is the caller's own, and a node that it mentions twice is the same object
 * afterwards only if it is no module.
 */
static int convert_node(struct object_conversion *r, struct gt_tree **node, struct gt_err *err)
{
	if (gt_tree_is_seq(*node))
		return convert_items(r, *node, err);
	if ((*node)->kind != GT_TREE_OPAQUE)
		return convert_parts(r, *node, err);
	if (gt_module_is(*node))
		return convert_module(r, node, err);
	if ((*node)->opaque.made == GT_TREE_UNREAD) {
		name_place(r, &r->unread, (*node)->opaque.class_name);
		*node = NULL;
		return 0;
	}
	if (is_allowed(*node))
		return convert_parts(r, *node, err);
	name_place(r, &r->refused, (*node)->opaque.class_name);
	if (!r->weights_only)
		return convert_parts(r, *node, err);
	*node = NULL;
	return 0;
}

/* "N THINGS WORDS: 'a', 'b' and 3 more" */
static void say_places(struct gt_buf *note, struct gt_name_list *places, const char *thing,
    const char *one, const char *many)
{
	size_t n = places->count;

	if (n)
		gt_buf_printf(note, "%zu %s%s %s%s%s\n", n, thing, n == 1 ? "" : "s",
		    n == 1 ? one : many, places->text.length > 2 ? ": " : "",
		    places->text.length > 2 ? gt_name_list_text(places) : "");
}

static void describe_conversion(struct gt_buf *note, struct object_conversion *r)
{
	say_places(note, &r->unread, "value", "that gtrain does not read is left behind",
	    "that gtrain does not read are left behind");
	say_places(
	    note, &r->modules, "pickled model", "became its state_dict", "became their state_dict");
	if (r->left_out)
		gt_buf_printf(note,
		    "left behind: %zu tensor%s of kinds that no state_dict here can hold, "
		    "quantized or sparse\n",
		    r->left_out, r->left_out == 1 ? "" : "s");
	if (r->weights_only)
		say_places(note, &r->refused, "object",
		    "that weights_only=True refuses is left behind",
		    "that weights_only=True refuses are left behind");
	else
		say_places(note, &r->refused, "object", "is refused by weights_only=True",
		    "are refused by weights_only=True");
}

int gt_convert_tree(struct gt_tree **out, struct gt_tree *root, const char *format,
    bool weights_only, struct gt_arena *a, struct gt_buf *note, struct gt_err *err)
{
	struct object_conversion r = { .arena = a,
		.weights_only = weights_only,
		.modules.max = 4,
		.refused.max = 4,
		.unread.max = 4 };
	int rc;

	*out = root;
	if (is_flat(format))
		return flatten(out, root, a, note, err);
	rc = convert_node(&r, out, err);
	if (!rc && !*out) {
		gt_err_set(err, GT_ENOTSUP, "the checkpoint is an object of class '%.200s'",
		    root->opaque.class_name);
		rc = gt_err_hint(err, "weights_only=True would load nothing of it");
	}
	if (!rc)
		describe_conversion(note, &r);
	gt_buf_release(&r.path);
	gt_name_list_release(&r.modules);
	gt_name_list_release(&r.refused);
	gt_name_list_release(&r.unread);
	return rc;
}
