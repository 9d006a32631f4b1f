/* choices.h - a file that remembers the fastest algorithms for matrix products and convolutions. */
#ifndef GT_KERNELS_CUDA_LIBRARY_CHOICES_H
#define GT_KERNELS_CUDA_LIBRARY_CHOICES_H

#include <stdbool.h>
#include <stdint.h>

/* A choice identifies the algorithm that was fastest for an operation. The meaning of its
 * member `words` depends on the library of the algorithm. */
struct gt_choice {
	uint64_t words[8];
};

/*
 * Choices are kept in text files: gtrain/NAME in $XDG_CACHE_HOME, or in ~/.cache. There is one file
 * for each combination of library version, CUDA driver version and GPU model (fastest.c). Each line
 * holds one choice: a key, which describes the operation, and the words of the choice in
 * hexadecimal. The file only saves time. Lines that cannot be parsed are ignored. If the file
 * cannot be read or written, no error is reported, and each process measures for itself.
 *
 * gt_choices_begin() locks out the other threads of this process, and gt_choices_read() locks out
 * other processes that use the same file. gt_choices_end() releases both locks. So one thread
 * measures at a time, and the others find its choices in the file. Ranks whose GPUs are of the same
 * type, such as H100, thus make the same choices. A process waits at most 10 seconds for the lock
 * of the file, once: after that it measures without the lock whenever another process holds it.
 *
 * A NAME has at most GT_CHOICE_NAME - 1 characters. A key has at most GT_CHOICE_KEY - 1 characters
 * and no spaces. The caller must check that the library still offers the algorithm that
 * gt_choices_find() returns.
 */
enum { GT_CHOICE_NAME = 128, GT_CHOICE_KEY = 96, GT_CHOICE_GPU = 96 };

/* Begin to look up or add choices: lock them against other threads. Call the functions below only
 * between gt_choices_begin() and gt_choices_end(). */
void gt_choices_begin(void);
/* Return a buffer of GT_CHOICE_GPU bytes in which the caller keeps a description of the GPU
 * `index`, so that it asks the driver only once. The buffer holds "" at first. Return NULL if the
 * index is too large. */
char *gt_choices_gpu(int index);
/* Lock the file against other processes. Then read its lines into memory, unless the file is
 * unchanged since this process last read it. */
void gt_choices_read(const char *name);
/* Look in memory for the choice of a key. Return false if there is none. */
bool gt_choices_find(const char *name, const char *key, struct gt_choice *out);
/* Store a choice in memory and in the file. */
void gt_choices_add(const char *name, const char *key, const struct gt_choice *choice);
/* Release the locks of gt_choices_begin() and gt_choices_read(). */
void gt_choices_end(void);

#endif
