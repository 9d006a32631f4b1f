/* sign.c - gtrain ckpt sign: sign the files of a model with a key. */
#include <inttypes.h>

#include "cmd/ckpt/ckpt.h"
#include "cmd/json_out.h"
#include "lib/base/text.h"
#include "lib/ckpt/sign/sign.h"

struct gt_ckpt_sign_cli {
	struct gt_cmd_common common;
	const char *key, *output;
	struct gt_opt_list ignore;
	bool symlinks;
	int64_t threads;
};

#define AT(member) GT_OPT_FIELD(struct gt_ckpt_sign_cli, member)

/* clang-format off */
static const struct gt_opt table[] = {
	{ .type = GT_OPT_HEADING, .help = "How to sign" },
	{ "key", 0, GT_OPT_STRING, AT(key), "FILE",
	    "the private key: ECDSA with the curve P-256, P-384 or P-521, in PEM",
	    .complete = GT_COMPLETE_FILE, .flags = GT_OPT_REQUIRED },
	{ "output", 'o', GT_OPT_STRING, AT(output), "OUT", "the signature to write",
	    .initial = "model.sig", .complete = GT_COMPLETE_FILE },
	{ "ignore", 0, GT_OPT_LIST, AT(ignore), "NAME",
	    .help = "leave out this file or folder of the model's; may be given several times" },
	{ "symlinks", 0, GT_OPT_FLAG, AT(symlinks),
	    .help = "sign the files that symbolic links lead to; else a link is an error" },
	{ "threads", 0, GT_OPT_INT, AT(threads), "N", "number of threads that read files",
	    .otherwise = "one per core, at most 16", .min = 1, .max = 64 },

	GT_CMD_COMMON(struct gt_ckpt_sign_cli),
	{ 0 }
};
/* clang-format on */

static void print_facts(const struct gt_sign_facts *facts, const char *path)
{
	fputs("{\"signature\": ", stdout);
	gt_json_text(stdout, path);
	printf(", \"key\": \"%s\", \"curve\": \"%s\", \"files\": %zu, \"bytes\": %" PRIu64 "}\n",
	    facts->key, facts->curve, facts->files, facts->bytes);
}

static int sign(void *values, struct gt_cmd_env *env, struct gt_err *err)
{
	const struct gt_ckpt_sign_cli *cli = values;
	const struct gt_sign_options options = { .path = env->opts.operands[0],
		.key = cli->key,
		.output = cli->output,
		.ignore = cli->ignore.items,
		.ignore_count = cli->ignore.count,
		.symlinks = cli->symlinks,
		.threads = (size_t)cli->threads,
		.progress = &env->progress };
	struct gt_sign_facts facts;
	char bytes[GT_TEXT_SIZE];
	int rc = gt_sign(&facts, &options, err);

	if (rc)
		return rc;
	if (cli->common.json)
		print_facts(&facts, cli->output);
	else
		gt_log_info(&env->log, "%s: %zu file%s, %s, signed by the %s key %.12s...",
		    cli->output, facts.files, facts.files == 1 ? "" : "s",
		    gt_text_bytes(bytes, facts.bytes), facts.curve, facts.key);
	return 0;
}

const struct gt_cmd_work gt_cmd_ckpt_sign = { table, sizeof(struct gt_ckpt_sign_cli), sign };
