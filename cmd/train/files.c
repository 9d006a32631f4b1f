/* files.c - ranks of other hosts get the files that rank 0 reads. */
#include "cmd/train/files.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/recipes.h"
#include "cmd/train/copies.h"
#include "lib/base/file.h"
#include "lib/base/walk.h"
#include "lib/ckpt/dcp_set.h"
#include "lib/comm/group_meet.h"
#include "lib/model/model.h"
#include "lib/train/checkpoint/argument.h"
#include "lib/train/run/run_dir.h"

/*
 * Rank 0 lists the files of each option, with sizes and times:
 *
 *   --resume runs/a   config.json, network.pt2, vocab.json, checkpoints/step-00000400.pth
 *   --model gpt2/     config.json, model.safetensors, tokenizer.json
 *
 * Of a distributed checkpoint these are all files in its folder. The list also has the name by
 * which each option finds its file among the copies: "" is their folder.
 *
 * All ranks compare the list with their own files. If any file of an option is missing or is
 * another one, all files of this option are sent to that rank's host, to a folder for temporary
 * files: a file system that hosts share has them already, with the same times.
 */
enum { CONFIG, RESUME, INIT_FROM, MODEL, OUT, ARGUMENTS };

enum { PIECE_BYTES = 4 << 20, MOST_LIST_BYTES = 16 << 20, MOST_FILES = 10000 };

static const char **option_at(struct gt_train_cli *cli, int argument)
{
	const char **const options[ARGUMENTS] = { &cli->config, &cli->train.resume,
		&cli->train.init_from, &cli->train.model, &cli->train.out };

	return options[argument];
}

/* ---- the list, on rank 0 ---- */

static bool is_listed(const json_t *files, int argument, const char *name)
{
	json_t *entry;
	size_t i;

	json_array_foreach(files, i, entry)
	{
		if (json_integer_value(json_object_get(entry, "argument")) == argument &&
		    !strcmp(json_string_value(json_object_get(entry, "name")), name))
			return true;
	}
	return false;
}

/* Add PATH/NAME, or PATH itself without a name. Only regular files count. */
static int add_file(
    json_t *files, int argument, const char *path, const char *name, struct gt_err *err)
{
	char *whole = *name ? gt_asprintf(err, "%s%s%s", path, strcmp(path, "/") ? "/" : "", name)
	                    : gt_strdup(path, err);
	const char *last = strrchr(path, '/');
	struct stat st;
	int rc = 0;

	if (!whole)
		return GT_ENOMEM;
	if (!*name)
		name = last ? last + 1 : path;
	if (!stat(whole, &st) && S_ISREG(st.st_mode))
		rc = json_array_append_new(files,
		    json_pack("{s:i,s:s,s:s,s:I,s:I,s:I}", "argument", argument, "path", whole,
		        "name", name, "size", (json_int_t)st.st_size, "s",
		        (json_int_t)st.st_mtim.tv_sec, "ns", (json_int_t)st.st_mtim.tv_nsec));
	if (rc)
		rc = gt_err_set(
		    err, GT_EIO, "the name of '%s' cannot be sent to other hosts", whole);
	else if (json_array_size(files) > MOST_FILES)
		rc = gt_err_set(err, GT_ENOTSUP,
		    "'%s' has more than %d files, too many to send to other hosts", path,
		    MOST_FILES);
	free(whole);
	return rc;
}

/* The files of an option's folder. */
struct listing {
	json_t *files;
	int argument;
	const char *path;
};

/* Hidden files are not read, except the .metadata of distributed checkpoints. */
static int add_entry(void *context, FTS *fts, FTSENT *entry, struct gt_err *err)
{
	const struct listing *l = context;
	const char *name = entry->fts_path + strlen(l->path);

	if (entry->fts_level && *entry->fts_name == '.' &&
	    strcmp(entry->fts_name, GT_DCP_METADATA) != 0) {
		fts_set(fts, entry, FTS_SKIP);
		return 0;
	}
	return entry->fts_info == FTS_F
	           ? add_file(l->files, l->argument, l->path, name + strspn(name, "/"), err)
	           : 0;
}

/* Add the files of the folder PATH/BELOW, or, if `below` is "", of PATH itself. */
static int add_folder(
    json_t *files, int argument, const char *path, const char *below, struct gt_err *err)
{
	struct listing listing = { files, argument, path };
	const struct gt_folder_walk how = { .visit = add_entry, .context = &listing };
	char *whole = *below ? gt_asprintf(err, "%s/%s", path, below) : gt_strdup(path, err);
	int rc = whole ? gt_folder_walk(whole, &how, err) : GT_ENOMEM;

	free(whole);
	return rc;
}

/* Files beside a checkpoint that tell about its run. */
static int add_run_files(json_t *files, int argument, const char *dir, struct gt_err *err)
{
	static const char *const names[] = { GT_RUN_CONFIG, GT_RUN_NETWORK, GT_RUN_ONNX,
		"vocab.json", "tokenizer.json", "model.pth", "best.pth" };
	size_t count = argument == INIT_FROM ? 7 : 5;
	int rc = 0;

	for (size_t i = 0; !rc && i < count; i++)
		rc = add_file(files, argument, dir, names[i], err);
	return rc;
}

/* The latest checkpoint of a run directory, as a name in it; NULL: none. The caller frees it. */
static char *find_latest(const char *path)
{
	struct gt_run_dir dir;
	int64_t step = -1;
	char *whole = NULL, *name = NULL;

	if (gt_run_dir_open(&dir, path, GT_ERR_IGNORED))
		return NULL;
	if (!gt_run_dir_latest_step(&step, &dir, GT_ERR_IGNORED) && step >= 0)
		whole =
		    gt_run_dir_checkpoint(&dir, step, gt_run_dir_form(&dir, step), GT_ERR_IGNORED);
	if (whole)
		name = gt_asprintf(GT_ERR_IGNORED, "checkpoints/%s", strrchr(whole, '/') + 1);
	free(whole);
	gt_run_dir_close(&dir);
	return name;
}

/* Add a checkpoint in the folder `dir`: a file, or the files of a distributed one. */
static int add_one(
    json_t *files, int argument, const char *dir, const char *name, struct gt_err *err)
{
	char *whole = gt_asprintf(err, "%s/%s", dir, name);
	struct stat st;
	int rc = whole ? 0 : GT_ENOMEM;

	if (!rc && !stat(whole, &st) && S_ISDIR(st.st_mode))
		rc = add_folder(files, argument, dir, name, err);
	else if (!rc && !is_listed(files, argument, name))
		rc = add_file(files, argument, dir, name, err);
	free(whole);
	return rc;
}

static int add_run(json_t *list, json_t *files, int argument, const char *path, struct gt_err *err)
{
	char *latest = find_latest(path);
	int rc = add_run_files(files, argument, path, err);

	if (!rc && latest) {
		rc = add_one(files, argument, path, latest, err);
		json_object_set_new(list, argument == OUT ? "out" : "resume",
		    json_pack("{s:s,s:s}", "folder", path, "name", latest));
	}
	free(latest);
	return rc;
}

/* The option finds its file or its folder by this name among the copies. */
static void name_copy(json_t *list, int argument, const char *name)
{
	json_array_set_new(json_object_get(list, "names"), (size_t)argument, json_string(name));
}

/* A checkpoint may lie in a run directory, or in its folder checkpoints/. Links may lead there. */
static int add_checkpoint(
    json_t *list, json_t *files, int argument, const char *path, struct gt_err *err)
{
	char *real = argument == CONFIG ? gt_asprintf(err, "./%s", path) : realpath(path, NULL);
	char *end = real ? strrchr(real, '/') : NULL;
	const char *dir = real;
	int rc;

	if (!end)
		return gt_err_sys(err, "cannot find '%s'", path);
	if (argument == CONFIG && *path == '/')
		dir += 2;
	if (end - dir >= 12 && !strncmp(end - 12, "/checkpoints", 12))
		end -= 12;
	*end = '\0';
	name_copy(list, argument, end + 1);
	rc = add_run_files(files, argument, *dir ? dir : "/", err);
	if (!rc)
		rc = add_one(files, argument, *dir ? dir : "/", end + 1, err);
	free(real);
	return rc;
}

/* Whether the option names files. Names that the library knows count first. */
static bool is_path(int argument, const char *text, struct stat *st)
{
	if (argument == RESUME && !strcmp(text, "auto"))
		return false;
	if (argument == CONFIG && gt_cmd_recipe_find(text))
		return false;
	for (int i = 0; argument == MODEL && gt_model_at(i); i++)
		if (!strcmp(gt_model_at(i), text))
			return false;
	return !stat(text, st); /* otherwise the error is rank 0's */
}

static int add_argument(
    json_t *list, json_t *files, int argument, const char *path, struct gt_err *err)
{
	struct gt_run_dir dir = { .folder.fd = -1 };
	const char *slash = strrchr(path, '/');
	json_t *config = NULL;
	struct stat st;
	bool is_run;

	if (!is_path(argument, path, &st))
		return 0;
	if (!S_ISDIR(st.st_mode) && argument == MODEL) {
		name_copy(list, argument, slash ? slash + 1 : path);
		return add_file(files, argument, path, "", err);
	}
	if (!S_ISDIR(st.st_mode) || (argument != OUT && gt_dcp_is_folder(path)))
		return add_checkpoint(list, files, argument, path, err);
	is_run = argument == OUT;
	if (!is_run && !gt_folder_open(&dir.folder, path, GT_ERR_IGNORED)) {
		is_run = !gt_run_dir_read_config(&config, &dir, GT_ERR_IGNORED) &&
		         gt_run_dir_is_config(config);
		gt_folder_close(&dir.folder);
		json_decref(config);
	}
	return is_run ? add_run(list, files, argument, path, err)
	              : add_folder(files, argument, path, "", err);
}

static int list_files(
    json_t **out, struct gt_train_cli *cli, const struct gt_world *world, struct gt_err *err)
{
	char name[GT_CMD_COPIES_NAME];
	json_t *files = json_array(), *names = json_array();
	int rc = gt_cmd_copies_name(name, err);

	for (int i = 0; i < ARGUMENTS; i++)
		json_array_append_new(names, json_string(""));
	*out = json_pack("{s:s,s:o,s:o}", "folder", name, "files", files, "names", names);
	if (!*out)
		return gt_err_set(err, GT_ENOMEM, "out of memory");
	for (int i = 0; !rc && i < ARGUMENTS; i++) {
		const char *path = *option_at(cli, i);

		if (path && (i != OUT || cli->train.resume || world->restart))
			rc = add_argument(*out, files, i, path, err);
	}
	return rc;
}

/* ---- the list, on all ranks ---- */

/* All ranks get the list, or the error, of rank 0. */
static int send_list(struct gt_cmd_files *f, struct gt_group *g, struct gt_err *err)
{
	char *text = f->list ? json_dumps(f->list, JSON_COMPACT) : NULL;
	int64_t bytes = text ? (int64_t)strlen(text) : 0;
	int rc = gt_broadcast(g, &bytes, 1, GT_I64, 0, err);

	if (!rc && (bytes <= 0 || bytes > MOST_LIST_BYTES))
		rc = gt_err_set(
		    err, GT_ENOTSUP, "a list of files with %lld bytes", (long long)bytes);
	if (!rc && g->rank) {
		text = gt_calloc((size_t)bytes + 1, 1, err);
		rc = text ? 0 : GT_ENOMEM;
	}
	if (!rc)
		rc = gt_broadcast(g, text, bytes, GT_U8, 0, err);
	if (!rc && g->rank)
		f->list = json_loads(text, 0, NULL);
	free(text);
	if (!rc && !f->list)
		rc = gt_err_set(err, GT_EFORMAT, "rank 0 sent no list of files");
	return rc;
}

struct file {
	int argument;
	const char *path, *name;
	json_int_t size, s, ns;
};

/* Whether a name leads out of the folder of copies. */
static bool leads_out(const char *name)
{
	bool out = *name == '/';

	for (const char *at = name; !out && at; at = strchr(at, '/')) {
		at += *at == '/';
		out = !strncmp(at, "..", 2) && (!at[2] || at[2] == '/');
	}
	return out;
}

static bool read_file(struct file *out, const json_t *entry)
{
	return !json_unpack((json_t *)entry, "{s:i,s:s,s:s,s:I,s:I,s:I}", "argument",
	           &out->argument, "path", &out->path, "name", &out->name, "size", &out->size, "s",
	           &out->s, "ns", &out->ns) &&
	       out->argument >= 0 && out->argument < ARGUMENTS && out->size >= 0 &&
	       !leads_out(out->name);
}

static bool has_file(const struct file *f)
{
	struct stat st;

	return !stat(f->path, &st) && st.st_size == f->size && st.st_mtim.tv_sec == f->s &&
	       st.st_mtim.tv_nsec == f->ns;
}

static void find_missing(int32_t missing[ARGUMENTS], const json_t *files)
{
	struct file f;
	size_t i;
	json_t *entry;

	json_array_foreach(files, i, entry)
	{
		if (read_file(&f, entry) && !has_file(&f))
			missing[f.argument] = 1;
	}
}

/* ---- the copies ---- */

static char *copy_path(
    const struct gt_cmd_files *files, int argument, const char *name, struct gt_err *err)
{
	return gt_asprintf(err, "%s/%d%s%s", files->folder, argument, *name ? "/" : "", name);
}

/* Open the copy of a file, or rank 0's file. */
static int open_one(
    int *fd, const struct gt_cmd_files *files, const struct file *f, bool reads, struct gt_err *err)
{
	char *path = reads ? gt_strdup(f->path, err) : copy_path(files, f->argument, f->name, err);
	char *slash = path ? strrchr(path, '/') : NULL;

	*fd = -1;
	if (!path)
		return GT_ENOMEM;
	if (!reads) {
		*slash = '\0';
		gt_make_dirs(path, err);
		*slash = '/';
	}
	if (!err->code)
		*fd = open(path,
		    reads ? O_RDONLY | O_CLOEXEC : O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (*fd < 0 && !err->code)
		gt_err_sys(err, reads ? "cannot read '%s'" : "cannot write '%s'", path);
	free(path);
	return err->code;
}

/* Read or write a piece; `done` tells of an earlier error, after which nothing is done. */
static void move_piece(
    int fd, char *piece, size_t bytes, bool reads, const struct file *f, struct gt_err *done)
{
	for (size_t at = 0; !done->code && at < bytes;) {
		ssize_t n =
		    reads ? read(fd, piece + at, bytes - at) : write(fd, piece + at, bytes - at);

		if (n < 0)
			gt_err_sys(done, "cannot %s '%s'", reads ? "read" : "copy", f->path);
		else if (!n)
			gt_err_set(done, GT_EIO, "'%s' became shorter while it was read", f->path);
		at += n > 0 ? (size_t)n : 0;
	}
}

/* Send one file. An error of a rank is kept in *done: the others go on. */
static int send_file(const struct gt_cmd_files *files, const struct file *f, bool takes,
    char *piece, struct gt_group *g, struct gt_err *done, struct gt_err *err)
{
	const bool reads = !g->rank;
	int fd = -1, rc = 0;

	if (!done->code && (reads || takes))
		open_one(&fd, files, f, reads, done);
	for (json_int_t at = 0; !rc && at < f->size; at += PIECE_BYTES) {
		size_t bytes = f->size - at < PIECE_BYTES ? (size_t)(f->size - at) : PIECE_BYTES;

		if (reads)
			move_piece(fd, piece, bytes, true, f, done);
		rc = gt_broadcast(g, piece, (int64_t)bytes, GT_U8, 0, err);
		if (!rc && takes)
			move_piece(fd, piece, bytes, false, f, done);
	}
	if (fd >= 0)
		close(fd);
	return rc;
}

static int send_files(struct gt_cmd_files *files, const int32_t missing[ARGUMENTS],
    const int32_t wanted[ARGUMENTS], const struct gt_comm *comm, struct gt_err *done,
    struct gt_err *err)
{
	char *piece = gt_calloc(1, PIECE_BYTES, err);
	const json_t *list = json_object_get(files->list, "files");
	json_t *entry;
	struct file f;
	int rc = piece ? 0 : GT_ENOMEM;
	size_t i;

	json_array_foreach(list, i, entry)
	{
		if (!rc && read_file(&f, entry) && wanted[f.argument])
			rc = send_file(files, &f,
			    missing[f.argument] && comm->world.rank && !comm->world.local_rank,
			    piece, comm->group, done, err);
	}
	free(piece);
	return rc;
}

/* The first rank of a host makes the folder; the others know its name. */
static int choose_folder(struct gt_cmd_files *files, const struct gt_comm *comm, struct gt_err *err)
{
	const char *name = json_string_value(json_object_get(files->list, "folder"));
	const char *temporary = getenv("TMPDIR"), *parent;

	if (!name || strchr(name, '/'))
		return gt_err_set(err, GT_EFORMAT, "rank 0 sent no name of a folder");
	parent = temporary && *temporary ? temporary : "/tmp";
	files->folder = gt_asprintf(err, "%s/%s", parent, name);
	if (!files->folder)
		return GT_ENOMEM;
	if (comm->world.local_rank)
		return 0;
	files->made = !gt_cmd_copies_make(&files->lock_fd, parent, files->folder, err);
	return err->code;
}

/* The options name the copies of a file or of a folder. */
static int redirect(const struct gt_cmd_files *files, struct gt_cmd_env *env,
    struct gt_train_cli *cli, const int32_t missing[ARGUMENTS], struct gt_err *err)
{
	const json_t *names = json_object_get(files->list, "names");

	for (int i = 0; i < ARGUMENTS; i++) {
		const char *name = json_string_value(json_array_get(names, (size_t)i));
		const char **option = option_at(cli, i);
		char *path;

		if (!missing[i] || !*option || !name || leads_out(name))
			continue;
		path = copy_path(files, i, name, err);
		*option = path ? gt_arena_strdup(&env->opts.arena, path, err) : NULL;
		free(path);
		if (!*option)
			return GT_ENOMEM;
	}
	return 0;
}

int gt_cmd_files_share(struct gt_cmd_files *out, struct gt_cmd_env *env, struct gt_train_cli *cli,
    const struct gt_comm *comm, struct gt_err *err)
{
	int32_t missing[ARGUMENTS] = { 0 }, wanted[ARGUMENTS], any = 0;
	struct gt_err done = GT_ERR_INIT;
	int rc = 0;

	*out = (struct gt_cmd_files){ .lock_fd = -1 };
	if (!comm->world.rank)
		rc = list_files(&out->list, cli, &comm->world, err);
	if (rc || send_list(out, comm->group, err))
		return err->code;
	find_missing(missing, json_object_get(out->list, "files"));
	memcpy(wanted, missing, sizeof(wanted));
	rc = gt_all_reduce(comm->group, wanted, ARGUMENTS, GT_I32, GT_MAX, err);
	for (int i = 0; i < ARGUMENTS; i++)
		any |= missing[i];
	if (!rc && any && comm->world.rank)
		choose_folder(out, comm, &done);
	if (!rc)
		rc = send_files(out, missing, wanted, comm, &done, err);
	if (rc)
		return rc;
	/* A rank with an error does not come to this call: the others get the error instead. */
	any = 0;
	if (done.code)
		*err = done;
	else
		gt_all_reduce(comm->group, &any, 1, GT_I32, GT_MAX, err);
	if (err->code)
		return err->code;
	return redirect(out, env, cli, missing, err);
}

/* ---- after the options are known ---- */

/* The path of rank 0's latest checkpoint on this host; NULL: it has none. */
static char *find_resumed(const struct gt_cmd_files *files, bool in_out, struct gt_err *err)
{
	const json_t *latest = json_object_get(files->list, in_out ? "out" : "resume");
	const char *folder = json_string_value(json_object_get(latest, "folder"));
	const char *name = json_string_value(json_object_get(latest, "name"));
	char *copy;

	if (!folder || !name || leads_out(name))
		return NULL;
	copy = files->folder ? copy_path(files, in_out ? OUT : RESUME, name, err) : NULL;
	if (copy && !access(copy, F_OK))
		return copy;
	free(copy);
	return gt_asprintf(err, "%s/%s", folder, name);
}

int gt_cmd_files_resume(const struct gt_cmd_files *files, struct gt_cmd_env *env,
    struct gt_train_cli *cli, const struct gt_comm *comm, struct gt_err *err)
{
	bool in_out = !json_object_get(files->list, "resume");
	bool restarted = comm->world.restart > 0 && json_object_get(files->list, "out");
	char *path;

	if (!restarted && (!cli->train.resume || strcmp(cli->train.resume, "auto")))
		return 0;
	if (!comm->world.rank) {
		cli->train.resume = "auto";
		return 0;
	}
	path = find_resumed(files, restarted || in_out, err);
	cli->train.resume = path ? gt_arena_strdup(&env->opts.arena, path, err) : NULL;
	free(path);
	return err->code;
}

int gt_cmd_files_done(struct gt_cmd_files *files, const struct gt_comm *comm, struct gt_err *err)
{
	int32_t any = 0;
	int rc = gt_all_reduce(comm->group, &any, 1, GT_I32, GT_MAX, err);

	gt_cmd_files_release(files);
	return rc;
}

void gt_cmd_files_release(struct gt_cmd_files *files)
{
	if (files->made)
		gt_folder_remove_all(files->folder);
	if (files->made && files->lock_fd >= 0)
		close(files->lock_fd);
	free(files->folder);
	json_decref(files->list);
	*files = (struct gt_cmd_files){ 0 };
}
