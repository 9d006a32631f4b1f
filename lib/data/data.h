/* data.h - data sets, the sampler that orders them, and the loader that reads ahead. */
#ifndef GT_DATA_DATA_H
#define GT_DATA_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "lib/base/folder.h"
#include "lib/base/setting.h"
#include "lib/data/augment.h"
#include "lib/data/damage.h"

/*
 * This module turns files into samples in host memory. It owns what it opens and knows nothing of
 * models, graphs or devices: a batch is plain bytes; its caller copies them to a device.
 */

enum gt_data_kind {
	GT_DATA_IMAGE,  /* input: uint8 [height, width, channels]; target: int32, the class */
	GT_DATA_VECTOR, /* input: float32 [features]; target: int32, the class */
	/* input: int32 [block]; target: int32 [block], the token that follows each token */
	GT_DATA_TOKENS
};

enum { GT_DATA_MAX_CHANNELS = 4, GT_DATA_MAX_SIDE = 4096, GT_DATA_IGNORE = -100 };

/* The shape and type of every sample of a data set. */
struct gt_data_info {
	enum gt_data_kind kind;
	int64_t samples;             /* per epoch */
	int height, width, channels; /* images; 0 otherwise */
	int features;                /* vectors */
	int block;                   /* tokens per sample */
	int classes;                 /* classes, or the size of the vocabulary; 1 for regression */
	/* the target is a float32, whose bits are stored in the int32. It is never NaN;
	 * GT_DATA_IGNORE has the bits of a NaN. */
	bool regression;
	size_t input_bytes; /* of one sample's input */
	size_t targets;     /* int32 values in one sample's target: 1 or block */
	const char *note;   /* a warning about how the data were opened; NULL: none */
	const char *told;   /* a line about how the data were interpreted; NULL: none */
	/* Texts about settings in the request's `like`: settings that were adopted, and settings
	 * that the spec overrules; NULL: none. */
	const char *adopted, *overruled;
	/* there are classes that the request's `like` does not have; only if the request allows
	 * that */
	bool other_classes;
	/* Images: the mean, which is subtracted after the division by 255, and ... */
	float mean[GT_DATA_MAX_CHANNELS];
	/* ... the deviation, by which the difference is divided; 0 and 1 unless given or known */
	float std[GT_DATA_MAX_CHANNELS];
};

/* How a kind of data is written as KIND:PATH[,key=value...]. */
struct gt_data_form {
	const char *name;                  /* KIND */
	const char *path;                  /* the form of PATH */
	const char *summary;               /* half a line: lower case, no full stop */
	const struct gt_setting *settings; /* ended by a row without help */
	const char *example;
};

/* The form of row i of the table of kinds, or NULL after the last. */
const struct gt_data_form *gt_data_form(int i);

struct gt_dataset;
struct gt_data_description;
struct gt_log;

/* Facts that a data set needs beside its own SPEC. Zero means "not known". */
struct gt_data_request {
	int block; /* tokens: how long a window is (from the model); text: default 64 */
	int height, width, channels; /* `random`: the model's input; `images`: resize to it */
	int features, classes;       /* `random` */
	uint64_t seed;               /* the run's seed: `random` is made from it */
	/* `images`: random parts of whole pictures will be read (GT_AUGMENT_RRC), so those that are
	 * resized are not kept in memory. */
	bool parts;
	bool strict; /* `images`: a damaged image is an error, see gt_dataset_open() */
	/* Limit of the memory that the data set may take; mapped files do not count. */
	uint64_t memory_bytes;
	/* text: read the vocabulary from this file (gt_tokenizer_open()); path NULL: make one from
	 * the text. */
	struct gt_file_name vocab;
	struct gt_log *log; /* shows the progress of long work; NULL: none */
	/* The training data, described (NULL: this data set is read on its own). Tokens and classes
	 * get the numbers of their names in the description. All classes of the description count,
	 * even if no sample has them. Images get the size and normalization of the description,
	 * unless the spec overrules them. A class that is not described, and a file that
	 * contradicts the description, are errors (description.h). */
	const struct gt_data_description *like;
	/* Allow classes that are not in the description. If there are any, classes are numbered by
	 * this data set, and info.other_classes is set. */
	bool new_classes;
	/* `images` and `csv`: read these instead of the spec's path, in their order. They have no
	 * classes: every target is GT_DATA_IGNORE, and info.classes that of `like`, else of the
	 * request. "-" is standard input.
	 *
	 *   images   JPEG and PNG files, of any name, and folders, whose images count in the order
	 *            of their paths. size=, reduce=, channels=, mean= and std= are as
	 *            without inputs
	 *   csv      tables. If these tables and the training data have column names, features are
	 *            found by name, and other columns are ignored. Otherwise a row must consist of
	 *            the features only. sep= and header= are as without inputs */
	char *const *inputs;
	int input_count;
};

/*
 * Open KIND:PATH[,key=value...]; a comma inside a path is written `\,`. gtrain-data(7) is the
 * manual, from the forms above. An unknown kind or key is an error that lists the known ones.
 *
 * Everything is read or indexed here and every file checked, so that reading a sample later can
 * only find a damaged image (where images are decoded when read, their headers were checked only
 * if they had to agree in size). Damaged ones are recorded (damage.h), and are errors if
 * request->strict is set, or if all are damaged. `request` may be NULL: nothing known.
 * Errors: GT_EINVAL, GT_EIO, GT_EFORMAT, GT_ENOTSUP, GT_ENOMEM.
 */
int gt_dataset_open(struct gt_dataset **out, const char *spec,
    const struct gt_data_request *request, struct gt_err *err);

/*
 * Divide a data set into a part for training and a part held out: the last `fraction` of a text's
 * tokens, a `fraction` of the samples drawn by a fixed seed (not the run's) otherwise; each part
 * has at least one sample. Both views share the data set, which they keep alive; close all three in
 * any order. A view can be divided again.
 */
int gt_dataset_split(struct gt_dataset *whole, double fraction, struct gt_dataset **train,
    struct gt_dataset **val, struct gt_err *err);

/*
 * Measure mean and deviation of a table's columns on the training samples. From now on all views of
 * the data set are normalized with them (`standardise` in gtrain-data(7)). Call it once the data
 * set is open and divided, before anything reads or describes it. It does nothing to other data,
 * and to a table that was opened like another one. Errors: GT_ENOMEM.
 */
int gt_dataset_fit(struct gt_dataset *train, struct gt_err *err);

/* Borrowed, valid until the data set is closed. */
const struct gt_data_info *gt_dataset_info(const struct gt_dataset *data);

/* The record of damaged samples, borrowed: all views of a data set have the same, whose numbers are
 * those of the whole. NULL where no sample can be damaged. */
struct gt_damage *gt_dataset_damage(const struct gt_dataset *data);

/* Whether this sample was found to be damaged. */
bool gt_dataset_is_damaged(const struct gt_dataset *data, int64_t index);

/* How samples are drawn: training shifts and augments, evaluation reads samples as they are. */
struct gt_draw {
	bool train;
	uint64_t seed;
	uint32_t epoch;
	struct gt_augment augment; /* of images, in training only */
};

/*
 * Read sample `index` (0 <= index < samples) into input [input_bytes] and target [targets]. A pure
 * function of (index, draw); safe from several threads at once; the call allocates memory only to
 * decode or resize an image, which it frees again, and to record damage. Augmentation is for
 * images. A damaged image is left out: zeros, and the target GT_DATA_IGNORE.
 *
 * Text in training: windows are `block` apart and shifted by a number below `block` drawn from
 * (seed, epoch), so that an epoch sees each token about once and every epoch cuts elsewhere. A
 * window that passes the end of the text continues at its beginning, so every window is full. In
 * evaluation the windows tile the text from its first token, the last one padded (input 0, target
 * GT_DATA_IGNORE), so that every token but the first is predicted exactly once.
 */
int gt_dataset_read(struct gt_dataset *data, int64_t index, const struct gt_draw *draw, void *input,
    int32_t *target, struct gt_err *err);

/* The name of a sample, borrowed. For an image it is its path from the folder or archive down, for
 * one of the request's inputs the file, and for tables the line, "FILE:LINE". NULL if samples have
 * only numbers. */
const char *gt_dataset_sample_name(const struct gt_dataset *data, int64_t index);

/* Text: write the vocabulary as JSON ({"level":"char","tokens":["\n"," ",...]},
 * {"level":"byte"}, or the tokenizer's tokenizer.json as it was) so that generation needs only
 * the run directory. The file appears whole or not at all. A data set that has no vocabulary
 * writes nothing and succeeds. */
int gt_dataset_save_vocab(
    const struct gt_dataset *data, struct gt_file_name file, struct gt_err *err);

/* The name of that file: "vocab.json", "tokenizer.json"; NULL: there is no vocabulary. */
const char *gt_dataset_vocab_name(const struct gt_dataset *data);

void gt_dataset_close(struct gt_dataset *data);

/* ---- tokenizer: lib/data/tokenizer.c ---- */

struct gt_tokenizer;

/* Read a vocabulary that gt_dataset_save_vocab() wrote; or a tokenizer of byte-pair encoding, as
 * other programs write them: tokenizer.json, or a folder with that, or with vocab.json and
 * merges.txt (GPT-2). lib/data/bpe/bpe.h says which fields are supported. */
int gt_tokenizer_open(struct gt_tokenizer **out, struct gt_file_name file, struct gt_err *err);
int gt_tokenizer_copy(
    struct gt_tokenizer **out, const struct gt_tokenizer *tok, struct gt_err *err);
int gt_tokenizer_size(const struct gt_tokenizer *tok);
/* Turn text (UTF-8) into ids, yours to free(). An unknown character is an error that names it. */
int gt_tokenizer_encode(const struct gt_tokenizer *tok, const char *text, size_t length,
    int32_t **ids, size_t *count, struct gt_err *err);
/* The token that stands before every text, by its file; -1: there is none. gt_tokenizer_encode()
 * leaves it out. */
int32_t gt_tokenizer_begin(const struct gt_tokenizer *tok);
/* SHA-256 of a tokenizer of byte-pair encoding, in hexadecimal; "" for characters and bytes. */
const char *gt_tokenizer_digest(const struct gt_tokenizer *tok);
/* One id's bytes, borrowed; *length bytes, no terminator promised for byte level. NULL if out of
 * range. */
const char *gt_tokenizer_text(const struct gt_tokenizer *tok, int32_t id, size_t *length);
/* Write the file that gt_dataset_save_vocab() writes. */
int gt_tokenizer_save(const struct gt_tokenizer *tok, struct gt_file_name name, struct gt_err *err);
void gt_tokenizer_close(struct gt_tokenizer *tok);

/*
 * Text that is written token by token. A token of byte-pair encoding may end within a character:
 * its bytes are kept until the character is complete. Bytes that do not form a character are
 * written as U+FFFD. Tokens of bytes are written as they are. `tok` and `out` are the caller's.
 */
struct gt_token_writer {
	const struct gt_tokenizer *tok;
	FILE *out;
	bool begun; /* false: the next token begins the text, where some tokens lose a space */
	unsigned char held[4];
	int held_count;
};

/* Write the text of a token; an id without text writes nothing. The owner of the stream checks it
 * for errors. */
void gt_token_writer_put(struct gt_token_writer *w, int32_t id);
/* Write the bytes that were kept, because no more tokens follow. */
void gt_token_writer_end(struct gt_token_writer *w);

/* ---- sampler: lib/data/sampler.c ---- */

/*
 * Which samples a rank reads, with torch.utils.data.DistributedSampler's semantics: one permutation
 * per (seed, epoch), the same on every rank; cut (drop_last) or else padded with its own head (pad)
 * to a multiple of world; rank r takes elements r, r + world, ... . Then batches of `batch`; the
 * last one may be short unless drop_last. Without shuffle the permutation is the identity. With
 * neither pad nor drop_last the numbers of samples of ranks may differ by one, and no sample is
 * read twice.
 *
 * If a step consists of several batches (gradient accumulation), drop_last also drops a last step
 * with fewer than `per_step` batches. So the number of steps in an epoch depends only on the
 * product of world, batch and per_step.
 *
 * A sampler may draw for several virtual ranks, `rank` .. `rank + virtual_ranks - 1` of `world`,
 * with pad or drop_last: a batch then has as many samples of each, those of `rank` first;
 * `virtual_ranks` divides batch.
 *
 * With `by_batch` ranks take whole batches in turn: rank r reads batches r, r + world, ... of the
 * permutation, the last of which may be short. Then the content of a batch does not depend on the
 * number of ranks. It cannot be combined with pad, drop_last and virtual_ranks.
 */
struct gt_sampler {
	/* samples to use; if there are fewer than in the data set, the first ones */
	int64_t samples;
	uint64_t seed;
	int rank, world, batch;
	bool shuffle, drop_last, pad, by_batch;
	int virtual_ranks, per_step; /* 0 is 1 */
};

/* Samples and batches that it draws per epoch. */
int64_t gt_sampler_rank_samples(const struct gt_sampler *s);
int64_t gt_sampler_batches(const struct gt_sampler *s);

/* Write the permutation of an epoch: order [samples]. */
void gt_sampler_permutation(const struct gt_sampler *s, uint32_t epoch, int64_t *order);

/* Fill index[batch] for batch number `step` of the epoch from that permutation; returns how many
 * (short only in the last batch). */
int gt_sampler_batch(
    const struct gt_sampler *s, const int64_t *order, int64_t step, int64_t *index);

/* ---- loader: lib/data/loader.c ---- */

/*
 * A batch in host memory, borrowed until `hold` more were taken or gt_loader_close().
 *
 * In training with GT_AUGMENT_MIXUP the samples are mixtures of two: input is float32 [count,
 * height, width, channels] on the scale of the bytes, 0 to 255, and target [count] of struct
 * gt_mixed_target. The samples of each virtual rank are mixed among themselves, with a weight of
 * their own. A damaged image is mixed as any other, and its class does not count.
 */
struct gt_batch {
	int count;       /* samples in it, 1..batch */
	void *input;     /* [count, input_bytes], 64-byte aligned */
	int32_t *target; /* [count, targets], 64-byte aligned */
	uint32_t epoch;
	int64_t step; /* in the epoch */
};

/* Functions that allocate and free the memory of batches, zeroed and aligned to 64 bytes. The
 * thread that opens and closes the loader calls them. If alloc is NULL, batches are in ordinary
 * memory. */
struct gt_loader_memory {
	void *self;
	int (*alloc)(void *self, size_t bytes, void **out, struct gt_err *err);
	void (*free)(void *self, void *p, size_t bytes);
};

struct gt_loader_options {
	struct gt_sampler sampler;
	struct gt_draw draw; /* .epoch is set by the loader */
	int workers;         /* threads that read; 0: the caller's thread reads */
	int prefetch;        /* batches kept ready, at least 1; not used without workers */
	int hold;            /* earlier batches that the caller may still use */
	struct gt_loader_memory memory;
	int64_t first_epoch, first_step; /* where to begin (resume) */
	int64_t epochs;                  /* stop after so many epochs counted from 0; 0: never */
};

struct gt_loader;

/*
 * Start reading ahead. This call allocates all memory: prefetch + hold + 1 batches and two
 * permutations. The data set must outlive the loader. Worker threads block all signals.
 * Errors: GT_EINVAL (also: augmenting samples that are not images; drop_last with less than one
 * batch), GT_ENOMEM.
 */
int gt_loader_open(struct gt_loader **out, struct gt_dataset *data,
    const struct gt_loader_options *options, struct gt_err *err);

/* Get the next batch in order, for any number of threads. Returns 1 with *batch set, 0 at the end,
 * or a negative code. An error is returned in the place of its batch, and by all later calls.
 * Allocates nothing. */
int gt_loader_next(struct gt_loader *loader, const struct gt_batch **batch, struct gt_err *err);

/* Whether gt_loader_next() returns without waiting for other threads. Without workers this is true,
 * because the caller's thread reads. */
bool gt_loader_ready(struct gt_loader *loader);

/* Stop the threads and free; safe while they are reading. */
void gt_loader_close(struct gt_loader *loader);

#endif
