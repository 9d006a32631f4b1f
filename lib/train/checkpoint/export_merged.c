/* export_merged.c - the weights of a run with an adapter, which is added to them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/graph/graph.h"
#include "lib/graph/ops/ops.h"
#include "lib/model/lora.h"
#include "lib/store/store.h"
#include "lib/train/checkpoint/adapter.h"
#include "lib/train/checkpoint/export_source.h"
#include "lib/train/session.h"

/* ---- the weights of the run ---- */

static int set_input(struct gt_session *s, void *self, struct gt_err *err)
{
	const struct gt_export_source *source = self;

	(void)err;
	gt_model_take_form(s->model, &source->input.form);
	s->input = source->input;
	return 0;
}

/* Nothing is computed by programs. */
static int plan_nothing(struct gt_session *s, void *self, struct gt_err *err)
{
	(void)s, (void)self, (void)err;
	return 0;
}

static int load_weights(struct gt_session *s, void *self, struct gt_err *err)
{
	const struct gt_export_source *source = self;
	const struct gt_load_options as_they_are = { 0 };
	const struct gt_load_options load = gt_run_ckpt_load(&source->run, &as_they_are);
	const struct gt_weights_options options = { .no_map = true, .no_strict = true };
	const struct gt_adapter none = { 0 };
	struct gt_weights_report report = { 0 };
	int rc = gt_adapter_load_around(s, &none, &source->run, &load, &options, &report, err);

	gt_weights_report_release(&report);
	return rc;
}

/* Return the settings of the run's adapter, with frozen weights in float32; the caller frees
 * them. */
static char *find_settings(const struct gt_export_source *s, struct gt_err *err)
{
	struct gt_lora l;
	char *spec;

	if (gt_lora_parse(&l, gt_run_ckpt_lora(&s->run), err))
		return NULL;
	l.frozen = GT_BLOCK_NONE;
	spec = gt_lora_spec(&l, err);
	gt_lora_release(&l);
	return spec;
}

static int open_session(struct gt_export_source *s, struct gt_err *err)
{
	static const struct gt_session_purpose purpose = {
		.input = set_input, .plan = plan_nothing, .weights = load_weights
	};
	char *lora = find_settings(s, err);
	const struct gt_session_options options = { .lora = lora,
		.model = gt_run_ckpt_model(&s->run, NULL, err) };
	int rc = lora && options.model ? 0 : err->code;

	s->session = rc ? NULL : gt_calloc(1, sizeof(*s->session), err);
	if (s->session)
		rc = gt_session_open(s->session, &options, &purpose, s, err);
	free(lora);
	return s->session ? rc : err->code;
}

/* ---- the sum ---- */

/* Return whether the layers with this weight multiply by it as it is, so that it is [in, out]. */
static bool is_transposed(const struct gt_graph *g, const char *name)
{
	for (size_t i = 0; i < g->node_count; i++) {
		const struct gt_node *n = g->nodes[i];

		if (n->op == &gt_op_matmul && n->in[1]->name && !strcmp(n->in[1]->name, name))
			return !n->attrs.matmul.trans_b;
	}
	return false;
}

static float *data_of(const struct gt_store *store, const struct gt_slot *slot)
{
	return gt_slot_first(store, gt_store_plane_of(store, slot->role), slot);
}

/* Add scale * B A to a weight. */
static void add_product(float *weight, const float *a, const float *b, const int64_t size[2],
    int64_t rank, double scale, bool transposed)
{
	const int64_t out = size[0], in = size[1];

#pragma omp parallel for
	for (int64_t i = 0; i < out; i++)
		for (int64_t k = 0; k < in; k++) {
			double sum = 0;

			for (int64_t j = 0; j < rank; j++)
				sum += (double)b[i * rank + j] * (double)a[j * in + k];
			weight[transposed ? k * out + i : i * in + k] += (float)(scale * sum);
		}
}

/* Add the adapter of one layer, whose B is in slot `b`. */
static int merge_layer(const struct gt_session *s, const struct gt_graph *g,
    const struct gt_slot *b, const char *module, struct gt_err *err)
{
	const struct gt_lora *l = gt_model_lora(s->model);
	char name[GT_LORA_WEIGHT_NAME];
	const struct gt_slot *a, *weight;

	gt_lora_name_weight(name, module, false);
	a = gt_store_find(s->store, name);
	snprintf(name, sizeof(name), "%s.weight", module);
	weight = gt_store_find(s->store, name);
	if (!a || !weight)
		return gt_err_set(
		    err, GT_EFORMAT, "'%s' has no weights that an adapter is added to", module);
	add_product(data_of(s->store, weight), data_of(s->store, a), data_of(s->store, b),
	    (int64_t[]){ b->shape[0], a->shape[1] }, l->rank, gt_lora_scale(l),
	    is_transposed(g, weight->name));
	return 0;
}

static int merge_layers(const struct gt_session *s, struct gt_err *err)
{
	struct gt_model_io io;
	struct gt_graph *g;
	int rc = gt_graph_new(&g, err);

	if (!rc)
		rc = gt_model_build(s->model, g, &s->input, 1, GT_MODEL_EVAL, &io, err);
	for (size_t i = 0; !rc && i < s->store->slot_count; i++) {
		const struct gt_slot *slot = &s->store->slots[i];
		char module[GT_LORA_NAME];
		bool is_b;

		if (gt_lora_is_adapter(slot->name, module, &is_b) && is_b)
			rc = merge_layer(s, g, slot, module, err);
	}
	gt_graph_free(g);
	return rc;
}

/* ---- the state_dict ---- */

static struct gt_tree *list_weights(struct gt_export_source *s, struct gt_err *err)
{
	const struct gt_session *session = s->session;
	struct gt_tree *dict = gt_tree_dict(&s->arena, err);

	for (size_t i = 0; dict && i < session->store->slot_count; i++) {
		const struct gt_slot *slot = &session->store->slots[i];

		if (gt_lora_is_adapter(slot->name, NULL, NULL))
			continue;
		if (gt_tree_set(dict, slot->name,
		        gt_weights_tensor(session->parallel, session->store,
		            gt_store_plane_of(session->store, slot->role), slot, &s->arena, err),
		        &s->arena, err))
			return NULL;
	}
	return dict;
}

int gt_export_merge_adapter(struct gt_export_source *s, struct gt_err *err)
{
	struct gt_tree *dict;

	if (open_session(s, err) || merge_layers(s->session, err))
		return err->code;
	dict = list_weights(s, err);
	return dict ? gt_state_dict_find(&s->sd, dict, err) : GT_ENOMEM;
}
