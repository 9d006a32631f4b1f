/* fuzz_sequence.c - fuzz target: a stack of layers as text, which becomes a graph. */
#include <stdlib.h>
#include <string.h>

#include "lib/graph/graph.h"
#include "lib/model/sequence/sequence.h"
#include "tests/fuzz/fuzz.h"

enum { BATCH = 4, MOST_TEXT = 4096 };

static struct gt_value *declare_data(struct gt_graph *g, const struct gt_sample_form *form)
{
	const int64_t image[] = { BATCH, form->channels, form->height, form->width };
	const int64_t row[] = { BATCH,
		form->kind == GT_SAMPLE_TOKENS ? form->block : form->features };

	if (form->kind == GT_SAMPLE_IMAGE)
		return gt_input(g, "input", GT_F32, 4, image);
	return gt_input(g, "input", form->kind == GT_SAMPLE_TOKENS ? GT_I32 : GT_F32, 2, row);
}

static void build(struct gt_sequence *sequence, bool train)
{
	const struct gt_arch_config config = { .sequence = sequence };
	const int64_t rng_shape = GT_RNG_FIELDS;
	struct gt_model_input in = { 0 };
	struct gt_value *logits, *rng;
	struct gt_graph *g;
	struct gt_err err = GT_ERR_INIT;

	if (gt_graph_new(&g, &err))
		return;
	gt_arch_sequence.preferred_input(&config, &in);
	rng = gt_input(g, "rng", GT_I64, 1, &rng_shape);
	logits = gt_arch_sequence.logits(g, &config, &in, declare_data(g, &in.form), rng, train);
	if (gt_graph_status(g, &err))
		fuzz_check_error(err.code, &err);
	else
		fuzz_require(logits);
	gt_graph_free(g);
}

/* The text that is written has the layers that were read, and is written the same again. */
static void print_again(const struct gt_sequence *sequence)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_sequence *again;

	fuzz_require(!gt_sequence_parse(&again, sequence->text, &err));
	fuzz_require(!strcmp(again->text, sequence->text));
	fuzz_require(gt_sequence_same(again, sequence));
	gt_sequence_free(again);
}

void fuzz_sequence(const unsigned char *bytes, size_t size)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_sequence *sequence;
	char *text = calloc(size + 1, 1);
	int rc;

	fuzz_require(text);
	if (size)
		memcpy(text, bytes, size < MOST_TEXT ? size : MOST_TEXT);
	rc = gt_sequence_parse(&sequence, text, &err);
	free(text);
	if (rc) {
		fuzz_check_error(rc, &err);
		return;
	}
	print_again(sequence);
	build(sequence, true);
	build(sequence, false);
	gt_sequence_free(sequence);
}
