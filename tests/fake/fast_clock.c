/* fast_clock.c - preloaded: the monotonic clock runs a thousand times as fast. */
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { TIMES = 1000, NS = 1000000000 };

/* Nanoseconds since the first call, so that the product has room. */
int clock_gettime(clockid_t clock, struct timespec *out)
{
	static long long first;
	int rc = (int)syscall(SYS_clock_gettime, clock, out);
	long long ns = out->tv_sec * (long long)NS + out->tv_nsec, none = 0;

	if (rc || clock != CLOCK_MONOTONIC)
		return rc;
	__atomic_compare_exchange_n(&first, &none, ns, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	ns = (ns - first) * TIMES;
	out->tv_sec = ns / NS;
	out->tv_nsec = ns % NS;
	return 0;
}
