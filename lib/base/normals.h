/* normals.h - standard normal numbers and uniform ones, drawn by vector instructions. */
#ifndef GT_BASE_NORMALS_H
#define GT_BASE_NORMALS_H

#include <stdint.h>

/*
 * Numbers that blocks of Philox give, four each: block b has the key and the counter words
 *
 *   low half of (block + b), high half of (block + b), stream, step
 *
 * of gt_philox(). The numbers have the same bits on all processors.
 */
struct gt_philox_draw {
	uint64_t key, block;
	uint32_t stream, step;
};

/* Compute `count` standard normal numbers, of at most 6.8, the first of them that of index 0 in
 * d->block. Source: Box and Muller, 1958. */
void gt_draw_normals(const struct gt_philox_draw *d, int64_t count, float *out);

/* Compute numbers in [0, 1) by gt_philox_float(). */
void gt_draw_uniforms(const struct gt_philox_draw *d, int64_t count, float *out);

#endif
