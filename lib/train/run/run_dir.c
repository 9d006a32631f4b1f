/* run_dir.c - the files of a run. */
#include "lib/train/run/run_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/base/new_folder.h"
#include "lib/base/opt_json.h"
#include "lib/base/text.h"

/* A longer file of JSON is not read. */
enum { JSON_BYTES = 64 << 20 };

/* "step-00001000.pth.tmp-4711-0", "config.json.tmp-...": files that a killed run was writing. */
static bool is_leftover(const char *name)
{
	static const char digits[] = "0123456789";
	const char *tmp = strstr(name, ".tmp-");
	size_t pid = tmp ? strspn(tmp + 5, digits) : 0;
	size_t number = pid && tmp[5 + pid] == '-' ? strspn(tmp + 6 + pid, digits) : 0;

	return number && !tmp[6 + pid + number];
}

/* Only the holder of the lock may do this: nobody else is writing then. */
static void remove_leftovers(const struct gt_folder *folder)
{
	DIR *d = gt_folder_list(folder, GT_ERR_IGNORED);
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (is_leftover(e->d_name) && unlinkat(folder->fd, e->d_name, 0) && errno == EISDIR)
			gt_folder_remove(folder->fd, e->d_name);
	if (d)
		closedir(d);
}

/* The lock goes with the process, however that ends. Where there are no locks (some network file
 * systems) it does without, and *taken is false. A process that only looks has it for a moment. */
static int take_lock(const struct gt_folder *folder, bool *taken, struct gt_err *err)
{
	const struct timespec moment = { .tv_nsec = 10000000 };
	bool held = true;

	*taken = false;
	for (int i = 0; held && i < 5; i++) {
		if (i)
			nanosleep(&moment, NULL);
		if (!flock(folder->fd, LOCK_EX | LOCK_NB)) {
			*taken = true;
			return 0;
		}
		held = errno == EWOULDBLOCK;
	}
	return held ? gt_err_set(err, GT_EIO, "another run is writing into '%s'", folder->path) : 0;
}

/* A shared lock keeps no other reader from looking, and a writer waits for it. */
bool gt_run_dir_is_locked(const struct gt_folder *folder)
{
	bool held = flock(folder->fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;

	if (!held)
		flock(folder->fd, LOCK_UN);
	return held;
}

/* ---- checks ---- */

/* When a run writes a file. The later this is, the more a new run would overwrite: see
 * check_results(). */
enum written {
	KEPT,     /* a new run does not overwrite the file */
	AT_START, /* before the first step */
	IN_STEPS, /* while steps run, from the first on */
	AT_END,
};

/* The files of a run, by the folders that they are in. Logs are appended to. Checkpoints are
 * counted by their steps. */
static const struct {
	const char *folder; /* NULL: the run directory itself */
	const char *names;  /* a pattern of fnmatch() */
	enum written written;
} files[] = {
	{ NULL, GT_RUN_CONFIG, AT_START },
	{ NULL, GT_RUN_NETWORK, AT_START },
	{ NULL, GT_RUN_ONNX, AT_START },
	{ NULL, "vocab.json", AT_START },
	{ NULL, "tokenizer.json", AT_START },
	{ NULL, "model.pth", AT_END },
	{ NULL, "model_ema.pth", AT_END },
	{ NULL, "best.pth", IN_STEPS },
	{ NULL, GT_RUN_METRICS, IN_STEPS },
	{ NULL, GT_RUN_STATUS, AT_START },
	{ NULL, GT_RUN_DETAILS, AT_START },
	{ NULL, GT_RUN_REFERENCE, AT_START },
	{ NULL, "events.out.tfevents.*", KEPT },
	{ "checkpoints", "step-[0-9]*.pth", KEPT },
	{ "log", "rank-[0-9]*.log", KEPT },
	{ "trace", "rank-[0-9]*.json.gz", IN_STEPS },
};

const char *gt_run_network_name(const char *path)
{
	return gt_text_ends_with(path, ".onnx") ? GT_RUN_ONNX : GT_RUN_NETWORK;
}

bool gt_run_is_network(const char *model)
{
	return !strcmp(model, GT_RUN_NETWORK) || !strcmp(model, GT_RUN_ONNX);
}

/* The state that a file must be in, if it exists. */
enum requirement {
	REGULAR, /* a regular file */
	EMPTY,   /* a regular file without content, because a new run would overwrite it */
	/* an empty file, as for EMPTY; the error suggests --resume auto, which may overwrite the
	 * file */
	NO_RESULT
};

static int fail_results(const char *path, enum requirement needed, struct gt_err *err)
{
	gt_err_set(err, GT_EIO, "'%s' exists already, and a run writes a file of this name", path);
	return needed == NO_RESULT
	           ? gt_err_hint(err, "{resume} auto starts this run again; another {out} begins a "
	                              "new one")
	           : gt_err_hint(err, "move it away, or give another {out}");
}

/* Check a file, which need not exist. */
static int check_run_file(
    const struct gt_folder *folder, const char *name, enum requirement needed, struct gt_err *err)
{
	char *path = gt_folder_path(folder, name, err);
	struct stat st;
	bool found;
	int rc = path ? gt_file_check((struct gt_file_name){ folder, path }, &st, &found, err)
	              : GT_ENOMEM;

	if (!rc && needed != REGULAR && found && st.st_size > 0)
		rc = fail_results(path, needed, err);
	free(path);
	return rc;
}

static int check_names(
    const struct gt_folder *folder, const char *names, enum requirement needed, struct gt_err *err)
{
	DIR *d = gt_folder_list(folder, err);
	const char *name = NULL;
	int rc = d ? gt_folder_next(&name, folder, d, err) : err->code;

	while (!rc && name) {
		if (!fnmatch(names, name, 0))
			rc = check_run_file(folder, name, needed, err);
		if (!rc)
			rc = gt_folder_next(&name, folder, d, err);
	}
	if (d)
		closedir(d);
	return rc;
}

/* A regular file in the place of a folder is a run's mistake only where the run needs the folder:
 * people do write into DIR/log. */
static int check_folder(
    const struct gt_folder *parent, size_t i, enum requirement needed, struct gt_err *err)
{
	struct gt_folder folder;
	struct stat st;
	int rc;

	if (fstatat(parent->fd, files[i].folder, &st, AT_SYMLINK_NOFOLLOW) || S_ISREG(st.st_mode))
		return 0;
	rc = gt_folder_open_in(&folder, parent, files[i].folder, false, err);
	if (!rc)
		rc = check_names(&folder, files[i].names, needed, err);
	gt_folder_close(&folder);
	return rc;
}

static int check_row(
    const struct gt_folder *dir, size_t i, enum requirement needed, struct gt_err *err)
{
	if (files[i].folder)
		return check_folder(dir, i, needed, err);
	return strchr(files[i].names, '*') ? check_names(dir, files[i].names, needed, err)
	                                   : check_run_file(dir, files[i].names, needed, err);
}

static int check_files(const struct gt_folder *dir, struct gt_err *err)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < sizeof(files) / sizeof(*files); i++)
		rc = check_row(dir, i, REGULAR, err);
	return rc;
}

/* Whether `file` is files[i] under any name, or has such a name in the same folder. */
static bool is_listed(const struct gt_run_dir *dir, size_t i, const char *file, const char *parent)
{
	const char *slash = strrchr(file, '/');
	char *folder = gt_asprintf(
	    GT_ERR_IGNORED, "%s/%s", dir->folder.path, files[i].folder ? files[i].folder : ".");
	char *own = folder ? gt_asprintf(GT_ERR_IGNORED, "%s/%s", folder, files[i].names) : NULL;
	bool listed = own && (gt_file_is_same(file, own) ||
	                         (!fnmatch(files[i].names, slash ? slash + 1 : file, 0) &&
	                             gt_file_is_same(parent, folder)));

	free(own);
	free(folder);
	return listed;
}

static bool owns_name(const struct gt_run_dir *dir, const char *file)
{
	const char *slash = strrchr(file, '/');
	char *parent = slash ? strndup(file, (size_t)(slash - file) + 1) : strdup(".");
	bool owns = false;

	for (size_t i = 0; parent && !owns && i < sizeof(files) / sizeof(*files); i++)
		owns = is_listed(dir, i, file, parent);
	free(parent);
	return owns;
}

/* A link may lead to a checkpoint, which only a pattern names. */
bool gt_run_dir_owns(const struct gt_run_dir *dir, const char *file)
{
	char *real = realpath(file, NULL);
	bool owns = owns_name(dir, file) || (real && owns_name(dir, real));

	free(real);
	return owns;
}

static int hint_out(struct gt_err *err)
{
	return gt_err_hint(err, "{out} names the directory of the run");
}

bool gt_run_dir_is_config(const json_t *config)
{
	return json_is_string(json_object_get(config, "model")) &&
	       json_is_string(json_object_get(config, "data"));
}

/* A config.json that is not ours would be overwritten. */
static int check_foreign(const struct gt_run_dir *dir, struct gt_err *err)
{
	char *path = gt_folder_path(&dir->folder, GT_RUN_CONFIG, err);
	json_t *config = NULL;
	int rc = path ? gt_run_dir_read_config(&config, dir, err) : GT_ENOMEM;

	if (rc == GT_EFORMAT ||
	    (!rc && gt_file_exists((struct gt_file_name){ &dir->folder, path }) &&
	        !gt_run_dir_is_config(config))) {
		gt_err_set(err, GT_EIO, "'%s' is there already and belongs to no run", path);
		rc = hint_out(err);
	}
	json_decref(config);
	free(path);
	return rc;
}

/* Open the directory and check its files. If it does not exist, *out is not open: no error. */
static int open_checked(struct gt_run_dir *out, const char *path, struct gt_err *err)
{
	struct stat st;
	int rc;

	*out = (struct gt_run_dir){ 0 };
	if (stat(path, &st) && errno == ENOENT)
		return 0;
	rc = gt_folder_open(&out->folder, path, err);
	if (rc)
		return hint_out(err);
	rc = check_files(&out->folder, err);
	return rc ? rc : check_foreign(out, err);
}

int gt_run_dir_check_files(const char *path, struct gt_err *err)
{
	struct gt_run_dir dir;
	int rc = open_checked(&dir, path, err);

	gt_run_dir_close(&dir);
	return rc;
}

int gt_run_dir_check(const char *path, struct gt_err *err)
{
	struct gt_run_dir dir;
	bool taken;
	int rc = open_checked(&dir, path, err);

	if (!rc && dir.folder.path && take_lock(&dir.folder, &taken, err))
		rc = hint_out(err);
	gt_run_dir_close(&dir);
	return rc;
}

/* ---- open and close ---- */

int gt_run_dir_open(struct gt_run_dir *out, const char *path, struct gt_err *err)
{
	int rc;

	*out = (struct gt_run_dir){ 0 };
	rc = gt_folder_open(&out->folder, path, err);
	if (!rc)
		rc = gt_folder_open_in(&out->checkpoints, &out->folder, "checkpoints", false, err);
	if (rc)
		gt_run_dir_close(out);
	return rc;
}

/* Create the directory and checkpoints/ in it, if they are missing. */
static int make_run_dir(struct gt_run_dir *dir, const char *path, struct gt_err *err)
{
	int rc = 0;

	if (!dir->folder.path) {
		rc = gt_make_dirs(path, err);
		if (!rc)
			rc = gt_folder_open(&dir->folder, path, err);
	}
	if (!rc)
		rc = gt_folder_open_in(&dir->checkpoints, &dir->folder, "checkpoints", true, err);
	if (!rc && faccessat(dir->checkpoints.fd, ".", W_OK, 0))
		rc = gt_err_sys(err, "cannot write into '%s'", path);
	return rc;
}

int gt_run_dir_create(struct gt_run_dir *out, const char *path, struct gt_err *err)
{
	bool taken = false;
	int rc = open_checked(out, path, err);

	if (!rc && (make_run_dir(out, path, err) || take_lock(&out->folder, &taken, err)))
		rc = hint_out(err);
	if (!rc && taken) {
		remove_leftovers(&out->folder);
		remove_leftovers(&out->checkpoints);
	}
	if (rc)
		gt_run_dir_close(out);
	return rc;
}

void gt_run_dir_close(struct gt_run_dir *dir)
{
	gt_folder_close(&dir->checkpoints);
	gt_folder_close(&dir->folder);
}

/* ---- config.json ---- */

int gt_run_dir_write_config(const struct gt_run_dir *dir, const json_t *config, struct gt_err *err)
{
	char *path = gt_folder_path(&dir->folder, GT_RUN_CONFIG, err);
	char *text = gt_json_dumps(config, JSON_INDENT(2));
	struct gt_atomic_file f;
	int rc = path ? 0 : GT_ENOMEM;

	if (path && !text)
		rc = gt_err_set(err, GT_ENOMEM, "out of memory: the run's configuration");
	if (!rc)
		rc = gt_atomic_open_at(&f, (struct gt_file_name){ &dir->folder, path }, err);
	if (!rc) {
		/* A failed write leaves its mark on the stream, which the commit reads. */
		fprintf(f.stream, "%s\n", text);
		rc = gt_atomic_commit(&f, err);
	}
	free(text);
	free(path);
	return rc;
}

int gt_run_dir_read_json(
    json_t **out, const struct gt_folder *folder, const char *name, struct gt_err *err)
{
	char *path = gt_folder_path(folder, name, err);
	const struct gt_file_name file = { folder, path };
	void *text = NULL;
	size_t size = 0;
	json_error_t where;
	int fd = -1, rc = path ? 0 : GT_ENOMEM;

	*out = NULL;
	if (rc || !gt_file_exists(file))
		goto out;
	rc = gt_file_open(&fd, file, O_RDONLY, err);
	if (!rc && gt_read_to_end(&text, &size, fd, JSON_BYTES, err))
		rc = gt_err_prefix(err, "'%s'", path);
	if (rc && size > JSON_BYTES)
		rc = gt_err_set(err, GT_EFORMAT, "'%s' is damaged: it has more than %d bytes", path,
		    JSON_BYTES);
	if (rc)
		goto out;
	*out = json_loadb(text ? text : "", size, JSON_ALLOW_NUL, &where);
	if (!*out) {
		gt_err_set(err, GT_EFORMAT, "'%s' is damaged: line %d: %.120s", path, where.line,
		    where.text);
		rc = gt_err_hint(err, "copy it from elsewhere, or take it away");
	}
out:
	if (fd >= 0)
		close(fd);
	free(text);
	free(path);
	return rc;
}

int gt_run_dir_read_config(json_t **out, const struct gt_run_dir *dir, struct gt_err *err)
{
	return gt_run_dir_read_json(out, &dir->folder, GT_RUN_CONFIG, err);
}

bool gt_run_dir_has_metrics(const struct gt_folder *folder)
{
	return !faccessat(folder->fd, GT_RUN_METRICS, F_OK, AT_SYMLINK_NOFOLLOW);
}

static bool has_entry(int folder, const char *name, const char *entry)
{
	char path[NAME_MAX + 32];

	return snprintf(path, sizeof(path), "%s/%s", name, entry) < (int)sizeof(path) &&
	       !faccessat(folder, path, F_OK, AT_SYMLINK_NOFOLLOW);
}

bool gt_run_dir_is_run(int folder, const char *name)
{
	return has_entry(folder, name, GT_RUN_METRICS) ||
	       (has_entry(folder, name, GT_RUN_CONFIG) && has_entry(folder, name, "checkpoints"));
}

/* ---- checkpoints ---- */

static const char *const endings[GT_RUN_FORMS] = { [GT_RUN_FILE] = ".pth", [GT_RUN_SET] = ".dcp" };

enum { NAME_SIZE = 40 };

static void write_name(char name[NAME_SIZE], int64_t step, enum gt_run_form form)
{
	snprintf(name, NAME_SIZE, "step-%08lld%s", (long long)step, endings[form]);
}

char *gt_run_dir_checkpoint(
    const struct gt_run_dir *dir, int64_t step, enum gt_run_form form, struct gt_err *err)
{
	char name[NAME_SIZE];

	write_name(name, step, form);
	return gt_folder_path(&dir->checkpoints, name, err);
}

enum gt_run_form gt_run_dir_form(const struct gt_run_dir *dir, int64_t step)
{
	char name[NAME_SIZE];
	struct stat st;

	write_name(name, step, GT_RUN_FILE);
	if (!fstatat(dir->checkpoints.fd, name, &st, AT_SYMLINK_NOFOLLOW))
		return GT_RUN_FILE;
	write_name(name, step, GT_RUN_SET);
	return fstatat(dir->checkpoints.fd, name, &st, AT_SYMLINK_NOFOLLOW) ? GT_RUN_FILE
	                                                                    : GT_RUN_SET;
}

/* "step-00001000.pth" and "step-00001000.dcp" to 1000; -1 for any other name. */
static int64_t step_of(const char *name)
{
	char again[NAME_SIZE];
	long long step;

	if (sscanf(name, "step-%lld.", &step) != 1 || step < 0)
		return -1;
	for (int form = 0; form < GT_RUN_FORMS; form++) {
		write_name(again, step, form);
		if (!strcmp(name, again))
			return step;
	}
	return -1;
}

static int descending(const void *x, const void *y)
{
	int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;

	return a < b ? 1 : a > b ? -1 : 0;
}

/* Keep one of equal steps, which both forms of a checkpoint have. */
static size_t count_distinct(int64_t *steps, size_t count)
{
	size_t distinct = 0;

	for (size_t i = 0; i < count; i++)
		if (!i || steps[i] != steps[i - 1])
			steps[distinct++] = steps[i];
	return distinct;
}

/* Steps of all checkpoints, newest first. */
static int list_steps(
    const struct gt_folder *folder, int64_t **out, size_t *count, struct gt_err *err)
{
	size_t capacity = 0;
	const char *name;
	int64_t step;
	DIR *d;
	int rc;

	*out = NULL;
	*count = 0;
	if (!folder->path)
		return 0;
	d = gt_folder_list(folder, err);
	if (!d)
		return err->code;
	for (;;) {
		rc = gt_folder_next(&name, folder, d, err);
		if (rc || !name)
			break;
		step = step_of(name);
		if (step < 0)
			continue;
		rc = gt_grow(out, *count, &capacity, sizeof(**out), err);
		if (rc)
			break;
		(*out)[(*count)++] = step;
	}
	closedir(d);
	if (*count)
		qsort(*out, *count, sizeof(**out), descending);
	*count = count_distinct(*out, *count);
	return rc;
}

int gt_run_dir_latest_step(int64_t *step, const struct gt_run_dir *dir, struct gt_err *err)
{
	int64_t *steps = NULL;
	size_t count = 0;
	int rc = list_steps(&dir->checkpoints, &steps, &count, err);

	*step = !rc && count ? steps[0] : -1;
	free(steps);
	return rc;
}

static int find_file(
    bool *found, const struct gt_run_dir *dir, const char *name, struct gt_err *err)
{
	char *path = gt_folder_path(&dir->folder, name, err);

	*found = path && gt_file_exists((struct gt_file_name){ &dir->folder, path });
	free(path);
	return path ? 0 : GT_ENOMEM;
}

int gt_run_dir_has_best(bool *found, const char *path, struct gt_err *err)
{
	struct gt_run_dir dir;
	int rc = gt_run_dir_open(&dir, path, err);

	*found = false;
	if (!rc)
		rc = find_file(found, &dir, "best.pth", err);
	gt_run_dir_close(&dir);
	return rc;
}

/*
 * Check that a new run overwrites no results. It may overwrite
 *
 *   nothing             where no run has been
 *   files of AT_START   of a run that ended before its first step
 *   and of IN_STEPS     if `again`: the same run is started again
 */
static int check_results(const struct gt_run_dir *dir, bool again, struct gt_err *err)
{
	enum written allowed;
	bool is_run;
	int rc = find_file(&is_run, dir, GT_RUN_CONFIG, err);

	allowed = !is_run ? KEPT : again ? IN_STEPS : AT_START;
	for (size_t i = 0; !rc && i < sizeof(files) / sizeof(*files); i++) {
		bool aborted = is_run && files[i].written == IN_STEPS;

		if (files[i].written > allowed)
			rc = check_row(&dir->folder, i, aborted ? NO_RESULT : EMPTY, err);
	}
	return rc;
}

/*
 * Check that the directory has no checkpoints of steps after `step`, the number of steps done when
 * this run begins. Checkpoints of later steps are from an earlier run, but gt_run_dir_prune() and
 * --resume would treat them as checkpoints of this run.
 *
 * If there are no checkpoints at all, also check that the run would not overwrite results of
 * another run, or files that are not from a run. Empty files may be overwritten. If `again` is
 * true, the run in config.json is started again: best.pth, the metrics and the traces may be
 * overwritten, but not the files that a run ends with.
 *
 * Errors: GT_EINVAL if there are later checkpoints; GT_EIO if a file would be overwritten.
 */
int gt_run_dir_check_unused(
    const struct gt_run_dir *dir, int64_t step, bool again, struct gt_err *err)
{
	char name[NAME_SIZE];
	int64_t latest;
	int rc = gt_run_dir_latest_step(&latest, dir, err);

	if (!rc && latest < 0)
		rc = check_results(dir, again, err);
	if (rc || latest <= step)
		return rc;
	gt_err_set(err, GT_EINVAL, "'%s' holds a run that is at step %lld already",
	    dir->folder.path, (long long)latest);
	write_name(name, latest, gt_run_dir_form(dir, latest));
	if (again) /* the run went on from the newest file, which has another step than its name */
		return gt_err_hint(err,
		    "its newest file, '%s', holds step %lld: move it away, or give it the name of its "
		    "step",
		    name, (long long)step);
	return gt_err_hint(err, "{resume} auto goes on with it; another {out} begins anew");
}

int gt_run_dir_remove(
    const struct gt_run_dir *dir, int64_t step, enum gt_run_form form, struct gt_err *err)
{
	char *path = gt_run_dir_checkpoint(dir, step, form, err);
	const struct gt_file_name file = { &dir->checkpoints, path };
	const char *name;
	int folder = path ? gt_file_at(file, &name) : -1, rc = 0;

	if (!path)
		return GT_ENOMEM;
	if (form == GT_RUN_SET)
		rc = gt_new_folder_remove(file, err);
	else if (unlinkat(folder, name, 0) && errno != ENOENT)
		rc = gt_err_sys(err, "cannot remove '%s'", path);
	free(path);
	return rc;
}

int gt_run_dir_prune(const struct gt_run_dir *dir, int64_t keep, struct gt_err *err)
{
	int64_t *steps = NULL;
	size_t count = 0;
	int rc = list_steps(&dir->checkpoints, &steps, &count, err);

	for (size_t i = (size_t)keep; !rc && keep && i < count; i++)
		for (int form = 0; !rc && form < GT_RUN_FORMS; form++)
			rc = gt_run_dir_remove(dir, steps[i], form, err);
	free(steps);
	return rc;
}
