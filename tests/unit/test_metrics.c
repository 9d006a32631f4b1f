/* test_metrics.c - metrics.jsonl: its lines, and those of an earlier run that stay. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/file.h"
#include "lib/base/text.h"
#include "lib/train/report/observer.h"
#include "tests/common/planted.h"

#define COUNT(a) (sizeof(a) / sizeof(*(a)))

enum { PATH_SIZE = 128 };

static const struct gt_average ema = { .name = "ema" };

/* Lines of a step and of an evaluation. */
#define TRAIN(step, time)                                                                          \
	"{\"split\":\"train\",\"step\":" #step ",\"epoch\":0,\"loss\":1,\"lr\":0.1,"               \
	"\"grad_norm\":1,\"samples_per_s\":1,\"data_wait\":0,\"time_s\":" #time "}\n"
#define VAL(step, time)                                                                            \
	"{\"split\":\"val\",\"step\":" #step ",\"loss\":1,\"top1\":0,\"top5\":0,"                  \
	"\"perplexity\":2,\"n\":1,\"time_s\":" #time "}\n"

/* A run directory with a writer. */
struct run {
	char root[PLANTED_ROOT], path[PATH_SIZE];
	struct gt_folder folder;
	struct gt_metrics_writer *writer;
	struct gt_observer observer;
	struct gt_log log;
	char *said; /* what was logged */
	size_t said_size;
	struct gt_err err;
};

static void open_run(struct run *r)
{
	*r = (struct run){ .err = GT_ERR_INIT };
	planted_make(r->root, &(struct planted_file){ 0 });
	snprintf(r->path, sizeof(r->path), "%s/metrics.jsonl", r->root);
	assert_int_equal(gt_folder_open(&r->folder, r->root, &r->err), 0);
	r->log.stream = open_memstream(&r->said, &r->said_size);
	assert_non_null(r->log.stream);
}

static void close_run(struct run *r)
{
	gt_metrics_writer_free(r->writer);
	gt_folder_close(&r->folder);
	fclose(r->log.stream);
	free(r->said);
	planted_remove(r->root);
}

static void plant(const struct run *r, const char *text, size_t size)
{
	FILE *f = fopen(r->path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, size, f), size);
	assert_int_equal(fclose(f), 0);
}

/* Begin a run at `step` of `total`, with a line at every `every`-th. */
static int start(struct run *r, int64_t every, int64_t step, int64_t total)
{
	const struct gt_start_report report = { .dir = &r->folder, .step = step, .total = total };

	assert_int_equal(gt_metrics_writer_new(&r->writer, every, &r->log, &r->err), 0);
	r->observer = gt_metrics_observer(r->writer);
	return r->observer.start(r->observer.self, &report, &r->err);
}

static void step(struct run *r, struct gt_step_report report)
{
	assert_int_equal(r->observer.step(r->observer.self, &report, &r->err), 0);
}

static void evaluated(struct run *r, struct gt_eval_report report)
{
	assert_int_equal(r->observer.evaluated(r->observer.self, &report, &r->err), 0);
}

static void end(struct run *r, int rc)
{
	assert_int_equal(r->observer.end(r->observer.self, rc, &r->err), 0);
}

/* Copy the file to new memory without the time of day and the memory that end each new line, which
 * must be those of this process. */
static char *copy_without_ends(const struct gt_mapping *map, size_t *size)
{
	char *copy = malloc(map->size + 1);
	const char *from = (const char *)map->data, *end = from + map->size;

	assert_non_null(copy);
	for (*size = 0; from < end; from++) {
		static const char mark[] = ",\"wall_time\":";
		double wall;
		unsigned long long memory;
		int length = 0;

		if ((size_t)(end - from) >= sizeof(mark) && !memcmp(from, mark, sizeof(mark) - 1)) {
			assert_int_equal(sscanf(from, ",\"wall_time\":%lf,\"memory_bytes\":%llu%n",
			                     &wall, &memory, &length),
			    2);
			assert_true(fabs(wall - (double)time(NULL)) < 60);
			assert_true(memory > 1 << 16 && memory < 1ULL << 40);
			from += length;
		}
		copy[(*size)++] = *from;
	}
	return copy;
}

static void expect_text(const struct run *r, const char *text, size_t size)
{
	struct gt_mapping map;
	size_t found_size;
	char *found;

	assert_int_equal(gt_map(&map, r->path, GT_ERR_IGNORED), 0);
	found = copy_without_ends(&map, &found_size);
	if (found_size != size || (size && memcmp(found, text, size) != 0))
		fail_msg("the file is\n%.*s, not\n%.*s", (int)found_size, found, (int)size, text);
	free(found);
	gt_unmap(&map);
}

static void expect(const struct run *r, const char *text)
{
	expect_text(r, text, strlen(text));
}

/* ---- lines ---- */

/* Losses are means, rates are of the time between two lines. */
static void lines_sum_up_the_steps_since_the_last_one(void **state)
{
	struct run r;

	(void)state;
	open_run(&r);
	assert_int_equal(start(&r, 2, 0, 5), 0);
	for (int i = 1; i <= 5; i++)
		step(&r, (struct gt_step_report){ .step = i,
		             .epoch = i / 3,
		             .loss = i,
		             .lr = 0.5 / i,
		             .grad_norm = 10 * i,
		             .samples = 8,
		             .train_s = i * i,
		             .data_s = i,
		             .time_s = i + 0.25 });
	end(&r, 0);
	expect(&r, "{\"split\":\"train\",\"step\":2,\"epoch\":0,\"loss\":1.5,\"lr\":0.25,"
	           "\"grad_norm\":20,\"samples_per_s\":4,\"data_wait\":0.5,\"time_s\":2.250}\n"
	           "{\"split\":\"train\",\"step\":4,\"epoch\":1,\"loss\":3.5,\"lr\":0.125,"
	           "\"grad_norm\":40,\"samples_per_s\":1.33333,\"data_wait\":0.167,"
	           "\"time_s\":4.250}\n"
	           "{\"split\":\"train\",\"step\":5,\"epoch\":1,\"loss\":5,\"lr\":0.1,"
	           "\"grad_norm\":50,\"samples_per_s\":0.888889,\"data_wait\":0.111,"
	           "\"time_s\":5.250}\n");
	close_run(&r);
}

static void values_that_are_not_finite_are_null(void **state)
{
	static const struct {
		double loss, grad_norm, scale;
		int64_t tokens;
		const char *text;
	} cases[] = {
		{ NAN, INFINITY, 0, 0,
		    "\"loss\":null,\"lr\":0.1,\"grad_norm\":null,\"samples_per_s\":2," },
		{ -INFINITY, -NAN, 0, 0,
		    "\"loss\":null,\"lr\":0.1,\"grad_norm\":null,\"samples_per_s\":2," },
		{ 1e300, 1e-300, 65536, 0,
		    "\"loss\":1e+300,\"lr\":0.1,\"grad_norm\":1e-300,\"loss_scale\":65536,"
		    "\"samples_per_s\":2," },
		{ 1.0 / 3, 0, INFINITY, 700,
		    "\"loss\":0.333333333,\"lr\":0.1,\"grad_norm\":0,\"loss_scale\":null,"
		    "\"samples_per_s\":2,\"tokens_per_s\":350," },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct run r;
		char line[400];

		open_run(&r);
		assert_int_equal(start(&r, 1, 0, 1), 0);
		step(&r, (struct gt_step_report){ .step = 1,
		             .loss = cases[i].loss,
		             .lr = 0.1,
		             .grad_norm = cases[i].grad_norm,
		             .loss_scale = cases[i].scale,
		             .samples = 4,
		             .tokens = cases[i].tokens,
		             .train_s = 2 });
		end(&r, 0);
		snprintf(line, sizeof(line),
		    "{\"split\":\"train\",\"step\":1,\"epoch\":0,%s\"data_wait\":0,"
		    "\"time_s\":0.000}\n",
		    cases[i].text);
		expect(&r, line);
		close_run(&r);
	}
}

/* The share of the peak rate follows from the samples per second. */
static void the_mfu_is_told_if_the_peak_is_known(void **state)
{
	const struct gt_step_report report = {
		.step = 1, .loss = 1, .lr = 1, .grad_norm = 1, .samples = 100, .train_s = 4
	};
	struct run r;
	struct gt_start_report begin = { .total = 1, .mfu_of_sample = 0.01 };

	(void)state;
	open_run(&r);
	begin.dir = &r.folder;
	assert_int_equal(gt_metrics_writer_new(&r.writer, 1, &r.log, &r.err), 0);
	r.observer = gt_metrics_observer(r.writer);
	assert_int_equal(r.observer.start(r.observer.self, &begin, &r.err), 0);
	step(&r, report);
	expect(&r,
	    "{\"split\":\"train\",\"step\":1,\"epoch\":0,\"loss\":1,\"lr\":1,\"grad_norm\":1,"
	    "\"samples_per_s\":25,\"mfu\":0.25,\"data_wait\":0,\"time_s\":0.000}\n");
	close_run(&r);
}

/* A step may be faster than the clock's ticks. */
static void steps_without_a_time_have_no_rates(void **state)
{
	struct run r;
	struct gt_mapping map;
	json_t *line;

	(void)state;
	open_run(&r);
	assert_int_equal(start(&r, 1, 0, 1), 0);
	step(&r, (struct gt_step_report){ .step = 1, .loss = 1, .samples = 4 });
	end(&r, 0);
	assert_int_equal(gt_map(&map, r.path, GT_ERR_IGNORED), 0);
	line = json_loadb((const char *)map.data, map.size, 0, NULL);
	assert_non_null(line);
	assert_true(json_is_null(json_object_get(line, "samples_per_s")));
	assert_true(json_is_null(json_object_get(line, "data_wait")));
	json_decref(line);
	gt_unmap(&map);
	close_run(&r);
}

static void evaluations_have_the_metrics_of_their_kind(void **state)
{
	static const struct {
		struct gt_metrics m;
		bool ema;
		const char *text;
	} cases[] = {
		{ { .loss = 0.5, .top1 = 0.75, .top5 = 1, .perplexity = 2, .n = 40 }, false,
		    "\"loss\":0.5,\"top1\":0.75,\"top5\":1,\"perplexity\":2,\"n\":40," },
		{ { .loss = 800, .perplexity = INFINITY, .n = 1 }, true,
		    "\"loss\":800,\"top1\":0,\"top5\":0,\"perplexity\":null,\"n\":1,"
		    "\"ema\":true," },
		{ { .target = GT_SAMPLE_NUMBER,
		      .loss = 2,
		      .mse = 4,
		      .mae = 1.5,
		      .r2 = NAN,
		      .n = 3 },
		    false, "\"loss\":2,\"mse\":4,\"mae\":1.5,\"r2\":null,\"n\":3," },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct run r;
		char line[300];

		open_run(&r);
		assert_int_equal(start(&r, 10, 0, 10), 0);
		evaluated(&r, (struct gt_eval_report){ .step = 7,
		                  .metrics = &cases[i].m,
		                  .average = cases[i].ema ? &ema : NULL,
		                  .time_s = 1.5 });
		end(&r, 0);
		snprintf(line, sizeof(line), "{\"split\":\"val\",\"step\":7,%s\"time_s\":1.500}\n",
		    cases[i].text);
		expect(&r, line);
		close_run(&r);
	}
}

/* The line of the last step comes before that of its evaluation. */
static void the_last_step_is_told_before_its_evaluation(void **state)
{
	static const struct gt_metrics m = { .loss = 1, .perplexity = 2, .n = 1 };
	struct run r;

	(void)state;
	open_run(&r);
	assert_int_equal(start(&r, 10, 0, 3), 0);
	step(&r, (struct gt_step_report){
	             .step = 3, .loss = 1, .lr = 0.1, .grad_norm = 1, .samples = 1, .train_s = 1 });
	evaluated(&r, (struct gt_eval_report){ .step = 3, .metrics = &m });
	end(&r, 0);
	expect(&r, TRAIN(3, 0.000) VAL(3, 0.000));
	close_run(&r);
}

/* Steps since the last line are told where the run ends, unless it failed. */
static void the_end_writes_the_steps_that_are_left(void **state)
{
	static const struct {
		int rc;
		const char *text;
	} cases[] = {
		{ 0, "{\"split\":\"train\",\"step\":1,\"epoch\":0,\"loss\":3,\"lr\":0,"
		     "\"grad_norm\":0,\"samples_per_s\":0,\"data_wait\":0,\"time_s\":0.000}\n" },
		{ GT_EDIVERGED, "" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct run r;

		open_run(&r);
		assert_int_equal(start(&r, 10, 0, 100), 0);
		step(&r, (struct gt_step_report){ .step = 1, .loss = 3, .train_s = 1 });
		expect(&r, "");
		end(&r, cases[i].rc);
		expect(&r, cases[i].text);
		close_run(&r);
	}
}

/* Write the line of a step while files cannot grow beyond `bytes`. */
static void step_on_full_disk(struct run *r, int64_t number, rlim_t bytes)
{
	struct rlimit before, full;

	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	full = (struct rlimit){ bytes, before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
	step(r, (struct gt_step_report){ .step = number,
	            .loss = 1,
	            .lr = 0.1,
	            .grad_norm = 1,
	            .samples = 1,
	            .train_s = (double)number });
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	signal(SIGXFSZ, SIG_DFL);
}

static void expect_one_warning(struct run *r, const char *reason)
{
	int lines = 0;

	fflush(r->log.stream);
	for (const char *s = r->said; *s; s++)
		lines += *s == '\n';
	assert_int_equal(lines, 1);
	assert_non_null(strstr(r->said, "warning: cannot write '"));
	assert_non_null(strstr(r->said, reason));
}

/* A line of which a part was written is completed. */
static void lines_wait_while_the_disk_is_full(void **state)
{
	struct run r;

	(void)state;
	open_run(&r);
	assert_int_equal(start(&r, 1, 0, 9), 0);
	step_on_full_disk(&r, 1, 20);
	expect(&r, "{\"split\":\"train\",\"st");
	step_on_full_disk(&r, 2, 20);
	step(&r, (struct gt_step_report){
	             .step = 3, .loss = 1, .lr = 0.1, .grad_norm = 1, .samples = 1, .train_s = 3 });
	expect(&r, TRAIN(1, 0.000) TRAIN(2, 0.000) TRAIN(3, 0.000));
	expect_one_warning(&r, "/metrics.jsonl': File too large; the run goes on");
	close_run(&r);
}

/* On a disk that stays full, the first lines are kept, and memory does not grow. */
static void the_end_writes_the_lines_that_wait(void **state)
{
	enum { STEPS = 1000 };
	struct gt_mapping map;
	struct run r;

	(void)state;
	open_run(&r);
	assert_int_equal(start(&r, 1, 0, 2 * STEPS), 0);
	for (int i = 1; i <= STEPS; i++)
		step_on_full_disk(&r, i, 0);
	expect(&r, "");
	end(&r, GT_EIO);
	assert_int_equal(gt_map(&map, r.path, GT_ERR_IGNORED), 0);
	assert_in_range(map.size, 63 << 10, 64 << 10);
	assert_int_equal(map.data[map.size - 1], '\n');
	gt_unmap(&map);
	expect_one_warning(&r, "File too large");
	close_run(&r);
}

static void a_file_that_was_removed_is_told_once(void **state)
{
	struct run r;

	(void)state;
	open_run(&r);
	assert_int_equal(start(&r, 1, 0, 9), 0);
	assert_int_equal(unlink(r.path), 0);
	for (int i = 1; i <= 3; i++)
		step(&r, (struct gt_step_report){ .step = i, .loss = 1, .train_s = i });
	expect_one_warning(&r, "it was removed; the run goes on");
	close_run(&r);
}

/* ---- going on ---- */

/* The lines of a run that went on from step 2, and those that stay. */
static void lines_beyond_the_checkpoint_go(void **state)
{
	static const struct {
		const char *name, *before, *after;
	} cases[] = {
		{ "none", "", "" },
		{ "all stay", TRAIN(1, 1.0) TRAIN(2, 2.0) VAL(2, 2.5),
		    TRAIN(1, 1.0) TRAIN(2, 2.0) VAL(2, 2.5) },
		{ "some go", TRAIN(2, 2.0) TRAIN(3, 3.0) VAL(3, 3.5), TRAIN(2, 2.0) },
		{ "all go", TRAIN(3, 3.0) VAL(3, 3.5), "" },
		{ "the one that a kill tore goes", TRAIN(2, 2.0) "{\"split\":\"train\",\"st",
		    TRAIN(2, 2.0) },
		{ "even after a letter", TRAIN(2, 2.0) "{", TRAIN(2, 2.0) },
		{ "one that is whole, but for the line feed, stays, and is ended",
		    TRAIN(1, 1.0) "{\"split\":\"train\",\"step\":2}",
		    TRAIN(1, 1.0) "{\"split\":\"train\",\"step\":2}\n" },
		{ "and so does another program's", "{\"split\":\"test\",\"step\":9}",
		    "{\"split\":\"test\",\"step\":9}\n" },
		/* Lines of others stay as they are, whatever they hold. */
		{ "a line with another key",
		    "{\"split\":\"train\",\"step\":9,\"note\":\"\\u00e4\\n\"}\n" TRAIN(3, 3.0),
		    "{\"split\":\"train\",\"step\":9,\"note\":\"\\u00e4\\n\"}\n" },
		{ "another split", "{\"split\":\"test\",\"step\":9}\n" TRAIN(3, 3.0),
		    "{\"split\":\"test\",\"step\":9}\n" },
		{ "a step that is no integer", "{\"split\":\"val\",\"step\":9.0}\n" TRAIN(3, 3.0),
		    "{\"split\":\"val\",\"step\":9.0}\n" },
		{ "no JSON", "step 3: restarted\n\n" TRAIN(3, 3.0) "# end",
		    "step 3: restarted\n\n# end\n" },
		{ "a torn line in the middle", "{\"split\":\"tra\n" TRAIN(3, 3.0),
		    "{\"split\":\"tra\n" },
		{ "bytes that are no text", "\xff\xfe\n" TRAIN(3, 3.0), "\xff\xfe\n" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct run r;
		int rc;

		open_run(&r);
		plant(&r, cases[i].before, strlen(cases[i].before));
		rc = start(&r, 10, 2, 10);
		if (rc)
			fail_msg("%s: %s", cases[i].name, r.err.text);
		end(&r, 0);
		expect(&r, cases[i].after);
		close_run(&r);
	}
}

/* time_s goes on; an evaluation that has its line gets no second one. */
static void a_resumed_run_goes_on_with_its_time(void **state)
{
	static const struct gt_metrics m = { .loss = 1, .perplexity = 2, .n = 1 };
	struct run r;

	(void)state;
	open_run(&r);
	plant(&r, TRAIN(2, 20.5) VAL(2, 21.0) TRAIN(3, 99.0),
	    strlen(TRAIN(2, 20.5) VAL(2, 21.0) TRAIN(3, 99.0)));
	assert_int_equal(start(&r, 1, 2, 3), 0);
	evaluated(&r, (struct gt_eval_report){ .step = 2, .metrics = &m, .time_s = 0.5 });
	step(&r, (struct gt_step_report){ .step = 3,
	             .loss = 1,
	             .lr = 0.1,
	             .grad_norm = 1,
	             .samples = 2,
	             .train_s = 2,
	             .time_s = 3 });
	evaluated(&r, (struct gt_eval_report){ .step = 3, .metrics = &m, .time_s = 4 });
	evaluated(&r, (struct gt_eval_report){ .step = 3, .metrics = &m, .time_s = 5 });
	end(&r, 0);
	expect(&r, TRAIN(2, 20.5) VAL(2, 21.0) TRAIN(3, 24.000) VAL(3, 25.000));
	close_run(&r);
}

/* A file under two names stays as it is under the other one. */
static void hard_links_are_not_written_through(void **state)
{
	char other[PATH_SIZE + 8];
	struct gt_mapping map;
	struct run r;

	(void)state;
	open_run(&r);
	plant(&r, TRAIN(1, 1.0), strlen(TRAIN(1, 1.0)));
	snprintf(other, sizeof(other), "%s.kept", r.path);
	assert_int_equal(link(r.path, other), 0);
	assert_int_equal(start(&r, 1, 1, 2), 0);
	step(&r, (struct gt_step_report){ .step = 2,
	             .loss = 1,
	             .lr = 0.1,
	             .grad_norm = 1,
	             .samples = 1,
	             .train_s = 1,
	             .time_s = 1 });
	end(&r, 0);
	expect(&r, TRAIN(1, 1.0) TRAIN(2, 2.000));
	assert_int_equal(gt_map(&map, other, GT_ERR_IGNORED), 0);
	assert_int_equal(map.size, strlen(TRAIN(1, 1.0)));
	gt_unmap(&map);
	close_run(&r);
}

/* Not a file of metrics: it stays as it is. */
static void a_line_without_end_is_refused(void **state)
{
	static const struct {
		size_t size;
		int rc;
	} cases[] = { { 1 << 20, 0 }, { (1 << 20) + 1, GT_EFORMAT } };

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		char *text = malloc(cases[i].size + 1);
		struct run r;

		assert_non_null(text);
		memset(text, 'x', cases[i].size);
		text[cases[i].size] = '\n';
		open_run(&r);
		plant(&r, text, cases[i].size);
		assert_int_equal(start(&r, 1, 1, 2), cases[i].rc);
		if (cases[i].rc)
			assert_non_null(strstr(r.err.text, "the line at byte 0 has more than"));
		/* One that is taken is ended. */
		expect_text(&r, text, cases[i].size + !cases[i].rc);
		free(text);
		close_run(&r);
	}
}

static void only_a_regular_file_is_written(void **state)
{
	struct run r;

	(void)state;
	open_run(&r);
	assert_int_equal(symlink("/dev/null", r.path), 0);
	assert_int_equal(start(&r, 1, 0, 2), GT_EIO);
	assert_non_null(strstr(r.err.text, "metrics.jsonl' is a symbolic link"));
	close_run(&r);
}

/* Numbers that a sink has received, as text. */
struct received {
	char text[1000];
};

static void receive(void *self, const char *name, int64_t step, double number)
{
	char *end = strchr(((struct received *)self)->text, '\0');

	/* The memory of this process may be any number. */
	if (strstr(name, "/memory_bytes"))
		number = number > 0;
	sprintf(end, "%s %lld %g\n", name, (long long)step, gt_text_real(number));
}

static void numbers_of_new_lines_go_to_the_sink(void **state)
{
	const struct gt_metrics m = { .loss = 2, .target = GT_SAMPLE_NUMBER, .mse = 4, .r2 = NAN };
	struct received got = { 0 };
	struct run r;

	(void)state;
	open_run(&r);
	plant(&r, TRAIN(1, 1) VAL(2, 2), sizeof(TRAIN(1, 1) VAL(2, 2)) - 1);
	assert_int_equal(start(&r, 2, 2, 4), 0);
	gt_metrics_writer_send_to(r.writer, (struct gt_number_sink){ &got, receive });
	evaluated(&r, (struct gt_eval_report){ .step = 2, .metrics = &m }); /* is there already */
	for (int i = 3; i <= 4; i++)
		step(&r, (struct gt_step_report){ .step = i,
		             .loss = i,
		             .lr = 0.5,
		             .samples = 8,
		             .tokens = 80,
		             .train_s = i });
	evaluated(&r, (struct gt_eval_report){ .step = 4, .metrics = &m });
	end(&r, 0);
	assert_string_equal(got.text, "train/loss 4 3.5\ntrain/lr 4 0.5\ntrain/grad_norm 4 0\n"
	                              "train/samples_per_s 4 4\ntrain/tokens_per_s 4 40\n"
	                              "train/data_wait 4 0\ntrain/memory_bytes 4 1\n"
	                              "val/loss 4 2\nval/mse 4 4\nval/mae 4 0\nval/r2 4 nan\n"
	                              "val/memory_bytes 4 1\n");
	close_run(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_sum_up_the_steps_since_the_last_one),
		cmocka_unit_test(values_that_are_not_finite_are_null),
		cmocka_unit_test(the_mfu_is_told_if_the_peak_is_known),
		cmocka_unit_test(steps_without_a_time_have_no_rates),
		cmocka_unit_test(evaluations_have_the_metrics_of_their_kind),
		cmocka_unit_test(the_last_step_is_told_before_its_evaluation),
		cmocka_unit_test(the_end_writes_the_steps_that_are_left),
		cmocka_unit_test(lines_wait_while_the_disk_is_full),
		cmocka_unit_test(the_end_writes_the_lines_that_wait),
		cmocka_unit_test(a_file_that_was_removed_is_told_once),
		cmocka_unit_test(lines_beyond_the_checkpoint_go),
		cmocka_unit_test(a_resumed_run_goes_on_with_its_time),
		cmocka_unit_test(hard_links_are_not_written_through),
		cmocka_unit_test(a_line_without_end_is_refused),
		cmocka_unit_test(only_a_regular_file_is_written),
		cmocka_unit_test(numbers_of_new_lines_go_to_the_sink),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
