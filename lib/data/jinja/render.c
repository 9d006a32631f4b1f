/* render.c - templates, rendered. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/text.h"
#include "lib/data/jinja/inside.h"

/* How nodes ended: a loop obeys a jump, and everything between passes it on. */
enum jump { GO_ON, BREAK, CONTINUE };

static int render_nodes(
    struct gt_jinja_run *r, const struct gt_jinja_node *n, enum jump *jump, struct gt_err *err);

/* ---- variables ---- */

static int set_variable(struct gt_jinja_run *r, const char *name,
    const struct gt_jinja_value *value, struct gt_err *err)
{
	return gt_jinja_put(
	    &r->frame->variables, r, gt_jinja_string(name, strlen(name)), *value, err);
}

static int set_attribute(struct gt_jinja_run *r, const struct gt_jinja_target *t,
    const struct gt_jinja_value *value, struct gt_err *err)
{
	const struct gt_jinja_expr name = { .kind = GT_JINJA_X_NAME, .name = t->names[0] };
	struct gt_jinja_value space;
	int rc = gt_jinja_eval(&space, r, &name, err);

	if (rc)
		return rc;
	if (space.kind != GT_JINJA_NAMESPACE)
		return gt_err_set(err, GT_EFORMAT, "'%.60s' is not a namespace", t->names[0]);
	return gt_jinja_put(
	    space.dict, r, gt_jinja_string(t->attribute, strlen(t->attribute)), *value, err);
}

static int set_target(struct gt_jinja_run *r, const struct gt_jinja_target *t,
    const struct gt_jinja_value *value, struct gt_err *err)
{
	struct gt_jinja_list items;
	int rc;

	if (t->attribute)
		return set_attribute(r, t, value, err);
	if (t->count == 1)
		return set_variable(r, t->names[0], value, err);
	rc = gt_jinja_items(&items, r, value, err);
	if (!rc && items.count != (size_t)t->count)
		rc = gt_err_set(err, GT_EFORMAT, "%zu values for %d names", items.count, t->count);
	for (int i = 0; !rc && i < t->count; i++)
		rc = set_variable(r, t->names[i], &items.items[i], err);
	return rc;
}

/* ---- loops ---- */

/* Copy the items that satisfy the condition of the loop. */
static int filter_items(struct gt_jinja_run *r, const struct gt_jinja_node *n,
    struct gt_jinja_list *items, struct gt_err *err)
{
	struct gt_jinja_value kept, passed;
	size_t count = 0;
	int rc = gt_jinja_new_list(&kept, r, items->count, err);

	for (size_t i = 0; !rc && i < items->count; i++) {
		struct gt_jinja_frame frame = { .outer = r->frame };

		r->frame = &frame;
		rc = set_target(r, &n->target, &items->items[i], err);
		if (!rc)
			rc = gt_jinja_eval(&passed, r, n->filter, err);
		r->frame = frame.outer;
		if (!rc && gt_jinja_is_true(&passed))
			kept.list->items[count++] = items->items[i];
	}
	if (!rc) {
		*items = *kept.list;
		items->count = count;
	}
	return rc;
}

/* Each turn has variables of its own, which end with it. */
static int render_turn(struct gt_jinja_run *r, const struct gt_jinja_node *n,
    struct gt_jinja_loop *loop, enum jump *jump, struct gt_err *err)
{
	struct gt_jinja_frame frame = { .outer = r->frame };
	const struct gt_jinja_value v = { .kind = GT_JINJA_LOOP, .loop = loop };
	int rc;

	r->frame = &frame;
	rc = set_variable(r, "loop", &v, err);
	if (!rc)
		rc = set_target(r, &n->target, &loop->list->items[loop->index], err);
	if (!rc)
		rc = render_nodes(r, n->body, jump, err);
	r->frame = frame.outer;
	return rc;
}

static int render_for(
    struct gt_jinja_run *r, const struct gt_jinja_node *n, enum jump *jump, struct gt_err *err)
{
	struct gt_jinja_list *items = gt_arena_alloc(&r->arena, sizeof(*items), err);
	struct gt_jinja_loop *loop = gt_arena_alloc(&r->arena, sizeof(*loop), err);
	struct gt_jinja_value v;
	enum jump own = GO_ON;
	int rc = items && loop ? gt_jinja_eval(&v, r, n->value, err) : GT_ENOMEM;

	if (!rc)
		rc = gt_jinja_items(items, r, &v, err);
	if (!rc && n->filter)
		rc = filter_items(r, n, items, err);
	if (rc)
		return rc;
	if (!items->count)
		return render_nodes(r, n->other, jump, err);
	loop->list = items;
	for (; !rc && loop->index < items->count && own != BREAK; loop->index++)
		rc = render_turn(r, n, loop, &own, err);
	return rc;
}

/* ---- other statements ---- */

static int render_if(
    struct gt_jinja_run *r, const struct gt_jinja_node *n, enum jump *jump, struct gt_err *err)
{
	struct gt_jinja_value v;
	int rc = gt_jinja_eval(&v, r, n->value, err);

	return rc ? rc : render_nodes(r, gt_jinja_is_true(&v) ? n->body : n->other, jump, err);
}

static int render_set(struct gt_jinja_run *r, const struct gt_jinja_node *n, struct gt_err *err)
{
	struct gt_jinja_value v;
	int rc = gt_jinja_eval(&v, r, n->value, err);

	return rc ? rc : set_target(r, &n->target, &v, err);
}

static int render_set_block(
    struct gt_jinja_run *r, const struct gt_jinja_node *n, enum jump *jump, struct gt_err *err)
{
	struct gt_buf text = { 0 }, *out = r->out;
	struct gt_jinja_value v;
	int rc;

	r->out = &text;
	r->captures++;
	rc = render_nodes(r, n->body, jump, err);
	r->captures--;
	r->out = out;
	if (!rc)
		rc = gt_jinja_take_string(&v, r, &text, err);
	gt_buf_release(&text);
	return rc ? rc : set_target(r, &n->target, &v, err);
}

static int render_generation(
    struct gt_jinja_run *r, const struct gt_jinja_node *n, struct gt_err *err)
{
	struct gt_jinja_text *result = r->result;
	struct gt_jinja_frame frame = { .outer = r->frame };
	struct gt_jinja_span span = { .begin = r->out->length };
	enum jump jump = GO_ON;
	int rc;

	if (r->captures)
		return gt_err_set(err, GT_ENOTSUP, "'generation' within 'set' is not supported");
	r->frame = &frame;
	rc = render_nodes(r, n->body, &jump, err);
	r->frame = frame.outer;
	span.end = r->out->length;
	if (!rc)
		rc = gt_grow(
		    &result->marks, result->mark_count, &result->mark_capacity, sizeof(span), err);
	if (!rc)
		result->marks[result->mark_count++] = span;
	return rc;
}

static int render_node(
    struct gt_jinja_run *r, const struct gt_jinja_node *n, enum jump *jump, struct gt_err *err)
{
	struct gt_jinja_value v;
	int rc;

	switch (n->kind) {
	case GT_JINJA_N_TEXT:
		gt_buf_add(r->out, n->text, n->size);
		return 0;
	case GT_JINJA_N_PRINT:
		rc = gt_jinja_eval(&v, r, n->value, err);
		return rc ? rc : gt_jinja_append(r->out, &v, err);
	case GT_JINJA_N_IF:
		return render_if(r, n, jump, err);
	case GT_JINJA_N_FOR:
		return render_for(r, n, jump, err);
	case GT_JINJA_N_SET:
		return render_set(r, n, err);
	case GT_JINJA_N_SET_BLOCK:
		return render_set_block(r, n, jump, err);
	case GT_JINJA_N_GENERATION:
		return render_generation(r, n, err);
	default:
		*jump = n->kind == GT_JINJA_N_BREAK ? BREAK : CONTINUE;
		return 0;
	}
}

static int render_nodes(
    struct gt_jinja_run *r, const struct gt_jinja_node *n, enum jump *jump, struct gt_err *err)
{
	int rc = 0;

	for (*jump = GO_ON; !rc && n && *jump == GO_ON; n = n->next) {
		rc = gt_jinja_spend(r, 1, err);
		if (!rc)
			rc = render_node(r, n, jump, err);
		if (!rc && r->out->length > GT_JINJA_MAX_OUTPUT)
			rc = gt_err_set(err, GT_ENOTSUP, "the text is longer than %d MiB",
			    GT_JINJA_MAX_OUTPUT >> 20);
		gt_jinja_locate(r, n->line, rc, err);
	}
	return rc;
}

/* ---- the template ---- */

static int read_variables(struct gt_jinja_run *r, const json_t *variables, struct gt_err *err)
{
	json_t *object = (json_t *)variables, *item;
	struct gt_jinja_value v;
	const char *name;
	int rc;

	json_object_foreach(object, name, item)
	{
		rc = gt_jinja_from_json(&v, r, item, 0, err);
		if (!rc)
			rc = set_variable(r, name, &v, err);
		if (rc)
			return rc;
	}
	return 0;
}

int gt_jinja_render(struct gt_jinja_text *out, const struct gt_jinja *t, const json_t *variables,
    const struct gt_jinja_date *date, struct gt_err *err)
{
	struct gt_jinja_frame given = { 0 }, frame = { .outer = &given };
	struct gt_buf text = { 0 };
	struct gt_jinja_run r = { .out = &text, .result = out, .frame = &given };
	enum jump jump;
	int rc;

	*out = (struct gt_jinja_text){ 0 };
	if (date)
		r.date = *date;
	rc = read_variables(&r, variables, err);
	r.frame = &frame;
	if (!rc)
		rc = render_nodes(&r, t->nodes, &jump, err);
	if (!rc)
		rc = gt_buf_check(&text, err);
	if (!rc && !text.text)
		gt_buf_add(&text, "", 0);
	if (!rc)
		rc = gt_buf_take(&text, &out->text, &out->size, err);
	gt_buf_release(&text);
	gt_arena_release(&r.arena);
	return rc;
}

void gt_jinja_text_release(struct gt_jinja_text *text)
{
	free(text->text);
	free(text->marks);
	*text = (struct gt_jinja_text){ 0 };
}

int gt_jinja_date_parse(struct gt_jinja_date *out, const char *text, struct gt_err *err)
{
	static const int days[] = { 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	int year, month, day, used = 0;

	if (strlen(text) == 10 && sscanf(text, "%4d-%2d-%2d%n", &year, &month, &day, &used) == 3 &&
	    used == 10 && year > 0 && month > 0 && month <= 12 && day > 0 &&
	    day <= days[month - 1]) {
		*out = (struct gt_jinja_date){ year, month, day };
		return 0;
	}
	return gt_err_set(err, GT_EINVAL, "'%s' is not a date of the form YYYY-MM-DD", text);
}
