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
	/* [length], zero-terminated; NULL: the step is `number`. If the step is a key that is
	 * neither a string nor an integer, this is the key as text, such as "(1, 2)". */
	const char *name;
	size_t length;
	int64_t number;
};

/*
 * Compare the steps of two paths, for sorting. The texts of both paths (gt_inventory_row.key) are
 * equal. Return 0 if integer keys, other keys, list indices and tuple indices are at the same
 * places of both texts. It does not matter how the text between these places is divided into names:
 * the one name "a.b" equals the two names "a" and "b". But a name with a zero byte does not equal a
 * name with the two characters \0, although their texts are equal.
 */
int gt_path_compare_types(const struct gt_path *a, const struct gt_path *b);

struct gt_inventory_row {
	/* the steps joined by '.', like the names in a state_dict; a zero byte is written as \0 */
	const char *key;
	/*
	 * The last step of the path to the value; gt_path.parent leads to the other steps. NULL:
	 * the value is the root. Names may contain dots, so `key` does not always show where a step
	 * ends; the path does.
	 */
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
	/*
	 * Number of elements of all tensors. A tensor does not count if it fills its storage, and
	 * an earlier tensor has the same storage: it is then a second name of the same elements.
	 */
	uint64_t elements;
	struct gt_arena arena;
};

/*
 * List the tensors and the other values of a tree. The tensors of a pickled nn.Module get the names
 * that its state_dict() would have: the steps through `_modules`, `_parameters` and `_buffers` are
 * left out. For an object of another class, the step to its arguments has the name "args". The
 * other values are the leaves of the tree, with two exceptions. First, a list or tuple of scalars,
 * strings and None is one value. Second, an object is a value, and the values inside it are listed,
 * too.
 *
 * Errors: GT_EFORMAT for more than 262144 tensors or more than 262144 other values; GT_ENOMEM, also
 * if the names need more than 128 MiB.
 */
int gt_inventory_make(struct gt_inventory *out, const struct gt_tree *root, struct gt_err *err);
/*
 * List the tensors of a tree like gt_inventory_make(). The other values are not listed, so their
 * number is not limited.
 */
int gt_inventory_make_tensors(
    struct gt_inventory *out, const struct gt_tree *root, struct gt_err *err);
void gt_inventory_release(struct gt_inventory *inventory);

/* The number of the tensors in a tree, and their size. */
struct gt_tally {
	uint64_t tensors;       /* a tensor that is mentioned several times counts each time */
	uint64_t storage_bytes; /* bytes of all storages; each storage counts once */
};

/*
 * Count the tensors of a tree; there is no limit. As in an inventory, tensors in the arguments,
 * items and state of objects count; tensors in the attributes of a dict, or of another tensor, do
 * not. Errors: GT_ENOMEM.
 */
int gt_tally_make(struct gt_tally *out, const struct gt_tree *root, struct gt_err *err);

/*
 * Get two sizes: *file_bytes is the size of the checkpoint's file, or of its index and all shards
 * together. *dead_bytes is the number of these bytes that are no longer used. A zip contains unused
 * bytes after an edit in place, because the old pickle and directory stay in the file. For other
 * formats, *dead_bytes is 0.
 */
int gt_ckpt_file_usage(
    const struct gt_ckpt *ckpt, uint64_t *file_bytes, uint64_t *dead_bytes, struct gt_err *err);

/* Return whether `seq` is a list or tuple that contains only scalars, strings and None. */
bool gt_inventory_is_plain(const struct gt_tree *seq);

#endif
