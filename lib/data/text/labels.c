/* labels.c - words and whole numbers that say the class of a row of JSON lines. */
#include "lib/data/text/labels.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"

enum { MAX_CLASSES = 1 << 16 };

int gt_label_take(json_t **out, const json_t *row, const char *member, struct gt_err *err)
{
	json_t *label = json_object_get(row, member);
	const char *text = json_string_value(label);

	if (json_is_integer(label) ||
	    (text && *text && strlen(text) == json_string_length(label))) {
		*out = json_incref(label);
		return 0;
	}
	if (!label) {
		gt_err_set(err, GT_EFORMAT, "the row has no label '%.60s'", member);
		return gt_err_hint(err, "label=NAME names the member with the class");
	}
	return gt_err_set(
	    err, GT_EFORMAT, "the label '%.60s' is neither a word nor a whole number", member);
}

/* The class that the request ignores is none of the source's. */
static int take_numbers(int32_t *classes, json_t *const *labels, struct gt_source *source,
    const struct gt_data_request *request, const struct gt_json_lines *lines, struct gt_err *err)
{
	int count = 0;

	for (size_t i = 0; i < lines->count; i++) {
		json_int_t number = json_integer_value(labels[i]);

		classes[i] = GT_DATA_IGNORE;
		if (request->ignores && number == request->ignored)
			continue;
		if (number < 0 || number >= MAX_CLASSES) {
			gt_err_set(err, GT_EFORMAT, "the label %lld is not a class from 0 to %d",
			    (long long)number, MAX_CLASSES - 1);
			return gt_json_lines_locate(lines, i, err);
		}
		classes[i] = (int32_t)number;
		count = (int)number >= count ? (int)number + 1 : count;
	}
	source->info.form.classes = count;
	return 0;
}

static int compare_words(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sort words [*count], and keep each of them once. */
static void sort_words(const char **words, size_t *count)
{
	size_t kept = 0;

	qsort(words, *count, sizeof(*words), compare_words);
	for (size_t i = 0; i < *count; i++)
		if (!kept || strcmp(words[kept - 1], words[i]) != 0)
			words[kept++] = words[i];
	*count = kept;
}

/* Keep words [count] as the names of the source's classes. */
static int keep_words(
    struct gt_source *source, const char *const *words, size_t count, struct gt_err *err)
{
	const char **names;

	if (count > MAX_CLASSES)
		return gt_err_set(
		    err, GT_EFORMAT, "%zu different labels, more than %d", count, MAX_CLASSES);
	names = gt_arena_alloc(&source->names, count * sizeof(*names), err);
	if (!names)
		return GT_ENOMEM;
	for (size_t i = 0; i < count; i++)
		if (gt_source_keep(&names[i], source, words[i], err))
			return GT_ENOMEM;
	source->class_names = (const char *const *)names;
	source->info.form.classes = (int)count;
	return 0;
}

static int take_words(int32_t *classes, json_t *const *labels, struct gt_source *source,
    size_t rows, struct gt_err *err)
{
	const char **words = gt_calloc(rows, sizeof(*words), err);
	size_t count = rows;
	int rc;

	if (!words)
		return GT_ENOMEM;
	for (size_t i = 0; i < rows; i++)
		words[i] = json_string_value(labels[i]);
	sort_words(words, &count);
	rc = keep_words(source, words, count, err);
	for (size_t i = 0; !rc && i < rows; i++) {
		const char *word = json_string_value(labels[i]);
		const char **found = bsearch(&word, words, count, sizeof(*words), compare_words);

		classes[i] = (int32_t)(found - words);
	}
	free(words);
	return rc;
}

int gt_labels_number(int32_t *classes, json_t *const *labels, struct gt_source *source,
    const struct gt_data_request *request, const struct gt_json_lines *lines, struct gt_err *err)
{
	const bool words = json_is_string(labels[0]);

	for (size_t i = 1; i < lines->count; i++)
		if (json_is_string(labels[i]) != words) {
			gt_err_set(err, GT_EFORMAT, "the label %s",
			    words ? "is a number, but that of the first row is a word"
			          : "is a word, but that of the first row is a number");
			return gt_json_lines_locate(lines, i, err);
		}
	return words ? take_words(classes, labels, source, lines->count, err)
	             : take_numbers(classes, labels, source, request, lines, err);
}
