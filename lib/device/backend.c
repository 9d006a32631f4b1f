/* backend.c - the one list of backends. */
#include "lib/device/backend.h"

const struct gt_backend *const gt_backends[] = { &gt_cpu_backend, NULL };
