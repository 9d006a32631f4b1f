/* weights.h - copy weights between a store and a state_dict, by name. */
#ifndef GT_TRAIN_CHECKPOINT_WEIGHTS_H
#define GT_TRAIN_CHECKPOINT_WEIGHTS_H

#include "lib/ckpt/ckpt.h"
#include "lib/model/names.h"
#include "lib/parallel/parallel.h"
#include "lib/store/store.h"

struct gt_naming; /* lib/train/checkpoint/naming.h */

/* How the keys of a state_dict become names of a model, and which differences are errors. */
struct gt_weights_options {
	/* Rules "REGEX=REPLACEMENT" (lib/ckpt/edit/rename.h), applied one after the other to every
	 * key; NULL-terminated. */
	const char *const *maps;
	/* The naming scheme of the keys after the rules in `maps` were applied, for example the
	 * scheme of torchvision. NULL: the keys are gtrain's own names. */
	const struct gt_names_table *names;
	bool lenient; /* missing and unexpected keys are not errors */
	/* no_map: the user cannot use the option {map} here; no_strict: the user cannot use the
	 * option {strict} here. Hints do not name an option that the user cannot use. */
	bool no_map, no_strict;
	bool finite; /* a tensor that holds NaN or infinity is an error */
	/* The head: names of the parameters of the last layer (gt_program_pair_head()). The size of
	 * their first dimension is the number of classes. These parameters are not loaded if
	 * new_head is set, or if the file has another number of classes. */
	const char *const *head;
	int head_count; /* 0: the last layer is loaded like all others */
	bool new_head;
	/* the ranks of the run; each rank may hold only a shard of a tensor */
	struct gt_parallel *parallel;
};

/* The result of loading a state_dict. Release it with gt_weights_report_release(). */
struct gt_weights_report {
	/* where the state_dict was found in the file, and which prefixes its keys lost */
	const char *note;
	bool new_head; /* the parameters of options->head were not loaded */
	/* number of classes in the file, if the model has another number of classes; otherwise 0 */
	int64_t head_classes;
	/* missing: names of the model that are not in the file; unexpected: keys of the file that
	 * are not in the model. Each list is NULL-terminated, or NULL if it is empty. */
	const char **missing, **unexpected;
	size_t missing_count, unexpected_count;
	struct gt_arena arena; /* holds the texts */
};

/*
 * Copy the tensors of a state_dict into the store. The keys are renamed as gt_weights_find_naming()
 * says. A key is then the name of a parameter or buffer, or an alias: another name for the same
 * tensor (struct gt_model_alias). Shapes must be equal; data types are converted. Release *report
 * even after an error.
 *
 * Errors that leave the store unchanged:
 *
 *   GT_EFORMAT  a key is missing or unexpected, and options->lenient is not set. The message has
 *               the first missing key and the first unexpected key.
 *   GT_EFORMAT  a tensor has a wrong shape
 *   GT_EINVAL   two keys mean the same tensor
 *   GT_EFORMAT  the file has a tensor under its name and under its alias, and the two differ
 *
 * An error after which a part of the store may be overwritten:
 *
 *   GT_EFORMAT  options->finite is set, and a tensor has an element that is NaN or infinite
 */
int gt_weights_load(struct gt_store *store, const struct gt_model *model,
    const struct gt_state_dict *sd, const struct gt_weights_options *options,
    struct gt_weights_report *report, struct gt_err *err);
void gt_weights_report_release(struct gt_weights_report *report);

/* Set *out to the rules by which gt_weights_load() renames the keys of `sd` before it looks them
 * up: options->maps or, if there are none, the removal of a prefix that all keys have. Errors:
 * GT_ENOMEM. */
int gt_weights_find_naming(struct gt_naming *out, struct gt_store *store,
    const struct gt_model *model, const struct gt_state_dict *sd,
    const struct gt_weights_options *options, struct gt_err *err);

/* Return the parameter or buffer of the store with this name. `name` may also be an alias of the
 * model. Return NULL if there is none. */
const struct gt_slot *gt_weights_find(
    const struct gt_store *store, const struct gt_model *model, const char *name);

/* Set *err to this error: the tensors named `a` and `b` have different elements, although the model
 * uses one tensor for both names. Return GT_EFORMAT. */
int gt_weights_differ(const char *a, const char *b, struct gt_err *err);

/* Check that all elements of host[slot->count] are finite. The elements have the type `dtype`, and
 * were read for this slot of the store (lib/store/store.h). The error message begins with `what`,
 * such as "tensor". Errors: GT_EFORMAT. */
int gt_weights_check_finite(const struct gt_slot *slot, const char *what, const void *host,
    enum gt_dtype dtype, struct gt_err *err);

/* Find the state_dict in a checkpoint file and load it by gt_weights_load(). Errors begin with the
 * path of the file. */
int gt_weights_load_file(struct gt_store *store, const struct gt_model *model,
    struct gt_file_name file, const struct gt_weights_options *options,
    struct gt_weights_report *report, struct gt_err *err);

/*
 * Return a tensor, a slot in a plane, as a node of a tree, which is allocated in `a`. NULL with err
 * set on failure. The node borrows the memory of the store if rank 0 has the whole tensor in host
 * memory. Otherwise its storage has a function that reads it (gt_parallel_fetch()), so that saving
 * needs no copy of the tensor: while rank 0 writes, the other ranks are in gt_parallel_serve().
 */
struct gt_tree *gt_weights_tensor(struct gt_parallel *parallel, const struct gt_store *store,
    const struct gt_plane *plane, const struct gt_slot *slot, struct gt_arena *a,
    struct gt_err *err);

/*
 * Return the state_dict of a store as a tree of gt_weights_tensor(). Tensors are in the order of
 * declaration; aliases share the storage of their tensors. The plane `parameters` has the
 * parameters: store->parameters, or a running mean of them.
 */
struct gt_tree *gt_weights_tree(struct gt_parallel *parallel, const struct gt_store *store,
    const struct gt_plane *parameters, const struct gt_model *model, struct gt_arena *a,
    struct gt_err *err);

#endif
