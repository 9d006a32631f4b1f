/* run_dir.c - the files of a run. */
#include "lib/train/run_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
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

/* "step-00001000.pth.tmp-4711-0", "config.json.tmp-...": what a killed run was writing. */
static bool is_leftover(const char *name)
{
	const char *tmp = strstr(name, ".tmp-");
	size_t digits = tmp ? strspn(tmp + 5, "0123456789-") : 0;

	return digits && tmp[5 + digits] == '\0';
}

/* Only the holder of the lock may do this: nobody else is writing then. */
static void remove_leftovers(const char *folder)
{
	DIR *d = opendir(folder);
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (is_leftover(e->d_name))
			unlinkat(dirfd(d), e->d_name, 0);
	if (d)
		closedir(d);
}

/* The lock goes with the process, however that ends. Where there are no locks (some network file
 * systems) it does without. Somebody who only looks has it for a moment. */
static int take_lock(const char *dir, int *lock, struct gt_err *err)
{
	const struct timespec moment = { .tv_nsec = 10000000 };
	bool taken = true;

	*lock = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (*lock < 0)
		return gt_err_sys(err, "cannot open '%s'", dir);
	for (int i = 0; taken && i < 5; i++) {
		if (i)
			nanosleep(&moment, NULL);
		if (!flock(*lock, LOCK_EX | LOCK_NB))
			return 0;
		taken = errno == EWOULDBLOCK;
	}
	close(*lock);
	*lock = -1;
	return taken ? gt_err_set(err, GT_EIO, "another run is writing into '%s'", dir) : 0;
}

/* Other programs, too, keep a config.json beside their weights: ours says what was trained on
 * what. */
static bool is_run(const char *dir)
{
	char *path = NULL;
	json_t *config;
	bool run;

	if (asprintf(&path, "%s/config.json", dir) < 0)
		return false;
	config = json_load_file(path, 0, NULL);
	run = json_is_string(json_object_get(config, "model")) &&
	      json_is_string(json_object_get(config, "data"));
	json_decref(config);
	free(path);
	return run;
}

/* A config.json that is not ours would be overwritten. */
static int check_foreign(const char *dir, struct gt_err *err)
{
	char *path = gt_asprintf(err, "%s/config.json", dir);
	int rc = path ? 0 : GT_ENOMEM;

	if (!rc && !access(path, F_OK) && !is_run(dir))
		rc = gt_err_set(err, GT_EIO, "'%s' is there already and belongs to no run", path);
	free(path);
	return rc;
}

static int hint_out(struct gt_err *err)
{
	return gt_err_hint(err, "--out names the directory of the run");
}

int gt_run_dir_check(const char *dir, struct gt_err *err)
{
	int lock = -1, rc = check_foreign(dir, err);

	if (!rc && !access(dir, F_OK))
		rc = take_lock(dir, &lock, err);
	if (lock >= 0)
		close(lock);
	return rc ? hint_out(err) : 0;
}

int gt_run_dir_create(const char *dir, int *lock, struct gt_err *err)
{
	char *checkpoints = gt_asprintf(err, "%s/checkpoints", dir);
	int rc;

	*lock = -1;
	if (!checkpoints)
		return GT_ENOMEM;
	rc = check_foreign(dir, err);
	if (!rc)
		rc = gt_make_dirs(checkpoints, err);
	if (!rc && access(checkpoints, W_OK))
		rc = gt_err_sys(err, "cannot write into '%s'", dir);
	if (!rc)
		rc = take_lock(dir, lock, err);
	if (rc)
		hint_out(err);
	if (!rc && *lock >= 0) {
		remove_leftovers(dir);
		remove_leftovers(checkpoints);
	}
	free(checkpoints);
	return rc;
}

int gt_run_dir_write_config(const char *dir, const json_t *config, struct gt_err *err)
{
	char *path = gt_asprintf(err, "%s/config.json", dir);
	struct gt_atomic_file f;
	int rc;

	if (!path)
		return GT_ENOMEM;
	rc = gt_atomic_open(&f, path, err);
	if (!rc && json_dumpf(config, f.stream, JSON_INDENT(2))) {
		rc = gt_err_sys(err, "cannot write '%s'", path);
		gt_atomic_abandon(&f);
	} else if (!rc) {
		fputc('\n', f.stream);
		rc = gt_atomic_commit(&f, err);
	}
	free(path);
	return rc;
}

char *gt_run_dir_checkpoint(const char *dir, int64_t step, struct gt_err *err)
{
	return gt_asprintf(err, "%s/checkpoints/step-%08lld.pth", dir, (long long)step);
}

/* "step-00001000.pth" to 1000; -1 for any other name. */
static int64_t step_of(const char *name)
{
	char again[40];
	long long step;

	if (sscanf(name, "step-%lld.pth", &step) != 1 || step < 0)
		return -1;
	snprintf(again, sizeof(again), "step-%08lld.pth", step);
	return strcmp(name, again) ? -1 : step;
}

static int descending(const void *x, const void *y)
{
	int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;

	return a < b ? 1 : a > b ? -1 : 0;
}

/* Steps of all checkpoints, newest first. */
static int list_steps(const char *folder, int64_t **out, size_t *count, struct gt_err *err)
{
	size_t capacity = 0;
	struct dirent *e;
	int64_t step;
	DIR *d = opendir(folder);
	int rc = 0;

	*out = NULL;
	*count = 0;
	if (!d)
		return errno == ENOENT ? 0 : gt_err_sys(err, "cannot read '%s'", folder);
	while (!rc && (e = readdir(d))) {
		step = step_of(e->d_name);
		if (step < 0)
			continue;
		rc = gt_grow(out, *count, &capacity, sizeof(**out), err);
		if (!rc)
			(*out)[(*count)++] = step;
	}
	closedir(d);
	if (*count)
		qsort(*out, *count, sizeof(**out), descending);
	return rc;
}

int gt_run_dir_latest_step(int64_t *step, const char *dir, struct gt_err *err)
{
	char *folder = gt_asprintf(err, "%s/checkpoints", dir);
	int64_t *steps = NULL;
	size_t count = 0;
	int rc = GT_ENOMEM;

	if (folder)
		rc = list_steps(folder, &steps, &count, err);
	*step = !rc && count ? steps[0] : -1;
	free(steps);
	free(folder);
	return rc;
}

int gt_run_dir_latest(char **out, const char *dir, struct gt_err *err)
{
	int64_t step;
	int rc = gt_run_dir_latest_step(&step, dir, err);

	*out = NULL;
	if (rc || step < 0)
		return rc;
	*out = gt_run_dir_checkpoint(dir, step, err);
	return *out ? 0 : GT_ENOMEM;
}

int gt_run_dir_prune(const char *dir, int64_t keep, struct gt_err *err)
{
	char *folder = gt_asprintf(err, "%s/checkpoints", dir);
	int64_t *steps = NULL;
	size_t count = 0;
	int rc = GT_ENOMEM;

	if (folder)
		rc = list_steps(folder, &steps, &count, err);
	for (size_t i = (size_t)keep; !rc && keep && i < count; i++) {
		char *path = gt_run_dir_checkpoint(dir, steps[i], err);

		if (!path)
			rc = GT_ENOMEM;
		else if (unlink(path) && errno != ENOENT)
			rc = gt_err_sys(err, "cannot remove '%s'", path);
		free(path);
	}
	free(steps);
	free(folder);
	return rc;
}

/* Take the last component off; "." where there was none. */
static void go_up(char *path)
{
	char *slash = strrchr(path, '/');

	if (slash)
		slash[slash == path] = '\0';
	else
		strcpy(path, ".");
}

/* The run directory that a checkpoint file belongs to: the one it lies in, or the one above if that
 * is called checkpoints/. *out is NULL if there is none. */
static int run_of(char **out, const char *file, struct gt_err *err)
{
	char *dir = gt_calloc(strlen(file) + 2, 1, err);
	const char *slash;

	*out = NULL;
	if (!dir)
		return GT_ENOMEM;
	strcpy(dir, file);
	go_up(dir);
	slash = strrchr(dir, '/');
	if (!strcmp(slash ? slash + 1 : dir, "checkpoints"))
		go_up(dir);
	if (is_run(dir))
		*out = dir;
	else
		free(dir);
	return 0;
}

/* The newest checkpoint of a run directory, else its model.pth. */
static int newest_of(char **file, const char *dir, struct gt_err *err)
{
	int rc = gt_run_dir_latest(file, dir, err);

	if (rc || *file)
		return rc;
	*file = gt_asprintf(err, "%s/model.pth", dir);
	if (!*file)
		return GT_ENOMEM;
	if (!access(*file, R_OK))
		return 0;
	free(*file);
	*file = NULL;
	gt_err_set(err, GT_EIO, "'%s' holds no checkpoint", dir);
	return gt_err_hint(err, "a run directory has checkpoints/step-N.pth or model.pth");
}

int gt_run_dir_resolve(char **file, char **dir, const char *argument, struct gt_err *err)
{
	char *found = NULL;
	struct stat st;
	int rc;

	*file = NULL;
	if (dir)
		*dir = NULL;
	if (stat(argument, &st))
		return gt_err_sys(err, "cannot open the checkpoint '%s'", argument);
	if (S_ISDIR(st.st_mode)) {
		rc = newest_of(file, argument, err);
		found = rc ? NULL : gt_strdup(argument, err);
		if (!rc && !found)
			rc = GT_ENOMEM;
	} else {
		rc = run_of(&found, argument, err);
		*file = rc ? NULL : gt_strdup(argument, err);
		if (!rc && !*file)
			rc = GT_ENOMEM;
	}
	if (rc) {
		free(*file);
		*file = NULL;
	}
	if (dir && !rc)
		*dir = found;
	else
		free(found);
	return rc;
}
