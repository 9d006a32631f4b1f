/* verify.h - whether a checkpoint is sound: structure, checksums, globals of pickles, NaN. */
#ifndef GT_CKPT_TOOLS_VERIFY_H
#define GT_CKPT_TOOLS_VERIFY_H

#include "lib/ckpt/ckpt.h"

enum gt_finding_kind {
	GT_FINDING_DAMAGE, /* bytes contradict their checksum */
	GT_FINDING_UNREAD, /* the file, or a part of it, could not be read */
	GT_FINDING_GLOBAL, /* a pickle names a global that PyTorch's weights_only=True refuses */
	GT_FINDING_NUMBER, /* NaN or Inf in a tensor */
	GT_FINDING_NOTE    /* information, not a fault */
};

struct gt_verify_finding {
	enum gt_finding_kind kind;
	const char *text; /* one line, like the text of an error */
	const char *hint; /* or "" */
};

/* A global that a pickle names. Each pickle has its own entry for it. */
struct gt_verify_global {
	const char *name;  /* "posix.system" */
	const char *where; /* "archive/data.pkl", "archive/data.pkl, in a string of it" */
	size_t at;         /* the first opcode with it, in that pickle */
	size_t count;      /* opcodes that name it */
	bool called;       /* else only mentioned */
	bool allowed;      /* by torch.load(weights_only=True) */
	bool dangerous;    /* runs commands or code, opens files: no checkpoint needs it */
};

struct gt_verify {
	const char *format; /* "" if it is unknown */
	struct gt_verify_finding *findings;
	size_t finding_count;
	size_t kinds[GT_FINDING_NOTE + 1]; /* how many of each */
	struct gt_verify_global *globals;  /* by place in the file */
	size_t global_count;
	size_t records; /* of a zip */
	size_t tensors;
	uint64_t checked_bytes; /* compared with a checksum */
	uint64_t file_bytes, dead_bytes;
	size_t finding_room, global_room;
	const char *shard; /* the shard being checked; NULL: the file itself */
	struct gt_arena arena;
};

/*
 * Check a file, or the checkpoint in a folder, with `threads` threads (0: one per processor). All
 * parts that can be read are checked:
 *   The file opens. Every record of a zip, used or not, has the right CRC-32 and a local header
 *   that agrees with the directory, and overlaps no other record. Tensors have the digests that
 *   gtrain gave them. NaN and Inf in tensors are reported. The globals that pickles name are
 *   reported, however a name is spelled. Pickles are found in any protocol, in files that are not
 *   checkpoints, in records of any name, behind the header of numpy's arrays, and in the strings of
 *   pickles (in the first MiB of each). A pickle is read as far as possible.
 * A fault of the file is a finding. Errors are only GT_EIO and GT_ENOMEM. Nothing is executed.
 */
int gt_verify(struct gt_verify *out, const char *path, size_t threads, struct gt_err *err);
void gt_verify_release(struct gt_verify *verify);

/* The changes that gt_repair() made. */
struct gt_repair {
	/* sizes of the file before and after; equal if nothing was cut */
	uint64_t old_bytes, new_bytes;
	size_t records;
};

/*
 * Restore the state that a zip archive had before an interrupted edit in place. This finds the last
 * end record whose directory can be read, whose records have the right CRC-32, and with which the
 * file opens as a checkpoint; cuts the bytes after it; and calls fsync(). A sound file is not
 * changed. The file is locked before it is read; if another process edits it, this waits for at
 * most `wait_s` seconds (GT_EIO). Errors: GT_EFORMAT if no such state is found, GT_ENOTSUP for
 * other formats, GT_EIO. After an error the file is unchanged.
 */
enum { GT_REPAIR_WAIT_S = 10 };
int gt_repair(struct gt_repair *out, const char *path, double wait_s, struct gt_err *err);

#endif
