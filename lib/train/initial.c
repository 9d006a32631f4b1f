/* initial.c - the initial weights of a new run: those of a checkpoint, or random ones. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/ckpt/ckpt.h"
#include "lib/model/lora.h"
#include "lib/train/report/start_lines.h"
#include "lib/train/run/about.h"
#include "lib/train/state.h"

const char *const gt_initial_names[] = {
	[GT_INITIAL_RANDOM] = "random",
	[GT_INITIALS] = NULL,
};

/* ---- adapters ---- */

int gt_train_read_lora(struct gt_train *t, struct gt_err *err)
{
	struct gt_lora l;
	int rc;

	if (!t->o.lora)
		return 0;
	if (gt_adapter_is_folder(t->o.lora)) {
		rc = gt_adapter_open(&t->adapter, t->o.lora, err);
		t->o.lora = t->adapter.spec;
		return rc ? gt_err_prefix(err, "{lora}") : 0;
	}
	rc = gt_lora_parse(&l, t->o.lora, err);
	if (rc)
		return rc;
	t->o.lora = t->lora = gt_lora_spec(&l, err);
	gt_lora_release(&l);
	return t->lora ? 0 : GT_ENOMEM;
}

int gt_train_load_base(struct gt_train *t, struct gt_err *err)
{
	json_t *about = NULL;
	const char *base;
	int rc = t->o.lora ? gt_about_open(&about, t->ckpt.file, err) : 0;

	base = json_string_value(json_object_get(about, "base"));
	if (!rc && base) {
		t->base = gt_strdup(base, err);
		rc = t->base ? gt_adapter_load_base(&t->s, base, err) : GT_ENOMEM;
	}
	json_decref(about);
	return rc;
}

/* Weights with an adapter are of use for a run with the same adapter. */
static int check_adapters(const struct gt_train *t, struct gt_err *err)
{
	if (!gt_run_ckpt_lora(&t->ckpt) || (t->o.lora && !t->adapter.spec))
		return 0;
	if (t->adapter.spec)
		return gt_err_set(
		    err, GT_EINVAL, "{lora}: '%s' has an adapter of its own", t->ckpt.path);
	gt_err_set(err, GT_EINVAL, "'%s' has an adapter", t->ckpt.path);
	return gt_err_hint(err,
	    "{lora} %.120s trains it further; `gtrain ckpt merge-lora` adds it to the weights",
	    gt_run_ckpt_lora(&t->ckpt));
}

/* Note where the frozen weights are, so that the run's checkpoints need not have them: another
 * run's may be replaced, and options may have changed names or left weights out. */
static int note_base(struct gt_train *t, const struct gt_weights_report *report, struct gt_err *err)
{
	const struct gt_load_options *load = &t->o.load;
	const char *base = gt_run_ckpt_base(&t->ckpt);
	char *path;

	if (base) {
		t->base = gt_strdup(base, err);
		return t->base ? 0 : GT_ENOMEM;
	}
	if (!t->o.lora || gt_run_ckpt_lora(&t->ckpt) || t->ckpt.dir.folder.path ||
	    load->map.count || load->names != GT_NAMES_AUTO || report->missing_count)
		return 0;
	path = realpath(t->ckpt.path, NULL);
	if (!path)
		return gt_err_sys(err, "cannot find '%s'", t->ckpt.path);
	t->base = path;
	return 0;
}

/* Checkpoints have no place for blocks, so they must be able to name the file of the weights. */
static int check_base(const struct gt_train *t, struct gt_err *err)
{
	const struct gt_lora *l = gt_model_lora(t->s.model);

	if (!l || !gt_block_is_quantized(l->frozen) || t->base)
		return 0;
	gt_err_set(err, GT_EINVAL, "{lora} frozen=%s needs a base that checkpoints can name",
	    gt_block_names[l->frozen]);
	return gt_err_hint(err, "a checkpoint or the folder of a model is such a base; that of a "
	                        "run, or one read with {map} or other names, is not");
}

/* Why the last layers start with random weights: "{OPTION} TEXT". */
struct head_reason {
	const char *option;
	char text[GT_TARGETS_TEXT + 24];
};

static struct head_reason find_head_reason(
    const struct gt_train *t, const struct gt_weights_report *report)
{
	struct head_reason reason = { .option = "data" };
	char targets[GT_TARGETS_TEXT];

	if (report->lacks_head) {
		reason.option = t->model_path ? "model" : "init-from";
		snprintf(reason.text, sizeof(reason.text), "lacks it");
	} else {
		snprintf(reason.text, sizeof(reason.text), "has %s%s",
		    gt_describe_targets(targets, gt_dataset_info(t->data)),
		    report->head_classes ? "" : " of other names");
	}
	return reason;
}

static bool is_random(const struct gt_weights_report *report, const char *name)
{
	for (size_t i = 0; i < report->random_count; i++)
		if (!strcmp(report->random[i], name))
			return true;
	return false;
}

/* Return the length of the outermost module of a parameter, all of whose parameters are new. */
static size_t find_new_module(
    const struct gt_store *store, const struct gt_weights_report *report, const char *name)
{
	for (const char *end = strchr(name, '.'); end; end = strchr(end + 1, '.')) {
		const size_t length = (size_t)(end - name) + 1;
		bool whole = true;

		for (size_t i = 0; whole && i < store->slot_count; i++)
			whole = strncmp(store->slots[i].name, name, length) != 0 ||
			        is_random(report, store->slots[i].name);
		if (whole)
			return length - 1;
	}
	return 0;
}

/* New layers must be trained: name all of them for train=. */
static int fail_frozen_by_lora(const struct gt_train *t, const char *name,
    const struct gt_weights_report *report, const struct head_reason *reason, struct gt_err *err)
{
	struct gt_buf list = { 0 };
	size_t last = 0; /* where the last module in the list begins */

	for (size_t i = 0; i < report->random_count; i++) {
		const char *random = report->random[i];
		const size_t length = find_new_module(t->s.store, report, random);

		if (!length || (list.length - last == length && list.text &&
		                   !strncmp(list.text + last, random, length)))
			continue;
		gt_buf_puts(&list, list.length ? "|" : "");
		last = list.length;
		gt_buf_add(&list, random, length);
	}
	gt_err_set(err, GT_EINVAL,
	    "{lora} freezes '%s', which starts with random weights, because {%s} %s", name,
	    reason->option, reason->text);
	if (list.length)
		gt_err_hint(err, "'train=%s' in {lora} trains the new layers, too", list.text);
	gt_buf_release(&list);
	return err->code;
}

/* --freeze would keep new layers at their initial values. */
static int check_new_head(const struct gt_train *t, const struct gt_weights_report *report,
    const struct head_reason *reason, struct gt_err *err)
{
	for (size_t i = 0; i < report->random_count; i++) {
		const struct gt_slot *slot = gt_store_find(t->s.store, report->random[i]);

		if (!slot || !slot->frozen)
			continue;
		if (t->o.lora && !gt_lora_has(gt_model_lora(t->s.model), slot->name))
			return fail_frozen_by_lora(t, slot->name, report, reason, err);
		gt_err_set(err, GT_EINVAL,
		    "{freeze} matches '%s', which starts with random weights, because {%s} %s",
		    slot->name, reason->option, reason->text);
		return gt_err_hint(err, "use a {freeze} that does not match '%s'", slot->name);
	}
	return 0;
}

static void log_new_head(const struct gt_train *t, const struct gt_weights_options *o,
    const struct gt_weights_report *report, const struct head_reason *reason)
{
	if (report->random_count > (size_t)o->head_count)
		gt_log_info(t->log, "'%s' and %zu more start with random weights, because {%s} %s",
		    o->head[0], report->random_count - 1, reason->option,
		    report->lacks_head ? "lacks them" : reason->text);
	else
		gt_log_info(t->log, "'%s' starts with random weights, because {%s} %s", o->head[0],
		    reason->option, reason->text);
}

/* Parameters that the file lacks keep their initial values with --strict=no. Frozen ones keep them
 * for the whole run. */
static void warn_of_frozen(const struct gt_train *t, const struct gt_weights_report *report)
{
	const char *first = NULL;
	int count = 0;

	for (size_t i = 0; i < report->missing_count; i++) {
		const struct gt_slot *slot = gt_store_find(t->s.store, report->missing[i]);

		if (!slot || !slot->frozen)
			continue;
		first = first ? first : slot->name;
		count++;
	}
	if (count)
		gt_log_warn(t->log,
		    "{freeze}: %d frozen parameter%s, the first of them '%s', %s not in %s and "
		    "will not be trained",
		    count, count == 1 ? "" : "s", first, count == 1 ? "is" : "are", t->ckpt.path);
}

/* A checkpoint of a run with adapters has them; of others, the folder of {lora}, or initial values.
 */
static int load_initial(struct gt_train *t, const struct gt_load_options *load,
    const struct gt_weights_options *options, struct gt_weights_report *report, struct gt_err *err)
{
	struct gt_weights_options o = *options;

	if (!t->o.lora || t->adapter.spec || gt_run_ckpt_lora(&t->ckpt))
		return gt_adapter_load_around(
		    &t->s, &t->adapter, &t->ckpt, load, options, report, err);
	o.no_adapters = true;
	return gt_session_load(&t->s, t->ckpt.file, load, &o, report, err);
}

static int init_from(struct gt_train *t, struct gt_err *err)
{
	const char *const *head;
	/* The head of another number of classes is replaced. */
	const int head_count = gt_program_pair_head(&head, &t->steps, &t->s.input);
	const struct gt_weights_options options = { .finite = true,
		.head = head,
		.head_count = head_count,
		.new_head = gt_dataset_info(t->data)->other_classes };
	const struct gt_load_options load = gt_run_ckpt_load(&t->ckpt, &t->o.load);
	struct gt_weights_report report = { 0 };
	struct head_reason reason;
	int rc = check_adapters(t, err);

	if (!rc)
		rc = load_initial(t, &load, &options, &report, err);
	if (!rc && report.new_head) {
		reason = find_head_reason(t, &report);
		rc = check_new_head(t, &report, &reason, err);
	}
	if (!rc)
		rc = note_base(t, &report, err);
	if (!rc)
		rc = check_base(t, err);
	if (!rc && !gt_train_rank(t)) {
		gt_run_ckpt_log(&t->ckpt, &report, t->log);
		if (report.new_head)
			log_new_head(t, &options, &report, &reason);
		gt_session_log_keys(t->log, &report);
		warn_of_frozen(t, &report);
	}
	gt_weights_report_release(&report);
	return rc;
}

/* Log that the weights are random: a user who names a folder as {model} expects its weights. */
static void report_random(const struct gt_train *t)
{
	if (!t->model_path || gt_train_rank(t))
		return;
	if (t->o.initial == GT_INITIAL_RANDOM && gt_ckpt_is_in(t->model_path))
		gt_log_info(
		    t->log, "{init} random: the weights in '%s' are not used", t->model_path);
	else
		gt_log_info(t->log, "'%s' has no weights: the run starts from random weights",
		    t->model_path);
}

int gt_train_set_initial(struct gt_train *t, struct gt_err *err)
{
	if (t->ckpt.path)
		return init_from(t, err);
	if (check_base(t, err))
		return err->code;
	report_random(t);
	if (t->o.lora && !gt_train_rank(t))
		gt_log_warn(t->log,
		    "{lora}: the frozen weights are random; {init-from} or the folder of a {model} "
		    "gives trained ones");
	return t->adapter.spec ? gt_adapter_load(&t->s, &t->adapter, err) : 0;
}

/* Replace {model} by the name of the model in the folder that it names, if it names one. The folder
 * then is also the source of the weights, unless options say otherwise. */
int gt_train_read_model(struct gt_train *t, struct gt_err *err)
{
	const char *given = t->o.model;

	t->o.model = gt_run_ckpt_model(&t->model_folder, given, err);
	if (!t->o.model)
		return err->code;
	if (gt_model_is_file(t->o.model)) {
		if (t->o.initial == GT_INITIAL_RANDOM)
			return gt_err_set(err, GT_EINVAL,
			    "{init} random: '%s' has weights, but no rules for initial ones",
			    t->o.model);
		t->network = gt_strdup(t->o.model, err);
		return t->network ? 0 : GT_ENOMEM;
	}
	if (!t->model_folder.folder_about)
		return 0;
	t->model_path = given;
	if (!t->o.init_from && t->o.initial == GT_INITIAL_AUTO && gt_ckpt_is_in(given))
		t->o.init_from = given;
	return 0;
}
