/* edit.c - edits of names and devices: from a tree to changes, and from these to the file. */
#include "lib/ckpt/edit/edit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/buf.h"
#include "lib/ckpt/edit/lock.h"
#include "lib/ckpt/edit/private.h"
#include "lib/ckpt/tools/digest.h"
#include "lib/ckpt/tree/classify.h"

/* ---- from name to name ---- */

static const char *add_key_prefix(struct gt_edit_naming *n, const char *name, struct gt_err *err)
{
	size_t prefix = strlen(n->prefixes[0]), length = strlen(name) + 1;
	char *out = gt_arena_alloc(n->arena, prefix + length, err);

	if (!out)
		return NULL;
	memcpy(out, n->prefixes[0], prefix);
	memcpy(out + prefix, name, length);
	return out;
}

const char *gt_edit_rename(struct gt_edit_naming *n, const char *name, struct gt_err *err)
{
	switch (n->kind) {
	case GT_EDIT_STRIP:
		return n->prefixes == gt_state_dict_wrappers
		           ? gt_state_dict_unwrap(name, n->met, n->arena, err)
		           : gt_state_dict_strip(name, n->prefixes, n->met);
	case GT_EDIT_ADD:
		return add_key_prefix(n, name, err);
	case GT_EDIT_RENAME:
		return gt_renames_apply(&n->renames, name, n->arena, err);
	case GT_EDIT_REMAP: /* a change of devices changes no names */
		break;
	}
	return name;
}

static int check_prefixes(const struct gt_edit_naming *n, struct gt_err *err)
{
	int count = 0;

	for (; n->prefixes[count]; count++) {
		const char *p = n->prefixes[count];

		if (!*p || p[strlen(p) - 1] != '.') {
			gt_err_set(err, GT_EINVAL, "'%.100s' is not a prefix", p);
			return gt_err_hint(err, "a prefix ends with a dot, as in 'module.'");
		}
	}
	if (count > GT_EDIT_MAX_PREFIXES || (n->kind == GT_EDIT_ADD && count > 1))
		return gt_err_set(err, GT_EINVAL, "%d prefixes: at most %d can be given", count,
		    n->kind == GT_EDIT_ADD ? 1 : GT_EDIT_MAX_PREFIXES);
	return 0;
}

/* ---- the note ---- */

static void add_count(struct gt_buf *note, const char *before, size_t n, const char *noun)
{
	gt_buf_printf(note, "%s%zu %s%s", before, n, noun, n == 1 ? "" : "s");
}

/* "'module.' and '_orig_mod.'"; of strip, those that came off, if any did. */
static void add_prefixes(
    struct gt_buf *note, const struct gt_edit *e, const struct gt_edit_naming *n)
{
	const char *before = "";

	for (int i = 0; n->prefixes[i]; i++) {
		if (n->kind == GT_EDIT_STRIP && e->count && !n->met[i])
			continue;
		gt_buf_printf(note, "%s'%s'", before, n->prefixes[i]);
		before = e->count ? " and " : " or ";
	}
}

/* The words between the prefixes and the number of names. */
static const char *verb_of(enum gt_edit_kind kind)
{
	switch (kind) {
	case GT_EDIT_STRIP:
		return " removed from ";
	case GT_EDIT_ADD:
		return " put before ";
	case GT_EDIT_RENAME:
	case GT_EDIT_REMAP:
		break;
	}
	return "";
}

static int note_names(
    struct gt_edit *e, const struct gt_edit_naming *n, size_t dicts, struct gt_err *err)
{
	struct gt_buf note = { 0 };

	if (!e->count) {
		gt_buf_puts(&note, "nothing to change: no name ");
		if (n->prefixes == gt_state_dict_wrappers)
			gt_buf_puts(&note, "has the prefix of a wrapper, such as 'module.',");
		else
			gt_buf_puts(&note, n->kind == GT_EDIT_STRIP ? "starts with " : "matches");
		if (n->kind == GT_EDIT_STRIP && n->prefixes != gt_state_dict_wrappers)
			add_prefixes(&note, e, n);
		add_count(&note, " in ", dicts, "state_dict");
	} else {
		if (n->prefixes)
			add_prefixes(&note, e, n);
		add_count(&note, verb_of(n->kind), e->counts[GT_EDIT_NAME], "name");
		add_count(&note, n->prefixes ? " in " : " changed in ", e->dicts, "state_dict");
		if (e->counts[GT_EDIT_REFERENCE]) {
			add_count(&note, " and ", e->counts[GT_EDIT_REFERENCE], "mention");
			gt_buf_puts(&note, " in optimizers");
		}
	}
	e->note = gt_buf_keep(&note, &e->arena, err);
	return e->note ? 0 : GT_ENOMEM;
}

/* ---- computing ---- */

/* A small file can hold one dict under many names, which all want changes. */
enum { MAX_CHANGES = 1 << 20, MAX_BYTES = 128 << 20 };

int gt_edit_push(struct gt_edit *edit, const struct gt_edit_change *change, struct gt_err *err)
{
	if (!strcmp(change->from, change->to))
		return 0;
	if (edit->count == MAX_CHANGES)
		return gt_err_set(err, GT_EFORMAT, "more than %d changes", MAX_CHANGES);
	if (gt_grow(&edit->changes, edit->count, &edit->capacity, sizeof(*change), err))
		return GT_ENOMEM;
	edit->changes[edit->count++] = *change;
	edit->counts[change->use]++;
	return 0;
}

static int compute_names(struct gt_edit *out, const struct gt_ckpt *ckpt,
    const struct gt_edit_request *request, struct gt_err *err)
{
	static const char *const first[] = { "module.", NULL };
	struct gt_edit_naming n = { .kind = request->kind, .arena = &out->arena };
	size_t dicts = 0;
	int rc;

	if (n.kind == GT_EDIT_RENAME) {
		rc = gt_renames_init(&n.renames, request->words, err);
	} else {
		n.prefixes = request->words && request->words[0] ? request->words
		             : n.kind == GT_EDIT_ADD             ? first
		                                                 : gt_state_dict_wrappers;
		rc = check_prefixes(&n, err);
	}
	if (!rc)
		rc = gt_edit_names(out, ckpt->root, &n, &dicts, err);
	if (!rc)
		rc = note_names(out, &n, dicts, err);
	gt_renames_release(&n.renames);
	return rc;
}

int gt_edit_compute(struct gt_edit *out, const struct gt_ckpt *ckpt,
    const struct gt_edit_request *request, struct gt_err *err)
{
	int rc;

	*out = (struct gt_edit){ .note = "", .dicts_note = "", .arena.limit = MAX_BYTES };
	if (request->kind == GT_EDIT_REMAP)
		rc = gt_edit_locations(out, ckpt, request->words, err);
	else
		rc = compute_names(out, ckpt, request, err);
	if (rc)
		gt_edit_release(out);
	return rc;
}

void gt_edit_release(struct gt_edit *edit)
{
	free(edit->changes);
	gt_arena_release(&edit->arena);
	*edit = (struct gt_edit){ 0 };
}

/* ---- applying ---- */

static int fail_changed(const char *path, struct gt_err *err)
{
	gt_err_set(err, GT_EIO, "'%s' has changed since it was opened", path);
	return gt_err_hint(err, "is somebody writing it? try again");
}

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static bool same_state(const struct stat *a, const struct stat *b)
{
	return same_file(a, b) && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

int gt_edit_begin(
    int *fd, const struct gt_ckpt *ckpt, const struct gt_edit_target *target, struct gt_err *err)
{
	struct stat now;
	int rc = 0;

	*fd = -1;
	if (ckpt->locked) {
		*fd = fcntl(ckpt->lock, F_DUPFD_CLOEXEC, 0);
		if (*fd < 0)
			rc = gt_err_sys(err, "cannot write '%s'", target->input);
	} else {
		rc = gt_lock_file(fd, ckpt->path, 0, err);
	}
	if (rc)
		return rc;
	if (fstat(*fd, &now))
		rc = gt_err_sys(err, "cannot examine '%s'", target->input);
	else if (!same_state(&now, &ckpt->opened))
		rc = fail_changed(target->input, err);
	if (rc) {
		close(*fd);
		*fd = -1;
	}
	return rc;
}

int gt_edit_unchanged(const struct gt_ckpt *ckpt, const char *shown, struct gt_err *err)
{
	struct stat now;

	if (stat(ckpt->path, &now))
		return gt_err_sys(err, "cannot examine '%s'", shown);
	return same_state(&now, &ckpt->opened) ? 0 : fail_changed(shown, err);
}

int gt_edit_in_place(const struct gt_ckpt *ckpt, const struct gt_edit_target *target,
    gt_ckpt_writer *write, void *self, struct gt_err *err)
{
	int fd;
	int rc = gt_edit_begin(&fd, ckpt, target, err);

	if (rc)
		return rc;
	gt_atomic_enter();
	rc = write(self, fd, err);
	gt_atomic_leave();
	if (!rc)
		return gt_change_finish(fd, target->input, target->no_sync, err);
	close(fd);
	return gt_err_prefix(err, "'%s'", target->input);
}

/* A file that is written anew. */
struct whole {
	const struct gt_ckpt *ckpt;
	const struct gt_edit_target *target;
	const char *path;
	gt_ckpt_writer *write;
	void *self;
};

/*
 * Add both files' names to an error of the copy. If the input has changed since it was opened, the
 * copy mixes two states of it, so that is an error too.
 */
static int write_whole(void *self, int fd, struct gt_err *err)
{
	const struct whole *w = self;
	struct stat now;
	int rc = w->write(w->self, fd, err);

	if (rc)
		return gt_err_prefix(err, "copying '%s' to '%s'", w->target->input, w->path);
	if (fstat(w->ckpt->map.fd, &now))
		return gt_err_sys(err, "cannot examine '%s'", w->target->input);
	return same_state(&now, &w->ckpt->opened) ? 0 : fail_changed(w->target->input, err);
}

int gt_edit_replace(const struct gt_ckpt *ckpt, const struct gt_edit_target *target,
    gt_ckpt_writer *write, void *self, struct gt_err *err)
{
	struct whole w = { ckpt, target, target->output, write, self };
	char *own = NULL;
	int lock = -1, rc = 0;

	if (!target->output) {
		rc = gt_edit_begin(&lock, ckpt, target, err);
		if (rc)
			return rc;
		w.path = own = realpath(ckpt->path, NULL);
		rc = own ? 0 : gt_err_sys(err, "cannot find '%s'", target->input);
	}
	if (!rc)
		rc = gt_ckpt_write_file(
		    (struct gt_file_name){ .path = w.path }, target->no_sync, write_whole, &w, err);
	free(own);
	if (lock >= 0)
		close(lock);
	return rc;
}

/* Check that the output is not the input under another name, and that the input has not changed. */
static int check_target(
    const struct gt_ckpt *ckpt, const struct gt_edit_target *target, struct gt_err *err)
{
	struct stat st;

	if (target->output && !stat(target->output, &st) && same_file(&st, &ckpt->opened)) {
		gt_err_set(err, GT_EINVAL, "'%s' is the input itself", target->output);
		return ckpt->shard_count
		           ? gt_err_hint(err, GT_EDIT_SHARDS_HINT)
		           : gt_err_hint(err, "{in-place} changes a file where it lies");
	}
	return gt_edit_unchanged(ckpt, target->input, err);
}

int gt_edit_apply(const struct gt_ckpt *ckpt, const struct gt_edit *edit,
    const struct gt_edit_target *target, struct gt_edit_result *result, struct gt_err *err)
{
	struct gt_edit_result unused;
	int rc;

	if (!result)
		result = &unused;
	*result = (struct gt_edit_result){ 0 };
	if (!ckpt->format->apply || !ckpt->path) {
		gt_err_set(err, GT_ENOTSUP, "'%s': a file of format %s cannot be edited",
		    target->input, ckpt->format->name);
		return gt_err_hint(err, "'gtrain ckpt convert' writes it in a format that can be");
	}
	rc = check_target(ckpt, target, err);
	if (rc || (!target->output && !edit->count))
		return rc;
	/* A tensor that its digest contradicts must not get a fresh digest. */
	rc = gt_digest_check(ckpt, false, NULL, err);
	if (rc)
		return gt_err_prefix(err, "'%s'", target->input);
	rc = ckpt->format->apply(ckpt, edit, target, result, err);
	if (result->replaced)
		result->other_links = ckpt->opened.st_nlink - 1;
	return rc;
}
