/* adapter_extract.h - make an adapter of the difference between two models. */
#ifndef GT_TRAIN_CHECKPOINT_ADAPTER_EXTRACT_H
#define GT_TRAIN_CHECKPOINT_ADAPTER_EXTRACT_H

#include "lib/base/buf.h"
#include "lib/train/checkpoint/adapter_write.h"

/* A checkpoint that is open; `path` is for messages. */
struct gt_adapter_source {
	const struct gt_tree *root;
	const char *path;
};

struct gt_adapter_extract {
	struct gt_adapter_source tuned, base;
	int64_t rank; /* from 1 to GT_LORA_MAX_RANK */
	/* Patterns of gt_lora_matches() for the layers. NULL: all matrices but those of embeddings,
	 * by their names: "embed" in the last word, or wte, wpe, shared. */
	const char *targets;
	bool force; /* also if most of the difference is left out */
};

/* A layer of an adapter, with squares of Frobenius norms. */
struct gt_extracted_layer {
	const char *module;
	double norm, kept; /* of the difference, and of the product of B and A */
};

/* What was extracted. The memory is in an arena of its own. */
struct gt_extracted {
	struct gt_lora lora; /* alpha is the rank, so that the scale is 1 */
	struct gt_adapter_contents contents;
	struct gt_extracted_layer *layers; /* [count] */
	size_t count;
	/* Tensors that differ, but cannot be in an adapter: biases, norms, embeddings, tied ones,
	 * those that the targets leave out; the first few of their names. */
	size_t left_out;
	struct gt_name_list names;
	double norm_left_out; /* of their differences, squared, without integers */
	struct gt_arena arena;
};

/*
 * Find for each layer the B A, of the rank, that is closest to the difference of both weights
 * (gt_low_rank()). Layers that do not differ get no adapter. Release *out even after an error.
 *
 * Set out->contents.base, transposed and task before; the call sets the others.
 *
 * Memory: one layer in float32, the work of gt_low_rank(), and the adapter.
 * Errors: GT_EFORMAT if names, types or shapes differ, if no layer differs, and for NaN and Inf;
 * GT_EINVAL if a pattern matches no matrix, or if, without `force`, more than half of the squared
 * norm of the differences is left out.
 */
int gt_adapter_extract(
    struct gt_extracted *out, const struct gt_adapter_extract *e, struct gt_err *err);
void gt_extracted_release(struct gt_extracted *x);

#endif
