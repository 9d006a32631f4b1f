/* this_host.c - tell whether an address belongs to this host. */
#include "lib/comm/world/environment.h"

#include <netdb.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

bool gt_world_is_loopback(const char *address)
{
	return !strcasecmp(address, "localhost") || !strncmp(address, "127.", 4) ||
	       !strcmp(address, "::1");
}

/* The system binds a socket only to an address of this host. */
static bool can_bind(const struct addrinfo *a)
{
	int fd = socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool bound = fd >= 0 && !bind(fd, a->ai_addr, a->ai_addrlen);

	if (fd >= 0)
		close(fd);
	return bound;
}

/* The host's own name comes first, as looking it up may take seconds or fail. */
bool gt_world_is_this_host(const char *address)
{
	const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_DGRAM };
	struct addrinfo *list;
	char own[256] = "";
	bool here = false;

	if (gt_world_is_loopback(address))
		return true;
	if (!gethostname(own, sizeof(own) - 1) && !strcasecmp(address, own))
		return true;
	if (getaddrinfo(address, NULL, &hints, &list))
		return false;
	for (const struct addrinfo *a = list; a && !here; a = a->ai_next)
		here = can_bind(a);
	freeaddrinfo(list);
	return here;
}
