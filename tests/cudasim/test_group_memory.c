/* test_group_memory.c - the device memory of groups: as plans count it, and as GPUs give it. */
#include "tests/cudasim/gpu_ranks.h"

#include "kernels/cuda/core/last_block.h"
#include "lib/comm/launch/threads.h"
#include "lib/train/state.h"

/*
 * Each stream has scratch memory, which plans count neither for a device's streams nor for those of
 * a group. A ring has one of its own, and a group by way of the host three, and no other memory of
 * the device.
 */
enum { FEWER_STREAMS = 2 * (GT_CUDA_SCRATCH_BYTES + GT_CUDA_BLOCK_COUNTER_BYTES) };

/* Bytes taken of all simulated GPUs; the calling thread is then on GPU `index` again. */
static uint64_t taken_of_all(int index)
{
	struct gt_err err = GT_ERR_INIT;
	uint64_t sum = 0;

	for (int i = 0; i < gt_cuda_backend.count(); i++) {
		uint64_t available, total;

		if (gt_cuda_backend.enter(i, &err) ||
		    gt_cuda_backend.memory(i, &available, &total, &err))
			fail_msg("%s", err.text);
		sum += total - available;
	}
	assert_int_equal(gt_cuda_backend.enter(index, &err), 0);
	return sum;
}

/* ---- a group ---- */

/* Slots as long as runs have them: another address than by_ring's. */
static const struct gt_device_way_options long_ring = { .name = "ring" },
                                          by_host = { .name = GT_WAY_BY_HOST };

static uint64_t taken, counted;

/* All ranks have opened their groups when one looks, and none closes its own before. */
static int look(struct rank *r)
{
	uint64_t bytes = 0;

	pthread_barrier_wait(r->barrier);
	if (!r->index)
		taken = taken_of_all(r->d->index);
	if (!gt_device_way_add_memory(&bytes, &r->way, r->d, r->ranks))
		return stop_with(r, "memory that is not known");
	__atomic_add_fetch(&counted, bytes, __ATOMIC_RELAXED);
	pthread_barrier_wait(r->barrier);
	return 0;
}

static void rings_take_the_counted_memory(void **state)
{
	static const char *const sizes[] = { "1073741824", "600000000", "3000000" };

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		for (int ranks = 1; ranks <= MOST; ranks++)
			for (int gpus = 1; gpus <= ranks; gpus++) {
				const struct site host = { &by_host, gpus, false },
				                  ring = { &long_ring, gpus, false };
				uint64_t without;

				setenv("CUDASIM_MEMORY", sizes[i], 1);
				counted = 0;
				run_well(&host, ranks, look);
				assert_int_equal(counted, 0);
				without = taken;
				run_well(&ring, ranks, look);
				if (ranks > 1)
					without -= (uint64_t)(ranks * FEWER_STREAMS);
				assert_int_equal(taken - without, counted);
				assert_true((counted > 0) == (ranks > 1));
			}
	unsetenv("CUDASIM_MEMORY");
}

static int expect_unknown(struct rank *r)
{
	uint64_t bytes = 7;

	return gt_device_way_add_memory(&bytes, &r->way, r->d, r->ranks) || bytes != 7
	           ? stop_with(r, "a figure for NCCL")
	           : 0;
}

static void the_memory_of_nccl_is_not_known(void **state)
{
	(void)state;
	run_well(&nccl_of_threads, 2, expect_unknown);
}

/* ---- a run ---- */

struct mode {
	const char *model;
	int ranks, gpus;
	int groups[MOST]; /* of two ranks or more, that each rank is in */
	struct gt_parallel_options parallel;
};

#define GPT "gpt:layers=2,heads=2,width=16,block=4,vocab=13,dropout=0.1"
#define MLP "mlp:20,30,10"

static const struct mode modes[] = {
	{ MLP, 1, 1, { 0 }, { .kind = GT_PARALLEL_DDP } },
	/* the world */
	{ MLP, 2, 1, { 1, 1 }, { .kind = GT_PARALLEL_DDP } },
	{ MLP, 3, 3, { 1, 1, 1 }, { .kind = GT_PARALLEL_MIRRORED } },
	{ MLP, 2, 2, { 1, 1 }, { .kind = GT_PARALLEL_DP } },
	{ GPT, 2, 2, { 1, 1 }, { .kind = GT_PARALLEL_ZERO3 } },
	{ GPT, 2, 1, { 1, 1 }, { .kind = GT_PARALLEL_DDP, .tensor = 2 } },
	/* the world, ranks with the same samples, and with other samples */
	{ GPT, 4, 2, { 3, 3, 3, 3 }, { .kind = GT_PARALLEL_DDP, .tensor = 2 } },
	{ GPT, 4, 2, { 3, 3, 3, 3 }, { .kind = GT_PARALLEL_ZERO1, .tensor = 2 } },
	/* the world, two links, the embedding that is the head, too */
	{ GPT, 2, 2, { 4, 4 }, { .kind = GT_PARALLEL_DDP, .stages = 2 } },
	/* and two links more of the stage between, which has neither embedding nor head */
	{ GPT, 3, 3, { 4, 5, 4 }, { .kind = GT_PARALLEL_DDP, .stages = 3 } },
	/* and the stages of the same samples, and the ranks of a stage */
	{ GPT, 4, 4, { 6, 6, 6, 6 }, { .kind = GT_PARALLEL_DDP, .stages = 2 } },
	/* and ranks whose results are their own */
	{ GPT, 4, 4, { 7, 7, 7, 7 }, { .kind = GT_PARALLEL_DDP, .stages = 2, .tensor = 2 } },
};

enum { MODES = sizeof(modes) / sizeof(*modes) };

/* The memory of every rank as it is described, all that is taken then, and the memory that each
 * may use. */
struct course {
	struct gt_train_options options;
	struct gt_session_memory memory[MOST];
	uint64_t taken, free_bytes[MOST];
	int sharing[MOST];
};

static struct gt_train_options options_of(const struct mode *m, const char *way)
{
	struct gt_train_options options = { .where.devices = "cuda",
		.model = m->model,
		.data = "random:,samples=120",
		.steps = 1,
		.batch = 12 / m->ranks,
		.accumulate = 1,
		.nproc = m->ranks,
		.optim = { .kind = GT_ADAMW, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8 },
		.lr_schedule = { .lr = 1e-3 },
		.prefetch = 2,
		.workers = 1,
		.parallel = m->parallel };

	options.parallel.bucket_bytes = 4096;
	options.where.way = way;
	return options;
}

static struct gt_train *open_run(struct gt_train_options *options, bool dry, struct gt_err *err)
{
	static struct gt_log silent = { .level = GT_LOG_QUIET };
	struct gt_train *t;

	return gt_train_open(&t, options, dry, &silent, err) ? NULL : t;
}

static int open_and_look(void *self, struct gt_group *group, struct gt_err *err)
{
	struct course *c = self;
	struct gt_train_options options = c->options;
	struct gt_train *t;
	int rc;

	options.where.group = group;
	options.where.host_rank = group->rank;
	t = open_run(&options, false, err);
	if (!t)
		return err->code;
	gt_train_memory(&c->memory[group->rank], t);
	c->free_bytes[group->rank] = t->s.free_bytes;
	c->sharing[group->rank] = t->s.sharing;
	rc = gt_barrier(group, err);
	if (!rc && !group->rank)
		c->taken = taken_of_all(t->s.device->index);
	if (!rc)
		rc = gt_barrier(group, err);
	gt_train_close(t);
	return rc;
}

static void run(struct course *c, const struct mode *m, const char *way)
{
	static const struct gt_threads_options threads = { .shm = { .timeout_s = 60 } };
	struct gt_err err = GT_ERR_INIT;

	*c = (struct course){ .options = options_of(m, way) };
	if (gt_threads_run(m->ranks, &threads, open_and_look, c, &err))
		fail_msg("%s, %d ranks, %s: %s", m->model, m->ranks, way, err.text);
}

static void set_gpus(int count)
{
	char text[8];

	snprintf(text, sizeof(text), "%d", count);
	setenv("CUDASIM_DEVICES", text, 1);
}

/* The streams by which the groups of the ranks on this GPU are fewer with rings: in bytes. */
static uint64_t fewer_on(const struct mode *m, int gpu)
{
	uint64_t bytes = 0;

	for (int r = gpu; r < m->ranks; r += m->gpus)
		bytes += (uint64_t)m->groups[r] * FEWER_STREAMS;
	return bytes;
}

/*
 * With rings a run takes as much more as its ranks count for them; and its ranks find the memory
 * that they would find without, although the rings have taken some by then.
 */
static void runs_take_the_described_memory(void **state)
{
	(void)state;
	for (int i = 0; i < MODES; i++) {
		const struct mode *m = &modes[i];
		struct course ring, host;
		uint64_t with = 0, without = 0, rings = 0;
		uint64_t fewer = 0;

		set_gpus(m->gpus);
		run(&host, m, GT_WAY_BY_HOST);
		run(&ring, m, GT_WAY_RING);
		for (int r = 0; r < m->ranks; r++) {
			assert_int_equal(host.memory[r].collectives, 0);
			assert_false(ring.memory[r].unknown_collectives);
			assert_int_equal(
			    ring.free_bytes[r], host.free_bytes[r] + fewer_on(m, r % m->gpus));
			with += ring.memory[r].total;
			without += host.memory[r].total;
			rings += ring.memory[r].collectives;
		}
		for (int gpu = 0; gpu < m->gpus; gpu++)
			fewer += fewer_on(m, gpu);
		assert_true((rings > 0) == (m->ranks > 1));
		assert_int_equal(ring.taken - with + fewer, host.taken - without);
	}
}

/*
 * Ranks look at the free memory after groups, gradients and parameters have taken some. All of that
 * belongs to the need that they compare with, so only the scratch memory of streams and the reserve
 * may be missing.
 */
static void ranks_may_use_the_memory_that_they_have_taken(void **state)
{
	static const struct mode kinds[] = {
		{ MLP, 2, 1, { 1, 1 }, { .kind = GT_PARALLEL_DDP } },
		{ MLP, 2, 1, { 1, 1 }, { .kind = GT_PARALLEL_DDP, .compress = GT_COMPRESS_BF16 } },
		{ MLP, 3, 2, { 1, 1, 1 }, { .kind = GT_PARALLEL_ZERO1 } },
		{ MLP, 2, 1, { 1, 1 }, { .kind = GT_PARALLEL_ZERO2 } },
		{ MLP, 2, 1, { 1, 1 }, { .kind = GT_PARALLEL_ZERO3 } },
	};
	const uint64_t scratch = GT_CUDA_SCRATCH_BYTES + GT_CUDA_BLOCK_COUNTER_BYTES;

	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		const struct mode *m = &kinds[i];
		uint64_t available, total;
		struct course c;

		set_gpus(m->gpus);
		run(&c, m, GT_WAY_RING);
		assert_int_equal(gt_cuda_backend.memory(0, &available, &total, GT_ERR_IGNORED), 0);
		for (int r = 0; r < m->ranks; r++) {
			uint64_t kept = gt_session_reserve(total) * (uint64_t)c.sharing[r];

			assert_int_equal((total - kept - c.free_bytes[r]) % scratch, 0);
		}
	}
}

/* A dry run describes rank 0, and the first rank of every stage. */
static void dry_runs_describe_the_same(void **state)
{
	(void)state;
	for (int i = 0; i < MODES; i++) {
		struct gt_train_options options = options_of(&modes[i], GT_WAY_RING);
		struct gt_err err = GT_ERR_INIT;
		const json_t *stages, *stage;
		struct gt_train *t;
		struct course live;
		json_t *plan;
		size_t s;

		set_gpus(modes[i].gpus);
		run(&live, &modes[i], GT_WAY_RING);
		t = open_run(&options, true, &err);
		plan = t ? gt_train_describe(t, &err) : NULL;
		if (!plan)
			fail_msg("%s", err.text);
		gt_train_close(t);
		assert_int_equal(json_integer_value(json_object_get(
		                     json_object_get(plan, "memory_bytes"), "collectives")),
		    live.memory[0].collectives);
		stages = json_object_get(plan, "stages");
		json_array_foreach(stages, s, stage)
		    assert_int_equal(json_integer_value(json_object_get(stage, "memory_bytes")),
		        live.memory[s * (size_t)modes[i].ranks / json_array_size(stages)].total);
		json_decref(plan);
	}
}

/* ---- the way that a plan expects ---- */

static void plans_expect_the_way_of_the_run(void **state)
{
	static const struct {
		int gpus;
		bool reproducible;
		const char *way;
		bool unknown, some;
	} cases[] = {
		{ 2, false, NULL, true, false }, /* NCCL */
		{ 1, false, NULL, false, true }, /* which takes no ranks that share a GPU */
		{ 2, true, NULL, false, true },  /* or need sums in a fixed order */
		{ 2, false, "ring", false, true },
		{ 1, false, "nccl", true, false }, /* the run ends with an error */
		{ 2, false, "staged", false, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct mode m = { MLP, 2, cases[i].gpus, { 1, 1 },
			{ .kind = GT_PARALLEL_DDP, .reproducible = cases[i].reproducible } };
		struct gt_train_options options = options_of(&m, cases[i].way);
		struct gt_err err = GT_ERR_INIT;
		struct gt_session_memory memory;
		struct gt_train *t;
		json_t *plan;

		options.batch = 8;
		set_gpus(m.gpus);
		t = open_run(&options, true, &err);
		plan = t ? gt_train_describe(t, &err) : NULL;
		if (!plan)
			fail_msg("%s", err.text);
		gt_train_memory(&memory, t);
		assert_true(memory.unknown_collectives == cases[i].unknown);
		assert_true((memory.collectives > 0) == cases[i].some);
		assert_true(json_is_null(json_object_get(json_object_get(plan, "memory_bytes"),
		                "collectives")) == cases[i].unknown);
		json_decref(plan);
		gt_train_close(t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rings_take_the_counted_memory),
		cmocka_unit_test(the_memory_of_nccl_is_not_known),
		cmocka_unit_test(runs_take_the_described_memory),
		cmocka_unit_test(ranks_may_use_the_memory_that_they_have_taken),
		cmocka_unit_test(dry_runs_describe_the_same),
		cmocka_unit_test(plans_expect_the_way_of_the_run),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
