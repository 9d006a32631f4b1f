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

/*
 * A source is the opened data of one spec (the value of --data). A data set (struct gt_dataset) is
 * a view of a source: all of its samples, or a part. The samples of a source are either independent
 * of each other, or windows (ranges of consecutive tokens) of one stream of tokens.
 */
struct gt_source;

/* The part of a token stream that belongs to a view: tokens first .. first + length - 1. */
struct gt_data_part {
	int64_t first, length;
};

/* The functions of a kind of data set. */
struct gt_source_ops {
	/* Read a sample into `input` and *target. The caller, gt_dataset_read(), has checked the
	 * index, and augments images after this call. `part` is used only for token streams. */
	int (*read)(struct gt_source *self, const struct gt_data_part *part, int64_t index,
	    const struct gt_draw *draw, void *input, int32_t *target, struct gt_err *err);
	/* Return the number of samples in `length` tokens of a stream. NULL: the source is not a
	 * stream, and gt_dataset_split() divides it by samples. */
	int64_t (*samples_in)(const struct gt_source *self, int64_t length);
	/* Return the name of a sample, borrowed. NULL: samples have no names. */
	const char *(*name)(const struct gt_source *self, int64_t index);
	/* Regression: return the target of a sample as it is in the file, in double precision.
	 * NULL: only read() gives the target. */
	double (*number)(const struct gt_source *self, int64_t index);
	/* For gt_dataset_fit(): measure mean and standard deviation of the samples with the indices
	 * index[count]. Errors: GT_ENOMEM. NULL: there is nothing to measure. */
	int (*fit)(struct gt_source *self, const int64_t *index, int64_t count, struct gt_err *err);
	/* Return the tokenizer of a text, borrowed. NULL for other data. */
	const struct gt_tokenizer *(*tokenizer)(const struct gt_source *self);
	/* For gt_dataset_save_vocab(): vocab_name() returns the name of the vocabulary's file, and
	 * save_vocab() writes this file. Both are NULL if the data have no vocabulary. */
	const char *(*vocab_name)(const struct gt_source *self);
	int (*save_vocab)(
	    const struct gt_source *self, struct gt_file_name file, struct gt_err *err);
	void (*close)(struct gt_source *self);
};

/*
 * struct gt_source is the first member of the struct of each kind. After the source is opened, only
 * two things in it change: the count of views, and the statistics that gt_dataset_fit() measures.
 */
struct gt_source {
	const struct gt_source_ops *ops;
	struct gt_data_info info;
	int64_t length; /* number of tokens of a stream; for other data, number of samples */
	const char *const *class_names; /* [info.form.classes]; NULL: classes have no names */
	/* [info.form.classes] for each class, the line number of its first row; NULL: not known */
	const long *class_lines;
	const char *const *feature_names; /* [info.form.features]; NULL: columns have no names */
	/* tables: number of columns except the target; 0: features are not scaled */
	int column_count;
	struct gt_data_column *columns; /* [column_count] */
	/* tables: the target's name; for regression also its mean and std */
	struct gt_data_column target;
	int target_place; /* tables: 1 + the number of columns before the target; 0: not known */
	enum gt_data_missing missing;     /* tables: the treatment of missing values */
	struct gt_data_dialect dialect;   /* tables */
	struct gt_data_specials specials; /* text: the special tokens of the model */
	/* The samples are inputs for predictions and have no targets. read() sets the target to
	 * GT_DATA_IGNORE, or, for lines of text (text_lines.c), to the position of the line's last
	 * token. */
	bool unlabelled;
	/* read() reads only the part of an image that gt_augment_part() draws at random */
	bool takes_parts;
	bool resizes;      /* images of any size are resized to the size in `info` */
	bool reduce;       /* if `resizes`: large JPEGs are decoded at a reduced size (images.h) */
	struct gt_fit fit; /* if `resizes`: how */
	struct gt_damage *damage; /* NULL: a sample that cannot be read is an error */
	/* [info.form.classes]: if read() gives class i, the class of the sample is renumber[i];
	 * NULL: it is i */
	int32_t *renumber;
	/* The name of the part of the data that open() reads, such as a sub-folder of the spec's
	 * path; NULL: open() reads all of the data. */
	const char *part;
	/* The absolute path of the data: PATH/PART, or PATH if `part` is NULL. PATH is the spec's
	 * path. A path that is not the path of a file (for example, that of an array in a file) is
	 * not made absolute. NULL: there are no files. */
	const char *files;
	/* `files` is a folder, and each folder in it is a class */
	bool class_folders;
	struct gt_arena names; /* memory of the names above; close() releases it */
	atomic_int views;      /* number of views that are open */
};

/* Return the source of a data set. */
const struct gt_source *gt_dataset_source(const struct gt_dataset *data);

/* A kind of data: a row of the table in dataset.c. */
struct gt_source_kind {
	struct gt_data_form form; /* the kind's name, the form of its specs, and its keys */
	bool pathless;            /* the spec may lack a path */
	/* The keys that a spec may have if the data are inputs for predictions
	 * (request->inputs), ended by NULL. NULL: this kind cannot read such inputs. */
	const char *const *input_keys;
	int (*open)(struct gt_source **out, const struct gt_spec *spec,
	    const struct gt_data_request *request, struct gt_err *err);
};

extern const struct gt_source_kind gt_text_kind, gt_tokens_kind, gt_cifar10_kind, gt_mnist_kind,
    gt_images_kind, gt_webdataset_kind, gt_csv_kind, gt_npy_kind, gt_npz_kind, gt_random_kind;

/* Apply the augmentations of draw->augment (lib/data/images/augment.h) to one image in place:
 * pixels [height, width, channels]. `is_part`: the pixels already are a random part of an image, so
 * GT_AUGMENT_RRC (random resized crop) is skipped. Errors: GT_ENOMEM. */
int gt_augment_image(uint8_t *pixels, const struct gt_data_info *info, int64_t sample,
    const struct gt_draw *draw, bool is_part, struct gt_err *err);

/* For GT_AUGMENT_RRC (random resized crop): draw a random part of a picture of height x width
 * pixels. Return false if draw->augment does not contain GT_AUGMENT_RRC, or if draw->train is
 * false. */
bool gt_augment_part(
    struct gt_box *out, const struct gt_draw *draw, int64_t sample, int height, int width);

/*
 * rrc.c: return a random rectangle in a picture.
 *
 *   settings  four numbers: the least and the largest share of the picture's area; the least and
 *             the largest ratio of width to height
 *   bits      Key and counter for the random words (lib/base/philox.h). The function tries random
 *             rectangles; each attempt draws area, ratio, top and left.
 */
struct gt_box gt_rrc_box(int height, int width, const double *settings, const uint32_t bits[4]);
/* Check that the settings are above 0, and that no maximum is below its minimum. Errors:
 * GT_EINVAL. */
int gt_rrc_check(const double *settings, struct gt_err *err);
/* Replace pixels [height, width, channels] by a random part of them, resized to the same size.
 * Errors: GT_ENOMEM. */
int gt_augment_rrc(uint8_t *pixels, const struct gt_data_info *info, const double *settings,
    const uint32_t bits[4], struct gt_err *err);

/*
 * jitter.c: vary the colors of an image of 1 or 3 channels in place.
 *
 *   settings  four numbers: brightness b, contrast c, saturation s, hue h. Brightness is multiplied
 *             by a random factor from max(0, 1 - b) to 1 + b. Contrast and saturation have factors
 *             from the same formula, with c and s in place of b. The hue is shifted by a random
 *             part of its circle, from -h to h. A setting of 0 changes nothing.
 *   bits      Four random words. The upper 24 bits of word k give the factor or shift of setting k.
 *             The lower 8 bits of all words together choose one of the 24 orders of the four
 *             adjustments.
 */
int gt_augment_jitter(uint8_t *pixels, const struct gt_data_info *info, const double *settings,
    const uint32_t bits[4], struct gt_err *err);

/* The number of blocks of the random stream that each group of mixed samples has. */
enum { GT_MIXUP_BLOCKS = 256 };

/*
 * mixup.c: return the random weight with which a group of samples is mixed. The weight has the
 * distribution Beta(alpha, alpha), alpha > 0.
 *
 *   number    index of the group in its epoch, from 0
 *
 * Each group has GT_MIXUP_BLOCKS blocks of the random stream (lib/base/philox.h). The weight is
 * computed from two random numbers of a gamma distribution; each of these two numbers uses one half
 * of the blocks.
 */
double gt_mixup_weight(double alpha, uint64_t seed, uint64_t number, uint32_t epoch);

/*
 * Mix each sample of a group with the previous one: sample i with sample i - 1, and the first
 * sample with the last.
 *
 *   out      [count, size] mixtures on the scale of the pixels, 0 to 255
 *   target   [count]
 *   pixels   [count, size] the samples as they were read
 *   classes  [count] classes of the samples
 *   weight   weight of sample i; the weight of sample i - 1 is 1 - weight
 */
void gt_mixup_rows(float *out, struct gt_mixed_target *target, const uint8_t *pixels,
    const int32_t *classes, int count, size_t size, float weight);

/* Check that alpha = settings[0] is above 0. Errors: GT_EINVAL. */
int gt_mixup_check(const double *settings, struct gt_err *err);

/* Write a random permutation of 0 .. n-1 to order[n], by the method of Fisher and Yates. The
 * permutation depends only on n, seed, `stream` and `step` (lib/base/philox.h). */
void gt_permute(int64_t *order, int64_t n, uint64_t seed, uint32_t stream, uint32_t step);

/* text_lines.c: open the lines of request->inputs. Each line is a separate text, for which a model
 * predicts the next token. This function takes ownership of `tok`, even if it fails: then it
 * closes `tok` itself, otherwise close() of the source does. */
int gt_text_open_lines(struct gt_source **out, struct gt_tokenizer *tok,
    const struct gt_data_request *request, struct gt_err *err);

/* dataset.c: set info.interpretation for a spec that names no split, so that `split` is read.
 * Errors: GT_ENOMEM. */
int gt_source_note_split(struct gt_source *s, const char *split, struct gt_err *err);

/* Mean and standard deviation of the pixels of MNIST's 60,000 training images, on the scale
 * 0..1. */
#define GT_MNIST_MEAN 0.1307f
#define GT_MNIST_STD  0.3081f

/*
 * conform.c: adapt a new source to request->like, a description of training data. Images get the
 * normalization of `like`. But if the spec sets another normalization, that one is kept, and
 * info.overruled says so. The size and `reduce` of images do not change here: gt_source_kind.open()
 * has already taken them from the spec or from `like`. A class gets the number that its name has in
 * `like`. `request` is the argument of gt_dataset_open(). Errors: GT_EINVAL if the spec contradicts
 * `like`; GT_EFORMAT if the files contradict `like`; GT_ENOMEM.
 */
int gt_source_conform(struct gt_source *s, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err);

/* Return GT_ENOMEM if `bytes` of memory exceed the limit of the request, else 0. `what` names the
 * data in the message, for example "the text". */
int gt_data_check_memory(
    const struct gt_data_request *request, uint64_t bytes, const char *what, struct gt_err *err);

#endif
