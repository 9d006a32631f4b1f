/* sign.c - sign the files of a model, and check files against a signature. */
#include "lib/ckpt/sign/sign.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/file.h"
#include "lib/ckpt/sign/bundle.h"
#include "lib/ckpt/sign/manifest.h"

/* ---- signing ---- */

static void count_files(struct gt_sign_facts *facts, const struct gt_manifest *m)
{
	facts->files = m->files;
	for (size_t i = 0; i < m->count; i++)
		facts->bytes += m->items[i].end - m->items[i].start;
}

static int write_bundle(const json_t *bundle, const char *path, struct gt_err *err)
{
	struct gt_atomic_file file = { 0 };
	int rc = gt_atomic_open(&file, path, err);

	if (rc)
		return rc;
	if (json_dumpf(bundle, file.stream, JSON_COMPACT) || fputc('\n', file.stream) == EOF)
		rc = gt_err_sys(err, "cannot write '%s'", path);
	if (!rc)
		rc = gt_atomic_commit(&file, err);
	gt_atomic_abandon(&file);
	return rc;
}

static int find_files(struct gt_manifest *m, const struct gt_sign_options *o, struct gt_err *err)
{
	int rc = 0;

	m->symlinks = o->symlinks;
	for (size_t i = 0; i < o->ignore_count && !rc; i++)
		if (gt_manifest_ignore(m, o->ignore[i], err))
			rc = gt_err_prefix(err, "{ignore}");
	if (!rc)
		rc = gt_manifest_ignore_own(m, o->path, o->output, err);
	if (!rc)
		rc = gt_manifest_ignore_git(m, NULL, err);
	return rc ? rc : gt_manifest_find(m, o->path, err);
}

int gt_sign(struct gt_sign_facts *out, const struct gt_sign_options *o, struct gt_err *err)
{
	struct gt_sign_key *key = NULL;
	struct gt_manifest m = { 0 };
	json_t *statement = NULL, *bundle = NULL;
	int rc = gt_bundle_check_output(o->output, err);

	*out = (struct gt_sign_facts){ 0 };
	if (!rc)
		rc = gt_sign_key_open_private(&key, o->key, err);
	if (!rc)
		rc = gt_sign_key_describe(out, key, err);
	if (!rc)
		rc = find_files(&m, o, err);
	if (!rc)
		rc = gt_manifest_digest(&m, o->path, o->threads, o->progress, err);
	if (!rc) {
		count_files(out, &m);
		statement = gt_manifest_to_json(&m, err);
		bundle = statement ? gt_bundle_sign(statement, key, out, err) : NULL;
		rc = bundle ? write_bundle(bundle, o->output, err) : err->code;
	}
	json_decref(statement);
	json_decref(bundle);
	gt_manifest_release(&m);
	gt_sign_key_close(key);
	return rc;
}

/* ---- differences ---- */

/* Items of a manifest, all or some. */
struct items {
	const struct gt_manifest_item **list;
	size_t count;
};

static int compare_names(const void *a, const void *b)
{
	const struct gt_manifest_item *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

static int compare_digests(const void *a, const void *b)
{
	const struct gt_manifest_item *const *x = a, *const *y = b;

	return memcmp((*x)->digest, (*y)->digest, sizeof((*x)->digest));
}

static int compare_differences(const void *a, const void *b)
{
	const struct gt_sign_difference *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static void sort_items(const struct items *items, int (*compare)(const void *a, const void *b))
{
	if (items->count)
		qsort(items->list, items->count, sizeof(*items->list), compare);
}

/* List all items of a manifest by name; free() the list. */
static int list_items(struct items *out, const struct gt_manifest *m, struct gt_err *err)
{
	out->list = gt_calloc(m->count, sizeof(*out->list), err);
	if (!out->list)
		return GT_ENOMEM;
	for (size_t i = 0; i < m->count; i++)
		out->list[out->count++] = &m->items[i];
	sort_items(out, compare_names);
	return 0;
}

/* There is room for one difference per item. */
static int add_difference(struct gt_sign_check *out, enum gt_sign_kind kind, const char *name,
    const char *now, struct gt_err *err)
{
	struct gt_sign_difference *d = &out->differences[out->count++];

	d->kind = kind;
	d->name = gt_arena_strdup(&out->arena, name, err);
	d->now = now ? gt_arena_strdup(&out->arena, now, err) : NULL;
	return d->name && (d->now || !now) ? 0 : GT_ENOMEM;
}

/* Return which of two sorted lists has the next item: < 0 the first, > 0 the second, 0 both. */
static int choose_next(const struct items *a, size_t i, const struct items *b, size_t k,
    int (*compare)(const void *x, const void *y))
{
	if (i == a->count || k == b->count)
		return i == a->count ? 1 : -1;
	return compare(&a->list[i], &b->list[k]);
}

/* A file that is missing is moved if one that was added has its digest. Of several with one digest,
 * each is taken once. */
static int pair_moved(struct gt_sign_check *out, const struct items *missing,
    const struct items *added, struct gt_err *err)
{
	size_t i = 0, k = 0;
	int rc = 0;

	sort_items(missing, compare_digests);
	sort_items(added, compare_digests);
	while (!rc && (i < missing->count || k < added->count)) {
		int next = choose_next(missing, i, added, k, compare_digests);
		const char *then = next <= 0 ? missing->list[i++]->name : NULL;
		const char *now = next >= 0 ? added->list[k++]->name : NULL;

		if (then && now)
			rc = add_difference(out, GT_SIGN_MOVED, then, now, err);
		else if (then)
			rc = add_difference(out, GT_SIGN_MISSING, then, NULL, err);
		else
			rc = add_difference(out, GT_SIGN_ADDED, now, NULL, err);
	}
	return rc;
}

/* Add changed items to *out, and the others that differ to the two lists. Both manifests are sorted
 * by name. */
static int find_changed(struct gt_sign_check *out, struct items *missing, struct items *added,
    const struct items *then, const struct items *now, struct gt_err *err)
{
	size_t i = 0, k = 0;
	int rc = 0;

	while (!rc && (i < then->count || k < now->count)) {
		int next = choose_next(then, i, now, k, compare_names);
		const struct gt_manifest_item *a = next <= 0 ? then->list[i++] : NULL;
		const struct gt_manifest_item *b = next >= 0 ? now->list[k++] : NULL;

		if (!b)
			missing->list[missing->count++] = a;
		else if (!a)
			added->list[added->count++] = b;
		else if (compare_digests(&a, &b))
			rc = add_difference(out, GT_SIGN_CHANGED, a->name, NULL, err);
	}
	return rc;
}

static int compare_manifests(struct gt_sign_check *out, const struct items *then,
    const struct items *now, struct gt_err *err)
{
	struct items missing = { 0 }, added = { 0 };
	size_t most = then->count + now->count;
	int rc = GT_ENOMEM;

	out->differences = gt_arena_alloc(&out->arena, most * sizeof(*out->differences), err);
	missing.list = gt_calloc(then->count, sizeof(*missing.list), err);
	added.list = gt_calloc(now->count, sizeof(*added.list), err);
	if (out->differences && missing.list && added.list)
		rc = find_changed(out, &missing, &added, then, now, err);
	if (!rc)
		rc = pair_moved(out, &missing, &added, err);
	if (!rc && out->count)
		qsort(out->differences, out->count, sizeof(*out->differences), compare_differences);
	free(missing.list);
	free(added.list);
	return rc;
}

/* ---- checking ---- */

static int check_names(const struct items *items, struct gt_err *err)
{
	for (size_t i = 1; i < items->count; i++)
		if (!strcmp(items->list[i - 1]->name, items->list[i]->name))
			return gt_err_set(err, GT_EFORMAT, "the signed statement names '%s' twice",
			    items->list[i]->name);
	return 0;
}

/* Read the signed list of files, after the signature is checked. */
static int read_signed(struct gt_manifest *then, struct items *items, const char *path,
    const struct gt_sign_key *key, const struct gt_sign_facts *facts, struct gt_err *err)
{
	json_t *statement = gt_bundle_check(path, key, facts, err);
	int rc;

	if (!statement)
		return err->code;
	rc = gt_manifest_from_json(then, statement, err);
	if (!rc)
		rc = list_items(items, then, err);
	if (!rc)
		rc = check_names(items, err);
	json_decref(statement);
	return rc ? gt_err_prefix(err, "'%s'", path) : 0;
}

/* Find the present files as the signature's were found. */
static int find_present(struct gt_manifest *now, const struct gt_manifest *then,
    const struct gt_sign_check_options *o, struct gt_err *err)
{
	int rc = 0;

	now->symlinks = then->symlinks;
	now->part_bytes = then->part_bytes;
	for (size_t i = 0; i < then->ignore_count && !rc; i++)
		rc = gt_manifest_ignore(now, then->ignore[i], err);
	if (!rc)
		rc = gt_manifest_ignore_own(now, o->path, o->signature, err);
	if (!rc)
		rc = gt_manifest_ignore_git(now, then, err);
	if (!rc)
		rc = gt_manifest_find(now, o->path, err);
	return rc ? rc : gt_manifest_digest(now, o->path, o->threads, o->progress, err);
}

static int compare_texts(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Copy the paths that are there and were left out. */
static int list_left_out(
    struct gt_sign_check *out, const struct gt_manifest *now, struct gt_err *err)
{
	out->left_out =
	    gt_arena_alloc(&out->arena, (now->left_count + 1) * sizeof(*out->left_out), err);
	for (size_t i = 0; out->left_out && i < now->left_count; i++) {
		out->left_out[i] = gt_arena_strdup(&out->arena, now->left_out[i], err);
		if (!out->left_out[i])
			return GT_ENOMEM;
		out->left_count++;
	}
	if (out->left_count)
		qsort(out->left_out, out->left_count, sizeof(*out->left_out), compare_texts);
	return out->left_out ? 0 : GT_ENOMEM;
}

int gt_sign_check(
    struct gt_sign_check *out, const struct gt_sign_check_options *o, struct gt_err *err)
{
	struct gt_manifest then = { 0 }, now = { 0 };
	struct items signed_items = { 0 }, present = { 0 };
	struct gt_sign_key *key;
	int rc = gt_sign_key_open_public(&key, o->key, err);

	*out = (struct gt_sign_check){ 0 };
	if (!rc)
		rc = gt_sign_key_describe(&out->facts, key, err);
	if (!rc)
		rc = read_signed(&then, &signed_items, o->signature, key, &out->facts, err);
	if (!rc)
		rc = find_present(&now, &then, o, err);
	if (!rc)
		rc = list_items(&present, &now, err);
	if (!rc)
		rc = list_left_out(out, &now, err);
	if (!rc) {
		count_files(&out->facts, &now);
		out->model = gt_arena_strdup(&out->arena, then.model, err);
		rc = out->model ? compare_manifests(out, &signed_items, &present, err) : GT_ENOMEM;
	}
	free(signed_items.list);
	free(present.list);
	gt_manifest_release(&then);
	gt_manifest_release(&now);
	gt_sign_key_close(key);
	return rc;
}

void gt_sign_check_release(struct gt_sign_check *check)
{
	gt_arena_release(&check->arena);
	*check = (struct gt_sign_check){ 0 };
}
