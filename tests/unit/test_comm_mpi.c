/* test_comm_mpi.c - groups on MPI: the other groups' tests once more, started by mpirun. */
#include "tests/unit/comm_fixture.h"

#include <limits.h>

/* ---- the tests of groups, with these numbers of ranks ---- */

static const struct {
	const char *program;
	int size;
} runs[] = {
	{ "test_comm_shm", 1 },
	{ "test_comm_shm", 2 },
	{ "test_comm_shm", 3 },
	{ "test_comm_shm", 4 },
	{ "test_comm_group", 1 },
	{ "test_comm_group", 2 },
	{ "test_comm_group", 3 },
	{ "test_comm_failures", 2 },
	{ "test_comm_failures", 3 },
};

static void folder_of_tests(char *path, size_t size)
{
	ssize_t n = readlink("/proc/self/exe", path, size - 1);

	assert_true(n > 0);
	path[n] = '\0';
	*strrchr(path, '/') = '\0';
}

static bool can_run(void)
{
	char folder[PATH_MAX], path[PATH_MAX + 32];

	folder_of_tests(folder, sizeof(folder));
	snprintf(path, sizeof(path), "%s/../libgtrain-mpi.so", folder);
	return !access(path, R_OK) && !system("command -v mpirun >/dev/null");
}

/* A table in a file: the barrier in it is for so many ranks. */
static void write_table(const char *path, int size)
{
	struct table *t = new_table(size);
	FILE *f = fopen(path, "wb");

	assert_non_null(f);
	assert_int_equal(fwrite(t, sizeof(*t), 1, f), 1);
	assert_int_equal(fclose(f), 0);
	munmap(t, sizeof(*t));
}

/*
 * MPI leaks, partly by libraries that it has closed, which cannot be told from others. The ranks'
 * own lines are not in the form that is counted, as each test has several.
 */
static void test_as_other_groups(void **state)
{
	char folder[PATH_MAX], table[] = "/tmp/gtrain-test-mpi.XXXXXX", command[2 * PATH_MAX];
	int fd;

	(void)state;
	if (!can_run()) {
		print_message("skipped: mpirun: not installed, or no mpicc when this was built\n");
		skip();
	}
	fd = mkstemp(table);
	assert_true(fd >= 0);
	close(fd);
	folder_of_tests(folder, sizeof(folder));
	setenv("GTRAIN_TEST_TABLE", table, 1);
	for (size_t i = 0; i < sizeof(runs) / sizeof(*runs); i++) {
		int status;

		write_table(table, runs[i].size);
		snprintf(command, sizeof(command),
		    "ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 CMOCKA_MESSAGE_OUTPUT=STDOUT "
		    "mpirun --allow-run-as-root --oversubscribe --bind-to none -n %d '%s/%s' "
		    "</dev/null 1>&2",
		    runs[i].size, folder, runs[i].program);
		status = system(command);
		if (status) {
			unlink(table);
			fail_msg("%s on %d ranks: status %d", runs[i].program, runs[i].size,
			    WEXITSTATUS(status));
		}
	}
	unsetenv("GTRAIN_TEST_TABLE");
	unlink(table);
}

/* ---- without it ---- */

static void test_no_library(void **state)
{
	struct gt_messenger *mpi;
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	setenv("GTRAIN_MPI", "/nowhere/libgtrain-mpi.so", 1);
	assert_int_equal(gt_mpi_open(&mpi, &err), GT_EDEVICE);
	assert_null(mpi);
	assert_non_null(strstr(err.text, "cannot open MPI: /nowhere"));
	assert_non_null(strstr(err.hint, "openmpi-bin"));
	setenv("GTRAIN_MPI", "libc.so.6", 1);
	assert_int_equal(gt_mpi_open(&mpi, &err), GT_EDEVICE);
	assert_non_null(strstr(err.text, "'libc.so.6' is not of this version"));
	unsetenv("GTRAIN_MPI");
	gt_messenger_free(mpi);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_as_other_groups),
		cmocka_unit_test(test_no_library),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
