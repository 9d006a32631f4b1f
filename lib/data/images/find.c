/* find.c - images in a folder or an archive, for each class; and inputs of predict. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/text.h"
#include "lib/data/core/source.h"
#include "lib/data/images/images.h"

/* The files come by class, so that each class shows its name first. */
static int name_classes(const struct gt_image_set *set, struct gt_source *s, struct gt_err *err)
{
	const char **names =
	    gt_arena_alloc(&s->names, (size_t)s->info.form.classes * sizeof(*names), err);

	s->class_names = names;
	for (size_t i = 0; names && i < set->count; i++) {
		const struct gt_image_file *f = &set->files[i];
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

/* Note the sub-folder that is read although the spec does not name it. */
static int name_part(const struct gt_image_set *set, struct gt_source *s, struct gt_err *err)
{
	s->class_folders = !set->in_memory;
	s->part = gt_arena_strdup(&s->names, set->list.root, err);
	if (!s->part)
		return GT_ENOMEM;
	return set->list.default_part ? gt_source_note_split(s, set->list.default_part, err) : 0;
}

/* Note pictures that are left out because of their format. */
static int note_others(const struct gt_image_set *set, struct gt_source *s, struct gt_err *err)
{
	const struct gt_list *list = &set->list;
	char note[400];

	if (!list->others)
		return 0;
	snprintf(note, sizeof(note),
	    "%zu image%s %s left out, being neither JPEG, PNG nor WebP; the first is '%.200s'",
	    list->others, list->others == 1 ? "" : "s", list->others == 1 ? "is" : "are",
	    list->other);
	s->info.note = gt_arena_strdup(&s->names, note, err);
	return s->info.note ? 0 : GT_ENOMEM;
}

static int find_below(struct gt_image_set *set, struct gt_source *s, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	const char *split = gt_spec_value(spec, "split");
	struct stat st;
	int rc;

	if (split && (!*split || *split == '.' || strchr(split, '/')))
		return gt_err_set(err, GT_EINVAL,
		    "data option 'split=%s': must be the name of a folder, such as val", split);
	set->below = gt_strdup(spec->path, err);
	if (!set->below)
		return GT_ENOMEM;
	set->in_memory = stat(set->below, &st) || !S_ISDIR(st.st_mode);
	rc = set->in_memory ? gt_list_archive(&set->list, set->below, err)
	                    : gt_list_folder(&set->list, set->below, err);
	if (!rc)
		rc = gt_list_images(&set->list, set->below, split, request->held_out, &set->files,
		    &set->count, &s->info.form.classes, err);
	if (!rc)
		rc = name_classes(set, s, err);
	if (!rc)
		rc = note_others(set, s, err);
	return rc ? rc : name_part(set, s, err);
}

/* ---- inputs: files and folders without classes ---- */

enum { MAX_STDIN_BYTES = GT_IMAGE_MAX_FILE_BYTES };

static int add_item(struct gt_image_set *set, const struct gt_listed *item, struct gt_err *err)
{
	struct gt_list *list = &set->list;
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

static int add_stdin(struct gt_image_set *set, struct gt_err *err)
{
	struct gt_listed item = { .path = "-" };
	void *read = NULL;
	unsigned char *kept;
	int rc = gt_read_to_end(&read, &item.size, STDIN_FILENO, MAX_STDIN_BYTES, err);

	if (rc)
		return gt_err_prefix(err, "standard input");
	item.bytes = kept = gt_list_alloc(&set->list, item.size + 1, err);
	if (kept && item.size)
		memcpy(kept, read, item.size);
	free(read);
	return kept ? add_item(set, &item, err) : GT_ENOMEM;
}

static int compare_listed(const void *a, const void *b)
{
	return strcmp(((const struct gt_listed *)a)->path, ((const struct gt_listed *)b)->path);
}

static int add_folder(struct gt_image_set *set, const char *folder, struct gt_err *err)
{
	struct gt_list below = { .limit_bytes = set->list.limit_bytes, .inputs = true };
	const struct gt_image_format *other = NULL; /* format of a picture that is left out */
	size_t before = set->list.count;
	int rc = gt_list_folder(&below, folder, err);

	if (!rc && below.count)
		qsort(below.items, below.count, sizeof(*below.items), compare_listed);
	for (size_t i = 0; !rc && i < below.count; i++) {
		struct gt_listed item = { .path = NULL };
		char *path;

		if (below.items[i].folder)
			continue;
		if (!gt_list_is_image(below.items[i].path)) {
			other = other ? other : gt_image_format_of_name(below.items[i].path);
			continue;
		}
		item.path = path = gt_asprintf(err, "%s%s%s", folder,
		    folder[strlen(folder) - 1] == '/' ? "" : "/", below.items[i].path);
		rc = path ? add_item(set, &item, err) : GT_ENOMEM;
		free(path);
	}
	gt_list_release(&below);
	if (!rc && set->list.count == before) {
		gt_err_set(err, GT_EINVAL, "'%s' holds no images%s%s", folder,
		    other ? " that gtrain reads, but files of " : "", other ? other->name : "");
		rc = gt_err_hint(err, "images in folders end in " GT_IMAGE_ENDINGS);
	}
	return rc;
}

static int add_input(struct gt_image_set *set, const char *input, struct gt_err *err)
{
	const struct gt_listed item = { .path = input };
	struct stat st;

	if (!strcmp(input, "-"))
		return add_stdin(set, err);
	if (!stat(input, &st) && S_ISDIR(st.st_mode))
		return add_folder(set, input, err);
	return add_item(set, &item, err); /* a missing file is reported when it is read */
}

static int find_inputs(struct gt_image_set *set, struct gt_source *s,
    const struct gt_data_request *request, struct gt_err *err)
{
	int rc = 0;

	s->unlabelled = true;
	for (int i = 0; !rc && i < request->input_count; i++)
		rc = add_input(set, request->inputs[i], err);
	if (rc)
		return rc;
	set->files = gt_calloc(set->list.count, sizeof(*set->files), err);
	for (size_t i = 0; set->files && i < set->list.count; i++)
		set->files[i] =
		    (struct gt_image_file){ .file = &set->list.items[i], .class = GT_DATA_IGNORE };
	set->count = set->list.count;
	s->info.form.classes = request->form.classes;
	return set->files ? 0 : GT_ENOMEM;
}

/* ---- the kind ---- */

static int find_image_files(struct gt_image_set *set, struct gt_source *s,
    const struct gt_spec *spec, const struct gt_data_request *request, struct gt_err *err)
{
	return request->inputs ? find_inputs(set, s, request, err)
	                       : find_below(set, s, spec, request, err);
}

static int open_images(struct gt_source **out, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	return gt_images_open(out, spec, request, find_image_files, err);
}

static const struct gt_setting settings[] = { { "split", "NAME", "train if it exists",
	                                          "read this sub-folder, such as train or val" },
	GT_IMAGE_SETTINGS, { 0 } };

static const char *const input_keys[] = { "size", "resize", "crop", "interpolation", "reduce",
	"channels", "norm", "mean", "std", NULL };

const struct gt_source_kind gt_images_kind = {
	.form = { .name = "images",
	    .path = "FOLDER|FILE.tar|FILE.tar.gz",
	    .summary = "JPEG, PNG and WebP files in a folder for each class",
	    .settings = settings,
	    .example = "images:photos,size=64,mean=0.5,std=0.25" },
	.input_keys = input_keys,
	.open = open_images,
};
