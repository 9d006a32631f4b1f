/* watch.c - the launcher's loop: ends of ranks, signals, lines that ranks write. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/comm/launch/job.h"

/* A signal may come twice, from the terminal and from timeout(1) or a shell; it counts once. */
static const double twice_s = 0.1;

/* The default of cause_s. A rank that has failed leaves its groups, then it may take a while to
 * end. Ranks that notice this may end before it. */
static const double default_cause_s = 2;

/* Between asking and killing: it leaves half a second for the rest. */
static const double patience_s = 1.5;

/* The same for ranks on other hosts, which first write why they end. */
static const double far_patience_s = 5;

/* A killed rank ends at once, unless one of its threads is in a call of the kernel that does not
 * return, as those of a GPU's driver may. The launcher does not wait for such a rank for ever. */
static const double killed_s = 10;

static const int forwarded[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP };

enum { FORWARDED = sizeof(forwarded) / sizeof(*forwarded) };

/* A signal that we were started to ignore (nohup) stays ignored; children that end must not. */
int gt_launch_take_signals(struct gt_launch *l, struct gt_err *err)
{
	const struct sigaction normal = { .sa_handler = SIG_DFL };
	struct sigaction now;

	sigemptyset(&l->caught);
	sigaddset(&l->caught, SIGCHLD);
	for (int i = 0; i < FORWARDED; i++)
		if (!sigaction(forwarded[i], NULL, &now) && now.sa_handler != SIG_IGN)
			sigaddset(&l->caught, forwarded[i]);
	l->signals = signalfd(-1, &l->caught, SFD_CLOEXEC | SFD_NONBLOCK);
	if (l->signals < 0)
		return gt_err_sys(err, "cannot take signals");
	sigaction(SIGCHLD, &normal, &l->old_child);
	pthread_sigmask(SIG_BLOCK, &l->caught, &l->old_mask);
	return 0;
}

void gt_launch_give_back_signals(struct gt_launch *l)
{
	pthread_sigmask(SIG_SETMASK, &l->old_mask, NULL);
	sigaction(SIGCHLD, &l->old_child, NULL);
	close(l->signals);
}

static bool is_end(int number)
{
	return number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGQUIT ||
	       number == SIGKILL;
}

static void close_input(struct gt_launched *rank)
{
	if (rank->input >= 0)
		close(rank->input);
	rank->input = -1;
}

/* Ask ranks on other hosts to end, or let them be killed (hosts.c). */
static void end_far_ranks(struct gt_launch *l, bool kills)
{
	for (int i = 0; i < l->options->nproc; i++) {
		if (kills)
			close_input(&l->rank[i]);
		else if (l->rank[i].input >= 0)
			(void)!write(l->rank[i].input, "end\n", 4);
	}
}

/* Send a signal to every rank that runs and to the processes it has started: a rank leads a process
 * group from before exec(). SIGKILL goes to the rank itself, too, in case it has left that
 * group. */
static void signal_all(struct gt_launch *l, int number)
{
	/* A signal that goes to ssh alone would not reach the rank. */
	if (l->options->host_count && is_end(number))
		end_far_ranks(l, number == SIGKILL);
	if (l->options->host_count && number != SIGKILL)
		return;
	for (int i = 0; i < l->options->nproc; i++)
		if (l->rank[i].pid && (kill(-l->rank[i].pid, number) || number == SIGKILL))
			kill(l->rank[i].pid, number);
}

/* A signal with a value, which goes to the rank alone: it can tell that nobody outside has sent it.
 * Processes that the rank has started end with it, in bury(). */
static void ask_to_end(struct gt_launch *l)
{
	const union sigval lost = { .sival_int = GT_LAUNCH_RANK_LOST };

	if (l->kill_at > 0)
		return;
	for (int i = 0; i < l->options->nproc; i++)
		if (l->rank[i].pid && !l->options->host_count)
			sigqueue(l->rank[i].pid, SIGTERM, lost);
	end_far_ranks(l, false);
	l->kill_at = gt_clock_s() + (l->options->host_count ? far_patience_s : patience_s);
}

static void pause_all(struct gt_launch *l)
{
	signal_all(l, SIGSTOP);
	kill(getpid(), SIGSTOP);
	signal_all(l, SIGCONT);
}

static void take_signal(struct gt_launch *l, int number)
{
	if (number == SIGTSTP) {
		pause_all(l);
	} else if (number == SIGUSR1 || number == SIGUSR2) {
		signal_all(l, number);
	} else if (number != SIGCHLD) {
		if (l->stop_requests && gt_clock_s() - l->last_request_s < twice_s)
			return;
		l->last_request_s = gt_clock_s();
		if (!l->stop_requests++)
			l->asked = number;
		signal_all(l, l->stop_requests > 1 ? SIGKILL : number);
		if (l->stop_requests < 2)
			return;
		gt_log_warn(l->options->log, "asked a second time: the ranks are killed");
		l->kill_at = l->last_request_s + killed_s;
	}
}

/* The exit status of a rank that is reported: 1 in place of the launcher's private values. */
static int status_of(const siginfo_t *end)
{
	if (end->si_code != CLD_EXITED)
		return GT_LAUNCH_KILLED + end->si_status;
	return end->si_status == GT_LAUNCH_IN_VAIN || end->si_status == GT_LAUNCH_FOLLOWS
	           ? EXIT_FAILURE
	           : end->si_status;
}

static void report_end(const struct gt_launch *l, int rank, const siginfo_t *end)
{
	const struct gt_launch_options *o = l->options;
	struct gt_remote_rank far = { .rank = rank };
	struct gt_log *log = o->log;
	char at[4200] = "", host[300] = "";

	if (o->log_dir && (!o->keeps_logs || o->keeps_logs(o->self)))
		snprintf(at, sizeof(at), "; its log is %s/rank-%d.log", o->log_dir->path, rank);
	if (o->host_count) {
		gt_launch_find_remote(&far, o);
		snprintf(host, sizeof(host), " on host %s", o->hosts[far.host].name);
	}
	if (end->si_code == CLD_EXITED)
		gt_log_warn(
		    log, "rank %d%s exited with status %d%s", rank, host, status_of(end), at);
	else
		gt_log_warn(log, "rank %d%s was killed by SIG%s%s%s", rank, host,
		    sigabbrev_np(end->si_status) ? sigabbrev_np(end->si_status) : "RT",
		    end->si_code == CLD_DUMPED ? " (core dumped)" : "", at);
	if (!l->rank[rank].lines.show)
		gt_lines_repeat(&l->rank[rank].lines, rank, log);
}

/* The rest of its process group goes before the rank is reaped: until then its number is taken,
 * and can be no stranger's. */
static void bury(struct gt_launch *l, int rank)
{
	struct gt_launched *r = &l->rank[rank];

	kill(-r->pid, SIGKILL);
	close_input(r);
	while (waitpid(r->pid, NULL, 0) < 0 && errno == EINTR)
		;
	r->pid = 0;
	l->alive--;
	gt_lines_read(&r->lines, true);
}

/* Whether the rank was killed by a signal that the launcher has passed on to end the job. */
static bool was_asked(const struct gt_launch *l, const siginfo_t *end)
{
	return end->si_code != CLD_EXITED && l->stop_requests &&
	       (end->si_status == l->asked || (end->si_status == SIGKILL && l->stop_requests > 1));
}

/* Give other ranks time to end, too. */
static void wait_for_others(struct gt_launch *l)
{
	l->ask_at = gt_clock_s() + (l->options->cause_s ?: default_cause_s);
}

/* Whether rank 0 and another rank have written the same error. Rank 0's lines are printed. */
static bool is_common(const struct gt_launch *l)
{
	const struct gt_lines *shown = &l->rank[0].lines;

	if (l->first)
		return gt_lines_same_error(shown, &l->rank[l->first].lines);
	for (int i = 1; i < l->options->nproc; i++)
		if (gt_lines_same_error(shown, &l->rank[i].lines))
			return true;
	return false;
}

static void report_first(struct gt_launch *l)
{
	if (l->first_end.si_code && !is_common(l))
		report_end(l, l->first, &l->first_end);
	l->first_end = (siginfo_t){ 0 };
}

/* This rank is the first that failed. An error that it has written may be common to all ranks,
 * which find it a moment later: so the report waits for them. */
static void take_first(struct gt_launch *l, int rank, const siginfo_t *end)
{
	l->first = rank;
	l->status = status_of(end);
	if (!was_asked(l, end))
		l->first_end = *end;
	if (end->si_code == CLD_EXITED && gt_lines_has_error(&l->rank[rank].lines)) {
		wait_for_others(l);
		return;
	}
	report_first(l);
	ask_to_end(l);
}

static void take_follower(struct gt_launch *l, int rank)
{
	if (l->follower >= 0)
		return;
	l->follower = rank;
	wait_for_others(l);
}

/* Return whether a rank has failed by itself. After a follower, a rank that did not end in time was
 * killed by our own signals. */
static bool is_failure(const struct gt_launch *l, const siginfo_t *end)
{
	if (end->si_code == CLD_EXITED)
		return end->si_status && end->si_status != GT_LAUNCH_FOLLOWS;
	return l->follower < 0 || l->kill_at <= 0 ||
	       (end->si_status != SIGTERM && end->si_status != SIGKILL);
}

/* Take note of all ranks that have ended. If several ends are seen at once, a rank that a signal
 * has killed is the likelier cause of the others. */
static void take_ends(struct gt_launch *l)
{
	siginfo_t first = { 0 };
	int found = -1;

	for (int i = 0; i < l->options->nproc; i++) {
		siginfo_t end = { 0 };

		if (!l->rank[i].pid ||
		    waitid(P_PID, (id_t)l->rank[i].pid, &end, WEXITED | WNOHANG | WNOWAIT) ||
		    !end.si_pid)
			continue;
		bury(l, i);
		l->in_vain |= end.si_code == CLD_EXITED && end.si_status == GT_LAUNCH_IN_VAIN;
		if (end.si_code == CLD_EXITED && end.si_status == GT_LAUNCH_FOLLOWS)
			take_follower(l, i);
		if (!is_failure(l, &end) ||
		    (found >= 0 && (first.si_code != CLD_EXITED || end.si_code == CLD_EXITED)))
			continue;
		found = i;
		first = end;
	}
	if (found < 0 || l->first >= 0)
		return;
	take_first(l, found, &first);
}

/* Let stopped ranks go on once the job ends: when it was asked to, or when a rank has ended. Nobody
 * else would wake them, and the launcher waits for all. The others get no SIGCONT: it would undo
 * the stop of a debugger that is just attaching to them. */
static void wake_stopped(const struct gt_launch *l)
{
	const int look = WSTOPPED | WNOHANG | WNOWAIT;

	if (!l->stop_requests && l->alive == l->options->nproc)
		return;
	for (int i = 0; i < l->options->nproc; i++) {
		pid_t pid = l->rank[i].pid;
		siginfo_t stop = { 0 };

		if (pid && !waitid(P_PID, (id_t)pid, &stop, look) && stop.si_pid)
			kill(-pid, SIGCONT);
	}
}

/* SIGCHLD tells of ranks that end and of those that are stopped. */
static void take_signals(struct gt_launch *l)
{
	struct signalfd_siginfo info;

	while (read(l->signals, &info, sizeof(info)) == sizeof(info))
		take_signal(l, (int)info.ssi_signo);
	take_ends(l);
	wake_stopped(l);
}

static int left_ms(const struct gt_launch *l)
{
	double next = l->kill_at > 0 ? l->kill_at : l->ask_at, left = next - gt_clock_s();

	return next <= 0 ? -1 : left <= 0 ? 0 : (int)(1e3 * left) + 1;
}

/* One turn of the loop: wait for an event, then handle it. */
static int turn(struct gt_launch *l, struct pollfd *poll_fd, struct gt_err *err)
{
	int nproc = l->options->nproc, rc = 0;

	poll_fd[2 * nproc] = (struct pollfd){ l->signals, POLLIN, 0 };
	for (int i = 0; i < nproc; i++) { /* poll() passes over those that are -1 */
		poll_fd[i] = (struct pollfd){ l->rank[i].lines.from, POLLIN, 0 };
		poll_fd[nproc + i] = (struct pollfd){ l->rank[i].report, POLLIN, 0 };
	}
	if (poll(poll_fd, 2 * (nfds_t)nproc + 1, left_ms(l)) < 0 && errno != EINTR)
		return gt_err_sys(err, "cannot watch the ranks");
	for (int i = 0; i < nproc; i++)
		if (poll_fd[i].revents)
			gt_lines_read(&l->rank[i].lines, false);
	/* A child whose exec() has failed writes its report before it ends, so the reports are read
	 * before the ends. */
	for (int i = 0; i < nproc && !rc; i++)
		rc = gt_launch_read_report(l, i, err);
	if (rc)
		return rc;
	if (poll_fd[2 * nproc].revents)
		take_signals(l);
	if (l->ask_at > 0 && gt_clock_s() >= l->ask_at)
		ask_to_end(l);
	return 0;
}

static bool has_ended(pid_t pid)
{
	siginfo_t end = { 0 };

	return waitid(P_PID, (id_t)pid, &end, WEXITED | WNOHANG | WNOWAIT) || end.si_pid;
}

static void leave_behind(struct gt_launch *l, int rank)
{
	gt_log_warn(l->options->log,
	    "rank %d was killed, and has not ended %g s later: process %d is left behind (a call "
	    "of a GPU's driver may not return)",
	    rank, killed_s, (int)l->rank[rank].pid);
	l->rank[rank].pid = 0;
	l->alive--;
	l->left_behind = true;
	if (l->first >= 0 || l->follower >= 0) /* the launcher killed the rank for that one */
		return;
	l->first = rank;
	l->status = GT_LAUNCH_KILLED + SIGKILL;
}

/* Kill the ranks that still run, and reap them. A second signal has killed them before. */
static void end_all(struct gt_launch *l)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	double until = l->stop_requests > 1 ? l->kill_at : gt_clock_s() + killed_s;

	signal_all(l, SIGKILL);
	for (int i = 0; i < l->options->nproc; i++) {
		pid_t pid = l->rank[i].pid;

		while (pid && !has_ended(pid) && gt_clock_s() < until)
			nanosleep(&pause, NULL);
		if (pid && has_ended(pid))
			bury(l, i);
		else if (pid)
			leave_behind(l, i);
		if (l->rank[i].report >= 0)
			close(l->rank[i].report);
		close_input(&l->rank[i]);
		gt_lines_close(&l->rank[i].lines);
	}
}

static bool is_time_to_kill(const struct gt_launch *l)
{
	return l->kill_at > 0 && gt_clock_s() >= l->kill_at;
}

int gt_launch_watch(struct gt_launch *l, bool failed, struct gt_err *err)
{
	struct pollfd *poll_fd = NULL;
	int rc = 0;

	if (!failed) {
		poll_fd = gt_calloc(2 * (size_t)l->options->nproc + 1, sizeof(*poll_fd), err);
		rc = poll_fd ? 0 : err->code;
	}
	while (!failed && !rc && l->alive && !is_time_to_kill(l))
		rc = turn(l, poll_fd, err);
	end_all(l);
	if (l->first < 0 && l->follower >= 0)
		take_first(l, l->follower,
		    &(siginfo_t){ .si_code = CLD_EXITED, .si_status = GT_LAUNCH_FOLLOWS });
	report_first(l);
	free(poll_fd);
	return rc;
}
