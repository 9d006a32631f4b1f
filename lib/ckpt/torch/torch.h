/* torch.h - private: turn the pickle of a torch file into tensors and their storages. */
#ifndef GT_CKPT_TORCH_TORCH_H
#define GT_CKPT_TORCH_TORCH_H

#include "lib/base/index.h"
#include "lib/ckpt/ckpt.h"
#include "lib/ckpt/pickle/pickle.h"

/*
 * gt_pickle_read() with these hooks creates tensors without bytes, and lists their storages. The
 * reader of a format then finds the bytes, and calls gt_torch_objects_finish(). More is in
 * torch/objects.c.
 */

/* A storage that the pickle mentions. */
struct gt_torch_storage {
	/*
	 * base.key and base.location come from the pickle. base.bytes is NULL until the reader of
	 * the format has found the bytes.
	 */
	struct gt_storage base;
	/* type of the elements, according to the class of the storage; u8 if it is untyped */
	enum gt_dtype dtype;
	uint64_t bytes; /* size according to the pickle, in bytes */
	struct gt_torch_storage *next;
};

/* The opcode at `at` puts the device of a storage on the stack, for a persistent id. */
struct gt_torch_location {
	const struct gt_storage *storage;
	size_t at;
	struct gt_torch_location *next;
};

/* The objects of one pickle, while it is read. */
struct gt_torch_objects {
	struct gt_arena *arena;
	size_t tensor_count;
	/* linked list of storages, one for each key, in no particular order */
	struct gt_torch_storage *storages;
	struct gt_index by_key; /* index of `storages` by key */
	/* linked list of the tensors that gt_torch_objects_finish() will check */
	struct gt_torch_pending *pending;
	/* linked list with one entry for each persistent id, the last id of the pickle first */
	struct gt_torch_location *locations;
	struct gt_pickle_hooks hooks; /* the caller passes these to gt_pickle_read() */
};

void gt_torch_objects_init(struct gt_torch_objects *objects, struct gt_arena *arena);

/* Return the storage with this key, or NULL. */
struct gt_torch_storage *gt_torch_storage_get(
    const struct gt_torch_objects *objects, const char *key);

/*
 * Set `swapped` in the storages, whose bytes are known now, and check that all tensors lie inside
 * them. A storage without bytes is an error, unless it is empty.
 */
int gt_torch_objects_finish(struct gt_torch_objects *objects, bool swapped, struct gt_err *err);
void gt_torch_objects_release(struct gt_torch_objects *objects);

/* Return whether a file begins like a pickle of protocol 2 or later, and not like safetensors. */
bool gt_torch_begins_pickle(const struct gt_mapping *map);

/* ---- shared by the files that implement this header ---- */

/*
 * Create a tensor node in a storage. The caller fills *dims: [ndim] shape, [ndim] strides. NULL
 * with err set.
 */
struct gt_tree *gt_torch_tensor(struct gt_torch_objects *objects, struct gt_storage *storage,
    enum gt_dtype dtype, int ndim, int64_t **dims, struct gt_err *err);

/*
 * Set the device of a storage, named by the opcode at `at`, unless the pickle mentioned the
 * storage before.
 */
void gt_torch_relocate(
    struct gt_torch_objects *objects, struct gt_storage *storage, const char *location, size_t at);

/* Set *out to the storage that a persistent id names: the function `persistent` of the hooks. */
int gt_torch_persistent(void *self, struct gt_tree *id, struct gt_tree **out, struct gt_err *err);

/* ---- names ---- */

/* Set *dtype to the type of a name such as "torch.float32". Return false for an unknown name. */
bool gt_torch_dtype(const char *name, enum gt_dtype *dtype);

/*
 * Return the storage class of a dtype, such as "torch\nFloatStorage\n"; NULL if torch has none:
 * the storage is then untyped.
 */
const char *gt_torch_storage_global(enum gt_dtype dtype);

#endif
