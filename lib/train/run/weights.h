/* weights.h - copy weights between a store and a state_dict, by name. */
#ifndef GT_TRAIN_RUN_WEIGHTS_H
#define GT_TRAIN_RUN_WEIGHTS_H

#include "lib/ckpt/ckpt.h"
#include "lib/graph/store.h"
#include "lib/model/names.h"
#include "lib/parallel/parallel.h"

struct gt_whole; /* whole.h */
struct gt_ema;   /* lib/optim/ema.h */

/* How a state_dict is fitted to a model. */
struct gt_weights_options {
	/* "REGEX=REPLACEMENT" (ckpt/edit/rename.h), applied in turn to every key;
	 * NULL-terminated. */
	const char *const *maps;
	/* names of the program that wrote the keys; NULL: gtrain */
	const struct gt_names_table *names;
	bool lenient; /* go on when keys are missing or unexpected */
	bool finite;  /* refuse tensors that hold NaN or Inf */
	/* Names of the parameters whose first dimension is the number of classes
	 * (gt_model_head()). All of them stay as they are in the store if the file has them for
	 * another number of classes, or if new_head asks for that. */
	const char *const *head;
	int head_count;
	bool new_head;
	struct gt_parallel *parallel; /* its ranks may hold parts of tensors */
};

/* Missing and unexpected keys; release with gt_weights_report_release(). */
struct gt_weights_report {
	const char *note; /* where the state_dict was found, and the prefix cut off its keys */
	bool new_head;    /* the parameters of options.head were not loaded */
	/* Names, in `arena`; ended by NULL, or NULL where there are none. */
	const char **missing, **unexpected;
	size_t missing_count, unexpected_count;
	struct gt_arena arena;
};

/*
 * Copy a state_dict into the store: by name, or by an alias of the model; shapes must agree, types
 * are converted. Nothing is changed unless every name and shape fits. Missing or unexpected keys
 * are an error that names the first of each, unless lenient. With options->finite, a tensor that is
 * not finite is GT_EFORMAT; part of the store may then be overwritten.
 */
int gt_weights_load(struct gt_store *store, const struct gt_model *model,
    const struct gt_state_dict *sd, const struct gt_weights_options *options,
    struct gt_weights_report *report, struct gt_err *err);
void gt_weights_report_release(struct gt_weights_report *report);

/* Check that the values read for a slot, host [slot->count] of dtype, are finite. The message
 * begins with `what`: "tensor". Errors: GT_EFORMAT. */
int gt_weights_check_finite(const struct gt_slot *slot, const char *what, const void *host,
    enum gt_dtype dtype, struct gt_err *err);

/* Open a checkpoint file and load the state_dict in it. */
int gt_weights_load_file(struct gt_store *store, const struct gt_model *model,
    struct gt_file_name file, const struct gt_weights_options *options,
    struct gt_weights_report *report, struct gt_err *err);

/* The state_dict of a store as a tree in `a`, in the order of declaration, aliases sharing storage.
 * It borrows the store's memory (or a copy of it in `a`, if device memory is not host memory). For
 * tensors that ranks hold in parts it borrows the memory of `whole` (NULL: there are none). With
 * `ema` (may be NULL) the parameters are their running means. */
struct gt_tree *gt_weights_tree(const struct gt_store *store, const struct gt_whole *whole,
    const struct gt_ema *ema, const struct gt_model *model, struct gt_arena *a, struct gt_err *err);

/* Host memory that holds `bytes` of the store's device memory at p: p itself, or a copy in `a`.
 * NULL with err set on failure. */
const void *gt_weights_host(const struct gt_store *store, const void *p, size_t bytes,
    struct gt_arena *a, struct gt_err *err);

#endif
