/* manifest.c - find the files of a model, and compute their digests. */
#include "lib/ckpt/sign/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/file.h"
#include "lib/base/meter.h"
#include "lib/base/text.h"
#include "lib/base/thread_pool.h"
#include "lib/base/walk.h"

void gt_manifest_release(struct gt_manifest *m)
{
	free(m->items);
	free(m->ignore);
	free(m->left_out);
	gt_arena_release(&m->arena);
	*m = (struct gt_manifest){ 0 };
}

/* ---- ignored paths ---- */

/* Return whether `path` is `folder`, or below it. */
static bool is_at_or_below(const char *path, const char *folder)
{
	size_t length = strlen(folder);

	return !strncmp(path, folder, length) && (!path[length] || path[length] == '/');
}

static bool is_ignored(const struct gt_manifest *m, const char *path)
{
	for (size_t i = 0; i < m->ignore_count; i++)
		if (is_at_or_below(path, m->ignore[i]))
			return true;
	return false;
}

static int add_ignored(struct gt_manifest *m, const char *path, struct gt_err *err)
{
	int rc = gt_grow(&m->ignore, m->ignore_count, &m->ignore_capacity, sizeof(*m->ignore), err);

	if (!rc)
		m->ignore[m->ignore_count++] = path;
	return rc;
}

int gt_manifest_ignore(struct gt_manifest *m, const char *path, struct gt_err *err)
{
	char *clean = gt_arena_alloc(&m->arena, strlen(path) + 1, err), *out = clean;

	if (!clean)
		return GT_ENOMEM;
	for (const char *at = path; *at;) {
		size_t length = strcspn(at, "/");

		if ((length == 2 && !strncmp(at, "..", 2)) || (at == path && !length))
			return gt_err_set(
			    err, GT_EINVAL, "'%s' is not a path relative to the model", path);
		if (length && !(length == 1 && *at == '.')) {
			if (out > clean)
				*out++ = '/';
			memcpy(out, at, length);
			out += length;
		}
		at += length;
		at += *at == '/';
	}
	if (out == clean)
		return gt_err_set(err, GT_EINVAL, "'%s' is the model itself", path);
	return add_ignored(m, clean, err);
}

int gt_manifest_ignore_git(
    struct gt_manifest *m, const struct gt_manifest *keep, struct gt_err *err)
{
	static const char *const names[] = { ".git", ".gitattributes", ".github", ".gitignore" };
	int rc = 0;

	for (size_t k = 0; k < sizeof(names) / sizeof(*names) && !rc; k++) {
		bool kept = false;

		for (size_t i = 0; keep && i < keep->count && !kept; i++)
			kept = is_at_or_below(keep->items[i].file, names[k]);
		if (!kept && !is_ignored(m, names[k]))
			rc = add_ignored(m, names[k], err);
	}
	return rc;
}

/* Return the part of `path` below `folder`, both of realpath(), or NULL. */
static const char *part_below(const char *path, const char *folder)
{
	if (!strcmp(folder, "/"))
		return path + 1;
	return is_at_or_below(path, folder) && path[strlen(folder)] ? path + strlen(folder) + 1
	                                                            : NULL;
}

int gt_manifest_ignore_own(
    struct gt_manifest *m, const char *model, const char *path, struct gt_err *err)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *below;
	char *parent =
	    slash ? gt_asprintf(err, "%.*s", (int)(slash - path) + 1, path) : gt_strdup(".", err);
	char *folder = parent ? realpath(parent, NULL) : NULL, *root = realpath(model, NULL);
	char *whole = NULL;
	int rc = parent ? 0 : GT_ENOMEM;

	/* A folder that does not exist is an error of those that open the file. */
	if (!rc && folder && root) {
		whole = gt_asprintf(err, "%s/%s", strcmp(folder, "/") ? folder : "", name);
		below = whole ? part_below(whole, root) : NULL;
		rc = !whole ? GT_ENOMEM : below ? gt_manifest_ignore(m, below, err) : 0;
		if (!rc && below)
			m->own = m->ignore[m->ignore_count - 1];
	}
	free(parent);
	free(folder);
	free(root);
	free(whole);
	return rc;
}

/* ---- files ---- */

static int add_item(struct gt_manifest *m, const struct gt_manifest_item *item, struct gt_err *err)
{
	int rc = gt_grow(&m->items, m->count, &m->capacity, sizeof(*m->items), err);

	if (!rc)
		m->items[m->count++] = *item;
	return rc;
}

/* A file is one item, or one for each of its parts. An empty file has no parts. */
static int add_file(struct gt_manifest *m, const char *file, uint64_t size, struct gt_err *err)
{
	struct gt_manifest_item item = { .end = size };
	const char *name = *file ? file : ".";
	int rc = 0;

	if (gt_text_utf8_bytes(file, strlen(file)) != strlen(file))
		return gt_err_set(err, GT_EFORMAT,
		    "the name of the file '%s' is not UTF-8, so it cannot be signed", file);
	item.file = gt_arena_strdup(&m->arena, file, err);
	item.name = *file ? item.file : ".";
	if (!item.file)
		return GT_ENOMEM;
	m->files++;
	if (!m->part_bytes)
		return add_item(m, &item, err);
	for (uint64_t at = 0; at < size && !rc; at = item.end) {
		char *part = NULL;

		item.start = at;
		item.end = size - at < m->part_bytes ? size : at + m->part_bytes;
		part = gt_asprintf(err, "%s:%llu:%llu", name, (unsigned long long)item.start,
		    (unsigned long long)item.end);
		item.name = part ? gt_arena_strdup(&m->arena, part, err) : NULL;
		free(part);
		rc = item.name ? add_item(m, &item, err) : GT_ENOMEM;
	}
	return rc;
}

/* Note a path that is there and is left out. Nobody has signed it, unless it is the signature. */
static int leave_out(
    struct gt_manifest *m, const FTSENT *entry, const char *file, struct gt_err *err)
{
	const char *kept;

	if (m->own && entry->fts_info == FTS_F && !strcmp(m->own, file))
		return 0;
	kept = gt_arena_strdup(&m->arena, file, err);
	if (!kept ||
	    gt_grow(&m->left_out, m->left_count, &m->left_capacity, sizeof(*m->left_out), err))
		return GT_ENOMEM;
	m->left_out[m->left_count++] = kept;
	return 0;
}

struct search {
	struct gt_manifest *m;
	size_t prefix; /* bytes of a path before the part that is relative to the model */
};

static int fail_other(const char *path, struct gt_err *err)
{
	return gt_err_set(err, GT_EFORMAT, "'%s' is neither a file nor a folder", path);
}

/* A link to a folder is left out, as the model-signing format has it. */
static int visit_link(
    const struct search *s, const FTSENT *entry, const char *file, struct gt_err *err)
{
	struct stat st;

	if (!s->m->symlinks) {
		gt_err_set(err, GT_EFORMAT, "'%s' is a symbolic link", entry->fts_path);
		return gt_err_hint(err, "a signature takes links to files with {symlinks}, or "
		                        "leaves them out with {ignore}");
	}
	if (stat(entry->fts_path, &st))
		return gt_err_sys(err, "cannot read '%s'", entry->fts_path);
	if (S_ISDIR(st.st_mode))
		return leave_out(s->m, entry, file, err);
	if (!S_ISREG(st.st_mode))
		return fail_other(entry->fts_path, err);
	return add_file(s->m, file, (uint64_t)st.st_size, err);
}

static int visit(void *context, FTS *fts, FTSENT *entry, struct gt_err *err)
{
	const struct search *s = context;
	const char *file = entry->fts_level > 0 ? entry->fts_path + s->prefix : "";

	if (entry->fts_info == FTS_DP)
		return 0;
	if (*file && is_ignored(s->m, file)) {
		fts_set(fts, entry, FTS_SKIP);
		return leave_out(s->m, entry, file, err);
	}
	switch (entry->fts_info) {
	case FTS_D:
		return 0;
	case FTS_F:
		return add_file(s->m, file, (uint64_t)entry->fts_statp->st_size, err);
	case FTS_SL:
		return visit_link(s, entry, file, err);
	case FTS_DNR:
	case FTS_ERR:
	case FTS_NS:
		errno = entry->fts_errno;
		return gt_err_sys(err, "cannot read '%s'", entry->fts_path);
	default:
		return fail_other(entry->fts_path, err);
	}
}

/* Compare paths part by part: "a/b" comes before "a.txt", as "a" comes before "a.txt". */
static int compare_items(const void *a, const void *b)
{
	const struct gt_manifest_item *x = a, *y = b;
	const unsigned char *p = (const unsigned char *)x->file;
	const unsigned char *q = (const unsigned char *)y->file;

	for (; *p && *p == *q; p++)
		q++;
	if (*p != *q) {
		int left = *p == '/' ? 1 : *p ? 1 + *p : 0;
		int right = *q == '/' ? 1 : *q ? 1 + *q : 0;

		return left - right;
	}
	return (x->start > y->start) - (x->start < y->start);
}

/* The last part of the path; for "." and "..", that of the real path. */
static int name_model(struct gt_manifest *m, const char *path, struct gt_err *err)
{
	char *real = NULL;
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	if (!*name || !strcmp(name, ".") || !strcmp(name, "..")) {
		real = realpath(path, NULL);
		if (!real)
			return gt_err_sys(err, "cannot open '%s'", path);
		slash = strrchr(real, '/');
		name = slash + 1;
	}
	m->model = gt_arena_strdup(&m->arena, name, err);
	free(real);
	if (m->model && gt_text_utf8_bytes(m->model, strlen(m->model)) != strlen(m->model))
		return gt_err_set(err, GT_EFORMAT, "the name of the model is not UTF-8");
	return m->model ? 0 : GT_ENOMEM;
}

/* Return a copy of the path without slashes at its end. */
static char *trim_slashes(const char *path, struct gt_err *err)
{
	char *copy = gt_strdup(path, err);

	for (size_t n = copy ? strlen(copy) : 0; n > 1 && copy[n - 1] == '/'; n--)
		copy[n - 1] = '\0';
	return copy;
}

int gt_manifest_find(struct gt_manifest *m, const char *path, struct gt_err *err)
{
	struct search search = { .m = m };
	const struct gt_folder_walk how = { .no_links = true, .visit = visit, .context = &search };
	char *root = trim_slashes(path, err);
	struct stat st;
	int rc = root ? name_model(m, root, err) : GT_ENOMEM;

	if (!rc && stat(root, &st))
		rc = gt_err_sys(err, "cannot open '%s'", root);
	if (!rc && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		rc = fail_other(root, err);
	if (!rc) {
		search.prefix = strcmp(root, "/") ? strlen(root) + 1 : 1;
		rc = gt_folder_walk(root, &how, err);
	}
	if (!rc && !m->files)
		rc = gt_err_set(err, GT_EIO, "there is no file in '%s'", path);
	if (!rc && m->count)
		qsort(m->items, m->count, sizeof(*m->items), compare_items);
	free(root);
	return rc;
}

/* ---- digests ---- */

struct digests {
	struct gt_manifest *m;
	const char *path;
	struct gt_meter meter;
};

static int digest_bytes(struct digests *d, struct gt_manifest_item *item, int fd,
    unsigned char *chunk, size_t chunk_size, struct gt_err *err)
{
	struct sha256_ctx sha;
	uint64_t at = item->start;

	sha256_init(&sha);
	while (at < item->end) {
		uint64_t left = item->end - at;
		ssize_t n =
		    pread(fd, chunk, left < chunk_size ? (size_t)left : chunk_size, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return gt_err_sys(err, "cannot read");
		if (!n)
			return gt_map_shrank(err);
		sha256_update(&sha, (size_t)n, chunk);
		gt_meter_add(&d->meter, (uint64_t)n);
		at += (uint64_t)n;
	}
	sha256_digest(&sha, SHA256_DIGEST_SIZE, item->digest);
	return 0;
}

/* The links of the model were checked by their kind; one that has come since is not followed. */
static int digest_item(void *self, size_t task, struct gt_err *err)
{
	enum { CHUNK = 1 << 20 };
	struct digests *d = self;
	struct gt_manifest_item *item = &d->m->items[task];
	unsigned char *chunk = gt_calloc(CHUNK, 1, err);
	char *path =
	    *item->file ? gt_asprintf(err, "%s/%s", d->path, item->file) : gt_strdup(d->path, err);
	bool follow = d->m->symlinks || !*item->file;
	int fd = -1, rc = chunk && path ? 0 : GT_ENOMEM;

	if (!rc) {
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | (follow ? 0 : O_NOFOLLOW));
		rc = fd < 0 ? gt_err_sys(err, "cannot open '%s'", path) : 0;
	}
	if (!rc && digest_bytes(d, item, fd, chunk, CHUNK, err))
		rc = gt_err_prefix(err, "'%s'", path);
	if (fd >= 0)
		close(fd);
	free(chunk);
	free(path);
	return rc;
}

int gt_manifest_digest(struct gt_manifest *m, const char *path, size_t threads,
    struct gt_progress *progress, struct gt_err *err)
{
	struct digests d = { .m = m, .path = path };
	uint64_t total = 0;
	int rc;

	for (size_t i = 0; i < m->count; i++)
		total += m->items[i].end - m->items[i].start;
	gt_meter_begin(&d.meter, progress, "reading, MiB", total);
	rc = gt_thread_pool_run(threads, m->count, digest_item, &d, err);
	gt_meter_end(&d.meter);
	return rc;
}
