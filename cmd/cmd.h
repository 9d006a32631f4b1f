/* cmd.h - the table of commands, and common options, errors and results of all commands. */
#ifndef GT_CMD_CMD_H
#define GT_CMD_CMD_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "lib/base/err.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/opt.h"
#include "lib/model/names.h"

/*
 * A command is a row in the table of commands.c, one file cmd/NAME.c, a page man/gtrain-NAME.1 and
 * a test. Its table of options is a function, so that help, completions and the tests can ask for
 * it without running anything. A command of a group has a name of two words, "ckpt ls"; its file
 * and its page join them, cmd/ckpt/ls.c and man/gtrain-ckpt-ls.1.
 */
struct gt_cmd {
	const char *name;
	const char *synopsis; /* the operands and options in the line of usage */
	const char *summary;  /* half a line: lower case, no full stop */
	int operands;         /* the most operands (words that are not options) */
	const struct gt_opt *(*options)(void);
	int (*run)(int argc, char **argv); /* argv[0] is the name; returns the exit status */
	bool computes;                     /* it runs kernels, so it needs OpenMP's threads */
	/* returns operand i of all possible operands, NULL after the last. If `word` is NULL,
	 * operands are files */
	const char *(*word)(int i);
};

enum { GT_CMD_MANY = 1 << 20 }; /* operands */

/* Commands that share their first word. */
struct gt_cmd_group {
	const char *name, *summary;
};

enum { GT_CMD_MAX_THREADS = 4096 };

enum { GT_EXIT_DONE = 0, GT_EXIT_FAILED = 1, GT_EXIT_USAGE = 2, GT_CMD_GO = -1 };

/* The table of commands, ended by a row without a name; and the row of a command, or NULL. */
const struct gt_cmd *gt_cmd_table(void);
const struct gt_cmd *gt_cmd_find(const char *name);

/* The same for groups. */
const struct gt_cmd_group *gt_cmd_groups(void);
const struct gt_cmd_group *gt_cmd_group_find(const char *name);

/* The word after the group's name if `cmd` belongs to this group, otherwise NULL. */
const char *gt_cmd_word_in(const struct gt_cmd *cmd, const struct gt_cmd_group *group);

/* For lists of the first words of command lines, each listed once: the name of a command without a
 * group, or the name of a group at its first command. NULL for the group's other commands. */
const char *gt_cmd_first_word(const struct gt_cmd *cmd, const char **summary);

/*
 * Find the command that the first words of a command line name: one word, two words for a group, or
 * a command's alias (strip-module for ckpt strip-module). *used becomes the number of words. If
 * there is none, returns NULL with err and a hint set, and *group is the group whose list of
 * commands helps, or NULL.
 */
const struct gt_cmd *gt_cmd_resolve(const struct gt_cmd_group **group, int count,
    char *const *words, int *used, struct gt_err *err);

/* The options that every command has. `color` is an index into auto, always, never. */
enum gt_cmd_color { GT_CMD_COLOR_AUTO, GT_CMD_COLOR_ALWAYS, GT_CMD_COLOR_NEVER };

struct gt_cmd_common {
	bool json, quiet, verbose, help;
	int color;
};

extern const char *const gt_cmd_color_words[];

/* The rows of these options. Put them at the end of a table over `cli_type`, which has a member
 * `struct gt_cmd_common common`. */
/* clang-format off */
#define GT_CMD_COMMON(cli_type) \
	{ .type = GT_OPT_HEADING, .help = "Common options" }, \
	{ "json", 0, GT_OPT_FLAG, GT_OPT_FIELD(cli_type, common.json), .flags = GT_OPT_ONCE, \
	    .help = "write one JSON document to standard output, nothing else" }, \
	{ "quiet", 'q', GT_OPT_FLAG, GT_OPT_FIELD(cli_type, common.quiet), .flags = GT_OPT_ONCE, \
	    .help = "only warnings and errors on standard error", .excludes = "verbose" }, \
	{ "verbose", 'v', GT_OPT_FLAG, GT_OPT_FIELD(cli_type, common.verbose), \
	    .help = "say more on standard error", .excludes = "quiet", .flags = GT_OPT_ONCE }, \
	{ "color", 0, GT_OPT_CHOICE, GT_OPT_FIELD(cli_type, common.color), .flags = GT_OPT_ONCE, \
	    .words = gt_cmd_color_words, .initial = "auto", \
	    .help = "colors; auto: on terminals, unless NO_COLOR is set" }, \
	{ "help", 'h', GT_OPT_FLAG, GT_OPT_FIELD(cli_type, common.help), .flags = GT_OPT_ONCE, \
	    .help = "print this help" }
/* clang-format on */

/* The row of --device. */
extern const char *const gt_cmd_devices[];

/* clang-format off */
#define GT_CMD_DEVICE(cli_type, member, text) \
	{ "device", 0, GT_OPT_STRING, GT_OPT_FIELD(cli_type, member), "LIST", text, \
	    .initial = "cpu", .words = gt_cmd_devices, .complete = GT_COMPLETE_WORDS }
#define GT_CMD_TF32(cli_type, member) \
	{ "tf32", 0, GT_OPT_FLAG, GT_OPT_FIELD(cli_type, member), \
	    .help = "round factors of float32 products to TF32, on a GPU's tensor cores" }
#define GT_CMD_NAMES(cli_type, member, keys) \
	{ "names", 0, GT_OPT_CHOICE, GT_OPT_FIELD(cli_type, member), "PROGRAM", \
	    .help = "the program that named the " keys, .words = gt_names_words, \
	    .initial = "auto" }
/* clang-format on */

/*
 * The environment of a command from gt_cmd_begin() to gt_cmd_end():
 *
 *	int gt_cmd_probe(int argc, char **argv)
 *	{
 *		struct probe_cli cli;
 *		struct gt_cmd_env env;
 *		struct gt_err err = GT_ERR_INIT;
 *		int rc, status = gt_cmd_begin(&env, &cli, &cli.common, argc, argv);
 *
 *		if (status != GT_CMD_GO)
 *			return status;
 *		rc = ...                         // failing functions store their reason in err
 *		return gt_cmd_end(&env, rc, &err);
 *	}
 */
struct gt_cmd_env {
	const struct gt_cmd *cmd;
	struct gt_opts opts;
	struct gt_log log;     /* standard error, set up by --quiet, --verbose and --color */
	bool color;            /* whether to print colors on standard output */
	struct gt_arena paths; /* paths that gt_cmd_find_ckpts() found */
};

/*
 * Find the row of argv[0], set `values` from the command line by its option table, and handle
 * --help. Returns GT_CMD_GO, or an exit status; in that case all output is printed and everything
 * is released.
 */
int gt_cmd_begin(
    struct gt_cmd_env *env, void *values, struct gt_cmd_common *common, int argc, char **argv);

/* Release the environment. Report `err` if rc is not 0, or a failure to write results. Returns the
 * exit status. GT_EINVAL from any function counts as wrong usage, because a command's arguments
 * come from the command line. */
int gt_cmd_end(struct gt_cmd_env *env, int rc, const struct gt_err *err);

/* The prefix of option names in messages. */
#define GT_CMD_OPTION "--"

/* Rewrite a text of the library (an error or a hint) with option names as on the command line. The
 * result is in `buffer`. */
enum { GT_CMD_MESSAGE = 1280 };
const char *gt_cmd_message(char room[GT_CMD_MESSAGE], const char *text);

/* Print "gtrain: error: ..." and the hint to `log`'s stream. Returns the exit status for this
 * error. */
int gt_cmd_report(const struct gt_log *log, const struct gt_err *err);

/* Set the number of threads that compute. 0: OpenMP's default, up to a limit. */
void gt_cmd_set_threads(int64_t threads);

/* Whether a progress line can be redrawn on `fd`: it is a terminal, and TERM is not "dumb". */
bool gt_cmd_can_draw(int fd);

/* The width of the terminal on which the launcher prints this rank's progress line
 * (comm/launch/launch.h), or 0. */
int gt_cmd_lent_columns(void);

/* Replace operands that are run directories by the paths of their latest checkpoints, and log this.
 * Errors: GT_ENOMEM. */
int gt_cmd_find_ckpts(struct gt_cmd_env *env, struct gt_err *err);

/* Print a JSON document and a line feed to standard output, and release the document. NULL means
 * out of memory. Numbers are printed with the precision of a float32. */
int gt_cmd_print_json(json_t *document, size_t flags, struct gt_err *err);

/* Handle SIGBUS: if a mapped file becomes shorter while it is read, print an error and exit with
 * GT_EXIT_FAILED. */
void gt_cmd_watch_mappings(void);

/* Flush and close standard output, so that a full disk or a closed pipe turns success into failure.
 * main() calls this once, after the command. */
int gt_cmd_finish_stdout(int status);

/* Whether to print colors on a stream. `asked` decides; GT_CMD_COLOR_AUTO means on terminals,
 * unless NO_COLOR is set. */
bool gt_cmd_wants_color(enum gt_cmd_color asked, int fd);

/* "usage: ..." and the options of one command. */
void gt_cmd_print_help(FILE *stream, const struct gt_cmd *cmd, bool color);

/* Print the list of all commands; or of the commands in a group. */
void gt_cmd_print_overview(FILE *stream, bool color);
void gt_cmd_print_group(FILE *stream, const struct gt_cmd_group *group, bool color);

/* completion.c: the completion script for bash, zsh or fish. */
enum gt_shell { GT_SHELL_NONE = -1, GT_SHELL_BASH, GT_SHELL_ZSH, GT_SHELL_FISH };
void gt_cmd_print_completion(FILE *stream, enum gt_shell shell);

/* The commands. */
int gt_cmd_probe(int argc, char **argv);
int gt_cmd_train(int argc, char **argv);
int gt_cmd_eval(int argc, char **argv);
int gt_cmd_predict(int argc, char **argv);
int gt_cmd_generate(int argc, char **argv);
int gt_cmd_help(int argc, char **argv);
const struct gt_opt *gt_cmd_probe_options(void);
const struct gt_opt *gt_cmd_train_options(void);
const struct gt_opt *gt_cmd_eval_options(void);
const struct gt_opt *gt_cmd_predict_options(void);
const struct gt_opt *gt_cmd_generate_options(void);
const struct gt_opt *gt_cmd_help_options(void);

#endif
