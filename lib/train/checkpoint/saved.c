/* saved.c - the parts of a training checkpoint of any program. */
#include "lib/train/checkpoint/saved.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/base/python_json.h"
#include "lib/base/text.h"
#include "lib/ckpt/tools/digest.h"

/* ---- names ---- */

/* The keys under which programs save each part, ended by NULL. The first key that exists counts. */
static const char *const optimizers[] = { "optimizer", "optimizer_state_dict", "optimizer_states",
	"optimizer_state", "optim_state_dict", "optim", "opt", "last_optimizer_state", NULL };
static const char *const schedulers[] = { "lr_scheduler", "scheduler", "lr_schedulers",
	"scheduler_state_dict", "lr_scheduler_state_dict", "sched", NULL };
static const char *const scalers[] = { "scaler", "grad_scaler", "scaler_state_dict", "amp_scaler",
	"MixedPrecision", "native_amp_scaling_state", NULL };
static const char *const steps[] = { "step", "global_step", "iter", "iteration", "iter_num",
	"iterations", "n_iter", "steps", NULL };
static const char *const epochs[] = { "epoch", "current_epoch", "epochs", "start_epoch", NULL };

static const struct gt_tree *find_named_value(
    const struct gt_tree *dict, const char *const *names, const char **name)
{
	const struct gt_tree *value = NULL;

	for (; *names && !value; names++) {
		value = gt_tree_get(dict, *names);
		*name = *names;
	}
	return value;
}

static bool is_list_or_tuple(const struct gt_tree *t)
{
	return t && (t->kind == GT_TREE_LIST || t->kind == GT_TREE_TUPLE);
}

/* Return the item of a list with one item, as Lightning saves it, and otherwise the value
 * itself. */
static const struct gt_tree *only(const struct gt_tree *t)
{
	return is_list_or_tuple(t) && t->seq.count == 1 ? t->seq.items[0].value : t;
}

/* ---- parts that are left ---- */

struct left {
	char *text;
	size_t size, used;
	int names, more;
};

enum { NAMES_LEFT = 6 };

static void leave(struct left *l, const char *name)
{
	if (l->names == NAMES_LEFT || l->used + strlen(name) + 20 > l->size) {
		l->more++;
		return;
	}
	l->used += (size_t)snprintf(
	    l->text + l->used, l->size - l->used, "%s'%s'", l->names++ ? ", " : "", name);
}

static void finish_left(struct left *l)
{
	if (l->more)
		snprintf(l->text + l->used, l->size - l->used, " and %d more", l->more);
}

/* List the keys of the file, except those of its parts and of the weights. */
static void list_left(struct gt_saved *s, const struct gt_tree *weights)
{
	struct left l = { .text = s->left, .size = sizeof(s->left) };

	for (size_t i = 0; s->root->kind == GT_TREE_DICT && i < s->root->seq.count; i++) {
		const struct gt_tree_item *item = &s->root->seq.items[i];
		const struct gt_tree *value = item->value;
		double number;

		if (item->key->kind != GT_TREE_STRING || value == weights ||
		    only(value) == s->optimizer || only(value) == s->scaler ||
		    value->kind == GT_TREE_TENSOR ||
		    (value->kind != GT_TREE_BOOL && gt_tree_as_float(value, &number)))
			continue;
		leave(&l, item->key->string.bytes);
	}
	finish_left(&l);
}

/* ---- steps ---- */

/* Every smaller integer is exact as a double. */
static bool is_count(double number)
{
	return number >= 0 && number < 9e15;
}

static int read_number(
    int64_t *step, double *real, const struct gt_tree *value, const char *name, struct gt_err *err)
{
	double number = -1;
	int rc = gt_tree_read_float(value, &number, err);

	if (rc < 0)
		return gt_err_prefix(err, "'%s'", name);
	if (!rc && value && value->kind != GT_TREE_NONE)
		return gt_err_set(err, GT_EFORMAT, "'%s' is not a number", name);
	if (!rc)
		return 0;
	if (!is_count(number))
		return gt_err_set(err, GT_EFORMAT, "'%s' is %g", name, number);
	if (real)
		*real = number;
	else
		*step = (int64_t)number;
	return 0;
}

/* The largest count of the optimizer's states. */
static int read_optimizer_step(struct gt_saved *s, struct gt_err *err)
{
	const struct gt_tree *state = gt_tree_get(s->optimizer, "state");

	for (size_t i = 0; state && state->kind == GT_TREE_DICT && i < state->seq.count; i++) {
		int64_t step = -1;

		if (read_number(
		        &step, NULL, gt_tree_get(state->seq.items[i].value, "step"), "step", err))
			return gt_err_prefix(err, "optimizer state");
		if (step > s->step)
			s->step = step;
	}
	return 0;
}

/* Find the step of a checkpoint that does not name it: the count of its optimizer or of its
 * scheduler. */
static int find_step(struct gt_saved *s, struct gt_err *err)
{
	int rc = s->step < 0 ? read_optimizer_step(s, err) : 0;

	if (!rc && s->step < 0 && s->epoch < 0)
		rc = read_number(
		    &s->step, NULL, gt_tree_get(s->scheduler, "last_epoch"), "last_epoch", err);
	return rc;
}

static int read_counts(struct gt_saved *s, struct gt_err *err)
{
	const char *name = NULL;
	const struct gt_tree *value = find_named_value(s->root, steps, &name);
	int rc = read_number(&s->step, NULL, value, name, err);

	value = find_named_value(s->root, epochs, &name);
	return rc ? rc : read_number(NULL, &s->epoch, value, name, err);
}

/* ---- the optimizer ---- */

const struct gt_tree *gt_saved_param_group(const struct gt_saved *s, size_t i)
{
	const struct gt_tree *groups = gt_tree_get(s->optimizer, "param_groups");

	return is_list_or_tuple(groups) && i < groups->seq.count ? groups->seq.items[i].value
	                                                         : NULL;
}

static int check_optimizer(const struct gt_saved *s, struct gt_err *err)
{
	const char *name = s->optimizer_name;

	if (!s->optimizer)
		gt_err_set(
		    err, GT_EFORMAT, "no training checkpoint: it has no state of an optimizer");
	else if (is_list_or_tuple(s->optimizer) && s->optimizer->seq.count > 1)
		gt_err_set(err, GT_EFORMAT, "'%s' has %zu optimizers, and a run has one", name,
		    s->optimizer->seq.count);
	else if (!gt_saved_param_group(s, 0) || !gt_tree_get(s->optimizer, "state"))
		gt_err_set(err, GT_EFORMAT,
		    "'%s' is no state_dict of torch.optim: it has no 'state' and 'param_groups'",
		    name);
	else
		return 0;
	return gt_err_hint(err, "{init-from} starts a new run from its weights alone");
}

/* ---- files ---- */

static int open_saved_file(
    const struct gt_tree **root, struct gt_saved *s, struct gt_file_name file, struct gt_err *err)
{
	struct gt_ckpt **ckpt = &s->files[s->file_count];
	int rc = gt_ckpt_open_at(ckpt, file, err);

	if (rc)
		return rc;
	s->file_count++;
	*root = gt_ckpt_root(*ckpt);
	rc = gt_digest_check(*ckpt, false, NULL, err);
	return rc ? gt_err_prefix(err, "%s", file.path) : 0;
}

static bool is_own(const struct gt_tree *root)
{
	const struct gt_tree *config = gt_tree_get(root, "config");

	return gt_tree_get(config, "model") && gt_tree_get(config, "data") &&
	       gt_tree_get(root, "lr_scheduler");
}

/* The dict under a key of the root that holds the weights, for the list of parts that are left. */
static const struct gt_tree *weights_of(const struct gt_tree *root)
{
	struct gt_state_dict sd = { 0 };
	const struct gt_tree *found = NULL;

	if (!gt_state_dict_find(&sd, root, GT_ERR_IGNORED))
		found = sd.node;
	gt_state_dict_release(&sd);
	return found;
}

static int read_file(struct gt_saved *s, struct gt_err *err)
{
	const char *other;

	s->config = gt_tree_get(s->root, "config");
	s->other_program = !is_own(s->root);
	s->form =
	    gt_tree_get(s->root, "pytorch-lightning_version") ? "PyTorch Lightning" : "PyTorch";
	s->optimizer = only(find_named_value(s->root, optimizers, &s->optimizer_name));
	s->scheduler = only(find_named_value(s->root, schedulers, &other));
	s->scaler = find_named_value(s->root, scalers, &other);
	if (s->other_program)
		list_left(s, weights_of(s->root));
	return strcmp(gt_ckpt_format(s->files[0]), "dcp") ? 0 : gt_saved_number_params(s, err);
}

/* ---- folders ---- */

/* The files of a Trainer and of accelerate. */
static const struct folder_kind {
	const char *form, *optimizer, *scheduler;
} kinds[] = {
	{ "Hugging Face's Trainer", "optimizer.pt", "scheduler.pt" },
	{ "accelerate", "optimizer.bin", "scheduler.bin" },
};

static bool has_file(const char *folder, const char *name)
{
	char path[4096];
	int length = snprintf(path, sizeof(path), "%s/%s", folder, name);

	return length > 0 && (size_t)length < sizeof(path) && !access(path, F_OK);
}

static const struct folder_kind *kind_of(const char *path)
{
	struct stat st;

	if (stat(path, &st) || !S_ISDIR(st.st_mode))
		return NULL;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (has_file(path, kinds[i].optimizer))
			return &kinds[i];
	return NULL;
}

bool gt_saved_is_folder(const char *path)
{
	return kind_of(path) != NULL;
}

static int open_in(const struct gt_tree **root, struct gt_saved *s, const char *folder,
    const char *name, struct gt_err *err)
{
	char *path = gt_asprintf(err, "%s/%s", folder, name);
	int rc =
	    path ? open_saved_file(root, s, (struct gt_file_name){ .path = path }, err) : GT_ENOMEM;

	free(path);
	return rc;
}

static json_t *parse_trainer_state(const struct gt_mapping *map, struct gt_err *err)
{
	json_error_t where;
	json_t *state =
	    gt_python_json_loadb(map->data ? (const char *)map->data : "", map->size, 0, &where);

	if (!state)
		gt_err_set(err, GT_EFORMAT, "line %d: %.160s", where.line, where.text);
	else if (!json_is_object(state))
		gt_err_set(err, GT_EFORMAT, "it is not an object");
	else
		return state;
	json_decref(state);
	return NULL;
}

/* A count of trainer_state.json; *out stays as it is where the file has none. */
static int read_state_number(
    double *out, const json_t *state, const char *key, bool whole, struct gt_err *err)
{
	const json_t *value = json_object_get(state, key);
	double number = json_number_value(value);

	if (!value || json_is_null(value))
		return 0;
	if (!(whole ? json_is_integer(value) : json_is_number(value)) || !is_count(number))
		return gt_err_set(err, GT_EFORMAT, "'%s' must be %s of 0 or more", key,
		    whole ? "an integer" : "a number");
	*out = number;
	return 0;
}

/* Steps and epochs. Without global_step, the steps that the optimizer counted are used. */
static int read_trainer_state(struct gt_saved *s, const char *folder, struct gt_err *err)
{
	char *path = gt_asprintf(err, "%s/trainer_state.json", folder);
	struct gt_mapping map = { 0 };
	json_t *state = NULL;
	double step = -1;
	int rc = path ? gt_map(&map, path, err) : GT_ENOMEM;

	if (!rc) {
		state = parse_trainer_state(&map, err);
		rc = state ? read_state_number(&step, state, "global_step", true, err) : err->code;
		if (!rc)
			rc = read_state_number(&s->epoch, state, "epoch", false, err);
		if (rc)
			gt_err_prefix(err, "'%s'", path);
	}
	s->step = (int64_t)step;
	json_decref(state);
	gt_unmap(&map);
	free(path);
	return rc;
}

/* List the files of the folder that are not read. */
static int list_files_left(
    struct gt_saved *s, const char *path, const struct folder_kind *kind, struct gt_err *err)
{
	struct left l = { .text = s->left, .size = sizeof(s->left) };
	struct gt_folder folder;
	const char *name = NULL;
	int rc = gt_folder_open(&folder, path, err);
	DIR *d = rc ? NULL : gt_folder_list(&folder, err);

	if (!rc)
		rc = d ? gt_folder_next(&name, &folder, d, err) : err->code;
	while (!rc && name) {
		if (*name != '.' && strcmp(name, kind->optimizer) && strcmp(name, "scaler.pt") &&
		    strcmp(name, "trainer_state.json") && !gt_ckpt_is_part_name(name))
			leave(&l, name);
		rc = gt_folder_next(&name, &folder, d, err);
	}
	finish_left(&l);
	if (d)
		closedir(d);
	gt_folder_close(&folder);
	return rc;
}

static int read_folder(
    struct gt_saved *s, const struct folder_kind *kind, const char *path, struct gt_err *err)
{
	int rc = open_in(&s->optimizer, s, path, kind->optimizer, err);

	s->other_program = true;
	s->form = kind->form;
	s->optimizer_name = kind->optimizer;
	if (!rc && has_file(path, kind->scheduler))
		rc = open_in(&s->scheduler, s, path, kind->scheduler, err);
	if (!rc && has_file(path, "scaler.pt"))
		rc = open_in(&s->scaler, s, path, "scaler.pt", err);
	if (!rc && has_file(path, "trainer_state.json"))
		rc = read_trainer_state(s, path, err);
	return rc ? rc : list_files_left(s, path, kind, err);
}

/* ---- all of it ---- */

/*
 * A training checkpoint is one of these:
 *
 *   gtrain      a file with an entry `config` (snapshot.c)
 *   PyTorch     a file with a dict. gt_state_dict_find() finds the state_dict of the model in it.
 *               The tables above have the keys under which programs save the other parts.
 *   DCP         a folder that torch.distributed.checkpoint wrote: as PyTorch, but the keys of the
 *               optimizer's state are strings (saved_dcp.c)
 *   Lightning   like PyTorch, but the optimizers and the schedulers are in the lists
 *               `optimizer_states` and `lr_schedulers`
 *   Trainer     a folder of Hugging Face's Trainer: weights, optimizer.pt, scheduler.pt,
 *               trainer_state.json
 *   accelerate  a folder of accelerate's save_state(): weights, optimizer.bin, scheduler.bin
 *
 * Only tensors that hold a number of steps are read.
 *
 * Sources: pytorch-lightning, trainer/connectors/checkpoint_connector.py, dump_checkpoint();
 * transformers, trainer.py, _save_checkpoint(), and trainer_callback.py, TrainerState; accelerate,
 * checkpointing.py, save_accelerator_state().
 */
int gt_saved_open(struct gt_saved *out, struct gt_file_name file, struct gt_err *err)
{
	const struct folder_kind *kind = file.folder ? NULL : kind_of(file.path);
	int rc;

	*out = (struct gt_saved){ .step = -1, .epoch = -1 };
	rc = open_saved_file(&out->root, out, file, err);
	if (!rc && kind)
		rc = read_folder(out, kind, file.path, err);
	else if (!rc && read_file(out, err))
		rc = gt_err_prefix(err, "%s", file.path);
	if (rc || !out->other_program)
		return rc;
	rc = check_optimizer(out, err);
	if (!rc && !kind)
		rc = read_counts(out, err);
	if (!rc)
		rc = find_step(out, err);
	return rc ? gt_err_prefix(err, "%s", file.path) : 0;
}

void gt_saved_close(struct gt_saved *s)
{
	while (s->file_count)
		gt_ckpt_close(s->files[--s->file_count]);
	gt_arena_release(&s->arena);
}
