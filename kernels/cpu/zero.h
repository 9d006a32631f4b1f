/* zero.h - set memory to zero, with all threads. */
#ifndef GT_KERNELS_CPU_ZERO_H
#define GT_KERNELS_CPU_ZERO_H

#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "kernels/cpu/parallel.h"

/* Memory of at least so many bytes would push other data out of the caches before it is read. */
enum { GT_PAST_CACHES_MIN = 32 << 20 };

/* Set memory that is aligned to 16 bytes past the caches: a plain store would read each line
 * first. */
static inline void gt_cpu_zero_past_caches(char *p, int64_t bytes)
{
	int64_t i = 0;

#if defined(__SSE2__)
	for (; i + 16 <= bytes; i += 16)
		_mm_stream_si128((__m128i *)(void *)(p + i), _mm_setzero_si128());
	_mm_sfence(); /* such stores are not ordered with those that follow */
#endif
	memset(p + i, 0, (size_t)(bytes - i));
}

/* Set memory to zero with all threads, past the caches where it is large. */
static inline void gt_cpu_zero(void *memory, int64_t bytes)
{
	const bool is_large = bytes >= GT_PAST_CACHES_MIN && (uintptr_t)memory % 16 == 0;
	char *p = memory;

#pragma omp parallel for schedule(static) if (bytes >= GT_FORK_MIN)
	for (int64_t i = 0; i < bytes; i += GT_GRAIN) {
		int64_t piece = gt_min(GT_GRAIN, bytes - i);

		if (is_large)
			gt_cpu_zero_past_caches(p + i, piece);
		else
			memset(p + i, 0, (size_t)piece);
	}
}

#endif
