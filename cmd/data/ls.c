/* ls.c - gtrain data ls: the well-known data sets, and those that are there. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cmd/data/sets.h"
#include "cmd/json_out.h"
#include "cmd/table_out.h"
#include "lib/base/text.h"

struct ls_cli {
	struct gt_cmd_common common;
	const char *to;
};

/* clang-format off */
static const struct gt_opt options[] = {
	{ .type = GT_OPT_HEADING, .help = "Where to look" },
	GT_CMD_DATA_TO(struct ls_cli),
	GT_CMD_COMMON(struct ls_cli),
	{ 0 }
};
/* clang-format on */

/* A set, and where it is or would be. */
struct row {
	const struct gt_set *set;
	const char *folder, *to;
	char *path, *data; /* folder of the data set; its value of --data */
	bool there;
};

static int open_row(struct row *row, const struct gt_set *set, const char *folder, const char *to,
    struct gt_err *err)
{
	*row = (struct row){ .set = set, .folder = folder, .to = to };
	row->path = gt_set_path(set, folder, "", err);
	row->data = row->path ? gt_cmd_data_spec(set, folder, to, err) : NULL;
	row->there = gt_set_is_there(set, folder);
	return row->data ? 0 : GT_ENOMEM;
}

static void close_row(struct row *row)
{
	free(row->path);
	free(row->data);
}

/* ---- as text ---- */

enum { NAME, SIZE, THERE, ABOUT, DATA, COLUMNS, TEXT = 128 };

/* Measure or print all rows, in the first `columns` columns; the texts of ABOUT are cut. */
static void put_rows(
    struct gt_table *table, const struct row *rows, int count, size_t columns, size_t about)
{
	gt_table_row(
	    table, (const char *[COLUMNS]){ "NAME", "SIZE", "THERE", "ABOUT", "DATA" }, columns);
	for (int i = 0; i < count; i++) {
		const struct row *r = &rows[i];
		char size[GT_TEXT_SIZE], text[TEXT];

		gt_table_shorten(text, sizeof(text), r->set->summary, about);
		gt_table_row(table,
		    (const char *[COLUMNS]){ r->set->name, gt_text_bytes(size, gt_set_size(r->set)),
		        r->there ? "yes" : "no", text, r->data },
		    columns);
	}
}

/* The widest cell of a column; the width of the column itself has a limit. */
static size_t widest_data(const struct row *rows, int count)
{
	size_t widest = 0;

	for (int i = 0; i < count; i++)
		if (gt_table_width(rows[i].data) > widest)
			widest = gt_table_width(rows[i].data);
	return widest;
}

/* A terminal that is too narrow has no values of --data, and short texts. */
static void print_table(const struct row *rows, int count, struct gt_log *log)
{
	enum { GAP = 2 };
	struct gt_table table = { .out = stdout, .measuring = true, .right = { false, true } };
	size_t screen = gt_cmd_stdout_columns(), before, about = TEXT;

	put_rows(&table, rows, count, COLUMNS, about);
	table.measuring = false;
	if (!screen || gt_table_total(&table, DATA) + GAP + widest_data(rows, count) <= screen) {
		put_rows(&table, rows, count, COLUMNS, about);
		return;
	}
	before = gt_table_total(&table, ABOUT) + GAP;
	if (before + table.width[ABOUT] > screen)
		about = screen > before ? screen - before : 0;
	put_rows(&table, rows, count, DATA, about);
	gt_log_info(log, "'gtrain data ls NAME' prints the value of {data}, too");
}

/* All that one needs to bring the files by hand. */
static void print_set(const struct row *r)
{
	printf("%s: %s\n  license: %s\n  folder: ", r->set->name, r->set->summary, r->set->license);
	gt_log_put(stdout, r->path);
	printf("\n  there: %s\n  data: ", r->there ? "yes" : "no");
	gt_log_put(stdout, r->data);
	putchar('\n');
	for (const struct gt_set_file *f = r->set->files; f->name; f++) {
		printf(
		    "  %s: %" PRIu64 " bytes\n    sha256 %s\n", f->name, f->size_bytes, f->sha256);
		for (int i = 0; i < GT_SET_ADDRESSES && f->addresses[i]; i++)
			printf("    %s\n", f->addresses[i]);
	}
}

/* ---- as JSON ---- */

static json_t *describe_file(const struct gt_set_file *f)
{
	json_t *addresses = json_array();

	for (int i = 0; i < GT_SET_ADDRESSES && f->addresses[i]; i++)
		json_array_append_new(addresses, json_string(f->addresses[i]));
	return json_pack("{ss sI ss so}", "name", f->name, "bytes", (json_int_t)f->size_bytes,
	    "sha256", f->sha256, "addresses", addresses);
}

static void put_json(const struct row *r, bool first)
{
	json_t *files = json_array();

	for (const struct gt_set_file *f = r->set->files; f->name; f++)
		json_array_append_new(files, describe_file(f));
	printf(
	    "%s\n  {\"name\": \"%s\", \"summary\": \"%s\", \"license\": \"%s\", \"bytes\": %" PRIu64
	    ", \"there\": %s, \"path\": ",
	    first ? "" : ",", r->set->name, r->set->summary, r->set->license, gt_set_size(r->set),
	    r->there ? "true" : "false");
	gt_json_text(stdout, r->path);
	fputs(", \"data\": ", stdout);
	gt_json_text(stdout, r->data);
	fputs(", \"files\": ", stdout);
	json_dumpf(files, stdout, 0);
	putchar('}');
	json_decref(files);
}

/* ---- the command ---- */

static void print_all(const struct row *rows, int count, bool named, bool json, struct gt_log *log)
{
	if (json)
		fputs("{\"sets\": [", stdout);
	for (int i = 0; i < count && (json || named); i++) {
		if (json)
			put_json(&rows[i], i == 0);
		else
			print_set(&rows[i]);
	}
	if (json)
		fputs("\n]}\n", stdout);
	else if (!named)
		print_table(rows, count, log);
}

static int list_data_sets(void *values, struct gt_cmd_env *env, struct gt_err *err)
{
	const struct ls_cli *cli = values;
	const struct gt_set **sets = NULL;
	int named = env->opts.operand_count, count = named, opened = 0, rc;
	struct row *rows = NULL;
	char *folder = NULL;

	while (!named && gt_cmd_data_name(count))
		count++;
	rc = gt_cmd_data_find(&sets, &env->opts, err);
	if (!rc)
		rc = gt_cmd_data_folder(&folder, cli->to, err);
	if (!rc) {
		rows = gt_calloc((size_t)count, sizeof(*rows), err);
		rc = rows ? 0 : GT_ENOMEM;
	}
	for (; !rc && opened < count; opened++)
		rc = open_row(
		    &rows[opened], named ? sets[opened] : &gt_sets()[opened], folder, cli->to, err);
	if (!rc)
		print_all(rows, count, named, cli->common.json, &env->log);
	while (opened)
		close_row(&rows[--opened]);
	free(rows);
	free(folder);
	free(sets);
	return rc;
}

const struct gt_cmd_work gt_cmd_data_ls = { options, sizeof(struct ls_cli), list_data_sets };
