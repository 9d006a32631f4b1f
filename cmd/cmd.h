/* cmd.h - the table of commands, and the common options and error reports of all commands. */
#ifndef GT_CMD_CMD_H
#define GT_CMD_CMD_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "lib/base/err.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/opt.h"
#include "lib/base/progress.h"

struct gt_cmd_env;

/* The work of a command, which its file defines. */
struct gt_cmd_work {
	const struct gt_opt *options; /* the option table (lib/base/opt.h) */
	/* size of the struct of options, which begins with `struct gt_cmd_common common` */
	size_t values_bytes;
	/* Do the work, with the values of the options. Without a failure, env->status is the exit
	 * status. */
	int (*run)(void *values, struct gt_cmd_env *env, struct gt_err *err);
};

/*
 * A command consists of a row in the table in commands.c, one file cmd/NAME.c, a manual page
 * man/gtrain-NAME.1 and a test.
 *
 * Commands with a common first word form a group. The name of such a command has two words, for
 * example "ckpt ls". Its file is cmd/ckpt/ls.c, and its manual page is man/gtrain-ckpt-ls.1.
 */
struct gt_cmd {
	const char *name;
	const char *synopsis; /* operands and options, as the usage line shows them */
	const char *summary;  /* a short phrase: lower case, no full stop */
	int least, operands;  /* fewest and most operands (words that are not options) */
	const struct gt_cmd_work *work;
	/* true: the command runs kernels on OpenMP's threads. Before such a command, main() limits
	 * the time that these threads spin while they wait. */
	bool computes;
	/* For completion: returns the word with index i in the list of all possible operands, or
	 * NULL after the last word. The pointer `word` is NULL if the operands are files. */
	const char *(*word)(int i);
};

/* The value of gt_cmd.operands for commands that accept any number of operands. */
enum { GT_CMD_MANY = 1 << 20 };

/* A group: all commands whose names begin with the word `name`. */
struct gt_cmd_group {
	const char *name, *summary;
};

/* gt_cmd_set_threads(0) uses this number of threads if OpenMP's default is larger. */
enum { GT_CMD_MAX_THREADS = 4096 };

/* Exit statuses. */
enum { GT_EXIT_DONE = 0, GT_EXIT_FAILED = 1, GT_EXIT_USAGE = 2 };

/* An exit status of GT_EXIT_SIGNAL + N: the signal N has asked the command to end. After its work,
 * main() ends the process by this signal, so that a shell also ends the loop or the `&&` list that
 * the command is in. A shell shows this status as 128 + N, too. */
enum { GT_EXIT_SIGNAL = 128 };

/* End this process by a signal, with the signal's default action. This returns only if the system
 * ignores the signal, as it does for the first process of a container. */
void gt_cmd_end_by_signal(int signal_number);

/* Return the table of commands. Its last row has the name NULL. */
const struct gt_cmd *gt_cmd_table(void);

/* Return the row of a command, for example of "ckpt ls", or NULL if there is no such command. */
const struct gt_cmd *gt_cmd_find(const char *name);

/* Return the table of groups. Its last row has the name NULL. */
const struct gt_cmd_group *gt_cmd_groups(void);

/* Return the row of a group, or NULL if there is no such group. */
const struct gt_cmd_group *gt_cmd_group_find(const char *name);

/* If the command belongs to the group, return the second word of its name, for example "ls" for the
 * command "ckpt ls". Otherwise return NULL. */
const char *gt_cmd_word_in(const struct gt_cmd *cmd, const struct gt_cmd_group *group);

/*
 * Return the word that the list of all commands shows for `cmd`. The list shows each group once. If
 * `cmd` belongs to no group, the word is the name of the command. For the first command of a group
 * in the table, the word is the name of the group. For the other commands of a group, return NULL.
 * Set *summary to the summary of the command or the group.
 */
const char *gt_cmd_first_word(const struct gt_cmd *cmd, const char **summary);

/*
 * Find the command at the start of a command line. `words` are the `count` words of the line, at
 * least one. The command is one word ("train"), two words if the first one is a group ("ckpt ls"),
 * or an alias ("strip-module" for "ckpt strip-module"). Set *used to the number of words that name
 * the command. Set *group to the group that the first word names, or to NULL if the first word does
 * not name a group.
 *
 * Return NULL, with err and a hint set, if there is no such command.
 */
const struct gt_cmd *gt_cmd_resolve(const struct gt_cmd_group **group, int count,
    char *const *words, int *used, struct gt_err *err);

/* The values of --color, in the order of gt_cmd_color_words. */
enum gt_cmd_color { GT_CMD_COLOR_AUTO, GT_CMD_COLOR_ALWAYS, GT_CMD_COLOR_NEVER };

/* The options that every command has. */
struct gt_cmd_common {
	bool json, quiet, verbose, help;
	int color; /* enum gt_cmd_color */
};

/* The words that --color accepts, ended by NULL. */
extern const char *const gt_cmd_color_words[];

/* The rows of the common options, for the end of a command's option table. `cli_type` is the struct
 * of the command's options; it must begin with `struct gt_cmd_common common`. */
/* clang-format off */
#define GT_CMD_COMMON(cli_type) \
	{ .type = GT_OPT_HEADING, .help = "Common options" }, \
	{ "json", 0, GT_OPT_FLAG, GT_OPT_FIELD(cli_type, common.json), .flags = GT_OPT_ONCE, \
	    .help = "write one JSON document to standard output, nothing else" }, \
	{ "quiet", 'q', GT_OPT_FLAG, GT_OPT_FIELD(cli_type, common.quiet), .flags = GT_OPT_ONCE, \
	    .help = "only warnings and errors on standard error", .excludes = "verbose" }, \
	{ "verbose", 'v', GT_OPT_FLAG, GT_OPT_FIELD(cli_type, common.verbose), \
	    .help = "print more on standard error", .excludes = "quiet", .flags = GT_OPT_ONCE }, \
	{ "color", 0, GT_OPT_CHOICE, GT_OPT_FIELD(cli_type, common.color), .flags = GT_OPT_ONCE, \
	    .words = gt_cmd_color_words, .initial = "auto", \
	    .help = "colors; auto: on terminals, unless NO_COLOR is set" }, \
	{ "help", 'h', GT_OPT_FLAG, GT_OPT_FIELD(cli_type, common.help), .flags = GT_OPT_ONCE, \
	    .help = "print this help" }
/* clang-format on */

/* The environment of a running command. */
struct gt_cmd_env {
	const struct gt_cmd *cmd;
	int argc; /* the command's name and its arguments */
	char **argv;
	struct gt_opts opts; /* option table, values and operands of the command */
	struct gt_log log;   /* on standard error, as --quiet, --verbose and --color require */
	/* The progress line on standard error, which is also log.progress. It is drawn only on a
	 * terminal, which may be that of the launcher, and never with --quiet. */
	struct gt_progress progress;
	bool color;            /* print colors on standard output */
	struct gt_arena paths; /* memory of the paths that gt_cmd_find_ckpts() found */
	int status;            /* exit status, if the command does not fail */
	int asked;             /* the signal that asked the command to end; 0: none */
};

/*
 * Run the command `cmd` with its arguments, and return the exit status. A failure is printed. If it
 * does not fail, but env->asked is not 0, the status is GT_EXIT_SIGNAL + env->asked.
 */
int gt_cmd_run(const struct gt_cmd *cmd, int argc, char **argv);

/* The text before option names in messages. */
#define GT_CMD_OPTION "--"

/* The size of a buffer for gt_cmd_message(), in bytes. */
enum { GT_CMD_MESSAGE = 1280 };
/* Write `text`, an error or a hint from the library, to `buffer`. The library marks names of
 * options in its texts (lib/base/option_names.h). This function writes a marked name as on the
 * command line, for example "--batch". Return `buffer`. */
const char *gt_cmd_message(char buffer[GT_CMD_MESSAGE], const char *text);

/* Print "gtrain: error: ..." and a line with the hint to the stream of `log`. Return the exit
 * status for this error. */
int gt_cmd_report(const struct gt_log *log, const struct gt_err *err);

/* Return the exit status for an error. */
int gt_cmd_exit_status(const struct gt_err *err);

/* Set the number of OpenMP threads. 0 keeps OpenMP's default, but at most GT_CMD_MAX_THREADS. */
void gt_cmd_set_threads(int64_t threads);

/* Return whether a progress line can be redrawn on the file descriptor `fd`. This is the case if
 * `fd` is a terminal, and TERM is set and not "dumb". */
bool gt_cmd_can_draw(int fd);

/* Return the width of the terminal that standard output is, in columns, or 0 if it is none. */
size_t gt_cmd_stdout_columns(void);

/* The launcher of gtrain is a process that starts the ranks and prints their messages
 * (lib/comm/launch/launch.h). If the launcher has started this process and shows the progress line
 * of this process, return the width of the launcher's terminal in columns. Otherwise return 0. */
int gt_cmd_launcher_columns(void);

/* Replace each operand of the command that is a run directory (the output folder of a training run)
 * by the path of the run's latest checkpoint, and log the path. Errors: GT_ENOMEM. */
int gt_cmd_find_ckpts(struct gt_cmd_env *env, struct gt_err *err);

/* Print a JSON document and a line feed to standard output, and release the document. Real numbers
 * have 9 significant digits, enough for a float32, unless `flags`, those of json_dumpf(), have
 * another precision. Errors: GT_EIO; GT_ENOMEM if `document` is NULL, because memory ran out when
 * it was created. */
int gt_cmd_print_json(json_t *document, size_t flags, struct gt_err *err);

/* Install a handler of SIGBUS. The system sends this signal if a mapped file becomes shorter while
 * it is read. The handler prints an error, and ends the process with GT_EXIT_FAILED. */
void gt_cmd_watch_mappings(void);

/* Flush and close standard output. Return `status`, or GT_EXIT_FAILED if `status` is GT_EXIT_DONE
 * and output was lost, for example because the disk is full or the pipe is closed. main() calls
 * this once, after the command. */
int gt_cmd_finish_stdout(int status);

/* Return whether to print colors on the file descriptor `fd`. `choice` is the value of --color.
 * With GT_CMD_COLOR_AUTO, colors are printed if `fd` is a terminal, TERM is set and not "dumb", and
 * NO_COLOR is unset or empty. */
bool gt_cmd_wants_color(enum gt_cmd_color choice, int fd);

/* Print the usage line, the summary and the options of one command. */
void gt_cmd_print_help(FILE *stream, const struct gt_cmd *cmd, bool color);

/* Print the list of all commands. A group is listed as one line. */
void gt_cmd_print_overview(FILE *stream, bool color);

/* Print the list of the commands in one group. */
void gt_cmd_print_group(FILE *stream, const struct gt_cmd_group *group, bool color);

/* Answer a shell that completes a command line, and return the exit status. `words` are the `count`
 * words after "gtrain", up to the cursor. Defined in cmd/complete.c, which has the form of the
 * answer. */
int gt_cmd_complete(int count, char **words);

extern const struct gt_cmd_work gt_cmd_probe, gt_cmd_train, gt_cmd_eval, gt_cmd_predict,
    gt_cmd_generate, gt_cmd_runs, gt_cmd_help;

#endif
