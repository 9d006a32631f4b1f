/* store.h - memory that outlasts a run: parameters, gradients, buffers and caches. */
#ifndef GT_GRAPH_STORE_H
#define GT_GRAPH_STORE_H

#include "lib/device/backend.h"
#include "lib/graph/graph.h"

/*
 * One flat buffer holds all trained parameters. Each parameter is a range of this buffer, padded
 * with zeros to a multiple of 64 bytes. The gradient of a parameter is the same range of a second
 * flat buffer. The states of an optimizer are in flat buffers, too (lib/optim/optim.h). The
 * parameters are in the order in which the backward pass finishes their gradients: the parameter
 * that the forward pass reads first is the last one. With this layout, updates, norms, all-reduces
 * and broadcasts work on long ranges with many parameters. Several plans (lib/graph/plan.h) share
 * one store: the plan for training, the plan for a last batch with fewer samples, and the plan for
 * evaluation.
 */

/* A parameter, buffer or cache in the store. */
struct gt_slot {
	const char *name;
	enum gt_role role; /* GT_PARAMETER, GT_BUFFER (also frozen parameters) or GT_CACHE */
	enum gt_dtype dtype;
	int ndim;
	int64_t shape[GT_MAX_DIMS];
	struct gt_init init;
	bool decay;      /* parameters: weight decay applies */
	double lr_scale; /* parameters: factor of the learning rate */
	/* hidden: the weight of a product or convolution between hidden features; frozen: a
	 * parameter that is not trained (its role is GT_BUFFER) */
	bool hidden, frozen;
	bool on_other_ranks; /* only other ranks hold the slot: it has no memory on this rank */
	int index;           /* parameters, frozen or not: index in the order of declaration */
	/* number of elements of the whole tensor; `shape` also describes the whole tensor */
	int64_t count;
	/* number of elements in this rank's memory: `count`, or less if this rank holds only a
	 * shard */
	int64_t held;
	/* offset of the first element: in elements for parameters, in bytes for others */
	int64_t offset;
};

/* Return whether the slot is a weight of the model, trained or frozen. */
static inline bool gt_slot_is_weight(const struct gt_slot *slot)
{
	return slot->role == GT_PARAMETER || slot->frozen;
}

/* A part is a range of the flat layout that this process updates: [offset, offset + count). Some
 * flat buffers hold only the parts, one after the other. In these buffers, a part is the range
 * [at, at + count). All members are in elements. */
struct gt_part {
	int64_t offset, count, at;
};

struct gt_store {
	const struct gt_device *device; /* borrowed */
	struct gt_slot *slots;          /* in the order of declaration */
	size_t slot_count;
	enum gt_dtype dtype;     /* data type of all trained parameters */
	int64_t parameter_count; /* elements of trained parameters, without padding */
	int64_t frozen_count;    /* elements of frozen parameters */
	int64_t flat_count;      /* elements of trained parameters on this rank, with padding */
	size_t buffer_bytes; /* size of `buffers`: first changing buffers, then frozen parameters */
	size_t running_bytes; /* size of the changing buffers alone */
	/* The parts that this process updates, sorted by offset; borrowed. NULL: this process
	 * updates everything. The optimizer has state only for these parts. If gradients_in_parts
	 * is set, the store holds gradients only for these parts. If parameters_in_parts is set,
	 * the store holds only these parts of the parameters. */
	const struct gt_part *parts;
	size_t part_count;
	int64_t part_elements; /* elements of all parts together */
	bool gradients_in_parts, parameters_in_parts;
	bool with_gradients;
	bool allocated;   /* gt_store_alloc() has allocated the memory */
	void *parameters; /* device: [flat_count], or [part_elements] if parameters_in_parts */
	/* device: [flat_count], or [part_elements] if gradients_in_parts; NULL without gradients */
	void *gradients;
	/* device: [flat_count], working copies of the parameters, of type copy_type; or NULL */
	uint16_t *copies;
	enum gt_dtype copy_type;
	/* the caller owns the memory of the gradients, or of the parameters
	 * (gt_store_lend_gradients()) */
	bool lent_gradients, lent_parameters;
	/* bytes of memory that were allocated for the store before gt_store_alloc(): lent memory,
	 * and gradients in the type in which ranks send them */
	size_t early_bytes;
	void *buffers; /* device: [buffer_bytes] */
	/* Memory that nodes keep from run to run (GT_CACHE). Caches are not in `slots`, so code
	 * that saves, loads or compares slots does not see them. */
	struct gt_slot **caches;
	size_t cache_count, cache_capacity, cache_bytes;
	void *cache; /* device: [cache_bytes] */
	struct gt_arena arena;
};

/* Create a store, and compute the layout of the parameters and buffers that the forward graph
 * declares. Parameters that only other ranks hold have a slot, but no memory. No device memory is
 * allocated yet. So a dry run can plan a model that is larger than the device's memory. The caller
 * frees *out. */
int gt_store_new(struct gt_store **out, const struct gt_graph *g, const struct gt_device *device,
    bool with_gradients, struct gt_err *err);
void gt_store_free(struct gt_store *store);

/*
 * Keep a working copy of each parameter in a 16-bit type. The copies have the layout of the
 * parameters. Call this before gt_store_alloc(), and before a plan is made. The parameters must be
 * float32, and must not be kept in parts. An optimizer writes the copies together with the
 * parameters (gt_update_options.copy). Other code that changes parameters must call
 * gt_store_refresh_copies().
 */
void gt_store_keep_copies(struct gt_store *store, enum gt_dtype type);

/* Queue work on the compute stream that computes all working copies anew from the parameters. Do
 * nothing if there are no copies. */
int gt_store_refresh_copies(const struct gt_store *store, struct gt_err *err);

/* Use `memory`, zeroed device memory, for the gradients or for the parameters. The store then does
 * not allocate memory for them. Call these functions to use memory that other ranks can access.
 * `memory` must have gt_store_gradient_bytes() or gt_store_parameter_bytes() bytes. The caller owns
 * `memory`, which must outlive the store. Call this before gt_store_alloc(). */
void gt_store_lend_gradients(struct gt_store *store, void *memory);
void gt_store_lend_parameters(struct gt_store *store, void *memory);

/* Return the number of elements of a parameter in the layout: slot->held, rounded up to a multiple
 * of 64 bytes. */
int64_t gt_slot_padded(const struct gt_slot *slot);

/* Change the layout of the parameters. Call this before gt_store_alloc(), and before a plan is
 * made. offsets[slot_count] has the new offset of each slot, in elements; each offset must be a
 * multiple of 64 bytes. flat_count is the new size of the layout in elements. Offsets of buffers
 * and of slots without memory are not read. */
void gt_store_place(struct gt_store *store, const int64_t *offsets, int64_t flat_count);

/* Declare that the memory of slot `name` holds only a shard of a parameter. `shape` is the shape of
 * the whole parameter. From now on, slot->shape and slot->count describe the whole parameter.
 * slot->held does not change. */
void gt_store_mark_shard(struct gt_store *store, const char *name, const int64_t *shape);

/*
 * Compute the layout of the caches that a graph declares. Call this before gt_store_alloc(), and
 * before a plan of this graph is made. Graphs share a cache that they declare under the same name;
 * its type and shape must be the same. Errors: GT_EINVAL, GT_ENOMEM.
 */
int gt_store_add_caches(struct gt_store *store, const struct gt_graph *g, struct gt_err *err);

/* gt_store_flat_bytes() returns the size of the whole flat layout in bytes. The other functions
 * return the number of bytes of the parameters, gradients or working copies that this rank
 * holds. */
size_t gt_store_flat_bytes(const struct gt_store *store);
size_t gt_store_parameter_bytes(const struct gt_store *store);
size_t gt_store_gradient_bytes(const struct gt_store *store);
size_t gt_store_copy_bytes(const struct gt_store *store);

/* Return the number of elements that this process updates: the size of one optimizer state. */
int64_t gt_store_updated(const struct gt_store *store);

/* Allocate the device memory, and set it to zero. */
int gt_store_alloc(struct gt_store *store, struct gt_err *err);

/* Set every parameter and buffer to its initial value, a pure function of seed, slot->index and the
 * index of the element. This needs whole parameters: they must not be kept in parts, and must not
 * be sharded. */
int gt_store_init(struct gt_store *store, uint64_t seed, struct gt_err *err);

/* Compute the initial values of one whole slot as gt_store_init() does, but write them to
 * host[slot->count], in host memory. */
void gt_slot_init(const struct gt_slot *slot, uint64_t seed, void *host);

/* Return the slot with this name, or NULL. gt_store_find() finds parameters and buffers,
 * gt_store_find_cache() finds caches. */
const struct gt_slot *gt_store_find(const struct gt_store *store, const char *name);
const struct gt_slot *gt_store_find_cache(const struct gt_store *store, const char *name);

/* Return the device address of a slot's data, gradient or working copy. */
void *gt_store_data(const struct gt_store *store, const struct gt_slot *slot);
void *gt_store_gradient(const struct gt_store *store, const struct gt_slot *slot);
void *gt_store_copy(const struct gt_store *store, const struct gt_slot *slot);

/* Return the number of bytes of the whole tensor of a slot, without padding. */
size_t gt_slot_bytes(const struct gt_slot *slot);

#endif
