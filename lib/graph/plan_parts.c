/* plan_parts.c - add up a plan's launches and cost by op and by block of the model. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/graph/plan.h"

void gt_step_add_cost(const struct gt_step *s, struct gt_cost *sum)
{
	struct gt_cost c;

	gt_node_cost(s->node, &c);
	sum->flops += c.flops;
	sum->bytes_read += c.bytes_read + s->call.more_bytes_read;
	sum->bytes_written += c.bytes_written + s->call.more_bytes_written;
}

static bool is_numbered(const char *name, size_t length)
{
	return length && isdigit((unsigned char)name[length - 1]);
}

static struct gt_plan_part *find_plan_part(
    struct gt_plan_part *parts, size_t *count, const char *name, size_t length)
{
	for (size_t i = 0; i < *count; i++)
		if (parts[i].length == length && !memcmp(parts[i].name, name, length))
			return &parts[i];
	parts[*count] = (struct gt_plan_part){ .name = name, .length = length };
	return &parts[(*count)++];
}

static void add_step_to_part(struct gt_plan_part *part, const struct gt_step *s)
{
	part->steps++;
	part->launches += s->call.launches;
	gt_step_add_cost(s, &part->cost);
}

static int by_bytes(const void *a, const void *b)
{
	const struct gt_plan_part *x = a, *y = b;
	double first = x->cost.bytes_read + x->cost.bytes_written,
	       second = y->cost.bytes_read + y->cost.bytes_written;

	return first < second ? 1 : first > second ? -1 : strcmp(x->name, y->name);
}

int gt_plan_parts(struct gt_plan_part **out, size_t *count, const struct gt_plan *plan,
    enum gt_plan_parts by, struct gt_err *err)
{
	size_t steps;
	const struct gt_step *s = gt_plan_steps(plan, &steps);

	*count = 0;
	*out = gt_calloc(steps + 1, sizeof(**out), err);
	if (!*out)
		return GT_ENOMEM;
	for (size_t i = 0; i < steps; i++) {
		const char *name = by == GT_PLAN_OPS ? s[i].node->op->name : s[i].node->scope;
		size_t length = by == GT_PLAN_OPS ? strlen(name) : gt_scope_block(name);

		if (by == GT_PLAN_OPS || is_numbered(name, length))
			add_step_to_part(find_plan_part(*out, count, name, length), &s[i]);
	}
	qsort(*out, *count, sizeof(**out), by_bytes);
	return 0;
}
