/* test_sequence.c - stacks of layers as text: what is read, what is written, what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "lib/model/model.h"
#include "lib/model/sequence/sequence.h"

/* ---- the text that is written ---- */

static const struct {
	const char *text, *written;
} texts[] = {
	{ "Linear(3,4)", "Linear(3,4)" },
	{ " nn.Linear( 3 ,\n4 , ) , torch.nn.ReLU ( ) , ", "Linear(3,4),ReLU" },
	{ "Linear(out_features=4,in_features=3,bias=True)", "Linear(3,4)" },
	{ "Linear(3,4,False)", "Linear(3,4,bias=False)" },
	{ "Conv2d(1,2,(3,3),[1,1],padding='same')", "Conv2d(1,2,3,padding='same')" },
	{ "Conv1d(1,2,(3,),padding=\"valid\")", "Conv1d(1,2,3,padding='valid')" },
	{ "Conv2d(1,2,(3,5),1,0)", "Conv2d(1,2,(3,5))" },
	{ "Dropout,Dropout(.25),Dropout(0)", "Dropout,Dropout(p=0.25),Dropout(p=0)" },
	{ "MaxPool2d(2,None),MaxPool2d(2,stride=2)", "MaxPool2d(2),MaxPool2d(2,stride=2)" },
	{ "LayerNorm(8,1e-05),LayerNorm((4,2)),LayerNorm((8,),eps=1)",
	    "LayerNorm(8),LayerNorm((4,2)),LayerNorm(8,eps=1)" },
	{ "Unflatten(1,(-1,)),Unflatten(-1,(2,2))", "Unflatten(1,(-1,)),Unflatten(-1,(2,2))" },
	{ "Hardtanh(-0.0,.1e1),Hardtanh(min_val=123456789012345678)",
	    "Hardtanh(min_val=0),Hardtanh(min_val=1.2345678901234568e+17)" },
	{ "Hardtanh(max_val=2),GELU(approximate='tanh')",
	    "Hardtanh(max_val=2),GELU(approximate='tanh')" },
};

static void test_written(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_sequence *s, *again;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		if (gt_sequence_parse(&s, texts[i].text, &err))
			fail_msg("%s: %s", texts[i].text, err.text);
		assert_string_equal(s->text, texts[i].written);
		assert_int_equal(gt_sequence_parse(&again, s->text, &err), 0);
		assert_true(gt_sequence_same(s, again));
		assert_string_equal(again->text, s->text);
		gt_sequence_free(again);
		gt_sequence_free(s);
	}
}

/* ---- the same network ---- */

static void test_same_network(void **state)
{
	(void)state;
	assert_true(gt_model_same("seq:Linear(3,4),ReLU", "seq:nn.Linear(3, 4), nn.ReLU()"));
	assert_false(gt_model_same("seq:Linear(3,4)", "seq:Linear(3,4,bias=False)"));
	assert_false(gt_model_same("seq:Linear(3,4),Dropout", "seq:Linear(3,4),Dropout(0.1)"));
	assert_true(
	    gt_model_same_network("seq:Linear(3,4),Dropout", "seq:Linear(3,4),Dropout(0.1)"));
	assert_false(gt_model_same_network("seq:Linear(3,4),ReLU", "seq:Linear(3,4),GELU"));
	assert_false(gt_model_same_network("seq:Linear(3,4)", "seq:Linear(3,4),ReLU"));
	assert_false(gt_model_same_network("seq:Linear(3,4)", "mlp:3,4"));
}

/* ---- errors ---- */

/* Each has the layer and the argument in its text; the hint has the nearest name, or the form. */
static const struct {
	const char *text, *error, *hint;
} wrong[] = {
	{ "", "model 'seq' has no layers", "seq:Flatten,Linear(784,10)" },
	{ "ReLU,Relu", "layer 1: there is no layer 'Relu'", "'ReLU'" },
	{ "Liner(3,4)", "layer 0: there is no layer 'Liner'", "'Linear'" },
	{ "Transformer", "layer 0: there is no layer 'Transformer'", "gtrain-models(7)" },
	{ ",ReLU", "layer 0: a name is missing before ',ReLU'", "as in Python" },
	{ "ReLU,,ReLU", "layer 1: a name is missing before ',ReLU'", "as in Python" },
	{ "ReLU ReLU", "layer 0, ReLU: ',' is missing before 'ReLU'", "ReLU(inplace=False)" },
	{ "Linear(3,4", "layer 0, Linear: ')' is missing", "Linear(in_features, out_features" },
	{ "Linear(3 4)", "layer 0, Linear: ')' is missing before '4)'", "Linear(in_features" },
	{ "Linear(3,)", "layer 0, Linear: the argument 'out_features' is missing", "bias=True" },
	{ "Linear(3,4,True,5)", "layer 0, Linear: takes at most 3 arguments", "Linear(" },
	{ "Tanh(1)", "layer 0, Tanh: takes at most 0 arguments", "Tanh()" },
	{ "Linear(3,4,bais=False)", "layer 0, Linear: there is no argument 'bais'", "'bias'" },
	{ "Linear(3,bias=True,4)", "an argument without a name follows one with a name", "Lin" },
	{ "Linear(3,4,in_features=3)", "'in_features' is given twice", "Linear(" },
	{ "Linear(0,4)", "'in_features' takes a whole number from 1 on", "Linear(" },
	{ "Linear(3.0,4)", "'in_features' takes a whole number from 1 on", "Linear(" },
	{ "Linear(33554432,4)", "'in_features' takes a whole number from 1 on", "Linear(" },
	{ "Linear(3,4,bias=1)", "'bias' takes True or False", "Linear(" },
	{ "Linear(3,4,true)", "layer 0, Linear: 'true' is not a value", "True" },
	{ "Linear(,4)", "layer 0, Linear: a value is missing before ',4)'", "Linear(" },
	{ "Conv2d(1,2,(3,3,3))", "'kernel_size' takes a whole number from 1 on, or one",
	    "Conv2d(" },
	{ "Conv2d(1,2,(3,3)", "layer 0, Conv2d: ')' is missing", "Conv2d(" },
	{ "Conv2d(1,2,(3,3", "a tuple has no ')' at its end", "Conv2d(" },
	{ "Conv2d(1,2,(3,.5))", "a tuple takes at most 6 whole numbers", "Conv2d(" },
	{ "Conv2d(1,2,3,padding=-1)", "'padding' takes a whole number from 0 on", "Conv2d(" },
	{ "Conv2d(1,2,3,padding='full')", "'padding' takes", "Conv2d(" },
	{ "Conv2d(1,2,3,padding='same)", "a text has no closing quote", "Conv2d(" },
	{ "Conv2d(1,2,3,padding_mode='reflect')", "'padding_mode' can only be 'zeros'", "Conv" },
	{ "BatchNorm2d(3,affine=False)", "'affine' can only be True", "BatchNorm2d(" },
	{ "Embedding(3,4,padding_idx=0)", "'padding_idx' can only be None", "Embedding(" },
	{ "Dropout(1)", "'p' takes a number from 0 on that is less than 1", "Dropout(p=0.5" },
	{ "GELU('erf')", "'approximate' takes 'none' or 'tanh'", "GELU(" },
};

static void test_wrong(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct gt_err err = GT_ERR_INIT;
		struct gt_sequence *s;

		assert_int_equal(gt_sequence_parse(&s, wrong[i].text, &err), GT_EINVAL);
		assert_null(s);
		if (strncmp(err.text, "model 'seq'", 11) || !strstr(err.text, wrong[i].error))
			fail_msg("%s: %s", wrong[i].text, err.text);
		if (!strstr(err.hint, wrong[i].hint))
			fail_msg("%s: hint: %s", wrong[i].text, err.hint);
	}
}

/* ---- shapes ---- */

/* Stacks that cannot take the data below, with the shapes in the message. */
static const struct {
	const char *spec;
	struct gt_sample_form form;
	const char *error, *hint;
} misfits[] = {
	{ "seq:Linear(5,4),ReLU,Linear(5,2)", { .kind = GT_SAMPLE_VECTOR, .features = 5 },
	    "layer 2, Linear: takes [batch, 5], and its input is [2, 4]", "Linear(4,2)" },
	{ "seq:Conv2d(3,4,3),Linear(4,2)",
	    { .kind = GT_SAMPLE_IMAGE, .height = 8, .width = 8, .channels = 3 },
	    "layer 1, Linear: takes [batch, 4], and its input is [2, 4, 6, 6]", "Flatten" },
	{ "seq:Conv2d(1,4,3)", { .kind = GT_SAMPLE_IMAGE, .height = 8, .width = 8, .channels = 3 },
	    "layer 0, Conv2d: takes [batch, 1, height, width], and its input is [2, 3, 8, 8]",
	    "gtrain-models(7)" },
	{ "seq:Conv2d(3,4,3,groups=2)",
	    { .kind = GT_SAMPLE_IMAGE, .height = 8, .width = 8, .channels = 3 },
	    "layer 0, Conv2d: 3 channels do not divide into groups=2", "" },
	{ "seq:Conv2d(3,4,9)", { .kind = GT_SAMPLE_IMAGE, .height = 8, .width = 8, .channels = 3 },
	    "layer 0, Conv2d: conv2d: ", "" },
	{ "seq:Conv2d(3,4,3,2,padding='same')",
	    { .kind = GT_SAMPLE_IMAGE, .height = 8, .width = 8, .channels = 3 },
	    "padding='same' is for a stride of 1 alone", "" },
	{ "seq:Flatten,LayerNorm((4,16))",
	    { .kind = GT_SAMPLE_IMAGE, .height = 8, .width = 8, .channels = 1 },
	    "layer 1, LayerNorm: takes [batch, 4, 16], and its input is [2, 64]", "" },
	{ "seq:Conv1d(3,4,3)", { .kind = GT_SAMPLE_VECTOR, .features = 5 },
	    "layer 0, Conv1d: takes [batch, 3, length], and its input is [2, 5]", "" },
	{ "seq:MaxPool1d(2)", { .kind = GT_SAMPLE_VECTOR, .features = 5 },
	    "layer 0, MaxPool1d: takes [batch, channels, length], and its input is [2, 5]", "" },
	{ "seq:BatchNorm1d(4)", { .kind = GT_SAMPLE_VECTOR, .features = 5 },
	    "layer 0, BatchNorm1d: takes [batch, 4], and its input is [2, 5]", "" },
	{ "seq:Unflatten(1,(2,2))", { .kind = GT_SAMPLE_VECTOR, .features = 5 },
	    "unflattened_size does not divide dimension 1 of its input [2, 5]", "" },
	{ "seq:Flatten(2)", { .kind = GT_SAMPLE_VECTOR, .features = 5 },
	    "layer 0, Flatten: start_dim=2 is no dimension of its input [2, 5]", "" },
	{ "seq:Flatten(1,0)", { .kind = GT_SAMPLE_VECTOR, .features = 5 },
	    "start_dim is behind end_dim", "" },
	{ "seq:Linear(4,2)", { .kind = GT_SAMPLE_TOKENS, .block = 4 },
	    "layer 0, Linear: takes numbers, and its input is ids of tokens", "Embedding(" },
	{ "seq:Embedding(4,2)", { .kind = GT_SAMPLE_VECTOR, .features = 5 },
	    "layer 0, Embedding: takes ids of tokens, and its input is numbers", "" },
	{ "seq:Linear(5,3)", { .kind = GT_SAMPLE_VECTOR, .features = 5 },
	    "model 'seq' gives [2, 3] for a batch of 2, and the data have 2 classes", "2 outputs" },
	{ "seq:Conv2d(3,2,3)", { .kind = GT_SAMPLE_IMAGE, .height = 8, .width = 8, .channels = 3 },
	    "model 'seq' gives [2, 2, 6, 6] for a batch of 2", "Flatten" },
};

static void test_misfits(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(misfits) / sizeof(*misfits); i++) {
		struct gt_model_input in = { .form = misfits[i].form };
		struct gt_err err = GT_ERR_INIT;
		struct gt_model_io io;
		struct gt_model *m;
		struct gt_graph *g;

		in.form.classes = 2;
		for (int k = 0; k < in.form.channels; k++)
			in.form.std[k] = 1;
		assert_int_equal(gt_model_open(&m, misfits[i].spec, &err), 0);
		assert_int_equal(gt_graph_new(&g, &err), 0);
		assert_int_not_equal(gt_model_build(m, g, &in, 2, GT_MODEL_TRAIN, &io, &err), 0);
		if (!strstr(err.text, misfits[i].error))
			fail_msg("%s: %s", misfits[i].spec, err.text);
		if (!*err.hint || !strstr(err.hint, misfits[i].hint))
			fail_msg("%s: hint: %s", misfits[i].spec, err.hint);
		gt_graph_free(g);
		gt_model_close(m);
	}
}

/* ---- the data that a stack wishes for ---- */

static const struct {
	const char *spec;
	enum gt_sample_kind kind;
	int size, classes; /* features, height or tokens */
} wishes[] = {
	{ "seq:Linear(6,3)", GT_SAMPLE_VECTOR, 6, 3 },
	{ "seq:Flatten,Linear(784,10)", GT_SAMPLE_VECTOR, 784, 10 },
	{ "seq:ReLU", GT_SAMPLE_VECTOR, 784, 10 },
	{ "seq:Unflatten(1,(2,8)),Conv1d(2,4,3),Flatten,Linear(24,5)", GT_SAMPLE_VECTOR, 16, 5 },
	{ "seq:Conv2d(3,4,3),Flatten,Linear(3600,5),Softplus", GT_SAMPLE_IMAGE, 32, 5 },
	{ "seq:Conv2d(1,4,3),Flatten,Linear(2704,5)", GT_SAMPLE_IMAGE, 28, 5 },
	{ "seq:MaxPool2d(2),AdaptiveAvgPool2d(1),Flatten,Linear(3,7)", GT_SAMPLE_IMAGE, 32, 7 },
	{ "seq:Embedding(11,8),Linear(8,11)", GT_SAMPLE_TOKENS, 64, 11 },
};

static void test_wishes(void **state)
{
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	for (size_t i = 0; i < sizeof(wishes) / sizeof(*wishes); i++) {
		struct gt_model_input in;
		struct gt_model *m;
		int size;

		assert_int_equal(gt_model_open(&m, wishes[i].spec, &err), 0);
		gt_model_preferred_input(m, &in);
		size = in.form.kind == GT_SAMPLE_IMAGE    ? in.form.height
		       : in.form.kind == GT_SAMPLE_TOKENS ? in.form.block
		                                          : in.form.features;
		if (in.form.kind != wishes[i].kind || size != wishes[i].size ||
		    in.form.classes != wishes[i].classes)
			fail_msg("%s: kind %d, size %d, %d classes", wishes[i].spec, in.form.kind,
			    size, in.form.classes);
		gt_model_close(m);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_written),
		cmocka_unit_test(test_same_network),
		cmocka_unit_test(test_wrong),
		cmocka_unit_test(test_misfits),
		cmocka_unit_test(test_wishes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
