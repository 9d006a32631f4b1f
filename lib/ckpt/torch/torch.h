/* torch.h - inside ckpt: the classes, storages and tensors of torch files. */
#ifndef GT_CKPT_TORCH_TORCH_H
#define GT_CKPT_TORCH_TORCH_H

#include "lib/base/index.h"
#include "lib/ckpt/ckpt.h"
#include "lib/ckpt/pickle/pickle.h"

/*
 * A torch file is a pickle whose tensors are calls of torch._utils._rebuild_*() on storages, which
 * are persistent ids: ('storage', class, key, location, numel[, view]). The bytes of the storages
 * are elsewhere in the file; their places differ between the zip and the legacy format. So reading
 * has two steps. Reading the pickle gives tensors without memory, and the list of their storages.
 * Then the reader of the format finds the bytes of each storage, and checks that every tensor lies
 * inside its storage. A tensor that is not plain (quantised, sparse, nested, on 'meta', of a
 * subclass) becomes an opaque object: the function that would rebuild it, with its arguments, which
 * may contain tensors. A storage whose elements we do not interpret becomes a tensor of integers of
 * the same width. Source: torch/_utils.py, torch/_tensor.py, torch/serialization.py, PyTorch 1.13
 * and 2.4 to 2.9.
 */

struct gt_torch_storage {
	/* key, location from the pickle; bytes by the format, NULL until then */
	struct gt_storage base;
	enum gt_dtype dtype; /* type of the class it was saved as; u8 if it is untyped */
	uint64_t bytes;      /* size that the pickle announces */
	struct gt_torch_storage *next;
};

/* Where a persistent id names the device of its storage (see struct gt_pickle_use). */
struct gt_torch_location {
	const struct gt_storage *storage;
	size_t at;
	struct gt_torch_location *next;
};

struct gt_torch_objects {
	struct gt_arena *arena;
	size_t tensor_count;
	struct gt_torch_storage *storages;   /* every key once, in no order */
	struct gt_index by_key;              /* the same */
	struct gt_torch_pending *pending;    /* tensors that wait for memory */
	struct gt_torch_location *locations; /* one for each persistent id, last first */
	struct gt_pickle_hooks hooks;        /* give these to gt_pickle_read() */
};

void gt_torch_objects_init(struct gt_torch_objects *objects, struct gt_arena *arena);

/* The storage of this key, or NULL. */
struct gt_torch_storage *gt_torch_storage_get(
    const struct gt_torch_objects *objects, const char *key);

/* Give every tensor the memory of its storage and check that all elements lie inside. `swapped`:
 * the bytes are of the other endianness. A storage without data is an error unless it is empty. */
int gt_torch_objects_finish(struct gt_torch_objects *objects, bool swapped, struct gt_err *err);
void gt_torch_objects_release(struct gt_torch_objects *objects);

/*
 * Whether a file begins like a pickle of protocol 2 and up, torch's or another one. The length of a
 * safetensors header may begin with the same two bytes: it ends in zeros, and a "{" follows it,
 * which is not the case in a pickle.
 */
bool gt_torch_begins_pickle(const struct gt_mapping *map);

/* ---- between the files that read them ---- */

/* A node for a tensor in a storage that may not have its bytes yet, with memory for its shape,
 * followed by its strides. It is checked by gt_torch_objects_finish(). */
struct gt_tree *gt_torch_tensor(struct gt_torch_objects *objects, struct gt_storage *storage,
    enum gt_dtype dtype, int ndim, int64_t **dims, struct gt_err *err);

/* Correct the device of a storage: it was saved on `location`, which the opcode `at` of the pickle
 * names. */
void gt_torch_relocate(
    struct gt_torch_objects *objects, struct gt_storage *storage, const char *location, size_t at);

/* Resolve a persistent id: see struct gt_pickle_hooks. */
int gt_torch_persistent(void *self, struct gt_tree *id, struct gt_tree **out, struct gt_err *err);

/* ---- names ---- */

/* The dtype that "torch.float32" names; false if gtrain does not know it. */
bool gt_torch_dtype(const char *name, enum gt_dtype *dtype);

/* "torch\nFloatStorage\n", as pickles name the storage class of a dtype; NULL where there is none:
 * such tensors are saved as _rebuild_tensor_v3() of an untyped storage (torch/_tensor.py, 2.4). */
const char *gt_torch_storage_global(enum gt_dtype dtype);

#endif
