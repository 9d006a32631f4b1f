/* ckpt.h - read, search and write checkpoints as trees; nothing in a file is executed. */
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
 * A checkpoint is a tree of dicts, lists, tuples, scalars, strings and tensors. Objects of other
 * classes are kept as a description: the name of the class and its arguments. This module reads and
 * writes such trees; it knows nothing of models or graphs. Nothing in a file is executed: a pickle
 * names functions and classes, and gtrain compares these names but never calls them. The functions
 * of lib/ckpt/write.h write a tree in any format that gtrain can write. Other operations have their
 * own headers: lib/ckpt/edit/edit.h, and, in the folder lib/ckpt/tools, the headers convert.h,
 * select.h, merge.h, inventory.h, stats.h, diff.h and verify.h.
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
	 * Any other value: an object, class, function, set, bytes, a complex number, or an integer
	 * beyond 64 bits. gtrain keeps the name of its class, but never imports the class. Tensors
	 * that are sparse, quantized or of a subclass are opaque, too. An opaque node of class
	 * "(cycle)" replaces a reference to an enclosing object, see gt_ckpt_open().
	 */
	GT_TREE_OPAQUE
};

enum { GT_TREE_MAX_DIMS = 32 }; /* maximum number of dimensions of a tensor */

/* A block of bytes that holds the elements of one or more tensors. */
struct gt_storage {
	/* borrowed from the mapping of a file, from an arena (decompressed bytes) or from memory of
	 * the caller */
	const void *bytes;
	size_t size_bytes;
	/*
	 * If not NULL, the bytes are not in memory: read(self, offset, out, size_bytes) writes the
	 * bytes [offset, offset + size_bytes) to `out`. So a tensor can be written that never
	 * exists as a whole. Several threads may call read() at once. Tensors of such a storage
	 * must be contiguous.
	 */
	int (*read)(void *self, uint64_t offset, void *out, size_t size_bytes, struct gt_err *err);
	void *self;
	/* the name of the storage in a torch file; "" in formats without such names */
	const char *key;
	const char *location; /* the device of the storage when it was saved: "cpu", "cuda:0" */
	/* The type of the file that read() decodes, such as "q4_K" of GGUF; NULL: the file has the
	 * elements themselves. */
	const char *packed;
	bool swapped; /* the byte order of the bytes is not that of the host */

	/*
	 * `map` maps the file that contains the bytes, and `file_offset` is their offset in this
	 * file. If `map` is NULL, no file contains these bytes; for example, they were
	 * decompressed. With these fields, a caller can copy the bytes to another file without
	 * reading them into memory (lib/base/copy.h).
	 */
	const struct gt_mapping *map;
	uint64_t file_offset;

	bool has_crc; /* the file contains a CRC-32 of the bytes; `crc` is this CRC-32 */
	uint32_t crc;
	atomic_bool checked; /* the bytes have been compared with `crc` and agree with it */
	const char *name;    /* name of the zip record or the tensor, for messages */
};

/* A type of elements that gtrain carries by their bytes (lib/ckpt/tree/raw.h). */
struct gt_raw_type;

struct gt_tree_tensor {
	enum gt_dtype dtype;
	/* the type of the elements if `dtype` is GT_RAW8 to GT_RAW64, otherwise NULL */
	const struct gt_raw_type *raw;
	int ndim;
	const int64_t *shape, *stride; /* [ndim] each; strides are in elements */
	int64_t offset;                /* position of the first element in `storage`, in elements */
	struct gt_storage *storage;    /* contains all elements; other tensors may share it */
	bool requires_grad;
	bool parameter; /* the tensor is an nn.Parameter */
	/*
	 * Usually NULL. If the file holds a storage instead of a tensor, this is the class of the
	 * storage, such as "torch.FloatStorage". The storage is then read as a tensor of one
	 * dimension.
	 */
	const char *storage_class;
	/*
	 * Attributes that Python code has added to the tensor: a dict, or a tuple of a dict and the
	 * attributes of `__slots__`. NULL if there are none.
	 */
	struct gt_tree *attributes;
};

/* The call that creates an opaque object. The object's items and state are set after the call. */
enum gt_tree_made {
	GT_TREE_CALLED, /* class(*args); `class` may be any callable */
	GT_TREE_NEW,    /* class.__new__(class, *args) */
	/* class.__new__(class, *args, **kwargs); the last item of args is the dict kwargs */
	GT_TREE_NEW_KEYWORDS,
	/*
	 * No call: the object is a storage that gtrain does not interpret, and args is the id of
	 * the storage.
	 */
	GT_TREE_STORAGE,
	/* gtrain has not read the value: class_name describes it, and it cannot be written */
	GT_TREE_UNREAD
};

struct gt_tree {
	enum gt_tree_kind kind;
	/* used by gt_tree_check() (tree/tree.h) while it runs; otherwise 0 */
	unsigned visits : 24, height : 8;
	union {
		bool boolean;
		int64_t integer;
		double real;
		struct {
			/*
			 * UTF-8, zero-terminated. A string from a pickle may contain unpaired
			 * surrogates.
			 */
			const char *bytes;
			size_t length;
		} string;
		/*
		 * Dicts, lists and tuples. In lists and tuples, the `key` of each item is NULL.
		 * Items of a dict are in the order of the file.
		 */
		struct {
			struct gt_tree_item *items;
			size_t count, capacity;
			/*
			 * only in a dict: its attributes, such as `_metadata` of a state_dict; or
			 * NULL
			 */
			struct gt_tree *attributes;
			bool ordered; /* the dict is an OrderedDict */
			bool is_size; /* the tuple is a torch.Size */
			/*
			 * Only in a collections.defaultdict: the tuple of its arguments. The tuple
			 * is empty, or its only item is a class, the default_factory. Otherwise
			 * NULL.
			 */
			const struct gt_tree *defaults;
		} seq;
		struct gt_tree_tensor tensor;
		/*
		 * Opaque objects. If a pointer, except `args`, is NULL, the object does not have
		 * this part.
		 */
		struct {
			const char *class_name; /* "torch.nn.modules.linear.Linear" */
			/*
			 * The arguments, a tuple. If args is NULL, no call has created an object:
			 * the node is the class, function or constant class_name itself, such as
			 * "torch.float32".
			 */
			struct gt_tree *args;
			/* the entries, if the class derives from dict or list */
			struct gt_tree *items;
			struct gt_tree *state; /* the object's attributes, usually a dict */
			enum gt_tree_made made;
		} opaque;
	};
};

struct gt_tree_item {
	/* usually a string or an integer; NULL in lists and tuples */
	const struct gt_tree *key;
	struct gt_tree *value;
	/*
	 * Only in trees that were read from a pickle. A pickle is a list of instructions (opcodes)
	 * for a stack machine. `key_at` is the position of the opcode that pushes the key on the
	 * stack, and `value_at` is the position of the opcode that pushes the value. Positions are
	 * in bytes from the start of the pickle. If the key or the value is a string, an edit can
	 * replace the string by changing its opcode (see pickle/pickle.h).
	 */
	size_t key_at, value_at;
};

/* ---- reading ---- */

struct gt_ckpt;

/*
 * Open a checkpoint and check its headers. `path` names one of these:
 *   - a torch file, which torch.save() wrote in its zip format or its legacy format;
 *   - a safetensors file;
 *   - NumPy arrays, npz or npy;
 *   - a GGUF file of llama.cpp; quantized tensors are float32, decoded while they are read;
 *   - Hugging Face's index of a checkpoint in several files, called shards (see
 *     safetensors/safetensors.h);
 *   - the .metadata of a distributed checkpoint of PyTorch;
 *   - a folder that contains one of these, a model.safetensors or a pytorch_model.bin, or a
 *     checkpoint of DeepSpeed (see gt_ckpt_in_folder() in format.h).
 * The bytes of tensors are not read yet. The files are mapped: tensors borrow the mappings and are
 * valid until gt_ckpt_close(). If the file has checksums, gt_ckpt_tensor_read() and
 * gt_storage_check() compare the bytes that they read with these checksums. Zip files have
 * checksums, and so have safetensors files that gtrain wrote; other files have none.
 *
 * The root of a safetensors or npz checkpoint is a dict of tensors. A safetensors header may
 * contain a dict of strings, named `__metadata__`. This dict becomes an attribute of the root. The
 * root of a GGUF file is the same; its metadata become strings, and of long arrays and of those of
 * strings only the size is kept.
 *
 * A function may recurse over the tree without further checks, because gt_ckpt_open() ensures that:
 *   - The tree is at most 128 levels deep.
 *   - It has no cycles. An opaque object of class "(cycle)" stands for a reference to an enclosing
 *     object.
 *   - No dict has the same string or the same integer as a key twice. Keys of other kinds are not
 *     compared.
 * A value that the file mentions twice is one shared node.
 *
 * Errors name the file, and the byte or the record that is wrong. GT_EFORMAT: the file is
 * truncated, damaged or not a checkpoint; some errors have a hint.
 */
int gt_ckpt_open(struct gt_ckpt **out, const char *path, struct gt_err *err);
/* Return whether a folder has a checkpoint that gt_ckpt_open() would open. The checkpoint is not
 * read, so it may be damaged. */
bool gt_ckpt_is_in(const char *folder);
/* Return whether a path ends as those of checkpoints and of their parts do: ".pth", ".safetensors",
 * ".index.json" and others. */
bool gt_ckpt_is_named(const char *path);
/* Return whether a file of a folder belongs to its checkpoint, by its name: model.safetensors,
 * pytorch_model.bin, an index of one of these, or a shard. */
bool gt_ckpt_is_part_name(const char *name);
/*
 * Open a checkpoint like gt_ckpt_open(). If file.folder is set, the path must be a file, and this
 * file and its shards must lie in that folder.
 */
int gt_ckpt_open_at(struct gt_ckpt **out, struct gt_file_name file, struct gt_err *err);
/*
 * Open a file that Python's pickle module wrote with any protocol. Some data sets are such files.
 * The root is the pickled object. If the root is a dict, its NumPy arrays become tensors. Python 3
 * turns strings into bytes if it loads a pickle of Python 2 with encoding="bytes". The result may
 * have been saved again as a pickle. So bytes become strings if they are a key of the root or an
 * item of a list in the root. The whole file is read into memory. The memory needed is about twice
 * the size of the file.
 */
int gt_ckpt_open_pickle(struct gt_ckpt **out, const char *path, struct gt_err *err);
/* Chooses among the arrays of an npz file. */
struct gt_ckpt_choice {
	/*
	 * names[i] is the name of an array of the file, i < count. The function sets wanted[i] to
	 * true for each array to read. The caller has set all elements of `wanted` to false. The
	 * names are valid until gt_ckpt_close(). If the function returns an error,
	 * gt_ckpt_open_arrays() returns this error.
	 */
	int (*choose)(
	    void *self, const char *const *names, size_t count, bool *wanted, struct gt_err *err);
	void *self;
};
/*
 * Open a file of NumPy arrays. `format`, "npz" or "npy", is the format that the caller expects. If
 * gtrain does not know the format of the file, the text of the error mentions `format`. But a file
 * of another known format is opened without an error, so the caller must compare gt_ckpt_format()
 * with `format`. If the file is an npz file, only the arrays that `choice` selects are read; the
 * other arrays may have types that gtrain does not know. If `choice` is NULL, all arrays are read.
 */
int gt_ckpt_open_arrays(struct gt_ckpt **out, const char *path, const char *format,
    const struct gt_ckpt_choice *choice, struct gt_err *err);
/* Return the root of the tree, borrowed. */
struct gt_tree *gt_ckpt_root(const struct gt_ckpt *ckpt);
/*
 * Return the name of the format: "torch-zip", "torch-legacy", "torchscript", "torch-export",
 * "safetensors", "safetensors-shards", "torch-shards", "dcp", "deepspeed", "npz", "npy", "gguf" or
 * "pickle".
 */
const char *gt_ckpt_format(const struct gt_ckpt *ckpt);
/* Return the settings that the file has beside its tensors, a dict of strings, or NULL: a GGUF file
 * has the model's and those of its tokenizer. */
const struct gt_tree *gt_ckpt_metadata(const struct gt_ckpt *ckpt);
void gt_ckpt_close(struct gt_ckpt *ckpt);

/*
 * Return the value under a string key or an integer key of a dict. Return NULL if there is no such
 * key, or if `dict` is not a dict.
 */
const struct gt_tree *gt_tree_get(const struct gt_tree *dict, const char *key);
const struct gt_tree *gt_tree_get_int(const struct gt_tree *dict, int64_t key);

/*
 * Read a scalar and convert it between bool, int and float. A 0-dimensional tensor counts as a
 * scalar, because torch.optim keeps `step` as such a tensor. A NumPy scalar counts, too, because
 * training loops set a learning rate from an array. A float is converted to an integer only if its
 * value is a whole number. For other kinds and for NULL, return false and leave *out unchanged.
 */
bool gt_tree_as_int(const struct gt_tree *tree, int64_t *out);
bool gt_tree_as_float(const struct gt_tree *tree, double *out);

/*
 * Read a scalar like gt_tree_as_int() and gt_tree_as_float(), but report a damaged tensor as an
 * error. Return 1 and set *out; or 0 if the value is not a scalar that can be converted; or an
 * error: GT_EFORMAT if the bytes of a tensor differ from their checksum, GT_EIO.
 */
int gt_tree_read_int(const struct gt_tree *tree, int64_t *out, struct gt_err *err);
int gt_tree_read_float(const struct gt_tree *tree, double *out, struct gt_err *err);

/*
 * Compare the bytes of a storage with the CRC-32 in the file. The first call reads all bytes. After
 * a success, later calls read nothing and return 0. Return 0 also if the file has no CRC-32.
 * Errors: GT_EFORMAT if the CRC-32 differs. Any thread may call this function.
 */
int gt_storage_check(struct gt_storage *storage, struct gt_err *err);

/* Return the number of elements of a tensor. */
int64_t gt_ckpt_tensor_count(const struct gt_tree_tensor *t);

/*
 * Return the name of the type of the elements: PyTorch's name, such as "float32" or
 * "float8_e8m0fnu". If PyTorch has no such type, return the name that safetensors has for it.
 */
const char *gt_ckpt_tensor_type(const struct gt_tree_tensor *t);

/*
 * Copy a tensor to `dst`, contiguous memory for gt_ckpt_tensor_count() elements of type `to`. The
 * elements are in row-major order and in the host's byte order. gt_storage_check() is called first.
 * Conversions:
 *   - between floating-point types, including float8, with one rounding to nearest even;
 *   - between integers and bool (0 or 1).
 * Complex elements, and elements of a type that gtrain does not compute with, are copied only to
 * their own type. Errors: GT_ENOTSUP for other pairs of types,
 * GT_EINVAL for an integer that does not fit into `to`, and the errors of gt_storage_check().
 */
int gt_ckpt_tensor_read(
    const struct gt_tree_tensor *t, enum gt_dtype to, void *dst, struct gt_err *err);

/*
 * Convert two tensors to the type `as`, as gt_ckpt_tensor_read() does, and compare the results.
 * Return 1 if the tensors have the same shape and all converted elements have the same bits.
 * Otherwise return 0, or an error of gt_ckpt_tensor_read(). If both tensors consist of the same
 * elements of the same storage, return 1 without reading them.
 */
int gt_ckpt_tensor_same(const struct gt_tree_tensor *a, const struct gt_tree_tensor *b,
    enum gt_dtype as, struct gt_err *err);

/* ---- the state_dict in a checkpoint ---- */

struct gt_state_entry {
	/*
	 * The name of the tensor: without the prefixes of wrappers, such as `module.`, if
	 * gt_state_dict_find() was called, as in the file if gt_state_dict_find_as_is() was
	 * called.
	 */
	const char *name;
	const struct gt_tree_tensor *tensor;
};

struct gt_state_dict {
	struct gt_state_entry *entries; /* in the order of the file */
	size_t count;
	const struct gt_tree *node; /* the dict or the module that has the tensors */
	/* number of tensors without an entry, because gtrain does not interpret their kind */
	size_t left_out;
	/*
	 * one line that says where the state_dict was found and which prefixes were removed; or ""
	 */
	const char *note;
	struct gt_index by_name; /* index of `entries` by name */
	struct gt_arena arena;
};

/*
 * Find the state_dict in a tree. A state_dict is a dict of a model's tensors, with their names as
 * keys. These rules are tried in this order:
 *   1. A pickled nn.Module, or a TorchScript module: take the dict that its state_dict() would
 *      return.
 *   2. A dict that contains only tensors and other values that a state_dict may have, such as None
 *      and `_extra_state` (struct gt_content, tree/classify.h): take it.
 *   3. A dict with one of these keys: search the value under that key, by the same rules. The keys
 *      are tried in this order: `model`, `state_dict`, `model_state_dict`, `net`, `module`,
 *      `network`, `model_state`, `weights`, `params` and rarer ones; last, the keys of averaged
 *      copies (`ema`, `model_ema`, ...). If other keys of this list have a state_dict, too, the
 *      note names these keys.
 *   4. A dict that contains some tensors: take it, and leave out its other values.
 *   5. A dict with exactly one value that contains a state_dict: take the state_dict in this value.
 *      Only values that have a string as key, and are a dict or a module, are searched.
 *   6. A tuple or list, such as (model, optimizer): look at its first four items, and take the
 *      state_dict in the first of these items that contains one.
 * The search goes at most eight levels deep; a list counts as a level. The state of an optimizer is
 * not a state_dict. Tensors of special kinds (quantized, sparse) are left out; the note counts
 * them. A tensor is also left out if its key is not a string or contains a zero byte; the note
 * lists the first of these keys, and left_out does not count them.
 *
 * Then the prefixes of wrappers are removed from every key: `module.` at the front, and
 * `_orig_mod.`, `_fsdp_wrapped_module.` and `_checkpoint_wrapped_module.` anywhere. If two keys
 * become equal, this is an error. Example of a note: "state_dict found under 'state_dict';
 * 'module.' removed from 65 keys; saved on cuda:0".
 *
 * The tensors are borrowed from the tree. Errors: GT_EFORMAT if there is no state_dict; the message
 * lists keys of the root. GT_EFORMAT also if two keys become equal; GT_ENOTSUP if there are several
 * state_dicts and none is under a key of rule 3, such as those of a generator and a discriminator;
 * GT_ENOMEM.
 */
int gt_state_dict_find(struct gt_state_dict *out, const struct gt_tree *root, struct gt_err *err);
/*
 * Find the state_dict like gt_state_dict_find(), but keep the names as they are in the file. This
 * is for callers that rewrite the file.
 */
int gt_state_dict_find_as_is(
    struct gt_state_dict *out, const struct gt_tree *root, struct gt_err *err);
/* Return `name` without the prefixes of wrappers, as gt_state_dict_find() removes them. The result
 * is `name` itself or in the arena; NULL with err set if memory runs out. */
const char *gt_state_dict_bare_name(const char *name, struct gt_arena *arena, struct gt_err *err);
/* Return the tensor with this name, or NULL. */
const struct gt_tree_tensor *gt_state_dict_get(const struct gt_state_dict *sd, const char *name);
void gt_state_dict_release(struct gt_state_dict *sd);

/*
 * Return a text that the file stores together with its weights: the entry `name` of a dict of
 * strings called `__metadata__`. Programs ignore entries of this dict that they do not know. In a
 * safetensors file the dict is in the header (safetensors/safetensors.h). In a file of PyTorch the
 * dict is an attribute of the OrderedDict of weights. The text is borrowed; it is NULL if there is
 * no such entry.
 */
const char *gt_state_dict_metadata(const struct gt_state_dict *sd, const char *name);

/* ---- building and writing ---- */

/*
 * Create nodes of a tree that is to be written. The nodes are in the arena. Strings are copied.
 * Return NULL with err set if memory runs out.
 *
 * gt_tree_tensor(): `data` is borrowed until the tree is written. It is contiguous and in the
 * host's byte order, with the shape shape[ndim]. If ndim is 0 (a scalar tensor), shape may be NULL.
 * Each tensor has a storage of its own. Storages with the same `data` and dtype are written as one.
 */
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

/*
 * Add a text to the metadata of a dict: gt_state_dict_metadata() returns this text for the same
 * `name`. The dict becomes an OrderedDict, because a plain dict of Python cannot have attributes.
 * Errors: GT_ENOMEM.
 */
int gt_tree_set_metadata(struct gt_tree *dict, const char *name, const char *text,
    struct gt_arena *a, struct gt_err *err);

/*
 * Append a value to a dict, list or tuple. If `value` is NULL, the call that should have created
 * the value failed and has set err. Then this call fails, too. So calls can be nested, and only the
 * result of the outer call must be checked:
 *
 *   gt_tree_set(d, "lr", gt_tree_float(a, 0.1, err), a, err)
 */
int gt_tree_set(struct gt_tree *dict, const char *key, struct gt_tree *value, struct gt_arena *a,
    struct gt_err *err);
int gt_tree_set_int(struct gt_tree *dict, int64_t key, struct gt_tree *value, struct gt_arena *a,
    struct gt_err *err);
int gt_tree_append(
    struct gt_tree *seq, struct gt_tree *value, struct gt_arena *a, struct gt_err *err);

/*
 * Write a tree as torch.save() does since PyTorch 1.6. The file is a zip archive that
 * torch.load(weights_only=True) can load:
 *   - Records are stored without compression, aligned to 64 bytes, with CRC-32, and with zip64
 *     fields where needed.
 *   - Every storage is on the CPU.
 *   - The archive also contains a digest, which is a checksum, of each tensor (tools/digest.h).
 *   - A dict is written as an OrderedDict if it was read as one or has attributes, otherwise as a
 *     dict.
 *   - Tensors with the same data pointer and dtype share one storage, as tied weights do. Bytes at
 *     the start and at the end of a storage are not written if no tensor uses them.
 *
 * If the tree was read from a file, its strides, shared storages, parameters and objects of unknown
 * classes are kept, with two exceptions. A defaultdict becomes a dict if it was called with
 * anything but one class; it becomes an OrderedDict if it has attributes. Errors: GT_ENOTSUP for an
 * object that contains itself, and for a value that protocol 2 of pickle cannot express; GT_EIO.
 *
 * The unpickler that PyTorch 1.13 uses for weights_only=True cannot read a float outside a tensor,
 * because it does not know the opcode BINFLOAT. Later versions know it. So version 1.13 loads a
 * bare state_dict with weights_only=True, but not a checkpoint with the settings of an optimizer.
 *
 * The file appears whole or not at all: it is written under a temporary name in the same folder,
 * followed by fsync(), a rename, and fsync() of the folder. The bytes of the file depend only on
 * the tree, not on the clock.
 */
int gt_torch_save(struct gt_file_name file, const struct gt_tree *root, struct gt_err *err);

#endif
