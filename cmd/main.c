/* main.c - gtrain: find the command and run it. */
#include <fcntl.h>
#include <nss.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "lib/base/suggest.h"

/* Open a file that can only fail in place of each closed standard stream. Otherwise the next file
 * opened would take its number, and error messages might go into a checkpoint. */
static void keep_standard_streams(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 &&
		    open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
			_exit(GT_EXIT_FAILED);
}

static struct gt_log log_of_main(void)
{
	return (struct gt_log){ .stream = stderr,
		.color = gt_cmd_wants_color(GT_CMD_COLOR_AUTO, STDERR_FILENO) };
}

static int unknown_option(const char *word)
{
	struct gt_log log = log_of_main();
	struct gt_suggest near = { .word = word };
	struct gt_err err = GT_ERR_INIT;

	gt_err_set(&err, GT_EINVAL, "unknown option '%s'", word);
	if (!strcasecmp(word, "-v"))
		near.best = "--version";
	gt_suggest_offer(&near, "--version");
	gt_suggest_offer(&near, "--help");
	if (near.best)
		gt_err_hint(&err, "did you mean '%s'?", near.best);
	else
		gt_err_hint(&err, "'gtrain help' lists the commands");
	return gt_cmd_report(&log, &err);
}

/*
 * OpenMP's threads wait for each other by spinning, about 15 ms by default in GNU's library: good
 * on an idle machine, ruinous where somebody else wants a core too, since the waiting thread then
 * keeps it from the one waited for. 2000 turns (0.1 ms) reach from one kernel to the next. The
 * library reads this before main(), hence the second start; a value that is set already stays.
 */
static void wait_politely(char **argv)
{
	if (getenv("GOMP_SPINCOUNT") || getenv("OMP_WAIT_POLICY"))
		return;
	if (!setenv("GOMP_SPINCOUNT", "2000", 1))
		execv("/proc/self/exe", argv);
	/* Without /proc it goes on as it is. */
}

/* Ranks execute /proc/self/exe, and so does this program when it starts itself again. `ps` and
 * `pgrep` would then show the name "exe". */
static void take_own_name(void)
{
	char name[16] = "";

	if (!prctl(PR_GET_NAME, name) && !strcmp(name, "exe"))
		prctl(PR_SET_NAME, "gtrain");
}

/* The system's nsswitch.conf may name services that are libraries of the system's C library. A
 * static program has the two that read /etc/hosts and ask DNS within, and can open no others. */
static void use_own_name_services(void)
{
#ifdef GT_STATIC
	__nss_configure_lookup("hosts", "files dns");
#endif
}

static bool is_help(const char *word)
{
	return !strcmp(word, "--help") || !strcmp(word, "-h");
}

static int run_command(int argc, char **argv)
{
	struct gt_log log = log_of_main();
	struct gt_err err = GT_ERR_INIT;
	const struct gt_cmd_group *group;
	int used;
	const struct gt_cmd *cmd = gt_cmd_resolve(&group, argc - 1, argv + 1, &used, &err);
	char **words = argv + used;

	if (group && argc > 2 && is_help(argv[2])) {
		gt_cmd_print_group(
		    stdout, group, gt_cmd_wants_color(GT_CMD_COLOR_AUTO, STDOUT_FILENO));
		return GT_EXIT_DONE;
	}
	if (!cmd)
		return gt_cmd_report(&log, &err);
	if (cmd->computes)
		wait_politely(argv);
	words[0] = (char *)cmd->name;
	return gt_cmd_run(cmd, argc - used, words);
}

static int dispatch(int argc, char **argv)
{
	if (argc < 2) {
		gt_cmd_print_overview(stderr, false);
		return GT_EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--version")) {
		puts("gtrain " GT_VERSION);
		return GT_EXIT_DONE;
	}
	if (!strcmp(argv[1], "--complete")) /* not documented: for the scripts in completions/ */
		return gt_cmd_complete(argc - 2, argv + 2);
	if (is_help(argv[1])) {
		gt_cmd_print_overview(stdout, gt_cmd_wants_color(GT_CMD_COLOR_AUTO, STDOUT_FILENO));
		return GT_EXIT_DONE;
	}
	return argv[1][0] == '-' ? unknown_option(argv[1]) : run_command(argc, argv);
}

/* The files of a checkpoint, which may be thousands, stay open, and a rank has a connection with
 * each other rank; the soft limit is often 1024. */
static void allow_open_files(void)
{
	const rlim_t enough = 65536;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= enough)
		return;
	limit.rlim_cur = limit.rlim_max < enough ? limit.rlim_max : enough;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int argc, char **argv)
{
	int status;

	keep_standard_streams();
	take_own_name();
	use_own_name_services();
	/* A line is one write: those of several processes do not mix. */
	setvbuf(stderr, NULL, _IOLBF, BUFSIZ);
	/* A reader that went away is an error like any other, and no reason to lose a training
	 * run. */
	signal(SIGPIPE, SIG_IGN);
	/* A write beyond the limit of a file's size is reported as an error, too. */
	signal(SIGXFSZ, SIG_IGN);
	allow_open_files();
	gt_cmd_watch_mappings();
	status = gt_cmd_finish_stdout(dispatch(argc, argv));
	if (status > GT_EXIT_SIGNAL)
		gt_cmd_end_by_signal(status - GT_EXIT_SIGNAL);
	return status;
}
