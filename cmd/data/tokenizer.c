/* tokenizer.c - gtrain data tokenizer: train a tokenizer on texts. */
#include <stdio.h>
#include <stdlib.h>

#include "cmd/data/sets.h"
#include "cmd/json_out.h"
#include "lib/base/clock.h"
#include "lib/data/bpe/train.h"

struct tokenizer_cli {
	struct gt_cmd_common common;
	const char *output;
	int vocab;
	int64_t min_frequency;
};

#define AT(member) GT_OPT_FIELD(struct tokenizer_cli, member)

/* clang-format off */
static const struct gt_opt options[] = {
	{ .type = GT_OPT_HEADING, .help = "The tokenizer" },
	{ "vocab", 0, GT_OPT_INT, AT(vocab), "N",
	    "number of tokens, with 256 bytes and <|endoftext|>", .initial = "32000", .min = 257,
	    .max = 1 << 22 },
	{ "min-frequency", 0, GT_OPT_INT, AT(min_frequency), "N",
	    "a pair of tokens that occurs less often is not merged", .initial = "0", .max = 1e15 },
	{ "output", 'o', GT_OPT_STRING, AT(output), "FILE", "file of the tokenizer",
	    .complete = GT_COMPLETE_FILE, .flags = GT_OPT_REQUIRED },

	GT_CMD_COMMON(struct tokenizer_cli),
	{ 0 }
};
/* clang-format on */

static void report(const struct gt_bpe_training *t, const struct tokenizer_cli *cli, double seconds)
{
	if (cli->common.json) {
		fputs("{\"path\": ", stdout);
		gt_json_text(stdout, cli->output);
		printf(", \"tokens\": %d, \"merges\": %d, \"words\": %zu, \"bytes\": %lld, "
		       "\"seconds\": %.3f}\n",
		    t->tokens, t->merges, t->words, (long long)t->bytes, seconds);
		return;
	}
	gt_log_put(stdout, cli->output);
	printf(": %d tokens, %d merges, from %zu different words in %.1f MB, in %.1f s\n",
	    t->tokens, t->merges, t->words, (double)t->bytes / 1e6, seconds);
}

static int write_tokenizer(struct gt_bpe_training *t, const char *path, struct gt_err *err)
{
	struct gt_atomic_file file;
	int rc = gt_atomic_open(&file, path, err);

	if (rc)
		return rc;
	rc = gt_bpe_train(t, file.stream, err);
	if (rc) {
		gt_atomic_abandon(&file);
		return rc;
	}
	return gt_atomic_commit(&file, err);
}

static int train_tokenizer(void *values, struct gt_cmd_env *env, struct gt_err *err)
{
	const struct tokenizer_cli *cli = values;
	int count = env->opts.operand_count, mapped = 0, rc = 0;
	struct gt_mapping *files;
	struct gt_bpe_training t = { .count = (size_t)count,
		.size = cli->vocab,
		.min_frequency = cli->min_frequency,
		.progress = &env->progress };
	double started = gt_clock_s();

	t.files = files = gt_calloc((size_t)count, sizeof(*files), err);
	if (!files)
		return GT_ENOMEM;
	while (mapped < count && !rc) {
		rc = gt_map(&files[mapped], env->opts.operands[mapped], err);
		mapped += !rc;
	}
	if (!rc)
		rc = write_tokenizer(&t, cli->output, err);
	if (!rc && t.repaired)
		gt_log_warn(&env->log,
		    "parts of the texts that are not UTF-8 are read as U+FFFD: %lld",
		    (long long)t.repaired);
	if (!rc)
		report(&t, cli, gt_clock_s() - started);
	while (mapped > 0)
		gt_unmap(&files[--mapped]);
	free(files);
	return rc;
}

const struct gt_cmd_work gt_cmd_data_tokenizer = { options, sizeof(struct tokenizer_cli),
	train_tokenizer };
