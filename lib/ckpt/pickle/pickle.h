/* pickle.h - private: read Python pickles without running their code; write and edit them. */
#ifndef GT_CKPT_PICKLE_PICKLE_H
#define GT_CKPT_PICKLE_PICKLE_H

#include "lib/base/buf.h"
#include "lib/base/index.h"
#include "lib/ckpt/ckpt.h"
#include "lib/ckpt/pickle/ops.h"

/*
 * A pickle is a program for a small stack machine. gtrain executes its opcodes, but only builds a
 * tree: it stores the name and the arguments of a call instead of calling. pickle/read.c lists the
 * opaque nodes.
 */

/*
 * An opcode that puts a string on the stack: the first has the text, later ones fetch it.
 * gt_tree_item.key_at and value_at are offsets of uses.
 */
struct gt_pickle_use {
	/* at: offset of the opcode in the pickle, in bytes; length: bytes of opcode and operand */
	size_t at, length;
	/* the node of the string; all uses of a string have the same node */
	const struct gt_tree *string;
};

/* The uses of strings and the FRAME opcodes of a pickle, for gt_pickle_edit(). */
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
 * Read a pickle into a tree in the arena that has passed gt_tree_check(). Set *used to its length.
 * `hooks` may be NULL.
 */
int gt_pickle_read(struct gt_tree **out, struct gt_arena *arena, const unsigned char *bytes,
    size_t size, size_t *used, const struct gt_pickle_hooks *hooks, struct gt_err *err);

/*
 * Read a pickle at offset `at` of a file. If `copy` is not NULL, set *copy to a copy of its bytes,
 * in the arena.
 */
int gt_pickle_read_file(struct gt_tree **out, struct gt_arena *arena, const struct gt_mapping *map,
    uint64_t at, const unsigned char **copy, size_t *used, const struct gt_pickle_hooks *hooks,
    struct gt_err *err);

/*
 * Convert a NumPy array into a tensor that borrows its bytes; NULL if the node is no array of a
 * known dtype. GT_EFORMAT: it has too few bytes.
 */
int gt_pickle_numpy(
    struct gt_tree **out, const struct gt_tree *node, struct gt_arena *arena, struct gt_err *err);

/*
 * If the tree has a state_dict of NumPy arrays and none of tensors, replace arrays in dicts by
 * tensors.
 */
int gt_pickle_state_dict(struct gt_tree *root, struct gt_arena *arena, struct gt_err *err);

/* Describe a NumPy scalar as a tensor that borrows its bytes. Return false for other nodes. */
bool gt_pickle_numpy_scalar(
    struct gt_tree_tensor *out, struct gt_storage *storage, const struct gt_tree *node);

struct gt_pickle_writer;
/*
 * A function that writes a tensor. Each file format has its own function, because pickles have no
 * opcode for tensors.
 */
typedef int gt_pickle_tensor(
    struct gt_pickle_writer *w, const struct gt_tree_tensor *t, struct gt_err *err);

/* Return whether `text` can name a module or a class: not empty, no control characters. */
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
 * Write a checked tree as a pickle. The caller frees *bytes. GT_ENOTSUP: protocol 2 has no such
 * value.
 */
int gt_pickle_write(struct gt_pickle_writer *w, const struct gt_tree *root, char **bytes,
    size_t *size, struct gt_err *err);

/*
 * Functions for gt_pickle_tensor. `text` of put_word and `name` ("module\nname\n") of put_global
 * must outlive `w`. gt_pickle_write() returns errors.
 */
void gt_pickle_put_op(struct gt_pickle_writer *w, enum gt_pickle_op op);
void gt_pickle_put_bool(struct gt_pickle_writer *w, bool value);
void gt_pickle_put_int(struct gt_pickle_writer *w, int64_t value);
void gt_pickle_put_text(struct gt_pickle_writer *w, const char *text, size_t length);
void gt_pickle_put_global(struct gt_pickle_writer *w, const char *name);
void gt_pickle_put_word(struct gt_pickle_writer *w, const char *text);
void gt_pickle_put_ordered_dict(struct gt_pickle_writer *w); /* write an empty OrderedDict */

/* Write a node, or fetch it from the memo if it was written before. */
int gt_pickle_put_node(struct gt_pickle_writer *w, const struct gt_tree *node, struct gt_err *err);

/* Write a class "module.name", split at the last dot. GT_ENOTSUP: another form. */
int gt_pickle_put_class(struct gt_pickle_writer *w, const char *name, struct gt_err *err);

/* ---- change strings and keep every other byte (pickle/edit.c) ---- */

/* A change: the string that the opcode at offset `at` puts on the stack becomes `to`. */
struct gt_pickle_change {
	size_t at;
	const char *to; /* UTF-8 */
};

/*
 * Write a pickle again, with `count` changes sorted by `at`. The caller frees *out. GT_EINVAL: no
 * string is at the offset. GT_ENOTSUP: no opcode can hold the text.
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

/* Return whether a global belongs to the metadata of PyTorch's distributed checkpoints, which
 * PyTorch loads without restrictions. */
bool gt_global_is_of_dcp(const char *name);

#endif
