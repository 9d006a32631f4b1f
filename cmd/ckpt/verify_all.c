/* verify_all.c - gtrain ckpt verify: check several files, and the files below folders. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd/ckpt/verify.h"
#include "lib/base/index.h"
#include "lib/base/json_string.h"
#include "lib/base/text.h"
#include "lib/base/walk.h"
#include "lib/train/checkpoint/argument.h"
#include "lib/train/run/run_dir.h"

/* A file that has been checked, on its own or as a shard, or a folder that has been searched. Links
 * to it are not followed again: folders with links to each other have very many paths. */
struct checked_file {
	dev_t device;
	ino_t inode;
};

struct collection {
	const struct gt_ckpt_verify_how *how;
	struct gt_cmd_env *env;
	struct gt_arena arena;
	struct gt_index checked; /* struct checked_file */
	size_t files, failed;    /* files that were checked, and those with faults */
	size_t others;           /* files that are no checkpoints */
};

static int compare_files(const void *a, const void *b)
{
	const struct checked_file *p = a, *q = b;

	if (p->device != q->device)
		return p->device < q->device ? -1 : 1;
	return (p->inode > q->inode) - (p->inode < q->inode);
}

bool gt_ckpt_verify_searches(const char *path)
{
	struct stat st;
	char *ckpt;

	if (stat(path, &st) || !S_ISDIR(st.st_mode) || gt_ckpt_is_in(path))
		return false;
	/* A folder of other models may hold a model.pth, too. */
	if (!gt_run_dir_is_run(AT_FDCWD, path) || gt_run_ckpt_find(&ckpt, path, GT_ERR_IGNORED) ||
	    !ckpt)
		return true;
	free(ckpt);
	return false;
}

/* ---- output ---- */

static void print_row(const struct collection *c, const char *path, const struct gt_verify *v)
{
	bool fails = gt_ckpt_verify_fails(v, c->how->strict);
	const char *on = !c->env->color ? "" : fails ? "\033[31m" : "\033[32m";
	char bytes[GT_TEXT_SIZE];

	if (!c->files)
		printf(
		    "%-6s  %-18s  %10s  %7s  %s\n", "result", "format", "size", "tensors", "path");
	printf("%s%-6s%s  %-18s  %10s  %7zu  ", on, fails ? "FAILED" : "ok",
	    c->env->color ? "\033[0m" : "", *v->format ? v->format : "-",
	    gt_text_bytes(bytes, v->file_bytes), v->tensors);
	gt_log_put(stdout, path);
	putchar('\n');
	for (size_t i = 0; i < v->finding_count; i++)
		if (v->findings[i].kind != GT_FINDING_NOTE)
			gt_ckpt_verify_finding(stdout, &v->findings[i],
			    i + 1 < v->finding_count ? &v->findings[i + 1] : NULL, 8,
			    c->env->color);
	fflush(stdout);
}

static void print_json(const struct collection *c, const char *path, const struct gt_verify *v)
{
	fputs(c->files ? ",\n {\"path\": " : "{\"files\": [\n {\"path\": ", stdout);
	gt_json_text(stdout, path);
	fputs(", ", stdout);
	gt_ckpt_verify_json_members(stdout, v, NULL, c->how->strict);
	putchar('}');
}

static void print_end(const struct collection *c)
{
	if (c->how->json) {
		printf("], \"ok\": %s, \"failed\": %zu, \"other_files\": %zu}\n",
		    c->failed ? "false" : "true", c->failed, c->others);
		return;
	}
	printf("\n%zu checkpoint%s, %zu failed", c->files, c->files == 1 ? "" : "s", c->failed);
	if (c->others)
		printf("; %zu other file%s", c->others, c->others == 1 ? "" : "s");
	putchar('\n');
}

static void add_result(struct collection *c, const char *path, const struct gt_verify *v)
{
	if (c->how->json)
		print_json(c, path, v);
	else
		print_row(c, path, v);
	c->files++;
	c->failed += gt_ckpt_verify_fails(v, c->how->strict);
}

/* ---- one file ---- */

static int remember(struct collection *c, const struct stat *st, struct gt_err *err)
{
	struct checked_file *file = gt_arena_alloc(&c->arena, sizeof(*file), err);

	if (!file)
		return GT_ENOMEM;
	*file = (struct checked_file){ st->st_dev, st->st_ino };
	return gt_index_add(&c->checked, file, err) ? 0 : GT_ENOMEM;
}

static bool was_checked(const struct collection *c, const struct stat *st)
{
	return gt_index_find(&c->checked, &(struct checked_file){ st->st_dev, st->st_ino });
}

/* Remember the file and its shards, which lie in the same folder. */
static int remember_all(
    struct collection *c, const char *path, const struct gt_verify *v, struct gt_err *err)
{
	const char *slash = strrchr(path, '/');
	struct stat st;
	int rc = stat(path, &st) ? 0 : remember(c, &st, err);

	for (size_t i = 0; i < v->shard_count && !rc; i++) {
		char *shard = gt_asprintf(
		    err, "%.*s%s", slash ? (int)(slash - path) + 1 : 0, path, v->shards[i]);

		if (!shard)
			return GT_ENOMEM;
		rc = stat(shard, &st) ? 0 : remember(c, &st, err);
		free(shard);
	}
	return rc;
}

/* A file that cannot be read is a finding here, and the other files are checked all the same. */
static int check_file(
    struct collection *c, struct gt_verify *v, const char *path, struct gt_err *err)
{
	struct gt_err found = GT_ERR_INIT;
	int rc = gt_verify(v, path, c->how->threads, &c->env->progress, &found);

	if (rc == GT_ENOMEM)
		*err = found;
	if (rc == GT_ENOMEM || !rc)
		return rc;
	return gt_verify_add_unread(v, &found, err);
}

/* Check a path that the user named: a file, a run, or a folder with a checkpoint. */
static int check_operand(struct collection *c, const char *path, struct gt_err *err)
{
	struct gt_verify v;
	char *inside = NULL;
	int rc = gt_run_ckpt_find(&inside, path, err);

	if (!rc)
		rc = check_file(c, &v, inside ? inside : path, err);
	if (!rc) {
		add_result(c, inside ? inside : path, &v);
		rc = remember_all(c, inside ? inside : path, &v, err);
		gt_verify_release(&v);
	}
	free(inside);
	return rc;
}

/* ---- folders ---- */

/* Check a file of a folder that is searched. Other files than checkpoints are only counted, unless
 * they hold a pickle that names globals. */
static int check_found(
    struct collection *c, const char *path, const struct stat *st, struct gt_err *err)
{
	struct gt_verify v;
	int rc;

	if (was_checked(c, st))
		return 0;
	rc = check_file(c, &v, path, err);
	if (rc)
		return rc;
	if (*v.format || v.over_limit || v.kinds[GT_FINDING_GLOBAL] || gt_ckpt_is_named(path)) {
		add_result(c, path, &v);
		rc = remember_all(c, path, &v, err);
	} else {
		c->others++;
	}
	gt_verify_release(&v);
	return rc;
}

/* A folder that cannot be listed counts as a failed file: what is in it is not checked. So does a
 * link to nothing that is named like a checkpoint. */
static int add_unread(struct collection *c, const char *path, int number, struct gt_err *err)
{
	struct gt_err found = GT_ERR_INIT;
	struct gt_verify v = { .format = "" };
	int rc;

	errno = number;
	gt_err_sys(&found, "cannot read '%s'", path);
	rc = gt_verify_add_unread(&v, &found, err);
	if (!rc)
		add_result(c, path, &v);
	gt_verify_release(&v);
	return rc;
}

static int enter_folder(struct collection *c, FTS *fts, FTSENT *entry, struct gt_err *err)
{
	if (!was_checked(c, entry->fts_statp))
		return remember(c, entry->fts_statp, err);
	fts_set(fts, entry, FTS_SKIP);
	return 0;
}

static int check_entry(void *context, FTS *fts, FTSENT *entry, struct gt_err *err)
{
	struct collection *c = context;

	switch (entry->fts_info) {
	case FTS_D:
		return enter_folder(c, fts, entry, err);
	case FTS_F:
		return check_found(c, entry->fts_path, entry->fts_statp, err);
	case FTS_DNR:
	case FTS_ERR:
	case FTS_NS:
		return add_unread(c, entry->fts_path, entry->fts_errno, err);
	case FTS_SLNONE:
		if (gt_ckpt_is_named(entry->fts_path))
			return add_unread(c, entry->fts_path, ENOENT, err);
		c->others++;
		return 0;
	case FTS_DEFAULT: /* a pipe or a device */
		c->others++;
		return 0;
	default:
		return 0;
	}
}

/* By name; but an index comes before its shards, which are then checked once, with the index. */
static int compare_entries(const FTSENT **a, const FTSENT **b)
{
	bool index_a = gt_text_ends_with((*a)->fts_name, ".index.json");
	bool index_b = gt_text_ends_with((*b)->fts_name, ".index.json");

	return index_a != index_b ? index_b - index_a : strcmp((*a)->fts_name, (*b)->fts_name);
}

static int search_folder(struct collection *c, const char *path, struct gt_err *err)
{
	const struct gt_folder_walk how = {
		.compare = compare_entries, .visit = check_entry, .context = c
	};

	return gt_folder_walk(path, &how, err);
}

int gt_ckpt_verify_all(
    struct gt_cmd_env *env, const struct gt_ckpt_verify_how *how, struct gt_err *err)
{
	struct collection c = { .how = how, .env = env, .checked.compare = compare_files };
	int rc = 0;

	for (int i = 0; i < env->opts.operand_count && !rc; i++) {
		const char *path = env->opts.operands[i];

		rc = gt_ckpt_verify_searches(path) ? search_folder(&c, path, err)
		                                   : check_operand(&c, path, err);
	}
	if (!rc && !c.files)
		rc = gt_err_set(err, GT_EIO, "no checkpoint in '%s'", env->opts.operands[0]);
	if (!rc)
		print_end(&c);
	if (c.failed)
		env->status = GT_EXIT_FAILED;
	gt_index_release(&c.checked);
	gt_arena_release(&c.arena);
	return rc;
}
