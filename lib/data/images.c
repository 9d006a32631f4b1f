/* images.c - a folder of images for each class, or a tar archive of that. */
#include "lib/data/images.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/thread_pool.h"
#include "lib/data/resize.h"
#include "lib/data/source.h"

/* Data sets up to this size are decoded once, when they are opened. */
enum { CACHE_BYTES = 256 << 20 };

struct images {
	struct gt_source source;
	char *path;                /* NULL: inputs of the request; their files have whole paths */
	bool archived;             /* else a folder */
	struct gt_stream *archive; /* open while files borrow from it */
	struct gt_list list;
	struct gt_image_file *files; /* [samples] */
	bool resize;                 /* to the height and width of the info */
	bool reduce;                 /* decode no larger than that takes */
	uint8_t *cache;              /* [samples, input_bytes]; NULL: decode when read */
};

/* Call `use` with the bytes of a file; errors get its name. */
static int with_bytes(const struct images *m, int64_t i,
    int (*use)(const struct images *, const struct gt_mapping *, void *, struct gt_err *),
    void *context, struct gt_err *err)
{
	const struct gt_listed *file = m->files[i].file;
	struct gt_mapping map = { .data = file->bytes, .size = file->size };
	char *path;
	int rc;

	if (m->archived) {
		rc = use(m, &map, context, err);
		return rc ? gt_err_prefix(err, "'%s', '%s'", m->path, file->path) : 0;
	}
	if (file->bytes) {
		rc = use(m, &map, context, err);
		return rc ? gt_err_prefix(err, "'%s'", file->path) : 0;
	}
	path =
	    m->path ? gt_asprintf(err, "%s/%s", m->path, file->path) : gt_strdup(file->path, err);
	rc = path ? gt_map(&map, path, err) : GT_ENOMEM;
	if (!rc) {
		rc = use(m, &map, context, err);
		if (rc)
			gt_err_prefix(err, "'%s'", path);
		gt_unmap(&map);
	}
	free(path);
	return rc;
}

static int wrong_size(
    const struct gt_data_info *info, const struct gt_image *image, struct gt_err *err)
{
	return gt_err_set(err, GT_EFORMAT, "%d x %d pixels, no longer %d x %d",
	    gt_image_width(image), gt_image_height(image), info->width, info->height);
}

static int decode(
    const struct images *m, const struct gt_mapping *bytes, void *pixels, struct gt_err *err)
{
	const struct gt_data_info *info = &m->source.info;
	struct gt_image *image;
	struct gt_view view;
	int rc = gt_image_open(&image, bytes->data, bytes->size, err), height, width;

	if (rc)
		return rc;
	height = gt_image_height(image);
	width = gt_image_width(image);
	if (!m->resize && (height != info->height || width != info->width))
		rc = wrong_size(info, image, err);
	if (!rc)
		rc = gt_view_fit(&view, height, width, info->height, info->width, err);
	if (!rc)
		rc = gt_image_read(image, &view, info->channels, m->reduce, pixels, err);
	gt_image_close(image);
	return rc;
}

static int read_images(struct gt_source *self, const struct gt_part *part, int64_t index,
    const struct gt_draw *draw, void *input, int32_t *target, struct gt_err *err)
{
	const struct images *m = (const struct images *)self;

	(void)part;
	(void)draw;
	*target = m->files[index].class;
	if (!m->cache)
		return with_bytes(m, index, decode, input, err);
	memcpy(input, m->cache + (size_t)index * self->info.input_bytes, self->info.input_bytes);
	return 0;
}

static void close_images(struct gt_source *self)
{
	struct images *m = (struct images *)self;

	gt_arena_release(&self->names);
	gt_damage_free(self->damage);
	free(m->cache);
	free(m->files);
	gt_list_release(&m->list);
	gt_stream_close(m->archive);
	free(m->path);
	free(m);
}

static const char *name_of(const struct gt_source *self, int64_t index)
{
	return ((const struct images *)self)->files[index].file->path;
}

static const struct gt_source_ops images_ops = {
	.read = read_images, .name = name_of, .close = close_images
};

struct size {
	int height, width;
};

static int probe(
    const struct images *m, const struct gt_mapping *bytes, void *context, struct gt_err *err)
{
	struct size *size = context;
	struct gt_image *image;
	int rc = gt_image_open(&image, bytes->data, bytes->size, err);

	(void)m;
	if (!rc)
		*size = (struct size){ gt_image_height(image), gt_image_width(image) };
	gt_image_close(image);
	return rc;
}

/* Call `use` with the bytes of a file, or leave it out where it is damaged: then *left_out is
 * set. */
static int use_or_leave_out(const struct images *m, int64_t i,
    int (*use)(const struct images *, const struct gt_mapping *, void *, struct gt_err *),
    void *context, bool *left_out, struct gt_err *err)
{
	int rc;

	*left_out = gt_damage_has(m->source.damage, i);
	rc = *left_out ? 0 : with_bytes(m, i, use, context, err);
	if (rc != GT_EFORMAT)
		return rc;
	*left_out = true;
	return gt_damage_leave_out(m->source.damage, i, err);
}

/* A search for an image of another size than the first one's. */
struct comparison {
	const struct images *images;
	int64_t first;
};

static int compare_size(void *context, size_t i, struct gt_err *err)
{
	const struct comparison *c = context;
	const struct images *m = c->images;
	const struct gt_data_info *info = &m->source.info;
	struct size size = { 0 };
	bool left_out;
	int rc = use_or_leave_out(m, (int64_t)i, probe, &size, &left_out, err);

	if (rc || left_out || (size.height == info->height && size.width == info->width))
		return rc;
	gt_err_set(err, GT_EINVAL, "'%s' has %d x %d pixels, but '%s' %d x %d",
	    m->files[c->first].file->path, info->width, info->height, m->files[i].file->path,
	    size.width, size.height);
	if (m->path)
		gt_err_prefix(err, "'%s'", m->path);
	return gt_err_hint(err, "give size=N to make them all N x N");
}

/* All images must be of one size, which becomes the data set's. */
static int agree_on_size(struct images *m, struct gt_err *err)
{
	struct gt_data_info *info = &m->source.info;
	struct comparison c = { m, -1 };
	struct size size = { 0 };
	bool left_out = true;
	int rc = 0;

	/* Where all are damaged, the last one is an error. */
	while (!rc && left_out)
		rc = use_or_leave_out(m, ++c.first, probe, &size, &left_out, err);
	if (rc)
		return rc;
	info->height = size.height;
	info->width = size.width;
	return gt_thread_pool_run(0, (size_t)info->samples, compare_size, &c, err);
}

static int fill_cache(void *context, size_t i, struct gt_err *err)
{
	const struct images *m = context;
	bool left_out;

	return use_or_leave_out(
	    m, (int64_t)i, decode, m->cache + i * m->source.info.input_bytes, &left_out, err);
}

/* Decode everything once if it is small; the archive is of no more use then. */
static int cache_pixels(struct images *m, struct gt_err *err)
{
	size_t samples = (size_t)m->source.info.samples;
	int rc;

	if (m->source.info.input_bytes > CACHE_BYTES / samples)
		return 0;
	m->cache = gt_calloc(samples, m->source.info.input_bytes, err);
	if (!m->cache)
		return GT_ENOMEM;
	rc = gt_thread_pool_run(0, samples, fill_cache, m, err);
	gt_stream_close(m->archive);
	m->archive = NULL;
	gt_arena_release(&m->list.content);
	return rc;
}

/* The files come by class, so that each class shows its name first. */
static int name_classes(struct images *m, struct gt_err *err)
{
	struct gt_source *s = &m->source;
	const char **names =
	    gt_arena_alloc(&s->names, (size_t)s->info.classes * sizeof(*names), err);

	s->class_names = names;
	for (int64_t i = 0; names && i < s->info.samples; i++) {
		const struct gt_image_file *f = &m->files[i];
		char *name;

		if (names[f->class])
			continue;
		names[f->class] = name = gt_arena_alloc(&s->names, f->class_name_length + 1, err);
		if (!name)
			return GT_ENOMEM;
		memcpy(name, f->class_name, f->class_name_length);
	}
	return names ? 0 : GT_ENOMEM;
}

static int list_archive(struct images *m, struct gt_err *err)
{
	int rc = gt_stream_open(&m->archive, m->path, err);

	if (rc)
		return rc;
	m->archived = true;
	rc = gt_list_tar(&m->list, m->archive, err);
	if (rc)
		return gt_err_prefix(err, "'%s'", m->path);
	if (gt_stream_is_packed(m->archive)) {
		gt_stream_close(m->archive);
		m->archive = NULL;
	}
	return 0;
}

static int list_files(struct images *m, const char *split, uint64_t limit_bytes, struct gt_err *err)
{
	struct gt_data_info *info = &m->source.info;
	struct stat st;
	size_t count;
	int rc;

	m->list.limit_bytes = limit_bytes;
	if (!stat(m->path, &st) && S_ISDIR(st.st_mode))
		rc = gt_list_folder(&m->list, m->path, err);
	else
		rc = list_archive(m, err);
	if (rc)
		return rc;
	rc = gt_list_images(&m->list, m->path, split, &m->files, &count, &info->classes, err);
	if (rc)
		return rc;
	info->samples = m->source.length = (int64_t)count;
	return name_classes(m, err);
}

/* ---- inputs: files and folders without classes ---- */

enum { MAX_STDIN_BYTES = GT_IMAGE_MAX_FILE_BYTES };

static int add_item(struct images *m, const struct gt_listed *item, struct gt_err *err)
{
	struct gt_list *list = &m->list;
	char *path = gt_arena_strdup(&list->arena, item->path, err);
	int rc = path ? 0 : GT_ENOMEM;

	if (!rc)
		rc = gt_grow(&list->items, list->count, &list->capacity, sizeof(*list->items), err);
	if (rc)
		return rc;
	list->items[list->count] = *item;
	list->items[list->count++].path = path;
	return 0;
}

static int add_stdin(struct images *m, struct gt_err *err)
{
	struct gt_listed item = { .path = "-" };
	void *read = NULL;
	unsigned char *kept;
	int rc = gt_read_to_end(&read, &item.size, STDIN_FILENO, MAX_STDIN_BYTES, err);

	if (rc)
		return gt_err_prefix(err, "standard input");
	item.bytes = kept = gt_list_alloc(&m->list, item.size + 1, err);
	if (kept && item.size)
		memcpy(kept, read, item.size);
	free(read);
	return kept ? add_item(m, &item, err) : GT_ENOMEM;
}

static int compare_listed(const void *a, const void *b)
{
	return strcmp(((const struct gt_listed *)a)->path, ((const struct gt_listed *)b)->path);
}

static int add_folder(struct images *m, const char *folder, struct gt_err *err)
{
	struct gt_list below = { .limit_bytes = m->list.limit_bytes };
	size_t before = m->list.count;
	int rc = gt_list_folder(&below, folder, err);

	if (!rc && below.count)
		qsort(below.items, below.count, sizeof(*below.items), compare_listed);
	for (size_t i = 0; !rc && i < below.count; i++) {
		struct gt_listed item = { .path = NULL };
		char *path;

		if (below.items[i].folder || !gt_list_is_image(below.items[i].path))
			continue;
		item.path = path = gt_asprintf(err, "%s%s%s", folder,
		    folder[strlen(folder) - 1] == '/' ? "" : "/", below.items[i].path);
		rc = path ? add_item(m, &item, err) : GT_ENOMEM;
		free(path);
	}
	gt_list_release(&below);
	if (!rc && m->list.count == before) {
		gt_err_set(err, GT_EINVAL, "'%s' holds no images", folder);
		rc = gt_err_hint(err, "images in folders end in .jpg, .jpeg or .png");
	}
	return rc;
}

static int add_input(struct images *m, const char *input, struct gt_err *err)
{
	const struct gt_listed item = { .path = input };
	struct stat st;

	if (!strcmp(input, "-"))
		return add_stdin(m, err);
	if (stat(input, &st))
		return gt_err_sys(err, "cannot open '%s'", input);
	return S_ISDIR(st.st_mode) ? add_folder(m, input, err) : add_item(m, &item, err);
}

static int list_inputs(struct images *m, const struct gt_data_request *request, struct gt_err *err)
{
	struct gt_data_info *info = &m->source.info;
	int rc = 0;

	m->source.unlabelled = true;
	m->list.limit_bytes = request->memory_bytes;
	for (int i = 0; !rc && i < request->input_count; i++)
		rc = add_input(m, request->inputs[i], err);
	if (rc)
		return rc;
	m->files = gt_calloc(m->list.count, sizeof(*m->files), err);
	for (size_t i = 0; m->files && i < m->list.count; i++)
		m->files[i] =
		    (struct gt_image_file){ .file = &m->list.items[i], .class = GT_DATA_IGNORE };
	info->samples = m->source.length = (int64_t)m->list.count;
	info->classes = request->classes;
	return m->files ? 0 : GT_ENOMEM;
}

static int choose_reduction(struct images *m, const struct gt_spec *spec, struct gt_err *err)
{
	static const char *const no_yes[] = { "no", "yes", NULL };
	int reduce = true, rc = gt_spec_choice(spec, "reduce", no_yes, &reduce, err);

	m->reduce = reduce;
	return rc;
}

/* size=N, else what the model takes, else the size that the images have. */
static int choose_size(struct images *m, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	struct gt_data_info *info = &m->source.info;
	int64_t size = 0, channels = request->channels == 1 ? 1 : 3;
	int rc = gt_spec_integer(spec, "size", 1, GT_DATA_MAX_SIDE, &size, err);

	if (!rc)
		rc = gt_spec_integer(spec, "channels", 1, 3, &channels, err);
	if (!rc && channels == 2)
		rc = gt_err_set(err, GT_EINVAL, "data option 'channels=2': must be 1 or 3");
	if (rc)
		return rc;
	info->channels = (int)channels;
	if (size) {
		info->height = info->width = (int)size;
	} else if (request->height > 0 && request->width > 0) {
		info->height = request->height;
		info->width = request->width;
	}
	m->resize = info->height > 0;
	return m->resize ? 0 : agree_on_size(m, err);
}

static int load(struct images *m, const struct gt_spec *spec, const struct gt_data_request *request,
    struct gt_err *err)
{
	const char *split = gt_spec_value(spec, "split");
	struct gt_data_info *info = &m->source.info;
	int rc = 0;

	if (split && (!*split || *split == '.' || strchr(split, '/')))
		rc = gt_err_set(err, GT_EINVAL,
		    "data option 'split=%s': must be the name of a folder, such as val", split);
	info->kind = GT_DATA_IMAGE;
	info->targets = 1;
	for (int i = 0; i < GT_DATA_MAX_CHANNELS; i++)
		info->std[i] = 1;
	if (!rc)
		rc = request->inputs ? list_inputs(m, request, err)
		                     : list_files(m, split, request->memory_bytes, err);
	if (!rc)
		rc = gt_damage_new(&m->source.damage, info->samples, request->strict, err);
	if (!rc)
		rc = choose_size(m, spec, request, err);
	if (!rc)
		rc = choose_reduction(m, spec, err);
	if (!rc)
		rc = gt_spec_normalization(spec, info, err);
	if (rc)
		return rc;
	info->input_bytes = (size_t)info->height * info->width * info->channels;
	return request->inputs ? 0 : cache_pixels(m, err); /* inputs are read once */
}

static int open_images(struct gt_source **out, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	struct images *m = gt_calloc(1, sizeof(*m), err);
	int rc;

	if (!m)
		return GT_ENOMEM;
	m->source.ops = &images_ops;
	m->path = request->inputs ? NULL : gt_strdup(spec->path, err);
	rc = m->path || request->inputs ? load(m, spec, request, err) : GT_ENOMEM;
	if (rc)
		close_images(&m->source);
	else
		*out = &m->source;
	return rc;
}

static const struct gt_setting settings[] = { { "split", "NAME", "train where it is",
	                                          "read this sub-folder, such as train or val" },
	{ "size", "N", "the model's, else as they are",
	    "resize to N x N: the shorter side to N, then the centre" },
	{ "reduce", "yes|no", "yes", "decode large JPEGs at a part of their size, in less time" },
	{ "channels", "1|3", "the model's, else 3", "read images as gray or as RGB" },
	{ "mean", "a/b/c", "0", "subtracted from pixels of the 0..1 scale, by channel or for all" },
	{ "std", "a/b/c", "1", "then divides them, by channel or for all" }, { 0 } };

static const char *const input_keys[] = { "size", "reduce", "channels", "mean", "std", NULL };

const struct gt_source_kind gt_images_kind = {
	.form = { .name = "images",
	    .path = "FOLDER|FILE.tar|FILE.tar.gz",
	    .summary = "JPEG and PNG files in a folder for each class",
	    .settings = settings,
	    .example = "images:photos,size=64,mean=0.5,std=0.25" },
	.input_keys = input_keys,
	.open = open_images,
};
