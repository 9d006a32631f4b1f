/* test_run_ckpt.c - the checkpoint that an argument means, and the run it belongs to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/train/checkpoint/argument.h"
#include "tests/common/planted.h"

#define COUNT(a) (sizeof(a) / sizeof(*(a)))

/* The contents of checkpoints do not matter here: an unreadable one has no facts of its own. */
#define CKPT "not read here"
#define RUN  "{\"model\": \"lenet\", \"data\": \"mnist:x\"}"
#define STEP "/checkpoints/step-0000000"
/* Without the bracket at its end. */
#define ABOUT(size)                                                                                \
	"{\"about\": {\"data\": {\"kind\": \"image\", \"classes\": 9, \"size\": " size "}}"
#define GPT2                                                                                       \
	"{\"model_type\": \"gpt2\", \"vocab_size\": 50, \"n_positions\": 8, \"n_embd\": 16, "      \
	"\"n_layer\": 1, \"n_head\": 2, \"activation_function\": \"gelu_new\"}"

enum { FILES = 8, PATH_SIZE = 256 };

/* One folder DIR with files. */
struct scene {
	const char *name;
	struct planted_file files[FILES];
	const char *link, *target; /* a symbolic link in it, or NULL */
	const char *argument;      /* behind the folder's path */
	/* The outcome: a path behind the folder's, or a code with a part of the error's text. */
	const char *found;
	int code;
	const char *says;
	bool runs;        /* it belongs to a run with a config.json */
	const char *role; /* the phrase about the file; NULL: any */
	enum gt_run_choice choice;
	const char *vocab; /* the run's vocabulary, or NULL */
};

static const char *in(char path[PATH_SIZE], const char *root, const char *name)
{
	assert_true(snprintf(path, PATH_SIZE, "%s%s", root, name) < PATH_SIZE);
	return path;
}

/* `text` without the root that it begins with, or NULL. */
static const char *behind(const char *root, const char *text)
{
	size_t length = strlen(root);

	return text && !strncmp(text, root, length) ? text + length : text;
}

static bool same(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

static void build(char root[PLANTED_ROOT], const struct scene *scene)
{
	char path[PATH_SIZE];

	planted_make(root, scene->files);
	if (scene->link)
		assert_int_equal(symlink(scene->target, in(path, root, scene->link)), 0);
}

static void expect(const struct scene *scene, const char *root, int rc,
    const struct gt_run_ckpt *ckpt, const struct gt_err *err)
{
	if (rc != scene->code || (rc && !strstr(err->text, scene->says)))
		fail_msg("%s: code %d, \"%s\"", scene->name, rc, rc ? err->text : "");
	if (rc)
		return;
	if (!same(behind(root, ckpt->path), scene->found))
		fail_msg("%s: found '%s'", scene->name, ckpt->path);
	if (!same(behind(root, ckpt->vocab), scene->vocab))
		fail_msg("%s: vocabulary '%s'", scene->name, ckpt->vocab);
	if (scene->role && !same(ckpt->role, *scene->role ? scene->role : NULL))
		fail_msg("%s: '%s'", scene->name, ckpt->role);
	if ((ckpt->config != NULL) != scene->runs)
		fail_msg("%s: %s", scene->name, scene->runs ? "no run" : "a run");
}

static const struct scene scenes[] = {
	/* ---- run directories ---- */
	{ "the latest checkpoint",
	    { { "/config.json", RUN }, { STEP "1.pth", CKPT }, { STEP "2.pth", CKPT },
	        { "/model.pth", CKPT } },
	    .argument = "", .found = STEP "2.pth", .runs = true },
	{ "the best evaluation",
	    { { "/config.json", RUN }, { STEP "1.pth", CKPT }, { STEP "2.pth", CKPT },
	        { "/model.pth", CKPT }, { "/best.pth", CKPT }, { "/vocab.json", "[]" } },
	    .argument = "", .found = "/best.pth", .runs = true, .vocab = "/vocab.json",
	    .role = ", the best evaluation of the run" },
	{ "the latest checkpoint, although there is a best evaluation",
	    { { "/config.json", RUN }, { STEP "1.pth", CKPT }, { STEP "2.pth", CKPT },
	        { "/best.pth", CKPT } },
	    .argument = "", .choice = GT_RUN_LATEST, .found = STEP "2.pth", .runs = true,
	    .role = ", the latest state of the run" },
	{ "model.pth where there are no checkpoints",
	    { { "/config.json", RUN }, { "/model.pth", CKPT }, { "/best.pth", CKPT } },
	    .argument = "/", .choice = GT_RUN_LATEST, .found = "//model.pth", .runs = true },
	{ "a link as best.pth is found, and refused when it is opened",
	    { { "/config.json", RUN }, { "/model.pth", CKPT } }, .link = "/best.pth",
	    .target = "model.pth", .argument = "", .found = "/best.pth", .runs = true },
	{ "a checkpoint that is being saved is none",
	    { { "/config.json", RUN }, { STEP "1.pth", CKPT }, { STEP "2.pth.tmp-1-0", CKPT } },
	    .argument = "", .found = STEP "1.pth", .runs = true },
	{ "a vocabulary of characters",
	    { { "/config.json", RUN }, { "/model.pth", CKPT }, { "/vocab.json", "[]" },
	        { "/tokenizer.json", "{}" } },
	    .argument = "", .found = "/model.pth", .runs = true, .vocab = "/vocab.json" },
	{ "a tokenizer",
	    { { "/config.json", RUN }, { STEP "1.pth", CKPT }, { "/tokenizer.json", "{}" } },
	    .argument = "", .found = STEP "1.pth", .runs = true, .vocab = "/tokenizer.json" },
	{ "a run whose config.json is lost", { { STEP "1.pth", CKPT } }, .argument = "",
	    .found = STEP "1.pth" },
	{ "no checkpoint", { { "/config.json", RUN }, { "/metrics.jsonl", "" } }, .argument = "",
	    .code = GT_EIO, .says = "' holds no checkpoint" },
	{ "an empty folder", { { 0 } }, .argument = "", .code = GT_EIO,
	    .says = "' holds no checkpoint" },
	{ "a distributed checkpoint", { { "/.metadata", CKPT } }, .argument = "", .found = "" },
	{ "nothing there", { { 0 } }, .argument = "/none", .code = GT_EIO,
	    .says = "cannot open the checkpoint '" },
	{ "a link as the latest checkpoint is found, and refused when it is opened",
	    { { "/config.json", RUN }, { "/a.pth", CKPT }, { STEP "1.pth", CKPT } },
	    .link = STEP "2.pth", .target = "../a.pth", .argument = "", .found = STEP "2.pth",
	    .runs = true },
	{ "a link as checkpoints/",
	    { { "/config.json", RUN }, { "/other/step-00000001.pth", CKPT } },
	    .link = "/checkpoints", .target = "other", .argument = "", .code = GT_EIO,
	    .says = "checkpoints' is a symbolic link, not a directory" },

	/* ---- damage to config.json ---- */
	{ "a damaged config.json beside checkpoints",
	    { { "/config.json", "{\"model\":\n" }, { STEP "1.pth", CKPT } }, .argument = "",
	    .code = GT_EFORMAT, .says = "/config.json' is damaged: line 2: " },
	{ "a damaged config.json of a run without checkpoints",
	    { { "/config.json", "{\"model\":\n\n\"x\" \"y\"}" }, { "/metrics.jsonl", "" } },
	    .argument = "", .code = GT_EFORMAT, .says = "/config.json': line 3: " },
	{ "a damaged config.json of Hugging Face's beside its weights",
	    { { "/config.json", "{\"model_type\":\n" }, { "/model.safetensors", CKPT } },
	    .argument = "", .code = GT_EFORMAT, .says = "/config.json': line 2: " },
	{ "the same by a link, as in the Hub's cache",
	    { { "/blob", "{\"model_type\": " }, { "/model.safetensors", CKPT } },
	    .link = "/config.json", .target = "blob", .argument = "", .code = GT_EFORMAT,
	    .says = "/config.json': line 1: " },
	{ "an empty config.json", { { "/config.json", "" }, { "/model.safetensors", CKPT } },
	    .argument = "", .code = GT_EFORMAT, .says = "/config.json': line 1: " },
	{ "a link to nowhere as config.json", { { "/model.safetensors", CKPT } },
	    .link = "/config.json", .target = "gone", .argument = "", .code = GT_EIO,
	    .says = "' holds no checkpoint" },
	{ "a file beside a damaged config.json that may be anybody's",
	    { { "/config.json", "{" }, { "/w.pth", CKPT } }, .argument = "/w.pth",
	    .found = "/w.pth" },
	{ "a file beside a damaged config.json of a run",
	    { { "/config.json", "{" }, { "/metrics.jsonl", "" }, { "/model.pth", CKPT } },
	    .argument = "/model.pth", .code = GT_EFORMAT,
	    .says = "/config.json' is damaged: line 1: " },

	/* ---- files ---- */
	{ "a file of a run",
	    { { "/config.json", RUN }, { "/best.pth", CKPT }, { "/vocab.json", "[]" } },
	    .argument = "/best.pth", .found = "/best.pth", .runs = true, .vocab = "/vocab.json",
	    .role = "" },
	{ "a checkpoint of a run", { { "/config.json", RUN }, { STEP "1.pth", CKPT } },
	    .argument = STEP "1.pth", .found = STEP "1.pth", .runs = true },
	{ "a file beside another program's config.json",
	    { { "/config.json", "{\"model_type\": \"gpt2\"}" }, { "/w.pth", CKPT },
	        { "/vocab.json", "{}" } },
	    .argument = "/w.pth", .found = "/w.pth" },
	{ "a file alone", { { "/w.pth", CKPT } }, .argument = "/w.pth", .found = "/w.pth" },
	{ "a file below a folder that is no checkpoints/",
	    { { "/config.json", RUN }, { "/old/w.pth", CKPT } }, .argument = "/old/w.pth",
	    .found = "/old/w.pth" },
	{ "a link to a file of a run", { { "/run/config.json", RUN }, { "/run/best.pth", CKPT } },
	    .link = "/mine.pth", .target = "run/best.pth", .argument = "/mine.pth",
	    .found = "/mine.pth", .runs = true },
	{ "a file beside a config.json that is a link",
	    { { "/elsewhere.json", RUN }, { "/w.pth", CKPT } }, .link = "/config.json",
	    .target = "elsewhere.json", .argument = "/w.pth", .found = "/w.pth" },

	/* ---- folders of other programs ---- */
	{ "a folder of Hugging Face's",
	    { { "/config.json", GPT2 }, { "/model.safetensors", CKPT } }, .argument = "",
	    .found = "" },
	{ "with a tokenizer", { { "/config.json", GPT2 }, { "/tokenizer.json", "{}" } },
	    .argument = "", .found = "", .vocab = "" },
	{ "of a model that is not known", { { "/config.json", "{\"model_type\": \"xyz\"}" } },
	    .argument = "", .code = GT_ENOTSUP, .says = "xyz" },
};

static void arguments_mean_a_checkpoint(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(scenes); i++) {
		struct gt_err err = GT_ERR_INIT;
		char root[PLANTED_ROOT], argument[PATH_SIZE];
		struct gt_run_ckpt ckpt;
		int rc;

		build(root, &scenes[i]);
		rc = gt_run_ckpt_open(
		    &ckpt, in(argument, root, scenes[i].argument), scenes[i].choice, &err);
		expect(&scenes[i], root, rc, &ckpt, &err);
		gt_run_ckpt_release(&ckpt);
		planted_remove(root);
	}
}

/* --resume auto: no checkpoint is no error, a damaged config.json is one. */
static const struct scene latest[] = {
	{ "nothing there", { { 0 } }, .argument = "/none" },
	{ "an empty folder", { { 0 } }, .argument = "" },
	{ "model.pth alone cannot be gone on from",
	    { { "/config.json", RUN }, { "/model.pth", CKPT } }, .argument = "" },
	{ "checkpoints",
	    { { "/config.json", RUN }, { STEP "1.pth", CKPT }, { STEP "3.pth", CKPT },
	        { "/vocab.json", "[]" } },
	    .argument = "", .found = STEP "3.pth", .runs = true, .vocab = "/vocab.json" },
	{ "a damaged config.json", { { "/config.json", "{" }, { STEP "1.pth", CKPT } },
	    .argument = "", .code = GT_EFORMAT, .says = "/config.json' is damaged: line 1: " },
	{ "a file in the place of the folder", { { "/run", CKPT } }, .argument = "/run",
	    .code = GT_EIO, .says = "cannot open the directory '" },
};

static void the_latest_is_found_where_there_is_one(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(latest); i++) {
		struct gt_err err = GT_ERR_INIT;
		char root[PLANTED_ROOT], argument[PATH_SIZE];
		struct gt_run_ckpt ckpt;
		int rc;

		build(root, &latest[i]);
		rc = gt_run_ckpt_latest(&ckpt, in(argument, root, latest[i].argument), &err);
		expect(&latest[i], root, rc, &ckpt, &err);
		gt_run_ckpt_release(&ckpt);
		planted_remove(root);
	}
}

/* --resume DIR: the checkpoint is required. */
static void a_run_is_resumed_from_a_checkpoint(void **state)
{
	static const struct {
		struct scene scene;
		const char *hint; /* a part of it; NULL: there is none */
	} cases[] = {
		{ { "a run", { { "/config.json", RUN }, { STEP "1.pth", CKPT } }, .argument = "" },
		    NULL },
		{ { "a file", { { "/w.pth", CKPT } }, .argument = "/w.pth" }, NULL },
		{ { "nothing there", { { 0 } }, .argument = "/none" }, NULL },
		{ { "a run that was killed before its first checkpoint",
		      { { "/config.json", RUN }, { "/metrics.jsonl", "" },
		          { STEP "2.pth.tmp-1-0", CKPT } },
		      .argument = "", .code = GT_EIO, .says = "' has no checkpoint to go on with" },
		    "resume auto starts a new run" },
		{ { "a run without its checkpoints",
		      { { "/config.json", RUN }, { "/model.pth", CKPT } }, .argument = "",
		      .code = GT_EIO, .says = "' has no checkpoint to go on with" },
		    "/model.pth starts a new run from its weights" },
		{ { "an empty folder", { { 0 } }, .argument = "", .code = GT_EIO,
		      .says = "' has no checkpoint to go on with" },
		    "resume auto starts a new run" },
		{ { "a damaged config.json", { { "/config.json", "{" }, { "/model.pth", CKPT } },
		      .argument = "", .code = GT_EFORMAT, .says = "/config.json': line 1: " },
		    NULL },
		{ { "a folder of Hugging Face's",
		      { { "/config.json", GPT2 }, { "/model.safetensors", CKPT } }, .argument = "",
		      .code = GT_EFORMAT, .says = "it has the weights alone" },
		    " starts a new run from its weights" },
		{ { "a link as checkpoints/",
		      { { "/config.json", RUN }, { "/other/step-00000001.pth", CKPT } },
		      .link = "/checkpoints", .target = "other", .argument = "", .code = GT_EIO,
		      .says = "checkpoints' is a symbolic link, not a directory" },
		    " with a directory" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		const struct scene *scene = &cases[i].scene;
		struct gt_err err = GT_ERR_INIT;
		char root[PLANTED_ROOT], argument[PATH_SIZE];
		int rc;

		build(root, scene);
		rc = gt_run_ckpt_check_resumed(in(argument, root, scene->argument), &err);
		if (rc != scene->code || (rc && !strstr(err.text, scene->says)))
			fail_msg("%s: code %d, \"%s\"", scene->name, rc, rc ? err.text : "");
		if (cases[i].hint ? !strstr(err.hint, cases[i].hint) : *err.hint != '\0')
			fail_msg("%s: hint \"%s\"", scene->name, err.hint);
		planted_remove(root);
	}
}

/* Commands on checkpoints take anything else as a file of its own. */
static void run_directories_stand_for_a_file(void **state)
{
	static const struct scene cases[] = {
		{ "a run", { { "/config.json", RUN }, { STEP "1.pth", CKPT } }, .argument = "",
		    .found = STEP "1.pth" },
		{ "a run whose config.json is damaged",
		    { { "/config.json", "{" }, { "/model.pth", CKPT } }, .argument = "",
		    .found = "/model.pth" },
		{ "a file", { { "/a.pth", CKPT } }, .argument = "/a.pth" },
		{ "a folder without checkpoints", { { "/config.json", RUN } }, .argument = "" },
		{ "nothing there", { { 0 } }, .argument = "/none" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct gt_err err = GT_ERR_INIT;
		char root[PLANTED_ROOT], argument[PATH_SIZE], *path;

		build(root, &cases[i]);
		in(argument, root, cases[i].argument);
		assert_int_equal(gt_run_ckpt_find(&path, argument, &err), 0);
		if (!same(behind(root, path), cases[i].found))
			fail_msg("%s: '%s'", cases[i].name, path);
		free(path);
		planted_remove(root);
	}
}

/* ---- facts ---- */

static json_t *parse(const char *text)
{
	json_t *json = text ? json_loads(text, 0, NULL) : NULL;

	assert_true(json || !text);
	return json;
}

static void the_model_is_named_by_the_first_that_knows(void **state)
{
	static const struct {
		const char *given, *about, *config, *model;
	} cases[] = {
		{ "mlp:2,3", "{\"model\": \"lenet\"}", RUN, "mlp:2,3" },
		{ NULL, "{\"model\": \"resnet20\"}", RUN, "resnet20" },
		{ NULL, "{}", RUN, "lenet" },
		{ NULL, NULL, RUN, "lenet" },
		{ NULL, "{\"model\": 20}", NULL, NULL },
		{ NULL, NULL, NULL, NULL },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct gt_run_ckpt ckpt = { .about = parse(cases[i].about),
			.config = parse(cases[i].config) };
		struct gt_err err = GT_ERR_INIT;
		const char *model;

		ckpt.path = strdup("last.pth");
		model = gt_run_ckpt_model(&ckpt, cases[i].given, &err);
		if (!same(model, cases[i].model))
			fail_msg("case %zu: '%s'", i, model);
		if (!model)
			assert_non_null(strstr(err.text, " is missing, and neither 'last.pth' nor "
			                                 "a config.json of its run says it"));
		gt_run_ckpt_release(&ckpt);
	}
}

/* The description of the data in a checkpoint counts before that in config.json. */
static void data_are_described_by_the_first_that_knows(void **state)
{
	static const struct {
		const char *about, *config;
		int code, height;
		const char *says; /* the error; or the setting that is known */
	} cases[] = {
		{ NULL, NULL, 0, 0, "" },
		{ ABOUT("[28, 28, 1]") "}", RUN, 0, 28, "" },
		/* the option alone is no description */
		{ NULL, ABOUT("[32, 32, 3]") ", \"data\": \"images:x,size=64\"}", 0, 32, "" },
		{ ABOUT("[28, 28, 1], \"reduce\": true") "}", "{\"data\": \"images:x,reduce=no\"}",
		    0, 28, "reduce=yes" },
		{ NULL, "{\"data\": \"images:x,size=64\"}", 0, 0, "" },
		{ ABOUT("\"x\"") "}", RUN, GT_EFORMAT, 0,
		    "'last.pth', 'gtrain.about': 'about', 'data': " },
		{ NULL, ABOUT("[-1, 2, 3]") "}", GT_EFORMAT, 0,
		    "'run/config.json': 'about', 'data': " },
		{ NULL, "{\"about\": {\"data\": 7}}", GT_EFORMAT, 0,
		    "'run/config.json': 'about', 'data': " },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct gt_run_ckpt ckpt = { .about = parse(cases[i].about),
			.config = parse(cases[i].config) };
		struct gt_data_description d;
		struct gt_err err = GT_ERR_INIT;
		char last[] = "last.pth", run[] = "run";
		const char *says;
		int rc;

		ckpt.path = last;
		ckpt.dir.folder.path = run;
		rc = gt_run_ckpt_describe(&d, &ckpt, &err);
		says = rc ? err.text : !d.reduce_known ? "" : d.reduce ? "reduce=yes" : "reduce=no";
		if (rc != cases[i].code || d.form.height != cases[i].height ||
		    (rc ? !strstr(says, cases[i].says) : strcmp(says, cases[i].says) != 0))
			fail_msg(
			    "case %zu: code %d, \"%s\", height %d", i, rc, says, d.form.height);
		gt_data_description_release(&d);
		json_decref(ckpt.about);
		json_decref(ckpt.config);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arguments_mean_a_checkpoint),
		cmocka_unit_test(the_latest_is_found_where_there_is_one),
		cmocka_unit_test(a_run_is_resumed_from_a_checkpoint),
		cmocka_unit_test(run_directories_stand_for_a_file),
		cmocka_unit_test(the_model_is_named_by_the_first_that_knows),
		cmocka_unit_test(data_are_described_by_the_first_that_knows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
