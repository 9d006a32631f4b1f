/* store.h - flat memory of parameters, gradients and buffers, in backward order. */
#ifndef GT_GRAPH_STORE_H
#define GT_GRAPH_STORE_H

#include "lib/device/backend.h"
#include "lib/graph/graph.h"

/*
 * Every parameter is a range of one flat buffer, its gradient the same range of another, an
 * optimizer's state the same range of more. Ranges lie in the order in which the backward pass
 * finishes their gradients (the reverse of first use), each padded with zeros to 64 bytes. So
 * updates, norms, buckets of all-reduces and broadcasts also work on ranges. Several plans
 * (training, the last short batch, evaluation) share one store.
 */

struct gt_slot {
	const char *name;
	enum gt_role role; /* GT_PARAMETER, GT_BUFFER or GT_CACHE */
	enum gt_dtype dtype;
	int ndim;
	int64_t shape[GT_MAX_DIMS];
	struct gt_init init;
	bool decay;
	double lr_scale;
	bool hidden, frozen; /* struct gt_value */
	bool elsewhere;      /* other ranks hold it: it has no memory here */
	int index;           /* parameters, frozen or not: order of declaration */
	/* elements of the whole parameter; `shape` is also that of the whole */
	int64_t count;
	/* elements in this rank's memory: `count`, or the elements of its shard */
	int64_t held;
	/* offset of the first element: in elements for parameters, in bytes for others */
	int64_t offset;
};

/* A range of the flat layout that this process updates: [offset, offset + count). In memory that
 * holds only such parts it is [at, at + count). */
struct gt_part {
	int64_t offset, count, at;
};

struct gt_store {
	const struct gt_device *device; /* borrowed */
	struct gt_slot *slots;          /* in the order of declaration */
	size_t slot_count;
	enum gt_dtype dtype;     /* of all parameters */
	int64_t parameter_count; /* elements of trained parameters, without padding */
	int64_t frozen_count;    /* elements of frozen parameters */
	int64_t flat_count;      /* elements, with padding */
	size_t buffer_bytes;     /* buffers that change in a run come first */
	size_t running_bytes;    /* bytes of the buffers that change; frozen parameters follow */
	/* The parts that this process updates, in the order of their offsets, borrowed; NULL:
	 * everything. Optimizer state exists only for these parts. Gradients and parameters may
	 * also exist only for these parts. */
	const struct gt_part *parts;
	size_t part_count;
	int64_t part_elements; /* of all parts */
	bool gradients_in_parts, parameters_in_parts;
	bool with_gradients;
	bool allocated;   /* by gt_store_alloc(); until then there is no memory */
	void *parameters; /* device: [flat_count], or [part_elements] */
	void *gradients;  /* device: likewise, or NULL without gradients */
	uint16_t *copies; /* device: [flat_count], or NULL: gt_store_keep_copies() */
	enum gt_dtype copy_type;
	bool lent_gradients, lent_parameters;
	void *buffers; /* device: [buffer_bytes] */
	/* Memory that nodes keep from run to run (GT_CACHE). Caches have slots of their own, so
	 * that code which saves, loads or compares slots does not see them. */
	struct gt_slot **caches;
	size_t cache_count, cache_capacity, cache_bytes;
	void *cache; /* device: [cache_bytes] */
	struct gt_arena arena;
};

/* Lay out the parameters and buffers that the (forward) graph declares; parameters of other ranks
 * have a slot, but no memory. No device memory is allocated yet, so a plan and its cost can be
 * computed even for more memory than exists. */
int gt_store_new(struct gt_store **out, const struct gt_graph *g, const struct gt_device *device,
    bool with_gradients, struct gt_err *err);
void gt_store_free(struct gt_store *store);

/*
 * Before gt_store_alloc(), and before plans: keep working copies of all parameters, in the same
 * order, in this type of 16 bits. Optimizers write them in the pass over memory that updates the
 * parameters (gt_update_options.copy); other code that changes parameters calls
 * gt_store_refresh_copies(). For float32 parameters that are not in parts.
 */
void gt_store_keep_copies(struct gt_store *store, enum gt_dtype type);

/* Queue on the compute stream an update of all working copies from the parameters. Does nothing if
 * there are no copies. */
int gt_store_refresh_copies(const struct gt_store *store, struct gt_err *err);

/* Before gt_store_alloc(): use this device memory, zeroed, for gradients or parameters, because
 * other ranks can access it. The caller owns it, and it must outlive the store. */
void gt_store_lend_gradients(struct gt_store *store, void *memory);
void gt_store_lend_parameters(struct gt_store *store, void *memory);

/* Elements of a parameter in the layout: the elements held here, padded to 64 bytes. */
int64_t gt_slot_padded(const struct gt_slot *slot);

/* Before gt_store_alloc(), and before plans: change the layout of parameters. offsets [slot_count]
 * are in elements, and multiples of 64 bytes; offsets of other slots are not read. */
void gt_store_place(struct gt_store *store, const int64_t *offsets, int64_t flat_count);

/* The memory laid out under this name holds a shard of a parameter of this shape, which the slot
 * describes from now on. */
void gt_store_part_of(struct gt_store *store, const char *name, const int64_t *shape);

/*
 * Before gt_store_alloc(), and before plans of this graph: lay out its caches. A cache that has
 * been laid out for another graph under the same name is shared; it must have the same type and
 * shape.
 */
int gt_store_add_caches(struct gt_store *store, const struct gt_graph *g, struct gt_err *err);

/* Bytes of the flat layout; and of the parameters, gradients and working copies that this rank
 * holds. */
size_t gt_store_flat_bytes(const struct gt_store *store);
size_t gt_store_parameter_bytes(const struct gt_store *store);
size_t gt_store_gradient_bytes(const struct gt_store *store);
size_t gt_store_copy_bytes(const struct gt_store *store);

/* The number of elements that this process updates, which is the size of an optimizer's state. */
int64_t gt_store_updated(const struct gt_store *store);

/* Allocate the device memory, zeroed. */
int gt_store_alloc(struct gt_store *store, struct gt_err *err);

/* Give every parameter and buffer its initial value, a pure function of seed, index and element.
 * Parameters are not in parts. */
int gt_store_init(struct gt_store *store, uint64_t seed, struct gt_err *err);

/* Write the same initial values of one whole slot to host memory [slot->count]. */
void gt_slot_init(const struct gt_slot *slot, uint64_t seed, void *host);

/* The slot of this name, or NULL. The first function finds parameters and buffers, the second one
 * caches. */
const struct gt_slot *gt_store_find(const struct gt_store *store, const char *name);
const struct gt_slot *gt_store_find_cache(const struct gt_store *store, const char *name);

/* The device address of a slot's data, gradient or working copy. */
void *gt_store_data(const struct gt_store *store, const struct gt_slot *slot);
void *gt_store_gradient(const struct gt_store *store, const struct gt_slot *slot);
void *gt_store_copy(const struct gt_store *store, const struct gt_slot *slot);

/* Bytes of a slot, without padding; of the whole. */
size_t gt_slot_bytes(const struct gt_slot *slot);

#endif
