/* launch_fixture.h - jobs of shell scripts, started by a process of their own. */
#ifndef TESTS_UNIT_LAUNCH_FIXTURE_H
#define TESTS_UNIT_LAUNCH_FIXTURE_H

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/base/clock.h"
#include "lib/comm/launch/launch.h"

/* A folder of its own for each job: out, err, log/rank-N.log, and whatever scripts write. */
struct job {
	char folder[64];
	pid_t launcher;
	int report; /* a pipe from the launcher's process */
	double started_s;
};

struct outcome {
	int rc;
	struct gt_launch_end ended;
	bool childless; /* no process is left that the launcher should have reaped */
	char text[480];
};

struct plan {
	int nproc, max_restarts, columns;
	double cause_s;
	const char *script; /* for sh, in the job's folder; NULL: this program as a rank */
	bool no_logs;
	const char *program; /* in place of sh */
	const char *log_dir; /* in place of log */
};

static inline void rest(double seconds)
{
	struct timespec ts = { (time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds)) };

	nanosleep(&ts, NULL);
}

/* The launcher's process: the signals and children of the test are none of its business. */
static inline void launch(const struct plan *plan, int report)
{
	char *shell[] = { "sh", "-c", (char *)plan->script, NULL };
	char *self[] = { realpath("/proc/self/exe", NULL), "rank", NULL };
	struct gt_log log = { .stream = fopen("err", "w"), .level = GT_LOG_NORMAL };
	struct gt_folder logs;
	struct gt_launch_options options = { .nproc = plan->nproc,
		.program = !plan->script ? self[0] : plan->program ?: "/bin/sh",
		.argv = plan->script ? shell : self,
		.log_dir = plan->no_logs ? NULL : &logs,
		.max_restarts = plan->max_restarts,
		.cause_s = plan->cause_s,
		.log = &log,
		.columns = plan->columns };
	struct outcome o = { 0 };
	struct gt_err err = GT_ERR_INIT;
	int out = open("out", O_WRONLY | O_CREAT | O_CLOEXEC, 0666);

	if (mkdir("log", 0777) || gt_folder_open(&logs, plan->log_dir ?: "log", &err))
		exit(1);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nothing behind either */
	dup2(out, STDOUT_FILENO);
	o.rc = gt_launch(&o.ended, &options, &err);
	o.childless = waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD;
	strcpy(o.text, err.text);
	close(out);
	fclose(log.stream);
	exit(write(report, &o, sizeof(o)) != sizeof(o));
}

static inline struct job begin(const struct plan *plan)
{
	struct job job = { .folder = "/tmp/gtrain-launch-XXXXXX" };
	int pair[2];

	assert_non_null(mkdtemp(job.folder));
	assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	fflush(NULL);
	job.started_s = gt_clock_s();
	job.launcher = fork();
	if (!job.launcher) {
		if (chdir(job.folder))
			exit(1);
		launch(plan, pair[1]);
	}
	assert_true(job.launcher > 0);
	close(pair[1]);
	job.report = pair[0];
	return job;
}

static inline struct outcome end(const struct job *job)
{
	struct outcome o = { .rc = 1 };
	int status;

	assert_int_equal(read(job->report, &o, sizeof(o)), sizeof(o));
	close(job->report);
	assert_int_equal(waitpid(job->launcher, &status, 0), job->launcher);
	assert_true(status == 0 && o.childless);
	return o;
}

/* The content of a file of the job's folder; NULL if it isn't there. Good until the next call. */
static inline const char *text_of(const struct job *job, const char *name)
{
	static char text[1 << 17];
	char path[128];
	FILE *file;
	size_t n;

	snprintf(path, sizeof(path), "%s/%s", job->folder, name);
	file = fopen(path, "re");
	if (!file)
		return NULL;
	n = fread(text, 1, sizeof(text) - 1, file);
	text[n] = '\0';
	fclose(file);
	return text;
}

static inline void await_file(const struct job *job, const char *name)
{
	for (int i = 0; i < 1000; i++) {
		const char *text = text_of(job, name);

		if (text && strchr(text, '\n'))
			return;
		rest(0.005);
	}
	fail_msg("%s/%s does not come", job->folder, name);
}

/* 'R', 'S', 'T', ... as the kernel has it; 'X' when it is gone. */
static inline char state_of(int pid)
{
	char path[64], state = 'X';
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "re");
	if (!file)
		return state;
	if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
		state = 'X';
	fclose(file);
	return state;
}

/* A zombie is somebody else's to reap. */
static inline bool runs(int pid)
{
	return !strchr("ZX", state_of(pid));
}

/* None of the processes whose numbers are in the file `pids` is there any more, or soon. */
static inline void nothing_is_left(const struct job *job)
{
	const char *text = text_of(job, "pids");

	for (const char *p = text ? text : ""; *p;) {
		char *next;
		int pid = (int)strtol(p, &next, 10);

		for (int i = 0; i < 400 && runs(pid); i++)
			rest(0.005);
		if (runs(pid))
			fail_msg("process %d is left", pid);
		p = next + strspn(next, " \n");
	}
}

static inline void clean(const struct job *job)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", job->folder);
	assert_int_equal(system(command), 0);
}

static inline void expect_text(
    const struct job *job, const char *name, const char *part, bool there)
{
	const char *text = text_of(job, name);

	if ((text && strstr(text, part) != NULL) != there)
		fail_msg("%s: '%s' is%s there: %s", name, part, there ? " not" : "",
		    text ? text : "(no file)");
}

#endif
