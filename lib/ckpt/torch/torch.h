/* torch.h - private: turn the pickle of a torch file into tensors and their storages. */
#ifndef GT_CKPT_TORCH_TORCH_H
#define GT_CKPT_TORCH_TORCH_H

#include "lib/base/index.h"
#include "lib/ckpt/ckpt.h"
#include "lib/ckpt/pickle/pickle.h"

/*
 * A torch file contains a pickle. In the pickle, a tensor is a call of a function
 * torch._utils._rebuild_*() with a storage as argument. A storage is a persistent id, a reference
 * to data outside of the pickle: ('storage', class, key, location, numel[, view]). The bytes of the
 * storages are elsewhere in the file; the zip format and the legacy format have different places
 * for them.
 *
 * So reading has two steps. First, gt_pickle_read() with the hooks below creates tensors without
 * bytes, and the list of their storages. Then the reader of the zip format or the legacy format
 * finds the bytes of each storage, and gt_torch_objects_finish() checks that every tensor lies
 * inside its storage.
 *
 * Some tensors are not plain: quantized, sparse, nested, on the device 'meta', or of a subclass.
 * They become opaque objects (GT_TREE_OPAQUE), which keep the name of the function that would
 * rebuild the tensor, and its arguments. The arguments may contain tensors. If gtrain does not
 * interpret the elements of a storage (untyped or quantized), it treats them as integers of the
 * same width.
 * Source: torch/_utils.py, torch/_tensor.py, torch/serialization.py, PyTorch 1.13 and 2.4 to 2.9.
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

/*
 * The place in the pickle where a persistent id names the device of its storage. `at` is the offset
 * in the pickle of the opcode that puts the name of the device on the stack.
 */
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
 * Finish the tensors after their storages have got their bytes: set `swapped` in the storages, and
 * check that all elements of every tensor lie inside its storage. `swapped` is true if the byte
 * order of the file is not that of the host. A storage without bytes is an error, unless it is
 * empty.
 */
int gt_torch_objects_finish(struct gt_torch_objects *objects, bool swapped, struct gt_err *err);
void gt_torch_objects_release(struct gt_torch_objects *objects);

/*
 * Return whether a file begins like a pickle of protocol 2 or later, written by torch or by another
 * program. A safetensors file may begin with the same two bytes, which are then part of the length
 * of its header. For a safetensors file the function returns false: the length ends with zero
 * bytes, and a "{" follows the length.
 */
bool gt_torch_begins_pickle(const struct gt_mapping *map);

/* ---- shared by the files that implement this header ---- */

/*
 * Create a tensor node in a storage, which may have no bytes yet. Set *dims to memory for the
 * shape, [ndim], followed by the strides, [ndim]; the caller fills this memory.
 * gt_torch_objects_finish() checks the tensor. NULL with err set on failure.
 */
struct gt_tree *gt_torch_tensor(struct gt_torch_objects *objects, struct gt_storage *storage,
    enum gt_dtype dtype, int ndim, int64_t **dims, struct gt_err *err);

/*
 * Set the device of a storage to `location`. `at` is the offset in the pickle of the opcode that
 * names this device. But do nothing if the persistent id that was read last belongs to another
 * storage. In this case the pickle has mentioned `storage` earlier, and `storage` keeps the device
 * that was read there.
 */
void gt_torch_relocate(
    struct gt_torch_objects *objects, struct gt_storage *storage, const char *location, size_t at);

/* Set *out to a node for the storage that the persistent id `id` names. This is the function
 * `persistent` of the hooks (struct gt_pickle_hooks). */
int gt_torch_persistent(void *self, struct gt_tree *id, struct gt_tree **out, struct gt_err *err);

/* ---- names ---- */

/*
 * Set *dtype to the type that a name such as "torch.float32" means. Return false if gtrain does not
 * know the name.
 */
bool gt_torch_dtype(const char *name, enum gt_dtype *dtype);

/*
 * Return the storage class of a dtype as it is written in pickles, such as "torch\nFloatStorage\n".
 * Return NULL if torch has no such class. Tensors of a dtype without a class are saved as a call of
 * _rebuild_tensor_v3() with an untyped storage (torch/_tensor.py, 2.4).
 */
const char *gt_torch_storage_global(enum gt_dtype dtype);

#endif
