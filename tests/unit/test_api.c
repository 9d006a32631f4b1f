/* test_api.c - the interface of programs, gtrain.h: steps from memory, tensors, errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/gtrain.h"
#include "lib/train/stepper.h"

#define COUNT(a) (sizeof(a) / sizeof(*(a)))

enum {
	SAMPLES = 72,
	FEATURES = 8,
	CLASSES = 3,
	MICRO = 8,
	BATCH = 16,
	STEPS = 12,
	PATH_SIZE = 256
};

/* A step has two micro-batches of 8 samples. The 72 samples make 5 steps of an epoch, of which the
 * last one is short. */
#define OF_MODEL "model=mlp\nbatch=8\naccumulate=2\nsteps=12\nseed=5\n"
#define FILES    "data=random:8/3,samples=72\n"
#define MEMORY   "data=memory:8/3,samples=72\n"

static void close_quietly(struct gtrain **run)
{
	gtrain_close(*run);
	*run = NULL;
}

static struct gtrain *open_ok(const char *options)
{
	struct gtrain_error error;
	struct gtrain *run;

	if (gtrain_open(&run, options, &error))
		fail_msg("%s (%s)", error.text, error.hint);
	return run;
}

/* The samples of the data set of a run that reads them itself. */
struct samples {
	float input[SAMPLES][FEATURES];
	int64_t target[SAMPLES];
};

static void read_samples(struct samples *out, uint64_t seed)
{
	const struct gt_data_request request = { .seed = seed };
	struct gt_err err = GT_ERR_INIT;
	const struct gt_draw draw = { 0 };
	struct gt_dataset *data;

	assert_int_equal(gt_dataset_open(&data, "random:8/3,samples=72", &request, &err), 0);
	for (int i = 0; i < SAMPLES; i++) {
		int32_t target;

		assert_int_equal(gt_dataset_read(data, i, &draw, out->input[i], &target, &err), 0);
		out->target[i] = target;
	}
	gt_dataset_close(data);
}

/* Two arrays of a batch: some of the samples, in the order of `index`. */
struct arrays {
	float input[SAMPLES][FEATURES];
	int64_t target[SAMPLES];
	struct gtrain_tensor tensors[2];
};

static void pick(struct arrays *a, const struct samples *all, const int64_t *index, int count)
{
	for (int i = 0; i < count; i++) {
		memcpy(a->input[i], all->input[index[i]], sizeof(a->input[i]));
		a->target[i] = all->target[index[i]];
	}
	/* the order does not matter */
	a->tensors[0] = (struct gtrain_tensor){ "target", a->target, GTRAIN_INT64, 1, { count } };
	a->tensors[1] =
	    (struct gtrain_tensor){ "input", a->input, GTRAIN_FLOAT32, 2, { count, FEATURES } };
}

/* Write the samples of a step to index [BATCH], in the order in which the program reads them, and
 * return their number. */
static int draw_step(int64_t index[BATCH], int64_t step)
{
	enum { RUNS = BATCH / MICRO };
	const struct gt_sampler sampler = { .samples = SAMPLES,
		.seed = 5,
		.world = 1,
		.batch = MICRO,
		.per_step = RUNS,
		.shuffle = true,
		.pad = true };
	int64_t steps = (gt_sampler_batches(&sampler) + RUNS - 1) / RUNS, order[SAMPLES];
	int count = 0;

	gt_sampler_permutation(&sampler, (uint32_t)(step / steps), order);
	for (int64_t i = 0; i < RUNS; i++)
		count += gt_sampler_batch(&sampler, order, step % steps * RUNS + i, index + count);
	return count;
}

static void train_from_memory(struct gtrain *run, double losses[STEPS])
{
	struct gtrain_error error;
	struct samples all;
	struct arrays a;

	read_samples(&all, 5);
	for (int64_t step = 0; step < STEPS; step++) {
		int64_t index[BATCH];
		int count = draw_step(index, step);
		double samples;

		assert_int_equal(gtrain_number(run, "samples", &samples, &error), 0);
		assert_int_equal(count, (int)samples);
		pick(&a, &all, index, count);
		assert_int_equal(gtrain_step(run, a.tensors, 2, &losses[step], &error), 0);
		memset(&a, 255, sizeof(a)); /* the caller's memory is free again */
	}
}

/* Compare all tensors of two runs. */
static void assert_same_state(struct gtrain *x, struct gtrain *y)
{
	struct gtrain_tensor a, b;
	double tensors;
	int64_t i;

	for (i = 0; !gtrain_describe(x, i, &a, NULL); i++) {
		size_t bytes = sizeof(float);

		assert_int_equal(gtrain_describe(y, i, &b, NULL), 0);
		assert_string_equal(a.name, b.name);
		assert_int_equal(a.dtype, GTRAIN_FLOAT32);
		for (int k = 0; k < a.ndim; k++)
			bytes *= (size_t)a.shape[k];
		a.data = malloc(bytes);
		b.data = malloc(bytes);
		assert_int_equal(gtrain_read(x, &a, NULL), 0);
		assert_int_equal(gtrain_read(y, &b, NULL), 0);
		assert_memory_equal(a.data, b.data, bytes);
		free(a.data);
		free(b.data);
	}
	assert_int_equal(i, 4);
	assert_int_equal(gtrain_number(x, "tensors", &tensors, NULL), 0);
	assert_int_equal((int)tensors, 4);
}

/* ---- the same bits ---- */

struct seen {
	double losses[STEPS];
};

static int see_step(void *self, const struct gt_step_report *r, struct gt_err *err)
{
	struct seen *seen = self;

	(void)err;
	seen->losses[r->step - 1] = r->loss;
	return 0;
}

/* Train as the program does, and save the checkpoint of the last step in `dir`. */
static void train_as_program(const char *dir, struct seen *seen)
{
	const struct gt_observer observer = { .self = seen, .step = see_step };
	const atomic_bool never = false;
	struct gt_train_options options;
	struct gt_train_result result;
	struct gt_log log = { 0 };
	struct gt_err err = GT_ERR_INIT;
	struct gt_train *t;

	gt_train_options_init(&options);
	options.model = "mlp";
	options.data = "random:8/3,samples=72";
	options.batch = MICRO;
	options.accumulate = BATCH / MICRO;
	options.steps = STEPS;
	options.seed = 5;
	options.out = dir;
	assert_int_equal(gt_train_open(&t, &options, false, &log, &err), 0);
	assert_int_equal(gt_train_run(t, NULL, &observer, 1, &never, &result, &err), 0);
	gt_train_close(t);
}

static void make_folder(char dir[PATH_SIZE])
{
	const char *tmp = getenv("TMPDIR");

	snprintf(dir, PATH_SIZE, "%s/gtrain-api-XXXXXX", tmp ? tmp : "/tmp");
	assert_non_null(mkdtemp(dir));
}

static void remove_folder(const char *dir)
{
	char command[PATH_SIZE + 16];

	snprintf(command, sizeof(command), "rm -r '%s'", dir);
	assert_int_equal(system(command), 0);
}

static void steps_with_samples_from_memory_have_the_bits_of_gtrain_train(void **state)
{
	double losses[STEPS], loss, first, other;
	char dir[PATH_SIZE], options[2 * PATH_SIZE];
	struct gtrain *memory, *files, *program;
	struct seen seen;

	(void)state;
	make_folder(dir);
	snprintf(options, sizeof(options), "%s/run", dir);
	train_as_program(options, &seen);
	/* The weights of the program's run. */
	snprintf(
	    options, sizeof(options), "resume=%s/run\ndata=memory:8/3,samples=72\nsteps=20", dir);
	program = open_ok(options);
	memory = open_ok(OF_MODEL MEMORY);
	files = open_ok(OF_MODEL FILES);
	train_from_memory(memory, losses);
	for (int i = 0; i < STEPS; i++) {
		assert_int_equal(gtrain_step(files, NULL, 0, &loss, NULL), 0);
		assert_true(loss == losses[i] && loss == seen.losses[i]);
	}
	assert_same_state(memory, files);
	assert_same_state(memory, program);
	assert_int_equal(gtrain_number(memory, "train/loss", &first, NULL), 0);
	assert_true(first == losses[STEPS - 1]);
	assert_int_equal(gtrain_number(memory, "train/grad_norm", &first, NULL), 0);
	assert_int_equal(gtrain_number(files, "train/grad_norm", &other, NULL), 0);
	assert_true(first == other && first > 0);
	close_quietly(&memory);
	close_quietly(&files);
	close_quietly(&program);
	remove_folder(dir);
}

static void test_resume(void **state)
{
	char dir[PATH_SIZE], path[PATH_SIZE + 16], options[4 * PATH_SIZE];
	struct gtrain *whole = open_ok(OF_MODEL FILES), *half = open_ok(OF_MODEL FILES), *rest;
	double a, b, step;

	(void)state;
	make_folder(dir);
	snprintf(path, sizeof(path), "%s/half.ckpt", dir);
	for (int i = 0; i < 7; i++) {
		assert_int_equal(gtrain_step(whole, NULL, 0, NULL, NULL), 0);
		assert_int_equal(gtrain_step(half, NULL, 0, &a, NULL), 0);
	}
	assert_int_equal(gtrain_save(half, path, "checkpoint", NULL), 0);
	close_quietly(&half);
	snprintf(options, sizeof(options), OF_MODEL FILES "resume=%s", path);
	rest = open_ok(options);
	assert_int_equal(gtrain_number(rest, "step", &step, NULL), 0);
	assert_int_equal((int)step, 7);
	for (int i = 7; i < STEPS; i++) {
		assert_int_equal(gtrain_step(whole, NULL, 0, &a, NULL), 0);
		assert_int_equal(gtrain_step(rest, NULL, 0, &b, NULL), 0);
		assert_true(a == b);
	}
	assert_same_state(whole, rest);
	/* The weights alone begin another run, whose model they know. */
	snprintf(path, sizeof(path), "%s/weights.pth", dir);
	assert_int_equal(gtrain_save(rest, path, "weights", NULL), 0);
	close_quietly(&whole);
	snprintf(options, sizeof(options), "steps=1\n" FILES "init-from=%s", path);
	whole = open_ok(options);
	assert_same_state(whole, rest);
	close_quietly(&rest);
	close_quietly(&whole);
	remove_folder(dir);
}

/* ---- evaluation ---- */

static void samples_from_memory_are_evaluated_and_predicted(void **state)
{
	struct gtrain *run = open_ok(OF_MODEL MEMORY);
	struct gtrain *files = open_ok(OF_MODEL FILES "val=random:8/3,samples=72\n");
	struct gtrain_tensor output = { NULL, NULL, GTRAIN_FLOAT32, 2, { SAMPLES, CLASSES } };
	float scores[SAMPLES][CLASSES];
	double losses[STEPS], loss, other, top1, n, mean = 0;
	int64_t index[SAMPLES];
	struct samples all;
	struct arrays a;
	int right = 0;

	(void)state;
	for (int i = 0; i < SAMPLES; i++)
		index[i] = i;
	read_samples(&all, 5);
	pick(&a, &all, index, SAMPLES);
	train_from_memory(run, losses);
	for (int i = 0; i < STEPS; i++)
		assert_int_equal(gtrain_step(files, NULL, 0, NULL, NULL), 0);
	assert_int_equal(gtrain_evaluate(run, a.tensors, 2, &loss, NULL), 0);
	assert_int_equal(gtrain_evaluate(files, NULL, 0, &other, NULL), 0);
	assert_true(fabs(loss - other) < 1e-6 && loss > 0);
	assert_int_equal(gtrain_number(run, "val/samples", &n, NULL), 0);
	assert_int_equal((int)n, SAMPLES);
	output.data = scores;
	assert_int_equal(gtrain_predict(run, a.tensors + 1, 1, &output, NULL), 0);
	for (int i = 0; i < SAMPLES; i++) {
		int best = 0;
		double sum = 0;

		for (int k = 0; k < CLASSES; k++) {
			sum += exp((double)scores[i][k]);
			if (scores[i][k] > scores[i][best])
				best = k;
		}
		right += best == all.target[i];
		mean += (log(sum) - (double)scores[i][all.target[i]]) / SAMPLES;
	}
	assert_true(fabs(mean - loss) < 1e-5);
	assert_int_equal(gtrain_number(run, "val/top1", &top1, NULL), 0);
	assert_int_equal((int)lround(top1 * SAMPLES), right);
	close_quietly(&run);
	close_quietly(&files);
}

static void targets_are_classes_numbers_or_labels(void **state)
{
	static const struct {
		const char *options, *name;
		int32_t dtype;
		int outputs;
	} rows[] = {
		{ "data=memory:8/1,target=number\n", "val/mse", GTRAIN_FLOAT32, 1 },
		{ "data=memory:8/3,target=labels\n", "val/f1", GTRAIN_FLOAT32, 3 },
		{ "data=memory:8/3\nloss=cross-entropy:label-smoothing=0.1\nema=0.9\n", "val/top1",
		    GTRAIN_INT32, 3 },
	};
	float input[BATCH][FEATURES] = { 0 }, floats[BATCH * CLASSES] = { 0 };
	int32_t classes[BATCH] = { 0 };
	char options[512];

	(void)state;
	for (int i = 0; i < BATCH; i++)
		input[i][i % FEATURES] = 1;
	for (size_t i = 0; i < COUNT(rows); i++) {
		bool labels = strstr(rows[i].options, "labels");
		struct gtrain_tensor batch[] = {
			{ "input", input, GTRAIN_FLOAT32, 2, { BATCH, FEATURES } },
			{ "target", rows[i].dtype == GTRAIN_INT32 ? (void *)classes : floats,
			    rows[i].dtype, labels ? 2 : 1, { BATCH, CLASSES } },
		};
		double first = 0, last = 0, number, outputs;
		struct gtrain *run;

		snprintf(options, sizeof(options), OF_MODEL "lr=0.01\n%s", rows[i].options);
		run = open_ok(options);
		for (int k = 0; k < STEPS; k++)
			assert_int_equal(gtrain_step(run, batch, 2, k ? &last : &first, NULL), 0);
		assert_true(last < first);
		assert_int_equal(gtrain_evaluate(run, batch, 2, &last, NULL), 0);
		assert_int_equal(gtrain_number(run, rows[i].name, &number, NULL), 0);
		assert_true(number >= 0);
		assert_int_equal(gtrain_number(run, "outputs", &outputs, NULL), 0);
		assert_int_equal((int)outputs, rows[i].outputs);
		close_quietly(&run);
	}
}

/* ---- tensors ---- */

static void a_tensor_that_is_written_is_used(void **state)
{
	struct gtrain *run = open_ok(OF_MODEL MEMORY);
	float bias[CLASSES] = { 1, -2, 3 }, back[CLASSES] = { 0 }, zeros[CLASSES * 256] = { 0 };
	float input[2][FEATURES] = { { 0 } }, scores[2][CLASSES];
	struct gtrain_tensor t = { "2.bias", bias, GTRAIN_FLOAT32, 1, { CLASSES } };
	struct gtrain_tensor w = { "2.weight", zeros, GTRAIN_FLOAT32, 2, { CLASSES, 256 } };
	const struct gtrain_tensor x = { "input", input, GTRAIN_FLOAT32, 2, { 2, FEATURES } };
	struct gtrain_tensor output = { NULL, scores, GTRAIN_FLOAT32, 2, { 2, CLASSES } };

	(void)state;
	assert_int_equal(gtrain_write(run, &t, NULL), 0);
	assert_int_equal(gtrain_write(run, &w, NULL), 0);
	t.data = back;
	assert_int_equal(gtrain_read(run, &t, NULL), 0);
	assert_memory_equal(back, bias, sizeof(bias));
	/* Without weights the outputs are the bias. */
	assert_int_equal(gtrain_predict(run, &x, 1, &output, NULL), 0);
	assert_memory_equal(scores[0], bias, sizeof(bias));
	assert_memory_equal(scores[1], bias, sizeof(bias));
	close_quietly(&run);
}

/* A weight that is NaN is found before it is saved, and a loss that is NaN ends the run. */
static void a_run_whose_weights_are_NaN_saves_nothing_and_ends(void **state)
{
	struct gtrain *run = open_ok(OF_MODEL FILES);
	float bias[CLASSES] = { NAN, 0, 0 };
	struct gtrain_tensor t = { "2.bias", bias, GTRAIN_FLOAT32, 1, { CLASSES } };
	struct gtrain_error error;
	double loss;

	(void)state;
	assert_int_equal(gtrain_write(run, &t, NULL), 0);
	assert_int_equal(
	    gtrain_save(run, "/nowhere/x.ckpt", "checkpoint", &error), GTRAIN_EDIVERGED);
	assert_int_equal(gtrain_step(run, NULL, 0, &loss, &error), GTRAIN_EDIVERGED);
	assert_true(isnan(loss));
	assert_int_equal(gtrain_step(run, NULL, 0, &loss, &error), GTRAIN_EINVAL);
	assert_string_equal(error.text, "a step of this run has failed, so it cannot go on");
	assert_int_equal(gtrain_save(run, "/nowhere/x.pth", "weights", &error), GTRAIN_EINVAL);
	assert_int_equal(gtrain_read(run, &t, &error), 0);
	close_quietly(&run);
}

/* ---- errors ---- */

static void errors_of_opening_name_the_option(void **state)
{
	static const struct {
		const char *options, *text, *hint;
	} rows[] = {
		{ "data=random:8/3", "model MODEL is missing", "" },
		{ "model=mlp", "data DATA is missing", "" },
		{ "modle=mlp", "unknown option 'modle'", "did you mean 'model'?" },
		{ "model", "'model' is not of the form name=value", "options are lines of text" },
		{ "--model=mlp", "'--model=mlp' is not of the form name=value", "" },
		{ "model=mpl\ndata=random:8/3", "unknown model 'mpl'", "did you mean 'mlp'?" },
		{ "model=mlp\ndata=random:8/3\nbatch=0", "batch: '0' is not a number from 1", "" },
		{ "model=mlp\ndata=random:8/3\nbatch=x", "batch: 'x' is not a whole number", "" },
		{ "model=mlp\ndata=random:8/3\nsteps=1\nepochs=1",
		    "epochs cannot be combined with steps", "" },
		{ "model=mlp\ndata=random:8/3\nout=run", "out is an option of `gtrain train` alone",
		    "" },
		{ "model=mlp\ndata=random:8/3\nsave-async=yes",
		    "save-async is an option of `gtrain train` alone", "" },
		{ "model=mlp\ndata=random:8/3\nsave-sharded=yes",
		    "save-sharded is an option of `gtrain train` alone", "" },
		{ "model=mlp\r\ndata=random:8/3", "unknown model 'mlp\\x0d'", "" },
		{ "model=mlp\ndata=random:8/3\nthreads=2",
		    "threads is an option of `gtrain train` alone", "" },
		{ "model=mlp\ndata=random:8/3\nnproc=2", "nproc 2: a program steps one rank itself",
		    "`gtrain train` starts" },
		{ "model=mlp\ndata=csv:/nowhere.csv", "/nowhere.csv", "" },
		{ "model=mlp\ndata=memory:8/3", "steps is missing: samples in memory have no end",
		    "" },
		{ "model=mlp\ndata=memory:8\nsteps=1",
		    "data 'memory:8' is not of the form memory:INPUTS/CLASSES", "memory:784/10" },
		{ "model=mlp\ndata=memory:8/3,target=number\nsteps=1",
		    "target=number: a sample has 3", "memory:INPUTS/1" },
		{ "model=mlp\ndata=memory:8/3\nsteps=1\nval-split=0.5",
		    "val-split cannot be combined with samples in memory", "" },
		{ "model=mlp\ndata=memory:8/3\nsteps=1\nclass-weights=balanced",
		    "class-weights cannot be combined", "" },
		{ "model=mlp\ndata=memory:8/3\nsteps=1\nreproducible=yes",
		    "reproducible cannot be combined", "" },
		{ "model=mlp\ndata=memory:8/3\nsteps=1\nval=memory:8/3",
		    "unknown kind of data 'memory'", "" },
		{ "resume=/nowhere", "/nowhere", "" },
		{ "model=mlp\ndata=random:8/3\nlog=/nowhere/log", "log: cannot open '/nowhere/log'",
		    "" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct gtrain *run = (struct gtrain *)&run;
		struct gtrain_error error;

		assert_true(gtrain_open(&run, rows[i].options, &error) < 0);
		assert_null(run);
		if (!strstr(error.text, rows[i].text) || !strstr(error.hint, rows[i].hint))
			fail_msg("%s: '%s' (%s)", rows[i].options, error.text, error.hint);
		assert_int_equal(gtrain_open(&run, rows[i].options, NULL), error.code);
	}
}

static float some_input[BATCH][FEATURES];
static int32_t some_target[BATCH], bad_target[BATCH] = { [3] = CLASSES };
static double doubles[BATCH][FEATURES];

static void errors_of_batches_come_before_a_step(void **state)
{
	static const struct {
		struct gtrain_tensor batch[3];
		int count;
		const char *text;
	} rows[] = {
#define INPUT { "input", some_input, GTRAIN_FLOAT32, 2, { BATCH, FEATURES } }
#define TARGET                                                                                     \
	{                                                                                          \
		"target", some_target, GTRAIN_INT32, 1,                                            \
		{                                                                                  \
			BATCH                                                                      \
		}                                                                                  \
	}
		{ { INPUT }, 0, "a step needs 16 samples" },
		{ { INPUT }, 1, "the batch lacks 'target'" },
		{ { TARGET }, 1, "the batch lacks 'input'" },
		{ { INPUT }, -1, "a batch of -1 arrays" },
		{ { INPUT, INPUT, TARGET }, 3, "'input' is in the batch twice" },
		{ { INPUT, TARGET, { "labels", some_target, GTRAIN_INT32, 1, { BATCH } } }, 3,
		    "a batch has no 'labels'" },
		{ { INPUT, { NULL, some_target, GTRAIN_INT32, 1, { BATCH } } }, 2,
		    "a batch has no '(null)'" },
		{ { INPUT, { "tar\nget", some_target, GTRAIN_INT32, 1, { BATCH } } }, 2,
		    "a batch has no 'tar\\nget'" },
		{ { TARGET, { "input", some_input, GTRAIN_FLOAT32, 2, { FEATURES, BATCH } } }, 2,
		    "'input' is float32 [8, 16], not float32 [samples, 8]" },
		{ { TARGET, { "input", some_input, GTRAIN_FLOAT32, 1, { BATCH } } }, 2,
		    "'input' is float32 [16], not float32 [samples, 8]" },
		{ { TARGET, { "input", doubles, GTRAIN_FLOAT64, 2, { BATCH, FEATURES } } }, 2,
		    "'input' is float64 [16, 8], not float32 [samples, 8]" },
		{ { TARGET, { "input", some_input, 99, 2, { BATCH, FEATURES } } }, 2,
		    "tensor 'input': unknown type 99" },
		{ { TARGET, { "input", some_input, GTRAIN_FLOAT32, 9, { BATCH } } }, 2,
		    "tensor 'input': 9 dimensions" },
		{ { TARGET, { "input", NULL, GTRAIN_FLOAT32, 2, { BATCH, FEATURES } } }, 2,
		    "tensor 'input' has no data" },
		{ { INPUT, { "target", some_target, GTRAIN_FLOAT32, 1, { BATCH } } }, 2,
		    "'target' is float32 [16], not int32 or int64 [samples]" },
		{ { INPUT, { "target", some_target, GTRAIN_INT32, 1, { 4 } } }, 2,
		    "'target' has 4 samples, and others have 16" },
		{ { { "input", some_input, GTRAIN_FLOAT32, 2, { 4, FEATURES } },
		      { "target", some_target, GTRAIN_INT32, 1, { 4 } } },
		    2, "step 1 takes 16 samples, not 4" },
		{ { INPUT, { "target", bad_target, GTRAIN_INT32, 1, { BATCH } } }, 2,
		    "'target' has 3 at element 3" },
		{ { { "input", some_input, GTRAIN_FLOAT32, 2, { 0, FEATURES } }, TARGET }, 2,
		    "'input' has 0 samples" },
	};
	struct gtrain *run = open_ok(OF_MODEL MEMORY), *files = open_ok(OF_MODEL FILES);
	const struct gtrain_tensor good[] = { INPUT, TARGET };
	struct gtrain_error error;
	double step = 9;

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		assert_int_equal(
		    gtrain_step(run, rows[i].batch, rows[i].count, NULL, &error), GTRAIN_EINVAL);
		if (strncmp(error.text, rows[i].text, strlen(rows[i].text)) != 0)
			fail_msg("row %zu: %s (%s)", i, error.text, error.hint);
	}
	assert_int_equal(gtrain_number(run, "step", &step, &error), 0);
	assert_true(step == 0);
	/* The run goes on all the same. */
	for (int i = 0; i < 4; i++)
		assert_int_equal(gtrain_step(run, good, 2, NULL, &error), 0);
	assert_int_equal(gtrain_step(files, good, 2, NULL, &error), GTRAIN_EINVAL);
	assert_non_null(strstr(error.text, "the samples of a step come from data random:8/3"));
	assert_int_equal(gtrain_evaluate(files, good, 2, NULL, &error), GTRAIN_EINVAL);
	assert_int_equal(gtrain_evaluate(files, NULL, 0, NULL, &error), GTRAIN_EINVAL);
	assert_string_equal(error.text, "there are no samples to evaluate");
	for (int i = 0; i < STEPS; i++)
		assert_int_equal(gtrain_step(files, NULL, 0, NULL, &error), 0);
	assert_int_equal(gtrain_step(files, NULL, 0, NULL, &error), GTRAIN_EINVAL);
	assert_string_equal(error.text, "the run has done all of its 12 steps");
	close_quietly(&run);
	close_quietly(&files);
}

static void errors_of_tensors_say_what_they_are(void **state)
{
	float bias[256];
	const struct {
		struct gtrain_tensor t;
		const char *text;
	} rows[] = {
		{ { "9.bias", bias, GTRAIN_FLOAT32, 1, { CLASSES } },
		    "the model has no tensor '9.bias'" },
		{ { NULL, bias, GTRAIN_FLOAT32, 1, { CLASSES } },
		    "the argument 'tensor->name' is NULL" },
		{ { "2.bias", bias, GTRAIN_FLOAT32, 1, { 4 } },
		    "tensor '2.bias' is float32 [3], not float32 [4]" },
		{ { "2.bias", bias, GTRAIN_FLOAT32, 2, { CLASSES, 1 } },
		    "tensor '2.bias' is float32 [3], not float32 [3, 1]" },
		{ { "2.bias", bias, GTRAIN_INT32, 1, { CLASSES } },
		    "tensor '2.bias' is float32 [3], not int32 [3]" },
		{ { "2.bias", NULL, GTRAIN_FLOAT32, 1, { CLASSES } },
		    "tensor '2.bias' has no data" },
	};
	struct gtrain *run = open_ok(OF_MODEL MEMORY);
	struct gtrain_tensor out = { "x", bias, GTRAIN_FLOAT32, 2, { BATCH, 4 } };
	const struct gtrain_tensor input = INPUT;
	struct gtrain_error error;
	double number;

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		assert_int_equal(gtrain_read(run, &rows[i].t, &error), GTRAIN_EINVAL);
		assert_string_equal(error.text, rows[i].text);
		assert_int_equal(gtrain_write(run, &rows[i].t, NULL), GTRAIN_EINVAL);
	}
	assert_int_equal(gtrain_predict(run, &input, 1, &out, &error), GTRAIN_EINVAL);
	assert_string_equal(error.text, "the output is float32 [16, 4], not float32 [16, 3]");
	assert_int_equal(gtrain_number(run, "los", &number, &error), GTRAIN_EINVAL);
	assert_string_equal(error.text, "a run has no number 'los'");
	assert_int_equal(gtrain_save(run, "/tmp/x", "all", &error), GTRAIN_EINVAL);
	assert_int_equal(gtrain_save(run, "/nowhere/x", "weights", &error), GTRAIN_EIO);
	assert_int_equal(gtrain_save(run, "", "weights", &error), GTRAIN_EINVAL);
	assert_int_equal(gtrain_save(run, "/tmp/x.safetensors", "weights", &error), GTRAIN_EINVAL);
	assert_string_equal(error.text,
	    "'/tmp/x.safetensors' would be a file of PyTorch, and ends like safetensors");
	assert_int_equal(gtrain_describe(run, -1, &out, &error), GTRAIN_EINVAL);
	assert_int_equal(gtrain_number(run, "val/loss", &number, &error), 0);
	assert_true(isnan(number));
	close_quietly(&run);
}

static void null_is_an_error_and_closing_it_is_not(void **state)
{
	struct gtrain *run = NULL;
	struct gtrain_tensor t = INPUT;
	struct gtrain_error error;
	double number;

	(void)state;
	gtrain_close(NULL);
	assert_int_equal(gtrain_open(NULL, "", &error), GTRAIN_EINVAL);
	assert_int_equal(gtrain_open(&run, NULL, &error), GTRAIN_EINVAL);
	assert_string_equal(error.text, "the argument 'options' is NULL");
	assert_int_equal(gtrain_step(NULL, NULL, 0, NULL, &error), GTRAIN_EINVAL);
	assert_string_equal(error.text, "the argument 'run' is NULL");
	assert_int_equal(gtrain_evaluate(NULL, NULL, 0, NULL, NULL), GTRAIN_EINVAL);
	assert_int_equal(gtrain_predict(NULL, &t, 1, &t, NULL), GTRAIN_EINVAL);
	assert_int_equal(gtrain_number(NULL, "step", &number, NULL), GTRAIN_EINVAL);
	assert_int_equal(gtrain_describe(NULL, 0, &t, NULL), GTRAIN_EINVAL);
	assert_int_equal(gtrain_read(NULL, &t, NULL), GTRAIN_EINVAL);
	assert_int_equal(gtrain_write(NULL, &t, NULL), GTRAIN_EINVAL);
	assert_int_equal(gtrain_save(NULL, "x", "weights", NULL), GTRAIN_EINVAL);
	run = open_ok(OF_MODEL MEMORY);
	assert_int_equal(gtrain_step(run, NULL, 1, NULL, NULL), GTRAIN_EINVAL);
	assert_int_equal(gtrain_predict(run, &t, 1, NULL, NULL), GTRAIN_EINVAL);
	assert_int_equal(gtrain_predict(run, &t, 0, &t, NULL), GTRAIN_EINVAL);
	assert_int_equal(gtrain_number(run, NULL, &number, NULL), GTRAIN_EINVAL);
	assert_int_equal(gtrain_number(run, "step", NULL, NULL), GTRAIN_EINVAL);
	assert_int_equal(gtrain_describe(run, 0, NULL, NULL), GTRAIN_EINVAL);
	assert_int_equal(gtrain_read(run, NULL, NULL), GTRAIN_EINVAL);
	assert_int_equal(gtrain_save(run, NULL, "weights", NULL), GTRAIN_EINVAL);
	assert_int_equal(gtrain_save(run, "x", NULL, NULL), GTRAIN_EINVAL);
	close_quietly(&run);
	assert_true(strlen(gtrain_version()) > 0);
}

/* ---- several runs ---- */

struct thread {
	pthread_t id;
	double losses[STEPS];
};

static void *train_in_thread(void *self)
{
	struct thread *t = self;
	struct gtrain *run = open_ok(OF_MODEL MEMORY);

	train_from_memory(run, t->losses);
	gtrain_close(run);
	return NULL;
}

static void two_threads_train_a_run_each(void **state)
{
	struct thread threads[2];

	(void)state;
	for (size_t i = 0; i < COUNT(threads); i++)
		assert_int_equal(
		    pthread_create(&threads[i].id, NULL, train_in_thread, &threads[i]), 0);
	for (size_t i = 0; i < COUNT(threads); i++)
		pthread_join(threads[i].id, NULL);
	assert_memory_equal(threads[0].losses, threads[1].losses, sizeof(threads[0].losses));
}

static void several_runs_are_open_at_once(void **state)
{
	struct gtrain *a = open_ok(OF_MODEL FILES);
	struct gtrain *b = open_ok("model=lenet\ndata=random\nsteps=12\nbatch=4");
	struct gtrain *c = open_ok(OF_MODEL FILES);
	double x, y;

	(void)state;
	for (int i = 0; i < 4; i++)
		assert_int_equal(gtrain_step(a, NULL, 0, &x, NULL), 0);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(gtrain_step(b, NULL, 0, NULL, NULL), 0);
		assert_int_equal(gtrain_step(c, NULL, 0, &y, NULL), 0);
	}
	assert_true(x == y);
	close_quietly(&a);
	assert_int_equal(gtrain_step(b, NULL, 0, &x, NULL), 0);
	close_quietly(&c);
	close_quietly(&b);
}

/* Images and texts have the shape that the model takes. */
static void images_and_texts_have_the_shape_of_the_model(void **state)
{
	static uint8_t pixels[4][28][28][1];
	static int32_t tokens[4][8], next[4][8];
	const struct {
		const char *options;
		struct gtrain_tensor batch[2];
	} rows[] = {
		{ "model=lenet\ndata=memory\nsteps=2\nbatch=2\naccumulate=2",
		    { { "input", pixels, GTRAIN_UINT8, 4, { 4, 28, 28, 1 } },
		        { "target", some_target, GTRAIN_INT32, 1, { 4 } } } },
		{ "model=gpt:vocab=16,block=8,layers=1,heads=1,width=8\ndata=memory\nsteps=2\n"
		  "batch=4",
		    { { "input", tokens, GTRAIN_INT32, 2, { 4, 8 } },
		        { "target", next, GTRAIN_INT32, 2, { 4, 8 } } } },
	};
	struct gtrain_error error;
	double first, second, loss;

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct gtrain *run = open_ok(rows[i].options);

		if (gtrain_step(run, rows[i].batch, 2, &first, &error) ||
		    gtrain_step(run, rows[i].batch, 2, &second, &error) ||
		    gtrain_evaluate(run, rows[i].batch, 2, &loss, &error))
			fail_msg("%s: %s", error.text, error.hint);
		assert_true(second < first && loss > 0);
		close_quietly(&run);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(steps_with_samples_from_memory_have_the_bits_of_gtrain_train),
		{ "a run that is saved and resumed has the bits of one run", test_resume, NULL,
		    NULL, NULL },
		cmocka_unit_test(samples_from_memory_are_evaluated_and_predicted),
		cmocka_unit_test(targets_are_classes_numbers_or_labels),
		cmocka_unit_test(images_and_texts_have_the_shape_of_the_model),
		cmocka_unit_test(a_tensor_that_is_written_is_used),
		cmocka_unit_test(a_run_whose_weights_are_NaN_saves_nothing_and_ends),
		cmocka_unit_test(errors_of_opening_name_the_option),
		cmocka_unit_test(errors_of_batches_come_before_a_step),
		cmocka_unit_test(errors_of_tensors_say_what_they_are),
		cmocka_unit_test(null_is_an_error_and_closing_it_is_not),
		cmocka_unit_test(several_runs_are_open_at_once),
		cmocka_unit_test(two_threads_train_a_run_each),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
