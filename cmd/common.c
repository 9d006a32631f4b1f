/* common.c - common options, errors and results of all commands. */
#include <errno.h>
#include <omp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/synonyms.h"
#include "cmd/topics.h"
#include "lib/base/option_names.h"
#include "lib/comm/launch/launch.h"
#include "lib/train/checkpoint/argument.h"

const char *const gt_cmd_color_words[] = { "auto", "always", "never", NULL };

enum { HINT = 120, COLUMNS = 80, USAGE_INDENT = 6, MOST_COLUMNS = 10000 };

bool gt_cmd_wants_color(enum gt_cmd_color choice, int fd)
{
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");

	if (choice != GT_CMD_COLOR_AUTO)
		return choice == GT_CMD_COLOR_ALWAYS;
	if (no_color && *no_color) /* https://no-color.org: present and not empty */
		return false;
	return isatty(fd) && term && strcmp(term, "dumb");
}

/* The option of the command that memory depends on; NULL: none, or no command is known. */
static const char *hint_for_memory(const struct gt_cmd *cmd)
{
	static const char *const rows[][2] = {
		{ "epochs", "a smaller model or --batch needs less memory" },
		{ "batch", "a smaller --batch needs less memory" },
		{ "tokens", "fewer --tokens need less memory" },
	};

	for (size_t i = 0; cmd && i < sizeof(rows) / sizeof(*rows); i++)
		if (gt_opt_find(cmd->work->options, rows[i][0], strlen(rows[i][0])))
			return rows[i][1];
	return NULL;
}

/* The hint where the error has none: NULL where the code does not tell the cause. `cmd` is NULL
 * where no command is known. */
static const char *hint_for(int code, const struct gt_cmd *cmd, char buffer[HINT])
{
	switch (code) {
	case GT_EINVAL:
		snprintf(buffer, HINT, "'gtrain help%s%s' and its manual page list its options",
		    cmd ? " " : "", cmd ? cmd->name : "");
		return buffer;
	case GT_ENOMEM:
		return hint_for_memory(cmd);
	case GT_EDEVICE:
		return "'gtrain probe' lists the capabilities of this machine and build";
	case GT_EDIVERGED:
		return "'gtrain ckpt ls --stats' shows the range of each tensor of a checkpoint";
	default:
		return NULL;
	}
}

const char *gt_cmd_message(char buffer[GT_CMD_MESSAGE], const char *text)
{
	gt_option_names_render(buffer, GT_CMD_MESSAGE, text, GT_CMD_OPTION);
	return buffer;
}

static void print_error(FILE *out, const struct gt_log *log, const char *text, const char *hint)
{
	const char *red = log->color ? "\033[31m" : "", *plain = log->color ? "\033[0m" : "";
	char message[GT_CMD_MESSAGE];

	fprintf(out, GT_LAUNCH_PROGRAM "%s" GT_LAUNCH_ERROR "%s ", red, plain);
	gt_log_put(out, gt_cmd_message(message, text));
	if (hint) {
		fputs("\nhint: ", out);
		gt_log_put(out, gt_cmd_message(message, hint));
	}
	fputc('\n', out);
}

int gt_cmd_exit_status(const struct gt_err *err)
{
	return err->code == GT_EINVAL ? GT_EXIT_USAGE : GT_EXIT_FAILED;
}

/* `cmd` may be NULL. Both lines go out in one write: the launcher's own lines would
 * come between a rank's error and its hint. */
static int report(const struct gt_log *log, const struct gt_err *err, const struct gt_cmd *cmd)
{
	char buffer[HINT], *text = NULL;
	const char *hint;
	size_t size = 0;
	FILE *both = open_memstream(&text, &size);

	hint = err->hint[0] ? err->hint : hint_for(err->code, cmd, buffer);
	print_error(both ? both : log->stream, log, err->text, hint);
	fflush(log->stream);
	if (both && !fclose(both) && write(fileno(log->stream), text, size) < 0)
		fwrite(text, 1, size, log->stream);
	free(text);
	if (getenv("GTRAIN_RESTART") && (err->lasting || err->follows)) /* for the launcher */
		return err->lasting ? GT_LAUNCH_IN_VAIN : GT_LAUNCH_FOLLOWS;
	return gt_cmd_exit_status(err);
}

int gt_cmd_report(const struct gt_log *log, const struct gt_err *err)
{
	return report(log, err, NULL);
}

/* Wrong options may be half read; --color counts if it was read. */
static void set_up_log(struct gt_cmd_env *env, struct gt_cmd_common *common)
{
	enum gt_cmd_color color = (enum gt_cmd_color)common->color;

	env->color = gt_cmd_wants_color(color, STDOUT_FILENO);
	env->log = (struct gt_log){
		.stream = stderr,
		.level = common->quiet     ? GT_LOG_QUIET
		         : common->verbose ? GT_LOG_VERBOSE
		                           : GT_LOG_NORMAL,
		.color = gt_cmd_wants_color(color, STDERR_FILENO),
		.before_options = GT_CMD_OPTION,
		.progress = &env->progress,
	};
	env->progress = (struct gt_progress){ .stream = stderr,
		.color = env->log.color,
		.launcher_columns = gt_cmd_launcher_columns() };
	env->progress.terminal =
	    (env->progress.launcher_columns || gt_cmd_can_draw(STDERR_FILENO)) && !common->quiet;
}

/* The reason is errno of closing or flushing; for a line that was lost before, none is known. No
 * message if the reader has closed the pipe, as `| head` does: the exit status shows it. */
static bool results_arrive(bool closing)
{
	bool lost = ferror(stdout), left = false;
	const char *reason = "";

	if (closing ? fclose(stdout) : fflush(stdout)) {
		lost = true;
		left = errno == EPIPE;
		reason = strerror(errno);
	}
	if (lost && !left)
		fprintf(stderr, "gtrain: error: cannot write to standard output%s%s\n",
		    *reason ? ": " : "", reason);
	return !lost;
}

/* Check which options are missing, and which have no effect. A command that may read options from a
 * file does this when it has read them. */
static int check_options(const struct gt_opts *opts, struct gt_err *err)
{
	int rc;

	for (const struct gt_opt *row = opts->table; row->type != GT_OPT_END; row++)
		if (row->flags & GT_OPT_LOADS)
			return 0;
	rc = gt_opts_require(opts, err);
	return rc ? rc : gt_opts_check_partners(opts, err);
}

/* Read the command line and do the work. */
static int run_work(struct gt_cmd_env *env, struct gt_cmd_common *values, struct gt_err *err)
{
	int rc = gt_opts_init(&env->opts, env->cmd->work->options, values, err);

	if (rc)
		return rc;
	env->opts.synonyms = gt_cmd_synonyms;
	rc = gt_opts_parse(&env->opts, env->argc, env->argv, err);
	set_up_log(env, values);
	if (!rc && values->help) {
		gt_cmd_print_help(stdout, env->cmd, env->color);
		return 0;
	}
	if (!rc)
		rc = gt_opts_check_operands(&env->opts, env->cmd->operands, err);
	if (!rc && env->opts.operand_count < env->cmd->least) {
		gt_err_set(err, GT_EINVAL, "%s named",
		    env->cmd->least > 1 ? "fewer than two files are" : "no file is");
		return gt_err_hint(err, "gtrain %s %s", env->cmd->name, env->cmd->synopsis);
	}
	if (!rc)
		rc = check_options(&env->opts, err);
	if (!rc)
		return env->cmd->work->run(values, env, err);
	return err->hint[0]
	           ? rc
	           : gt_err_hint(err, "'gtrain %s --help' lists the options", env->cmd->name);
}

/* The exit status for GT_EINVAL is GT_EXIT_USAGE, because the arguments of a command come from the
 * command line. */
int gt_cmd_run(const struct gt_cmd *cmd, int argc, char **argv)
{
	struct gt_cmd_env env = {
		.cmd = cmd, .argc = argc, .argv = argv, .log = { .stream = stderr }
	};
	struct gt_err err = GT_ERR_INIT;
	struct gt_cmd_common *values = gt_calloc(1, cmd->work->values_bytes, &err);
	int rc = values ? run_work(&env, values, &err) : GT_ENOMEM, status;

	gt_opts_release(&env.opts);
	gt_arena_release(&env.paths);
	if (rc)
		status = report(&env.log, &err, cmd);
	else if (!results_arrive(false))
		status = GT_EXIT_FAILED;
	else
		status = env.asked ? GT_EXIT_SIGNAL + env.asked : env.status;
	free(values);
	return status;
}

void gt_cmd_end_by_signal(int signal_number)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, signal_number);
	signal(signal_number, SIG_DFL);
	raise(signal_number); /* pending, if it is blocked */
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

void gt_cmd_set_threads(int64_t threads)
{
	if (threads)
		omp_set_num_threads((int)threads);
	else if (omp_get_max_threads() > GT_CMD_MAX_THREADS) /* OMP_NUM_THREADS may say anything */
		omp_set_num_threads(GT_CMD_MAX_THREADS);
}

bool gt_cmd_can_draw(int fd)
{
	const char *term = getenv("TERM");

	return isatty(fd) && term && strcmp(term, "dumb");
}

/* Only a rank 0 that a launcher has started has both. */
size_t gt_cmd_stdout_columns(void)
{
	const struct gt_progress drawing = { .stream = stdout };

	return isatty(STDOUT_FILENO) ? (size_t)gt_progress_columns(&drawing) : 0;
}

int gt_cmd_launcher_columns(void)
{
	const char *text = getenv("GTRAIN_LISTEN_FD") ? getenv("GTRAIN_COLUMNS") : NULL;
	long columns = text ? strtol(text, NULL, 10) : 0;

	return columns > 0 && columns <= MOST_COLUMNS ? (int)columns : 0;
}

int gt_cmd_find_ckpts(struct gt_cmd_env *env, struct gt_err *err)
{
	int rc = 0;

	for (int i = 0; i < env->opts.operand_count && !rc; i++) {
		char **operand = &env->opts.operands[i], *path;

		rc = gt_run_ckpt_find(&path, *operand, err);
		if (!path)
			continue;
		gt_log_info(&env->log, "%s is a run; its latest checkpoint is %s", *operand, path);
		*operand = gt_arena_strdup(&env->paths, path, err);
		rc = *operand ? 0 : GT_ENOMEM;
		free(path);
	}
	return rc;
}

int gt_cmd_print_json(json_t *document, size_t flags, struct gt_err *err)
{
	const size_t precision = JSON_REAL_PRECISION(0x1f); /* all bits of it */
	int failed;

	if (!document)
		return gt_err_set(err, GT_ENOMEM, "out of memory: a JSON document");
	if (!(flags & precision))
		flags |= JSON_REAL_PRECISION(9);
	failed = json_dumpf(document, stdout, flags);
	putchar('\n');
	json_decref(document);
	return failed ? gt_err_set(err, GT_EIO, "cannot write the JSON document") : 0;
}

int gt_cmd_finish_stdout(int status)
{
	if (status != GT_EXIT_DONE) /* for a reason that has been told */
		return status;
	return results_arrive(true) ? GT_EXIT_DONE : GT_EXIT_FAILED;
}

/* Break the line before the word that would reach beyond column 80. */
static void print_usage(FILE *stream, const struct gt_cmd *cmd)
{
	int column = fprintf(stream, "usage: gtrain %s", cmd->name);

	for (const char *word = cmd->synopsis; *word;) {
		int length = (int)strcspn(word, " ");

		if (column + 1 + length > COLUMNS)
			column = fprintf(stream, "\n%*s", USAGE_INDENT, "") - 1;
		column += fprintf(stream, " %.*s", length, word);
		word += length;
		word += strspn(word, " ");
	}
	fputc('\n', stream);
}

void gt_cmd_print_help(FILE *stream, const struct gt_cmd *cmd, bool color)
{
	print_usage(stream, cmd);
	fprintf(stream, "\n%s\n\n", cmd->summary);
	gt_opt_print_help(stream, cmd->work->options, color);
	if (gt_opt_find(cmd->work->options, "config", strlen("config")))
		fputs(
		    "\nOptions without a value also take =yes and =no: --nesterov=no turns off the\n"
		    "--nesterov of a --config or of a resumed run.\n",
		    stream);
}

static void print_heading(FILE *stream, const char *text, bool color)
{
	fprintf(stream, "%s%s:%s\n", color ? "\033[1m" : "", text, color ? "\033[0m" : "");
}

void gt_cmd_print_overview(FILE *stream, bool color)
{
	const char *name, *summary;

	fputs("usage: gtrain [--version] [--help] COMMAND [ARGUMENTS]\n\n", stream);
	print_heading(stream, "Commands", color);
	for (const struct gt_cmd *cmd = gt_cmd_table(); cmd->name; cmd++) {
		name = gt_cmd_first_word(cmd, &summary);
		if (name)
			fprintf(stream, "  %-9s %s\n", name, summary);
	}
	fputs("\n'gtrain COMMAND --help' describes one of them.\n\n", stream);
	print_heading(stream, "Topics for 'gtrain help TOPIC'", color);
	for (const struct gt_cmd_topic *topic = gt_cmd_topics(); topic->name; topic++)
		fprintf(stream, "  %-9s %s\n", topic->name, topic->summary);
}

void gt_cmd_print_group(FILE *stream, const struct gt_cmd_group *group, bool color)
{
	fprintf(
	    stream, "usage: gtrain %s COMMAND [ARGUMENTS]\n\n%s\n\n", group->name, group->summary);
	print_heading(stream, "Commands", color);
	for (const struct gt_cmd *cmd = gt_cmd_table(); cmd->name; cmd++) {
		const char *word = gt_cmd_word_in(cmd, group);

		if (word)
			fprintf(stream, "  %-13s %s\n", word, cmd->summary);
	}
	fprintf(stream, "\n'gtrain help %s COMMAND' says more about one of them.\n", group->name);
}
