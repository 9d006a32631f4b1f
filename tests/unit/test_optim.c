/* test_optim.c - updates of a model's weights and of their mean, on the devices of tests. */
/* This table runs on GPUs, too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/half.h"
#include "lib/base/philox.h"
#include "lib/optim/average.h"
#include "lib/optim/optim.h"
#include "lib/train/program.h"
#include "tests/common/device.h"

enum { STEPS = 3 };

static const struct gt_optim_options optimizers[] = {
	{ .kind = GT_SGD, .momentum = 0.9, .weight_decay = 0.01 },
	{ .kind = GT_ADAM, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-3, .weight_decay = 0.1 },
	{ .kind = GT_ADAMW, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-3, .clip = 0.1 },
	{ .kind = GT_MUON,
	    .momentum = 0.95,
	    .beta1 = 0.9,
	    .beta2 = 0.99,
	    .eps = 1e-3,
	    .weight_decay = 0.1,
	    .clip = 0.1,
	    .fallback_lr_factor = 0.5 },
	{ .kind = GT_ADAN, .eps = 1e-3, .weight_decay = 0.1, .clip = 0.1 },
};

enum { OPTIMIZERS = sizeof(optimizers) / sizeof(*optimizers) };

static void every_kind_has_a_row(void **state)
{
	(void)state;
	for (int kind = 0; kind < GT_OPTIM_KINDS; kind++) {
		size_t i = 0;

		while (i < OPTIMIZERS && optimizers[i].kind != (enum gt_optim_kind)kind)
			i++;
		if (i == OPTIMIZERS)
			fail_msg("'%s' has no row in optimizers[]", gt_optim_names[kind]);
	}
}

static const struct gt_average_options average = { .ema = 0.75 };

/* A model's weights, made-up gradients and an optimizer on a device. */
struct state {
	struct gt_parallel *parallel;
	struct gt_store *store;
	struct gt_optim *optim;
	struct gt_plane *ema;
	size_t bytes; /* of the parameters */
};

static void open_state_in(struct state *s, const struct gt_device *device,
    const struct gt_optim_options *options, enum gt_dtype low)
{
	const struct gt_parallel_options alone = { .ranks = 1, .precision.low = low };
	struct gt_err err = GT_ERR_INIT;
	struct gt_model_input in;
	struct gt_model *model;
	float *gradients;

	assert_int_equal(
	    gt_model_open(&model, "gpt:layers=1,heads=2,width=16,block=8,vocab=13", &err), 0);
	gt_model_preferred_input(model, &in);
	assert_int_equal(gt_parallel_new(&s->parallel, &alone, NULL, &err), 0);
	assert_int_equal(
	    gt_program_store(&s->store, model, &in, device, true, s->parallel, &err), 0);
	gt_model_close(model);
	assert_int_equal(gt_store_alloc(s->store, &err), 0);
	assert_int_equal(gt_store_init(s->store, 1, &err), 0);
	assert_int_equal(gt_optim_new(&s->optim, s->store, options, &err), 0);
	assert_int_equal(gt_average_add_plane(s->store, &average, &err), 0);
	s->ema = gt_store_plane(s->store, "ema");
	s->bytes = gt_plane_bytes(s->store, s->store->parameters);
	gradients = calloc(1, s->bytes);
	for (size_t i = 0; i < s->store->slot_count; i++) { /* padding has none */
		const struct gt_slot *slot = &s->store->slots[i];

		for (int64_t e = 0; slot->role == GT_PARAMETER && e < slot->count; e++)
			gradients[slot->offset + e] = gt_philox_float((uint32_t)gt_philox_u64(
			                                  2, (uint64_t)(slot->offset + e), 0, 0)) -
			                              0.5f;
	}
	assert_int_equal(
	    gt_device_write(device, s->store->gradients->memory, gradients, s->bytes, &err), 0);
	free(gradients);
}

static void open_state(
    struct state *s, const struct gt_device *device, const struct gt_optim_options *options)
{
	open_state_in(s, device, options, GT_F32);
}

static void close_state(struct state *s)
{
	gt_optim_free(s->optim);
	gt_store_free(s->store);
	gt_parallel_free(s->parallel);
}

static float *read_flat(const struct state *s, const void *flat)
{
	struct gt_err err = GT_ERR_INIT;
	float *host = malloc(s->bytes);

	assert_int_equal(gt_device_read(s->store->device, host, flat, s->bytes, &err), 0);
	return host;
}

static void take_steps(struct state *s)
{
	struct gt_err err = GT_ERR_INIT;

	for (int i = 0; i < STEPS; i++) {
		assert_int_equal(gt_optim_step(s->optim, 0.05, NULL, &err), 0);
		assert_int_equal(gt_average_update(s->store, &average, i, &err), 0);
	}
}

/* The CPU's kernels round a product and a sum once where the processor can; a GPU's need not do so
 * at the same places. After these steps that makes some units in the last place of numbers up to 1.
 */
static void compare(const struct state *a, const void *x, const struct state *b, const void *y)
{
	const float bound = test_device_is_far() || test_device_is_cpu() ? 0 : 1e-6f;
	float *of_a = read_flat(a, x), *of_b = read_flat(b, y);

	for (size_t i = 0; i < a->bytes / sizeof(*of_a); i++)
		if (!(fabsf(of_a[i] - of_b[i]) <= bound))
			fail_msg("element %zu is %.9g on the CPU, %.9g on the device", i,
			    (double)of_a[i], (double)of_b[i]);
	free(of_a);
	free(of_b);
}

/* Every optimizer, and the mean, have on the far device the bits of the CPU; GPUs are close. */
static void devices_agree(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_device *cpu;

	(void)state;
	assert_int_equal(gt_device_open(&cpu, &gt_cpu_backend, 0, &err), 0);
	for (size_t i = 0; i < OPTIMIZERS; i++) {
		struct state here, there;

		open_state(&here, cpu, &optimizers[i]);
		open_state(&there, test_device(0), &optimizers[i]);
		take_steps(&here);
		take_steps(&there);
		compare(
		    &here, here.store->parameters->memory, &there, there.store->parameters->memory);
		compare(&here, here.ema->memory, &there, there.ema->memory);
		close_state(&here);
		close_state(&there);
	}
	gt_device_close(cpu);
}

/* Every element of the parameters, rounded. */
static void check_copies(const struct state *s, const char *what)
{
	const struct gt_store *store = s->store;
	struct gt_err err = GT_ERR_INIT;
	size_t bytes = gt_plane_bytes(store, store->copies);
	uint16_t *copies = malloc(bytes);
	float *parameters = read_flat(s, store->parameters->memory);

	assert_int_equal(bytes, (size_t)store->flat_count * sizeof(*copies));
	assert_int_equal(
	    gt_device_read(store->device, copies, store->copies->memory, bytes, &err), 0);
	for (int64_t i = 0; i < store->flat_count; i++) {
		float x = parameters[i];

		if (copies[i] !=
		    (store->copies->dtype == GT_F16 ? gt_f16_of_float(x) : gt_bf16_of_float(x)))
			fail_msg("%s: the copy of element %lld is %04x, of %.9g", what,
			    (long long)i, copies[i], (double)x);
	}
	free(copies);
	free(parameters);
}

/* Every optimizer writes them, and an exchange with the mean makes them anew. */
static void working_copies_follow(void **state)
{
	static const enum gt_dtype types[] = { GT_BF16, GT_F16 };
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	for (size_t i = 0; i < 2 * OPTIMIZERS; i++) {
		const struct gt_optim_options *o = &optimizers[i / 2];
		struct state s;

		open_state_in(&s, test_device(0), o, types[i % 2]);
		take_steps(&s);
		check_copies(&s, gt_optim_names[o->kind]);
		assert_int_equal(gt_average_swap(s.store, gt_average_kept(&average), &err), 0);
		check_copies(&s, "the mean");
		close_state(&s);
	}
}

/* Elements of the parameters that have a state in a plane, with padding. */
static int64_t keepers(const struct state *s, const struct gt_plane *plane)
{
	int64_t count = 0;

	for (size_t i = 0; i < s->store->slot_count; i++)
		if (gt_plane_holds(s->store, plane, &s->store->slots[i]))
			count += gt_slot_padded(&s->store->slots[i]);
	return count;
}

/* The workspace of Muon for the largest matrix. */
static int64_t workspace(const struct state *s)
{
	int64_t max = 0;

	for (size_t i = 0; i < s->store->slot_count; i++) {
		const struct gt_slot *slot = &s->store->slots[i];
		int64_t work = slot->hidden ? gt_muon_work(slot->shape[0], slot->shape[1]) : 0;

		max = work > max ? work : max;
	}
	return max;
}

/* Write numbers that tell each element of a state from all others, or read all of them back.
 * Returns the number of states. */
static int fill_states(const struct state *s, bool check)
{
	struct gt_err err = GT_ERR_INIT;
	float value = 0, found;
	int states = 0;

	for (size_t k = 0; k < s->store->plane_count; k++) {
		const struct gt_plane *plane = s->store->planes[k];

		if (plane->saved != GT_SAVED_STATE)
			continue;
		states++;
		for (size_t i = 0; i < s->store->slot_count; i++) {
			const struct gt_slot *slot = &s->store->slots[i];
			float *at = gt_slot_first(s->store, plane, slot);

			for (int64_t e = 0; at && e < slot->count; e++, at++) {
				value++;
				if (!check)
					gt_device_write(
					    test_device(0), at, &value, sizeof(value), &err);
				else
					gt_device_read(
					    test_device(0), &found, at, sizeof(found), &err);
				assert_int_equal(err.code, 0);
				assert_true(!check || found == value);
			}
		}
	}
	return states;
}

/* Each parameter has memory for the states that it keeps, and there is no more. */
static void states_are_where_they_are_kept(void **state)
{
	static const int states[GT_OPTIM_KINDS] = {
		[GT_SGD] = 1, [GT_ADAM] = 2, [GT_ADAMW] = 2, [GT_MUON] = 3, [GT_ADAN] = 4
	};

	(void)state;
	for (size_t i = 0; i < OPTIMIZERS; i++) {
		const struct gt_optim_options *o = &optimizers[i];
		struct state s;

		open_state(&s, test_device(0), o);
		for (size_t k = 0; k < s.store->plane_count; k++)
			if (s.store->planes[k]->saved == GT_SAVED_STATE)
				assert_int_equal(gt_plane_elements(s.store, s.store->planes[k]),
				    keepers(&s, s.store->planes[k]));
		assert_int_equal(gt_optim_work_bytes(s.store, o),
		    (o->kind == GT_MUON ? workspace(&s) : 0) * (int64_t)sizeof(float));
		assert_int_equal(fill_states(&s, false),
		    o->kind == GT_SGD && o->momentum == 0 ? 0 : states[o->kind]);
		fill_states(&s, true);
		close_state(&s);
	}
}

/* The first update copies, the others are the formula; an exchange is undone by another. */
static void mean_follows(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	float *want = NULL, *mean, *parameters;
	struct state s;
	int64_t count;

	(void)state;
	open_state(&s, test_device(0), &optimizers[0]);
	count = s.store->flat_count;
	for (int i = 0; i < STEPS; i++) {
		assert_int_equal(gt_optim_step(s.optim, 0.05, NULL, &err), 0);
		assert_int_equal(gt_average_update(s.store, &average, i, &err), 0);
		parameters = read_flat(&s, s.store->parameters->memory);
		mean = read_flat(&s, s.ema->memory);
		for (int64_t e = 0; e < count; e++) {
			float expected = parameters[e];

			if (want)
				expected = want[e] + 0.25f * (parameters[e] - want[e]);
			assert_float_equal(mean[e], expected, 1e-7);
		}
		free(want);
		free(parameters);
		want = mean;
	}
	parameters = read_flat(&s, s.store->parameters->memory);
	for (int i = 0; i < 2; i++) {
		float *now;

		assert_int_equal(gt_average_swap(s.store, gt_average_kept(&average), &err), 0);
		now = read_flat(&s, s.store->parameters->memory);
		assert_memory_equal(now, i ? parameters : want, s.bytes);
		free(now);
	}
	free(parameters);
	free(want);
	close_state(&s);
}

static void decay_is_checked(void **state)
{
	static const double bad[] = { 1, 2, 1e-12 };
	struct gt_err err = GT_ERR_INIT;
	struct state s;

	(void)state;
	open_state(&s, test_device(0), &optimizers[0]);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		const struct gt_average_options o = { .ema = bad[i] };

		assert_int_equal(gt_average_add_plane(s.store, &o, &err), GT_EINVAL);
	}
	close_state(&s);
}

/* ---- many ranges in one call ---- */

enum { RANGES = 200, FLAT = RANGES * 1024, BUFFERS = 5 };

static const struct many_case {
	bool adam;
	float momentum;
	enum gt_dtype copy_type; /* GT_F32: no copy */
	int64_t align;           /* ranges begin at multiples of so many elements */
} many_cases[] = {
	{ .copy_type = GT_F32, .align = 1 },
	{ .copy_type = GT_BF16, .align = 16 },
	{ .momentum = 0.9f, .copy_type = GT_F32, .align = 16 },
	{ .momentum = 0.9f, .copy_type = GT_F16, .align = 1 },
	{ .adam = true, .copy_type = GT_F32, .align = 1 },
	{ .adam = true, .copy_type = GT_BF16, .align = 16 },
	{ .adam = true, .copy_type = GT_F16, .align = 1 },
};

/* Ranges with gaps between them. x: parameters, gradients, two states, the copy. */
struct many {
	struct gt_update_options o[RANGES];
	struct gt_update_range ranges[RANGES];
	void *x[BUFFERS];
	int64_t updated; /* elements of all ranges */
};

static float number(int64_t i, uint32_t buffer)
{
	return gt_philox_float((uint32_t)gt_philox_u64(5, (uint64_t)i, buffer, 0)) + 0.5f;
}

static void *on_device(const void *host, size_t bytes)
{
	struct gt_err err = GT_ERR_INIT;
	void *p;

	assert_int_equal(gt_device_alloc(test_device(0), bytes, &p, &err), 0);
	assert_int_equal(gt_device_write(test_device(0), p, host, bytes, &err), 0);
	return p;
}

static void make_ranges(struct many *m, const struct many_case *c)
{
	static const int64_t sizes[] = { 4099, 0, 1, 3, 17, 1000 };
	int64_t at = 0;

	m->updated = 0;
	for (int i = 0; i < RANGES; i++) {
		int64_t count = sizes[i % 6];

		at = (at + i % 3 + c->align - 1) / c->align * c->align;
		m->o[i] = (struct gt_update_options){ .momentum = c->momentum,
			.beta1 = 0.9,
			.beta2 = 0.99,
			.eps = 1e-3f,
			.weight_decay = (float)(i % 4) * 0.1f,
			.lr_scale = 1 + (float)(i % 5) * 0.5f,
			.decoupled = 1,
			.copy = c->copy_type == GT_F32 ? NULL : (uint16_t *)m->x[4] + at,
			.copy_type = c->copy_type };
		m->ranges[i] = (struct gt_update_range){ .p = (float *)m->x[0] + at,
			.g = (float *)m->x[1] + at,
			.states[0] = c->adam || c->momentum > 0 ? (float *)m->x[2] + at : NULL,
			.states[1] = c->adam ? (float *)m->x[3] + at : NULL,
			.count = count,
			.o = &m->o[i] };
		at += count;
		m->updated += count;
	}
	assert_true(at < FLAT);
}

static void make_many(struct many *m, const struct many_case *c)
{
	float *host = malloc(FLAT * sizeof(*host));

	assert_non_null(host);
	for (int b = 0; b < BUFFERS; b++) {
		for (int64_t i = 0; i < FLAT; i++)
			host[i] = number(i, (uint32_t)b);
		m->x[b] = on_device(host, FLAT * sizeof(*host));
	}
	free(host);
	make_ranges(m, c);
}

/* By one call, or by a call for each range. */
static void update_many(const struct many *m, const struct many_case *c, bool together)
{
	static const struct gt_step_scalars scalars = { .block = { .lr = 0.1f },
		.result = { .grad_factor = 0.5f, .steps = 2, .bias1 = 0.2f, .bias2_sqrt = 0.3f } };
	const struct gt_device *d = test_device(0);
	const struct gt_update_kernel *k =
	    d->backend->steps()->updates[c->adam ? GT_UPDATE_ADAM : GT_UPDATE_SGD];
	void *s = on_device(&scalars, sizeof(scalars));
	size_t n = together ? RANGES : 1;
	struct gt_err err = GT_ERR_INIT;

	for (size_t i = 0; i < RANGES; i += n) {
		const struct gt_update u = { .ranges = &m->ranges[i], .n = n };

		assert_int_equal(k->run(d->compute, &u, s, &err), 0);
	}
	assert_int_equal(gt_device_sync(d, &err), 0);
	gt_device_free(d, s, sizeof(scalars));
}

/* Parameters of the ranges change, and those between them do not. */
static void check_changes(const struct many *m, const float *p)
{
	int64_t changed = 0;

	for (int64_t i = 0; i < FLAT; i++)
		changed += p[i] < number(i, 0) || p[i] > number(i, 0);
	assert_int_equal(changed, m->updated);
}

static void ranges_together_as_each_alone(void **state)
{
	const size_t bytes = FLAT * sizeof(float);

	(void)state;
	for (size_t i = 0; i < sizeof(many_cases) / sizeof(*many_cases); i++) {
		struct many m[2];

		for (int together = 0; together < 2; together++) {
			make_many(&m[together], &many_cases[i]);
			update_many(&m[together], &many_cases[i], together);
		}
		for (int b = 0; b < BUFFERS; b++) {
			void *want = test_device_copy(m[0].x[b], bytes);
			void *got = test_device_copy(m[1].x[b], bytes);

			if (memcmp(got, want, bytes))
				fail_msg("case %zu: other bits in buffer %d", i, b);
			if (!b)
				check_changes(&m[0], got);
			free(want);
			free(got);
			gt_device_free(test_device(0), m[0].x[b], bytes);
			gt_device_free(test_device(0), m[1].x[b], bytes);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind_has_a_row),
		cmocka_unit_test(devices_agree),
		cmocka_unit_test(working_copies_follow),
		cmocka_unit_test(states_are_where_they_are_kept),
		cmocka_unit_test(mean_follows),
		cmocka_unit_test(decay_is_checked),
		cmocka_unit_test(ranges_together_as_each_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
