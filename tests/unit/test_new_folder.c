/* test_new_folder.c - folders appear whole or not at all, and leave nothing behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/new_folder.h"
#include "tests/common/planted.h"

#define COUNT(a) (sizeof(a) / sizeof(*(a)))

enum { PATH_SIZE = 400 };

static char root[PLANTED_ROOT];

static int enter(void **state)
{
	(void)state;
	planted_make(root, &(struct planted_file){ 0 });
	return chdir(root);
}

static int leave(void **state)
{
	(void)state;
	if (chdir("/"))
		return -1;
	planted_remove(root);
	return 0;
}

static int count_names(const char *folder)
{
	DIR *dir = opendir(folder);
	int count = 0;

	assert_non_null(dir);
	for (struct dirent *e; (e = readdir(dir));)
		count += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
	closedir(dir);
	return count;
}

static void write_plain(const char *path)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fclose(f), 0);
}

/* Put a file into the new folder, whole. */
static void put(const struct gt_new_folder *f, const char *name)
{
	char *path = gt_folder_path(&f->folder, name, GT_ERR_IGNORED);
	struct gt_atomic_file file;

	assert_int_equal(
	    gt_atomic_open_at(&file, (struct gt_file_name){ &f->folder, path }, GT_ERR_IGNORED), 0);
	assert_int_equal(gt_atomic_commit(&file, GT_ERR_IGNORED), 0);
	free(path);
}

static bool exists(const char *path)
{
	struct stat st;

	return !lstat(path, &st);
}

static void a_folder_appears_when_it_is_committed(void **state)
{
	static const char *const paths[] = { "new", "slashes//", "./here", "sub/new" };
	char path[PATH_SIZE];

	(void)state;
	assert_int_equal(mkdir("sub", 0777), 0);
	for (size_t i = 0; i < COUNT(paths); i++) {
		struct gt_err err = GT_ERR_INIT;
		struct gt_new_folder f;

		if (gt_new_folder_open(&f, paths[i], &err))
			fail_msg("%s", err.text);
		put(&f, "a");
		put(&f, "b");
		assert_false(exists(paths[i]));
		snprintf(path, sizeof(path), "%s/a", f.folder.path);
		assert_true(exists(path)); /* the path that it tells is good for now */
		assert_int_equal(gt_new_folder_commit(&f, i % 2, &err), 0);
		assert_null(f.folder.path);
		assert_int_equal(count_names(paths[i]), 2);
		gt_new_folder_abandon(&f);
		assert_int_equal(count_names(paths[i]), 2);
	}
	assert_int_equal(count_names("."), 4);
	assert_int_equal(count_names("sub"), 1);
}

static void an_abandoned_folder_leaves_nothing(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_new_folder f;

	(void)state;
	assert_int_equal(gt_new_folder_open(&f, "new", &err), 0);
	put(&f, "a");
	gt_new_folder_abandon(&f);
	gt_new_folder_abandon(&f);
	assert_int_equal(count_names("."), 0);
}

static void a_name_that_is_taken_is_refused(void **state)
{
	static const struct {
		const char *path, *says;
	} cases[] = {
		{ "file", "cannot make the folder 'file'" },
		{ "empty", "cannot make the folder 'empty'" },
		{ "link/", "cannot make the folder 'link'" },
		{ "none/new", "cannot write 'none/new'" },
		{ "file/new", "cannot write 'file/new'" },
	};

	(void)state;
	write_plain("file");
	assert_int_equal(mkdir("empty", 0777), 0);
	assert_int_equal(symlink("nowhere", "link"), 0);
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct gt_err err = GT_ERR_INIT;
		struct gt_new_folder f;

		assert_int_equal(gt_new_folder_open(&f, cases[i].path, &err), GT_EIO);
		assert_null(f.folder.path);
		if (!strstr(err.text, cases[i].says))
			fail_msg("\"%s\"", err.text);
		assert_int_equal(count_names("."), 3);
	}
}

/* Another process may have made one of this name meanwhile: that one stays whole. */
static void a_folder_that_comes_in_the_way_stays(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_new_folder f;

	(void)state;
	assert_int_equal(gt_new_folder_open(&f, "new", &err), 0);
	put(&f, "mine");
	assert_int_equal(mkdir("new", 0777), 0);
	write_plain("new/theirs");
	assert_int_equal(gt_new_folder_commit(&f, false, &err), GT_EIO);
	assert_non_null(strstr(err.text, "to 'new'"));
	assert_int_equal(count_names("."), 1);
	assert_int_equal(count_names("new"), 1);
	assert_true(exists("new/theirs"));
}

/* A new folder takes the name of an old one, which goes with its files. */
static void an_old_folder_is_replaced(void **state)
{
	(void)state;
	assert_int_equal(mkdir("in", 0777), 0);
	for (int turn = 0; turn < 2; turn++) {
		struct gt_err err = GT_ERR_INIT;
		struct gt_folder in;
		struct gt_new_folder f;

		assert_int_equal(gt_folder_open(&in, "in", &err), 0);
		assert_int_equal(
		    gt_new_folder_open_at(&f, (struct gt_file_name){ &in, "in/new" }, true, &err),
		    0);
		put(&f, turn ? "second" : "first");
		assert_int_equal(exists("in/new/first"), turn);
		if (gt_new_folder_commit(&f, false, &err))
			fail_msg("%s", err.text);
		assert_int_equal(count_names("in"), 1);
		assert_int_equal(count_names("in/new"), 1);
		assert_true(exists(turn ? "in/new/second" : "in/new/first"));
		gt_folder_close(&in);
	}
}

static void a_folder_is_removed_with_its_files(void **state)
{
	const struct gt_file_name old = { .path = "old" };
	struct gt_err err = GT_ERR_INIT;
	char aside[60];

	(void)state;
	assert_int_equal(mkdir("old", 0777), 0);
	write_plain("old/a");
	write_plain("old/b");
	/* a name that another removal has left */
	snprintf(aside, sizeof(aside), "old.tmp-%d-0", (int)getpid());
	assert_int_equal(mkdir(aside, 0777), 0);
	snprintf(aside, sizeof(aside), "old.tmp-%d-0/x", (int)getpid());
	write_plain(aside);
	assert_int_equal(gt_new_folder_remove(old, &err), 0);
	assert_int_equal(count_names("."), 1);
	assert_int_equal(gt_new_folder_remove(old, &err), 0);
	assert_int_equal(count_names("."), 1);
}

/* ---- processes that end ---- */

/* The number of a process that has ended. */
static int dead_pid(void)
{
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	return pid;
}

static void folders_of_dead_processes_go(void **state)
{
	static const struct {
		const char *format;
		bool stays;
	} cases[] = {
		{ "new.tmp-%d-0", false },
		{ "new.tmp-%d-7", false },
		{ "other.tmp-%d-0", true },
		{ "new.tmp-%d-0.old", true },
		{ "new.tmp-%d", true },
	};
	struct gt_err err = GT_ERR_INIT;
	char path[PATH_SIZE], name[COUNT(cases)][60], alive[40];
	struct gt_new_folder f;
	int pid = dead_pid();

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		snprintf(name[i], sizeof(name[i]), cases[i].format, pid);
		assert_int_equal(mkdir(name[i], 0777), 0);
		snprintf(path, sizeof(path), "%s/model.safetensors", name[i]);
		write_plain(path);
	}
	snprintf(alive, sizeof(alive), "new.tmp-%d-0", (int)getppid());
	assert_int_equal(mkdir(alive, 0777), 0);
	assert_int_equal(gt_new_folder_open(&f, "new", &err), 0);
	for (size_t i = 0; i < COUNT(cases); i++)
		if (exists(name[i]) != cases[i].stays)
			fail_msg("'%s' %s", name[i], cases[i].stays ? "is gone" : "stays");
	assert_true(exists(alive));
	gt_new_folder_abandon(&f);
}

/* A number that is dead here may be alive on another machine; and folders are no files. */
static void locked_folders_and_files_stay(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	char locked[60], file[60];
	struct gt_atomic_file plain;
	struct gt_new_folder f;
	int pid = dead_pid(), fd;

	(void)state;
	snprintf(locked, sizeof(locked), "new.tmp-%d-0", pid);
	snprintf(file, sizeof(file), "new.tmp-%d-1", pid);
	assert_int_equal(mkdir(locked, 0777), 0);
	write_plain(file);
	fd = open(locked, O_RDONLY | O_DIRECTORY);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	assert_int_equal(gt_new_folder_open(&f, "new", &err), 0);
	gt_new_folder_abandon(&f);
	assert_true(exists(locked) && exists(file));
	close(fd);
	assert_int_equal(gt_atomic_open(&plain, "new", &err), 0);
	gt_atomic_abandon(&plain);
	assert_true(exists(locked) && !exists(file));
}

/* The folder is one thread's, while another ends the process. */
static void the_end_of_the_process_removes_it(void **state)
{
	pid_t pid = fork();
	int status;

	(void)state;
	if (!pid) {
		struct gt_err err = GT_ERR_INIT;
		struct gt_new_folder f;
		struct gt_atomic_file half;
		char *path;

		if (gt_new_folder_open(&f, "new", &err))
			_exit(1);
		put(&f, "whole");
		path = gt_folder_path(&f.folder, "half", &err);
		if (gt_atomic_open_at(&half, (struct gt_file_name){ &f.folder, path }, &err) ||
		    count_names(f.folder.path) != 2)
			_exit(2);
		gt_atomic_end();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(count_names("."), 0);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, enter, leave)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_FOLDER(a_folder_appears_when_it_is_committed),
		IN_FOLDER(an_abandoned_folder_leaves_nothing),
		IN_FOLDER(a_name_that_is_taken_is_refused),
		IN_FOLDER(a_folder_that_comes_in_the_way_stays),
		IN_FOLDER(an_old_folder_is_replaced),
		IN_FOLDER(a_folder_is_removed_with_its_files),
		IN_FOLDER(folders_of_dead_processes_go),
		IN_FOLDER(locked_folders_and_files_stay),
		IN_FOLDER(the_end_of_the_process_removes_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
