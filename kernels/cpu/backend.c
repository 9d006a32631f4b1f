/* backend.c - the CPU as a backend: memory, copies, its name, and which instruction set it uses. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <omp.h>
#include <pthread.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/zero.h"
#include "lib/device/cpu.h"

/* One instruction set: when this processor has it, and the kernels made for it. Best last. */
struct isa {
	const char *name;
	bool (*present)(void);
	const struct gt_cpu_set *set;
};

static bool base_present(void)
{
	return true;
}

#if defined(__x86_64__)
/* The instructions that x86-64-v3 and x86-64-v4 promise the compiler (System V ABI for AMD64,
 * section 3.1.1). */
static bool avx2_present(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
	       __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
	       __builtin_cpu_supports("popcnt");
}

static bool avx512_present(void)
{
	return avx2_present() && __builtin_cpu_supports("avx512f") &&
	       __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
	       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

static const struct isa isas[] = {
	{ "base", base_present, &gt_cpu_set_base },
#if defined(__x86_64__)
	{ "avx2", avx2_present, &gt_cpu_set_avx2 },
	{ "avx512", avx512_present, &gt_cpu_set_avx512 },
#endif
};

enum { ISAS = sizeof(isas) / sizeof(isas[0]) };

/* The choice, made once: NULL when GTRAIN_CPU_ISA names none that this processor has. */
static const struct isa *chosen;
static pthread_once_t chosen_once = PTHREAD_ONCE_INIT;

static void choose_isa(void)
{
	const char *cap = getenv("GTRAIN_CPU_ISA");

	for (int i = 0; i < ISAS; i++)
		if (isas[i].present() && (!cap || !strcmp(cap, isas[i].name)))
			chosen = &isas[i];
}

static const struct isa *isa_get(void)
{
	pthread_once(&chosen_once, choose_isa);
	return chosen;
}

static int isa_check(struct gt_err *err)
{
	const char *cap = getenv("GTRAIN_CPU_ISA");

	if (isa_get())
		return 0;
	for (int i = 0; i < ISAS; i++)
		if (cap && !strcmp(cap, isas[i].name)) {
			gt_err_set(err, GT_EINVAL,
			    "environment variable GTRAIN_CPU_ISA: this processor has no %s", cap);
			return gt_err_hint(err, "unset it for the best that there is");
		}
	gt_err_set(err, GT_EINVAL, "environment variable GTRAIN_CPU_ISA: no instruction set '%s'",
	    cap ? cap : "");
	return gt_err_hint(err, "set it to base, avx2 or avx512, or unset it");
}

static int cpu_count(void)
{
	return 1;
}

/* The processor's own name, or "CPU". */
static void processor_name(char name[49])
{
	strcpy(name, "CPU");
#if defined(__x86_64__)
	unsigned word[12];

	if ((unsigned)__get_cpuid_max(0x80000000u, NULL) < 0x80000004u)
		return;
	for (unsigned i = 0; i < 3; i++)
		__get_cpuid(0x80000002u + i, &word[4 * i], &word[4 * i + 1], &word[4 * i + 2],
		    &word[4 * i + 3]);
	memcpy(name, word, sizeof(word));
	name[48] = '\0';
	memmove(name, name + strspn(name, " "), strlen(name + strspn(name, " ")) + 1);
#endif
}

static int cpu_describe(int index, char *text, size_t size, struct gt_err *err)
{
	char name[49];
	int rc = isa_check(err), threads = omp_get_max_threads();

	(void)index;
	if (rc)
		return rc;
	processor_name(name);
	snprintf(text, size, "%s, %d thread%s, %s", name, threads, threads == 1 ? "" : "s",
	    isa_get()->name);
	return 0;
}

static int cpu_enter(int index, struct gt_err *err)
{
	(void)index;
	return isa_check(err);
}

static int cpu_memory(int index, uint64_t *available, uint64_t *total, struct gt_err *err)
{
	(void)index;
	(void)err;
	*available = *total = gt_cpu_memory_bytes();
	return 0;
}

/* Large blocks ask for pages of this size. */
#define HUGE_PAGE ((size_t)2 << 20)

static int cpu_alloc(int index, size_t bytes, void **out, struct gt_err *err)
{
	int rc = isa_check(err);
	void *p;

	(void)index;
	*out = NULL;
	if (rc)
		return rc;
	p = mmap(
	    NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED) {
		gt_err_set(err, GT_ENOMEM, "no memory: %zu bytes asked for", bytes);
		err->device_memory = true;
		return err->code;
	}
	if (bytes >= HUGE_PAGE)
		/* Only advice: without it the memory is as good, if slower. */
		madvise(p, bytes, MADV_HUGEPAGE);
	*out = p;
	return 0;
}

static void cpu_free(int index, void *p, size_t bytes)
{
	(void)index;
	if (p)
		munmap(p, bytes ? bytes : 1);
}

/* ---- streams: all work is done when the call returns ---- */

struct gt_stream {
	char nothing;
};

struct gt_event {
	char nothing;
};

static struct gt_stream the_stream;
static struct gt_event the_event;

static int cpu_stream_new(struct gt_stream **out, int index, struct gt_err *err)
{
	(void)index;
	(void)err;
	*out = &the_stream;
	return 0;
}

static void cpu_stream_free(struct gt_stream *stream)
{
	(void)stream;
}

static int cpu_stream_sync(struct gt_stream *stream, struct gt_err *err)
{
	(void)stream;
	(void)err;
	return 0;
}

static int cpu_event_new(struct gt_event **out, int index, struct gt_err *err)
{
	(void)index;
	(void)err;
	*out = &the_event;
	return 0;
}

static void cpu_event_free(struct gt_event *event)
{
	(void)event;
}

static int cpu_event_record(struct gt_event *event, struct gt_stream *stream, struct gt_err *err)
{
	(void)event;
	(void)stream;
	(void)err;
	return 0;
}

static int cpu_event_wait(struct gt_stream *stream, struct gt_event *event, struct gt_err *err)
{
	return cpu_event_record(event, stream, err);
}

static int cpu_event_sync(struct gt_event *event, struct gt_err *err)
{
	return cpu_event_record(event, NULL, err);
}

static bool cpu_event_done(struct gt_event *event)
{
	(void)event;
	return true;
}

static int cpu_copy(
    struct gt_stream *stream, void *to, const void *from, size_t bytes, struct gt_err *err)
{
	(void)stream;
	(void)err;
	if (bytes)
		memcpy(to, from, bytes);
	return 0;
}

static int cpu_zero(struct gt_stream *stream, void *device, size_t bytes, struct gt_err *err)
{
	(void)stream;
	(void)err;
	gt_cpu_zero(device, (int64_t)bytes);
	return 0;
}

static int cpu_host_call(struct gt_stream *stream, gt_host_fn *fn, void *self, void *memory,
    size_t bytes, struct gt_err *err)
{
	(void)stream;
	(void)memory;
	(void)bytes;
	return fn(self, err);
}

/* Nobody gets here without memory, so a wrong GTRAIN_CPU_ISA has been reported by then. */
static const struct gt_cpu_set *set_get(void)
{
	return isa_get() ? isa_get()->set : &gt_cpu_set_base;
}

static const struct gt_kernel *const *cpu_kernels(void)
{
	return set_get()->tables;
}

static const struct gt_range_kernels *cpu_ranges(void)
{
	return set_get()->ranges;
}

static const struct gt_step_kernels *cpu_steps(void)
{
	return set_get()->steps;
}

const struct gt_backend gt_cpu_backend = {
	.name = "cpu",
	.host_memory = true,
	.reads_blocks = true,
	.image_layout = GT_CHANNELS_LAST,
	/* About 300 rows of gpt2's logits. Products of 300 rows run at full speed, and adding to
	 * the gradient by the weights takes a hundredth of their time. */
	.logits_bytes = (size_t)64 << 20,
	.count = cpu_count,
	.describe = cpu_describe,
	.enter = cpu_enter,
	.memory = cpu_memory,
	.alloc = cpu_alloc,
	.free = cpu_free,
	.host_alloc = cpu_alloc,
	.host_free = cpu_free,
	.stream_new = cpu_stream_new,
	.stream_free = cpu_stream_free,
	.stream_sync = cpu_stream_sync,
	.event_new = cpu_event_new,
	.event_free = cpu_event_free,
	.event_record = cpu_event_record,
	.event_wait = cpu_event_wait,
	.event_sync = cpu_event_sync,
	.event_done = cpu_event_done,
	.copy_in = cpu_copy,
	.copy_out = cpu_copy,
	.copy = cpu_copy,
	.zero = cpu_zero,
	.host_call = cpu_host_call,
	.kernels = cpu_kernels,
	.ranges = cpu_ranges,
	.steps = cpu_steps,
};
