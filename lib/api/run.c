/* run.c - open, step, evaluate, save and close a run of gtrain.h. */
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "lib/api/api.h"
#include "lib/base/option_names.h"
#include "lib/ckpt/tools/convert.h"

_Static_assert((int)GTRAIN_EINVAL == GT_EINVAL && (int)GTRAIN_ENOMEM == GT_ENOMEM &&
                   (int)GTRAIN_EIO == GT_EIO && (int)GTRAIN_EFORMAT == GT_EFORMAT &&
                   (int)GTRAIN_ENOTSUP == GT_ENOTSUP && (int)GTRAIN_EDEVICE == GT_EDEVICE &&
                   (int)GTRAIN_EDIVERGED == GT_EDIVERGED,
    "the codes of gtrain.h are those of err.h");
_Static_assert(sizeof(struct gtrain_error) == 1028, "the structs of gtrain.h never change");
_Static_assert(sizeof(void *) != 8 || sizeof(struct gtrain_tensor) == 88,
    "the structs of gtrain.h never change");

const char *gtrain_version(void)
{
	return GT_VERSION;
}

/* ---- errors ---- */

/* Names that the caller passed may have line ends: the text of an error is one line. */
static void write_line(char *out, size_t size, const char *text)
{
	char plain[sizeof(((struct gt_err *)0)->text)], shown[GT_LOG_CHARACTER];
	const char *p = plain;
	size_t used = 0, length;

	gt_option_names_render(plain, sizeof(plain), text, "");
	while (*p) {
		p += gt_log_character(shown, p);
		length = strlen(shown);
		if (used + length >= size)
			break;
		memcpy(out + used, shown, length);
		used += length;
	}
	out[used] = '\0';
}

int gt_api_fail(struct gtrain_error *out, const struct gt_err *err)
{
	if (!out)
		return err->code;
	*out = (struct gtrain_error){ .code = err->code };
	if (!err->code)
		return 0;
	write_line(out->text, sizeof(out->text), err->text);
	write_line(out->hint, sizeof(out->hint), err->hint);
	return err->code;
}

int gt_api_check(
    const struct gtrain *run, const void *pointer, const char *name, struct gt_err *err)
{
	if (run && pointer)
		return 0;
	return gt_err_set(err, GT_EINVAL, "the argument '%s' is NULL", run ? name : "run");
}

/* ---- life ---- */

static int open_run(struct gtrain *run, const char *options, struct gt_err *err)
{
	int rc = gt_api_read_options(run, options, err);

	if (!rc)
		rc = gt_train_open(&run->train, &run->options.train, false, &run->log, err);
	return rc ? rc : gt_stepper_open(&run->stepper, run->train, err);
}

int gtrain_open(struct gtrain **out, const char *options, struct gtrain_error *error)
{
	struct gt_err err = GT_ERR_INIT;
	struct gtrain *run;

	if (out)
		*out = NULL;
	if (!out || !options) {
		gt_err_set(&err, GT_EINVAL, "the argument '%s' is NULL", out ? "options" : "out");
		return gt_api_fail(error, &err);
	}
	run = gt_calloc(1, sizeof(*run), &err);
	if (run && !open_run(run, options, &err))
		*out = run;
	else
		gtrain_close(run);
	return gt_api_fail(error, &err);
}

void gtrain_close(struct gtrain *run)
{
	if (!run)
		return;
	gt_stepper_close(run->stepper);
	gt_train_close(run->train);
	gt_opts_release(&run->opts);
	if (run->log.stream)
		fclose(run->log.stream);
	free(run->text);
	free(run);
}

/* ---- steps ---- */

/* Pack the arrays of the caller, if there are any: *given is then *batch, else NULL. */
static int pack(struct gt_batch *batch, const struct gt_batch **given, void **memory,
    struct gtrain *run, const struct gtrain_tensor *tensors, int count, bool with_targets,
    struct gt_err *err)
{
	const struct gt_dataset *data;

	*memory = NULL;
	*given = NULL;
	if (gt_api_check(run, count ? tensors : (const void *)"", "batch", err))
		return err->code;
	if (count < 0)
		return gt_err_set(err, GT_EINVAL, "a batch of %d arrays", count);
	data = gt_stepper_data(run->stepper);
	if (!count)
		return 0;
	*given = batch;
	return gt_dataset_is_memory(data)
	           ? gt_api_pack(batch, memory, data, tensors, count, with_targets, err)
	           : 0; /* the stepper says why it takes none */
}

int gtrain_step(struct gtrain *run, const struct gtrain_tensor *tensors, int count, double *loss,
    struct gtrain_error *error)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_batch batch = { 0 };
	const struct gt_batch *given;
	void *memory;
	int rc = pack(&batch, &given, &memory, run, tensors, count, true, &err);

	if (!rc)
		rc = gt_stepper_step(run->stepper, given, &err);
	free(memory);
	if (!rc && loss) {
		rc = gt_stepper_finish(run->stepper, &err);
		*loss = rc ? NAN : gt_stepper_report(run->stepper)->loss;
	}
	return gt_api_fail(error, &err);
}

int gtrain_evaluate(struct gtrain *run, const struct gtrain_tensor *tensors, int count,
    double *loss, struct gtrain_error *error)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_batch batch = { 0 };
	const struct gt_batch *given;
	void *memory;
	int rc = pack(&batch, &given, &memory, run, tensors, count, true, &err);

	if (!rc) {
		rc = gt_stepper_evaluate(run->stepper, given, &run->metrics, NULL, &err);
		run->evaluated = !rc;
	}
	free(memory);
	if (loss)
		*loss = rc ? NAN : run->metrics.loss;
	return gt_api_fail(error, &err);
}

static int check_output(
    const struct gtrain *run, const struct gtrain_tensor *output, int samples, struct gt_err *err)
{
	int64_t outputs = gt_stepper_outputs(run->stepper);
	char given[GT_API_FORM];

	if (gt_api_check_tensor(output, given, err))
		return err->code;
	/* Networks without outputs are refused later. */
	if (!outputs || (output->dtype == GTRAIN_FLOAT32 && output->ndim == 2 &&
	                    output->shape[0] == samples && output->shape[1] == outputs))
		return 0;
	return gt_err_set(err, GT_EINVAL, "the output is %s, not float32 [%d, %lld]", given,
	    samples, (long long)outputs);
}

int gtrain_predict(struct gtrain *run, const struct gtrain_tensor *tensors, int count,
    struct gtrain_tensor *output, struct gtrain_error *error)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_batch batch = { 0 };
	const struct gt_batch *given;
	struct gt_metrics none;
	void *memory = NULL;
	int rc = gt_api_check(run, output, "output", &err);

	if (!rc)
		rc = pack(&batch, &given, &memory, run, tensors, count, false, &err);
	if (!rc && !given)
		rc = gt_err_set(&err, GT_EINVAL, "there are no samples to predict");
	if (!rc && batch.count)
		rc = check_output(run, output, batch.count, &err);
	if (!rc)
		gt_stepper_evaluate(run->stepper, given, &none, output->data, &err);
	free(memory);
	return gt_api_fail(error, &err);
}

/* ---- numbers ---- */

static double step_number(const struct gtrain *run, double value)
{
	return gt_stepper_report(run->stepper)->step ? value : NAN;
}

static double count_tensors(const struct gtrain *run)
{
	size_t count = 0;

	while (gt_stepper_slot(run->stepper, count))
		count++;
	return (double)count;
}

/* Numbers of an evaluation. */
static const struct {
	const char *name;
	size_t offset; /* where the double lies in struct gt_metrics */
} measured[] = {
	{ "val/loss", offsetof(struct gt_metrics, loss) },
	{ "val/top1", offsetof(struct gt_metrics, top1) },
	{ "val/top5", offsetof(struct gt_metrics, top5) },
	{ "val/accuracy", offsetof(struct gt_metrics, accuracy) },
	{ "val/precision", offsetof(struct gt_metrics, precision) },
	{ "val/recall", offsetof(struct gt_metrics, recall) },
	{ "val/f1", offsetof(struct gt_metrics, f1) },
	{ "val/mse", offsetof(struct gt_metrics, mse) },
	{ "val/mae", offsetof(struct gt_metrics, mae) },
	{ "val/r2", offsetof(struct gt_metrics, r2) },
};

static bool find_measured(double *out, const struct gtrain *run, const char *name)
{
	for (size_t i = 0; i < sizeof(measured) / sizeof(*measured); i++)
		if (!strcmp(measured[i].name, name)) {
			memcpy(out, (const char *)&run->metrics + measured[i].offset, sizeof(*out));
			if (!run->evaluated)
				*out = NAN;
			return true;
		}
	return false;
}

static int find_number(double *out, const struct gtrain *run, const char *name, struct gt_err *err)
{
	const struct gt_stepper *s = run->stepper;
	const struct gt_step_report *r = gt_stepper_report(s);
	const struct {
		const char *name;
		double value;
	} rows[] = {
		{ "step", (double)gt_stepper_done(s) },
		{ "steps", (double)gt_stepper_total(s) },
		{ "samples", (double)gt_stepper_samples(s) },
		{ "outputs", (double)gt_stepper_outputs(s) },
		{ "tensors", count_tensors(run) },
		{ "train/loss", step_number(run, r->loss) },
		{ "train/lr", step_number(run, r->lr) },
		{ "train/grad_norm", step_number(run, r->grad_norm) },
		{ "val/samples", run->evaluated ? (double)run->metrics.n : NAN },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (!strcmp(rows[i].name, name)) {
			*out = rows[i].value;
			return 0;
		}
	return find_measured(out, run, name)
	           ? 0
	           : gt_err_set(err, GT_EINVAL, "a run has no number '%s'", name);
}

int gtrain_number(struct gtrain *run, const char *name, double *out, struct gtrain_error *error)
{
	struct gt_err err = GT_ERR_INIT;
	int rc = gt_api_check(run, name, "name", &err);

	if (!rc)
		rc = gt_api_check(run, out, "out", &err);
	if (!rc && !strncmp(name, "train/", 6))
		rc = gt_stepper_finish(run->stepper, &err);
	if (!rc)
		find_number(out, run, name, &err);
	return gt_api_fail(error, &err);
}

/* ---- files ---- */

/* Files are those of PyTorch: the ending of another format would be wrong. */
static int check_path(const char *path, struct gt_err *err)
{
	const char *format;

	if (!*path)
		return gt_err_set(err, GT_EINVAL, "the argument 'path' is empty");
	if (gt_convert_format(&format, NULL, path, GT_ERR_IGNORED) || !strcmp(format, "torch-zip"))
		return 0;
	gt_err_set(
	    err, GT_EINVAL, "'%s' would be a file of PyTorch, and ends like %s", path, format);
	return gt_err_hint(
	    err, "save a .pth, from which `gtrain ckpt convert` makes other formats");
}

int gtrain_save(struct gtrain *run, const char *path, const char *what, struct gtrain_error *error)
{
	struct gt_err err = GT_ERR_INIT;

	if (gt_api_check(run, path, "path", &err) || gt_api_check(run, what, "what", &err) ||
	    check_path(path, &err))
		return gt_api_fail(error, &err);
	if (!strcmp(what, "checkpoint"))
		gt_stepper_save(run->stepper, path, &err);
	else if (!strcmp(what, "weights"))
		gt_stepper_save_model(run->stepper, path, &err);
	else
		gt_err_set(
		    &err, GT_EINVAL, "'%s' cannot be saved: 'checkpoint' and 'weights' can", what);
	return gt_api_fail(error, &err);
}
