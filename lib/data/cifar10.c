/* cifar10.c - CIFAR-10 in its binary version: records of a label and 32 x 32 pixels. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/mem.h"
#include "lib/data/source.h"

/* Source: https://www.cs.toronto.edu/~kriz/cifar.html, "Binary version". */
enum { SIDE = 32, CHANNELS = 3, CLASSES = 10, PLANE = SIDE * SIDE };
enum { RECORD = 1 + CHANNELS * PLANE, MAX_FILES = 5, MAX_NAME = 64 };

struct cifar10 {
	struct gt_source source;
	struct gt_mapping maps[MAX_FILES];
	char *paths[MAX_FILES];
	int64_t first[MAX_FILES]; /* the number of each one's first sample */
	int count;
};

/* Labels are checked when they are read, as the file may be changed meanwhile. */
static int read_cifar10(struct gt_source *self, const struct gt_part *part, int64_t index,
    const struct gt_draw *draw, void *input, int32_t *target, struct gt_err *err)
{
	const struct cifar10 *c = (const struct cifar10 *)self;
	const unsigned char *record;
	uint8_t *pixels = input;
	int i = c->count - 1;

	(void)part;
	(void)draw;
	while (c->first[i] > index)
		i--;
	record = c->maps[i].data + (index - c->first[i]) * RECORD;
	*target = *record;
	if (*target >= CLASSES)
		return gt_err_set(err, GT_EFORMAT, "'%s': label %d at byte %lld is not below %d",
		    c->paths[i], *target, (long long)(record - c->maps[i].data), CLASSES);
	for (int p = 0; p < PLANE; p++)
		for (int k = 0; k < CHANNELS; k++)
			*pixels++ = record[1 + k * PLANE + p];
	return 0;
}

static void close_cifar10(struct gt_source *self)
{
	struct cifar10 *c = (struct cifar10 *)self;

	for (int i = 0; i < c->count; i++) {
		gt_unmap(&c->maps[i]);
		free(c->paths[i]);
	}
	gt_arena_release(&self->names);
	free(c);
}

static const struct gt_source_ops cifar10_ops = { .read = read_cifar10, .close = close_cifar10 };

static int open_file(struct cifar10 *c, const char *folder, const char *name, struct gt_err *err)
{
	struct gt_mapping *map = &c->maps[c->count];
	char *path = gt_asprintf(err, "%s/%s", folder, name);
	int rc;

	if (!path)
		return GT_ENOMEM;
	rc = gt_map(map, path, err);
	if (rc) {
		free(path);
		return gt_err_hint(err, "cifar10 reads the binary version (data_batch_1.bin)");
	}
	c->paths[c->count] = path;
	c->first[c->count++] = c->source.length;
	c->source.length += (int64_t)(map->size / RECORD);
	if (!map->size || map->size % RECORD)
		return gt_err_set(err, GT_EFORMAT, "'%s': %zu bytes are no records of %d", path,
		    map->size, RECORD);
	return 0;
}

/* batches.meta.txt: a name in each line. Without the file classes have numbers. */
static int read_names(struct cifar10 *c, const char *folder, struct gt_err *err)
{
	const char **names = gt_arena_alloc(&c->source.names, CLASSES * sizeof(*names), err);
	char *path = gt_asprintf(err, "%s/batches.meta.txt", folder), line[MAX_NAME + 2];
	FILE *f = path ? fopen(path, "r") : NULL;
	int rc = names && path ? 0 : GT_ENOMEM, count = 0;

	while (f && !rc && count < CLASSES && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\r\n")] = '\0';
		if (!*line || strlen(line) > MAX_NAME)
			rc = gt_err_set(
			    err, GT_EFORMAT, "'%s': line %d: not a class's name", path, count + 1);
		else if (!(names[count++] = gt_arena_strdup(&c->source.names, line, err)))
			rc = GT_ENOMEM;
	}
	if (f && !rc && count < CLASSES)
		rc = gt_err_set(err, GT_EFORMAT, "'%s': %d names, not %d", path, count, CLASSES);
	c->source.class_names = f ? names : NULL;
	if (f)
		fclose(f);
	free(path);
	return rc;
}

static int open_files(struct cifar10 *c, const struct gt_spec *spec, struct gt_err *err)
{
	static const char *const splits[] = { "train", "test", NULL };
	char name[32];
	int split = 0, rc = gt_spec_choice(spec, "split", splits, &split, err);

	if (!rc && split)
		rc = open_file(c, spec->path, "test_batch.bin", err);
	for (int i = 1; !rc && !split && i <= MAX_FILES; i++) {
		snprintf(name, sizeof(name), "data_batch_%d.bin", i);
		rc = open_file(c, spec->path, name, err);
	}
	return rc ? rc : read_names(c, spec->path, err);
}

static int open_cifar10(struct gt_source **out, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	struct cifar10 *c = gt_calloc(1, sizeof(*c), err);
	struct gt_data_info *info;
	int rc;

	(void)request;
	if (!c)
		return GT_ENOMEM;
	c->source.ops = &cifar10_ops;
	info = &c->source.info;
	*info = (struct gt_data_info){ .kind = GT_DATA_IMAGE,
		.height = SIDE,
		.width = SIDE,
		.channels = CHANNELS,
		.classes = CLASSES,
		.input_bytes = CHANNELS * PLANE,
		.targets = 1,
		.std = { 1, 1, 1, 1 } };
	rc = gt_spec_normalization(spec, info, err);
	if (!rc)
		rc = open_files(c, spec, err);
	info->samples = c->source.length;
	if (rc)
		close_cifar10(&c->source);
	else
		*out = &c->source;
	return rc;
}

static const struct gt_setting settings[] = { { "split", "train|test", "train",
	                                          "data_batch_1.bin to 5, or test_batch.bin" },
	{ "mean", "a/b/c", "0", "subtracted from the pixels, on the scale from 0 to 1" },
	{ "std", "a/b/c", "1", "divides the pixels after that" }, { 0 } };

const struct gt_source_kind gt_cifar10_kind = {
	.form = { .name = "cifar10",
	    .path = "FOLDER",
	    .summary = "the binary version of CIFAR-10",
	    .settings = settings,
	    .example = "cifar10:cifar-10-batches-bin,mean=0.47,std=0.25" },
	.open = open_cifar10,
};
