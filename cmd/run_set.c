/* run_set.c - read the runs that a command line names. */
#include "cmd/run_set.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/json_out.h"
#include "lib/base/text.h"

static int add_run(
    struct gt_run_set *set, const char *path, bool listing, struct gt_log *log, struct gt_err *err)
{
	struct gt_run run;
	int rc = gt_run_read(&run, path, err);

	if (rc && rc != GT_ENOMEM && listing) {
		gt_log_warn(log, "%s", err->text);
		*err = GT_ERR_INIT;
		return 0;
	}
	if (!rc && listing)
		gt_run_metrics_release(&run.metrics);
	if (!rc)
		rc = gt_grow(&set->run, set->count, &set->capacity, sizeof(*set->run), err);
	if (!rc)
		set->run[set->count++] = run;
	return rc;
}

static bool has_run(const struct gt_run_set *set, const char *path)
{
	for (size_t i = 0; i < set->count; i++)
		if (!strcmp(set->run[i].path, path))
			return true;
	return false;
}

/* Return the length of a path without the slashes at its end, which completion puts there. */
static int trimmed_length(const char *path)
{
	int length = (int)strlen(path);

	while (length > 1 && path[length - 1] == '/')
		length--;
	return length;
}

static int add_folder(
    struct gt_run_set *set, const char *word, bool listing, struct gt_log *log, struct gt_err *err)
{
	struct gt_run_paths paths = { 0 };
	char *folder = gt_asprintf(err, "%.*s", trimmed_length(word), word);
	int rc = folder ? gt_run_find(&paths, folder, err) : GT_ENOMEM;

	for (size_t i = 0; !rc && i < paths.count; i++)
		if (!has_run(set, paths.path[i]))
			rc = add_run(set, paths.path[i], listing, log, err);
	gt_run_paths_release(&paths);
	free(folder);
	return rc;
}

/* Names begin behind the folder, unless it is itself the run. */
static size_t prefix_of(const struct gt_run_set *set, const char *folder)
{
	size_t length = (size_t)trimmed_length(folder), more = 0;

	for (size_t i = 0; i < set->count; i++) {
		more = strspn(set->run[i].path + length, "/");
		if (!set->run[i].path[length + more])
			return 0;
	}
	return length + more;
}

int gt_run_set_read(struct gt_run_set *out, char *const *folders, int count, bool listing,
    struct gt_log *log, struct gt_err *err)
{
	int rc = 0;

	*out = (struct gt_run_set){ 0 };
	for (int i = 0; !rc && i < count; i++)
		rc = add_folder(out, folders[i], listing, log, err);
	if (!rc && count == 1)
		out->prefix = prefix_of(out, folders[0]);
	return rc;
}

void gt_run_set_release(struct gt_run_set *set)
{
	for (size_t i = 0; i < set->count; i++)
		gt_run_release(&set->run[i]);
	free(set->run);
	*set = (struct gt_run_set){ 0 };
}

const char *gt_run_set_name(const struct gt_run_set *set, size_t i)
{
	return set->run[i].path + set->prefix;
}

/* ---- texts ---- */

const char *gt_run_steps_text(char out[GT_RUN_TEXT], const struct gt_run *run)
{
	if (run->steps > 0)
		snprintf(
		    out, GT_RUN_TEXT, "%lld/%lld", (long long)run->step, (long long)run->steps);
	else
		snprintf(out, GT_RUN_TEXT, "%lld", (long long)run->step);
	return out;
}

const char *gt_run_best_text(char out[GT_RUN_TEXT], const struct gt_run *run)
{
	const struct gt_run_best *b = &run->best;

	if (!b->known)
		snprintf(out, GT_RUN_TEXT, "-");
	else if (b->key == GT_RUN_TOP1)
		snprintf(out, GT_RUN_TEXT, "top-1 %.2f %%", 100 * b->value);
	else
		snprintf(out, GT_RUN_TEXT, "%sloss %.4g", b->val ? "val " : "", b->value);
	return out;
}

const char *gt_run_state_text(char out[GT_RUN_STATE_TEXT], const struct gt_run *run)
{
	const struct gt_run_status *s = &run->status;

	snprintf(out, GT_RUN_STATE_TEXT, "%s%s%s", gt_run_state_names[s->state],
	    *s->reason ? ": " : "", s->reason);
	return out;
}

/* ---- JSON ---- */

static json_t *text_json(const char *text)
{
	return text && *text ? gt_json_string_value(text, strlen(text)) : json_null();
}

/* The time is negative if it is not known. */
static json_t *time_json(double time)
{
	return time < 0 ? json_null() : gt_json_number(time);
}

static json_t *integer_json(int64_t value)
{
	return value < 0 ? json_null() : json_integer((json_int_t)value);
}

static json_t *best_json(const struct gt_run_best *b)
{
	if (!b->known)
		return json_null();
	return json_pack("{s:s,s:s,s:f,s:I}", "split", b->val ? "val" : "train", "key",
	    gt_run_key_names[b->key], "value", b->value, "step", (json_int_t)b->step);
}

static json_t *run_json(const struct gt_run *run, const char *name)
{
	const struct gt_run_status *s = &run->status;

	return json_pack("{s:o,s:o,s:o,s:o,s:I,s:o,s:o,s:o,s:s,s:o,s:o,s:o,s:o,s:o,s:o}", "name",
	    text_json(name), "path", text_json(run->path), "model",
	    text_json(gt_run_option(run, "model")), "data", text_json(gt_run_option(run, "data")),
	    "step", (json_int_t)run->step, "steps", integer_json(run->steps), "best",
	    best_json(&run->best), "time_s", gt_json_number(run->time_s), "state",
	    gt_run_state_names[s->state], "reason", text_json(s->reason), "host",
	    text_json(s->host), "pid", integer_json(s->pid), "exit_status",
	    integer_json(s->exit_status), "started", time_json(s->started), "ended",
	    time_json(s->ended));
}

json_t *gt_run_set_describe(const struct gt_run_set *set)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < set->count; i++)
		if (json_array_append_new(list, run_json(&set->run[i], gt_run_set_name(set, i)))) {
			json_decref(list);
			list = NULL;
		}
	return list;
}
