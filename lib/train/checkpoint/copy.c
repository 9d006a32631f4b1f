/* copy.c - tensors copied to host memory by several threads. */
#include "lib/train/checkpoint/copy.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/index.h"
#include "lib/base/mem.h"
#include "lib/base/text.h"
#include "lib/base/thread_pool.h"

/* Bytes that a thread copies at a time. */
enum { PIECE = 4 << 20 };

/* A storage, and the place of its copy. */
struct item {
	struct gt_storage *storage;
	size_t bytes, at;
};

struct list {
	struct item *items;
	size_t count, capacity;
	struct gt_index seen; /* tied weights share a storage */
	size_t bytes;         /* all copies together */
	char *memory;
	/* pieces[i] is the first piece of item i, of pieces[count] in all */
	size_t *pieces;
};

void gt_copy_init(struct gt_copy *copy, const struct gt_device *device, int ranks)
{
	*copy = (struct gt_copy){ .device = device, .ranks = ranks };
}

void gt_copy_release(struct gt_copy *copy)
{
	const struct gt_device *d = copy->device;

	if (copy->memory)
		d->backend->host_free(d->index, copy->memory, copy->bytes);
	copy->memory = NULL;
	copy->bytes = 0;
}

int gt_copy_reserve(struct gt_copy *copy, uint64_t bytes, struct gt_err *err)
{
	const struct gt_device *d = copy->device;
	char text[GT_TEXT_SIZE];

	if (bytes <= copy->bytes)
		return 0;
	gt_copy_release(copy);
	if (d->backend->host_alloc(d->index, (size_t)bytes, &copy->memory, err)) {
		copy->memory = NULL;
		gt_err_prefix(err, "the copy of %s for {save-async}", gt_text_bytes(text, bytes));
		return gt_err_hint(err, "without {save-async} no copy is needed");
	}
	copy->bytes = bytes;
	memset(copy->memory, 0, bytes); /* its pages are there from now on */
	return 0;
}

/* ---- the tensors ---- */

/* Numbers are in the tree's own memory. */
static int add_tensor(struct list *l, const struct gt_tree_tensor *t, struct gt_err *err)
{
	struct item item = { t->storage, t->storage->size_bytes, l->bytes };
	const void *found;
	int rc;

	if (!t->storage->self || gt_index_find(&l->seen, t->storage))
		return 0;
	found = gt_index_add(&l->seen, t->storage, err);
	rc = found ? gt_grow(&l->items, l->count, &l->capacity, sizeof(item), err) : GT_ENOMEM;
	if (rc)
		return rc;
	l->items[l->count++] = item;
	l->bytes += (item.bytes + GT_COPY_ALIGN - 1) / GT_COPY_ALIGN * GT_COPY_ALIGN;
	return 0;
}

/* A snapshot's tree is a few levels deep. */
static int add_tree(struct list *l, const struct gt_tree *node, struct gt_err *err)
{
	int rc = 0;

	if (node->kind == GT_TREE_TENSOR)
		return add_tensor(l, &node->tensor, err);
	if (node->kind != GT_TREE_DICT && node->kind != GT_TREE_LIST && node->kind != GT_TREE_TUPLE)
		return 0;
	for (size_t i = 0; !rc && i < node->seq.count; i++)
		rc = add_tree(l, node->seq.items[i].value, err);
	return rc;
}

static void release_list(struct list *l)
{
	gt_index_release(&l->seen);
	free(l->items);
	free(l->pieces);
}

/* ---- copying ---- */

static int count_pieces(struct list *l, struct gt_err *err)
{
	l->pieces = gt_calloc(l->count + 1, sizeof(*l->pieces), err);
	for (size_t i = 0; l->pieces && i < l->count; i++)
		l->pieces[i + 1] = l->pieces[i] + (l->items[i].bytes + PIECE - 1) / PIECE;
	return l->pieces ? 0 : GT_ENOMEM;
}

static const struct item *find_item(const struct list *l, size_t piece)
{
	size_t low = 0, high = l->count;

	while (high - low > 1) {
		size_t middle = (low + high) / 2;

		if (l->pieces[middle] <= piece)
			low = middle;
		else
			high = middle;
	}
	return &l->items[low];
}

static int copy_piece(void *self, size_t piece, struct gt_err *err)
{
	const struct list *l = self;
	const struct item *item = find_item(l, piece);
	const struct gt_storage *s = item->storage;
	size_t from = (piece - l->pieces[item - l->items]) * PIECE, left = item->bytes - from;
	size_t bytes = left < PIECE ? left : PIECE;
	char *to = l->memory + item->at + from;

	if (s->read)
		return s->read(s->self, from, to, bytes, err);
	memcpy(to, (const char *)s->bytes + from, bytes);
	return 0;
}

static int copy_list(struct gt_copy *copy, struct list *l, struct gt_err *err)
{
	int rc = gt_copy_reserve(copy, l->bytes, err);

	l->memory = copy->memory;
	if (!rc)
		rc = count_pieces(l, err);
	if (!rc)
		rc = gt_thread_pool_run(
		    copy->ranks > 1 ? 1 : 0, l->pieces[l->count], copy_piece, l, err);
	for (size_t i = 0; !rc && i < l->count; i++) {
		struct gt_storage *s = l->items[i].storage;

		s->bytes = l->memory + l->items[i].at;
		s->read = NULL;
		s->self = NULL;
	}
	return rc;
}

int gt_copy_tree(struct gt_copy *copy, struct gt_tree *tree, struct gt_err *err)
{
	struct list l = { 0 };
	int rc = add_tree(&l, tree, err);

	if (!rc)
		rc = copy_list(copy, &l, err);
	release_list(&l);
	return rc;
}

int gt_copy_parts(struct gt_copy *copy, const struct gt_dcp_set *set, struct gt_err *err)
{
	struct list l = { 0 };
	int rc = 0;

	for (size_t i = 0; !rc && i < gt_dcp_set_part_count(set); i++)
		rc = add_tree(&l, gt_dcp_set_part(set, i), err);
	if (!rc)
		rc = copy_list(copy, &l, err);
	release_list(&l);
	return rc;
}
