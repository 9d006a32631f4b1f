/* ckpt.c - gtrain bench ckpt: how long operations on a checkpoint take, beside a copy. */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/bench/options.h"
#include "cmd/bench/run.h"
#include "cmd/json_out.h"
#include "cmd/stop.h"
#include "lib/base/mem.h"
#include "lib/base/text.h"

/*
 * Every operation is a process of its own, as users start it: the time includes its start, and the
 * system tells its largest memory. Rounds take turns, so that a busy moment hits all alike.
 */

#define IN   "<in>"   /* the checkpoint */
#define OUT  "<out>"  /* a new file; an ending may follow */
#define OWN  "<own>"  /* a copy of the checkpoint, there to be changed */
#define SELF "gtrain" /* this program */

enum { MAX_WORDS = 12 };

static const struct operation {
	const char *name;
	const char *words[MAX_WORDS]; /* none: read the file */
	bool synced;                  /* files of gtrain are on disk when it ends; this one, too */
	bool whole;                   /* handles all bytes, so that bytes/s mean something */
} operations[] = {
	{ "read", { NULL }, false, true },
	{ "cp", { "cp", "--reflink=never", IN, OUT }, false, true },
	{ "cp, synced", { "cp", "--reflink=never", IN, OUT }, true, true },
	{ "cp --reflink", { "cp", "--reflink=always", IN, OUT }, false, false },
	{ "ls", { SELF, "ckpt", "ls", IN }, false, false },
	{ "verify", { SELF, "ckpt", "verify", IN }, false, true },
	{ "strip-module", { SELF, "ckpt", "strip-module", IN, "-o", OUT }, false, true },
	{ "remap", { SELF, "ckpt", "remap", "--map", "cpu=cuda:0", IN, "-o", OUT }, false, true },
	{ "strip-module, not synced", { SELF, "ckpt", "strip-module", "--sync=no", IN, "-o", OUT },
	    false, true },
	{ "remap, not synced",
	    { SELF, "ckpt", "remap", "--sync=no", "--map", "cpu=cuda:0", IN, "-o", OUT }, false,
	    true },
	{ "convert to safetensors", { SELF, "ckpt", "convert", IN, "-o", OUT ".safetensors" },
	    false, true },
	{ "convert, not synced",
	    { SELF, "ckpt", "convert", "--sync=no", IN, "-o", OUT ".safetensors" }, false, true },
	{ "convert to pth", { SELF, "ckpt", "convert", IN, "-o", OUT ".pth" }, false, true },
	{ "add-module in place", { SELF, "ckpt", "add-module", "--in-place", OWN }, false, false },
	{ "strip-module in place",
	    { SELF, "ckpt", "strip-module", "--prefix", "module.", "--in-place", OWN }, false,
	    false },
};

enum {
	OPERATIONS = sizeof(operations) / sizeof(*operations),
	/* Operations 0 to FREE - 1 may run in any order. The last two undo each other. */
	FREE = OPERATIONS - 2,
	COPY = 1
};

struct row {
	double times[GT_BENCH_MAX_ROUNDS];
	double time_s, fastest_s; /* the median, the least of them */
	uint64_t peak_bytes;
	char failed[GT_BENCH_ERROR_LINE_BYTES]; /* why there are no times, or "" */
};

struct bench {
	const char *in;
	char *out, *own, *self;
	uint64_t bytes;
	int rounds;
	struct row rows[OPERATIONS];
	struct gt_stop stop;
};

/* ---- one operation ---- */

/* A word of the table as an argument: its place-holder is replaced; the caller frees it. */
static char *expand_argument(const struct bench *b, const char *word, struct gt_err *err)
{
	const struct {
		const char *holder, *path;
	} places[] = { { IN, b->in }, { OUT, b->out }, { OWN, b->own } };

	if (!strcmp(word, SELF))
		return gt_strdup(b->self, err);
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		size_t length = strlen(places[i].holder);

		if (!strncmp(word, places[i].holder, length))
			return gt_asprintf(err, "%s%s", places[i].path, word + length);
	}
	return gt_strdup(word, err);
}

static bool makes_file(const char *word)
{
	return word && !strncmp(word, OUT, strlen(OUT));
}

static int run_words(struct bench *b, const struct operation *o, char **words,
    struct gt_bench_sample *sample, char failed[GT_BENCH_ERROR_LINE_BYTES], struct gt_err *err)
{
	struct gt_bench_process process = { .words = words, .stdout_fd = -1 };
	const char *made = NULL;
	int status = 0, rc;

	for (int i = 0; o->words[i]; i++) {
		words[i] = expand_argument(b, o->words[i], err);
		if (!words[i])
			return GT_ENOMEM;
		if (makes_file(o->words[i]))
			made = words[i];
	}
	process.synced = o->synced ? made : NULL;
	rc = gt_bench_run(sample, &status, &process, err);
	if (status) {
		if (*sample->error_line)
			memcpy(failed, sample->error_line, GT_BENCH_ERROR_LINE_BYTES);
		else
			snprintf(failed, GT_BENCH_ERROR_LINE_BYTES, "exit status %d", status);
	}
	if (made)
		unlink(made);
	return rc;
}

static int run_operation(struct bench *b, int index, int round, struct gt_err *err)
{
	const struct operation *o = &operations[index];
	struct row *row = &b->rows[index];
	struct gt_bench_sample sample = { 0 };
	char *words[MAX_WORDS + 1] = { NULL };
	int rc;

	if (row->failed[0])
		return 0;
	sync(); /* else this operation pays for writes that the one before has left */
	if (o->words[0])
		rc = run_words(b, o, words, &sample, row->failed, err);
	else
		rc = gt_bench_time_read(&sample, b->in, err);
	for (int i = 0; i < MAX_WORDS; i++)
		free(words[i]);
	row->times[round] = sample.time_s;
	if (row->peak_bytes < sample.peak_bytes)
		row->peak_bytes = sample.peak_bytes;
	return rc;
}

/* ---- all of them ---- */

/* On the disk, too: else the first edit in place would bring all of it there. */
static int make_own(struct bench *b, struct gt_err *err)
{
	char *words[] = { "cp", (char *)b->in, b->own, NULL };
	struct gt_bench_process process = { .words = words, .synced = b->own, .stdout_fd = -1 };
	struct gt_bench_sample sample = { 0 };
	int status = 0, rc = gt_bench_run(&sample, &status, &process, err);

	if (!rc && status) {
		rc = gt_err_set(
		    err, GT_EIO, "cannot copy '%s' to '%s': %s", b->in, b->own, sample.error_line);
		gt_err_hint(err, "--dir names another folder for the files written");
	}
	return rc;
}

/* Another order in every round, the same in every run: an operation leaves caches, memory and a
 * disk at work behind, which should not always meet the same operation. */
static void shuffle(int order[OPERATIONS], uint32_t *state)
{
	for (int i = 0; i < OPERATIONS; i++)
		order[i] = i;
	for (int i = FREE - 1; i > 0; i--) {
		int k, other = order[i];

		*state = *state * 1664525 + 1013904223; /* Knuth's LCG */
		k = (int)((uint64_t)(*state) * (uint64_t)(i + 1) >> 32);
		order[i] = order[k];
		order[k] = other;
	}
}

static int run_rounds(struct bench *b, struct gt_log *log, struct gt_err *err)
{
	struct gt_bench_sample warm;
	int order[OPERATIONS];
	uint32_t state = 1;
	int rc = gt_bench_time_read(&warm, b->in, err); /* into the page cache */

	if (!rc)
		rc = make_own(b, err);
	for (int round = 0; !rc && !b->stop.stop_requested && round < b->rounds; round++) {
		gt_log_info(log, "round %d of %d", round + 1, b->rounds);
		shuffle(order, &state);
		for (int i = 0; !rc && !b->stop.stop_requested && i < OPERATIONS; i++)
			rc = run_operation(b, order[i], round, err);
	}
	if (b->stop.stop_requested) {
		gt_err_set(err, GT_EIO, "stopped by a signal");
		return gt_err_hint(err, "the files written are removed");
	}
	for (int i = 0; i < OPERATIONS; i++) {
		b->rows[i].time_s = gt_measure_median(b->rows[i].times, b->rounds); /* sorts them */
		b->rows[i].fastest_s = b->rows[i].times[0];
	}
	return rc;
}

/* The first signal ends the operation under way, which the terminal sends it too, and the rest. */
static int run_until_stopped(struct bench *b, struct gt_log *log, struct gt_err *err)
{
	int rc = gt_stop_listen(&b->stop, err);

	if (rc)
		return rc;
	b->stop.log = log;
	b->stop.graceful = true;
	rc = run_rounds(b, log, err);
	gt_stop_release(&b->stop);
	return rc;
}

static int set_up(struct bench *b, const char *in, const char *dir, struct gt_err *err)
{
	const char *slash = strrchr(in, '/');
	struct stat st;
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (stat(in, &st))
		return gt_err_sys(err, "cannot open '%s'", in);
	if (!S_ISREG(st.st_mode))
		return gt_err_set(err, GT_EIO, "'%s' is not a file", in);
	if (n < 0)
		return gt_err_sys(err, "cannot find this program's file");
	self[n] = '\0';
	b->in = in;
	b->bytes = (uint64_t)st.st_size;
	b->self = gt_strdup(self, err);
	if (dir)
		b->out = gt_asprintf(err, "%s/gtrain-bench-%ld", dir, (long)getpid());
	else
		b->out = gt_asprintf(err, "%.*sgtrain-bench-%ld", slash ? (int)(slash - in + 1) : 0,
		    in, (long)getpid());
	b->own = b->out ? gt_asprintf(err, "%s.own", b->out) : NULL;
	return b->self && b->own ? 0 : GT_ENOMEM;
}

/* All that operations have left, one that was killed its temporary file. */
static void remove_files(const struct bench *b)
{
	const char *slash = strrchr(b->out, '/'), *name = slash ? slash + 1 : b->out;
	char *folder = slash ? strndup(b->out, (size_t)(name - b->out)) : strdup(".");
	DIR *dir = folder ? opendir(folder) : NULL;

	for (struct dirent *e; dir && (e = readdir(dir));)
		if (!strncmp(e->d_name, name, strlen(name)) &&
		    (!e->d_name[strlen(name)] || e->d_name[strlen(name)] == '.'))
			unlinkat(dirfd(dir), e->d_name, 0);
	if (dir)
		closedir(dir);
	free(folder);
}

static void release_ckpt_bench(struct bench *b)
{
	if (b->out)
		remove_files(b);
	free(b->self);
	free(b->out);
	free(b->own);
}

/* ---- the table ---- */

/* Both of the fastest rounds: other work of the machine, such as getting memory from its host or
 * writing others' files, only ever adds to the time of an operation. */
static double rate(const struct bench *b, int i)
{
	return (double)b->bytes / b->rows[i].fastest_s;
}

static double ratio(const struct bench *b, int i)
{
	return b->rows[COPY].fastest_s / b->rows[i].fastest_s;
}

static void print_ckpt_text(const struct bench *b)
{
	char size[GT_TEXT_SIZE];

	gt_log_put(stdout, b->in);
	printf(b->rounds == 1 ? ", %s, %d round\n" : ", %s, %d rounds\n",
	    gt_text_bytes(size, b->bytes), b->rounds);
	printf("%-25s %10s %10s %8s %10s %10s\n", "operation", "median", "fastest", "GB/s", "x cp",
	    "memory");
	for (int i = 0; i < OPERATIONS; i++) {
		const struct row *row = &b->rows[i];

		printf("%-25s ", operations[i].name);
		if (row->failed[0]) {
			printf("   failed: ");
			gt_log_put(stdout, row->failed);
			putchar('\n');
			continue;
		}
		printf("%7.1f ms %7.1f ms ", row->time_s * 1e3, row->fastest_s * 1e3);
		if (operations[i].whole)
			printf("%8.2f ", rate(b, i) / 1e9);
		else
			printf("%8s ", "");
		printf("%10.2f ", ratio(b, i));
		printf("%10s\n", row->peak_bytes ? gt_text_bytes(size, row->peak_bytes) : "");
	}
}

static void print_ckpt_csv(const struct bench *b)
{
	puts("operation,time_s,fastest_s,bytes_per_s,ratio_to_cp,peak_bytes");
	for (int i = 0; i < OPERATIONS; i++)
		if (!b->rows[i].failed[0])
			printf("\"%s\",%.6f,%.6f,%.0f,%.4f,%llu\n", operations[i].name,
			    b->rows[i].time_s, b->rows[i].fastest_s, rate(b, i), ratio(b, i),
			    (unsigned long long)b->rows[i].peak_bytes);
}

static int print_ckpt_json(const struct bench *b, struct gt_err *err)
{
	json_t *rows = json_array();

	for (int i = 0; i < OPERATIONS; i++) {
		const struct row *row = &b->rows[i];

		json_array_append_new(rows,
		    row->failed[0] ? json_pack("{ss ss}", "operation", operations[i].name, "failed",
		                         row->failed)
		                   : json_pack("{ss sf sf so so sI}", "operation",
		                         operations[i].name, "time_s", row->time_s, "fastest_s",
		                         row->fastest_s, "bytes_per_s", gt_json_number(rate(b, i)),
		                         "ratio_to_cp", gt_json_number(ratio(b, i)), "peak_bytes",
		                         (json_int_t)row->peak_bytes));
	}
	return gt_cmd_print_json(json_pack("{ss sI si so}", "file", b->in, "bytes",
	                             (json_int_t)b->bytes, "rounds", b->rounds, "rows", rows),
	    JSON_INDENT(2), err);
}

static int bench_ckpt(void *values, struct gt_cmd_env *env, struct gt_err *err)
{
	const struct gt_bench_ckpt_cli *cli = values;
	struct bench b = { .rounds = (int)cli->rounds };
	int rc = set_up(&b, env->opts.operands[0], cli->dir, err);

	if (!rc)
		rc = run_until_stopped(&b, &env->log, err);
	if (!rc && cli->common.json)
		rc = print_ckpt_json(&b, err);
	else if (!rc && cli->csv)
		print_ckpt_csv(&b);
	else if (!rc)
		print_ckpt_text(&b);
	release_ckpt_bench(&b);
	return rc;
}

const struct gt_cmd_work gt_cmd_bench_ckpt = { gt_bench_ckpt_options,
	sizeof(struct gt_bench_ckpt_cli), bench_ckpt };
