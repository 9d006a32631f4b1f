/* sysfs.h - private: read small files of /proc and /sys, or of a folder with copies. */
#ifndef GT_DEVICE_SYSFS_H
#define GT_DEVICE_SYSFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* The size of a buffer for one line, in bytes. All lines of the files that gtrain reads fit, even
 * the line with the flags of a CPU. */
#define GT_SYSFS_LINE 8192

/* Open a file: `root` ("", or a folder with copies of /proc and /sys), then the formatted text.
 * NULL on failure. For fclose(). */
FILE *gt_sysfs_open(const char *root, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Read the first line of such a file. Returns false if it cannot be opened or is empty. */
bool gt_sysfs_line(char *line, size_t size, const char *root, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/*
 * Return the value in a line "KEY : VALUE
 * ", whose newline is cut off, or NULL for another key.
 */
char *gt_sysfs_value(char *line, const char *key);

/* Count the numbers of a list such as "0-3,8,10-11", and call `visit` (or NULL) with each. The list
 * ends at the first character, number (above 65535) or range that is not valid. */
size_t gt_sysfs_list(const char *list, void (*visit)(int id, void *context), void *context);

#endif
