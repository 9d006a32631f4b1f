/* choices.h - the fastest way to do a product or a convolution, remembered from run to run. */
#ifndef GT_KERNELS_CUDA_CHOICES_H
#define GT_KERNELS_CUDA_CHOICES_H

#include <stdbool.h>
#include <stdint.h>

/* Words that name an algorithm, or another choice, to the library that offers it. */
struct gt_choice {
	uint64_t words[8];
};

/*
 * One text file for each version of a library and each model of GPU: gtrain/NAME in
 * $XDG_CACHE_HOME, or in ~/.cache. A line is a key and the words of a choice in hexadecimal. The
 * file only saves time. Lines that cannot be parsed are ignored. If the file cannot be read or
 * written, no error is reported, and each process measures for itself.
 *
 * gt_choices_begin() takes a lock of the process, and gt_choices_read() a lock of the file;
 * gt_choices_end() releases both. So only one thread of the host searches for algorithms at a time,
 * and ranks with GPUs of one model make the same choices, as threads or as processes.
 *
 * A key is at most GT_CHOICE_KEY - 1 characters, without spaces. A caller has to check that the
 * library still offers the algorithm it gets.
 */
enum { GT_CHOICE_NAME = 128, GT_CHOICE_KEY = 96 };

void gt_choices_begin(void);
/* Lock the file against other processes, and read it. */
void gt_choices_read(const char *name);
bool gt_choices_find(const char *name, const char *key, struct gt_choice *out);
/* Remember a choice, and write the file. */
void gt_choices_add(const char *name, const char *key, const struct gt_choice *choice);
void gt_choices_end(void);

#endif
