/* root.c - the folder that has the class folders, also in a part of the data. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "lib/data/images/images.h"

/* The parts into which data sets are divided. The first one is the part to train on. */
enum part { TRAIN, VAL, TEST, PARTS };

/* The folders directly in a root whose names mean a part, and how many other folders there are. */
struct folders {
	struct gt_part_name {
		const char *name; /* [length], in the path of an item; NULL: there is none */
		size_t length;
	} part[PARTS], duplicate[PARTS]; /* duplicate: another folder for the same part */
	int parts, others;
};

/* ---- names of parts ---- */

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_word(const char *text, size_t length, const char *const *words)
{
	while (*words && (strlen(*words) != length || strncasecmp(text, *words, length) != 0))
		words++;
	return *words;
}

/* The part that a single word means; PARTS: none. */
static enum part part_of_word(const char *text, size_t length)
{
	static const char *const words[PARTS][6] = {
		[TRAIN] = { "train", "training", "trainset" },
		[VAL] = { "val", "valid", "validation", "valset", "dev" },
		[TEST] = { "test", "testing", "testset" },
	};
	int part = 0;

	while (part < PARTS && !is_word(text, length, words[part]))
		part++;
	return (enum part)part;
}

/* The part that a folder's name means, such as `Training`, `test_set` or `seg-train`; PARTS: none.
 * One of its words has to mean the part, and the others have to be words for data. */
static enum part part_of(const char *name, size_t length)
{
	static const char *const neutral[] = { "set", "data", "dataset", "split", "image", "images",
		"img", "imgs", "seg", "x", NULL };
	enum part found = PARTS;

	for (size_t at = 0; at < length;) {
		size_t n = 0;
		enum part part;

		while (at + n < length && is_letter(name[at + n]))
			n++;
		part = part_of_word(name + at, n);
		if (part < PARTS && found < PARTS)
			return PARTS;
		if (part < PARTS)
			found = part;
		else if (n ? !is_word(name + at, n, neutral) : !strchr("-_ .", name[at]))
			return PARTS;
		at += n ? n : 1;
	}
	return found;
}

/* ---- what is below a root ---- */

const char *gt_list_below(const char *path, const char *root)
{
	size_t length = strlen(root);

	return strncmp(path, root, length) ? NULL : path + length;
}

/* Count the pictures directly in root, in folders of it, and deeper. */
static void count_depths(const struct gt_list *list, const char *root, size_t depths[3])
{
	depths[0] = depths[1] = depths[2] = 0;
	for (size_t i = 0; i < list->count; i++) {
		const char *rest = gt_list_below(list->items[i].path, root), *slash;

		if (!rest || list->items[i].folder || !gt_image_format_of_name(rest))
			continue;
		slash = strchr(rest, '/');
		depths[!slash ? 0 : !strchr(slash + 1, '/') ? 1 : 2]++;
	}
}

static bool same_name(const struct gt_part_name *a, const char *name, size_t length)
{
	return a->name && a->length == length && !memcmp(a->name, name, length);
}

/* A part's plain name counts before its other spellings: `train` before `train_images`. */
static void note_part(struct folders *f, enum part part, const char *name, size_t length)
{
	static const char *const plain[PARTS] = { "train", "val", "test" };
	struct gt_part_name *first = &f->part[part];

	f->parts++;
	if (first->name && same_name(first, plain[part], strlen(plain[part])))
		return;
	if (first->name && (length != strlen(plain[part]) || strncmp(name, plain[part], length)))
		f->duplicate[part] = (struct gt_part_name){ name, length };
	else
		*first = (struct gt_part_name){ name, length };
	if (same_name(first, plain[part], strlen(plain[part])))
		f->duplicate[part].name = NULL;
}

/* Find the folders in root. The list is sorted, so that the items of a folder are together. */
static void find_folders(struct folders *f, const struct gt_list *list, const char *root)
{
	const char *last = NULL;
	size_t last_length = 0;

	*f = (struct folders){ 0 };
	for (size_t i = 0; i < list->count; i++) {
		const char *rest = gt_list_below(list->items[i].path, root);
		size_t length = rest ? strcspn(rest, "/") : 0;
		enum part part;

		if (!length || (!rest[length] && !list->items[i].folder))
			continue;
		if (last && length == last_length && !memcmp(rest, last, length))
			continue;
		last = rest;
		last_length = length;
		part = part_of(rest, length);
		if (part < PARTS)
			note_part(f, part, rest, length);
		else
			f->others++;
	}
}

/* Return the name of the one folder that everything in root is in, not terminated, or NULL. */
static const char *find_only_folder(const struct gt_list *list, const char *root, size_t *length)
{
	const char *name = NULL;

	*length = 0;
	for (size_t i = 0; i < list->count; i++) {
		const char *rest = gt_list_below(list->items[i].path, root);
		size_t n = rest ? strcspn(rest, "/") : 0;

		if (!n || (!list->items[i].folder && !rest[n]))
			continue;
		if (name && (n != *length || strncmp(name, rest, n)))
			return NULL;
		name = rest;
		*length = n;
	}
	return name;
}

static bool has_folder(const struct gt_list *list, const char *root, const char *name)
{
	size_t length = strlen(name);

	for (size_t i = 0; i < list->count; i++) {
		const char *rest = gt_list_below(list->items[i].path, root);

		if (rest && !strncmp(rest, name, length) &&
		    (rest[length] == '/' || (!rest[length] && list->items[i].folder)))
			return true;
	}
	return false;
}

/* ---- the choice ---- */

/* A search for the folder that has the class folders. */
struct search {
	const struct gt_list *list;
	const char *name;  /* the listed folder or archive, for messages */
	const char *split; /* the user's choice, or NULL */
	bool held_out;     /* without a choice: a part that is not trained on */
	char *root;        /* the folder found so far: "", or a path that ends in a slash */
};

/* Go down to a folder of the root. */
static int descend(struct search *s, const char *name, size_t length, struct gt_err *err)
{
	char *deeper = gt_asprintf(err, "%s%.*s/", s->root, (int)length, name);

	free(s->root);
	s->root = deeper;
	return deeper ? 0 : GT_ENOMEM;
}

/* Set *has if the folder of a part has class folders, and no pictures beside them. */
static int has_class_folders(
    bool *has, const struct search *s, const struct gt_part_name *part, struct gt_err *err)
{
	size_t depths[3];
	char *folder = gt_asprintf(err, "%s%.*s/", s->root, (int)part->length, part->name);

	if (!folder)
		return GT_ENOMEM;
	count_depths(s->list, folder, depths);
	*has = !depths[0] && (depths[1] || depths[2]);
	free(folder);
	return 0;
}

static int fail_ambiguous(
    const struct search *s, const struct folders *f, enum part part, struct gt_err *err)
{
	const struct gt_part_name *a = &f->part[part], *b = &f->duplicate[part];

	gt_err_set(err, GT_EINVAL,
	    "'%s' has '%.*s' and '%.*s', which mean the same part of the data", s->name,
	    (int)a->length, a->name, (int)b->length, b->name);
	return gt_err_hint(err, "split=%.*s reads the first of them", (int)a->length, a->name);
}

/* All folders are parts, and none of them may be read without a choice. */
static int fail_parts(
    const struct search *s, const struct folders *f, bool classes, struct gt_err *err)
{
	char names[160] = "";
	const struct gt_part_name *first = NULL;

	for (int i = 0; i < PARTS; i++) {
		const struct gt_part_name *p = &f->part[i];
		size_t used = strlen(names);

		if (!p->name)
			continue;
		first = first ? first : p;
		snprintf(names + used, sizeof(names) - used, "%s'%.*s'", used ? ", " : "",
		    (int)(p->length < 40 ? p->length : 40), p->name);
	}
	if (!classes) {
		gt_err_set(err, GT_EINVAL,
		    "the folders of '%s', %s, are named like parts of the data, but have no class "
		    "folders",
		    s->name, names);
		return gt_err_hint(err,
		    "images are found as FOLDER/%.*s/CLASS/NAME.jpg; rename the folders if they "
		    "are classes",
		    (int)first->length, first->name);
	}
	gt_err_set(err, GT_EINVAL, "'%s' has the parts %s, but none to train on", s->name, names);
	return gt_err_hint(err, "split=%.*s reads that part", (int)first->length, first->name);
}

/* split=NAME: the folder of that name, or else the one whose name means the same part. */
static int choose_named(
    struct gt_part_name *out, const struct search *s, const struct folders *f, struct gt_err *err)
{
	enum part part = part_of(s->split, strlen(s->split));

	if (has_folder(s->list, s->root, s->split))
		*out = (struct gt_part_name){ s->split, strlen(s->split) };
	else if (part < PARTS && f->duplicate[part].name)
		return fail_ambiguous(s, f, part, err);
	else if (part < PARTS)
		*out = f->part[part];
	return 0;
}

/* Without a choice: the part to train on, or for held-out data another one where there is one. */
static int choose_default(
    struct gt_part_name *out, const struct search *s, const struct folders *f, struct gt_err *err)
{
	static const enum part orders[2][PARTS] = { { TRAIN, PARTS, PARTS }, { VAL, TEST, TRAIN } };
	bool any = false;

	for (int i = 0; i < PARTS; i++) {
		enum part part = orders[s->held_out][i];
		bool has = false;
		int rc = part < PARTS && f->part[part].name
		             ? has_class_folders(&has, s, &f->part[part], err)
		             : 0;

		if (rc)
			return rc;
		if (has && f->duplicate[part].name)
			return fail_ambiguous(s, f, part, err);
		if (has) {
			*out = f->part[part];
			return 0;
		}
	}
	if (f->others || !f->parts)
		return 0;
	for (int i = 0; i < PARTS && !any; i++)
		if (f->part[i].name && has_class_folders(&any, s, &f->part[i], err))
			return GT_ENOMEM;
	if (!any || f->parts > 1)
		return fail_parts(s, f, any, err);
	for (int i = 0; i < PARTS; i++)
		if (f->part[i].name)
			*out = f->part[i];
	return 0;
}

/* Go down through folders that contain nothing but one folder. */
static int skip_single_folder(struct search *s, bool *moved, struct gt_err *err)
{
	const char *name = NULL;
	size_t length, depths[3];

	count_depths(s->list, s->root, depths);
	if (depths[2] && !depths[0] && !depths[1])
		name = find_only_folder(s->list, s->root, &length);
	*moved = name != NULL;
	return name ? descend(s, name, length, err) : 0;
}

/* Find the part, *part, if there is one, and go down to its folder. */
static int find_part(struct search *s, struct gt_part_name *part, struct gt_err *err)
{
	bool moved = true;
	int rc = 0;

	*part = (struct gt_part_name){ NULL, 0 };
	while (!rc && moved && !part->name) {
		struct folders folders;

		find_folders(&folders, s->list, s->root);
		rc = s->split ? choose_named(part, s, &folders, err)
		              : choose_default(part, s, &folders, err);
		if (!rc && !part->name)
			rc = skip_single_folder(s, &moved, err);
	}
	return rc || !part->name ? rc : descend(s, part->name, part->length, err);
}

/*
 * Find the folder that has the class folders in a sorted list, and set list->root and
 * list->default_part.
 *
 *   split     The sub-folder that has the class folders. If there is no such folder, but the name
 *             means a part of the data (training, validation, test), the folder whose name means
 *             the same part: for `val`, also `Validation`. NULL: the folder of the part to train
 *             on if it has class folders, otherwise the listed folder itself.
 *   held_out  If `split` is NULL: prefer the validation part, then the test part.
 *
 * A folder that contains nothing but one folder is skipped. Folders that are all named like parts
 * of the data are never classes. Errors: GT_EINVAL, GT_ENOMEM.
 */
int gt_list_find_root(
    struct gt_list *list, const char *name, const char *split, bool held_out, struct gt_err *err)
{
	struct search s = { list, name, split, held_out, gt_strdup("", err) };
	struct gt_part_name part;
	bool moved = true;
	int rc = s.root ? find_part(&s, &part, err) : GT_ENOMEM;

	if (!rc && split && !part.name) {
		rc = gt_err_set(err, GT_EINVAL, "'%s' has no sub-folder '%s'", name, split);
		gt_err_hint(err, "leave split=%s away, or name another folder", split);
	}
	while (!rc && part.name && moved)
		rc = skip_single_folder(&s, &moved, err);
	if (!rc)
		list->root = gt_arena_strdup(&list->arena, s.root, err);
	if (!rc && part.name && !split) {
		char *chosen = gt_arena_alloc(&list->arena, part.length + 1, err);

		list->default_part = chosen;
		if (chosen)
			memcpy(chosen, part.name, part.length);
	}
	free(s.root);
	return rc || list->root ? rc : GT_ENOMEM;
}
