/* mnist.c - images and labels in idx files, as MNIST comes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/data/core/byte_stream.h"
#include "lib/data/core/source.h"
#include "lib/data/images/mnist_files.h"

/* Source of the format: "The MNIST database", LeCun, Cortes, Burges: four bytes of magic (0, 0,
 * type 8 for uint8, number of dimensions), the dimensions as big-endian uint32, the values. */
enum { IMAGES_MAGIC = 0x803, LABELS_MAGIC = 0x801, MIN_CLASSES = 10 };

struct mnist {
	struct gt_source source;
	int classes; /* labels are below it */
	struct idx {
		struct gt_byte_stream *file;
		uint8_t *inflated;     /* [size] values of a compressed file, or NULL */
		const uint8_t *values; /* `inflated`, or values in the mapped file */
		uint64_t size;         /* bytes of the values */
		uint32_t dims[3];
	} images, labels;
};

static uint32_t read_be32(const unsigned char *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Read the header: magic number and dims [count], whose product is the size. */
static int read_idx_header(struct idx *x, uint32_t magic, int count, struct gt_err *err)
{
	uint8_t header[16];
	uint64_t size = 4 + 4 * (uint64_t)count, got;
	int rc = gt_byte_stream_read(x->file, header, size, &got, err);

	if (rc)
		return rc;
	if (got < size)
		return gt_err_set(err, GT_EFORMAT, "%llu bytes, shorter than an idx header of %llu",
		    (unsigned long long)got, (unsigned long long)size);
	if (read_be32(header) != magic) {
		gt_err_set(err, GT_EFORMAT, "magic number 0x%08x where 0x%08x was expected",
		    read_be32(header), magic);
		return gt_err_hint(err, "is it an idx file of uint8 with %d dimension%s?", count,
		    count == 1 ? "" : "s");
	}
	x->size = 1;
	for (int i = 0; i < count; i++) {
		x->dims[i] = read_be32(header + 4 + 4 * i);
		if (!x->dims[i] || (i > 0 && x->dims[i] > GT_DATA_MAX_SIDE))
			return gt_err_set(
			    err, GT_EFORMAT, "dimension %d is %u", i, (unsigned)x->dims[i]);
		x->size *= x->dims[i]; /* at most 2^32 * 2^12 * 2^12 */
	}
	return 0;
}

static int wrong_size(const char *there, uint64_t wanted, struct gt_err *err)
{
	gt_err_set(err, GT_EFORMAT, "%s bytes of values where the header promises %llu", there,
	    (unsigned long long)wanted);
	return gt_err_hint(err, "the file is damaged; copy or download it again");
}

/* Inflate as many values as the header promises, and not one more. */
static int inflate_values(struct idx *x, const struct gt_data_request *request, struct gt_err *err)
{
	uint64_t start = gt_byte_stream_at(x->file), got, more = 0,
	         max = gt_byte_stream_max_left(x->file);
	char there[48];
	int rc;

	snprintf(there, sizeof(there), "at most %llu", (unsigned long long)max);
	if (x->size > max)
		return wrong_size(there, x->size, err);
	rc = gt_data_check_memory(request, x->size, "the inflated file", err);
	if (rc)
		return rc;
	x->inflated = gt_calloc(x->size, 1, err);
	if (!x->inflated)
		return GT_ENOMEM;
	rc = gt_byte_stream_read(x->file, x->inflated, x->size, &got, err);
	if (!rc && got == x->size)
		rc = gt_byte_stream_read(x->file, NULL, 1, &more, err);
	if (rc)
		return rc;
	if (more) {
		gt_err_set(err, GT_EFORMAT,
		    "holds more than the %llu bytes that its header promises",
		    (unsigned long long)(start + x->size));
		return gt_err_hint(err, "the file is damaged; copy or download it again");
	}
	snprintf(there, sizeof(there), "%llu", (unsigned long long)got);
	return got < x->size ? wrong_size(there, x->size, err) : 0;
}

static int read_idx(struct idx *x, uint32_t magic, int count, const struct gt_data_request *request,
    struct gt_err *err)
{
	uint64_t there;
	char text[24];
	int rc = read_idx_header(x, magic, count, err);

	if (rc)
		return rc;
	if (gt_byte_stream_is_gzip(x->file)) {
		rc = inflate_values(x, request, err);
		x->values = x->inflated;
		return rc;
	}
	there = gt_byte_stream_max_left(x->file);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)there);
	if (there != x->size)
		return wrong_size(text, x->size, err);
	x->values = gt_byte_stream_borrow(x->file, x->size);
	return 0;
}

/* Open one file; its path is *path, which the caller frees. */
static int open_idx(struct idx *x, char **path, const struct gt_mnist_files *files,
    enum gt_mnist_split split, bool images, const struct gt_data_request *request,
    struct gt_err *err)
{
	static const char *const names[] = { "train", "t10k" };
	bool exists = false;
	int rc;

	*path = gt_mnist_files_path(files, split, images, &exists, err);
	if (!*path)
		return GT_ENOMEM;
	rc = gt_byte_stream_open(&x->file, *path, err);
	if (!rc) {
		rc = images ? read_idx(x, IMAGES_MAGIC, 3, request, err)
		            : read_idx(x, LABELS_MAGIC, 1, request, err);
		if (rc)
			gt_err_prefix(err, "'%s'", *path);
	} else if (rc == GT_EIO) {
		gt_err_hint(err,
		    "the folder needs %s%s-images-idx3-ubyte and %s%s-labels-idx1-ubyte, or both "
		    "with .gz; `gtrain data get mnist` fetches those of MNIST",
		    files->front, names[split], files->front, names[split]);
	}
	return rc;
}

static void close_idx(struct idx *x)
{
	gt_byte_stream_close(x->file);
	free(x->inflated);
}

/* Compare the numbers of images and labels, and count the classes: those of MNIST, or more. */
static int check_labels(struct mnist *m, struct gt_err *err)
{
	uint32_t images = m->images.dims[0], labels = m->labels.dims[0];

	if (images != labels)
		return gt_err_set(err, GT_EFORMAT, "%u images, but %u labels", (unsigned)images,
		    (unsigned)labels);
	m->source.info.form.classes = MIN_CLASSES;
	for (uint32_t i = 0; i < labels; i++)
		if (m->labels.values[i] >= m->source.info.form.classes)
			m->source.info.form.classes = m->labels.values[i] + 1;
	return 0;
}

static int read_mnist(struct gt_source *self, const struct gt_data_part *part, int64_t index,
    const struct gt_draw *draw, void *input, int32_t *target, struct gt_err *err)
{
	const struct mnist *m = (const struct mnist *)self;

	(void)part;
	(void)draw;
	memcpy(input, m->images.values + (size_t)index * self->info.input_bytes,
	    self->info.input_bytes);
	/* Labels of a plain file are read where it lies, and another program may write to it. */
	*target = m->labels.values[index];
	if (*target < m->classes)
		return 0;
	return gt_err_set(err, GT_EFORMAT,
	    "the labels changed while they were read: label %d of sample %lld is not in 0..%d",
	    *target, (long long)index, m->classes - 1);
}

static void close_mnist(struct gt_source *self)
{
	struct mnist *m = (struct mnist *)self;

	gt_arena_release(&self->names);
	close_idx(&m->images);
	close_idx(&m->labels);
	free(m);
}

static int32_t class_of_mnist(const struct gt_source *self, int64_t index)
{
	return ((const struct mnist *)self)->labels.values[index];
}

static const struct gt_source_ops mnist_ops = {
	.read = read_mnist, .class_of = class_of_mnist, .close = close_mnist
};

/* Set *found if a file of the split exists: the other one alone may be missing. */
static int find_split(
    bool *found, const struct gt_mnist_files *files, enum gt_mnist_split split, struct gt_err *err)
{
	*found = false;
	for (int images = 0; images < 2 && !*found; images++) {
		char *path = gt_mnist_files_path(files, split, images, found, err);

		if (!path)
			return GT_ENOMEM;
		free(path);
	}
	return 0;
}

/* The split that is asked for; without a choice that of the training, or for held-out data that of
 * the tests, if it exists. */
static int choose_split(enum gt_mnist_split *split, const struct gt_spec *spec,
    const struct gt_mnist_files *files, bool held_out, struct gt_err *err)
{
	static const char *const splits[] = { "train", "test", NULL };
	int chosen = -1, rc = gt_spec_choice(spec, "split", splits, &chosen, err);
	bool found = false;

	*split = held_out ? GT_MNIST_TEST : GT_MNIST_TRAIN;
	if (!rc && chosen >= 0)
		*split = (enum gt_mnist_split)chosen;
	else if (!rc)
		rc = find_split(&found, files, *split, err);
	if (!rc && chosen < 0 && !found)
		*split = held_out ? GT_MNIST_TRAIN : GT_MNIST_TEST;
	return rc;
}

/* Note a split that the spec does not name. */
static int note_split(struct gt_source *s, const struct gt_spec *spec, enum gt_mnist_split split,
    bool held_out, struct gt_err *err)
{
	if (gt_spec_value(spec, "split"))
		return 0;
	if (split == GT_MNIST_TRAIN || held_out)
		return gt_source_note_split(s, split == GT_MNIST_TRAIN ? "train" : "test", err);
	s->info.note = "there are no train-* files, so it is the t10k-* files, the test set";
	return 0;
}

static int describe_mnist(struct mnist *m, const struct gt_spec *spec, struct gt_err *err)
{
	struct gt_data_info *info = &m->source.info;
	const uint32_t *images = m->images.dims;

	m->classes = info->form.classes;
	info->form.kind = GT_SAMPLE_IMAGE;
	info->samples = m->source.length = images[0];
	info->form.height = (int)images[1];
	info->form.width = (int)images[2];
	info->form.channels = 1;
	info->input_bytes = (size_t)images[1] * images[2];
	info->targets = 1;
	info->form.mean[0] = GT_MNIST_MEAN;
	info->form.std[0] = GT_MNIST_STD;
	return gt_spec_normalization(spec, info, err);
}

/* Open both files. The part of the user's folder that they are is the file of the images. */
static int open_mnist_files(struct mnist *m, const struct gt_spec *spec,
    const struct gt_mnist_files *files, enum gt_mnist_split split,
    const struct gt_data_request *request, struct gt_err *err)
{
	char *images, *labels = NULL;
	int rc = open_idx(&m->images, &images, files, split, true, request, err);

	if (!rc)
		rc = open_idx(&m->labels, &labels, files, split, false, request, err);
	if (!rc && check_labels(m, err))
		rc = gt_err_prefix(err, "'%s'", labels);
	if (!rc) {
		m->source.part =
		    gt_arena_strdup(&m->source.names, images + strlen(spec->path) + 1, err);
		rc = m->source.part ? 0 : GT_ENOMEM;
	}
	free(images);
	free(labels);
	return rc;
}

static int load_mnist(struct mnist *m, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	struct gt_mnist_files files = { NULL, NULL };
	enum gt_mnist_split split;
	int rc = gt_mnist_files_find(&files, spec->path, gt_spec_value(spec, "subset"), err);

	if (!rc)
		rc = choose_split(&split, spec, &files, request->held_out, err);
	if (!rc)
		rc = open_mnist_files(m, spec, &files, split, request, err);
	if (!rc)
		rc = describe_mnist(m, spec, err);
	if (!rc)
		rc = note_split(&m->source, spec, split, request->held_out, err);
	gt_mnist_files_release(&files);
	return rc;
}

static int open_mnist(struct gt_source **out, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	struct mnist *m = gt_calloc(1, sizeof(*m), err);
	int rc;

	if (!m)
		return GT_ENOMEM;
	m->source.ops = &mnist_ops;
	rc = load_mnist(m, spec, request, err);
	if (rc)
		close_mnist(&m->source);
	else
		*out = &m->source;
	return rc;
}

static const struct gt_setting settings[] = { { "split", "train|test", "train if it exists",
	                                          "read the train-* or the t10k-* files" },
	{ "subset", "NAME", "the only one",
	    "of several data sets, such as EMNIST's: letters, ..." },
	{ "mean", "a/b/c", "0.1307",
	    "mean of pixels (scale 0 to 1) to subtract, per channel or one for all" },
	{ "std", "a/b/c", "0.3081", "standard deviation to divide by, per channel or one for all" },
	{ 0 } };

const struct gt_source_kind gt_mnist_kind = {
	.form = { .name = "mnist",
	    .path = "FOLDER",
	    .summary = "idx files, plain or .gz: MNIST, Fashion-MNIST, EMNIST and the like",
	    .settings = settings,
	    .example = "mnist:mnist,split=test" },
	.open = open_mnist,
};
