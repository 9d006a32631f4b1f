/* pickle.h - inside ckpt: read Python's pickles without executing them, and write them. */
#ifndef GT_CKPT_PICKLE_PICKLE_H
#define GT_CKPT_PICKLE_PICKLE_H

#include "lib/base/buf.h"
#include "lib/base/index.h"
#include "lib/ckpt/ckpt.h"
#include "lib/ckpt/pickle/ops.h"

/*
 * A pickle is a program for a small stack machine. gtrain's machine executes the opcodes, but
 * builds a tree: where Python imports a class and calls it, gtrain stores the name ("module.name")
 * and the arguments. Source: CPython, Lib/pickletools.py (opcodes of protocols 0 to 5); numbers
 * there are little-endian, but BINFLOAT.
 *
 * Beyond the kinds of ckpt.h, as opaque nodes:
 *   a global that is only mentioned   its name, args NULL            torch.float32
 *   bytes                             builtins.bytes, args (string)
 *   an int beyond 64 bits             builtins.int, args (string that Python's int(s, 0) reads)
 *   a set                             builtins.set or frozenset, items
 *   a call of a call's result         (call), args (the object, a tuple)
 * A call by which an earlier protocol writes such a value becomes the same node. Modules builtins
 * and copyreg, and the names in them, are written as in Python 3. None, bools and small ints may be
 * shared nodes. Text of Python 2 (a string by the byte) is a string if it is UTF-8, else bytes.
 */

/*
 * The places of a pickle's strings. pickle/edit.h needs them to change strings and keep all other
 * bytes. One opcode writes a string and puts it on the machine's stack; later opcodes fetch it
 * again from the memo (or by DUP). Each of these opcodes is a use. The items of the tree name the
 * use that they came from (key_at, value_at).
 */
struct gt_pickle_use {
	size_t at, length;            /* of the opcode with its operand, from the pickle's start */
	const struct gt_tree *string; /* uses of one string have one node; the first writes it */
};

struct gt_pickle_layout {
	struct gt_pickle_use *uses; /* by `at` */
	size_t use_count, use_room;
	size_t *frames; /* bytes of the FRAME opcodes, which hold the length of the next frame */
	size_t frame_count, frame_room;
};

void gt_pickle_layout_release(struct gt_pickle_layout *layout);

/*
 * The globals that a pickle names, in the order of its opcodes: one item for each opcode that puts
 * a global on the stack, and one for each that calls it. All ways to name a global are covered:
 * GLOBAL, INST, STACK_GLOBAL with strings from the memo. Names are the arena's. Globals before a
 * byte that is no opcode are listed too: Python would have run that part.
 */
struct gt_pickle_global {
	const char *name; /* "posix.system" */
	size_t at;        /* byte of the opcode */
	bool called;
};

struct gt_pickle_globals {
	struct gt_pickle_global *items;
	size_t count, room;
};

/*
 * Hooks by which a file format builds its own objects. Both set *out to NULL for names they do not
 * know.
 */
struct gt_pickle_hooks {
	void *self;
	struct gt_pickle_layout *layout;   /* filled if not NULL */
	struct gt_pickle_globals *globals; /* likewise; release by free(globals->items) */
	/* Build the result of calling the global `name` with `args`, a tuple. If the name is
	 * unknown, the call becomes an opaque node. */
	int (*call)(void *self, const char *name, struct gt_tree *args, struct gt_tree **out,
	    struct gt_err *err);
	/* Build the object that the file stores elsewhere under `id`. An unknown id is an error. */
	int (*persistent)(void *self, struct gt_tree *id, struct gt_tree **out, struct gt_err *err);
};

/*
 * Read the pickle at the start of [bytes, bytes + size) into nodes of the arena; *used gets its
 * length. hooks may be NULL. Values that the pickle mentions twice are shared. The tree has passed
 * gt_tree_check(). Errors name the byte: "pickle: byte 17: ...".
 */
int gt_pickle_read(struct gt_tree **out, struct gt_arena *arena, const unsigned char *bytes,
    size_t size, size_t *used, const struct gt_pickle_hooks *hooks, struct gt_err *err);

/*
 * The same for the pickle that starts at byte `at` of a file and ends where it says: it is copied
 * as far as it is read. *copy, unless NULL, gets its bytes, in the arena.
 */
int gt_pickle_read_file(struct gt_tree **out, struct gt_arena *arena, const struct gt_mapping *map,
    uint64_t at, const unsigned char **copy, size_t *used, const struct gt_pickle_hooks *hooks,
    struct gt_err *err);

/* Turn a node that is a numpy array into a tensor, which borrows the node's bytes. *out is NULL if
 * the node is not an array, or gtrain has no such dtype. GT_EFORMAT for an array that is larger
 * than its bytes. */
int gt_pickle_numpy(
    struct gt_tree **out, const struct gt_tree *node, struct gt_arena *arena, struct gt_err *err);

/* Writes one tensor, which pickles leave to the format. */
struct gt_pickle_writer;
typedef int gt_pickle_tensor(
    struct gt_pickle_writer *w, const struct gt_tree_tensor *t, struct gt_err *err);

/*
 * Whether this text can name a module or a class: it is not empty and has no control characters. A
 * pickle that writes the name as a line (GLOBAL) would end it at a line break and take the rest for
 * opcodes.
 */
bool gt_pickle_is_name(const char *text);

/* Writing: protocol 2, which PyTorch's restricted unpickler accepts. Fields that are not set must
 * be zero.
 */
enum { GT_PICKLE_NAMES = 48 };

struct gt_pickle_writer {
	struct gt_buf out;
	void *self; /* for the tensor function */
	gt_pickle_tensor *tensor;
	uint32_t memo_count;
	int name_count;
	struct {
		const char *text; /* already written, "module\nname\n" for a global */
		uint32_t index;
	} names[GT_PICKLE_NAMES];
	struct gt_index nodes; /* nodes of the tree */
	struct gt_arena arena;
};

/*
 * The pickle of a tree that has passed gt_tree_check(), yours to free(). A node that the tree
 * mentions twice is one object for its readers, too. Opaque objects are written as they came:
 * class, arguments, items, state. GT_ENOTSUP for a value that protocol 2 cannot express, and for an
 * object inside itself.
 */
int gt_pickle_write(struct gt_pickle_writer *w, const struct gt_tree *root, char **bytes,
    size_t *size, struct gt_err *err);

/* Functions with which a tensor function writes its call. `name` and `text` live as long as w: they
 * are written once and then referred to. */
void gt_pickle_put_op(struct gt_pickle_writer *w, enum gt_pickle_op op);
void gt_pickle_put_bool(struct gt_pickle_writer *w, bool value);
void gt_pickle_put_int(struct gt_pickle_writer *w, int64_t value);
void gt_pickle_put_text(struct gt_pickle_writer *w, const char *text, size_t length);
void gt_pickle_put_global(struct gt_pickle_writer *w, const char *name);
void gt_pickle_put_word(struct gt_pickle_writer *w, const char *text);
void gt_pickle_put_ordered_dict(struct gt_pickle_writer *w); /* empty */

/* Write a value, or its place in the memo if it was written before. */
int gt_pickle_put_node(struct gt_pickle_writer *w, const struct gt_tree *node, struct gt_err *err);

/*
 * Write a class, "module.name". The last dot divides module and name, because protocol 2 has no
 * nested classes. GT_ENOTSUP for any other name.
 */
int gt_pickle_put_class(struct gt_pickle_writer *w, const char *name, struct gt_err *err);

/* ---- strings exchanged, every other byte kept (pickle/edit.c) ---- */

/* The string that the opcode at byte `at` puts on the stack becomes `to`. */
struct gt_pickle_change {
	size_t at;
	const char *to; /* UTF-8 */
};

/*
 * Write the pickle [bytes, bytes + size), read into `layout`, with `count` changes, sorted by `at`,
 * no two at one place; *out is yours to free.
 *
 * A pickle writes a string at its first use and fetches it from the memo at later uses. The first
 * use gets its new text. A later use with the same text still fetches it from the memo; a later use
 * with another text (the old one, for instance) gets that text written out. So each change affects
 * only its own use. Opcodes keep their kind, except that a short one becomes long for a long text,
 * so a restricted unpickler that accepted the old pickle accepts the new one. The lengths of frames
 * are computed again.
 *
 * Example: {"m.w": 1, "x": "m.w"}, whose key "m.w" becomes "w".
 *
 *   before                             after
 *   PROTO 2, EMPTY_DICT, BINPUT 0      the same bytes
 *   MARK                               the same
 *   BINUNICODE "m.w", BINPUT 1         BINUNICODE "w", BINPUT 1    the change, at this opcode
 *   BININT1 1                          the same
 *   BINUNICODE "x", BINPUT 2           the same
 *   BINGET 1                           BINUNICODE "m.w"            a later use keeps its text
 *   SETITEMS, STOP                     the same
 *
 * Errors: GT_EINVAL for a change where no string is put; GT_ENOTSUP for one that no opcode of its
 * own puts there; GT_ENOMEM.
 */
int gt_pickle_edit(unsigned char **out, size_t *out_size, const unsigned char *bytes, size_t size,
    const struct gt_pickle_layout *layout, const struct gt_pickle_change *changes, size_t count,
    struct gt_err *err);

/* ---- globals that PyTorch itself would load (pickle/globals.c) ---- */

/* How torch.load(weights_only=True) treats a global. */
enum gt_global_verdict {
	GT_GLOBAL_ALLOWED,  /* on its list */
	GT_GLOBAL_UNLISTED, /* not loaded: a class of some model or library */
	GT_GLOBAL_DANGEROUS /* runs commands or code, opens files: no checkpoint needs it */
};

/* Of "module.name", Python 2's modules included ("__builtin__.set"). */
enum gt_global_verdict gt_global_classify(const char *name);

#endif
