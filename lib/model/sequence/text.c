/* text.c - a stack of layers as text, which is the same for all ways to write it. */
#include <math.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/base/text.h"
#include "lib/model/sequence/sequence.h"

static void put_tuple(struct gt_buf *out, const struct gt_argument_value *v)
{
	for (int i = 0; i < v->count; i++)
		gt_buf_printf(out, "%s%lld", i ? "," : "(", (long long)v->ints[i]);
	gt_buf_puts(out, v->count == 1 ? ",)" : v->count ? ")" : "()");
}

static void put_value(struct gt_buf *out, const struct gt_argument_value *v)
{
	char number[GT_TEXT_SIZE];

	switch (v->kind) {
	case GT_VALUE_MISSING:
	case GT_VALUE_NONE:
		gt_buf_puts(out, "None");
		break;
	case GT_VALUE_BOOL:
		gt_buf_puts(out, v->number ? "True" : "False");
		break;
	case GT_VALUE_INT:
		gt_buf_printf(out, "%lld", (long long)v->ints[0]);
		break;
	case GT_VALUE_FLOAT:
		gt_buf_puts(out, gt_text_number(number, v->number));
		break;
	case GT_VALUE_TEXT:
		gt_buf_printf(out, "'%s'", v->text);
		break;
	case GT_VALUE_TUPLE:
		put_tuple(out, v);
		break;
	}
}

/* Arguments that must be given have no name, others have one, and defaults are left out. */
static void put_layer(struct gt_buf *out, const struct gt_sequence_layer *l)
{
	const struct gt_argument *a = l->row->arguments;
	bool first = true;

	gt_buf_puts(out, l->row->name);
	for (int i = 0; a[i].name; i++) {
		const struct gt_argument_value initial = gt_argument_initial(&a[i]);

		if (gt_argument_same(&l->values[i], &initial))
			continue;
		gt_buf_puts(out, first ? "(" : ",");
		if (a[i].initial)
			gt_buf_printf(out, "%s=", a[i].name);
		put_value(out, &l->values[i]);
		first = false;
	}
	if (!first)
		gt_buf_puts(out, ")");
}

int gt_sequence_print(struct gt_sequence *s, struct gt_err *err)
{
	struct gt_buf out = { 0 };
	int rc;

	for (size_t i = 0; i < s->count; i++) {
		gt_buf_puts(&out, i ? "," : "");
		put_layer(&out, &s->layers[i]);
	}
	rc = gt_buf_check(&out, err);
	if (!rc) {
		s->text = gt_strdup(gt_buf_text(&out), err);
		rc = s->text ? 0 : GT_ENOMEM;
	}
	gt_buf_release(&out);
	return rc;
}

/* ---- comparing ---- */

bool gt_argument_same(const struct gt_argument_value *a, const struct gt_argument_value *b)
{
	return a->kind == b->kind && a->number == b->number && a->count == b->count &&
	       !memcmp(a->ints, b->ints, (size_t)a->count * sizeof(*a->ints)) &&
	       !strcmp(a->text, b->text);
}

static bool same_layer(const struct gt_sequence_layer *a, const struct gt_sequence_layer *b)
{
	if (a->row != b->row)
		return false;
	for (int i = 0; a->row->arguments[i].name; i++)
		if (a->row->arguments[i].form != GT_ARGUMENT_PROBABILITY &&
		    !gt_argument_same(&a->values[i], &b->values[i]))
			return false;
	return true;
}

bool gt_sequence_same(const struct gt_sequence *a, const struct gt_sequence *b)
{
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (!same_layer(&a->layers[i], &b->layers[i]))
			return false;
	return true;
}

double gt_sequence_dropout(const struct gt_sequence *s)
{
	double most = 0;

	for (size_t i = 0; i < s->count; i++)
		for (int k = 0; s->layers[i].row->arguments[k].name; k++)
			if (s->layers[i].row->arguments[k].form == GT_ARGUMENT_PROBABILITY)
				most = fmax(most, s->layers[i].values[k].number);
	return most;
}
