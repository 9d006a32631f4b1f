/* inventory.h - list the contents of a checkpoint: tensors, and other values. */
#ifndef GT_CKPT_TOOLS_INVENTORY_H
#define GT_CKPT_TOOLS_INVENTORY_H

#include "lib/ckpt/ckpt.h"

/* One step from the root to a value: a key of a dict, a position in a list, an attribute. */
struct gt_path {
	const struct gt_path *parent; /* NULL: this step starts at the root */
	const char *name;             /* [length], zero-terminated; NULL: a number */
	size_t length;
	int64_t number;
};

struct gt_inventory_row {
	const char *key; /* the steps joined by '.', as a state_dict names nested modules */
	/* the steps themselves, since names may contain dots; NULL: the root */
	const struct gt_path *path;
	const struct gt_tree *value;

	/* Of tensors: */
	size_t storage;  /* number of the tensor's storage, in the order of first use */
	size_t first;    /* the first row with this storage: this one, unless it is shared */
	bool shared;     /* some other row has the same storage */
	bool partial;    /* the storage has bytes that do not belong to this tensor */
	bool contiguous; /* elements lie one after the other */
	bool hidden;     /* a buffer that is not persistent: state_dict() leaves it out */
	uint64_t bytes;  /* of its elements */
};

struct gt_inventory {
	struct gt_inventory_row *tensors, *values; /* in the file's order */
	size_t tensor_count, value_count;
	size_t storage_count;
	uint64_t storage_bytes; /* every storage once */
	uint64_t elements;      /* bytes of all tensors; a shared storage counts once */
	struct gt_arena arena;
};

/*
 * List a tree. A pickled nn.Module's tensors get the names that its state_dict() has: the steps
 * through `_modules`, `_parameters` and `_buffers` are left out. The arguments of other objects are
 * under "args". Values are the leaves; a list of scalars is one value; an object is one value, and
 * its contents are listed too. Errors: GT_EFORMAT for more than 262144 rows; GT_ENOMEM, also for
 * names of more than 128 MiB.
 */
int gt_inventory_make(struct gt_inventory *out, const struct gt_tree *root, struct gt_err *err);
/* The same for tensors only. Other values are not listed, and their number is not limited. */
int gt_inventory_make_tensors(
    struct gt_inventory *out, const struct gt_tree *root, struct gt_err *err);
void gt_inventory_release(struct gt_inventory *inventory);

/* The number and size of the tensors in a tree. */
struct gt_tally {
	uint64_t tensors;       /* each counts as often as it is mentioned */
	uint64_t storage_bytes; /* every storage once */
};

/*
 * Count the tensors of a tree, however many. As in an inventory, tensors in objects' arguments,
 * items and state count; those in attributes of dicts and tensors do not. GT_ENOMEM.
 */
int gt_tally_make(struct gt_tally *out, const struct gt_tree *root, struct gt_err *err);

/* The bytes of the file, or of all shards of an index, and the number of bytes that nothing refers
 * to. A zip has such bytes after an edit in place, which leaves the old description in the file.
 * Other formats have none. */
int gt_ckpt_file_usage(
    const struct gt_ckpt *ckpt, uint64_t *file_bytes, uint64_t *dead_bytes, struct gt_err *err);

/* Whether a list or tuple holds only scalars, strings and None. */
bool gt_inventory_is_plain(const struct gt_tree *seq);

#endif
