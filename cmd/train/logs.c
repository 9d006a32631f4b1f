/* logs.c - the ranks' logs, which are as before where a run was refused. */
#include "cmd/train/logs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/train/run/run_dir.h"

enum { LOG_NAME = 40 };

static const char *log_name(char name[LOG_NAME], int64_t rank)
{
	snprintf(name, LOG_NAME, "rank-%lld.log", (long long)rank);
	return name;
}

/* The inode of config.json, which a run replaces by another file when it begins. */
static ino_t find_config(const struct gt_cmd_logs *logs)
{
	struct stat st;

	return fstatat(logs->run.fd, GT_RUN_CONFIG, &st, AT_SYMLINK_NOFOLLOW) ? 0 : st.st_ino;
}

static off_t find_size(const struct gt_folder *folder, const char *name)
{
	struct stat st;

	return fstatat(folder->fd, name, &st, AT_SYMLINK_NOFOLLOW) ? -1 : st.st_size;
}

int gt_cmd_logs_open(struct gt_cmd_logs *out, const char *dir, int64_t nproc, struct gt_err *err)
{
	char name[LOG_NAME];
	int rc = gt_make_dirs(dir, err);

	*out = (struct gt_cmd_logs){ .nproc = nproc };
	if (!rc)
		rc = gt_folder_open(&out->run, dir, err);
	if (!rc)
		rc = gt_folder_open_in(&out->folder, &out->run, "log", true, err);
	if (rc)
		return rc;
	out->config = find_config(out);
	out->sizes = gt_calloc((size_t)nproc, sizeof(*out->sizes), err);
	for (int64_t rank = 0; out->sizes && rank < nproc; rank++)
		out->sizes[rank] = find_size(&out->folder, log_name(name, rank));
	return out->sizes ? 0 : GT_ENOMEM;
}

void gt_cmd_logs_close(struct gt_cmd_logs *logs)
{
	free(logs->sizes);
	gt_folder_close(&logs->folder);
	gt_folder_close(&logs->run);
}

bool gt_cmd_logs_stay(void *logs)
{
	const struct gt_cmd_logs *l = logs;
	ino_t config = find_config(l);

	return config && config != l->config;
}

/* Cut a log to the size that it had before. If that fails, it has some lines too many. */
static void cut_log(const struct gt_folder *folder, const char *name, off_t size)
{
	int fd = openat(folder->fd, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	struct stat st;

	if (fd < 0)
		return;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size > size)
		(void)!ftruncate(fd, size);
	close(fd);
}

void gt_cmd_logs_forget(const struct gt_cmd_logs *logs)
{
	char name[LOG_NAME];

	if (!logs->sizes || gt_run_dir_check(logs->run.path, GT_ERR_IGNORED))
		return;
	for (int64_t rank = 0; rank < logs->nproc; rank++) {
		log_name(name, rank);
		if (logs->sizes[rank] < 0)
			unlinkat(logs->folder.fd, name, 0);
		else
			cut_log(&logs->folder, name, logs->sizes[rank]);
	}
	if (!unlinkat(logs->run.fd, "log", AT_REMOVEDIR))
		rmdir(logs->run.path);
}
