/* edit.h - change names and devices in a checkpoint without touching the bytes of its tensors. */
#ifndef GT_CKPT_EDIT_EDIT_H
#define GT_CKPT_EDIT_EDIT_H

#include "lib/ckpt/ckpt.h"

/*
 * An edit is a list of changes, computed from the tree of an open checkpoint and then applied by
 * its format: gt_edit_compute(), gt_edit_apply(). Only the metadata is written again.
 *
 * Names are edited in every state_dict of the file, at any depth; tree/classify.h defines which
 * dicts are state_dicts. Names are also edited in the dict that gt_state_dict_find() finds, if it
 * contains only tensors. So {"rng": tensor, "epoch": 3} is not edited.
 *
 * An edit of a state_dict also changes its `_metadata`, whose keys are paths of modules. In an
 * optimizer it changes keys of `state`, and elements of a group's lists, that equal a name in the
 * state_dict.
 */

enum gt_edit_kind {
	GT_EDIT_STRIP,  /* words: prefixes; none: "module.", "_orig_mod." */
	GT_EDIT_ADD,    /* words: one prefix; none: "module." */
	GT_EDIT_RENAME, /* words: REGEX=REPLACEMENT, see rename.h */
	GT_EDIT_REMAP   /* words: FROM=TO, devices; the first that matches counts */
};

struct gt_edit_request {
	enum gt_edit_kind kind;
	const char *const *words; /* ended by NULL; NULL: none */
};

enum gt_edit_use {
	GT_EDIT_NAME,      /* a key of a state_dict */
	GT_EDIT_METADATA,  /* a key of its `_metadata` */
	GT_EDIT_REFERENCE, /* a name in an optimizer's state */
	GT_EDIT_LOCATION,  /* the device a storage was saved on */
	GT_EDIT_WHAT_COUNT
};

struct gt_edit_change {
	const char *from, *to; /* before and after */
	enum gt_edit_use what;
	/* "model.state_dict": the keys that lead to the dict; "": the root. For a device: the key
	 * of its storage */
	const char *where;
	size_t at; /* in a pickle: the opcode that put the text there (pickle.h) */
};

struct gt_edit {
	/* in the file's order, without changes that leave a text as it is */
	struct gt_edit_change *changes;
	size_t count;
	size_t counts[GT_EDIT_WHAT_COUNT];
	size_t dicts;     /* state_dicts with a change */
	const char *note; /* one line: "'module.' taken off 97 names in 2 state_dicts" */
	/* a second note about which dicts are edited and which are not; or "" */
	const char *dicts_note;
	size_t capacity; /* elements allocated for changes */
	struct gt_arena arena;
};

/*
 * As gt_ckpt_open(), for an edit in place: lock the file before reading it, until gt_ckpt_close().
 * Wait at most `wait_s` seconds for another process that edits it, then fail with GT_EIO and its
 * process id, if known. No lock is taken if the file cannot be written or the file system has no
 * locks. An edit in place of a file that was opened without a lock is refused if the file has
 * changed or is locked.
 */
enum {
	GT_EDIT_WAIT_S = 10
}; /* long enough for several edits, including edits that copy large files */
int gt_edit_open(struct gt_ckpt **out, const char *path, double wait_s, struct gt_err *err);

/*
 * Compute an edit; it borrows texts from the checkpoint. If there is nothing to change, this is not
 * an error: count is 0 and the note says why ("no name starts with 'module.' or '_orig_mod.'").
 *
 *   strip   takes the prefixes off the front of a name, in any order and number; a name never
 *           becomes empty. `_metadata` follows: "module" becomes "", and the entry that had this
 *           name, the wrapper's own, gets the name that is now free.
 *   add     puts the prefix, which ends with ".", before each name.
 *   rename  replaces what the expressions match, one after the other, in each name.
 *   remap   "cuda:0=cpu"; FROM may be "cuda:*" or "*", and "cuda" is "cuda:0" in both. It needs no
 *           state_dict: every storage counts.
 *
 * Errors: GT_EINVAL for a malformed edit; GT_EFORMAT where names would collide (the first few and
 * their number), or where there is no state_dict; the message describes the file's contents.
 */
int gt_edit_compute(struct gt_edit *out, const struct gt_ckpt *ckpt,
    const struct gt_edit_request *request, struct gt_err *err);
void gt_edit_release(struct gt_edit *edit);

struct gt_edit_target {
	const char *input;  /* the path by which the checkpoint was opened */
	const char *output; /* the path of the result, another file; NULL: in place */
	bool no_sync;       /* do not call fsync() */
};

struct gt_edit_result {
	uint64_t written_bytes; /* bytes of metadata that were written again */
	uint64_t moved_bytes;   /* bytes that were copied unchanged */
	uint64_t dead_bytes;    /* bytes of the result that nothing refers to any more */
	/* the edit in place was made by a copy, which was renamed over the file */
	bool replaced;
	/* the reason, if `replaced`: "the format has no space for a new header" */
	const char *why;
	/* if `replaced`: the number of other hard links, which still have the old names */
	uint64_t other_links;
};

/*
 * Apply an edit to the file it was computed from; `result` may be NULL. Close the checkpoint
 * afterwards, and do not use its tree: an edit in place of a safetensors file overwrites the mapped
 * header.
 *
 * Out of place: a temporary file beside `output`, synced, renamed, folder synced; the bytes of
 * tensors go from file to file in the kernel, by reference where the file system shares blocks
 * (XFS, btrfs); checksums stay. In place: only metadata is written. For a zip that is one write at
 * the end of the file, a new pickle and directory, then fsync; for safetensors a header padded to
 * its old length. If the format leaves no space, a copy is written and renamed over the file.
 *
 * Errors: GT_EINVAL when output is the input, GT_EFORMAT where the digests of the file do not agree
 * with its checksums, GT_EIO when the file has changed since it was opened
 * or the system refuses, GT_ENOTSUP where the format cannot be edited.
 */
int gt_edit_apply(const struct gt_ckpt *ckpt, const struct gt_edit *edit,
    const struct gt_edit_target *target, struct gt_edit_result *result, struct gt_err *err);

#endif
