/* far.h - a device for tests that is as far from the host as a GPU: the contract of a backend. */
#ifndef GT_TESTS_FAKE_FAR_FAR_H
#define GT_TESTS_FAKE_FAR_FAR_H

#include "lib/device/backend.h"

/*
 * A backend whose kernels are the CPU's, and whose memory and time are a GPU's:
 *
 * - The addresses of device memory lie in a range without access rights: a host that reads or
 *   writes them gets a SIGSEGV. Kernels are handed the addresses of the same bytes elsewhere.
 * - Every stream has a thread. Work begins late and at random moments, copies later than kernels
 *   (GTRAIN_FAR_SEED changes the moments), so streams overtake each other wherever no event holds
 *   them back. The host memory that a copy goes to is NaN until the host has waited for the copy.
 * - Every access is checked when it is queued, whenever it may run: two accesses to the same bytes,
 *   one of them a write, have to be in order by streams, events and waits of the host. So a missing
 *   wait and a wrong stream are found in every run. (The check is that of a race detector: vector
 *   clocks. Source: C. Fidge, "Timestamps in message-passing systems that preserve the partial
 *   ordering", 1988.)
 * - Memory is not freed, and host memory not changed, while work on it is queued.
 * - Only a thread that entered a device queues work on it.
 * - Captured work (capture_begin()) is checked in the same way whenever it is replayed. Host memory
 *   in it, a wait of the host, a wait for work outside and a kernel's call that has changed by the
 *   time of a replay are faults.
 *
 * A fault is an error (GT_EDEVICE) of the call that made it where that call can return one, and of
 * all later calls for that device. A program that ends with a fault that nobody forgot exits with
 * status 99.
 */
extern const struct gt_backend far_backend;

enum { FAR_DEVICES = 8, FAR_STREAMS = 64 };

/* The calls for a device since the program began. */
struct far_counts {
	long blocking; /* the host waited for a stream, or had to copy by way of pageable memory, or
	                * took or gave back device memory */
	long waits;    /* the host waited for an event that was not done */
	long kernels, copies;
	long replays;  /* calls of replay() */
	long replayed; /* kernels in them; these are not among `kernels` */
};

struct far_counts far_counts(int index);

/* Whether it is an address of the memory of some far device. */
bool far_is_far(const void *p);

/* The first fault of a device, or NULL; and go on as if it had not been. */
const char *far_fault(int index);
void far_forget(int index);

#endif
