/* sysfs.h - inside device: small files under /proc and /sys, or under a copy of them. */
#ifndef GT_DEVICE_SYSFS_H
#define GT_DEVICE_SYSFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define GT_SYSFS_LINE 8192 /* bytes; no line read here is longer, the flags of a CPU included */

/* Open `root` followed by a formatted path; NULL when it is not there or longer than a path may
 * be. Yours to fclose(). */
FILE *gt_sysfs_open(const char *root, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The first line of the file, without its end. False if there is none. */
bool gt_sysfs_line(char *line, size_t size, const char *root, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The value in a line "KEY : VALUE\n", cut at its end in place; NULL if the key is another. */
char *gt_sysfs_value(char *line, const char *key);

/* Count the numbers in a kernel list such as "0-3,8,10-11", up to the first character that does not
 * belong to a list. Calls `visit`, unless it is NULL, with each number. */
size_t gt_sysfs_list(const char *list, void (*visit)(int id, void *context), void *context);

#endif
