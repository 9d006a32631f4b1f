/* pickle.h - private: read Python pickles without running their code; write and edit them. */
#ifndef GT_CKPT_PICKLE_PICKLE_H
#define GT_CKPT_PICKLE_PICKLE_H

#include "lib/base/buf.h"
#include "lib/base/index.h"
#include "lib/ckpt/ckpt.h"
#include "lib/ckpt/pickle/ops.h"

/*
 * A pickle is a program for a small stack machine. gtrain's machine executes the opcodes, but only
 * builds a tree (struct gt_tree, lib/ckpt/ckpt.h): where Python imports a global (a class or a
 * function) and calls it, gtrain stores the name ("module.name") and the arguments. The memo is a
 * table of the machine: an opcode can store a value in it, and later opcodes can fetch that value
 * again. Numbers in a pickle are little-endian, except in BINFLOAT.
 * Source: CPython, Lib/pickletools.py (opcodes of protocols 0 to 5).
 *
 * Values for which enum gt_tree_kind (ckpt.h) has no kind become opaque nodes:
 *
 *   value                            class name                      other fields
 *   a global that is not called      its name, e.g. torch.float32    args NULL
 *   bytes                            builtins.bytes                  args (string)
 *   an int beyond 64 bits            builtins.int                    args (text for int(text, 0))
 *   a set                            builtins.set or frozenset       items
 *   a call of the result of a call   (call)                          args (callee, arguments)
 *
 * Older protocols of pickle write some of these values as a call. gtrain turns these calls into the
 * same nodes. The module names `__builtin__` and `copy_reg` of Python 2 are replaced by
 * `builtins` and `copyreg`, the names of these modules in Python 3. Nodes for None, a bool or a
 * small int may be in several places of the tree. A string of Python 2 consists of bytes. It
 * becomes a string node if the bytes are UTF-8, and otherwise a node for `bytes`.
 */

/*
 * A use of a string: an opcode that puts the string on the stack. The opcode of the first use
 * contains the text of the string. The opcodes of later uses fetch the string from the memo, or
 * copy it from the top of the stack (DUP). In the tree, struct gt_tree_item has the members key_at
 * and value_at: the offsets of the uses, if the key or the value is a string.
 */
struct gt_pickle_use {
	/* at: offset of the opcode in the pickle, in bytes; length: bytes of opcode and operand */
	size_t at, length;
	/* the node of the string; all uses of a string have the same node */
	const struct gt_tree *string;
};

/*
 * The layout of a pickle: a list of the uses of its strings, and a list of its frames. A frame is a
 * block of opcodes; the opcode FRAME before the block gives its length. With these lists,
 * gt_pickle_edit() can change strings and keep all other bytes.
 */
struct gt_pickle_layout {
	struct gt_pickle_use *uses; /* sorted by `at` */
	size_t use_count,
	    use_capacity; /* use_capacity, frame_capacity: number of elements allocated */
	/* offsets of the FRAME opcodes in the pickle */
	size_t *frames;
	size_t frame_count, frame_capacity;
};

void gt_pickle_layout_release(struct gt_pickle_layout *layout);

/*
 * Functions that a file format passes to gt_pickle_read(), to build its own objects from a pickle.
 * `call` and `persistent` set *out to NULL if they do not know the name or the id.
 */
struct gt_pickle_hooks {
	void *self;
	struct gt_pickle_layout *layout; /* if not NULL, gt_pickle_read() fills it */
	/*
	 * Return in *out the result of calling the global `name` with the tuple `args`. If *out is
	 * NULL, the call becomes an opaque node.
	 */
	int (*call)(void *self, const char *name, struct gt_tree *args, struct gt_tree **out,
	    struct gt_err *err);
	/*
	 * Return in *out the object that the file stores outside of the pickle under `id`. If *out
	 * is NULL, gt_pickle_read() fails.
	 */
	int (*persistent)(void *self, struct gt_tree *id, struct gt_tree **out, struct gt_err *err);
};

/*
 * Read the pickle at the start of [bytes, bytes + size), and build its tree in the arena. Set *used
 * to the length of the pickle in bytes. `hooks` may be NULL. A value that the pickle mentions twice
 * is one shared node. The tree has passed gt_tree_check() (tree/tree.h): it is at most 128 levels
 * deep, and has no cycles. Error messages contain the offset of the byte: "pickle: byte 17: ...".
 */
int gt_pickle_read(struct gt_tree **out, struct gt_arena *arena, const unsigned char *bytes,
    size_t size, size_t *used, const struct gt_pickle_hooks *hooks, struct gt_err *err);

/*
 * Read a pickle like gt_pickle_read(), but from offset `at` of the file `map`. The caller need not
 * know where the pickle ends. The machine copies the bytes that it reads, and works on this copy.
 * If `copy` is not NULL, set *copy to a copy of the bytes of the pickle, in the arena.
 */
int gt_pickle_read_file(struct gt_tree **out, struct gt_arena *arena, const struct gt_mapping *map,
    uint64_t at, const unsigned char **copy, size_t *used, const struct gt_pickle_hooks *hooks,
    struct gt_err *err);

/*
 * Convert a node that is a NumPy array into a tensor. The tensor borrows the bytes of the node. Set
 * *out to NULL if the node is not an array, or if gtrain does not support the dtype of the array.
 * Errors: GT_EFORMAT if the array needs more bytes than the node has.
 */
int gt_pickle_numpy(
    struct gt_tree **out, const struct gt_tree *node, struct gt_arena *arena, struct gt_err *err);

/*
 * Some programs save the weights of a model as a dict of NumPy arrays. If the tree has no
 * state_dict of tensors, but has one of arrays, replace its arrays, and those of other dicts, by
 * tensors.
 * Otherwise the tree does not change. Errors: as gt_pickle_numpy().
 */
int gt_pickle_state_dict(struct gt_tree *root, struct gt_arena *arena, struct gt_err *err);

/* If `node` is a NumPy scalar, such as numpy.float64(0.5), describe it as a tensor without
 * dimensions: set *out and its storage, *storage, which borrow the bytes of the node. Return false
 * if the node is not a scalar with a type that gtrain supports. */
bool gt_pickle_numpy_scalar(
    struct gt_tree_tensor *out, struct gt_storage *storage, const struct gt_tree *node);

struct gt_pickle_writer;
/*
 * A function that writes a tensor. Each file format has its own function, because pickles have no
 * opcode for tensors.
 */
typedef int gt_pickle_tensor(
    struct gt_pickle_writer *w, const struct gt_tree_tensor *t, struct gt_err *err);

/*
 * Return whether `text` can name a module or a class: it is not empty and has no control
 * characters. The opcode GLOBAL contains a name as a line of text. If a name contained a line
 * break, a reader would take the text after the line break for opcodes.
 */
bool gt_pickle_is_name(const char *text);

/* Maximum number of texts that a writer keeps in `names`. */
enum { GT_PICKLE_NAMES = 48 };

/*
 * The state of writing a pickle. The writer uses protocol 2, which PyTorch's restricted unpickler
 * accepts. The caller sets `tensor` and `self`, and zeroes the other fields.
 */
struct gt_pickle_writer {
	struct gt_buf out;
	void *self; /* the caller's data, for the function `tensor` */
	gt_pickle_tensor *tensor;
	uint32_t memo_count;
	int name_count;
	struct {
		/* a text that is already in the memo; for a global "module\nname\n" */
		const char *text;
		uint32_t index; /* index in the memo */
	} names[GT_PICKLE_NAMES];
	/* all nodes of the tree except scalars and strings; finds nodes that occur twice */
	struct gt_index nodes;
	struct gt_arena arena;
};

/*
 * Write a tree as a pickle. The tree must have passed gt_tree_check(). Set *bytes to the pickle,
 * which the caller frees with free(), and *size to its length. A node that occurs twice in the tree
 * becomes one object in Python. Opaque objects are written as they were read: class, arguments,
 * items, state. Errors: GT_ENOTSUP for a value that protocol 2 cannot express, and for an object
 * that contains itself.
 */
int gt_pickle_write(struct gt_pickle_writer *w, const struct gt_tree *root, char **bytes,
    size_t *size, struct gt_err *err);

/*
 * Functions for writing a tensor (gt_pickle_tensor). The arguments `text` of gt_pickle_put_word()
 * and `name` of gt_pickle_put_global() must live as long as `w`: the first call writes the text,
 * and later calls with the same text may write only an opcode that fetches it from the memo. `name`
 * has the form "module\nname\n". If memory runs out, gt_pickle_write() returns the error.
 */
void gt_pickle_put_op(struct gt_pickle_writer *w, enum gt_pickle_op op);
void gt_pickle_put_bool(struct gt_pickle_writer *w, bool value);
void gt_pickle_put_int(struct gt_pickle_writer *w, int64_t value);
void gt_pickle_put_text(struct gt_pickle_writer *w, const char *text, size_t length);
void gt_pickle_put_global(struct gt_pickle_writer *w, const char *name);
void gt_pickle_put_word(struct gt_pickle_writer *w, const char *text);
void gt_pickle_put_ordered_dict(struct gt_pickle_writer *w); /* write an empty OrderedDict */

/*
 * Write the value of a node. If the node was written before, write an opcode that fetches it from
 * the memo.
 */
int gt_pickle_put_node(struct gt_pickle_writer *w, const struct gt_tree *node, struct gt_err *err);

/*
 * Write a class; `name` has the form "module.name". The last dot separates the module and the
 * class, because protocol 2 has no nested classes. Errors: GT_ENOTSUP for a name of another form.
 */
int gt_pickle_put_class(struct gt_pickle_writer *w, const char *name, struct gt_err *err);

/* ---- change strings and keep every other byte (pickle/edit.c) ---- */

/* A change: the string that the opcode at offset `at` puts on the stack becomes `to`. */
struct gt_pickle_change {
	size_t at;
	const char *to; /* UTF-8 */
};

/*
 * Write the pickle [bytes, bytes + size) again, with `count` changes. gt_pickle_read() has filled
 * `layout` when it read this pickle. The changes are sorted by `at`; no two have the same `at`. The
 * caller frees *out with free().
 *
 * A pickle contains the text of a string at its first use; later uses fetch the string from the
 * memo. If the first use changes, the new text is written at this use. A later use that has the
 * same new text still fetches it from the memo. A later use that must have another text (the old
 * text, for instance) gets an opcode that contains this text. So each change affects only its own
 * use. A new opcode contains the same type of string as the opcode of the first use: a string of
 * Python 2 (BINSTRING) or Unicode (BINUNICODE). A new opcode is short (SHORT_BINSTRING,
 * SHORT_BINUNICODE) only if the opcode of the first use was short, because a reader of protocol 2
 * may refuse SHORT_BINUNICODE. The lengths of frames are computed again.
 *
 * Example: in {"m.w": 1, "x": "m.w"}, the key "m.w" becomes "w".
 *
 *   before                             after
 *   PROTO 2, EMPTY_DICT, BINPUT 0      unchanged
 *   MARK                               unchanged
 *   BINUNICODE "m.w", BINPUT 1         BINUNICODE "w", BINPUT 1    the change is at this opcode
 *   BININT1 1                          unchanged
 *   BINUNICODE "x", BINPUT 2           unchanged
 *   BINGET 1                           BINUNICODE "m.w"            this later use keeps its text
 *   SETITEMS, STOP                     unchanged
 *
 * Errors: GT_EINVAL if the opcode at the offset of a change does not put a string on the stack.
 * GT_ENOTSUP if no opcode that contains the text can replace that opcode. GT_ENOMEM.
 */
int gt_pickle_edit(unsigned char **out, size_t *out_size, const unsigned char *bytes, size_t size,
    const struct gt_pickle_layout *layout, const struct gt_pickle_change *changes, size_t count,
    struct gt_err *err);

/* ---- globals that PyTorch loads (pickle/globals.c) ---- */

/* How torch.load(weights_only=True) treats a global. */
enum gt_global_verdict {
	GT_GLOBAL_ALLOWED, /* in the list of globals that PyTorch allows */
	/* refused, but not known to be dangerous; for example a class of a model or of a library */
	GT_GLOBAL_UNLISTED,
	/* refused: it can run commands or code, or open files; no checkpoint needs it */
	GT_GLOBAL_DANGEROUS
};

/* Classify a global, "module.name". Names of Python 2 are understood ("__builtin__.set"). */
enum gt_global_verdict gt_global_classify(const char *name);

#endif
