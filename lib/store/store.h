/* store.h - the memory that outlasts a run of a plan: slots, and planes of flat memory. */
#ifndef GT_STORE_STORE_H
#define GT_STORE_STORE_H

#include "lib/device/backend.h"
#include "lib/graph/graph.h"

/*
 * A slot is a tensor of the model: a parameter, a buffer or a cache. A plane is a flat buffer of
 * device memory with an element for each element of its slots: parameters, gradients, each state of
 * an optimizer. The store owns both. All plans of a run (lib/graph/plan.h) share it.
 *
 * The layout gives each parameter a range of elements, padded with zeros to a multiple of 64 bytes,
 * which is the same in all planes of parameters. The order is that in which the backward pass
 * finishes their gradients, so that updates and collectives work on long ranges.
 *
 * Ranks may divide the layout (gt_store_divide()). Example: two ranks (ranks 0 and 1) divide two
 * buckets of 8 and 4 elements. A and B are parameters:
 *
 *   layout           A A A A A A B B | B B B B
 *   element          0 1 2 3 4 5 6 7   8 9 10 11
 *   parts of rank 0  0 1 2 3           8 9           {0, 4, at 0}, {8, 2, at 4}
 *   parts of rank 1          4 5 6 7       10 11     {4, 4, at 0}, {10, 2, at 4}
 *
 * A plane that ranks cut (enum gt_plane_cut) has only the elements of this rank's parts. On rank 1,
 * gt_ranges_next() finds these elements of A in it: {4, 2, at 0}.
 */

struct gt_slot {
	const char *name;  /* first for gt_index_by_name */
	enum gt_role role; /* GT_PARAMETER, GT_BUFFER (frozen parameters, too) or GT_CACHE */
	enum gt_dtype dtype;
	int ndim;
	int64_t shape[GT_MAX_DIMS];
	struct gt_init init;
	bool decay;      /* parameters: weight decay applies */
	double lr_scale; /* parameters: factor of the learning rate */
	/* as in struct gt_value */
	bool hidden, frozen;
	struct gt_packing packing;
	bool on_other_ranks; /* the slot has no memory on this rank */
	int index;           /* parameters: index in the order of declaration */
	int64_t count;       /* elements of the whole tensor, which `shape` describes */
	int64_t held;        /* elements on this rank: `count`, or those of its shard */
	int64_t largest;     /* elements of the largest shard of a rank; `count` without shards */
	int64_t offset;      /* first element in the layout */
};

/* Return whether the slot is a weight of the model, trained or frozen. */
static inline bool gt_slot_is_weight(const struct gt_slot *slot)
{
	return slot->role == GT_PARAMETER || slot->frozen;
}

/* A range of the layout, and the place `at` in the memory of a plane, in elements. */
struct gt_part {
	int64_t offset, count, at;
};

/* The elements that a plane has if ranks divide the layout. */
enum gt_plane_cut {
	GT_CUT_NONE,     /* all elements */
	GT_CUT_IN_PLACE, /* memory for all, but only those of this rank's parts count */
	GT_CUT_PACKED,   /* memory for those of this rank's parts, one part after the other */
};

/* Where a training checkpoint has the plane. */
enum gt_plane_saved {
	GT_SAVED_NOT,
	GT_SAVED_MODEL, /* in the state_dict of the model */
	GT_SAVED_MEAN,  /* in a state_dict of its own, "model_" and the plane's name */
	GT_SAVED_STATE, /* in the optimizer's state, under the plane's name */
};

struct gt_plane {
	const char *name;    /* "parameters", "gradients", "exp_avg" */
	enum gt_role role;   /* role of its slots */
	enum gt_dtype dtype; /* type of all elements; GT_U8: each slot has its own */
	enum gt_plane_cut cut;
	enum gt_plane_saved saved;
	bool lent;                    /* gt_store_lend() */
	void *memory;                 /* NULL before gt_store_alloc() */
	const bool *holds;            /* [slot_count]: slots of the plane; NULL: all of its role */
	const struct gt_part *ranges; /* [range_count] if `holds` is set */
	size_t range_count;
	int64_t elements; /* size of planes without the layout of parameters */
};

struct gt_store {
	const struct gt_device *device; /* borrowed */
	struct gt_slot *slots;          /* [slot_count] in the order of declaration */
	size_t slot_count;
	enum gt_dtype dtype;     /* type of trained parameters */
	int64_t parameter_count; /* elements of trained parameters, without padding */
	int64_t frozen_count;    /* elements of frozen parameters */
	int64_t flat_count;      /* elements of the layout of this rank, with padding */
	size_t running_bytes;    /* changing buffers, which come before frozen parameters */
	/* parts that this rank updates, by offset (gt_store_divide()); NULL: everything */
	struct gt_part *parts;
	size_t part_count;
	int64_t part_elements;
	int rank;                 /* index of this rank among those that divide the layout */
	struct gt_plane **planes; /* [plane_count], in the order in which they were added */
	size_t plane_count, plane_capacity;
	/* planes that graphs know, which `planes` has, too; NULL if the store has none */
	struct gt_plane *parameters;
	struct gt_plane *gradients;
	struct gt_plane *copies;
	struct gt_plane *buffers;
	/* GT_CACHE; their slots are not in `slots`, so they are not saved, loaded or compared */
	struct gt_plane *caches;
	struct gt_slot **cache_slots; /* [cache_count] */
	size_t cache_count, cache_capacity;
	struct gt_index by_name, caches_by_name; /* of `slots`, and of `cache_slots` */
	bool allocated;
	struct gt_arena arena;
};

/* ---- slots.c ---- */

/* Create a store with the layout of the parameters and buffers that the graph declares. Allocates
 * no device memory, so that a dry run can plan any model. */
int gt_store_new(struct gt_store **out, const struct gt_graph *g, const struct gt_device *device,
    bool with_gradients, struct gt_err *err);
void gt_store_free(struct gt_store *store);

/* Return slot->held, rounded up to a multiple of 64 bytes, in elements. */
int64_t gt_slot_padded(const struct gt_slot *slot);

/* Return the bytes of a slot's whole tensor. */
size_t gt_slot_bytes(const struct gt_slot *slot);

/* Change the layout, before planes are added or plans made: offsets[slot_count] (multiples of 64
 * bytes; only those of parameters with memory count) and the new size, in elements. */
void gt_store_place(struct gt_store *store, const int64_t *offsets, int64_t flat_count);

/* Declare that the slot holds a shard of a parameter with this shape, of which no rank holds more
 * than `largest` elements. slot->held stays. */
void gt_store_mark_shard(
    struct gt_store *store, const char *name, const int64_t *shape, int64_t largest);

/* Add the caches that a graph declares, before gt_store_alloc() and plans of the graph. Graphs
 * share caches of one name, type and shape. Errors: GT_EINVAL, GT_ENOMEM. */
int gt_store_add_caches(struct gt_store *store, const struct gt_graph *g, struct gt_err *err);

/* Return the parameter or buffer, or the cache, with this name, or NULL. */
const struct gt_slot *gt_store_find(const struct gt_store *store, const char *name);
const struct gt_slot *gt_store_find_cache(const struct gt_store *store, const char *name);

/* Set parameters and buffers, which must be whole, to initial values: a function of the seed,
 * slot->index and the element. */
int gt_store_init(struct gt_store *store, uint64_t seed, struct gt_err *err);

/* Write the initial values of a whole slot, which is not packed, to host memory. */
void gt_slot_init(const struct gt_slot *slot, uint64_t seed, void *host);

/* ---- packed.c: slots whose elements are stored in blocks (struct gt_packing) ---- */

/* Return a slot as the model and files have it: a packed one has float32 elements. */
struct gt_slot gt_slot_plain(const struct gt_slot *slot);

/* Store the elements plain[] of gt_slot_plain() in blocks: out[slot->count] bytes. */
void gt_slot_pack(const struct gt_slot *slot, const float *plain, void *out);

/* Return the initial values of a whole slot as the store has them. The caller frees them. NULL:
 * there is no memory. */
void *gt_slot_init_stored(const struct gt_slot *slot, uint64_t seed, struct gt_err *err);

/* ---- planes.c ---- */

/* Add a plane like *like (name, which is borrowed, role, dtype, cut, saved), with the slots for
 * which holds() (or NULL) is true, one after the other. The layout must be final. *out (may be
 * NULL) is the plane, or that which has the name already. It has memory if the store has. */
int gt_store_add_plane(struct gt_store *store, const struct gt_plane *like,
    bool (*holds)(const void *context, const struct gt_slot *slot), const void *context,
    struct gt_plane **out, struct gt_err *err);

/* Return the plane with this name, or NULL. */
struct gt_plane *gt_store_plane(const struct gt_store *store, const char *name);

/* Return whether the plane has the slot, on any rank. */
bool gt_plane_holds(
    const struct gt_store *store, const struct gt_plane *plane, const struct gt_slot *slot);

/* Return the type of a slot's elements in a plane. */
enum gt_dtype gt_plane_dtype(const struct gt_plane *plane, const struct gt_slot *slot);

/* Return the size of a plane on this rank; 0 bytes for NULL. */
int64_t gt_plane_elements(const struct gt_store *store, const struct gt_plane *plane);
size_t gt_plane_bytes(const struct gt_store *store, const struct gt_plane *plane);

/* Keep 16-bit copies of the parameters, which are float32 and not cut. Call this before
 * gt_store_alloc() and plans. Optimizers write the copies (gt_update_options.copy); after other
 * changes call gt_store_refresh_copies(). */
int gt_store_keep_copies(struct gt_store *store, enum gt_dtype type, struct gt_err *err);

/* Queue the work that computes all copies, if there are any, on the compute stream. */
int gt_store_refresh_copies(const struct gt_store *store, struct gt_err *err);

/* Use the caller's zeroed device memory of gt_plane_bytes() bytes for a plane, so that other ranks
 * can access it. It must outlive the store. Call this before gt_store_alloc(). */
void gt_store_lend(struct gt_plane *plane, void *memory);

/* Return the bytes of lent memory. */
size_t gt_store_lent_bytes(const struct gt_store *store);

/* Return the bytes of the whole layout. */
size_t gt_store_flat_bytes(const struct gt_store *store);

/* Allocate zeroed memory for all planes. */
int gt_store_alloc(struct gt_store *store, struct gt_err *err);

/* Return the plane of GT_PARAMETER, GT_GRADIENT, GT_WORKING_COPY, GT_BUFFER or GT_CACHE, or
 * NULL. */
struct gt_plane *gt_store_plane_of(const struct gt_store *store, enum gt_role role);

/* Return the device address of a slot in a plane that is not cut, or of its data. */
void *gt_slot_address(const struct gt_plane *plane, const struct gt_slot *slot);
void *gt_store_data(const struct gt_store *store, const struct gt_slot *slot);

/* ---- ranges.c: the elements of slots that ranks hold ---- */

/* Divide the layout among `ranks` ranks: rank k gets the k-th of equal parts of each bucket
 * [first[i], first[i] + sizes[i]). Planes are cut by these parts from now on. */
int gt_store_divide(struct gt_store *store, const int64_t *first, const int64_t *sizes,
    size_t count, int ranks, int rank, struct gt_err *err);

/* Return the number of elements that this rank updates. */
int64_t gt_store_updated(const struct gt_store *store);

/* A walk over a plane's elements on one rank, in the order of the layout. */
struct gt_ranges {
	const struct gt_store *store;
	const struct gt_plane *plane;
	int64_t offset, end; /* range of the layout */
	int rank;
	size_t next; /* index of the next part */
};

/* Walk the elements that a plane has of a range of the layout, or of a slot without padding, on
 * this rank. gt_ranges_next() returns false at the end. */
struct gt_ranges gt_plane_ranges(
    const struct gt_store *store, const struct gt_plane *plane, int64_t offset, int64_t count);
struct gt_ranges gt_slot_ranges(
    const struct gt_store *store, const struct gt_plane *plane, const struct gt_slot *slot);
bool gt_ranges_next(struct gt_ranges *walk, struct gt_part *out);

/* Return the range of a slot that the plane has on a rank; `count` is 0 if none, and `at`
 * has no meaning. */
struct gt_part gt_slot_part(const struct gt_store *store, const struct gt_plane *plane,
    const struct gt_slot *slot, int rank);

/* Return the device address of the first element of a slot on this rank, or NULL. */
void *gt_slot_first(
    const struct gt_store *store, const struct gt_plane *plane, const struct gt_slot *slot);

/* Return the device address of an element of the layout; NULL if the plane is NULL or lacks it on
 * this rank. */
void *gt_plane_at(const struct gt_store *store, const struct gt_plane *plane, int64_t offset);

#endif
