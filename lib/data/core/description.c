/* description.c - descriptions of data sets, and JSON. */
#include "lib/data/core/description.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/data/core/source.h"
#include "lib/data/text/tokenizer.h"

const char *const gt_data_missing_names[] = {
	[GT_DATA_MISSING_ERROR] = "error",
	[GT_DATA_MISSING_MEAN] = "mean",
	[GT_DATA_MISSING_MEDIAN] = "median",
	[GT_DATA_MISSING_DROP] = "drop",
	[GT_DATA_MISSING_CATEGORY] = "category",
	NULL,
};

bool gt_data_fills_numbers(enum gt_data_missing missing)
{
	return missing == GT_DATA_MISSING_MEAN || missing == GT_DATA_MISSING_MEDIAN;
}

static const char *const kinds[] = {
	[GT_SAMPLE_IMAGE] = "image",
	[GT_SAMPLE_VECTOR] = "vector",
	[GT_SAMPLE_TOKENS] = "tokens",
};

enum { KINDS = sizeof(kinds) / sizeof(*kinds), MAX_COUNT = 1 << 24 };

int32_t gt_data_begin(const struct gt_data_specials *s, const struct gt_tokenizer *tok)
{
	if (s->begin_known)
		return s->begin;
	return tok ? gt_tokenizer_begin(tok) : -1;
}

void gt_data_describe(struct gt_data_description *out, const struct gt_dataset *data)
{
	const struct gt_data_info *info = gt_dataset_info(data);
	const struct gt_source *source = gt_dataset_source(data);

	*out = (struct gt_data_description){
		.kind_known = true,
		.form = info->form,
		.normalization_known = info->form.kind == GT_SAMPLE_IMAGE,
		.reduce_known = source->resizes,
		.reduce = source->reduce,
		.fit_known = source->resizes,
		.fit = source->fit,
		.class_names = source->class_names,
		.feature_names = source->feature_names,
		.column_count = source->column_count,
		.columns = source->columns,
		.target = source->target,
		.target_place = source->target_place,
		.missing = source->missing,
		.dialect = source->dialect,
		.texts = { source->texts[0], source->texts[1] },
		.tokenizer = source->ops->tokenizer ? source->ops->tokenizer(source) : NULL,
		.specials = source->specials,
	};
	if (out->tokenizer)
		memcpy(out->tokenizer_digest, gt_tokenizer_digest(out->tokenizer),
		    strlen(gt_tokenizer_digest(out->tokenizer)) + 1);
}

const char *gt_data_kind_of_inputs(const struct gt_data_description *like, enum gt_sample_kind kind)
{
	static const char *const readers[] = { [GT_SAMPLE_IMAGE] = "images",
		[GT_SAMPLE_VECTOR] = "csv",
		[GT_SAMPLE_TOKENS] = "text" };

	return like->texts[0] ? "labelled" : readers[kind];
}

void gt_data_description_release(struct gt_data_description *d)
{
	gt_arena_release(&d->arena);
	gt_tokenizer_close(d->own);
	*d = (struct gt_data_description){ 0 };
}

int gt_tokenizer_check(const struct gt_tokenizer *tok, const struct gt_data_description *like,
    struct gt_file_name from, struct gt_err *err)
{
	if (!like || !*like->tokenizer_digest)
		return 0;
	if (!tok) {
		gt_err_set(err, GT_EIO, "the tokenizer that the model was trained with is missing");
		return gt_err_hint(err,
		    "tokenizer=DIR in {data} names it (generate: {tokenizer} DIR); its run has a "
		    "tokenizer.json");
	}
	if (!strcmp(like->tokenizer_digest, gt_tokenizer_digest(tok)))
		return 0;
	if (from.folder) {
		gt_err_set(err, GT_EFORMAT,
		    "'%s' is not the tokenizer that the model was trained with", from.path);
		return gt_err_hint(err, "the file was changed; put it back, or name another");
	}
	return gt_err_set(err, GT_EINVAL, "the model was trained with another tokenizer than '%s'",
	    from.path ? from.path : "this");
}

int gt_data_column_width(const struct gt_data_column *c)
{
	return c->count && !c->whole ? c->count : 1;
}

/* ---- writing ---- */

static json_t *name_to_json(const char *name)
{
	json_t *json = json_string(name);

	if (json) /* the name is UTF-8 */
		return json;
	json = json_array();
	for (const char *p = name; json && *p; p++)
		if (json_array_append_new(json, json_integer((unsigned char)*p))) {
			json_decref(json);
			json = NULL;
		}
	return json;
}

static json_t *names_to_json(const char *const *names, int count)
{
	json_t *array = json_array();

	for (int i = 0; array && i < count; i++)
		if (json_array_append_new(array, name_to_json(names[i]))) {
			json_decref(array);
			array = NULL;
		}
	return array;
}

/* The double of the shortest decimal number that is this float: 0.1, not 0.10000000149011612. */
static double as_written(float x)
{
	char text[32];

	for (int digits = 6; digits <= 9; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, (double)x);
		if (strtof(text, NULL) == x)
			break;
	}
	return strtod(text, NULL);
}

static json_t *floats_to_json(const float *values, int count)
{
	json_t *array = json_array();

	for (int i = 0; array && i < count; i++)
		if (json_array_append_new(array, json_real(as_written(values[i])))) {
			json_decref(array);
			array = NULL;
		}
	return array;
}

/* The dialect of most tables is not written. */
static bool is_usual_dialect(const struct gt_data_dialect *d)
{
	return d->separator == ',' && d->decimal == '.';
}

/* {"name": "age", "mean": 31.5, "std": 4.2} or {"name": "colour", "words": ["blue", "red"]}. A
 * value for missing ones that is not used is left out. */
static json_t *column_to_json(const struct gt_data_column *c, bool fills)
{
	json_t *json = json_object();
	int rc = json ? 0 : -1;

	if (!rc && c->name)
		rc = json_object_set_new(json, "name", name_to_json(c->name));
	if (!rc && c->field)
		rc = json_object_set_new(json, "input", json_integer(c->field));
	if (!rc && c->count)
		rc = json_object_set_new(json, "words", names_to_json(c->words, c->count));
	if (!rc && !c->count)
		rc = json_object_set_new(json, "mean", json_real(c->mean)) ||
		     json_object_set_new(json, "std", json_real(c->std));
	if (!rc && fills && c->filled)
		rc = json_object_set_new(json, "fill", json_real(c->fill));
	if (!rc)
		return json;
	json_decref(json);
	return NULL;
}

static json_t *columns_to_json(const struct gt_data_description *d)
{
	json_t *array = json_array();

	bool fills = gt_data_fills_numbers(d->missing);

	for (int i = 0; array && i < d->column_count; i++)
		if (json_array_append_new(array, column_to_json(&d->columns[i], fills))) {
			json_decref(array);
			array = NULL;
		}
	return array;
}

static json_t *shape_to_json(const struct gt_sample_field *f)
{
	json_t *array = json_array();

	for (int i = 0; array && i < f->ndim; i++)
		if (json_array_append_new(array, json_integer(f->shape[i]))) {
			json_decref(array);
			array = NULL;
		}
	return array;
}

/* [{"name": "city", "type": "int64", "shape": []}, ...] */
static json_t *fields_to_json(const struct gt_sample_form *form)
{
	json_t *array = json_array();

	for (int i = 0; array && i < form->field_count; i++) {
		const struct gt_sample_field *f = &form->fields[i];

		if (json_array_append_new(
		        array, json_pack("{s:s,s:s,s:o}", "name", f->name, "type",
		                   gt_field_type_name(f->type), "shape", shape_to_json(f)))) {
			json_decref(array);
			array = NULL;
		}
	}
	return array;
}

/* "bos": null says that there is none. */
static int add_specials(json_t *json, const struct gt_data_specials *s)
{
	json_t *ends = s->end_count ? json_array() : NULL;
	int rc = 0;

	if (s->begin_known)
		rc = json_object_set_new(
		    json, "bos", s->begin < 0 ? json_null() : json_integer(s->begin));
	for (int i = 0; !rc && i < s->end_count; i++)
		rc = json_array_append_new(ends, json_integer(s->ends[i]));
	if (!rc && s->end_count)
		return json_object_set_new(json, "eos", ends);
	json_decref(ends);
	return rc;
}

json_t *gt_data_description_to_json(
    const struct gt_data_description *d, bool whole, struct gt_err *err)
{
	json_t *json =
	    json_pack("{s:s,s:i}", "kind", kinds[d->form.kind], "classes", d->form.classes);
	int rc = json ? 0 : -1;

	if (!rc && d->form.kind == GT_SAMPLE_IMAGE)
		rc =
		    json_object_set_new(json, "size",
		        json_pack("[iii]", d->form.height, d->form.width, d->form.channels)) ||
		    json_object_set_new(
		        json, "mean", floats_to_json(d->form.mean, d->form.channels)) ||
		    json_object_set_new(json, "std", floats_to_json(d->form.std, d->form.channels));
	if (!rc && d->reduce_known)
		rc = json_object_set_new(json, "reduce", json_boolean(d->reduce));
	if (!rc && d->form.kind == GT_SAMPLE_IMAGE)
		rc = gt_fit_to_json(&d->fit, json);
	if (!rc && d->form.kind == GT_SAMPLE_VECTOR)
		rc = json_object_set_new(json, "features", json_integer(d->form.features));
	if (!rc && d->form.field_count)
		rc = json_object_set_new(json, "inputs", fields_to_json(&d->form));
	if (!rc && d->class_names)
		rc = json_object_set_new(
		    json, "class-names", names_to_json(d->class_names, d->form.classes));
	if (!rc && d->feature_names)
		rc = json_object_set_new(
		    json, "feature-names", names_to_json(d->feature_names, d->form.features));
	if (!rc && d->column_count)
		rc = json_object_set_new(json, "columns", columns_to_json(d));
	if (!rc && d->missing)
		rc = json_object_set_new(
		    json, "missing", json_string(gt_data_missing_names[d->missing]));
	if (!rc && d->dialect.separator && !is_usual_dialect(&d->dialect))
		rc = json_object_set_new(json, "dialect",
		    json_stringn((const char[]){ d->dialect.separator, d->dialect.decimal }, 2));
	if (!rc && d->form.target == GT_SAMPLE_NUMBER)
		rc = json_object_set_new(json, "target", column_to_json(&d->target, false));
	if (!rc && d->form.target == GT_SAMPLE_LABELS)
		rc = json_object_set_new(json, "labels", json_true());
	if (!rc && d->form.target != GT_SAMPLE_NUMBER && d->target.name)
		rc = json_object_set_new(json, "target-name", name_to_json(d->target.name));
	if (!rc && d->target_place)
		rc = json_object_set_new(json, "target-place", json_integer(d->target_place));
	if (!rc && d->texts[0])
		rc = json_object_set_new(
		    json, "texts", names_to_json(d->texts, d->texts[1] ? 2 : 1));
	/* A digest is short: config.json has it, too. */
	if (!rc && (whole || *d->tokenizer_digest) && d->tokenizer)
		rc = json_object_set_new(json, "vocab", gt_tokenizer_to_json(d->tokenizer));
	if (!rc)
		rc = add_specials(json, &d->specials);
	if (!rc)
		return json;
	json_decref(json);
	gt_err_set(err, GT_ENOMEM, "out of memory: the description of the data");
	return NULL;
}

/* ---- reading ---- */

static int malformed(const char *key, const char *wanted, struct gt_err *err)
{
	return gt_err_set(err, GT_EFORMAT, "'%s' must be %s", key, wanted);
}

static int read_count(int *out, const json_t *json, const char *key, struct gt_err *err)
{
	json_int_t n = json_integer_value(json);

	if (!json_is_integer(json) || n < 0 || n > MAX_COUNT)
		return malformed(key, "a count", err);
	*out = (int)n;
	return 0;
}

/* A string, or the bytes of one. */
static int read_name(const char **out, struct gt_arena *arena, const json_t *json, const char *key,
    struct gt_err *err)
{
	size_t length = json_is_string(json) ? json_string_length(json) : json_array_size(json);
	char *name = gt_arena_alloc(arena, length + 1, err);

	if (!name)
		return GT_ENOMEM;
	if (json_is_string(json))
		memcpy(name, json_string_value(json), length);
	for (size_t i = 0; json_is_array(json) && i < length; i++) {
		json_int_t byte = json_integer_value(json_array_get(json, i));

		if (byte < 1 || byte > 255)
			return malformed(key, "names of bytes from 1 to 255", err);
		name[i] = (char)byte;
	}
	if (strlen(name) != length || (!json_is_string(json) && !json_is_array(json)))
		return malformed(key, "names without zero bytes", err);
	*out = name;
	return 0;
}

static int read_name_list(const char *const **out, int count, struct gt_arena *arena,
    const json_t *object, const char *key, struct gt_err *err)
{
	const json_t *array = json_object_get(object, key);
	const char **names;
	int rc = 0;

	if (!array)
		return 0;
	if (!json_is_array(array) || json_array_size(array) != (size_t)count)
		return malformed(key, "an array of the right number of names", err);
	names = gt_arena_alloc(arena, (size_t)count * sizeof(*names), err);
	if (!names)
		return GT_ENOMEM;
	for (int i = 0; i < count && !rc; i++)
		rc = read_name(&names[i], arena, json_array_get(array, (size_t)i), key, err);
	*out = names;
	return rc;
}

static int read_floats(
    float *out, int count, const json_t *object, const char *key, struct gt_err *err)
{
	const json_t *array = json_object_get(object, key);

	if (json_array_size(array) != (size_t)count)
		return malformed(key, "an array with a number for each channel", err);
	for (int i = 0; i < count; i++) {
		const json_t *item = json_array_get(array, (size_t)i);

		if (!json_is_number(item) || !isfinite((float)json_number_value(item)))
			return malformed(key, "an array with a number for each channel", err);
		out[i] = (float)json_number_value(item);
	}
	return 0;
}

static int read_image(struct gt_data_description *d, const json_t *json, struct gt_err *err)
{
	const json_t *size = json_object_get(json, "size"),
	             *reduce = json_object_get(json, "reduce");
	int *const fields[] = { &d->form.height, &d->form.width, &d->form.channels };
	int rc = json_array_size(size) == 3 ? 0 : malformed("size", "three counts", err);

	for (size_t i = 0; i < 3 && !rc; i++)
		rc = read_count(fields[i], json_array_get(size, i), "size", err);
	if (!rc && (d->form.channels > GT_MAX_CHANNELS || d->form.height > GT_DATA_MAX_SIDE ||
	               d->form.width > GT_DATA_MAX_SIDE))
		rc =
		    malformed("size", "height and width of at most 4096, and 1 to 4 channels", err);
	if (!rc && reduce && !json_is_boolean(reduce))
		rc = malformed("reduce", "true or false", err);
	d->reduce_known = d->fit_known = reduce != NULL; /* others are not resized */
	d->reduce = json_is_true(reduce);
	if (!rc)
		rc = gt_fit_from_json(&d->fit, json, err);
	if (rc || !json_object_get(json, "mean")) /* a file of other programs may lack both */
		return rc;
	rc = read_floats(d->form.mean, d->form.channels, json, "mean", err);
	if (!rc)
		rc = read_floats(d->form.std, d->form.channels, json, "std", err);
	for (int i = 0; i < d->form.channels && !rc; i++)
		if (d->form.std[i] <= 0)
			rc = malformed("std", "above 0", err);
	d->normalization_known = true;
	return rc;
}

static int read_scale(double *out, const json_t *object, const char *key, struct gt_err *err)
{
	const json_t *json = json_object_get(object, key);
	double value = json_number_value(json);

	if (!json_is_number(json) || !isfinite((float)value))
		return malformed(key, "a number", err);
	*out = value;
	return 0;
}

static int read_column(struct gt_data_column *c, const struct gt_sample_form *form,
    struct gt_arena *arena, const json_t *json, struct gt_err *err)
{
	const json_t *name = json_object_get(json, "name"), *field = json_object_get(json, "input");
	size_t count = json_array_size(json_object_get(json, "words"));
	int rc = name ? read_name(&c->name, arena, name, "name", err) : 0;

	if (!rc && field)
		rc = read_count(&c->field, field, "input", err);
	if (!rc && field && c->field >= form->field_count)
		rc = malformed("input", "one of the inputs", err);
	if (rc)
		return rc;
	c->whole = form->field_count && form->fields[c->field].type != GT_FIELD_FLOAT;
	if (count > GT_DATA_MAX_WORDS)
		return malformed("words", "a list of at most 4096 words", err);
	c->count = (int)count;
	c->std = 1;
	if (count)
		return read_name_list(&c->words, c->count, arena, json, "words", err);
	rc = read_scale(&c->mean, json, "mean", err);
	if (!rc)
		rc = read_scale(&c->std, json, "std", err);
	c->filled = json_object_get(json, "fill") != NULL;
	if (!rc && c->filled)
		rc = read_scale(&c->fill, json, "fill", err);
	return !rc && !(c->std > 0) ? malformed("std", "above 0", err) : rc;
}

static int read_dialect(struct gt_data_dialect *d, const json_t *json, struct gt_err *err)
{
	const char *text = json_string_value(json);

	if (!json)
		return 0;
	if (!text || json_string_length(json) != 2)
		return malformed("dialect", "a separator and a decimal point or comma", err);
	*d = (struct gt_data_dialect){ text[0], text[1] };
	return 0;
}

static int read_missing(struct gt_data_description *d, const json_t *json, struct gt_err *err)
{
	const char *name = json_string_value(json);
	int i = 0;

	while (json && gt_data_missing_names[i] &&
	       (!name || strcmp(name, gt_data_missing_names[i]) != 0))
		i++;
	if (!gt_data_missing_names[i])
		return malformed("missing", "mean, median, drop or category", err);
	d->missing = (enum gt_data_missing)i;
	return 0;
}

static int read_field(struct gt_sample_field *f, const json_t *json, struct gt_err *err)
{
	const char *name = json_string_value(json_object_get(json, "name"));
	const char *type = json_string_value(json_object_get(json, "type"));
	const json_t *shape = json_object_get(json, "shape");
	int rc = 0, t = GT_FIELD_FLOAT;

	while (type && t <= GT_FIELD_PIXELS && strcmp(type, gt_field_type_name(t)))
		t++;
	if (!name || !*name || strlen(name) >= sizeof(f->name) || !type || t > GT_FIELD_PIXELS)
		return malformed("inputs", "names, types and shapes", err);
	memcpy(f->name, name, strlen(name) + 1);
	f->type = (enum gt_field_type)t;
	if (!json_is_array(shape) || json_array_size(shape) > GT_FIELD_DIMS)
		return malformed("inputs", "names, types and shapes", err);
	for (f->ndim = 0; !rc && f->ndim < (int)json_array_size(shape); f->ndim++) {
		int *size = &f->shape[f->ndim];

		rc = read_count(size, json_array_get(shape, (size_t)f->ndim), "shape", err);
		if (!rc && !*size)
			rc = malformed("shape", "sizes above 0", err);
	}
	return rc;
}

/* The fields make the features, unless the first one is an image. */
static int read_fields(struct gt_sample_form *form, const json_t *array, struct gt_err *err)
{
	size_t count = json_array_size(array);
	int64_t values = 0;
	int rc = 0;

	if (!array)
		return 0;
	if (!count || count > GT_MAX_FIELDS || form->kind == GT_SAMPLE_TOKENS)
		return malformed("inputs", "a list of 1 to 16 inputs", err);
	for (size_t i = 0; i < count && !rc; i++) {
		rc = read_field(&form->fields[i], json_array_get(array, i), err);
		values += gt_field_values(&form->fields[i]);
		if (!rc && (form->fields[i].type == GT_FIELD_PIXELS) !=
		               (!i && form->kind == GT_SAMPLE_IMAGE))
			rc = malformed("inputs", "pixels of images, and numbers", err);
	}
	form->field_count = (int)count;
	if (!rc && (values > GT_FIELD_VALUES ||
	               (form->kind == GT_SAMPLE_VECTOR && values != form->features)))
		rc = malformed("inputs", "the inputs of all features", err);
	if (!rc && form->kind == GT_SAMPLE_IMAGE &&
	    (form->fields[0].ndim != 3 || form->fields[0].shape[0] != form->height ||
	        form->fields[0].shape[1] != form->width ||
	        form->fields[0].shape[2] != form->channels))
		rc = malformed("inputs", "an image of the size first", err);
	return rc;
}

/* The columns make the features: as many as these have. */
static int read_columns(struct gt_data_description *d, const json_t *array, struct gt_err *err)
{
	size_t count = json_array_size(array);
	struct gt_data_column *columns;
	bool fills = gt_data_fills_numbers(d->missing);
	int64_t features = 0;
	int rc = 0;

	if (!count)
		return 0;
	if (count > (size_t)d->form.features)
		return malformed("columns", "no more columns than features", err);
	columns = gt_arena_alloc(&d->arena, count * sizeof(*columns), err);
	if (!columns)
		return GT_ENOMEM;
	for (size_t i = 0; i < count && !rc; i++) {
		rc = read_column(&columns[i], &d->form, &d->arena, json_array_get(array, i), err);
		features += gt_data_column_width(&columns[i]);
		if (!rc && fills && !columns[i].count && !columns[i].whole && !columns[i].filled)
			rc = malformed("fill", "in each column of numbers", err);
	}
	if (!rc && features != d->form.features)
		rc = malformed("columns", "the columns of all features", err);
	d->columns = columns;
	d->column_count = (int)count;
	return rc;
}

/* A target without a place is the last column. */
static int read_target_place(struct gt_data_description *d, const json_t *json, struct gt_err *err)
{
	int rc = json ? read_count(&d->target_place, json, "target-place", err) : 0;

	if (!rc && d->target_place > d->column_count + 1)
		rc = malformed("target-place", "a place among the columns", err);
	return rc;
}

static int read_id(int32_t *out, const json_t *json, const char *key, struct gt_err *err)
{
	json_int_t id = json_integer_value(json);

	if (!json_is_integer(json) || id < 0 || id > INT32_MAX)
		return malformed(key, "ids of tokens", err);
	*out = (int32_t)id;
	return 0;
}

static int read_specials(struct gt_data_specials *s, const json_t *json, struct gt_err *err)
{
	const json_t *begin = json_object_get(json, "bos"), *ends = json_object_get(json, "eos");
	size_t count = json_array_size(ends);
	int rc = 0;

	s->begin_known = begin != NULL;
	s->begin = -1;
	if (begin && !json_is_null(begin))
		rc = read_id(&s->begin, begin, "bos", err);
	if (!rc && ((ends && !json_is_array(ends)) || count > GT_DATA_MAX_ENDS))
		rc = malformed("eos", "a list of at most 16 ids of tokens", err);
	for (size_t i = 0; i < count && !rc; i++)
		rc = read_id(&s->ends[i], json_array_get(ends, i), "eos", err);
	s->end_count = rc ? 0 : (int)count;
	return rc;
}

/* The names of one text or two. */
static int read_texts(struct gt_data_description *d, const json_t *json, struct gt_err *err)
{
	size_t count = json_array_size(json);
	int rc = 0;

	if (json && (count < 1 || count > 2))
		return malformed("texts", "one name or two", err);
	for (size_t i = 0; !rc && i < count; i++)
		rc = read_name(&d->texts[i], &d->arena, json_array_get(json, i), "texts", err);
	return rc;
}

static int read_vocab(struct gt_data_description *d, const json_t *json, struct gt_err *err)
{
	const char *level = json_string_value(json_object_get(json, "level"));
	const char *digest = json_string_value(json_object_get(json, "sha256"));

	if (!json)
		return 0;
	if (level && !strcmp(level, gt_tokenizer_levels[GT_LEVEL_BPE])) {
		if (!digest || strlen(digest) != GT_DATA_DIGEST - 1)
			return malformed("sha256", "a digest of 64 digits", err);
		memcpy(d->tokenizer_digest, digest, GT_DATA_DIGEST);
		return 0;
	}
	if (gt_tokenizer_from_json(&d->own, json, err))
		return gt_err_prefix(err, "'vocab'");
	d->tokenizer = d->own;
	return 0;
}

static int read_description(struct gt_data_description *d, const json_t *json, struct gt_err *err)
{
	const char *kind = json_string_value(json_object_get(json, "kind"));
	const json_t *name = json_object_get(json, "target-name");
	int rc, k = 0;

	while (k < KINDS && kind && strcmp(kind, kinds[k]))
		k++;
	if (!kind || k == KINDS)
		return malformed("kind", "image, vector or tokens", err);
	d->kind_known = true;
	d->form.kind = (enum gt_sample_kind)k;
	rc = read_count(&d->form.classes, json_object_get(json, "classes"), "classes", err);
	if (!rc && d->form.kind == GT_SAMPLE_IMAGE)
		rc = read_image(d, json, err);
	if (!rc && d->form.kind == GT_SAMPLE_VECTOR)
		rc = read_count(
		    &d->form.features, json_object_get(json, "features"), "features", err);
	if (!rc)
		rc = read_fields(&d->form, json_object_get(json, "inputs"), err);
	if (!rc)
		rc = read_name_list(
		    &d->class_names, d->form.classes, &d->arena, json, "class-names", err);
	if (!rc)
		rc = read_name_list(
		    &d->feature_names, d->form.features, &d->arena, json, "feature-names", err);
	if (!rc)
		rc = read_missing(d, json_object_get(json, "missing"), err);
	if (!rc)
		rc = read_dialect(&d->dialect, json_object_get(json, "dialect"), err);
	if (!rc)
		rc = read_columns(d, json_object_get(json, "columns"), err);
	if (json_object_get(json, "target"))
		d->form.target = GT_SAMPLE_NUMBER;
	else if (json_is_true(json_object_get(json, "labels")))
		d->form.target = GT_SAMPLE_LABELS;
	if (!rc && d->form.target == GT_SAMPLE_NUMBER)
		rc = read_column(&d->target, &(struct gt_sample_form){ 0 }, &d->arena,
		    json_object_get(json, "target"), err);
	if (!rc && d->form.target != GT_SAMPLE_NUMBER && name)
		rc = read_name(&d->target.name, &d->arena, name, "target-name", err);
	if (!rc)
		rc = read_target_place(d, json_object_get(json, "target-place"), err);
	if (!rc)
		rc = read_texts(d, json_object_get(json, "texts"), err);
	if (!rc)
		rc = read_specials(&d->specials, json, err);
	return rc ? rc : read_vocab(d, json_object_get(json, "vocab"), err);
}

int gt_data_description_from_json(
    struct gt_data_description *out, const json_t *json, struct gt_err *err)
{
	int rc;

	*out = (struct gt_data_description){ 0 };
	rc = read_description(out, json, err);
	if (rc)
		gt_data_description_release(out);
	return rc;
}
