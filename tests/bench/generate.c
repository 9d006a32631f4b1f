/* generate.c - time per token of gtrain's generation, with random weights, as JSON. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/clock.h"
#include "lib/train/generate.h"

/*
 * bench_generate MODEL PROMPT TOKENS: a prompt of PROMPT tokens, then TOKENS more, each the
 * likeliest. Waits for a line on standard input before each round, and answers
 *
 *   prompt_s     seconds to the first new token
 *   tokens_per_s of those after the first
 *   read_gb_s    rate of a bare loop of as many threads that reads these weights, in the same round
 *   token_gb     GB of weights that a token reads
 *
 * Threads are OpenMP's (OMP_NUM_THREADS).
 */
struct bench {
	struct gt_model *model;
	struct gt_model_input input;
	struct gt_device *device;
	struct gt_store *store;
	struct gt_err err;
	int32_t *prompt;
	int64_t prompt_count, tokens, written;
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

static void open_generator(struct bench *b, struct gt_generator *g)
{
	const struct gt_generator_options o = { .model = b->model,
		.input = &b->input,
		.store = b->store,
		.prompt = b->prompt,
		.prompt_count = (size_t)b->prompt_count,
		.tokens = b->tokens };

	if (gt_generator_init(g, &o, &b->err))
		fail(b);
	if (!b->store->allocated &&
	    (gt_store_alloc(b->store, &b->err) || gt_store_init(b->store, 1, &b->err)))
		fail(b);
	if (gt_generator_bind(g, &b->err))
		fail(b);
}

static void open_model(struct bench *b, char **argv)
{
	b->prompt_count = atoll(argv[2]);
	b->tokens = atoll(argv[3]);
	if (gt_model_open(&b->model, argv[1], &b->err))
		fail(b);
	gt_model_wishes(b->model, &b->input);
	b->prompt = calloc((size_t)b->prompt_count, sizeof(*b->prompt));
	for (int64_t i = 0; b->prompt && i < b->prompt_count; i++)
		b->prompt[i] = (int32_t)(i * 7 % b->input.classes);
	if (!b->prompt || gt_device_open(&b->device, &gt_cpu_backend, 0, &b->err) ||
	    gt_program_store(&b->store, b->model, &b->input, b->device, false, NULL, &b->err))
		fail(b);
}

/* GB per second of a loop that adds up all weights. */
static double read_rate(const struct gt_store *s)
{
	const float *x = s->parameters;
	int64_t n = s->flat_count;
	double began = gt_clock_s();
	volatile float kept;
	float sum = 0;

#pragma omp parallel for simd schedule(static) reduction(+ : sum)
	for (int64_t i = 0; i < n; i++)
		sum += x[i];
	kept = sum;
	(void)kept;
	return (double)n * sizeof(*x) / (gt_clock_s() - began) * 1e-9;
}

/* Position embeddings are the only weights of which a token reads a row. */
static double token_gb(const struct bench *b)
{
	const struct gt_slot *wpe = gt_store_find(b->store, "transformer.wpe.weight");
	int64_t n = b->store->parameter_count - (wpe ? wpe->count : 0);

	return (double)n * sizeof(float) * 1e-9;
}

static void round_of(struct bench *b)
{
	const struct gt_sampling greedy = { .top_p = 1 };
	struct gt_generator g;
	double began, ended, gb_s;

	open_generator(b, &g);
	gb_s = read_rate(b->store);
	b->written = 0;
	began = gt_clock_s();
	if (gt_generate(&g, b->tokens, &greedy, count_token, b, &b->err))
		fail(b);
	ended = gt_clock_s();
	printf("{\"prompt_s\":%.4f,\"tokens_per_s\":%.3f,\"read_gb_s\":%.2f,\"token_gb\":%.4f}\n",
	    b->first_s - began, (double)(b->tokens - 1) / (ended - b->first_s), gb_s, token_gb(b));
	fflush(stdout);
	gt_generator_release(&g);
}

int main(int argc, char **argv)
{
	struct bench b = { .err = GT_ERR_INIT };
	char line[16];

	if (argc != 4) {
		fputs("usage: bench_generate MODEL PROMPT TOKENS\n", stderr);
		return 2;
	}
	open_model(&b, argv);
	while (fgets(line, sizeof(line), stdin))
		round_of(&b);
	gt_store_free(b.store);
	gt_device_close(b.device);
	gt_model_close(b.model);
	free(b.prompt);
	return 0;
}
