/* store.h - the memory that outlasts a run of a plan: slots, and planes of flat memory. */
#ifndef GT_STORE_STORE_H
#define GT_STORE_STORE_H

#include "lib/device/backend.h"
#include "lib/graph/graph.h"

/*
 * A slot is a tensor of the model: a parameter, a buffer or a cache. A plane is one flat buffer of
 * device memory with an element for each element of its slots. The parameters are a plane, their
 * gradients are another one, and so is each state of an optimizer. The store owns all slots and all
 * planes. Code that saves, checks, counts or sends the state of a run is a loop over planes.
 *
 * The layout gives each parameter a range of elements, which is the same in all planes of
 * parameters. A parameter is padded with zeros to a multiple of 64 bytes. The parameters are in the
 * order in which the backward pass finishes their gradients: the parameter that the forward pass
 * reads first is the last one. With this layout, updates, norms, all-reduces and broadcasts work on
 * long ranges with many parameters. Several plans (lib/graph/plan.h) share one store: the plan for
 * training, the plan for a last batch with fewer samples, and the plan for evaluation.
 *
 * Ranks may divide the layout (gt_store_divide()). Example: two ranks (seats 0 and 1) divide two
 * buckets of 8 and 4 elements. A and B are parameters:
 *
 *   layout           A A A A A A B B | B B B B
 *   element          0 1 2 3 4 5 6 7   8 9 10 11
 *   parts of seat 0  0 1 2 3           8 9           {0, 4, at 0}, {8, 2, at 4}
 *   parts of seat 1          4 5 6 7       10 11     {4, 4, at 0}, {10, 2, at 4}
 *
 * A plane that ranks cut (enum gt_plane_cut) then has only the elements of this rank's parts. On
 * seat 1, gt_ranges_next() finds these elements of A in such a plane: {4, 2, at 0}.
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
	/* number of elements in the layout of this rank: `count`, or less if this rank holds only a
	 * shard */
	int64_t held;
	int64_t offset; /* of the first element in the layout, in elements of the slot's type */
};

/* Return whether the slot is a weight of the model, trained or frozen. */
static inline bool gt_slot_is_weight(const struct gt_slot *slot)
{
	return slot->role == GT_PARAMETER || slot->frozen;
}

/* A range of the layout, [offset, offset + count), and its place in the memory of a plane,
 * [at, at + count). In elements. */
struct gt_part {
	int64_t offset, count, at;
};

/* Which elements of its slots a plane has on this rank, if ranks divide the layout. */
enum gt_plane_cut {
	GT_CUT_NONE,     /* all elements */
	GT_CUT_IN_PLACE, /* memory for all elements; only those of this rank's parts count */
	GT_CUT_PACKED,   /* only the elements of this rank's parts, one part after the other */
};

/* Where a training checkpoint has the elements of a plane. */
enum gt_plane_saved {
	GT_SAVED_NOT,
	GT_SAVED_MODEL, /* in the state_dict of the model */
	/* in a state_dict of its own, "model_" and the name of the plane, in place of the
	 * parameters */
	GT_SAVED_MEAN,
	GT_SAVED_STATE, /* in the state of the optimizer, under the name of the plane */
};

struct gt_plane {
	const char *name;    /* "parameters", "gradients", "exp_avg" */
	enum gt_role role;   /* of its slots: GT_PARAMETER, GT_BUFFER or GT_CACHE */
	enum gt_dtype dtype; /* of all elements; GT_U8: bytes, and each slot has its own type */
	enum gt_plane_cut cut;
	enum gt_plane_saved saved;
	bool lent;    /* the caller owns the memory (gt_store_lend()) */
	void *memory; /* device; NULL before gt_store_alloc() */
	/* The members below are for planes.c and ranges.c. */
	const bool *holds;            /* [slot_count]: slots of the plane; NULL: all of its role */
	const struct gt_part *ranges; /* [range_count] if `holds` is set */
	size_t range_count;
	int64_t elements; /* of planes that do not have the layout of the parameters */
};

struct gt_store {
	const struct gt_device *device; /* borrowed */
	struct gt_slot *slots;          /* in the order of declaration */
	size_t slot_count;
	enum gt_dtype dtype;     /* data type of all trained parameters */
	int64_t parameter_count; /* elements of trained parameters, without padding */
	int64_t frozen_count;    /* elements of frozen parameters */
	int64_t flat_count;      /* elements of the layout of this rank, with padding */
	size_t running_bytes;    /* changing buffers; they come before the frozen parameters */
	/* The parts of the layout that this rank updates, sorted by offset (gt_store_divide());
	 * NULL: it updates everything. */
	struct gt_part *parts;
	size_t part_count;
	int64_t part_elements;    /* elements of all parts together */
	int seat;                 /* the index of this rank among those that divide the layout */
	struct gt_plane **planes; /* [plane_count]: in the order in which they were added */
	size_t plane_count, plane_capacity;
	/* The planes that the graph knows. Also in `planes`. */
	struct gt_plane *parameters;
	struct gt_plane *gradients; /* NULL: a store without gradients */
	struct gt_plane
	    *copies; /* 16-bit copies of the parameters (gt_store_keep_copies()), or NULL */
	struct gt_plane *buffers;
	/* Memory that nodes keep from run to run (GT_CACHE). Its slots are not in `slots`, so code
	 * that saves, loads or compares slots does not see them. */
	struct gt_plane *caches;
	struct gt_slot **cache_slots; /* [cache_count] */
	size_t cache_count, cache_capacity;
	bool allocated; /* gt_store_alloc() has allocated the memory */
	struct gt_arena arena;
};

/* ---- slots.c ---- */

/* Create a store, and compute the layout of the parameters and buffers that the forward graph
 * declares. Parameters that only other ranks hold have a slot, but no memory. No device memory is
 * allocated yet. So a dry run can plan a model that is larger than the device's memory. The caller
 * frees *out. */
int gt_store_new(struct gt_store **out, const struct gt_graph *g, const struct gt_device *device,
    bool with_gradients, struct gt_err *err);
void gt_store_free(struct gt_store *store);

/* Return the number of elements of a parameter in the layout: slot->held, rounded up to a multiple
 * of 64 bytes. */
int64_t gt_slot_padded(const struct gt_slot *slot);

/* Return the number of bytes of the whole tensor of a slot, without padding. */
size_t gt_slot_bytes(const struct gt_slot *slot);

/* Change the layout of the parameters. Call this before planes are added, and before a plan is
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

/* Return the slot with this name, or NULL. gt_store_find() finds parameters and buffers,
 * gt_store_find_cache() finds caches. */
const struct gt_slot *gt_store_find(const struct gt_store *store, const char *name);
const struct gt_slot *gt_store_find_cache(const struct gt_store *store, const char *name);

/* Set every parameter and buffer to its initial value, a pure function of seed, slot->index and the
 * index of the element. This needs whole parameters: they must not be cut, and must not be
 * sharded. */
int gt_store_init(struct gt_store *store, uint64_t seed, struct gt_err *err);

/* Compute the initial values of one whole slot as gt_store_init() does, but write them to
 * host[slot->count], in host memory. */
void gt_slot_init(const struct gt_slot *slot, uint64_t seed, void *host);

/* ---- planes.c ---- */

/*
 * Add a plane. *like has its name, role, dtype, cut and saved. A plane whose elements this rank
 * updates alone is cut (GT_CUT_PACKED): that changes nothing unless ranks divide the layout. The
 * name must outlive the store. If `holds` is not NULL, the plane has only the slots for which
 * holds(context, slot) is true; their elements then lie one slot after the other. The layout must
 * be final. If the store has memory already, the plane gets its memory at once. *out (may be NULL)
 * is the plane. If a plane of this name exists, nothing is added, and *out is that plane.
 */
int gt_store_add_plane(struct gt_store *store, const struct gt_plane *like,
    bool (*holds)(const void *context, const struct gt_slot *slot), const void *context,
    struct gt_plane **out, struct gt_err *err);

/* Return the plane with this name, or NULL. */
struct gt_plane *gt_store_plane(const struct gt_store *store, const char *name);

/* Return whether the plane has elements of this slot, on this rank or on another one. */
bool gt_plane_holds(
    const struct gt_store *store, const struct gt_plane *plane, const struct gt_slot *slot);

/* Return the type of a slot's elements in a plane. */
enum gt_dtype gt_plane_dtype(const struct gt_plane *plane, const struct gt_slot *slot);

/* Return the size of a plane's memory on this rank. gt_plane_bytes() returns 0 for NULL. */
int64_t gt_plane_elements(const struct gt_store *store, const struct gt_plane *plane);
size_t gt_plane_bytes(const struct gt_store *store, const struct gt_plane *plane);

/*
 * Keep a working copy of each parameter in a 16-bit type, in the plane `copies`. Call this before
 * gt_store_alloc(), and before a plan is made. The parameters must be float32, and must not be cut.
 * An optimizer writes the copies together with the parameters (gt_update_options.copy). Other code
 * that changes parameters must call gt_store_refresh_copies().
 */
int gt_store_keep_copies(struct gt_store *store, enum gt_dtype type, struct gt_err *err);

/* Queue work on the compute stream that computes all working copies anew from the parameters. Do
 * nothing if there are no copies. */
int gt_store_refresh_copies(const struct gt_store *store, struct gt_err *err);

/* Use `memory`, zeroed device memory of gt_plane_bytes() bytes, for a plane: memory that other
 * ranks can access. The caller owns `memory`, which must outlive the store. Call this before
 * gt_store_alloc(). */
void gt_store_lend(struct gt_plane *plane, void *memory);

/* Return the bytes of lent memory. */
size_t gt_store_lent_bytes(const struct gt_store *store);

/* Return the size of the whole layout in bytes. */
size_t gt_store_flat_bytes(const struct gt_store *store);

/* Allocate the device memory of all planes, and set it to zero. */
int gt_store_alloc(struct gt_store *store, struct gt_err *err);

/* Return the plane of the values of a role: GT_PARAMETER, GT_GRADIENT, GT_WORKING_COPY, GT_BUFFER
 * or GT_CACHE. NULL if the store has none. */
struct gt_plane *gt_store_plane_of(const struct gt_store *store, enum gt_role role);

/* Return the device address of a slot in a plane that has memory for all elements of the layout; or
 * that of its data (a parameter, buffer or cache). */
void *gt_slot_address(const struct gt_plane *plane, const struct gt_slot *slot);
void *gt_store_data(const struct gt_store *store, const struct gt_slot *slot);

/* ---- ranges.c: the elements of slots that ranks hold ---- */

/* Divide the layout among `seats` ranks: bucket i of `count` is the range [first[i], first[i] +
 * sizes[i]) of the layout, of which seat k has the k-th of `seats` equal parts. `seat` is that of
 * this rank. Planes with a cut other than GT_CUT_NONE are cut by these parts from now on. */
int gt_store_divide(struct gt_store *store, const int64_t *first, const int64_t *sizes,
    size_t count, int seats, int seat, struct gt_err *err);

/* Return the number of elements of the layout that this rank updates. */
int64_t gt_store_updated(const struct gt_store *store);

/* A walk over the elements of a plane on one rank, in the order of the layout. */
struct gt_ranges {
	const struct gt_store *store;
	const struct gt_plane *plane;
	int64_t offset, end; /* of the layout */
	int seat;
	size_t next; /* part */
};

/* Begin a walk over the elements [offset, offset + count) of the layout that a plane has on this
 * rank; or over those of one slot, without padding. The members of each part that gt_ranges_next()
 * finds are in elements of the slots' type. It returns false at the end. */
struct gt_ranges gt_plane_ranges(
    const struct gt_store *store, const struct gt_plane *plane, int64_t offset, int64_t count);
struct gt_ranges gt_slot_ranges(
    const struct gt_store *store, const struct gt_plane *plane, const struct gt_slot *slot);
bool gt_ranges_next(struct gt_ranges *walk, struct gt_part *out);

/* Return the elements of a slot that a plane has on the rank with this seat. A slot lies in one
 * bucket, so they are one range. Of `at` nothing is known. Empty: `count` is 0. */
struct gt_part gt_slot_part(const struct gt_store *store, const struct gt_plane *plane,
    const struct gt_slot *slot, int seat);

/* Return the device address of the first element of a slot that a plane has on this rank; NULL if
 * it has none. */
void *gt_slot_first(
    const struct gt_store *store, const struct gt_plane *plane, const struct gt_slot *slot);

/* Return the device address of the element `offset` of the layout in a plane of parameters; NULL
 * for a plane that is NULL, or does not have this element on this rank. */
void *gt_plane_at(const struct gt_store *store, const struct gt_plane *plane, int64_t offset);

#endif
