/* device.h - the devices that tests of graphs, plans and programs run on. */
#ifndef GT_TESTS_COMMON_DEVICE_H
#define GT_TESTS_COMMON_DEVICE_H

#include "lib/device/backend.h"

/* Device `index` of the CPU, or of the backend that GTRAIN_TEST_BACKEND names: "far"
 * (tests/fake/far/); in programs of tests/cudasim/, "cuda". Where there are fewer, indices take
 * them in turn, with streams of their own. It is opened when first asked for and never closed; the
 * calling thread enters it. If GTRAIN_TEST_UNTIMED is set, plans choose algorithms without timing
 * them. Ends the program where that fails. */
const struct gt_device *test_device(int index);

bool test_device_is_far(void);
bool test_device_is_cpu(void);

/* Whether to take row i of a long table: each on the CPU; on others, which are simulated and slow,
 * every k-th, beginning with the first, unless THOROUGH is set, as `make check-thorough` does. */
bool test_takes_row(size_t k, size_t i);

/* Skip the test at hand where devices are not the CPU: it is about the host alone. */
#define test_device_host_only()                                                                    \
	do {                                                                                       \
		if (!test_device_is_cpu()) {                                                       \
			print_message("host: this test is not about devices\n");                   \
			skip();                                                                    \
		}                                                                                  \
	} while (0)

/* Fill memory of device 0 with the bytes of NaN. */
void test_device_ruin(void *p, size_t bytes);

/* A copy of memory of device 0, yours to free. */
void *test_device_copy(const void *p, size_t bytes);

#endif
