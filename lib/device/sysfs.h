/* sysfs.h - private: read small files of /proc and /sys, or of a folder with copies. */
#ifndef GT_DEVICE_SYSFS_H
#define GT_DEVICE_SYSFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* The size of a buffer for one line, in bytes. All lines of the files that gtrain reads fit, even
 * the line with the flags of a CPU. */
#define GT_SYSFS_LINE 8192

/* Open a file. Its path is `root` followed by the formatted text: `root` is "", or a folder with
 * copies of /proc and /sys. Return NULL if the file cannot be opened or the path is too long. The
 * caller closes the file with fclose(). */
FILE *gt_sysfs_open(const char *root, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Read the first line of a file to line[size], without the newline. The path of the file is `root`
 * followed by the formatted text, as in gt_sysfs_open(). Return false if the file cannot be opened
 * or is empty. */
bool gt_sysfs_line(char *line, size_t size, const char *root, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Find the value in a line "KEY : VALUE\n". Replace the newline by a zero byte, and return a
 * pointer to the value in the line. Return NULL if the line has another key. */
char *gt_sysfs_value(char *line, const char *key);

/* Return how many numbers are in a list in the format of the Linux kernel, such as "0-3,8,10-11" (7
 * numbers). The list ends at the first character that does not belong to a list, and before a
 * number above 65535 or a range such as "5-3". If `visit` is not NULL, call it with each number and
 * `context`. */
size_t gt_sysfs_list(const char *list, void (*visit)(int id, void *context), void *context);

#endif
