/* start.c - from a description of a job to its running ranks. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/mem.h"
#include "lib/base/thread_pool.h"
#include "lib/comm/launch/job.h"

enum { SECRET_BYTES = 32 };

/* The settings that all ranks of one start share. */
struct start {
	const struct gt_launch *launch;
	struct gt_share *share; /* [nproc] */
	int listen_fd, port;
	int nothing; /* /dev/null */
	char secret[2 * SECRET_BYTES + 1];
	pid_t launcher;
};

/* A descriptor of 0, 1 and 2 that is closed must not become a pipe to a rank. */
static int keep_clear(int fd)
{
	int high;

	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	high = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	close(fd);
	return high;
}

/* Rank 0's socket, on a free port of the loopback interface. */
static int open_listener(struct start *s, struct gt_err *err)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(address);

	s->listen_fd = keep_clear(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
	if (s->listen_fd < 0 || bind(s->listen_fd, (struct sockaddr *)&address, size) ||
	    listen(s->listen_fd, SOMAXCONN) ||
	    getsockname(s->listen_fd, (struct sockaddr *)&address, &size))
		return gt_err_sys(err, "cannot listen on 127.0.0.1");
	s->port = ntohs(address.sin_port);
	return 0;
}

static int make_secret(struct start *s, struct gt_err *err)
{
	unsigned char bytes[SECRET_BYTES];
	ssize_t n;

	do
		n = getrandom(bytes, sizeof(bytes), 0);
	while (n < 0 && errno == EINTR);
	if (n != sizeof(bytes))
		return gt_err_sys(err, "no random numbers");
	for (int i = 0; i < SECRET_BYTES; i++)
		snprintf(s->secret + 2 * i, 3, "%02x", bytes[i]);
	return 0;
}

/* Turn the child of fork() into a rank; on failure write errno to `report`. Only calls that are
 * safe between fork() and exec() are made here. */
_Noreturn static void become(
    const struct start *s, int rank, char **env, int error_pipe, int report)
{
	const struct gt_launch *l = s->launch;
	const struct gt_share *share = &s->share[rank];

	/* The launcher may have died before the first call: then its death will send nothing. */
	if (!prctl(PR_SET_PDEATHSIG, SIGKILL) && getppid() == s->launcher && !setpgid(0, 0) &&
	    dup2(s->nothing, STDIN_FILENO) >= 0 &&
	    (!rank || dup2(s->nothing, STDOUT_FILENO) >= 0) &&
	    dup2(error_pipe, STDERR_FILENO) >= 0 && (rank || !fcntl(s->listen_fd, F_SETFD, 0)) &&
	    (!share->bound || !sched_setaffinity(0, sizeof(share->set), &share->set)) &&
	    !sigprocmask(SIG_SETMASK, &l->old_mask, NULL))
		execve(l->options->program, l->options->argv, env);
	(void)!write(report, &errno, sizeof(errno));
	_exit(127);
}

/* The same for ssh, which runs the rank on another host. */
_Noreturn static void become_ssh(
    const struct start *s, int rank, char **argv, int input, int error_pipe, int report)
{
	if (!prctl(PR_SET_PDEATHSIG, SIGKILL) && getppid() == s->launcher && !setpgid(0, 0) &&
	    dup2(input, STDIN_FILENO) >= 0 && (!rank || dup2(s->nothing, STDOUT_FILENO) >= 0) &&
	    dup2(error_pipe, STDERR_FILENO) >= 0 &&
	    !sigprocmask(SIG_SETMASK, &s->launch->old_mask, NULL))
		execvp(argv[0], argv);
	(void)!write(report, &errno, sizeof(errno));
	_exit(127);
}

int gt_launch_read_report(struct gt_launch *l, int rank, struct gt_err *err)
{
	const struct gt_launch_options *o = l->options;
	struct gt_launched *r = &l->rank[rank];
	int failed = 0;
	ssize_t n;

	if (r->report < 0)
		return 0;
	n = read(r->report, &failed, sizeof(failed));
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	close(r->report);
	r->report = -1;
	errno = n == sizeof(failed) ? failed : 0;
	if (!errno)
		return 0;
	return gt_err_sys(
	    err, "cannot start rank %d, '%s'", rank, o->host_count ? o->ssh[0] : o->program);
}

static int open_log(
    struct gt_lines *lines, const struct gt_folder *folder, int rank, struct gt_err *err)
{
	char *path = gt_asprintf(err, "%s/rank-%d.log", folder->path, rank);
	const struct gt_file_name file = { folder, path };
	int fd = -1;

	if (!path || gt_file_open(&fd, file, O_WRONLY | O_CREAT | O_APPEND, err)) {
		free(path);
		return err->code;
	}
	lines->to = keep_clear(fd);
	if (lines->to < 0)
		gt_err_sys(err, "cannot write '%s'", path);
	free(path);
	return lines->to < 0 ? err->code : 0;
}

static int open_lines(
    struct gt_lines *lines, int *write_end, const struct gt_launch *l, int rank, struct gt_err *err)
{
	const struct gt_launch_options *o = l->options;
	int pair[2];

	memset(lines, 0, sizeof(*lines));
	lines->from = lines->to = -1;
	lines->log = o->log;
	lines->show = !rank || (!o->log_dir && !o->rank_0_prints) ? o->log : NULL;
	lines->may_draw = !rank && o->columns;
	if (rank)
		snprintf(lines->before, sizeof(lines->before), "rank %d: ", rank);
	if (o->log_dir && open_log(lines, o->log_dir, rank, err))
		return err->code;
	if (pipe2(pair, O_CLOEXEC))
		return gt_err_sys(err, "no pipe for rank %d", rank);
	lines->from = keep_clear(pair[0]);
	*write_end = keep_clear(pair[1]);
	if (lines->from < 0 || *write_end < 0 || fcntl(lines->from, F_SETFL, O_NONBLOCK))
		return gt_err_sys(err, "no pipe for rank %d", rank);
	return 0;
}

/* For a rank on another host `env` holds the words of ssh, and `input` is not negative.
 *
 * The launcher does not wait for the child's exec(), which may take as long as a file system does
 * to answer: gt_launch_watch() reads the report while it also takes signals. */
static int spawn(
    const struct start *s, int rank, char **env, int input, int error_pipe, struct gt_err *err)
{
	struct gt_launched *launched = &s->launch->rank[rank];
	int report[2], failed;

	if (pipe2(report, O_CLOEXEC | O_NONBLOCK))
		return gt_err_sys(err, "no pipe for rank %d", rank);
	report[1] = keep_clear(report[1]);
	launched->report = keep_clear(report[0]);
	launched->pid = fork();
	if (!launched->pid && input >= 0)
		become_ssh(s, rank, env, input, error_pipe, report[1]);
	if (!launched->pid)
		become(s, rank, env, error_pipe, report[1]);
	failed = errno;
	close(report[1]);
	if (launched->pid > 0) {
		/* The child does so, too. Whoever is first, signals to its process group reach it
		 * from here on. */
		setpgid(launched->pid, launched->pid);
		return 0;
	}
	launched->pid = 0;
	return gt_thread_fail(
	    err, failed, "cannot start rank %d, '%s'", rank, s->launch->options->program);
}

static int start_rank(const struct start *s, int rank, struct gt_err *err)
{
	const struct gt_launch *l = s->launch;
	const struct gt_rank_env variables = { .rank = rank,
		.size = l->options->nproc,
		.port = s->port,
		.restart = l->restart,
		.listen_fd = s->listen_fd,
		.threads = s->share[rank].threads,
		.columns = l->options->columns,
		.secret = s->secret };
	char **env = gt_launch_environment(&variables, err);
	int error_pipe = -1;
	int rc = env ? open_lines(&l->rank[rank].lines, &error_pipe, l, rank, err) : err->code;

	if (!rc)
		rc = spawn(s, rank, env, -1, error_pipe, err);
	if (error_pipe >= 0)
		close(error_pipe);
	gt_launch_free_environment(env);
	return rc;
}

/* ---- ranks on other hosts ---- */

/* The words of ssh, which the caller frees as an environment. */
static char **ssh_words(const struct start *s, int rank, struct gt_err *err)
{
	const struct gt_launch_options *o = s->launch->options;
	struct gt_remote_rank r = { .rank = rank, .port = s->port, .restart = s->launch->restart };
	size_t count = 0;
	char **words;

	gt_launch_find_remote(&r, o);
	while (o->ssh[count])
		count++;
	words = gt_calloc(count + 3, sizeof(*words), err);
	if (!words)
		return NULL;
	for (size_t i = 0; i < count; i++)
		words[i] = gt_strdup(o->ssh[i], err);
	words[count] = gt_strdup(o->hosts[r.host].name, err);
	words[count + 1] = gt_launch_remote_command(o, &r, err);
	if (!err->code)
		return words;
	gt_launch_free_environment(words);
	return NULL;
}

/* The write end stays open: its end asks the rank to end. */
static int open_input(int *read_end, int *write_end, const char *secret, struct gt_err *err)
{
	int pair[2];

	if (pipe2(pair, O_CLOEXEC))
		return gt_err_sys(err, "no pipe for a rank");
	*read_end = keep_clear(pair[0]);
	*write_end = keep_clear(pair[1]);
	if (*read_end < 0 || *write_end < 0 || dprintf(*write_end, "%s\n", secret) < 0)
		return gt_err_sys(err, "no pipe for a rank");
	return 0;
}

static int start_remote_rank(const struct start *s, int rank, struct gt_err *err)
{
	struct gt_launched *launched = &s->launch->rank[rank];
	char **words = ssh_words(s, rank, err);
	int error_pipe = -1, input = -1;
	int rc = words ? 0 : GT_ENOMEM;

	if (!rc)
		rc = open_input(&input, &launched->input, s->secret, err);
	if (!rc)
		rc = open_lines(&launched->lines, &error_pipe, s->launch, rank, err);
	if (!rc)
		rc = spawn(s, rank, words, input, error_pipe, err);
	if (input >= 0)
		close(input);
	if (error_pipe >= 0)
		close(error_pipe);
	gt_launch_free_environment(words);
	return rc;
}

/* A port of the first host that no system gives to connections by itself, another one for each
 * start. */
static int choose_port(struct start *s, struct gt_err *err)
{
	uint16_t number;

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return gt_err_sys(err, "no random numbers");
	s->port = 15000 + number % 15000;
	return 0;
}

int gt_launch_start(struct gt_launch *l, struct gt_err *err)
{
	struct start s = { .launch = l, .listen_fd = -1, .nothing = -1, .launcher = getpid() };
	int nproc = l->options->nproc, rc;

	for (int i = 0; i < nproc; i++) {
		l->rank[i].pid = 0;
		l->rank[i].report = l->rank[i].input = -1;
		l->rank[i].lines.from = l->rank[i].lines.to = -1;
		l->rank[i].lines.used = 0;
	}
	l->alive = 0;
	s.share = gt_calloc((size_t)nproc, sizeof(*s.share), err);
	if (!s.share)
		return err->code;
	if (l->options->host_count)
		rc = choose_port(&s, err);
	else
		(void)((rc = gt_launch_share(s.share, nproc, err)) ||
		       (rc = open_listener(&s, err)));
	if (!rc)
		rc = make_secret(&s, err);
	if (!rc) {
		s.nothing = keep_clear(open("/dev/null", O_RDWR | O_CLOEXEC));
		rc = s.nothing < 0 ? gt_err_sys(err, "cannot open '/dev/null'") : 0;
	}
	for (int i = 0; i < nproc && !rc; i++) {
		rc =
		    l->options->host_count ? start_remote_rank(&s, i, err) : start_rank(&s, i, err);
		l->alive += l->rank[i].pid > 0;
	}
	if (s.nothing >= 0)
		close(s.nothing);
	if (s.listen_fd >= 0)
		close(s.listen_fd);
	free(s.share);
	explicit_bzero(s.secret, sizeof(s.secret));
	return rc;
}
