/* scan_state.h - private: bytes, stack and memo of the machine that scans pickles. */
#ifndef GT_CKPT_PICKLE_SCAN_STATE_H
#define GT_CKPT_PICKLE_SCAN_STATE_H

#include "lib/base/index.h"
#include "lib/ckpt/pickle/machine.h"
#include "lib/ckpt/pickle/scan.h"

enum {
	GT_SCAN_WINDOW_MAX = GT_PICKLE_TEXT_MAX, /* bytes of a file that are in memory at most */
	GT_SCAN_ENTRIES_MAX = 1 << 24,           /* of the stack, of the memo and of other lists */
	GT_SCAN_MAX_ARGS = 3
};

enum gt_scan_kind {
	GT_SCAN_OTHER,
	GT_SCAN_NAME,    /* texts[index] */
	GT_SCAN_GLOBAL,  /* out->items[index] */
	GT_SCAN_CLASS_ID /* ("module", global, ...): a persistent id that stands for the global */
};

struct gt_scan_value {
	uint32_t kind, index; /* of GT_SCAN_OTHER on the stack: how many there are in a row */
};

/* Marks at one depth of the stack. */
struct gt_scan_marks {
	size_t depth, count;
};

/* A value that is no name. */
static const struct gt_scan_value gt_scan_other = { GT_SCAN_OTHER, 1 };

struct gt_scan {
	struct gt_pickle_scan *out;
	struct gt_arena *arena;
	gt_pickle_text *text;
	void *self;
	const struct gt_mapping *map;
	uint64_t start, size; /* the pickle lies in [start, start + size) of the file */
	uint64_t at, op_at;   /* offsets in it: of the next byte, of the opcode */
	unsigned char op;
	unsigned char *window; /* a copy of [window_at, window_at + window_bytes) of the pickle */
	uint64_t window_at;
	size_t window_bytes, window_capacity;
	/*
	 * The operand: a number, or the bytes of a string, of which at most GT_SCAN_WINDOW_MAX are
	 * shown, or those of a line; NULL for one that is longer.
	 */
	uint64_t number, length;
	const unsigned char *bytes;
	size_t shown;
	char module[GT_PICKLE_NAME_BYTES]; /* the first of two lines; "" for none that is a name */
	unsigned char *decoded, *latin1;
	size_t decoded_capacity, latin1_capacity;
	struct gt_scan_value *stack; /* [depth], values of the kind GT_SCAN_OTHER together */
	size_t depth, stack_capacity;
	struct gt_scan_value args[GT_SCAN_MAX_ARGS]; /* the first values taken off the stack */
	size_t arg_count;                            /* no more than GT_SCAN_MAX_ARGS are counted */
	struct gt_scan_marks *marks;
	size_t mark_count, mark_capacity;
	struct gt_scan_value *memo;
	size_t memo_count, memo_capacity, memo_entries; /* entries: with those of `far` */
	struct gt_index far;
	const char **texts;
	size_t text_count, text_capacity;
	struct gt_index names; /* struct known */
	uint64_t name_bytes, long_bytes;
	bool ended; /* at STOP, at a fault or by a limit */
	struct gt_err *err;
};

/* Python fails here: end the scan, without an error. */
int gt_scan_end(struct gt_scan *s);
/* Python might go on, but a limit is reached. */
int gt_scan_end_by_limit(struct gt_scan *s);

/* Take an operand: s->number; or s->bytes, s->shown and s->length. If the file ends before it, end
 * the scan. */
int gt_scan_take_number(struct gt_scan *s, size_t width);
int gt_scan_take_block(struct gt_scan *s, size_t width); /* a string behind its length */
int gt_scan_take_line(struct gt_scan *s);

/* Values below this depth of the stack cannot be taken before the last mark is. */
size_t gt_scan_base(const struct gt_scan *s);
int gt_scan_push(struct gt_scan *s, struct gt_scan_value v);
int gt_scan_push_mark(struct gt_scan *s);
/* Get the value on top. Return false if there is none above the last mark. */
bool gt_scan_top(const struct gt_scan *s, struct gt_scan_value *v);
/* Take n values off the stack into s->args. If there are fewer, end the scan. */
void gt_scan_pop(struct gt_scan *s, size_t n);
/* Take the last mark and the values above it; the first of these go into s->args. */
void gt_scan_pop_mark(struct gt_scan *s);

/* Store the value on top in the memo; push a value of the memo. */
int gt_scan_put_memo(struct gt_scan *s, uint64_t index);
int gt_scan_get_memo(struct gt_scan *s, uint64_t index);

#endif
