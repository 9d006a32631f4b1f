/* images.c - listed images read as samples: from files or out of archives, decoded, resized. */
#include "lib/data/images/images.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/thread_pool.h"
#include "lib/data/core/source.h"
#include "lib/data/images/resize.h"

/* Data sets up to this size are decoded once, when they are opened. */
enum { CACHE_BYTES = 256 << 20 };

struct images {
	struct gt_source source;
	struct gt_image_set set; /* [samples] files */
	bool resize;             /* resize to the height and width of the info */
	uint8_t *cache;          /* [samples, input_bytes]; NULL: decode when read */
};

/* Call `use` with the bytes of a file; errors get its name. */
static int with_bytes(const struct images *m, int64_t i,
    int (*use)(const struct images *, const struct gt_mapping *, void *, struct gt_err *),
    void *context, struct gt_err *err)
{
	const char *below = m->set.below;
	const struct gt_listed *file = m->set.files[i].file;
	struct gt_mapping map = { .data = file->bytes, .size = file->size };
	char *path;
	int rc;

	if (m->set.in_memory || file->bytes) {
		rc = use(m, &map, context, err);
		if (rc)
			gt_err_prefix(err, "'%s'", file->path);
		return rc && below ? gt_err_prefix(err, "'%s'", below) : rc;
	}
	path = below ? gt_asprintf(err, "%s/%s", below, file->path) : gt_strdup(file->path, err);
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
	    gt_image_width(image), gt_image_height(image), info->form.width, info->form.height);
}

/* A sample to be read. */
struct sample {
	int64_t number;
	const struct gt_draw *draw;
	uint8_t *pixels;
};

static int decode(
    const struct images *m, const struct gt_mapping *bytes, void *context, struct gt_err *err)
{
	const struct gt_data_info *info = &m->source.info;
	const struct sample *s = context;
	struct gt_image *image;
	struct gt_view view;
	struct gt_box box;
	int rc = gt_image_open(&image, bytes->data, bytes->size, err), height, width;

	if (rc)
		return rc;
	height = gt_image_height(image);
	width = gt_image_width(image);
	if (!m->resize && (height != info->form.height || width != info->form.width))
		rc = wrong_size(info, image, err);
	if (!rc && gt_augment_part(&box, s->draw, s->number, height, width)) {
		view = gt_view_box(&box, info->form.height, info->form.width);
		view.interpolation = m->source.fit.interpolation;
	} else if (!rc) {
		rc = gt_view_fit(
		    &view, height, width, info->form.height, info->form.width, &m->source.fit, err);
	}
	if (!rc)
		rc = gt_image_read(
		    image, &view, info->form.channels, m->source.reduce, s->pixels, err);
	gt_image_close(image);
	return rc;
}

static int read_images(struct gt_source *self, const struct gt_data_part *part, int64_t index,
    const struct gt_draw *draw, void *input, int32_t *target, struct gt_err *err)
{
	const struct images *m = (const struct images *)self;
	struct sample sample = { index, draw, input };

	(void)part;
	*target = m->set.files[index].class;
	if (!m->cache)
		return with_bytes(m, index, decode, &sample, err);
	if (gt_damage_has(self->damage, index))
		return gt_err_set(
		    err, GT_EFORMAT, "'%s' is damaged", m->set.files[index].file->path);
	memcpy(input, m->cache + (size_t)index * self->info.input_bytes, self->info.input_bytes);
	return 0;
}

static void close_images(struct gt_source *self)
{
	struct images *m = (struct images *)self;

	gt_arena_release(&self->names);
	gt_damage_free(self->damage);
	free(m->cache);
	free(m->set.files);
	gt_list_release(&m->set.list);
	free(m->set.below);
	free(m);
}

static const char *image_name(const struct gt_source *self, int64_t index)
{
	return ((const struct images *)self)->set.files[index].file->path;
}

static int32_t class_of_image(const struct gt_source *self, int64_t index)
{
	return ((const struct images *)self)->set.files[index].class;
}

static const struct gt_source_ops images_ops = {
	.read = read_images, .class_of = class_of_image, .name = image_name, .close = close_images
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
	return gt_damage_record(m->source.damage, i, err);
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

	if (rc || left_out || (size.height == info->form.height && size.width == info->form.width))
		return rc;
	gt_err_set(err, GT_EINVAL, "'%s' has %d x %d pixels, but '%s' %d x %d",
	    m->set.files[c->first].file->path, info->form.width, info->form.height,
	    m->set.files[i].file->path, size.width, size.height);
	if (m->set.below)
		gt_err_prefix(err, "'%s'", m->set.below);
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

	/* If all images are damaged, the last one is an error. */
	while (!rc && left_out)
		rc = use_or_leave_out(m, ++c.first, probe, &size, &left_out, err);
	if (rc)
		return rc;
	info->form.height = size.height;
	info->form.width = size.width;
	return gt_thread_pool_run(0, (size_t)info->samples, compare_size, &c, err);
}

static int fill_cache(void *context, size_t i, struct gt_err *err)
{
	static const struct gt_draw whole;
	const struct images *m = context;
	struct sample sample = { (int64_t)i, &whole, m->cache + i * m->source.info.input_bytes };
	bool left_out;

	return use_or_leave_out(m, (int64_t)i, decode, &sample, &left_out, err);
}

/* Whether a picture of the images' size is not changed. */
static bool keeps_size(const struct images *m)
{
	const struct gt_data_info *info = &m->source.info;
	struct gt_view view;

	return !m->resize ||
	       (!gt_view_fit(&view, info->form.height, info->form.width, info->form.height,
	            info->form.width, &m->source.fit, GT_ERR_IGNORED) &&
	           view.down.output == info->form.height && view.across.output == info->form.width);
}

/* A search for an image that is resized. */
struct resized {
	const struct images *images;
	atomic_bool found;
};

static int look_for_resized(void *context, size_t i, struct gt_err *err)
{
	struct resized *r = context;
	const struct gt_data_info *info = &r->images->source.info;
	struct size size = { info->form.height, info->form.width };
	bool left_out;
	int rc =
	    r->found ? 0 : use_or_leave_out(r->images, (int64_t)i, probe, &size, &left_out, err);

	if (size.height != info->form.height || size.width != info->form.width)
		r->found = true;
	return rc;
}

/* Decode everything once if it is small; archives are of no more use then. With `parts`, pictures
 * that are resized stay as they are. */
static int cache_pixels(struct images *m, bool parts, struct gt_err *err)
{
	size_t samples = (size_t)m->source.info.samples;
	struct resized resized = { .images = m, .found = parts && !keeps_size(m) };
	int rc = 0;

	if (m->source.info.input_bytes > CACHE_BYTES / samples)
		return 0;
	if (parts && m->resize && !resized.found)
		rc = gt_thread_pool_run(0, samples, look_for_resized, &resized, err);
	if (rc || resized.found)
		return rc;
	m->cache = gt_calloc(samples, m->source.info.input_bytes, err);
	if (!m->cache)
		return GT_ENOMEM;
	rc = gt_thread_pool_run(0, samples, fill_cache, m, err);
	gt_list_forget_content(&m->set.list);
	return rc;
}

/* reduce=yes|no, else as in training. */
static int choose_reduction(struct images *m, const struct gt_spec *spec,
    const struct gt_data_description *like, struct gt_err *err)
{
	m->source.reduce = like && like->reduce_known ? like->reduce : true;
	return gt_spec_yes_no(spec, "reduce", &m->source.reduce, err);
}

/* resize=, crop= and interpolation=, else as in training. */
static int choose_fit(struct images *m, const struct gt_spec *spec,
    const struct gt_data_description *like, struct gt_err *err)
{
	if (like)
		m->source.fit = like->fit;
	return gt_fit_from_spec(&m->source.fit, spec, err);
}

/* Resized pictures are cropped to the size of the images, which has to be known. */
static int check_fit(const struct images *m, struct gt_err *err)
{
	const struct gt_data_info *info = &m->source.info;
	const struct gt_fit *fit = &m->source.fit;
	char text[GT_FIT_TEXT];

	if (m->resize)
		return gt_fit_check(fit, info->form.height, info->form.width, err);
	if (fit->kind == GT_FIT_COVER || fit->kind == GT_FIT_NONE)
		return 0;
	gt_err_set(
	    err, GT_EINVAL, "%s, but the size of the images is not known", gt_fit_text(text, fit));
	return gt_err_hint(err, "give size=N, the size after the crop");
}

/* size=N, else the model's size, else that of resize=HxW, else the size of the images. */
static int choose_size(struct images *m, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	struct gt_data_info *info = &m->source.info;
	int64_t size = 0, channels = request->form.channels == 1 ? 1 : 3;
	int rc = gt_spec_integer(spec, "size", 1, GT_DATA_MAX_SIDE, &size, err);

	if (!rc)
		rc = gt_spec_integer(spec, "channels", 1, 3, &channels, err);
	if (!rc && channels == 2)
		rc = gt_err_set(err, GT_EINVAL, "data option 'channels=2': must be 1 or 3");
	if (rc)
		return rc;
	info->form.channels = (int)channels;
	if (size) {
		info->form.height = info->form.width = (int)size;
	} else if (request->form.height > 0 && request->form.width > 0) {
		info->form.height = request->form.height;
		info->form.width = request->form.width;
	} else if (m->source.fit.kind == GT_FIT_EXACT) {
		info->form.height = m->source.fit.height;
		info->form.width = m->source.fit.width;
	}
	m->resize = info->form.height > 0;
	rc = check_fit(m, err);
	return rc || m->resize ? rc : agree_on_size(m, err);
}

static int load_image_set(struct images *m, const struct gt_spec *spec,
    const struct gt_data_request *request, gt_find_images_fn *find, struct gt_err *err)
{
	struct gt_data_info *info = &m->source.info;
	int rc;

	info->form.kind = GT_SAMPLE_IMAGE;
	info->targets = 1;
	for (int i = 0; i < GT_MAX_CHANNELS; i++)
		info->form.std[i] = 1;
	rc = find(&m->set, &m->source, spec, request, err);
	info->samples = m->source.length = (int64_t)m->set.count;
	if (!rc)
		rc = gt_damage_new(&m->source.damage, info->samples, request->strict, err);
	if (!rc)
		rc = choose_fit(m, spec, request->like, err);
	if (!rc)
		rc = choose_size(m, spec, request, err);
	if (!rc)
		rc = choose_reduction(m, spec, request->like, err);
	if (!rc)
		rc = gt_spec_normalization(spec, info, err);
	if (rc)
		return rc;
	info->input_bytes = (size_t)info->form.height * info->form.width * info->form.channels;
	if (!request->inputs) /* which are read once */
		rc = cache_pixels(m, request->parts, err);
	m->source.takes_parts = !m->cache;
	return rc;
}

int gt_images_open(struct gt_source **out, const struct gt_spec *spec,
    const struct gt_data_request *request, gt_find_images_fn *find, struct gt_err *err)
{
	struct images *m = gt_calloc(1, sizeof(*m), err);
	int rc;

	if (!m)
		return GT_ENOMEM;
	m->source.ops = &images_ops;
	m->source.resizes = true;
	m->set.list.limit_bytes = request->memory_bytes;
	rc = load_image_set(m, spec, request, find, err);
	if (rc)
		close_images(&m->source);
	else
		*out = &m->source;
	return rc;
}
