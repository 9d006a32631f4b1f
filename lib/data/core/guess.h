/* guess.h - private: guess the kind of data that a file or a folder has. */
#ifndef GT_DATA_CORE_GUESS_H
#define GT_DATA_CORE_GUESS_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Write the spec that probably reads the file or the folder `path`, such as "csv:iris.csv", to
 * `out`, for a hint. `size` is the size of `out` in bytes. The names of files decide, then the
 * first bytes of the file. Return false, and write nothing, if the path does not exist, or if
 * nothing tells its kind.
 */
bool gt_data_guess(char *out, size_t size, const char *path);

#endif
