/* paths.c - the paths of modules in `_metadata`, as an edit of names changes them. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/index.h"
#include "lib/ckpt/edit/private.h"

/* The first of the sorted keys that is not before `from`. */
static size_t lower_bound(const struct gt_edit_key *sorted, size_t count, const char *from)
{
	size_t low = 0;

	while (low < count) {
		size_t middle = (low + count) / 2;

		if (strcmp(sorted[middle].from, from) < 0)
			low = middle + 1;
		else
			count = middle;
	}
	return low;
}

/* Whether `to` is HEAD.TAIL, or TAIL with an empty head. */
static bool has_tail(const char *to, const char *tail, size_t *head)
{
	size_t n = strlen(to), t = strlen(tail);

	if (n < t || strcmp(to + n - t, tail) || (n > t && to[n - t - 1] != '.'))
		return false;
	*head = n > t ? n - t - 1 : 0;
	return true;
}

/*
 * The new path of a module, derived from a name below it: if "module.conv1.weight" becomes
 * "conv1.weight", then "module.conv1" becomes "conv1". For a module without names (a ReLU) an
 * invented name is used; edits of prefixes treat every name alike, so the result holds.
 */
static int new_path(struct gt_edit_naming *naming, struct gt_edit_key *path,
    const struct gt_edit_key *names, size_t count, struct gt_err *err)
{
	size_t n = strlen(path->from), skip = n ? n + 1 : 0, head;
	char *under = gt_asprintf(err, "%s%s", path->from, n ? ".x" : "x"), *copy;
	const char *to = under ? gt_edit_rename(naming, under, err) : NULL;
	bool known = to && has_tail(to, "x", &head), sure = naming->kind != GT_EDIT_RENAME;

	if (to)
		under[skip] = '\0';
	for (size_t i = to ? lower_bound(names, count, under) : count;
	     i < count && !strncmp(names[i].from, under, skip) && (!sure || !path->used); i++) {
		path->used = true;
		if (sure || !has_tail(names[i].to, names[i].from + skip, &head))
			continue;
		to = names[i].to;
		known = sure = true;
	}
	copy = known ? gt_arena_strdup(naming->arena, to, err) : NULL;
	free(under);
	if (known && copy) {
		copy[head] = '\0';
		path->to = copy;
	}
	return !to || (known && !copy) ? err->code : 0;
}

/* Paths that become one: those with names first, the longest first. */
static int compare_paths(const void *a, const void *b)
{
	const struct gt_edit_key *x = a, *y = b;
	int order = strcmp(x->to, y->to);
	size_t m = strlen(x->from), n = strlen(y->from);

	if (!order)
		order = (int)y->used - (int)x->used;
	return order ? order : (m < n) - (m > n);
}

static int compare_new(const void *a, const void *b)
{
	return strcmp(((const struct gt_edit_key *)a)->to, ((const struct gt_edit_key *)b)->to);
}

static const struct gt_edit_key *rank_of(const struct gt_index *taken, const char *to)
{
	return gt_index_find(taken, &(struct gt_edit_key){ .to = to });
}

/* The name of a key that cannot have that of `first`. */
static const char *place_for(const struct gt_index *taken, const struct gt_edit_key *key,
    const struct gt_edit_key *first, size_t count)
{
	const char *name = rank_of(taken, key->from) ? first->from : key->from;
	const struct gt_edit_key *other;

	for (size_t turns = 0; turns < count && (other = rank_of(taken, name)) != NULL; turns++)
		name = other->from;
	return name;
}

/*
 * Taking "module." off makes "" of "module", and there is a "" already: a wrapper's own entry, for
 * which nobody will ask any more. It keeps its name, or takes one that comes free.
 */
static int move_displaced(struct gt_edit_key *keys, size_t count, struct gt_err *err)
{
	struct gt_index taken = { .compare =
		                      compare_new }; /* the new names, each by its first key */
	size_t first = 0;
	int rc = 0;

	if (count)
		qsort(keys, count, sizeof(*keys), compare_paths);
	for (size_t i = 0; !rc && i < count; i++)
		rc = gt_index_add(&taken, &keys[i], err) ? 0 : GT_ENOMEM;
	for (size_t i = 1; !rc && i < count; i++) {
		if (strcmp(keys[first].to, keys[i].to)) {
			first = i;
			continue;
		}
		keys[i].to = place_for(&taken, &keys[i], &keys[first], count);
		rc = gt_index_add(&taken, &keys[i], err) ? 0 : GT_ENOMEM;
	}
	gt_index_release(&taken);
	return rc;
}

/*
 * Compute the new path of each module: set paths[i].to, and set paths[i].used. The function may
 * change the order of `paths`. The new text may be in the arena of `naming`. `names` are the names
 * of the state_dict, sorted by `from`. If two paths would become equal, only one of them gets the
 * new text. The other path keeps its old text. But if the new text of another path equals this old
 * text, it gets an old text that no path has any more.
 */
int gt_edit_paths(struct gt_edit_naming *naming, struct gt_edit_key *paths, size_t count,
    const struct gt_edit_key *names, size_t name_count, struct gt_err *err)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < count; i++)
		rc = new_path(naming, &paths[i], names, name_count, err);
	return rc ? rc : move_displaced(paths, count, err);
}
