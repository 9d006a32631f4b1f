/* eval.c - a checkpoint measured on a data set, or asked about inputs: a session, and its data. */
#include "lib/train/eval.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/text.h"
#include "lib/device/plan_device.h"
#include "lib/train/checkpoint/adapter.h"
#include "lib/train/checkpoint/argument.h"
#include "lib/train/memory_limit.h"
#include "lib/train/report/damage_log.h"

struct gt_eval {
	struct gt_eval_options o;
	struct gt_log *log; /* NULL: another rank tells */
	struct gt_run_ckpt ckpt;
	struct gt_adapter adapter;
	struct gt_session s;
	struct gt_dataset *data;
	struct gt_task *task;           /* NULL: none */
	struct gt_tokenizer *tokenizer; /* the task's tokenizer */
	struct gt_batch_stats *stats;   /* the results of its samples */
	struct gt_task_scores scores;
	struct gt_program_pair programs;
	struct gt_predictions each;
	struct gt_damage_log damage;
	bool classes_known; /* the checkpoint says their number */
};

/* ---- the steps of the session ---- */

static void warn(const struct gt_eval *e)
{
	const struct gt_data_info *info = gt_dataset_info(e->data);
	const struct gt_run_ckpt *ckpt = &e->ckpt;
	struct gt_err model = GT_ERR_INIT, vocab = GT_ERR_INIT;

	if (!e->log)
		return;
	if (info->note)
		gt_log_warn(e->log, "{data}: %s", info->note);
	if (info->interpretation && !e->o.inputs)
		gt_log_info(e->log, "{data}: %s", info->interpretation);
	if (info->adopted && !e->o.inputs)
		gt_log_info(e->log, "{data} is read with %s, as in training", info->adopted);
	if (gt_run_ckpt_check_model(ckpt, e->o.model, &model))
		gt_log_warn(e->log, "%s", model.text);
	if (info->overruled)
		gt_log_warn(e->log, "{%s}: %s", e->o.inputs ? "read" : "data", info->overruled);
	if (gt_run_ckpt_check_vocab(ckpt->path, e->data, &vocab))
		gt_log_warn(e->log,
		    "%s; give the vocabulary of the training: {vocab} or {tokenizer}", vocab.text);
}

/* Nothing is known about a checkpoint of another program. */
static void warn_of_unknown(const struct gt_eval *e, const struct gt_data_description *trained_on)
{
	struct gt_err scale = GT_ERR_INIT, vocab = GT_ERR_INIT;
	struct gt_data_description here;

	if (!e->log)
		return;
	gt_data_describe(&here, e->data);
	if (gt_run_ckpt_check_scale(&e->ckpt, e->data, e->o.inputs ? "read" : "data", &scale))
		gt_log_warn(e->log, "%s", scale.text);
	if (gt_run_ckpt_check_given(&e->ckpt, trained_on, here.tokenizer, e->o.vocab, &vocab))
		gt_log_warn(e->log, "%s", vocab.text);
	if (!e->o.inputs && here.class_names && !trained_on->form.classes)
		gt_log_info(e->log,
		    "'%s' does not name its classes: they are numbered in the order of the names "
		    "in {data}",
		    e->ckpt.path);
}

/* A network with one output predicts a number, unless its checkpoint says otherwise. */
static void describe_number(
    struct gt_data_description *trained_on, const struct gt_data_request *request)
{
	if (trained_on->kind_known || trained_on->form.classes || request->form.classes != 1)
		return;
	trained_on->form.classes = 1;
	trained_on->form.target = GT_SAMPLE_NUMBER;
	trained_on->target.std = 1;
}

/* Inputs are read as the data that the model was trained on, or by the input that it takes. */
static int open_inputs(struct gt_eval *e, const struct gt_model *model,
    struct gt_data_request *request, struct gt_err *err)
{
	const struct gt_data_description *like = request->like;
	enum gt_sample_kind kind = like->form.kind;
	struct gt_model_input wish;
	char *spec;
	int rc;

	gt_model_preferred_input(model, &wish);
	if (!like->kind_known)
		kind = wish.form.kind;
	request->inputs = e->o.inputs;
	request->input_count = e->o.input_count;
	spec = gt_asprintf(err, "%s%s%s", gt_data_kind_of_inputs(like, kind),
	    e->o.settings ? "," : "", e->o.settings ? e->o.settings : "");
	rc = spec ? gt_dataset_open(&e->data, spec, request, err) : GT_ENOMEM;
	free(spec);
	if (!rc && !gt_dataset_info(e->data)->form.classes)
		rc = gt_err_set(
		    err, GT_EINVAL, "'%s' does not say how many classes it has", e->ckpt.path);
	return rc;
}

/* Read the loss of the training. If it is not known, *out is that of the network, or zeroed. */
static int read_loss(struct gt_loss *out, const struct gt_eval *e, struct gt_err *err)
{
	const char *spec = gt_run_ckpt_loss(&e->ckpt);

	*out = (struct gt_loss){ .output = gt_model_computes_loss(e->s.model) };
	return spec && gt_loss_parse(out, spec, err) ? gt_err_prefix(err, "'%s'", e->ckpt.path) : 0;
}

/* A network that returns its loss has no answer for a sample. */
static int check_own_loss(const struct gt_eval *e, const struct gt_loss *loss, struct gt_err *err)
{
	if (!loss->output || (!e->o.inputs && !e->o.how.top))
		return 0;
	return gt_err_set(err, GT_EINVAL,
	    "'%s' returns its loss, not scores: only its loss can be measured",
	    gt_model_name(e->s.model));
}

/* A text without context follows the token that begins texts or, if there is none, one that ends
 * them. */
static struct gt_task_tokens task_tokens(
    const struct gt_eval *e, const struct gt_data_specials *specials, int block)
{
	struct gt_task_tokens tokens = { .tokenizer = e->tokenizer,
		.first = gt_data_begin(specials, e->tokenizer),
		.most = block };

	if (tokens.first < 0 && specials->end_count)
		tokens.first = specials->ends[0];
	if (tokens.first >= gt_tokenizer_size(e->tokenizer))
		tokens.first = -1;
	return tokens;
}

/* Each sample is a batch, so that its sums are known. */
static int open_task(struct gt_session *s, void *self, struct gt_err *err)
{
	struct gt_eval *e = self;
	struct gt_data_description trained_on;
	struct gt_data_request request;
	struct gt_task_tokens tokens;
	struct gt_err model = GT_ERR_INIT;
	int rc;

	gt_data_request_of(&request, s->model, 0, 1);
	if (request.form.kind != GT_SAMPLE_TOKENS || gt_model_computes_loss(s->model))
		return gt_err_set(err, GT_EINVAL, "{task} is for language models, and '%s' is %s",
		    gt_model_name(s->model),
		    request.form.kind == GT_SAMPLE_TOKENS ? "one that returns its loss alone"
		                                          : "none");
	rc = gt_run_ckpt_describe(&trained_on, &e->ckpt, err);
	if (rc)
		return rc;
	rc = gt_run_ckpt_open_tokenizer(
	    &e->tokenizer, &e->ckpt, &trained_on, e->o.vocab, e->log, err);
	if (!rc) {
		tokens = task_tokens(e, &trained_on.specials, request.form.block);
		rc = gt_task_open(&e->task, e->o.task, e->o.data, &tokens, err);
	}
	if (!rc)
		rc = gt_task_dataset(&e->data, e->task, &request, err);
	if (!rc) {
		s->input.form = gt_dataset_info(e->data)->form;
		s->input.loss = gt_loss_default(&s->input.form);
		e->stats =
		    gt_calloc((size_t)gt_dataset_info(e->data)->samples, sizeof(*e->stats), err);
		rc = e->stats ? 0 : GT_ENOMEM;
	}
	if (!rc && e->log && gt_run_ckpt_check_model(&e->ckpt, e->o.model, &model))
		gt_log_warn(e->log, "%s", model.text);
	gt_data_description_release(&trained_on);
	return rc;
}

static int open_input(struct gt_session *s, void *self, struct gt_err *err)
{
	struct gt_eval *e = self;
	struct gt_data_description trained_on;
	struct gt_data_request request;
	struct gt_loss loss;
	int rc = gt_run_ckpt_describe(&trained_on, &e->ckpt, err);

	gt_data_request_of(
	    &request, s->model, 0, e->o.where.host_ranks ? e->o.where.host_ranks : s->group->size);
	request.like = &trained_on;
	request.log = e->log;
	request.strict = e->o.strict_data;
	gt_run_ckpt_choose_vocab(&trained_on, &request.vocab, &e->ckpt, e->o.vocab);
	if (!rc)
		rc = read_loss(&loss, e, err);
	if (!rc)
		rc = check_own_loss(e, &loss, err);
	request.ignores = !rc && loss.ignores && !e->o.inputs;
	request.ignored = rc ? 0 : loss.ignored;
	e->classes_known = trained_on.form.classes > 0;
	if (!rc && e->o.inputs)
		describe_number(&trained_on, &request);
	if (!rc)
		rc = e->o.inputs ? open_inputs(e, s->model, &request, err)
		                 : gt_dataset_open(&e->data, e->o.data, &request, err);
	if (!rc && e->o.how.top && !e->o.inputs &&
	    gt_dataset_info(e->data)->form.kind == GT_SAMPLE_TOKENS)
		rc = gt_err_set(
		    err, GT_EINVAL, "text has no classes: only its loss can be measured");
	if (!rc && gt_dataset_info(e->data)->form.paired) {
		rc = gt_err_set(err, GT_EINVAL,
		    "{data}: pairs are measured against the weights that a run begins with, which a "
		    "checkpoint does not have");
		gt_err_hint(err, "`gtrain train --val pairs:FILE` measures them");
	}
	if (!rc) {
		s->input.form = gt_dataset_info(e->data)->form;
		gt_model_take_form(s->model, &s->input.form);
		if (s->input.form.target == GT_SAMPLE_LABELS && e->o.how.top && !e->o.inputs)
			e->o.how.top = s->input.form.classes; /* each label has an answer */
		s->input.loss =
		    gt_loss_is_for(&loss, &s->input.form) ? loss : gt_loss_default(&s->input.form);
		warn(e);
		warn_of_unknown(e, &trained_on);
		e->damage = (struct gt_damage_log){ .damage = gt_dataset_damage(e->data),
			.log = e->log,
			.option = e->o.inputs ? NULL : "data",
			.max = e->o.inputs ? GT_DAMAGE_TEXTS : GT_DAMAGE_NAMES };
	}
	gt_data_description_release(&trained_on);
	return rc;
}

static int plan_evaluation(struct gt_session *s, void *self, struct gt_err *err)
{
	struct gt_eval *e = self;

	gt_session_add_pair(s, &e->programs);
	return gt_evaluate_plan(&e->programs, s, e->data, &e->o.how, err);
}

/* How its ranks evaluate. */
static struct gt_parallel_options parallel_of(const struct gt_eval_options *o)
{
	return (struct gt_parallel_options){ .kind = GT_PARALLEL_DDP,
		.forward = true,
		.way = o->where.way,
		.tensor = o->tensor,
		.precision = gt_amp_precision(o->amp, o->tf32),
		.ranks = o->where.group ? o->where.group->size : 1,
		.rank = o->where.group ? o->where.group->rank : 0 };
}

/* Plan with other options, on this device or on another one. */
static bool try_options(struct gt_trials *trials, const struct gt_eval *e, struct gt_device *device,
    const struct gt_eval_options *o, const char *words)
{
	const struct gt_parallel_options parallel = parallel_of(o);
	struct gt_program_pair pair = { 0 };
	struct gt_session_memory m = { 0 };
	struct gt_session s;
	int rc = gt_session_plan_open(&s, &e->s, device, &parallel, false, GT_ERR_IGNORED);

	gt_session_add_pair(&s, &pair);
	if (!rc)
		rc = gt_evaluate_plan(&pair, &s, e->data, &o->how, GT_ERR_IGNORED);
	if (!rc)
		gt_session_memory(&m, &s);
	gt_session_plan_close(&s);
	return device == e->s.device ? gt_trial_add(trials, rc, m.total, words)
	                             : gt_trial_add_on(trials, device, rc, m.total, words);
}

/* The largest batch that fits; the smallest one, if none does. */
static bool try_batches(
    struct gt_trials *trials, const struct gt_eval *e, enum gt_amp amp, const char *amp_words)
{
	char words[GT_TRIAL_WORDS];

	for (int b = e->o.how.batch / 2; b; b /= 2) {
		struct gt_eval_options o = e->o;

		o.how.batch = b;
		o.amp = amp;
		gt_trial_words(words, "{batch} %d%s", b, amp_words);
		if (try_options(trials, e, e->s.device, &o, words))
			return true;
		if (b > 1)
			gt_trial_drop_last(trials);
	}
	return false;
}

static void try_others(const struct gt_session *s, void *self, struct gt_trials *trials)
{
	const struct gt_eval *e = self;
	struct gt_eval_options o = e->o;
	char words[GT_TRIAL_WORDS];
	struct gt_device *cpu;
	bool fits = try_batches(trials, e, o.amp, "");

	o.amp = GT_AMP_BF16;
	gt_trial_words(words, " {amp} bf16");
	if (!e->o.amp && !try_options(trials, e, s->device, &o, words + 1) && !fits)
		try_batches(trials, e, o.amp, words);
	if (s->precision.tf32 || s->device->backend->host_memory ||
	    gt_device_open_for_plans(&cpu, gt_backend_find("cpu"), 0, GT_ERR_IGNORED))
		return;
	gt_trial_words(words, "{device} cpu");
	try_options(trials, e, cpu, &e->o, words);
	gt_device_close(cpu);
}

/* Whether the model has a setting for its number of classes. */
static bool takes_classes(const struct gt_model *model)
{
	char value[GT_MODEL_VALUE];
	struct gt_setting setting;

	for (int i = 0; gt_model_setting(model, i, &setting, value); i++)
		if (setting.key && !strcmp(setting.key, "classes"))
			return true;
	return false;
}

/* The last layer is missing, or it alone has another shape than the model's. */
static int fail_head(
    const struct gt_eval *e, const struct gt_weights_report *report, struct gt_err *err)
{
	const int64_t classes = report->head_classes;

	if (report->lacks_head) {
		gt_err_set(err, GT_EFORMAT,
		    "%s: the file has no last layer: its network was trained for another task",
		    e->ckpt.path);
		return gt_err_hint(
		    err, "train it on {data} first: gtrain train {model} %s", e->ckpt.path);
	}
	gt_err_set(err, GT_EFORMAT, "%s: the last layer has %lld classes, but the model has %d",
	    e->ckpt.path, (long long)classes, e->s.input.form.classes);
	if (!e->o.inputs)
		return gt_err_hint(err,
		    "use {data} with %lld classes, or check that the checkpoint is of {model}",
		    (long long)classes);
	if (e->classes_known || !takes_classes(e->s.model))
		return gt_err_hint(err, "is it a checkpoint of this model, with these settings?");
	return gt_err_hint(err, "add the setting classes=%lld to {model}", (long long)classes);
}

static int load_weights(struct gt_session *s, void *self, struct gt_err *err)
{
	const struct gt_eval *e = self;
	const struct gt_load_options load = gt_run_ckpt_load(&e->ckpt, &e->o.load);
	struct gt_weights_options options = { 0 };
	struct gt_weights_report report = { 0 };
	/* Weights that the file lacks have their initial values. */
	int rc = e->o.load.lenient ? gt_parallel_init(s->parallel, 0, err) : 0;

	options.head_count = gt_program_pair_head(&options.head, &e->programs, &s->input);
	if (!rc)
		rc =
		    gt_adapter_load_around(s, &e->adapter, &e->ckpt, &load, &options, &report, err);
	if (!rc && report.new_head)
		rc = fail_head(e, &report, err);
	if (!rc && e->log) {
		gt_run_ckpt_log_choice(&e->ckpt, &report, e->log);
		gt_session_log_keys(e->log, &report);
	}
	gt_weights_report_release(&report);
	return rc;
}

static struct gt_session_purpose purpose_of(const struct gt_eval *e)
{
	return (struct gt_session_purpose){ .name = e->o.inputs ? "prediction" : "evaluation",
		.input = e->o.task ? open_task : open_input,
		.plan = plan_evaluation,
		.try_others = try_others,
		.weights = load_weights };
}

/* ---- the evaluation ---- */

int gt_eval_check(const struct gt_eval_options *o, int ranks, struct gt_err *err)
{
	const struct gt_parallel_options parallel = parallel_of(o);
	struct gt_run_ckpt ckpt = { 0 };
	struct gt_adapter adapter = { 0 };
	struct gt_model *model = NULL;
	const char *name, *lora;
	int rc = gt_session_check_device(&o->where, &parallel.precision, err);

	if (!rc)
		rc = gt_parallel_check(&parallel, ranks, o->how.batch, err);
	if (!rc)
		rc = gt_load_check(&o->load, err);
	if (!rc)
		rc = gt_run_ckpt_open(&ckpt, o->ckpt, GT_RUN_BEST, err);
	if (!rc)
		rc = gt_adapter_choose(&adapter, &lora, o->lora, &ckpt, err);
	gt_adapter_release(&adapter);
	if (!rc) {
		name = gt_run_ckpt_model(&ckpt, o->model, err);
		rc = name ? gt_model_open(&model, name, err) : err->code;
	}
	gt_model_close(model);
	gt_run_ckpt_release(&ckpt);
	return rc;
}

static int open_all(struct gt_eval *e, struct gt_err *err)
{
	struct gt_session_options options = { .where = e->o.where, .parallel = parallel_of(&e->o) };
	const struct gt_session_purpose purpose = purpose_of(e);
	int rc = gt_load_check(&e->o.load, err);

	if (!rc)
		rc = gt_parallel_check(
		    &options.parallel, options.parallel.ranks, e->o.how.batch, err);
	if (!rc)
		rc = gt_run_ckpt_open(&e->ckpt, e->o.ckpt, GT_RUN_BEST, err);
	if (!rc)
		rc = gt_adapter_choose(&e->adapter, &options.lora, e->o.lora, &e->ckpt, err);
	options.model = rc ? NULL : gt_run_ckpt_model(&e->ckpt, e->o.model, err);
	return options.model ? gt_session_open(&e->s, &options, &purpose, e, err) : err->code;
}

int gt_eval_open(struct gt_eval **out, const struct gt_eval_options *options, struct gt_log *log,
    struct gt_err *err)
{
	struct gt_eval *e = gt_calloc(1, sizeof(*e), err);

	*out = NULL;
	if (!e)
		return GT_ENOMEM;
	e->o = *options;
	if (e->o.task)
		e->o.how.batch = 1;
	e->log = e->o.where.group && e->o.where.group->rank ? NULL : log;
	if (open_all(e, err)) {
		gt_eval_close(e);
		return err->code;
	}
	*out = e;
	return 0;
}

void gt_eval_close(struct gt_eval *e)
{
	if (!e)
		return;
	gt_session_close(&e->s);
	gt_predictions_release(&e->each);
	gt_dataset_close(e->data);
	gt_task_close(e->task);
	gt_tokenizer_close(e->tokenizer);
	gt_run_ckpt_release(&e->ckpt);
	gt_adapter_release(&e->adapter);
	free(e->stats);
	free(e);
}

const struct gt_data_info *gt_eval_data(const struct gt_eval *e)
{
	return gt_dataset_info(e->data);
}

int gt_eval_run(struct gt_eval *e, struct gt_metrics *out, struct gt_err *err)
{
	struct gt_evaluate_options how = e->o.how;
	int rc;

	how.no_targets = e->o.inputs != NULL;
	how.progress = e->log ? e->log->progress : NULL;
	how.batch_stats = e->stats;
	rc = gt_evaluate(&e->s, &e->programs, e->data, &how, out, &e->each, err);
	if (!rc && e->task)
		gt_task_measure(&e->scores, e->task, e->stats);
	if (rc) {
		gt_damage_log_names(&e->damage);
		return rc;
	}
	rc = gt_damage_log_gather(&e->damage, e->s.group, err);
	if (!rc)
		gt_damage_log_count(&e->damage);
	return rc;
}

int64_t gt_eval_damaged(const struct gt_eval *e)
{
	return e->damage.damage ? gt_damage_count(e->damage.damage) : 0;
}

bool gt_eval_is_damaged(const struct gt_eval *e, int64_t sample)
{
	return gt_dataset_is_damaged(e->data, sample);
}

const struct gt_task_scores *gt_eval_task_scores(const struct gt_eval *e)
{
	return &e->scores;
}

const struct gt_predictions *gt_eval_predictions(const struct gt_eval *e)
{
	return &e->each;
}

const char *gt_eval_class_name(const struct gt_eval *e, int class, char number[16])
{
	struct gt_data_description d;

	gt_data_describe(&d, e->data);
	if (d.class_names)
		return d.class_names[class];
	snprintf(number, 16, "%d", class);
	return number;
}

const char *gt_eval_token_name(const struct gt_eval *e, int id, char text[GT_EVAL_TOKEN])
{
	struct gt_data_description d;
	const unsigned char *bytes;
	size_t length = 0, used = 0;
	uint32_t code;

	gt_data_describe(&d, e->data);
	bytes = (const unsigned char *)gt_tokenizer_text(d.tokenizer, id, &length);
	if (!bytes || !length)
		snprintf(text, GT_EVAL_TOKEN, "%d", id);
	for (size_t i = 0; bytes && i < length && used + 5 < GT_EVAL_TOKEN;) {
		int step = gt_text_utf8(bytes + i, length - i, &code);

		if (step && code) {
			memcpy(text + used, bytes + i, (size_t)step);
			text[used += (size_t)step] = '\0';
		} else {
			used += (size_t)snprintf(text + used, 5, "\\x%02x", bytes[i]);
		}
		i += step ? (size_t)step : 1;
	}
	return text;
}

bool gt_eval_number(const struct gt_eval *e, int64_t sample, double *number)
{
	return gt_dataset_number(e->data, sample, number);
}

const char *gt_eval_sample_name(const struct gt_eval *e, int64_t sample)
{
	return gt_dataset_sample_name(e->data, sample);
}
