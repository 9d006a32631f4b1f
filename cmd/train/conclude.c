/* conclude.c - the last lines of gtrain train: results, and commands that go on from them. */
#include "cmd/train/conclude.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cmd/eval_report.h"
#include "cmd/json_out.h"
#include "cmd/ranks.h"
#include "lib/base/text.h"
#include "lib/train/run/run_dir.h"

static int print_result(
    const struct gt_train_cli *cli, const struct gt_train_result *r, struct gt_err *err)
{
	json_t *out =
	    json_pack("{s:s,s:I,s:I,s:b,s:f}", "out", cli->train.out, "step", (json_int_t)r->step,
	        "steps", (json_int_t)r->total, "stopped", (int)r->stopped, "train_s", r->train_s);

	if (out && r->evaluated)
		json_object_set_new(out, "val", gt_metrics_json(&r->last));
	if (out && r->profile.cycles)
		json_object_set_new(out, "profile",
		    json_pack("{s:I,s:I,s:I,s:f,s:f,s:f,s:s,s:f,s:I,s:f}", "cycles",
		        (json_int_t)r->profile.cycles, "first", (json_int_t)r->profile.first,
		        "last", (json_int_t)r->profile.last, "step_s", r->profile.step_s,
		        "collectives_s", r->profile.collectives_s, "hidden", r->profile.hidden,
		        "bound", r->profile.bound, "bound_share", r->profile.bound_share,
		        "other_steps", (json_int_t)r->profile.other_steps, "other_step_s",
		        r->profile.other_step_s));
	return gt_cmd_print_json(out, 0, err);
}

/* Log a line: the words of a list that NULL ends, every second one quoted for a shell. */
static int say_command(struct gt_cmd_env *env, const char *const *words, struct gt_err *err)
{
	char *line = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&line, &size);

	if (!stream)
		return gt_err_sys(err, "cannot write down a command");
	for (int i = 0; words[i]; i++)
		if (i % 2)
			gt_cmd_print_word(stream, words[i]);
		else
			fputs(words[i], stream);
	if (!fclose(stream))
		gt_log_info(&env->log, "%s", line);
	free(line);
	return 0;
}

/* Log `text`, and the command that goes on with the run. */
static int say_how_to_resume(
    struct gt_cmd_env *env, const char *out, const char *text, struct gt_err *err)
{
	char line[160];
	const char *const words[] = { line, out, NULL };

	snprintf(line, sizeof(line), "%s; go on with: gtrain train --resume auto --out ", text);
	return say_command(env, words, err);
}

static int say_stopped(struct gt_cmd_env *env, const struct gt_train_cli *cli,
    const struct gt_train_result *r, struct gt_err *err)
{
	char text[80];

	snprintf(text, sizeof(text), "stopped after step %lld of %lld, saved", (long long)r->step,
	    (long long)r->total);
	return say_how_to_resume(env, cli->train.out, text, err);
}

void gt_cmd_train_say_lost(struct gt_cmd_env *env, const char *out)
{
	struct gt_run_dir dir;
	int64_t step = -1;
	char text[80];

	if (gt_run_dir_open(&dir, out, GT_ERR_IGNORED)) /* it may be on another host */
		return;
	if (!gt_run_dir_latest_step(&step, &dir, GT_ERR_IGNORED) && step >= 0) {
		snprintf(text, sizeof(text), "the last checkpoint is that of step %lld",
		    (long long)step);
		(void)say_how_to_resume(env, out, text, GT_ERR_IGNORED);
	} else {
		gt_log_warn(&env->log, "nothing was saved");
	}
	gt_run_dir_close(&dir);
}

/* The best evaluation, and the file that holds its weights. */
static int say_best(struct gt_cmd_env *env, const struct gt_train_cli *cli,
    const struct gt_train_result *r, struct gt_err *err)
{
	char value[40];
	bool here;

	if (r->best_step < 0)
		return 0;
	if (gt_run_dir_has_best(&here, cli->train.out, err))
		return err->code;
	if (r->ended) {
		gt_log_info(&env->log,
		    "no better evaluation in the last %lld: the best was at step %lld, its weights are in best.pth%s",
		    (long long)cli->train.patience, (long long)r->best_step,
		    here ? "" : " of the resumed run");
		return 0;
	}
	if (r->best_is_loss)
		snprintf(value, sizeof(value), "val loss %.4f", r->best);
	else
		snprintf(value, sizeof(value), "top-1 %.2f %%", 100 * r->best);
	if (here)
		gt_log_info(&env->log, "best: step %lld, %s, %s/best.pth", (long long)r->best_step,
		    value, cli->train.out);
	else
		gt_log_info(&env->log, "best: step %lld, %s, in best.pth of the resumed run",
		    (long long)r->best_step, value);
	return 0;
}

/* A command that uses the model of this run: it writes text, or predicts the classes or numbers of
 * images and rows. Tokens that are no text, images with other inputs, and a network that returns
 * its loss can only be measured. */
static int say_next(struct gt_cmd_env *env, const struct gt_train_cli *cli,
    const struct gt_watch *watch, struct gt_err *err)
{
	const char *const generate[] = { "next: gtrain generate --ckpt ", cli->train.out, NULL };
	const char *const predict[] = { "next: gtrain predict --ckpt ", cli->train.out, " FILE...",
		NULL };
	const char *const eval[] = { "next: gtrain eval --ckpt ", cli->train.out, " --data ",
		cli->train.data, NULL };

	if (watch->only_loss || watch->beside_image || (watch->tokens && !watch->vocab))
		return say_command(env, eval, err);
	return say_command(env, watch->tokens ? generate : predict, err);
}

static int say_done(struct gt_cmd_env *env, const struct gt_train_cli *cli,
    const struct gt_watch *watch, const struct gt_train_result *r, struct gt_err *err)
{
	char time[GT_TEXT_SIZE], loss[40] = "";

	if (!isnan(watch->loss))
		snprintf(loss, sizeof(loss), ", loss %.4f", watch->loss);
	gt_log_info(&env->log, "done: %lld step%s in %s%s, run directory %s", (long long)r->step,
	    r->step == 1 ? "" : "s", gt_text_duration(time, r->time_s), loss, cli->train.out);
	return say_next(env, cli, watch, err);
}

int gt_cmd_train_conclude(struct gt_cmd_env *env, const struct gt_train_cli *cli,
    const struct gt_watch *watch, const struct gt_train_result *r, struct gt_err *err)
{
	int rc = say_best(env, cli, r, err);

	if (!rc)
		rc = r->stopped ? say_stopped(env, cli, r, err) : say_done(env, cli, watch, r, err);
	return rc || !cli->common.json ? rc : print_result(cli, r, err);
}
