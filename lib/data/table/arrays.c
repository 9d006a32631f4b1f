/* arrays.c - numpy's arrays as samples: inputs in one, targets in another. */
#include "lib/data/table/arrays.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/data/core/fields.h"
#include "lib/data/core/target_guess.h"

enum { MAX_CLASSES = 1 << 20, CHUNK = 256 };

enum task { TASK_AUTO, TASK_CLASSIFICATION, TASK_REGRESSION, TASK_LABELS };
enum layout { LAYOUT_AUTO, CHANNELS_LAST, CHANNELS_FIRST };

/* ---- reading samples ---- */

bool gt_arrays_is_whole(enum gt_dtype type)
{
	return !gt_dtype_is_float(type) && type != GT_C64 && type != GT_C128;
}

/* Elements first .. first + n - 1 of dimension 0 of `t`, which has no others, as numbers. */
static int read_numbers(
    const struct gt_tree_tensor *t, int64_t first, int64_t n, double *out, struct gt_err *err)
{
	struct gt_tree_tensor part = *t;
	int64_t whole[CHUNK];
	int rc;

	part.shape = &n;
	part.offset += first * t->stride[0];
	if (gt_dtype_is_real(t->dtype))
		return gt_ckpt_tensor_read(&part, GT_F64, out, err);
	rc = gt_ckpt_tensor_read(&part, GT_I64, whole, err);
	if (rc == GT_EINVAL) /* the number is the file's fault, not an option's */
		rc = err->code = GT_EFORMAT;
	for (int64_t i = 0; !rc && i < n; i++)
		out[i] = (double)whole[i];
	return rc;
}

/* Features on the scale of the columns that a model was trained on, if it has any. */
static int read_features(const struct gt_arrays *a, const struct gt_tree_tensor *sample,
    int64_t index, float *out, struct gt_err *err)
{
	const struct gt_data_column *columns = a->source.columns;
	double values[CHUNK];

	for (int64_t at = 0; at < a->source.info.form.features; at += CHUNK) {
		int64_t left = a->source.info.form.features - at, n = left < CHUNK ? left : CHUNK;
		int rc = read_numbers(sample, at, n, values, err);

		for (int64_t i = 0; !rc && i < n; i++) {
			double x = values[i];

			if (columns)
				x = (x - columns[at + i].mean) / columns[at + i].std;
			out[at + i] = (float)x;
			if (!isfinite(out[at + i]))
				rc = gt_err_set(err, GT_EFORMAT, "feature %lld is %g",
				    (long long)(at + i), values[i]);
		}
		if (rc)
			return gt_err_prefix(
			    err, "'%s': sample %lld", a->inputs_name, (long long)index);
	}
	return 0;
}

static int read_sample(const struct gt_arrays *a, int64_t index, void *input, struct gt_err *err)
{
	const struct gt_sample_form *form = &a->source.info.form;
	struct gt_tree_tensor sample = a->inputs;

	if (form->field_count && form->fields[0].type != GT_FIELD_PIXELS)
		return gt_arrays_read_fields(a, 0, index, input, err);
	sample.ndim--;
	sample.shape++;
	sample.stride++;
	sample.offset += index * a->stride[0];
	if (form->kind == GT_SAMPLE_VECTOR)
		return read_features(a, &sample, index, input, err);
	if (!gt_ckpt_tensor_read(&sample, GT_U8, input, err))
		return form->field_count ? gt_arrays_read_fields(a, 1, index, input, err) : 0;
	return gt_err_prefix(err, "'%s': sample %lld", a->inputs_name, (long long)index);
}

static int read_arrays(struct gt_source *self, const struct gt_data_part *part, int64_t index,
    const struct gt_draw *draw, void *input, int32_t *target, struct gt_err *err)
{
	const struct gt_arrays *a = (const struct gt_arrays *)self;
	int rc = read_sample(a, index, input, err);

	(void)part;
	(void)draw;
	memcpy(target, a->targets + (size_t)index * a->source.info.targets,
	    a->source.info.targets * sizeof(*target));
	return rc && a->archive ? gt_err_prefix(err, "'%s'", a->archive) : rc;
}

static void close_arrays(struct gt_source *self)
{
	struct gt_arrays *a = (struct gt_arrays *)self;

	if (a->targets_file != a->inputs_file)
		gt_ckpt_close(a->targets_file);
	gt_ckpt_close(a->inputs_file);
	gt_arena_release(&self->names);
	free(a->targets);
	free(a);
}

static int32_t class_of_array(const struct gt_source *self, int64_t index)
{
	return ((const struct gt_arrays *)self)->targets[index];
}

const struct gt_source_ops gt_arrays_ops = {
	.read = read_arrays, .class_of = class_of_array, .close = close_arrays
};

/* ---- inputs ---- */

static const char *dims_text(char text[80], const struct gt_tree_tensor *t)
{
	size_t used = 0;

	*text = '\0';
	for (int i = 0; i < t->ndim && used < 60; i++)
		used += (size_t)snprintf(
		    text + used, 80 - used, "%s%lld", i ? ", " : "", (long long)t->shape[i]);
	return text;
}

int gt_arrays_fail_shape(
    const char *name, const struct gt_tree_tensor *t, const char *why, struct gt_err *err)
{
	char text[80];

	return gt_err_set(err, GT_EFORMAT, "array '%s' of %s [%s] %s", name,
	    gt_dtype_name(t->dtype), dims_text(text, t), why);
}

/* Let dimension 1, the channels, be the last one. */
static void turn(int64_t dims[GT_ARRAYS_MAX_DIMS])
{
	int64_t channels = dims[1];

	dims[1] = dims[2];
	dims[2] = dims[3];
	dims[3] = channels;
}

static bool may_be_channels(int64_t n)
{
	return n >= 1 && n <= GT_MAX_CHANNELS;
}

static int find_channels(
    struct gt_arrays *a, const struct gt_tree_tensor *t, int layout, struct gt_err *err)
{
	bool first = may_be_channels(t->shape[1]), last = may_be_channels(t->shape[3]);

	if (layout == LAYOUT_AUTO && first && last) {
		gt_arrays_fail_shape(a->inputs_name, t, "has its channels first or last", err);
		return gt_err_hint(err, "say which: layout=chw or layout=hwc");
	}
	if (layout == CHANNELS_FIRST || (layout == LAYOUT_AUTO && first)) {
		turn(a->shape);
		turn(a->stride);
	}
	if (may_be_channels(a->shape[3]))
		return 0;
	return gt_arrays_fail_shape(
	    a->inputs_name, t, "has no dimension of 1 to 4 channels there", err);
}

static int take_images(
    struct gt_arrays *a, const struct gt_tree_tensor *t, int layout, struct gt_err *err)
{
	struct gt_data_info *info = &a->source.info;
	int rc = t->ndim == GT_ARRAYS_MAX_DIMS ? find_channels(a, t, layout, err) : 0;

	if (!rc && t->dtype != GT_U8) {
		gt_arrays_fail_shape(
		    a->inputs_name, t, "is no array of images, which are uint8", err);
		return gt_err_hint(err,
		    "for pixels of 0 to 1: numpy.round(x * 255).astype('uint8'); for other numbers, "
		    "such as sequences: x.reshape(len(x), -1), and an exported network whose "
		    "forward() begins with x.view()");
	}
	if (!rc && (a->shape[1] < 1 || a->shape[1] > GT_DATA_MAX_SIDE || a->shape[2] < 1 ||
	               a->shape[2] > GT_DATA_MAX_SIDE))
		rc = gt_arrays_fail_shape(
		    a->inputs_name, t, "has images of no side, or of one too long", err);
	if (rc)
		return rc;
	info->form.kind = GT_SAMPLE_IMAGE;
	info->form.height = (int)a->shape[1];
	info->form.width = (int)a->shape[2];
	info->form.channels = t->ndim == GT_ARRAYS_MAX_DIMS ? (int)a->shape[3] : 1;
	info->input_bytes =
	    (size_t)info->form.height * (size_t)info->form.width * (size_t)info->form.channels;
	return 0;
}

/* Numbers of a table that a model was trained on have a scale; words in columns have no array. */
static int take_scale(
    struct gt_arrays *a, const struct gt_data_description *like, struct gt_err *err)
{
	struct gt_source *s = &a->source;

	if (!like || !like->column_count || like->form.features != s->info.form.features)
		return 0;
	for (int i = 0; i < like->column_count; i++)
		if (like->columns[i].count)
			return gt_err_set(err, GT_EINVAL,
			    "the model was trained on a table with words in column %d, which '%s' "
			    "cannot have",
			    i, a->inputs_name);
	s->columns =
	    gt_arena_alloc(&s->names, (size_t)like->column_count * sizeof(*s->columns), err);
	if (!s->columns)
		return GT_ENOMEM;
	for (int i = 0; i < like->column_count; i++)
		s->columns[i] = (struct gt_data_column){ .mean = like->columns[i].mean,
			.std = like->columns[i].std };
	s->column_count = like->column_count;
	return 0;
}

static int take_features(struct gt_arrays *a, const struct gt_tree_tensor *t,
    const struct gt_data_description *like, struct gt_err *err)
{
	struct gt_data_info *info = &a->source.info;

	if (!gt_dtype_is_real(t->dtype) && !gt_arrays_is_whole(t->dtype))
		return gt_arrays_fail_shape(
		    a->inputs_name, t, "has no numbers that can be features", err);
	if (t->ndim == 1) {
		a->shape[1] = 1;
		a->stride[1] = 1;
		a->inputs.ndim = 2;
	}
	if (a->shape[1] < 1 || a->shape[1] > INT32_MAX / (int64_t)sizeof(float))
		return gt_arrays_fail_shape(a->inputs_name, t, "has no features, or too many", err);
	info->form.kind = GT_SAMPLE_VECTOR;
	info->form.features = (int)a->shape[1];
	info->input_bytes = (size_t)info->form.features * sizeof(float);
	return take_scale(a, like, err);
}

int gt_arrays_take_inputs(struct gt_arrays *a, const struct gt_tree_tensor *t, int layout,
    const struct gt_data_request *request, struct gt_err *err)
{
	struct gt_data_info *info = &a->source.info;

	if (t->ndim && t->shape[0] < 1)
		return gt_arrays_fail_shape(a->inputs_name, t, "has no samples", err);
	if (t->ndim < 1 || t->ndim > GT_ARRAYS_MAX_DIMS)
		return gt_arrays_fail_shape(
		    a->inputs_name, t, "has no samples of 1 to 3 dimensions", err);
	a->inputs = *t;
	memcpy(a->shape, t->shape, (size_t)t->ndim * sizeof(*a->shape));
	memcpy(a->stride, t->stride, (size_t)t->ndim * sizeof(*a->stride));
	a->inputs.shape = a->shape;
	a->inputs.stride = a->stride;
	info->samples = a->source.length = t->shape[0];
	info->targets = 1;
	for (int i = 0; i < GT_MAX_CHANNELS; i++)
		info->form.std[i] = 1;
	return t->ndim > 2 ? take_images(a, t, layout, err)
	                   : take_features(a, t, request->like, err);
}

/* ---- targets ---- */

static int bad_target(const struct gt_arrays *a, int64_t i, double value, struct gt_err *err)
{
	gt_err_set(err, GT_EFORMAT, "'%s': target %lld is %g, which is no class", a->targets_name,
	    (long long)i, value);
	return gt_err_hint(
	    err, "classes are whole numbers from 0; task=regression takes numbers as they are");
}

static int keep_class(struct gt_arrays *a, int64_t i, double value,
    const struct gt_data_request *request, struct gt_err *err)
{
	a->targets[i] = GT_DATA_IGNORE;
	if (gt_target_is_ignored(request, value))
		return 0;
	if (!(value >= 0 && value < MAX_CLASSES) || value != floor(value))
		return bad_target(a, i, value, err);
	a->targets[i] = (int32_t)value;
	if (a->targets[i] >= a->source.info.form.classes)
		a->source.info.form.classes = a->targets[i] + 1;
	return 0;
}

static int keep_number(struct gt_arrays *a, int64_t i, double value, struct gt_err *err)
{
	const struct gt_data_column *scale = &a->source.target;
	float real = (float)((value - scale->mean) / scale->std);

	memcpy(&a->targets[i], &real, sizeof(real));
	if (isfinite(real))
		return 0;
	return gt_err_set(
	    err, GT_EFORMAT, "'%s': target %lld is %g", a->targets_name, (long long)i, value);
}

static int keep_label(struct gt_arrays *a, int64_t i, double value, struct gt_err *err)
{
	float real = (float)value;

	memcpy(&a->targets[i], &real, sizeof(real));
	if (value == 0 || value == 1)
		return 0;
	gt_err_set(err, GT_EFORMAT, "'%s': label %lld of sample %lld is %g", a->targets_name,
	    (long long)(i % (int64_t)a->source.info.targets),
	    (long long)(i / (int64_t)a->source.info.targets), value);
	return gt_err_hint(err, "a label is 1 if it holds, else 0");
}

/* [n] or [n, 1]; of labels, also [n, labels]. */
static int check_targets(
    const struct gt_arrays *a, const struct gt_tree_tensor *t, struct gt_err *err)
{
	bool labels = a->source.info.form.target == GT_SAMPLE_LABELS;

	if (t->ndim == 2 && t->shape[1] > 1 && !labels) {
		gt_arrays_fail_shape(
		    a->targets_name, t, "has more than one target for a sample", err);
		return gt_err_hint(err,
		    "task=labels reads several labels of 0 or 1; of one-hot rows y, the "
		    "classes are y.argmax(1)");
	}
	if (t->ndim == 2 && (t->shape[1] < 1 || t->shape[1] > MAX_CLASSES))
		return gt_arrays_fail_shape(a->targets_name, t, "has no labels, or too many", err);
	if (t->ndim < 1 || t->ndim > 2 ||
	    (!gt_dtype_is_real(t->dtype) && !gt_arrays_is_whole(t->dtype)))
		return gt_arrays_fail_shape(
		    a->targets_name, t, "has no numbers that can be targets", err);
	if (t->shape[0] == a->source.length)
		return 0;
	return gt_err_set(err, GT_EFORMAT, "%lld inputs in '%s', but %lld targets in '%s'",
	    (long long)a->source.length, a->inputs_name, (long long)t->shape[0], a->targets_name);
}

/* Read all targets as numbers. */
static int read_targets(
    double **out, const struct gt_arrays *a, const struct gt_tree_tensor *t, struct gt_err *err)
{
	int64_t count = a->source.length, each = (int64_t)a->source.info.targets;
	struct gt_tree_tensor column = *t;
	double values[CHUNK];
	int rc = 0;

	*out = gt_calloc((size_t)count, (size_t)each * sizeof(**out), err);
	if (!*out)
		return GT_ENOMEM;
	column.ndim = 1;
	for (int64_t k = 0; k < each; k++) {
		column.offset = t->offset + (t->ndim > 1 ? k * t->stride[1] : 0);
		for (int64_t at = 0; !rc && at < count; at += CHUNK) {
			int64_t n = count - at < CHUNK ? count - at : CHUNK;

			rc = read_numbers(&column, at, n, values, err);
			for (int64_t i = 0; !rc && i < n; i++)
				(*out)[(at + i) * each + k] = values[i];
		}
	}
	return rc ? gt_err_prefix(err, "'%s'", a->targets_name) : 0;
}

/* A model that is trained on one value learns nothing. */
static int check_varied(const struct gt_arrays *a, const double *values,
    const struct gt_data_request *request, struct gt_err *err)
{
	int64_t i = 1, count = a->source.length * (int64_t)a->source.info.targets;

	while (i < count && values[i] == values[0])
		i++;
	if (i < count || !request->fit || (request->like && !request->new_classes))
		return 0;
	gt_err_set(err, GT_EFORMAT, "'%s': all targets are %.15g", a->targets_name, values[0]);
	return gt_err_hint(err, "check that this is the array of targets");
}

/* Add to the line about the reading, which may name the arrays. */
static int add_interpretation(struct gt_source *s, const char *text, struct gt_err *err)
{
	const char *before = s->info.interpretation;
	char *line = gt_asprintf(err, "%s%s%s", before ? before : "", before ? "; " : "", text);

	s->info.interpretation = line ? gt_arena_strdup(&s->names, line, err) : NULL;
	free(line);
	return s->info.interpretation ? 0 : GT_ENOMEM;
}

/* Whole numbers of a type for integers are classes unless they are hardly meant so. The targets of
 * images are classes: gaps between them have a warning. */
static int guess_task(struct gt_arrays *a, const double *values, bool *regression,
    const struct gt_data_request *request, struct gt_err *err)
{
	struct gt_data_info *info = &a->source.info;
	struct gt_target_numbers summary;
	enum gt_target_guess guess;
	char text[240];
	int rc = 0;

	if (!request->fit || (request->like && request->like->form.classes))
		return 0;
	rc = gt_target_summarize(&summary, values, (size_t)a->source.length, 1, request, err);
	if (rc)
		return rc;
	guess = gt_target_guess(&summary);
	if (info->form.kind == GT_SAMPLE_IMAGE && guess == GT_TARGET_SPARSE) {
		snprintf(text, sizeof(text), "only %zu of %.0f classes have images",
		    summary.distinct, summary.largest + 1);
		info->note = gt_arena_strdup(&a->source.names, text, err);
		return info->note ? 0 : GT_ENOMEM;
	}
	if (info->form.kind == GT_SAMPLE_IMAGE || guess == GT_TARGET_CLASSES)
		return 0;
	if (guess == GT_TARGET_SPARSE)
		return gt_target_fail_sparse(&summary, a->targets_name, err);
	*regression = true;
	gt_target_describe_guess(&summary, text, sizeof(text));
	return add_interpretation(&a->source, text, err);
}

/* Labels are those of the spec or, if it has no task, of the training. */
static void choose_labels(struct gt_arrays *a, enum task task, const struct gt_tree_tensor *t,
    const struct gt_data_request *request)
{
	const struct gt_data_description *like = request->like;
	struct gt_data_info *info = &a->source.info;
	bool trained = like && like->form.classes && like->form.target == GT_SAMPLE_LABELS;

	if (task != TASK_LABELS && (task != TASK_AUTO || !trained))
		return;
	info->form.target = GT_SAMPLE_LABELS;
	info->targets = t->ndim > 1 ? (size_t)t->shape[1] : 1;
}

/* As the spec says; or else the same as in training, or by the type of the targets. Where the data
 * may have new classes, integers do not end a regression. */
static int choose_task(struct gt_arrays *a, enum task task, const struct gt_tree_tensor *t,
    const double *values, const struct gt_data_request *request, struct gt_err *err)
{
	const struct gt_data_description *like = request->like;
	bool regression = task == TASK_REGRESSION, known;
	int rc = 0;

	if (a->source.info.form.target == GT_SAMPLE_LABELS)
		return 0;
	known = like && like->form.classes &&
	        (!request->new_classes || like->form.target == GT_SAMPLE_NUMBER);
	if (task == TASK_AUTO && known)
		regression = like->form.target == GT_SAMPLE_NUMBER;
	else if (task == TASK_AUTO && gt_dtype_is_real(t->dtype))
		regression = true;
	else if (task == TASK_AUTO)
		rc = guess_task(a, values, &regression, request, err);
	a->source.info.form.target = regression ? GT_SAMPLE_NUMBER : GT_SAMPLE_CLASS;
	return rc;
}

static int keep_target(struct gt_arrays *a, int64_t i, double value,
    const struct gt_data_request *request, struct gt_err *err)
{
	switch (a->source.info.form.target) {
	case GT_SAMPLE_CLASS:
		return keep_class(a, i, value, request, err);
	case GT_SAMPLE_NUMBER:
		return keep_number(a, i, value, err);
	case GT_SAMPLE_LABELS:
		return keep_label(a, i, value, err);
	}
	return 0;
}

static int keep_targets(struct gt_arrays *a, const double *values,
    const struct gt_data_request *request, struct gt_err *err)
{
	const struct gt_data_description *like = request->like;
	struct gt_source *s = &a->source;
	int64_t count = s->length * (int64_t)s->info.targets;
	bool numbers = s->info.form.target == GT_SAMPLE_NUMBER;
	int rc = 0;

	a->targets = gt_calloc((size_t)count, sizeof(*a->targets), err);
	if (!a->targets)
		return GT_ENOMEM;
	s->info.form.classes = s->info.form.target == GT_SAMPLE_CLASS ? 0 : (int)s->info.targets;
	s->target = (struct gt_data_column){ .std = 1 };
	if (numbers && like && like->form.target == GT_SAMPLE_NUMBER) {
		s->target.mean = like->target.mean;
		s->target.std = like->target.std;
	}
	for (int64_t i = 0; !rc && i < count; i++)
		rc = keep_target(a, i, values[i], request, err);
	return rc;
}

static int take_targets(struct gt_arrays *a, const struct gt_tree_tensor *t, enum task task,
    const struct gt_data_request *request, struct gt_err *err)
{
	double *values = NULL;
	int rc;

	choose_labels(a, task, t, request);
	rc = check_targets(a, t, err);
	if (!rc)
		rc = read_targets(&values, a, t, err);
	if (!rc)
		rc = choose_task(a, task, t, values, request, err);
	if (!rc)
		rc = keep_targets(a, values, request, err);
	if (!rc)
		rc = check_varied(a, values, request, err);
	free(values);
	return rc;
}

/* ---- both ---- */

static int only_images(
    const struct gt_arrays *a, const char *keys, const char *images, struct gt_err *err)
{
	return gt_err_set(
	    err, GT_EINVAL, "%s for %s, which '%s' has not", keys, images, a->inputs_name);
}

int gt_arrays_take(struct gt_arrays *a, const struct gt_tree_tensor *inputs,
    const struct gt_tree_tensor *targets, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	static const char *const layouts[] = { "auto", "hwc", "chw", NULL };
	static const char *const tasks[] = { "auto", "classification", "regression", "labels",
		NULL };
	int layout = LAYOUT_AUTO, task = TASK_AUTO,
	    rc = gt_spec_choice(spec, "layout", layouts, &layout, err);

	if (!rc)
		rc = gt_spec_choice(spec, "task", tasks, &task, err);
	if (!rc)
		rc = gt_fields_check_keys(spec, request, err);
	if (!rc && !inputs->storage->map)
		rc = gt_data_check_memory(
		    request, inputs->storage->size_bytes, "the inflated array", err);
	a->fields[0] = inputs;
	a->field_names[0] = a->inputs_name;
	if (!rc)
		rc = gt_fields_wanted(request)
		         ? gt_arrays_take_fields(a, layout, request, err)
		         : gt_arrays_take_inputs(a, inputs, layout, request, err);
	if (!rc)
		rc = take_targets(a, targets, (enum task)task, request, err);
	if (!rc && a->inputs.ndim < GT_ARRAYS_MAX_DIMS && layout != LAYOUT_AUTO)
		rc = only_images(a, "layout= is", "images with channels", err);
	if (!rc && a->source.info.form.kind != GT_SAMPLE_IMAGE &&
	    (gt_spec_gives_mean(spec) || gt_spec_gives_std(spec)))
		rc = only_images(a, "norm=, mean= and std= are", "images", err);
	return rc ? rc : gt_spec_normalization(spec, &a->source.info, err);
}
