/* storage.c - the storages a torch pickle asks for: their classes, keys and devices. */
#include <stdio.h>
#include <string.h>

#include "lib/ckpt/torch/torch.h"
#include "lib/ckpt/tree/tree.h"

enum { MAX_WORD = 4096 }; /* bytes of a storage's key, or of the name of its device */

/* ---- classes ---- */

static const struct {
	const char *global; /* the storage class; NULL: torch stores it untyped */
	const char *dtype;  /* NULL: the types in tree/raw.h */
} names[GT_DTYPE_COUNT] = {
	[GT_F32] = { "torch\nFloatStorage\n", "torch.float32" },
	[GT_F64] = { "torch\nDoubleStorage\n", "torch.float64" },
	[GT_F16] = { "torch\nHalfStorage\n", "torch.float16" },
	[GT_BF16] = { "torch\nBFloat16Storage\n", "torch.bfloat16" },
	[GT_I64] = { "torch\nLongStorage\n", "torch.int64" },
	[GT_I32] = { "torch\nIntStorage\n", "torch.int32" },
	[GT_I16] = { "torch\nShortStorage\n", "torch.int16" },
	[GT_I8] = { "torch\nCharStorage\n", "torch.int8" },
	[GT_U8] = { "torch\nByteStorage\n", "torch.uint8" },
	[GT_BOOL] = { "torch\nBoolStorage\n", "torch.bool" },
	[GT_C64] = { "torch\nComplexFloatStorage\n", "torch.complex64" },
	[GT_C128] = { "torch\nComplexDoubleStorage\n", "torch.complex128" },
	[GT_U16] = { NULL, "torch.uint16" },
	[GT_U32] = { NULL, "torch.uint32" },
	[GT_U64] = { NULL, "torch.uint64" },
	[GT_F8_E4M3] = { NULL, "torch.float8_e4m3fn" },
	[GT_F8_E5M2] = { NULL, "torch.float8_e5m2" },
};

const char *gt_torch_storage_global(enum gt_dtype dtype)
{
	return names[dtype].global;
}

bool gt_torch_dtype(const char *name, enum gt_dtype *dtype)
{
	for (int i = 0; i < GT_DTYPE_COUNT; i++) {
		if (!names[i].dtype || strcmp(names[i].dtype, name))
			continue;
		*dtype = (enum gt_dtype)i;
		return true;
	}
	return false;
}

/* Classes whose elements we do not interpret, with the integer type of the same width. */
static const struct {
	const char *class_name;
	enum gt_dtype dtype;
} stand_ins[] = {
	{ "UntypedStorage", GT_U8 },
	{ "_UntypedStorage", GT_U8 },
	{ "QInt8Storage", GT_I8 },
	{ "QUInt8Storage", GT_U8 },
	{ "QInt32Storage", GT_I32 },
	{ "QUInt4x2Storage", GT_U8 }, /* two numbers to the byte */
	{ "QUInt2x4Storage", GT_U8 },
};

/* The dtype "torch.FloatStorage" stands for; false when it is none we know.
 * "torch.cuda.FloatStorage" is a FloatStorage that was on a GPU (before 0.4). */
static bool storage_dtype(const char *class_name, enum gt_dtype *dtype)
{
	const char *name = strrchr(class_name, '.');
	size_t length;

	if (strncmp(class_name, "torch.", 6) || !name)
		return false;
	length = strlen(++name);
	for (size_t i = 0; i < sizeof(stand_ins) / sizeof(*stand_ins); i++) {
		if (strcmp(stand_ins[i].class_name, name))
			continue;
		*dtype = stand_ins[i].dtype;
		return true;
	}
	for (int i = 0; i < GT_DTYPE_COUNT; i++) {
		const char *known = names[i].global ? names[i].global + strlen("torch\n") : "";

		if (strlen(known) != length + 1 || strncmp(known, name, length))
			continue;
		*dtype = (enum gt_dtype)i;
		return true;
	}
	return false;
}

/* ---- storages ---- */

static int compare_storages(const void *a, const void *b)
{
	const struct gt_torch_storage *x = a, *y = b;

	return strcmp(x->base.key, y->base.key);
}

struct gt_torch_storage *gt_torch_storage_get(
    const struct gt_torch_objects *objects, const char *key)
{
	struct gt_torch_storage wanted = { .base.key = key };

	return gt_index_find(&objects->by_key, &wanted);
}

static int add_storage(struct gt_torch_objects *o, const struct gt_torch_storage *like,
    struct gt_torch_storage **out, struct gt_err *err)
{
	struct gt_torch_storage *s = gt_arena_alloc(o->arena, sizeof(*s), err);

	if (!s)
		return GT_ENOMEM;
	*s = *like;
	o->by_key.compare = compare_storages;
	if (!gt_index_add(&o->by_key, s, err))
		return GT_ENOMEM;
	s->next = o->storages;
	o->storages = s;
	*out = s;
	return 0;
}

/* A storage that is mentioned again keeps its type; the larger size counts, and is checked
 * later. */
static int find_storage(struct gt_torch_objects *o, const struct gt_torch_storage *like,
    struct gt_torch_storage **out, struct gt_err *err)
{
	struct gt_torch_storage *s = gt_torch_storage_get(o, like->base.key);

	if (!s)
		return add_storage(o, like, out, err);
	if (!s->bytes)
		s->dtype = like->dtype; /* torch lets empty ones be of several */
	if (like->bytes && gt_dtype_size(s->dtype) != gt_dtype_size(like->dtype))
		return gt_err_set(err, GT_EFORMAT, "storage '%.80s' is %s and %s", s->base.key,
		    gt_dtype_name(s->dtype), gt_dtype_name(like->dtype));
	if (s->bytes < like->bytes)
		s->bytes = like->bytes;
	*out = s;
	return 0;
}

/* The view of legacy files: (key, first element, elements) of the storage, or None. */
static int apply_view(
    const struct gt_tree *view, struct gt_tree_tensor *t, int64_t *numel, struct gt_err *err)
{
	if (!view || view->kind == GT_TREE_NONE)
		return 0;
	if (!gt_tree_is_seq(view) || !gt_tree_is_count(gt_tree_value(view, 1)) ||
	    !gt_tree_is_count(gt_tree_value(view, 2)))
		return gt_err_set(err, GT_EFORMAT, "a storage's view is not (key, offset, size)");
	t->offset = gt_tree_value(view, 1)->integer;
	*numel = gt_tree_value(view, 2)->integer;
	return 0;
}

static int note_location(
    struct gt_torch_objects *o, const struct gt_storage *storage, size_t at, struct gt_err *err)
{
	struct gt_torch_location *l = gt_arena_alloc(o->arena, sizeof(*l), err);

	if (!l)
		return GT_ENOMEM;
	*l = (struct gt_torch_location){ storage, at, o->locations };
	o->locations = l;
	return 0;
}

/*
 * Set the device of a storage to `location`. `at` is the offset in the pickle of the opcode that
 * names this device. But do nothing if the persistent id that was read last belongs to another
 * storage. In this case the pickle has mentioned `storage` earlier, and `storage` keeps the device
 * that was read there.
 */
void gt_torch_relocate(
    struct gt_torch_objects *o, struct gt_storage *storage, const char *location, size_t at)
{
	struct gt_torch_location *last = o->locations;

	if (!last || last->storage != storage)
		return; /* mentioned before: it has the place it was first seen at */
	last->at = at;
	storage->location = location;
}

/* A storage without bytes in the file, or of a class we do not know the elements of, is named and
 * left alone. */
static int opaque_storage(
    struct gt_torch_objects *o, const struct gt_tree *id, struct gt_tree **out, struct gt_err *err)
{
	struct gt_storage *s;

	*out = gt_tree_new(o->arena, GT_TREE_OPAQUE, err);
	if (!*out)
		return GT_ENOMEM;
	(*out)->opaque.class_name = gt_tree_value(id, 1)->opaque.class_name;
	(*out)->opaque.args = (struct gt_tree *)id;
	(*out)->opaque.made = GT_TREE_STORAGE;
	if (gt_tree_is_string(gt_tree_value(id, 3), "meta"))
		return 0;
	s = gt_arena_alloc(o->arena, sizeof(*s), err); /* for its device, which can be changed */
	if (!s)
		return GT_ENOMEM;
	s->key = s->name = gt_tree_value(id, 2)->string.bytes;
	s->location = gt_tree_value(id, 3)->string.bytes;
	return note_location(o, s, id->seq.items[3].value_at, err);
}

/* A storage by itself is a tensor of one dimension; the rebuild functions look through it. */
static int storage_tensor(
    struct gt_torch_objects *o, struct gt_tree *id, struct gt_tree **out, struct gt_err *err)
{
	struct gt_torch_storage like = { 0 }, *s = NULL;
	int64_t *dims, numel;
	int rc;

	if (!gt_tree_is_class(gt_tree_value(id, 1)) || !gt_tree_is_text(gt_tree_value(id, 2)) ||
	    !gt_tree_is_text(gt_tree_value(id, 3)) || !gt_tree_is_count(gt_tree_value(id, 4)))
		return gt_err_set(
		    err, GT_EFORMAT, "a storage is not (class, key, location, count)");
	if (gt_tree_value(id, 2)->string.length > MAX_WORD ||
	    gt_tree_value(id, 3)->string.length > MAX_WORD)
		return gt_err_set(err, GT_EFORMAT,
		    "storage '%.80s': its key or its device is longer than %d bytes",
		    gt_tree_value(id, 2)->string.bytes, MAX_WORD);
	if (gt_tree_is_string(gt_tree_value(id, 3), "meta") ||
	    !storage_dtype(gt_tree_value(id, 1)->opaque.class_name, &like.dtype))
		return opaque_storage(o, id, out, err);
	like.base.key = like.base.name = gt_tree_value(id, 2)->string.bytes;
	like.base.location = gt_tree_value(id, 3)->string.bytes;
	numel = gt_tree_value(id, 4)->integer;
	if (__builtin_mul_overflow(
	        (uint64_t)numel, (uint64_t)gt_dtype_size(like.dtype), &like.bytes))
		return gt_err_set(err, GT_EFORMAT, "a storage's size overflows");
	rc = find_storage(o, &like, &s, err);
	if (!rc)
		rc = note_location(o, &s->base, id->seq.items[3].value_at, err);
	if (rc)
		return rc;
	*out = gt_torch_tensor(o, &s->base, like.dtype, 1, &dims, err);
	if (!*out)
		return GT_ENOMEM;
	(*out)->tensor.storage_class = gt_tree_value(id, 1)->opaque.class_name;
	rc = apply_view(gt_tree_value(id, 5), &(*out)->tensor, &numel, err);
	dims[0] = numel;
	dims[1] = 1;
	return rc;
}

int gt_torch_persistent(void *self, struct gt_tree *id, struct gt_tree **out, struct gt_err *err)
{
	if (id->kind != GT_TREE_TUPLE) /* torch.load() asserts a tuple */
		return 0;
	if (gt_tree_is_string(gt_tree_value(id, 0), "storage"))
		return storage_tensor(self, id, out, err);
	/* ('module', class, file, source): a class of a model that was pickled whole */
	if (gt_tree_is_string(gt_tree_value(id, 0), "module") &&
	    gt_tree_is_class(gt_tree_value(id, 1)))
		*out = gt_tree_value(id, 1);
	return 0;
}
