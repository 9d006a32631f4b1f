/* mnist_files.c - idx files under the names that publishers, unpackers and libraries give them. */
#include "lib/data/images/mnist_files.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/mem.h"

/*
 * A name is [FRONT-]PART-KIND, as in emnist-letters-train-images-idx3-ubyte.gz. EMNIST calls its
 * test set `test`, MNIST `t10k`. Some unpackers write a dot in place of the last hyphen but one.
 */
static const char *const parts[GT_MNIST_SPLITS][3] = { { "train", NULL },
	{ "t10k", "test", NULL } };
static const char *const kinds[2][4] = {
	{ "labels-idx1-ubyte", "labels.idx1-ubyte", "labels-idx1-ubyte.gz",
	    "labels.idx1-ubyte.gz" },
	{ "images-idx3-ubyte", "images.idx3-ubyte", "images-idx3-ubyte.gz",
	    "images.idx3-ubyte.gz" },
};

enum { KINDS = 4, MAX_FRONTS = 8, FRONT_SIZE = 40 };

/* ---- one file ---- */

static bool is_file(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISREG(st.st_mode);
}

/* Find FOLDER/NAME, or FOLDER/NAME/NAME, as some archives have it. *path is NULL if there is no
 * such file. */
static int find_name(char **path, const char *folder, const char *front, const char *part,
    const char *kind, struct gt_err *err)
{
	*path = gt_asprintf(err, "%s/%s%s-%s", folder, front, part, kind);
	if (*path && is_file(*path))
		return 0;
	if (*path) {
		free(*path);
		*path = gt_asprintf(
		    err, "%s/%s%s-%s/%s%s-%s", folder, front, part, kind, front, part, kind);
	}
	if (!*path)
		return GT_ENOMEM;
	if (is_file(*path))
		return 0;
	free(*path);
	*path = NULL;
	return 0;
}

char *gt_mnist_files_path(const struct gt_mnist_files *f, enum gt_mnist_split split, bool images,
    bool *exists, struct gt_err *err)
{
	char *path = NULL;

	for (int k = 0; k < KINDS; k++)
		for (const char *const *part = parts[split]; *part; part++) {
			if (find_name(&path, f->folder, f->front, *part, kinds[images][k], err))
				return NULL;
			*exists = path != NULL;
			if (path)
				return path;
		}
	return gt_asprintf(
	    err, "%s/%s%s-%s", f->folder, f->front, parts[split][0], kinds[images][2]);
}

/* ---- the data sets of a folder ---- */

/* The beginnings of the names of idx files in a folder. */
struct fronts {
	char text[MAX_FRONTS][FRONT_SIZE];
	int count; /* at most MAX_FRONTS are kept */
};

/* The length of the front of an idx file's name; -1: the name is another one. */
static int front_length(const char *name)
{
	for (int split = 0; split < GT_MNIST_SPLITS; split++)
		for (const char *const *part = parts[split]; *part; part++)
			for (int k = 0; k < 2 * KINDS; k++) {
				const char *kind = kinds[k / KINDS][k % KINDS];
				size_t length = strlen(name), n = strlen(*part) + 1 + strlen(kind);
				const char *end = name + length - n;

				if (length >= n && !strncmp(end, *part, strlen(*part)) &&
				    !strcmp(end + n - strlen(kind), kind) &&
				    end[strlen(*part)] == '-' && (end == name || end[-1] == '-'))
					return (int)(length - n);
			}
	return -1;
}

static void note_front(struct fronts *f, const char *name)
{
	int length = front_length(name);

	if (length < 0 || length >= FRONT_SIZE || f->count == MAX_FRONTS)
		return;
	for (int i = 0; i < f->count; i++)
		if (strlen(f->text[i]) == (size_t)length &&
		    !memcmp(f->text[i], name, (size_t)length))
			return;
	memcpy(f->text[f->count], name, (size_t)length);
	f->text[f->count++][length] = '\0';
}

static int compare_fronts(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* A folder that cannot be read has none; its files are reported when they are opened. */
static void list_fronts(struct fronts *f, const char *folder)
{
	DIR *dir = opendir(folder);
	const struct dirent *entry;

	*f = (struct fronts){ .count = 0 };
	while (dir && (entry = readdir(dir)) != NULL)
		note_front(f, entry->d_name);
	if (dir)
		closedir(dir);
	qsort(f->text, (size_t)f->count, sizeof(f->text[0]), compare_fronts);
}

/* ---- the choice ---- */

/* Whether a front is that of subset=NAME. */
static bool is_subset(const char *front, const char *subset)
{
	static const char emnist[] = "emnist-";
	size_t length = strlen(subset);

	if (!strncmp(front, emnist, sizeof(emnist) - 1) &&
	    strncmp(subset, emnist, sizeof(emnist) - 1))
		front += sizeof(emnist) - 1;
	return !strncmp(front, subset, length) && !strcmp(front + length, "-");
}

static int fail_choice(
    const struct fronts *f, const char *folder, const char *subset, struct gt_err *err)
{
	char list[200] = "";

	for (int i = 0; i < f->count; i++) {
		size_t used = strlen(list);
		const char *name = f->text[i];

		if (*name)
			snprintf(list + used, sizeof(list) - used, "%s%.*s", used ? ", " : "",
			    (int)strlen(name) - 1, name);
	}
	if (!subset)
		gt_err_set(err, GT_EINVAL, "'%s' has several data sets", folder);
	else
		gt_err_set(
		    err, GT_EINVAL, "'%s' has no idx files of a subset '%s'", folder, subset);
	return *list ? gt_err_hint(err, "subset=NAME reads one of them: %s", list)
	             : gt_err_hint(err, "leave out subset=");
}

static int choose_front(
    struct gt_mnist_files *out, const struct fronts *f, const char *subset, struct gt_err *err)
{
	const char *chosen = f->count == 1 || !f->count || !*f->text[0] ? f->text[0] : NULL;

	for (int i = 0; subset && i < f->count; i++)
		if (is_subset(f->text[i], subset))
			chosen = f->text[i];
	if (!chosen || (subset && !is_subset(chosen, subset)))
		return fail_choice(f, out->folder, subset, err);
	out->front = gt_strdup(chosen, err);
	return out->front ? 0 : GT_ENOMEM;
}

/* Two folders below the user's have idx files. */
static int fail_folders(
    const char *folder, const char *first, const char *second, struct gt_err *err)
{
	gt_err_set(err, GT_EINVAL, "'%s' has idx files in '%s' and in '%s'", folder, first, second);
	return gt_err_hint(err, "name one of these folders: mnist:%s/%s", folder, first);
}

int gt_mnist_files_find(
    struct gt_mnist_files *out, const char *folder, const char *subset, struct gt_err *err)
{
	static const char *const below[] = { "raw", "MNIST/raw", "FashionMNIST/raw", "KMNIST/raw",
		"EMNIST/raw", "gzip", NULL };
	const char *found = NULL;
	struct fronts fronts, deeper;

	list_fronts(&fronts, folder);
	for (int i = 0; (!fronts.count || found) && below[i]; i++) {
		char *path = gt_asprintf(err, "%s/%s", folder, below[i]);

		if (!path)
			return GT_ENOMEM;
		list_fronts(&deeper, path);
		free(path);
		if (deeper.count && found)
			return fail_folders(folder, found, below[i], err);
		if (deeper.count) {
			found = below[i];
			fronts = deeper;
		}
	}
	out->folder = found ? gt_asprintf(err, "%s/%s", folder, found) : gt_strdup(folder, err);
	return out->folder ? choose_front(out, &fronts, subset, err) : GT_ENOMEM;
}

void gt_mnist_files_release(struct gt_mnist_files *f)
{
	free(f->folder);
	free(f->front);
	*f = (struct gt_mnist_files){ NULL, NULL };
}
