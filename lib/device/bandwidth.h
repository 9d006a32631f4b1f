/* bandwidth.h - measure how fast memory is copied between the host and devices. */
#ifndef GT_DEVICE_BANDWIDTH_H
#define GT_DEVICE_BANDWIDTH_H

#include "lib/base/measure.h"
#include "lib/device/name.h"

/* The kinds of copies. Pinned memory is host memory from gt_backend.host_alloc(). Pageable memory
 * is ordinary host memory. */
enum gt_copy {
	GT_COPY_PINNED_IN,    /* from pinned memory to a device */
	GT_COPY_PAGEABLE_IN,  /* from pageable memory to a device */
	GT_COPY_PINNED_OUT,   /* from a device to pinned memory */
	GT_COPY_PAGEABLE_OUT, /* from a device to pageable memory */
	GT_COPY_WITHIN,       /* within the memory of a device; on the CPU, by all threads */
	GT_COPY_PEER,         /* from one device to another */
	GT_COPY_PEERS,        /* between two devices, in both directions at once */
	GT_COPIES             /* number of kinds */
};

/* The name of each kind in output for programs: "pinned-in", "pageable-in", ... */
extern const char *const gt_copy_names[GT_COPIES];

/* Open devices of one backend, with buffers for copies. */
struct gt_copies;

/*
 * Open `count` devices of one backend. Allocate two buffers of `bytes` on each device, and buffers
 * of this size on the host if device memory is not host memory. Close the result with
 * gt_copies_close(). Errors: GT_ENOMEM, and errors of the backend; *out is then NULL.
 */
int gt_copies_open(struct gt_copies **out, const struct gt_device_name *names, size_t count,
    size_t bytes, struct gt_err *err);
void gt_copies_close(struct gt_copies *c); /* `c` may be NULL */

/* Return true if copies of this kind exist. Copies to or from the host do not exist if device
 * memory is host memory. Copies between devices do not exist if there is only one device, or if the
 * backend has no copy_peer(). */
bool gt_copies_has(const struct gt_copies *c, enum gt_copy kind);

/* Return true if the driver says that copies from device `from` to device `to` are direct, not
 * through the host. Here and below, `from` and `to` are indexes into the list of open devices. */
bool gt_copies_direct(const struct gt_copies *c, size_t from, size_t to);

/*
 * Measure the time of one copy of `bytes`, in seconds: the median of several rounds
 * (lib/base/measure.h). The time includes waiting for the end of the copy. GT_COPY_PEER copies from
 * device `from` to device `to`. GT_COPY_PEERS copies `bytes` in each direction between the two. The
 * other kinds use only `from`.
 */
int gt_copies_measure(double *time_s, struct gt_copies *c, enum gt_copy kind, size_t from,
    size_t to, size_t bytes, const struct gt_measure *m, struct gt_err *err);

/* Copy a test pattern from device `from` to device `to`. Store in *words the number of 4-byte words
 * copied, and in *wrong the number of words that arrived with another value. */
int gt_copies_check(int64_t *wrong, int64_t *words, struct gt_copies *c, size_t from, size_t to,
    struct gt_err *err);

#endif
