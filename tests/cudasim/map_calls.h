/* map_calls.h - calls of map with every function, and with random programs, shapes and types. */
#ifndef GT_TESTS_CUDASIM_MAP_CALLS_H
#define GT_TESTS_CUDASIM_MAP_CALLS_H

#include "lib/graph/map_program.h"
#include "tests/common/kernel_cases.h"

static unsigned map_seed;

static inline int draw(int low, int high)
{
	return low + rand_r(&map_seed) % (high - low + 1);
}

static inline int arguments_of(int function)
{
	static const int arguments[] = {
#define GT_FUNCTION(name, arguments, flops, formula) arguments,
#include "lib/graph/ops/functions.inc"
	};

	return arguments[function];
}

/* Functions `from` to below `end` of inputs a, b, c; their sum is the output. */
static inline void every_function(struct gt_map_program *p, int from, int end)
{
	enum { Y = 3, SUM, OWN };

	*p = (struct gt_map_program){ .inputs = 3, .outputs = 1, .rows = 2 };
	for (int f = from; f < end; f++) {
		p->step[p->steps++] = (struct gt_map_step){ (uint8_t)f, f > from ? OWN : SUM,
			{ 0, arguments_of(f) > 1 ? 1 : 0, arguments_of(f) > 2 ? 2 : 0 } };
		if (f > from)
			p->step[p->steps++] = (struct gt_map_step){ GT_F_ADD, SUM, { SUM, OWN } };
	}
	p->step[p->steps - 1].to = Y;
}

/* A program whose steps write rows, and at the end the outputs. */
static inline void draw_program(struct gt_map_program *p)
{
	static const double numbers[] = { 0.5, -2, 0.1, 3, 1e-3, INFINITY };
	int slots;

	*p = (struct gt_map_program){ .inputs = draw(1, 4),
		.outputs = draw(1, 2),
		.numbers = draw(0, 3),
		.rows = draw(1, 4) };
	p->steps = draw(2, 12) + p->outputs;
	slots = p->inputs + p->outputs + p->numbers;
	for (int i = 0; i < p->numbers; i++)
		p->number[i] = numbers[draw(0, 5)];
	for (int i = 0; i < p->steps; i++) {
		struct gt_map_step *s = &p->step[i];
		int last = p->steps - 1 - i;

		s->function = (uint8_t)draw(0, GT_FUNCTION_COUNT - 1);
		for (int k = 0; k < arguments_of(s->function); k++) {
			int written = i < p->rows ? i : p->rows, from;

			do
				from = draw(0, slots + written - 1);
			while (from >= p->inputs && from < p->inputs + p->outputs);
			s->from[k] = (uint8_t)(i && !k ? p->step[i - 1].to : from);
		}
		s->to = (uint8_t)(last < p->outputs ? p->inputs + last : slots + i % p->rows);
	}
}

static inline struct gt_tensor draw_tensor(enum gt_dtype dtype, int ndim, const int64_t *shape)
{
	struct gt_tensor t = test_tensor(dtype, ndim, shape);

	if (ndim == 4)
		t.layout = draw(0, 1) ? GT_CHANNELS_LAST : GT_PLAIN;
	if (gt_dtype_is_real(dtype))
		test_random(&t, (uint32_t)draw(1, 1 << 30), 0.1, 2);
	else
		test_random_int(&t, (uint32_t)draw(1, 1 << 30), 0, 3);
	return t;
}

/* Inputs have the shape of the outputs, or are broadcast to it. */
static inline void draw_call(struct gt_call *c, const struct gt_map_program *p, enum gt_dtype real)
{
	static const enum gt_dtype counted[] = { GT_U8, GT_BOOL, GT_I32, GT_I64 };
	int ndim = draw(1, 4);
	int64_t shape[4];

	for (int d = 0; d < ndim; d++)
		shape[d] = draw(0, 1) ? draw(1, 5) : draw(1, 4) * 8 / ndim;
	shape[draw(0, ndim - 1)] = draw(0, 1) ? 64 : draw(30, 99);
	*c = (struct gt_call){ .inputs = p->inputs, .outputs = p->outputs };
	c->attrs.map.program = p;
	for (int j = 0; j < p->outputs; j++) {
		c->out[j] = test_tensor(real, ndim, shape);
		c->out[j].layout = ndim == 4 && map_seed % 2 ? GT_CHANNELS_LAST : GT_PLAIN;
	}
	for (int i = 0; i < p->inputs; i++) {
		int64_t size[4];
		int own = draw(0, 2) ? ndim : draw(1, ndim);

		for (int d = 0; d < own; d++)
			size[d] = draw(0, 2) ? shape[ndim - own + d] : 1;
		c->in[i] = draw_tensor(i && !draw(0, 3) ? counted[draw(0, 3)] : real, own, size);
	}
}

#endif
