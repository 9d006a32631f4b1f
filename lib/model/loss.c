/* loss.c - the table of losses, and their specs. */
#include "lib/model/loss.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/base/suggest.h"

enum { CROSS_ENTROPY, MSE, L1, HUBER, SMOOTH_L1, ROWS };

const char *const gt_loss_names[ROWS + 1] = { [CROSS_ENTROPY] = "cross-entropy",
	[MSE] = "mse",
	[L1] = "l1",
	[HUBER] = "huber",
	[SMOOTH_L1] = "smooth-l1" };

/* A loss, and the one number that it may have. Names and keys are those of PyTorch, whose
 * SmoothL1Loss calls delta beta. */
static const struct row {
	bool numbers;
	enum gt_regression_kind kind;
	const char *key; /* NULL: no setting */
	size_t offset;   /* the setting's place in struct gt_loss */
	double initial;
	bool share; /* it is below 1, and may be 0; other settings are above 0 */
} rows[ROWS] = {
	[CROSS_ENTROPY] = { false, 0, "label-smoothing", offsetof(struct gt_loss, label_smoothing),
	    0, true },
	[MSE] = { true, GT_REGRESSION_MSE, NULL, 0, 0, false },
	[L1] = { true, GT_REGRESSION_L1, NULL, 0, 0, false },
	[HUBER] = { true, GT_REGRESSION_HUBER, "delta", offsetof(struct gt_loss, regression.delta),
	    1, false },
	[SMOOTH_L1] = { true, GT_REGRESSION_SMOOTH_L1, "beta",
	    offsetof(struct gt_loss, regression.delta), 1, false },
};

static const double MOST = 1e12; /* the largest value of a setting that is not a share */

static const char *name_of_loss(const struct row *row)
{
	return gt_loss_names[row - rows];
}

/* A name of `length` bytes. */
static const struct row *find_loss(const char *name, size_t length, struct gt_err *err)
{
	char word[48];
	struct gt_suggest near = { .word = word };

	snprintf(word, sizeof(word), "%.*s", (int)length, name);
	for (int i = 0; i < ROWS; i++) {
		if (strlen(gt_loss_names[i]) == length && !memcmp(gt_loss_names[i], name, length))
			return &rows[i];
		gt_suggest_offer(&near, gt_loss_names[i]);
	}
	gt_err_set(err, GT_EINVAL, "{loss}: unknown loss '%.*s'", (int)length, name);
	if (length == 2 && !memcmp(name, "l2", 2))
		gt_err_hint(err, "the squared error is mse");
	else if (near.best)
		gt_err_hint(err, "did you mean '%s'?", near.best);
	else
		gt_err_hint(err,
		    "known are cross-entropy for classes, mse, l1, huber and smooth-l1 for numbers");
	return NULL;
}

static double *setting_of(struct gt_loss *loss, const struct row *row)
{
	return (double *)(void *)((char *)loss + row->offset);
}

static bool is_allowed(const struct row *row, double x)
{
	return row->share ? x >= 0 && x < 1 : x > 0 && x <= MOST;
}

/* Parse key=value, the only setting. */
static int parse_setting(
    struct gt_loss *out, const struct row *row, const char *text, struct gt_err *err)
{
	size_t length = row->key ? strlen(row->key) : 0;
	char *end;
	double x;

	if (!row->key || strncmp(text, row->key, length) || text[length] != '=') {
		gt_err_set(err, GT_EINVAL, "{loss}: '%s' has no setting '%.*s'", name_of_loss(row),
		    (int)strcspn(text, "="), text);
		return row->key ? gt_err_hint(err, "write %s:%s=X", name_of_loss(row), row->key)
		                : gt_err_hint(err, "it has no settings");
	}
	x = strtod(text + length + 1, &end);
	if (end == text + length + 1 || *end || !is_allowed(row, x)) {
		gt_err_set(err, GT_EINVAL, "{loss}: '%s' is not a value for '%s'",
		    text + length + 1, row->key);
		return gt_err_hint(err,
		    row->share ? "it is a number from 0 to below 1" : "it is a number above 0");
	}
	*setting_of(out, row) = x;
	return 0;
}

int gt_loss_parse(struct gt_loss *out, const char *spec, struct gt_err *err)
{
	size_t length = strcspn(spec, ":");
	const struct row *row = find_loss(spec, length, err);

	*out = (struct gt_loss){ 0 };
	if (!row)
		return GT_EINVAL;
	out->numbers = row->numbers;
	out->regression.kind = row->kind;
	if (row->key)
		*setting_of(out, row) = row->initial;
	return spec[length] ? parse_setting(out, row, spec + length + 1, err) : 0;
}

struct gt_loss gt_loss_default(const struct gt_sample_form *form)
{
	return (struct gt_loss){ .numbers = form->regression };
}

static const struct row *row_of(const struct gt_loss *loss)
{
	int i = 0;

	while (rows[i].numbers != loss->numbers || rows[i].kind != loss->regression.kind)
		i++;
	return &rows[i];
}

int gt_loss_check(const struct gt_loss *loss, const struct gt_sample_form *form, struct gt_err *err)
{
	const char *name = name_of_loss(row_of(loss));

	if (loss->numbers == form->regression)
		return 0;
	if (loss->numbers) {
		gt_err_set(err, GT_EINVAL, "{loss} %s is for numbers, but the targets are %s", name,
		    form->kind == GT_SAMPLE_TOKENS ? "tokens" : "classes");
		return gt_err_hint(
		    err, "use cross-entropy; a table has numbers with task=regression");
	}
	gt_err_set(err, GT_EINVAL, "{loss} %s is for classes, but the targets are numbers", name);
	return gt_err_hint(err, "use mse, l1, huber or smooth-l1");
}

char *gt_loss_spec(const struct gt_loss *loss, struct gt_err *err)
{
	const struct row *row = row_of(loss);
	struct gt_loss copy = *loss;

	if (!row->key || *setting_of(&copy, row) == 0)
		return gt_strdup(name_of_loss(row), err);
	return gt_asprintf(
	    err, "%s:%s=%.15g", name_of_loss(row), row->key, *setting_of(&copy, row));
}
