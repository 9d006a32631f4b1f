/* mnist.c - images and labels in idx files, as MNIST comes. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/mem.h"
#include "lib/data/source.h"

/* Source of the format: "The MNIST database", LeCun, Cortes, Burges: four bytes of magic (0, 0,
 * type 8 for uint8, number of dimensions), the dimensions as big-endian uint32, the values. */
enum { IMAGES_MAGIC = 0x803, LABELS_MAGIC = 0x801, CLASSES = 10, MAX_SIDE = 4096 };

struct mnist {
	struct gt_source source;
	struct gt_mapping images, labels;
	const uint8_t *pixels, *classes; /* into the mappings */
};

static uint32_t read_be32(const unsigned char *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* FOLDER/PREFIX-SUFFIX or the same with .gz, yours to free(). */
static char *find_file(
    const char *folder, const char *prefix, const char *suffix, struct gt_err *err)
{
	char *path = gt_asprintf(err, "%s/%s-%s", folder, prefix, suffix);

	if (path && access(path, F_OK)) {
		free(path);
		path = gt_asprintf(err, "%s/%s-%s.gz", folder, prefix, suffix);
	}
	return path;
}

/* Check an idx file against its own header; dims [count] come out, *values points behind it. */
static int check_idx(const struct gt_mapping *map, uint32_t magic, int count, uint32_t *dims,
    const uint8_t **values, struct gt_err *err)
{
	size_t header = 4 + 4 * (size_t)count;
	uint64_t wanted = 1;

	if (map->size < header)
		return gt_err_set(err, GT_EFORMAT, "%zu bytes, shorter than an idx header of %zu",
		    map->size, header);
	if (read_be32(map->data) != magic) {
		gt_err_set(err, GT_EFORMAT, "magic number 0x%08x where 0x%08x was expected",
		    read_be32(map->data), magic);
		return gt_err_hint(err, "is it an idx file of uint8 with %d dimension%s?", count,
		    count == 1 ? "" : "s");
	}
	for (int i = 0; i < count; i++) {
		dims[i] = read_be32(map->data + 4 + 4 * i);
		if (!dims[i] || (i > 0 && dims[i] > MAX_SIDE))
			return gt_err_set(
			    err, GT_EFORMAT, "dimension %d is %u", i, (unsigned)dims[i]);
		wanted *= dims[i]; /* at most 2^32 * 2^12 * 2^12 */
	}
	if (map->size - header != wanted) {
		gt_err_set(err, GT_EFORMAT, "%zu bytes of values where the header promises %llu",
		    map->size - header, (unsigned long long)wanted);
		return gt_err_hint(err, "the file is damaged; copy or download it again");
	}
	*values = map->data + header;
	return 0;
}

static int open_idx(struct gt_mapping *map, const char *folder, const char *prefix,
    const char *suffix, uint32_t magic, int count, uint32_t *dims, const uint8_t **values,
    struct gt_err *err)
{
	char *path = find_file(folder, prefix, suffix, err);
	int rc;

	if (!path)
		return GT_ENOMEM;
	rc = gt_map_inflated(map, path, err);
	if (!rc) {
		rc = check_idx(map, magic, count, dims, values, err);
		if (rc)
			gt_err_prefix(err, "'%s'", path);
	} else if (rc == GT_EIO) {
		gt_err_hint(err,
		    "the folder needs %s-images-idx3-ubyte and %s-labels-idx1-ubyte, or both with .gz",
		    prefix, prefix);
	}
	free(path);
	return rc;
}

static int check_labels(const struct mnist *m, uint32_t images, uint32_t labels, struct gt_err *err)
{
	if (images != labels)
		return gt_err_set(err, GT_EFORMAT, "%u images, but %u labels", (unsigned)images,
		    (unsigned)labels);
	for (uint32_t i = 0; i < labels; i++)
		if (m->classes[i] >= CLASSES)
			return gt_err_set(err, GT_EFORMAT, "label %d of sample %u is not in 0..%d",
			    m->classes[i], (unsigned)i, CLASSES - 1);
	return 0;
}

static int read_mnist(struct gt_source *self, const struct gt_part *part, int64_t index,
    const struct gt_draw *draw, void *input, int32_t *target, struct gt_err *err)
{
	const struct mnist *m = (const struct mnist *)self;

	(void)part;
	(void)draw;
	(void)err;
	memcpy(input, m->pixels + (size_t)index * self->info.input_bytes, self->info.input_bytes);
	*target = m->classes[index];
	return 0;
}

static void close_mnist(struct gt_source *self)
{
	struct mnist *m = (struct mnist *)self;

	gt_unmap(&m->images);
	gt_unmap(&m->labels);
	free(m);
}

static const struct gt_source_ops mnist_ops = { .read = read_mnist, .close = close_mnist };

/* Whether a file of the training set is there: the other one alone may be missing. */
static int find_train(bool *found, const char *folder, struct gt_err *err)
{
	static const char *const suffixes[] = { "images-idx3-ubyte", "labels-idx1-ubyte" };

	*found = false;
	for (int i = 0; i < 2 && !*found; i++) {
		char *path = find_file(folder, "train", suffixes[i], err);

		if (!path)
			return GT_ENOMEM;
		*found = !access(path, F_OK);
		free(path);
	}
	return 0;
}

/* `train` or `t10k`: as asked for, else train where it is. */
static int choose_prefix(const struct gt_spec *spec, const char **prefix, struct gt_err *err)
{
	static const char *const splits[] = { "train", "test", NULL };
	static const char *const prefixes[] = { "train", "t10k" };
	int split = -1, rc = gt_spec_choice(spec, "split", splits, &split, err);
	bool train = false;

	if (!rc && split < 0) {
		rc = find_train(&train, spec->path, err);
		split = !train;
	}
	if (!rc)
		*prefix = prefixes[split];
	return rc;
}

static int load(struct mnist *m, const struct gt_spec *spec, struct gt_err *err)
{
	struct gt_data_info *info = &m->source.info;
	uint32_t images[3] = { 0 }, labels[1] = { 0 };
	const char *prefix;
	int rc = choose_prefix(spec, &prefix, err);

	if (!rc)
		rc = open_idx(&m->images, spec->path, prefix, "images-idx3-ubyte", IMAGES_MAGIC, 3,
		    images, &m->pixels, err);
	if (!rc)
		rc = open_idx(&m->labels, spec->path, prefix, "labels-idx1-ubyte", LABELS_MAGIC, 1,
		    labels, &m->classes, err);
	if (rc)
		return rc;
	rc = check_labels(m, images[0], labels[0], err);
	if (rc)
		return gt_err_prefix(err, "'%s', %s files", spec->path, prefix);
	/* The mean and deviation of the 60,000 training images. */
	*info = (struct gt_data_info){ .kind = GT_DATA_IMAGE,
		.samples = images[0],
		.height = (int)images[1],
		.width = (int)images[2],
		.channels = 1,
		.classes = CLASSES,
		.input_bytes = (size_t)images[1] * images[2],
		.targets = 1,
		.mean = { 0.1307f },
		.std = { 0.3081f } };
	m->source.length = info->samples;
	if (!strcmp(prefix, "t10k") && !gt_spec_value(spec, "split"))
		info->note = "there are no train-* files, so it is the t10k-* files, the test set";
	return gt_spec_normalization(spec, info, err);
}

int gt_mnist_open(struct gt_source **out, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	struct mnist *m = gt_calloc(1, sizeof(*m), err);
	int rc;

	(void)request;
	if (!m)
		return GT_ENOMEM;
	m->source.ops = &mnist_ops;
	rc = load(m, spec, err);
	if (rc)
		close_mnist(&m->source);
	else
		*out = &m->source;
	return rc;
}
