/* description_spec.c - the description of images that a spec gives, KIND:PATH,key=value. */
#include <limits.h>
#include <string.h>

#include "lib/data/description.h"
#include "lib/data/source.h"

/* How many numbers stand in "a/b/c"; 0 for none, or one that counts for all channels. */
static int count_numbers(const char *text)
{
	int n = 1;

	for (const char *p = text; p && *p; p++)
		n += *p == '/';
	return n > 1 ? n : 0;
}

static int read_words(struct gt_data_description *d, const struct gt_spec *spec, struct gt_err *err)
{
	bool mnist = !strcmp(spec->kind, "mnist");
	struct gt_data_info info = { .form.channels = GT_MAX_CHANNELS };
	int64_t size = 0, channels = count_numbers(gt_spec_value(spec, "mean"));
	const char *norm = gt_spec_value(spec, "norm");
	int rc;

	if (!mnist && strcmp(spec->kind, "images") && strcmp(spec->kind, "webdataset"))
		return 0;
	channels = channels ? channels : count_numbers(gt_spec_value(spec, "std"));
	channels = norm && strcmp(norm, "none") != 0 ? 3 : channels;
	rc = gt_spec_integer(spec, "channels", 1, 3, &channels, err);
	if (!rc)
		rc = gt_spec_integer(spec, "size", 1, INT_MAX, &size, err);
	if (rc)
		return rc;
	for (int i = 0; i < GT_MAX_CHANNELS; i++) {
		info.form.mean[i] = mnist ? GT_MNIST_MEAN : 0;
		info.form.std[i] = mnist ? GT_MNIST_STD : 1;
	}
	if (channels > 0 && channels <= GT_MAX_CHANNELS)
		info.form.channels = (int)channels;
	rc = gt_spec_normalization(spec, &info, err);
	d->reduce_known = d->reduce = d->fit_known = !mnist;
	if (!rc && !mnist)
		rc = gt_spec_yes_no(spec, "reduce", &d->reduce, err);
	if (!rc && !mnist)
		rc = gt_fit_from_spec(&d->fit, spec, err);
	if (rc)
		return rc;
	d->form.height = d->form.width = (int)size;
	d->form.channels = channels > 0 ? info.form.channels : 0;
	d->normalization_known = true;
	memcpy(d->form.mean, info.form.mean, sizeof(d->form.mean));
	memcpy(d->form.std, info.form.std, sizeof(d->form.std));
	return 0;
}

int gt_data_description_from_spec(
    struct gt_data_description *out, const char *text, struct gt_err *err)
{
	struct gt_spec spec;
	int rc = gt_spec_parse(&spec, text, err);

	*out = (struct gt_data_description){ 0 };
	if (!rc) {
		rc = read_words(out, &spec, err);
		gt_spec_release(&spec);
	}
	if (rc)
		gt_data_description_release(out);
	return rc;
}
