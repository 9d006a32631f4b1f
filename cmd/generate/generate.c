/* generate.c - gtrain generate: write text with a language model. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/generate/chat.h"
#include "cmd/json_out.h"
#include "cmd/ranks.h"
#include "lib/base/text.h"
#include "lib/train/checkpoint/adapter.h"
#include "lib/train/checkpoint/argument.h"
#include "lib/train/checkpoint/weights.h"
#include "lib/train/finite.h"
#include "lib/train/generate.h"
#include "lib/train/shared_options.h"
#include "lib/train/token_sampler.h"

struct gt_generate_cli {
	struct gt_cmd_common common;
	const char *model, *vocab, *tokenizer; /* NULL: those of the run directory of `ckpt` */
	const char *ckpt, *prompt;
	const char *lora; /* folder with an adapter; NULL: none, or that of `ckpt` */
	struct gt_where where;
	struct gt_comm_options comm;
	struct gt_sampling sampling;
	int64_t tokens;
	int64_t threads; /* 0: one per core */
	int nproc;       /* 0: `tensor` */
	int tensor;      /* ranks that share each layer */
	enum gt_amp amp;
	bool tf32;
	int dtype; /* enum gt_block; -1: that of the checkpoint, where the device has it */
	bool default_prompt; /* --prompt is not given */
	bool chat;
	const char *system; /* a message before the conversation; NULL: none */
};

#define AT(member) GT_OPT_FIELD(struct gt_generate_cli, member)

/* clang-format off */
static const struct gt_opt table[] = {
	{ .type = GT_OPT_HEADING, .help = "Model" },
	GT_OPTION_CKPT(AT(ckpt)),
	GT_OPTION_CKPT_MODEL(AT(model)),
	GT_OPTION_LORA(AT(lora)),
	GT_OPTION_VOCAB(AT(vocab)),
	GT_OPTION_TOKENIZER(AT(tokenizer)),

	{ .type = GT_OPT_HEADING, .help = "Text" },
	{ "prompt", 0, GT_OPT_STRING, AT(prompt), "TEXT", "text to continue", .initial = "\n",
	    .otherwise = "the token that begins texts, or a line break" },
	{ "chat", 0, GT_OPT_FLAG, AT(chat),
	    .help = "answer the lines of standard input, as the chat template says",
	    .excludes = "prompt" },
	{ "system", 0, GT_OPT_STRING, AT(system), "TEXT",
	    "message of the system before the conversation", .otherwise = "none",
	    .needs = { { "chat" } } },
	{ "tokens", 0, GT_OPT_INT, AT(tokens), "N", "write at most this many tokens",
	    .initial = "256", .min = 1, .max = 1e9 },
	{ "temperature", 0, GT_OPT_DOUBLE, AT(sampling.temperature), "X",
	    "below 1: likelier tokens, above 1: more varied text; 0: always the likeliest token",
	    .initial = "0.8", .max = INFINITY },
	{ "top-k", 0, GT_OPT_INT, AT(sampling.top_k), "N",
	    "draw among the N likeliest tokens; 0: all", .initial = "0", .max = 1e9 },
	{ "top-p", 0, GT_OPT_DOUBLE, AT(sampling.top_p), "X",
	    "draw among the likeliest tokens whose probabilities add up to X", .initial = "1",
	    .max = 1 },
	{ "seed", 0, GT_OPT_INT, AT(sampling.seed), "N", "seed of the random numbers",
	    .initial = "0", .max = INFINITY },

	{ .type = GT_OPT_HEADING, .help = "Machine" },
	{ "dtype", 0, GT_OPT_CHOICE, AT(dtype), .words = gt_block_names,
	    .help = "how the CPU keeps weights; q8_0, q4_0: blocks of 32 numbers of 8 or 4 bits",
	    .otherwise = "bf16 or fp16 if the checkpoint is, else fp32" },
	GT_OPTION_AMP(AT(amp)),
	GT_OPTION_TF32(AT(tf32)),
	GT_OPTION_DEVICE(AT(where.devices), "LIST",
	    "devices to compute on, one per rank: cpu, cuda, cuda:1, cuda:0,2"),
	GT_OPTION_RANK_THREADS(AT(threads), GT_CMD_MAX_THREADS),

	{ .type = GT_OPT_HEADING, .help = "Ranks" },
	GT_OPTION_TENSOR(AT(tensor)),
	GT_OPTION_NPROC(AT(nproc), "number of ranks (processes) that compute together",
	    .otherwise = "--tensor-parallel"),
	GT_OPTION_BACKEND(AT(comm.backend)),
	GT_OPTION_TIMEOUT(AT(comm.timeout_s), "10m"),

	GT_CMD_COMMON(struct gt_generate_cli),
	{ 0 }
};
/* clang-format on */

struct generation {
	struct gt_generate_cli *cli;
	struct gt_run_ckpt ckpt;
	struct gt_adapter adapter;
	struct gt_session session;
	struct gt_tokenizer *tokenizer;
	struct gt_data_specials specials; /* special tokens of the model */
	int trained_tokens;               /* number of tokens in training; 0: not known */
	struct gt_generator generator;
	int32_t *prompt;
	size_t prompt_count;
	struct gt_conversation *conversation; /* --chat; NULL: there is a prompt */
	/* where the text goes: standard output, or memory for --json; NULL: rank 0 writes it */
	FILE *out;
	struct gt_token_writer writer;
	struct gt_log *log; /* NULL: rank 0 tells */
};

static void release_generation(struct generation *g)
{
	gt_session_close(&g->session);
	gt_generator_release(&g->generator);
	gt_conversation_close(g->conversation);
	gt_tokenizer_close(g->tokenizer);
	gt_run_ckpt_release(&g->ckpt);
	gt_adapter_release(&g->adapter);
	free(g->prompt);
}

/* Begin with the first token of the vocabulary, which is not printed. */
static int begin_with_first_token(struct generation *g, struct gt_err *err)
{
	g->prompt = gt_calloc(1, sizeof(*g->prompt), err);
	if (!g->prompt)
		return GT_ENOMEM;
	g->prompt_count = 1;
	g->cli->prompt = "";
	return 0;
}

/* Put a token before the prompt. */
static int prepend(struct generation *g, int32_t id, struct gt_err *err)
{
	int32_t *ids = gt_calloc(g->prompt_count + 1, sizeof(*ids), err);

	if (!ids)
		return GT_ENOMEM;
	ids[0] = id;
	if (g->prompt_count)
		memcpy(ids + 1, g->prompt, g->prompt_count * sizeof(*ids));
	free(g->prompt);
	g->prompt = ids;
	g->prompt_count++;
	return 0;
}

/* The default prompt is the token that begins a text, else a line break. A vocabulary may lack it:
 * then any token will do to start. */
static int encode_prompt(struct generation *g, struct gt_err *err)
{
	const char *prompt = g->cli->prompt;
	struct gt_err unknown = GT_ERR_INIT;
	int32_t begin = gt_data_begin(&g->specials, g->tokenizer);
	int rc;

	if (begin >= gt_tokenizer_size(g->tokenizer))
		return gt_err_set(err, GT_EFORMAT,
		    "the token %d, which begins texts, is not in the "
		    "vocabulary",
		    begin);
	if (begin >= 0 && g->cli->default_prompt)
		prompt = g->cli->prompt = "";
	rc = gt_tokenizer_encode(
	    g->tokenizer, prompt, strlen(prompt), &g->prompt, &g->prompt_count, &unknown);

	if (!rc && begin >= 0)
		return prepend(g, begin, err);
	if ((rc == GT_EFORMAT || !g->prompt_count) && g->cli->default_prompt) {
		free(g->prompt);
		return begin_with_first_token(g, err);
	}
	if (!rc)
		return 0;
	*err = unknown;
	if (!*err->hint)
		gt_err_hint(err, "a prompt is text in UTF-8");
	return gt_err_prefix(err, "--prompt");
}

/* ---- the steps of the session ---- */

static int open_tokenizer(struct generation *g, struct gt_err *err)
{
	const char *given = g->cli->tokenizer ? g->cli->tokenizer : g->cli->vocab;
	struct gt_data_description trained_on;
	int rc = gt_run_ckpt_describe(&trained_on, &g->ckpt, err);

	if (rc)
		return rc;
	g->specials = trained_on.specials;
	g->trained_tokens = trained_on.form.classes;
	rc = gt_run_ckpt_open_tokenizer(&g->tokenizer, &g->ckpt, &trained_on, given, g->log, err);
	gt_data_description_release(&trained_on);
	return rc;
}

/* The template lies beside the tokenizer. */
static int open_conversation(struct generation *g, struct gt_err *err)
{
	const char *given = g->cli->tokenizer ? g->cli->tokenizer : g->cli->vocab;
	const char *system = g->cli->system;
	struct gt_data_description trained_on;
	struct gt_file_name file;
	int rc = gt_run_ckpt_describe(&trained_on, &g->ckpt, err);

	if (rc)
		return rc;
	gt_run_ckpt_choose_vocab(&trained_on, &file, &g->ckpt, given);
	rc = gt_conversation_open(&g->conversation, g->tokenizer, file, err);
	gt_data_description_release(&trained_on);
	if (rc == GT_EINVAL)
		gt_err_hint(err,
		    "--chat needs a model that was trained on conversations; --tokenizer DIR names a "
		    "folder with tokenizer.json and a chat template");
	if (rc || !system)
		return rc;
	rc = gt_conversation_add(g->conversation, "system", system, strlen(system), err);
	return rc ? gt_err_prefix(err, "--system") : 0;
}

static int open_prompt(struct gt_session *s, void *self, struct gt_err *err)
{
	struct generation *g = self;
	int rc;

	gt_model_preferred_input(s->model, &s->input);
	if (s->input.form.kind != GT_SAMPLE_TOKENS) {
		gt_err_set(err, GT_EINVAL, "'%s' has model '%s', which is no language model",
		    g->ckpt.path, gt_model_name(s->model));
		return gt_err_hint(err, "'gtrain help models' lists the models of text");
	}
	rc = open_tokenizer(g, err);
	if (!rc)
		rc = g->cli->chat ? open_conversation(g, err) : encode_prompt(g, err);
	if (rc)
		return rc;
	s->input.form.classes = gt_tokenizer_size(g->tokenizer);
	return 0;
}

static struct gt_generator_options options_of(const struct generation *g)
{
	return (struct gt_generator_options){ .prompt = g->prompt,
		.prompt_count = g->prompt_count,
		.tokens = g->cli->tokens,
		.mixed = g->cli->amp,
		.open = g->cli->chat };
}

static int plan_generation(struct gt_session *s, void *self, struct gt_err *err)
{
	struct generation *g = self;

	const struct gt_generator_options options = options_of(g);

	return gt_generator_init(&g->generator, s, &options, err);
}

static void try_others(const struct gt_session *s, void *self, struct gt_trials *trials)
{
	const struct gt_generator_options options = options_of(self);

	if (!options.open)
		gt_generator_try_others(s, &options, trials);
}

/* If shapes differ and the user has named a vocabulary of another size, this is the reason. */
static int explain_shapes(const struct generation *g, struct gt_err *err)
{
	const char *given = g->cli->tokenizer ? g->cli->tokenizer : g->cli->vocab;
	int tokens = gt_tokenizer_size(g->tokenizer);

	if (err->mismatch && given && g->trained_tokens && g->trained_tokens != tokens)
		gt_err_hint(err,
		    "'%.200s' has %d tokens, but the model was trained with %d: name the "
		    "vocabulary of the training",
		    given, tokens, g->trained_tokens);
	return err->code;
}

static int load_weights(struct gt_session *s, void *self, struct gt_err *err)
{
	const struct generation *g = self;
	const struct gt_load_options as_they_are = { 0 };
	const struct gt_load_options load = gt_run_ckpt_load(&g->ckpt, &as_they_are);
	const struct gt_weights_options options = { .no_map = true, .no_strict = true };
	struct gt_weights_report report = { 0 };
	struct gt_err why = GT_ERR_INIT;
	int rc = gt_adapter_load_around(s, &g->adapter, &g->ckpt, &load, &options, &report, err);

	if (!rc && g->log)
		gt_run_ckpt_log_choice(&g->ckpt, &report, g->log);
	gt_weights_report_release(&report);
	if (rc)
		return explain_shapes(g, err);
	if (g->log && gt_run_ckpt_check_model(&g->ckpt, g->cli->model, &why))
		gt_log_warn(g->log, "%s", why.text);
	return 0;
}

static struct gt_parallel_options parallel_of(const struct gt_generate_cli *cli)
{
	return (struct gt_parallel_options){ .forward = true,
		.way = cli->where.way,
		.tensor = cli->tensor,
		.precision = gt_amp_precision(cli->amp, cli->tf32) };
}

/* All ranks write one text, so each of them has to share the layers. */
static int check_ranks(const struct gt_generate_cli *cli, int ranks, struct gt_err *err)
{
	const struct gt_parallel_options parallel = parallel_of(cli);
	const char *devices = cli->where.devices;
	int rc = gt_parallel_check(&parallel, ranks, 1, err);

	if (!rc && ranks != cli->tensor) {
		gt_err_set(err, GT_EINVAL,
		    "--nproc %d: a text is written by one rank, or by ranks "
		    "that share each layer",
		    ranks);
		rc = gt_err_hint(err, "--tensor-parallel %d", ranks);
	}
	if (!rc && ranks == 1 && devices && strchr(devices, ',')) {
		gt_err_set(err, GT_EINVAL, "--device %s: one rank computes on one device", devices);
		rc = gt_err_hint(err,
		    "give the name of one of them, or let ranks share each layer by "
		    "--tensor-parallel");
	}
	return rc;
}

/* Mixed precision has types of its own, and shards of weights are not divided into blocks. */
static int check_dtype(const struct gt_generate_cli *cli, struct gt_err *err)
{
	if (cli->dtype <= 0)
		return 0;
	if (!cli->amp && cli->tensor == 1)
		return gt_session_check_block(&cli->where, (enum gt_block)cli->dtype, err);
	gt_err_set(err, GT_EINVAL, "--dtype %s cannot be combined with %s",
	    gt_block_names[cli->dtype], cli->amp ? "--amp" : "--tensor-parallel");
	return gt_err_hint(err, "leave one of the two out");
}

/* Choose how weights are stored: as the user says, or where that makes no difference to them, as in
 * the file. */
static int choose_block(
    enum gt_block *out, const struct generation *g, const char *model, struct gt_err *err)
{
	const struct gt_generate_cli *cli = g->cli;
	struct gt_err why = GT_ERR_INIT;

	*out = cli->dtype > 0 ? (enum gt_block)cli->dtype : GT_BLOCK_NONE;
	if (cli->dtype >= 0 || cli->amp || cli->tensor > 1 || gt_run_ckpt_base(&g->ckpt) ||
	    gt_model_is_file(model) ||
	    gt_session_check_block(&cli->where, GT_BLOCK_BF16, GT_ERR_IGNORED))
		return 0;
	/* If memory is too little to look at the file, the plan of the generation says how much is
	 * needed. */
	if (gt_weights_find_block(out, g->ckpt.file, &why) && why.code != GT_ENOMEM)
		*err = why;
	return err->code;
}

static int open_session(struct generation *g, struct gt_err *err)
{
	static const struct gt_session_purpose generation = { .name = "generation",
		.input = open_prompt,
		.plan = plan_generation,
		.try_others = try_others,
		.weights = load_weights };
	struct gt_session_options options = { .where = g->cli->where,
		.parallel = parallel_of(g->cli) };
	int rc = gt_run_ckpt_open(&g->ckpt, g->cli->ckpt, GT_RUN_BEST, err);

	if (!rc)
		rc = gt_adapter_choose(&g->adapter, &options.lora, g->cli->lora, &g->ckpt, err);
	options.model = rc ? NULL : gt_run_ckpt_model(&g->ckpt, g->cli->model, err);
	if (!options.model || choose_block(&options.block, g, options.model, err))
		return err->code;
	if (g->log && options.block)
		gt_log_verbose(g->log, "weights are kept in %s", gt_block_names[options.block]);
	return gt_session_open(&g->session, &options, &generation, g, err);
}

/* ---- the text ---- */

static int emit(void *self, int32_t id, struct gt_err *err)
{
	struct generation *g = self;

	if (gt_data_token_ends(&g->specials, id))
		return GT_GENERATE_END;
	if (!g->out)
		return 0;
	/* A model may have more tokens than the vocabulary; such a token has no text. */
	gt_token_writer_put(&g->writer, id);
	if (ferror(g->out) || fflush(g->out))
		return gt_err_sys(err, "cannot write the text");
	return 0;
}

/* Say why logits are not finite, where it is the weights that are not. */
static int explain_nonfinite_logits(const struct generation *g, struct gt_err *err)
{
	char text[GT_NONFINITE_SIZE];
	struct gt_nonfinite found;

	if (gt_find_nonfinite(&found, g->session.store, g->session.group, GT_ERR_IGNORED) ||
	    !found.slot)
		return err->code;
	return gt_err_hint(err, "%.120s: %s; try an earlier checkpoint", g->ckpt.path,
	    gt_nonfinite_text(text, &found));
}

static int write_text(struct generation *g, const struct gt_generate_cli *cli, struct gt_err *err)
{
	int rc;

	if (!g->out)
		return gt_generate(&g->generator, cli->tokens, &cli->sampling, emit, g, err);
	/* The prompt was the beginning of the text. */
	g->writer = (struct gt_token_writer){ .tok = g->tokenizer,
		.out = g->out,
		.begun = true,
		.terminal = g->out == stdout && isatty(STDOUT_FILENO) };
	fputs(cli->prompt, g->out);
	rc = gt_generate(&g->generator, cli->tokens, &cli->sampling, emit, g, err);
	gt_token_writer_end(&g->writer);
	return rc == GT_EDIVERGED ? explain_nonfinite_logits(g, err) : rc;
}

static int write_json(struct generation *g, const struct gt_generate_cli *cli, struct gt_err *err)
{
	char *text = NULL;
	size_t size = 0;
	json_t *out = NULL;
	int rc;

	g->out = open_memstream(&text, &size);
	if (!g->out)
		return gt_err_sys(err, "cannot hold the text");
	rc = write_text(g, cli, err);
	if (fclose(g->out) && !rc)
		rc = gt_err_sys(err, "cannot hold the text");
	if (!rc) {
		out = json_pack("{s:o,s:o}", "prompt",
		    gt_json_string_value(cli->prompt, strlen(cli->prompt)), "text",
		    gt_json_string_value(text, size));
		if (!out)
			rc = gt_err_set(err, GT_ENOMEM, "out of memory");
	}
	if (!rc) {
		json_dumpf(out, stdout, 0);
		putchar('\n');
	}
	json_decref(out);
	free(text);
	return rc;
}

static int write_answers(struct generation *g, struct gt_stop *stop, struct gt_err *err)
{
	struct gt_chat chat = { .conversation = g->conversation,
		.generator = &g->generator,
		.tokenizer = g->tokenizer,
		.specials = &g->specials,
		.sampling = g->cli->sampling,
		.tokens = g->cli->tokens,
		.log = g->log,
		.stop = stop };
	int rc = gt_chat_run(&chat, err);

	return rc == GT_EDIVERGED ? explain_nonfinite_logits(g, err) : rc;
}

/* Write the answers of a conversation, alone. Threads are started after those signals are blocked
 * that end an answer. */
static int chat_alone(struct generation *g, struct gt_err *err)
{
	struct gt_stop stop;
	int rc = gt_stop_listen(&stop, err);

	if (rc)
		return rc;
	rc = open_session(g, err);
	if (!rc)
		rc = write_answers(g, &stop, err);
	gt_stop_release(&stop);
	return rc;
}

static int continue_prompt(struct generation *g, bool prints, struct gt_err *err)
{
	int rc = open_session(g, err);

	if (rc)
		return rc;
	if (prints && g->cli->common.json)
		return write_json(g, g->cli, err);
	rc = write_text(g, g->cli, err);
	if (prints)
		putchar('\n');
	return rc;
}

/* Write the text as one rank of `comm`, or alone; rank 0 prints. */
static int generate_as_rank(
    struct gt_cmd_env *env, void *self, const struct gt_comm *comm, struct gt_err *err)
{
	struct gt_generate_cli *cli = self;
	bool prints = !comm->world.rank;
	struct generation g = {
		.cli = cli, .out = prints ? stdout : NULL, .log = prints ? &env->log : NULL
	};
	int rc;

	gt_cmd_place_rank(&cli->where, comm);
	gt_cmd_set_threads(cli->threads);
	rc = check_ranks(cli, cli->nproc, err);
	if (!rc)
		rc = check_dtype(cli, err);
	if (!rc)
		rc = cli->chat ? chat_alone(&g, err) : continue_prompt(&g, prints, err);
	release_generation(&g);
	return rc;
}

/* Find errors that every rank would report. */
static int check_generate_cli(void *self, struct gt_err *err)
{
	const struct gt_generate_cli *cli = self;
	const struct gt_precision precision = gt_amp_precision(cli->amp, cli->tf32);
	struct gt_run_ckpt ckpt = { 0 };
	struct gt_adapter adapter = { 0 };
	const char *lora;
	int rc = check_ranks(cli, cli->nproc, err);

	if (!rc)
		rc = gt_session_check_device(&cli->where, &precision, err);
	if (!rc)
		rc = check_dtype(cli, err);
	if (!rc)
		rc = gt_run_ckpt_open(&ckpt, cli->ckpt, GT_RUN_BEST, err);
	if (!rc)
		rc = gt_adapter_choose(&adapter, &lora, cli->lora, &ckpt, err);
	gt_adapter_release(&adapter);
	if (!rc && !gt_run_ckpt_model(&ckpt, cli->model, err))
		rc = err->code;
	gt_run_ckpt_release(&ckpt);
	return rc;
}

/* A conversation is read from standard input by one process. */
static int check_chat(const struct gt_generate_cli *cli, struct gt_err *err)
{
	if (!cli->chat)
		return 0;
	if (cli->common.json)
		return gt_err_set(err, GT_EINVAL, "--chat cannot be combined with --json");
	if (cli->nproc > 1)
		return gt_err_set(err, GT_EINVAL,
		    "--chat cannot be combined with %d ranks: it has one", cli->nproc);
	return 0;
}

static int generate(void *values, struct gt_cmd_env *env, struct gt_err *err)
{
	struct gt_generate_cli *cli = values;
	const struct gt_cmd_job job = { .nproc = &cli->nproc,
		.device = &cli->where.devices,
		.comm = &cli->comm,
		.check = check_generate_cli,
		.run = generate_as_rank,
		.self = cli };

	cli->where.way = gt_comm_way(cli->comm.backend);
	cli->nproc = cli->nproc ? cli->nproc : cli->tensor;
	cli->default_prompt = gt_opts_source(&env->opts, "prompt") == GT_OPT_DEFAULT;
	return check_chat(cli, err) ? err->code : gt_cmd_run_job(env, &job, err);
}

const struct gt_cmd_work gt_cmd_generate = { table, sizeof(struct gt_generate_cli), generate };
