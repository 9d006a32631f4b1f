/* get.c - gtrain data get: fetch well-known data sets. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cmd/data/sets.h"
#include "cmd/json_out.h"
#include "lib/base/progress.h"
#include "lib/data/get/get.h"

struct get_cli {
	struct gt_cmd_common common;
	const char *to, *mirror;
	bool force;
	int retries;
	double timeout_s;
};

#define AT(member) GT_OPT_FIELD(struct get_cli, member)

/* clang-format off */
static const struct gt_opt options[] = {
	{ .type = GT_OPT_HEADING, .help = "Where to" },
	GT_CMD_DATA_TO(struct get_cli),
	{ "force", 0, GT_OPT_FLAG, AT(force), .flags = GT_OPT_ONCE,
	    .help = "also fetch files that exist, and replace them" },

	{ .type = GT_OPT_HEADING, .help = "Where from" },
	{ "mirror", 0, GT_OPT_STRING, AT(mirror), "URL",
	    .help = "fetch URL/NAME/FILE in place of the publishers' files" },
	{ "retries", 0, GT_OPT_INT, AT(retries), "N",
	    "number of retries if a server fails or cuts the connection", .initial = "3",
	    .max = 1000 },
	{ "timeout", 0, GT_OPT_DURATION, AT(timeout_s), "TIME",
	    "give up on a server that is slower than 1000 bytes/s for this time", .initial = "30s",
	    .min = 1, .max = 86400 },

	GT_CMD_COMMON(struct get_cli),
	{ 0 }
};
/* clang-format on */

/* The message about a set that is there. */
static int report(FILE *out, const struct gt_set *set, const struct gt_get *get,
    const struct get_cli *cli, struct gt_err *err)
{
	char *path = gt_set_path(set, get->folder, "", err);
	char *data = path ? gt_cmd_data_spec(set, get->folder, cli->to, err) : NULL;
	char *command = data ? gt_cmd_data_command(set, get->folder, cli->to, err) : NULL;
	int rc = command ? 0 : GT_ENOMEM;

	if (!rc && cli->common.json) {
		fprintf(
		    out, "%s\n  {\"name\": \"%s\", \"path\": ", ftell(out) ? "," : "", set->name);
		gt_json_text(out, path);
		fputs(", \"data\": ", out);
		gt_json_text(out, data);
		fputs(", \"command\": ", out);
		gt_json_text(out, command);
		fprintf(out, ", \"fetched\": %d}", get->fetched);
	} else if (!rc) {
		fprintf(out, "%s: ", set->name);
		gt_log_put(out, path);
		fputs("\n  ", out);
		gt_log_put(out, command);
		fputc('\n', out);
		fflush(out);
	}
	free(command);
	free(data);
	free(path);
	return rc;
}

static int get_all(FILE *out, struct gt_get *get, const struct gt_set *const *sets, int count,
    const struct get_cli *cli, struct gt_err *err)
{
	int rc = 0;

	for (int i = 0; i < count && !rc; i++) {
		get->fetched = 0;
		rc = gt_get_set(get, sets[i], err);
		if (!rc)
			rc = report(out, sets[i], get, cli, err);
	}
	return rc;
}

/* A document is printed when it is whole, lines as they come. */
static int get_document(struct gt_get *get, const struct gt_set *const *sets, int count,
    const struct get_cli *cli, struct gt_err *err)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	int rc = out ? get_all(out, get, sets, count, cli, err) : GT_ENOMEM;

	if (!out || fclose(out))
		rc = gt_err_set(err, GT_ENOMEM, "out of memory: a JSON document");
	if (!rc)
		printf("{\"sets\": [%s\n]}\n", text);
	free(text);
	return rc;
}

static int get_data_sets(void *values, struct gt_cmd_env *env, struct gt_err *err)
{
	const struct get_cli *cli = values;
	struct gt_get get = { .mirror = cli->mirror,
		.force = cli->force,
		.timeout_s = cli->timeout_s,
		.retries = cli->retries,
		.pause_s = 1,
		.log = &env->log };
	const struct gt_set **sets = NULL;
	char *folder = NULL;
	int rc = 0;

	if (!env->opts.operand_count) {
		gt_err_set(err, GT_EINVAL, "no data set is named");
		return gt_err_hint(err, "'gtrain data ls' lists them");
	}
	if (cli->mirror)
		rc = gt_get_check_mirror(cli->mirror, err);
	if (!rc)
		rc = gt_cmd_data_find(&sets, &env->opts, err);
	if (!rc)
		rc = gt_cmd_data_folder(&folder, cli->to, err);
	if (!rc) {
		get.folder = folder;
		rc = cli->common.json
		         ? get_document(&get, sets, env->opts.operand_count, cli, err)
		         : get_all(stdout, &get, sets, env->opts.operand_count, cli, err);
	}
	gt_get_release(&get);
	free(folder);
	free(sets);
	return rc;
}

const struct gt_cmd_work gt_cmd_data_get = { options, sizeof(struct get_cli), get_data_sets };
