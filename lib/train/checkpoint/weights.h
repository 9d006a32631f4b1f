/* weights.h - copy weights between a store and a state_dict, by name. */
#ifndef GT_TRAIN_CHECKPOINT_WEIGHTS_H
#define GT_TRAIN_CHECKPOINT_WEIGHTS_H

#include "lib/ckpt/ckpt.h"
#include "lib/model/names.h"
#include "lib/parallel/parallel.h"
#include "lib/store/store.h"

struct gt_naming; /* lib/train/checkpoint/naming.h */

/* How keys of a state_dict become names of a model, and which differences are errors. */
struct gt_weights_options {
	/* rules "REGEX=REPLACEMENT" for every key, applied in order, ended by NULL */
	const char *const *maps;
	/* the scheme of the keys after `maps`, such as that of torchvision; NULL: gtrain's */
	const struct gt_names_table *names;
	bool lenient; /* missing and unexpected keys are not errors */
	/* The file may lack the weights of adapters, or the frozen weights that they are added to
	 * (gt_model_adapt()): these keep their values. no_trained: so do the layers that are
	 * trained with the adapters, whatever the file has for them. */
	bool no_adapters, no_base, no_trained;
	/* do not name the option {map}, or {strict}, in hints */
	bool no_map, no_strict;
	bool finite; /* NaN or infinity is an error */
	/* Names of the parameters of the last layer, whose first dimension is the number of
	 * classes. They are not loaded if new_head is set, if the file has another number of
	 * classes, or if it is of a network for another task (gt_model_task_layers()). */
	const char *const *head;
	int head_count; /* 0: load the last layer like all others */
	bool new_head;
	/* the run's ranks, each of which may hold shards */
	struct gt_parallel *parallel;
};

/* The result of loading a state_dict. */
struct gt_weights_report {
	/* where the state_dict was in the file, and which prefixes its keys lost */
	const char *note;
	bool new_head; /* options->head was not loaded */
	/* the file has no last layer: its network was trained for another task */
	bool lacks_head;
	/* classes of the file, if the model has another number; else 0 */
	int64_t head_classes;
	/* missing: names that the file lacks; unexpected: keys that the model lacks; each ended by
	 * NULL, or NULL if empty */
	const char **missing, **unexpected;
	size_t missing_count, unexpected_count;
	/* parameters that keep their initial values, because options->head was not loaded */
	const char **random;
	size_t random_count;
	struct gt_arena arena; /* holds the texts */
};

/* Copy the tensors of a state_dict into the store, by name or alias; data types are converted.
 * Release *report even after an error. Errors: GT_EFORMAT for missing or unexpected keys (unless
 * options->lenient) and wrong shapes; GT_EINVAL if two keys mean one tensor. The store may be
 * partly overwritten only if options->finite finds NaN. */
int gt_weights_load(struct gt_store *store, const struct gt_model *model,
    const struct gt_state_dict *sd, const struct gt_weights_options *options,
    struct gt_weights_report *report, struct gt_err *err);
void gt_weights_report_release(struct gt_weights_report *report);

/* Set *out to the rules by which gt_weights_load() renames the keys of `sd`. */
int gt_weights_find_naming(struct gt_naming *out, struct gt_store *store,
    const struct gt_model *model, const struct gt_state_dict *sd,
    const struct gt_weights_options *options, struct gt_err *err);

/* Return the slot with a name or an alias of the model; NULL if there is none. */
const struct gt_slot *gt_weights_find(
    const struct gt_store *store, const struct gt_model *model, const char *name);

/* Set *err: `a` and `b` name one tensor of the model, but differ in the file. Return GT_EFORMAT. */
int gt_weights_differ(const char *a, const char *b, struct gt_err *err);

/* Check that host[slot->count] is finite. Errors: GT_EFORMAT; the message begins with `what`, such
 * as "tensor". */
int gt_weights_check_finite(const struct gt_slot *slot, const char *what, const void *host,
    enum gt_dtype dtype, struct gt_err *err);

/* Find the state_dict in a file and load it. Errors begin with the path. */
int gt_weights_load_file(struct gt_store *store, const struct gt_model *model,
    struct gt_file_name file, const struct gt_weights_options *options,
    struct gt_weights_report *report, struct gt_err *err);

/* Set *out to the 16-bit type of all matrices in a file, in which they are kept without a change,
 * or to GT_BLOCK_NONE. Errors begin with the path. */
int gt_weights_find_block(enum gt_block *out, struct gt_file_name file, struct gt_err *err);

/* The tensor of the run that a node of a tree stands for. */
struct gt_weights_source {
	struct gt_parallel *parallel;
	const struct gt_plane *plane;
	const struct gt_slot *slot;
};

/* Return a slot of a plane as a node of a tree, allocated in `a`. The node borrows memory of the
 * store, or reads the tensor when rank 0 writes and the other ranks are in gt_parallel_serve().
 * `self` of its storage is its struct gt_weights_source. */
struct gt_tree *gt_weights_tensor(struct gt_parallel *parallel, const struct gt_store *store,
    const struct gt_plane *plane, const struct gt_slot *slot, struct gt_arena *a,
    struct gt_err *err);

/* Return the state_dict of a store as a tree. `parameters` is store->parameters or a running mean;
 * aliases share storages. no_base: without the frozen weights to which adapters are added. */
struct gt_tree *gt_weights_tree(struct gt_parallel *parallel, const struct gt_store *store,
    const struct gt_plane *parameters, const struct gt_model *model, bool no_base,
    struct gt_arena *a, struct gt_err *err);

#endif
