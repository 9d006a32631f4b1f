/* inside.h - inside tests/cudasim: what the simulator's files share. */
#ifndef GT_TESTS_CUDASIM_INSIDE_H
#define GT_TESTS_CUDASIM_INSIDE_H

#include <cuda_runtime.h>

#include "tests/cudasim/cudasim.h"

/* A record of an event: what waits for it holds it, whatever becomes of the event. */
struct mark {
	bool reached;
	int holders;
	double ms; /* of the clock, when it was reached */
};

struct cudasim_event {
	mark *last; /* NULL: never recorded */
};

/* ---- clock.cc ---- */

/* A clock that only simulated products put forward; with the lock of the run-time. */
extern double cudasim_ms;

/* ---- block.cc: without sanitizers ---- */

struct cudasim_grid {
	dim3 blocks, threads;
	size_t dynamic_bytes;
	void (*call)(void *closure);
	void *closure;
};

/* Run all blocks, in an order drawn from `order`. The text of a fault, or NULL; it is good until
 * the next one. */
const char *cudasim_run_grid(const struct cudasim_grid *grid, uint64_t order);

/* A number drawn from two. */
uint64_t cudasim_mix(uint64_t a, uint64_t b);

/* For the address sanitizer, where the program has it. */
void cudasim_poison(const void *p, size_t bytes);
void cudasim_unpoison(const void *p, size_t bytes);

/* ---- memory.cc ---- */

/* Device memory, filled with NaN; NULL: there is none left. */
void *cudasim_take(int device, size_t bytes);
bool cudasim_give(int device, void *p); /* false: it is not a block of this device */
size_t cudasim_memory_used(int device);
size_t cudasim_memory_total();

void *cudasim_take_pinned(size_t bytes);
bool cudasim_give_pinned(void *p);
bool cudasim_is_pinned(const void *p, size_t bytes);
/* Whether all these bytes are in one block of some device. */
bool cudasim_is_device(const void *p, size_t bytes);

/* Give the host access to the memory of all devices, or take it away. */
void cudasim_open_memory(bool open);

#endif
