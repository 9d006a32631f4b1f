/* report.c - gtrain report: runs as one page of HTML, or as curves of text. */
#include "cmd/report/report.h"

#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/json_out.h"
#include "cmd/stop.h"
#include "lib/base/file.h"
#include "lib/train/run/run_dir.h"

enum { MOST_RUNS = 32, USUAL_COLUMNS = 80 };

struct report_cli {
	struct gt_cmd_common common;
	const char *output;
	bool text, follow;
	double interval_s;
};

#define AT(member) GT_OPT_FIELD(struct report_cli, member)

/* clang-format off */
static const struct gt_opt options[] = {
	{ .type = GT_OPT_HEADING, .help = "What to write" },
	{ "output", 'o', GT_OPT_STRING, AT(output), "OUT",
	    .help = "file of the page", .otherwise = "report.html in the directory of the run",
	    .complete = GT_COMPLETE_FILE, .flags = GT_OPT_ONCE },
	{ "text", 0, GT_OPT_FLAG, AT(text), .flags = GT_OPT_ONCE,
	    .help = "print curves on the terminal; writes a page only with --output",
	    .excludes = "json" },
	{ "follow", 0, GT_OPT_FLAG, AT(follow), .flags = GT_OPT_ONCE,
	    .help = "write the page anew until no run is running any more", .excludes = "text" },
	{ "interval", 0, GT_OPT_DURATION, AT(interval_s), "TIME", "time between two pages",
	    .initial = "10s", .min = 0.1, .max = 900, .flags = GT_OPT_ONCE,
	    .needs = { { "follow" } } },
	GT_CMD_COMMON(struct report_cli),
	{ 0 }
};
/* clang-format on */

/* ---- reading ---- */

/* Runs and their charts. */
struct content {
	struct gt_run_set set;
	struct gt_charts charts;
	json_t *differ;
};

static void release_content(struct content *c)
{
	json_decref(c->differ);
	gt_charts_release(&c->charts);
	gt_run_set_release(&c->set);
}

/* Check that each word names a run, or a folder with runs, and that they are not too many. */
static int check_count(const struct gt_run_set *set, char *const *words, struct gt_err *err)
{
	if (!set->count) {
		gt_err_set(err, GT_EIO, "there is no run in '%s'", words[0]);
		return gt_err_hint(err, "'gtrain runs DIR' lists the run directories below DIR");
	}
	if (set->count > MOST_RUNS) {
		gt_err_set(err, GT_ENOTSUP, "%zu runs are too many for a page", set->count);
		return gt_err_hint(err, "name at most %d run directories", MOST_RUNS);
	}
	return 0;
}

static int read_content(struct content *out, struct gt_cmd_env *env, struct gt_err *err)
{
	int rc;

	*out = (struct content){ 0 };
	rc = gt_run_set_read(
	    &out->set, env->opts.operands, env->opts.operand_count, false, &env->log, err);
	if (!rc)
		rc = check_count(&out->set, env->opts.operands, err);
	if (!rc)
		rc = gt_charts_make(&out->charts, &out->set, err);
	if (!rc) {
		out->differ = gt_run_differ(out->set.run, out->set.count, err);
		rc = out->differ ? 0 : GT_ENOMEM;
	}
	return rc;
}

static bool is_running(const struct content *c)
{
	for (size_t i = 0; i < c->set.count; i++)
		if (c->set.run[i].status.state == GT_RUN_RUNNING)
			return true;
	return false;
}

/* ---- writing ---- */

/* The page of one run lies in its directory unless --output names a file. A page must not replace
 * a file that a run has written. Return the path; the caller frees it. */
static char *find_output(
    const struct report_cli *cli, const struct gt_run_set *set, struct gt_err *err)
{
	char *path;

	if (!cli->output && set->count > 1) {
		gt_err_set(err, GT_EINVAL,
		    "without {output}, there can be one run, and there are %zu runs", set->count);
		return NULL;
	}
	path = cli->output ? gt_strdup(cli->output, err)
	                   : gt_asprintf(err, "%s/report.html", set->run[0].path);
	for (size_t i = 0; path && i < set->count; i++) {
		struct gt_run_dir dir;
		bool owns;

		if (gt_run_dir_open(&dir, set->run[i].path, GT_ERR_IGNORED))
			continue;
		owns = gt_run_dir_owns(&dir, path);
		gt_run_dir_close(&dir);
		if (!owns)
			continue;
		gt_err_set(err, GT_EINVAL, "--output: '%s' is a file of the run", path);
		free(path);
		path = NULL;
	}
	return path;
}

/* Without --output, a link in a run directory of somebody else is not followed. */
static int open_page(struct gt_atomic_file *f, struct gt_folder *folder,
    const struct report_cli *cli, const struct gt_run_set *set, const char *path,
    struct gt_err *err)
{
	int rc;

	if (cli->output)
		return gt_atomic_open(f, path, err);
	rc = gt_folder_open(folder, set->run[0].path, err);
	return rc ? rc : gt_atomic_open_at(f, (struct gt_file_name){ folder, path }, err);
}

static int write_page(const struct report_cli *cli, const struct content *c, const char *path,
    bool again, struct gt_err *err)
{
	const struct gt_report r = { .set = &c->set,
		.charts = &c->charts,
		.differ = c->differ,
		.refresh_s = again ? cli->interval_s : 0 };
	struct gt_folder folder = { .fd = -1 };
	struct gt_atomic_file f = { 0 };
	int rc = open_page(&f, &folder, cli, &c->set, path, err);

	if (!rc)
		rc = gt_report_write_page(f.stream, &r, err);
	if (!rc)
		rc = gt_atomic_commit(&f, err);
	gt_atomic_abandon(&f);
	gt_folder_close(&folder);
	return rc;
}

static int print_result(const struct content *c, const char *path, struct gt_err *err)
{
	return gt_cmd_print_json(
	    json_pack("{s:o,s:o}", "output", gt_json_string_value(path, strlen(path)), "runs",
	        gt_run_set_describe(&c->set)),
	    GT_RUN_SET_JSON, err);
}

/* ---- the command ---- */

static int print_text(struct gt_cmd_env *env, const struct content *c, struct gt_err *err)
{
	size_t columns = gt_cmd_stdout_columns();
	bool utf8;

	setlocale(LC_CTYPE, "");
	utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8");
	setlocale(LC_CTYPE, "C");
	if (!c->charts.count)
		gt_log_info(&env->log, "there are no metrics yet");
	return c->charts.count ? gt_report_print_text(stdout, &c->charts,
	                             columns ? columns : USUAL_COLUMNS, utf8, env->color, err)
	                       : 0;
}

/* Write the page; with --follow again and again, until all runs have ended. */
static int write_pages(struct gt_cmd_env *env, const struct report_cli *cli, struct content *c,
    const char *path, struct gt_err *err)
{
	bool again = cli->follow && is_running(c);
	int rc = write_page(cli, c, path, again, err);

	if (!rc)
		gt_log_info(&env->log, "%s%s", path,
		    again ? ": written anew until the run ends; Ctrl-C stops" : "");
	while (!rc && again) {
		usleep((useconds_t)(1e6 * cli->interval_s));
		release_content(c);
		rc = read_content(c, env, err);
		again = !rc && is_running(c);
		if (!rc)
			rc = write_page(cli, c, path, again, err);
	}
	return rc;
}

static int report_runs(void *values, struct gt_cmd_env *env, struct gt_err *err)
{
	const struct report_cli *cli = values;
	struct content c;
	struct gt_stop stop;
	char *path = NULL;
	int rc = gt_stop_listen(&stop, err);

	if (rc)
		return rc;
	rc = read_content(&c, env, err);
	if (!rc && cli->text)
		rc = print_text(env, &c, err);
	if (!rc && (cli->output || !cli->text)) {
		path = find_output(cli, &c.set, err);
		rc = path ? write_pages(env, cli, &c, path, err) : err->code;
		if (!rc && cli->common.json)
			rc = print_result(&c, path, err);
	}
	free(path);
	release_content(&c);
	gt_stop_release(&stop);
	return rc;
}

const struct gt_cmd_work gt_cmd_run_report = { options, sizeof(struct report_cli), report_runs };
