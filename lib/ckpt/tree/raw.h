/* raw.h - private: types of elements that gtrain carries by their bytes, without computing. */
#ifndef GT_CKPT_TREE_RAW_H
#define GT_CKPT_TREE_RAW_H

#include "lib/ckpt/ckpt.h"

/*
 * A tensor of a type that gtrain does not compute with has a dtype of GT_RAW8 to GT_RAW64 and a
 * raw type. Only formats look at its names. If elements of safetensors do not fill bytes, the last
 * dimension in the tree counts bytes: [4, 32] of F4 is [4, 16].
 */
struct gt_raw_type {
	/* The names in PyTorch, without "torch.", and in safetensors. NULL: it has no such type.
	 * At least one of them is set. */
	const char *torch, *safetensors;
	unsigned bits; /* size of an element in safetensors */
	enum gt_dtype dtype;
};

/* Return the raw type with this name of PyTorch, such as "torch.bits8", or NULL. */
const struct gt_raw_type *gt_raw_of_torch(const char *name);

/* Return the raw type with this name of safetensors, such as "F8_E8M0", or NULL. */
const struct gt_raw_type *gt_raw_of_safetensors(const char *name);

/*
 * Create a type of safetensors that is not in the table, with elements of `bits` bits. `name` is
 * borrowed. Return NULL with err set if memory runs out.
 */
const struct gt_raw_type *gt_raw_new(
    struct gt_arena *a, const char *name, unsigned bits, struct gt_err *err);

/*
 * The last dimension of a tensor in the tree, and in safetensors. gt_raw_pack() returns false if
 * `elements` elements do not fill whole bytes; gt_raw_unpack() if the result overflows.
 */
bool gt_raw_pack(const struct gt_raw_type *type, int64_t elements, int64_t *units);
bool gt_raw_unpack(const struct gt_raw_type *type, int64_t units, int64_t *elements);

/* Return whether the elements of two tensors have the same type. */
bool gt_raw_same_type(const struct gt_tree_tensor *a, const struct gt_tree_tensor *b);

#endif
