/* conform.c - a data set read as the one that a model was trained on. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/data/core/source.h"

static const char *kind_name(enum gt_sample_kind kind)
{
	return kind == GT_SAMPLE_IMAGE    ? "images"
	       : kind == GT_SAMPLE_VECTOR ? "rows of numbers"
	                                  : "text";
}

static int check_kind(
    const struct gt_data_info *info, const struct gt_data_description *like, struct gt_err *err)
{
	if (!like->kind_known || info->form.kind == like->form.kind)
		return 0;
	return gt_err_set(err, GT_EINVAL, "the data are %s, but the model was trained on %s",
	    kind_name(info->form.kind),
	    like->texts[0] ? "texts with a class each" : kind_name(like->form.kind));
}

/* ---- images ---- */

/* Settings as text: those taken from the description, and those that the spec overrules. */
struct conform_notes {
	char adopted[240], overruled[400];
};

static void append_text(char *text, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Append to the text, after a comma. */
static void append_text(char *text, size_t size, const char *format, ...)
{
	size_t used = strlen(text);
	va_list args;

	used += (size_t)snprintf(text + used, size - used, "%s", used ? ", " : "");
	va_start(args, format);
	vsnprintf(text + used, size - used, format, args);
	va_end(args);
}

/* Images get the size of the training data by default. This fails for a model that takes only
 * another size. */
static int check_model_size(const struct gt_data_request *request, struct gt_err *err)
{
	const struct gt_data_description *like = request->like;

	if (!request->fixed_size ||
	    (request->form.height == like->form.height && request->form.width == like->form.width))
		return 0;
	gt_err_set(err, GT_EINVAL,
	    "the checkpoint was trained on images of %d x %d pixels, but the model takes %d x %d",
	    like->form.width, like->form.height, request->form.width, request->form.height);
	if (request->inputs)
		return gt_err_hint(
		    err, "give size=%d in {read} to resize the images", request->form.height);
	return gt_err_hint(
	    err, "give size=%d in {data} to resize the images", request->form.height);
}

static int conform_size(const struct gt_source *s, const struct gt_spec *spec,
    const struct gt_data_request *request, struct conform_notes *notes, struct gt_err *err)
{
	const struct gt_data_info *info = &s->info;
	const struct gt_data_description *like = request->like;
	bool same_channels = !like->form.channels || info->form.channels == like->form.channels;
	bool size_known = like->form.height && like->form.width;
	bool same_size = !size_known || (info->form.height == like->form.height &&
	                                    info->form.width == like->form.width);
	bool given = gt_spec_value(spec, "size");

	if (same_channels && size_known && s->resizes && !given && !request->same_size &&
	    check_model_size(request, err))
		return err->code;
	if (same_channels && same_size) {
		if (size_known && s->resizes && !given &&
		    (request->form.height != like->form.height ||
		        request->form.width != like->form.width))
			append_text(notes->adopted, sizeof(notes->adopted), "%d x %d pixels",
			    like->form.width, like->form.height);
		return 0;
	}
	if (same_channels && given && !request->same_size) {
		append_text(notes->overruled, sizeof(notes->overruled),
		    "%d x %d pixels, but the model was trained with %d x %d", info->form.width,
		    info->form.height, like->form.width, like->form.height);
		return 0;
	}
	gt_err_set(err, GT_EINVAL,
	    "images of %d x %d pixels and %d channels, but the model was trained on %d x %d and %d",
	    info->form.width, info->form.height, info->form.channels,
	    size_known ? like->form.width : info->form.width,
	    size_known ? like->form.height : info->form.height,
	    like->form.channels ? like->form.channels : info->form.channels);
	if (gt_spec_value(spec, "channels"))
		return gt_err_hint(err, "leave out channels= to use those of the training data");
	return given ? gt_err_hint(err, "leave out size= to use that of the training data")
	             : err->code;
}

static bool same(const float *a, const float *b, int count)
{
	for (int i = 0; i < count; i++)
		if (a[i] != b[i])
			return false;
	return true;
}

/* "0.5/0.4/0.3" into text [size]. */
static const char *write_numbers(char *text, size_t size, const float *values, int count)
{
	size_t used = 0;

	*text = '\0';
	for (int i = 0; i < count && used < size; i++)
		used += (size_t)snprintf(
		    text + used, size - used, "%s%.6g", i ? "/" : "", (double)values[i]);
	return text;
}

/* Take mean or std over, unless the spec gives it. */
static void conform_numbers(float *mine, const float *theirs, int count, const char *key,
    bool given, struct conform_notes *notes)
{
	char a[80], b[80];

	if (same(mine, theirs, count))
		return;
	write_numbers(a, sizeof(a), mine, count);
	write_numbers(b, sizeof(b), theirs, count);
	if (given) {
		append_text(notes->overruled, sizeof(notes->overruled),
		    "%s=%s, but the model was trained with %s=%s", key, a, key, b);
		return;
	}
	memcpy(mine, theirs, (size_t)count * sizeof(*mine));
	append_text(notes->adopted, sizeof(notes->adopted), "%s=%s", key, b);
}

/* Report the choice of `reduce`, which open() has made. */
static void note_reduction(const struct gt_source *s, const struct gt_spec *spec,
    const struct gt_data_description *like, struct conform_notes *notes)
{
	static const char *const words[] = { "reduce=no", "reduce=yes" };

	if (!s->resizes || !like->reduce_known)
		return;
	if (s->reduce != like->reduce)
		append_text(notes->overruled, sizeof(notes->overruled),
		    "%s, but the model was trained with %s", words[s->reduce], words[like->reduce]);
	else if (!s->reduce && !gt_spec_value(spec, "reduce"))
		append_text(notes->adopted, sizeof(notes->adopted), "%s", words[s->reduce]);
}

/* Report the size for the crop and the filter, which open() has chosen. */
static void note_fit(const struct gt_source *s, const struct gt_spec *spec,
    const struct gt_data_description *like, struct conform_notes *notes)
{
	char mine[GT_FIT_TEXT], theirs[GT_FIT_TEXT];

	if (!s->resizes || !like->fit_known)
		return;
	gt_fit_text(mine, &s->fit);
	gt_fit_text(theirs, &like->fit);
	if (!gt_fit_same_size(&s->fit, &like->fit))
		append_text(notes->overruled, sizeof(notes->overruled),
		    "%s, but the model was trained with %s", mine,
		    *theirs ? theirs : "the default resize");
	else if (*mine && !gt_fit_is_given(spec))
		append_text(notes->adopted, sizeof(notes->adopted), "%s", mine);
	if (s->fit.interpolation != like->fit.interpolation)
		append_text(notes->overruled, sizeof(notes->overruled),
		    "interpolation=%s, but the model was trained with interpolation=%s",
		    gt_interpolation_names[s->fit.interpolation],
		    gt_interpolation_names[like->fit.interpolation]);
	else if (s->fit.interpolation != GT_BILINEAR && !gt_spec_value(spec, "interpolation"))
		append_text(notes->adopted, sizeof(notes->adopted), "interpolation=%s",
		    gt_interpolation_names[s->fit.interpolation]);
}

int gt_source_keep(const char **out, struct gt_source *s, const char *text, struct gt_err *err)
{
	*out = gt_arena_strdup(&s->names, text, err);
	return *out ? 0 : GT_ENOMEM;
}

/* Whether pixels are used from 0 to 1 only because mean and std are not known. False for random
 * data. */
static bool is_raw(const struct gt_source *s, const struct gt_spec *spec)
{
	const struct gt_data_info *info = &s->info;

	for (int i = 0; i < info->form.channels; i++)
		if (info->form.mean[i] != 0 || info->form.std[i] != 1)
			return false;
	return !gt_spec_gives_mean(spec) && !gt_spec_gives_std(spec) && (s->files || s->unlabelled);
}

static int conform_images(struct gt_source *s, const struct gt_spec *spec,
    const struct gt_data_request *request, struct conform_notes *notes, struct gt_err *err)
{
	const struct gt_data_description *like = request->like;
	struct gt_data_info *info = &s->info;
	int rc;

	if (info->form.kind != GT_SAMPLE_IMAGE)
		return 0;
	rc = conform_size(s, spec, request, notes, err);
	info->raw = !like->normalization_known && is_raw(s, spec);
	if (!rc && like->normalization_known) {
		conform_numbers(info->form.mean, like->form.mean, info->form.channels, "mean",
		    gt_spec_gives_mean(spec), notes);
		conform_numbers(info->form.std, like->form.std, info->form.channels, "std",
		    gt_spec_gives_std(spec), notes);
	}
	note_fit(s, spec, like, notes);
	note_reduction(s, spec, like, notes);
	return rc;
}

/* ---- features ---- */

/* The code of an error in the data: GT_EFORMAT for files and inputs, GT_EINVAL for data that the
 * spec alone defines. */
static int fault_of(const struct gt_source *s)
{
	return s->files || s->unlabelled ? GT_EFORMAT : GT_EINVAL;
}

/* Return the sizes of a field that data may choose, as bits: those that the network leaves open. An
 * evaluation during training has the shapes of the training. */
static unsigned free_sizes(const struct gt_sample_field *f, const struct gt_data_request *request)
{
	const struct gt_sample_form *wanted = &request->form;

	for (int i = 0; !request->same_size && i < wanted->field_count; i++)
		if (!strcmp(wanted->fields[i].name, f->name))
			return wanted->fields[i].open;
	return 0;
}

static bool is_same_field(const struct gt_sample_field *a, const struct gt_sample_field *b,
    const struct gt_data_request *request)
{
	unsigned free = free_sizes(a, request);
	bool same = !strcmp(a->name, b->name) && a->ndim == b->ndim;

	for (int i = 0; same && i < a->ndim; i++)
		same = free >> i & 1 || a->shape[i] == b->shape[i];
	return same;
}

/* The inputs of a network that takes several must have the shapes of the training. */
static int check_fields(
    const struct gt_source *s, const struct gt_data_request *request, struct gt_err *err)
{
	const struct gt_sample_form *mine = &s->info.form, *theirs = &request->like->form;
	char here[GT_FIELD_SHAPE], there[GT_FIELD_SHAPE], all[GT_FIELDS_TEXT];

	if (!request->like->kind_known || !gt_data_knows_inputs(request->like))
		return 0;
	if (mine->field_count != theirs->field_count) {
		gt_err_set(err, fault_of(s), "%d input%s, but the model was trained on %d",
		    mine->field_count ? mine->field_count : 1, mine->field_count > 1 ? "s" : "",
		    theirs->field_count ? theirs->field_count : 1);
		return theirs->field_count
		           ? gt_err_hint(err, "it takes %s", gt_sample_fields_text(all, theirs))
		           : err->code;
	}
	for (int i = 0; i < mine->field_count; i++)
		if (!is_same_field(&mine->fields[i], &theirs->fields[i], request))
			return gt_err_set(err, fault_of(s),
			    "the input '%s' of the shape %s, but the model was trained on '%s' of "
			    "the shape %s",
			    mine->fields[i].name, gt_field_shape_text(here, &mine->fields[i]),
			    theirs->fields[i].name, gt_field_shape_text(there, &theirs->fields[i]));
	return 0;
}

static int check_features(
    const struct gt_source *s, const struct gt_data_description *like, struct gt_err *err)
{
	if (!like->form.features || like->form.field_count)
		return 0;
	if (s->info.form.features != like->form.features)
		return gt_err_set(err, fault_of(s),
		    "rows of %d feature%s, but the model was trained on %d", s->info.form.features,
		    s->info.form.features == 1 ? "" : "s", like->form.features);
	return 0;
}

/* ---- classes ---- */

/* Classes without names are called by their numbers. */
static const char *class_name(const char *const *names, int i, char number[16])
{
	if (names)
		return names[i];
	snprintf(number, 16, "%d", i);
	return number;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(**(const char *const *const *)a, **(const char *const *const *)b);
}

/* Pointers to the names, in ascending order of these; NULL with err set. */
static const char *const **sort_names(const char *const *names, int count, struct gt_err *err)
{
	const char *const **sorted = gt_calloc((size_t)count, sizeof(*sorted), err);

	for (int i = 0; sorted && i < count; i++)
		sorted[i] = &names[i];
	if (sorted)
		qsort(sorted, (size_t)count, sizeof(*sorted), compare_names);
	return sorted;
}

/* The number of a class of that name, or -1. */
static int find_class(
    const struct gt_data_description *like, const char *const *const *sorted, const char *name)
{
	const char *const *key = &name;
	const char *const *const *found;
	char number[16];
	long n;

	if (!sorted) {
		n = strtol(name, NULL, 10);
		if (n < 0 || n >= like->form.classes)
			return -1;
		return strcmp(name, class_name(NULL, (int)n, number)) ? -1 : (int)n;
	}
	found = bsearch(&key, sorted, (size_t)like->form.classes, sizeof(*sorted), compare_names);
	return found ? (int)(*found - like->class_names) : -1;
}

/* "'a', 'b' and 5 more", of those whose number is -1, or all where there are no numbers. */
static void list_classes(
    char *text, size_t size, const char *const *names, const int32_t *numbers, int count)
{
	char number[16];
	size_t used = 0;
	int more = 0;

	*text = '\0';
	for (int i = 0; i < count; i++) {
		const char *name = class_name(names, i, number);

		if (numbers && numbers[i] >= 0)
			continue;
		if (more || used + strlen(name) + 24 > size)
			more++;
		else
			used += (size_t)snprintf(
			    text + used, size - used, "%s'%s'", used ? ", " : "", name);
	}
	if (more)
		snprintf(text + used, size - used, "%s%d more", used ? " and " : "", more);
}

/* Whether classes are called by numbers alone. */
static bool are_numbers(const char *const *names, int count)
{
	for (int i = 0; names && i < count; i++)
		if (!*names[i] || names[i][strspn(names[i], "0123456789")])
			return false;
	return true;
}

/* Whether the spec's kind of data has this key. */
static bool takes_key(const struct gt_spec *spec, const char *key)
{
	const struct gt_data_form *form;

	for (int i = 0; (form = gt_data_form(i)); i++)
		for (const struct gt_setting *s = form->settings; s->help; s++)
			if (!strcmp(form->name, spec->kind) && s->key && !strcmp(s->key, key))
				return true;
	return false;
}

/* Names and numbers do not match: say which side has numbers. */
static int hint_names(const struct gt_source *s, const struct gt_spec *spec,
    const struct gt_data_description *like, struct gt_err *err)
{
	bool here = are_numbers(s->class_names, s->info.form.classes);
	bool there = are_numbers(like->class_names, like->form.classes);
	bool file = takes_key(spec, "classes");

	if (here && !there)
		return gt_err_hint(err,
		    "classes are matched by their names, but those of the data are only numbers%s",
		    file ? "; classes=FILE gives them names" : "");
	if (there && !here)
		return gt_err_hint(err,
		    "classes are matched by their names, but those of the model are only numbers%s",
		    gt_spec_value(spec, "classes") ? "; leave out classes=" : "");
	return gt_err_hint(err, "classes are matched by their names");
}

static int unknown_classes(const struct gt_source *s, const struct gt_spec *spec,
    const struct gt_data_description *like, struct gt_err *err)
{
	char unknown[200], known[200], line[40] = "";
	long first = 0;
	int count = 0;

	for (int i = 0; i < s->info.form.classes; i++) {
		count += s->renumber[i] < 0;
		if (s->renumber[i] < 0 && s->class_lines && (!first || s->class_lines[i] < first))
			first = s->class_lines[i];
	}
	if (first)
		snprintf(line, sizeof(line), "line %ld: ", first);
	list_classes(unknown, sizeof(unknown), s->class_names, s->renumber, s->info.form.classes);
	list_classes(known, sizeof(known), like->class_names, NULL, like->form.classes);
	gt_err_set(err, fault_of(s), "%s%s %s %s not in the data trained on, which has %s", line,
	    count == 1 ? "class" : "classes", unknown, count == 1 ? "is" : "are", known);
	if (s->files)
		gt_err_prefix(err, "'%.200s'", spec->path);
	return hint_names(s, spec, like, err);
}

/* The data set's classes are from now on those of the other, all of them. */
static int take_names(
    struct gt_source *s, const struct gt_data_description *like, struct gt_err *err)
{
	const char **names = NULL;

	s->info.form.classes = like->form.classes;
	s->class_names = NULL;
	if (!like->class_names)
		return 0;
	names = gt_arena_alloc(&s->names, (size_t)like->form.classes * sizeof(*names), err);
	for (int i = 0; names && i < like->form.classes; i++) {
		names[i] = gt_arena_strdup(&s->names, like->class_names[i], err);
		if (!names[i])
			return GT_ENOMEM;
	}
	s->class_names = names;
	return names ? 0 : GT_ENOMEM;
}

/* Leave the classes as they are here. */
static int keep_classes(struct gt_source *s)
{
	s->renumber = NULL;
	s->info.other_classes = true;
	return 0;
}

/* Give every class the number that its name has in the other data set. */
static int conform_names(struct gt_source *s, const struct gt_spec *spec,
    const struct gt_data_description *like, bool allowed, struct gt_err *err)
{
	const char *const **sorted = NULL;
	bool unknown = false;
	char number[16];

	s->renumber =
	    gt_arena_alloc(&s->names, (size_t)s->info.form.classes * sizeof(*s->renumber), err);
	if (like->class_names)
		sorted = sort_names(like->class_names, like->form.classes, err);
	if (!s->renumber || (like->class_names && !sorted)) {
		free(sorted);
		return GT_ENOMEM;
	}
	for (int i = 0; i < s->info.form.classes; i++) {
		s->renumber[i] = find_class(like, sorted, class_name(s->class_names, i, number));
		unknown |= s->renumber[i] < 0;
	}
	free(sorted);
	if (!unknown) {
		s->info.absent_classes = like->form.classes - s->info.form.classes;
		return take_names(s, like, err);
	}
	return allowed ? keep_classes(s) : unknown_classes(s, spec, like, err);
}

/* Inputs have the target of the training data, whose scale their predictions are on. */
static int take_target(
    struct gt_source *s, const struct gt_data_description *like, struct gt_err *err)
{
	if (!s->unlabelled)
		return 0;
	s->info.form.classes = 1;
	s->target = like->target;
	return like->target.name ? gt_source_keep(&s->target.name, s, like->target.name, err) : 0;
}

/* Labels must be those of the training, in the same order. Arrays have no names for them. */
static int conform_labels(struct gt_source *s, const struct gt_spec *spec,
    const struct gt_data_description *like, bool allowed, struct gt_err *err)
{
	bool same = s->info.form.classes == like->form.classes;
	bool named = s->class_names && like->class_names;

	if (s->unlabelled) {
		s->info.targets = (size_t)like->form.classes;
		return take_names(s, like, err);
	}
	for (int i = 0; same && named && i < like->form.classes; i++)
		same = !strcmp(s->class_names[i], like->class_names[i]);
	if (same)
		return take_names(s, like, err);
	if (allowed)
		return keep_classes(s);
	gt_err_set(err, gt_spec_value(spec, "labels") ? GT_EINVAL : fault_of(s),
	    "the %d labels are not the %d that the model was trained on", s->info.form.classes,
	    like->form.classes);
	return named ? gt_err_hint(err, "leave out labels=, or name them as in training")
	             : err->code;
}

/* Report that the spec gives fewer classes or tokens than the model has. This is not an error. */
static void note_fewer(const struct gt_source *s, const struct gt_spec *spec,
    const struct gt_data_description *like, struct conform_notes *notes)
{
	if (s->info.form.classes >= like->form.classes)
		return;
	if (gt_spec_value(spec, "vocab"))
		append_text(notes->overruled, sizeof(notes->overruled),
		    "vocab=%d, but the model was trained with vocab=%d", s->info.form.classes,
		    like->form.classes);
	else if (!s->files && *spec->path && !s->unlabelled)
		append_text(notes->overruled, sizeof(notes->overruled),
		    "%d classes, but the model was trained with %d", s->info.form.classes,
		    like->form.classes);
}

static int conform_classes(struct gt_source *s, const struct gt_spec *spec,
    const struct gt_data_request *request, struct conform_notes *notes, struct gt_err *err)
{
	const struct gt_data_description *like = request->like;
	bool tokens = s->info.form.kind == GT_SAMPLE_TOKENS,
	     allowed = request->new_classes && !tokens;

	if (!like->form.classes)
		return 0;
	if (s->unlabelled)
		s->info.form.target = like->form.target;
	if (s->info.form.target != like->form.target && allowed)
		return keep_classes(s);
	if (s->info.form.target != like->form.target)
		return gt_err_set(err, gt_spec_value(spec, "task") ? GT_EINVAL : fault_of(s),
		    "the targets are %s, but the model was trained on %s",
		    gt_data_target_words[s->info.form.target],
		    gt_data_target_words[like->form.target]);
	if (s->info.form.target == GT_SAMPLE_NUMBER)
		return take_target(s, like, err);
	if (s->info.form.target == GT_SAMPLE_LABELS)
		return conform_labels(s, spec, like, allowed, err);
	if (s->unlabelled)
		return take_names(s, like, err);
	/* Numbers are classes themselves, also of a model whose classes have names. */
	if (s->texts[0] && like->texts[0] && !s->class_names &&
	    s->info.form.classes <= like->form.classes) {
		s->info.absent_classes = like->form.classes - s->info.form.classes;
		return take_names(s, like, err);
	}
	if (s->class_names || like->class_names)
		return conform_names(s, spec, like, allowed, err);
	if (s->info.form.classes > like->form.classes && allowed)
		return keep_classes(s);
	if (s->info.form.classes > like->form.classes) {
		gt_err_set(err, gt_spec_value(spec, "vocab") ? GT_EINVAL : fault_of(s),
		    "%d %s, but the model was trained on %d", s->info.form.classes,
		    tokens ? "different tokens" : "classes", like->form.classes);
		if (tokens && s->ops->tokenizer)
			gt_err_hint(err, "use the vocabulary that the model was trained with");
		return err->code;
	}
	note_fewer(s, spec, like, notes);
	s->info.absent_classes = tokens ? 0 : like->form.classes - s->info.form.classes;
	s->info.form.classes = like->form.classes;
	return 0;
}

/*
 * Adapt a new source to request->like, a description of training data. Images get the
 * normalization of `like`. But if the spec sets another normalization, that one is kept, and
 * info.overruled says so. The size and `reduce` of images do not change here: gt_source_kind.open()
 * has already taken them from the spec or from `like`. A class gets the number that its name has in
 * `like`. `request` is the argument of gt_dataset_open(). Errors: GT_EINVAL if the spec contradicts
 * `like`; GT_EFORMAT if the files contradict `like`; GT_ENOMEM.
 */
int gt_source_conform(struct gt_source *s, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	struct conform_notes notes = { "", "" };
	int rc;

	/* Hidden tokens are another task than that of a network which was trained on classes. */
	if (s->info.form.masks && request->like->form.kind != GT_SAMPLE_TOKENS)
		return 0;
	rc = check_kind(&s->info, request->like, err);

	s->specials = request->like->specials;
	if (!rc)
		rc = conform_images(s, spec, request, &notes, err);
	if (!rc)
		rc = check_fields(s, request, err);
	if (!rc)
		rc = check_features(s, request->like, err);
	if (!rc)
		rc = conform_classes(s, spec, request, &notes, err);
	if (!rc && *notes.adopted)
		rc = gt_source_keep(&s->info.adopted, s, notes.adopted, err);
	return rc || !*notes.overruled
	           ? rc
	           : gt_source_keep(&s->info.overruled, s, notes.overruled, err);
}
