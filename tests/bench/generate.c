/* generate.c - time per token of gtrain's generation, with random weights, as JSON. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/train/generate.h"

/*
 * bench_generate MODEL PROMPT TOKENS [DTYPE]: a prompt of PROMPT tokens, then TOKENS more, each the
 * likeliest, with weights that are kept in DTYPE (generate --dtype). Waits for a line on standard
 * input before each round, and answers
 *
 *   prompt_s     seconds to the first new token
 *   tokens_per_s of those after the first
 *   read_gb_s    rate of a bare loop of as many threads that reads these weights, in the same round
 *   token_gb     GB of weights that a token reads
 *
 * Threads are OpenMP's (OMP_NUM_THREADS).
 */
struct bench {
	struct gt_session s; /* of a round */
	struct gt_generator g;
	struct gt_err err;
	int32_t *prompt;
	int64_t prompt_count, tokens, written;
	enum gt_block block;
	double first_s; /* when the first token came */
};

static void fail(const struct bench *b)
{
	fprintf(stderr, "bench_generate: %s\n", b->err.text);
	exit(1);
}

static int count_token(void *self, int32_t id, struct gt_err *err)
{
	struct bench *b = self;

	(void)id;
	(void)err;
	if (!b->written++)
		b->first_s = gt_clock_s();
	return 0;
}

static int make_prompt(struct gt_session *s, void *self, struct gt_err *err)
{
	struct bench *b = self;

	gt_model_preferred_input(s->model, &s->input);
	if (s->input.form.classes < 1)
		return gt_err_set(err, GT_EINVAL, "MODEL needs a vocabulary: write vocab=N");
	for (int64_t i = 0; i < b->prompt_count; i++)
		b->prompt[i] = (int32_t)(i * 7 % s->input.form.classes);
	return 0;
}

static int plan(struct gt_session *s, void *self, struct gt_err *err)
{
	struct bench *b = self;

	return gt_generator_init(&b->g, s,
	    &(struct gt_generator_options){
	        .prompt = b->prompt, .prompt_count = (size_t)b->prompt_count, .tokens = b->tokens },
	    err);
}

static int set_weights(struct gt_session *s, void *self, struct gt_err *err)
{
	(void)self;
	return gt_parallel_init(s->parallel, 1, err);
}

static void open_session(struct bench *b, const char *model)
{
	static const struct gt_session_purpose generation = {
		.input = make_prompt, .plan = plan, .weights = set_weights
	};
	const struct gt_session_options options = {
		.model = model, .block = b->block, .parallel = { .forward = true }
	};

	if (gt_session_open(&b->s, &options, &generation, b, &b->err))
		fail(b);
}

static uint64_t sum_of_words(const void *memory, size_t bytes)
{
	const uint64_t *x = memory;
	int64_t n = (int64_t)(bytes / sizeof(*x));
	uint64_t sum = 0;

#pragma omp parallel for simd schedule(static) reduction(+ : sum)
	for (int64_t i = 0; i < n; i++)
		sum += x[i];
	return sum;
}

/* GB per second of a loop that adds up the words of all weights. */
static double read_rate(const struct gt_store *s)
{
	size_t parameters = gt_plane_bytes(s, s->parameters),
	       frozen = gt_plane_bytes(s, s->buffers);
	double began = gt_clock_s();
	volatile uint64_t kept;

	kept = sum_of_words(s->parameters->memory, parameters) +
	       sum_of_words(s->buffers->memory, frozen);
	(void)kept;
	return (double)(parameters + frozen) / (gt_clock_s() - began) * 1e-9;
}

/* Position embeddings are the only weights of which a token reads a row. */
static double token_gb(const struct bench *b)
{
	size_t bytes = 0;

	for (size_t i = 0; i < b->s.store->slot_count; i++)
		if (strcmp(b->s.store->slots[i].name, "transformer.wpe.weight") != 0)
			bytes += gt_slot_bytes(&b->s.store->slots[i]);
	return (double)bytes * 1e-9;
}

static void round_of(struct bench *b, const char *model)
{
	const struct gt_sampling greedy = { .top_p = 1 };
	double began, ended, gb_s;

	open_session(b, model);
	gb_s = read_rate(b->s.store);
	b->written = 0;
	began = gt_clock_s();
	if (gt_generate(&b->g, b->tokens, &greedy, count_token, b, &b->err))
		fail(b);
	ended = gt_clock_s();
	printf("{\"prompt_s\":%.6g,\"tokens_per_s\":%.6g,\"read_gb_s\":%.6g,\"token_gb\":%.6g}\n",
	    b->first_s - began, (double)(b->tokens - 1) / (ended - b->first_s), gb_s, token_gb(b));
	fflush(stdout);
	gt_session_close(&b->s);
	gt_generator_release(&b->g);
}

static enum gt_block block_named(const char *name)
{
	int i = 0;

	while (gt_block_names[i] && strcmp(gt_block_names[i], name) != 0)
		i++;
	if (gt_block_names[i])
		return (enum gt_block)i;
	fprintf(stderr, "bench_generate: no type '%s'\n", name);
	exit(2);
}

int main(int argc, char **argv)
{
	struct bench b = { .err = GT_ERR_INIT };
	char line[16];

	if (argc != 4 && argc != 5) {
		fputs("usage: bench_generate MODEL PROMPT TOKENS [DTYPE]\n", stderr);
		return 2;
	}
	b.block = argc == 5 ? block_named(argv[4]) : GT_BLOCK_NONE;
	b.prompt_count = atoll(argv[2]);
	b.tokens = atoll(argv[3]);
	b.prompt = calloc((size_t)b.prompt_count, sizeof(*b.prompt));
	if (!b.prompt)
		return 1;
	while (fgets(line, sizeof(line), stdin))
		round_of(&b, argv[1]);
	free(b.prompt);
	return 0;
}
