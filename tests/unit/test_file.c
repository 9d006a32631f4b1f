/* test_file.c - files appear whole or not at all. */
#include "lib/base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Each test has its own empty folder, which is the current one while it runs. */
struct place {
	char folder[64];
};

static int enter(void **state)
{
	struct place *place = calloc(1, sizeof(*place));

	*state = place;
	if (!place)
		return -1;
	strcpy(place->folder, "/tmp/gtrain-test-file-XXXXXX");
	return mkdtemp(place->folder) ? chdir(place->folder) : -1;
}

static int leave(void **state)
{
	struct place *place = *state;
	char command[100];
	int rc;

	snprintf(command, sizeof(command), "rm -rf '%s'", place->folder);
	rc = chdir("/") || system(command);
	free(place);
	return rc;
}

/* Names in the current folder, without . and .. */
static int count_names(void)
{
	DIR *dir = opendir(".");
	int n = 0;

	assert_non_null(dir);
	for (struct dirent *e; (e = readdir(dir));)
		n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
	closedir(dir);
	return n;
}

static void write_plain(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static void assert_holds(const char *path, const char *text)
{
	struct gt_mapping map;

	assert_int_equal(gt_map(&map, path, NULL), 0);
	assert_int_equal(map.size, strlen(text));
	assert_memory_equal(map.data, text, map.size);
	gt_unmap(&map);
	assert_null(map.data);
}

static void commit_replaces_the_file_at_once(void **state)
{
	struct gt_atomic_file f;
	struct stat st;

	(void)state;
	write_plain("file", "old");
	assert_int_equal(gt_atomic_open(&f, "file", NULL), 0);
	assert_true(fputs("new and longer", f.stream) >= 0);
	assert_int_equal(fflush(f.stream), 0);
	assert_holds("file", "old");
	assert_int_equal(gt_atomic_commit(&f, NULL), 0);
	assert_holds("file", "new and longer");
	assert_int_equal(stat("file", &st), 0);
	assert_int_equal(st.st_mode & 0777, 0644);
	assert_int_equal(count_names(), 1);
}

static void abandon_leaves_the_old_file(void **state)
{
	struct gt_atomic_file f;

	(void)state;
	write_plain("file", "old");
	assert_int_equal(gt_atomic_open(&f, "file", NULL), 0);
	assert_int_equal(count_names(), 2);
	assert_true(fputs("new", f.stream) >= 0);
	gt_atomic_abandon(&f);
	assert_holds("file", "old");
	assert_int_equal(count_names(), 1);
	gt_atomic_abandon(&f); /* twice is fine */
}

/* As cp and torch.save() write: the link stays, whether there is something at its end or not. */
static void links_are_written_through(void **state)
{
	static const struct {
		const char *target, *file; /* of the link; where that is */
	} cases[] = { { "folder/file", "folder/file" }, { "../here", "here" },
		{ "folder/other", "folder/missing" } };
	struct stat st;

	(void)state;
	assert_int_equal(mkdir("folder", 0777), 0);
	write_plain("folder/file", "old");
	assert_int_equal(symlink("missing", "folder/other"), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *link = i == 1 ? "folder/link" : "link";
		struct gt_atomic_file f;

		assert_int_equal(symlink(cases[i].target, link), 0);
		assert_int_equal(gt_atomic_open(&f, link, NULL), 0);
		assert_true(fputs("new", f.stream) >= 0);
		assert_int_equal(gt_atomic_commit(&f, NULL), 0);
		assert_holds(cases[i].file, "new");
		assert_int_equal(lstat(link, &st), 0);
		assert_true(S_ISLNK(st.st_mode));
		assert_int_equal(unlink(link), 0);
	}
	assert_int_equal(lstat("folder/other", &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_int_equal(count_names(), 2);
}

static void a_circle_of_links_is_an_error(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_atomic_file f;

	(void)state;
	assert_int_equal(symlink("b", "a"), 0);
	assert_int_equal(symlink("a", "b"), 0);
	assert_int_equal(gt_atomic_open(&f, "a", &err), GT_EIO);
	assert_non_null(strstr(err.text, "symbolic links"));
	assert_int_equal(count_names(), 2);
}

static void a_replaced_file_keeps_owner_and_mode(void **state)
{
	struct gt_atomic_file f;
	struct stat st;

	(void)state;
	write_plain("file", "old");
	assert_int_equal(chmod("file", 0600), 0);
	if (chown("file", 1000, 1001)) {
		print_message("only root can give files away\n");
		skip();
	}
	assert_int_equal(gt_atomic_open(&f, "file", NULL), 0);
	assert_int_equal(gt_atomic_commit(&f, NULL), 0);
	assert_int_equal(stat("file", &st), 0);
	assert_int_equal(st.st_uid, 1000);
	assert_int_equal(st.st_gid, 1001);
	assert_int_equal(st.st_mode & 07777, 0600);
}

/* The limit on a file's size stands in for a full disk. */
static void a_write_that_fails_leaves_the_old_file(void **state)
{
	struct rlimit old, tight;
	struct gt_err err = GT_ERR_INIT;
	struct gt_atomic_file f;
	int rc;

	(void)state;
	write_plain("file", "old");
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	tight = (struct rlimit){ .rlim_cur = 10000, .rlim_max = old.rlim_max };
	assert_int_equal(gt_atomic_open(&f, "file", NULL), 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
	for (int i = 0; i < 50000; i++)
		putc('x', f.stream);
	rc = gt_atomic_commit(&f, &err);
	setrlimit(RLIMIT_FSIZE, &old);
	assert_int_equal(rc, GT_EIO);
	assert_non_null(strstr(err.text, "cannot write 'file'"));
	assert_holds("file", "old");
	assert_int_equal(count_names(), 1);
}

static void a_folder_that_cannot_be_written_is_an_error(void **state)
{
	/* The last two hold for every user, root too. */
	static const char *const paths[] = { "missing/file", "plain/file", "/proc/self/file" };

	(void)state;
	write_plain("plain", "");
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		struct gt_err err = GT_ERR_INIT;
		struct gt_atomic_file f;

		assert_int_equal(gt_atomic_open(&f, paths[i], &err), GT_EIO);
		assert_non_null(strstr(err.text, paths[i]));
		assert_null(f.stream);
	}
	assert_int_equal(count_names(), 1);
}

/* At once, before the content is computed. */
static void only_files_are_replaced(void **state)
{
	static const struct {
		const char *path, *text;
	} cases[] = { { "folder", "cannot write: 'folder' is a directory, not a regular file" },
		{ "/dev/null", "cannot write: '/dev/null' is a device or pipe" } };
	struct gt_atomic_file f;

	(void)state;
	assert_int_equal(mkdir("folder", 0777), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct gt_err err = GT_ERR_INIT;

		assert_int_equal(gt_atomic_open(&f, cases[i].path, &err), GT_EIO);
		assert_non_null(strstr(err.text, cases[i].text));
		assert_null(f.stream);
	}
	assert_int_equal(count_names(), 1);
}

/* The links in /proc look like others, but their text is the name that a file had when it was
 * opened. */
static void open_files_are_not_replaced(void **state)
{
	int log = open("log", O_RDWR | O_CREAT | O_CLOEXEC, 0666), ends[2], gone;
	const int *descriptors[] = { &log, &gone, &ends[0], &ends[1] };
	static const char *const names[] = { "/proc/self/fd/%d", "/dev/fd/%d", "link" };

	(void)state;
	write_plain("log", "earlier");
	gone = open("gone", O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	assert_true(log >= 0 && gone >= 0);
	assert_int_equal(unlink("gone"), 0);
	assert_int_equal(pipe(ends), 0);
	for (size_t i = 0; i < 4; i++) {
		for (size_t k = 0; k < 3; k++) {
			struct gt_err err = GT_ERR_INIT;
			struct gt_atomic_file f;
			char target[40], path[40], text[100];

			snprintf(target, sizeof(target), names[0], *descriptors[i]);
			snprintf(path, sizeof(path), names[k], *descriptors[i]);
			assert_int_equal(symlink(target, "link"), 0);
			assert_int_equal(gt_atomic_open(&f, path, &err), GT_EIO);
			snprintf(text, sizeof(text),
			    "cannot write: '%s' is an open file, not the name of one", path);
			assert_string_equal(err.text, text);
			assert_null(f.stream);
			assert_int_equal(unlink("link"), 0);
		}
		close(*descriptors[i]);
	}
	assert_holds("log", "earlier");
	assert_int_equal(count_names(), 1);
}

/* Other links in /proc are refused for the cause that their target gives. */
static void links_in_proc_need_not_be_open_files(void **state)
{
	static const struct {
		const char *path, *text;
	} cases[] = {
		{ "/proc/self", "'/proc/self' is a directory" },
		{ "/proc/self/cwd", "'/proc/self/cwd' is a directory" },
		{ "/proc/mounts", "cannot write '/proc/self/mounts': " },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct gt_err err = GT_ERR_INIT;
		struct gt_atomic_file f;

		assert_int_equal(gt_atomic_open(&f, cases[i].path, &err), GT_EIO);
		if (!strstr(err.text, cases[i].text))
			fail_msg("%s: \"%s\"", cases[i].path, err.text);
		assert_null(f.stream);
	}
}

static void a_folder_that_comes_in_the_way_is_an_error_at_commit(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_atomic_file f;

	(void)state;
	assert_int_equal(gt_atomic_open(&f, "taken", NULL), 0);
	assert_int_equal(mkdir("taken", 0777), 0);
	assert_int_equal(gt_atomic_commit(&f, &err), GT_EIO);
	assert_non_null(strstr(err.text, "'taken'"));
	assert_int_equal(count_names(), 1);
}

/* ---- files that processes leave behind ---- */

/* The number of a process that is no more. */
static int dead_pid(void)
{
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	return pid;
}

static void files_of_dead_processes_are_removed(void **state)
{
	static const char *const kept[] = { "file.tmp-%d", "file.tmp-%d-", "file.tmp-%d-x",
		"file.tmp-%d-1x", "file.tmp-0%d-0", "file.tmp--%d-0", "file.tmp-x%d-0",
		"file2.tmp-%d-0", "xfile.tmp-%d-0", "file.tmp-%d-0.pth" };
	static const char *const folders[] = { "", "./", "sub/" };
	struct gt_atomic_file f;
	char name[100];

	(void)state;
	assert_int_equal(mkdir("sub", 0777), 0);
	for (size_t i = 0; i < 3; i++) {
		int pid = dead_pid(), names;

		for (size_t k = 0; k < sizeof(kept) / sizeof(*kept); k++) {
			snprintf(name, sizeof(name), kept[k], pid);
			write_plain(name, "");
		}
		snprintf(name, sizeof(name), "file.tmp-%d-0", getppid());
		write_plain(name, "");
		write_plain("file.tmp-1-0", "");
		names = count_names();
		for (int n = 0; n < 3; n++) {
			snprintf(name, sizeof(name), "%sfile.tmp-%d-%d", folders[i], pid, n);
			write_plain(name, "");
		}
		snprintf(name, sizeof(name), "%sfile", folders[i]);
		assert_int_equal(gt_atomic_open(&f, name, NULL), 0);
		gt_atomic_abandon(&f);
		assert_int_equal(count_names(), names);
		assert_int_equal(rmdir("sub") || mkdir("sub", 0777), 0); /* it is empty */
	}
}

/* A number that is dead here may be alive on another machine. */
static void locked_files_are_kept(void **state)
{
	struct gt_atomic_file f;
	char name[100];
	int fd;

	(void)state;
	snprintf(name, sizeof(name), "file.tmp-%d-0", dead_pid());
	write_plain(name, "");
	fd = open(name, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	assert_int_equal(gt_atomic_open(&f, "file", NULL), 0);
	assert_int_equal(flock(fileno(f.stream), LOCK_EX | LOCK_NB), 0);
	assert_int_equal(count_names(), 2);
	gt_atomic_abandon(&f);
	close(fd);
	assert_int_equal(gt_atomic_open(&f, "file", NULL), 0);
	assert_int_equal(count_names(), 1);
	gt_atomic_abandon(&f);
}

static void the_end_leaves_no_temporary_files(void **state)
{
	pid_t pid = fork();
	int status;

	(void)state;
	assert_true(pid >= 0);
	if (!pid) {
		struct gt_atomic_file f[3];

		alarm(10);
		for (int i = 0; i < 3; i++) {
			char name[] = { 'a' + (char)i, '\0' };

			if (gt_atomic_open(&f[i], name, NULL) || fputs("x", f[i].stream) < 0)
				_exit(1);
		}
		if (gt_atomic_commit(&f[0], NULL) || gt_atomic_finish(&f[2], NULL))
			_exit(2);
		if (count_names() != 3)
			_exit(3);
		gt_atomic_end();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(count_names(), 1);
	assert_holds("a", "x");
}

/* ---- several files ---- */

static void open_three(struct gt_atomic_file *f)
{
	static const char *const names[] = { "a", "b", "index" };

	for (int i = 0; i < 3; i++) {
		assert_int_equal(gt_atomic_open(&f[i], names[i], NULL), 0);
		assert_true(fputs("new", f[i].stream) >= 0);
	}
}

static void several_files_appear_together(void **state)
{
	struct gt_atomic_file f[3];

	(void)state;
	write_plain("b", "old");
	open_three(f);
	assert_int_equal(gt_atomic_finish(&f[1], NULL), 0);
	assert_holds("b", "old");
	assert_int_equal(gt_atomic_commit_all(f, 3, NULL), 0);
	assert_holds("a", "new");
	assert_holds("b", "new");
	assert_holds("index", "new");
	assert_int_equal(count_names(), 3);
}

/* The last write fails first. */
static void an_error_in_one_of_several_leaves_all(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_atomic_file f[3];

	(void)state;
	write_plain("a", "old");
	open_three(f);
	close(fileno(f[2].stream));
	assert_int_equal(gt_atomic_commit_all(f, 3, &err), GT_EIO);
	assert_non_null(strstr(err.text, "cannot write 'index'"));
	assert_holds("a", "old");
	assert_int_equal(count_names(), 1);
}

/* The window that is left: but the one that names the others is unchanged. */
static void an_error_between_renames_leaves_the_last(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_atomic_file f[3];

	(void)state;
	write_plain("index", "old");
	open_three(f);
	assert_int_equal(mkdir("b", 0777), 0);
	assert_int_equal(gt_atomic_commit_all(f, 3, &err), GT_EIO);
	assert_non_null(strstr(err.text, "to 'b'"));
	assert_holds("a", "new");
	assert_holds("index", "old");
	assert_int_equal(count_names(), 3);
}

/* Names that the file system takes, of all lengths at which the temporary name is too long. */
static void the_longest_names_can_be_written(void **state)
{
	static const char *const folders[] = { "", "./", "sub/" };
	char base[NAME_MAX + 1], path[NAME_MAX + 8], left[NAME_MAX + 40];
	struct gt_atomic_file f;

	(void)state;
	assert_int_equal(mkdir("sub", 0777), 0);
	for (int length = 230; length <= NAME_MAX; length++) {
		for (size_t i = 0; i < 3; i++) {
			int start = length % 2, names = count_names();

			/* Characters of two bytes, after one of one byte or none. */
			memset(base, 'x', (size_t)length);
			for (int k = start; k + 1 < length; k += 2)
				memcpy(base + k, "\u00e9", 2);
			base[length] = '\0';
			snprintf(path, sizeof(path), "%s%s", folders[i], base);
			assert_int_equal(gt_atomic_open(&f, path, NULL), 0);
			assert_int_equal(access(f.temporary, F_OK), 0);
			/* The same name with the number of a dead process is removed. */
			snprintf(left, sizeof(left), "%.*s.tmp-%d-0",
			    (int)(strstr(f.temporary, ".tmp-") - f.temporary), f.temporary,
			    dead_pid());
			gt_atomic_abandon(&f);
			write_plain(left, "");
			assert_int_equal(gt_atomic_open(&f, path, NULL), 0);
			assert_int_not_equal(access(left, F_OK), 0);
			assert_true(fputs("text", f.stream) >= 0);
			assert_int_equal(gt_atomic_commit(&f, NULL), 0);
			assert_holds(path, "text");
			assert_int_equal(unlink(path), 0);
			assert_int_equal(count_names(), names);
		}
	}
}

static void directories_are_made_with_their_parents(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	struct stat st;

	(void)state;
	assert_int_equal(gt_make_dirs("a/b/c", NULL), 0);
	assert_int_equal(gt_make_dirs("a/b/c", NULL), 0);
	assert_int_equal(gt_make_dirs("a/b//d/", NULL), 0);
	assert_int_equal(stat("a/b/c", &st), 0);
	assert_true(S_ISDIR(st.st_mode));
	write_plain("a/plain", "");
	assert_int_equal(gt_make_dirs("a/plain", &err), GT_EIO);
	assert_non_null(strstr(err.text, "is not a directory"));
	assert_int_equal(gt_make_dirs("a/plain/sub", &err), GT_EIO);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, enter, leave)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_FOLDER(commit_replaces_the_file_at_once),
		IN_FOLDER(abandon_leaves_the_old_file),
		IN_FOLDER(links_are_written_through),
		IN_FOLDER(a_circle_of_links_is_an_error),
		IN_FOLDER(a_replaced_file_keeps_owner_and_mode),
		IN_FOLDER(a_write_that_fails_leaves_the_old_file),
		IN_FOLDER(a_folder_that_cannot_be_written_is_an_error),
		IN_FOLDER(only_files_are_replaced),
		IN_FOLDER(open_files_are_not_replaced),
		IN_FOLDER(links_in_proc_need_not_be_open_files),
		IN_FOLDER(a_folder_that_comes_in_the_way_is_an_error_at_commit),
		IN_FOLDER(files_of_dead_processes_are_removed),
		IN_FOLDER(locked_files_are_kept),
		IN_FOLDER(the_end_leaves_no_temporary_files),
		IN_FOLDER(several_files_appear_together),
		IN_FOLDER(an_error_in_one_of_several_leaves_all),
		IN_FOLDER(an_error_between_renames_leaves_the_last),
		IN_FOLDER(the_longest_names_can_be_written),
		IN_FOLDER(directories_are_made_with_their_parents),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
