/* measure.h - parse the options of device benchmarks: sizes, devices, types. */
#ifndef GT_CMD_BENCH_MEASURE_H
#define GT_CMD_BENCH_MEASURE_H

#include "lib/base/err.h"
#include "lib/device/name.h"

enum { GT_BENCH_MAX_SIZES = 64 };

/* Parse --sizes: "1K..256M", which doubles from size to size, or one size. Writes *count sizes to
 * sizes[GT_BENCH_MAX_SIZES], the largest last. Errors: GT_EINVAL; also for a size that is not from
 * 8 bytes to 1024 GiB. */
int gt_bench_read_sizes(int64_t *sizes, int *count, const char *text, struct gt_err *err);

/* If rc is GT_ENOMEM, add the hint that smaller sizes need less memory. Returns rc. */
int gt_bench_memory_hint(int rc, struct gt_err *err);

/* Parse --device with gt_device_names_read(), and put the option's name before an error. */
int gt_bench_read_devices(
    struct gt_device_name **out, size_t *count, const char *list, struct gt_err *err);

/* Parse the value of --NAME: a list of some of `words` (ended by NULL), with commas, each word at
 * most once. Writes the indices of the words to `out`, which has an element for each word. Errors:
 * GT_EINVAL. */
int gt_bench_read_words(int *out, int *count, const char *list, const char *const *words,
    const char *name, struct gt_err *err);

/* "cuda:1"; "cpu". */
const char *gt_bench_device(char room[GT_DEVICE_NAME_SIZE], const struct gt_device_name *name);

#endif
