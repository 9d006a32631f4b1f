/* fetch.c - a file of a set, from the first of its addresses that has it. */
#include "lib/data/get/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/mem.h"
#include "lib/base/text.h"
#include "lib/data/get/check.h"
#include "lib/data/get/download.h"

/* Bytes of a connection that was cut after which the tries are counted anew. */
enum { GOOD_START_BYTES = 1 << 20, LONGEST_PAUSE_S = 16 };

#define LOCK_TURN_S 0.1

/* NAME.part, locked, so that one process at a time writes to it. */
struct part {
	const struct gt_folder *folder;
	char *path, *name; /* name: of the folder, in path */
	int fd;
};

static void pause_s(double seconds)
{
	const struct timespec ts = { .tv_sec = (time_t)seconds,
		.tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9) };

	nanosleep(&ts, NULL);
}

/* ---- the file that grows ---- */

/* File systems that know no locks, some of those of networks, are written to all the same. */
static bool knows_no_locks(int error)
{
	return error == ENOLCK || error == ENOSYS || error == EOPNOTSUPP || error == EINVAL;
}

static int lock(const struct part *p, struct gt_log *log, struct gt_err *err)
{
	bool logged = false;

	while (flock(p->fd, LOCK_EX | LOCK_NB)) {
		if (knows_no_locks(errno))
			return 0;
		if (errno != EWOULDBLOCK && errno != EINTR)
			return gt_err_sys(err, "cannot lock '%s'", p->path);
		if (!logged)
			gt_log_info(log, "waiting for another process that fetches '%s'", p->path);
		logged = true;
		pause_s(LOCK_TURN_S);
	}
	return 0;
}

/* Whether the file still has its name: the process that held the lock may have renamed it. */
static bool has_its_name(const struct part *p)
{
	struct stat a, b;

	return !fstat(p->fd, &a) && !fstatat(p->folder->fd, p->name, &b, AT_SYMLINK_NOFOLLOW) &&
	       a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static int open_part(struct part *p, const struct gt_folder *folder, const char *name,
    struct gt_log *log, struct gt_err *err)
{
	int rc = 0;

	*p = (struct part){ .folder = folder, .fd = -1 };
	p->path = gt_asprintf(err, "%s/%s.part", folder->path, name);
	if (!p->path)
		return GT_ENOMEM;
	p->name = strrchr(p->path, '/') + 1;
	while (!rc) {
		const struct gt_file_name file = { folder, p->path };

		rc = gt_file_open(&p->fd, file, O_RDWR | O_CREAT, err);
		if (!rc)
			rc = lock(p, log, err);
		if (!rc && has_its_name(p))
			break;
		if (p->fd >= 0)
			close(p->fd);
		p->fd = -1;
	}
	return rc;
}

static uint64_t part_size(const struct part *p)
{
	struct stat st;

	return fstat(p->fd, &st) ? 0 : (uint64_t)st.st_size;
}

static int empty_part(const struct part *p, struct gt_err *err)
{
	return ftruncate(p->fd, 0) ? gt_err_sys(err, "cannot write '%s'", p->path) : 0;
}

/* An empty file is of no use to the next call. */
static void close_part(struct part *p)
{
	if (p->fd >= 0) {
		if (has_its_name(p) && !part_size(p))
			unlinkat(p->folder->fd, p->name, 0);
		close(p->fd);
	}
	free(p->path);
}

/* Give the file its name, on the disk. */
static int finish_part(const struct part *p, const char *name, struct gt_err *err)
{
	if (fsync(p->fd))
		return gt_err_sys(err, "cannot write '%s'", p->path);
	if (renameat(p->folder->fd, p->name, p->folder->fd, name))
		return gt_err_sys(err, "cannot rename '%s' to '%s'", p->path, name);
	if (fsync(p->folder->fd))
		return gt_err_sys(err, "cannot sync the directory '%s'", p->folder->path);
	return 0;
}

/* ---- addresses ---- */

/* A file on its way from one address. */
struct visit {
	struct gt_get *get;
	const struct gt_set_file *file;
	const struct part *part;
	const char *address;
	bool started_over; /* because the file was not the right one in the end */
};

static int fail_content(const struct visit *v, enum gt_download_remedy *remedy, struct gt_err *err)
{
	char host[GT_HOST_SIZE];

	*remedy = GT_REMEDY_ELSEWHERE;
	return gt_err_set(err, GT_EFORMAT,
	    "'%s' from %s is not the file that is published: another SHA-256", v->file->name,
	    gt_download_host(host, v->address));
}

/*
 * Fetch the missing part, and check the whole file. A wrong file whose beginning is from an earlier
 * call is fetched once more from its start.
 */
static int try_once(struct visit *v, enum gt_download_remedy *remedy, struct gt_err *err)
{
	const struct gt_download d = { .address = v->address,
		.name = v->file->name,
		.path = v->part->path,
		.fd = v->part->fd,
		.size_bytes = v->file->size_bytes,
		.timeout_s = v->get->timeout_s,
		.progress = v->get->log->progress };
	uint64_t before = part_size(v->part);
	bool same = false;
	int rc = 0;

	*remedy = GT_REMEDY_NONE;
	if (before > d.size_bytes) {
		rc = empty_part(v->part, err);
		before = 0;
	}
	if (!rc && before < d.size_bytes)
		rc = gt_download(v->get->curl, &d, remedy, err);
	if (!rc)
		rc = gt_set_compare(&same, d.fd, v->file, err);
	if (rc || same)
		return rc;
	rc = empty_part(v->part, err);
	if (rc)
		return rc;
	if (!before || v->started_over)
		return fail_content(v, remedy, err);
	v->started_over = true;
	gt_log_info(
	    v->get->log, "'%s' does not fit the earlier part; starting over", v->file->name);
	return try_once(v, remedy, err);
}

static void report_start(const struct visit *v)
{
	char host[GT_HOST_SIZE], have[GT_TEXT_SIZE], all[GT_TEXT_SIZE];
	uint64_t size = part_size(v->part);

	gt_text_bytes(all, v->file->size_bytes);
	gt_download_host(host, v->address);
	if (size)
		gt_log_info(v->get->log, "fetching '%s' from %s, from %s of %s on", v->file->name,
		    host, gt_text_bytes(have, size), all);
	else
		gt_log_info(v->get->log, "fetching '%s' from %s, %s", v->file->name, host, all);
}

/* Try an address until it gives the file, or there is no hope. A server that gives a good part each
 * time may cut the connection as often as it likes. */
static int visit_address(struct visit *v, enum gt_download_remedy *remedy, struct gt_err *err)
{
	double pause = v->get->pause_s;
	int tries = 0;

	report_start(v);
	for (;;) {
		uint64_t before = part_size(v->part);
		int rc = try_once(v, remedy, err);

		if (!rc || *remedy != GT_REMEDY_RETRY)
			return rc;
		if (part_size(v->part) >= before + GOOD_START_BYTES) {
			tries = 0;
			pause = v->get->pause_s;
		}
		if (tries++ >= v->get->retries)
			return rc;
		gt_log_info(v->get->log, "%s; trying again in %g s", err->text, pause);
		pause_s(pause);
		pause = pause * 2 < LONGEST_PAUSE_S ? pause * 2 : LONGEST_PAUSE_S;
	}
}

static int visit_mirror(
    struct visit *v, const struct gt_set *set, enum gt_download_remedy *remedy, struct gt_err *err)
{
	const char *mirror = v->get->mirror;
	size_t length = strlen(mirror);
	char *address;
	int rc;

	while (length && mirror[length - 1] == '/')
		length--;
	address = gt_asprintf(err, "%.*s/%s/%s", (int)length, mirror, set->name, v->file->name);
	if (!address)
		return GT_ENOMEM;
	v->address = address;
	rc = visit_address(v, remedy, err);
	free(address);
	return rc;
}

static int visit_all(struct visit *v, const struct gt_set *set, struct gt_err *err)
{
	enum gt_download_remedy remedy = GT_REMEDY_ELSEWHERE;
	int rc = GT_EIO;

	if (v->get->mirror)
		return visit_mirror(v, set, &remedy, err);
	for (int i = 0; i < GT_SET_ADDRESSES && v->file->addresses[i]; i++) {
		if (i)
			gt_log_info(v->get->log, "%s; trying another address", err->text);
		v->address = v->file->addresses[i];
		v->started_over = false;
		rc = visit_address(v, &remedy, err);
		if (!rc || remedy == GT_REMEDY_NONE)
			break;
	}
	return rc;
}

int gt_fetch(struct gt_get *get, const struct gt_set *set, const struct gt_set_file *file,
    const struct gt_folder *folder, struct gt_err *err)
{
	struct visit v = { .get = get, .file = file };
	struct part part;
	int rc = open_part(&part, folder, file->name, get->log, err);

	v.part = &part;
	if (!rc && (get->force || faccessat(folder->fd, file->name, F_OK, 0))) {
		rc = visit_all(&v, set, err);
		if (!rc)
			rc = finish_part(&part, file->name, err);
		get->fetched += !rc;
	}
	close_part(&part);
	return rc;
}
