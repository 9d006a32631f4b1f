/* generate.c - the programs that write a text, and the loop that samples from them. */
#include "lib/train/generate.h"

#include <stdlib.h>
#include <string.h>

#include "lib/device/plan_device.h"
#include "lib/train/finite.h"
#include "lib/train/memory_limit.h"

enum { OPEN_CHUNK = 32 }; /* tokens */

/* ---- the programs ---- */

static int make_program(struct gt_program *p, const struct gt_session *s, int64_t tokens,
    enum gt_model_purpose purpose, bool mixed, struct gt_err *err)
{
	struct gt_program_options options = gt_session_program_options(s, purpose);
	struct gt_model_input input = s->input;

	input.form.block = (int)tokens;
	input.form.packed = input.form.paired = false; /* a text is one document */
	options.input = &input;
	if (!mixed) /* a session that trains may have {amp} */
		options.precision.low = GT_F32;
	return gt_program_init(p, &options, 1, err);
}

/* Programs for texts of any length below the block. A chunk of tokens is read at once, and the
 * tokens behind the last chunk one at a time. */
static int make_open_programs(struct gt_generator *g, const struct gt_session *s,
    const struct gt_generator_options *o, struct gt_err *err)
{
	const int64_t chunk = g->block < OPEN_CHUNK ? g->block : OPEN_CHUNK;
	int rc;

	if (!gt_model_caches(s->model))
		return gt_err_set(err, GT_ENOTSUP,
		    "the model '%s' has no caches of keys and values", gt_model_name(s->model));
	rc = make_program(&g->first, s, chunk, GT_MODEL_CONTINUE, o->mixed, err);
	return rc ? rc : make_program(&g->next, s, 1, GT_MODEL_CONTINUE, o->mixed, err);
}

/* The first logits come from `count` tokens, the last from count + tokens - 1. A text as long as
 * the block needs no caches: only the window sees it, now and later. */
static int make_programs(struct gt_generator *g, const struct gt_session *s,
    const struct gt_generator_options *o, struct gt_err *err)
{
	int64_t tokens = o->tokens;
	bool cached = g->count < g->block;
	int rc = 0;

	if (!gt_model_caches(s->model))
		return make_program(&g->window, s, g->block, GT_MODEL_PREDICT, o->mixed, err);
	if (cached && g->count > 1)
		rc = make_program(&g->first, s, g->count, GT_MODEL_CONTINUE, o->mixed, err);
	if (!rc && cached && (g->count == 1 || tokens > 1))
		rc = make_program(&g->next, s, 1, GT_MODEL_CONTINUE, o->mixed, err);
	if (!rc && (!cached || tokens - 1 > g->block - g->count))
		rc = make_program(&g->window, s, g->block, GT_MODEL_GENERATE, o->mixed, err);
	return rc;
}

static struct gt_program *program_at(struct gt_generator *g, int i)
{
	struct gt_program *programs[] = { &g->first, &g->next, &g->window };

	return i < 3 ? programs[i] : NULL;
}

static int64_t vocab_of(struct gt_generator *g)
{
	struct gt_program *p;

	for (int i = 0; (p = program_at(g, i)); i++)
		if (p->plan)
			return p->io.logits->shape[1];
	return 0;
}

void gt_generator_restart(struct gt_generator *g, const int32_t *prompt, size_t prompt_count)
{
	int64_t count = (int64_t)prompt_count;

	g->past = 0;
	g->count = count < g->block ? count : g->block;
	memcpy(g->text, prompt + count - g->count, (size_t)g->count * sizeof(*g->text));
}

void gt_generator_rewrite(struct gt_generator *g, const int32_t *ids, size_t count)
{
	int64_t same = 0, most = g->past < (int64_t)count ? g->past : (int64_t)count - 1;

	while (same < most && g->text[same] == ids[same])
		same++;
	g->past = same;
	g->count = (int64_t)count;
	memcpy(g->text, ids, count * sizeof(*ids));
}

int gt_generator_init(struct gt_generator *g, struct gt_session *s,
    const struct gt_generator_options *o, struct gt_err *err)
{
	int64_t block = s->input.form.block;
	struct gt_program *p;
	int rc;

	*g = (struct gt_generator){ .block = block,
		.ranks = gt_parallel_axis(s->parallel, GT_AXIS_TENSOR) };
	for (int i = 0; (p = program_at(g, i)); i++)
		gt_session_add(s, p);
	if (!o->prompt_count && !o->open)
		return gt_err_set(err, GT_EINVAL, "an empty prompt");
	g->text = gt_calloc((size_t)block, sizeof(*g->text), err);
	if (!g->text)
		return GT_ENOMEM;
	if (!o->open)
		gt_generator_restart(g, o->prompt, o->prompt_count);
	rc = o->open ? make_open_programs(g, s, o, err) : make_programs(g, s, o, err);
	g->vocab = vocab_of(g);
	return rc;
}

void gt_generator_release(struct gt_generator *g)
{
	free(g->text);
	*g = (struct gt_generator){ 0 };
}

/* ---- too little memory ---- */

/* The memory of another text, or of this one on another device. */
static bool try_text(struct gt_trials *trials, const struct gt_session *of,
    struct gt_device *device, const struct gt_generator_options *o, const char *words)
{
	const struct gt_group *ranks = gt_parallel_axis(of->parallel, GT_AXIS_TENSOR);
	const struct gt_parallel_options parallel = { .forward = true,
		.ranks = ranks->size,
		.rank = ranks->rank,
		.tensor = ranks->size,
		.precision = of->precision };
	struct gt_session_memory m = { 0 };
	struct gt_generator g = { 0 };
	struct gt_session s;
	int rc = gt_session_plan_open(&s, of, device, &parallel, false, GT_ERR_IGNORED);

	if (!rc)
		rc = gt_generator_init(&g, &s, o, GT_ERR_IGNORED);
	if (!rc)
		gt_session_memory(&m, &s);
	gt_session_plan_close(&s);
	gt_generator_release(&g);
	return device == of->device ? gt_trial_add(trials, rc, m.total, words)
	                            : gt_trial_add_on(trials, device, rc, m.total, words);
}

/* A text that is no longer than the block needs no window; a short prompt is read at once. */
void gt_generator_try_others(
    const struct gt_session *s, const struct gt_generator_options *o, struct gt_trials *trials)
{
	int64_t max_tokens = s->input.form.block - (int64_t)o->prompt_count + 1;
	struct gt_generator_options other = *o;
	char words[GT_TRIAL_WORDS];
	struct gt_device *cpu;

	other.tokens = max_tokens;
	gt_trial_words(words, "{tokens} %lld", (long long)max_tokens);
	if (max_tokens > 0 && max_tokens < o->tokens)
		try_text(trials, s, s->device, &other, words);
	other = *o;
	other.prompt_count = 1;
	other.tokens = o->tokens < s->input.form.block ? o->tokens : s->input.form.block;
	gt_trial_words(words, "a {prompt} of one token and {tokens} %lld", (long long)other.tokens);
	if (o->prompt_count > 1)
		try_text(trials, s, s->device, &other, words);
	if (s->precision.tf32 || s->device->backend->host_memory ||
	    gt_device_open_for_plans(&cpu, gt_backend_find("cpu"), 0, GT_ERR_IGNORED))
		return;
	gt_trial_words(words, "{device} cpu");
	try_text(trials, s, cpu, o, words);
	gt_device_close(cpu);
}

/* ---- one token ---- */

static int64_t tokens_of(const struct gt_program *p)
{
	return p->plan ? p->io.input->shape[1] : 0;
}

/* Run a program on the tokens behind those in the caches, as many as it takes; without caches, on
 * the last tokens of the text; or, if it asks for the place of the last token, on the whole text
 * and whatever follows it. */
static int run_program(
    struct gt_generator *g, struct gt_program *p, float *logits, struct gt_err *err)
{
	int64_t first = p->io.target ? 0 : p->io.past ? g->past : g->count - tokens_of(p);
	int32_t past = (int32_t)g->past, last = (int32_t)g->count - 1;
	int rc = gt_plan_write(p->plan, p->io.input, g->text + first, p->input_bytes, err);

	if (!rc && p->io.target)
		rc = gt_plan_write(p->plan, p->io.target, &last, sizeof(last), err);
	if (!rc && p->io.past)
		rc = gt_plan_write(p->plan, p->io.past, &past, sizeof(past), err);
	if (!rc)
		rc = gt_plan_run(p->plan, err);
	return rc ? rc
	          : gt_plan_read(p->plan, p->io.logits, logits, gt_value_bytes(p->io.logits), err);
}

int gt_generator_logits(struct gt_generator *g, float *logits, struct gt_err *err)
{
	int rc = 0;

	do {
		int64_t left = g->count - g->past;
		struct gt_program *p = &g->window;

		if (g->first.plan && left >= tokens_of(&g->first))
			p = &g->first;
		else if (g->next.plan && left > 0)
			p = &g->next;
		rc = run_program(g, p, logits, err);
		if (p == &g->window)
			return rc;
		g->past += tokens_of(p);
	} while (!rc && g->past < g->count);
	return rc;
}

void gt_generator_append(struct gt_generator *g, int32_t id)
{
	if (g->count == g->block) {
		memmove(g->text, g->text + 1, (size_t)(g->block - 1) * sizeof(*g->text));
		g->count--;
	}
	g->text[g->count++] = id;
}

/* ---- the text ---- */

static int write_token(struct gt_generator *g, struct gt_token_sampler *sampler, float *logits,
    int64_t i, int32_t *id, struct gt_err *err)
{
	double found;
	int rc = gt_generator_logits(g, logits, err);

	if (rc)
		return rc;
	if (!gt_all_finite_host(logits, g->vocab, GT_F32, &found))
		return gt_err_set(
		    err, GT_EDIVERGED, "the logits of token %lld hold %g", (long long)i + 1, found);
	*id = gt_token_sampler_draw(sampler, logits, i);
	/* Ranks have the same logits, but hosts may differ in the last bit of an exponential. */
	return g->ranks->size > 1 ? gt_broadcast(g->ranks, id, 1, GT_I32, 0, err) : 0;
}

int gt_generate(struct gt_generator *g, int64_t tokens, const struct gt_sampling *sampling,
    int (*emit)(void *self, int32_t id, struct gt_err *err), void *self, struct gt_err *err)
{
	float *logits = gt_calloc((size_t)g->vocab, sizeof(*logits), err);
	struct gt_token_sampler sampler = { 0 };
	int rc = logits ? gt_token_sampler_init(&sampler, g->vocab, sampling, err) : GT_ENOMEM;

	for (int64_t i = 0; !rc && i < tokens; i++) {
		int32_t id = 0;

		rc = write_token(g, &sampler, logits, i, &id, err);
		if (!rc)
			rc = emit(self, id, err);
		if (!rc)
			gt_generator_append(g, id);
	}
	gt_token_sampler_release(&sampler);
	free(logits);
	return rc == GT_GENERATE_END ? 0 : rc;
}
