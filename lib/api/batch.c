/* batch.c - the arrays of a caller as a batch of samples. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/api/api.h"

/* An array that a batch has: the place of its values among those of a sample, or the target. */
struct part {
	struct gt_sample_field field;
	size_t at; /* bytes before it in a sample */
	/* whole numbers must be below this, if it is not 0; `ignored`: or GT_DATA_IGNORE */
	int below;
	bool ignored;
};

enum { MOST_PARTS = GT_MAX_FIELDS + 1 };

static const char target_name[] = "target";

/* The parts of a sample: its inputs, and last the target. */
struct layout {
	struct part parts[MOST_PARTS];
	int count;
};

static struct gt_sample_field form_field(const struct gt_sample_form *form)
{
	struct gt_sample_field f = { .name = "input" };

	switch (form->kind) {
	case GT_SAMPLE_IMAGE:
		f.type = GT_FIELD_PIXELS;
		f.ndim = 3;
		f.shape[0] = form->height;
		f.shape[1] = form->width;
		f.shape[2] = form->channels;
		break;
	case GT_SAMPLE_VECTOR:
		f.type = GT_FIELD_FLOAT;
		f.ndim = 1;
		f.shape[0] = form->features;
		break;
	case GT_SAMPLE_TOKENS:
		f.type = GT_FIELD_INT;
		f.ndim = 1;
		f.shape[0] = form->block;
		break;
	}
	return f;
}

static struct part target_part(const struct gt_data_info *info)
{
	const struct gt_sample_form *form = &info->form;
	bool classes = form->target == GT_SAMPLE_CLASS;
	struct part p = { .below = classes ? form->classes : 0, .ignored = classes };

	memcpy(p.field.name, target_name, sizeof(target_name));
	p.field.type = classes ? GT_FIELD_INT : GT_FIELD_FLOAT;
	p.field.ndim = form->kind == GT_SAMPLE_TOKENS || form->target == GT_SAMPLE_LABELS;
	p.field.shape[0] = (int)info->targets;
	return p;
}

static struct layout layout_of(const struct gt_data_info *info)
{
	const struct gt_sample_form *form = &info->form;
	struct layout l = { .count = form->field_count };

	for (int i = 0; i < form->field_count; i++)
		l.parts[i] =
		    (struct part){ .field = form->fields[i], .at = gt_sample_field_at(form, i) };
	if (!l.count)
		l.parts[l.count++] = (struct part){ .field = form_field(form),
			.below = form->kind == GT_SAMPLE_TOKENS ? form->classes : 0 };
	l.parts[l.count++] = target_part(info);
	return l;
}

static bool takes_type(enum gt_field_type type, int32_t dtype)
{
	switch (type) {
	case GT_FIELD_FLOAT:
		return dtype == GTRAIN_FLOAT32;
	case GT_FIELD_INT:
		return dtype == GTRAIN_INT32 || dtype == GTRAIN_INT64;
	case GT_FIELD_BOOL:
	case GT_FIELD_PIXELS:
		return dtype == GTRAIN_UINT8;
	}
	return false;
}

static const char *const type_words[] = { [GT_FIELD_FLOAT] = "float32",
	[GT_FIELD_INT] = "int32 or int64",
	[GT_FIELD_BOOL] = "uint8",
	[GT_FIELD_PIXELS] = "uint8" };

/* Say which array the part needs: "float32 [samples, 8]". */
static int fail_form(const struct part *p, const char *given, struct gt_err *err)
{
	char shape[GT_FIELD_SHAPE];
	const char *text = gt_field_shape_text(shape, &p->field);

	return gt_err_set(err, GT_EINVAL, "'%s' is %s, not %s [samples%s%s", p->field.name, given,
	    type_words[p->field.type], p->field.ndim ? ", " : "", text + 1);
}

static int check_part(
    const struct part *p, const struct gtrain_tensor *t, int64_t *samples, struct gt_err *err)
{
	char given[GT_API_FORM];
	bool fits;

	if (gt_api_check_tensor(t, given, err))
		return err->code;
	fits = takes_type(p->field.type, t->dtype) && t->ndim == p->field.ndim + 1;
	for (int i = 0; fits && i < p->field.ndim; i++)
		fits = t->shape[i + 1] == p->field.shape[i];
	if (!fits)
		return fail_form(p, given, err);
	if (t->shape[0] < 1 || t->shape[0] > INT_MAX)
		return gt_err_set(
		    err, GT_EINVAL, "'%s' has %lld samples", t->name, (long long)t->shape[0]);
	if (*samples && *samples != t->shape[0])
		return gt_err_set(err, GT_EINVAL, "'%s' has %lld samples, and others have %lld",
		    t->name, (long long)t->shape[0], (long long)*samples);
	*samples = t->shape[0];
	return 0;
}

static int find_part(const struct layout *l, const char *name, struct gt_err *err)
{
	char names[200] = "";

	for (int i = 0; i < l->count; i++) {
		size_t used = strlen(names);

		if (name && !strcmp(l->parts[i].field.name, name))
			return i;
		snprintf(names + used, sizeof(names) - used, "%s'%s'", i ? ", " : "",
		    l->parts[i].field.name);
	}
	gt_err_set(err, GT_EINVAL, "a batch has no '%s'", name ? name : "(null)");
	gt_err_hint(err, "it has %s", names);
	return -1;
}

/* Find the array of each part, and check its form. */
static int find_arrays(const struct gtrain_tensor **array, int64_t *samples, const struct layout *l,
    const struct gtrain_tensor *tensors, int count, bool with_targets, struct gt_err *err)
{
	for (int i = 0; i < count; i++) {
		int at = find_part(l, tensors[i].name, err);

		if (at < 0)
			return GT_EINVAL;
		if (array[at])
			return gt_err_set(
			    err, GT_EINVAL, "'%s' is in the batch twice", tensors[i].name);
		array[at] = &tensors[i];
		if (check_part(&l->parts[at], array[at], samples, err))
			return err->code;
	}
	for (int i = 0; i < l->count; i++)
		if (!array[i] && (with_targets || i < l->count - 1))
			return gt_err_set(
			    err, GT_EINVAL, "the batch lacks '%s'", l->parts[i].field.name);
	return 0;
}

static int64_t whole_number(const struct gtrain_tensor *t, size_t i)
{
	int64_t wide;
	int32_t narrow;

	if (t->dtype == GTRAIN_INT64) {
		memcpy(&wide, (const char *)t->data + i * sizeof(wide), sizeof(wide));
		return wide;
	}
	memcpy(&narrow, (const char *)t->data + i * sizeof(narrow), sizeof(narrow));
	return narrow;
}

/* Copy whole numbers, each of which must be that of a class or token. */
static int copy_whole(int32_t *out, const struct part *p, const struct gtrain_tensor *t,
    size_t first, size_t count, struct gt_err *err)
{
	for (size_t i = 0; i < count; i++) {
		int64_t n = whole_number(t, first + i);
		bool fits = p->below ? n >= 0 && n < p->below : n >= INT32_MIN && n <= INT32_MAX;

		if (!fits && !(p->ignored && n == GT_DATA_IGNORE)) {
			gt_err_set(err, GT_EINVAL, "'%s' has %lld at element %zu", t->name,
			    (long long)n, first + i);
			return p->below ? gt_err_hint(err, "the numbers are from 0 to %d%s",
			                      p->below - 1, p->ignored ? ", or -100" : "")
			                : err->code;
		}
		out[i] = (int32_t)n;
	}
	return 0;
}

/* A NaN among targets would count as a missing one. */
static int copy_floats(float *out, const struct part *p, const struct gtrain_tensor *t,
    size_t first, size_t count, struct gt_err *err)
{
	memcpy(out, (const char *)t->data + first * sizeof(*out), count * sizeof(*out));
	for (size_t i = 0; !strcmp(p->field.name, target_name) && i < count; i++)
		if (!isfinite(out[i]))
			return gt_err_set(err, GT_EINVAL, "'%s' has %g at element %zu", t->name,
			    (double)out[i], first + i);
	return 0;
}

/* Copy the values of sample `i` to `out`. */
static int copy_values(
    void *out, const struct part *p, const struct gtrain_tensor *t, size_t i, struct gt_err *err)
{
	size_t count = (size_t)gt_field_values(&p->field), first = i * count;
	const uint8_t *bytes = (const uint8_t *)t->data + first;

	switch (p->field.type) {
	case GT_FIELD_INT:
		return copy_whole(out, p, t, first, count, err);
	case GT_FIELD_FLOAT:
		return copy_floats(out, p, t, first, count, err);
	case GT_FIELD_PIXELS:
		memcpy(out, bytes, count);
		return 0;
	case GT_FIELD_BOOL:
		for (size_t k = 0; k < count; k++)
			((float *)out)[k] = bytes[k] ? 1 : 0;
		return 0;
	}
	return 0;
}

int gt_api_pack(struct gt_batch *out, void **memory, const struct gt_dataset *data,
    const struct gtrain_tensor *tensors, int count, bool with_targets, struct gt_err *err)
{
	const struct gt_data_info *info = gt_dataset_info(data);
	const struct gtrain_tensor *array[MOST_PARTS] = { NULL };
	const struct layout l = layout_of(info);
	size_t bytes = info->input_bytes, targets = info->targets, inputs;
	int64_t samples = 0;
	int rc = find_arrays(array, &samples, &l, tensors, count, with_targets, err);

	*memory = NULL;
	if (rc)
		return rc;
	inputs = (size_t)gt_round_up((int64_t)(bytes * (size_t)samples), 64);
	*memory = gt_calloc(inputs + (size_t)samples * targets * sizeof(int32_t), 1, err);
	if (!*memory)
		return GT_ENOMEM;
	*out = (struct gt_batch){ .count = (int)samples,
		.input_bytes = bytes,
		.input = *memory,
		.target = (int32_t *)(void *)((char *)*memory + inputs) };
	for (size_t i = 0; !rc && i < (size_t)samples; i++) {
		for (int k = 0; !rc && k < l.count - 1; k++)
			rc = copy_values((char *)out->input + i * bytes + l.parts[k].at,
			    &l.parts[k], array[k], i, err);
		if (!rc && array[l.count - 1])
			rc = copy_values(out->target + i * targets, &l.parts[l.count - 1],
			    array[l.count - 1], i, err);
		for (size_t k = 0; !array[l.count - 1] && k < targets; k++)
			out->target[i * targets + k] = GT_DATA_IGNORE;
	}
	return rc;
}
