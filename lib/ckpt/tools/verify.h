/* verify.h - check a checkpoint for damage, unsafe pickles and NaN; repair a zip archive. */
#ifndef GT_CKPT_TOOLS_VERIFY_H
#define GT_CKPT_TOOLS_VERIFY_H

#include "lib/base/progress.h"
#include "lib/ckpt/ckpt.h"

enum gt_finding_kind {
	/* the file breaks the rules of its format, or bytes differ from their checksum */
	GT_FINDING_DAMAGE,
	GT_FINDING_UNREAD, /* the file, or a part of it, could not be read */
	/* a pickle names a global (class or function) that PyTorch's weights_only=True refuses */
	GT_FINDING_GLOBAL,
	GT_FINDING_NUMBER, /* NaN or Inf in a tensor */
	GT_FINDING_NOTE    /* information, not a fault */
};

/* A problem of the file, or a note about it. */
struct gt_verify_finding {
	enum gt_finding_kind kind;
	const char *text; /* one line for the user, such as "record 'a' is damaged: ..." */
	const char *hint; /* advice for the user; or "" */
};

/*
 * A global (class or function) that a pickle names. If several pickles name the same global, there
 * is one entry for each of these pickles.
 */
struct gt_verify_global {
	const char *name; /* "posix.system" */
	/* the pickle: "archive/data.pkl", or "archive/data.pkl, in a string of it" */
	const char *where;
	size_t at;    /* offset in that pickle of the first opcode that names the global */
	size_t count; /* number of opcodes that name the global */
	bool called;  /* the pickle calls the global */
	bool changed; /* the pickle sets attributes of the global itself */
	bool allowed; /* torch.load(weights_only=True) accepts the global */
	/* the global can run commands or code, or open files, or is changed; no checkpoint needs
	 * it */
	bool dangerous;
};

/* The result of a check. */
struct gt_verify {
	const char *format; /* name of the format (gt_ckpt_format()); "" if it is unknown */
	struct gt_verify_finding *findings;
	size_t finding_count;
	size_t kinds[GT_FINDING_NOTE + 1]; /* number of findings of each kind */
	struct gt_verify_global *globals;  /* sorted by `where`, then by `name` */
	size_t global_count;
	size_t records;         /* if the file is a zip: number of records */
	size_t tensors;         /* number of tensors */
	uint64_t checked_bytes; /* number of bytes that were compared with a checksum */
	/*
	 * `file_bytes` is the size of the file. If the checkpoint consists of an index and several
	 * files, called shards, it is the size of all these files. `dead_bytes` is the number of
	 * bytes in zip files that are no longer used, such as records that edits in place have
	 * replaced.
	 */
	uint64_t file_bytes, dead_bytes;
	/* number of elements allocated for `findings` and for `globals` */
	size_t finding_capacity, global_capacity;
	bool over_limit; /* the file is not opened, as it would unpack to more than a limit */
	bool refused;    /* a note says that torch.load(weights_only=True) refuses an opcode */
	/* file names of the shards, without their folder, if the checkpoint has several files */
	const char **shards;
	size_t shard_count;
	/* during the check: file name of the shard that is being checked; NULL: not a shard */
	const char *shard;
	struct gt_progress *progress; /* during the check: the argument of gt_verify() */
	struct gt_arena arena;
};

/*
 * Check a file, or the checkpoint in a folder, with `threads` threads (0: one per processor, at
 * most 16). The bytes of tensors are counted on the progress line `progress`, which may be NULL.
 * The checks are:
 *   - The file opens.
 *   - Every record of a zip, even one that the checkpoint does not use, has the right CRC-32, and
 *     its local header agrees with the zip's directory. No record overlaps another one.
 *   - Tensors agree with the digests that gtrain wrote (tools/digest.h).
 *   - Tensors contain no NaN and no Inf.
 *   - Pickles name no globals that PyTorch refuses. A name of Python 2 counts as the name in
 *     Python 3. Pickles of any protocol are found: in files that are not checkpoints, in records of
 *     any name, after the header of NumPy arrays, and in the strings of other pickles (in the first
 *     MiB of each string).
 * Damaged files and damaged pickles are checked as far as they can be read.
 *
 * A fault of the file is a finding, not an error. Errors: GT_EIO and GT_ENOMEM only. Nothing in the
 * file is executed.
 */
int gt_verify(struct gt_verify *out, const char *path, size_t threads, struct gt_progress *progress,
    struct gt_err *err);
void gt_verify_release(struct gt_verify *verify);

/* Add the error `found`, with its hint, as a finding of the kind GT_FINDING_UNREAD. For callers
 * that check several files and go on after a file that gt_verify() could not open. Errors:
 * GT_ENOMEM. */
int gt_verify_add_unread(struct gt_verify *verify, const struct gt_err *found, struct gt_err *err);

/* The result of gt_repair(). */
struct gt_repair {
	/* size of the file before and after the repair; equal if nothing was cut */
	uint64_t old_bytes, new_bytes;
	size_t records; /* number of records in the repaired file */
};

enum { GT_REPAIR_WAIT_S = 10 }; /* usual value of the argument `wait_s` of gt_repair() */
/*
 * Undo an in-place edit of a zip archive, after the edit was interrupted: restore the state that
 * the archive had before the edit. Search backward from the end of the file for a zip end record
 * with these properties: its directory can be read; all records have the right CRC-32; one record
 * is a data.pkl of torch. If no bytes follow this end record, the file is sound and is not changed.
 * If gtrain did not write the bytes that follow, fail with GT_EFORMAT. Otherwise cut these bytes,
 * and call fsync().
 *
 * The file is locked before it is read. If another process is editing the file, wait at most
 * `wait_s` seconds, then fail with GT_EIO.
 *
 * Errors: GT_EFORMAT if there is no such end record, GT_ENOTSUP for other formats, GT_EIO. After an
 * error the file is unchanged, unless fsync() failed after the cut.
 */
int gt_repair(struct gt_repair *out, const char *path, double wait_s, struct gt_err *err);

#endif
