/* status.c - the observer that writes status.json. */
#include "cmd/train/status.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/json_string.h"
#include "lib/base/option_names.h"
#include "lib/train/run/run_dir.h"
#include "lib/train/run/run_read.h"

/* How a run is going, as status.json says it. */
struct outcome {
	enum gt_run_state state;
	char reason[GT_RUN_REASON]; /* "": none */
	bool ended;
	int exit_status; /* if it has ended */
};

static void write_members(FILE *out, const struct gt_cmd_status *s, const struct outcome *o)
{
	char host[GT_RUN_HOST] = "";

	(void)!gethostname(host, sizeof(host) - 1);
	fprintf(out, "{\"state\": \"%s\", \"reason\": ", gt_run_state_names[o->state]);
	if (*o->reason)
		gt_json_text(out, o->reason);
	else
		fputs("null", out);
	fputs(", \"host\": ", out);
	gt_json_text(out, host);
	fprintf(out, ", \"pid\": %ld, \"started\": %.3f", (long)getpid(), s->started);
	if (o->ended)
		fprintf(out, ", \"ended\": %.3f, \"exit_status\": %d}\n", gt_clock_wall_s(),
		    o->exit_status);
	else
		fputs(", \"ended\": null, \"exit_status\": null}\n", out);
}

static int write_status(const struct gt_cmd_status *s, const struct outcome *o, struct gt_err *err)
{
	char *path = gt_folder_path(s->folder, GT_RUN_STATUS, err);
	const struct gt_file_name file = { s->folder, path };
	struct gt_atomic_file f;
	int rc = path ? gt_atomic_open_at(&f, file, err) : GT_ENOMEM;

	if (!rc) {
		write_members(f.stream, s, o);
		rc = gt_atomic_commit(&f, err);
	}
	free(path);
	return rc;
}

/* A full disk has no space for a new file, but the one that is there can be written over: it is
 * shorter than a block. A crash in between may leave it damaged, which readers take for no file. */
static int overwrite_status(
    const struct gt_cmd_status *s, const struct outcome *o, struct gt_err *err)
{
	int fd = openat(s->folder->fd, GT_RUN_STATUS, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	char *text = NULL;
	size_t size = 0;
	FILE *stream = fd < 0 ? NULL : open_memstream(&text, &size);
	int rc = 0;

	if (stream) {
		write_members(stream, s, o);
		if (fclose(stream) || pwrite(fd, text, size, 0) != (ssize_t)size ||
		    ftruncate(fd, (off_t)size))
			rc = gt_err_sys(err, "cannot write '%s'", GT_RUN_STATUS);
	} else {
		rc = gt_err_sys(err, "cannot write '%s'", GT_RUN_STATUS);
	}
	free(text);
	if (fd >= 0)
		close(fd);
	return rc;
}

static int start_status(void *self, const struct gt_start_report *r, struct gt_err *err)
{
	struct gt_cmd_status *s = self;

	s->folder = r->dir;
	s->started = gt_clock_wall_s();
	return write_status(s, &(struct outcome){ .state = GT_RUN_RUNNING }, err);
}

/* The run was asked to stop: by a signal, or by a rank that got one or lost its launcher. */
static void describe_stop(struct outcome *o, const struct gt_stop *stop)
{
	const int asked = stop->asked;

	o->state = GT_RUN_STOPPED;
	o->exit_status = asked ? GT_EXIT_SIGNAL + asked : GT_EXIT_DONE;
	if (asked)
		snprintf(o->reason, GT_RUN_REASON, "SIG%s", sigabbrev_np(asked));
	else
		snprintf(o->reason, GT_RUN_REASON, "another rank was asked to stop, or was lost");
}

static void describe_end(struct outcome *o, const struct gt_cmd_status *s, int rc)
{
	*o = (struct outcome){ .state = GT_RUN_DONE, .ended = true };
	if (rc) {
		o->state = GT_RUN_FAILED;
		o->exit_status = gt_cmd_exit_status(s->failure);
		gt_option_names_render(o->reason, GT_RUN_REASON, s->failure->text, GT_CMD_OPTION);
	} else if (s->result->stopped) {
		describe_stop(o, s->stop);
	} else if (s->result->ended) {
		snprintf(o->reason, GT_RUN_REASON, "no better evaluation in the last %lld",
		    (long long)s->patience);
	}
}

/* Return whether the run directory was removed: a warning about another file, or an error, says
 * so. */
static bool is_removed(const struct gt_folder *folder)
{
	struct stat st;

	return !fstat(folder->fd, &st) && !st.st_nlink;
}

static int end_status(void *self, int rc, struct gt_err *err)
{
	struct gt_cmd_status *s = self;
	struct gt_err failed = GT_ERR_INIT;
	struct outcome o;

	(void)err;
	describe_end(&o, s, rc);
	if (write_status(s, &o, &failed) && overwrite_status(s, &o, GT_ERR_IGNORED) &&
	    !is_removed(s->folder))
		gt_log_warn(s->log, "%s", failed.text);
	return 0;
}

struct gt_observer gt_cmd_status_observer(struct gt_cmd_status *s)
{
	return (struct gt_observer){ .self = s, .start = start_status, .end = end_status };
}
