/* ranks.h - ranks of a job as threads of a test. */
#ifndef GT_TESTS_COMMON_RANKS_H
#define GT_TESTS_COMMON_RANKS_H

#include <pthread.h>

#include "lib/comm/rendezvous/rendezvous.h"

/* One rank: its options, the time it comes, its function, its result. */
struct rank {
	struct gt_world world;
	const char *agreement;
	double timeout_s, comes_after_s;
	void (*then)(struct rank *self, struct gt_rendezvous *r);
	int rc;
	struct gt_err err;
	double took_s;
	pthread_t thread;
};

void ranks_rest(double seconds);

/* A socket that listens on a free loopback port, or -1; and one that is connected to a port. */
int ranks_listen(int family, int *port);
int ranks_dial(int port);

/* A job of `size` ranks on this host that all fit; rank 0 gets a socket of the test's. */
void ranks_make(struct rank *rank, int size, int family);

void ranks_start(struct rank *rank, int count);
void ranks_finish(struct rank *rank, int count);
void ranks_run(struct rank *rank, int count);

/* Fail the test unless all of them ended well. */
void ranks_expect_well(const struct rank *rank, int count);

#endif
