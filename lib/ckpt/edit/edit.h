/* edit.h - change names and devices in a checkpoint without touching the bytes of its tensors. */
#ifndef GT_CKPT_EDIT_EDIT_H
#define GT_CKPT_EDIT_EDIT_H

#include "lib/ckpt/ckpt.h"

/*
 * An edit is a list of changes. gt_edit_compute() computes it from the tree of an open checkpoint;
 * gt_edit_apply() writes the result in the format of that checkpoint. Only the metadata changes;
 * the bytes of the tensors stay the same.
 *
 * Names are edited in every state_dict of the file, at any depth; lib/ckpt/tree/classify.h defines
 * which dicts are state_dicts. Names are also edited in the dict that gt_state_dict_find() finds,
 * if it contains only tensors. For example, the names in {"rng": tensor, "epoch": 3} are not
 * edited: this dict is not a state_dict by the rules of classify.h, and the value of "epoch" is not
 * a tensor.
 *
 * If an edit changes names in a state_dict, it also changes the keys of its `_metadata`, which are
 * paths of modules. The state of an optimizer may mention names of a state_dict: as keys of its
 * dict `state`, and as elements of lists in its parameter groups. An edit changes these names, too.
 */

enum gt_edit_kind {
	/* Remove prefixes. Each word is a prefix; without words: those of wrappers. */
	GT_EDIT_STRIP,
	GT_EDIT_ADD,    /* Add a prefix: words[0]; without words: "module.". */
	GT_EDIT_RENAME, /* Replace matches. Each word is REGEX=REPLACEMENT (rename.h). */
	GT_EDIT_REMAP   /* Change devices. Each word is FROM=TO; the first that matches is used. */
};

struct gt_edit_request {
	enum gt_edit_kind kind;
	/* The meaning of the words depends on `kind` (enum gt_edit_kind). The array ends with NULL.
	 * If `words` is NULL, there are no words. */
	const char *const *words;
};

/* The role of a text that an edit changes. */
enum gt_edit_use {
	GT_EDIT_NAME,      /* a key of a state_dict */
	GT_EDIT_METADATA,  /* a key of the `_metadata` of a state_dict */
	GT_EDIT_REFERENCE, /* a name of a parameter in an optimizer's state */
	GT_EDIT_LOCATION,  /* the device on which a storage was saved */
	GT_EDIT_USE_COUNT
};

struct gt_edit_change {
	const char *from, *to; /* the text before and after the edit */
	enum gt_edit_use use;
	/*
	 * The place of the change. For a device: the key of its storage. For other texts: the keys
	 * that lead from the root to the dict or list that holds the text, such as
	 * "model.state_dict"; "" if it is the root.
	 */
	const char *where;
	/* only in a pickle: offset of the opcode (an instruction, see pickle.h) that put the text
	 * on the stack */
	size_t at;
};

struct gt_edit {
	/* names first, then references of optimizers; texts that stay the same have no entry */
	struct gt_edit_change *changes;
	size_t count;
	size_t counts[GT_EDIT_USE_COUNT]; /* counts[u]: number of changes with the use u */
	size_t dicts;                     /* number of state_dicts with a change */
	const char *note; /* one line: "'module.' removed from 97 names in 2 state_dicts" */
	/* a second note that lists the dicts that are edited and the dicts that are not; or "" */
	const char *dicts_note;
	size_t capacity; /* number of elements allocated for `changes` */
	struct gt_arena arena;
};

/* The usual argument `wait_s` of gt_edit_open(), in seconds. If another process copies a large file
 * while it holds the lock, gt_edit_open() fails after this time. */
enum { GT_EDIT_WAIT_S = 10 };
/*
 * Open a checkpoint like gt_ckpt_open() in order to edit it in place: lock the file before reading
 * it. gt_ckpt_close() releases the lock. If another process edits the file, wait at most `wait_s`
 * seconds. Then fail with GT_EIO; the message contains the id of that process, if known. If the
 * file cannot be written, or the file system has no locks, open the file without a lock.
 *
 * gt_edit_apply() can also edit in place a file that was opened without a lock. It fails if this
 * file has changed or if another process has locked it.
 */
int gt_edit_open(struct gt_ckpt **out, const char *path, double wait_s, struct gt_err *err);

/*
 * Compute an edit. The edit borrows texts from the checkpoint. If nothing has to change, the
 * function succeeds: count is 0, and the note gives the reason ("no name starts with 'net.'").
 *
 *   strip   removes prefixes from the front of each name until none of them is left:
 *           "module._orig_mod.module.w" becomes "w". A name never becomes empty. Without words,
 *           the prefixes of wrappers other than "module." are removed from the middle, too
 *           (gt_state_dict_unwrap(), tree/classify.h). The prefixes are
 *           also removed from the keys of `_metadata`: {"": wrapper, "module": model} becomes
 *           {"": model, "module": wrapper}. An example of a wrapper is DistributedDataParallel.
 *   add     puts the prefix, which must end with ".", before each name.
 *   rename  applies the rules, one after the other, to each name. A rule replaces its first match
 *           in the name.
 *   remap   changes devices, for example "cuda:0=cpu". FROM may be "cuda:*" or "*". In FROM and in
 *           TO, "cuda" means "cuda:0". Storages outside of state_dicts change, too.
 *
 * Errors: GT_EINVAL for a malformed request. GT_EFORMAT if two names would become equal; the
 * message contains the number of such pairs and the first few of them. GT_EFORMAT also if a name
 * would become empty or not UTF-8, for more than 2^20 changes, and if the file has no state_dict;
 * then the message describes the contents of the file.
 */
int gt_edit_compute(struct gt_edit *out, const struct gt_ckpt *ckpt,
    const struct gt_edit_request *request, struct gt_err *err);
void gt_edit_release(struct gt_edit *edit);

struct gt_edit_target {
	const char *input;  /* the path that was given to open the checkpoint */
	const char *output; /* the path of the result, a different file; NULL: edit in place */
	bool no_sync;       /* do not call fsync() */
	/* the progress line for the bytes that a copy has; NULL: none */
	struct gt_progress *progress;
};

struct gt_edit_result {
	uint64_t written_bytes; /* bytes of metadata that were written again */
	uint64_t copied_bytes;  /* bytes that were copied unchanged */
	uint64_t dead_bytes;    /* bytes of the result that are no longer used */
	/*
	 * The file could not be edited in place: an edited copy was written and renamed over the
	 * file.
	 */
	bool replaced;
	/* if `replaced`: the reason, such as "the format has no space for a new header" */
	const char *why;
	/*
	 * The pickle protocol of the input if torch.load(weights_only=True) refuses it: 4 or later;
	 * otherwise 0. A copy (target->output) is then written anew, in protocol 2; a file that is
	 * edited in place keeps its protocol.
	 */
	int protocol;
	/* if `replaced`: number of other hard links; they lead to the old, unchanged file */
	uint64_t other_links;
};

/*
 * Apply an edit to the file from which it was computed. `result` may be NULL. Close the checkpoint
 * afterwards and do not use its tree: if a safetensors file is edited in place, its mapped header
 * is overwritten.
 *
 * With target->output: write a temporary file in the folder of `output`, call fsync(), rename the
 * file, and call fsync() for the folder. The kernel copies the bytes of tensors from file to file.
 * If the file system can share blocks between files (XFS, btrfs), the bytes are shared instead.
 * Checksums stay the same. But a pickle of protocol 4 or later is written anew, see
 * gt_edit_result.protocol.
 *
 * In place: only metadata is written. In a zip file, one write appends a new pickle and a new
 * directory, followed by fsync(). In a safetensors file, a new header overwrites the old one; it is
 * padded to the old length. If the format leaves no space, a copy is written and renamed over the
 * file.
 *
 * Errors: GT_EINVAL if the output is the input. GT_EFORMAT if the digests of the tensors (checksums
 * that gtrain adds, tools/digest.h) do not agree with the checksums of their storages. GT_EIO if
 * the file has changed since it was opened, or a system call fails. GT_ENOTSUP if gtrain cannot
 * edit the format.
 */
int gt_edit_apply(const struct gt_ckpt *ckpt, const struct gt_edit *edit,
    const struct gt_edit_target *target, struct gt_edit_result *result, struct gt_err *err);

#endif
