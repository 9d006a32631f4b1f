/* edit.c - gtrain ckpt strip-module, add-module, rename, remap: names and devices changed. */
#include <stdio.h>
#include <stdlib.h>

#include "cmd/ckpt/ckpt.h"
#include "cmd/stop.h"
#include "lib/base/clock.h"
#include "lib/base/text.h"
#include "lib/ckpt/edit/edit.h"
#include "lib/train/checkpoint/argument.h"

struct gt_ckpt_edit_cli {
	struct gt_cmd_common common;
	const char *output; /* NULL: in place, or a dry run */
	bool in_place, dry_run, sync;
	struct gt_opt_list words; /* --prefix or --map */
};

#define AT(member) GT_OPT_FIELD(struct gt_ckpt_edit_cli, member)

/* clang-format off */

/* The options that all of them take, behind their own. */
#define WHERE_TO \
	{ .type = GT_OPT_HEADING, .help = "Where the result goes" }, \
	{ "output", 'o', GT_OPT_STRING, AT(output), "OUT", "write a new file", \
	    .complete = GT_COMPLETE_FILE, .excludes = "in-place" }, \
	{ "in-place", 0, GT_OPT_FLAG, AT(in_place), \
	    .help = "change the file itself", \
	    .excludes = "output" }, \
	{ "dry-run", 0, GT_OPT_FLAG, AT(dry_run), \
	    .help = "print the changes and write nothing" }, \
	{ "sync", 0, GT_OPT_YESNO, AT(sync), .initial = "yes", \
	    .help = "no: do not wait until the result is on the disk" }, \
	\
	GT_CMD_COMMON(struct gt_ckpt_edit_cli), \
	{ 0 }

static const struct gt_opt strip_module[] = {
	{ .type = GT_OPT_HEADING, .help = "What to change" },
	{ "prefix", 0, GT_OPT_LIST, AT(words), "PREFIX",
	    "remove this prefix; may be given several times",
	    .otherwise = "those of wrappers, such as module." },
	WHERE_TO
};

static const struct gt_opt add_module[] = {
	{ .type = GT_OPT_HEADING, .help = "What to change" },
	{ "prefix", 0, GT_OPT_LIST, AT(words), "PREFIX", "put this in front of names",
	    .otherwise = "module." },
	WHERE_TO
};

static const struct gt_opt rename_table[] = {
	{ .type = GT_OPT_HEADING, .help = "What to change" },
	{ "map", 0, GT_OPT_LIST, AT(words), "REGEX=REPLACEMENT",
	    "replace the first match in each name; may be given several times", .flags = GT_OPT_REQUIRED },
	WHERE_TO
};

static const struct gt_opt remap[] = {
	{ .type = GT_OPT_HEADING, .help = "What to change" },
	{ "map", 0, GT_OPT_LIST, AT(words), "FROM=TO",
	    "change device FROM to TO, as in cuda:*=cpu; may be given several times",
	    .flags = GT_OPT_REQUIRED },
	WHERE_TO
};
/* clang-format on */

/* One run of a command, from its arguments to its result. */
struct job {
	const struct gt_ckpt_edit_cli *cli;
	struct gt_log *log;
	struct gt_edit_target target;
	struct gt_ckpt *ckpt;
	struct gt_edit edit;
	struct gt_edit_result result;
	double time_s;
};

static const char *const described_names[GT_EDIT_USE_COUNT] = {
	[GT_EDIT_NAME] = "name",
	[GT_EDIT_METADATA] = "metadata",
	[GT_EDIT_REFERENCE] = "reference",
	[GT_EDIT_LOCATION] = "location",
};

static int check_arguments(const struct gt_ckpt_edit_cli *cli, struct gt_err *err)
{
	if (!cli->output && !cli->in_place && !cli->dry_run) {
		gt_err_set(err, GT_EINVAL, "where should the result go?");
		return gt_err_hint(
		    err, "-o OUT writes a new file, --in-place changes this one, --dry-run none");
	}
	return 0;
}

static int apply_edit_job(struct job *j, struct gt_err *err)
{
	struct gt_stop stop;
	int rc = gt_stop_listen(&stop, err);

	if (rc)
		return rc;
	rc = gt_edit_apply(j->ckpt, &j->edit, &j->target, &j->result, err);
	gt_stop_release(&stop);
	return rc;
}

static int compute_and_apply(struct job *j, enum gt_edit_kind kind, struct gt_err *err)
{
	struct gt_edit_request request = { .kind = kind };
	const char **words = gt_calloc(j->cli->words.count + 1, sizeof(*words), err);
	double start = gt_clock_s();
	int rc;

	if (!words)
		return GT_ENOMEM;
	for (size_t i = 0; i < j->cli->words.count; i++)
		words[i] = j->cli->words.items[i];
	request.words = words;
	if (j->target.output || j->cli->dry_run)
		rc = gt_ckpt_open(&j->ckpt, j->target.input, err);
	else
		rc = gt_edit_open(&j->ckpt, j->target.input, GT_EDIT_WAIT_S, err);
	if (!rc) {
		rc = gt_edit_compute(&j->edit, j->ckpt, &request, err);
		if (rc && rc != GT_EINVAL)
			gt_err_prefix(err, "'%s'", j->target.input);
	}
	if (!rc && !j->cli->dry_run)
		rc = apply_edit_job(j, err);
	j->time_s = gt_clock_s() - start;
	free(words);
	return rc;
}

/* ---- report ---- */

/* "model.state_dict: 'module.conv1.weight' -> 'conv1.weight'". */
static void print_changes(const struct gt_edit *edit)
{
	for (size_t i = 0; i < edit->count; i++) {
		const struct gt_edit_change *c = &edit->changes[i];

		if (c->use == GT_EDIT_LOCATION)
			fputs("storage ", stdout);
		gt_log_put(stdout, c->where);
		fputs(c->use == GT_EDIT_METADATA ? (*c->where ? "._metadata" : "_metadata") : "",
		    stdout);
		fputs(*c->where || c->use == GT_EDIT_METADATA ? ": '" : "'", stdout);
		gt_log_put(stdout, c->from);
		fputs("' -> '", stdout);
		gt_log_put(stdout, c->to);
		fputs("'\n", stdout);
	}
}

static json_t *json_changes(const struct gt_edit *edit)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < edit->count; i++) {
		const struct gt_edit_change *c = &edit->changes[i];

		if (json_array_append_new(
		        list, json_pack("{s:s,s:s,s:s,s:s}", "what", described_names[c->use],
		                  "where", c->where, "from", c->from, "to", c->to))) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static int print_edit_json(const struct job *j, struct gt_err *err)
{
	const struct gt_edit_result *r = &j->result;
	json_t *out = json_pack("{s:s,s:s?,s:b,s:s,s:I,s:I,s:I,s:I,s:b,s:f}", "input",
	    j->target.input, "output", j->target.output, "dry_run", j->cli->dry_run, "note",
	    j->edit.note, "changed", (json_int_t)j->edit.count, "written_bytes",
	    (json_int_t)r->written_bytes, "moved_bytes", (json_int_t)r->copied_bytes, "dead_bytes",
	    (json_int_t)r->dead_bytes, "replaced", r->replaced, "time_s", j->time_s);
	json_t *changes = out && j->cli->dry_run ? json_changes(&j->edit) : NULL;

	if (out && j->cli->dry_run && (!changes || json_object_set_new(out, "changes", changes))) {
		json_decref(out);
		out = NULL;
	}
	return gt_cmd_print_json(out, 0, err);
}

static void log_result(const struct job *j)
{
	const struct gt_edit_result *r = &j->result;
	char written[GT_TEXT_SIZE], copied[GT_TEXT_SIZE], dead[GT_TEXT_SIZE];

	gt_text_bytes(written, r->written_bytes);
	gt_text_bytes(copied, r->copied_bytes);
	gt_text_bytes(dead, r->dead_bytes);
	if (j->cli->dry_run || (!j->edit.count && !j->target.output))
		gt_log_info(j->log, "%s; nothing written", j->edit.note);
	else if (r->copied_bytes)
		gt_log_info(j->log, "%s; %s written, %s moved in %.0f ms", j->edit.note, written,
		    copied, j->time_s * 1e3);
	else
		gt_log_info(
		    j->log, "%s; %s written in %.0f ms", j->edit.note, written, j->time_s * 1e3);
	if (j->edit.dicts_note[0])
		gt_log_info(j->log, "%s", j->edit.dicts_note);
	if (r->replaced)
		gt_log_info(
		    j->log, "%s: a new file has taken the place of '%s'", r->why, j->target.input);
	if (r->protocol && j->target.output)
		gt_log_info(j->log,
		    "pickle protocol %d became protocol 2, as torch.load refuses %d by default",
		    r->protocol, r->protocol);
	else if (r->protocol)
		gt_log_info(j->log,
		    "the file keeps pickle protocol %d, which torch.load refuses by default: "
		    "`gtrain ckpt convert` writes protocol 2",
		    r->protocol);
	if (r->other_links)
		gt_log_info(j->log, "%llu other hard link%s to it still lead%s to the old file",
		    (unsigned long long)r->other_links, r->other_links == 1 ? "" : "s",
		    r->other_links == 1 ? "s" : "");
	if (r->dead_bytes)
		gt_log_info(j->log,
		    "%s of the file are dead now: the next edit with -o, or `gtrain ckpt convert`, "
		    "leaves them out",
		    dead);
}

/* ---- the commands ---- */

/* The user has to name the file that an edit in place changes. */
static int check_run(const char *operand, struct gt_err *err)
{
	char *path;
	int rc = gt_run_ckpt_find(&path, operand, err);

	if (path) {
		rc = gt_err_set(err, GT_EINVAL,
		    "--in-place: '%.200s' is a run, and not the path of a file", operand);
		gt_err_hint(err, "name a file; the latest checkpoint of this run is %s", path);
	}
	free(path);
	return rc;
}

static int edit(const struct gt_ckpt_edit_cli *cli, enum gt_edit_kind kind, struct gt_cmd_env *env,
    struct gt_err *err)
{
	struct job j = { .cli = cli, .log = &env->log };
	int rc = check_arguments(cli, err);

	if (!rc)
		rc = cli->in_place ? check_run(env->opts.operands[0], err)
		                   : gt_cmd_find_ckpts(env, err);
	if (!rc) {
		j.target = (struct gt_edit_target){ env->opts.operands[0], cli->output,
			.no_sync = !cli->sync, .progress = &env->progress };
		rc = compute_and_apply(&j, kind, err);
	}
	if (!rc && cli->common.json)
		rc = print_edit_json(&j, err);
	else if (!rc && cli->dry_run)
		print_changes(&j.edit);
	if (!rc)
		log_result(&j);
	gt_edit_release(&j.edit);
	gt_ckpt_close(j.ckpt);
	return rc;
}

static int run_strip_module(void *values, struct gt_cmd_env *env, struct gt_err *err)
{
	return edit(values, GT_EDIT_STRIP, env, err);
}

const struct gt_cmd_work gt_cmd_ckpt_strip_module = { strip_module, sizeof(struct gt_ckpt_edit_cli),
	run_strip_module };

static int run_add_module(void *values, struct gt_cmd_env *env, struct gt_err *err)
{
	return edit(values, GT_EDIT_ADD, env, err);
}

const struct gt_cmd_work gt_cmd_ckpt_add_module = { add_module, sizeof(struct gt_ckpt_edit_cli),
	run_add_module };

static int run_rename(void *values, struct gt_cmd_env *env, struct gt_err *err)
{
	return edit(values, GT_EDIT_RENAME, env, err);
}

const struct gt_cmd_work gt_cmd_ckpt_rename = { rename_table, sizeof(struct gt_ckpt_edit_cli),
	run_rename };

static int run_remap(void *values, struct gt_cmd_env *env, struct gt_err *err)
{
	return edit(values, GT_EDIT_REMAP, env, err);
}

const struct gt_cmd_work gt_cmd_ckpt_remap = { remap, sizeof(struct gt_ckpt_edit_cli), run_remap };
