/* session.h - an open model with its device, ranks, weights, memory and programs (program.h). */
#ifndef GT_TRAIN_SESSION_H
#define GT_TRAIN_SESSION_H

#include "lib/base/log.h"
#include "lib/base/opt.h"
#include "lib/train/amp.h"
#include "lib/train/checkpoint/weights.h"
#include "lib/train/program.h"

/* Where a rank computes; zeroed: one rank, on the CPU. */
struct gt_where {
	const char *devices; /* a list (lib/device/name.h); NULL is "cpu" */
	/* the kind of groups for device memory (lib/comm/device_group.h); NULL: the fastest */
	const char *way;
	/* The ranks, which all call the same functions. NULL: there is one. */
	struct gt_group *group;
	int host_ranks; /* ranks on this host; 0: all */
	int host_rank;  /* index on this host; selects the device */
	/* dry run: bytes of memory of a rank's device, which is only described; 0: the device's */
	uint64_t described_bytes;
	bool described_gpu; /* that device has memory of its own */
};

struct gt_session_options {
	const char *model; /* NAME[:key=value,...] */
	struct gt_where where;
	/* make only a plan, for parallel.ranks ranks without a group */
	bool dry;
	/* parameters that are not trained; factors of the learning rate of others
	 * (gt_model_tune()) */
	struct gt_opt_list freeze, lr_scale;
	const char *lora; /* settings of adapters (gt_model_adapt()); NULL: there are none */
	/* how weights are stored (gt_model_pack()), on one rank that does not train; in a precision
	 * of GT_F32 */
	enum gt_block block;
	struct gt_parallel_options parallel;
};

enum { GT_SESSION_PROGRAMS = 9 }; /* of training: three pairs, and a generator */

/* One rank's session. It owns all pointers that are not marked as borrowed. */
struct gt_session {
	struct gt_device *device;
	struct gt_group *group; /* borrowed; NULL if dry */
	/* a group of a single rank, if options.where.group is NULL; else NULL */
	struct gt_group *own_group;
	struct gt_model *model;
	struct gt_parallel *parallel;
	struct gt_model_input input;
	struct gt_store *store;
	struct gt_program *programs[GT_SESSION_PROGRAMS]; /* borrowed */
	int program_count;
	bool dry;
	struct gt_precision precision; /* that of options.parallel */
	int host_ranks;                /* ranks on this host */
	/* number that identifies the device among those of all ranks (lib/comm/place.h); 0 if dry,
	 * or for one rank */
	int64_t place;
	/* number of ranks that share the device, or the host memory that it uses */
	int sharing;
	/* bytes that the ranks on this device may use together: those free at first, minus a
	 * reserve for each rank; 0: not known yet */
	uint64_t free_bytes;
	void *arena; /* memory for temporary values of all programs */
	size_t arena_bytes;
};

/* Bytes that a rank needs on its device, without its data set. */
struct gt_session_memory {
	uint64_t parameters, gradients, optimizer, buffers;
	uint64_t caches; /* keys and values of earlier tokens */
	uint64_t arena;  /* activations and other temporary values */
	/* batches on their way to the inputs; on a CPU, those that the loaders keep */
	uint64_t batches;
	uint64_t collectives; /* buffers for collectives */
	/* some groups of ranks have buffers of unknown size */
	bool unknown_collectives;
	/* the copy of a checkpoint for --save-async: in the device's memory, which is host memory;
	 * or in pinned host memory, which `total` does not count */
	uint64_t copy, pinned_copy;
	uint64_t total;
};

struct gt_trials; /* lib/train/memory_limit.h */

/* The purpose of a session: training, evaluation or generation. The functions get the argument
 * `self` of gt_session_open(). */
struct gt_session_purpose {
	/* the NAME in "the NAME needs 3 GiB of memory"; NULL: do not check the memory */
	const char *name;
	bool trains; /* the store holds gradients */
	/* Open the data and set s->input, when model and ranks are open. */
	int (*input)(struct gt_session *s, void *self, struct gt_err *err);
	/* Make the programs, each after gt_session_add(). The store has a layout, but no memory
	 * yet. */
	int (*plan)(struct gt_session *s, void *self, struct gt_err *err);
	/* Optional: add memory that gt_session_memory() does not count. */
	void (*memory)(const struct gt_session *s, void *self, struct gt_session_memory *m);
	/* Optional: report plans with other options by gt_trial_add(), each with a session of
	 * gt_session_plan_open(), if there is too little memory. */
	void (*try_others)(const struct gt_session *s, void *self, struct gt_trials *trials);
	/* Set the weights, unless the session is dry; then rank 0 sends its weights to all. */
	int (*weights)(struct gt_session *s, void *self, struct gt_err *err);
};

/* Check devices, where->way and `precision` before the ranks are started. where->group is not
 * used. */
int gt_session_check_device(
    const struct gt_where *where, const struct gt_precision *precision, struct gt_err *err);

/* Check that the devices can read weights in blocks. Errors: GT_ENOTSUP. */
int gt_session_check_block(const struct gt_where *where, enum gt_block block, struct gt_err *err);

/* Open device, model and ranks, then input(), the layout of the store and plan(). Unless dry, also
 * check and allocate the memory, then weights(). A collective call. Close *s even after an error.
 * Errors: GT_ENOMEM as of gt_memory_limit_check(). */
int gt_session_open(struct gt_session *s, const struct gt_session_options *options,
    const struct gt_session_purpose *purpose, void *self, struct gt_err *err);

/* Wait for the device and give up unfinished collectives, before memory that they use is freed.
 * gt_session_close() does it, too. */
void gt_session_stop(struct gt_session *s);

/* Close the session, and release its programs. */
void gt_session_close(struct gt_session *s);

/* Add a program to the session: it uses the arena, and gt_session_close() releases it. *p is zeroed
 * or made, may be made later, and must not move. */
void gt_session_add(struct gt_session *s, struct gt_program *p);

/* Add both programs of a pair. */
void gt_session_add_pair(struct gt_session *s, struct gt_program_pair *pair);

/* Return the bytes of the largest arena of the programs. */
size_t gt_session_arena_bytes(const struct gt_session *s);

/* Return the bytes of this rank that are allocated before plan() is called, for groups and for
 * shared memory of the store; 0 if device memory is host memory. */
uint64_t gt_session_early_bytes(const struct gt_session *s);

/* Return the bytes that plans leave free for each rank, of `total`: for code, libraries, stacks,
 * batches and checkpoints. */
uint64_t gt_session_reserve(uint64_t total);

/* Compute the memory of the session, without that of purpose->memory(), after its programs are
 * made. */
void gt_session_memory(struct gt_session_memory *out, const struct gt_session *s);

/* Open a session for plans that never run. It borrows `device` and the model of *other; its store
 * is its own. Close it even after an error; this also releases its programs. */
int gt_session_plan_open(struct gt_session *s, const struct gt_session *other,
    struct gt_device *device, const struct gt_parallel_options *parallel, bool trains,
    struct gt_err *err);
void gt_session_plan_close(struct gt_session *s);

/* Return the options for a program. */
struct gt_program_options gt_session_program_options(
    const struct gt_session *s, enum gt_model_purpose purpose);

/* How to find parameters in another program's checkpoint. */
struct gt_load_options {
	struct gt_opt_list map; /* rules REGEX=REPLACEMENT for keys */
	/* the names that keys have after `map` */
	enum gt_names names;
	bool lenient; /* missing and unexpected keys are only reported */
};

/* Check load->map. Errors: GT_EINVAL. */
int gt_load_check(const struct gt_load_options *load, struct gt_err *err);

/* Return load->map as a list ended by NULL; the caller frees it, not its strings. */
const char **gt_load_maps(const struct gt_load_options *load, struct gt_err *err);

/* Load a file with gt_weights_load_file(); *load and the session replace maps, names, lenient and
 * parallel of *options. Weights that the file lacks keep their values. Release *report even after
 * an error. */
int gt_session_load(struct gt_session *s, struct gt_file_name file,
    const struct gt_load_options *load, const struct gt_weights_options *options,
    struct gt_weights_report *report, struct gt_err *err);

/* Log a warning for each missing and unexpected key. */
void gt_session_log_keys(struct gt_log *log, const struct gt_weights_report *report);

/* Return this rank's index on the data axis, whose ranks read different samples, and their
 * number. */
int gt_session_data_rank(const struct gt_session *s);
int gt_session_data_world(const struct gt_session *s);

#endif
