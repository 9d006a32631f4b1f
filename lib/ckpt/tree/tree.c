/* tree.c - the tree: making nodes, putting them together, looking things up. */
#include "lib/ckpt/tree/tree.h"

#include <math.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/base/text.h"
#include "lib/ckpt/pickle/pickle.h"

/* ---- nodes ---- */

struct gt_tree *gt_tree_new(struct gt_arena *a, enum gt_tree_kind kind, struct gt_err *err)
{
	struct gt_tree *node = gt_arena_alloc(a, sizeof(*node), err);

	if (node)
		node->kind = kind;
	return node;
}

struct gt_tree *gt_tree_none(struct gt_arena *a, struct gt_err *err)
{
	return gt_tree_new(a, GT_TREE_NONE, err);
}

struct gt_tree *gt_tree_bool(struct gt_arena *a, bool value, struct gt_err *err)
{
	struct gt_tree *node = gt_tree_new(a, GT_TREE_BOOL, err);

	if (node)
		node->boolean = value;
	return node;
}

struct gt_tree *gt_tree_int(struct gt_arena *a, int64_t value, struct gt_err *err)
{
	struct gt_tree *node = gt_tree_new(a, GT_TREE_INT, err);

	if (node)
		node->integer = value;
	return node;
}

struct gt_tree *gt_tree_float(struct gt_arena *a, double value, struct gt_err *err)
{
	struct gt_tree *node = gt_tree_new(a, GT_TREE_FLOAT, err);

	if (node)
		node->real = value;
	return node;
}

struct gt_tree *gt_tree_bytes(
    struct gt_arena *a, const void *bytes, size_t length, struct gt_err *err)
{
	struct gt_tree *node = gt_tree_new(a, GT_TREE_STRING, err);
	char *copy = node ? gt_arena_alloc(a, length + 1, err) : NULL;

	if (!copy)
		return NULL;
	if (length)
		memcpy(copy, bytes, length);
	node->string.bytes = copy;
	node->string.length = length;
	return node;
}

struct gt_tree *gt_tree_string(struct gt_arena *a, const char *value, struct gt_err *err)
{
	return gt_tree_bytes(a, value, strlen(value), err);
}

struct gt_tree *gt_tree_list(struct gt_arena *a, struct gt_err *err)
{
	return gt_tree_new(a, GT_TREE_LIST, err);
}

struct gt_tree *gt_tree_tuple(struct gt_arena *a, struct gt_err *err)
{
	return gt_tree_new(a, GT_TREE_TUPLE, err);
}

struct gt_tree *gt_tree_dict(struct gt_arena *a, struct gt_err *err)
{
	return gt_tree_new(a, GT_TREE_DICT, err);
}

struct gt_tree *gt_tree_opaque(struct gt_arena *a, const char *class_name, struct gt_err *err)
{
	struct gt_tree *node = gt_tree_new(a, GT_TREE_OPAQUE, err);

	if (!node)
		return NULL;
	node->opaque.class_name = gt_arena_strdup(a, class_name, err);
	return node->opaque.class_name ? node : NULL;
}

struct gt_tree *gt_tree_tensor(struct gt_arena *a, enum gt_dtype dtype, int ndim,
    const int64_t *shape, const void *data, struct gt_err *err)
{
	struct gt_tree *node = gt_tree_new(a, GT_TREE_TENSOR, err);
	struct gt_storage *storage = node ? gt_arena_alloc(a, sizeof(*storage), err) : NULL;
	int64_t *dims;

	if (!storage)
		return NULL;
	if (ndim < 0 || ndim > GT_TREE_MAX_DIMS) {
		gt_err_set(err, GT_EINVAL, "a tensor of %d dimensions: the most is %d", ndim,
		    GT_TREE_MAX_DIMS);
		return NULL;
	}
	dims = gt_arena_alloc(a, 2 * (size_t)ndim * sizeof(*dims), err);
	if (!dims)
		return NULL;
	if (ndim)
		memcpy(dims, shape, (size_t)ndim * sizeof(*dims));
	if (!gt_ckpt_tensor_contiguous_stride(ndim, dims, dims + ndim)) {
		gt_err_set(err, GT_EINVAL, "a tensor's shape is negative or overflows");
		return NULL;
	}
	node->tensor = (struct gt_tree_tensor){
		.dtype = dtype,
		.ndim = ndim,
		.shape = dims,
		.stride = dims + ndim,
		.storage = storage,
	};
	storage->bytes = data;
	storage->size_bytes = (size_t)gt_ckpt_tensor_count(&node->tensor) * gt_dtype_size(dtype);
	storage->key = storage->name = "";
	storage->location = "cpu";
	return node;
}

/* ---- putting together ---- */

bool gt_tree_is_seq(const struct gt_tree *node)
{
	return node->kind == GT_TREE_LIST || node->kind == GT_TREE_TUPLE ||
	       node->kind == GT_TREE_DICT;
}

int gt_tree_reserve(struct gt_tree *seq, size_t n, struct gt_arena *a, struct gt_err *err)
{
	size_t count = seq->seq.count, capacity = count + n;
	struct gt_tree_item *items;

	if (capacity <= seq->seq.capacity)
		return 0;
	if (capacity < 2 * count)
		capacity = 2 * count;
	items = gt_arena_alloc(a, capacity * sizeof(*items), err);
	if (!items)
		return GT_ENOMEM;
	if (count)
		memcpy(items, seq->seq.items, count * sizeof(*items));
	seq->seq.items = items;
	seq->seq.capacity = capacity;
	return 0;
}

int gt_tree_push(struct gt_tree *seq, const struct gt_tree *key, struct gt_tree *value,
    struct gt_arena *a, struct gt_err *err)
{
	if (seq->seq.count == seq->seq.capacity &&
	    gt_tree_reserve(seq, seq->seq.count ? 1 : 4, a, err))
		return GT_ENOMEM;
	seq->seq.items[seq->seq.count++] = (struct gt_tree_item){ .key = key, .value = value };
	return 0;
}

static int set(struct gt_tree *dict, const struct gt_tree *key, struct gt_tree *value,
    struct gt_arena *a, struct gt_err *err)
{
	/* A NULL node was refused where it was made: that code stands. */
	if (!dict || !key || !value)
		return err && err->code ? err->code : GT_ENOMEM;
	if (dict->kind != GT_TREE_DICT)
		return gt_err_set(err, GT_EINVAL, "a key can be set in a dict only");
	return gt_tree_push(dict, key, value, a, err);
}

int gt_tree_set(struct gt_tree *dict, const char *key, struct gt_tree *value, struct gt_arena *a,
    struct gt_err *err)
{
	return set(dict, value ? gt_tree_string(a, key, err) : NULL, value, a, err);
}

int gt_tree_set_int(struct gt_tree *dict, int64_t key, struct gt_tree *value, struct gt_arena *a,
    struct gt_err *err)
{
	return set(dict, value ? gt_tree_int(a, key, err) : NULL, value, a, err);
}

int gt_tree_append(
    struct gt_tree *seq, struct gt_tree *value, struct gt_arena *a, struct gt_err *err)
{
	if (!seq || !value)
		return err && err->code ? err->code : GT_ENOMEM;
	if (seq->kind != GT_TREE_LIST && seq->kind != GT_TREE_TUPLE)
		return gt_err_set(err, GT_EINVAL, "only a list or a tuple can be appended to");
	return gt_tree_push(seq, NULL, value, a, err);
}

/* ---- looking up ---- */

bool gt_tree_is_string(const struct gt_tree *node, const char *text)
{
	return node && node->kind == GT_TREE_STRING && node->string.length == strlen(text) &&
	       !memcmp(node->string.bytes, text, node->string.length);
}

const struct gt_tree *gt_tree_get(const struct gt_tree *dict, const char *key)
{
	if (!dict || dict->kind != GT_TREE_DICT)
		return NULL;
	for (size_t i = 0; i < dict->seq.count; i++)
		if (gt_tree_is_string(dict->seq.items[i].key, key))
			return dict->seq.items[i].value;
	return NULL;
}

const struct gt_tree *gt_tree_get_int(const struct gt_tree *dict, int64_t key)
{
	if (!dict || dict->kind != GT_TREE_DICT)
		return NULL;
	for (size_t i = 0; i < dict->seq.count; i++) {
		const struct gt_tree *k = dict->seq.items[i].key;

		if (k->kind == GT_TREE_INT && k->integer == key)
			return dict->seq.items[i].value;
	}
	return NULL;
}

static bool whole(double real, int64_t *out)
{
	if (!(real >= -0x1p63 && real < 0x1p63) || real != trunc(real))
		return false;
	*out = (int64_t)real;
	return true;
}

/* The only element of a tensor: 1, or 0 where it is none or of another type, or the damage. */
static int read_scalar(
    const struct gt_tree_tensor *t, enum gt_dtype as, void *out, struct gt_err *err)
{
	int rc = t->ndim ? GT_ENOTSUP : gt_ckpt_tensor_read(t, as, out, err);

	if (rc == GT_ENOTSUP || rc == GT_EINVAL)
		return 0;
	return rc ? rc : 1;
}

/* A number in memory of its own: a tensor, or a NumPy scalar. */
struct boxed {
	struct gt_tree_tensor scalar;
	struct gt_storage storage;
};

static const struct gt_tree_tensor *unbox(struct boxed *b, const struct gt_tree *tree)
{
	if (gt_tree_is(tree, GT_TREE_TENSOR))
		return &tree->tensor;
	return gt_pickle_numpy_scalar(&b->scalar, &b->storage, tree) ? &b->scalar : NULL;
}

static int read_boxed_int(const struct gt_tree *tree, int64_t *out, struct gt_err *err)
{
	struct boxed b;
	const struct gt_tree_tensor *t = unbox(&b, tree);
	double real;
	int rc;

	if (!t)
		return 0;
	if (!gt_dtype_is_float(t->dtype))
		return read_scalar(t, GT_I64, out, err);
	rc = read_scalar(t, GT_F64, &real, err);
	return rc > 0 ? whole(real, out) : rc;
}

int gt_tree_read_int(const struct gt_tree *tree, int64_t *out, struct gt_err *err)
{
	switch (tree ? tree->kind : GT_TREE_NONE) {
	case GT_TREE_BOOL:
		*out = tree->boolean;
		return 1;
	case GT_TREE_INT:
		*out = tree->integer;
		return 1;
	case GT_TREE_FLOAT:
		return whole(tree->real, out);
	case GT_TREE_NONE:
		return 0;
	default:
		return read_boxed_int(tree, out, err);
	}
}

int gt_tree_read_float(const struct gt_tree *tree, double *out, struct gt_err *err)
{
	struct boxed b;
	const struct gt_tree_tensor *t = unbox(&b, tree);
	int64_t integer;
	int rc;

	if (tree && tree->kind == GT_TREE_FLOAT) {
		*out = tree->real;
		return 1;
	}
	if (t && gt_dtype_is_float(t->dtype))
		return read_scalar(t, GT_F64, out, err);
	rc = gt_tree_read_int(tree, &integer, err);
	if (rc > 0)
		*out = (double)integer;
	return rc;
}

bool gt_tree_as_int(const struct gt_tree *tree, int64_t *out)
{
	return gt_tree_read_int(tree, out, GT_ERR_IGNORED) > 0;
}

bool gt_tree_as_float(const struct gt_tree *tree, double *out)
{
	return gt_tree_read_float(tree, out, GT_ERR_IGNORED) > 0;
}

/* ---- the walk ---- */

static bool take_walk_slot(struct gt_walk *w, enum gt_walk_part part, struct gt_tree **slot)
{
	w->part = part;
	w->slot = slot;
	w->node = *slot;
	return *slot != NULL;
}

/* Numbers from 0 on are keys and values in turn, those from `2 * count` on the other parts. */
static bool next_item(struct gt_tree *seq, struct gt_walk *w)
{
	while (w->next < 2 * seq->seq.count) {
		struct gt_tree_item *item = &seq->seq.items[w->next / 2];
		bool value = w->next % 2;

		w->index = w->next++ / 2;
		if (value ? take_walk_slot(w, GT_PART_VALUE, &item->value)
		          : take_walk_slot(w, GT_PART_KEY, (struct gt_tree **)&item->key))
			return true;
	}
	return w->next++ == 2 * seq->seq.count &&
	       take_walk_slot(w, GT_PART_ATTRIBUTES, &seq->seq.attributes);
}

static bool next_of_object(struct gt_tree *node, struct gt_walk *w)
{
	struct gt_tree **const slots[] = { &node->opaque.args, &node->opaque.items,
		&node->opaque.state };

	while (w->next < sizeof(slots) / sizeof(*slots)) {
		size_t i = w->next++;

		if (take_walk_slot(w, GT_PART_ARGS + i, slots[i]))
			return true;
	}
	return false;
}

/*
 * Set *w to the next part of a node. The order is that of enum gt_walk_part; the key and the value
 * of one item follow each other. Parts that are NULL are skipped. Return false after the last part;
 * a leaf has no parts. A function that visits a whole tree calls itself for each part:
 *
 *	static void count(const struct gt_tree *node, size_t *nodes)
 *	{
 *		struct gt_walk w = { 0 };
 *
 *		++*nodes;
 *		while (gt_walk_next(node, &w))
 *			count(w.node, nodes);
 *	}
 *
 * The recursion ends, because trees are checked before they are used. A node that occurs twice
 * in the tree is visited twice.
 */
bool gt_walk_next(const struct gt_tree *node, struct gt_walk *w)
{
	struct gt_tree *parent =
	    (struct gt_tree *)node; /* the caller may change the parts if it may change the node */

	if (gt_tree_is_seq(parent))
		return next_item(parent, w);
	if (parent->kind == GT_TREE_OPAQUE)
		return next_of_object(parent, w);
	return parent->kind == GT_TREE_TENSOR && !w->next++ &&
	       take_walk_slot(w, GT_PART_ATTRIBUTES, &parent->tensor.attributes);
}

/* ---- keys as text ---- */

static void put_string(struct gt_buf *out, const char *bytes, size_t length)
{
	gt_buf_puts(out, "'");
	for (size_t i = 0; i < length; i++) {
		char c = bytes[i] ? bytes[i] : '0';

		if (!bytes[i] || c == '\'' || c == '\\')
			gt_buf_puts(out, "\\");
		gt_buf_add(out, &c, 1);
	}
	gt_buf_puts(out, "'");
}

/* A small file can repeat a long part very often, so no part begins behind `end`. */
static void put_key(struct gt_buf *out, const struct gt_tree *node, size_t end);

static void put_parts(struct gt_buf *out, const struct gt_tree *node, size_t end)
{
	struct gt_walk w = { 0 };
	const char *separator = "";

	gt_buf_puts(out, "(");
	while (out->length < end && gt_walk_next(node, &w)) {
		gt_buf_puts(out, separator);
		put_key(out, w.node, end);
		separator = ", ";
	}
	gt_buf_puts(out, out->length < end ? ")" : "...");
}

static void put_key(struct gt_buf *out, const struct gt_tree *node, size_t end)
{
	size_t left = out->length < end ? end - out->length : 0;

	switch (node->kind) {
	case GT_TREE_NONE:
		gt_buf_puts(out, "None");
		break;
	case GT_TREE_BOOL:
		gt_buf_puts(out, node->boolean ? "True" : "False");
		break;
	case GT_TREE_INT:
		gt_buf_printf(out, "%lld", (long long)node->integer);
		break;
	case GT_TREE_FLOAT:
		gt_buf_printf(out, "%.17g", gt_text_real(node->real));
		break;
	case GT_TREE_STRING:
		put_string(out, node->string.bytes,
		    node->string.length < left ? node->string.length : left);
		break;
	case GT_TREE_TENSOR:
		gt_buf_puts(out, "tensor");
		break;
	case GT_TREE_OPAQUE:
		gt_buf_puts(out, node->opaque.class_name);
		if (node->opaque.args)
			put_parts(out, node, end);
		break;
	default:
		put_parts(out, node, end);
	}
}

void gt_tree_put_key(struct gt_buf *out, const struct gt_tree *key)
{
	enum { KEY_BYTES = 4096 };

	put_key(out, key, out->length + KEY_BYTES);
}

void gt_tree_list_key(struct gt_name_list *list, const struct gt_tree *key)
{
	struct gt_buf text = { 0 };

	if (list->count < list->max) /* others are only counted */
		gt_tree_put_key(&text, key);
	gt_name_list_add(list, "%s", gt_buf_text(&text));
	gt_buf_release(&text);
}

void gt_tree_put_step(struct gt_buf *path, const struct gt_tree *key, size_t index)
{
	enum { KEY_SHOWN = 200 };

	if (path->length)
		gt_buf_puts(path, ".");
	if (key && gt_tree_is_text(key))
		gt_buf_printf(path, "%.*s%s", KEY_SHOWN, key->string.bytes,
		    key->string.length > KEY_SHOWN ? "..." : "");
	else if (gt_tree_is(key, GT_TREE_INT))
		gt_buf_printf(path, "%lld", (long long)key->integer);
	else
		gt_buf_printf(path, "%zu", index);
}
