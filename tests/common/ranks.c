/* ranks.c - ranks of a job as threads of a test. */
#include "tests/common/ranks.h"

#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/base/clock.h"

void ranks_rest(double seconds)
{
	struct timespec ts = { (time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds)) };

	nanosleep(&ts, NULL);
}

int ranks_listen(int family, int *port)
{
	struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct sockaddr_in four = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	bool is_six = family == AF_INET6;
	struct sockaddr *address = is_six ? (struct sockaddr *)&six : (struct sockaddr *)&four;
	socklen_t size = is_six ? sizeof(six) : sizeof(four);
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, address, size) || listen(fd, SOMAXCONN) ||
	    getsockname(fd, address, &size)) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	*port = ntohs(is_six ? six.sin6_port : four.sin_port);
	return fd;
}

int ranks_dial(int port)
{
	struct sockaddr_in four = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	if (!connect(fd, (struct sockaddr *)&four, sizeof(four)))
		return fd;
	close(fd);
	return -1;
}

static void *live(void *context)
{
	struct rank *self = context;
	struct gt_rendezvous *r;
	double start;

	ranks_rest(self->comes_after_s);
	start = gt_clock_s();
	self->rc =
	    gt_rendezvous_meet(&r, &self->world, self->agreement, self->timeout_s, &self->err);
	if (!self->rc && self->then)
		self->then(self, r);
	self->took_s = gt_clock_s() - start;
	gt_rendezvous_leave(r);
	return NULL;
}

void ranks_make(struct rank *rank, int size, int family)
{
	int port = 0, fd = ranks_listen(family, &port);

	assert_true(fd >= 0);
	for (int i = 0; i < size; i++) {
		rank[i] =
		    (struct rank){ .agreement = "version 1\nmodel mlp:4,2\n", .timeout_s = 20 };
		rank[i].world = (struct gt_world){ .source = GT_WORLD_GTRAIN,
			.rank = i,
			.size = size,
			.local_rank = i,
			.local_size = size,
			.port = port,
			.listen_fd = i ? 0 : fd };
		strcpy(rank[i].world.address, family == AF_INET6 ? "::1" : "127.0.0.1");
		strcpy(rank[i].world.secret, "sesame");
	}
}

void ranks_start(struct rank *rank, int count)
{
	for (int i = 0; i < count; i++)
		assert_int_equal(pthread_create(&rank[i].thread, NULL, live, &rank[i]), 0);
}

void ranks_finish(struct rank *rank, int count)
{
	for (int i = 0; i < count; i++)
		pthread_join(rank[i].thread, NULL);
}

void ranks_run(struct rank *rank, int count)
{
	ranks_start(rank, count);
	ranks_finish(rank, count);
}

void ranks_expect_well(const struct rank *rank, int count)
{
	for (int i = 0; i < count; i++)
		if (rank[i].rc)
			fail_msg("rank %d of %d: %s", i, count, rank[i].err.text);
}
