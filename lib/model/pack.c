/* pack.c - weights of products and tables of embeddings as blocks, for models that only run. */
#include "lib/model/arch.h"
#include "lib/model/lora.h"

int gt_model_pack(struct gt_model *m, enum gt_block block, struct gt_err *err)
{
	if (block && m->path) {
		gt_err_set(err, GT_ENOTSUP,
		    "{dtype} %s: the weights of an exported network are "
		    "kept in the types of its file",
		    gt_block_names[block]);
		return gt_err_hint(err, "{dtype} fp32 computes with it");
	}
	m->block = block;
	if (m->lora && (block || gt_block_is_quantized(m->lora->frozen)))
		m->lora->frozen = GT_BLOCK_NONE;
	return 0;
}

/* The readers of a weight. */
struct use {
	int rows;    /* that multiply by rows, or look them up */
	int columns; /* that multiply by columns */
	int others;
};

static void add_reader(struct use *use, const struct gt_node *n, int input)
{
	if (n->op == &gt_op_matmul && input == 1 && !n->attrs.matmul.trans_a)
		(*(n->attrs.matmul.trans_b ? &use->rows : &use->columns))++;
	else if (n->op == &gt_op_embedding && input == 0)
		use->rows++;
	else
		use->others++;
}

static struct use find_use(const struct gt_graph *g, const struct gt_value *weight)
{
	struct use use = { 0 };

	for (size_t i = 0; i < g->node_count; i++)
		for (int k = 0; k < g->nodes[i]->inputs; k++)
			if (g->nodes[i]->in[k] == weight)
				add_reader(&use, g->nodes[i], k);
	return use;
}

bool gt_pack_weight(const struct gt_graph *g, struct gt_value *v, enum gt_block block)
{
	struct use use;
	int64_t rows, columns;

	if (!gt_value_is_weight(v) || v->dtype != GT_F32 || v->ndim != 2)
		return false;
	use = find_use(g, v);
	if (use.others || !use.rows == !use.columns)
		return false;
	rows = v->shape[use.rows ? 0 : 1];
	columns = v->shape[use.rows ? 1 : 0];
	v->packing = (struct gt_packing){ .block = gt_block_for(block, columns),
		.transposed = !use.rows,
		.shape = { v->shape[0], v->shape[1] } };
	v->role = GT_BUFFER;
	v->frozen = true;
	v->dtype = GT_U8;
	v->shape[0] = rows;
	v->shape[1] = (int64_t)gt_block_row_bytes(v->packing.block, columns);
	return true;
}

/* Let the readers of a weight expect blocks. */
static void set_readers(struct gt_graph *g, const struct gt_value *weight)
{
	for (size_t i = 0; i < g->node_count; i++) {
		struct gt_node *n = g->nodes[i];

		if (n->in[0] == weight) {
			n->attrs.embedding.block = weight->packing.block;
			n->attrs.embedding.width = gt_packing_columns(&weight->packing);
		} else if (n->inputs > 1 && n->in[1] == weight) {
			n->attrs.matmul.block = weight->packing.block;
			n->attrs.matmul.trans_b = true;
		}
	}
}

/* Adapters are small, and stay as they are. So do tables of positions, of which a token reads one
 * row. */
void gt_pack_weights(enum gt_block block, struct gt_graph *g)
{
	int packed = 0;

	for (size_t i = 0; i < g->value_count; i++) {
		struct gt_value *v = g->values[i];

		if (!v->name || gt_lora_is_adapter(v->name, NULL, NULL) ||
		    !gt_pack_weight(g, v, block))
			continue;
		set_readers(g, v);
		packed++;
	}
	if (!packed)
		gt_graph_fail(g, GT_ENOTSUP,
		    "{dtype} %s: the model has no weight that products alone read",
		    gt_block_names[block]);
}
