/* cifar10.c - CIFAR-10: 32 x 32 pixels and a label, as records or as pickles. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/mem.h"
#include "lib/ckpt/ckpt.h"
#include "lib/data/core/source.h"

/*
 * The binary version has records of a label and three planes of pixels; the Python version pickled
 * dicts, of an array [10000, 3072] "data" of the same planes and a list "labels". Other programs
 * write an array of labels.
 * Source: https://www.cs.toronto.edu/~kriz/cifar.html.
 */
enum { SIDE = 32, CHANNELS = 3, CLASSES = 10, PLANE = SIDE * SIDE, PIXELS = CHANNELS * PLANE };
enum { RECORD = 1 + PIXELS, MAX_FILES = 5, MAX_NAME = 64 };

/* Samples in one file. */
struct part {
	char *path;
	struct gt_mapping map;  /* file of the binary version */
	struct gt_ckpt *pickle; /* file of the Python version, or NULL */
	unsigned char *numbers; /* [count] labels of the Python version */
	/* pixels and label of the first sample; a step leads to the next sample */
	const unsigned char *pixels, *labels;
	size_t pixel_step, label_step;
	int64_t first, count; /* samples: number of the first, and how many */
};

struct cifar10 {
	struct gt_source source;
	struct part parts[MAX_FILES];
	int count;
};

/* A version of the files: how they are called and opened. */
struct version {
	const char *ending, *names;
	int (*open)(struct part *part, struct gt_err *err);
	int (*read_names)(struct gt_source *s, const char *path, struct gt_err *err);
};

/* ---- samples ---- */

/* The part that has sample *index, which becomes the index in this part. */
static const struct part *find_part(const struct cifar10 *c, int64_t *index)
{
	const struct part *p = &c->parts[c->count - 1];

	while (p->first > *index)
		p--;
	*index -= p->first;
	return p;
}

static int32_t class_of_cifar10(const struct gt_source *self, int64_t index)
{
	const struct part *p = find_part((const struct cifar10 *)self, &index);

	return p->labels[(size_t)index * p->label_step];
}

/* Labels are checked when they are read, as the file may be changed meanwhile. */
static int read_cifar10(struct gt_source *self, const struct gt_data_part *part, int64_t index,
    const struct gt_draw *draw, void *input, int32_t *target, struct gt_err *err)
{
	const struct part *p = find_part((const struct cifar10 *)self, &index);
	const unsigned char *plane;
	uint8_t *pixels = input;

	(void)part;
	(void)draw;
	*target = p->labels[(size_t)index * p->label_step];
	if (*target >= CLASSES)
		return gt_err_set(err, GT_EFORMAT, "'%s': label %d of sample %lld is not below %d",
		    p->path, *target, (long long)index, CLASSES);
	plane = p->pixels + (size_t)index * p->pixel_step;
	for (int i = 0; i < PLANE; i++)
		for (int k = 0; k < CHANNELS; k++)
			*pixels++ = plane[k * PLANE + i];
	return 0;
}

static void close_cifar10(struct gt_source *self)
{
	struct cifar10 *c = (struct cifar10 *)self;

	for (struct part *p = c->parts; p < c->parts + c->count; p++) {
		gt_unmap(&p->map);
		gt_ckpt_close(p->pickle);
		free(p->numbers);
		free(p->path);
	}
	gt_arena_release(&self->names);
	free(c);
}

static const struct gt_source_ops cifar10_ops = {
	.read = read_cifar10, .class_of = class_of_cifar10, .close = close_cifar10
};

/* ---- the binary version ---- */

static int open_records(struct part *p, struct gt_err *err)
{
	int rc = gt_map(&p->map, p->path, err);

	if (rc)
		return rc;
	if (!p->map.size || p->map.size % RECORD)
		return gt_err_set(err, GT_EFORMAT, "'%s': %zu bytes are no records of %d", p->path,
		    p->map.size, RECORD);
	p->labels = p->map.data;
	p->pixels = p->map.data + 1;
	p->label_step = p->pixel_step = RECORD;
	p->count = (int64_t)(p->map.size / RECORD);
	return 0;
}

/* Take a class's name over. */
static int add_class_name(struct gt_source *s, const char **names, int *count, const char *name,
    const char *path, struct gt_err *err)
{
	if (!*name || strlen(name) > MAX_NAME)
		return gt_err_set(
		    err, GT_EFORMAT, "'%s': name %d: not a class's name", path, *count + 1);
	names[*count] = gt_arena_strdup(&s->names, name, err);
	return names[(*count)++] ? 0 : GT_ENOMEM;
}

/* batches.meta.txt: a name in each line. */
static int read_name_lines(struct gt_source *s, const char *path, struct gt_err *err)
{
	const char **names = gt_arena_alloc(&s->names, CLASSES * sizeof(*names), err);
	FILE *f = fopen(path, "r");
	char line[MAX_NAME + 2];
	int rc = names ? 0 : GT_ENOMEM, count = 0;

	if (!f)
		return rc ? rc : gt_err_sys(err, "cannot open '%s'", path);
	while (!rc && count < CLASSES && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\r\n")] = '\0';
		rc = add_class_name(s, names, &count, line, path, err);
	}
	fclose(f);
	if (!rc && count < CLASSES)
		rc = gt_err_set(err, GT_EFORMAT, "'%s': %d names, not %d", path, count, CLASSES);
	s->class_names = names;
	return rc;
}

/* ---- the Python version ---- */

static int copy_array(int64_t *out, const struct gt_tree_tensor *array, struct gt_err *err)
{
	int rc = gt_ckpt_tensor_read(array, GT_I64, out, err);

	if (rc == GT_EINVAL) /* the number is the file's fault, not an option's */
		err->code = GT_EFORMAT;
	return rc ? gt_err_prefix(err, "'labels'") : 0;
}

/* Copy `count` labels from a list or an array. Items of a list that are not integers become -1,
 * which is not a label. */
static int copy_labels(
    int64_t *out, int64_t count, const struct gt_tree *labels, struct gt_err *err)
{
	bool array = labels && labels->kind == GT_TREE_TENSOR && labels->tensor.ndim == 1;
	bool list = labels && labels->kind == GT_TREE_LIST;

	if (array && labels->tensor.shape[0] == count)
		return copy_array(out, &labels->tensor, err);
	if (!list || labels->seq.count != (size_t)count)
		return gt_err_set(err, GT_EFORMAT,
		    "'labels' is no list or array of %lld numbers, one for each image",
		    (long long)count);
	for (int64_t i = 0; i < count; i++)
		if (!gt_tree_as_int(labels->seq.items[i].value, &out[i]))
			out[i] = -1;
	return 0;
}

static int check_labels(struct part *p, const int64_t *numbers, struct gt_err *err)
{
	for (int64_t i = 0; i < p->count; i++) {
		if (numbers[i] < 0 || numbers[i] >= CLASSES)
			return gt_err_set(err, GT_EFORMAT, "label %lld is not in 0..%d",
			    (long long)i, CLASSES - 1);
		p->numbers[i] = (unsigned char)numbers[i];
	}
	return 0;
}

static int read_labels(struct part *p, const struct gt_tree *labels, struct gt_err *err)
{
	int64_t *numbers = gt_calloc((size_t)p->count, sizeof(*numbers), err);
	int rc = GT_ENOMEM;

	p->numbers = gt_calloc((size_t)p->count, 1, err);
	p->labels = p->numbers;
	p->label_step = 1;
	if (numbers && p->numbers)
		rc = copy_labels(numbers, p->count, labels, err);
	if (!rc)
		rc = check_labels(p, numbers, err);
	free(numbers);
	return rc ? gt_err_prefix(err, "'%s'", p->path) : 0;
}

static int open_pickle(struct part *p, struct gt_err *err)
{
	const struct gt_tree *root, *data;
	int rc = gt_ckpt_open_pickle(&p->pickle, p->path, err);

	if (rc)
		return rc;
	root = gt_ckpt_root(p->pickle);
	data = gt_tree_get(root, "data");
	if (!data || data->kind != GT_TREE_TENSOR || data->tensor.dtype != GT_U8 ||
	    data->tensor.ndim != 2 || data->tensor.shape[0] < 1 ||
	    data->tensor.shape[1] != PIXELS || data->tensor.stride[1] != 1)
		return gt_err_set(err, GT_EFORMAT,
		    "'%s': 'data' is no array of uint8 with rows of %d pixels", p->path, PIXELS);
	p->pixels = (const unsigned char *)data->tensor.storage->bytes + data->tensor.offset;
	p->pixel_step = (size_t)data->tensor.stride[0];
	p->count = data->tensor.shape[0];
	return read_labels(p, gt_tree_get(root, "labels"), err);
}

/* batches.meta: a dict with a list "label_names". */
static int read_name_list(struct gt_source *s, const char *path, struct gt_err *err)
{
	const char **names = gt_arena_alloc(&s->names, CLASSES * sizeof(*names), err);
	const struct gt_tree *list;
	struct gt_ckpt *file = NULL;
	int rc = names ? gt_ckpt_open_pickle(&file, path, err) : GT_ENOMEM, count = 0;

	if (rc)
		return rc;
	list = gt_tree_get(gt_ckpt_root(file), "label_names");
	if (!list || list->kind != GT_TREE_LIST || list->seq.count != CLASSES)
		rc = gt_err_set(
		    err, GT_EFORMAT, "'%s': 'label_names' is no list of %d names", path, CLASSES);
	for (size_t i = 0; !rc && i < CLASSES; i++) {
		const struct gt_tree *name = list->seq.items[i].value;

		rc = add_class_name(s, names, &count,
		    name->kind == GT_TREE_STRING ? name->string.bytes : "", path, err);
	}
	gt_ckpt_close(file);
	s->class_names = names;
	return rc;
}

/* ---- the folder ---- */

static const struct version versions[] = {
	{ ".bin", "batches.meta.txt", open_records, read_name_lines },
	{ "", "batches.meta", open_pickle, read_name_list },
};

/* Return the version of a folder, by a file of the split. */
static const struct version *find_version(const char *folder, const char *file, struct gt_err *err)
{
	const struct version *found = NULL;

	for (int i = 0; i < 2 && !found; i++) {
		char *path = gt_asprintf(err, "%s/%s%s", folder, file, versions[i].ending);

		if (!path)
			return NULL;
		if (!access(path, F_OK))
			found = &versions[i];
		free(path);
	}
	if (found)
		return found;
	gt_err_set(err, GT_EIO, "the folder '%s' has neither %s.bin nor %s", folder, file, file);
	gt_err_hint(err, "cifar10 reads the Python version of CIFAR-10, and the binary version, "
	                 "which `gtrain data get cifar10` fetches");
	return NULL;
}

static int open_part(struct cifar10 *c, const struct version *v, const char *folder,
    const char *file, struct gt_err *err)
{
	struct part *p = &c->parts[c->count];
	int rc;

	p->path = gt_asprintf(err, "%s/%s%s", folder, file, v->ending);
	if (!p->path)
		return GT_ENOMEM;
	c->count++;
	p->first = c->source.length;
	rc = v->open(p, err);
	c->source.length += p->count;
	return rc;
}

/* Without the file of their names classes have numbers. */
static int read_class_names(
    struct cifar10 *c, const struct version *v, const char *folder, struct gt_err *err)
{
	char *path = gt_asprintf(err, "%s/%s", folder, v->names);
	int rc = path ? 0 : GT_ENOMEM;

	if (path && !access(path, F_OK))
		rc = v->read_names(&c->source, path, err);
	free(path);
	return rc;
}

static int open_cifar10_files(struct cifar10 *c, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	static const char *const splits[] = { "train", "test", NULL };
	static const char *const files[] = { "data_batch_1", "data_batch_2", "data_batch_3",
		"data_batch_4", "data_batch_5", "test_batch" };
	int split = request->held_out && find_version(spec->path, files[5], GT_ERR_IGNORED);
	int rc = gt_spec_choice(spec, "split", splits, &split, err);
	const struct version *v = rc ? NULL : find_version(spec->path, files[split ? 5 : 0], err);

	if (!v)
		return err->code;
	c->source.part = splits[split];
	if (!gt_spec_value(spec, "split"))
		rc = gt_source_note_split(&c->source, splits[split], err);
	for (int i = split ? 5 : 0; !rc && i < (split ? 6 : 5); i++)
		rc = open_part(c, v, spec->path, files[i], err);
	return rc ? rc : read_class_names(c, v, spec->path, err);
}

static int open_cifar10(struct gt_source **out, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	struct cifar10 *c = gt_calloc(1, sizeof(*c), err);
	struct gt_data_info *info;
	int rc;

	if (!c)
		return GT_ENOMEM;
	c->source.ops = &cifar10_ops;
	info = &c->source.info;
	*info = (struct gt_data_info){ .form = { .kind = GT_SAMPLE_IMAGE,
		                           .height = SIDE,
		                           .width = SIDE,
		                           .channels = CHANNELS,
		                           .classes = CLASSES,
		                           .std = { 1, 1, 1, 1 } },
		.input_bytes = PIXELS,
		.targets = 1 };
	rc = gt_spec_normalization(spec, info, err);
	if (!rc)
		rc = open_cifar10_files(c, spec, request, err);
	info->samples = c->source.length;
	if (rc)
		close_cifar10(&c->source);
	else
		*out = &c->source;
	return rc;
}

static const struct gt_setting settings[] = { { "split", "train|test", "train",
	                                          "data_batch_1 to 5, or test_batch" },
	GT_NORMALIZATION_SETTINGS("0", "1"), { 0 } };

const struct gt_source_kind gt_cifar10_kind = {
	.form = { .name = "cifar10",
	    .path = "FOLDER",
	    .summary = "the binary or the Python version of CIFAR-10",
	    .settings = settings,
	    .example = "cifar10:cifar-10-batches-bin,mean=0.47,std=0.25" },
	.open = open_cifar10,
};
