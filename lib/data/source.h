/* source.h - inside data: the functions of every kind of data set. */
#ifndef GT_DATA_SOURCE_H
#define GT_DATA_SOURCE_H

#include <stdatomic.h>

#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/base/mixed_target.h"
#include "lib/data/data.h"
#include "lib/data/description.h"
#include "lib/data/resize.h"
#include "lib/data/spec.h"

struct gt_source;

/* The part of a token stream that a view sees: tokens first .. first + length - 1. */
struct gt_data_part {
	int64_t first, length;
};

struct gt_source_ops {
	/* Does the work of gt_dataset_read(), without bounds check and augmentation. Only streams
	 * read `part`. */
	int (*read)(struct gt_source *self, const struct gt_data_part *part, int64_t index,
	    const struct gt_draw *draw, void *input, int32_t *target, struct gt_err *err);
	/* Returns the number of samples in `length` tokens of a stream. NULL for other data, which
	 * a split divides by samples. */
	int64_t (*samples_in)(const struct gt_source *self, int64_t length);
	/* The name of a sample, borrowed; NULL: samples have numbers alone. */
	const char *(*name)(const struct gt_source *self, int64_t index);
	/* Does the work of gt_dataset_fit() on the samples index [count]. NULL: there is nothing to
	 * measure. */
	void (*fit)(struct gt_source *self, const int64_t *index, int64_t count);
	/* Returns the tokenizer of a text, borrowed. NULL for other data. */
	const struct gt_tokenizer *(*tokenizer)(const struct gt_source *self);
	/* NULL: the data have no vocabulary. */
	const char *(*vocab_name)(const struct gt_source *self);
	int (*save_vocab)(
	    const struct gt_source *self, struct gt_file_name file, struct gt_err *err);
	void (*close)(struct gt_source *self);
};

/*
 * The head of every kind's own struct. After the source is opened, only two things in it change:
 * the count of views, and the statistics that gt_dataset_fit() measures.
 */
struct gt_source {
	const struct gt_source_ops *ops;
	struct gt_data_info info;
	int64_t length; /* the units that a split divides: tokens of a stream, samples otherwise */
	const char *const *class_names;   /* [info.classes]; NULL: classes have numbers alone */
	const char *const *feature_names; /* [info.features]; NULL: columns have no names */
	int column_count;                 /* tables; 0: each feature is a number as it is */
	struct gt_data_column *columns;   /* [column_count] */
	struct gt_data_column target;     /* of regression: its name and scale */
	struct gt_data_specials specials; /* text: the special tokens of the model that reads it */
	bool unlabelled;                  /* every target is GT_DATA_IGNORE */
	bool takes_parts;                 /* read() gives the part that gt_augment_part() draws */
	bool resizes;                     /* images of any size are resized to the size in `info` */
	struct gt_damage *damage;         /* NULL: samples that cannot be read are errors */
	/* [info.classes] new number of each class number that read() returns; NULL: unchanged */
	int32_t *renumber;
	struct gt_arena names; /* memory of the names above; close() releases it */
	atomic_int views;
};

/* The source that a data set is a view of. */
const struct gt_source *gt_dataset_source(const struct gt_dataset *data);

/* A kind of data: a row of the table in dataset.c. */
struct gt_source_kind {
	struct gt_data_form form;
	bool pathless; /* the path may be missing */
	/* Names of the settings that apply to the inputs of a request, ended by NULL. NULL: this
	 * kind takes no inputs. */
	const char *const *input_keys;
	int (*open)(struct gt_source **out, const struct gt_spec *spec,
	    const struct gt_data_request *request, struct gt_err *err);
};

extern const struct gt_source_kind gt_text_kind, gt_tokens_kind, gt_cifar10_kind, gt_mnist_kind,
    gt_images_kind, gt_webdataset_kind, gt_csv_kind, gt_npy_kind, gt_npz_kind, gt_random_kind;

/* Augment one image in place, as draw->augment says: pixels [height, width, channels]. With
 * `is_part` the pixels already are a random part of a picture. Errors: GT_ENOMEM. */
int gt_augment_image(uint8_t *pixels, const struct gt_data_info *info, int64_t sample,
    const struct gt_draw *draw, bool is_part, struct gt_err *err);

/* Draw the part of a picture of height x width pixels that becomes this sample. Returns false if
 * draw->augment takes no random parts, or the draw is for evaluation. */
bool gt_augment_part(
    struct gt_box *out, const struct gt_draw *draw, int64_t sample, int height, int width);

/*
 * rrc.c: a random part of a picture.
 *
 *   settings  the least and the largest share of the area; the least and the largest width / height
 *   bits      key and counter of the random words from which each attempt draws area, ratio, top
 *             and left
 */
struct gt_box gt_rrc_box(int height, int width, const double *settings, const uint32_t bits[4]);
/* Check that the settings can be combined. Errors: GT_EINVAL. */
int gt_rrc_check(const double *settings, struct gt_err *err);
/* Replace pixels [height, width, channels] by a part of them. GT_ENOMEM. */
int gt_augment_rrc(uint8_t *pixels, const struct gt_data_info *info, const double *settings,
    const uint32_t bits[4], struct gt_err *err);

/*
 * jitter.c: vary the colours of an image of 1 or 3 channels in place.
 *
 *   settings  brightness b, contrast c, saturation s: factors from max(0, 1 - b) to 1 + b; hue h: a
 *             shift from -h to h; a setting of 0 leaves the image as it is
 *   bits      the upper 24 bits of word k draw factor k; the lower 8 bits of all words draw one of
 *             the 24 orders
 */
int gt_augment_jitter(uint8_t *pixels, const struct gt_data_info *info, const double *settings,
    const uint32_t bits[4], struct gt_err *err);

/*
 * mixup.c: the weight of a mixture, from Beta(alpha, alpha), alpha > 0; of group `number` of an
 * epoch. A group draws from GT_MIXUP_BLOCKS blocks of the stream, half of them for each of two
 * numbers of the gamma distribution.
 */
enum { GT_MIXUP_BLOCKS = 256 };
double gt_mixup_weight(double alpha, uint64_t seed, uint64_t number, uint32_t epoch);

/*
 * Mix a group of samples with itself, rolled by one: sample i with sample i - 1, and the first one
 * with the last.
 *
 *   out      [count, size], on the scale of the pixels, 0 to 255
 *   target   [count]
 *   pixels   [count, size];  classes [count]: of the samples as they were read
 *   weight   of sample i; that of its partner is 1 less it
 */
void gt_mixup_rows(float *out, struct gt_mixed_target *target, const uint8_t *pixels,
    const int32_t *classes, int count, size_t size, float weight);

/* Whether the setting can be used: GT_EINVAL. */
int gt_mixup_check(const double *settings, struct gt_err *err);

/* A permutation of 0 .. n-1 into order [n], by Fisher and Yates from Philox(seed, stream, step). */
void gt_permute(int64_t *order, int64_t n, uint64_t seed, uint32_t stream, uint32_t step);

/* text_lines.c: open the lines of the request's inputs. Each line is a text of its own, whose next
 * token a model predicts. The source owns `tok` from then on, even if this fails. */
int gt_text_open_lines(struct gt_source **out, struct gt_tokenizer *tok,
    const struct gt_data_request *request, struct gt_err *err);

/* How the 60,000 training images of MNIST are normalized. */
#define GT_MNIST_MEAN 0.1307f
#define GT_MNIST_STD  0.3081f

/*
 * conform.c: adapt a new source to request->like. Normalization is taken from there unless the spec
 * gives it (info.overruled then says so); classes get the numbers that their names have there.
 * `request` is the caller's. Errors: GT_EINVAL, where spec or files contradict it; GT_ENOMEM.
 */
int gt_source_conform(struct gt_source *s, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err);

/* Check the memory that `what` ("the text") takes against the request's limit: 0 or GT_ENOMEM. */
int gt_data_check_memory(
    const struct gt_data_request *request, uint64_t bytes, const char *what, struct gt_err *err);

#endif
