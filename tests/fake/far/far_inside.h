/* far_inside.h - inside tests/fake/far: declarations that its files share. */
#ifndef GT_TESTS_FAKE_FAR_FAR_INSIDE_H
#define GT_TESTS_FAKE_FAR_FAR_INSIDE_H

#include <pthread.h>

#include "lib/graph/kernel.h"
#include "lib/optim/step_kernels.h"
#include "tests/fake/far/far.h"

/* For each stream, how much of its work came before. */
struct far_clock {
	uint64_t at[FAR_STREAMS];
};

enum { FAR_RECORDS = 64 };

/* An event may be recorded again, also on another stream, before streams have come by its records:
 * a wait is for one record. The last FAR_RECORDS of them are remembered; older ones are reached. */
struct gt_event {
	int index;
	struct gt_capture *capture; /* that the last record is in, or NULL */
	uint64_t recorded;          /* times, which is the number of the last record */
	bool reached[FAR_RECORDS];  /* of record n, at n modulo FAR_RECORDS: a stream came by */
	long queued;                /* items that name it */
	struct far_clock clock;     /* of the last record */
};

/* Bytes that an item reads or writes. */
struct far_access {
	const void *p;
	size_t bytes;
	bool write;
};

enum { FAR_ACCESSES = 2 * (GT_MAX_INPUTS + GT_MAX_OUTPUTS) };

/* Arguments of range kernels; pointers are to memory of kernels. */
struct far_args {
	void *a, *b, *c, *d;
	const void *in;
	int64_t count;
	int64_t rows, cols, to_stride, from_stride;
	enum gt_update_phase phase;
	enum gt_dtype dtype;
	float weight;
	enum gt_update_kind kind;
	struct gt_update_range range; /* its options are `update` */
	struct gt_update_options update;
	const struct gt_step_scalars *scalars;
};

/* A piece of work in a queue. */
struct far_item {
	const char *name;
	int (*run)(struct far_item *item, struct gt_err *err);
	struct far_access accesses[FAR_ACCESSES];
	int access_count;
	bool copies; /* comes later than others */
	bool replayed;
	int threads; /* of OpenMP, as the thread that queues it has them */
	struct far_item *next;

	struct gt_call *call; /* kernels */
	struct far_args args; /* range kernels */
	struct gt_event *event;
	uint64_t generation; /* of the event: the number of a record */
	bool waits;          /* for that record; otherwise the item is the record */
	/* Copies: from, to, how much; and a copy of pageable host memory, freed with the item. */
	const void *from;
	void *to;
	size_t bytes;
	void *staged;
	void *ruined; /* host memory that becomes NaN when the copy begins; or NULL */
	/* Calls of the host. */
	gt_host_fn *fn;
	void *self;
	int index;
	struct far_clock clock; /* of the item */
};

struct gt_stream {
	int index, id;
	pthread_t thread;
	pthread_cond_t queues; /* has a new item, or is to stop: its thread waits for this alone */
	struct far_item *first, *last;
	uint64_t queued, done; /* items */
	bool stop;
	struct far_clock clock;     /* of the last item */
	struct gt_capture *capture; /* that it is part of now, or NULL */
};

/* ---- far_memory.c ---- */

/* The same byte for a kernel. NULL stays NULL. */
void *far_near(const void *device);

/* Whether host memory is far_host_alloc()'s. */
bool far_is_pinned(const void *host, size_t bytes);

/* Whether work that is queued, and not known to the host to be done, writes these bytes of pinned
 * memory, or with `reads` touches them at all. */
bool far_is_pending(int index, const void *host, size_t bytes, bool reads);

int far_alloc(int index, size_t bytes, void **out, struct gt_err *err);
void far_free(int index, void *p, size_t bytes);
int far_host_alloc(int index, size_t bytes, void **out, struct gt_err *err);
void far_host_free(int index, void *p, size_t bytes);

/* See that the item's accesses are of memory there is, and in order behind those before: `clock` is
 * of the stream `id`, for the item. The fault's text, or NULL; it is good until the next one. */
const char *far_check_item(
    const struct far_item *item, int index, int id, const struct far_clock *clock);

/* The host knows that so much is done: memory may be freed on which nothing else is queued. */
const struct far_clock *far_host_clock(int index);

/* ---- far.c ---- */

/* Queue an item on a stream, with all that it accesses; it is copied. */
int far_queue(struct gt_stream *stream, struct far_item *item, struct gt_err *err);

/* Add bytes that the item accesses; NULL or none are no access. */
void far_add_access(struct far_item *item, const void *p, size_t bytes, bool write);

/* A fault, with the text of a format. */
void far_fail(int index, const char *format, ...) __attribute__((format(printf, 2, 3)));

void far_count_blocking(int index);

int far_stream_sync(struct gt_stream *stream, struct gt_err *err);

int far_event_record(struct gt_event *e, struct gt_stream *s, struct gt_err *err);
int far_event_wait(struct gt_stream *s, struct gt_event *e, struct gt_err *err);
void far_count_replay(int index);

/* ---- far_capture.c ---- */

/* Keep an item that is queued on a stream with a capture. */
int far_keep(struct gt_stream *stream, const struct far_item *item, struct gt_err *err);

/* A stream waits for an event, one of which has a capture: the stream joins it. */
int far_keep_wait(struct gt_stream *stream, struct gt_event *event, struct gt_err *err);

int far_capture_begin(struct gt_stream *stream, struct gt_err *err);
int far_capture_end(struct gt_capture **out, struct gt_stream *stream, struct gt_err *err);
int far_replay(struct gt_stream *stream, struct gt_capture *capture, struct gt_err *err);
void far_capture_free(struct gt_capture *capture);

/* ---- far_copies.c ---- */

int far_copy_in(
    struct gt_stream *s, void *device, const void *host, size_t bytes, struct gt_err *err);
int far_copy_out(
    struct gt_stream *s, void *host, const void *device, size_t bytes, struct gt_err *err);
int far_copy(struct gt_stream *s, void *to, const void *from, size_t bytes, struct gt_err *err);
int far_zero(struct gt_stream *s, void *device, size_t bytes, struct gt_err *err);

int far_host_call(struct gt_stream *s, gt_host_fn *fn, void *self, void *memory, size_t bytes,
    struct gt_err *err);

/* The host knows that so much is done: end the transfers in it. The fault's text, or NULL. */
const char *far_end_transfers(int index, const struct far_clock *known);

/* ---- far_kernels.c ---- */

const struct gt_kernel *const *far_kernels(void);
const struct gt_range_kernels *far_ranges(void);
const struct gt_step_kernels *far_steps(void);

#endif
