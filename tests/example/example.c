/* example.c - a program of its own that trains, evaluates, and looks into the checkpoint. */
#include <gtrain/gtrain.h>
#include <stdio.h>
#include <stdlib.h>

/* An observer: print the loss of each step. */
static int print_step(void *self, const struct gt_step_report *r, struct gt_err *err)
{
	(void)self;
	(void)err;
	printf("step %lld: loss %.4f\n", (long long)r->step, r->loss);
	return 0;
}

/* All that is not set here has the default of `gtrain train`. */
static int train(const char *dir, const char *data, struct gt_log *log, struct gt_err *err)
{
	const struct gt_observer printer = { .step = print_step };
	const atomic_bool stop = false; /* a signal handler may set such a flag */
	struct gt_train_options options;
	struct gt_train_result result;
	struct gt_train *t;
	int rc;

	gt_train_options_init(&options);
	options.model = "mlp";
	options.data = data;
	options.out = dir;
	options.epochs = 3;
	options.batch = 16;
	rc = gt_train_open(&t, &options, false, log, err);
	if (!rc)
		rc = gt_train_run(t, NULL, &printer, 1, &stop, &result, err);
	if (!rc) /* options.model now names all settings, until the run is closed */
		printf("trained %lld steps of %s\n", (long long)result.step, options.model);
	gt_train_close(t);
	return rc;
}

static int evaluate(const char *dir, const char *data, struct gt_log *log, struct gt_err *err)
{
	struct gt_eval_options options;
	struct gt_metrics metrics;
	struct gt_eval *e;
	int rc;

	gt_eval_options_init(&options);
	options.ckpt = dir;
	options.data = data;
	rc = gt_eval_open(&e, &options, log, err);
	if (!rc)
		rc = gt_eval_run(e, &metrics, err);
	gt_eval_close(e);
	if (!rc)
		printf("loss %.4f, %.1f%% of %lld right\n", metrics.loss, 100 * metrics.top1,
		    (long long)metrics.n);
	return rc;
}

static int list(const char *dir, struct gt_err *err)
{
	struct gt_state_dict sd = { 0 };
	struct gt_ckpt *ckpt;
	char path[4096];
	int rc;

	snprintf(path, sizeof(path), "%s/model.pth", dir);
	rc = gt_ckpt_open(&ckpt, path, err);
	if (rc)
		return rc;
	rc = gt_state_dict_find(&sd, gt_ckpt_root(ckpt), err);
	for (size_t i = 0; !rc && i < sd.count; i++)
		printf("%s: %lld elements\n", sd.entries[i].name,
		    (long long)gt_ckpt_tensor_count(sd.entries[i].tensor));
	gt_state_dict_release(&sd);
	gt_ckpt_close(ckpt);
	return rc;
}

int main(int argc, char **argv)
{
	struct gt_log log = { .stream = stderr, .level = GT_LOG_NORMAL };
	struct gt_err err = GT_ERR_INIT;

	if (argc != 3) {
		fprintf(stderr, "usage: example KIND:DATA DIR\n");
		return 2;
	}
	if (train(argv[2], argv[1], &log, &err) || evaluate(argv[2], argv[1], &log, &err) ||
	    list(argv[2], &err)) {
		fprintf(stderr, "example: %s\n%s%s", err.text, err.hint, *err.hint ? "\n" : "");
		return 1;
	}
	return 0;
}
