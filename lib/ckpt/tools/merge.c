/* merge.c - the union of several state_dicts. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/index.h"
#include "lib/ckpt/tools/merge_mean.h"
#include "lib/ckpt/tree/tree.h"

/* ---- equality ---- */

static bool same_layout(const struct gt_tree_tensor *a, const struct gt_tree_tensor *b)
{
	return a->dtype == b->dtype && a->ndim == b->ndim &&
	       (!a->ndim || !memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof(*a->shape)));
}

int gt_merge_take(
    const struct gt_tree_tensor *t, int64_t first, size_t n, void *out, struct gt_err *err)
{
	int rc = gt_ckpt_tensor_read_range(t, first, n, t->dtype, out, err);

	gt_ckpt_tensor_forget(t, (uint64_t)first, n);
	return rc;
}

/* Whether every byte is the same. */
static int compare(
    const struct gt_tree_tensor *a, const struct gt_tree_tensor *b, bool *same, struct gt_err *err)
{
	enum { PIECE = 1 << 20 };
	size_t size = gt_dtype_size(a->dtype), most = PIECE / size;
	size_t count = (size_t)gt_ckpt_tensor_count(a);
	unsigned char *x = gt_calloc(2, PIECE, err), *y = x ? x + PIECE : NULL;
	int rc = x ? gt_storage_check(a->storage, err) : GT_ENOMEM;

	*same = true;
	if (!rc)
		rc = gt_storage_check(b->storage, err);
	for (size_t at = 0, n; !rc && *same && at < count; at += n) {
		n = count - at < most ? count - at : most;
		rc = gt_merge_take(a, (int64_t)at, n, x, err);
		if (!rc)
			rc = gt_merge_take(b, (int64_t)at, n, y, err);
		*same = rc || !memcmp(x, y, n * size);
	}
	free(x);
	return rc;
}

/* ---- the union ---- */

struct name {
	const char *text;
	const struct gt_tree_tensor *tensor;
};

struct merge {
	struct gt_tree *root;
	struct gt_arena *arena;
	struct gt_index names;
	size_t twice;
	struct gt_name_list differ; /* names with different content */
};

static int meet_again(
    struct merge *m, const struct name *old, const struct gt_tree_tensor *t, struct gt_err *err)
{
	bool same = same_layout(old->tensor, t);
	int rc = same ? compare(old->tensor, t, &same, err) : 0;

	m->twice++;
	if (rc || same)
		return rc;
	gt_name_list_add(&m->differ, "'%.50s'", old->text);
	return 0;
}

static int add(struct merge *m, const struct gt_tree_item *item, struct gt_err *err)
{
	struct name *name = gt_arena_alloc(m->arena, sizeof(*name), err), *first;

	if (!name)
		return GT_ENOMEM;
	*name = (struct name){ item->key->string.bytes, &item->value->tensor };
	first = gt_index_add(&m->names, name, err);
	if (!first)
		return GT_ENOMEM;
	if (first != name)
		return meet_again(m, first, &item->value->tensor, err);
	return gt_tree_push(m->root, item->key, item->value, m->arena, err);
}

int gt_merge_part(struct gt_tree **out, const struct gt_merge_input *input, struct gt_arena *arena,
    struct gt_buf *note, struct gt_err *err)
{
	struct gt_state_dict sd;
	int rc = gt_state_dict_find_as_is(&sd, input->root, err);

	if (rc)
		return gt_err_prefix(err, "'%.120s'", input->path);
	*out = gt_convert_state_dict(&sd, arena, err);
	gt_convert_say_left(note, input->path, input->root, &sd);
	gt_state_dict_release(&sd);
	return *out ? 0 : GT_ENOMEM;
}

static int fail_names(struct gt_name_list *names, struct gt_err *err)
{
	size_t n = names->count;

	gt_err_set(err, GT_EFORMAT, "%zu name%s with different content: %s", n, n == 1 ? "" : "s",
	    gt_name_list_text(names));
	return gt_err_hint(
	    err, "{average} takes the mean; ckpt rename or select make names differ");
}

int gt_merge_union(struct gt_tree **out, const struct gt_merge_input *inputs, size_t count,
    struct gt_arena *arena, struct gt_buf *note, struct gt_err *err)
{
	struct merge m = { .arena = arena,
		.root = gt_tree_dict(arena, err),
		.names.compare = gt_index_by_name,
		.differ.most = 4 };
	int rc = m.root ? 0 : GT_ENOMEM;

	for (size_t i = 0; !rc && i < count; i++) {
		struct gt_tree *part = NULL;

		rc = gt_merge_part(&part, &inputs[i], arena, note, err);
		if (!rc && !i)
			m.root->seq.ordered = part->seq.ordered;
		for (size_t k = 0; !rc && k < part->seq.count; k++)
			rc = add(&m, &part->seq.items[k], err);
	}
	gt_index_release(&m.names);
	if (!rc && m.differ.count)
		rc = fail_names(&m.differ, err);
	gt_name_list_release(&m.differ);
	if (rc)
		return rc;
	*out = m.root;
	gt_buf_printf(note, "%zu tensor%s; %zu were in several files, the same in each\n",
	    m.root->seq.count, m.root->seq.count == 1 ? "" : "s", m.twice);
	return 0;
}
