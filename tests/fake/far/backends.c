/* backends.c - the list of backends of programs that are linked to the far device, too. */
#include "tests/fake/far/far.h"

const struct gt_backend *const gt_backends[] = { &gt_cpu_backend, &far_backend, NULL };
