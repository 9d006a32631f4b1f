/* inventory.h - list the contents of a checkpoint: tensors, and other values. */
#ifndef GT_CKPT_TOOLS_INVENTORY_H
#define GT_CKPT_TOOLS_INVENTORY_H

#include "lib/ckpt/ckpt.h"

/* The type of a step of a path (struct gt_path). GT_STEP_OTHER_KEY is rare. */
enum gt_step_kind {
	GT_STEP_STRING,    /* a string key of a dict, or the name of an attribute */
	GT_STEP_INTEGER,   /* an integer key of a dict */
	GT_STEP_OTHER_KEY, /* a key of a dict that is neither a string nor an integer */
	GT_STEP_LIST_INDEX,
	GT_STEP_TUPLE_INDEX
};

/*
 * One step on the way from the root to a value: a key of a dict, an index in a list, or the name of
 * an attribute.
 */
struct gt_path {
	const struct gt_path *parent; /* the step before this one; NULL: this is the first step */
	enum gt_step_kind kind;
	/*
	 * * [length], zero-terminated: a text, or another key as text, such as "(1, 2)"; NULL:
	 * the step is `number`
	 */
	const char *name;
	size_t length;
	int64_t number;
};

/* Compare the types of the steps of two paths with equal texts, for sorting. */
int gt_path_compare_types(const struct gt_path *a, const struct gt_path *b);

struct gt_inventory_row {
	/* the steps joined by '.', like the names in a state_dict; a zero byte is written as \0 */
	const char *key;
	/* the last step of the path to the value; NULL: the value is the root */
	const struct gt_path *path;
	const struct gt_tree *value;

	/* The other fields are only for tensors. */
	/* index of the tensor's storage; storages are numbered in the order of first use */
	size_t storage;
	/* index of the first row with this storage; it may be the index of this row */
	size_t first;
	bool shared;     /* another row has the same storage */
	bool partial;    /* the elements have fewer bytes than the storage */
	bool contiguous; /* the elements are contiguous and in row-major order */
	bool hidden; /* the tensor is a non-persistent buffer: state_dict() does not contain it */
	uint64_t bytes; /* size of its elements, in bytes */
};

struct gt_inventory {
	struct gt_inventory_row *tensors, *values; /* in the order of the file */
	size_t tensor_count, value_count;
	size_t storage_count;
	uint64_t storage_bytes; /* bytes of all storages; each storage counts once */
	/* elements of all tensors; a tensor that fills its storage counts once */
	uint64_t elements;
	struct gt_arena arena;
};

/*
 * List the tensors and other values of a tree. GT_EFORMAT: too many. GT_ENOMEM, also for too many
 * bytes of names.
 */
int gt_inventory_make(struct gt_inventory *out, const struct gt_tree *root, struct gt_err *err);
/* List the tensors only; the number of other values has no limit. */
int gt_inventory_make_tensors(
    struct gt_inventory *out, const struct gt_tree *root, struct gt_err *err);
void gt_inventory_release(struct gt_inventory *inventory);

/* The number of the tensors in a tree, and their size. */
struct gt_tally {
	uint64_t tensors;       /* a tensor that is mentioned several times counts each time */
	uint64_t storage_bytes; /* bytes of all storages; each storage counts once */
};

/* Count the tensors of a tree like an inventory, without a limit. */
int gt_tally_make(struct gt_tally *out, const struct gt_tree *root, struct gt_err *err);

/*
 * Get the bytes of the files of a checkpoint, and those that edits in place of a zip left unused.
 */
int gt_ckpt_file_usage(
    const struct gt_ckpt *ckpt, uint64_t *file_bytes, uint64_t *dead_bytes, struct gt_err *err);

/* Return whether `seq` is a list or tuple that contains only scalars, strings and None. */
bool gt_inventory_is_plain(const struct gt_tree *seq);

#endif
