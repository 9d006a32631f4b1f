/* session.h - a model opened for one purpose: device, ranks, weights, programs and their memory. */
#ifndef GT_TRAIN_SESSION_H
#define GT_TRAIN_SESSION_H

#include "lib/base/log.h"
#include "lib/base/opt.h"
#include "lib/train/amp.h"
#include "lib/train/program.h"
#include "lib/train/run/weights.h"

struct gt_session_options {
	const char *model;  /* NAME[:key=value,...] */
	const char *device; /* a list (lib/device/name.h); NULL is "cpu" */
	/* number of this rank among the ranks of this host; it selects the rank's device */
	int host_rank;
	int host_ranks; /* number of ranks on this host; 0: all */
	/* the ranks that compute together; NULL: there is one rank, or the session is dry */
	struct gt_group *group;
	bool dry;  /* plan for parallel.ranks ranks, and take no memory */
	bool tf32; /* programs round factors of float32 to TF32 (struct gt_pass_options) */
	struct gt_opt_list freeze, lr_scale; /* gt_model_tune() */
	struct gt_parallel_options parallel;
};

enum { GT_SESSION_PROGRAMS = 4 };

/* All ranks of `group` open a session with the same options. The session owns all pointers that are
 * not marked as borrowed. */
struct gt_session {
	struct gt_device *device;
	struct gt_group *group; /* borrowed: the group of all ranks; NULL if dry */
	struct gt_group *alone; /* the group of one rank that the session made, or NULL */
	struct gt_model *model;
	struct gt_parallel *parallel;
	struct gt_model_input input;
	struct gt_store *store;
	struct gt_program *programs[GT_SESSION_PROGRAMS]; /* borrowed: gt_session_add() */
	int program_count;
	bool dry, tf32;
	int host_ranks;      /* ranks of this host */
	int sharing;         /* ranks on this device, or that use the host's memory */
	uint64_t free_bytes; /* free device memory before this session took any; 0: not known yet */
	void *arena;
	size_t arena_bytes; /* taken */
};

/* Bytes that a rank needs, without its data set. */
struct gt_session_memory {
	uint64_t parameters, gradients, optimizer, buffers;
	uint64_t caches;      /* keys and values of earlier tokens */
	uint64_t arena;       /* activations and other data that a run of a program does not keep */
	uint64_t batches;     /* staged for the plans */
	uint64_t collectives; /* buffers of the groups between devices */
	bool unknown_collectives; /* the memory of some groups is not known, and not counted */
	uint64_t total;
};

struct gt_trials; /* lib/train/memory_limit.h */

/* The functions that differ between training, evaluation and generation. They get the `self` that
 * was passed to gt_session_open(). */
struct gt_session_purpose {
	/* in messages: "the NAME needs 3 GiB of memory"; NULL: memory is not checked */
	const char *name;
	bool trains; /* the store holds gradients */
	/* Called when the model and the ranks are known: open the data that the model reads, and
	 * set s->input. */
	int (*input)(struct gt_session *s, void *self, struct gt_err *err);
	/* Called when the store is laid out but has no memory: make the programs, each after
	 * gt_session_add(). */
	int (*plan)(struct gt_session *s, void *self, struct gt_err *err);
	/* Optional: add memory that is not part of gt_session_memory(). */
	void (*memory)(const struct gt_session *s, void *self, struct gt_session_memory *m);
	/* Optional; called if there is too little memory. Plan with other options, each in a
	 * session of gt_session_plan_open(), and report its memory by gt_trial_add()
	 * (lib/train/memory_limit.h). */
	void (*try_others)(const struct gt_session *s, void *self, struct gt_trials *trials);
	/* Called, unless dry, when memory is allocated and programs are bound to it. Set the
	 * weights; all ranks then get those of rank 0. */
	int (*weights)(struct gt_session *s, void *self, struct gt_err *err);
};

/* For programs that start ranks: check that this build supports these devices, that they exist, and
 * that collectives between them can use `way` (gt_device_way_choose(); NULL: any); with `tf32`,
 * also check that all devices support TF32. Errors: gt_device_names_read()'s and
 * gt_device_way_check()'s; GT_EINVAL or GT_ENOTSUP where a device has no TF32. */
int gt_session_check_device(const char *list, const char *way, bool tf32, struct gt_err *err);

/*
 * Open everything, in the order of the fields above. A collective call. Close it in any case.
 *
 * Errors: those of its parts; GT_ENOMEM if the ranks of the device, or of the host, need more
 * memory than is available. The text of the error names the needs and the processes that hold the
 * rest; the hint names options with which the session would fit.
 */
int gt_session_open(struct gt_session *s, const struct gt_session_options *options,
    const struct gt_session_purpose *purpose, void *self, struct gt_err *err);

/* Wait for the device, and give up unfinished collectives. Call this before freeing memory that
 * they may use. gt_session_close() calls it first. */
void gt_session_stop(struct gt_session *s);

/* Release everything, the programs that were added included. */
void gt_session_close(struct gt_session *s);

/* Add a program, made or yet to be made, that uses the arena. *p stays at its address until the
 * session is closed, which releases it. */
void gt_session_add(struct gt_session *s, struct gt_program *p);
void gt_session_add_pair(struct gt_session *s, struct gt_program_pair *pair);

/* Bytes of arena that the programs need. */
size_t gt_session_arena_bytes(const struct gt_session *s);

/* The memory of a session whose programs are planned. */
void gt_session_memory(struct gt_session_memory *out, const struct gt_session *s);

/*
 * Open a session for plans that are never run. It has the model and input of *of, the given device
 * and ranks, and a store of its own. It releases the programs that are added to it. Close it in any
 * case.
 */
int gt_session_plan_open(struct gt_session *s, const struct gt_session *of,
    struct gt_device *device, const struct gt_parallel_options *parallel, bool trains,
    struct gt_err *err);
void gt_session_plan_close(struct gt_session *s);

/* Options of a program of this session. */
struct gt_program_options gt_session_program_options(
    const struct gt_session *s, enum gt_model_purpose purpose, enum gt_amp amp);

/* Rules that turn the names in another program's checkpoint into names of the model. */
struct gt_load_options {
	struct gt_opt_list map; /* REGEX=REPLACEMENT for keys of the checkpoint, in order */
	enum gt_names names;    /* the program that named the keys, which {map} has renamed */
	bool lenient;           /* missing and unexpected keys are reported, but are not an error */
};

/* Check the expressions, before anything is opened. Errors: GT_EINVAL. */
int gt_load_check(const struct gt_load_options *load, struct gt_err *err);

/* The rules of {map}, as struct gt_weights_options has them; free() the list, not its strings. NULL
 * if memory runs out. */
const char **gt_load_maps(const struct gt_load_options *load, struct gt_err *err);

/* Load the state_dict of a checkpoint file; `maps`, `lenient` and `parallel` of the options are set
 * here. Weights that the file lacks stay as they are. Release the report in any case. */
int gt_session_load(struct gt_session *s, struct gt_file_name file,
    const struct gt_load_options *load, const struct gt_weights_options *options,
    struct gt_weights_report *report, struct gt_err *err);

/* Warn of each key that is missing or unexpected. */
void gt_session_log_keys(struct gt_log *log, const struct gt_weights_report *report);

/* This rank's number on the data axis, whose ranks read different samples, and the number of ranks
 * on it. */
int gt_session_data_rank(const struct gt_session *s);
int gt_session_data_world(const struct gt_session *s);

#endif
