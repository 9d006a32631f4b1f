/* device.h - the devices that tests of graphs, plans and programs run on. */
#ifndef GT_TESTS_COMMON_DEVICE_H
#define GT_TESTS_COMMON_DEVICE_H

#include "lib/device/backend.h"

/* Device `index`, opened when first asked for, by the thread that uses it from then on; it is
 * never closed. Aborts where it cannot be opened. */
const struct gt_device *test_device(int index);

/* Fill device memory with the bytes of NaN. */
void test_device_ruin(int index, void *p, size_t bytes);

#endif
