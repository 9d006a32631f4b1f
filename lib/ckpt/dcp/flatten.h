/* flatten.h - private: the values of nested dicts and lists under flat names, as DCP has them. */
#ifndef GT_CKPT_DCP_FLATTEN_H
#define GT_CKPT_DCP_FLATTEN_H

#include "lib/ckpt/dcp/dcp.h"

struct gt_dcp_value {
	const char *name;     /* the keys and indices of `path`, joined by dots */
	struct gt_tree *path; /* a tuple of strings and integers */
	/* a contiguous plain tensor, or any other value */
	struct gt_tree *value;
	bool is_number; /* a number in the state of an optimizer, which is not cast */
	/* place of its archive in the file; set by the writer */
	uint64_t at, bytes;
};

struct gt_dcp_values {
	struct gt_dcp_value *items;
	size_t count, capacity;
	struct gt_arena arena; /* holds names, paths and new nodes */
};

/*
 * Flatten a tree as PyTorch's flatten_state_dict() does; tensors are borrowed. GT_ENOTSUP: the root
 * is no dict, a key is no string or number, or two names are the same. Release `out` in every case.
 */
int gt_dcp_flatten(struct gt_dcp_values *out, const struct gt_tree *root, struct gt_err *err);
void gt_dcp_values_release(struct gt_dcp_values *flat);

#endif
