/* diff.h - compare two checkpoints, which may have different formats. */
#ifndef GT_CKPT_TOOLS_DIFF_H
#define GT_CKPT_TOOLS_DIFF_H

#include "lib/base/progress.h"
#include "lib/ckpt/ckpt.h"
#include "lib/ckpt/tools/inventory.h"

/* How a key differs between the checkpoints a and b. */
enum gt_diff_kind {
	GT_DIFF_ONLY_A, /* only a has the key */
	GT_DIFF_ONLY_B, /* only b has the key */
	GT_DIFF_SHAPE,  /* the tensors have different shapes; their elements are not compared */
	/* the tensors have different dtypes; gt_diff_row.differing counts the elements that
	 * differ */
	GT_DIFF_DTYPE,
	GT_DIFF_NUMBERS, /* the tensors have the same dtype and shape, but different elements */
	GT_DIFF_VALUE    /* at least one value is not a tensor, and the values differ */
};

struct gt_diff_row {
	const char *key;
	enum gt_diff_kind kind;
	/*
	 * The values of the key in the two checkpoints. A value is NULL if its checkpoint does not
	 * have the key. If gt_diff_options.state_dict is set, both values are NULL.
	 */
	const struct gt_tree *a, *b;
	const struct gt_tree_tensor *tensor_a, *tensor_b; /* NULL if the value is not a tensor */
	/*
	 * `differing` is the number of elements that differ by more than the tolerance. `count` is
	 * the number of all elements, or 0 if the types of the tensors cannot be compared.
	 */
	uint64_t differing, count;
	/* number of elements that are NaN in only one tensor; `differing` includes them */
	uint64_t one_nan;
	/* maximum of |a - b| over all elements that are not NaN; NaN if the elements are no numbers
	 * for gtrain (tree/raw.h), like max_rel */
	double max_abs;
	/* maximum of |a - b| / max(|a|, |b|) over the elements that differ and are not NaN */
	double max_rel;
};

struct gt_diff {
	struct gt_diff_row *rows; /* sorted by key; keys without a difference have no row */
	size_t count;
	/* Keys that both checkpoints have: `tensors` is the number of keys that are tensors in both
	 * checkpoints, and `values` is the number of all other common keys. */
	size_t tensors, values;
	/*
	 * If gt_diff_options.state_dict is set: for each checkpoint, one line that says where its
	 * state_dict was found (gt_state_dict.note). Otherwise "".
	 */
	const char *note[2];
	/* The number of pairs of keys that are different, but look equal as text: for example the
	 * integer 1 and the string '1'. These keys have rows GT_DIFF_ONLY_A and GT_DIFF_ONLY_B. */
	size_t types;
	/*
	 * The number of tensor names that the two checkpoints would have in common if
	 * gt_diff_options.state_dict were set. 0 if this number is not larger than `tensors`, or if
	 * the option is set. If it is not 0, the caller can advise the user to set the option.
	 */
	size_t agree;
	size_t capacity; /* number of elements allocated for `rows` */
	struct gt_arena arena;
};

struct gt_diff_options {
	double tolerance; /* elements with |a - b| <= tolerance are equal */
	/* compare only the two state_dicts that gt_state_dict_find() finds, by the names of their
	 * tensors */
	bool state_dict;
	size_t threads;               /* 0: one per processor, at most 16 */
	struct gt_progress *progress; /* shows the bytes that are read; may be NULL */
};

/* An open checkpoint and its name in messages. */
struct gt_diff_side {
	const struct gt_ckpt *ckpt;
	const char *path;
};

/*
 * Compare the values of two checkpoints that have the same key: tensors and other values. A key is
 * the path of a value in its checkpoint, such as "model.conv1.weight" (gt_inventory_row.key). Keys
 * are compared with their types: 1, 1.0, True and '1' are different keys. Values that are not
 * tensors are compared as in Python, but with the tolerance for numbers: 1 equals 1.0 and True, but
 * a list does not equal a tuple.
 *
 * Elements are compared as numbers: 0 equals -0, infinity equals infinity, and NaN equals NaN in
 * the same place. Two integer types are compared exactly. But if only one of them is u64, they are
 * compared as doubles, like all other pairs of real types. Complex numbers can be compared only
 * with complex numbers.
 *
 * First, the bytes of each checkpoint are compared with its own checksums. Then the elements of all
 * tensors are compared. Equal CRC-32 values do not replace the comparison of elements, because
 * different tensors may have the same CRC-32.
 *
 * Memory: about 1 MiB per thread.
 * Errors:
 *   GT_EFORMAT   a file is damaged; or options->state_dict is set and there is no state_dict
 *   GT_ENOTSUP   strides repeat the same bytes more than a thousand times, so the tensors have far
 *                more elements than their storages (gt_repeats_end(), tree/tree.h)
 *   GT_ENOMEM
 */
int gt_diff_make(struct gt_diff *out, const struct gt_diff_side *a, const struct gt_diff_side *b,
    const struct gt_diff_options *options, struct gt_err *err);
void gt_diff_release(struct gt_diff *diff);

#endif
