/* webdataset.c - tar archives in the form of WebDataset: KEY.jpg and its class in KEY.cls. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/data/core/shard_names.h"
#include "lib/data/images/images.h"

enum { MAX_CLASSES = 1 << 20, MAX_NAME = 1024 };

/*
 * Source: the WebDataset library's README, "The WebDataset Format": a sample is the files next to
 * each other whose paths are the same up to the first dot behind the last slash; the rest of the
 * name is the kind of the file.
 */

/* The classes of a data set, and how they come to have names. */
struct labels {
	const char *names_file; /* classes=FILE; NULL: numbers alone */
	int count;              /* number of names; without names, 1 + the largest class so far */
};

/* ---- names of classes ---- */

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Classes are matched by their names. */
static int check_distinct(const char *const *names, int count, const char *file, struct gt_err *err)
{
	const char **sorted = gt_calloc((size_t)count, sizeof(*sorted), err);
	int rc = sorted ? 0 : GT_ENOMEM;

	if (sorted) {
		memcpy(sorted, names, (size_t)count * sizeof(*sorted));
		qsort(sorted, (size_t)count, sizeof(*sorted), compare_names);
	}
	for (int i = 1; !rc && i < count; i++)
		if (!strcmp(sorted[i - 1], sorted[i]))
			rc = gt_err_set(err, GT_EFORMAT, "'%s': the class '%.200s' is there twice",
			    file, sorted[i]);
	free(sorted);
	return rc;
}

/* A line of the file, without its end, as the next name. */
static int add_label_name(struct gt_source *s, const char ***names, size_t *capacity,
    struct labels *l, const unsigned char *line, size_t length, struct gt_err *err)
{
	char *name;
	int rc = gt_grow(names, (size_t)l->count, capacity, sizeof(**names), err);

	if (rc)
		return rc;
	if (length && line[length - 1] == '\r')
		length--;
	if (!length || length > MAX_NAME || memchr(line, 0, length) || l->count == MAX_CLASSES) {
		gt_err_set(err, GT_EFORMAT, "'%s', line %d: not the name of a class", l->names_file,
		    l->count + 1);
		return gt_err_hint(err, "each line is a name of 1 to %d bytes, at most %d of them",
		    MAX_NAME, MAX_CLASSES);
	}
	name = gt_arena_alloc(&s->names, length + 1, err);
	if (!name)
		return GT_ENOMEM;
	memcpy(name, line, length);
	(*names)[l->count++] = name;
	return 0;
}

/* The bytes of the mark that some editors write before UTF-8 text. */
static size_t skip_bom(const struct gt_mapping *map)
{
	return map->size >= 3 && !memcmp(map->data, "\xEF\xBB\xBF", 3) ? 3 : 0;
}

static int read_label_names(struct gt_source *s, struct labels *l, struct gt_err *err)
{
	const char **names = NULL, **kept = NULL;
	struct gt_mapping map;
	size_t capacity = 0;
	int rc = gt_map(&map, l->names_file, err);

	if (rc)
		return rc;
	for (size_t at = skip_bom(&map); !rc && at < map.size;) {
		const unsigned char *line = map.data + at, *end = memchr(line, '\n', map.size - at);
		size_t length = end ? (size_t)(end - line) : map.size - at;

		rc = add_label_name(s, &names, &capacity, l, line, length, err);
		at += length + 1;
	}
	gt_unmap(&map);
	if (!rc && !l->count)
		rc = gt_err_set(err, GT_EFORMAT, "'%s' is empty", l->names_file);
	if (!rc)
		rc = check_distinct(names, l->count, l->names_file, err);
	if (!rc) {
		kept = gt_arena_alloc(&s->names, (size_t)l->count * sizeof(*kept), err);
		rc = kept ? 0 : GT_ENOMEM;
	}
	if (!rc)
		memcpy(kept, names, (size_t)l->count * sizeof(*kept));
	free(names);
	s->class_names = kept;
	return rc;
}

/* ---- samples ---- */

/* The files of one key. */
struct sample {
	const char *key; /* [length], in the path of a file; NULL: none yet */
	size_t length;
	const struct gt_listed *image, *label;
	const struct gt_listed *other; /* a picture in a format that gtrain does not read */
};

/* How much of a path is its key. */
static size_t key_length(const char *path)
{
	const char *name = strrchr(path, '/');

	return (size_t)((name ? name + 1 : path) - path) + strcspn(name ? name + 1 : path, ".");
}

static int malformed_label(const struct gt_listed *label, struct gt_err *err)
{
	char text[GT_LABEL_BYTES + 1] = "";

	memcpy(text, label->bytes, label->size);
	text[strcspn(text, "\r\n")] = '\0';
	gt_err_set(err, GT_EFORMAT, "'%s': '%s' is not the number of a class", label->path, text);
	return gt_err_hint(err, "classes are whole numbers from 0 to %d, as text", MAX_CLASSES - 1);
}

/* The number in a .cls file: digits, with blanks or line ends around them. */
static int parse_label(
    int32_t *out, struct labels *l, const struct gt_listed *label, struct gt_err *err)
{
	static const char blank[] = " \t\r\n";
	const unsigned char *p = label->bytes;
	size_t at = 0, end = label->size;
	int64_t n = 0;

	while (at < end && p[at] && strchr(blank, p[at]))
		at++;
	while (end > at && p[end - 1] && strchr(blank, p[end - 1]))
		end--;
	if (at == end)
		return malformed_label(label, err);
	for (; at < end; at++) {
		if (p[at] < '0' || p[at] > '9' || n > MAX_CLASSES)
			return malformed_label(label, err);
		n = n * 10 + (p[at] - '0');
	}
	if (n >= MAX_CLASSES)
		return malformed_label(label, err);
	if (l->names_file && n >= l->count)
		return gt_err_set(err, GT_EFORMAT, "'%s': class %lld, but '%s' has %d name%s",
		    label->path, (long long)n, l->names_file, l->count, l->count == 1 ? "" : "s");
	if (n >= l->count)
		l->count = (int)n + 1;
	*out = (int32_t)n;
	return 0;
}

static int no_partner(const struct gt_listed *file, const char *lacks, struct gt_err *err)
{
	gt_err_set(err, GT_EFORMAT, "'%s' has no %s beside it", file->path, lacks);
	return gt_err_hint(err,
	    "the files of a sample have one name up to the first dot, and follow "
	    "each other: 0001.jpg, 0001.cls");
}

/* A sample's files become an image of the set; one file without the other is an error. */
static int end_sample(
    struct gt_image_set *set, struct labels *l, const struct sample *s, struct gt_err *err)
{
	struct gt_image_file file = { .file = s->image };
	int rc;

	if (!s->image && !s->label)
		return 0;
	if (!s->image && s->other) {
		gt_err_set(err, GT_EFORMAT, "'%s': %s is a format that gtrain does not read",
		    s->other->path, gt_image_format_of_name(s->other->path)->name);
		return gt_err_hint(err, "convert the images to " GT_IMAGE_FORMATS_OR);
	}
	if (!s->image)
		return no_partner(s->label, "image", err);
	if (!s->label)
		return no_partner(s->image, ".cls file", err);
	rc = parse_label(&file.class, l, s->label, err);
	if (!rc)
		set->files[set->count++] = file;
	return rc;
}

static int add_file(struct sample *s, const struct gt_listed *item, struct gt_err *err)
{
	const char *ending = item->path + s->length;
	/* KEY.mask.png is another file of the sample than KEY.png. */
	const struct gt_image_format *format =
	    strrchr(ending, '.') == ending ? gt_image_format_of_name(ending) : NULL;
	bool label = !strcmp(ending, ".cls"), image = format && format->decoder != GT_DECODER_NONE;
	const struct gt_listed *other = label ? s->label : s->image;

	if ((label || image) && other)
		return gt_err_set(
		    err, GT_EFORMAT, "'%s' and '%s' are one sample", other->path, item->path);
	if (label)
		s->label = item;
	if (image)
		s->image = item;
	else if (format)
		s->other = item;
	return 0;
}

/* Files whose paths begin with the same key are a sample as long as they follow each other. */
static int pair(struct gt_image_set *set, struct labels *l, struct gt_err *err)
{
	struct sample s = { .key = NULL };
	int rc = 0;

	set->files = gt_calloc(set->list.count, sizeof(*set->files), err);
	if (!set->files)
		return GT_ENOMEM;
	for (size_t i = 0; !rc && i < set->list.count; i++) {
		const struct gt_listed *item = &set->list.items[i];
		size_t length = key_length(item->path);

		if (item->folder)
			continue;
		if (!s.key || length != s.length || memcmp(s.key, item->path, length) != 0) {
			rc = end_sample(set, l, &s, err);
			s = (struct sample){ .key = item->path, .length = length };
		}
		if (!rc)
			rc = add_file(&s, item, err);
	}
	return rc ? rc : end_sample(set, l, &s, err);
}

/* ---- the kind ---- */

static int list_shards(struct gt_image_set *set, const char *pattern, struct gt_err *err)
{
	struct gt_shard_names shards;
	int rc = gt_shard_names(&shards, pattern, err);

	if (rc)
		return rc;
	set->in_memory = set->list.labelled = true;
	for (size_t i = 0; !rc && i < shards.count; i++)
		rc = gt_list_archive(&set->list, shards.names[i], err);
	gt_shard_names_release(&shards);
	return rc;
}

static int find_webdataset_images(struct gt_image_set *set, struct gt_source *s,
    const struct gt_spec *spec, const struct gt_data_request *request, struct gt_err *err)
{
	struct labels labels = { .names_file = gt_spec_value(spec, "classes") };
	int rc = labels.names_file ? read_label_names(s, &labels, err) : 0;

	(void)request;
	if (!rc)
		rc = list_shards(set, spec->path, err);
	if (!rc)
		rc = pair(set, &labels, err);
	if (!rc && !set->count) {
		gt_err_set(err, GT_EINVAL, "'%s' holds no images", spec->path);
		rc = gt_err_hint(
		    err, "images are found as KEY.jpg, .png or .webp, their classes as KEY.cls");
	}
	s->info.form.classes = labels.count;
	return rc;
}

static int open_webdataset(struct gt_source **out, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	return gt_images_open(out, spec, request, find_webdataset_images, err);
}

static const struct gt_setting settings[] = {
	{ "classes", "FILE", "none: numbers", "file with the names of the classes, one per line" },
	GT_IMAGE_SETTINGS, { 0 }
};

const struct gt_source_kind gt_webdataset_kind = {
	.form = { .name = "webdataset",
	    .path = "FILE.tar|PATTERN",
	    .summary = "JPEG, PNG and WebP files in tar archives, each with its class in KEY.cls",
	    .settings = settings,
	    .example = "webdataset:shards-{0..1}.tar,size=64" },
	.open = open_webdataset,
};
