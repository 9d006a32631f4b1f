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
 * $XDG_CACHE_HOME, or in ~/.cache. A line is a key and the words of a choice in hexadecimal.
 * The file only saves time: a line that cannot be read is left out, and no error is reported where
 * the file can be neither read nor written; then each process measures for itself.
 *
 * Between gt_choices_begin() and gt_choices_end() this thread is the only one of the process, and
 * from gt_choices_read() on the only one of the host, that looks for algorithms. So ranks of a host
 * with GPUs of one model choose the same, whether they are threads or processes.
 *
 * A key is at most GT_CHOICE_KEY - 1 characters, without spaces. A caller has to check that the
 * library still offers the algorithm it gets.
 */
enum { GT_CHOICE_NAME = 128, GT_CHOICE_KEY = 96 };

void gt_choices_begin(void);
/* Read the file, and keep other processes from it. */
void gt_choices_read(const char *name);
bool gt_choices_find(const char *name, const char *key, struct gt_choice *out);
/* Remember a choice, and write the file. */
void gt_choices_add(const char *name, const char *key, const struct gt_choice *choice);
void gt_choices_end(void);

#endif
