/* loss.c - the table of losses, and their specs. */
#include "lib/model/loss.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/base/suggest.h"

enum { CROSS_ENTROPY, MSE, L1, HUBER, SMOOTH_L1, BCE, DPO, OUTPUT, ROWS };

const char *const gt_loss_names[ROWS + 1] = { [CROSS_ENTROPY] = "cross-entropy",
	[MSE] = "mse",
	[L1] = "l1",
	[HUBER] = "huber",
	[SMOOTH_L1] = "smooth-l1",
	[BCE] = "bce",
	[DPO] = "dpo",
	[OUTPUT] = "output" };

/* A loss. */
static const struct row {
	enum gt_sample_target targets;
	enum gt_regression_kind kind;
	bool paired; /* for pairs of texts */
	bool output; /* that of the network, for any targets */
} rows[ROWS] = {
	[CROSS_ENTROPY] = { GT_SAMPLE_CLASS, 0, false, false },
	[MSE] = { GT_SAMPLE_NUMBER, GT_REGRESSION_MSE, false, false },
	[L1] = { GT_SAMPLE_NUMBER, GT_REGRESSION_L1, false, false },
	[HUBER] = { GT_SAMPLE_NUMBER, GT_REGRESSION_HUBER, false, false },
	[SMOOTH_L1] = { GT_SAMPLE_NUMBER, GT_REGRESSION_SMOOTH_L1, false, false },
	[BCE] = { GT_SAMPLE_LABELS, GT_REGRESSION_BCE, false, false },
	[DPO] = { GT_SAMPLE_CLASS, 0, true, false },
	[OUTPUT] = { 0, 0, false, true },
};

/* The values of a setting: a number from 0 to below 1; a number above 0; a class, or another whole
 * number that stands for no class. */
enum rule { SHARE, POSITIVE, CLASS, RULES };

static const char *const rule_texts[RULES] = { [SHARE] = "it is a number from 0 to below 1",
	[POSITIVE] = "it is a number above 0",
	[CLASS] = "it is a whole number, such as -100" };

/* The settings of losses. Names and keys are those of PyTorch, whose SmoothL1Loss calls delta
 * beta. */
static const struct setting {
	int loss; /* index of its row */
	const char *key;
	size_t offset; /* its place in struct gt_loss: a double, or an int32_t for CLASS */
	enum rule rule;
	double initial;
} settings[] = {
	{ CROSS_ENTROPY, "label-smoothing", offsetof(struct gt_loss, label_smoothing), SHARE, 0 },
	{ CROSS_ENTROPY, "ignore-index", offsetof(struct gt_loss, ignored), CLASS, 0 },
	{ HUBER, "delta", offsetof(struct gt_loss, regression.delta), POSITIVE, 1 },
	{ SMOOTH_L1, "beta", offsetof(struct gt_loss, regression.delta), POSITIVE, 1 },
	{ DPO, "beta", offsetof(struct gt_loss, beta), POSITIVE, 0.1 },
	{ DPO, "label-smoothing", offsetof(struct gt_loss, label_smoothing), SHARE, 0 },
};

enum { SETTINGS = sizeof(settings) / sizeof(*settings) };

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
		    "known are cross-entropy for classes, mse, l1, huber and smooth-l1 for "
		    "numbers, bce for labels, dpo for pairs of texts, output for that of the network");
	return NULL;
}

static bool is_of(const struct setting *s, const struct row *row)
{
	return s->loss == row - rows;
}

static void *place_of(struct gt_loss *loss, const struct setting *s)
{
	return (char *)loss + s->offset;
}

/* Return the value of a setting. */
static double value_of(const struct gt_loss *loss, const struct setting *s)
{
	struct gt_loss copy = *loss;

	return s->rule == CLASS ? *(int32_t *)place_of(&copy, s) : *(double *)place_of(&copy, s);
}

/* Set a setting from the text of its value; false: the value is not allowed. */
static bool take_value(struct gt_loss *out, const struct setting *s, const char *text)
{
	char *end;
	double x = strtod(text, &end);

	if (end == text || *end)
		return false;
	if (s->rule == CLASS) {
		if (!(x >= INT32_MIN && x <= INT32_MAX) || x != floor(x))
			return false;
		*(int32_t *)place_of(out, s) = (int32_t)x;
		out->ignores = true;
		return true;
	}
	*(double *)place_of(out, s) = x;
	return s->rule == SHARE ? x >= 0 && x < 1 : x > 0 && x <= MOST;
}

/* Write the forms of a loss's settings, "delta=X", for a hint. */
static void list_settings(char text[80], const struct row *row)
{
	size_t used = 0;

	*text = '\0';
	for (int i = 0; i < SETTINGS; i++)
		if (is_of(&settings[i], row))
			used += (size_t)snprintf(text + used, 80 - used, "%s%s=%s", used ? "," : "",
			    settings[i].key, settings[i].rule == CLASS ? "N" : "X");
}

static int fail_setting(const struct row *row, const char *text, struct gt_err *err)
{
	char known[80];

	list_settings(known, row);
	gt_err_set(err, GT_EINVAL, "{loss}: '%s' has no setting '%.*s'", name_of_loss(row),
	    (int)strcspn(text, "="), text);
	return *known ? gt_err_hint(err, "write %s:%s", name_of_loss(row), known)
	              : gt_err_hint(err, "it has no settings");
}

/* Parse one setting, key=value, which must not have its bit in *given, and set this bit. */
static int parse_setting(struct gt_loss *out, unsigned *given, const struct row *row,
    const char *text, struct gt_err *err)
{
	for (int i = 0; i < SETTINGS; i++) {
		const struct setting *s = &settings[i];
		size_t length = strlen(s->key);

		if (!is_of(s, row) || strncmp(text, s->key, length) || text[length] != '=')
			continue;
		if (*given & 1u << i)
			return gt_err_set(err, GT_EINVAL, "{loss}: '%s' is given twice", s->key);
		*given |= 1u << i;
		if (take_value(out, s, text + length + 1))
			return 0;
		gt_err_set(err, GT_EINVAL, "{loss}: '%s' is not a value for '%s'",
		    text + length + 1, s->key);
		return gt_err_hint(err, "%s", rule_texts[s->rule]);
	}
	return fail_setting(row, text, err);
}

static int parse_settings(
    struct gt_loss *out, const struct row *row, const char *text, struct gt_err *err)
{
	char *copy = gt_strdup(text, err), *rest = copy, *setting;
	unsigned given = 0; /* bits of settings */
	int rc = copy ? 0 : GT_ENOMEM;

	while (!rc && (setting = strsep(&rest, ",")))
		rc = parse_setting(out, &given, row, setting, err);
	free(copy);
	return rc;
}

/* Return a loss with the initial values of its settings. */
static struct gt_loss loss_of(const struct row *row)
{
	struct gt_loss loss = { .output = row->output,
		.targets = row->targets,
		.paired = row->paired,
		.regression.kind = row->kind };

	for (int i = 0; i < SETTINGS; i++)
		if (is_of(&settings[i], row) && settings[i].rule != CLASS)
			*(double *)place_of(&loss, &settings[i]) = settings[i].initial;
	return loss;
}

int gt_loss_parse(struct gt_loss *out, const char *spec, struct gt_err *err)
{
	size_t length = strcspn(spec, ":");
	const struct row *row = find_loss(spec, length, err);

	*out = (struct gt_loss){ 0 };
	if (!row)
		return GT_EINVAL;
	*out = loss_of(row);
	return spec[length] ? parse_settings(out, row, spec + length + 1, err) : 0;
}

/* Return whether a loss is for samples of this form. The network's own is for all but pairs, whose
 * loss needs scores. */
static bool is_for(const struct row *row, const struct gt_sample_form *form)
{
	return row->paired == form->paired && (row->output || row->targets == form->target);
}

struct gt_loss gt_loss_default(const struct gt_sample_form *form)
{
	int i = 0;

	while (!is_for(&rows[i], form))
		i++;
	return loss_of(&rows[i]);
}

static const struct row *row_of(const struct gt_loss *loss)
{
	int i = 0;

	while (rows[i].targets != loss->targets || rows[i].kind != loss->regression.kind ||
	       rows[i].paired != loss->paired || rows[i].output != loss->output)
		i++;
	return &rows[i];
}

bool gt_loss_is_for(const struct gt_loss *loss, const struct gt_sample_form *form)
{
	return is_for(row_of(loss), form);
}

/* Write the names of the losses for such samples, "mse, l1, huber or smooth-l1". */
static void list_losses(char text[80], const struct gt_sample_form *form)
{
	size_t used = 0;

	for (int i = 0; i < ROWS; i++) {
		bool last = i + 1 == ROWS || !is_for(&rows[i + 1], form) || rows[i + 1].output;

		if (!rows[i].output && is_for(&rows[i], form))
			used += (size_t)snprintf(text + used, 80 - used, "%s%s",
			    !used  ? ""
			    : last ? " or "
			           : ", ",
			    gt_loss_names[i]);
	}
}

/* Return the word for what a loss is for, or for the targets of samples. */
static const char *word_of(enum gt_sample_target targets, bool paired, bool tokens)
{
	static const char *const words[] = { [GT_SAMPLE_CLASS] = "classes",
		[GT_SAMPLE_NUMBER] = "numbers",
		[GT_SAMPLE_LABELS] = "labels" };

	return paired ? "pairs of texts" : tokens ? "tokens" : words[targets];
}

int gt_loss_check(const struct gt_loss *loss, const struct gt_sample_form *form, struct gt_err *err)
{
	static const char *const remedies[] = { [GT_SAMPLE_CLASS] = "",
		[GT_SAMPLE_NUMBER] = "; a table has numbers with task=regression",
		[GT_SAMPLE_LABELS] = ("; a table has labels with labels=COLUMN/..., arrays with "
		                      "task=labels") };
	const bool tokens = form->kind == GT_SAMPLE_TOKENS;
	char others[80];

	if (gt_loss_is_for(loss, form))
		return 0;
	list_losses(others, form);
	gt_err_set(err, GT_EINVAL, "{loss} %s is for %s, but the targets are %s",
	    name_of_loss(row_of(loss)),
	    loss->output ? "other targets" : word_of(loss->targets, loss->paired, false),
	    word_of(form->target, form->paired, tokens));
	return gt_err_hint(err, "use %s%s", others,
	    loss->paired ? "; data of the kind pairs has them"
	    : tokens     ? ""
	                 : remedies[loss->targets]);
}

char *gt_loss_spec(const struct gt_loss *loss, struct gt_err *err)
{
	const struct row *row = row_of(loss);
	char *spec = gt_strdup(name_of_loss(row), err), joint = ':';

	for (int i = 0; spec && i < SETTINGS; i++) {
		const struct setting *s = &settings[i];
		double value = value_of(loss, s);
		char *longer;

		if (!is_of(s, row) || (s->rule == CLASS ? !loss->ignores : value == 0))
			continue;
		longer = gt_asprintf(err, "%s%c%s=%.15g", spec, joint, s->key, value);
		free(spec);
		spec = longer;
		joint = ',';
	}
	return spec;
}
