/* test_folder.c - files in an open folder: no link is followed, no pipe is waited for. */
#include "lib/base/folder.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/base/file.h"

/* Each test works in a folder of its own, which holds the folder `in`, open, and a file outside. */
struct place {
	char path[64];
	struct gt_folder in;
	struct gt_err err;
};

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

	assert_int_equal(gt_map(&map, path, GT_ERR_IGNORED), 0);
	assert_int_equal(map.size, strlen(text));
	assert_memory_equal(map.data, text, map.size);
	gt_unmap(&map);
}

static int enter(void **state)
{
	struct place *p = calloc(1, sizeof(*p));

	*state = p;
	if (!p)
		return -1;
	strcpy(p->path, "/tmp/gtrain-test-folder-XXXXXX");
	if (!mkdtemp(p->path) || chdir(p->path) || mkdir("in", 0777))
		return -1;
	write_plain("outside", "precious");
	return gt_folder_open(&p->in, "in", &p->err);
}

static int leave(void **state)
{
	struct place *p = *state;
	char command[100];
	int rc;

	gt_folder_close(&p->in);
	gt_folder_close(&p->in); /* twice is fine */
	snprintf(command, sizeof(command), "rm -rf '%s'", p->path);
	rc = chdir("/") || system(command);
	free(p);
	return rc;
}

static struct gt_file_name file_in(const struct place *p, const char *path)
{
	return (struct gt_file_name){ &p->in, path };
}

/* ---- things in the place of a file ---- */

static int make_link(const char *path)
{
	return symlink("../outside", path);
}

static int make_dangling(const char *path)
{
	return symlink("../nothing", path);
}

static int make_pipe(const char *path)
{
	return mkfifo(path, 0666);
}

static int make_folder(const char *path)
{
	return mkdir(path, 0777);
}

static int make_socket(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), rc;

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	rc = bind(fd, (struct sockaddr *)&address, sizeof(address));
	close(fd);
	return rc;
}

static const struct {
	int (*make)(const char *path);
	const char *text;
	bool followed; /* as a path of the user's, it is read */
} kinds[] = {
	{ make_link, "'in/x' is a symbolic link, not a regular file", true },
	{ make_dangling, "'in/x' is a symbolic link, not a regular file", false },
	{ make_pipe, "'in/x' is a device or pipe, not a regular file", false },
	{ make_folder, "'in/x' is a directory, not a regular file", false },
	{ make_socket, "'in/x' is a socket, not a regular file", false },
};

static int map_it(struct gt_file_name file, struct gt_err *err)
{
	struct gt_mapping map;
	int rc = gt_map_at(&map, file, err);

	gt_unmap(&map);
	return rc;
}

static int replace_it(struct gt_file_name file, struct gt_err *err)
{
	struct gt_atomic_file f;
	int rc = gt_atomic_open_at(&f, file, err);

	gt_atomic_abandon(&f);
	return rc;
}

static int append_to_it(struct gt_file_name file, struct gt_err *err)
{
	int fd, rc = gt_file_open(&fd, file, O_WRONLY | O_APPEND | O_CREAT, err);

	if (!rc)
		close(fd);
	else
		assert_int_equal(fd, -1);
	return rc;
}

static int check_it(struct gt_file_name file, struct gt_err *err)
{
	bool found;

	return gt_file_check(file, NULL, &found, err);
}

static void only_regular_files_are_opened(void **state)
{
	static int (*const uses[])(
	    struct gt_file_name, struct gt_err *) = { map_it, replace_it, append_to_it, check_it };
	struct place *p = *state;

	alarm(20); /* a pipe that is waited for ends the test */
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		assert_int_equal(kinds[i].make("in/x"), 0);
		assert_true(gt_file_exists(file_in(p, "in/x")));
		for (size_t j = 0; j < sizeof(uses) / sizeof(*uses); j++) {
			p->err = GT_ERR_INIT;
			assert_int_equal(uses[j](file_in(p, "in/x"), &p->err), GT_EIO);
			if (!strstr(p->err.text, kinds[i].text))
				fail_msg("%zu, %zu: %s", i, j, p->err.text);
		}
		assert_int_equal(map_it((struct gt_file_name){ .path = "in/x" }, &p->err),
		    kinds[i].followed ? 0 : GT_EIO);
		assert_int_equal(remove("in/x"), 0);
		assert_holds("outside", "precious");
		assert_int_not_equal(access("nothing", F_OK), 0);
	}
	alarm(0);
}

static void folders_are_made_and_no_link_to_one_is_followed(void **state)
{
	struct place *p = *state;
	struct gt_folder sub;

	assert_int_equal(gt_folder_open_in(&sub, &p->in, "a", false, &p->err), 0);
	assert_null(sub.path);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(gt_folder_open_in(&sub, &p->in, "a", true, &p->err), 0);
		assert_string_equal(sub.path, "in/a");
		gt_folder_close(&sub);
	}
	assert_int_equal(symlink("a", "in/link"), 0);
	assert_int_equal(symlink("none", "in/dangling"), 0);
	write_plain("in/file", "");
	for (int make = 0; make < 2; make++) {
		assert_int_equal(gt_folder_open_in(&sub, &p->in, "link", make, &p->err), GT_EIO);
		assert_string_equal(p->err.text, "'in/link' is a symbolic link, not a directory");
		assert_int_equal(
		    gt_folder_open_in(&sub, &p->in, "dangling", make, &p->err), GT_EIO);
		assert_int_equal(gt_folder_open_in(&sub, &p->in, "file", make, &p->err), GT_EIO);
		assert_string_equal(p->err.text, "'in/file' is a file, not a directory");
	}
	assert_int_not_equal(access("in/none", F_OK), 0);
}

/* ---- a folder that moves ---- */

/* The open folder counts, not the path that it once had. */
static void files_follow_the_folder(void **state)
{
	struct place *p = *state;
	struct gt_atomic_file f;

	write_plain("in/x", "old");
	assert_int_equal(gt_atomic_open_at(&f, file_in(p, "in/x"), &p->err), 0);
	assert_int_equal(rename("in", "moved"), 0);
	assert_int_equal(mkdir("in", 0777), 0);
	assert_true(fputs("new", f.stream) >= 0);
	assert_holds("moved/x", "old");
	assert_int_equal(gt_atomic_commit(&f, &p->err), 0);
	assert_holds("moved/x", "new");
	assert_int_equal(rmdir("in"), 0); /* nothing got there */
	assert_int_equal(chdir("/"), 0);
	assert_int_equal(gt_atomic_open_at(&f, file_in(p, "in/x"), &p->err), 0);
	gt_atomic_abandon(&f);
	assert_int_equal(chdir(p->path), 0);
	assert_int_equal(unlink("moved/x"), 0);
	assert_int_equal(rmdir("moved"), 0);
}

static void the_end_of_the_process_removes_temporaries_wherever_they_are(void **state)
{
	struct place *p = *state;
	int status;
	pid_t child = fork();

	if (!child) {
		struct gt_atomic_file f;

		if (gt_atomic_open_at(&f, file_in(p, "in/x"), &p->err) ||
		    access(f.temporary, F_OK) || rename("in", "moved") || chdir("/"))
			_exit(1);
		gt_atomic_end();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(rmdir("moved"), 0);
}

/* ---- two paths ---- */

static const struct {
	const char *path, *other;
	bool same, below;
} pairs[] = {
	{ "outside", "outside", true, false },
	{ "outside", "in", false, false },
	{ "in", "./in/", true, false },
	{ "link", "outside", true, false },
	{ "hard", "outside", true, false },
	{ "nothing", "nothing", false, false },
	{ "in/new", "in", false, true },
	{ "in/deep/new", "in", false, true },
	{ "in/../new", "in", false, false },
	{ "new", ".", false, true },
	{ "in/new", "nothing", false, false },
	{ "in/no/such/new/", "in", false, true }, /* folders that do not exist yet */
	{ "in//new//", "in", false, true },
	{ "no/such/new", "in", false, false },
	{ "no/such/new", ".", false, true },
	{ "away/new", "in", false, true }, /* `away` leads to in/deep */
	{ "into", "in", false, true },     /* a link to in/file */
	{ "in/out", "in", false, true },   /* a link to `outside` */
	{ "/new", "/", false, true },
};

static void paths_are_compared(void **state)
{
	(void)state;
	write_plain("in/file", "");
	assert_int_equal(mkdir("in/deep", 0777), 0);
	assert_int_equal(symlink("outside", "link"), 0);
	assert_int_equal(symlink("in/deep", "away"), 0);
	assert_int_equal(symlink("in/file", "into"), 0);
	assert_int_equal(symlink("../outside", "in/out"), 0);
	assert_int_equal(link("outside", "hard"), 0);
	for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
		if (gt_file_is_same(pairs[i].path, pairs[i].other) != pairs[i].same ||
		    gt_file_is_below(pairs[i].path, pairs[i].other) != pairs[i].below)
			fail_msg("'%s' and '%s'", pairs[i].path, pairs[i].other);
	}
}

/* ---- outputs and inputs ---- */

static const struct {
	const char *path, *input, *says; /* says NULL: may be written */
} outputs[] = {
	{ "outside", "outside", "'outside' is an input, and would be overwritten" },
	{ "plain", "outside", NULL },
	{ "in/new", "in", "'in/new' is in the input folder 'in'" },
	{ "plain", "in", NULL },
	{ "new", "in", NULL },
	{ "outside", "in", "'outside' is an input, and would be overwritten" }, /* by in/a/out */
	{ "way", "in", "'way' is an input, and would be overwritten" },         /* to `outside` */
	{ "class/1", "in", "'class/1' is an input, and would be overwritten" }, /* by in/a/class */
	{ "class/2", "in", NULL },                                              /* does not exist */
	{ "class", "in", NULL }, /* a folder, which cannot be written */
	{ "plain", "nothing", NULL },
	{ "class/2", "links", "'class/2' is in the input folder 'links/class'" },
	{ "class/no/such", "links", "'class/no/such' is in the input folder 'links/class'" },
	{ "class", "links", "'class' is in the input folder 'links/class'" },
	{ "links", "links", "'links' is in the input folder 'links'" },
	{ "new", "links", NULL },
};

static void outputs_are_no_inputs(void **state)
{
	(void)state;
	assert_int_equal(mkdir("in/a", 0777), 0);
	assert_int_equal(mkdir("class", 0777), 0);
	write_plain("plain", "");
	assert_int_equal(mkdir("links", 0777), 0);
	write_plain("class/1", "");
	assert_int_equal(symlink("../class", "links/class"), 0);
	assert_int_equal(symlink("../plain", "links/plain"), 0);
	assert_int_equal(symlink("../../outside", "in/a/out"), 0);
	assert_int_equal(symlink("outside", "way"), 0);
	assert_int_equal(symlink("../../class", "in/a/class"), 0);
	assert_int_equal(symlink("..", "in/a/round"), 0);
	assert_int_equal(symlink("missing", "in/a/dangling"), 0);
	for (size_t i = 0; i < sizeof(outputs) / sizeof(*outputs); i++) {
		struct gt_err err = GT_ERR_INIT;
		int rc = gt_file_check_not_input(outputs[i].path, outputs[i].input, &err);

		if (rc != (outputs[i].says ? GT_EINVAL : 0) ||
		    strcmp(err.text, outputs[i].says ? outputs[i].says : "") != 0)
			fail_msg("'%s' and '%s': %s", outputs[i].path, outputs[i].input, err.text);
	}
}

/* It cannot be a file of the folder, and a large folder takes long to list. */
static void a_device_is_not_searched_for(void **state)
{
	int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	char events[4096];

	(void)state;
	assert_int_equal(mkdir("in/a", 0777), 0);
	assert_true(inotify_add_watch(watch, "in/a", IN_OPEN) >= 0);
	assert_int_equal(gt_file_check_not_input("/dev/null", "in", GT_ERR_IGNORED), 0);
	assert_int_equal(read(watch, events, sizeof(events)), -1);
	assert_int_equal(gt_file_check_not_input("outside", "in", GT_ERR_IGNORED), 0);
	assert_true(read(watch, events, sizeof(events)) > 0);
	close(watch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(only_regular_files_are_opened, enter, leave),
		cmocka_unit_test_setup_teardown(
		    folders_are_made_and_no_link_to_one_is_followed, enter, leave),
		cmocka_unit_test_setup_teardown(files_follow_the_folder, enter, leave),
		cmocka_unit_test_setup_teardown(paths_are_compared, enter, leave),
		cmocka_unit_test_setup_teardown(outputs_are_no_inputs, enter, leave),
		cmocka_unit_test_setup_teardown(a_device_is_not_searched_for, enter, leave),
		cmocka_unit_test_setup_teardown(
		    the_end_of_the_process_removes_temporaries_wherever_they_are, enter, leave),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
