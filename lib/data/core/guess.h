/* guess.h - private: guess the kind of data that a file or a folder has. */
#ifndef GT_DATA_CORE_GUESS_H
#define GT_DATA_CORE_GUESS_H

#include <stdbool.h>
#include <stddef.h>

/* Write the spec that probably reads `path`, such as "csv:iris.csv", to out[size], by names and
 * first bytes of files. False: the path is missing, or nothing tells its kind. */
bool gt_data_guess(char *out, size_t size, const char *path);

#endif
