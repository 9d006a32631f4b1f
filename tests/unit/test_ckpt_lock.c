/* test_ckpt_lock.c - edits in place at once: each waits for the one before it. */
#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>

#include "lib/base/clock.h"
#include "lib/ckpt/edit/edit.h"
#include "lib/ckpt/edit/lock.h"
#include "lib/ckpt/tools/verify.h"
#include "lib/ckpt/write.h"
#include "tests/unit/ckpt_fixture.h"

enum { EDITORS = 4, HELD_US = 200000 };
static const double LONG_S = 60, SHORT_S = 0.05;

static void save(struct fixture *f, const char *path, const char *format, const char *tensor)
{
	static const float data[2] = { 1, 2 };
	static const int64_t two = 2;
	const struct gt_ckpt_write_options options = { .no_sync = true };
	struct gt_tree *root = gt_tree_dict(&f->arena, &f->err);

	gt_tree_set(root, tensor, gt_tree_tensor(&f->arena, GT_F32, 1, &two, data, &f->err),
	    &f->arena, &f->err);
	if (gt_ckpt_write(path, format, root, &options, &f->err))
		fail_msg("%s", f->err.text);
}

/* "PREFIX.PREFIX...w": how often the name of the only tensor has the prefix. */
static size_t prefixes(struct fixture *f, const char *path, const char *prefix)
{
	const char *name;
	size_t n = 0;

	gt_ckpt_close(f->ckpt);
	f->ckpt = NULL;
	if (gt_ckpt_open(&f->ckpt, path, &f->err))
		fail_msg("%s", f->err.text);
	assert_int_equal(gt_ckpt_root(f->ckpt)->seq.count, 1);
	name = gt_ckpt_root(f->ckpt)->seq.items[0].key->string.bytes;
	for (; !strncmp(name, prefix, strlen(prefix)); name += strlen(prefix))
		n++;
	return n;
}

/* Open for an edit in place, and add a prefix. */
static int add(const char *path, const char *prefix, double wait_s, struct gt_err *err)
{
	const char *const words[] = { prefix, NULL };
	const struct gt_edit_request request = { GT_EDIT_ADD, words };
	const struct gt_edit_target target = { .input = path, .no_sync = true };
	struct gt_edit change = { 0 };
	struct gt_ckpt *ckpt;
	int rc = gt_edit_open(&ckpt, path, wait_s, err);

	if (!rc)
		rc = gt_edit_compute(&change, ckpt, &request, err);
	if (!rc)
		rc = gt_edit_apply(ckpt, &change, &target, NULL, err);
	gt_edit_release(&change);
	gt_ckpt_close(ckpt);
	return rc;
}

/* ---- several editors ---- */

struct editor {
	pthread_t thread;
	const char *path;
	struct gt_err err;
	int rc;
};

static void *edit_often(void *self)
{
	struct editor *e = self;

	for (int i = 0; i < 4 && !e->rc; i++)
		e->rc = add(e->path, "p.", LONG_S, &e->err);
	return NULL;
}

static void no_edit_is_lost(void **state)
{
	static const char *const formats[] = { "safetensors", "torch-zip", "torch-legacy", "npz" };
	struct fixture *f = *state;

	for (size_t i = 0; i < COUNT(formats); i++) {
		struct editor editors[EDITORS] = { 0 };

		save(f, f->path, formats[i], "w");
		for (int k = 0; k < EDITORS; k++) {
			editors[k].path = f->path;
			assert_int_equal(
			    pthread_create(&editors[k].thread, NULL, edit_often, &editors[k]), 0);
		}
		for (int k = 0; k < EDITORS; k++) {
			pthread_join(editors[k].thread, NULL);
			if (editors[k].rc)
				fail_msg("%s: %s", formats[i], editors[k].err.text);
		}
		assert_int_equal(prefixes(f, f->path, "p."), 4 * EDITORS);
	}
}

/* ---- one that holds the lock ---- */

struct owner {
	pthread_t thread;
	int fd;
	const char *path, *other; /* takes the place of `path` before the lock is given up */
};

static void *hold(void *self)
{
	struct owner *o = self;

	usleep(HELD_US);
	if (o->other)
		assert_int_equal(rename(o->other, o->path), 0);
	close(o->fd);
	return NULL;
}

static void start(struct owner *o)
{
	o->fd = open(o->path, O_RDWR | O_CLOEXEC);
	assert_true(o->fd >= 0);
	assert_int_equal(flock(o->fd, LOCK_EX), 0);
	assert_int_equal(pthread_create(&o->thread, NULL, hold, o), 0);
}

static void an_edit_waits(void **state)
{
	struct fixture *f = *state;
	char path[128], other[128];
	struct owner o = { .path = path };
	double began;

	strcpy(path, ckpt_file(f, "a.pth"));
	strcpy(other, ckpt_file(f, "b.pth"));
	save(f, path, "torch-zip", "w");
	/* Before the lock is held, so that the wait never seems shorter than it is. */
	began = gt_clock_s();
	start(&o);
	assert_int_equal(add(path, "p.", LONG_S, &f->err), 0);
	assert_true(gt_clock_s() - began > 0.5e-6 * HELD_US);
	pthread_join(o.thread, NULL);
	assert_int_equal(prefixes(f, path, "p."), 1);

	save(f, other, "torch-zip", "q.w"); /* another file by then, which is the one to edit */
	o.other = other;
	start(&o);
	assert_int_equal(add(path, "p.", LONG_S, &f->err), 0);
	pthread_join(o.thread, NULL);
	assert_int_equal(prefixes(f, path, "p.q."), 1);
}

static void no_edit_waits_for_ever(void **state)
{
	struct fixture *f = *state;
	struct gt_repair repair;
	char number[32], line[256];
	FILE *locks = fopen("/proc/locks", "r");
	int fd;

	save(f, f->path, "torch-zip", "w");
	fd = open(f->path, O_RDWR | O_CLOEXEC);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	assert_int_equal(add(f->path, "p.", SHORT_S, &f->err), GT_EIO);
	assert_non_null(strstr(f->err.text, f->path));
	assert_non_null(strstr(f->err.text, "is being edited by "));
	assert_non_null(strstr(f->err.hint, "run the command again"));
	snprintf(number, sizeof(number), " %ld ", (long)getpid());
	while (locks && fgets(line, sizeof(line), locks))
		if (strstr(line, number) && strstr(line, "FLOCK")) {
			snprintf(number, sizeof(number), "by process %ld", (long)getpid());
			assert_non_null(strstr(f->err.text, number));
			break;
		}
	if (locks)
		fclose(locks);
	assert_int_equal(gt_repair(&repair, f->path, SHORT_S, &f->err), GT_EIO);
	close(fd);
	assert_int_equal(prefixes(f, f->path, "p."), 0);
	assert_int_equal(add(f->path, "p.", SHORT_S, &f->err), 0);
}

/* Reading takes no lock, and heeds none. */
static void readers_do_not_wait(void **state)
{
	struct fixture *f = *state;
	int fd;

	save(f, f->path, "safetensors", "p.w");
	fd = open(f->path, O_RDWR | O_CLOEXEC);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	assert_int_equal(prefixes(f, f->path, "p."), 1);
	close(fd);
	fd = open(f->path, O_RDWR | O_CLOEXEC);
	assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0); /* though it is open for reading */
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_FOLDER(no_edit_is_lost),
		IN_FOLDER(an_edit_waits),
		IN_FOLDER(no_edit_waits_for_ever),
		IN_FOLDER(readers_do_not_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
