/* private.h - inside ckpt: declarations shared by the parts of an edit. */
#ifndef GT_CKPT_EDIT_PRIVATE_H
#define GT_CKPT_EDIT_PRIVATE_H

#include "lib/base/file.h"
#include "lib/ckpt/edit/rename.h"
#include "lib/ckpt/format.h"

/* ---- computing (edit.c, edit/names.c, edit/paths.c, edit/remap.c) ---- */

enum { GT_EDIT_MAX_PREFIXES = 16 };

/* A request to rename, prepared for gt_edit_rename(). */
struct gt_edit_naming {
	enum gt_edit_kind kind;
	const char *const *prefixes;
	bool met[GT_EDIT_MAX_PREFIXES]; /* strip: the prefix was removed from a name */
	struct gt_renames renames;
	struct gt_arena *arena;
};

/* Return the new name, or `name` itself if it does not change. Returns NULL with err set if memory
 * runs out. */
const char *gt_edit_rename(struct gt_edit_naming *n, const char *name, struct gt_err *err);

/* Append a change, unless `to` is `from`. */
int gt_edit_push(struct gt_edit *edit, const struct gt_edit_change *change, struct gt_err *err);

/* Add the changes of all names under `root`. *dicts becomes the number of state_dicts. */
int gt_edit_names(struct gt_edit *edit, const struct gt_tree *root, struct gt_edit_naming *naming,
    size_t *dicts, struct gt_err *err);

/* A key of a dict, before and after. */
struct gt_edit_key {
	const char *from, *to;
	const struct gt_tree_item *item;
	bool used; /* for the path of a module: there are names under it */
};

/* Set `to` of each module path, and sort `paths`. `to` may lie in naming's arena. `names` are the
 * names of the state_dict, sorted by `from`. Two paths never become the same path. */
int gt_edit_paths(struct gt_edit_naming *naming, struct gt_edit_key *paths, size_t count,
    const struct gt_edit_key *names, size_t name_count, struct gt_err *err);

/* Add the changes of devices; each word is FROM=TO. */
int gt_edit_locations(
    struct gt_edit *edit, const struct gt_ckpt *ckpt, const char *const *words, struct gt_err *err);

/* ---- applying ---- */

/*
 * Open the input of an edit in place to write into it: the file that gt_edit_open() has locked, or
 * else a file that no other process has locked. GT_EIO if the file has changed since it was opened.
 * The caller closes *fd.
 */
int gt_edit_begin(
    int *fd, const struct gt_ckpt *ckpt, const struct gt_edit_target *target, struct gt_err *err);

/* GT_EIO if a file has changed since it was opened. */
int gt_edit_unchanged(const struct gt_ckpt *ckpt, const char *shown, struct gt_err *err);

/* Call `write` to change the input in place, then sync the file and close it. An error names the
 * file. */
int gt_edit_in_place(const struct gt_ckpt *ckpt, const struct gt_edit_target *target,
    gt_ckpt_writer *write, void *self, struct gt_err *err);

/*
 * Write a new file, which appears whole or not at all: the output or, for an edit in place, a file
 * that replaces the input (of a symbolic link, its target). GT_EIO if the input has changed since
 * it was opened. Errors name the files.
 */
int gt_edit_replace(const struct gt_ckpt *ckpt, const struct gt_edit_target *target,
    gt_ckpt_writer *write, void *self, struct gt_err *err);
/* `apply` of the rows of formats (format.h). */
int gt_torch_zip_apply(const struct gt_ckpt *ckpt, const struct gt_edit *edit,
    const struct gt_edit_target *target, struct gt_edit_result *result, struct gt_err *err);
int gt_torch_legacy_apply(const struct gt_ckpt *ckpt, const struct gt_edit *edit,
    const struct gt_edit_target *target, struct gt_edit_result *result, struct gt_err *err);

#endif
