/* fuzz.h - fuzz targets: each takes bytes and uses them as users use such a file. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>

#include "lib/ckpt/ckpt.h"

/*
 * A target must survive any bytes: no crash, no memory by sizes that the file claims, no time that
 * grows faster than the file. It aborts if the tree that it read breaks a promise of ckpt.h. The
 * same functions run under libFuzzer (make fuzz) and, on earlier findings, in make check
 * (replay.c).
 */
typedef void fuzz_target(const unsigned char *bytes, size_t size);

fuzz_target fuzz_pickle, fuzz_zip, fuzz_legacy, fuzz_safetensors, fuzz_npz, fuzz_race,
    fuzz_tokenizer, fuzz_csv, fuzz_image, fuzz_exported, fuzz_sequence, fuzz_dcp, fuzz_gguf,
    fuzz_onnx, fuzz_jinja, fuzz_keys;

/* Abort, naming the broken promise. */
#define fuzz_require(condition) ((condition) ? (void)0 : fuzz_abort(__FILE__, __LINE__, #condition))
_Noreturn void fuzz_abort(const char *file, int line, const char *what);

/* A failure has a negative code and a text. */
void fuzz_check_error(int rc, const struct gt_err *err);

/* Visit the whole tree as every walker of ours does, and read its small tensors. */
void fuzz_walk(const struct gt_tree *root);

/* Walk, find the state_dict, ask it for each of its names. */
void fuzz_use(const struct gt_tree *root);

struct gt_pickle_layout;

/*
 * Edit some keys of the pickle that `root` and `layout` were read from, by torch's hooks, and
 * compare the tree that is then read with the expected one.
 */
void fuzz_splice(const struct gt_tree *root, const unsigned char *bytes, size_t size,
    const struct gt_pickle_layout *layout);

/* List the contents of an open checkpoint, with statistics, and compute edits of it. */
void fuzz_commands(const struct gt_ckpt *ckpt);

/* Verify the bytes as a file. */
void fuzz_verify(const unsigned char *bytes, size_t size);

/* Open the bytes as an exported network with this file name, and make graphs of it. */
void fuzz_network(const unsigned char *bytes, size_t size, const char *name);

/* Open as a checkpoint of any format, use, close; every fourth length is verified too. */
void fuzz_open(const unsigned char *bytes, size_t size);

#endif
