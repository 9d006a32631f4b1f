/* weights.h - copy weights between a store and a state_dict, by name. */
#ifndef GT_TRAIN_RUN_WEIGHTS_H
#define GT_TRAIN_RUN_WEIGHTS_H

#include "lib/ckpt/ckpt.h"
#include "lib/graph/store.h"
#include "lib/model/names.h"
#include "lib/parallel/parallel.h"

struct gt_whole; /* whole.h */
struct gt_ema;   /* lib/optim/ema.h */

/* How the keys of a state_dict become names of a model, and which differences are errors. */
struct gt_weights_options {
	/* Rules "REGEX=REPLACEMENT" (ckpt/edit/rename.h), applied one after the other to every key;
	 * NULL-terminated. */
	const char *const *maps;
	/* table of the names that the keys then have; NULL: gtrain */
	const struct gt_names_table *names;
	bool lenient; /* missing and unexpected keys are not an error */
	bool finite;  /* a tensor that holds NaN or infinity is an error */
	/* Names of the parameters of the last layer (gt_model_head()). The size of their first
	 * dimension is the number of classes. They are not loaded if new_head is set, or if the
	 * file has another number of classes. */
	const char *const *head;
	int head_count; /* 0: the last layer is loaded like all others */
	bool new_head;
	struct gt_parallel *parallel; /* its ranks may hold shards of tensors */
};

/* The result of loading a state_dict. Release it with gt_weights_report_release(). */
struct gt_weights_report {
	const char *note; /* where the state_dict was found, and the prefix removed from its keys */
	bool new_head;    /* the parameters of options->head were not loaded */
	/* names of the model that are not in the file, and keys of the file that are not in the
	 * model; each list is NULL-terminated, or NULL if it is empty */
	const char **missing, **unexpected;
	size_t missing_count, unexpected_count;
	struct gt_arena arena; /* holds the texts */
};

/*
 * Copy the tensors of a state_dict into the store. A key is the name of a parameter or buffer, or
 * an alias of the model. Shapes must be equal; data types are converted.
 *
 * Errors: GT_EFORMAT for missing or unexpected keys, with the first of each, unless
 * options->lenient is set; GT_EFORMAT for a wrong shape; GT_EINVAL if two keys mean the same
 * tensor. After these errors the store is unchanged. GT_EFORMAT for a tensor that is not finite, if
 * options->finite is set. After this error part of the store may be overwritten.
 */
int gt_weights_load(struct gt_store *store, const struct gt_model *model,
    const struct gt_state_dict *sd, const struct gt_weights_options *options,
    struct gt_weights_report *report, struct gt_err *err);
void gt_weights_report_release(struct gt_weights_report *report);

/* Check that the numbers that were read for a slot are finite. They are in host memory,
 * [slot->count] of dtype. The text of the error begins with `what`, such as "tensor". Errors:
 * GT_EFORMAT. */
int gt_weights_check_finite(const struct gt_slot *slot, const char *what, const void *host,
    enum gt_dtype dtype, struct gt_err *err);

/* Find the state_dict in a checkpoint file and load it by gt_weights_load(). Errors begin with the
 * path of the file. */
int gt_weights_load_file(struct gt_store *store, const struct gt_model *model,
    struct gt_file_name file, const struct gt_weights_options *options,
    struct gt_weights_report *report, struct gt_err *err);

/*
 * Return the state_dict of a store as a tree, which is allocated in `a`. NULL with err set on
 * failure. Tensors are in the order of declaration; aliases share the storage of their tensors.
 *
 * Tensors borrow the memory of the store if it is host memory; otherwise they are copied to `a`.
 * Tensors that ranks hold as shards borrow the memory of `whole` (NULL: there are none). If `ema`
 * is not NULL, the running means of the parameters take the place of the parameters.
 */
struct gt_tree *gt_weights_tree(const struct gt_store *store, const struct gt_whole *whole,
    const struct gt_ema *ema, const struct gt_model *model, struct gt_arena *a, struct gt_err *err);

/* Return host memory with the contents of p[bytes], which is device memory of the store. If device
 * memory is host memory, return p, otherwise a copy in `a`. NULL with err set on failure. */
const void *gt_weights_host(const struct gt_store *store, const void *p, size_t bytes,
    struct gt_arena *a, struct gt_err *err);

#endif
