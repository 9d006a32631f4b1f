/* backend.h - devices: a table of functions for each kind (a backend), and open devices. */
#ifndef GT_DEVICE_BACKEND_H
#define GT_DEVICE_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/device/dtype.h"
#include "lib/device/layout.h"

/* lib/device only passes on pointers to these structs. lib/graph/kernel.h defines struct gt_kernel,
 * lib/optim/step_kernels.h struct gt_step_kernels, lib/comm/group.h struct gt_group, and
 * lib/comm/device_group.h struct gt_device_groups. */
struct gt_kernel;
struct gt_step_kernels;
struct gt_group;
struct gt_device; /* below */
struct gt_device_groups;

/*
 * A device works asynchronously. A stream is a queue of work for a device, and the device does this
 * work in the order of the queue. Two streams are independent, unless one of them waits for an
 * event recorded on the other. A function with an argument `stream` queues work and returns. The
 * device may do the work later. Until the work is done, do not read or change the memory that it
 * uses. On the CPU, work is already done when the function returns.
 *
 * If work fails after the function has returned, a later call on that device returns the error. A
 * kernel may find a fault in its data (lib/graph/fault.h). In that case the host's next wait on
 * that device, by stream_sync() or event_sync(), returns the fault as an error, once. If there are
 * several faults, one of them is returned.
 *
 * A stream and its events may be used by only one thread at a time.
 */
struct gt_stream;
struct gt_event;
struct gt_capture; /* work that is recorded once and done many times: see capture_begin() */

/* A function that the host calls when a stream has done all earlier work: see host_call(). */
typedef int gt_host_fn(void *self, struct gt_err *err);

/* The alignment of device memory, in bytes. */
enum { GT_DEVICE_ALIGN = 256 };

/*
 * Kernels that work on ranges of flat buffers. A flat buffer holds the values of many tensors, one
 * after the other: all parameters, or all gradients (lib/store/store.h). Each function queues its
 * work on a stream. Elements are float32, unless another type is given. A range may have any
 * length, and begins at a multiple of 64 bytes. Arrays of elements and the argument *first are in
 * device memory. Results are the same for any number of threads. Errors: GT_EDEVICE, and errors of
 * earlier work on this device.
 */
struct gt_range_kernels {
	/* x[count] += y[count] */
	int (*add)(
	    struct gt_stream *stream, float *x, const float *y, int64_t count, struct gt_err *err);
	/* Compute y[count] += weight * (x[count] - y[count]), as torch.lerp does. The formula is
	 * exact for the weights 0 and 1. */
	int (*lerp)(struct gt_stream *stream, float *y, const float *x, int64_t count, float weight,
	    struct gt_err *err);
	/* Exchange x[count] and y[count]. */
	int (*swap)(
	    struct gt_stream *stream, float *x, float *y, int64_t count, struct gt_err *err);
	/* Convert x[count] to half[count], whose type is `dtype`: GT_F16 or GT_BF16. Round to
	 * nearest even (lib/base/half.h). */
	int (*narrow)(struct gt_stream *stream, uint16_t *half, const float *x, int64_t count,
	    enum gt_dtype dtype, struct gt_err *err);
	/* Convert half[count], whose type is `dtype` (GT_F16 or GT_BF16), to x[count]. */
	int (*widen)(struct gt_stream *stream, float *x, const uint16_t *half, int64_t count,
	    enum gt_dtype dtype, struct gt_err *err);
	/* Store in *first the index of the first element of x[count] that is NaN or infinite. Store
	 * -1 if all elements are finite, or if dtype is neither GT_F32 nor GT_F64. */
	int (*find_nonfinite)(struct gt_stream *stream, int64_t *first, const void *x,
	    int64_t count, enum gt_dtype dtype, struct gt_err *err);
};

/*
 * A backend: the functions for one kind of device. `index` is the number of a device of this kind,
 * from 0. A thread calls enter() for a device before it calls any other function for that device,
 * except count() and describe(). Functions that return int may fail with GT_EDEVICE.
 */
struct gt_backend {
	const char *name; /* "cpu" or "cuda" */
	/* device memory is host memory: the host reads it directly between runs of a plan (the
	 * kernel calls of a graph, lib/graph/plan.h) */
	bool host_memory;
	/* products and lookups read weights in blocks (lib/base/blocks.h) */
	bool reads_blocks;
	/* the layout in which kernels expect tensors of four dimensions */
	enum gt_layout image_layout;
	/*
	 * Limits for fuse_head, a pass over a model's graph (lib/graph/pass.h). The pass can
	 * replace the last matrix product and the loss by one node, linear_cross_entropy. It does
	 * so in two cases: the logits have more than logits_bytes bytes, or the size of one row of
	 * logits in bytes is not a multiple of logits_align (0: any size is fine). In the first
	 * case, the node computes the logits in chunks of at most logits_bytes bytes, but at least
	 * GT_HEAD_ROWS rows (lib/graph/attrs.h). If logits_bytes is 0, or the backend has no
	 * kernels for linear_cross_entropy, the pass does nothing.
	 */
	size_t logits_bytes, logits_align;

	/* Return the number of devices of this kind. */
	int (*count)(void);
	/* Write to text[size] one line that describes a device. */
	int (*describe)(int index, char *text, size_t size, struct gt_err *err);

	/* Make device `index` the calling thread's current device. */
	int (*enter)(int index, struct gt_err *err);
	/* Store in *available the bytes of device memory that are available, and in *total the size
	 * of device memory in bytes. */
	int (*memory)(int index, uint64_t *available, uint64_t *total, struct gt_err *err);

	/* Optional (NULL): write a text to text[size] that identifies a device among all devices of
	 * all hosts. (`index` does not: it can stand for different devices in different processes.)
	 * GT_DEVICE_IDENTITY_SIZE bytes suffice. */
	int (*identify)(int index, char *text, size_t size, struct gt_err *err);

	/* Optional (NULL): write to text[size] a list of other processes that hold memory of this
	 * device (gt_holders_read()). The text is "" if there are none or none are known. */
	void (*holders)(char *text, size_t size, int index);

	/* Optional (NULL): return the peak rate of matrix products of the type `dtype`, in
	 * floating-point operations per second, or 0 if the rate is not known. If `tf32` is set,
	 * the factors of float32 products are rounded to TF32. */
	double (*peak_flops)(int index, enum gt_dtype dtype, bool tf32);
	/* Optional (NULL: all devices multiply all types, but none rounds to TF32): check that a
	 * device can compute products of the type `dtype`; with `tf32`, float32 products with
	 * factors rounded to TF32. Errors: GT_ENOTSUP if it cannot, with the name of the device in
	 * the text; GT_EDEVICE. */
	int (*check_products)(int index, enum gt_dtype dtype, bool tf32, struct gt_err *err);

	/* Allocate zeroed device memory, aligned to GT_DEVICE_ALIGN. Call free() only after all
	 * work that uses the memory is done. Pass the same `bytes` to alloc() and free(). */
	int (*alloc)(int index, size_t bytes, void **out, struct gt_err *err);
	void (*free)(int index, void *p, size_t bytes);
	/* Allocate zeroed, pinned host memory. Copies between pinned memory and the device run at
	 * full speed and in the background. For copies from or to other host memory, the host may
	 * have to wait. */
	int (*host_alloc)(int index, size_t bytes, void **out, struct gt_err *err);
	void (*host_free)(int index, void *p, size_t bytes);

	int (*stream_new)(struct gt_stream **out, int index, struct gt_err *err);
	/* Call this only after all work of the stream is done. NULL is fine. */
	void (*stream_free)(struct gt_stream *stream);
	/* Wait, on the host, until all work of the stream is done. */
	int (*stream_sync)(struct gt_stream *stream, struct gt_err *err);

	/*
	 * Optional: check that a device which several ranks of `host` use has a hardware queue for
	 * each stream of their process. If two streams share a queue, and one of them waits for
	 * another rank, then the other one waits, too, and ranks that are threads on one device can
	 * wait for each other for ever. Ranks of other groups do not count: a group with one rank
	 * on each device always passes. Every rank of `host`, a group for host memory, calls this
	 * after it has made its streams. All ranks get the same result: GT_EDEVICE if there are too
	 * few queues.
	 */
	int (*check_queues)(
	    struct gt_group *host, const struct gt_device *device, struct gt_err *err);

	int (*event_new)(struct gt_event **out, int index, struct gt_err *err);
	void (*event_free)(struct gt_event *event); /* NULL is fine */
	/* Record the event: it marks the end of all work queued on the stream so far. If the event
	 * is recorded again, only the new mark counts. */
	int (*event_record)(struct gt_event *event, struct gt_stream *stream, struct gt_err *err);
	/* Make the stream wait for the event: work queued on the stream from now on begins when the
	 * work before the event's mark is done. An event that was never recorded does not make a
	 * stream wait. */
	int (*event_wait)(struct gt_stream *stream, struct gt_event *event, struct gt_err *err);
	/* Wait, on the host, until the work before the event's mark is done. */
	int (*event_sync)(struct gt_event *event, struct gt_err *err);
	/* Return true if the work before the event's mark is done or has failed. */
	bool (*event_done)(struct gt_event *event);

	/* Queue a copy from host to device. */
	int (*copy_in)(struct gt_stream *stream, void *device, const void *host, size_t bytes,
	    struct gt_err *err);
	/* Queue a copy from device to host. */
	int (*copy_out)(struct gt_stream *stream, void *host, const void *device, size_t bytes,
	    struct gt_err *err);
	/* Queue a copy within the device. The two ranges must not overlap. */
	int (*copy)(
	    struct gt_stream *stream, void *to, const void *from, size_t bytes, struct gt_err *err);
	/* Queue work that sets device memory to zero. */
	int (*zero)(struct gt_stream *stream, void *device, size_t bytes, struct gt_err *err);

	/*
	 * Optional, both functions or none (NULL): copies between the memories of two devices of
	 * this kind. First call peer_open() once, on a thread that has entered device `index`.
	 * copy_peer() then queues a copy on a stream of one of the two devices. *direct is true if
	 * the driver says that device `index` can access the memory of device `peer`: copies are
	 * then direct. Otherwise copies go through the host.
	 */
	int (*peer_open)(int index, int peer, bool *direct, struct gt_err *err);
	int (*copy_peer)(struct gt_stream *stream, void *to, int to_index, const void *from,
	    int from_index, size_t bytes, struct gt_err *err);

	/*
	 * Optional, all four functions or none (NULL): a capture is work that is recorded once and
	 * done many times. A replay costs the host less time than queueing each kernel again.
	 *
	 * Between capture_begin() and capture_end(), work queued on the stream is recorded and not
	 * done: kernels, copies within the device, events, and waits of streams. If another stream
	 * waits for an event that was recorded during the capture, that other stream joins the
	 * capture. Before capture_end(), the stream of capture_begin() has to wait for all streams
	 * that have joined. Captured work must not wait for work outside the capture. During a
	 * capture, the following are errors: copies from or to host memory, host_call(), and a wait
	 * of the host for a stream of the capture. capture_end() ends the capture even if it
	 * returns an error; *out is then NULL.
	 *
	 * replay() queues all work of the capture on `stream`, which must be the stream that was
	 * passed to capture_begin(). The work uses the same addresses and arguments in each replay,
	 * so values that change between replays must be read from device memory. A capture may be
	 * freed while a replay is still running. Memory that the work uses may be freed only after
	 * the replay is done.
	 */
	int (*capture_begin)(struct gt_stream *stream, struct gt_err *err);
	int (*capture_end)(struct gt_capture **out, struct gt_stream *stream, struct gt_err *err);
	int (*replay)(struct gt_stream *stream, struct gt_capture *capture, struct gt_err *err);
	void (*capture_free)(struct gt_capture *capture); /* NULL is fine */

	/*
	 * Queue a call of fn(self, err) on the host. fn begins when all earlier work of the stream
	 * is done, and later work of the stream begins when fn has returned. fn runs on a thread of
	 * the backend; on the CPU, it runs within host_call(). fn may wait, for example for host
	 * calls of other streams. It must not call functions of a backend. The only pinned memory
	 * that fn may access is memory[bytes]. If fn fails, later calls on the device return its
	 * error.
	 */
	int (*host_call)(struct gt_stream *stream, gt_host_fn *fn, void *self, void *memory,
	    size_t bytes, struct gt_err *err);

	/* Return a NULL-terminated list of kernel tables. A table ends with a row that has op NULL.
	 * If several rows can compute a call (struct gt_call), the first one is used. */
	const struct gt_kernel *const *(*kernels)(void);
	/* Return the kernels for ranges of flat buffers. */
	const struct gt_range_kernels *(*ranges)(void);
	/* Return the kernels of a training step (lib/optim/step_kernels.h). */
	const struct gt_step_kernels *(*steps)(void);

	/* Optional (NULL): the backend's implementations of collectives between its devices. The
	 * list is NULL-terminated, and the fastest implementation is first. */
	const struct gt_device_groups *const *groups;

	/*
	 * Optional, both functions or none (NULL): timed events, which keep the time at which the
	 * device reaches their mark. They cost a device more time than other events. If both
	 * functions are NULL, marks.h uses the times, on the host's clock, of the calls that queue
	 * work.
	 *
	 * timed_event_new() creates a timed event, which all functions of events accept.
	 * event_seconds() sets *seconds to the time from the mark of `from` to the mark of `to`;
	 * *seconds is negative if the device reached `to` first. Both events must be timed events
	 * of the same device, and the device must have reached both marks.
	 */
	int (*timed_event_new)(struct gt_event **out, int index, struct gt_err *err);
	int (*event_seconds)(
	    double *seconds, struct gt_event *from, struct gt_event *to, struct gt_err *err);
};

/* The backends: one for the CPU, in every build, and one for NVIDIA GPUs, in builds with CUDA.
 * Their code is in kernels/. */
extern const struct gt_backend gt_cpu_backend, gt_cuda_backend;

/* All backends of this build, NULL-terminated. */
extern const struct gt_backend *const gt_backends[];

/* Return the backend with this name, or NULL. */
const struct gt_backend *gt_backend_find(const char *name);

/* ---- device.c ---- */

/* An open device, to be used by one thread. That thread opens the device and thereby also enters
 * it. */
struct gt_device {
	const struct gt_backend *backend;
	int index;
	struct gt_stream *compute;     /* for plans and updates */
	struct gt_stream *copies;      /* for copies of batches to the device, while plans run */
	struct gt_stream *collectives; /* for collectives, while plans run */
	/* recorded behind the latest collective of a group that must not run beside those of
	 * another group (kernels/cuda/group/group.h) */
	struct gt_event *ordered;
	/* do not choose algorithms by timing them, so that all ranks and runs use the same ones */
	bool untimed;
};

/*
 * Enter a device and create its streams. Before you close the device, close everything that uses
 * its memory.
 *
 * Errors: errors of the backend; GT_EINVAL if backend is NULL or there is no device `index`.
 */
int gt_device_open(
    struct gt_device **out, const struct gt_backend *backend, int index, struct gt_err *err);
void gt_device_close(struct gt_device *d); /* NULL is fine */

enum { GT_DEVICE_IDENTITY_SIZE = 40 }; /* bytes */

/* Write a text that identifies the device among the devices of its host. Errors: errors of the
 * backend. */
int gt_device_identify(
    const struct gt_device *d, char text[GT_DEVICE_IDENTITY_SIZE], struct gt_err *err);

/* Wait until all work on the device's three streams is done. After an error, call this before you
 * free memory that queued work may still use. */
int gt_device_sync(const struct gt_device *d, struct gt_err *err);

/* gt_device_alloc() allocates zeroed memory of the device, aligned to GT_DEVICE_ALIGN.
 * gt_device_free() frees this memory; `bytes` must be the number that was allocated. If `p` is
 * NULL, gt_device_free() does nothing. */
int gt_device_alloc(const struct gt_device *d, size_t bytes, void **out, struct gt_err *err);
void gt_device_free(const struct gt_device *d, void *p, size_t bytes);

/* gt_device_write() copies from host to device, and gt_device_read() from device to host. The copy
 * begins when all earlier work of the compute stream is done, and the functions return when the
 * copy is done. The host waits for these copies, so do not use them in every training step. */
int gt_device_write(
    const struct gt_device *d, void *device, const void *host, size_t bytes, struct gt_err *err);
int gt_device_read(
    const struct gt_device *d, void *host, const void *device, size_t bytes, struct gt_err *err);

#endif
