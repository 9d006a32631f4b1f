/* dataset.c - the kinds of data sets, and views that share one. */
#include "lib/data/core/data.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/base/philox.h"
#include "lib/base/suggest.h"
#include "lib/base/text.h"
#include "lib/data/core/guess.h"
#include "lib/data/core/source.h"
#include "lib/data/get/sets.h"
#include "lib/data/text/json_lines.h"

static const struct gt_source_kind *const kinds[] = {
	&gt_text_kind,
	&gt_chat_kind,
	&gt_pairs_kind,
	&gt_jsonl_kind,
	&gt_labelled_kind,
	&gt_masked_kind,
	&gt_tokens_kind,
	&gt_images_kind,
	&gt_webdataset_kind,
	&gt_mnist_kind,
	&gt_cifar10_kind,
	&gt_csv_kind,
	&gt_npy_kind,
	&gt_npz_kind,
	&gt_random_kind,
	NULL,
};

/* A view: all of a source, some of its samples, or a stretch of its tokens. */
struct gt_dataset {
	struct gt_source *source; /* shared with other views */
	struct gt_data_info info;
	struct gt_data_part part;
	int64_t *subset; /* [info.samples], ascending; NULL: all of them */
};

const struct gt_data_form *gt_data_form(int i)
{
	return kinds[i] ? &kinds[i]->form : NULL;
}

enum { GUESS = 400 };

static bool add_settings(char *out, size_t size, const struct gt_spec *spec)
{
	for (int i = 0; i < spec->count; i++) {
		size_t used = strlen(out);

		snprintf(out + used, size - used, ",%s=%s", spec->keys[i], spec->values[i]);
	}
	return true;
}

/* The spec that was probably meant: a similar kind, the kind of an existing file, or a similar name
 * of a well-known data set. Settings that were given are kept. */
static bool guess_spec(char *out, size_t size, const struct gt_spec *spec)
{
	struct gt_suggest near = { .word = spec->kind };
	bool named = *spec->path;

	for (int i = 0; named && kinds[i]; i++)
		gt_suggest_offer(&near, kinds[i]->form.name);
	if (!near.best && gt_data_guess(out, size, named ? spec->path : spec->kind))
		return add_settings(out, size, spec);
	for (const struct gt_set *set = gt_sets(); !named && set->name; set++)
		if (set->kind)
			gt_suggest_offer(&near, set->name);
	if (!near.best)
		return false;
	snprintf(out, size, "%s%s%s", near.best, named ? ":" : "", spec->path);
	return add_settings(out, size, spec);
}

static const struct gt_source_kind *find_kind(
    const struct gt_spec *spec, const struct gt_data_request *request, struct gt_err *err)
{
	char list[120] = "", guess[GUESS];

	if (request->memory && !strcmp(gt_memory_kind.form.name, spec->kind))
		return &gt_memory_kind;
	for (int i = 0; kinds[i]; i++) {
		size_t used = strlen(list);

		if (!strcmp(kinds[i]->form.name, spec->kind))
			return kinds[i];
		snprintf(list + used, sizeof(list) - used, "%s%s", used ? ", " : "",
		    kinds[i]->form.name);
	}
	gt_err_set(err, GT_EINVAL, "unknown kind of data '%s'", spec->kind);
	if (guess_spec(guess, sizeof(guess), spec))
		gt_err_hint(err, "did you mean '%s'?", guess);
	else
		gt_err_hint(
		    err, "write KIND:PATH; kinds: %s; 'gtrain help data' describes them", list);
	return NULL;
}

/* GT_EINVAL, with a list of the known keys, if the spec has another one. */
static int check_keys(
    const struct gt_source_kind *kind, const struct gt_spec *spec, bool inputs, struct gt_err *err)
{
	const char *known[GT_SPEC_MAX_OPTIONS + 1] = { NULL };
	size_t count = 0;

	if (inputs)
		return gt_spec_check_keys(spec, kind->input_keys, err);
	for (const struct gt_setting *s = kind->form.settings; s->help; s++)
		known[count++] = s->key;
	return gt_spec_check_keys(spec, known, err);
}

const char *const gt_data_target_words[] = {
	[GT_SAMPLE_CLASS] = "classes", [GT_SAMPLE_NUMBER] = "numbers", [GT_SAMPLE_LABELS] = "labels"
};

static struct gt_dataset *new_view(struct gt_source *source, struct gt_err *err)
{
	struct gt_dataset *view = gt_calloc(1, sizeof(*view), err);

	if (!view)
		return NULL;
	view->source = source;
	view->info = source->info;
	view->part = (struct gt_data_part){ 0, source->length };
	atomic_fetch_add(&source->views, 1);
	return view;
}

/* Parquet files are not read; pandas, which reads them, converts tables and texts in a line. */
static int check_not_parquet(
    const struct gt_spec *spec, const struct gt_source_kind *source, struct gt_err *err)
{
	const char *path = spec->path, *kind = spec->kind;

	if (!gt_text_ends_with(path, ".parquet"))
		return 0;
	gt_err_set(err, GT_ENOTSUP, "'%s': Parquet files are not read", path);
	if (!strcmp(kind, "csv"))
		return gt_err_hint(err,
		    "convert it: python3 -c \"import pandas; "
		    "pandas.read_parquet('%s').to_csv('data.csv', index=False)\"",
		    path);
	if (source->json_lines || !strcmp(kind, "text") || !strcmp(kind, "jsonl"))
		return gt_err_hint(err,
		    "convert it, and read it as %s:data.jsonl: python3 -c \"import pandas; "
		    "pandas.read_parquet('%s')." GT_PANDAS_TO_JSON_LINES "\"",
		    source->json_lines ? kind : "jsonl", path);
	return gt_err_hint(err, "write its samples as files: a folder for each class");
}

/* A well-known data set has to be there before its name can stand for it. */
static int check_set(const struct gt_spec *spec, struct gt_err *err)
{
	char *folder = spec->set ? gt_sets_folder() : NULL;
	int rc = 0;

	if (folder && !gt_set_is_there(spec->set, folder)) {
		rc = gt_err_set(
		    err, GT_EIO, "data set '%s' is not in '%s'", spec->set->name, folder);
		gt_err_hint(err, "fetch it: `gtrain data get %s`; or write %s:PATH",
		    spec->set->name, spec->kind);
	}
	free(folder);
	return rc;
}

/* An absolute path, or the path as it is where no file has it, as that of an array in a file. */
static char *absolute(const char *path, const char *part, struct gt_err *err)
{
	char *text = gt_asprintf(err, "%s%s%s", path, part ? "/" : "", part ? part : "");
	char *real = text ? realpath(text, NULL) : NULL;

	if (!real)
		return text;
	free(text);
	return real;
}

static int name_files(struct gt_source *s, const struct gt_spec *spec, struct gt_err *err)
{
	char *path = absolute(spec->path, NULL, err);
	char *files = path ? absolute(path, s->part, err) : NULL;

	s->files = files ? gt_arena_strdup(&s->names, files, err) : NULL;
	free(path);
	free(files);
	return s->files ? 0 : GT_ENOMEM;
}

static int open_source(struct gt_source **out, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	const struct gt_source_kind *kind = find_kind(spec, request, err);
	char guess[GUESS];
	int rc;

	if (!kind)
		return GT_EINVAL;
	if (request->inputs && !kind->input_keys)
		return gt_err_set(err, GT_EINVAL, "'%s' data have classes", spec->kind);
	if (!*spec->path && !kind->pathless && !request->inputs) {
		gt_err_set(err, GT_EINVAL, "data '%s' has no path", spec->kind);
		return gt_data_guess(guess, sizeof(guess), spec->kind)
		           ? gt_err_hint(err, "did you mean '%s'?", guess)
		           : gt_err_hint(err, "write %s:%s", spec->kind, kind->form.path);
	}
	rc = check_keys(kind, spec, request->inputs, err);
	if (!rc && !request->inputs)
		rc = check_set(spec, err);
	if (!rc)
		rc = check_not_parquet(spec, kind, err);
	if (!rc)
		rc = kind->open(out, spec, request, err);
	return rc || kind->pathless || request->inputs ? rc : name_files(*out, spec, err);
}

int gt_data_check_memory(
    const struct gt_data_request *request, uint64_t bytes, const char *what, struct gt_err *err)
{
	char a[GT_TEXT_SIZE], b[GT_TEXT_SIZE];

	if (!request->memory_bytes || bytes <= request->memory_bytes)
		return 0;
	gt_err_set(err, GT_ENOMEM, "%s takes %s of memory, more than the limit of %s", what,
	    gt_text_bytes(a, bytes), gt_text_bytes(b, request->memory_bytes));
	return gt_err_hint(
	    err, "the limit is half of the usable memory, divided by the number of ranks");
}

const struct gt_source *gt_dataset_source(const struct gt_dataset *data)
{
	return data->source;
}

int gt_source_note_split(struct gt_source *s, const char *split, struct gt_err *err)
{
	char text[320];

	snprintf(text, sizeof(text), "split=%.250s, by default", split);
	s->info.interpretation = gt_arena_strdup(&s->names, text, err);
	return s->info.interpretation ? 0 : GT_ENOMEM;
}

/* The description wins over the model's preferred input. */
static struct gt_data_request combine(const struct gt_data_request *request)
{
	const struct gt_data_description *like = request->like;
	struct gt_data_request both = *request;

	if (like && like->form.height && like->form.width) {
		both.form.height = like->form.height;
		both.form.width = like->form.width;
	}
	if (like && like->form.channels)
		both.form.channels = like->form.channels;
	return both;
}

static int open_like(struct gt_source **out, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	const struct gt_data_request both = combine(request);
	int rc = open_source(out, spec, &both, err);

	if (!rc && request->like)
		rc = gt_source_conform(*out, spec, request, err);
	if (!rc) {
		(*out)->ignores = request->ignores && (*out)->info.form.target == GT_SAMPLE_CLASS;
		(*out)->ignored = request->ignored;
	}
	if (rc && *out) {
		(*out)->ops->close(*out);
		*out = NULL;
	}
	return rc;
}

int gt_dataset_open(struct gt_dataset **out, const char *text,
    const struct gt_data_request *request, struct gt_err *err)
{
	static const struct gt_data_request nothing_known;
	struct gt_source *source = NULL;
	struct gt_spec spec;
	int rc;

	*out = NULL;
	rc = gt_spec_parse(&spec, text, err);
	if (rc)
		return rc;
	rc = open_like(&source, &spec, request ? request : &nothing_known, err);
	if (!rc) {
		*out = new_view(source, err);
		if (!*out) {
			source->ops->close(source);
			rc = GT_ENOMEM;
		}
	}
	if (rc == GT_EINVAL && !*err->hint)
		gt_err_hint(err, "'gtrain help data' describes the kinds of data");
	gt_spec_release(&spec);
	return rc;
}

bool gt_dataset_is_memory(const struct gt_dataset *data)
{
	return data->source->in_memory;
}

int gt_dataset_of_batch(struct gt_dataset **out, const struct gt_dataset *like,
    const struct gt_batch *batch, int64_t samples, struct gt_err *err)
{
	struct gt_source *source = gt_source_of_memory(like->source, batch, samples, err);

	*out = source ? new_view(source, err) : NULL;
	if (source && !*out)
		source->ops->close(source);
	return *out ? 0 : GT_ENOMEM;
}

/* The first tokens to train on, the last to hold out. */
static int split_stream(struct gt_dataset *whole, int64_t held, struct gt_dataset *train,
    struct gt_dataset *val, struct gt_err *err)
{
	int64_t kept = whole->part.length - held;

	if (kept <= whole->info.form.block || held < 2) {
		gt_err_set(err, GT_EINVAL,
		    "%lld tokens are too few to hold out %lld and train on blocks of %d",
		    (long long)whole->part.length, (long long)held, whole->info.form.block);
		return gt_err_hint(err, "use a longer text, a shorter block or another fraction");
	}
	train->part = (struct gt_data_part){ whole->part.first, kept };
	val->part = (struct gt_data_part){ whole->part.first + kept, held };
	train->info.samples = whole->source->ops->samples_in(whole->source, kept);
	val->info.samples = whole->source->ops->samples_in(whole->source, held);
	return 0;
}

/* Hold out the samples that come first in a fixed permutation. */
static int split_samples(struct gt_dataset *whole, int64_t held, struct gt_dataset *train,
    struct gt_dataset *val, struct gt_err *err)
{
	int64_t n = whole->info.samples, taken[2] = { 0, 0 };
	struct gt_dataset *const views[2] = { train, val };
	int64_t *order = gt_calloc((size_t)n, sizeof(*order), err);
	bool *out = gt_calloc((size_t)n, 1, err);

	train->info.samples = n - held;
	val->info.samples = held;
	train->subset = gt_calloc((size_t)(n - held), sizeof(int64_t), err);
	val->subset = gt_calloc((size_t)held, sizeof(int64_t), err);
	if (!order || !out || !train->subset || !val->subset) {
		free(order);
		free(out);
		return GT_ENOMEM;
	}
	gt_permute(order, n, 0, GT_RNG_SPLIT, 0);
	for (int64_t i = 0; i < held; i++)
		out[order[i]] = true;
	for (int64_t i = 0; i < n; i++)
		views[out[i]]->subset[taken[out[i]]++] = whole->subset ? whole->subset[i] : i;
	free(order);
	free(out);
	return 0;
}

/* How many of `n` are held out: at least one, and never all. */
static int count_held(int64_t n, double fraction, int64_t *held, struct gt_err *err)
{
	if (!(fraction > 0 && fraction < 1))
		return gt_err_set(err, GT_EINVAL,
		    "cannot hold out a fraction of %g: it must lie between 0 and 1", fraction);
	if (n < 2)
		return gt_err_set(err, GT_EINVAL, "a single sample cannot be divided");
	*held = llround((double)n * fraction);
	*held = *held < 1 ? 1 : *held >= n ? n - 1 : *held;
	return 0;
}

int gt_dataset_split(struct gt_dataset *whole, double fraction, struct gt_dataset **train,
    struct gt_dataset **val, struct gt_err *err)
{
	bool stream = whole->source->ops->samples_in != NULL;
	int64_t held = 0;
	int rc;

	*train = *val = NULL;
	rc = count_held(stream ? whole->part.length : whole->info.samples, fraction, &held, err);
	if (rc)
		return rc;
	*train = new_view(whole->source, err);
	*val = new_view(whole->source, err);
	if (!*train || !*val)
		rc = GT_ENOMEM;
	else if (stream)
		rc = split_stream(whole, held, *train, *val, err);
	else
		rc = split_samples(whole, held, *train, *val, err);
	if (rc) {
		gt_dataset_close(*train);
		gt_dataset_close(*val);
		*train = *val = NULL;
	}
	return rc;
}

int gt_dataset_fit(struct gt_dataset *train, struct gt_err *err)
{
	struct gt_source *s = train->source;
	int64_t n = train->info.samples, *all = train->subset;
	int rc;

	if (!s->ops->fit)
		return 0;
	if (!all)
		all = gt_calloc((size_t)n, sizeof(*all), err);
	if (!all)
		return GT_ENOMEM;
	for (int64_t i = 0; i < n && all != train->subset; i++)
		all[i] = i;
	rc = s->ops->fit(s, all, n, err);
	if (all != train->subset)
		free(all);
	return rc;
}

const struct gt_data_info *gt_dataset_info(const struct gt_dataset *data)
{
	return &data->info;
}

bool gt_dataset_same_files(const struct gt_dataset *a, const struct gt_dataset *b)
{
	const char *x = a->source->files, *y = b->source->files;

	return x && y && !strcmp(x, y);
}

struct gt_damage *gt_dataset_damage(const struct gt_dataset *data)
{
	return data->source->damage;
}

bool gt_dataset_is_damaged(const struct gt_dataset *data, int64_t index)
{
	struct gt_damage *d = data->source->damage;

	return d && gt_damage_has(d, data->subset ? data->subset[index] : index);
}

/* Fill the place of a damaged sample. */
static int leave_empty(const struct gt_dataset *data, void *input, int32_t *target)
{
	memset(input, 0, data->info.input_bytes);
	for (size_t i = 0; i < data->info.targets; i++)
		target[i] = GT_DATA_IGNORE;
	return 1;
}

/*
 * Read a sample of a data set that may hold damaged ones: 1 where this is one. It is read each
 * time: the record depends on the samples that this rank has read before, and batches must not. An
 * input of the request that cannot be read at all counts as damaged, too.
 */
static int read_or_leave_out(struct gt_dataset *data, int64_t index, const struct gt_draw *draw,
    void *input, int32_t *target, struct gt_err *err)
{
	struct gt_source *s = data->source;
	struct gt_err own = GT_ERR_INIT;
	int rc;

	rc = s->ops->read(s, &data->part, index, draw, input, target, &own);
	if (rc == GT_EFORMAT || (rc == GT_EIO && s->unlabelled)) {
		rc = gt_damage_record(s->damage, index, &own);
		if (!rc)
			return leave_empty(data, input, target);
	}
	if (rc)
		*err = own;
	return rc;
}

/* Number the classes of a sample as `like` does, and replace targets that are ignored. Inputs have
 * none of the labels that a model may have. */
static void conform_targets(const struct gt_dataset *data, int32_t *target)
{
	const struct gt_source *s = data->source;

	if (s->renumber && *target >= 0)
		*target = s->renumber[*target];
	for (size_t i = 0; i < data->info.targets; i++)
		if ((s->ignores && target[i] == s->ignored) ||
		    (s->unlabelled && data->info.form.target == GT_SAMPLE_LABELS))
			target[i] = GT_DATA_IGNORE;
}

int gt_dataset_read(struct gt_dataset *data, int64_t index, const struct gt_draw *draw, void *input,
    int32_t *target, struct gt_err *err)
{
	struct gt_source *source = data->source;
	int rc;

	if (index < 0 || index >= data->info.samples)
		return gt_err_set(err, GT_EINVAL, "sample %lld of a data set of %lld",
		    (long long)index, (long long)data->info.samples);
	if (data->subset)
		index = data->subset[index];
	rc = source->damage
	         ? read_or_leave_out(data, index, draw, input, target, err)
	         : source->ops->read(source, &data->part, index, draw, input, target, err);
	if (rc)
		return rc > 0 ? 0 : rc;
	conform_targets(data, target);
	if (draw->train && data->info.form.kind == GT_SAMPLE_IMAGE)
		rc = gt_augment_image(input, &data->info, index, draw, source->takes_parts, err);
	return rc;
}

float *gt_dataset_reference(struct gt_dataset *data, int64_t index)
{
	struct gt_source *source = data->source;

	return source->ops->reference(source, data->subset ? data->subset[index] : index);
}

uint32_t gt_dataset_checksum(const struct gt_dataset *data)
{
	return data->source->ops->checksum(data->source);
}

/* The file of a class may have been changed since it was opened, so it is checked again. */
int32_t gt_dataset_class(const struct gt_dataset *data, int64_t index)
{
	const struct gt_source *source = data->source;
	int32_t class;

	if (!source->ops->class_of || data->info.form.target != GT_SAMPLE_CLASS ||
	    source->unlabelled)
		return -1;
	class = source->ops->class_of(source, data->subset ? data->subset[index] : index);
	if (class < 0 || class >= data->info.form.classes)
		return -1;
	class = source->renumber ? source->renumber[class] : class;
	return source->ignores && class == source->ignored ? -1 : class;
}

bool gt_dataset_number(const struct gt_dataset *data, int64_t index, double *number)
{
	const struct gt_source *source = data->source;

	if (!source->ops->number || data->info.form.target != GT_SAMPLE_NUMBER ||
	    source->unlabelled)
		return false;
	*number = source->ops->number(source, data->subset ? data->subset[index] : index);
	return true;
}

const char *gt_dataset_sample_name(const struct gt_dataset *data, int64_t index)
{
	const struct gt_source *source = data->source;

	if (data->subset)
		index = data->subset[index];
	return source->ops->name ? source->ops->name(source, index) : NULL;
}

int gt_dataset_save_vocab(
    const struct gt_dataset *data, struct gt_file_name file, struct gt_err *err)
{
	const struct gt_source_ops *ops = data->source->ops;

	return ops->save_vocab ? ops->save_vocab(data->source, file, err) : 0;
}

const char *gt_dataset_vocab_name(const struct gt_dataset *data)
{
	const struct gt_source_ops *ops = data->source->ops;

	return ops->vocab_name ? ops->vocab_name(data->source) : NULL;
}

void gt_dataset_close(struct gt_dataset *data)
{
	if (!data)
		return;
	if (atomic_fetch_sub(&data->source->views, 1) == 1)
		data->source->ops->close(data->source);
	free(data->subset);
	free(data);
}
