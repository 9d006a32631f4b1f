/* test_pipeline_stages.c - where models are cut into stages, and how these go through chunks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/graph/op.h"
#include "lib/graph/ops/ops.h"
#include "lib/model/model.h"
#include "lib/parallel/pipeline/pipeline.h"

/* ---- schedules ---- */

/* "F0 F1 B0 ..." */
static void order_text(
    char *text, enum gt_pipeline_schedule schedule, int stages, int stage, int chunks)
{
	struct gt_pipeline_task tasks[64];

	*text = '\0';
	gt_pipeline_order(tasks, schedule, stages, stage, chunks);
	for (int i = 0; i < 2 * chunks; i++)
		sprintf(text + strlen(text), "%s%c%d", i ? " " : "", tasks[i].backward ? 'B' : 'F',
		    tasks[i].chunk);
}

static void schedules_are_those_of_the_papers(void **state)
{
	static const struct {
		enum gt_pipeline_schedule schedule;
		int stages, stage, chunks;
		const char *order;
	} table[] = {
		{ GT_PIPELINE_GPIPE, 2, 0, 1, "F0 B0" },
		{ GT_PIPELINE_GPIPE, 4, 1, 3, "F0 F1 F2 B0 B1 B2" },
		{ GT_PIPELINE_1F1B, 2, 0, 1, "F0 B0" },
		{ GT_PIPELINE_1F1B, 2, 1, 3, "F0 B0 F1 B1 F2 B2" },
		{ GT_PIPELINE_1F1B, 2, 0, 3, "F0 F1 B0 F2 B1 B2" },
		{ GT_PIPELINE_1F1B, 4, 0, 2, "F0 F1 B0 B1" },
		{ GT_PIPELINE_1F1B, 4, 0, 6, "F0 F1 F2 F3 B0 F4 B1 F5 B2 B3 B4 B5" },
		{ GT_PIPELINE_1F1B, 4, 2, 4, "F0 F1 B0 F2 B1 F3 B2 B3" },
		/* the example in pipeline.h */
		{ GT_PIPELINE_1F1B, 3, 0, 4, "F0 F1 F2 B0 F3 B1 B2 B3" },
		{ GT_PIPELINE_1F1B, 3, 1, 4, "F0 F1 B0 F2 B1 F3 B2 B3" },
		{ GT_PIPELINE_1F1B, 3, 2, 4, "F0 B0 F1 B1 F2 B2 F3 B3" },
	};
	char text[512];

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		order_text(
		    text, table[i].schedule, table[i].stages, table[i].stage, table[i].chunks);
		assert_string_equal(text, table[i].order);
	}
}

/* A stage that waits to send until its last message over the link has been received, and to receive
 * until there is something: how far it got, how many messages it sent and took per direction. */
struct walker {
	struct gt_pipeline_task tasks[64];
	int at;
	bool received;         /* the message that the present task reads */
	int sent[2], taken[2]; /* forward, backward */
};

/* One thing more that stage s can do; false: it must wait. */
static bool advance(struct walker *w, int stages, int s)
{
	const struct gt_pipeline_task *t = &w[s].tasks[w[s].at];
	int way = t->backward, from = way ? s + 1 : s - 1, to = way ? s - 1 : s + 1;

	if (!w[s].received && from >= 0 && from < stages) {
		if (w[from].sent[way] <= t->chunk)
			return false;
		w[s].taken[way]++;
	}
	w[s].received = true;
	if (to >= 0 && to < stages) {
		if (w[s].sent[way] > w[to].taken[way])
			return false;
		w[s].sent[way]++;
	}
	w[s].received = false;
	w[s].at++;
	return true;
}

/* Every stage comes to its end, whatever the number of chunks. */
static void no_schedule_waits_for_ever(void **state)
{
	(void)state;
	for (int stages = 1; stages <= 8; stages++) {
		for (int chunks = 1; chunks <= 20; chunks++) {
			for (int schedule = 0; schedule < 2; schedule++) {
				struct walker w[8] = { 0 };
				bool moved = true;

				for (int s = 0; s < stages; s++)
					gt_pipeline_order(w[s].tasks,
					    (enum gt_pipeline_schedule)schedule, stages, s, chunks);
				while (moved) {
					moved = false;
					for (int s = 0; s < stages; s++)
						while (
						    w[s].at < 2 * chunks && advance(w, stages, s))
							moved = true;
				}
				for (int s = 0; s < stages; s++)
					assert_int_equal(w[s].at, 2 * chunks);
			}
		}
	}
}

/* The messages of a stage to its neighbours, where one group has all links: in their order. A send
 * whose next message is a receive is one operation with it, unless they go `apart`. */
struct talker {
	struct {
		int peer;
		bool receives, passed;
	} messages[128];
	int count, at; /* the first message of the present operation */
	bool apart;
};

static void say(struct talker *t, int stages, int peer, bool receives)
{
	if (peer < 0 || peer >= stages)
		return;
	t->messages[t->count].peer = peer;
	t->messages[t->count++].receives = receives;
}

static void list_messages(
    struct talker *t, enum gt_pipeline_schedule schedule, int stages, int stage, int chunks)
{
	struct gt_pipeline_task tasks[64];

	gt_pipeline_order(tasks, schedule, stages, stage, chunks);
	for (int i = 0; i < 2 * chunks; i++) {
		say(t, stages, tasks[i].backward ? stage + 1 : stage - 1, true);
		say(t, stages, tasks[i].backward ? stage - 1 : stage + 1, false);
	}
}

static int end_of_operation(const struct talker *t)
{
	bool both = !t->apart && t->at + 1 < t->count && !t->messages[t->at].receives &&
	            t->messages[t->at + 1].receives;

	return t->at + 1 + both < t->count ? t->at + 1 + both : t->count;
}

/* A message passes when both ends have begun its operation; which ends when all of its have. */
static bool pass_messages(struct talker *t, int s)
{
	bool moved = false, ends = t[s].at < t[s].count;

	for (int i = t[s].at; i < end_of_operation(&t[s]); i++) {
		struct talker *other = &t[t[s].messages[i].peer];

		for (int k = other->at; k < end_of_operation(other) && !t[s].messages[i].passed;
		     k++) {
			if (other->messages[k].peer != s || other->messages[k].passed ||
			    other->messages[k].receives == t[s].messages[i].receives)
				continue;
			t[s].messages[i].passed = other->messages[k].passed = moved = true;
		}
		ends = ends && t[s].messages[i].passed;
	}
	if (ends)
		t[s].at = end_of_operation(&t[s]);
	return moved || ends;
}

static bool all_messages_pass(
    enum gt_pipeline_schedule schedule, int stages, int chunks, bool apart)
{
	static struct talker t[8];
	bool moved = true;

	memset(t, 0, sizeof(t));
	for (int s = 0; s < stages; s++) {
		t[s].apart = apart;
		list_messages(&t[s], schedule, stages, s, chunks);
	}
	while (moved) {
		moved = false;
		for (int s = 0; s < stages; s++)
			moved |= pass_messages(t, s);
	}
	for (int s = 0; s < stages; s++)
		if (t[s].at < t[s].count)
			return false;
	return true;
}

static void links_of_one_group_wait_for_ever_only_apart(void **state)
{
	(void)state;
	for (int stages = 1; stages <= 8; stages++)
		for (int chunks = 1; chunks <= 20; chunks++)
			for (int schedule = 0; schedule < 2; schedule++)
				assert_true(all_messages_pass(
				    (enum gt_pipeline_schedule)schedule, stages, chunks, false));
	assert_false(all_messages_pass(GT_PIPELINE_1F1B, 2, 3, true));
}

/* ---- stages ---- */

static struct gt_graph *forward_graph(const char *spec, int batch)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_model_input in;
	struct gt_model_io io;
	struct gt_model *model;
	struct gt_graph *g;

	assert_int_equal(gt_model_open(&model, spec, &err), 0);
	gt_model_preferred_input(model, &in);
	for (int i = 0; i < in.form.channels; i++)
		in.form.std[i] = 1;
	assert_int_equal(gt_graph_new(&g, &err), 0);
	assert_int_equal(gt_model_build(model, g, &in, batch, GT_MODEL_TRAIN, &io, &err), 0);
	gt_model_close(model);
	return g;
}

/* Alike layers: stages are as even as layers allow. */
static void stages_have_about_the_same_work(void **state)
{
	static const struct {
		const char *spec;
		int stages;
		double worst; /* the most work of a stage, as a multiple of the mean */
	} table[] = {
		{ "mlp:64,64,64,64,64,64,64,64,64", 2, 1.01 },
		{ "mlp:64,64,64,64,64,64,64,64,64", 4, 1.01 },
		{ "gpt:layers=8,heads=2,width=32,block=16,vocab=50", 2, 1.1 },
		{ "gpt:layers=8,heads=2,width=32,block=16,vocab=50", 4, 1.2 },
		{ "resnet20", 2, 1.15 },
		{ "resnet110", 4, 1.05 },
		{ "resnet18:image=64", 2, 1.2 },
		{ "resnet50:image=64", 3, 1.2 },
		{ "vit", 3, 1.2 },
		{ "llama:layers=8,vocab=50", 4, 1.2 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		struct gt_graph *g = forward_graph(table[i].spec, 2);
		struct gt_err err = GT_ERR_INIT;
		struct gt_pipeline_cut cut;
		double sum = 0, max = 0;

		assert_int_equal(gt_pipeline_cut(&cut, g, table[i].stages, &err), 0);
		for (int s = 0; s < table[i].stages; s++) {
			sum += cut.flops[s];
			max = fmax(max, cut.flops[s]);
			assert_true(cut.flops[s] > 0);
		}
		if (max * table[i].stages > table[i].worst * sum)
			fail_msg("%s in %d: the largest has %g of %g", table[i].spec,
			    table[i].stages, max, sum);
		gt_pipeline_cut_release(&cut);
		gt_graph_free(g);
	}
}

/* The most work of a stage of whole layers, with the values that it receives and sends. */
static double most_work_with_sending(
    const struct gt_pipeline_cut *cut, const double *work, const double *sent, int layers)
{
	double most = 0;

	for (int s = 0, at = 0; s < cut->stages; s++) {
		double sum = s ? sent[at] : 0, left = cut->flops[s];

		while (at < layers && left > 0.5) {
			left -= work[at];
			sum += work[at++];
		}
		assert_true(fabs(left) < 0.5);
		most = fmax(most, sum + (at < layers ? sent[at] : 0));
	}
	return most;
}

/* The best of all ways to cut, found by trying them: every pair of places for 3 stages. */
static void no_other_cut_is_better(void **state)
{
	struct gt_graph *g = forward_graph("mlp:7,300,20,90,90,15,200,10", 1);
	double work[16], sent[16] = { 0 }, best = INFINITY;
	struct gt_err err = GT_ERR_INIT;
	struct gt_pipeline_cut cut;
	int layers = 0;

	(void)state;
	for (size_t i = 0; i < g->node_count; i++) {
		struct gt_cost cost;

		gt_node_cost(g->nodes[i], &cost);
		if (g->nodes[i]->op == &gt_op_matmul) {
			sent[layers] =
			    GT_PIPELINE_FLOPS_PER_BYTE * (double)gt_value_bytes(g->nodes[i]->in[0]);
			work[layers++] = 0;
		}
		if (layers)
			work[layers - 1] += cost.flops;
	}
	assert_int_equal(layers, 7);
	for (int a = 1; a < layers; a++) {
		for (int b = a + 1; b < layers; b++) {
			double sum[3] = { sent[a], sent[a] + sent[b], sent[b] };

			for (int i = 0; i < layers; i++)
				sum[(i >= a) + (i >= b)] += work[i];
			best = fmin(best, fmax(sum[0], fmax(sum[1], sum[2])));
		}
	}
	assert_int_equal(gt_pipeline_cut(&cut, g, 3, &err), 0);
	assert_true(most_work_with_sending(&cut, work, sent, layers) == best);
	gt_pipeline_cut_release(&cut);
	gt_graph_free(g);
}

static void too_many_stages_are_refused(void **state)
{
	struct gt_graph *g = forward_graph("mlp:20,32,10", 1);
	struct gt_err err = GT_ERR_INIT;
	struct gt_pipeline_cut cut;

	(void)state;
	assert_int_equal(gt_pipeline_cut(&cut, g, 3, &err), GT_EINVAL);
	assert_non_null(strstr(err.text, "cannot be cut into 3 stages, but into 2"));
	assert_null(cut.first);
	gt_graph_free(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(schedules_are_those_of_the_papers),
		cmocka_unit_test(no_schedule_waits_for_ever),
		cmocka_unit_test(links_of_one_group_wait_for_ever_only_apart),
		cmocka_unit_test(stages_have_about_the_same_work),
		cmocka_unit_test(no_other_cut_is_better),
		cmocka_unit_test(too_many_stages_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
