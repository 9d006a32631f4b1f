/* test_saved.c - training checkpoints of any program: their parts, and the place of their runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/ckpt/ckpt.h"
#include "lib/train/checkpoint/saved.h"
#include "lib/train/checkpoint/snapshot.h"
#include "tests/common/planted.h"

#define COUNT(a) (sizeof(a) / sizeof(*(a)))

/* Files are written as JSON with ' for "; a string 'T' stands for a tensor. */
#define GROUPS "'param_groups':[{'lr':0.1,'params':[0]}]"
#define OPTIM  "{'state':{}," GROUPS "}"
#define MODEL  "{'w':'T'}"

enum { PATH_SIZE = 128 };

static struct gt_tree *tree_of(const json_t *json, struct gt_arena *a)
{
	static const float numbers[2] = { 1, 2 };
	static const int64_t shape[1] = { 2 };
	struct gt_err err = GT_ERR_INIT;
	struct gt_tree *tree = NULL;
	const char *key;
	json_t *value;
	size_t i;

	if (json_is_object(json)) {
		tree = gt_tree_dict(a, &err);
		json_object_foreach((json_t *)json, key, value)
		    assert_int_equal(gt_tree_set(tree, key, tree_of(value, a), a, &err), 0);
	} else if (json_is_array(json)) {
		tree = gt_tree_list(a, &err);
		json_array_foreach(json, i, value)
		    assert_int_equal(gt_tree_append(tree, tree_of(value, a), a, &err), 0);
	} else if (json_is_string(json)) {
		bool tensor = !strcmp(json_string_value(json), "T");

		tree = tensor ? gt_tree_tensor(a, GT_F32, 1, shape, numbers, &err)
		              : gt_tree_string(a, json_string_value(json), &err);
	} else if (json_is_integer(json)) {
		tree = gt_tree_int(a, json_integer_value(json), &err);
	} else if (json_is_real(json)) {
		tree = gt_tree_float(a, json_real_value(json), &err);
	} else {
		tree = gt_tree_none(a, &err);
	}
	assert_non_null(tree);
	return tree;
}

/* Write ROOT/NAME. */
static void save(const char *root, const char *name, const char *text)
{
	struct gt_err err = GT_ERR_INIT;
	char *copy = strdup(text), path[PATH_SIZE];
	struct gt_arena a = { 0 };
	json_t *json;

	assert_non_null(copy);
	for (char *c = copy; (c = strchr(c, '\'')) != NULL;)
		*c = '"';
	json = json_loads(copy, 0, NULL);
	if (!json)
		fail_msg("not JSON: %s", copy);
	snprintf(path, sizeof(path), "%s/%s", root, name);
	assert_int_equal(
	    gt_torch_save((struct gt_file_name){ .path = path }, tree_of(json, &a), &err), 0);
	gt_arena_release(&a);
	json_decref(json);
	free(copy);
}

/* Write ROOT/a.pth, and open it. */
static int open_saved(struct gt_saved *out, const char *root, const char *text, struct gt_err *err)
{
	char path[PATH_SIZE];

	save(root, "a.pth", text);
	snprintf(path, sizeof(path), "%s/a.pth", root);
	return gt_saved_open(out, (struct gt_file_name){ .path = path }, err);
}

static void parts_have_the_names_that_people_give_them(void **state)
{
	static const struct {
		const char *name, *text;
		const char *form; /* NULL: gtrain's own */
		int64_t step;
		double epoch;
		const char *left;
	} cases[] = {
		{ "a loop of one's own", "{'model':" MODEL ",'optimizer':" OPTIM ",'epoch':3}",
		    "PyTorch", -1, 3, "" },
		{ "other names",
		    "{'state_dict':" MODEL ",'optimizer_state_dict':" OPTIM
		    ",'iter_num':17,'args':{},'rng':[1]}",
		    "PyTorch", 17, -1, "'args', 'rng'" },
		{ "the first name counts",
		    "{'model':" MODEL ",'optimizer':" OPTIM ",'iteration':5,'step':4,'epochs':9,"
		    "'epoch':2}",
		    "PyTorch", 4, 2, "" },
		{ "Lightning",
		    "{'pytorch-lightning_version':'2.1','state_dict':" MODEL
		    ",'optimizer_states':[" OPTIM "],'lr_schedulers':[{'last_epoch':9}],"
		    "'global_step':12,'epoch':2,'loops':{}}",
		    "PyTorch Lightning", 12, 2,
		    "'pytorch-lightning_version', 'lr_schedulers', 'loops'" },
		{ "steps of the optimizer",
		    "{'model':" MODEL
		    ",'optimizer':{'state':{'0':{'step':6},'1':{'step':8}}," GROUPS "}}",
		    "PyTorch", 8, -1, "" },
		{ "the schedule's, where nobody else says one",
		    "{'model':" MODEL ",'optimizer':" OPTIM ",'scheduler':{'last_epoch':40}}",
		    "PyTorch", 40, -1, "'scheduler'" },
		{ "a schedule may count epochs",
		    "{'model':" MODEL ",'optimizer':" OPTIM
		    ",'scheduler':{'last_epoch':40},'epoch':40}",
		    "PyTorch", -1, 40, "'scheduler'" },
		{ "a part of an epoch", "{'model':" MODEL ",'optimizer':" OPTIM ",'epoch':1.25}",
		    "PyTorch", -1, 1.25, "" },
		{ "many names",
		    "{'model':" MODEL ",'optimizer':" OPTIM
		    ",'a':{},'b':{},'c':{},'d':{},'e':{},'f':{},'g':{},'h':{}}",
		    "PyTorch", -1, -1, "'a', 'b', 'c', 'd', 'e', 'f' and 2 more" },
		{ "gtrain's own",
		    "{'model':" MODEL ",'optimizer':" OPTIM
		    ",'lr_scheduler':{},'step':5,'config':{'model':'m','data':'d'}}",
		    NULL, -1, -1, "" },
		{ "another program's config",
		    "{'model':" MODEL ",'optimizer':" OPTIM ",'step':5,'config':{'model':'m'}}",
		    "PyTorch", 5, -1, "'config'" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct gt_err err = GT_ERR_INIT;
		char root[PLANTED_ROOT];
		struct gt_saved s;

		planted_make(root, &(struct planted_file){ 0 });
		if (open_saved(&s, root, cases[i].text, &err))
			fail_msg("%s: %s", cases[i].name, err.text);
		if (s.other_program != (cases[i].form != NULL) ||
		    (s.other_program && strcmp(s.form, cases[i].form) != 0) ||
		    s.step != cases[i].step || s.epoch != cases[i].epoch ||
		    strcmp(s.left, cases[i].left) != 0)
			fail_msg("%s: %s %s, step %lld, epoch %g, left: %s", cases[i].name,
			    s.other_program ? "other" : "own", s.form, (long long)s.step, s.epoch,
			    s.left);
		assert_non_null(s.optimizer);
		assert_non_null(gt_saved_param_group(&s, 0));
		assert_null(gt_saved_param_group(&s, 1));
		gt_saved_close(&s);
		planted_remove(root);
	}
}

static void files_that_a_run_cannot_go_on_from_are_refused(void **state)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{ "{'model':" MODEL "}",
		    "no training checkpoint: it has no state of an optimizer" },
		{ MODEL, "no training checkpoint: it has no state of an optimizer" },
		{ "{'model':" MODEL ",'optimizer_states':[" OPTIM "," OPTIM "]}",
		    "'optimizer_states' has 2 optimizers, and a run has one" },
		{ "{'model':" MODEL ",'opt':{'state':{}}}",
		    "'opt' is no state_dict of torch.optim" },
		{ "{'model':" MODEL ",'opt':{" GROUPS "}}",
		    "'opt' is no state_dict of torch.optim" },
		{ "{'model':" MODEL ",'optimizer':" OPTIM ",'step':-1}", "'step' is -1" },
		{ "{'model':" MODEL ",'optimizer':" OPTIM ",'step':1e16}", "'step' is 1e+16" },
		{ "{'model':" MODEL ",'optimizer':" OPTIM ",'epoch':-0.5}", "'epoch' is -0.5" },
		{ "{'model':" MODEL ",'optimizer':{'state':{'0':{'step':-3}}," GROUPS "}}",
		    "optimizer state: 'step' is -3" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct gt_err err = GT_ERR_INIT;
		char root[PLANTED_ROOT];
		struct gt_saved s;
		int rc;

		planted_make(root, &(struct planted_file){ 0 });
		rc = open_saved(&s, root, cases[i].text, &err);
		if (rc != GT_EFORMAT || !strstr(err.text, cases[i].says) ||
		    !strstr(err.text, "/a.pth: "))
			fail_msg("case %zu: code %d, \"%s\"", i, rc, rc ? err.text : "");
		gt_saved_close(&s);
		planted_remove(root);
	}
}

/* A folder of Hugging Face's Trainer, or of accelerate, with pytorch_model.bin. */
static void folders_have_their_numbers_and_files_left(void **state)
{
#define TRAINER(text)                                                                              \
	{ "/optimizer.pt", NULL },                                                                 \
	{                                                                                          \
		"/trainer_state.json", text                                                        \
	}
	static const struct {
		struct planted_file files[8]; /* NULL: an optimizer without steps */
		int64_t step;
		double epoch;
		const char *left, *says;
	} cases[] = {
		{ { TRAINER("{\"global_step\":30,\"epoch\":1.5}") }, 30, 1.5, "", NULL },
		{ { TRAINER("{\"log_history\":[{\"loss\":NaN}],\"global_step\":7}") }, 7, -1, "",
		    NULL },
		{ { TRAINER("{\"global_step\":null,\"epoch\":null}") }, -1, -1, "", NULL },
		{ { TRAINER("{\"best_metric\":99999999999999999999}") }, -1, -1, "", NULL },
		{ { { "/optimizer.bin", NULL }, { "/pytorch_model_1.bin", "" },
		      { "/pytorch_model-00001-of-00002.bin", "" },
		      { "/model-00001-of-00002.safetensors", "" } },
		    -1, -1, "'pytorch_model_1.bin'", NULL },
		{ { { "/optimizer.bin", NULL }, { "/model_1.safetensors", "" } }, -1, -1,
		    "'model_1.safetensors'", NULL },
		{ { TRAINER("{") }, .says = "/trainer_state.json': line 1: " },
		{ { TRAINER("[]") }, .says = "/trainer_state.json': it is not an object" },
		{ { TRAINER("{\"global_step\":-1}") },
		    .says = "/trainer_state.json': 'global_step' must be an integer of 0 or more" },
		{ { TRAINER("{\"global_step\":3.5}") },
		    .says = "'global_step' must be an integer" },
		{ { TRAINER("{\"global_step\":99999999999999999999}") },
		    .says = "'global_step' must be an integer" },
		{ { TRAINER("{\"global_step\":\"3\"}") },
		    .says = "'global_step' must be an integer" },
		{ { TRAINER("{\"global_step\":3,\"epoch\":NaN}") },
		    .says = "/trainer_state.json': 'epoch' must be a number" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct planted_file files[8] = { 0 };
		struct gt_err err = GT_ERR_INIT;
		char root[PLANTED_ROOT];
		struct gt_saved s;
		int n = 0, rc;

		for (int k = 0; cases[i].files[k].path; k++)
			if (cases[i].files[k].text)
				files[n++] = cases[i].files[k];
		planted_make(root, files);
		save(root, cases[i].files[0].path + 1, OPTIM);
		save(root, "pytorch_model.bin", MODEL);
		rc = gt_saved_open(&s, (struct gt_file_name){ .path = root }, &err);
		if (rc != (cases[i].says ? GT_EFORMAT : 0) ||
		    (rc && !strstr(err.text, cases[i].says)))
			fail_msg("case %zu: code %d, \"%s\"", i, rc, rc ? err.text : "");
		if (!rc && (s.step != cases[i].step || s.epoch != cases[i].epoch ||
		               strcmp(s.left, cases[i].left) != 0))
			fail_msg("case %zu: step %lld, epoch %g, left: %s", i, (long long)s.step,
			    s.epoch, s.left);
		gt_saved_close(&s);
		planted_remove(root);
	}
}

/* Of gtrain's own files: numbers, and how many samples a step of that run had. */
static void own_files_tell_the_place_of_their_run(void **state)
{
#define PLACE(done, epochs, read, each, all)                                                       \
	{                                                                                          \
		.step = done, .epoch = epochs, .samples = read, .step_samples = each,              \
		.data_samples = all                                                                \
	}
#define OWN(config, counts)                                                                        \
	"{'model':" MODEL ",'optimizer':" OPTIM ",'lr_scheduler':{}," counts                       \
	",'config':{'model':'m','data':'d'" config "}}"
	static const struct {
		const char *text;
		struct gt_snapshot_progress place;
		const char *says; /* NULL: it is read */
	} cases[] = {
		{ OWN(",'batch':8", "'step':7,'epoch':2,'epoch_samples':24,'data_samples':90"),
		    PLACE(7, 2, 24, 8, 90), NULL },
		{ OWN(",'batch':8,'accumulate':3,'nproc':4", "'step':7"), PLACE(7, 0, -1, 96, 0),
		    NULL },
		{ OWN(",'batch':8,'nproc':8,'pipeline-parallel':2,'tensor-parallel':2", "'step':7"),
		    PLACE(7, 0, -1, 16, 0), NULL },
		{ OWN("", "'step':0"), PLACE(0, 0, -1, 0, 0), NULL },
		{ OWN(",'batch':0", "'step':7"), PLACE(7, 0, -1, 0, 0), NULL },
		{ OWN(",'batch':-8", "'step':7"), PLACE(7, 0, -1, 0, 0), NULL },
		{ OWN(",'batch':9000000000000000000,'nproc':2", "'step':7"), PLACE(7, 0, -1, 0, 0),
		    NULL },
		{ OWN("", "'epoch':1"), { 0 }, "it has no 'step'" },
		{ OWN("", "'step':-1"), { 0 }, "it has no 'step'" },
		{ OWN("", "'step':'7'"), { 0 }, "it has no 'step'" },
		{ OWN("", "'step':7,'epoch':-2"), { 0 }, "'epoch' is -2" },
		{ OWN("", "'step':7,'epoch_samples':-1"), { 0 }, "'epoch_samples' is -1" },
		{ OWN("", "'step':7,'data_samples':-1"), { 0 }, "'data_samples' is -1" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		const struct gt_snapshot_progress *wanted = &cases[i].place;
		struct gt_err err = GT_ERR_INIT;
		char root[PLANTED_ROOT];
		struct gt_snapshot_progress place;
		struct gt_saved s;
		int rc;

		planted_make(root, &(struct planted_file){ 0 });
		if (open_saved(&s, root, cases[i].text, &err))
			fail_msg("case %zu: %s", i, err.text);
		assert_false(s.other_program);
		rc = gt_snapshot_read_progress(&place, &s, &err);
		if (rc != (cases[i].says ? GT_EFORMAT : 0) ||
		    (rc && !strstr(err.text, cases[i].says)))
			fail_msg("case %zu: code %d, \"%s\"", i, rc, rc ? err.text : "");
		if (!rc && (place.step != wanted->step || place.epoch != wanted->epoch ||
		               place.samples != wanted->samples ||
		               place.step_samples != wanted->step_samples ||
		               place.data_samples != wanted->data_samples))
			fail_msg(
			    "case %zu: step %lld, epoch %lld, %lld samples, %lld a step, %lld in all",
			    i, (long long)place.step, (long long)place.epoch,
			    (long long)place.samples, (long long)place.step_samples,
			    (long long)place.data_samples);
		gt_snapshot_progress_release(&place);
		gt_saved_close(&s);
		planted_remove(root);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_have_the_names_that_people_give_them),
		cmocka_unit_test(files_that_a_run_cannot_go_on_from_are_refused),
		cmocka_unit_test(folders_have_their_numbers_and_files_left),
		cmocka_unit_test(own_files_tell_the_place_of_their_run),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
