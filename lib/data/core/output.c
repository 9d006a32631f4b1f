/* output.c - check that an output file is not part of a data set. */
#include <string.h>

#include "lib/base/folder.h"
#include "lib/data/core/data.h"
#include "lib/data/core/shard_names.h"
#include "lib/data/core/source.h"
#include "lib/data/core/spec.h"

/* A pattern that matches nothing is an error later, when the data set is opened. */
static int check_pattern(const char *path, const char *pattern, struct gt_err *err)
{
	struct gt_shard_names files = { 0 };
	int rc = 0;

	if (!gt_shard_names(&files, pattern, GT_ERR_IGNORED))
		for (size_t i = 0; !rc && i < files.count; i++)
			rc = gt_file_check_not_input(path, files.names[i], err);
	gt_shard_names_release(&files);
	return rc;
}

/* Whether the setting's value is a path. */
static bool is_path(const struct gt_setting *s)
{
	return s->key && (!strcmp(s->form, "FILE") || !strcmp(s->form, "PATH"));
}

static int check_form(const char *path, const struct gt_spec *spec, const struct gt_data_form *form,
    struct gt_err *err)
{
	int rc = 0;

	if (strcmp(form->name, spec->kind))
		return 0;
	if (*spec->path)
		rc = gt_file_check_not_input(path, spec->path, err);
	if (!rc && form->path && strstr(form->path, "PATTERN"))
		rc = check_pattern(path, spec->path, err);
	for (const struct gt_setting *s = form->settings; !rc && s->help; s++) {
		const char *value = is_path(s) ? gt_spec_value(spec, s->key) : NULL;

		rc = value ? gt_file_check_not_input(path, value, err) : 0;
	}
	return rc;
}

int gt_data_check_output(const char *path, const char *text, struct gt_err *err)
{
	const struct gt_data_form *form;
	struct gt_spec spec;
	int rc = 0;

	if (gt_spec_parse(&spec, text, GT_ERR_IGNORED))
		return 0;
	for (int i = 0; !rc && (form = gt_data_form(i)); i++)
		rc = check_form(path, &spec, form, err);
	gt_spec_release(&spec);
	return rc;
}

int gt_dataset_check_folder(const struct gt_dataset *data, const char *path, struct gt_err *err)
{
	const struct gt_source *s = gt_dataset_source(data);

	return s->class_folders ? gt_file_check_not_in(path, s->files, err) : 0;
}
