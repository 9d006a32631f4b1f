/* backend.h - a device as a table of functions, and the list of backends. */
#ifndef GT_DEVICE_BACKEND_H
#define GT_DEVICE_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/device/dtype.h"
#include "lib/device/layout.h"

struct gt_kernel;        /* lib/graph/kernel.h: devices carry them, graphs look into them */
struct gt_device_groups; /* lib/comm/device_group.h: likewise, for ranks */

/*
 * A device works asynchronously. Work is queued on a stream and done in the order of the queue. Two
 * streams are independent, unless one waits for an event recorded on the other. A call with a
 * stream returns when the work is queued, maybe before it is done. Until the work is done, do not
 * touch the memory it uses. An error in the background is returned by a later call on that device.
 * If a kernel finds a fault in its data (lib/graph/fault.h), the host's next wait on that device,
 * stream_sync() or event_sync(), returns it once. If there are several faults, one is returned.
 *
 * A stream and its events are used by one thread at a time. On the CPU, work is done when the call
 * returns.
 */
struct gt_stream;
struct gt_event;
struct gt_capture;

/* A function of the host that a stream calls. */
typedef int gt_host_fn(void *self, struct gt_err *err);

/* The alignment of device memory, in bytes. */
enum { GT_DEVICE_ALIGN = 256 };

/*
 * A sum of squares. An exact sum does not depend on the order of additions or on the number of
 * ranks. Element i counts units of 2^(24 i - 298). It is an integer of at most 53 bits, so it is
 * added without rounding. (The smallest square is 2^-298; 24 bits are half of the fraction of a
 * square.) An exact sum can hold 2^20 sums of up to 2^16 squares each. The last element is the sum
 * of values that are not finite. A sum that is not exact is stored in element 0 only. Elements of
 * two sums are added, or subtracted, one by one. Source of the idea: U. Kulisch's long accumulator
 * ("Computer Arithmetic and Validity", 2008).
 */
enum { GT_SQUARES = 25 };

/* The step block: settings of a step. One copy transfers them from the host before the step. */
struct gt_step_block {
	float lr;            /* learning rate of this step */
	float others_lr;     /* learning rate of ranges whose options set `others` */
	float clip;          /* largest norm allowed; 0: no clipping */
	double beta1, beta2; /* Adam */
	double stop;         /* 1: this rank was asked to stop; else 0 */
	bool exact;          /* how squares are added up */
	/* The loss scale: `growth` multiplies it after growth_interval updates without an overflow,
	 * and `backoff` after an overflow. growth_interval 0: the loss is not scaled. */
	float growth, backoff;
	int64_t growth_interval;
};

/*
 * The result block: scalars that kernels compute in a step. Other kernels read it. The host gets a
 * copy after the step and reads it later, so kernels never wait for the host.
 */
struct gt_step_result {
	double loss, stop; /* so far; adjacent, so that ranks add up both in one call */
	float grad_norm;   /* L2 norm of all gradients, before clipping, not scaled */
	float grad_factor; /* multiplies gradients, min(1, clip / (norm + 1e-6)) / scale */
	/* factor of the next step's loss; not used if the loss is not scaled */
	float scale;
	int64_t growth_tracker;     /* updates since it last changed */
	bool skip;                  /* no update in this step */
	bool diverged;              /* and no update in later steps */
	int64_t steps;              /* updates done, this one included */
	float bias1, bias2_sqrt;    /* Adam: 1 - beta1^steps, sqrt(1 - beta2^steps) */
	double squares[GT_SQUARES]; /* sum of squares of all gradients so far */
};

/* Both blocks, in device memory. */
struct gt_step_scalars {
	struct gt_step_block block;
	struct gt_step_result result;
};

/* Constants of an update, the same in every step. */
struct gt_update_options {
	float momentum, dampening; /* SGD; Muon without dampening */
	int nesterov;              /* SGD */
	double beta1, beta2;       /* Adam, AdamW; in float 1 - beta has few digits left */
	float eps;                 /* Adam, AdamW */
	float weight_decay;        /* of this range */
	float lr_scale;            /* factor of the learning rate for this range */
	int decoupled;             /* AdamW: decay the parameter, not the gradient */
	int others;                /* AdamW: the learning rate is others_lr */
	float step_scale;          /* Muon: factor of the learning rate, but not for weight decay */
	/* Not NULL: the update also writes the range, [count] as `narrow` has it, to this device
	 * memory, in this type of 16 bits. */
	uint16_t *copy;
	enum gt_dtype copy_type;
};

/*
 * Muon: how the momentum is made orthogonal. Source: K. Jordan et al., "Muon: an optimizer for
 * hidden layers in neural networks", 2024 (https://kellerjordan.github.io/posts/muon).
 */
enum { GT_MUON_STEPS = 5 };
static const double gt_muon_coefficients[] = { 3.4445, -4.7750, 2.0315 };
static const double gt_muon_eps =
    1e-7; /* lower limit of the norm by which the momentum is divided */

/* Elements of workspace: two matrices of this shape and two squares of the smaller side. */
static inline int64_t gt_muon_work(int64_t rows, int64_t cols)
{
	int64_t side = rows < cols ? rows : cols;

	return 2 * (rows * cols + side * side);
}

/*
 * The least loss scale: the smallest normal number of float16. Gradients that overflow at this
 * scale overflow at any scale. (fairseq gives up below 1e-4, its --min-loss-scale.)
 */
static const double gt_scale_min = 0x1p-14;

/*
 * Work on ranges of the flat buffers, queued on a stream: float32 where no type is named, any
 * length, any alignment of 64 bytes. All pointers are to device memory, structs of scalars
 * included. All are deterministic for any number of threads. Errors: GT_EDEVICE, and errors of
 * earlier work on this device.
 */
struct gt_range_kernels {
	/* x[count] += y[count] */
	int (*add)(
	    struct gt_stream *stream, float *x, const float *y, int64_t count, struct gt_err *err);
	/* Begin a step: set loss and squares to 0, and s->result.stop to block.stop. */
	int (*begin_step)(struct gt_stream *stream, struct gt_step_scalars *s, struct gt_err *err);
	/* s->result.loss += the sum of losses[count], count >= 1, in double, in the order of
	 * ordered groups (lib/comm/group.h): the sum of the first 2^k losses, where 2^k is the
	 * largest power of two below count, plus the sum of the other losses. */
	int (*add_losses)(struct gt_stream *stream, struct gt_step_scalars *s, const float *losses,
	    int64_t count, struct gt_err *err);
	/* s->result.squares += the sum of the squares of g[count], in double or exactly. */
	int (*squares)(struct gt_stream *stream, const float *g, int64_t count,
	    struct gt_step_scalars *s, struct gt_err *err);
	/* Compute the rest of the result from loss and squares. If the loss is scaled, gradients
	 * that are not finite skip this update and lower the scale. A step diverges if the loss is
	 * not finite, if gradients of an unscaled loss are not finite, or if the scale falls below
	 * gt_scale_min. Sources: torch.nn.utils.clip_grad_norm_ (factor); torch._amp_update_scale_,
	 * of torch.amp.GradScaler (scale). */
	int (*begin_update)(
	    struct gt_stream *stream, struct gt_step_scalars *s, struct gt_err *err);
	/* Updates do nothing if s->result.skip is set. Otherwise gradients are multiplied by
	 * grad_factor, and p[count] -= lr * step, as in torch.optim.SGD. buf (NULL without
	 * momentum) is momentum_buffer. *o is read during the call. */
	int (*sgd)(struct gt_stream *stream, float *p, const float *g, float *buf, int64_t count,
	    const struct gt_update_options *o, const struct gt_step_scalars *s, struct gt_err *err);
	/* torch.optim.Adam (o->decoupled 0) or AdamW (1): m is exp_avg, v exp_avg_sq. *o is read by
	 * the call. */
	int (*adam)(struct gt_stream *stream, float *p, const float *g, float *m, float *v,
	    int64_t count, const struct gt_update_options *o, const struct gt_step_scalars *s,
	    struct gt_err *err);
	/* Optional: prepare the workspace for updates of a matrix of this shape; it lives as long
	 * as the stream. Without it muon() needs less memory, and may be slower. Do not call this
	 * while work is captured. */
	int (*prepare_muon)(
	    struct gt_stream *stream, int64_t rows, int64_t cols, struct gt_err *err);
	/* torch.optim.Muon of one matrix [rows, cols], with Nesterov momentum; buf is
	 * momentum_buffer, work [gt_muon_work()] is overwritten. Products are in float32, too. *o
	 * is read by the call. */
	int (*muon)(struct gt_stream *stream, float *p, const float *g, float *buf, int64_t rows,
	    int64_t cols, float *work, const struct gt_update_options *o,
	    const struct gt_step_scalars *s, struct gt_err *err);
	/* y[count] += weight (x[count] - y[count]), in a form that is exact for weights 0 and 1, as
	 * torch.lerp. */
	int (*lerp)(struct gt_stream *stream, float *y, const float *x, int64_t count, float weight,
	    struct gt_err *err);
	/* Exchange x[count] and y[count]. */
	int (*swap)(
	    struct gt_stream *stream, float *x, float *y, int64_t count, struct gt_err *err);
	/* half[count], of type GT_F16 or GT_BF16, from x[count], rounded to nearest even, and x
	 * from half (lib/base/half.h). */
	int (*narrow)(struct gt_stream *stream, uint16_t *half, const float *x, int64_t count,
	    enum gt_dtype dtype, struct gt_err *err);
	int (*widen)(struct gt_stream *stream, float *x, const uint16_t *half, int64_t count,
	    enum gt_dtype dtype, struct gt_err *err);
	/* *first = the index of the first element of x[count] that is NaN or infinite; -1 where all
	 * are finite, and for types that are neither GT_F32 nor GT_F64. */
	int (*find_nonfinite)(struct gt_stream *stream, int64_t *first, const void *x,
	    int64_t count, enum gt_dtype dtype, struct gt_err *err);
};

/*
 * A kind of device. `index` numbers the devices of a kind from 0. A thread calls enter() before
 * any other function for a device; functions that return int may fail with GT_EDEVICE.
 */
struct gt_backend {
	const char *name; /* "cpu" */
	/* its memory is host memory, which the host reads directly between runs */
	bool host_memory;
	/* the layout that its kernels want of four-dimensional values */
	enum gt_layout image_layout;
	/* When the pass fuse_head uses linear_cross_entropy, if the backend has kernels for it: for
	 * logits larger than logits_bytes, in chunks of at most that size (0: never), and for rows
	 * whose size is no multiple of logits_align bytes (0: any size is fine). */
	size_t logits_bytes, logits_align;

	/* How many devices of this kind there are, and one line on one of them. */
	int (*count)(void);
	int (*describe)(int index, char *text, size_t size, struct gt_err *err);

	/* Make this the calling thread's current device. */
	int (*enter)(int index, struct gt_err *err);
	/* Bytes of device memory that are available, and in total. */
	int (*memory)(int index, uint64_t *available, uint64_t *total, struct gt_err *err);

	/* Optional (NULL): the processes that hold memory of a device, as text [size]; "" if there
	 * are no others, or they are not known. */
	void (*holders)(char *text, size_t size, int index);

	/* Optional (NULL): peak floating-point operations per second of matrix products of this
	 * type, whose factors are rounded to TF32 with `tf32`; 0: not known. */
	double (*peak_flops)(int index, enum gt_dtype dtype, bool tf32);
	/* Optional (NULL: no device can): check that a device rounds factors of float32 to TF32
	 * where an op is marked so. Errors: GT_ENOTSUP, whose text names the device; GT_EDEVICE. */
	int (*check_tf32)(int index, struct gt_err *err);

	/* Device memory, aligned to GT_DEVICE_ALIGN, zeroed. It is freed when no work on it is
	 * left. */
	int (*alloc)(int index, size_t bytes, void **out, struct gt_err *err);
	void (*free)(int index, void *p, size_t bytes);
	/* Pinned host memory, zeroed. Copies between it and the device run at full speed and in the
	 * background. A copy from or to other host memory may make the host wait. */
	int (*host_alloc)(int index, size_t bytes, void **out, struct gt_err *err);
	void (*host_free)(int index, void *p, size_t bytes);

	int (*stream_new)(struct gt_stream **out, int index, struct gt_err *err);
	/* call this when the stream's work is done; NULL is fine */
	void (*stream_free)(struct gt_stream *stream);
	/* Let the host wait until all work of the stream is done. */
	int (*stream_sync)(struct gt_stream *stream, struct gt_err *err);

	int (*event_new)(struct gt_event **out, int index, struct gt_err *err);
	void (*event_free)(struct gt_event *event); /* NULL is fine */
	/* Let the event mark the end of all work queued on the stream so far. Recording it again
	 * replaces the mark. */
	int (*event_record)(struct gt_event *event, struct gt_stream *stream, struct gt_err *err);
	/* Work queued on the stream from now on begins when the event's is done. An event that was
	 * never recorded is always done. */
	int (*event_wait)(struct gt_stream *stream, struct gt_event *event, struct gt_err *err);
	/* Let the host wait for the event; or return whether its work is done. */
	int (*event_sync)(struct gt_event *event, struct gt_err *err);
	bool (*event_done)(struct gt_event *event);

	/* Queue a copy from host to device, from device to host, or within the device (the ranges
	 * must not overlap); or set memory to zero. */
	int (*copy_in)(struct gt_stream *stream, void *device, const void *host, size_t bytes,
	    struct gt_err *err);
	int (*copy_out)(struct gt_stream *stream, void *host, const void *device, size_t bytes,
	    struct gt_err *err);
	int (*copy)(
	    struct gt_stream *stream, void *to, const void *from, size_t bytes, struct gt_err *err);
	int (*zero)(struct gt_stream *stream, void *device, size_t bytes, struct gt_err *err);

	/*
	 * Optional, both or none (NULL): copies between the memories of two devices of this kind,
	 * queued on a stream of one of the two devices. Call peer_open() once before, on a thread
	 * that has entered device `index`. *direct: the driver says that it reaches the memory of
	 * `peer`, so copies go straight; otherwise they go through the host.
	 */
	int (*peer_open)(int index, int peer, bool *direct, struct gt_err *err);
	int (*copy_peer)(struct gt_stream *stream, void *to, int to_index, const void *from,
	    int from_index, size_t bytes, struct gt_err *err);

	/*
	 * Optional, all four or none (NULL): work that is queued once and done many times, without
	 * the host's work for each kernel. Between capture_begin() and capture_end(), kernels,
	 * copies within the device, events and waits queued on the stream are kept, and not done. A
	 * stream that waits for an event of the capture joins the capture; before the end, the
	 * first stream has to wait for all streams that have joined. Captured work must not wait
	 * for work outside the capture. Copies from or to host memory, host calls, and waits of the
	 * host for these streams are errors. capture_end() ends the capture in any case; *out is
	 * NULL after an error.
	 *
	 * replay() queues all of it, on the stream of the capture. Addresses and arguments are as
	 * they were, so everything that changes from one time to the next is read from device
	 * memory. A capture may be freed while its work is queued, and its memory when that is
	 * done.
	 */
	int (*capture_begin)(struct gt_stream *stream, struct gt_err *err);
	int (*capture_end)(struct gt_capture **out, struct gt_stream *stream, struct gt_err *err);
	int (*replay)(struct gt_stream *stream, struct gt_capture *capture, struct gt_err *err);
	void (*capture_free)(struct gt_capture *capture); /* NULL is fine */

	/*
	 * Queue a call of fn(self, err) on the host: it begins when the work before it is done, and
	 * the work after it begins when fn returns. fn runs on a thread of the backend's, or, on
	 * the CPU, within this call. It may wait, also for calls queued on other streams, but must
	 * not call functions of a backend. It may access pinned memory only in memory[bytes]. Later
	 * calls on the device return its error.
	 */
	int (*host_call)(struct gt_stream *stream, gt_host_fn *fn, void *self, void *memory,
	    size_t bytes, struct gt_err *err);

	/* NULL-terminated list of tables, each ended by a row whose op is NULL; earlier rows are
	 * preferred. */
	const struct gt_kernel *const *(*kernels)(void);
	const struct gt_range_kernels *(*ranges)(void);

	/* The backend's own groups for collectives between its devices, the fastest first, ended by
	 * NULL; NULL: it has none. */
	const struct gt_device_groups *const *groups;
};

/* The CPU, in every build, and GPUs, in builds with CUDA's toolkit. Kernels live in kernels/. */
extern const struct gt_backend gt_cpu_backend, gt_cuda_backend;

/* All backends of this build, NULL-terminated. */
extern const struct gt_backend *const gt_backends[];

/* The backend of a name, or NULL. */
const struct gt_backend *gt_backend_find(const char *name);

/* ---- device.c ---- */

/* A device that one thread works with. The thread that opens it also enters it. */
struct gt_device {
	const struct gt_backend *backend;
	int index;
	struct gt_stream *compute;     /* plans and updates run here */
	struct gt_stream *copies;      /* batches come in here, while plans run */
	struct gt_stream *collectives; /* ranks exchange numbers here, while plans run */
	bool untimed; /* do not time algorithms: all ranks and runs then choose the same ones */
};

/* Enter a device of a backend and make its streams. Close it after everything that uses its memory.
 * Errors: those of the backend; GT_EINVAL where there is no backend, or no such device. */
int gt_device_open(
    struct gt_device **out, const struct gt_backend *backend, int index, struct gt_err *err);
void gt_device_close(struct gt_device *d); /* NULL is fine */

/* Wait until all work of the device is done. Call this before freeing memory that is still in use
 * after an error. */
int gt_device_sync(const struct gt_device *d, struct gt_err *err);

/* Allocate and free memory of the device. Freeing NULL does nothing. */
int gt_device_alloc(const struct gt_device *d, size_t bytes, void **out, struct gt_err *err);
void gt_device_free(const struct gt_device *d, void *p, size_t bytes);

/* Copy between host and device after all work of the compute stream, and wait for the end. For use
 * before, between and after the steps of a run. */
int gt_device_write(
    const struct gt_device *d, void *device, const void *host, size_t bytes, struct gt_err *err);
int gt_device_read(
    const struct gt_device *d, void *host, const void *device, size_t bytes, struct gt_err *err);

#endif
