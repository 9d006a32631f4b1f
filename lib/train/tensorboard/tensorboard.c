/* tensorboard.c - the observer that writes the events of a run for TensorBoard. */
#include "lib/train/tensorboard/tensorboard.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/opt_json.h"
#include "lib/train/state.h"
#include "lib/train/tensorboard/events.h"
#include "lib/train/tensorboard/histogram.h"
#include "lib/train/tensorboard/markdown.h"
#include "lib/train/tensorboard/misclassified.h"

enum { CHUNK = 1 << 20 }; /* elements of a tensor that are read at once */

struct gt_tensorboard {
	const struct gt_train *t;
	struct gt_tensorboard_options o;
	struct gt_events events; /* open on rank 0, if the run writes files */
	int64_t first_step;      /* steps done before this start */
	float *chunk;            /* [CHUNK] for histograms */
};

int gt_tensorboard_new(struct gt_tensorboard **out, const struct gt_train *t,
    const struct gt_tensorboard_options *o, struct gt_err *err)
{
	struct gt_tensorboard *tb;

	*out = NULL;
	if (o->histogram_every && t->s.store->dtype != GT_F32)
		return gt_err_set(err, GT_ENOTSUP,
		    "{histogram-every}: the weights are %s, and only histograms of float32 are made",
		    gt_dtype_name(t->s.store->dtype));
	tb = gt_calloc(1, sizeof(*tb), err);
	if (!tb)
		return GT_ENOMEM;
	tb->t = t;
	tb->o = *o;
	if (o->histogram_every) {
		tb->chunk = gt_calloc(CHUNK, sizeof(*tb->chunk), err);
		if (!tb->chunk) {
			gt_tensorboard_free(tb);
			return GT_ENOMEM;
		}
	}
	*out = tb;
	return 0;
}

void gt_tensorboard_free(struct gt_tensorboard *tb)
{
	if (!tb)
		return;
	gt_events_close(&tb->events);
	free(tb->chunk);
	free(tb);
}

/* ---- the configuration ---- */

/* A row of the table: an option and its value. */
static void add_option(struct gt_buf *b, const char *name, const json_t *value)
{
	char *text =
	    json_is_string(value) ? NULL : gt_json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);

	gt_buf_puts(b, "| ");
	gt_markdown_add(b, name);
	gt_buf_puts(b, " | ");
	if (text || json_is_string(value))
		gt_markdown_add(b, text ? text : json_string_value(value));
	else
		b->failed = true;
	gt_buf_puts(b, " |\n");
	free(text);
}

/* Return the options that have a value, but no empty lists; the caller frees the object. */
static json_t *select_options(const json_t *config, struct gt_err *err)
{
	json_t *selected = json_object(), *value;
	const char *name;

	json_object_foreach((json_t *)config, name, value)
	{
		if (json_is_null(value) || (json_is_array(value) && !json_array_size(value)))
			continue;
		if (!selected || json_object_set(selected, name, value)) {
			json_decref(selected);
			gt_err_set(err, GT_ENOMEM, "out of memory: the options for TensorBoard");
			return NULL;
		}
	}
	return selected;
}

/* Show the options as a table, and as hyperparameters, by which TensorBoard compares runs. */
static int show_config(
    struct gt_tensorboard *tb, const struct gt_start_report *r, struct gt_err *err)
{
	json_t *options = select_options(tb->o.config, err), *value;
	struct gt_buf b = { 0 };
	const char *name;
	int rc;

	if (!options)
		return GT_ENOMEM;
	gt_buf_printf(&b, "gtrain %s, step %lld of %lld\n\n| option | value |\n| --- | --- |\n",
	    GT_VERSION, (long long)r->step, (long long)r->total);
	json_object_foreach(options, name, value) add_option(&b, name, value);
	rc = gt_buf_check(&b, err);
	if (!rc) {
		gt_events_text(&tb->events, r->step, "config", gt_buf_text(&b));
		gt_events_hparams(&tb->events, options);
	}
	gt_buf_release(&b);
	json_decref(options);
	return rc;
}

/* ---- histograms ---- */

/* Read elements of a tensor to tb->chunk on rank 0. A collective call if ranks share the tensor. */
static int read_chunk(struct gt_tensorboard *tb, const struct gt_plane *plane,
    const struct gt_slot *slot, int64_t first, int64_t count, struct gt_err *err)
{
	return gt_parallel_gather_slot(
	    tb->t->s.parallel, plane, slot, first, count, tb->chunk, err);
}

/* Go through a tensor twice: to find its range, and to count. Ranks other than 0 only send. */
static int count_tensor(struct gt_histogram *h, struct gt_tensorboard *tb,
    const struct gt_plane *plane, const struct gt_slot *slot, struct gt_err *err)
{
	static void (*const passes[])(struct gt_histogram *, const float *,
	    size_t) = { gt_histogram_widen, gt_histogram_count };
	int rc = 0;

	for (int pass = 0; pass < 2; pass++) {
		for (int64_t first = 0; !rc && first < slot->count; first += CHUNK) {
			int64_t left = slot->count - first, count = left < CHUNK ? left : CHUNK;

			if (!pass || slot->count > CHUNK)
				rc = read_chunk(tb, plane, slot, first, count, err);
			if (!rc && !gt_train_rank(tb->t))
				passes[pass](h, tb->chunk, (size_t)count);
		}
	}
	return rc;
}

static int write_histogram(struct gt_tensorboard *tb, const struct gt_plane *plane,
    const struct gt_slot *slot, double scale, int64_t step, struct gt_err *err)
{
	double rows[GT_HISTOGRAM_BUCKETS][3];
	struct gt_histogram h = { 0 };
	int rc = count_tensor(&h, tb, plane, slot, err);
	char *tag;

	if (rc || !h.finite)
		return rc;
	tag = gt_asprintf(err, "%s/%s", plane->name, slot->name);
	if (!tag)
		return GT_ENOMEM;
	gt_histogram_rows(rows, &h, scale);
	gt_events_histogram(&tb->events, step, tag, GT_HISTOGRAM_BUCKETS, rows);
	free(tag);
	return 0;
}

/* Write a histogram of each trained parameter in a plane: its weights or gradients. */
static int write_histograms(struct gt_tensorboard *tb, const struct gt_plane *plane, double scale,
    int64_t step, struct gt_err *err)
{
	const struct gt_store *s = tb->t->s.store;
	int rc = 0;

	for (size_t i = 0; !rc && i < s->slot_count; i++)
		if (s->slots[i].role == GT_PARAMETER)
			rc = write_histogram(tb, plane, &s->slots[i], scale, step, err);
	return rc;
}

/* With a scaled loss, the gradients are scaled, too. */
static int read_scale(double *scale, const struct gt_train *t, struct gt_err *err)
{
	float value = 1;
	int rc = 0;

	if (gt_optim_scaler(t->optim)->growth_interval)
		rc = gt_device_read(t->s.device, &value, &gt_optim_scalars(t->optim)->result.scale,
		    sizeof(value), err);
	*scale = 1 / (double)value;
	return rc;
}

/* ---- the observer ---- */

static int start_tensorboard(void *self, const struct gt_start_report *r, struct gt_err *err)
{
	struct gt_tensorboard *tb = self;
	int rc;

	tb->first_step = r->step;
	if (!r->dir->path) /* another rank, or a run without files */
		return 0;
	if (tb->t->sample_text.left_out)
		gt_log_info(tb->o.log, "{tensorboard}: no text at evaluations, because %s",
		    tb->t->sample_text.left_out);
	rc = gt_events_open(&tb->events, r->dir, r->step, tb->o.log, err);
	return rc ? rc : show_config(tb, r, err);
}

static int read_gradients(void *self, int64_t step, struct gt_err *err)
{
	struct gt_tensorboard *tb = self;
	double scale;
	int rc = read_scale(&scale, tb->t, err);

	return rc ? rc : write_histograms(tb, tb->t->s.store->gradients, scale, step, err);
}

/* Show the text that a language model has written. */
static int show_text(struct gt_tensorboard *tb, const struct gt_eval_report *r, struct gt_err *err)
{
	struct gt_buf b = { 0 };
	int rc;

	gt_buf_puts(&b, "After the prompt\n\n");
	gt_markdown_add_verbatim(&b, r->text, r->prompt_bytes);
	gt_buf_puts(&b, "the model writes\n\n");
	gt_markdown_add_verbatim(&b, r->text + r->prompt_bytes, r->text_bytes - r->prompt_bytes);
	rc = gt_buf_check(&b, err);
	if (!rc)
		gt_events_text(&tb->events, r->step, "text", gt_buf_text(&b));
	gt_buf_release(&b);
	return rc;
}

static int show_evaluation(void *self, const struct gt_eval_report *r, struct gt_err *err)
{
	struct gt_tensorboard *tb = self;
	int rc = 0;

	/* A run resumed at its end evaluates once more. */
	if (!tb->events.stream || r->step == tb->first_step)
		return 0;
	if (r->predictions)
		rc = gt_misclassified_write(&tb->events, r->step, tb->t->val, r->predictions, err);
	if (!rc && r->text)
		rc = show_text(tb, r, err);
	return rc;
}

static int end_step(void *self, const struct gt_step_report *r, struct gt_err *err)
{
	struct gt_tensorboard *tb = self;
	bool due = tb->o.histogram_every && r->step % tb->o.histogram_every == 0;

	gt_events_flush(&tb->events);
	return due ? write_histograms(tb, tb->t->s.store->parameters, 1, r->step, err) : 0;
}

/* A run that was stopped may be resumed, and TensorBoard would show the first state for ever. */
static int end_tensorboard(void *self, int rc, struct gt_err *err)
{
	struct gt_tensorboard *tb = self;

	(void)err;
	if (rc)
		gt_events_end(&tb->events, GT_SESSION_FAILURE);
	else if (gt_train_is_over(tb->t))
		gt_events_end(&tb->events, GT_SESSION_SUCCESS);
	gt_events_close(&tb->events);
	return 0;
}

struct gt_observer gt_tensorboard_observer(struct gt_tensorboard *tb)
{
	return (struct gt_observer){
		.self = tb,
		.start = start_tensorboard,
		.gradients = tb->o.histogram_every ? read_gradients : NULL,
		.gradients_every = tb->o.histogram_every,
		.step = end_step,
		.evaluated = show_evaluation,
		.end = end_tensorboard,
	};
}

static void add_number(void *self, const char *name, int64_t step, double number)
{
	struct gt_tensorboard *tb = self;

	gt_events_scalar(&tb->events, step, name, number);
}

struct gt_number_sink gt_tensorboard_sink(struct gt_tensorboard *tb)
{
	return (struct gt_number_sink){ .self = tb, .add = add_number };
}
