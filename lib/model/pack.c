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
	if (block && m->lora)
		m->lora->low = false; /* they are stored in blocks instead */
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

/* Let the readers of a weight expect blocks. */
static void set_readers(struct gt_graph *g, const struct gt_value *weight, int64_t columns)
{
	for (size_t i = 0; i < g->node_count; i++) {
		struct gt_node *n = g->nodes[i];

		if (n->in[0] == weight) {
			n->attrs.embedding.block = weight->packing.block;
			n->attrs.embedding.width = columns;
		} else if (n->inputs > 1 && n->in[1] == weight) {
			n->attrs.matmul.block = weight->packing.block;
			n->attrs.matmul.trans_b = true;
		}
	}
}

/* Adapters are small, and stay as they are. So do tables of positions, of which a token reads one
 * row. */
static bool pack_weight(struct gt_graph *g, struct gt_value *v, enum gt_block block)
{
	int64_t rows, columns;
	struct use use;

	if (!gt_value_is_weight(v) || v->dtype != GT_F32 || v->ndim != 2 ||
	    gt_lora_is_adapter(v->name, NULL, NULL))
		return false;
	use = find_use(g, v);
	if (use.others || !use.rows == !use.columns)
		return false;
	rows = v->shape[use.rows ? 0 : 1];
	columns = v->shape[use.rows ? 1 : 0];
	v->packing = (struct gt_packing){ gt_block_for(block, columns), use.columns,
		{ v->shape[0], v->shape[1] } };
	v->role = GT_BUFFER;
	v->frozen = true;
	v->dtype = GT_U8;
	v->shape[0] = rows;
	v->shape[1] = (int64_t)gt_block_row_bytes(v->packing.block, columns);
	set_readers(g, v, columns);
	return true;
}

void gt_pack_weights(enum gt_block block, struct gt_graph *g)
{
	int packed = 0;

	for (size_t i = 0; i < g->value_count; i++)
		packed += pack_weight(g, g->values[i], block);
	if (!packed)
		gt_graph_fail(g, GT_ENOTSUP,
		    "{dtype} %s: the model has no weight that products alone read",
		    gt_block_names[block]);
}
