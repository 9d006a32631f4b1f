/* ckpt_fixture.h - a folder, an arena and a checkpoint for each test of a format. */
#ifndef GT_TESTS_CKPT_FIXTURE_H
#define GT_TESTS_CKPT_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/ckpt/ckpt.h"

#define COUNT(a) (sizeof(a) / sizeof(*(a)))

struct fixture {
	char folder[64];
	char path[128]; /* of a file that is not there yet; then of the last ckpt_file() */
	struct gt_arena arena;
	struct gt_ckpt *ckpt; /* closed in the end */
	struct gt_err err;
};

/* The path of a file in the folder, good until the next call. */
static const char *ckpt_file(struct fixture *f, const char *name)
{
	snprintf(f->path, sizeof(f->path), "%s/%s", f->folder, name);
	return f->path;
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	strcpy(f->folder, "/tmp/gtrain-test-XXXXXX"); /* mkdtemp() fills in the end */
	assert_non_null(mkdtemp(f->folder));
	ckpt_file(f, "checkpoint");
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	char command[128];

	gt_ckpt_close(f->ckpt);
	gt_arena_release(&f->arena);
	snprintf(command, sizeof(command), "rm -r %s", f->folder);
	assert_int_equal(system(command), 0);
	free(f);
	return 0;
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

#endif
