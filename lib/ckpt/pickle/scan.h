/* scan.h - private: find the globals that a pickle names, whether it can be read or not. */
#ifndef GT_CKPT_PICKLE_SCAN_H
#define GT_CKPT_PICKLE_SCAN_H

#include "lib/base/file.h"
#include "lib/base/mem.h"

/* A global (class or function) that a pickle names. */
struct gt_pickle_named {
	const char *name; /* "posix.system"; Python 3's name */
	uint64_t at;      /* offset in the pickle of the first opcode that names it */
	size_t count;     /* number of opcodes that name it */
	bool called;      /* the pickle calls it */
	bool changed;     /* the pickle sets attributes of the global itself (BUILD) */
};

/* The result of a scan. */
struct gt_pickle_scan {
	struct gt_pickle_named **items; /* [count], one per name, in the order of their opcodes */
	size_t count, capacity;
	uint64_t used; /* bytes up to and with STOP; 0: the pickle breaks off before */
	uint64_t at;   /* offset of the last opcode that was run */
	/* the scan was ended by a limit of gtrain's at this opcode; Python might go on */
	bool limited;
	bool exhausted;    /* the bytes end before the pickle does */
	unsigned protocol; /* operand of PROTO; 0: there is none */
	/* the first opcode that torch.load(weights_only=True) refuses, and its offset; 0: none */
	unsigned char refused;
	uint64_t refused_at;
};

/* Take the bytes of a string, at most GT_PICKLE_TEXT_MAX, as Python has them. */
typedef int gt_pickle_text(void *self, const unsigned char *bytes, size_t size, struct gt_err *err);

enum { GT_PICKLE_TEXT_MAX = 1 << 20 };

/*
 * Run the opcodes of a pickle up to STOP or its first fault, and keep the names only. Call
 * gt_pickle_scan_release() in every case.
 */
int gt_pickle_scan(struct gt_pickle_scan *out, struct gt_arena *arena, const struct gt_mapping *map,
    uint64_t at, gt_pickle_text *text, void *self, struct gt_err *err);
void gt_pickle_scan_release(struct gt_pickle_scan *scan);

#endif
