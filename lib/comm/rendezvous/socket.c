/* socket.c - the socket at which rank 0 listens, and the connections of the others to it. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/comm/rendezvous/messages.h"

/* If all ranks are on one host, use the loopback interface: the host's name may resolve to an
 * address that other hosts can reach. A loopback address of either family is taken as it is. */
const char *gt_rendezvous_host(const struct gt_world *world)
{
	const char *address = world->address;

	if (!gt_world_on_one_host(world) || !strncmp(address, "127.", 4) || !strcmp(address, "::1"))
		return address;
	return "127.0.0.1";
}

int gt_socket_prepare(int fd)
{
	int on = 1, flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) || fcntl(fd, F_SETFD, FD_CLOEXEC))
		return -1;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* only faster with it */
	return 0;
}

static int resolve(
    struct addrinfo **out, const struct gt_world *world, int flags, struct gt_err *err)
{
	const struct addrinfo hints = { .ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_NUMERICSERV | flags };
	const char *host = gt_rendezvous_host(world);
	char port[16];
	int failed;

	*out = NULL;
	snprintf(port, sizeof(port), "%d", world->port);
	failed = getaddrinfo(host, port, &hints, out);
	if (failed == EAI_SYSTEM)
		return gt_err_sys(err, "cannot look up '%s'", host);
	if (failed)
		return gt_err_set(
		    err, GT_EIO, "cannot look up '%s': %s", host, gai_strerror(failed));
	return 0;
}

/* Check that the launcher's descriptor is a listening socket. */
static int take_listener(int fd, struct gt_err *err)
{
	int listens = 0;
	socklen_t size = sizeof(listens);

	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) || !listens)
		return gt_err_set(
		    err, GT_EINVAL, "GTRAIN_LISTEN_FD=%d: not a socket that listens", fd);
	return gt_socket_prepare(fd) ? gt_err_sys(err, "GTRAIN_LISTEN_FD=%d", fd) : 0;
}

static int listen_at(const struct sockaddr *address, socklen_t size)
{
	int on = 1, off = 0, saved;
	int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -1;
	if (!setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) &&
	    (address->sa_family != AF_INET6 ||
	        !setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off))) &&
	    !bind(fd, address, size) && !listen(fd, SOMAXCONN))
		return fd;
	saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

int gt_socket_listen_all(int port)
{
	const struct sockaddr_in6 six = { .sin6_family = AF_INET6,
		.sin6_port = htons((uint16_t)port) };
	const struct sockaddr_in four = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)port) };
	int fd = listen_at((const struct sockaddr *)&six, sizeof(six));

	/* A host may be without IPv6. */
	if (fd < 0 && errno != EADDRINUSE)
		fd = listen_at((const struct sockaddr *)&four, sizeof(four));
	return fd;
}

int gt_socket_listen_loopback(void)
{
	const struct sockaddr_in four = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	return listen_at((const struct sockaddr *)&four, sizeof(four));
}

static int fail_to_listen(const struct gt_world *world, struct gt_err *err)
{
	bool elsewhere = errno == EADDRNOTAVAIL;

	if (gt_world_on_one_host(world))
		gt_err_sys(
		    err, "rank 0 cannot listen at %s:%d", gt_rendezvous_host(world), world->port);
	else
		gt_err_sys(err, "rank 0 cannot listen at port %d", world->port);
	return gt_err_hint(err,
	    elsewhere ? "%s: this has to be an address of the host of rank 0"
	              : "%s: this has to be a port that is free there, and only one process may be "
	                "rank 0",
	    gt_world_address_source(world));
}

/* On several hosts rank 0 listens at all of its addresses. The others may know one that it cannot
 * bind, such as the address of a service of Kubernetes, or its own name may be one of the loopback
 * interface, as in Debian's /etc/hosts. */
int gt_rendezvous_listen(int *out, const struct gt_world *world, struct gt_err *err)
{
	struct addrinfo *list, *a;

	*out = -1;
	if (world->listen_fd) {
		*out = world->listen_fd;
		return take_listener(world->listen_fd, err);
	}
	if (!gt_world_on_one_host(world)) {
		*out = gt_socket_listen_all(world->port);
		return *out < 0 ? fail_to_listen(world, err) : 0;
	}
	if (resolve(&list, world, AI_PASSIVE, err))
		return err->code;
	for (a = list; a && *out < 0; a = a->ai_next)
		*out = listen_at(a->ai_addr, a->ai_addrlen);
	if (*out < 0)
		fail_to_listen(world, err);
	freeaddrinfo(list);
	return *out < 0 ? err->code : 0;
}

/* Return whether a socket is connected to itself. This can happen if nobody listens at the port,
 * and the system gives the same port to the connecting socket. */
static bool is_own_peer(int fd)
{
	struct sockaddr_storage own = { 0 }, peer = { 0 };
	socklen_t own_size = sizeof(own), peer_size = sizeof(peer);

	return !getsockname(fd, (struct sockaddr *)&own, &own_size) &&
	       !getpeername(fd, (struct sockaddr *)&peer, &peer_size) && own_size == peer_size &&
	       !memcmp(&own, &peer, own_size);
}

/* Another address may answer, so one gets two seconds at most. */
int gt_socket_connect(const struct sockaddr *address, socklen_t address_size, double deadline)
{
	int failed = 0;
	socklen_t size = sizeof(failed);
	double until = gt_clock_s() + 2 < deadline ? gt_clock_s() + 2 : deadline;
	int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -1;
	if (connect(fd, address, address_size))
		failed = errno;
	if (failed == EINPROGRESS || failed == EINTR) {
		failed = -gt_wire_wait(fd, POLLOUT, until);
		if (!failed && getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &size))
			failed = errno;
	}
	if (!failed && is_own_peer(fd))
		failed = ECONNREFUSED;
	if (!failed && gt_socket_prepare(fd))
		failed = errno;
	if (!failed)
		return fd;
	close(fd);
	errno = failed;
	return -1;
}

int gt_rendezvous_connect(
    int *out, const struct gt_world *world, double deadline, struct gt_err *err)
{
	struct addrinfo *list, *a;

	*out = -1;
	if (resolve(&list, world, 0, err))
		return err->code;
	for (a = list; a && *out < 0; a = a->ai_next)
		*out = gt_socket_connect(a->ai_addr, a->ai_addrlen, deadline);
	if (*out < 0)
		gt_err_sys(err, "cannot connect to rank 0 at %s:%d", gt_rendezvous_host(world),
		    world->port);
	freeaddrinfo(list);
	return *out < 0 ? err->code : 0;
}
