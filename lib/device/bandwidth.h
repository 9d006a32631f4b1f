/* bandwidth.h - measure how fast memory is copied between the host and devices. */
#ifndef GT_DEVICE_BANDWIDTH_H
#define GT_DEVICE_BANDWIDTH_H

#include "lib/base/measure.h"
#include "lib/device/name.h"

/* The kinds of copies. Pinned memory is that of gt_backend.host_alloc(), pageable is ordinary. */
enum gt_copy {
	GT_COPY_PINNED_IN,    /* from pinned memory to a device */
	GT_COPY_PAGEABLE_IN,  /* from pageable memory to a device */
	GT_COPY_PINNED_OUT,   /* from a device to pinned memory */
	GT_COPY_PAGEABLE_OUT, /* from a device to pageable memory */
	GT_COPY_WITHIN,       /* within a device; on the CPU, by all threads */
	GT_COPY_PEER,         /* from one device to another */
	GT_COPY_PEERS,        /* between two devices, in both directions at once */
	GT_COPIES             /* number of kinds */
};

/* Names for programs: "pinned-in", ... */
extern const char *const gt_copy_names[GT_COPIES];

/* Open devices of one backend, with buffers for copies. */
struct gt_copies;

/* Open `count` devices of one backend, with two buffers of `bytes` on each, and on the host if
 * device memory is not host memory. *out is NULL on failure. Errors: GT_ENOMEM, and those of the
 * backend. */
int gt_copies_open(struct gt_copies **out, const struct gt_device_name *names, size_t count,
    size_t bytes, struct gt_err *err);
void gt_copies_close(struct gt_copies *c); /* NULL is fine */

/* Return whether this kind exists: with the host if its memory is not the device's, between devices
 * if there are two and gt_backend.copy_peer(). */
bool gt_copies_has(const struct gt_copies *c, enum gt_copy kind);

/* Return whether the driver copies directly. `from` and `to` are indexes of open devices. */
bool gt_copies_direct(const struct gt_copies *c, size_t from, size_t to);

/* Measure the median time of one copy, in seconds, including the wait for its end. GT_COPY_PEERS
 * copies `bytes` in each direction; other kinds but GT_COPY_PEER use only `from`. */
int gt_copies_measure(double *time_s, struct gt_copies *c, enum gt_copy kind, size_t from,
    size_t to, size_t bytes, const struct gt_measure *m, struct gt_err *err);

/* Copy a test pattern; count the 4-byte words, and those with another value afterwards. */
int gt_copies_check(int64_t *wrong, int64_t *words, struct gt_copies *c, size_t from, size_t to,
    struct gt_err *err);

#endif
