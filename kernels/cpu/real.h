/* real.h - the floating-point type, REAL, that a body (NAME.inc) is compiled for. */
/* No guard: NAME.c defines REAL_BITS as 32, then as 64, and includes each time the body, which starts with this. */
#ifndef REAL_BITS
#define REAL_BITS 32
#endif

#include <math.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vmath.h"

#undef REAL
#undef FN
#undef REAL_EXP
#undef REAL_LOG
#undef REAL_TANH
#undef REAL_ERF
#undef REAL_SQRT

#if REAL_BITS == 32
#define REAL         float
#define FN(name)     name##_f32
#define REAL_EXP(x)  gt_vexp(x)
#define REAL_LOG(x)  gt_vlog(x)
#define REAL_TANH(x) gt_vtanh(x)
#define REAL_ERF(x)  gt_verf(x)
#define REAL_SQRT(x) sqrtf(x)
#else
#define REAL         double
#define FN(name)     name##_f64
#define REAL_EXP(x)  exp(x)
#define REAL_LOG(x)  log(x)
#define REAL_TANH(x) tanh(x)
#define REAL_ERF(x)  erf(x)
#define REAL_SQRT(x) sqrt(x)
#endif
#undef REAL_BITS

/* The two rows of an op whose functions are run NAME_f32 and NAME_f64; further members after the name. */
#ifndef GT_ROWS
#define GT_ROWS(name, ...)                                                                         \
	{ .op = #name, .dtype = GT_F32, .run = name##_f32, __VA_ARGS__ },                          \
	{                                                                                          \
		.op = #name, .dtype = GT_F64, .run = name##_f64, __VA_ARGS__                       \
	}
#endif

#ifdef __clang__
/* Loops marked simd are vectors in float32; the same loops in float64 call libm, which clang would report. */
#pragma clang diagnostic ignored "-Wpass-failed"
#endif
