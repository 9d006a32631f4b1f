/* argument.c - find the file that a checkpoint argument means, and the run that it belongs to. */
#include "lib/train/checkpoint/argument.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/ckpt/dcp_set.h"
#include "lib/data/get/sets.h"
#include "lib/train/checkpoint/pretrained.h"
#include "lib/train/checkpoint/saved.h"
#include "lib/train/run/about.h"
#include "lib/train/run/run_list.h"

/* Remove the last component of a path. The result is "." if there is only one. */
static void go_up(char *path)
{
	char *slash = strrchr(path, '/');

	if (slash)
		slash[slash == path] = '\0';
	else
		strcpy(path, ".");
}

/* Open the directory with its config.json if it is a run's. It may be anybody's: one that cannot be
 * opened is no run, nor is one whose config.json cannot be read, or is a link, unless there are
 * metrics beside it. */
static int open_if_run(struct gt_run_ckpt *s, const char *dir, struct gt_err *err)
{
	struct gt_err why = GT_ERR_INIT;
	int rc = gt_folder_open(&s->dir.folder, dir, &why);

	if (!rc)
		rc = gt_run_dir_read_config(&s->config, &s->dir, &why);
	if (rc == GT_ENOMEM ||
	    (rc && s->dir.folder.path && gt_run_dir_has_metrics(&s->dir.folder))) {
		*err = why;
		return rc;
	}
	if (gt_run_dir_is_config(s->config))
		return gt_folder_open_in(
		    &s->dir.checkpoints, &s->dir.folder, "checkpoints", false, err);
	json_decref(s->config);
	s->config = NULL;
	gt_run_dir_close(&s->dir);
	return 0;
}

/* Remove slashes at the end of a path. */
static void cut_slashes(char *path)
{
	size_t length = strlen(path);

	while (length > 1 && path[length - 1] == '/')
		path[--length] = '\0';
}

/* Cut the path of a file, in place, to the directory of the run that it would belong to: its own
 * folder or, if that is called checkpoints/, the one above. */
static void to_run(char *path)
{
	const char *slash;

	go_up(path);
	slash = strrchr(path, '/');
	if (!strcmp(slash ? slash + 1 : path, "checkpoints"))
		go_up(path);
}

/*
 * Open the run directory that a checkpoint file belongs to. There may be none. A path may lead to
 * the file by links, from within checkpoints/ or through "//": the file's real path counts, and the
 * user's spelling is kept where it names the same directory.
 */
static int open_run_of(struct gt_run_ckpt *s, const char *file, struct gt_err *err)
{
	char *dir = gt_calloc(strlen(file) + 2, 1, err), *real = realpath(file, NULL);
	int rc = GT_ENOMEM;

	if (dir) {
		strcpy(dir, file);
		to_run(dir);
		if (real)
			to_run(real);
		rc = open_if_run(s, !real || gt_file_is_same(dir, real) ? dir : real, err);
	}
	free(real);
	free(dir);
	return rc;
}

static int choose_source_path(struct gt_run_ckpt *s, const struct gt_folder *folder, char *path)
{
	s->path = path;
	s->file = (struct gt_file_name){ folder, path };
	return path ? 0 : GT_ENOMEM;
}

/* Choose the folder of a distributed checkpoint. It is opened by its .metadata, so that links in it
 * are not followed. */
static int choose_set(struct gt_run_ckpt *s, struct gt_err *err)
{
	const char *name;
	int rc;

	gt_file_at(s->file, &name);
	rc = gt_folder_open_in(&s->set, &s->dir.checkpoints, name, false, err);
	if (!rc && !s->set.path)
		rc = gt_err_set(err, GT_EIO, "'%s' is gone", s->path);
	if (!rc && faccessat(s->set.fd, GT_DCP_METADATA, F_OK, AT_SYMLINK_NOFOLLOW)) {
		gt_err_set(err, GT_EFORMAT, "'%s' is damaged: it has no " GT_DCP_METADATA, s->path);
		rc = gt_err_hint(err, "copy that file, too; with this folder out of the way, the "
		                      "checkpoint before it is the latest");
	}
	s->metadata = rc ? NULL : gt_folder_path(&s->set, GT_DCP_METADATA, err);
	s->file = (struct gt_file_name){ &s->set, s->metadata };
	return rc || s->metadata ? rc : GT_ENOMEM;
}

static int choose_latest(struct gt_run_ckpt *s, struct gt_err *err)
{
	enum gt_run_form form;
	int64_t step;
	int rc = gt_run_dir_latest_step(&step, &s->dir, err);

	if (rc || step < 0)
		return rc;
	form = gt_run_dir_form(&s->dir, step);
	rc = choose_source_path(
	    s, &s->dir.checkpoints, gt_run_dir_checkpoint(&s->dir, step, form, err));
	return rc || form != GT_RUN_SET ? rc : choose_set(s, err);
}

/* The config.json tells whether a folder is one of Hugging Face's. If it is damaged, that is the
 * fault, whatever else the folder holds. */
static int check_config(const char *folder, struct gt_err *err)
{
	json_t *config;
	int rc = gt_pretrained_read_config(&config, folder, err);

	json_decref(config);
	return rc;
}

/* A folder of runs is not a checkpoint. Return 0 for other folders. */
static int check_not_runs(const char *folder, struct gt_err *err)
{
	char runs[GT_RUN_LIST_SIZE];

	if (!gt_run_list(runs, sizeof(runs), folder))
		return 0;
	gt_err_set(err, GT_EIO, "'%s' is a folder of runs, and no checkpoint", folder);
	return gt_err_hint(err, "name one of them: %s", runs);
}

static int fail_without_checkpoint(const char *folder, struct gt_err *err)
{
	int rc = check_config(folder, err);

	if (!rc)
		rc = check_not_runs(folder, err);
	if (rc)
		return rc;
	gt_err_set(err, GT_EIO, "'%s' holds no checkpoint", folder);
	return gt_err_hint(err,
	    "a run directory has checkpoints/step-N.pth or model.pth, a folder of "
	    "Hugging Face's a config.json with a model_type");
}

/* Choose the folder itself, if it is a checkpoint of several files and no run. A config.json is
 * that of a run or of Hugging Face's. */
static int choose_folder(struct gt_run_ckpt *s, struct gt_err *err)
{
	const char *folder = s->dir.folder.path;
	char *config = gt_folder_path(&s->dir.folder, "config.json", err);
	bool taken = config && gt_file_exists((struct gt_file_name){ &s->dir.folder, config });

	free(config);
	if (!config)
		return GT_ENOMEM;
	if (taken || !gt_ckpt_is_in(folder))
		return fail_without_checkpoint(folder, err);
	free(s->path);
	s->role = NULL;
	return choose_source_path(s, NULL, gt_strdup(folder, err));
}

/* Choose the newest checkpoint of a run directory or, without checkpoints, its model.pth. */
static int choose_newest(struct gt_run_ckpt *s, struct gt_err *err)
{
	int rc = choose_latest(s, err);

	if (rc || s->path)
		return rc;
	rc =
	    choose_source_path(s, &s->dir.folder, gt_folder_path(&s->dir.folder, "model.pth", err));
	return rc || gt_file_exists(s->file) ? rc : choose_folder(s, err);
}

/* Choose the weights of the best evaluation, if there are any. */
static int choose_best(struct gt_run_ckpt *s, struct gt_err *err)
{
	int rc =
	    choose_source_path(s, &s->dir.folder, gt_folder_path(&s->dir.folder, "best.pth", err));

	if (rc)
		return rc;
	if (gt_file_exists(s->file)) {
		s->role = ", the best evaluation of the run";
		return 0;
	}
	free(s->path);
	s->path = NULL;
	return 0;
}

void gt_run_ckpt_log(
    const struct gt_run_ckpt *s, const struct gt_weights_report *report, struct gt_log *log)
{
	gt_log_info(log, "weights from %s%s%s%s", s->path, s->role ? s->role : "",
	    *report->note ? ": " : "", report->note);
}

void gt_run_ckpt_log_choice(
    const struct gt_run_ckpt *s, const struct gt_weights_report *report, struct gt_log *log)
{
	if (*report->note || s->role)
		gt_run_ckpt_log(s, report, log);
}

/* Set *path to the path of a file of the run; NULL: the run has none of this name. */
static int find_run_file(
    char **path, const struct gt_run_ckpt *s, const char *name, struct gt_err *err)
{
	*path = gt_folder_path(&s->dir.folder, name, err);
	if (!*path)
		return GT_ENOMEM;
	if (gt_file_exists((struct gt_file_name){ &s->dir.folder, *path }))
		return 0;
	free(*path);
	*path = NULL;
	return 0;
}

static int find_run_files(struct gt_run_ckpt *s, struct gt_err *err)
{
	int rc = find_run_file(&s->network, s, GT_RUN_NETWORK, err);

	if (!rc && !s->network)
		rc = find_run_file(&s->network, s, GT_RUN_ONNX, err);
	if (!rc)
		rc = find_run_file(&s->vocab, s, "vocab.json", err);
	return rc || s->vocab ? rc : find_run_file(&s->vocab, s, "tokenizer.json", err);
}

static int read_run(struct gt_run_ckpt *s, struct gt_err *err)
{
	int rc = gt_run_dir_read_config(&s->config, &s->dir, err);

	return rc ? rc : find_run_files(s, err);
}

bool gt_run_ckpt_is_saved_folder(const char *argument)
{
	return gt_saved_is_folder(argument) || gt_dcp_is_folder(argument);
}

bool gt_run_ckpt_is_transformers(const char *argument)
{
	return gt_pretrained_is_folder(argument);
}

/* A run cannot go on from its model.pth, but a new one can start from its weights. */
static int fail_to_resume(struct gt_run_ckpt *s, struct gt_err *err)
{
	const char *folder = s->dir.folder.path, *last = strrchr(folder, '/');
	int rc = check_config(folder, err);

	if (!rc)
		rc = check_not_runs(folder, err);
	if (!rc)
		rc = choose_source_path(
		    s, &s->dir.folder, gt_folder_path(&s->dir.folder, "model.pth", err));
	if (rc)
		return rc;
	gt_err_set(err, GT_EIO, "'%s' has no checkpoint to go on with", folder);
	if (last && !strcmp(last, "/checkpoints"))
		return gt_err_hint(
		    err, "did you mean {resume} %.*s?", (int)(last - folder), folder);
	if (gt_file_exists(s->file))
		return gt_err_hint(
		    err, "{init-from} %s starts a new run from its weights", s->path);
	return gt_err_hint(err, "{resume} auto starts a new run if there is none");
}

int gt_run_ckpt_check_resumed(const char *argument, struct gt_err *err)
{
	struct gt_run_ckpt ckpt = { 0 };
	struct stat st;
	int rc;

	if (stat(argument, &st) || !S_ISDIR(st.st_mode) || gt_run_ckpt_is_saved_folder(argument))
		return 0;
	if (gt_run_ckpt_is_transformers(argument)) {
		gt_err_set(err, GT_EFORMAT,
		    "'%s' is no training checkpoint: it has the weights alone", argument);
		return gt_err_hint(err, "{init-from} starts a new run from its weights");
	}
	rc = gt_run_dir_open(&ckpt.dir, argument, err);
	if (!rc)
		rc = choose_latest(&ckpt, err);
	if (!rc && !ckpt.path)
		rc = fail_to_resume(&ckpt, err);
	gt_run_ckpt_release(&ckpt);
	return rc;
}

/* Facts about the checkpoint from a folder of Hugging Face's. */
static int read_pretrained(struct gt_run_ckpt *s, const char *folder, struct gt_err *err)
{
	struct gt_pretrained p;
	int rc = gt_pretrained_open(&p, folder, err);

	if (!rc) {
		s->about = json_incref(p.about);
		s->vocab = p.vocab;
		p.vocab = NULL;
		s->names = GT_NAMES_HUGGINGFACE;
	}
	gt_pretrained_release(&p);
	return rc;
}

/* Open a training checkpoint of another program, which belongs to no run. The option {model} names
 * its model if it has no config.json that does. */
static int open_saved_folder(struct gt_run_ckpt *s, const char *argument, struct gt_err *err)
{
	int rc = choose_source_path(s, NULL, gt_strdup(argument, err));

	if (!rc && gt_pretrained_is_folder(argument))
		(void)read_pretrained(s, argument, GT_ERR_IGNORED);
	return rc;
}

/* Reject an argument that is the config.json of a run: its directory is meant. */
static int check_name(const struct gt_run_ckpt *s, struct gt_err *err)
{
	const char *slash = strrchr(s->path, '/');

	if (strcmp(slash ? slash + 1 : s->path, GT_RUN_CONFIG))
		return 0;
	gt_err_set(err, GT_EFORMAT, "'%s' has the options of a run, and is no checkpoint", s->path);
	return gt_err_hint(err, "name the run's directory: '%s'", s->dir.folder.path);
}

static int open_run(
    struct gt_run_ckpt *out, const char *argument, enum gt_run_choice choice, struct gt_err *err)
{
	int rc = gt_run_dir_open(&out->dir, argument, err);

	if (!rc && choice == GT_RUN_BEST)
		rc = choose_best(out, err);
	if (!rc && !out->path) {
		out->role = ", the latest state of the run";
		rc = choose_newest(out, err);
	}
	if (!rc)
		rc = read_run(out, err);
	return rc ? rc : gt_about_open(&out->about, out->file, err);
}

/*
 * Find the checkpoint that `argument` names:
 *
 *   - A file: the checkpoint is this file. It belongs to a run if it is in a run directory, or in
 *     the folder checkpoints/ of a run directory. A directory is not a run directory if its
 *     config.json does not belong to a run. If its config.json is a link or damaged, this is an
 *     error if the directory has metrics.jsonl; otherwise the directory is not a run directory.
 *   - The folder of a distributed checkpoint of PyTorch: the checkpoint is this folder. It belongs
 *     to a run as a file does.
 *   - A run directory: with GT_RUN_BEST, the checkpoint is best.pth if there is this file.
 *     Otherwise it is the latest one in checkpoints/; if there is none, it is model.pth.
 *   - A folder written by the library transformers: the checkpoint is this folder (pretrained.h),
 *     without a run. out->about comes from the config.json of the folder, and out->vocab from its
 *     tokenizer.
 *   - A folder in which another program saved a training checkpoint: the checkpoint is this folder
 *     (saved.h), without a run.
 *
 * If `argument` is a symbolic link, the link is followed; files in a run directory must not be
 * links. Errors: GT_EIO if there is no checkpoint. Release *out even after an error.
 */
int gt_run_ckpt_open(
    struct gt_run_ckpt *out, const char *argument, enum gt_run_choice choice, struct gt_err *err)
{
	struct stat st;
	int rc;

	*out = (struct gt_run_ckpt){ 0 };
	if (stat(argument, &st)) {
		gt_err_sys(err, "cannot open the checkpoint '%s'", argument);
		if (!strcmp(argument, "random"))
			return gt_err_hint(err, "{init} random starts from random weights");
		return gt_set_hint_missing(argument, true, err);
	}
	if (gt_saved_is_folder(argument))
		return open_saved_folder(out, argument, err);
	if (gt_pretrained_is_folder(argument)) {
		rc = choose_source_path(out, NULL, gt_strdup(argument, err));
		return rc ? rc : read_pretrained(out, argument, err);
	}
	if (S_ISDIR(st.st_mode) && !gt_dcp_is_folder(argument))
		return open_run(out, argument, choice, err);
	rc = choose_source_path(out, NULL, gt_strdup(argument, err));
	if (!rc)
		cut_slashes(out->path);
	if (!rc)
		rc = open_run_of(out, out->path, err);
	if (!rc && out->dir.folder.path)
		rc = check_name(out, err);
	if (!rc && out->dir.folder.path)
		rc = find_run_files(out, err);
	return rc ? rc : gt_about_open(&out->about, out->file, err);
}

int gt_run_ckpt_find(char **path, const char *argument, struct gt_err *err)
{
	struct gt_run_ckpt ckpt = { 0 };
	struct gt_err none = GT_ERR_INIT;
	struct stat st;
	int rc = 0;

	*path = NULL;
	if (stat(argument, &st) || !S_ISDIR(st.st_mode))
		return 0;
	if (!gt_run_dir_open(&ckpt.dir, argument, &none) && !choose_newest(&ckpt, &none)) {
		/* A folder that is a checkpoint itself is no run. */
		*path = ckpt.file.folder ? gt_strdup(ckpt.path, err) : NULL;
		rc = *path || !ckpt.file.folder ? 0 : GT_ENOMEM;
	} else {
		rc = check_not_runs(argument, err);
	}
	gt_run_ckpt_release(&ckpt);
	return rc;
}

int gt_run_ckpt_latest(struct gt_run_ckpt *out, const char *dir, struct gt_err *err)
{
	struct stat st;
	int rc;

	*out = (struct gt_run_ckpt){ 0 };
	if (stat(dir, &st) && errno == ENOENT)
		return 0;
	rc = gt_run_dir_open(&out->dir, dir, err);
	if (!rc)
		rc = choose_latest(out, err);
	return rc || !out->path ? rc : read_run(out, err);
}

void gt_run_ckpt_release(struct gt_run_ckpt *ckpt)
{
	free(ckpt->path);
	free(ckpt->vocab);
	free(ckpt->network);
	json_decref(ckpt->about);
	json_decref(ckpt->config);
	json_decref(ckpt->folder_about);
	free(ckpt->metadata);
	gt_folder_close(&ckpt->set);
	gt_run_dir_close(&ckpt->dir);
	*ckpt = (struct gt_run_ckpt){ 0 };
}

/* Whether {model} names a folder, or a file by mistake. Names of models have no "/", and count
 * before folders'. The path of an exported network is the model itself. */
static bool is_path(const char *model)
{
	struct stat st;

	for (int i = 0; gt_model_at(i); i++)
		if (!strcmp(gt_model_at(i), model))
			return false;
	if (gt_model_is_file(model))
		return false;
	return strchr(model, '/') || !stat(model, &st);
}

/* Properties of the data that the checkpoint does not know come from the model's folder. */
static const char *read_given(struct gt_run_ckpt *s, const char *folder, struct gt_err *err)
{
	struct gt_pretrained p;

	if (gt_pretrained_open(&p, folder, err)) {
		gt_pretrained_release(&p);
		gt_err_prefix(err, "{model}");
		return NULL;
	}
	s->folder_about = json_incref(p.about);
	if (!s->about && !s->config) {
		s->about = json_incref(p.about);
		if (!s->vocab) {
			s->vocab = p.vocab;
			p.vocab = NULL;
		}
	}
	gt_pretrained_release(&p);
	return json_string_value(json_object_get(s->folder_about, "model"));
}

/* The model that the checkpoint or its run names; NULL: none. */
static const char *trained_model(const struct gt_run_ckpt *s)
{
	const char *model = json_string_value(json_object_get(s->about, "model"));

	if (!model)
		model = json_string_value(json_object_get(s->config, "model"));
	return model && s->network && gt_run_is_network(model) ? s->network : model;
}

/* Whether the model is the exported network of a run that the checkpoint is no part of any more. */
static bool lacks_network(const struct gt_run_ckpt *s)
{
	const char *model = trained_model(s);

	return model && gt_run_is_network(model);
}

/* A file that cannot be read is the fault, not the missing name of its model. */
static int check_opens(const struct gt_run_ckpt *s, struct gt_err *err)
{
	struct gt_ckpt *ckpt;

	if (s->file.path && gt_ckpt_open_at(&ckpt, s->file, err))
		return err->code; /* the message names the file */
	if (s->file.path)
		gt_ckpt_close(ckpt);
	return 0;
}

/*
 * Return the model (NAME[:key=value,...]), borrowed: `given` if it is not NULL, otherwise the model
 * that the checkpoint names, otherwise the model in config.json of the run, otherwise the
 * checkpoint itself if it is an exported network. Return NULL with err set if none of these names
 * a model.
 *
 * `given` may also be the path of a folder that the library transformers wrote. In this case,
 * return the model in the config.json of the folder, and set ckpt->folder_about. If both
 * ckpt->about and ckpt->config are NULL, also set ckpt->about from the folder. In this case,
 * if ckpt->vocab is NULL, set ckpt->vocab from the folder, too.
 *
 * If there is no checkpoint, the caller passes a zeroed *ckpt.
 */
const char *gt_run_ckpt_model(struct gt_run_ckpt *ckpt, const char *given, struct gt_err *err)
{
	const char *model = given;

	if (given && is_path(given))
		return read_given(ckpt, given, err);
	if (!model && lacks_network(ckpt)) {
		gt_err_set(err, GT_EINVAL,
		    "{model} is missing: '%s' was trained with an exported network, which its run "
		    "has as %s",
		    ckpt->path, trained_model(ckpt));
		gt_err_hint(err, "{model} FILE.pt2, or {model} FILE.onnx");
		return NULL;
	}
	if (!model)
		model = trained_model(ckpt);
	if (!model && check_opens(ckpt, err))
		return NULL;
	if (!model && ckpt->path && gt_model_is_file(ckpt->path))
		model = ckpt->path;
	if (!model) {
		gt_err_set(err, GT_EINVAL,
		    "{model} is missing, and neither '%s' nor a config.json of its run says it",
		    ckpt->path);
		gt_err_hint(err, "{model} NAME[:key=value,...], for example resnet20");
	}
	return model;
}

int gt_run_ckpt_check_model(const struct gt_run_ckpt *ckpt, const char *given, struct gt_err *err)
{
	const char *trained = trained_model(ckpt), *chosen = given;

	if (ckpt->folder_about)
		chosen = json_string_value(json_object_get(ckpt->folder_about, "model"));
	if (!given || !trained || !chosen || lacks_network(ckpt) ||
	    gt_model_same_network(trained, chosen))
		return 0;
	return gt_err_set(
	    err, GT_EINVAL, "{model} %s: '%s' has the weights of %s", chosen, ckpt->path, trained);
}

struct gt_load_options gt_run_ckpt_load(
    const struct gt_run_ckpt *ckpt, const struct gt_load_options *load)
{
	struct gt_load_options o = *load;

	if (o.names == GT_NAMES_AUTO)
		o.names = ckpt->names;
	return o;
}

int gt_run_ckpt_describe(
    struct gt_data_description *out, const struct gt_run_ckpt *ckpt, struct gt_err *err)
{
	const json_t *config = ckpt->about ? ckpt->about : ckpt->config;
	int rc = gt_about_read(out, config, err);

	if (rc && ckpt->about)
		return gt_err_prefix(
		    err, "'%s', '" GT_ABOUT_NAME "'", ckpt->path ? ckpt->path : "config.json");
	return rc ? gt_err_prefix(err, "'%s/config.json'", ckpt->dir.folder.path) : 0;
}

const char *gt_run_ckpt_loss(const struct gt_run_ckpt *ckpt)
{
	const char *loss = json_string_value(json_object_get(ckpt->about, "loss"));

	return loss ? loss : json_string_value(json_object_get(ckpt->config, "loss"));
}

const char *gt_run_ckpt_lora(const struct gt_run_ckpt *ckpt)
{
	const json_t *facts = ckpt->about ? ckpt->about : ckpt->config;

	return json_string_value(json_object_get(facts, "lora"));
}

const char *gt_run_ckpt_base(const struct gt_run_ckpt *ckpt)
{
	return json_string_value(json_object_get(ckpt->about, "base"));
}

void gt_run_ckpt_choose_vocab(struct gt_data_description *trained_on, struct gt_file_name *file,
    const struct gt_run_ckpt *ckpt, const char *given)
{
	*file = (struct gt_file_name){ .path = given };
	if (given)
		trained_on->tokenizer = NULL;
	else if (!trained_on->tokenizer)
		*file = (struct gt_file_name){ ckpt->dir.folder.path ? &ckpt->dir.folder : NULL,
			ckpt->vocab };
}

int gt_run_ckpt_check_vocab(const char *path, const struct gt_dataset *data, struct gt_err *err)
{
	static const char alone[] =
	    "vocabulary, so the tokens of the text get numbers of their own";

	if (!gt_dataset_info(data)->own_vocab)
		return 0;
	if (!path)
		return gt_err_set(err, GT_EINVAL, "the training data have no %s", alone);
	return gt_err_set(err, GT_EINVAL, "'%s' does not say its %s", path, alone);
}

/* Whether two vocabularies have the same tokens with the same ids. */
static bool same_tokens(const struct gt_tokenizer *a, const struct gt_tokenizer *b)
{
	int size = gt_tokenizer_size(a);
	bool same = size == gt_tokenizer_size(b);

	for (int i = 0; same && i < size; i++) {
		size_t m = 0, n = 0;
		const char *x = gt_tokenizer_text(a, i, &m), *y = gt_tokenizer_text(b, i, &n);

		same = x && y ? m == n && !memcmp(x, y, m) : !x && !y;
	}
	return same;
}

int gt_run_ckpt_check_given(const struct gt_run_ckpt *ckpt,
    const struct gt_data_description *trained_on, const struct gt_tokenizer *tok, const char *given,
    struct gt_err *err)
{
	const struct gt_file_name file = { ckpt->dir.folder.path ? &ckpt->dir.folder : NULL,
		ckpt->vocab };
	const struct gt_tokenizer *own = trained_on->own;
	struct gt_tokenizer *opened = NULL;
	bool same = true;

	if (!given || !tok || *gt_tokenizer_digest(tok))
		return 0;
	if (!own && file.path && !gt_tokenizer_open(&opened, file, GT_ERR_IGNORED))
		own = opened;
	if (own && !*gt_tokenizer_digest(own))
		same = same_tokens(own, tok);
	gt_tokenizer_close(opened);
	if (same)
		return 0;
	return gt_err_set(err, GT_EINVAL,
	    "'%.200s' is not the vocabulary that '%.200s' was trained with", given, ckpt->path);
}

int gt_run_ckpt_check_scale(const struct gt_run_ckpt *ckpt, const struct gt_dataset *data,
    const char *option, struct gt_err *err)
{
	const struct gt_data_info *info = gt_dataset_info(data);

	if (!info->raw)
		return 0;
	if (info->form.kind == GT_SAMPLE_IMAGE)
		return gt_err_set(err, GT_EINVAL,
		    "'%s' does not say how pixels were normalized: they are used from 0 to 1; "
		    "add mean=...,std=... of its training to {%s}",
		    ckpt->path, option);
	return gt_err_set(err, GT_EINVAL,
	    "'%s' does not say how numbers were standardized: they are read as they are; if the "
	    "model was trained so, confirm it with standardise=no in {%s}",
	    ckpt->path, option);
}
