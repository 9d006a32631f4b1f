/* test_plan_time.c - predicted times: costs, the simulation of stages, bytes against the plan. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/parallel/pipeline/pipeline.h"
#include "lib/plan/calibration.h"
#include "lib/plan/simulate.h"
#include "lib/train/report/work.h"

#define COUNT(a) (sizeof(a) / sizeof(*(a)))
#define GPT      "gpt:layers=2,heads=2,width=32,block=8,vocab=50"

static void expect_close(const char *what, double found, double wanted)
{
	if (!(fabs(found - wanted) <= 1e-9 * (1 + fabs(wanted))))
		fail_msg("%s: %.17g, wanted %.17g", what, found, wanted);
}

/* ---- clusters ---- */

static void clusters_are_read(void **state)
{
	static const struct {
		const char *text;
		int hosts, devices;
		const char *name, *error;
	} cases[] = {
		{ "4x8xH100", 4, 8, "H100", NULL },
		{ "2xa100", 1, 2, "A100", NULL },
		{ "1x2xcpu", 1, 2, "cpu", NULL },
		{ "128x8xH100-PCIe", 128, 8, "H100-PCIe", NULL },
		{ "129x8xH100", 0, 0, NULL, "not 1 to 1024 devices" },
		{ "0x8xH100", 0, 0, NULL, "not 1 to 1024 devices" },
		{ "4x8x", 0, 0, NULL, "is neither HOSTSxDEVICESxNAME" },
		{ "H100", 0, 0, NULL, "is neither HOSTSxDEVICESxNAME" },
		{ "99999999999999999999xH100", 0, 0, NULL, "is neither HOSTSxDEVICESxNAME" },
		{ "8xH999", 0, 0, NULL, "'H999' is not a known device" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct gt_err err = GT_ERR_INIT;
		struct gt_cluster c;
		int rc = gt_cluster_parse(&c, cases[i].text, &err);

		if (cases[i].error) {
			assert_int_equal(rc, GT_EINVAL);
			if (!strstr(err.text, cases[i].error))
				fail_msg("%s: %s", cases[i].text, err.text);
			continue;
		}
		if (rc)
			fail_msg("%s: %s", cases[i].text, err.text);
		assert_int_equal(c.hosts, cases[i].hosts);
		assert_int_equal(c.devices, cases[i].devices);
		assert_string_equal(c.device.name, cases[i].name);
	}
}

static void drivers_name_known_devices(void **state)
{
	static const struct {
		const char *description;
		double memory_bytes;
		const char *name; /* NULL: it is not known */
	} cases[] = {
		{ "NVIDIA H200, 139.8 GiB, compute capability 9.0", 150.1e9, "H200" },
		{ "NVIDIA H100 80GB HBM3, 79.2 GiB", 85e9, "H100" },
		{ "NVIDIA H100 PCIe, 79.2 GiB", 85e9, "H100-PCIe" },
		{ "NVIDIA A100-SXM4-80GB", 85e9, "A100" },
		{ "NVIDIA A100-PCIE-40GB", 42.3e9, "A100-40GB" },
		{ "NVIDIA GeForce RTX 4090, 23.6 GiB", 25.4e9, "RTX4090" },
		{ "NVIDIA GeForce RTX 4090 Laptop GPU, 15.6 GiB", 16.8e9, NULL },
		{ "NVIDIA GH200 480GB", 101e9, NULL },
		{ "NVIDIA L40", 48e9, NULL },
		{ "simulated", 80e9, NULL },
		{ "", 80e9, NULL },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct gt_cluster_device d;

		if (gt_cluster_find_device(&d, cases[i].description, cases[i].memory_bytes) !=
		    (cases[i].name != NULL))
			fail_msg("%s", cases[i].description);
		if (!cases[i].name)
			continue;
		assert_string_equal(d.name, cases[i].name);
		assert_true(d.memory_peak >= 1e12);
	}
}

static void descriptions_are_checked(void **state)
{
	static const struct {
		const char *json, *error; /* NULL: it is valid */
	} cases[] = {
		{ "{\"hosts\":2,\"devices_per_host\":4,\"device\":\"H200\"}", NULL },
		{ "{\"device\":{\"name\":\"X\",\"flops\":{\"f32\":1e12},\"bytes_per_s\":1e11,"
		  "\"memory_bytes\":1e10},\"inside\":{\"bytes_per_s\":1e9,\"step_s\":0}}",
		    NULL },
		{ "{\"device\":{\"name\":\"H100\",\"memory_bytes\":1e10}}", NULL },
		{ "[]", "not an object" },
		{ "{\"device\":\"X9\"}", "c.json: 'X9' is not a known device" },
		{ "{\"devices_per_host\":2,\"device\":{\"name\":\"X\",\"flops\":{\"f32\":1e12},"
		  "\"bytes_per_s\":1e11,\"memory_bytes\":1e10}}",
		    "c.json: 'inside' is missing: 'X' is not a known device" },
		{ "{\"hosts\":2,\"device\":{\"name\":\"X\",\"flops\":{\"f32\":1e12},"
		  "\"bytes_per_s\":1e11,\"memory_bytes\":1e10}}",
		    "c.json: 'between' is missing: 'X' is not a known device" },
		{ "{\"hosts\":2}", "'device' is not a name" },
		{ "{\"device\":{\"name\":\"X\"}}", "needs flops.f32" },
		{ "{\"device\":\"H100\",\"host\":2}", "unknown key 'host'" },
		{ "{\"device\":\"H100\",\"hosts\":\"2\"}", "'hosts' is not a whole number" },
		{ "{\"device\":\"H100\",\"hosts\":2000}",
		    "c.json: 2000 hosts of 1 devices are not 1 to 1024 devices" },
		{ "{\"device\":\"H100\",\"hosts\":1e30}", "'hosts' is not a whole number" },
		{ "{\"device\":\"H100\",\"hosts\":1.5}", "'hosts' is not a whole number" },
		{ "{\"device\":\"H100\",\"inside\":{\"bytes_per_s\":0}}",
		    "'bytes_per_s' is not a number from 1 to 1e18" },
		{ "{\"device\":\"H100\",\"between\":{\"bytes_per_s\":1e-300}}",
		    "'bytes_per_s' is not a number from 1 to 1e18" },
		{ "{\"device\":\"H100\",\"between\":{\"step_s\":-1}}",
		    "'step_s' is not a number from 0 to 1000" },
		{ "{\"device\":{\"name\":\"H100\",\"memory_bytes\":1e300}}",
		    "'memory_bytes' is not a number from 1 to 1e18" },
		{ "{\"device\":\"H100\",\"price_per_hour\":-1}",
		    "'price_per_hour' is not a number from 0 to 1e9" },
		{ "{\"device\":{\"name\":\"\"}}", "'name' is not a name of 1 to 63 bytes" },
		{ "{\"device\":{\"name\":\"H100\",\"flops\":{\"fp8\":1}}}", "unknown key 'fp8'" },
		{ "{\"device\":{\"name\":\"H100\",\"flops\":3}}", "'flops' is not an object" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct gt_err err = GT_ERR_INIT;
		json_t *json = json_loads(cases[i].json, 0, NULL);
		struct gt_cluster c;
		int rc;

		assert_non_null(json);
		rc = gt_cluster_read(&c, json, "c.json", &err);
		if (cases[i].error ? !rc || !strstr(err.text, cases[i].error) : rc)
			fail_msg("%s: %s", cases[i].json, rc ? err.text : "no error");
		json_decref(json);
	}
}

/* ---- calibration ---- */

static void latency_and_rate_are_fitted(void **state)
{
	static const struct {
		const char *what;
		double base_s, rate, noise; /* noise: of every other time, relative */
	} cases[] = {
		{ "both", 1e-5, 1e9, 0 },
		{ "no latency", 0, 2e9, 0 },
		{ "latency alone decides below 1 MB", 1e-3, 1e9, 0 },
		{ "noise of 2 %", 2e-5, 5e9, 0.02 },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		double bytes[13], time_s[13], base_s, rate, most = 2 * cases[i].noise + 1e-9;

		for (int k = 0; k < 13; k++) {
			bytes[k] = 4096.0 * (1 << k);
			time_s[k] = (cases[i].base_s + bytes[k] / cases[i].rate) *
			            (1 + (k % 2 ? cases[i].noise : -cases[i].noise));
		}
		gt_calibration_fit(&base_s, &rate, bytes, time_s, 13);
		if (fabs(base_s - cases[i].base_s) > most * cases[i].base_s + 1e-15 ||
		    fabs(rate - cases[i].rate) > most * cases[i].rate)
			fail_msg("%s: %g s and %g bytes/s", cases[i].what, base_s, rate);
	}
}

#define CALIBRATION(more)                                                                          \
	"{\"format\":\"" GT_CALIBRATION_FORMAT "\",\"machine\":\"m\",\"device\":\"cpu\","          \
	"\"processors\":4,\"threads\":1" more "}"
#define PRODUCTS ",\"products\":{\"f32\":[[1e3,1e9],[1e6,4e9]]}"
#define COPIES   ",\"copies\":[[1e3,8e9]]"
#define LINK     ",\"link\":{\"ranks\":2,\"base_s\":1e-5,\"bytes_per_s\":1e9,\"copied_per_s\":1e8}"
#define OLD_LINK ",\"link\":{\"ranks\":2,\"base_s\":1e-5,\"bytes_per_s\":1e9}"
#define BAD_LINK ",\"link\":{\"ranks\":2,\"base_s\":1e-5,\"bytes_per_s\":1e9,\"copied_per_s\":0}"

static void calibrations_are_checked(void **state)
{
	static const struct {
		const char *cluster, *json, *error; /* NULL: it is valid */
	} cases[] = {
		{ "2xcpu", CALIBRATION(PRODUCTS COPIES LINK ",\"ops\":{\"gelu\":2}"), NULL },
		{ "2xcpu", CALIBRATION(PRODUCTS COPIES ",\"link\":null,\"ops\":{}"), NULL },
		{ "2xcpu", CALIBRATION(PRODUCTS COPIES OLD_LINK ",\"ops\":{}"), NULL },
		{ "2xcpu", CALIBRATION(PRODUCTS COPIES BAD_LINK ",\"ops\":{}"), "'link' is" },
		{ "2xH100", CALIBRATION(PRODUCTS COPIES LINK ",\"ops\":{}"),
		    "the rates of a 'cpu' are not those of a 'H100'" },
		{ "2xcpu", "{\"format\":\"x\"}", "'format' is missing or wrong" },
		{ "2xcpu", "[]", "'format' is missing or wrong" },
		{ "2xcpu", CALIBRATION(COPIES LINK), "'products' is missing" },
		{ "2xcpu", CALIBRATION(",\"products\":{\"f32\":[[2,1],[1,1]]}"), "'products' is" },
		{ "2xcpu", CALIBRATION(",\"products\":{\"f32\":[[2,0]]}"), "'products' is" },
		{ "2xcpu", CALIBRATION(",\"products\":{\"f32\":[[2,1e-300]]}"), "'products' is" },
		{ "2xcpu", CALIBRATION(",\"products\":{\"f32\":[[2]]}"), "'products' is" },
		{ "2xcpu", CALIBRATION(PRODUCTS), "'copies' is missing" },
		{ "2xcpu", CALIBRATION(PRODUCTS COPIES), "'link' is missing" },
		{ "2xcpu", CALIBRATION(PRODUCTS COPIES LINK), "'ops' is missing" },
		{ "2xcpu", CALIBRATION(PRODUCTS COPIES LINK ",\"ops\":{\"gelu\":-1}"), "'ops' is" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct gt_err err = GT_ERR_INIT;
		json_t *json = json_loads(cases[i].json, 0, NULL);
		const char *machine;
		struct gt_cluster c;
		int rc;

		assert_non_null(json);
		assert_int_equal(gt_cluster_parse(&c, cases[i].cluster, &err), 0);
		rc = gt_calibration_apply(&c, &machine, json, "c.json", &err);
		if (cases[i].error ? !rc || !strstr(err.text, cases[i].error) : rc)
			fail_msg("%s: %s", cases[i].json, rc ? err.text : "no error");
		json_decref(json);
	}
}

/* A file of one thread, on a machine of four processors. */
static void ranks_share_the_measured_rates(void **state)
{
	static const struct {
		const char *cluster;
		int threads;
		double product, memory, link; /* in units of the file's */
	} cases[] = {
		{ "1xcpu", 0, 4, 4, 1 },
		{ "1xcpu", 1, 1, 1, 1 },
		{ "2xcpu", 0, 2, 2, 1 },
		{ "4xcpu", 0, 1, 1, 0.5 },
		{ "8xcpu", 4, 0.5, 0.5, 0.25 },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		json_t *json =
		    json_loads(CALIBRATION(PRODUCTS COPIES LINK ",\"ops\":{\"gelu\":2}"), 0, NULL);
		struct gt_work work = { .op = "gelu", .bytes = 8e9, .launches = 1 };
		struct gt_err err = GT_ERR_INIT;
		enum gt_cost_bound bound;
		const char *machine;
		struct gt_cluster c;

		assert_non_null(json);
		assert_int_equal(gt_cluster_parse(&c, cases[i].cluster, &err), 0);
		assert_int_equal(gt_calibration_apply(&c, &machine, json, "c.json", &err), 0);
		gt_cluster_use_threads(&c, cases[i].threads);
		expect_close(cases[i].cluster,
		    gt_curve_rate(&c.device.product[GT_PRODUCT_F32], 1e9), 4e9 * cases[i].product);
		expect_close(cases[i].cluster, c.inside.bytes_per_s, 1e9 * cases[i].link);
		expect_close(cases[i].cluster, c.inside.copied_per_s, 1e8 * cases[i].link);
		expect_close(cases[i].cluster, gt_cost_compute(&bound, &c, &work, false),
		    2 / cases[i].memory);
		assert_int_equal(bound, GT_BOUND_MEMORY);
		json_decref(json);
	}
}

/* ---- the simulation ---- */

/* A device that does one FLOP in a second, and links that send one byte in a second. */
static struct gt_cluster slow_cluster(double steal)
{
	struct gt_cluster c = { .hosts = 1, .devices = 64, .device = { .vector = 1 } };

	c.device.steal = steal;
	gt_curve_add(&c.device.memory, 1, 1);
	c.inside.bytes_per_s = c.between.bytes_per_s = 1;
	return c;
}

static struct gt_work computing(double seconds)
{
	return (
	    struct gt_work){ .op = "op", .flops = seconds, .traffic = { .ranks = 1, .apart = 1 } };
}

static struct gt_work communicating(enum gt_traffic_role role, int id, int64_t bytes)
{
	return (struct gt_work){ .op = "op",
		.traffic = { .role = role,
		    .kind = GT_ALL_GATHER,
		    .axis = GT_AXIS_DATA,
		    .ranks = 2,
		    .apart = 1,
		    .bytes = bytes,
		    .id = id,
		    .calls = 1 } };
}

/* On two ranks an all-gather sends half of its bytes. */
static void collectives_overlap_with_computation(void **state)
{
	static const struct {
		const char *what;
		double steal;
		int64_t bytes;
		double computing_s, step_s, hidden_s, exposed_s;
	} cases[] = {
		{ "hidden", 0, 4, 3, 3, 2, 0 },
		{ "longer than the computation", 0, 10, 3, 5, 3, 2 },
		{ "it takes all of the processor", 1, 4, 3, 5, 0, 2 },
		{ "it takes half", 0.5, 4, 3, 4, 1, 1 },
		{ "half, and it is longer", 0.5, 12, 2, 6, 2, 4 },
		{ "nothing to send", 0.5, 0, 3, 3, 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct gt_cluster c = slow_cluster(cases[i].steal);
		struct gt_work list[] = { communicating(GT_TRAFFIC_START, 0, cases[i].bytes),
			computing(cases[i].computing_s), communicating(GT_TRAFFIC_WAIT, -1, 0) };
		struct gt_work_list work = { .list = list, .count = 3, .last = 3, .runs = 1 };
		struct gt_err err = GT_ERR_INIT;
		struct gt_step_times t;

		assert_int_equal(gt_plan_simulate(&t, &c, &work, 1, &err), 0);
		expect_close(cases[i].what, t.step_s, cases[i].step_s);
		expect_close(cases[i].what, t.hidden_s, cases[i].hidden_s);
		expect_close(cases[i].what, t.exposed_s[GT_AXIS_DATA], cases[i].exposed_s);
		expect_close(cases[i].what, t.compute_s, cases[i].computing_s);
	}
}

/* An item of one run of three. */
static void items_belong_to_runs(void **state)
{
	struct gt_cluster c = slow_cluster(0);
	struct gt_work list[] = { computing(1), computing(10), computing(100), computing(1000) };
	struct gt_work_list work = { .list = list, .count = 4, .first = 1, .last = 3, .runs = 3 };
	struct gt_err err = GT_ERR_INIT;
	struct gt_step_times t;

	(void)state;
	list[2].runs = GT_RUN_LAST;
	assert_int_equal(gt_plan_simulate(&t, &c, &work, 1, &err), 0);
	expect_close("step", t.step_s, 1 + 3 * 10 + 100 + 1000);
}

enum { STAGES_MOST = 4, CHUNKS_MOST = 8 };

/* List the tasks of a stage as its plan does, each of a second, with messages that take no time. */
static void list_stage(struct gt_work_list *work, enum gt_pipeline_schedule schedule, int stages,
    int stage, int chunks)
{
	struct gt_pipeline_task tasks[2 * CHUNKS_MOST];

	work->list = calloc(8 * CHUNKS_MOST, sizeof(*work->list));
	assert_non_null(work->list);
	gt_pipeline_order(tasks, schedule, stages, stage, chunks);
	for (int i = 0; i < 2 * chunks; i++) {
		bool back = tasks[i].backward;
		bool receives = back ? stage + 1 < stages : stage > 0;
		bool sends = back ? stage > 0 : stage + 1 < stages;

		if (receives)
			work->list[work->count++] = communicating(
			    GT_TRAFFIC_RECEIVE, back ? GT_LINK_FROM_NEXT : GT_LINK_FROM_BEFORE, 0);
		work->list[work->count++] = computing(1);
		if (sends)
			work->list[work->count++] = communicating(
			    GT_TRAFFIC_SEND, back ? GT_LINK_TO_BEFORE : GT_LINK_TO_NEXT, 0);
	}
	work->last = work->count;
	work->runs = 1;
}

/* The bubble of equal stages is (stages - 1) / (chunks + stages - 1) of a step. */
static void stages_wait_as_the_schedule_says(void **state)
{
	(void)state;
	for (int schedule = 0; schedule < GT_PIPELINE_SCHEDULES; schedule++)
		for (int stages = 1; stages <= STAGES_MOST; stages++)
			for (int chunks = 1; chunks <= CHUNKS_MOST; chunks++) {
				struct gt_work_list work[STAGES_MOST] = { 0 };
				struct gt_step_times t[STAGES_MOST];
				struct gt_cluster c = slow_cluster(0);
				struct gt_err err = GT_ERR_INIT;

				for (int i = 0; i < stages; i++)
					list_stage(&work[i], (enum gt_pipeline_schedule)schedule,
					    stages, i, chunks);
				if (gt_plan_simulate(t, &c, work, stages, &err))
					fail_msg("%s", err.text);
				for (int i = 0; i < stages; i++) {
					expect_close(
					    "step", t[i].step_s, 2 * (chunks + stages - 1));
					expect_close("waiting", t[i].bubble_s, 2 * (stages - 1));
					gt_work_release(&work[i]);
				}
			}
}

static void stages_that_wait_for_each_other_are_found(void **state)
{
	struct gt_work list[] = { communicating(GT_TRAFFIC_RECEIVE, GT_LINK_FROM_BEFORE, 0) };
	struct gt_work_list work[] = { { .list = NULL, .runs = 1 },
		{ .list = list, .count = 1, .last = 1, .runs = 1 } };
	struct gt_cluster c = slow_cluster(0);
	struct gt_err err = GT_ERR_INIT;
	struct gt_step_times t[2];

	(void)state;
	assert_int_equal(gt_plan_simulate(t, &c, work, 2, &err), GT_EINVAL);
}

/* ---- planned runs ---- */

static const struct planned_case {
	const char *what, *model, *data;
	int ranks, batch, accumulate;
	struct gt_parallel_options parallel;
} planned_cases[] = {
	{ "one rank", GPT, "random,samples=64", 1, 4, 1, { .kind = GT_PARALLEL_DDP } },
	{ "ddp", GPT, "random,samples=64", 4, 4, 2, { .kind = GT_PARALLEL_DDP } },
	{ "ddp, small buckets", GPT, "random,samples=64", 4, 4, 1,
	    { .kind = GT_PARALLEL_DDP, .bucket_bytes = 4096 } },
	{ "compressed", GPT, "random,samples=64", 2, 4, 1,
	    { .kind = GT_PARALLEL_DDP, .compress = GT_COMPRESS_BF16 } },
	{ "zero1", GPT, "random,samples=64", 4, 4, 2, { .kind = GT_PARALLEL_ZERO1 } },
	{ "zero2", GPT, "random,samples=64", 4, 4, 2, { .kind = GT_PARALLEL_ZERO2 } },
	{ "zero3", GPT, "random,samples=64", 4, 4, 2,
	    { .kind = GT_PARALLEL_ZERO3, .bucket_bytes = 4096 } },
	{ "tensor", GPT, "random,samples=64", 4, 4, 2, { .kind = GT_PARALLEL_DDP, .tensor = 2 } },
	{ "sequence", GPT, "random,samples=64", 4, 4, 1,
	    { .kind = GT_PARALLEL_DDP, .tensor = 2, .sequence = true } },
	{ "pipeline", GPT, "random,samples=64", 4, 4, 2,
	    { .kind = GT_PARALLEL_DDP, .stages = 2, .chunks = 4 } },
	{ "all three", GPT, "random,samples=64", 8, 4, 1,
	    { .kind = GT_PARALLEL_ZERO1, .stages = 2, .chunks = 2, .tensor = 2 } },
};

static struct gt_train *open_case(const struct planned_case *p, struct gt_train_options *o)
{
	struct gt_log log = { .stream = fopen("/dev/null", "w"), .level = GT_LOG_QUIET };
	struct gt_err err = GT_ERR_INIT;
	int64_t bucket_bytes;
	struct gt_train *t;

	gt_train_options_init(o);
	bucket_bytes = o->parallel.bucket_bytes;
	o->model = p->model;
	o->data = p->data;
	o->batch = p->batch;
	o->accumulate = p->accumulate;
	o->nproc = p->ranks;
	o->parallel = p->parallel;
	if (!o->parallel.bucket_bytes)
		o->parallel.bucket_bytes = bucket_bytes;
	o->where.described_bytes = UINT64_C(1) << 40;
	if (gt_train_open(&t, o, true, &log, &err))
		fail_msg("%s: %s", p->what, err.text);
	fclose(log.stream);
	return t;
}

static int stages_of(const struct planned_case *p)
{
	return p->parallel.stages > 1 ? p->parallel.stages : 1;
}

/* The sums of a few numbers at the end of a step are not in the plan's figure. */
static void work_sends_the_bytes_of_the_plan(void **state)
{
	enum { FEW = 4096 };

	(void)state;
	for (size_t i = 0; i < COUNT(planned_cases); i++) {
		const struct planned_case *p = &planned_cases[i];
		struct gt_err err = GT_ERR_INIT;
		struct gt_train_options o;
		struct gt_train_outline outline;
		struct gt_train_stage stage;
		struct gt_train *t = open_case(p, &o);
		json_t *plan = gt_train_describe(t, &err);
		double planned, sent;

		assert_non_null(plan);
		planned = json_number_value(json_object_get(plan, "communicated_bytes_per_step"));
		if (gt_train_stage_work(&stage, &outline, t, &o, 0, &err))
			fail_msg("%s: %s", p->what, err.text);
		sent = gt_work_sent(&stage.work, GT_AXES);
		if (!(sent >= planned && sent <= planned + (p->ranks > 1 ? FEW : 0)))
			fail_msg(
			    "%s: the work sends %.0f bytes, the plan %.0f", p->what, sent, planned);
		assert_int_equal(outline.ranks, p->ranks);
		assert_int_equal(outline.data * outline.tensor * outline.stages, p->ranks);
		gt_work_release(&stage.work);
		json_decref(plan);
		gt_train_close(t);
	}
}

/* Clusters with one faster part, beside the cluster itself. */
static struct gt_cluster faster(const struct gt_cluster *like, int part)
{
	struct gt_cluster c = *like;

	if (part == 0)
		c.inside.bytes_per_s *= 2;
	else if (part == 1)
		c.between.bytes_per_s *= 2;
	else if (part == 2)
		c.inside.step_s = c.inside.base_s = 0;
	else if (part == 3)
		c.between.step_s = c.between.tree_s = c.between.base_s = 0;
	else if (part == 4)
		c.device.vector *= 2;
	for (int i = 0; part == 5 && i < c.device.memory.count; i++)
		c.device.memory.rate[i] *= 2;
	for (int i = 0; part == 6 && i < c.device.product[GT_PRODUCT_F32].count; i++)
		c.device.product[GT_PRODUCT_F32].rate[i] *= 2;
	return c;
}

static double step_on(const struct gt_cluster *c, const struct gt_work_list *work, int stages)
{
	struct gt_step_times t[STAGES_MOST];
	struct gt_err err = GT_ERR_INIT;

	if (gt_plan_simulate(t, c, work, stages, &err))
		fail_msg("%s", err.text);
	for (int i = 0; i < stages; i++) {
		double sum = t[i].compute_s + t[i].bubble_s + t[i].update_s;

		for (int axis = 0; axis < GT_AXES; axis++)
			sum += t[i].exposed_s[axis];
		expect_close("the parts of a step", sum, t[i].step_s);
	}
	return t[0].step_s;
}

/* The second cluster has one device on each host, so that messages take the network. */
static void a_faster_part_makes_no_step_slower(void **state)
{
	static const char *const clusters[] = { "1x8xH100", "8x1xL40S", "2x4xA100" };

	(void)state;
	for (size_t i = 0; i < COUNT(planned_cases); i++) {
		const struct planned_case *p = &planned_cases[i];
		struct gt_work_list work[STAGES_MOST];
		struct gt_err err = GT_ERR_INIT;
		struct gt_train_options o;
		struct gt_train *t = open_case(p, &o);

		for (int s = 0; s < stages_of(p); s++) {
			struct gt_train_outline outline;
			struct gt_train_stage stage;

			if (gt_train_stage_work(&stage, &outline, t, &o, s, &err))
				fail_msg("%s: %s", p->what, err.text);
			work[s] = stage.work;
		}
		for (size_t k = 0; k < COUNT(clusters); k++) {
			struct gt_cluster c;
			double step_s;

			assert_int_equal(gt_cluster_parse(&c, clusters[k], &err), 0);
			step_s = step_on(&c, work, stages_of(p));
			for (int part = 0; part < 7; part++) {
				const struct gt_cluster other = faster(&c, part);

				if (step_on(&other, work, stages_of(p)) > step_s * (1 + 1e-9))
					fail_msg("%s on %s: slower with a faster part %d", p->what,
					    clusters[k], part);
			}
		}
		for (int s = 0; s < stages_of(p); s++)
			gt_work_release(&work[s]);
		gt_train_close(t);
	}
}

/* ---- costs ---- */

static void collectives_cost_their_bytes(void **state)
{
	static const struct {
		const char *what;
		enum gt_collective_kind kind;
		int hosts, devices, ranks, apart;
		double seconds; /* of 16 bytes over links of 1 byte/s inside and 1/4 between */
		enum gt_axis axis;
		double copied_per_s;
		enum gt_traffic_role role; /* 0: GT_TRAFFIC_CALL */
	} cases[] = {
		{ "all-reduce", GT_ALL_REDUCE, 1, 8, 8, 1, 28, GT_AXIS_DATA, 0, 0 },
		{ "all-gather", GT_ALL_GATHER, 1, 8, 8, 1, 14, GT_AXIS_DATA, 0, 0 },
		{ "reduce-scatter", GT_REDUCE_SCATTER, 1, 8, 4, 2, 12, GT_AXIS_DATA, 0, 0 },
		{ "broadcast", GT_BROADCAST, 1, 8, 8, 1, 16, GT_AXIS_DATA, 0, 0 },
		{ "two hosts, with two network cards each", GT_ALL_GATHER, 2, 2, 4, 1, 24,
		    GT_AXIS_DATA, 0, 0 },
		{ "two hosts, with one rank each", GT_ALL_GATHER, 2, 2, 2, 2, 32, GT_AXIS_DATA, 0,
		    0 },
		{ "the links within a host are slower", GT_ALL_GATHER, 2, 8, 16, 1, 15,
		    GT_AXIS_DATA, 0, 0 },
		{ "one rank", GT_ALL_REDUCE, 1, 8, 1, 1, 0, GT_AXIS_DATA, 0, 0 },
		{ "gradients are in memory of the group", GT_ALL_REDUCE, 1, 8, 8, 1, 28,
		    GT_AXIS_DATA, 0.5, 0 },
		{ "other values are copied first", GT_ALL_REDUCE, 1, 8, 8, 1, 56, GT_AXIS_TENSOR,
		    0.5, 0 },
		{ "a message is copied first", 0, 1, 8, 2, 1, 32, GT_AXIS_PIPELINE, 0.5,
		    GT_TRAFFIC_RECEIVE },
		{ "a message to another host is not", 0, 2, 2, 2, 2, 64, GT_AXIS_PIPELINE, 0.5,
		    GT_TRAFFIC_RECEIVE },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct gt_cluster c = slow_cluster(0);
		struct gt_traffic t = { .role = cases[i].role ? cases[i].role : GT_TRAFFIC_CALL,
			.kind = cases[i].kind,
			.axis = cases[i].axis,
			.ranks = cases[i].ranks,
			.apart = cases[i].apart,
			.bytes = 16,
			.calls = 1 };

		c.hosts = cases[i].hosts;
		c.devices = cases[i].devices;
		c.between.bytes_per_s = 0.25;
		c.inside.copied_per_s = cases[i].copied_per_s;
		expect_close(cases[i].what, gt_cost_traffic(&c, &t), cases[i].seconds);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(clusters_are_read),
		cmocka_unit_test(drivers_name_known_devices),
		cmocka_unit_test(descriptions_are_checked),
		cmocka_unit_test(latency_and_rate_are_fitted),
		cmocka_unit_test(calibrations_are_checked),
		cmocka_unit_test(ranks_share_the_measured_rates),
		cmocka_unit_test(collectives_cost_their_bytes),
		cmocka_unit_test(collectives_overlap_with_computation),
		cmocka_unit_test(items_belong_to_runs),
		cmocka_unit_test(stages_wait_as_the_schedule_says),
		cmocka_unit_test(stages_that_wait_for_each_other_are_found),
		cmocka_unit_test(work_sends_the_bytes_of_the_plan),
		cmocka_unit_test(a_faster_part_makes_no_step_slower),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
