/* ckpt.h - checkpoints of any format as trees: read without running them, searched, written. */
#ifndef GT_CKPT_CKPT_H
#define GT_CKPT_CKPT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/base/file.h"
#include "lib/base/index.h"
#include "lib/base/mem.h"
#include "lib/device/dtype.h"

/*
 * A checkpoint is a tree of dicts, lists, tuples, scalars, strings and tensors. Other objects are
 * kept as their description. This module reads and writes such trees; it knows nothing of models or
 * graphs. Nothing in a file is executed: callables in a pickle are names, which are compared and
 * never called. The other operations on checkpoints have headers of their own: edit.h, convert.h,
 * select.h, merge.h, inventory.h, stats.h, diff.h, verify.h; write.h writes any format.
 */

enum gt_tree_kind {
	GT_TREE_NONE,
	GT_TREE_BOOL,
	GT_TREE_INT,
	GT_TREE_FLOAT,
	GT_TREE_STRING,
	GT_TREE_LIST,
	GT_TREE_TUPLE,
	GT_TREE_DICT,
	GT_TREE_TENSOR,
	/*
	 * Any other value, kept by the name of its class, which is never imported: objects, classes
	 * and functions themselves, sets, bytes, integers beyond 64 bits, complex numbers, tensors
	 * that are sparse, quantised or of a subclass, and "(cycle)".
	 */
	GT_TREE_OPAQUE
};

enum { GT_TREE_MAX_DIMS = 32 };

/* The bytes of one or more tensors. */
struct gt_storage {
	const void *bytes; /* borrowed: from a file's mapping, or the caller's memory */
	size_t size_bytes;
	const char *key;      /* torch's name for it; "" where the format has none */
	const char *location; /* "cpu", "cuda:0": where it was saved from */
	bool swapped;         /* the bytes have the other endianness */

	/*
	 * The place of the bytes in the file, from which a caller can copy them without reading
	 * them. map is NULL if they are only in memory.
	 */
	const struct gt_mapping *map;
	uint64_t file_offset;

	bool has_crc; /* the file contains the CRC-32 of the bytes */
	uint32_t crc;
	atomic_bool checked; /* gt_storage_check() has compared them */
	const char *name;    /* name of the record or tensor, for messages */
};

struct gt_tree_tensor {
	enum gt_dtype dtype;
	int ndim;
	const int64_t *shape, *stride; /* [ndim], in elements */
	int64_t offset;                /* offset of the first element in its storage, in elements */
	struct gt_storage *storage;    /* all elements lie inside it; other tensors may share it */
	bool requires_grad;
	bool parameter; /* an nn.Parameter */
	/* "torch.FloatStorage" if this is not a tensor but the storage itself, read as a tensor of
	 * one dimension; or NULL */
	const char *storage_class;
	/* attributes that Python code has set: a dict, or a tuple of dict and slots; or NULL */
	struct gt_tree *attributes;
};

/* How an opaque object is created, before its items and its state are set. */
enum gt_tree_made {
	GT_TREE_CALLED,       /* class(*args); the class may be any callable */
	GT_TREE_NEW,          /* class.__new__(class, *args) */
	GT_TREE_NEW_KEYWORDS, /* the same; the last of args is a dict of keyword arguments */
	/* no call: a storage that gtrain does not interpret; args is its id */
	GT_TREE_STORAGE
};

struct gt_tree {
	enum gt_tree_kind kind;
	unsigned visits : 24, height : 8; /* used by gt_tree_check() while it runs; else 0 */
	union {
		bool boolean;
		int64_t integer;
		double real;
		struct {
			const char *bytes; /* UTF-8 (from a pickle perhaps with single
			                    * surrogates), zero-terminated */
			size_t length;
		} string;
		/* lists and tuples do not use `key`; items of dicts are in the file's order */
		struct {
			struct gt_tree_item *items;
			size_t count, capacity;
			/* of a dict: `_metadata` of a state_dict; or NULL */
			struct gt_tree *attributes;
			bool ordered; /* of a dict: an OrderedDict */
			bool is_size; /* of a tuple: a torch.Size */
			/* Of a dict: a defaultdict's arguments, a tuple of a class at most; NULL */
			const struct gt_tree *defaults;
		} seq;
		struct gt_tree_tensor tensor;
		struct {                        /* NULL where there is none */
			const char *class_name; /* "torch.nn.modules.linear.Linear" */
			/* a tuple; NULL: the class itself ("torch.float32") */
			struct gt_tree *args;
			struct gt_tree *items; /* of a subclass of dict or list: its entries */
			struct gt_tree *state; /* the object's attributes, mostly a dict */
			enum gt_tree_made made;
		} opaque;
	};
};

struct gt_tree_item {
	const struct gt_tree *key; /* a string or an integer in practice */
	struct gt_tree *value;
	/*
	 * For trees read from a pickle: the byte of the opcode that put the key or the value on the
	 * stack. An edit of that string starts there (see pickle.h).
	 */
	size_t key_at, value_at;
};

/* ---- reading ---- */

struct gt_ckpt;

/*
 * Open a checkpoint, which is a torch file (zip or legacy), a safetensors file, numpy's arrays (npz
 * or npy), Hugging Face's index of shards, or a folder with one of the last (see shards.h), and
 * check its headers: the bytes of tensors are not touched. The files are mapped: tensors borrow the
 * mappings, and are valid until gt_ckpt_close(). Tensor bytes are checked when they are read, by
 * gt_ckpt_tensor_read() or gt_storage_check(), where the file has checksums: a zip has, and so has
 * a safetensors file that gtrain wrote; a legacy file has none.
 *
 * The root of safetensors and npz is a dict of tensors. Its attribute `__metadata__`, if it has
 * one, is the dict of strings that a safetensors header holds under that name.
 *
 * The tree is safe to recurse: no deeper than 128, without cycles (a reference to an enclosing
 * object is an opaque "(cycle)"); no dict has a string or an integer as a key twice (keys of other
 * kinds are not compared); parts that the file mentions twice are shared. Errors name the file, and
 * the byte or the record that is wrong: GT_EFORMAT for a file that is cut, damaged or not a
 * checkpoint, in some cases with a hint.
 */
int gt_ckpt_open(struct gt_ckpt **out, const char *path, struct gt_err *err);
/* The same for a file. If file.folder is set, the file and its shards must lie in this folder. */
int gt_ckpt_open_at(struct gt_ckpt **out, struct gt_file_name file, struct gt_err *err);
/*
 * Open a file that Python's pickle wrote with any protocol. Some data sets are such files. The root
 * is the pickled object. In a dict, numpy arrays become tensors, and keys that are bytes become
 * strings: Python 3 writes such keys when it saves a pickle of Python 2 again. The whole file is
 * read into memory and takes about twice its size.
 */
int gt_ckpt_open_pickle(struct gt_ckpt **out, const char *path, struct gt_err *err);
struct gt_tree *gt_ckpt_root(const struct gt_ckpt *ckpt);
/* "torch-zip", "torch-legacy", "torchscript", "safetensors", "safetensors-shards", "torch-shards",
 * "npz", "npy", "pickle". */
const char *gt_ckpt_format(const struct gt_ckpt *ckpt);
void gt_ckpt_close(struct gt_ckpt *ckpt);

/* The value under a string or an integer key of a dict; NULL if there is none, or if `dict` is not
 * a dict. */
const struct gt_tree *gt_tree_get(const struct gt_tree *dict, const char *key);
const struct gt_tree *gt_tree_get_int(const struct gt_tree *dict, int64_t key);

/* Read a scalar, with conversion between bool, int and float. Other kinds and NULL return false and
 * leave *out unchanged. A float is converted to an integer only if it is whole. A 0-dimensional
 * tensor counts as a scalar (torch.optim keeps `step` as one). */
bool gt_tree_as_int(const struct gt_tree *tree, int64_t *out);
bool gt_tree_as_float(const struct gt_tree *tree, double *out);

/*
 * The same, but a damaged tensor is an error. Returns 1 and sets *out; 0 if there is no such value;
 * or an error: GT_EFORMAT if a tensor's bytes differ from their checksum, GT_EIO.
 */
int gt_tree_read_int(const struct gt_tree *tree, int64_t *out, struct gt_err *err);
int gt_tree_read_float(const struct gt_tree *tree, double *out, struct gt_err *err);

/* Compare the bytes of a storage with the CRC-32 in the file. The first call reads all bytes; later
 * calls read none. Returns 0 if the file has no CRC-32, and GT_EFORMAT if it differs. Any thread
 * may call this. */
int gt_storage_check(struct gt_storage *storage, struct gt_err *err);

/* Elements of a tensor. */
int64_t gt_ckpt_tensor_count(const struct gt_tree_tensor *t);

/*
 * Copy a tensor to contiguous memory dst of gt_ckpt_tensor_count() elements, following its strides,
 * in the host's byte order. Floating-point types, also float8, can be converted to each other, with
 * one rounding to nearest even. Integers and bool (0 or 1) can be converted to each other. Complex
 * types are not converted. GT_ENOTSUP for other pairs of types, GT_EINVAL for an integer that does
 * not fit. gt_storage_check() is called first.
 */
int gt_ckpt_tensor_read(
    const struct gt_tree_tensor *t, enum gt_dtype to, void *dst, struct gt_err *err);

/* ---- the state_dict inside ---- */

struct gt_state_entry {
	const char *name; /* without `module.` and `_orig_mod.`, except after _find_as_is() */
	const struct gt_tree_tensor *tensor;
};

struct gt_state_dict {
	struct gt_state_entry *entries; /* in the file's order */
	size_t count;
	const struct gt_tree *node; /* the dict or the module where it was found */
	size_t left_out;            /* number of tensors of kinds that gtrain does not interpret */
	/* one line: the key where it was found and the prefix that was removed; or "" */
	const char *note;
	struct gt_index by_name; /* the entries */
	struct gt_arena arena;
};

/*
 * Find the state_dict in a tree. In this order:
 *   1. a pickled nn.Module, or one of TorchScript: the dict its state_dict() would return;
 *   2. a dict whose values are all tensors (or None) is one;
 *   3. a dict that has one under a wrapper's key, tried in this order, nested: `model`,
 *      `state_dict`, `model_state_dict`, `net`, `module`, `network`, `model_state`, `weights`,
 *      `params` and rarer ones; averaged copies (`ema`, `model_ema`, ...) last; the note names
 *      others that are there;
 *   4. a dict with some tensors is one, and its other values (`_extra_state`) are left out;
 *   5. a dict with a single value that has one;
 *   6. of the first four items of a tuple or list, such as (model, optimizer), the first that
 *      has one.
 * It looks no deeper than eight levels, steps into lists included. The state of an optimizer is not
 * a state_dict. Tensors that are not plain ones (quantised, sparse) are left out; the note counts
 * them. Then all prefixes `module.` and `_orig_mod.` are removed from every key. Two keys that
 * become one are an error. The note reads "state_dict found under 'state_dict'; 'module.' taken off
 * 65 keys; saved on cuda:0". The tensors are borrowed from the tree. Errors: GT_EFORMAT, with the
 * keys of the tree.
 */
int gt_state_dict_find(struct gt_state_dict *out, const struct gt_tree *root, struct gt_err *err);
/* The same, but names stay as they are in the file, for callers that rewrite it. */
int gt_state_dict_find_as_is(
    struct gt_state_dict *out, const struct gt_tree *root, struct gt_err *err);
const struct gt_tree_tensor *gt_state_dict_get(const struct gt_state_dict *sd, const char *name);
void gt_state_dict_release(struct gt_state_dict *sd);

/*
 * A text that a file stores with its weights: an entry of `__metadata__`, a dict of strings.
 * Programs ignore entries that they do not know. safetensors keeps it in the header (README of the
 * format, "Format"); in a file of PyTorch it is an attribute of the OrderedDict of weights.
 * Borrowed; NULL where there is none.
 */
const char *gt_state_dict_metadata(const struct gt_state_dict *sd, const char *name);

/* ---- building and writing ---- */

/* Trees for writing live in an arena; NULL with err set if memory runs out. Strings are copied,
 * tensor data is borrowed until the tree is written: shape[ndim], contiguous, in the host's byte
 * order; shape may be NULL where ndim is 0, a scalar tensor. Each tensor has a storage of its own;
 * those with the same `data` and dtype are written as one. */
struct gt_tree *gt_tree_none(struct gt_arena *a, struct gt_err *err);
struct gt_tree *gt_tree_bool(struct gt_arena *a, bool value, struct gt_err *err);
struct gt_tree *gt_tree_int(struct gt_arena *a, int64_t value, struct gt_err *err);
struct gt_tree *gt_tree_float(struct gt_arena *a, double value, struct gt_err *err);
struct gt_tree *gt_tree_string(struct gt_arena *a, const char *value, struct gt_err *err);
struct gt_tree *gt_tree_list(struct gt_arena *a, struct gt_err *err);
struct gt_tree *gt_tree_tuple(struct gt_arena *a, struct gt_err *err);
struct gt_tree *gt_tree_dict(struct gt_arena *a, struct gt_err *err);
struct gt_tree *gt_tree_tensor(struct gt_arena *a, enum gt_dtype dtype, int ndim,
    const int64_t *shape, const void *data, struct gt_err *err);

/* Add to a dict a text that gt_state_dict_metadata() returns. It becomes an OrderedDict, as
 * Python's dict has no attributes. Errors: GT_ENOMEM. */
int gt_tree_set_metadata(struct gt_tree *dict, const char *name, const char *text,
    struct gt_arena *a, struct gt_err *err);

/* Append to a dict, list or tuple. If `value` is NULL, an earlier call failed and set err; this
 * call then fails, too. So calls can be nested: gt_tree_set(d, "lr", gt_tree_float(a, 0.1, err), a,
 * err). */
int gt_tree_set(struct gt_tree *dict, const char *key, struct gt_tree *value, struct gt_arena *a,
    struct gt_err *err);
int gt_tree_set_int(struct gt_tree *dict, int64_t key, struct gt_tree *value, struct gt_arena *a,
    struct gt_err *err);
int gt_tree_append(
    struct gt_tree *seq, struct gt_tree *value, struct gt_arena *a, struct gt_err *err);

/*
 * Write a tree as torch.save does since 1.6: a zip archive, records stored and aligned to 64 bytes,
 * CRCs, zip64 where needed, loadable by torch.load(weights_only=True), every storage on the CPU;
 * with a digest for each tensor (digest.h). A dict is written as dict, or as OrderedDict if it was
 * read as one or has attributes. Tensors of the same data pointer and dtype share one storage, as
 * tied weights do; bytes at the ends of a storage that belong to no tensor are left out.
 *
 * Every tree that was read can be written: strides, sharing, parameters and objects of unknown
 * classes stay as they are. One exception: a defaultdict whose default_factory is not a class
 * becomes a dict. GT_ENOTSUP for an object that contains itself.
 *
 * PyTorch 1.13's restricted unpickler knows no float outside tensors (its list of opcodes lacks
 * BINFLOAT, later ones have it): there, weights_only=True takes a bare state_dict, not a
 * checkpoint with an optimizer's settings.
 *
 * The file appears whole or not at all: temporary name in the same folder, fsync, rename, fsync of
 * the folder. The bytes depend only on the tree, not on the clock.
 */
int gt_torch_save(struct gt_file_name file, const struct gt_tree *root, struct gt_err *err);

#endif
