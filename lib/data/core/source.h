/* source.h - private: the functions of each kind of data set, and the augmentations. */
#ifndef GT_DATA_CORE_SOURCE_H
#define GT_DATA_CORE_SOURCE_H

#include <stdatomic.h>

#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/base/mixed_target.h"
#include "lib/data/core/data.h"
#include "lib/data/core/description.h"
#include "lib/data/core/spec.h"
#include "lib/data/images/resize.h"

/* The opened data of a spec. A data set is a view of all its samples, or of a part. The samples are
 * independent, or windows of a stream of tokens. */
struct gt_source;

/* Tokens first .. first + length - 1 of a stream, which a view has. */
struct gt_data_part {
	int64_t first, length;
};

/* The functions of a kind of data set. */
struct gt_source_ops {
	/* Read a sample. The index was checked; augmentations of images follow. `part` is for
	 * streams of tokens. */
	int (*read)(struct gt_source *self, const struct gt_data_part *part, int64_t index,
	    const struct gt_draw *draw, void *input, int32_t *target, struct gt_err *err);
	/* Return the class of a sample as read() does, without reading its input. NULL: samples
	 * have no classes. */
	int32_t (*class_of)(const struct gt_source *self, int64_t index);
	/* Return the samples in `length` tokens. NULL: not a stream; it is divided by samples. */
	int64_t (*samples_in)(const struct gt_source *self, int64_t length);
	/* Return the name of a sample, borrowed. NULL: there are none. */
	const char *(*name)(const struct gt_source *self, int64_t index);
	/* Regression: return the target as it is in the file. NULL: only read() gives it. */
	double (*number)(const struct gt_source *self, int64_t index);
	/* For gt_dataset_fit(): measure mean and deviation of index[count]. NULL: nothing to
	 * measure. */
	int (*fit)(struct gt_source *self, const int64_t *index, int64_t count, struct gt_err *err);
	/* Return the tokenizer, borrowed. NULL: not a text. */
	const struct gt_tokenizer *(*tokenizer)(const struct gt_source *self);
	/* For gt_dataset_save_vocab(): the name of the file, and its writer. NULL: no
	 * vocabulary. */
	const char *(*vocab_name)(const struct gt_source *self);
	int (*save_vocab)(
	    const struct gt_source *self, struct gt_file_name file, struct gt_err *err);
	/* For pairs of texts: gt_dataset_reference(), gt_dataset_checksum(). */
	float *(*reference)(struct gt_source *self, int64_t index);
	uint32_t (*checksum)(const struct gt_source *self);
	void (*close)(struct gt_source *self);
};

/* The first member of the struct of each kind. Once open, only `views` and the measured statistics
 * change. */
struct gt_source {
	const struct gt_source_ops *ops;
	struct gt_data_info info;
	int64_t length;                 /* tokens of a stream; samples of other data */
	const char *const *class_names; /* [info.form.classes]; NULL: no names */
	/* [info.form.classes] line of the first row; NULL: not known */
	const long *class_lines;
	const char *const *feature_names; /* [info.form.features]; NULL: no names */
	/* tables: columns without the target; 0: features are not scaled */
	int column_count;
	struct gt_data_column *columns; /* [column_count] */
	/* tables: name and, for regression, mean and std */
	struct gt_data_column target;
	int target_place;             /* tables: 1 + the columns before the target; 0: not known */
	enum gt_data_missing missing; /* tables */
	const char *texts[2];         /* labelled texts: as in gt_data_description */
	struct gt_data_dialect dialect;   /* tables */
	struct gt_data_specials specials; /* text */
	/* Inputs for predictions, without targets: read() gives GT_DATA_IGNORE or, for lines of
	 * text, the position of the last token. */
	bool unlabelled;
	/* read() reads only the part of gt_augment_part() */
	bool takes_parts;
	bool resizes; /* images are resized to the size in `info`, as `fit` says */
	bool reduce;  /* large JPEGs are decoded at a reduced size */
	struct gt_fit fit;
	struct gt_damage *damage; /* NULL: a damaged sample is an error */
	/* [info.form.classes] the class of a sample for which read() gives i; NULL: i */
	int32_t *renumber;
	/* of the request: this class or token counts as missing, if `ignores` */
	bool ignores;
	int32_t ignored;
	/* name of the part of the data that was opened, such as a sub-folder; NULL: all */
	const char *part;
	/* absolute path of the data, with the part; NULL: there are no files */
	const char *files;
	/* each folder in `files` is a class */
	bool class_folders;
	bool in_memory;        /* gt_dataset_is_memory() */
	struct gt_arena names; /* memory of the names */
	atomic_int views;      /* open views */
};

/* Set *out to a copy of the text that lives as long as the source. */
int gt_source_keep(const char **out, struct gt_source *s, const char *text, struct gt_err *err);

/* Return the source of a data set. */
const struct gt_source *gt_dataset_source(const struct gt_dataset *data);

/* A row of the table in dataset.c. */
struct gt_source_kind {
	struct gt_data_form form;
	bool pathless;
	bool json_lines; /* it reads rows of JSON with members of their own, not texts alone */
	/* keys of specs for request->inputs, ended by NULL; NULL: cannot read them */
	const char *const *input_keys;
	int (*open)(struct gt_source **out, const struct gt_spec *spec,
	    const struct gt_data_request *request, struct gt_err *err);
};

extern const struct gt_source_kind gt_text_kind, gt_jsonl_kind, gt_chat_kind, gt_pairs_kind,
    gt_labelled_kind, gt_masked_kind, gt_tokens_kind, gt_cifar10_kind, gt_mnist_kind,
    gt_images_kind, gt_webdataset_kind, gt_csv_kind, gt_npy_kind, gt_npz_kind, gt_random_kind,
    gt_memory_kind;

/* memory.c: make a source like *like of the samples of a batch, which is borrowed, and of samples
 * without a target, so that there are `samples`. */
struct gt_source *gt_source_of_memory(const struct gt_source *like, const struct gt_batch *batch,
    int64_t samples, struct gt_err *err);

/* Apply draw->augment to an image in place. `is_part`: it is a random part already, so
 * GT_AUGMENT_RRC is skipped. */
int gt_augment_image(uint8_t *pixels, const struct gt_data_info *info, int64_t sample,
    const struct gt_draw *draw, bool is_part, struct gt_err *err);

/* Draw a random part of a picture for GT_AUGMENT_RRC. False: it is not chosen, or draw->train is
 * false. */
bool gt_augment_part(
    struct gt_box *out, const struct gt_draw *draw, int64_t sample, int height, int width);

/* rrc.c: return a random rectangle. `settings`: least and largest share of the area, and ratio of
 * width to height; `bits`: key and counter (lib/base/philox.h). */
struct gt_box gt_rrc_box(int height, int width, const double *settings, const uint32_t bits[4]);
/* Check the settings. Errors: GT_EINVAL. */
int gt_rrc_check(const double *settings, struct gt_err *err);
/* Replace pixels by a random part of them, resized to the same size. */
int gt_augment_rrc(uint8_t *pixels, const struct gt_data_info *info, const double *settings,
    const uint32_t bits[4], struct gt_err *err);

/* jitter.c: vary the colors of an image of 1 or 3 channels in place. `settings`: brightness,
 * contrast, saturation, hue; `bits`: four random words. */
int gt_augment_jitter(uint8_t *pixels, const struct gt_data_info *info, const double *settings,
    const uint32_t bits[4], struct gt_err *err);

/* blocks of the random stream for each group */
enum { GT_MIXUP_BLOCKS = 256 };

/* mixup.c: return the random weight of a group, with the distribution Beta(alpha, alpha). `number`
 * is its index in the epoch. */
double gt_mixup_weight(double alpha, uint64_t seed, uint64_t number, uint32_t epoch);

/*
 * Mix each sample of a group with the one before, and the first with the last.
 *
 *   out      [count, size] mixtures on the scale of the pixels, 0 to 255
 *   target   [count]
 *   pixels   [count, size]
 *   classes  [count]
 *   weight   weight of sample i; that of sample i - 1 is 1 - weight
 */
void gt_mixup_rows(float *out, struct gt_mixed_target *target, const uint8_t *pixels,
    const int32_t *classes, int count, size_t size, float weight);

/* Check that alpha = settings[0] is above 0. */
int gt_mixup_check(const double *settings, struct gt_err *err);

/* Write a random permutation of 0 .. n-1, which depends on n, seed, `stream` and `step`. */
void gt_permute(int64_t *order, int64_t n, uint64_t seed, uint32_t stream, uint32_t step);

/* text_lines.c: open the lines of request->inputs, each a text. Takes ownership of `tok`, even if
 * it fails. */
int gt_text_open_lines(struct gt_source **out, struct gt_tokenizer *tok,
    const struct gt_data_request *request, struct gt_err *err);

/* chat.c: open the rows of JSON lines, each a document, packed into samples. */
int gt_text_open_packed(struct gt_source **out, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err);

/* dataset.c: note in info.interpretation that `split` is read, which the spec does not name. */
int gt_source_note_split(struct gt_source *s, const char *split, struct gt_err *err);

/* Mean and deviation of MNIST's training images, on the scale 0..1. */
#define GT_MNIST_MEAN 0.1307f
#define GT_MNIST_STD  0.3081f

/* conform.c: adapt a new source to request->like, a description of training data: normalization and
 * the numbers of classes. Errors: GT_EINVAL if the spec contradicts `like`; GT_EFORMAT if files
 * do. */
int gt_source_conform(struct gt_source *s, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err);

/* Return GT_ENOMEM if `bytes` exceed the limit of the request, else 0. `what` is for example "the
 * text". */
int gt_data_check_memory(
    const struct gt_data_request *request, uint64_t bytes, const char *what, struct gt_err *err);

#endif
