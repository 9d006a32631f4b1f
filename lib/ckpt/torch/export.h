/* export.h - the archives of torch.export.save(): their tensors, and the text of their network. */
#ifndef GT_CKPT_TORCH_EXPORT_H
#define GT_CKPT_TORCH_EXPORT_H

#include "lib/ckpt/ckpt.h"

/* The network in an open checkpoint of format "torch-export", whose root is its state_dict. */
struct gt_exported {
	const char *graph; /* JSON: the graph, and the meaning of its inputs and outputs */
	size_t graph_bytes;
	/* a dict of tensors that are no part of the state_dict: constants in the code of the
	 * network, and buffers that are not persistent */
	const struct gt_tree *constants;
};

/* Return the network in a checkpoint, borrowed; NULL: it has another format. */
const struct gt_exported *gt_ckpt_exported(const struct gt_ckpt *ckpt);

/* Translate a number of ScalarType in torch/_export/serde/schema.py; return false for one that
 * gtrain does not have. */
bool gt_exported_dtype(int number, enum gt_dtype *out);

#endif
