/* data.h - data sets, the sampler that orders them, and the loader that reads ahead. */
#ifndef GT_DATA_CORE_DATA_H
#define GT_DATA_CORE_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "lib/base/clock.h"
#include "lib/base/folder.h"
#include "lib/base/sample.h"
#include "lib/base/setting.h"
#include "lib/data/core/damage.h"
#include "lib/data/images/augment.h"

/*
 * This module turns files into samples in host memory. It closes the files that it opens, and frees
 * the memory that it allocates. It does not depend on models, graphs or devices. A batch is plain
 * bytes; the caller copies them to a device.
 */

/* The largest height and width of an image, and a target that the loss ignores. */
enum { GT_DATA_MAX_SIDE = 4096, GT_DATA_IGNORE = -100 };

/* The shape and type of every sample of a data set. */
struct gt_data_info {
	/* The target of a sample is one int32, or one for each token. Where it is a number or
	 * labels (form.target), these are float32, stored as the bits of int32. They are never NaN,
	 * so they differ from GT_DATA_IGNORE, whose bits are a NaN. form.mean is 0 and form.std is
	 * 1, unless the spec or the description of the training data gives other values. */
	struct gt_sample_form form;
	int64_t samples;    /* number of samples in an epoch */
	size_t input_bytes; /* bytes of one sample's input */
	size_t targets;     /* int32 values in one sample's target: 1, block, or number of labels */
	const char *note;   /* a warning about how the data were opened; NULL: none */
	const char *interpretation; /* a line about how the data were interpreted; NULL: none */
	/* Two texts that compare the spec (gt_dataset_open()) with the description of the training
	 * data (gt_data_request.like). `adopted` lists settings that were taken from the
	 * description. `overruled` lists settings for which the spec gives another value than the
	 * description. NULL: there are no such settings, or no description. */
	const char *adopted, *overruled;
	/* The data have classes that the training data lack. This is possible only if
	 * gt_data_request.new_classes is set. */
	bool other_classes;
	/* Number of classes of the training data (gt_data_request.like) that no sample of this data
	 * set has. */
	int absent_classes;
	/* Texts: no vocabulary was given, so the tokens are the characters that occur in this text,
	 * numbered in ascending order of their code points. */
	bool own_vocab;
	/* Targets of samples are GT_DATA_IGNORE in training, too, so a loss is the mean of the
	 * others. */
	bool masked;
	/* true: the values may be on another scale than in training, because neither the spec nor
	 * gt_data_request.like says how training scaled them. Pixels are then numbers from 0 to 1,
	 * and the numbers of a table are those in its file. Always false if gt_data_request.like is
	 * NULL. */
	bool raw;
};

/* How users write a data set of one kind: KIND:PATH[,key=value...]. */
struct gt_data_form {
	const char *name;                  /* KIND */
	const char *path;                  /* the form of PATH */
	const char *summary;               /* a short phrase: lower case, no full stop */
	const struct gt_setting *settings; /* the last row has no help text */
	const char *example;
};

/* Return the form of row i of the table of kinds, or NULL after the last row. */
const struct gt_data_form *gt_data_form(int i);

/* Words for the targets of samples, such as "classes", by enum gt_sample_target. */
extern const char *const gt_data_target_words[];

struct gt_batch;
struct gt_dataset;
struct gt_data_description;
struct gt_log;

/* Facts that a data set needs besides its spec, KIND:PATH[,key=value...]. Zero means "not known".
 * Words such as `images` and `text` are kinds of data. */
struct gt_data_request {
	/* As the model needs them. form.block: tokens per sample of texts; for `text`, 0 means 64.
	 * form.height, width and channels: the shape of the images of `random`, and the shape to
	 * which `images` are resized. form.features and form.classes are used for `random` and for
	 * `inputs`; for `tokens`, form.classes is the size of the vocabulary. form.fields: if
	 * gt_sample_has_fields(), `csv`, `npy`, `npz` and `random` give these inputs as fields. */
	struct gt_sample_form form;
	bool fixed_size; /* the model takes images or texts of no other size */
	uint64_t seed;   /* the run's seed; `random` data are generated from it */
	/* `images`: training will read random parts of the original pictures (GT_AUGMENT_RRC). So
	 * if any picture has to be resized, no decoded pictures are kept in memory. */
	bool parts;
	bool strict; /* `images`: an image that cannot be decoded is an error */
	/* Limit of the memory that the data set may take, without mapped files; 0: no limit */
	uint64_t memory_bytes;
	/* `text`: read the vocabulary from this file (gt_tokenizer_open()). If vocab.path is NULL,
	 * the vocabulary is made from the text. */
	struct gt_file_name vocab;
	struct gt_log *log; /* shows the progress of long work; NULL: nothing is shown */
	/*
	 * A description of the training data. With it, this data set is read as the training data
	 * were read. NULL: the data set is read on its own.
	 *
	 * Tokens and classes are matched by name, and get the ids that they have in the
	 * description. The number of classes is that of the description, even if some classes have
	 * no sample here. Images get the size and normalization of the description, unless the spec
	 * sets others. A class that the description lacks, and a file that contradicts the
	 * description, are errors (description.h).
	 */
	const struct gt_data_description *like;
	/* The caller will call gt_dataset_fit(), which measures the mean and std of a table. So
	 * `like` need not give them. */
	bool fit;
	/* Allow classes that the description lacks. If there are such classes, all classes keep the
	 * numbers of this data set, and info.other_classes is set. */
	bool new_classes;
	/* The data are for evaluations during training. If the spec names no split, a part of the
	 * data that is not for training is read where there is one: validation or test. */
	bool held_out;
	/* The target `ignored` counts as missing, if `ignores`: read() gives GT_DATA_IGNORE in its
	 * place. Where a table or an array numbers its classes, `ignored` is a number of the file,
	 * which may be negative, and is no class; else it is a class or a token. */
	bool ignores;
	int32_t ignored;
	/* Images must have the size that `like` gives: any other size is an error, even if the spec
	 * sets it. Evaluations during training use the shapes of the training data. */
	bool same_size;
	/*
	 * Files without targets, for predictions. They are read instead of the spec's path, in the
	 * order of `inputs`. "-" is standard input. NULL: read the spec's path.
	 *
	 *   images   JPEG, PNG and WebP files of any name, and folders; images of a folder are in
	 *            the order of their paths. Settings apply as usual, except for `split`.
	 *   csv      Tables. If these tables and the training data have column names, features are
	 *            found by name, and other columns are ignored. Otherwise, a row must consist of
	 *            the features only. sep=, decimal=, header= and standardise= apply as
	 *            usual.
	 *   text     Each line is a sample (text_lines.c).
	 *
	 * For images and csv, every target is GT_DATA_IGNORE. info.form.classes comes from
	 * `like`, or from the request if `like` does not know it.
	 */
	char *const *inputs;
	int input_count;
	/* The caller has the samples in memory, and this is the number of samples of a step: allow
	 * the spec memory[:INPUTS/CLASSES][,key=value...], which only describes them. The data set
	 * has no samples to read (gt_dataset_of_batch()). 0: an unknown kind. */
	int64_t memory;
};

/*
 * Open the data set of a spec, KIND:PATH[,key=value...]. A comma inside a path is written `\,`. The
 * manual gtrain-data(7) is made from the forms of all kinds (gt_data_form()). An unknown kind or
 * key is an error that lists the known ones.
 *
 * This call reads or indexes everything, and checks every file. But it does not check images that
 * are decoded later, in gt_dataset_read(); if all images must have the same size, it checks the
 * headers of these images. After this call, the content of a file can cause two errors: an image
 * cannot be decoded, or an array (of `npy` or `npz`) has a feature that is NaN or infinite.
 *
 * Damaged images are recorded (damage.h). They are errors if request->strict is set, or if all
 * images are damaged.
 *
 * `request` may be NULL, which means the same as a zeroed struct.
 * Errors: GT_EINVAL, GT_EIO, GT_EFORMAT, GT_ENOTSUP, GT_ENOMEM.
 */
int gt_dataset_open(struct gt_dataset **out, const char *spec,
    const struct gt_data_request *request, struct gt_err *err);

/* Check that writing the file `path` would not change the input of a data set: the file or folder
 * that its spec names, and the files that the settings of the spec name. If the input is a folder,
 * `path` must not be in or below this folder, and no link in this folder may lead to `path`. Only
 * folders are opened. A wrong spec and a missing file are not errors here. Errors: those of
 * gt_file_check_not_input(). */
int gt_data_check_output(const char *path, const char *spec, struct gt_err *err);

/* If this data set was read from a folder with one folder for each class, check that `path` is not
 * in that folder: a new folder there would be read as a class, or as part of one. For other data,
 * return 0. `path` need not exist. Errors: those of gt_file_check_not_in(). */
int gt_dataset_check_folder(const struct gt_dataset *data, const char *path, struct gt_err *err);

/* Return whether a data set only describes samples that the caller has in memory. */
bool gt_dataset_is_memory(const struct gt_dataset *data);

/* Open a data set of the samples of a batch, which is borrowed. They have the form of `like`, a
 * data set for which gt_dataset_is_memory() is true. Samples of zeros without a target follow, so
 * that there are `samples`. */
int gt_dataset_of_batch(struct gt_dataset **out, const struct gt_dataset *like,
    const struct gt_batch *batch, int64_t samples, struct gt_err *err);

/*
 * Divide a data set into a training part and a held-out part. For texts, the last `fraction` of the
 * tokens is held out. For other data, a `fraction` of the samples is drawn at random, with a fixed
 * seed that is not the run's. Each part has at least one sample.
 *
 * Both parts are views: they share the files and memory of `whole`, and keep them open. Close all
 * three in any order. A view can be divided again.
 */
int gt_dataset_split(struct gt_dataset *whole, double fraction, struct gt_dataset **train,
    struct gt_dataset **val, struct gt_err *err);

/*
 * Measure mean and standard deviation of a table's columns on the training samples. From now on,
 * all views of the data set are normalized with them (`standardise` in gtrain-data(7)). Call this
 * function after the data set is opened and divided, and before you read or describe samples. The
 * function changes nothing in three cases: the data are not a table; the table has mean and
 * standard deviation from gt_data_request.like; the spec has standardise=no. Errors: GT_ENOMEM.
 */
int gt_dataset_fit(struct gt_dataset *train, struct gt_err *err);

/* Return the shape and type of the samples. Borrowed, valid until the data set is closed. */
const struct gt_data_info *gt_dataset_info(const struct gt_dataset *data);

/* Return true if two data sets read the same file or folder. If the specs choose different parts of
 * the data, such as split=train and split=test, return false. Views of one data set
 * (gt_dataset_split()) read the same files, even if they have different samples. Always false for
 * data without a path and for gt_data_request.inputs. */
bool gt_dataset_same_files(const struct gt_dataset *a, const struct gt_dataset *b);

/* Return the record of damaged samples, borrowed. NULL: no sample can be damaged. All views of a
 * data set have the same record. Sample indices in the record are those of the undivided data
 * set. */
struct gt_damage *gt_dataset_damage(const struct gt_dataset *data);

/* Return whether the record has sample `index` of this data set or view. */
bool gt_dataset_is_damaged(const struct gt_dataset *data, int64_t index);

/* How samples are read. In training, samples of a text begin at shifted positions, and images are
 * augmented. In evaluation, samples are read without changes. */
struct gt_draw {
	bool train;
	uint64_t seed;
	uint32_t epoch;
	struct gt_augment augment; /* augmentations of images; used only if `train` is true */
};

/*
 * Read sample `index`, 0 <= index < samples.
 *
 *   input    [info.input_bytes]
 *   target   [info.targets]
 *
 * The result is a pure function of (index, draw). Several threads may call this at once. A damaged
 * image gives zeros and the target GT_DATA_IGNORE. Memory is allocated only to decode or resize an
 * image (it is freed before the call returns), and to record damage.
 *
 * Text in training: a sample is a window of `block` tokens. Windows begin `block` tokens apart. In
 * each epoch, all windows are shifted by a number below `block` that is drawn from (seed, epoch).
 * So an epoch reads each token about once, and every epoch cuts the text at other positions. A
 * window that passes the end of the text continues at its beginning, so every window is full.
 *
 * Text in evaluation: the first window begins at the first token, and each other window begins
 * where the previous one ends. The last window is padded (input 0, target GT_DATA_IGNORE). So every
 * token except the first is predicted exactly once.
 */
int gt_dataset_read(struct gt_dataset *data, int64_t index, const struct gt_draw *draw, void *input,
    int32_t *target, struct gt_err *err);

/* Return the place of the reference of a pair of texts (gt_sample_form.paired), which its input
 * has. It is 0 at first; it may be written while no other thread reads samples. */
float *gt_dataset_reference(struct gt_dataset *data, int64_t index);

/* Return a checksum of the tokens of all pairs in the files. */
uint32_t gt_dataset_checksum(const struct gt_dataset *data);

/* Return the class of sample `index`, without reading its input; a damaged sample has one, too. -1:
 * samples have no classes, or the class is not known or is ignored. */
int32_t gt_dataset_class(const struct gt_dataset *data, int64_t index);

/* For regression: set *number to the target of sample `index` as the number in the file, before
 * it is standardized. Return false if this number is not known. */
bool gt_dataset_number(const struct gt_dataset *data, int64_t index, double *number);

/*
 * Return the name of a sample, borrowed; NULL if samples have no names.
 *
 *   images               the path below the folder or in the archive
 *   images of `inputs`   the file
 *   rows and lines       "FILE:LINE"
 */
const char *gt_dataset_sample_name(const struct gt_dataset *data, int64_t index);

/*
 * Write the vocabulary of a text, so that generation needs only the run directory. The file is
 * JSON: {"level":"char","tokens":["\n"," ",...]}, {"level":"byte"}, or an unchanged copy of the
 * tokenizer.json. After an error or a crash, no incomplete file has the final name. If the data set
 * has no vocabulary, write nothing and return 0.
 */
int gt_dataset_save_vocab(
    const struct gt_dataset *data, struct gt_file_name file, struct gt_err *err);

/* Return the usual name of the file that gt_dataset_save_vocab() writes: "vocab.json" or
 * "tokenizer.json"; NULL: the data set has no vocabulary. */
const char *gt_dataset_vocab_name(const struct gt_dataset *data);

void gt_dataset_close(struct gt_dataset *data);

/* ---- tokenizer: lib/data/text/tokenizer.c ---- */

struct gt_tokenizer;

/* Open a vocabulary that gt_dataset_save_vocab() wrote, or a tokenizer of byte-pair encoding from
 * another program: a tokenizer.json, or a folder that has tokenizer.json, or vocab.json and
 * merges.txt (GPT-2). lib/data/bpe/bpe.h says which fields are supported. */
int gt_tokenizer_open(struct gt_tokenizer **out, struct gt_file_name file, struct gt_err *err);
/* Create a copy of a tokenizer. The copy may outlive `tok`. Errors: GT_ENOMEM. */
int gt_tokenizer_copy(
    struct gt_tokenizer **out, const struct gt_tokenizer *tok, struct gt_err *err);
/* Return the number of ids, which is the highest id plus 1. */
int gt_tokenizer_size(const struct gt_tokenizer *tok);
/* Convert a text (UTF-8) of `length` bytes to ids [*count], which the caller frees with free(). An
 * unknown character is an error that names it. */
int gt_tokenizer_encode(const struct gt_tokenizer *tok, const char *text, size_t length,
    int32_t **ids, size_t *count, struct gt_err *err);
/* Return the id of the token that the tokenizer's file puts before every text; -1: none.
 * gt_tokenizer_encode() does not add this token. */
int32_t gt_tokenizer_begin(const struct gt_tokenizer *tok);
/* Return the SHA-256 of a tokenizer of byte-pair encoding, in hexadecimal; "" for tokenizers of
 * characters or bytes. */
const char *gt_tokenizer_digest(const struct gt_tokenizer *tok);
/* Return the bytes of a token, borrowed, and set *length to their number. There may be no
 * terminating zero. NULL: no token has this id. */
const char *gt_tokenizer_text(const struct gt_tokenizer *tok, int32_t id, size_t *length);
/* The same for a tokenizer of subwords whose token begins a text, without a space before it. */
const char *gt_tokenizer_first_text(const struct gt_tokenizer *tok, int32_t id, size_t *length);
/* Return the id of the token with this text in a tokenizer of subwords; -1: there is none. */
int32_t gt_tokenizer_find(const struct gt_tokenizer *tok, const char *text);
/* Return the token that a tokenizer of subwords puts behind short texts. */
int32_t gt_tokenizer_padding(const struct gt_tokenizer *tok);
/* Write the same file as gt_dataset_save_vocab(). */
int gt_tokenizer_save(const struct gt_tokenizer *tok, struct gt_file_name name, struct gt_err *err);
/* Write the tokenizer.json of a tokenizer of byte-pair encoding, with a post_processor that puts
 * the token `begin` before every text (-1: none), and adds no other tokens. If the tokenizer's own
 * file already does this, or if no token has the id `begin`, do the same as gt_tokenizer_save(). */
int gt_tokenizer_save_with_begin(
    const struct gt_tokenizer *tok, int32_t begin, struct gt_file_name name, struct gt_err *err);
void gt_tokenizer_close(struct gt_tokenizer *tok);

/*
 * The state of a text that is written token by token. A token of byte-pair encoding may end inside
 * a UTF-8 character; its last bytes are kept until the character is complete. Bytes that do not
 * form a character are written as U+FFFD. Tokens of a tokenizer of bytes are written unchanged.
 * For a terminal, characters that it obeys are escaped as by gt_log_put(), but for line breaks and
 * tabs, and bytes make characters whatever the tokenizer is.
 *
 * Zero the struct, and set `tok` and `out`. The caller keeps the ownership of both.
 */
struct gt_token_writer {
	const struct gt_tokenizer *tok;
	FILE *out;
	/* false: the next token begins the text; some tokens lose a leading space there */
	bool begun;
	bool terminal;         /* the text is shown on a terminal */
	unsigned char held[4]; /* [held_count] bytes of a character that is not complete */
	int held_count;
};

/* Write the text of a token. An id without text writes nothing. Write errors stay in the stream;
 * the caller checks it with ferror(). */
void gt_token_writer_put(struct gt_token_writer *w, int32_t id);
/* Write the bytes that were kept. Call it after the last token. */
void gt_token_writer_end(struct gt_token_writer *w);

/* ---- sampler: lib/data/core/sampler.c ---- */

/*
 * A sampler chooses the samples that a rank reads, as torch.utils.data.DistributedSampler does.
 *
 * All ranks use the same permutation of the samples, which depends on (seed, epoch). Without
 * `shuffle`, samples stay in order. Rank r takes the elements r, r + world, and so on, in steps of
 * `world`. Two options make the length of the permutation a multiple of `world`: `drop_last` drops
 * samples at its end, and `pad` appends its first samples again. With neither of them, some ranks
 * may read one sample more than others, and no sample is read twice.
 *
 *   example   7 samples, world 2, no shuffle: rank 0 reads 0 2 4 6, rank 1 reads 1 3 5.
 *             With pad, rank 1 reads 1 3 5 0. With drop_last, rank 0 reads 0 2 4.
 *
 * The samples of a rank are divided into batches of `batch` samples. The last batch may be smaller,
 * but with `drop_last` a smaller batch is dropped.
 *
 * A training step may consist of several batches (`per_step`, gradient accumulation). With
 * `drop_last`, a last step with fewer batches is also dropped. So the number of steps in an epoch
 * depends only on the product of world, batch and per_step.
 *
 * One rank can simulate several virtual ranks (lib/parallel/virtual/rewrite.h). The sampler then
 * draws the samples of the virtual ranks `rank` to `rank + virtual_ranks - 1`, and `world` is the
 * number of all virtual ranks. A batch has equally many samples of each virtual rank: first those
 * of virtual rank `rank`, then those of the next one, and so on. This needs `pad` or `drop_last`,
 * and `batch` must be a multiple of `virtual_ranks`.
 *
 * With `by_batch`, the permutation is cut into batches first, and ranks take whole batches in turn:
 * rank r reads batches r, r + world, ... . The last batch may be smaller. So the content of a batch
 * does not depend on the number of ranks. `by_batch` cannot be combined with `pad`, `drop_last` or
 * `virtual_ranks`.
 */
struct gt_sampler {
	/* Number of samples to use. If the data set has more, its first ones are used. */
	int64_t samples;
	uint64_t seed;
	int rank, world, batch;
	bool shuffle, drop_last, pad, by_batch;
	int virtual_ranks, per_step; /* 0 means 1 */
};

/* Return the number of samples that the sampler draws in an epoch. */
int64_t gt_sampler_rank_samples(const struct gt_sampler *s);
/* Return the number of batches that the sampler draws in an epoch. */
int64_t gt_sampler_batches(const struct gt_sampler *s);

/* Write the permutation of an epoch to order [samples]. */
void gt_sampler_permutation(const struct gt_sampler *s, uint32_t epoch, int64_t *order);

/* Write the sample indices of one batch to index [batch]. `step` is the batch's index in its epoch,
 * from 0 on, and `order` is the epoch's permutation. Return the number of samples: `batch`, or less
 * in the last batch; 0 if there is no batch `step`. */
int gt_sampler_batch(
    const struct gt_sampler *s, const int64_t *order, int64_t step, int64_t *index);

/* ---- loader: lib/data/core/loader.c ---- */

/*
 * A batch in host memory, borrowed from the loader. It stays valid while the caller takes up to
 * gt_loader_options.hold later batches, and at most until gt_loader_close().
 *
 * In training with GT_AUGMENT_MIXUP, each sample is a mixture of two. `input` is then float32
 * [count, height, width, channels], on the scale of the pixels' bytes (0 to 255), and `target` is
 * struct gt_mixed_target [count] (lib/base/mixed_target.h). Samples of a virtual rank are mixed
 * only with each other; each virtual rank has its own weight. A damaged image is mixed like any
 * other, but the loss ignores its class.
 */
struct gt_batch {
	int count;          /* number of samples, 1 to the sampler's `batch` */
	size_t input_bytes; /* bytes of one sample of `input` */
	void *input;        /* [count, input_bytes], 64-byte aligned */
	int32_t *target;    /* [count, targets], 64-byte aligned */
	uint32_t epoch;
	int64_t step; /* index of the batch in its epoch, from 0 on */
	/* the thread of the loader that read it, from 0 on, or -1: the caller's; and when */
	int reader;
	struct gt_span read;
};

/* Functions that allocate and free the memory of batches. The memory must be zeroed and aligned to
 * 64 bytes. Only the thread that opens and closes the loader calls these functions. If alloc is
 * NULL, batches are in ordinary memory. */
struct gt_loader_memory {
	void *self; /* passed to both functions */
	int (*alloc)(void *self, size_t bytes, void **out, struct gt_err *err);
	void (*free)(void *self, void *p, size_t bytes);
};

struct gt_loader_options {
	struct gt_sampler sampler;
	struct gt_draw draw; /* the loader sets its epoch */
	int workers;         /* number of threads that read; 0: the caller's thread reads */
	int prefetch;        /* number of batches read ahead, at least 1; unused without workers */
	int hold;            /* number of earlier batches that the caller may still use */
	struct gt_loader_memory memory;
	int64_t first_epoch, first_step; /* where to begin, for a resumed run */
	int64_t epochs; /* stop before the epoch with this number, counted from 0; 0: never stop */
};

struct gt_loader;

/*
 * Start to read ahead. This call allocates all memory: two permutations and hold + 1 batches, and
 * `prefetch` more batches if there are workers. The data set must outlive the loader. Worker
 * threads block all signals.
 *
 * Errors: GT_EINVAL, also if samples that are not images would be augmented, or if drop_last leaves
 * no full batch; GT_ENOMEM.
 */
int gt_loader_open(struct gt_loader **out, struct gt_dataset *data,
    const struct gt_loader_options *options, struct gt_err *err);

/* Return the bytes that gt_loader_open() allocates. */
uint64_t gt_loader_bytes(const struct gt_dataset *data, const struct gt_loader_options *options);

/* Get the next batch. Batches come in order, whatever the number of threads. Return 1 and set
 * *batch, 0 after the last batch, or a negative code. If a batch cannot be read, this call returns
 * its error instead of the batch, and so do all later calls. The call allocates no memory, except
 * that of gt_dataset_read() if there are no workers. */
int gt_loader_next(struct gt_loader *loader, const struct gt_batch **batch, struct gt_err *err);

/* Return whether gt_loader_next() would return without waiting for other threads. Without workers
 * this is always true, because the caller's thread reads. */
bool gt_loader_ready(struct gt_loader *loader);

/* Stop the threads, even while they read, and free all memory. */
void gt_loader_close(struct gt_loader *loader);

#endif
