/* session.h - an open model with its device, ranks, weights, memory and programs (program.h). */
#ifndef GT_TRAIN_SESSION_H
#define GT_TRAIN_SESSION_H

#include "lib/base/log.h"
#include "lib/base/opt.h"
#include "lib/train/amp.h"
#include "lib/train/checkpoint/weights.h"
#include "lib/train/program.h"

/* Where a rank computes. In a zeroed struct, there is one rank, which computes on the CPU. */
struct gt_where {
	const char *devices; /* a list (lib/device/name.h); NULL is "cpu" */
	/* name of the kind of groups for device memory (lib/comm/device_group.h); NULL: fastest */
	const char *way;
	/* The ranks that compute together. Each rank calls the same functions with the same
	 * options. NULL: there is one rank. */
	struct gt_group *group;
	int host_ranks; /* number of ranks on this host, which share its memory; 0: all ranks */
	int host_rank;  /* index of this rank on this host; selects its device */
};

struct gt_session_options {
	const char *model; /* NAME[:key=value,...] */
	struct gt_where where;
	/* make only a plan, for parallel.ranks ranks without a group; allocate no memory */
	bool dry;
	/* arguments of gt_model_tune(): freeze: the parameters that are not trained; lr_scale:
	 * factors of the learning rate of some parameters */
	struct gt_opt_list freeze, lr_scale;
	struct gt_parallel_options parallel;
};

enum { GT_SESSION_PROGRAMS = 4 }; /* largest number of programs in a session */

/* One rank's session. All ranks of `group` open a session with the same options. The session owns
 * all pointers that are not marked as borrowed. */
struct gt_session {
	struct gt_device *device;
	struct gt_group *group; /* borrowed: the group of all ranks; NULL if dry */
	/* if options.where.group is NULL and the session is not dry: a group with only this rank;
	 * otherwise NULL */
	struct gt_group *own_group;
	struct gt_model *model;
	struct gt_parallel *parallel;
	struct gt_model_input input;
	struct gt_store *store;
	struct gt_program *programs[GT_SESSION_PROGRAMS]; /* borrowed, see gt_session_add() */
	int program_count;
	bool dry;
	struct gt_precision precision; /* that of options.parallel */
	int host_ranks;                /* number of ranks on this host */
	/* a number that identifies this rank's device among the devices of all ranks
	 * (lib/comm/place.h); 0 if dry, or if there is one rank */
	int64_t place;
	/* number of ranks that share this device; host_ranks if device memory is host memory */
	int sharing;
	/* bytes of device memory that the ranks on this device may use together: the bytes that
	 * were free before the ranks allocated memory, minus a reserve for each rank
	 * (gt_session_reserve()); 0: not known yet */
	uint64_t free_bytes;
	void *arena; /* device memory for the temporary values of all programs */
	size_t arena_bytes;
};

/* The bytes of memory that a rank needs on its device, without the memory of its data set. */
struct gt_session_memory {
	uint64_t parameters, gradients, optimizer, buffers;
	uint64_t caches;      /* keys and values of earlier tokens */
	uint64_t arena;       /* activations and other temporary values */
	uint64_t batches;     /* staging memory: batches on their way to the inputs */
	uint64_t collectives; /* buffers for collectives on device memory */
	/* true: the buffers of some groups of ranks have an unknown size, and are not counted in
	 * `collectives` */
	bool unknown_collectives;
	uint64_t total;
};

struct gt_trials; /* lib/train/memory_limit.h */

/* The purpose of a session: training, evaluation or generation. The members below differ between
 * these purposes. The functions get the argument `self` of gt_session_open(). */
struct gt_session_purpose {
	/* NAME in messages such as "the NAME needs 3 GiB of memory"; NULL: do not check whether
	 * there is enough memory */
	const char *name;
	bool trains; /* the store holds gradients */
	/* Open the data that the model reads, and set s->input. input() is called when the model
	 * and the ranks are open. */
	int (*input)(struct gt_session *s, void *self, struct gt_err *err);
	/* Make the programs (lib/train/program.h). plan() must call gt_session_add() for each
	 * program before it makes the program. plan() is called when the layout of the store is
	 * known, but the store has no memory yet. */
	int (*plan)(struct gt_session *s, void *self, struct gt_err *err);
	/* Optional: add to *m the memory that gt_session_memory() does not count. */
	void (*memory)(const struct gt_session *s, void *self, struct gt_session_memory *m);
	/* Optional: plan with other options, and report the memory of each plan by gt_trial_add()
	 * (lib/train/memory_limit.h). Each plan needs its own session, from gt_session_plan_open().
	 * try_others() is called if there is too little memory. */
	void (*try_others)(const struct gt_session *s, void *self, struct gt_trials *trials);
	/* Set the weights. weights() is called after memory was allocated and bound to the
	 * programs; it is not called if the session is dry. After this call, rank 0 sends its
	 * weights to all ranks. */
	int (*weights)(struct gt_session *s, void *self, struct gt_err *err);
};

/* Check that this build supports the devices, that they exist, that they can use where->way, and
 * that they can compute products with this precision. where->group is not used. The process that
 * starts the ranks calls this function before it starts them. Errors: any error of
 * gt_device_names_read() or gt_device_way_check(); GT_EINVAL or GT_ENOTSUP if a device cannot
 * compute such products. */
int gt_session_check_device(
    const struct gt_where *where, const struct gt_precision *precision, struct gt_err *err);

/*
 * Open a session: open the device, the model and the ranks, call purpose->input(), compute the
 * layout of the store, and call purpose->plan(). If the session is not dry, also check that there
 * is enough memory, allocate it, and call purpose->weights(). A collective call. Close *s even
 * after an error.
 *
 * Errors: any error of these steps; GT_ENOMEM if there is too little memory, with the message and
 * the hint of gt_memory_limit_check().
 */
int gt_session_open(struct gt_session *s, const struct gt_session_options *options,
    const struct gt_session_purpose *purpose, void *self, struct gt_err *err);

/* Wait for the device, and give up collectives that have not ended. Call this before you free
 * memory that collectives may use. gt_session_close() calls this function, too. */
void gt_session_stop(struct gt_session *s);

/* Close the session, and release the programs that were added to the session. */
void gt_session_close(struct gt_session *s);

/* Add a program to the session: the program will use the session's arena, and gt_session_close()
 * will release the program. A session takes at most GT_SESSION_PROGRAMS programs. *p must be zeroed
 * or made by gt_program_init(); it may also be made after this call. *p must not move until the
 * session is closed. */
void gt_session_add(struct gt_session *s, struct gt_program *p);

/* Add both programs of a pair, as gt_session_add() does. */
void gt_session_add_pair(struct gt_session *s, struct gt_program_pair *pair);

/* Return the size of an arena for the programs, in bytes: the largest size that any of the programs
 * needs. */
size_t gt_session_arena_bytes(const struct gt_session *s);

/* Return how many of the bytes that this rank needs are already allocated when
 * gt_session_purpose.plan() is called: for groups, and for memory of the store that other ranks can
 * access. If device memory is host memory, the result is 0, because allocated host memory counts as
 * free until it is written. */
uint64_t gt_session_early_bytes(const struct gt_session *s);

/* Return the bytes that plans leave free for each rank on a device with `total` bytes of memory.
 * They are for code, libraries, stacks of threads, batches read ahead, and a checkpoint that is
 * being written. */
uint64_t gt_session_reserve(uint64_t total);

/* Compute the memory that the session needs, but for that which gt_session_purpose.memory() adds.
 * Call this after its programs are made. */
void gt_session_memory(struct gt_session_memory *out, const struct gt_session *s);

/*
 * Open the session *s for plans that are never run. *s borrows `device` and the model of *other,
 * and copies the input of *other. The ranks of *s are made with the options *parallel. *s has its
 * own store, with gradients if `trains` is set. Close *s with gt_session_plan_close(), even after
 * an error. gt_session_plan_close() also releases the programs that were added to *s.
 */
int gt_session_plan_open(struct gt_session *s, const struct gt_session *other,
    struct gt_device *device, const struct gt_parallel_options *parallel, bool trains,
    struct gt_err *err);
void gt_session_plan_close(struct gt_session *s);

/* Return the options for a program of this session. */
struct gt_program_options gt_session_program_options(
    const struct gt_session *s, enum gt_model_purpose purpose);

/* How to find the parameters of the model in a checkpoint of another program. */
struct gt_load_options {
	struct gt_opt_list map; /* rules REGEX=REPLACEMENT that change keys of the checkpoint */
	/* the program whose names the keys have after the rules of `map` were applied */
	enum gt_names names;
	bool lenient; /* report missing and unexpected keys, but load the other keys */
};

/* Check the rules in load->map. Errors: GT_EINVAL. */
int gt_load_check(const struct gt_load_options *load, struct gt_err *err);

/* Return the rules of load->map as a NULL-terminated list for struct gt_weights_options. The caller
 * frees the list, but not its strings. NULL if memory runs out. */
const char **gt_load_maps(const struct gt_load_options *load, struct gt_err *err);

/* Load the state_dict of a checkpoint file with gt_weights_load_file(). The members `maps`,
 * `names`, `lenient` and `parallel` of *options are not used: the values of the first three come
 * from *load, and the value of `parallel` comes from the session. Weights that the file does not
 * have are not changed. Release *report even after an error. */
int gt_session_load(struct gt_session *s, struct gt_file_name file,
    const struct gt_load_options *load, const struct gt_weights_options *options,
    struct gt_weights_report *report, struct gt_err *err);

/* Log a warning for each missing and each unexpected key. */
void gt_session_log_keys(struct gt_log *log, const struct gt_weights_report *report);

/* Return this rank's index on the data axis (lib/parallel/axis.h), and the number of ranks on this
 * axis. Ranks of the data axis read different samples. */
int gt_session_data_rank(const struct gt_session *s);
int gt_session_data_world(const struct gt_session *s);

#endif
