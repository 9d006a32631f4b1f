/* saver.c - save snapshots: collective parts in the loop, files by the loop or by a thread. */
#include "lib/train/checkpoint/saver.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lib/base/mem.h"
#include "lib/base/new_folder.h"
#include "lib/base/thread_pool.h"
#include "lib/comm/group.h"
#include "lib/train/checkpoint/copy.h"
#include "lib/train/checkpoint/snapshot_parts.h"

/*
 * A save is a sequence of collective calls and jobs. A job writes files; with `async` a thread does
 * it, on a copy of the tensors, and the loop asks after each step whether it has ended.
 *
 *   file      all ranks   rank 0 builds the tree and, with `async`, copies its tensors
 *             rank 0      job: write the file, remove old checkpoints
 *
 *   set       all ranks   rank 0 makes the folder under a temporary name, all open it; each rank
 *                         builds its parts and, with `async`, copies them
 *             each rank   job: write its file
 *             all ranks   when all jobs have ended: rank 0 gets the lists of all parts
 *             rank 0      job: write .metadata, rename the folder, remove old checkpoints
 *
 * So a folder with the name of a checkpoint is always complete. A rank whose job fails returns the
 * error; the others notice in their next collective that it is gone.
 */

enum phase {
	IDLE,
	WRITING,   /* the parts of a set */
	COMMITTING /* the file, or the .metadata; only on rank 0 */
};

enum { NAME_WORDS = 32, NAME_BYTES = NAME_WORDS * 8 }; /* a temporary folder's name has fewer */

struct gt_saver {
	struct gt_saver_options o;
	enum phase phase;
	/* the save at hand */
	int64_t step;
	struct gt_arena arena;
	struct gt_tree *tree;
	struct gt_dcp_set *set;
	char *path;               /* rank 0: of the checkpoint */
	struct gt_new_folder new; /* rank 0: the folder of a set */
	struct gt_folder folder;  /* other ranks: the same */
	struct gt_copy copy;
	/* the job at hand: it is done in a thread if `threaded`. `err` is its error. */
	pthread_t thread;
	bool threaded;
	atomic_bool ended;
	int (*job)(struct gt_saver *saver, struct gt_err *err);
	struct gt_err err;
	/* for gt_saver_take() */
	char *saved;
	int64_t saved_step;
};

static int rank_of(const struct gt_saver *s)
{
	return gt_parallel_rank(s->o.parallel);
}

static int world_of(const struct gt_saver *s)
{
	return s->o.group ? s->o.group->size : 1;
}

static void forget_save(struct gt_saver *s)
{
	gt_dcp_set_free(s->set);
	gt_arena_release(&s->arena);
	gt_new_folder_abandon(&s->new);
	gt_folder_close(&s->folder);
	free(s->path);
	s->set = NULL;
	s->tree = NULL;
	s->path = NULL;
	s->phase = IDLE;
}

/* ---- jobs ---- */

static int write_part_of_set(struct gt_saver *s, struct gt_err *err)
{
	return gt_dcp_set_write(s->set, rank_of(s) ? &s->folder : &s->new.folder, false, err);
}

static int commit_set(struct gt_saver *s, struct gt_err *err)
{
	int rc = gt_dcp_set_write_metadata(s->set, &s->new.folder, false, err);

	return rc ? rc : gt_new_folder_commit(&s->new, false, err);
}

static int commit(struct gt_saver *s, struct gt_err *err)
{
	const struct gt_file_name file = { &s->o.dir->checkpoints, s->path };
	enum gt_run_form other = s->o.sharded ? GT_RUN_FILE : GT_RUN_SET;
	int rc = s->o.sharded ? commit_set(s, err) : gt_torch_save(file, s->tree, err);

	if (!rc)
		rc = gt_run_dir_remove(s->o.dir, s->step, other, err);
	return rc ? rc : gt_run_dir_prune(s->o.dir, s->o.keep, err);
}

/* Steps come first: a thread has the processors that they leave. */
static void *run_thread(void *self)
{
	enum { LOWER = 10 };
	struct gt_saver *s = self;
	int own = getpriority(PRIO_PROCESS, 0); /* on Linux, of the thread */

	(void)setpriority(PRIO_PROCESS, 0, own + LOWER);
	(void)s->job(s, &s->err);
	atomic_store(&s->ended, true);
	return NULL;
}

static int start_job(struct gt_saver *s, enum phase phase,
    int (*job)(struct gt_saver *saver, struct gt_err *err), struct gt_err *err)
{
	int rc;

	s->phase = phase;
	s->job = job;
	s->err = GT_ERR_INIT;
	atomic_store(&s->ended, false);
	if (s->o.async) {
		rc = gt_thread_start(&s->thread, run_thread, s, err);
		s->threaded = !rc;
		return rc;
	}
	(void)job(s, &s->err);
	atomic_store(&s->ended, true);
	return 0;
}

/* Wait for the job, and return its error. */
static int end_job(struct gt_saver *s, struct gt_err *err)
{
	if (s->threaded)
		pthread_join(s->thread, NULL);
	s->threaded = false;
	if (s->err.code)
		*err = s->err;
	return s->err.code;
}

/* ---- a file ---- */

/* Rank 0 reads the tensors in the job, or now. The others send their elements meanwhile. */
static int begin_file(struct gt_saver *s, const struct gt_snapshot *snapshot, struct gt_err *err)
{
	int rc;

	if (rank_of(s))
		return gt_parallel_serve(s->o.parallel, err);
	s->path = gt_run_dir_checkpoint(s->o.dir, s->step, GT_RUN_FILE, err);
	rc = s->path ? gt_snapshot_tree(&s->tree, snapshot, &s->arena, err) : GT_ENOMEM;
	if (!rc && s->o.async)
		rc = gt_copy_tree(&s->copy, s->tree, err);
	if (!rc)
		rc = start_job(s, COMMITTING, commit, err);
	if (gt_parallel_end_fetches(s->o.parallel, rc ? GT_ERR_IGNORED : err) && !rc)
		rc = err->code;
	return rc;
}

/* ---- a set ---- */

/* Rank 0 makes a folder and tells the others its name. */
static int share_folder(struct gt_saver *s, const char *path, struct gt_err *err)
{
	int64_t name[NAME_WORDS] = { 0 };
	char *text = (char *)name;
	const char *slash;
	int rc = gt_new_folder_open_at(
	    &s->new, (struct gt_file_name){ &s->o.dir->checkpoints, path }, true, err);

	if (rc || world_of(s) == 1)
		return rc;
	slash = strrchr(s->new.folder.path, '/');
	strncpy(text, slash ? slash + 1 : s->new.folder.path, NAME_BYTES - 1);
	return gt_broadcast(s->o.group, name, NAME_WORDS, GT_I64, 0, err);
}

static int fail_unseen(const struct gt_saver *s, const char *name, struct gt_err *err)
{
	gt_err_set(err, GT_EIO,
	    "rank %d does not see '%s/checkpoints/%.100s', which rank 0 has made: {save-sharded} "
	    "needs a file system that all hosts share",
	    rank_of(s), s->o.out, name);
	return gt_err_hint(
	    err, "without {save-sharded}, rank 0 writes the checkpoints to its own host");
}

/* Open the folder of rank 0. A network file system may show it a moment later. */
static int find_folder(struct gt_saver *s, struct gt_err *err)
{
	enum { ATTEMPTS = 100, PAUSE_US = 20000 };
	int64_t name[NAME_WORDS] = { 0 };
	struct gt_folder out = { 0 }, checkpoints = { 0 };
	int rc = gt_broadcast(s->o.group, name, NAME_WORDS, GT_I64, 0, err);

	((char *)name)[NAME_BYTES - 1] = '\0';
	for (int i = 0; !rc && !s->folder.path && i < ATTEMPTS; i++) {
		if (i)
			usleep(PAUSE_US);
		if (gt_folder_open(&out, s->o.out, GT_ERR_IGNORED))
			continue;
		rc = gt_folder_open_in(&checkpoints, &out, "checkpoints", false, err);
		if (!rc && checkpoints.path)
			rc = gt_folder_open_in(
			    &s->folder, &checkpoints, (const char *)name, false, err);
		gt_folder_close(&checkpoints);
		gt_folder_close(&out);
	}
	return rc || s->folder.path ? rc : fail_unseen(s, (const char *)name, err);
}

static int begin_set(struct gt_saver *s, const struct gt_snapshot *snapshot, struct gt_err *err)
{
	int rc;

	if (!rank_of(s)) {
		s->path = gt_run_dir_checkpoint(s->o.dir, s->step, GT_RUN_SET, err);
		rc = s->path ? share_folder(s, s->path, err) : GT_ENOMEM;
	} else {
		rc = find_folder(s, err);
	}
	if (!rc)
		rc = gt_snapshot_tree(&s->tree, snapshot, &s->arena, err);
	if (!rc)
		rc = gt_dcp_set_new(&s->set, s->tree, rank_of(s), err);
	if (!rc)
		rc = gt_snapshot_add_parts(s->set, s->o.store, s->o.parallel, &s->arena, err);
	if (!rc && s->o.async)
		rc = gt_copy_parts(&s->copy, s->set, err);
	return rc ? rc : start_job(s, WRITING, write_part_of_set, err);
}

/* Set *all to whether the jobs of all ranks have ended. A rank whose job has failed is not here. */
static int all_ended(bool *all, struct gt_saver *s, bool wait, struct gt_err *err)
{
	int32_t pending = !wait && !atomic_load(&s->ended);
	int rc = pending ? 0 : end_job(s, err);

	if (!rc && !wait && world_of(s) > 1)
		rc = gt_all_reduce(s->o.group, &pending, 1, GT_I32, GT_MAX, err);
	*all = !pending;
	return rc;
}

static int send_list(const struct gt_saver *s, struct gt_err *err)
{
	struct gt_collective c = {
		.kind = GT_SEND, .dtype = GT_I64, .what = "parts of a checkpoint"
	};
	int64_t *list, size;
	size_t count;
	int rc = gt_dcp_set_list(&list, &count, s->set, err);

	size = (int64_t)count;
	c.in = &size;
	c.count = 1;
	if (!rc)
		rc = gt_group_run(s->o.group, &c, err);
	c.in = list;
	c.count = size;
	if (!rc && count)
		rc = gt_group_run(s->o.group, &c, err);
	free(list);
	return rc;
}

static int receive_list(struct gt_saver *s, int rank, struct gt_err *err)
{
	struct gt_collective c = {
		.kind = GT_RECV, .dtype = GT_I64, .peer = rank, .what = "parts of a checkpoint"
	};
	int64_t *list = NULL, size = 0;
	int rc;

	c.out = &size;
	c.count = 1;
	rc = gt_group_run(s->o.group, &c, err);
	if (rc || !size)
		return rc;
	list = gt_calloc((size_t)size, sizeof(*list), err);
	c.out = list;
	c.count = size;
	rc = list ? gt_group_run(s->o.group, &c, err) : GT_ENOMEM;
	if (!rc)
		rc = gt_dcp_set_add_list(s->set, rank, list, (size_t)size, err);
	free(list);
	return rc;
}

/* All parts are written. */
static int join_parts(struct gt_saver *s, struct gt_err *err)
{
	int rc = 0;

	if (rank_of(s)) {
		rc = send_list(s, err);
		forget_save(s);
		return rc;
	}
	for (int i = 1; !rc && i < world_of(s); i++)
		rc = receive_list(s, i, err);
	return rc ? rc : start_job(s, COMMITTING, commit, err);
}

/* ---- all of it ---- */

/* The checkpoint is complete. */
static int finish_save(struct gt_saver *s, struct gt_err *err)
{
	int rc = end_job(s, err);

	if (!rc) {
		free(s->saved);
		s->saved = s->path;
		s->saved_step = s->step;
		s->path = NULL;
	}
	forget_save(s);
	return rc;
}

int gt_saver_poll(struct gt_saver *s, bool wait, struct gt_err *err)
{
	bool all = true;
	int rc = 0;

	if (!s)
		return 0;
	if (s->phase == WRITING) {
		rc = all_ended(&all, s, wait, err);
		if (!rc && all)
			rc = join_parts(s, err);
	}
	if (!rc && s->phase == COMMITTING && (wait || atomic_load(&s->ended)))
		rc = finish_save(s, err);
	return rc;
}

int gt_saver_save(struct gt_saver *s, const struct gt_snapshot *snapshot, struct gt_err *err)
{
	struct gt_snapshot own = *snapshot;
	int rc = gt_saver_poll(s, true, err);

	own.is_set = s->o.sharded;
	s->step = own.step;
	if (!rc)
		rc = s->o.sharded ? begin_set(s, &own, err) : begin_file(s, &own, err);
	return rc || s->o.async ? rc : gt_saver_poll(s, true, err);
}

char *gt_saver_take(struct gt_saver *s, int64_t *step)
{
	char *path = s ? s->saved : NULL;

	if (path) {
		*step = s->saved_step;
		s->saved = NULL;
	}
	return path;
}

/* Before the first step: all ranks must see what rank 0 writes. */
static int check_shared(struct gt_saver *s, struct gt_err *err)
{
	char *path = rank_of(s) ? NULL : gt_folder_path(&s->o.dir->checkpoints, "shared", err);
	int rc = rank_of(s) ? find_folder(s, err) : path ? share_folder(s, path, err) : GT_ENOMEM;

	if (!rc)
		rc = gt_barrier(s->o.group, err);
	free(path);
	forget_save(s);
	return rc;
}

int gt_saver_open(struct gt_saver **out, const struct gt_saver_options *options, struct gt_err *err)
{
	struct gt_saver *s = gt_calloc(1, sizeof(*s), err);
	int rc = 0;

	*out = NULL;
	if (!s)
		return GT_ENOMEM;
	s->o = *options;
	gt_copy_init(&s->copy, options->store->device, options->sharded ? world_of(s) : 1);
	if (s->o.sharded && world_of(s) > 1)
		rc = check_shared(s, err);
	if (!rc && s->o.async)
		rc = gt_copy_reserve(
		    &s->copy, gt_saver_copy_bytes(s->o.store, s->o.parallel, s->o.sharded), err);
	if (rc)
		gt_saver_close(s);
	else
		*out = s;
	return rc;
}

void gt_saver_close(struct gt_saver *s)
{
	if (!s)
		return;
	(void)end_job(s, GT_ERR_IGNORED);
	forget_save(s);
	gt_copy_release(&s->copy);
	free(s->saved);
	free(s);
}

/* ---- the memory plan ---- */

static int add_count(void *self, int64_t first, int64_t count, struct gt_err *err)
{
	int64_t *sum = self;

	(void)first;
	(void)err;
	*sum += count;
	return 0;
}

/* The elements of a tensor that a rank copies: rank 0 all of a file's. */
static int64_t copied_elements(struct gt_snapshot_loads *loads, struct gt_parallel *parallel,
    const struct gt_plane *plane, const struct gt_slot *slot, bool sharded)
{
	int64_t count = 0;
	int writer;

	if (!sharded)
		return gt_parallel_rank(parallel) ? 0 : slot->count;
	writer = gt_snapshot_choose_writer(loads, parallel, plane, slot);
	(void)gt_parallel_walk_own(
	    parallel, plane, slot, writer, add_count, &count, GT_ERR_IGNORED);
	return count;
}

uint64_t gt_saver_copy_bytes(
    const struct gt_store *store, struct gt_parallel *parallel, bool sharded)
{
	struct gt_snapshot_loads loads = { { 0 } };
	uint64_t bytes = 0;

	for (size_t k = 0; k < store->plane_count; k++) {
		const struct gt_plane *plane = store->planes[k];

		if (!plane->saved && plane->role != GT_BUFFER)
			continue;
		for (size_t i = 0; i < store->slot_count; i++) {
			const struct gt_slot *slot = &store->slots[i];
			uint64_t own;

			if (!gt_plane_holds(store, plane, slot))
				continue;
			own = (uint64_t)copied_elements(&loads, parallel, plane, slot, sharded) *
			      gt_dtype_size(gt_plane_dtype(plane, slot));
			bytes += (own + GT_COPY_ALIGN - 1) / GT_COPY_ALIGN * GT_COPY_ALIGN;
		}
	}
	return bytes;
}
