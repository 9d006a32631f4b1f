/* sample_text.c - continue a text with the weights of a run that is being trained. */
#include "lib/train/sample_text.h"

#include <stdlib.h>

#include "lib/data/core/description.h"
#include "lib/train/state.h"

/* A text that fits into the block needs no window, which computes the whole block for a token. */
enum { PROMPT = 16, TOKENS = 128 };

/* Return why a model cannot write texts while it is trained, or NULL. */
static const char *find_obstacle(const struct gt_train *t, const struct gt_data_description *d)
{
	const struct gt_parallel_options *p = &t->o.parallel;

	if (!d->tokenizer)
		return "the data have no vocabulary";
	if (!gt_model_caches(t->s.model))
		return "the network has no caches of keys and values";
	if (p->tensor > 1 || p->stages > 1 || gt_parallel_forward_together(t->s.parallel))
		return "rank 0 lacks weights of other ranks";
	return t->s.input.form.block < 4 ? "the block is too short" : NULL;
}

static int read_prompt(struct gt_sample_text *s, const struct gt_train *t, struct gt_err *err)
{
	const struct gt_data_info *info = gt_dataset_info(t->val);
	const struct gt_draw draw = { .train = false };
	int32_t *target = gt_calloc(info->targets, sizeof(*target), err);
	int64_t block = t->s.input.form.block;
	int rc = GT_ENOMEM;

	s->prompt_count = (size_t)(block / 2 < PROMPT ? block / 2 : PROMPT);
	s->tokens = block - (int64_t)s->prompt_count;
	if (s->tokens > TOKENS)
		s->tokens = TOKENS;
	s->prompt = gt_calloc(1, info->input_bytes, err);
	if (s->prompt && target)
		rc = gt_dataset_read(t->val, 0, &draw, s->prompt, target, err);
	free(target);
	return rc;
}

int gt_sample_text_plan(struct gt_sample_text *s, struct gt_train *t, struct gt_err *err)
{
	struct gt_generator_options options;
	struct gt_data_description d;
	int rc;

	if (!t->o.sample_text || !t->val || t->s.input.form.kind != GT_SAMPLE_TOKENS)
		return 0;
	gt_data_describe(&d, t->data);
	s->left_out = find_obstacle(t, &d);
	if (s->left_out)
		return 0;
	rc = read_prompt(s, t, err);
	if (rc)
		return rc;
	options = (struct gt_generator_options){
		.prompt = s->prompt, .prompt_count = s->prompt_count, .tokens = s->tokens
	};
	return gt_generator_init(&s->generator, &t->s, &options, err);
}

void gt_sample_text_release(struct gt_sample_text *s)
{
	gt_generator_release(&s->generator);
	free(s->prompt);
	*s = (struct gt_sample_text){ 0 };
}

static int put_token(void *self, int32_t id, struct gt_err *err)
{
	(void)err;
	gt_token_writer_put(self, id);
	return 0;
}

/* Write the prompt, and what follows it. */
static int write_tokens(FILE *out, long *prompt_end, struct gt_sample_text *s,
    const struct gt_tokenizer *tokenizer, uint64_t seed, struct gt_err *err)
{
	struct gt_token_writer writer = { .tok = tokenizer, .out = out };
	struct gt_sampling sampling;
	int rc;

	gt_sampling_init(&sampling);
	sampling.seed = seed;
	for (size_t i = 0; i < s->prompt_count; i++)
		gt_token_writer_put(&writer, s->prompt[i]);
	*prompt_end = ftell(out);
	gt_generator_restart(&s->generator, s->prompt, s->prompt_count);
	rc = gt_generate(&s->generator, s->tokens, &sampling, put_token, &writer, err);
	gt_token_writer_end(&writer);
	return rc;
}

int gt_sample_text_write(struct gt_buf *out, size_t *prompt_bytes, struct gt_sample_text *s,
    const struct gt_dataset *data, uint64_t seed, struct gt_err *err)
{
	struct gt_data_description d;
	char *text = NULL;
	size_t size = 0;
	long prompt_end = 0;
	FILE *stream = open_memstream(&text, &size);
	int rc;

	if (!stream)
		return gt_err_sys(err, "cannot hold the text");
	gt_data_describe(&d, data);
	rc = write_tokens(stream, &prompt_end, s, d.tokenizer, seed, err);
	if (fclose(stream) && !rc)
		rc = gt_err_sys(err, "cannot hold the text");
	if (!rc)
		gt_buf_add(out, text, size);
	*prompt_bytes = (size_t)prompt_end < size ? (size_t)prompt_end : size;
	free(text);
	return rc ? rc : gt_buf_check(out, err);
}
