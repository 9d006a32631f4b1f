/* choices.h - a file that remembers the fastest algorithms of operations. */
#ifndef GT_KERNELS_CUDA_LIBRARY_CHOICES_H
#define GT_KERNELS_CUDA_LIBRARY_CHOICES_H

#include <stdbool.h>
#include <stdint.h>

/* Identifies the fastest algorithm for an operation; its library defines the words. */
struct gt_choice {
	uint64_t words[8];
};

/* Choices are kept in files, one for each library version, driver version and GPU model. Files that
 * cannot be read or written are no error. A NAME and a KEY have at most the sizes below minus 1; a
 * KEY has no spaces. */
enum { GT_CHOICE_NAME = 128, GT_CHOICE_KEY = 128, GT_CHOICE_GPU = 96 };

/* Lock choices against other threads; required for the functions below, until gt_choices_end(). */
void gt_choices_begin(void);
/* Return a buffer of GT_CHOICE_GPU bytes for a description of the GPU, "" at first; NULL: the index
 * is too large. */
char *gt_choices_gpu(int index);
/* Lock the file against other processes, and read it if it has changed. */
void gt_choices_read(const char *name);
/* Find the choice of a key that was read. The caller checks that the library still has the
 * algorithm. */
bool gt_choices_find(const char *name, const char *key, struct gt_choice *out);
/* Store a choice in memory and in the file. */
void gt_choices_add(const char *name, const char *key, const struct gt_choice *choice);
/* Release both locks. */
void gt_choices_end(void);

#endif
