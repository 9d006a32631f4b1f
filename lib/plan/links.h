/* links.h - private: the table of known links between devices. */
#ifndef GT_PLAN_LINKS_H
#define GT_PLAN_LINKS_H

#include "lib/device/known.h"
#include "lib/plan/cluster.h"

extern const struct gt_cluster_link gt_known_links[GT_LINK_KINDS];

#endif
