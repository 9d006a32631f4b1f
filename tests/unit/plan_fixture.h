/* plan_fixture.h - small models of every kind, each with the plan of a program and its memory. */
#ifndef GT_TESTS_UNIT_PLAN_FIXTURE_H
#define GT_TESTS_UNIT_PLAN_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "lib/train/program.h"
#include "tests/common/device.h"

struct subject {
	const char *spec;
	int batch;
};

static const struct subject subjects[] = {
	{ "mlp:20,32,10", 4 },
	{ "lenet", 3 },
	{ "resnet20", 2 },
	{ "gpt:layers=2,heads=2,width=32,block=8,vocab=50,dropout=0.1", 2 },
};

enum { SUBJECTS = sizeof(subjects) / sizeof(subjects[0]) };

struct subject_run {
	struct gt_model *model;
	struct gt_parallel *parallel;
	struct gt_store *store;
	struct gt_program program;
	void *arena;
	size_t arena_bytes;
};

static inline void open_subject(
    struct subject_run *r, const struct subject *s, enum gt_model_purpose purpose, bool accumulate)
{
	const struct gt_parallel_options alone = { .ranks = 1 };
	struct gt_err err = GT_ERR_INIT;
	struct gt_model_input in;

	*r = (struct subject_run){ 0 };
	if (gt_model_open(&r->model, s->spec, &err))
		fail_msg("%s: %s", s->spec, err.text);
	gt_model_preferred_input(r->model, &in);
	for (int i = 0; i < in.form.channels; i++)
		in.form.std[i] = 1;
	if (gt_parallel_new(&r->parallel, &alone, NULL, &err) ||
	    gt_program_store(&r->store, r->model, &in, test_device(0), true, r->parallel, &err) ||
	    gt_store_alloc(r->store, &err) || gt_store_init(r->store, 1, &err) ||
	    gt_program_init(&r->program,
	        &(struct gt_program_options){ .model = r->model,
	            .input = &in,
	            .purpose = purpose,
	            .store = r->store,
	            .accumulate = accumulate,
	            .parallel = r->parallel },
	        s->batch, &err))
		fail_msg("%s: %s", s->spec, err.text);
	r->arena_bytes = gt_plan_arena_bytes(r->program.plan);
	assert_int_equal(gt_device_alloc(test_device(0), r->arena_bytes, &r->arena, &err), 0);
	test_device_ruin(r->arena, r->arena_bytes);
	assert_int_equal(gt_program_bind(&r->program, r->arena, &err), 0);
}

static inline void close_subject(struct subject_run *r)
{
	gt_device_free(test_device(0), r->arena, r->arena_bytes);
	gt_program_release(&r->program);
	gt_store_free(r->store);
	gt_parallel_free(r->parallel);
	gt_model_close(r->model);
}

static inline void write_inputs(struct subject_run *r)
{
	const int64_t rng[GT_RNG_FIELDS] = { 7, 1, 0, 1 };
	struct gt_program *p = &r->program;
	char *zeros = calloc(1, p->input_bytes + p->target_bytes + 1);
	const float weight = 0.5f;

	assert_non_null(zeros);
	assert_int_equal(
	    gt_plan_write(p->plan, p->io.input, zeros, p->input_bytes, GT_ERR_IGNORED), 0);
	if (p->io.target)
		assert_int_equal(
		    gt_plan_write(p->plan, p->io.target, zeros, p->target_bytes, GT_ERR_IGNORED),
		    0);
	if (p->io.weight)
		assert_int_equal(
		    gt_plan_write(p->plan, p->io.weight, &weight, sizeof(weight), GT_ERR_IGNORED),
		    0);
	if (p->io.rng)
		assert_int_equal(
		    gt_plan_write(p->plan, p->io.rng, rng, sizeof(rng), GT_ERR_IGNORED), 0);
	free(zeros);
}

#endif
