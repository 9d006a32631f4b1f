/* run_read.c - read the options and the state of a run. */
#include "lib/train/run/run_read.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/mem.h"
#include "lib/train/run/run_dir.h"

const char *const gt_run_state_names[GT_RUN_STATES] = { "running", "done", "stopped", "failed" };

/* ---- files ---- */

static void read_config(struct gt_run *run, const struct gt_folder *folder)
{
	struct gt_err err = GT_ERR_INIT;

	if (!gt_run_dir_read_json(&run->config, folder, GT_RUN_CONFIG, &err) && !run->config)
		gt_err_set(&err, GT_EFORMAT, "there is no " GT_RUN_CONFIG);
	else if (run->config && !json_is_object(run->config))
		gt_err_set(
		    &err, GT_EFORMAT, "'" GT_RUN_CONFIG "' is damaged: it is no JSON object");
	if (!err.code)
		return;
	snprintf(run->damaged, sizeof(run->damaged), "%s", err.text);
	json_decref(run->config);
	run->config = NULL;
}

const char *gt_run_option(const struct gt_run *run, const char *name)
{
	return json_string_value(json_object_get(run->config, name));
}

/* ---- state ---- */

static void copy_text(char *out, size_t size, const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	snprintf(out, size, "%s", text ? text : "");
}

static int64_t integer_or(const json_t *object, const char *key, int64_t otherwise)
{
	const json_t *value = json_object_get(object, key);

	return json_is_integer(value) ? (int64_t)json_integer_value(value) : otherwise;
}

static double time_or(const json_t *object, const char *key, double otherwise)
{
	const json_t *value = json_object_get(object, key);

	return json_is_number(value) && json_number_value(value) >= 0 ? json_number_value(value)
	                                                              : otherwise;
}

/* Return whether a file exists and is not older than the metrics. */
static bool is_newer_than_metrics(const struct gt_folder *folder, const char *name)
{
	const int flags = AT_SYMLINK_NOFOLLOW;
	struct stat file, metrics;

	return !fstatat(folder->fd, name, &file, flags) && S_ISREG(file.st_mode) &&
	       !fstatat(folder->fd, GT_RUN_METRICS, &metrics, flags) &&
	       (file.st_mtim.tv_sec > metrics.st_mtim.tv_sec ||
	           (file.st_mtim.tv_sec == metrics.st_mtim.tv_sec &&
	               file.st_mtim.tv_nsec >= metrics.st_mtim.tv_nsec));
}

/* Return whether the last line of training is of the last epoch. */
static bool is_in_last_epoch(const struct gt_run *run)
{
	const struct gt_run_points *p = &run->metrics.train;
	int64_t epochs = integer_or(run->config, "epochs", -1);

	return epochs > 0 && p->count &&
	       gt_run_value(p, GT_RUN_EPOCH, p->count - 1) >= (double)(epochs - 1);
}

/* The state of a run that left no status. A run also writes model.pth when it is asked to stop, so
 * the file alone does not tell. */
static enum gt_run_state guess_state(const struct gt_run *run, const struct gt_folder *folder)
{
	bool done = run->steps > 0
	                ? run->step >= run->steps
	                : is_in_last_epoch(run) && is_newer_than_metrics(folder, "model.pth");

	return done ? GT_RUN_DONE : GT_RUN_STOPPED;
}

/* A status "running" is stale if its process is gone, which the lock tells on its own host. */
static void apply_state(struct gt_run_status *s, const char *state, bool locked)
{
	char host[GT_RUN_HOST] = "";

	gethostname(host, sizeof(host) - 1);
	for (int i = 0; i < GT_RUN_STATES; i++)
		if (!strcmp(state, gt_run_state_names[i]))
			s->state = (enum gt_run_state)i;
	if (locked) {
		s->state = GT_RUN_RUNNING;
		s->reason[0] = '\0';
	} else if (s->state == GT_RUN_RUNNING && (!*s->host || !strcmp(host, s->host))) {
		s->state = GT_RUN_STOPPED;
		snprintf(s->reason, sizeof(s->reason), "the process ended without a status");
	}
}

static void read_status(struct gt_run *run, const struct gt_folder *folder)
{
	struct gt_run_status *s = &run->status;
	const char *state;
	json_t *object = NULL;

	*s = (struct gt_run_status){ .pid = -1, .exit_status = -1, .started = -1, .ended = -1 };
	gt_run_dir_read_json(&object, folder, GT_RUN_STATUS, GT_ERR_IGNORED);
	state = json_string_value(json_object_get(object, "state"));
	s->state = guess_state(run, folder);
	if (json_is_object(object)) {
		copy_text(s->reason, sizeof(s->reason), object, "reason");
		copy_text(s->host, sizeof(s->host), object, "host");
		s->pid = integer_or(object, "pid", -1);
		s->exit_status = integer_or(object, "exit_status", -1);
		s->started = time_or(object, "started", -1);
		s->ended = time_or(object, "ended", -1);
	}
	if (s->started < 0 && run->metrics.train.count)
		s->started = fmax(gt_run_value(&run->metrics.train, GT_RUN_WALL_TIME, 0), -1);
	apply_state(s, state ? state : "", gt_run_dir_is_locked(folder));
	json_decref(object);
}

/* ---- figures ---- */

/* Return whether row `i` is better than the best so far; of equal accuracies, the lower loss is. */
static bool is_better(
    const struct gt_run_best *best, const struct gt_run_points *p, size_t i, double best_loss)
{
	double value = gt_run_value(p, best->key, i);

	if (!isfinite(value) || !best->known)
		return isfinite(value);
	if (!best->highest || value != best->value)
		return best->highest ? value > best->value : value < best->value;
	return gt_run_value(p, GT_RUN_LOSS, i) < best_loss;
}

static void find_best(struct gt_run_best *best, const struct gt_run_points *p)
{
	double loss = NAN;

	for (size_t i = 0; i < p->count; i++) {
		if (!is_better(best, p, i, loss))
			continue;
		best->known = true;
		best->value = gt_run_value(p, best->key, i);
		best->step = p->step[i];
		loss = gt_run_value(p, GT_RUN_LOSS, i);
	}
}

/* Training keeps the weights of the evaluation that is the best by the same number: the top-1
 * accuracy, but the loss for text and where there is no accuracy. */
static void set_best(struct gt_run *run)
{
	const struct gt_run_metrics *m = &run->metrics;
	bool text = gt_run_has(&m->train, GT_RUN_TOKENS_PER_S);
	struct gt_run_best *best = &run->best;

	best->val = true;
	best->highest = !text && gt_run_has(&m->val, GT_RUN_TOP1);
	best->key = best->highest ? GT_RUN_TOP1 : GT_RUN_LOSS;
	find_best(best, &m->val);
	if (best->known)
		return;
	*best = (struct gt_run_best){ .key = GT_RUN_LOSS };
	find_best(best, &m->train);
}

static double last_time(const struct gt_run_points *p)
{
	return p->count ? gt_run_value(p, GT_RUN_TIME_S, p->count - 1) : NAN;
}

static void set_figures(struct gt_run *run)
{
	const struct gt_run_points *train = &run->metrics.train, *val = &run->metrics.val;
	int64_t steps = integer_or(run->config, "steps", -1);

	run->steps = steps > 0 ? steps : -1;
	run->step = train->count ? train->step[train->count - 1] : 0;
	if (val->count && val->step[val->count - 1] > run->step)
		run->step = val->step[val->count - 1];
	run->time_s = fmax(last_time(train), last_time(val));
	set_best(run);
}

/* ---- a run ---- */

/* Return whether the folder has the files of a run: a config.json with a model and data, or
 * metrics.jsonl beside one that is damaged. */
static bool is_run(const struct gt_folder *folder, const json_t *config)
{
	return gt_run_dir_is_config(config) || (!config && gt_run_dir_has_metrics(folder));
}

int gt_run_read(struct gt_run *out, const char *path, struct gt_err *err)
{
	struct gt_folder folder;
	int rc = gt_folder_open(&folder, path, err);

	*out = (struct gt_run){ 0 };
	if (rc)
		return rc;
	out->path = gt_strdup(path, err);
	rc = out->path ? 0 : GT_ENOMEM;
	if (!rc)
		read_config(out, &folder);
	if (!rc && !is_run(&folder, out->config)) {
		gt_err_set(err, GT_EIO, "'%s' is not a run directory", path);
		rc = gt_err_hint(err, "'gtrain runs DIR' lists the run directories below DIR");
	}
	if (!rc)
		rc = gt_run_metrics_read(&out->metrics, &folder, err);
	if (!rc) {
		set_figures(out);
		read_status(out, &folder);
	}
	gt_folder_close(&folder);
	if (rc)
		gt_run_release(out);
	return rc;
}

void gt_run_release(struct gt_run *run)
{
	gt_run_metrics_release(&run->metrics);
	json_decref(run->config);
	free(run->path);
	*run = (struct gt_run){ 0 };
}
