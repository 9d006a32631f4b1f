/* bandwidth.h - how fast bytes are copied between the host and devices, measured. */
#ifndef GT_DEVICE_BANDWIDTH_H
#define GT_DEVICE_BANDWIDTH_H

#include "lib/base/measure.h"
#include "lib/device/name.h"

enum gt_copy {
	GT_COPY_PINNED_IN,    /* from pinned memory of the host (gt_backend.host_alloc()) */
	GT_COPY_PAGEABLE_IN,  /* from ordinary memory */
	GT_COPY_PINNED_OUT,   /* to pinned memory of the host */
	GT_COPY_PAGEABLE_OUT, /* to ordinary memory */
	GT_COPY_WITHIN,       /* from a device's memory to its own; on the CPU, by all threads */
	GT_COPY_PEER,         /* from one device to another */
	GT_COPY_PEERS,        /* between two devices, in both directions at once */
	GT_COPIES
};

/* "pinned-in", ...: for programs. */
extern const char *const gt_copy_names[GT_COPIES];

/* Devices with memory to copy. */
struct gt_copies;

/* Open devices of one backend, and allocate `bytes` for copies on each device and on the host.
 * Errors: those of the backend. */
int gt_copies_open(struct gt_copies **out, const struct gt_device_name *names, size_t count,
    size_t bytes, struct gt_err *err);
void gt_copies_close(struct gt_copies *c); /* NULL is fine */

/* Whether copies of this kind exist. There are none to or from the host if device memory is the
 * host's, and none between devices if there is only one device. */
bool gt_copies_has(const struct gt_copies *c, enum gt_copy kind);

/* Whether the driver says that copies go straight from one device to another. */
bool gt_copies_direct(const struct gt_copies *c, size_t from, size_t to);

/*
 * Measure the time of one copy of `bytes`. GT_COPY_PEER copies from device `from` to `to`,
 * GT_COPY_PEERS `bytes` each way between them; the other kinds use only `from`. The time includes
 * waiting for the copies.
 */
int gt_copies_measure(double *time_s, struct gt_copies *c, enum gt_copy kind, size_t from,
    size_t to, size_t bytes, const struct gt_measure *m, struct gt_err *err);

/* Copy a pattern of *words words of 4 bytes from one device to another, and count those that arrive
 * changed in *wrong. */
int gt_copies_check(int64_t *wrong, int64_t *words, struct gt_copies *c, size_t from, size_t to,
    struct gt_err *err);

#endif
