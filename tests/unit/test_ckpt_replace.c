/* test_ckpt_replace.c - checkpoints written where others are: links, locks, syncs, errors. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/ckpt/edit/edit.h"
#include "lib/ckpt/tools/verify.h"
#include "lib/ckpt/write.h"

#define COUNT(a) (sizeof(a) / sizeof(*(a)))

/* The system as the tests want it: these go before the C library's. */
static struct {
	int syncs, lock_error;
} machine;

int fsync(int fd)
{
	machine.syncs++;
	return (int)syscall(SYS_fsync, fd);
}

int flock(int fd, int how)
{
	if (machine.lock_error) {
		errno = machine.lock_error;
		return -1;
	}
	return (int)syscall(SYS_flock, fd, how);
}

struct fixture {
	char folder[64];
	struct gt_arena arena;
	struct gt_err err;
};

/* Each test is in a folder of its own. */
static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	strcpy(f->folder, "/tmp/gt_replace_XXXXXX");
	assert_non_null(mkdtemp(f->folder));
	assert_int_equal(chdir(f->folder), 0);
	memset(&machine, 0, sizeof(machine));
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	char command[128];

	assert_int_equal(chdir("/"), 0);
	gt_arena_release(&f->arena);
	snprintf(command, sizeof(command), "rm -r %s", f->folder);
	assert_int_equal(system(command), 0);
	free(f);
	return 0;
}

/* "module.a.w", "module.b.w", ... of four elements. */
static void save(
    struct fixture *f, const char *path, const char *format, const char *prefix, uint64_t shard)
{
	static const float data[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 };
	static const int64_t four = 4;
	const struct gt_ckpt_write_options options = { .shard_bytes = shard, .no_sync = true };
	struct gt_tree *root = gt_tree_dict(&f->arena, &f->err);

	for (int i = 0; i < 5; i++) {
		char name[64];

		snprintf(name, sizeof(name), "%s%c.w", prefix, 'a' + i);
		assert_int_equal(gt_tree_set(root, name,
		                     gt_tree_tensor(&f->arena, GT_F32, 1, &four, data + i, &f->err),
		                     &f->arena, &f->err),
		    0);
	}
	if (gt_ckpt_write(path, format, root, &options, &f->err))
		fail_msg("%s", f->err.text);
}

struct edit {
	enum gt_edit_kind kind;
	const char *input, *output;
	const char *overwritten; /* a file that changes between opening and applying, or NULL */
	bool sync;
	struct gt_edit_result result;
};

static int run(struct fixture *f, struct edit *e)
{
	const struct gt_edit_request request = { .kind = e->kind };
	struct gt_edit_target target = { e->input, e->output, .no_sync = !e->sync };
	struct gt_edit change;
	struct gt_ckpt *ckpt;
	int rc = gt_ckpt_open(&ckpt, e->input, &f->err);

	if (rc)
		fail_msg("%s", f->err.text);
	assert_int_equal(gt_edit_compute(&change, ckpt, &request, &f->err), 0);
	if (e->overwritten) {
		struct timespec times[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };

		assert_int_equal(utimensat(AT_FDCWD, e->overwritten, times, 0), 0);
	}
	machine.syncs = 0;
	rc = gt_edit_apply(ckpt, &change, &target, &e->result, &f->err);
	gt_edit_release(&change);
	gt_ckpt_close(ckpt);
	return rc;
}

static bool has_names(struct fixture *f, const char *path, const char *name)
{
	struct gt_ckpt *ckpt;
	bool has;

	if (gt_ckpt_open(&ckpt, path, &f->err))
		fail_msg("%s", f->err.text);
	has = gt_tree_get(gt_ckpt_root(ckpt), name) != NULL;
	gt_ckpt_close(ckpt);
	return has;
}

static int count_names(const char *pattern)
{
	char command[128];
	int n = -1;
	FILE *p;

	snprintf(command, sizeof(command), "ls -d %s 2>/dev/null | wc -l", pattern);
	p = popen(command, "r");
	assert_non_null(p);
	assert_int_equal(fscanf(p, "%d", &n), 1);
	pclose(p);
	return n;
}

static const struct {
	const char *format, *file;
	bool replaced; /* an edit in place is a copy */
} formats[] = {
	{ "torch-zip", "m.pth", false },
	{ "torch-legacy", "m.th", true },
	{ "safetensors", "model.safetensors", true }, /* there is no room to add a prefix */
	{ "npz", "m.npz", true },
};

/* As in Hugging Face's cache, where every file is a link. */
static void links_stay_links(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(mkdir("blobs", 0777), 0);
	for (size_t i = 0; i < COUNT(formats); i++) {
		struct edit e = { .kind = GT_EDIT_ADD, .input = formats[i].file };
		char blob[64];
		struct stat st;

		snprintf(blob, sizeof(blob), "blobs/%s", formats[i].file);
		save(f, blob, formats[i].format, "", 0);
		assert_int_equal(symlink(blob, e.input), 0);
		if (run(f, &e))
			fail_msg("%s: %s", e.input, f->err.text);
		assert_int_equal(e.result.replaced, formats[i].replaced);
		assert_int_equal(lstat(e.input, &st), 0);
		assert_true(S_ISLNK(st.st_mode));
		assert_true(has_names(f, blob, "module.a.w"));
	}
	assert_int_equal(count_names("*.tmp-* blobs/*.tmp-*"), 0);
}

/* The file in the folder is meant, not the folder. */
static void folders_can_be_edited(void **state)
{
	struct fixture *f = *state;
	struct edit e = { .kind = GT_EDIT_ADD, .input = "folder" };

	assert_int_equal(mkdir("folder", 0777), 0);
	save(f, "folder/model.safetensors", "safetensors", "", 0);
	for (int i = 0; i < 2; i++) /* by a copy, then by a new header */
		if (run(f, &e))
			fail_msg("%s", f->err.text);
	assert_false(e.result.replaced);
	assert_true(has_names(f, "folder/model.safetensors", "module.module.a.w"));
}

static void syncs_only_if_asked(void **state)
{
	struct fixture *f = *state;

	for (size_t i = 0; i < COUNT(formats); i++)
		for (int k = 0; k < 4; k++) {
			struct edit e = { .kind = GT_EDIT_ADD,
				.input = formats[i].file,
				.output = k / 2 ? "out" : NULL,
				.sync = k % 2 };

			save(f, e.input, formats[i].format, "", 0);
			if (run(f, &e))
				fail_msg("%s: %s", e.input, f->err.text);
			if ((machine.syncs > 0) != e.sync)
				fail_msg("%s: case %d: %d syncs", e.input, k, machine.syncs);
		}
}

static void shards_sync_only_if_asked(void **state)
{
	struct fixture *f = *state;
	struct edit e = { .kind = GT_EDIT_ADD,
		.input = "m.safetensors.index.json",
		.output = "new.safetensors" };

	save(f, "m.safetensors", "safetensors", "", 32);
	assert_int_equal(machine.syncs, 0);
	assert_int_equal(run(f, &e), 0);
	assert_int_equal(machine.syncs, 0);
	e.sync = true;
	assert_int_equal(run(f, &e), 0);
	assert_int_equal(machine.syncs, 4 + 2); /* three shards, the index, the folder twice */
}

/* A file system without locks is no reason not to edit; another error is. */
static void locks_that_fail(void **state)
{
	static const struct {
		int error, rc;
		const char *text;
	} cases[] = {
		{ ENOLCK, 0, "" },
		{ ENOSYS, 0, "" },
		{ EOPNOTSUPP, 0, "" },
		{ EINVAL, 0, "" },
		{ EWOULDBLOCK, GT_EIO, "is being edited by another process" },
		{ EIO, GT_EIO, "cannot lock 'm.pth'" },
	};
	struct fixture *f = *state;
	struct edit e = { .kind = GT_EDIT_ADD, .input = "m.pth" };

	for (size_t i = 0; i < COUNT(cases); i++) {
		save(f, e.input, "torch-zip", "", 0);
		machine.lock_error = cases[i].error;
		assert_int_equal(run(f, &e), cases[i].rc);
		if (cases[i].rc)
			assert_non_null(strstr(f->err.text, cases[i].text));
		machine.lock_error = 0;
	}
}

/* ---- the header of safetensors ---- */

/* The limit on a file's size stands in for a disk that takes only a part. */
static void a_header_half_written_is_put_back(void **state)
{
	struct fixture *f = *state;
	struct edit e = { .kind = GT_EDIT_STRIP, .input = "m.safetensors" };
	struct rlimit old, tight;
	char before[4096], after[4096];
	int fd, rc;
	ssize_t n;

	save(f, e.input, "safetensors", "module.", 0);
	fd = open(e.input, O_RDONLY);
	n = pread(fd, before, sizeof(before), 0);
	assert_true(n > 400);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	for (rlim_t max = 0; max <= 300; max += 100) {
		tight = (struct rlimit){ .rlim_cur = max, .rlim_max = old.rlim_max };
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
		rc = run(f, &e);
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
		assert_int_equal(rc, GT_EIO);
		assert_non_null(strstr(f->err.text, max ? "could be written" : "cannot write"));
		assert_null(strstr(f->err.text, "damaged"));
		assert_int_equal(pread(fd, after, sizeof(after), 0), n);
		assert_memory_equal(before, after, (size_t)n);
	}
	close(fd);
	assert_int_equal(run(f, &e), 0);
	assert_true(has_names(f, e.input, "a.w"));
}

/* As a power cut can leave it: up to a byte new, then old, or the other way round. The header's sum
 * tells. */
static void a_torn_header_is_not_opened(void **state)
{
	struct fixture *f = *state;
	struct edit e = { .kind = GT_EDIT_STRIP, .input = "m.safetensors" };
	char old[4096], new[4096], torn[4096];
	size_t refused = 0, size;
	FILE *out;
	int fd;

	save(f, e.input, "safetensors", "module.", 0);
	fd = open(e.input, O_RDONLY | O_CLOEXEC);
	size = (size_t)pread(fd, old, sizeof(old), 0);
	assert_int_equal(run(f, &e), 0);
	assert_int_equal(pread(fd, new, sizeof(new), 0), size);
	close(fd);
	for (size_t i = 0; i < 2 * size; i++) {
		const char *first = i < size ? new : old, *then = i < size ? old : new;
		struct gt_ckpt *ckpt = NULL;

		memcpy(torn, first, i % size);
		memcpy(torn + i % size, then + i % size, size - i % size);
		if (!memcmp(torn, old, size) || !memcmp(torn, new, size))
			continue;
		out = fopen("torn", "wb");
		assert_non_null(out);
		assert_int_equal(fwrite(torn, 1, size, out), size);
		assert_int_equal(fclose(out), 0);
		if (gt_ckpt_open(&ckpt, "torn", &f->err) != GT_EFORMAT)
			fail_msg("%zu bytes of one, the rest of the other: opened", i);
		gt_ckpt_close(ckpt);
		refused++;
	}
	assert_true(refused > 200);
}

/* ---- shards ---- */

/* The third shard cannot be written: nothing new appears, nothing old is replaced. */
static void shards_appear_together(void **state)
{
	struct fixture *f = *state;
	struct edit e = { .kind = GT_EDIT_ADD,
		.input = "in.safetensors.index.json",
		.output = "out.safetensors" };

	save(f, "in.safetensors", "safetensors", "", 32);
	assert_int_equal(mkdir("out-00003-of-00003.safetensors", 0777), 0);
	assert_int_equal(run(f, &e), GT_EIO);
	assert_non_null(strstr(f->err.text, "is a directory, not a regular file"));
	assert_int_equal(count_names("out*"), 1);
	assert_int_equal(rmdir("out-00003-of-00003.safetensors"), 0);
	save(f, "out.safetensors", "safetensors", "old.", 32);
	assert_int_equal(count_names("out*"), 4);
	assert_int_equal(rename("out.safetensors.index.json", "index"), 0);
	assert_int_equal(mkdir("out.safetensors.index.json", 0777), 0);
	assert_int_equal(run(f, &e), GT_EIO);
	assert_int_equal(rmdir("out.safetensors.index.json"), 0);
	assert_int_equal(rename("index", "out.safetensors.index.json"), 0);
	assert_true(has_names(f, "out.safetensors.index.json", "old.e.w"));
	assert_int_equal(count_names("*.tmp-*"), 0);
	assert_int_equal(run(f, &e), 0);
	assert_true(has_names(f, "out.safetensors.index.json", "module.e.w"));
	assert_int_equal(count_names("*"), 8);
}

static void a_save_in_shards_appears_whole(void **state)
{
	static const float data[8] = { 0 };
	static const int64_t four = 4;
	const struct gt_ckpt_write_options options = { .shard_bytes = 16, .no_sync = true };
	struct fixture *f = *state;
	struct gt_tree *root = gt_tree_dict(&f->arena, &f->err);

	gt_tree_set(root, "a", gt_tree_tensor(&f->arena, GT_F32, 1, &four, data, &f->err),
	    &f->arena, &f->err);
	gt_tree_set(root, "b", gt_tree_tensor(&f->arena, GT_F32, 1, &four, data + 4, &f->err),
	    &f->arena, &f->err);
	assert_int_equal(mkdir("m.safetensors.index.json", 0777), 0);
	assert_int_equal(
	    gt_ckpt_write("m.safetensors", "safetensors", root, &options, &f->err), GT_EIO);
	assert_int_equal(count_names("*"), 1);
	assert_int_equal(rmdir("m.safetensors.index.json"), 0);
	assert_int_equal(gt_ckpt_write("m.safetensors", "safetensors", root, &options, &f->err), 0);
	assert_int_equal(count_names("*"), 3);
}

static void shards_that_change_are_refused(void **state)
{
	static const char *const files[] = { "m.safetensors.index.json",
		"m-00001-of-00003.safetensors", "m-00003-of-00003.safetensors" };
	struct fixture *f = *state;

	save(f, "m.safetensors", "safetensors", "", 32);
	for (size_t i = 0; i < COUNT(files); i++) {
		struct edit e = { .kind = GT_EDIT_ADD,
			.input = files[0],
			.output = "out.safetensors",
			.overwritten = files[i] };
		char command[64];

		assert_int_equal(run(f, &e), GT_EIO);
		assert_non_null(strstr(f->err.text, "has changed since it was opened"));
		assert_int_equal(count_names("out*"), 0);
		snprintf(command, sizeof(command), "touch %s", files[i]);
		assert_int_equal(system(command), 0);
	}
}

/* ---- repair ---- */

static void repair_waits_for_nobody(void **state)
{
	struct fixture *f = *state;
	struct edit e = { .kind = GT_EDIT_ADD, .input = "m.pth" };
	struct gt_repair repair;
	struct stat st;
	off_t torn;
	int fd;

	save(f, e.input, "torch-zip", "", 0);
	assert_int_equal(run(f, &e), 0);
	assert_int_equal(stat(e.input, &st), 0);
	torn = st.st_size - 5;
	assert_int_equal(truncate(e.input, torn), 0);
	fd = open(e.input, O_RDONLY);
	assert_int_equal(flock(fd, LOCK_SH), 0);
	assert_int_equal(gt_repair(&repair, e.input, 0, &f->err), GT_EIO);
	assert_non_null(strstr(f->err.text, "is being edited by process"));
	assert_int_equal(stat(e.input, &st), 0);
	assert_int_equal(st.st_size, torn);
	close(fd);
	assert_int_equal(gt_repair(&repair, e.input, 0, &f->err), 0);
	assert_int_equal(stat(e.input, &st), 0);
	assert_true(st.st_size < torn);
	assert_true(has_names(f, e.input, "a.w"));
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_FOLDER(links_stay_links),
		IN_FOLDER(folders_can_be_edited),
		IN_FOLDER(syncs_only_if_asked),
		IN_FOLDER(shards_sync_only_if_asked),
		IN_FOLDER(locks_that_fail),
		IN_FOLDER(a_header_half_written_is_put_back),
		IN_FOLDER(a_torn_header_is_not_opened),
		IN_FOLDER(shards_appear_together),
		IN_FOLDER(a_save_in_shards_appears_whole),
		IN_FOLDER(shards_that_change_are_refused),
		IN_FOLDER(repair_waits_for_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
