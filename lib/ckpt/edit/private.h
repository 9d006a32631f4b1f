/* private.h - private: functions shared by the .c files that compute and apply an edit. */
#ifndef GT_CKPT_EDIT_PRIVATE_H
#define GT_CKPT_EDIT_PRIVATE_H

#include "lib/base/file.h"
#include "lib/ckpt/edit/rename.h"
#include "lib/ckpt/format.h"

/* ---- computing (edit.c, names.c, paths.c, remap.c) ---- */

enum { GT_EDIT_MAX_PREFIXES = 16 };

/* A request to change names, prepared for gt_edit_rename(). */
struct gt_edit_naming {
	enum gt_edit_kind kind;
	/* for the kinds strip and add: the prefixes; NULL at the end */
	const char *const *prefixes;
	/* for the kind strip: met[i] becomes true when prefix i is removed from a name */
	bool met[GT_EDIT_MAX_PREFIXES];
	struct gt_renames renames; /* for the kind rename: the rules */
	struct gt_arena *arena;
};

/* Return the new name, or `name` itself; NULL with err set. */
const char *gt_edit_rename(struct gt_edit_naming *n, const char *name, struct gt_err *err);

/* Append a copy of `change` to the edit, unless its `to` equals its `from`. */
int gt_edit_push(struct gt_edit *edit, const struct gt_edit_change *change, struct gt_err *err);

/* Add the changes of all names in the tree `root`. Set *dicts to the number of state_dicts in the
 * tree, with or without changes. */
int gt_edit_names(struct gt_edit *edit, const struct gt_tree *root, struct gt_edit_naming *naming,
    size_t *dicts, struct gt_err *err);

/* A key of a dict, before and after the edit. */
struct gt_edit_key {
	const char *from, *to;
	const struct gt_tree_item *item;
	/* only for the path of a module: true if a name of the state_dict begins with this path */
	bool used;
};

/* Set `to` and `used` of each path, which may be reordered. `names` are sorted by `from`. */
int gt_edit_paths(struct gt_edit_naming *naming, struct gt_edit_key *paths, size_t count,
    const struct gt_edit_key *names, size_t name_count, struct gt_err *err);

/* Add the changes of devices. `words` ends with NULL; each word is FROM=TO. */
int gt_edit_locations(
    struct gt_edit *edit, const struct gt_ckpt *ckpt, const char *const *words, struct gt_err *err);

/* ---- applying ---- */

/* the hint for an edit of shards in place, which is not supported */
#define GT_EDIT_SHARDS_HINT "write other files, -o DIR/model.safetensors.index.json"

/*
 * Open and lock the input for an edit in place. The caller closes *fd. GT_EIO: it is locked or has
 * changed.
 */
int gt_edit_begin(
    int *fd, const struct gt_ckpt *ckpt, const struct gt_edit_target *target, struct gt_err *err);

/*
 * Return GT_EIO if the file of `ckpt` has changed since it was opened, otherwise 0. `shown` is the
 * name of the file in messages.
 */
int gt_edit_unchanged(const struct gt_ckpt *ckpt, const char *shown, struct gt_err *err);

/* Open the input, call `write` to change it, sync unless target->no_sync, and close it. */
int gt_edit_in_place(const struct gt_ckpt *ckpt, const struct gt_edit_target *target,
    gt_ckpt_writer *write, void *self, struct gt_err *err);

/*
 * Write a new file, target->output or in place of the input. It appears whole or not at all.
 * GT_EIO: the input has changed.
 */
int gt_edit_replace(const struct gt_ckpt *ckpt, const struct gt_edit_target *target,
    gt_ckpt_writer *write, void *self, struct gt_err *err);
/* The functions `apply` of two formats (lib/ckpt/format.h). */
int gt_torch_zip_apply(const struct gt_ckpt *ckpt, const struct gt_edit *edit,
    const struct gt_edit_target *target, struct gt_edit_result *result, struct gt_err *err);
int gt_torch_legacy_apply(const struct gt_ckpt *ckpt, const struct gt_edit *edit,
    const struct gt_edit_target *target, struct gt_edit_result *result, struct gt_err *err);

#endif
