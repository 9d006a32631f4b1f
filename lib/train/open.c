/* open.c - everything a run needs, opened in order and closed in reverse. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/comm/device_group.h"
#include "lib/train/checkpoint/adopt.h"
#include "lib/train/checkpoint/snapshot.h"
#include "lib/train/checkpoint/weights.h"
#include "lib/train/evaluate.h"
#include "lib/train/reference.h"
#include "lib/train/run/resume.h"
#include "lib/train/run/run_dir.h"
#include "lib/train/state.h"

int gt_train_rank(const struct gt_train *t)
{
	return t->o.where.group ? t->o.where.group->rank : 0;
}

int gt_train_world(const struct gt_train *t)
{
	return t->o.where.group ? t->o.where.group->size : t->o.nproc > 1 ? t->o.nproc : 1;
}

int gt_train_host_ranks(const struct gt_train *t)
{
	return t->o.where.host_ranks ? t->o.where.host_ranks : gt_train_world(t);
}

int gt_train_virtual_ranks(const struct gt_train *t)
{
	return t->o.parallel.virtual_ranks > 1 ? t->o.parallel.virtual_ranks : 1;
}

/* Open the checkpoint that --resume goes on from; `auto` without one is a fresh start. */
static int open_resumed(struct gt_train *t, struct gt_err *err)
{
	int rc = strcmp(t->o.resume, "auto")
	             ? gt_run_ckpt_open(&t->ckpt, t->o.resume, GT_RUN_LATEST, err)
	             : gt_run_ckpt_latest(&t->ckpt, t->o.out, err);

	t->resumes = t->ckpt.path != NULL;
	return rc;
}

/* Open it once, before the data: weights belong to the data that they were trained on. The same
 * command line begins a run and goes on with it. */
static int open_origin(struct gt_train *t, struct gt_err *err)
{
	const char *source = t->o.init_from ? t->o.init_from : t->network;
	int rc = t->o.resume ? open_resumed(t, err) : 0;

	if (rc || t->resumes || !source)
		return rc;
	gt_run_ckpt_release(&t->ckpt);
	return gt_run_ckpt_open(&t->ckpt, source, GT_RUN_BEST, err);
}

/* Log the notes of a data set about itself. */
static void log_notes(const struct gt_train *t, const char *option, const struct gt_dataset *data)
{
	const struct gt_data_info *info = data ? gt_dataset_info(data) : NULL;

	if (!info || gt_train_rank(t)) /* all ranks would say the same */
		return;
	if (info->note)
		gt_log_warn(t->log, "{%s}: %s", option, info->note);
	if (info->interpretation)
		gt_log_info(t->log, "{%s}: %s", option, info->interpretation);
	if (info->adopted)
		gt_log_info(t->log, "{%s} is read with %s, as in training", option, info->adopted);
	if (info->overruled)
		gt_log_warn(t->log, "{%s}: %s", option, info->overruled);
}

/* A default split may be the same for both options. */
static void warn_of_same_files(const struct gt_train *t)
{
	if (t->o.val && !gt_train_rank(t) && gt_dataset_same_files(t->data, t->val))
		gt_log_warn(t->log,
		    "{val} reads the same files as {data}, so evaluations use samples of the "
		    "training: give {val} another split=, or replace it by {val-split}");
}

static int open_val(struct gt_train *t, struct gt_data_request *request, struct gt_err *err)
{
	struct gt_data_description trained_on;
	int rc;

	if (t->o.val || !(t->o.val_split > 0)) {
		rc = gt_dataset_fit(t->data, err);
		if (rc || !t->o.val)
			return rc;
		gt_data_describe(&trained_on, t->data);
		request->like = &trained_on;
		request->new_classes = false;
		request->same_size = true;
		request->held_out = true;
		if (gt_dataset_info(t->data)->form.block)
			request->form.block = gt_dataset_info(t->data)->form.block;
		request->memory = 0;
		request->parts = false;
		request->fit = false;
		rc = gt_dataset_open(&t->val, t->o.val, request, err);
		if (!rc && gt_run_ckpt_check_vocab(NULL, t->val, err))
			rc = gt_err_hint(err, "give {val} as ids of tokens, as {data} is");
		return rc ? gt_err_prefix(err, "{val}") : 0;
	}
	t->whole = t->data;
	t->data = NULL;
	rc = gt_dataset_split(t->whole, t->o.val_split, &t->data, &t->val, err);
	return rc ? rc : gt_dataset_fit(t->data, err);
}

/* Check that no option needs samples before they are handed over. */
static int check_memory(const struct gt_train *t, const struct gt_loss *loss, struct gt_err *err)
{
	const char *option = t->o.val_split > 0            ? "val-split"
	                     : t->o.class_weights          ? "class-weights"
	                     : gt_augment_any(&t->augment) ? "augment"
	                     : t->o.parallel.reproducible  ? "reproducible"
	                     : loss->ignores               ? "loss"
	                                                   : NULL;

	if (!gt_dataset_is_memory(t->data))
		return 0;
	if (gt_train_world(t) > 1)
		return gt_err_set(err, GT_EINVAL, "samples in memory are for a single rank");
	if (t->o.steps <= 0 && t->o.epochs <= 0) {
		gt_err_set(err, GT_EINVAL, "{steps} is missing: samples in memory have no end");
		return gt_err_hint(err, "the learning rate depends on the length of the run");
	}
	if (!option)
		return 0;
	gt_err_set(err, GT_EINVAL, "{%s}%s cannot be combined with samples in memory", option,
	    loss->ignores ? " with ignore-index" : "");
	return gt_err_hint(err, "it needs all samples of {data} before the first step");
}

static int open_data(struct gt_train *t, struct gt_err *err)
{
	struct gt_data_description trained_on = { 0 };
	struct gt_data_request request;
	const struct gt_run_ckpt *known = &t->ckpt;
	struct gt_loss loss = { 0 };
	int rc = t->o.loss ? gt_loss_parse(&loss, t->o.loss, err) : 0;

	if (!rc)
		rc = open_origin(t, err);
	if (!rc)
		rc = gt_model_check_loss(t->s.model, &loss, err);

	/* Data properties that come with the weights count before those of the folder of
	 * {model}. */
	if (!known->about && !known->config && t->model_folder.about)
		known = &t->model_folder;
	if (!rc)
		rc = gt_run_ckpt_describe(&trained_on, known, err);
	gt_data_request_of(&request, t->s.model, t->o.seed, gt_train_host_ranks(t));
	request.parts = t->augment.chosen[GT_AUGMENT_RRC];
	gt_run_ckpt_choose_vocab(&trained_on, &request.vocab, known, NULL);
	request.like = t->ckpt.path || known->about ? &trained_on : NULL;
	request.log = gt_train_rank(t) ? NULL : t->log;
	request.new_classes = !t->resumes;
	request.fit = true;
	request.strict = t->o.strict_data;
	request.ignores = loss.ignores;
	request.ignored = loss.ignored;
	if (t->o.memory)
		request.memory = (int64_t)t->batch * t->runs;
	if (!rc)
		rc = gt_dataset_open(&t->data, t->o.data, &request, err);
	if (!rc)
		gt_model_take_form(t->s.model, &gt_dataset_info(t->data)->form);
	if (!rc && t->o.memory)
		rc = check_memory(t, &loss, err);
	if (!rc)
		rc = open_val(t, &request, err);
	if (!rc)
		rc = gt_train_check_place(t, err);
	gt_data_description_release(&trained_on);
	return rc;
}

static void warn_of_model(const struct gt_train *t)
{
	struct gt_err why = GT_ERR_INIT;

	if (!gt_train_rank(t) &&
	    gt_run_ckpt_check_model(&t->ckpt, t->network ? t->network : t->o.model, &why))
		gt_log_warn(t->log, "%s", why.text);
}

/* Log that the run has another precision than its checkpoint, and which loss scale it has. */
static void report_amp(const struct gt_train *t, int trained)
{
	const char *now = gt_amp_names[t->o.amp];

	if (trained < 0 || trained == (int)t->o.amp || gt_train_rank(t))
		return;
	if (t->o.amp == GT_AMP_FP16)
		gt_log_warn(t->log,
		    "{amp} %s: the run was trained with {amp} %s; the loss scale begins at %g", now,
		    gt_amp_names[trained], gt_optim_scaler(t->optim)->scale);
	else
		gt_log_warn(t->log, "{amp} %s: the run was trained with {amp} %s%s", now,
		    gt_amp_names[trained],
		    trained == GT_AMP_FP16 ? ", whose loss scale is left out" : "");
}

static int hint_auto(const struct gt_train *t, int rc, struct gt_err *err)
{
	if (rc == GT_EFORMAT && !err->mismatch && !strcmp(t->o.resume, "auto"))
		gt_err_hint(err,
		    "with this %s out of the way, {resume} auto takes the one before it",
		    t->ckpt.set.path ? "folder" : "file");
	return rc;
}

static int fail_saved(const struct gt_train *t, int rc, struct gt_err *err)
{
	gt_err_prefix(err, "%s", t->ckpt.path);
	return hint_auto(t, rc, err);
}

static int resume(struct gt_train *t, struct gt_err *err)
{
	struct gt_weights_report report = { 0 };
	struct gt_snapshot s = { .store = t->s.store,
		.model = t->s.model,
		.optim = t->optim,
		.parallel = t->s.parallel,
		.step = t->resumed.step };
	const char **maps = gt_load_maps(&t->o.load, err);
	int rc = gt_train_load_base(t, err);

	if (rc) {
		free(maps);
		return rc;
	}
	s.maps = maps && *maps ? maps : NULL;
	s.no_base = t->base != NULL;
	rc = maps ? gt_snapshot_load(&s, &t->saved, &report, err) : GT_ENOMEM;
	free(maps);
	if (rc) {
		rc = fail_saved(t, rc, err);
	} else {
		gt_log_info(t->log, "resuming from %s", t->ckpt.path);
		if (s.step >= t->o.lr_schedule.total)
			gt_log_info(t->log,
			    "the run has done all of its %lld steps, so nothing is left to train; a "
			    "larger {%s} goes on",
			    (long long)s.step, t->o.steps > 0 ? "steps" : "epochs");
		report_amp(t, s.amp);
		t->step = s.step;
		gt_resume_set_best(t, &s);
	}
	if (!rc && t->saved.other_program)
		gt_adopt_log(t, &report, s.assumed);
	gt_weights_report_release(&report);
	return rc;
}

static int parse_texts(struct gt_augment *augment, struct gt_profile_options *profile,
    const struct gt_train_options *o, struct gt_err *err)
{
	struct gt_loss loss;

	*augment = (struct gt_augment){ 0 };
	*profile = (struct gt_profile_options){ 0 };
	if (o->profile && gt_profile_parse(profile, o->profile, err))
		return err->code;
	if (gt_model_check_rules(&o->freeze, &o->lr_scale, err) ||
	    (o->lora && gt_adapter_check(o->lora, err)) ||
	    (o->loss && gt_loss_parse(&loss, o->loss, err)) ||
	    (o->class_weights && gt_target_weights_check(o->class_weights, err)))
		return err->code;
	return o->augment ? gt_augment_parse(augment, o->augment, err) : 0;
}

static struct gt_parallel_options parallel_of(const struct gt_train_options *o)
{
	struct gt_parallel_options parallel = o->parallel;

	parallel.micro_batches = o->accumulate;
	parallel.optimizer = o->optim.kind;
	parallel.way = o->where.way;
	parallel.precision = gt_amp_precision(o->amp, o->tf32);
	return parallel;
}

int gt_train_check_batch(const struct gt_train_options *o, int ranks, int batch, struct gt_err *err)
{
	struct gt_train_options resolved = *o;
	struct gt_parallel_options parallel;

	resolved.batch = batch;
	if (gt_train_resolve_accumulate(&resolved, ranks, err))
		return err->code;
	parallel = parallel_of(&resolved);
	return gt_parallel_check(&parallel, ranks, batch, err);
}

int gt_train_check_options(const struct gt_train_options *o, int ranks, struct gt_err *err)
{
	struct gt_profile_options profile;
	struct gt_augment augment;
	int rc = parse_texts(&augment, &profile, o, err);

	if (!rc && !o->batch)
		return gt_train_check_auto_batch(o, ranks, err);
	return rc ? rc : gt_train_check_batch(o, ranks, o->batch, err);
}

/* Where the order of sums counts, one run of the plan does all micro-batches of a step: their
 * number must not change the order. */
int gt_train_set_ranks(struct gt_train *t, struct gt_err *err)
{
	struct gt_parallel_options *o = &t->o.parallel;
	int ranks = gt_train_world(t);

	if (gt_train_resolve_accumulate(&t->o, ranks, err))
		return err->code;
	*o = parallel_of(&t->o);
	if (gt_parallel_check(o, ranks, t->o.batch, err))
		return err->code;
	o->ranks = ranks;
	o->virtual_ranks = gt_parallel_virtual_ranks(o, ranks, t->o.batch);
	t->o.optim.exact_norm = o->reproducible;
	if (t->o.amp != GT_AMP_FP16)
		t->o.optim.scaler = (struct gt_scaler){ 0 };
	else if (!t->o.optim.scaler.growth_interval)
		t->o.optim.scaler = gt_scaler_default;
	t->batch = o->reproducible ? t->o.batch * t->o.accumulate : t->o.batch;
	t->runs = o->reproducible ? 1 : t->o.accumulate;
	return 0;
}

/* Say how many samples the sampler repeats so that the ranks get equal numbers. */
static void report_padding(const struct gt_train *t)
{
	int64_t rest = t->sampler.samples % t->sampler.world;

	if (rest && !t->o.drop_last && !gt_train_rank(t))
		gt_log_info(t->log,
		    "%lld samples do not divide among %d %s: %lld are read twice in each epoch",
		    (long long)t->sampler.samples, t->sampler.world,
		    t->o.parallel.reproducible ? "parts" : "ranks",
		    (long long)(t->sampler.world - rest));
}

/* Why collectives are slower than they could be. */
static void report_detour(const struct gt_train *t)
{
	const struct gt_device_way *way = gt_parallel_detour(t->s.parallel);
	bool missing = way && way->why.code == GT_EDEVICE;

	if (!way || gt_train_rank(t))
		return;
	gt_log_verbose(t->log, "GPUs reach each other by %s: %s%s%s", gt_device_way_text(way),
	    way->why.text, missing ? "; " : "", missing ? way->why.hint : "");
}

/* Name the matrices that tensor parallelism leaves whole, as far as a line has place for them. */
static void report_whole_weights(const struct gt_train *t)
{
	const struct gt_store *store = t->s.store;
	size_t matrices = 0, whole = 0, named = 0, used = 0;
	char names[200] = "", more[40] = "";

	for (size_t i = 0; i < store->slot_count; i++) {
		const struct gt_slot *slot = &store->slots[i];

		if (!gt_slot_is_weight(slot) || slot->ndim < 2 || slot->on_other_ranks)
			continue;
		matrices++;
		if (slot->held < slot->count)
			continue;
		if (named == whole++ && used + strlen(slot->name) + 5 < sizeof(names)) {
			named++;
			used += (size_t)snprintf(names + used, sizeof(names) - used, "%s'%s'",
			    used ? ", " : "", slot->name);
		}
	}
	if (t->o.parallel.tensor <= 1 || !whole || gt_train_rank(t))
		return;
	if (named < whole)
		snprintf(more, sizeof(more), " and %zu more", whole - named);
	gt_log_verbose(t->log, "ranks share %zu of %zu matrices, and each has all of %s%s",
	    matrices - whole, matrices, names, more);
}

/* Why kernels take slower algorithms than they could: each reason once, of the training steps. */
static void report_slow_kernels(const struct gt_train *t)
{
	const struct gt_program *p = gt_program_pair_any(&t->steps);
	const struct gt_step *steps;
	size_t count;

	if (!p->plan || gt_train_rank(t))
		return;
	steps = gt_plan_steps(p->plan, &count);
	for (size_t i = 0; i < count; i++) {
		const char *note = steps[i].call.note;
		size_t first = 0, same = 0;

		while (
		    note && (!steps[first].call.note || strcmp(steps[first].call.note, note) != 0))
			first++;
		for (size_t k = i; note && first == i && k < count; k++)
			same += steps[k].call.note && !strcmp(steps[k].call.note, note);
		if (same)
			gt_log_verbose(t->log, "%zu x %s could be faster: %s", same,
			    steps[i].node->op->name, note);
	}
}

void gt_train_set_sampler(struct gt_train *t)
{
	const struct gt_parallel_samples mine = gt_parallel_samples(t->s.parallel, t->batch);
	int64_t samples = gt_dataset_info(t->data)->samples;

	t->reads = mine.reads;
	t->sampler = (struct gt_sampler){
		.samples = t->o.samples && t->o.samples < samples ? t->o.samples : samples,
		.seed = t->o.seed,
		.rank = mine.rank,
		.world = mine.world,
		.batch = mine.batch,
		.virtual_ranks = mine.virtual_ranks,
		.per_step = t->runs,
		.shuffle = true,
		.drop_last = t->o.drop_last,
		.pad = true,
	};
}

static int open_saved(struct gt_train *t, struct gt_err *err)
{
	int rc = gt_saved_open(&t->saved, t->ckpt.file, err);

	if (rc)
		return hint_auto(t, rc, err);
	rc = gt_snapshot_read_progress(&t->resumed, &t->saved, err);
	if (!rc && t->saved.other_program)
		rc = gt_adopt_optimizer(t, err);
	return rc ? fail_saved(t, rc, err) : 0;
}

/* If the data have only classes of the checkpoint, its head is kept. */
static void report_classes(const struct gt_train *t)
{
	const struct gt_data_info *info = gt_dataset_info(t->data);
	int absent = info->absent_classes;

	if (t->ckpt.path && !t->resumes && absent > 0 && !gt_train_rank(t))
		gt_log_info(t->log, "{data} keeps the %d classes of %s, of which %d %s no samples",
		    info->form.classes, t->ckpt.path, absent, absent == 1 ? "has" : "have");
}

/* Data sets whose images are decoded when they are opened are known by now. */
static void watch_damage(struct gt_train *t)
{
	const struct gt_dataset *data[] = { t->data, t->whole ? NULL : t->val };
	static const char *const options[] = { "data", "val" };

	for (int i = 0; i < 2; i++) {
		t->damage[i] = (struct gt_damage_log){
			.damage = data[i] ? gt_dataset_damage(data[i]) : NULL,
			.log = gt_train_rank(t) ? NULL : t->log,
			.option = options[i],
			.max = GT_DAMAGE_NAMES,
		};
		gt_damage_log_names(&t->damage[i]);
	}
}

/* Numbers of another program's vocabulary may be those here: its checkpoint cannot say. */
static int check_vocab(const struct gt_train *t, struct gt_err *err)
{
	struct gt_err why = GT_ERR_INIT;

	if (!t->ckpt.path || !gt_run_ckpt_check_vocab(t->ckpt.path, t->data, &why))
		return 0;
	if (t->resumes && !t->saved.other_program) {
		*err = why;
		if (t->ckpt.dir.folder.path)
			return gt_err_hint(err, "give {data} as ids of tokens, as in training");
		return gt_err_hint(
		    err, "resume from the directory of its run, which has the vocabulary");
	}
	if (!gt_train_rank(t))
		gt_log_warn(t->log, "%s", why.text);
	return 0;
}

/* Weights of another program go on with pixels of the scale that they were trained with. Numbers of
 * tables are measured. */
static void warn_of_scale(const struct gt_train *t)
{
	struct gt_err why = GT_ERR_INIT;

	if (t->ckpt.path && (!t->resumes || t->saved.other_program) && !gt_train_rank(t) &&
	    gt_run_ckpt_check_scale(&t->ckpt, t->whole ? t->whole : t->data, "data", &why))
		gt_log_warn(t->log, "%s", why.text);
}

/* Losses that take scores compute probabilities themselves. */
static void warn_of_probabilities(const struct gt_train *t)
{
	enum gt_sample_target targets = t->s.input.loss.targets;
	const char *last = gt_model_last_function(t->s.model);

	if (!last || t->s.input.loss.output || gt_train_rank(t))
		return;
	if ((targets == GT_SAMPLE_CLASS && !strcmp(last, "softmax.int")) ||
	    (targets == GT_SAMPLE_LABELS && !strcmp(last, "sigmoid.default")))
		gt_log_warn(t->log,
		    "the network returns probabilities (%s), and the loss %s computes them from "
		    "scores: export a module that returns the scores",
		    last, t->loss);
}

static void warn_of_mode(const struct gt_train *t)
{
	int folded = gt_model_folded_norms(t->s.model);

	if (folded && !gt_train_rank(t))
		gt_log_warn(t->log,
		    "the exporter folded %d batch norm%s into convolutions, which train without "
		    "them: export with optimize=False to train them",
		    folded, folded == 1 ? "" : "s");
	if (gt_model_was_evaluating(t->s.model) && !gt_train_rank(t))
		gt_log_warn(t->log,
		    "the network was exported in eval mode: batch norms and dropouts train, but "
		    "dropout of attention and stochastic depth, if the module has them, are not "
		    "in the file");
}

/* Return whether ignore-index may be the target of a token, or is that of a sample. */
static bool finds_ignored(const struct gt_dataset *data, const struct gt_loss *loss)
{
	const struct gt_data_info *info = gt_dataset_info(data);

	if (info->form.kind == GT_SAMPLE_TOKENS)
		return loss->ignored >= 0 && loss->ignored < info->form.classes;
	for (int64_t i = 0; i < info->samples; i++)
		if (gt_dataset_class(data, i) < 0)
			return true;
	return false;
}

static void warn_of_ignored(const struct gt_train *t)
{
	const struct gt_loss *loss = &t->s.input.loss;

	if (loss->ignores && !gt_train_rank(t) && !finds_ignored(t->data, loss))
		gt_log_warn(
		    t->log, "ignore-index=%d: no target of {data} is ignored", loss->ignored);
}

/* Check that an option which needs classes is not combined with the loss that a network computes
 * itself: nothing is known of its targets. */
static int check_own_loss(const struct gt_train *t, struct gt_err *err)
{
	if (!t->s.input.loss.output || (!t->o.class_weights && !t->s.input.mixed))
		return 0;
	gt_err_set(err, GT_EINVAL, "{%s}%s cannot be combined with {loss} output",
	    t->o.class_weights ? "class-weights" : "augment", t->o.class_weights ? "" : " mixup");
	return gt_err_hint(err, "the network computes the loss itself: leave the option out");
}

/* The option gets its value, so that config.json has it. */
static int choose_loss(struct gt_train *t, struct gt_err *err)
{
	struct gt_model_input *input = &t->s.input;
	int rc = 0;

	input->loss = gt_model_default_loss(t->s.model, &input->form);
	if (t->o.loss)
		rc = gt_loss_parse(&input->loss, t->o.loss, err);
	if (!rc)
		rc = gt_loss_check(&input->loss, &input->form, err);
	if (!rc && t->val && gt_loss_check(&input->loss, &gt_dataset_info(t->val)->form, err))
		rc = gt_err_prefix(err, "{val}");
	if (!rc)
		rc = check_own_loss(t, err);
	if (rc)
		return rc;
	if (!t->o.loss && input->loss.output && !gt_train_rank(t))
		gt_log_info(t->log, "{loss} output: the network returns its loss");
	t->o.loss = t->loss = gt_loss_spec(&input->loss, err);
	if (!t->loss)
		return GT_ENOMEM;
	if (input->loss.ignores && input->mixed) {
		gt_err_set(err, GT_EINVAL,
		    "{loss} cross-entropy:ignore-index=N cannot be combined with {augment} mixup");
		return gt_err_hint(err, "leave one of them out");
	}
	if (t->o.class_weights)
		rc = gt_target_weights_open(
		    &t->target_weights, t->o.class_weights, t->data, &t->sampler, err);
	else if (input->loss.ignores || gt_dataset_info(t->data)->masked)
		rc = gt_target_weights_open_count(&t->target_weights, t->data, &t->sampler, err);
	input->class_weights = t->target_weights.of_class;
	return rc;
}

static int open_input(struct gt_session *s, void *self, struct gt_err *err)
{
	struct gt_train *t = self;
	int rc = open_data(t, err);

	if (!rc && t->resumes)
		rc = open_saved(t, err);
	if (!rc)
		rc = check_vocab(t, err);
	if (rc)
		return rc;
	log_notes(t, "data", t->whole ? t->whole : t->data);
	log_notes(t, "val", t->whole ? NULL : t->val);
	report_classes(t);
	warn_of_scale(t);
	warn_of_same_files(t);
	watch_damage(t);
	rc = gt_augment_check(&t->augment, gt_dataset_info(t->data), err);
	if (rc)
		return rc;
	s->input.form = gt_dataset_info(t->data)->form;
	s->input.mixed = gt_augment_mixes(&t->augment);
	gt_train_set_sampler(t);
	rc = choose_loss(t, err);
	if (rc)
		return rc;
	report_padding(t);
	warn_of_mode(t);
	warn_of_probabilities(t);
	warn_of_ignored(t);
	t->o.model = t->model = t->network ? gt_strdup(gt_run_network_name(t->network), err)
	                                   : gt_model_spec(s->model, err);
	rc = t->model ? gt_train_resolve_length(t, err) : GT_ENOMEM;
	if (!rc && t->resumes && gt_resume_check(t, err))
		rc = fail_saved(t, err->code, err);
	return rc;
}

static int plan_training(struct gt_session *s, void *self, struct gt_err *err)
{
	struct gt_train *t = self;

	if (t->o.parallel.sync_bn && !s->store->running_bytes)
		gt_log_warn(t->log, "{sync-bn}: this model has no batch normalization");
	report_whole_weights(t);
	if (gt_train_resolve_defaults(t, err) || gt_train_plan(t, err))
		return err->code;
	report_slow_kernels(t);
	return 0;
}

static int set_weights(struct gt_session *s, void *self, struct gt_err *err)
{
	struct gt_train *t = self;
	int rc = gt_optim_new(&t->optim, s->store, &t->o.optim, err);

	report_detour(t);
	if (!rc)
		rc = gt_parallel_init(s->parallel, t->o.seed, err);
	if (!rc)
		rc = t->resumes ? resume(t, err) : gt_train_set_initial(t, err);
	if (!rc && t->resumes)
		rc = gt_reference_read(t, err);
	if (!rc && t->ckpt.path)
		warn_of_model(t);
	return rc;
}

static const struct gt_session_purpose training = { .name = "run",
	.trains = true,
	.input = open_input,
	.plan = plan_training,
	.memory = gt_train_add_memory,
	.try_others = gt_train_try_others,
	.weights = set_weights };

static int open_all(struct gt_train *t, bool dry, struct gt_err *err)
{
	struct gt_session_options options = { .model = t->o.model,
		.where = t->o.where,
		.dry = dry,
		.freeze = t->o.freeze,
		.lr_scale = t->o.lr_scale };
	int rc = parse_texts(&t->augment, &t->profile, &t->o, err);

	if (!rc)
		rc = gt_load_check(&t->o.load, err);
	if (!rc)
		rc = gt_train_read_model(t, err);
	if (!rc)
		rc = gt_train_read_lora(t, err);
	options.model = t->o.model;
	options.lora = t->o.lora;
	if (dry)
		options.where.group = NULL;
	if (!rc)
		rc = gt_train_set_ranks(t, err);
	if (!rc && !dry && t->o.out && !gt_train_rank(t))
		rc = gt_train_check_files(&t->o, err);
	options.parallel = t->o.parallel;
	if (!rc)
		rc = gt_session_open(&t->s, &options, &training, t, err);
	if (rc || !dry || gt_train_rank(t) || t->o.where.described_bytes)
		return rc;
	return gt_train_warn_of_memory(t, &training, err);
}

int gt_train_open(struct gt_train **out, struct gt_train_options *options, bool dry,
    struct gt_log *log, struct gt_err *err)
{
	struct gt_train *t = gt_calloc(1, sizeof(*t), err);
	int rc;

	*out = NULL;
	if (!t)
		return GT_ENOMEM;
	t->o = *options;
	t->log = log;
	t->best_step = t->evaluated_step = -1;
	t->best_score = t->best_loss = -INFINITY;
	rc = t->o.batch ? 0 : gt_train_choose_batch(&t->o, log, err);
	if (!rc)
		rc = open_all(t, dry, err);
	gt_saved_close(&t->saved);
	gt_run_ckpt_release(&t->ckpt);
	gt_run_ckpt_release(&t->model_folder);
	t->model_path = NULL;
	if (rc) {
		gt_train_close(t);
		return rc;
	}
	*options = t->o;
	*out = t;
	return 0;
}

void gt_train_close(struct gt_train *t)
{
	if (!t)
		return;
	gt_session_stop(&t->s);
	gt_optim_free(t->optim);
	gt_session_close(&t->s);
	gt_sample_text_release(&t->sample_text);
	gt_dataset_close(t->val);
	gt_dataset_close(t->data);
	gt_dataset_close(t->whole);
	gt_snapshot_progress_release(&t->resumed);
	free(t->model);
	free(t->loss);
	free(t->lora);
	free(t->base);
	gt_adapter_release(&t->adapter);
	gt_target_weights_release(&t->target_weights);
	free(t->network);
	free(t);
}
