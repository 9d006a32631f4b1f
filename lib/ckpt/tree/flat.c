/* flat.c - a dict of tensors as a list, with the ties among them. */
#include "lib/ckpt/tree/flat.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/text.h"
#include "lib/ckpt/tree/tree.h"

static const char *const kinds[] = {
	[GT_TREE_NONE] = "None",
	[GT_TREE_BOOL] = "a bool",
	[GT_TREE_INT] = "an integer",
	[GT_TREE_FLOAT] = "a float",
	[GT_TREE_STRING] = "a string",
	[GT_TREE_LIST] = "a list",
	[GT_TREE_TUPLE] = "a tuple",
	[GT_TREE_DICT] = "a dict",
	[GT_TREE_TENSOR] = "a tensor",
	[GT_TREE_OPAQUE] = "an object",
};

static int fail_on_value_kind(
    struct gt_err *err, const char *key, const struct gt_tree *value, const char *format)
{
	if (value->kind == GT_TREE_OPAQUE)
		gt_err_set(err, GT_ENOTSUP,
		    "'%.120s' is an object of class '%.80s': %s holds tensors only", key,
		    value->opaque.class_name, format);
	else
		gt_err_set(err, GT_ENOTSUP, "'%.200s' is %s: %s holds tensors only", key,
		    kinds[value->kind], format);
	if (value->kind == GT_TREE_OPAQUE && value->opaque.made == GT_TREE_UNREAD)
		return gt_err_hint(err, "'gtrain ckpt convert' leaves it out");
	return gt_err_hint(err, "write the state_dict alone, or a .pth");
}

bool gt_flat_is_text(const struct gt_tree *node)
{
	return node->kind == GT_TREE_STRING && strlen(node->string.bytes) == node->string.length &&
	       gt_text_is_utf8(node->string.bytes);
}

static int check_key(const struct gt_tree *key, const char *format, struct gt_err *err)
{
	if (key->kind != GT_TREE_STRING)
		return gt_err_set(
		    err, GT_ENOTSUP, "a key is %s: %s has strings", kinds[key->kind], format);
	if (!gt_flat_is_text(key))
		return gt_err_set(err, GT_ENOTSUP,
		    "the name '%.200s' holds a zero or is not UTF-8: %s has no room for it",
		    key->string.bytes, format);
	return 0;
}

static int add_flat_tensor(struct gt_flat *flat, const struct gt_tree_item *item,
    const char *format, const struct gt_ckpt_write_options *options, struct gt_err *err)
{
	struct gt_flat_tensor *f = &flat->tensors[flat->count];
	int rc = check_key(item->key, format, err);

	if (rc)
		return rc;
	if (item->value->kind != GT_TREE_TENSOR)
		return fail_on_value_kind(err, item->key->string.bytes, item->value, format);
	f->name = item->key->string.bytes;
	f->tensor = &item->value->tensor;
	rc = gt_ckpt_tensor_check(f->tensor, err);
	if (rc)
		return gt_err_prefix(err, "tensor '%.200s'", f->name);
	f->as = options->cast && gt_dtype_is_float(f->tensor->dtype) ? options->dtype
	                                                             : f->tensor->dtype;
	f->size_bytes = (uint64_t)gt_ckpt_tensor_count(f->tensor) * gt_dtype_size(f->as);
	flat->count++;
	return 0;
}

/* ---- ties ---- */

static uintptr_t address(const struct gt_tree_tensor *t)
{
	return (uintptr_t)gt_storage_address(t->storage) +
	       (uintptr_t)t->offset * gt_dtype_size(t->dtype);
}

int gt_flat_compare(const struct gt_tree_tensor *x, const struct gt_tree_tensor *y)
{
	size_t dims = (size_t)x->ndim * sizeof(*x->shape);
	int shapes;

	if (address(x) != address(y))
		return address(x) < address(y) ? -1 : 1;
	if (x->dtype != y->dtype)
		return x->dtype < y->dtype ? -1 : 1;
	if (x->raw != y->raw)
		return strcmp(gt_ckpt_tensor_type(x), gt_ckpt_tensor_type(y)) < 0 ? -1 : 1;
	if (x->ndim != y->ndim)
		return x->ndim < y->ndim ? -1 : 1;
	shapes = dims ? memcmp(x->shape, y->shape, dims) : 0;
	if (shapes || !dims)
		return shapes;
	return memcmp(x->stride, y->stride, dims);
}

static int compare_ties(const void *a, const void *b)
{
	const struct gt_flat_tensor *x = *(const struct gt_flat_tensor *const *)a;
	const struct gt_flat_tensor *y = *(const struct gt_flat_tensor *const *)b;
	int order = gt_flat_compare(x->tensor, y->tensor);

	return order ? order : strcmp(x->name, y->name);
}

/* Empty tensors share nothing, even if their pointers are equal. */
static int find_ties(struct gt_flat *flat, struct gt_err *err)
{
	struct gt_flat_tensor **sorted = gt_calloc(flat->count, sizeof(*sorted), err);
	size_t n = 0;

	if (!sorted)
		return GT_ENOMEM;
	for (size_t i = 0; i < flat->count; i++)
		if (flat->tensors[i].size_bytes)
			sorted[n++] = &flat->tensors[i];
	qsort(sorted, n, sizeof(*sorted), compare_ties);
	for (size_t i = 1; i < n; i++)
		if (!gt_flat_compare(sorted[i - 1]->tensor, sorted[i]->tensor))
			sorted[i]->kept = sorted[i - 1]->kept ? sorted[i - 1]->kept : sorted[i - 1];
	free(sorted);
	return 0;
}

/*
 * List the tensors of the dict `root`. Tensors and names are borrowed. `format` is the name of the
 * format, for messages.
 * Errors: GT_ENOTSUP if `root` is not a dict, has more than GT_FLAT_MAX items, or contains a value
 * that is not a tensor. The message names the format, and the key of such a value. A checkpoint
 * with an optimizer has such values; the hint says to write only the state_dict of the model.
 */
int gt_flat_list(struct gt_flat *out, const struct gt_tree *root, const char *format,
    const struct gt_ckpt_write_options *options, struct gt_err *err)
{
	struct gt_repeats repeats = { 0 };
	int rc = 0;

	*out = (struct gt_flat){ 0 };
	if (root->kind != GT_TREE_DICT)
		return gt_err_set(err, GT_ENOTSUP, "%s holds a dict of tensors: this is %s", format,
		    kinds[root->kind]);
	if (root->seq.count > GT_FLAT_MAX) {
		gt_err_set(err, GT_ENOTSUP, "%zu tensors: %s is written with at most %d",
		    root->seq.count, format, GT_FLAT_MAX);
		return gt_err_hint(err, "'gtrain ckpt select' takes parts of a checkpoint");
	}
	out->tensors = gt_calloc(root->seq.count, sizeof(*out->tensors), err);
	if (!out->tensors)
		return GT_ENOMEM;
	for (size_t i = 0; i < root->seq.count && !rc; i++)
		rc = add_flat_tensor(out, &root->seq.items[i], format, options, err);
	if (!rc)
		rc = find_ties(out, err);
	/* The limit holds for all files together if the output consists of shards. */
	for (size_t i = 0; i < out->count && !rc; i++)
		if (!out->tensors[i].kept)
			rc = gt_repeats_add(&repeats, out->tensors[i].tensor->storage,
			    out->tensors[i].size_bytes, err);
	rc = gt_repeats_end(&repeats, rc, err);
	if (rc)
		gt_flat_release(out);
	return rc;
}

void gt_flat_release(struct gt_flat *flat)
{
	free(flat->tensors);
	*flat = (struct gt_flat){ 0 };
}
