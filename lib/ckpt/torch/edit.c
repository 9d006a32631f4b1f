/* edit.c - edits of torch's files: a new pickle, and the legacy format around it. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/copy.h"
#include "lib/base/meter.h"
#include "lib/ckpt/bytes.h"
#include "lib/ckpt/edit/private.h"
#include "lib/ckpt/pickle/pickle.h"
#include "lib/ckpt/tools/digest.h"
#include "lib/ckpt/torch/torch.h"
#include "lib/ckpt/tree/tree.h"
#include "lib/ckpt/zip/zip.h"

/* By place, each once: a dict's keys or a storage's device may be mentioned twice. */
static int sort_changes(
    struct gt_pickle_change **out, size_t *count, const struct gt_edit *edit, struct gt_err *err)
{
	struct gt_pickle_change *c = gt_calloc(edit->count, sizeof(*c), err);
	size_t n = 0;

	*out = c;
	if (!c)
		return GT_ENOMEM;
	for (size_t i = 0; i < edit->count; i++)
		c[i] = (struct gt_pickle_change){ edit->changes[i].at, edit->changes[i].to };
	qsort(c, edit->count, sizeof(*c), gt_compare_numbers);
	for (size_t i = 0; i < edit->count; i++) {
		if (!n || c[n - 1].at != c[i].at)
			c[n++] = c[i];
		else if (strcmp(c[n - 1].to, c[i].to))
			return gt_err_set(err, GT_ENOTSUP,
			    "pickle: byte %zu: one text would become '%.80s' and '%.80s'", c[i].at,
			    c[n - 1].to, c[i].to);
	}
	*count = n;
	return 0;
}

/* The text that a key will have: that of the change at its opcode, or its present text. */
struct renames {
	struct gt_pickle_change *changes;
	size_t count;
};

static const char *find_change(const struct renames *r, size_t at)
{
	struct gt_pickle_change wanted = { .at = at };
	const struct gt_pickle_change *c =
	    bsearch(&wanted, r->changes, r->count, sizeof(wanted), gt_compare_numbers);

	return c ? c->to : NULL;
}

static const char *renamed(void *self, const struct gt_tree *dict, const struct gt_tree_item *item)
{
	const char *to = find_change(self, item->key_at);

	(void)dict;
	return to ? to : item->key->string.bytes;
}

/* The record of digests names tensors, too. NULL when there is none, or names stay. */
static int edit_digests(char **json, size_t *size, const struct gt_ckpt *ckpt,
    const struct gt_edit *edit, struct gt_err *err)
{
	struct renames r = { 0 };
	int rc = 0;

	*json = NULL;
	if (!ckpt->digests || edit->counts[GT_EDIT_LOCATION] == edit->count)
		return 0;
	rc = sort_changes(&r.changes, &r.count, edit, err);
	if (!rc)
		rc = gt_digest_renamed(json, size, ckpt, renamed, &r, err);
	free(r.changes);
	return rc;
}

/* The pickle with the changes made; *out is yours to free. */
static int edit_pickle(unsigned char **out, size_t *size, const struct gt_ckpt *ckpt,
    const struct gt_edit *edit, struct gt_err *err)
{
	struct gt_pickle_layout layout = { 0 };
	struct gt_pickle_change *changes = NULL;
	struct gt_torch_objects objects;
	struct gt_arena arena = { 0 };
	struct gt_tree *root;
	size_t used, count = 0;
	int rc;

	*out = NULL;
	gt_torch_objects_init(&objects, &arena);
	objects.hooks.layout = &layout;
	rc = gt_pickle_read(
	    &root, &arena, ckpt->pickle, ckpt->pickle_bytes, &used, &objects.hooks, err);
	if (!rc)
		rc = sort_changes(&changes, &count, edit, err);
	if (!rc)
		rc = gt_pickle_edit(
		    out, size, ckpt->pickle, ckpt->pickle_bytes, &layout, changes, count, err);
	free(changes);
	gt_pickle_layout_release(&layout);
	gt_torch_objects_release(&objects);
	gt_arena_release(&arena);
	return rc;
}

/* ---- a file written anew ---- */

/*
 * torch.load(weights_only=True) refuses the opcodes of protocol 4 and later. A copy of such a file
 * is written from the tree, in protocol 2, so that PyTorch opens it. An edit in place keeps the
 * protocol: it must not copy all tensors.
 */
enum { PROTOCOL_REFUSED = 4 };

static int protocol_of(const struct gt_ckpt *ckpt)
{
	return ckpt->pickle_bytes > 1 && ckpt->pickle[0] == GT_PICKLE_PROTO ? ckpt->pickle[1] : 0;
}

/* Make the changes in the tree: in keys, and in texts of lists and tuples. */
static int change_tree(
    const struct renames *r, struct gt_tree *node, struct gt_arena *arena, struct gt_err *err)
{
	struct gt_walk w = { 0 };
	int rc = 0;

	while (!rc && gt_walk_next(node, &w)) {
		const char *to = NULL;

		if (w.node->kind != GT_TREE_STRING)
			rc = change_tree(r, w.node, arena, err);
		else if (w.part == GT_PART_KEY)
			to = find_change(r, node->seq.items[w.index].key_at);
		else if (w.part == GT_PART_VALUE)
			to = find_change(r, node->seq.items[w.index].value_at);
		if (!to)
			continue;
		*w.slot = gt_tree_string(arena, to, err);
		rc = *w.slot ? 0 : GT_ENOMEM;
	}
	return rc;
}

/* The caller closes the checkpoint afterwards, so its tree may change. */
static int write_anew(const struct gt_ckpt *ckpt, const struct gt_edit *edit,
    const struct gt_edit_target *target, struct gt_edit_result *result, struct gt_err *err)
{
	const struct gt_ckpt_write_options options = {
		.keep_devices = true, .no_sync = target->no_sync, .progress = target->progress
	};
	struct gt_arena arena = { 0 };
	struct renames r = { 0 };
	struct stat st;
	int rc = sort_changes(&r.changes, &r.count, edit, err);

	for (const struct gt_torch_location *l = ckpt->locations; !rc && l; l = l->next) {
		const char *to = find_change(&r, l->at);

		if (to)
			((struct gt_storage *)l->storage)->location = to;
	}
	if (!rc)
		rc = change_tree(&r, ckpt->root, &arena, err);
	if (rc)
		gt_err_prefix(err, "'%s'", target->input);
	else
		rc = ckpt->format->write(target->output, ckpt->root, &options, err);
	if (!rc && !stat(target->output, &st))
		result->written_bytes = (uint64_t)st.st_size;
	free(r.changes);
	gt_arena_release(&arena);
	return rc;
}

/* ---- the legacy format ---- */

struct legacy {
	const struct gt_ckpt *ckpt;
	unsigned char *pickle; /* the new one */
	size_t size;
	bool sync;
	struct gt_progress *progress;
};

/* The bytes before the pickle, the new pickle, the bytes behind it. */
static int write_legacy(void *self, int fd, struct gt_err *err)
{
	const struct legacy *l = self;
	const struct gt_ckpt *ckpt = l->ckpt;
	uint64_t start = ckpt->pickle_at;
	uint64_t end = start + ckpt->pickle_bytes;
	struct gt_meter meter;
	int rc;

	gt_meter_begin(&meter, l->progress, "copying, MiB", ckpt->map.size - ckpt->pickle_bytes);
	rc = gt_meter_copy(&meter, fd, 0, ckpt->map.fd, 0, start, l->sync, err);
	if (!rc)
		rc = gt_write_at(fd, start, l->pickle, l->size, err);
	if (!rc)
		rc = gt_meter_copy(&meter, fd, start + l->size, ckpt->map.fd, end,
		    ckpt->map.size - end, l->sync, err);
	gt_meter_end(&meter);
	return rc;
}

int gt_torch_legacy_apply(const struct gt_ckpt *ckpt, const struct gt_edit *edit,
    const struct gt_edit_target *target, struct gt_edit_result *result, struct gt_err *err)
{
	struct legacy l = { .ckpt = ckpt, .sync = !target->no_sync, .progress = target->progress };
	int rc;

	result->protocol = protocol_of(ckpt) >= PROTOCOL_REFUSED ? protocol_of(ckpt) : 0;
	if (result->protocol && target->output)
		return write_anew(ckpt, edit, target, result, err);
	rc = edit_pickle(&l.pickle, &l.size, ckpt, edit, err);
	if (rc)
		gt_err_prefix(err, "'%s'", target->input);
	else
		rc = gt_edit_replace(ckpt, target, write_legacy, &l, err);
	free(l.pickle);
	if (rc)
		return rc;
	result->written_bytes = l.size;
	result->copied_bytes = ckpt->map.size - ckpt->pickle_bytes;
	result->replaced = !target->output;
	result->why = "the legacy format has no room for a new pickle";
	return 0;
}

/* ---- the zip format ---- */

/* The code of a TorchScript archive knows the names and devices of its tensors. */
static int fail_code(const struct gt_zip *zip, struct gt_err *err)
{
	for (size_t i = 0; i < zip->count; i++) {
		const char *slash = strchr(zip->records[i].name, '/');

		if (!slash || (strncmp(slash, "/code/", 6) && strcmp(slash, "/constants.pkl")))
			continue;
		gt_err_set(err, GT_ENOTSUP, "a TorchScript archive: its code refers to its names");
		return gt_err_hint(err, "`gtrain ckpt convert` takes its weights out");
	}
	return 0;
}

struct replacement {
	const struct gt_zip *zip;
	struct gt_zip_replacement *records;
	bool write_back; /* start to write the pages of a copy to the disk at once */
};

static int replace_copy(void *self, int fd, struct gt_err *err)
{
	const struct replacement *x = self;

	return gt_zip_replace_copy(fd, x->zip, x->records, x->write_back, err);
}

static int replace_in_place(void *self, int fd, struct gt_err *err)
{
	const struct replacement *x = self;

	return gt_zip_replace_in_place(fd, x->zip, x->records, err);
}

int gt_torch_zip_apply(const struct gt_ckpt *ckpt, const struct gt_edit *edit,
    const struct gt_edit_target *target, struct gt_edit_result *result, struct gt_err *err)
{
	struct gt_zip_replacement x = { .progress = target->progress };
	struct gt_arena arena = { 0 };
	unsigned char *pickle = NULL;
	char *digests = NULL;
	size_t size = 0;
	struct gt_zip zip;
	struct replacement replacement = { &zip, &x, !target->no_sync };
	int rc = gt_zip_read(&zip, &ckpt->map, &arena, err);

	if (!rc)
		rc = fail_code(&zip, err);
	result->protocol = protocol_of(ckpt) >= PROTOCOL_REFUSED ? protocol_of(ckpt) : 0;
	if (!rc && result->protocol && target->output) {
		gt_arena_release(&arena);
		return write_anew(ckpt, edit, target, result, err);
	}
	if (!rc)
		rc = edit_pickle(&pickle, &size, ckpt, edit, err);
	x.records[x.count++] = (struct gt_zip_new){ ckpt->pickle_record, pickle, size };
	if (!rc)
		rc = edit_digests(&digests, &size, ckpt, edit, err);
	if (digests)
		x.records[x.count++] = (struct gt_zip_new){ ckpt->digests->name, digests, size };
	if (rc)
		gt_err_prefix(err, "'%s'", target->input);
	else if (target->output)
		rc = gt_edit_replace(ckpt, target, replace_copy, &replacement, err);
	else
		rc = gt_edit_in_place(ckpt, target, replace_in_place, &replacement, err);
	result->written_bytes = x.written;
	result->copied_bytes = x.copied;
	result->dead_bytes = x.dead;
	free(pickle);
	free(digests);
	gt_arena_release(&arena);
	return rc;
}
