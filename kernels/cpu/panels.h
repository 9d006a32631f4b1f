/* panels.h - the sizes of the products of panels.inc, by the instruction set. */
#ifndef GT_KERNELS_CPU_PANELS_H
#define GT_KERNELS_CPU_PANELS_H

#if defined(__AVX512F__)
#define GT_VECTOR_BYTES  64
#define GT_PANEL_VECTORS 4 /* 4 x 4 or 8 x 2 accumulators of 32 registers */
#elif defined(__AVX2__)
#define GT_VECTOR_BYTES  32
#define GT_PANEL_VECTORS 2 /* 4 x 2 accumulators of 16 registers */
#else
#define GT_VECTOR_BYTES  16
#define GT_PANEL_VECTORS 2
#endif

/* rows of a block */
enum { GT_PANEL_ROWS = 8 };

#endif
