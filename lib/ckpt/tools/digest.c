/* digest.c - a checksum per tensor: collected, written, compared. */
#include "lib/ckpt/tools/digest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/index.h"
#include "lib/base/json_string.h"
#include "lib/base/text.h"
#include "lib/ckpt/format.h"
#include "lib/ckpt/safetensors/json.h"
#include "lib/ckpt/tree/copy_tensors.h"
#include "lib/ckpt/tree/tree.h"

/*
 * A checkpoint that gtrain writes as a zip archive contains the record ROOT/.gtrain/digests,
 * where ROOT is the top folder in the archive. The record is JSON in UTF-8:
 *
 *	{"version": 1, "crc32": {"/model/conv1.weight": "0a1b2c3d", ...}}
 *
 * For each tensor of the checkpoint's tree (struct gt_tree), the record has the path and the
 * digest: the CRC-32 of the elements, contiguous, row-major, little-endian. So a digest does not
 * depend on the way the values are stored. Digests also reveal that the bytes of two tensors were
 * exchanged.
 *
 * A path consists of steps from the root to the tensor, with a '/' before each step, as in JSON
 * Pointer (RFC 6901). The steps are:
 *
 *   a string key of a dict      the key itself, with the replacements below
 *   an integer key, an index    the number in brackets, "[0]"
 *   another key of a dict       "(i)", where i is the index of the item in the dict
 *   attributes (dict, tensor)   "(attributes)"
 *   parts of an opaque object   "(args)", "(items)", "(state)"
 *
 * An opaque object is an object of a class that gtrain does not interpret.
 *
 * Replacements in a string key: '~' becomes "~0", '/' becomes "~1", and a zero byte becomes "~2". A
 * '[' or '(' at the start of the key becomes "~3" or "~4". A surrogate becomes "~5" and its code,
 * such as "~5d800".
 *
 * The version is the first member. A reader that does not know the version skips the digests.
 * gtrain knows version 1.
 */

enum {
	VERSION = 1,
	MAX_DIGESTS = 1 << 18,
	MAX_PATH_BYTES = 1 << 17, /* escaped in JSON, six times as many */
	MAX_PATHS_BYTES = 64 << 20,
	SUM_LIMIT = 64 /* bytes of JSON of a sum, and of the version */
};

/* ---- paths ---- */

static const char *escape(char c, bool first)
{
	switch (c) {
	case '~':
		return "~0";
	case '/':
		return "~1";
	case '\0':
		return "~2";
	case '[':
		return first ? "~3" : NULL;
	case '(':
		return first ? "~4" : NULL;
	default:
		return NULL;
	}
}

static void put_key(struct gt_buf *path, const char *key, size_t length)
{
	gt_buf_puts(path, "/");
	for (size_t i = 0, n; i < length; i += n) {
		const char *p = key + i, *code = escape(*p, !i);
		bool surrogate = gt_text_is_surrogate(p, length - i); /* JSON has none */

		n = surrogate ? 3 : 1;
		if (surrogate)
			gt_buf_printf(path, "~5%04x",
			    0xd000u | ((unsigned)p[1] & 0x3f) << 6 | ((unsigned)p[2] & 0x3f));
		else
			gt_buf_add(path, code ? code : p, code ? strlen(code) : 1);
	}
}

/* ---- the walk ---- */

struct walk {
	struct gt_digests *out;
	struct gt_buf path, renamed;
	gt_digest_rename *rename; /* NULL: `renamed` is not used */
	void *self;
	size_t path_bytes; /* bytes of the paths of all tensors; a shared tensor has many paths */
};

static int step_key(
    struct walk *w, const struct gt_tree *dict, const struct gt_tree_item *item, struct gt_err *err)
{
	const struct gt_tree *key = item->key;
	const char *name;

	put_key(&w->path, key->string.bytes, key->string.length);
	if (!w->rename)
		return 0;
	name = w->rename(w->self, dict, item);
	if (!name)
		return gt_err_set(err, GT_ENOMEM, "out of memory: the names of tensors");
	put_key(&w->renamed, name, name == key->string.bytes ? key->string.length : strlen(name));
	return 0;
}

/* Append the step from a node to one of its parts to the path. */
static int step_to_part(
    struct walk *w, const struct gt_tree *node, const struct gt_walk *part, struct gt_err *err)
{
	static const char *const names[] = { [GT_PART_ATTRIBUTES] = "(attributes)",
		[GT_PART_ARGS] = "(args)",
		[GT_PART_ITEMS] = "(items)",
		[GT_PART_STATE] = "(state)" };
	const struct gt_tree_item *item =
	    part->part == GT_PART_VALUE ? &node->seq.items[part->index] : NULL;
	size_t from = w->path.length;

	if (item && item->key && item->key->kind == GT_TREE_STRING)
		return step_key(w, node, item, err);
	if (!item)
		gt_buf_printf(&w->path, "/%s", names[part->part]);
	else if (item->key && item->key->kind == GT_TREE_INT)
		gt_buf_printf(&w->path, "/[%lld]", (long long)item->key->integer);
	else
		gt_buf_printf(&w->path, item->key ? "/(%zu)" : "/[%zu]", part->index);
	if (w->rename)
		gt_buf_puts(&w->renamed, gt_buf_text(&w->path) + from);
	return 0;
}

static int add_tensor_digest(struct walk *w, const struct gt_tree_tensor *t, struct gt_err *err)
{
	struct gt_digests *d = w->out;
	struct gt_digest *entry;

	if (d->count == MAX_DIGESTS)
		return gt_err_set(err, GT_ENOTSUP, "more than %d tensors", MAX_DIGESTS);
	w->path_bytes += w->path.length + w->renamed.length;
	if (w->path.length > MAX_PATH_BYTES || w->renamed.length > MAX_PATH_BYTES ||
	    w->path_bytes > MAX_PATHS_BYTES)
		return gt_err_set(err, GT_ENOTSUP,
		    "the names of its tensors are longer than %d bytes, or %d MiB together",
		    MAX_PATH_BYTES, MAX_PATHS_BYTES >> 20);
	if (gt_grow(&d->entries, d->count, &d->capacity, sizeof(*d->entries), err))
		return GT_ENOMEM;
	entry = &d->entries[d->count++];
	*entry = (struct gt_digest){ .tensor = t };
	entry->path = gt_arena_strdup(&d->arena, gt_buf_text(&w->path), err);
	entry->renamed = w->rename && entry->path
	                     ? gt_arena_strdup(&d->arena, gt_buf_text(&w->renamed), err)
	                     : entry->path;
	return entry->renamed ? 0 : GT_ENOMEM;
}

static int visit_digest_node(struct walk *w, const struct gt_tree *node, struct gt_err *err)
{
	size_t length = w->path.length, renamed = w->renamed.length;
	struct gt_walk part = { 0 };
	int rc = node->kind == GT_TREE_TENSOR ? add_tensor_digest(w, &node->tensor, err) : 0;

	while (!rc && gt_walk_next(node, &part)) {
		if (part.part == GT_PART_KEY || part.node->kind <= GT_TREE_STRING)
			continue;
		rc = step_to_part(w, node, &part, err);
		if (!rc)
			rc = visit_digest_node(w, part.node, err);
		gt_buf_cut(&w->path, length);
		gt_buf_cut(&w->renamed, renamed);
	}
	return rc;
}

int gt_digests_collect(struct gt_digests *out, const struct gt_tree *root, gt_digest_rename *rename,
    void *self, struct gt_err *err)
{
	struct walk w = { .out = out, .rename = rename, .self = self };
	int rc;

	*out = (struct gt_digests){ 0 };
	rc = visit_digest_node(&w, root, err);
	if (!rc)
		rc = gt_buf_check(&w.path, err);
	if (!rc)
		rc = gt_buf_check(&w.renamed, err);
	gt_buf_release(&w.path);
	gt_buf_release(&w.renamed);
	return rc;
}

void gt_digests_release(struct gt_digests *d)
{
	free(d->entries);
	gt_arena_release(&d->arena);
	*d = (struct gt_digests){ 0 };
}

/* ---- the record ---- */

int gt_digests_print(const struct gt_digests *d, char **json, size_t *size, struct gt_err *err)
{
	struct gt_buf out = { 0 };

	gt_buf_printf(&out, "{\"version\": %d, \"crc32\": {", VERSION);
	for (size_t i = 0; i < d->count; i++) {
		gt_buf_puts(&out, i ? ",\n" : "\n");
		gt_buf_json(&out, d->entries[i].renamed, strlen(d->entries[i].renamed));
		gt_buf_printf(&out, ": \"%08x\"", d->entries[i].crc);
	}
	gt_buf_puts(&out, "}}\n");
	return gt_buf_take(&out, json, size, err);
}

static int wrong_record(const char *what, struct gt_err *err)
{
	return gt_err_set(err, GT_EFORMAT, "it is no list of digests: %s", what);
}

/* Enter the record: its first member is the version. *known false: one that we do not know. */
static int enter_digest_record(struct gt_json *json, bool *known, struct gt_err *err)
{
	size_t at, length;
	json_t *version = NULL;
	char *key = NULL;
	int rc = gt_json_enter(json, err);

	if (!rc)
		rc = gt_json_key(json, true, &key, &at, &length, err);
	if (!rc && (!key || strcmp(key, "version")))
		rc = wrong_record("its first key is not 'version'", err);
	if (!rc)
		rc = gt_json_value(json, SUM_LIMIT, &version, err);
	*known = !rc && json_integer_value(version) == VERSION;
	json_decref(version);
	free(key);
	return rc;
}

/*
 * Before gtrain carried tensors of raw types (tree/raw.h), such a tensor was an object, and its
 * storage, the first argument, had the digest. These digests are skipped.
 */
static bool is_of_raw(void *by_path, const char *path)
{
	static const char storage[] = "/(args)/[0]";
	struct gt_digest *found = NULL;
	char *tensor = gt_text_ends_with(path, storage) ? gt_strdup(path, GT_ERR_IGNORED) : NULL;

	if (tensor) {
		const char *wanted = tensor;

		tensor[strlen(tensor) - strlen(storage)] = '\0';
		found = gt_index_find(by_path, &wanted);
	}
	free(tensor);
	return found && found->tensor->raw;
}

/* Whether a tensor may lack a digest: one of a raw type (above), and an array in the pickle, which
 * the zip's checksum covers. */
static bool may_lack(const struct gt_tree_tensor *t)
{
	return t->raw || !t->storage->key[0];
}

/* The sum at hand, of the tensor at this path. */
static int take_sum(
    void *by_path, struct gt_json *json, const struct gt_json_key *key, struct gt_err *err)
{
	const char *path = key->text;
	struct gt_digest *found = gt_index_find(by_path, &path);
	json_t *value;
	const char *sum;
	int rc = gt_json_value(json, SUM_LIMIT, &value, err);

	if (rc)
		return rc;
	sum = json_is_string(value) ? json_string_value(value) : "";
	if (!found && is_of_raw(by_path, path))
		rc = 0;
	else if (!found)
		rc = gt_err_set(err, GT_EFORMAT,
		    "it has a digest of '%.200s', which is no tensor: "
		    "some are missing",
		    path);
	else if (found->known)
		rc = gt_err_set(err, GT_EFORMAT, "tensor '%.200s' has two digests", path);
	else if (strlen(sum) != 8 || strspn(sum, "0123456789abcdefABCDEF") != 8)
		rc = gt_err_set(
		    err, GT_EFORMAT, "the digest of tensor '%.200s' is '%.20s'", path, sum);
	if (!rc && found) {
		found->crc = (uint32_t)strtoul(sum, NULL, 16);
		found->known = true;
	}
	json_decref(value);
	return rc;
}

/* The sums of the record, which has been entered; each tensor has one. */
static int look_up(struct gt_digests *d, struct gt_json *json, struct gt_err *err)
{
	struct gt_index by_path = { .compare = gt_index_by_name };
	size_t at, length, kept = 0;
	char *key = NULL;
	int rc = gt_json_key(json, false, &key, &at, &length, err);

	if (!rc && (!key || strcmp(key, "crc32")))
		rc = wrong_record("its second key is not 'crc32'", err);
	free(key);
	for (size_t i = 0; !rc && i < d->count; i++)
		rc = gt_index_add(&by_path, &d->entries[i], err) ? 0 : GT_ENOMEM;
	if (!rc)
		rc = gt_json_members(json, take_sum, &by_path, err);
	gt_index_release(&by_path);
	for (size_t i = 0; !rc && i < d->count; i++) {
		if (d->entries[i].known)
			d->entries[kept++] = d->entries[i];
		else if (!may_lack(d->entries[i].tensor))
			rc = gt_err_set(err, GT_EFORMAT,
			    "tensor '%.200s' has no digest: the file was put together from others",
			    d->entries[i].path);
	}
	if (!rc)
		d->count = kept;
	return rc;
}

/* Tensors of the open file with the sums of its record; *known false when that has none. */
static int recall_from(struct gt_digests *d, const struct gt_storage *record,
    const struct gt_ckpt *ckpt, gt_digest_rename *rename, void *self, bool *known,
    struct gt_err *err)
{
	struct gt_json json = { .text = record->bytes, .size = record->size_bytes };
	int rc = enter_digest_record(&json, known, err);

	if (!rc && *known)
		rc = gt_digests_collect(d, ckpt->root, rename, self, err);
	if (!rc && *known)
		rc = look_up(d, &json, err);
	return rc ? gt_err_prefix(err, "'%s'", record->name) : 0;
}

static int recall(struct gt_digests *d, const struct gt_ckpt *ckpt, gt_digest_rename *rename,
    void *self, bool *known, struct gt_err *err)
{
	struct gt_arena arena = { 0 };
	struct gt_storage record;
	int rc;

	*d = (struct gt_digests){ 0 };
	*known = false;
	if (!ckpt->digests)
		return 0;
	record = *ckpt->digests;
	rc = gt_storage_copy(&record, &arena, err);
	if (!rc)
		rc = gt_storage_check(&record, err);
	if (!rc)
		rc = recall_from(d, &record, ckpt, rename, self, known, err);
	gt_arena_release(&arena);
	return rc;
}

int gt_digest_renamed(char **json, size_t *size, const struct gt_ckpt *ckpt,
    gt_digest_rename *rename, void *self, struct gt_err *err)
{
	struct gt_digests d;
	bool known;
	int rc = recall(&d, ckpt, rename, self, &known, err);

	*json = NULL;
	*size = 0;
	if (!rc && known)
		rc = gt_digests_print(&d, json, size, err);
	gt_digests_release(&d);
	return rc;
}

/* ---- comparing ---- */

static int compare_digest(const struct gt_digest *d, uint32_t crc, struct gt_err *err)
{
	if (d->crc == crc)
		return 0;
	gt_err_set(err, GT_EFORMAT,
	    "tensor '%.200s' is not the one that was saved: its CRC-32 is %08x, not %08x", d->path,
	    crc, d->crc);
	return gt_err_hint(err, "copy or download the file again");
}

/* Whether the file itself gives a sum of the tensor's elements, whose bytes are compared with it
 * when they are read. */
static bool has_sum(const struct gt_tree_tensor *t)
{
	return t->storage->has_crc && !t->storage->swapped && gt_ckpt_tensor_is_whole(t);
}

static int compare_by_reading(
    const struct gt_digests *d, struct gt_progress *progress, struct gt_err *err)
{
	struct gt_copy_place *places = gt_calloc(d->count, sizeof(*places), err);
	size_t n = 0;
	int rc = places ? 0 : GT_ENOMEM;

	for (size_t i = 0; !rc && i < d->count; i++)
		if (!has_sum(d->entries[i].tensor))
			places[n++] =
			    gt_copy_sum(d->entries[i].tensor, d->entries[i].tensor->dtype);
	if (!rc)
		rc = gt_copy_tensors(-1, places, n, progress, err);
	for (size_t i = 0, k = 0; !rc && i < d->count; i++)
		if (!has_sum(d->entries[i].tensor))
			rc = compare_digest(&d->entries[i], places[k++].crc, err);
	free(places);
	return rc;
}

static int check_digests(
    const struct gt_ckpt *ckpt, bool read, struct gt_progress *progress, struct gt_err *err)
{
	struct gt_digests d;
	bool known;
	int rc = recall(&d, ckpt, NULL, NULL, &known, err);

	for (size_t i = 0; !rc && i < d.count; i++)
		if (has_sum(d.entries[i].tensor))
			rc = compare_digest(&d.entries[i], d.entries[i].tensor->storage->crc, err);
	if (!rc && read)
		rc = compare_by_reading(&d, progress, err);
	gt_digests_release(&d);
	return rc;
}

/*
 * Compare every tensor of a checkpoint with its digest. A file without digests is not an error. But
 * if the file has digests, a tensor without a digest, or a digest without a tensor, is an error. If
 * the checkpoint consists of an index and several files, called shards, compare the tensors of each
 * shard with the digests in this shard.
 *
 * If a contiguous tensor fills its storage, and the file has a checksum of the storage, the tensor
 * is not read: its digest is compared with this checksum. gt_storage_check() compares the bytes
 * with the checksum later. All other tensors, for example views of a larger storage, are read and
 * compared only if `read` is true; their bytes are counted on `progress`, which may be NULL.
 *
 * Errors: GT_EFORMAT, with the path of the first tensor that differs.
 */
int gt_digest_check(
    const struct gt_ckpt *ckpt, bool read, struct gt_progress *progress, struct gt_err *err)
{
	int rc = check_digests(ckpt, read, progress, err);

	for (size_t i = 0; !rc && i < ckpt->shard_count; i++) {
		rc = check_digests(ckpt->shards[i].ckpt, read, progress, err);
		if (rc)
			gt_err_prefix(err, "'%s'", ckpt->shards[i].file);
	}
	return rc;
}
