/* hosts.h - private: groups of ranks on several hosts that add up inside each host first. */
#ifndef GT_COMM_HOSTS_HOSTS_H
#define GT_COMM_HOSTS_HOSTS_H

#include "lib/comm/group.h"

/*
 * Replace *group, a group over messages, by one that owns it and sends less between hosts: a
 * collective call. `host` is the identity of this rank's host, gt_tcp_host_id(). *group
 * stays as it is if it cannot be replaced: it takes several hosts with the same number of
 * consecutive ranks each, a power of two of at least 2, that can share memory. Only then are the
 * sums of a host a part of the fixed tree over all ranks (group.h).
 */
int gt_hosts_group(struct gt_group **group, const char *host, struct gt_err *err);

#endif
