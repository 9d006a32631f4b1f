/* measure.h - options and table cells of benchmarks: sizes, devices, lists of words, rates. */
#ifndef GT_CMD_BENCH_MEASURE_H
#define GT_CMD_BENCH_MEASURE_H

#include <stddef.h>

#include "lib/base/err.h"
#include "lib/device/name.h"

enum { GT_BENCH_MAX_SIZES = 64 };

/* Parse the value of --sizes: one size ("4K"), or a range ("1K..256M"). This range stands for the
 * sizes 1K, 2K, 4K, ... up to 256M. Write the sizes in bytes to sizes[GT_BENCH_MAX_SIZES], in
 * ascending order, and the number of sizes to *count. Errors: GT_EINVAL for a wrong value, for a
 * size below 8 bytes, and for a size above 1024 GiB. */
int gt_bench_read_sizes(int64_t *sizes, int *count, const char *text, struct gt_err *err);

/* If `rc` is GT_ENOMEM, set the hint in `err` to "use smaller --sizes". Return `rc`. */
int gt_bench_memory_hint(int rc, struct gt_err *err);

/* Parse the value of --device, such as "cuda:0,cuda:1", with gt_device_names_read(). The text of an
 * error begins with the name of the option. Set *out to an array of device names, which the caller
 * frees with free(), and *count to their number. Errors: those of gt_device_names_read(). */
int gt_bench_read_devices(
    struct gt_device_name **out, size_t *count, const char *list, struct gt_err *err);

/* Parse `list`, the value of the option `name`: words separated by commas. Each word must be in
 * `words` (ended by NULL), and may occur only once. For each word of the list, write its index in
 * `words` to `out`, which must have as many elements as `words`. Set *count to the number of words
 * in the list. Errors: GT_EINVAL. */
int gt_bench_read_words(int *out, int *count, const char *list, const char *const *words,
    const char *name, struct gt_err *err);

enum { GT_BENCH_NUMBERS = 16 };

/* Parse `list`, the value of the option `name`: numbers from `least` to `most`, which may have the
 * units K, M and G, separated by commas, each only once. Errors: GT_EINVAL. */
int gt_bench_read_numbers(int64_t out[GT_BENCH_NUMBERS], int *count, const char *list,
    const char *name, int64_t least, int64_t most, struct gt_err *err);

/* Write the name of a device, such as "cuda:1" or "cpu", to `buffer`. Return `buffer`. */
const char *gt_bench_device(char buffer[GT_DEVICE_NAME_SIZE], const struct gt_device_name *name);

/* Print a measured rate, such as 12.5e9 bytes/s in units of 1e9, to a cell of a table: with two
 * decimals, or with three significant digits below 1. So a slow rate is never printed as 0. */
void gt_bench_rate(char *cell, size_t size, double per_s, double unit);

#endif
