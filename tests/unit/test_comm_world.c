/* test_comm_world.c - a process's rank by each launcher's variables: a table of environments. */
#include "lib/comm/comm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* An environment is one text of NAME=VALUE, each ended by a zero, as in environ. */
static const char *get(void *self, const char *name)
{
	size_t n = strlen(name);

	for (const char *p = self; *p; p += strlen(p) + 1)
		if (!strncmp(p, name, n) && p[n] == '=')
			return p + n + 1;
	return NULL;
}

#define TF(task)                                                                                   \
	"TF_CONFIG={\"cluster\":{\"chief\":[\"a:1\"],\"worker\":[\"b:2\",\"a:3\",\"[::1]:4\"]},"   \
	"\"task\":" task "}\0"
#define TORCH "WORLD_SIZE=4\0LOCAL_WORLD_SIZE=2\0MASTER_ADDR=h\0MASTER_PORT=29500\0"
#define OMPI                                                                                       \
	"OMPI_COMM_WORLD_RANK=3\0OMPI_COMM_WORLD_SIZE=4\0OMPI_COMM_WORLD_LOCAL_RANK=1\0"           \
	"OMPI_COMM_WORLD_LOCAL_SIZE=2\0"
#define SLURM "SLURM_PROCID=3\0SLURM_LOCALID=1\0SLURM_NTASKS=4\0SLURM_NODEID=1\0"

/* The variables, and their meaning: source, rank/size, local, address. Port 0: any of a job. */
static const struct {
	const char *env;
	enum gt_world_source source;
	int rank, size, local_rank, local_size;
	const char *address;
	int port;
} good[] = {
	{ "", GT_WORLD_ALONE, 0, 1, 0, 1, "", 0 },
	{ "RANK=\0MASTER_ADDR=h\0", GT_WORLD_ALONE, 0, 1, 0, 1, "", 0 },

	{ TORCH "GTRAIN_RESTART=2\0RANK=3\0LOCAL_RANK=1\0" OMPI, GT_WORLD_GTRAIN, 3, 4, 1, 2, "h",
	    29500 },
	{ TORCH "RANK=3\0LOCAL_RANK=1\0" OMPI, GT_WORLD_TORCHRUN, 3, 4, 1, 2, "h", 29500 },
	{ TORCH "RANK=0\0LOCAL_RANK=0\0TORCHELASTIC_USE_AGENT_STORE=True\0", GT_WORLD_TORCHRUN, 0,
	    4, 0, 2, "h", 29501 },
	{ TORCH "RANK=0\0LOCAL_RANK=0\0TORCHELASTIC_USE_AGENT_STORE=False\0", GT_WORLD_TORCHRUN, 0,
	    4, 0, 2, "h", 29500 },
	{ "RANK=0\0WORLD_SIZE=1\0", GT_WORLD_TORCHRUN, 0, 1, 0, 1, "", 0 },
	{ "RANK=2\0WORLD_SIZE=3\0MASTER_ADDR=127.0.0.1\0MASTER_PORT=1\0", GT_WORLD_TORCHRUN, 2, 3,
	    2, 3, "127.0.0.1", 1 },
	{ "RANK=2\0WORLD_SIZE=3\0LOCAL_RANK=2\0MASTER_ADDR=localhost\0MASTER_PORT=9\0",
	    GT_WORLD_TORCHRUN, 2, 3, 2, 3, "localhost", 9 },
	{ "RANK=2\0WORLD_SIZE=3\0MASTER_ADDR=192.0.2.7\0MASTER_PORT=65535\0", GT_WORLD_TORCHRUN, 2,
	    3, 0, 1, "192.0.2.7", 65535 },
	{ "RANK=2\0WORLD_SIZE=3\0MASTER_ADDR=[::1]\0MASTER_PORT=5\0", GT_WORLD_TORCHRUN, 2, 3, 2, 3,
	    "::1", 5 },
	{ "RANK=1\0WORLD_SIZE=2\0MASTER_ADDR=0.0.0.0\0MASTER_PORT=5\0", GT_WORLD_TORCHRUN, 1, 2, 1,
	    2, "0.0.0.0", 5 },

	/* One of torchrun's variables, left over. */
	{ "RANK=0\0", GT_WORLD_ALONE, 0, 1, 0, 1, "", 0 },
	{ "WORLD_SIZE=1\0MASTER_ADDR=h\0MASTER_PORT=5\0", GT_WORLD_ALONE, 0, 1, 0, 1, "", 0 },
	{ "WORLD_SIZE=1\0LOCAL_RANK=0\0", GT_WORLD_ALONE, 0, 1, 0, 1, "", 0 },
	{ "WORLD_SIZE=4\0" OMPI, GT_WORLD_MPI, 3, 4, 1, 2, "", 0 },
	{ "RANK=0\0" OMPI, GT_WORLD_MPI, 3, 4, 1, 2, "", 0 },
	{ "WORLD_SIZE=4\0MASTER_ADDR=m\0MASTER_PORT=5\0SLURM_TASKS_PER_NODE=2(x2)\0" SLURM,
	    GT_WORLD_SLURM, 3, 4, 1, 2, "m", 5 },
	{ "WORLD_SIZE=4\0" TF("{\"type\":\"chief\",\"index\":0}"), GT_WORLD_TF_CONFIG, 0, 4, 0, 2,
	    "a", 1 },

	/* Both, but the same for all tasks of another launcher. */
	{ "RANK=0\0WORLD_SIZE=4\0LOCAL_RANK=0\0MASTER_ADDR=m\0MASTER_PORT=5\0"
	  "SLURM_TASKS_PER_NODE=2(x2)\0" SLURM,
	    GT_WORLD_SLURM, 3, 4, 1, 2, "m", 5 },
	{ "RANK=0\0WORLD_SIZE=4\0MASTER_ADDR=m\0MASTER_PORT=5\0" OMPI, GT_WORLD_MPI, 3, 4, 1, 2,
	    "m", 5 },
	/* srun starts torchrun once per node, or a job of its own in each task. */
	{ TORCH "RANK=2\0LOCAL_RANK=0\0" SLURM, GT_WORLD_TORCHRUN, 2, 4, 0, 2, "h", 29500 },
	{ "RANK=0\0WORLD_SIZE=1\0" SLURM, GT_WORLD_TORCHRUN, 0, 1, 0, 1, "", 0 },

	{ OMPI, GT_WORLD_MPI, 3, 4, 1, 2, "", 0 },
	{ OMPI "MASTER_ADDR=fe80::1%eth0\0MASTER_PORT=7\0", GT_WORLD_MPI, 3, 4, 1, 2,
	    "fe80::1%eth0", 7 },
	{ "OMPI_COMM_WORLD_RANK=1\0OMPI_COMM_WORLD_SIZE=2\0OMPI_COMM_WORLD_LOCAL_RANK=1\0"
	  "OMPI_COMM_WORLD_LOCAL_SIZE=2\0PMIX_NAMESPACE=1234\0",
	    GT_WORLD_MPI, 1, 2, 1, 2, "127.0.0.1", 0 },
	{ "PMI_RANK=1\0PMI_SIZE=2\0MPI_LOCALRANKID=1\0MPI_LOCALNRANKS=2\0", GT_WORLD_MPI, 1, 2, 1,
	    2, "127.0.0.1", 0 },
	{ "PMI_RANK=1\0PMI_SIZE=2\0MPI_LOCALRANKID=1\0", GT_WORLD_MPI, 1, 2, 1, 2, "127.0.0.1", 0 },
	{ "PMI_RANK=5\0PMI_SIZE=8\0PMI_LOCAL_RANK=1\0PMI_LOCAL_SIZE=4\0MASTER_ADDR=n0\0",
	    GT_WORLD_MPI, 5, 8, 1, 4, "n0", 0 },
	{ "PMI_RANK=1\0PMI_SIZE=2\0", GT_WORLD_MPI, 1, 2, 1, 2, "127.0.0.1", 0 },

	{ SLURM "SLURM_NTASKS_PER_NODE=2\0SLURM_JOB_NODELIST=node[01-03],x5\0", GT_WORLD_SLURM, 3,
	    4, 1, 2, "node01", 0 },
	{ SLURM "SLURM_TASKS_PER_NODE=2(x2)\0SLURM_JOB_NODELIST=a1,b[2-3]\0", GT_WORLD_SLURM, 3, 4,
	    1, 2, "a1", 0 },
	{ SLURM "SLURM_TASKS_PER_NODE=1,3\0SLURM_JOB_NODELIST=r[2,4]n[07-9]-ib\0", GT_WORLD_SLURM,
	    3, 4, 1, 3, "r2n07-ib", 0 },
	{ SLURM "SLURM_STEP_NUM_TASKS=6\0SLURM_STEP_TASKS_PER_NODE=4,2\0SLURM_STEP_NODELIST=z9\0"
	        "SLURM_TASKS_PER_NODE=9\0SLURM_JOB_NODELIST=a\0SLURM_TASK_PID=4\0PMI_RANK=3\0",
	    GT_WORLD_SLURM, 3, 6, 1, 2, "z9", 0 },
	{ SLURM "SLURM_TASKS_PER_NODE=2(x2)\0MASTER_ADDR=m\0MASTER_PORT=5\0", GT_WORLD_SLURM, 3, 4,
	    1, 2, "m", 5 },
	{ "SLURM_PROCID=1\0SLURM_LOCALID=1\0SLURM_NTASKS=2\0SLURM_NTASKS_PER_NODE=2\0"
	  "SLURM_JOB_NODELIST=n1\0",
	    GT_WORLD_SLURM, 1, 2, 1, 2, "127.0.0.1", 0 },
	{ "SLURM_PROCID=1\0SLURM_LOCALID=1\0SLURM_NTASKS=2\0SLURM_NTASKS_PER_NODE=8\0"
	  "SLURM_JOB_NODELIST=n1\0",
	    GT_WORLD_SLURM, 1, 2, 1, 2, "127.0.0.1", 0 },
	{ "SLURM_PROCID=1\0SLURM_LOCALID=1\0SLURM_NTASKS=2\0", GT_WORLD_SLURM, 1, 2, 1, 2,
	    "127.0.0.1", 0 },
	{ "SLURM_PROCID=0\0SLURM_LOCALID=0\0SLURM_NTASKS=4\0SLURM_TASK_PID=77\0", GT_WORLD_ALONE, 0,
	    1, 0, 1, "", 0 },                                      /* a batch script */
	{ "SLURM_NTASKS=4\0", GT_WORLD_ALONE, 0, 1, 0, 1, "", 0 }, /* salloc's shell */

	{ TF("{\"type\":\"chief\",\"index\":0}"), GT_WORLD_TF_CONFIG, 0, 4, 0, 2, "a", 1 },
	{ TF("{\"type\":\"worker\",\"index\":0}"), GT_WORLD_TF_CONFIG, 1, 4, 0, 1, "a", 1 },
	{ TF("{\"type\":\"worker\",\"index\":\"1\"}"), GT_WORLD_TF_CONFIG, 2, 4, 1, 2, "a", 1 },
	{ "TF_CONFIG={\"cluster\":{\"worker\":[\"[::1]:8\",\"[::1]:9\"],\"ps\":[\"p:1\"]},"
	  "\"task\":{\"type\":\"worker\",\"index\":1}}\0",
	    GT_WORLD_TF_CONFIG, 1, 2, 1, 2, "::1", 8 },
	{ "TF_CONFIG={\"cluster\":{\"worker\":[\"a:8\"]},"
	  "\"task\":{\"type\":\"worker\",\"index\":0}}\0",
	    GT_WORLD_TF_CONFIG, 0, 1, 0, 1, "", 0 },
};

static void environments_say_who_one_is(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		struct gt_err err = GT_ERR_INIT;
		struct gt_world w;

		if (gt_world_from(&w, get, (void *)good[i].env, &err))
			fail_msg("case %zu: %s", i, err.text);
		if (w.source != good[i].source || w.rank != good[i].rank ||
		    w.size != good[i].size || w.local_rank != good[i].local_rank ||
		    w.local_size != good[i].local_size || strcmp(w.address, good[i].address) != 0)
			fail_msg("case %zu: %s %d/%d %d/%d '%s'", i, gt_world_source_name(w.source),
			    w.rank, w.size, w.local_rank, w.local_size, w.address);
		if (good[i].port || w.size == 1)
			assert_int_equal(w.port, good[i].port);
		else
			assert_in_range(w.port, 15000, 29999);
	}
}

/* The fault, and the words that the message must have. */
static const struct {
	const char *env, *text;
} bad[] = {
	{ "RANK=1\0", "RANK=1, but WORLD_SIZE is not set" },
	{ "RANK=x\0", "RANK='x': not a number" },
	{ "WORLD_SIZE=2\0", "WORLD_SIZE=2, but RANK is not set" },
	{ "WORLD_SIZE=0\0", "WORLD_SIZE=0, but RANK is not set" },
	{ "WORLD_SIZE=-1\0", "WORLD_SIZE=-1: not from 0" },
	{ "WORLD_SIZE=2\0" OMPI, "WORLD_SIZE=2, but mpi has started 4 ranks" },
	{ "WORLD_SIZE=1\0SLURM_TASKS_PER_NODE=4\0SLURM_NODEID=0\0SLURM_PROCID=1\0SLURM_NTASKS=4\0",
	    "WORLD_SIZE=1, but slurm has started 4 ranks" },
	{ TORCH "RANK=4\0LOCAL_RANK=0\0", "RANK=4: not below WORLD_SIZE=4" },
	{ TORCH "RANK=-1\0LOCAL_RANK=0\0", "RANK=-1: not from 0" },
	{ TORCH "RANK=1x\0LOCAL_RANK=0\0", "RANK='1x': not a number" },
	{ TORCH "RANK=0x1\0LOCAL_RANK=0\0", "RANK='0x1': not a number" },
	{ TORCH "RANK= 1\0LOCAL_RANK=0\0", "RANK=' 1': not a number" },
	{ TORCH "RANK=99999999999999999999\0LOCAL_RANK=0\0", "RANK='9999" },
	{ TORCH "RANK=1\0LOCAL_RANK=2\0", "LOCAL_RANK=2: not from 0 to 1" },
	{ TORCH "RANK=1\0", "LOCAL_RANK is not set" },
	{ "RANK=0\0WORLD_SIZE=0\0", "WORLD_SIZE=0: not from 1" },
	{ "RANK=0\0WORLD_SIZE=4000\0", "WORLD_SIZE=4000: not from 1 to 1024" },
	{ "RANK=0\0WORLD_SIZE=2\0LOCAL_RANK=0\0LOCAL_WORLD_SIZE=3\0",
	    "LOCAL_WORLD_SIZE=3: not from 1 to 2" },
	{ "RANK=0\0WORLD_SIZE=2\0LOCAL_RANK=0\0LOCAL_WORLD_SIZE=2\0", "MASTER_ADDR is not set" },
	{ "RANK=0\0WORLD_SIZE=2\0LOCAL_RANK=0\0MASTER_ADDR=192.0.2.7\0MASTER_PORT=1\0",
	    "LOCAL_WORLD_SIZE is not set" },
	{ "RANK=0\0WORLD_SIZE=2\0MASTER_ADDR=192.0.2.7\0", "MASTER_PORT is not set" },
	{ "RANK=0\0WORLD_SIZE=2\0MASTER_ADDR=192.0.2.7\0MASTER_PORT=65536\0",
	    "MASTER_PORT=65536: not from" },
	{ "RANK=0\0WORLD_SIZE=2\0MASTER_ADDR=192.0.2.7\0MASTER_PORT=0\0",
	    "MASTER_PORT=0: not from" },
	{ "RANK=0\0WORLD_SIZE=2\0MASTER_ADDR=192.0.2.7\0MASTER_PORT=65535\0"
	  "TORCHELASTIC_USE_AGENT_STORE=True\0",
	    "MASTER_PORT=65535: not from 1 to 65534" },
	{ "GTRAIN_SECRET=0123456789012345678901234567890123456789012345678901234567890123x\0",
	    "GTRAIN_SECRET has 65 characters" },
	{ "GTRAIN_RESTART=-1\0RANK=0\0WORLD_SIZE=1\0", "GTRAIN_RESTART=-1" },
	{ "GTRAIN_RESTART=0\0RANK=0\0WORLD_SIZE=1\0GTRAIN_LISTEN_FD=1\0", "GTRAIN_LISTEN_FD=1" },

	{ "OMPI_COMM_WORLD_RANK=1\0", "OMPI_COMM_WORLD_SIZE is not set" },
	{ "PMI_RANK=2\0PMI_SIZE=2\0", "PMI_RANK=2: not below PMI_SIZE=2" },

	{ SLURM "SLURM_TASKS_PER_NODE=2(x2\0", "SLURM_TASKS_PER_NODE='2(x2': no count for node 1" },
	{ SLURM "SLURM_TASKS_PER_NODE=4\0", "SLURM_TASKS_PER_NODE='4': no count for node 1" },
	{ SLURM "SLURM_TASKS_PER_NODE=-1(x4)\0", "SLURM_TASKS_PER_NODE='-1(x4)'" },
	{ SLURM "SLURM_TASKS_PER_NODE=2(x2)\0", "neither MASTER_ADDR nor SLURM_JOB_NODELIST" },
	{ SLURM "SLURM_TASKS_PER_NODE=1(x4)\0", "SLURM_LOCALID=1: not from 0 to 0" },
	{ SLURM "SLURM_TASKS_PER_NODE=2(x2)\0SLURM_JOB_NODELIST=n[1-\0", "'n[1-' is not a list" },
	{ SLURM "SLURM_TASKS_PER_NODE=2(x2)\0SLURM_JOB_NODELIST=n[]\0", "'n[]' is not a list" },
	{ SLURM "SLURM_TASKS_PER_NODE=2(x2)\0SLURM_JOB_NODELIST=n]1\0", "'n]1' is not a list" },
	{ SLURM "SLURM_TASKS_PER_NODE=2(x2)\0SLURM_JOB_NODELIST=,a\0", "',a' is not a list" },

	{ "TF_CONFIG=[]\0", "not a JSON object" },
	{ "TF_CONFIG={\0", "not a JSON object" },
	{ "TF_CONFIG={}\0", "a cluster of 0 chiefs and 0 workers" },
	{ "TF_CONFIG={\"cluster\":{\"chief\":[\"a:1\",\"b:1\"]}}\0", "a cluster of 2 chiefs" },
	{ "TF_CONFIG={\"cluster\":{\"worker\":[\"a:1\"]}}\0", "task has no type" },
	{ TF("{\"type\":\"worker\"}"), "the index is not a number" },
	{ TF("{\"type\":\"worker\",\"index\":3}"), "task index 3, but the cluster has 3" },
	{ TF("{\"type\":\"worker\",\"index\":-1}"), "task index -1" },
	{ TF("{\"type\":\"ps\",\"index\":0}"), "task type 'ps' takes no part" },
	{ TF("{\"type\":\"gpu\",\"index\":0}"), "unknown task type 'gpu'" },
	{ "TF_CONFIG={\"cluster\":{\"worker\":[\"a:1\",7]},\"task\":{\"type\":\"worker\","
	  "\"index\":0}}\0",
	    "is not 'host:port'" },
	{ "TF_CONFIG={\"cluster\":{\"worker\":[\"a:1\",\"b:0\"]},\"task\":{\"type\":\"worker\","
	  "\"index\":0}}\0",
	    "'b:0' is not 'host:port'" },
	{ "TF_CONFIG={\"cluster\":{\"worker\":[\":1\",\"b:1\"]},\"task\":{\"type\":\"worker\","
	  "\"index\":0}}\0",
	    "an address of 0 characters" },
};

static void contradictions_are_named(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct gt_err err = GT_ERR_INIT;
		struct gt_world w;
		int rc = gt_world_from(&w, get, (void *)bad[i].env, &err);

		if (rc != err.code || (rc != GT_EINVAL && rc != GT_ENOTSUP) ||
		    !strstr(err.text, bad[i].text) || !err.hint[0])
			fail_msg("case %zu: %d '%s' (%s), not '%s'", i, rc, err.text, err.hint,
			    bad[i].text);
		assert_int_equal(w.size, 0);
	}
}

static void launchers_add_restarts_and_a_socket(void **state)
{
	static const char ours[] = "GTRAIN_RESTART=3\0RANK=0\0WORLD_SIZE=1\0GTRAIN_LISTEN_FD=9\0"
	                           "GTRAIN_SECRET=sesame\0";
	static const char torch[] = "RANK=0\0WORLD_SIZE=1\0GTRAIN_LISTEN_FD=9\0"
	                            "TORCHELASTIC_RESTART_COUNT=5\0";
	static const char slurm[] = "SLURM_PROCID=0\0SLURM_NTASKS=1\0SLURM_LOCALID=0\0"
	                            "SLURM_STEP_NUM_TASKS=1\0SLURM_RESTART_COUNT=2\0";
	struct gt_err err = GT_ERR_INIT;
	struct gt_world w;

	(void)state;
	assert_int_equal(gt_world_from(&w, get, (void *)slurm, &err), 0);
	assert_int_equal(w.restart, 2);
	assert_int_equal(gt_world_from(&w, get, (void *)ours, &err), 0);
	assert_int_equal(w.restart, 3);
	assert_int_equal(w.listen_fd, 9);
	assert_string_equal(w.secret, "sesame");
	assert_int_equal(gt_world_from(&w, get, (void *)torch, &err), 0);
	assert_int_equal(w.restart, 5);
	assert_int_equal(w.listen_fd, 0);
}

/* Ranks on several hosts derive a secret where none is given: the same on all ranks of a job,
 * another for other jobs. */
static void hosts_share_a_secret(void **state)
{
	static const char *const jobs[] = { TORCH "RANK=0\0LOCAL_RANK=0\0TORCHELASTIC_RUN_ID=7\0",
		TORCH "RANK=3\0LOCAL_RANK=1\0TORCHELASTIC_RUN_ID=7\0",
		TORCH "RANK=3\0LOCAL_RANK=1\0TORCHELASTIC_RUN_ID=8\0",
		("WORLD_SIZE=4\0LOCAL_WORLD_SIZE=2\0MASTER_ADDR=h\0MASTER_PORT=29501\0"
		 "RANK=3\0LOCAL_RANK=1\0TORCHELASTIC_RUN_ID=7\0") };
	struct gt_err err = GT_ERR_INIT;
	struct gt_world w[4];

	(void)state;
	for (int i = 0; i < 4; i++) {
		assert_int_equal(gt_world_from(&w[i], get, (void *)jobs[i], &err), 0);
		assert_true(w[i].derives_secret);
		assert_int_equal(strlen(w[i].secret), 64);
	}
	assert_string_equal(w[0].secret, w[1].secret);
	assert_string_not_equal(w[1].secret, w[2].secret);
	assert_string_not_equal(w[1].secret, w[3].secret);
}

/* Where no variable gives the number of ranks on a host, ranks have to compare their hosts, unless
 * rank 0 is at an address of the loopback interface. Only then is no secret needed. */
static void unknown_hosts_are_compared(void **state)
{
	static const struct {
		const char *env;
		bool assumes, derives;
	} rows[] = {
		{ "RANK=1\0WORLD_SIZE=2\0MASTER_ADDR=192.0.2.7\0MASTER_PORT=5\0", true, true },
		{ "RANK=1\0WORLD_SIZE=2\0MASTER_ADDR=0.0.0.0\0MASTER_PORT=5\0", true, true },
		{ "RANK=1\0WORLD_SIZE=2\0MASTER_ADDR=0.0.0.0\0MASTER_PORT=5\0GTRAIN_SECRET=s\0",
		    true, false },
		{ "RANK=1\0WORLD_SIZE=2\0MASTER_ADDR=[::1]\0MASTER_PORT=5\0", false, false },
		{ TORCH "RANK=3\0LOCAL_RANK=1\0GTRAIN_SECRET=s\0", false, false },
		{ OMPI, false, false },
		{ SLURM "SLURM_JOB_NODELIST=n[1-2]\0SLURM_TASKS_PER_NODE=2(x2)\0", false, true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct gt_err err = GT_ERR_INIT;
		struct gt_world w;

		if (gt_world_from(&w, get, (void *)rows[i].env, &err))
			fail_msg("case %zu: %s", i, err.text);
		if (w.assumes_hosts != rows[i].assumes || w.derives_secret != rows[i].derives)
			fail_msg("case %zu: %d %d", i, w.assumes_hosts, w.derives_secret);
	}
}

static void a_job_has_its_own_port(void **state)
{
	static const char *const jobs[] = { SLURM "SLURM_NTASKS_PER_NODE=4\0SLURM_JOB_ID=7\0",
		SLURM "SLURM_NTASKS_PER_NODE=4\0SLURM_JOB_ID=8\0",
		SLURM "SLURM_NTASKS_PER_NODE=4\0SLURM_JOB_ID=8\0SLURM_STEP_ID=1\0" };
	struct gt_err err = GT_ERR_INIT;
	struct gt_world w[3], again;

	(void)state;
	for (int i = 0; i < 3; i++)
		assert_int_equal(gt_world_from(&w[i], get, (void *)jobs[i], &err), 0);
	assert_int_equal(gt_world_from(&again, get, (void *)jobs[2], &err), 0);
	assert_int_equal(w[2].port, again.port);
	assert_int_not_equal(w[0].port, w[1].port);
	assert_int_not_equal(w[1].port, w[2].port);
}

/* mpirun can start the jobs that are an error on several hosts. */
static void mpirun_starts_them_too(void **state)
{
	static const struct {
		const char *env, *line;
	} lines[] = {
		{ "", "mpirun -n 1 gtrain x --y 1" },
		{ TORCH "RANK=0\0LOCAL_RANK=0\0", "mpirun -n 4 --host h:2,HOST2:2 gtrain x --y 1" },
		{ "RANK=0\0WORLD_SIZE=9\0MASTER_ADDR=192.0.2.7\0MASTER_PORT=1\0",
		    "mpirun -n 9 --hostfile FILE gtrain x --y 1" },
		{ OMPI, "mpirun -n 4 --host HOST1:2,HOST2:2 gtrain x --y 1" },
		{ SLURM "SLURM_TASKS_PER_NODE=2(x2)\0SLURM_JOB_NODELIST=n[1-2]\0",
		    "mpirun -n 4 gtrain x --y 1" },
		{ "TF_CONFIG={\"cluster\":{\"chief\":[\"a:1\"],\"worker\":[\"b:2\",\"a:3\"]},"
		  "\"task\":{\"type\":\"worker\",\"index\":0}}\0",
		    "mpirun -n 3 --host a:2,b:1 gtrain x --y 1" },
		{ TF("{\"type\":\"chief\",\"index\":0}"),
		    "mpirun -n 4 --host a:2,HOST2:2 gtrain x --y 1" },
	};
	char line[128];

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		struct gt_err err = GT_ERR_INIT;
		struct gt_world w;

		assert_int_equal(gt_world_from(&w, get, (void *)lines[i].env, &err), 0);
		gt_comm_mpirun_line(line, sizeof(line), &w, "gtrain x --y 1");
		assert_string_equal(line, lines[i].line);
	}
	/* Too long: words that are whole. */
	gt_comm_mpirun_line(
	    line, 30, &(struct gt_world){ .size = 4, .local_size = 4 }, "gtrain train --model a");
	assert_string_equal(line, "mpirun -n 4 gtrain train ...");
}

/* Own addresses and the own name are this host, others are not. */
static void the_own_name_is_this_host(void **state)
{
	char env[512] = "", name[200] = "";
	struct gt_err err = GT_ERR_INIT;
	struct gt_world w;

	(void)state;
	assert_int_equal(gethostname(name, sizeof(name) - 1), 0);
	/* The zero that ends MASTER_ADDR is the one of snprintf(); an empty text ends the rest. */
	memcpy(env, "RANK=1\0WORLD_SIZE=2\0MASTER_PORT=5", 34);
	snprintf(env + 34, sizeof(env) - 36, "MASTER_ADDR=%s", name);
	assert_int_equal(gt_world_from(&w, get, env, &err), 0);
	assert_int_equal(w.local_size, 2);
	assert_int_equal(w.local_rank, 1);
	assert_string_equal(w.address, name);
}

/* The public function asks the real environment. */
static void the_process_has_an_environment(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_world w;

	(void)state;
	assert_int_equal(setenv("RANK", "1", 1), 0);
	assert_int_equal(setenv("WORLD_SIZE", "2", 1), 0);
	assert_int_equal(setenv("MASTER_ADDR", "::1", 1), 0);
	assert_int_equal(setenv("MASTER_PORT", "29500", 1), 0);
	unsetenv("GTRAIN_RESTART");
	unsetenv("LOCAL_RANK");
	unsetenv("LOCAL_WORLD_SIZE");
	unsetenv("TORCHELASTIC_USE_AGENT_STORE");
	assert_int_equal(gt_world_from_environment(&w, &err), 0);
	assert_int_equal(w.source, GT_WORLD_TORCHRUN);
	assert_int_equal(w.local_rank, 1);
	assert_string_equal(w.address, "::1");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(environments_say_who_one_is),
		cmocka_unit_test(contradictions_are_named),
		cmocka_unit_test(launchers_add_restarts_and_a_socket),
		cmocka_unit_test(hosts_share_a_secret),
		cmocka_unit_test(unknown_hosts_are_compared),
		cmocka_unit_test(a_job_has_its_own_port),
		cmocka_unit_test(mpirun_starts_them_too),
		cmocka_unit_test(the_own_name_is_this_host),
		cmocka_unit_test(the_process_has_an_environment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
