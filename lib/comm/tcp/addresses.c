/* addresses.c - the addresses of this host that other hosts may reach. */
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/comm/tcp/state.h"

void gt_tcp_host_id(char out[GT_TCP_HOST_ID])
{
	char boot[64] = "";
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
	struct stat network;

	out[0] = '\0';
	if (!f)
		return;
	if (fgets(boot, sizeof(boot), f) && !stat("/proc/self/ns/net", &network)) {
		boot[strcspn(boot, "\n")] = '\0';
		snprintf(out, GT_TCP_HOST_ID, "%s %llu", boot, (unsigned long long)network.st_ino);
	}
	fclose(f);
}

struct list {
	struct gt_tcp_address *address; /* [GT_TCP_ADDRESSES] */
	int count;
};

/* Loopback addresses, and those of a link alone, lead nowhere from another host. */
static bool leads_here(const struct sockaddr *a, struct gt_tcp_address *out)
{
	const struct sockaddr_in *four = (const struct sockaddr_in *)a;
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)a;

	*out = (struct gt_tcp_address){ 0 };
	if (a->sa_family == AF_INET) {
		out->family = 4;
		memcpy(out->bytes, &four->sin_addr, 4);
		return out->bytes[0] != 127;
	}
	if (a->sa_family != AF_INET6 || IN6_IS_ADDR_LOOPBACK(&six->sin6_addr) ||
	    IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr))
		return false;
	if (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr)) {
		out->family = 4;
		memcpy(out->bytes, six->sin6_addr.s6_addr + 12, 4);
		return out->bytes[0] != 127;
	}
	out->family = 6;
	memcpy(out->bytes, &six->sin6_addr, 16);
	return true;
}

static void add_address(struct list *list, const struct sockaddr *a)
{
	struct gt_tcp_address found;

	if (list->count == GT_TCP_ADDRESSES || !leads_here(a, &found))
		return;
	for (int i = 0; i < list->count; i++)
		if (!memcmp(&list->address[i], &found, sizeof(found)))
			return;
	list->address[list->count++] = found;
}

/* The network interface to use, and whether only the beginning of its name is given: NCCL takes
 * "eth" for eth0, and "=eth" for eth alone. Its lists of interfaces to leave out do not count. */
static const char *named_interface(char *out, size_t size, bool *begins)
{
	static const char *const names[] = { "GTRAIN_IFNAME", "NCCL_SOCKET_IFNAME",
		"GLOO_SOCKET_IFNAME" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		const char *value = getenv(names[i]);

		*begins = i == 1;
		if (value && i && *value == '=') {
			*begins = false;
			value++;
		}
		if (!value || !*value || *value == '^')
			continue;
		snprintf(out, size, "%.*s", (int)strcspn(value, ","), value);
		return names[i];
	}
	return NULL;
}

static int fail_interface(
    const struct ifaddrs *all, const char *variable, const char *name, struct gt_err *err)
{
	char list[200] = "";
	size_t n = 0;

	for (const struct ifaddrs *i = all; i && n < sizeof(list); i = i->ifa_next) {
		struct gt_tcp_address ignored;

		if (i->ifa_addr && leads_here(i->ifa_addr, &ignored))
			n += (size_t)snprintf(
			    list + n, sizeof(list) - n, "%s%s", n ? ", " : "", i->ifa_name);
	}
	gt_err_set(err, GT_EINVAL, "%s: no network interface '%s' has an address", variable, name);
	return gt_err_hint(
	    err, "this host has: %s", *list ? list : "none but the loopback interface");
}

int gt_tcp_addresses(struct gt_tcp_address out[GT_TCP_ADDRESSES],
    const struct gt_tcp_options *options, struct gt_err *err)
{
	struct list list = { .address = out };
	char name[64];
	bool begins = false;
	const char *variable = named_interface(name, sizeof(name), &begins);
	struct ifaddrs *all;

	if (getifaddrs(&all))
		return gt_err_sys(err, "cannot list the network interfaces");
	for (int i = 0; !variable && i < options->near_count; i++) {
		struct sockaddr_storage own = { 0 };
		socklen_t size = sizeof(own);

		if (!getsockname(options->near[i], (struct sockaddr *)&own, &size))
			add_address(&list, (struct sockaddr *)&own);
	}
	for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
		bool is_named = !variable || (begins ? !strncmp(i->ifa_name, name, strlen(name))
		                                     : !strcmp(i->ifa_name, name));

		if (i->ifa_addr && (i->ifa_flags & IFF_UP) && is_named)
			add_address(&list, i->ifa_addr);
	}
	if (!list.count && variable)
		fail_interface(all, variable, name, err);
	else if (!list.count)
		gt_err_set(
		    err, GT_EIO, "this host has no address but that of the loopback interface");
	freeifaddrs(all);
	return list.count ? list.count : err->code;
}
