/* options.c - the options of a run as lines of text. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/api/api.h"
#include "lib/train/run/options.h"
#include "lib/train/shared_options.h"

enum { DASHES = 2 };

#define RUN_OFFSET(member) offsetof(struct gt_api_options, train.member)
#define AT(member)         GT_OPT_FIELD(struct gt_api_options, member)
#define RECIPES            NULL

static const struct gt_opt table[] = {
#include "lib/train/option_rows.inc"
	{ "log", 0, GT_OPT_STRING, AT(log), "stderr|FILE", "where notes and warnings go",
	    .otherwise = "they are not written", .complete = GT_COMPLETE_FILE,
	    .flags = GT_OPT_ONCE },
	{ 0 }
};

/* Options of the library for a loop that it has itself. */
static const char *const of_loop[] = { "out", "save-every", "save-sharded", "save-async", "keep",
	"eval-every", "patience", "profile", NULL };

/* Return whether an option is of `gtrain train` alone: of its loop, or without a field in struct
 * gt_train_options. */
static bool is_of_program(const struct gt_opt *row)
{
	for (int i = 0; of_loop[i]; i++)
		if (!strcmp(of_loop[i], row->name))
			return true;
	return row->offset >= sizeof(struct gt_train_options) && strcmp(row->name, "log") != 0;
}

static int check_used(const struct gt_opts *opts, struct gt_err *err)
{
	for (const struct gt_opt *row = opts->table; row->type != GT_OPT_END; row++)
		if (row->name && opts->source[row - opts->table] == GT_OPT_COMMAND_LINE &&
		    is_of_program(row))
			return gt_err_set(
			    err, GT_EINVAL, "{%s} is an option of `gtrain train` alone", row->name);
	return 0;
}

/* The parser writes options with dashes, as they are on a command line. */
static void remove_dashes(char *text)
{
	char *to = text;

	for (const char *from = text; *from;) {
		bool word = from == text || !isalnum((unsigned char)from[-1]);

		if (word && !strncmp(from, "--", DASHES) && islower((unsigned char)from[DASHES]))
			from += DASHES;
		*to++ = *from++;
	}
	*to = '\0';
}

static int fail_parse(int rc, struct gt_err *err)
{
	remove_dashes(err->text);
	remove_dashes(err->hint);
	return rc;
}

static int open_log(struct gt_log *log, const char *target, struct gt_err *err)
{
	int fd = strcmp(target, "stderr") ? -1 : dup(STDERR_FILENO);

	log->level = GT_LOG_NORMAL;
	log->stream = fd < 0 ? fopen(target, "a") : fdopen(fd, "a");
	if (log->stream)
		return 0;
	if (fd >= 0)
		close(fd);
	return gt_err_sys(err, "log: cannot open '%s'", target);
}

/* Take a line, which follows two free bytes, as a word of a command line. */
static int take_line(char **argv, int *argc, char *line, struct gt_err *err)
{
	if (!*line)
		return 0;
	if (!islower((unsigned char)*line) || !strchr(line, '=')) {
		gt_err_set(err, GT_EINVAL, "'%s' is not of the form name=value", line);
		return gt_err_hint(err, "options are lines of text; a flag is name=yes");
	}
	argv[*argc] = line - DASHES;
	memset(argv[(*argc)++], '-', DASHES);
	return 0;
}

/* Make the words of a command line, to be parsed like one. */
static int split_lines(
    char ***argv, int *argc, struct gtrain *run, const char *lines, struct gt_err *err)
{
	size_t count = 1, used = 1;
	int rc = 0;

	for (const char *p = lines; *p; p++)
		count += *p == '\n';
	run->text = gt_calloc(strlen(lines) + 1 + (count + 1) * DASHES, 1, err);
	*argv = gt_calloc(count + 1, sizeof(**argv), err);
	if (!run->text || !*argv)
		return GT_ENOMEM;
	(*argv)[(*argc)++] = run->text; /* "", in place of the program's name */
	for (const char *p = lines; !rc && p;) {
		const char *end = strchr(p, '\n');
		size_t length = end ? (size_t)(end - p) : strlen(p);
		char *line = memcpy(run->text + used + DASHES, p, length);

		used += DASHES + length + 1;
		rc = take_line(*argv, argc, line, err);
		p = end ? end + 1 : NULL;
	}
	return rc;
}

static int parse_lines(struct gtrain *run, const char *lines, struct gt_err *err)
{
	char **argv = NULL;
	int argc = 0, rc = gt_opts_init(&run->opts, table, &run->options, err);

	if (!rc)
		rc = split_lines(&argv, &argc, run, lines, err);
	if (!rc && gt_opts_parse(&run->opts, argc, argv, err))
		rc = fail_parse(err->code, err);
	free(argv);
	return rc ? rc : check_used(&run->opts, err);
}

/* Options of the run that is continued, and the model of a checkpoint, if they are left out. */
static int load_earlier(struct gtrain *run, struct gt_err *err)
{
	/* A longer run keeps values that came from its length. */
	static const char *const length[] = { "steps", "epochs", "batch", "accumulate",
		"global-batch", NULL };
	struct gt_train_options *o = &run->options.train;
	const char *from = o->resume ? o->resume : o->init_from;
	int rc = 0;

	if (o->resume && !strcmp(o->resume, "auto"))
		return gt_err_set(
		    err, GT_EINVAL, "{resume} auto is an option of `gtrain train` alone");
	if (o->resume)
		rc = gt_run_options_load_of(&run->opts, o, o->resume, err);
	if (!rc && from && !o->model)
		rc = gt_run_options_take_model(&run->opts, from, err);
	return rc ? rc : gt_opts_reset_stale(&run->opts, length, err);
}

int gt_api_read_options(struct gtrain *run, const char *lines, struct gt_err *err)
{
	struct gt_train_options *o = &run->options.train;
	int rc = parse_lines(run, lines, err);

	if (!rc && run->options.log)
		rc = open_log(&run->log, run->options.log, err);
	if (!rc)
		rc = load_earlier(run, err);
	if (!rc && (gt_opts_require(&run->opts, err) || gt_opts_check_partners(&run->opts, err)))
		rc = fail_parse(err->code, err);
	if (rc)
		return rc;
	if (o->nproc > 1 && gt_opts_source(&run->opts, "nproc") == GT_OPT_COMMAND_LINE) {
		gt_err_set(err, GT_EINVAL, "{nproc} %d: a program steps one rank itself", o->nproc);
		return gt_err_hint(err, "`gtrain train` starts several ranks");
	}
	o->nproc = 1; /* a run that is continued may have had several ranks */
	o->memory = true;
	return gt_train_check_options(o, 1, err);
}
