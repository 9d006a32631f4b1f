/* wait.c - waiting for a rank, for so long, and failing together. */
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/comm/shm/segment.h"

/* How often a sleeper looks whether the rank that it waits for still lives. */
static const double look_s = 0.1;

/* A sleeper that oversleeps by so much did not run. */
static const double stopped_s = 0.3;

enum { SPINS_PER_LOOK = 64 };

/* ---- flags ---- */

static bool reached(const struct gt_shm_flag *f, uint32_t value)
{
	return (int32_t)(atomic_load_explicit(&f->value, memory_order_acquire) - value) >= 0;
}

static void futex_wake(struct gt_shm_flag *f)
{
	syscall(SYS_futex, &f->value, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/*
 * The order of value and sleepers, here and in sleep_on_flag(), makes sure that no wake-up is lost.
 * The setter writes value, then reads sleepers; the sleeper writes sleepers, then reads value. All
 * four accesses are sequentially consistent, so at least one of the two sees the other. If only the
 * setter does, the sleeper may not sleep yet; then FUTEX_WAIT finds another value than `seen` and
 * returns at once (futex(2)). The futex is not private, because the ranks may be processes.
 */
void gt_shm_flag_set(struct gt_shm_flag *f, uint32_t value)
{
	atomic_exchange(&f->value, value);
	if (atomic_load(&f->sleepers))
		futex_wake(f);
}

static void sleep_on_flag(struct gt_shm_flag *f, uint32_t value, double seconds)
{
	struct timespec ts = { .tv_nsec = (long)(1e9 * seconds) };
	uint32_t seen;

	atomic_fetch_add(&f->sleepers, 1);
	seen = atomic_load(&f->value);
	if ((int32_t)(seen - value) < 0)
		syscall(SYS_futex, &f->value, FUTEX_WAIT, seen, &ts, NULL, 0);
	atomic_fetch_sub(&f->sleepers, 1);
}

void gt_shm_wake_all(struct gt_shm *g)
{
	size_t size = (size_t)g->group.size;

	for (size_t r = 0; r < size; r++)
		futex_wake(&g->areas[r].phase);
	for (size_t i = 0; i < size * size; i++) {
		futex_wake(&g->channels[i].filled);
		futex_wake(&g->channels[i].taken);
	}
	for (int i = 0; i < g->more_count; i++)
		futex_wake(g->more[i]);
}

void gt_shm_give_up(struct gt_shm *g)
{
	atomic_store(&g->quit, true);
	gt_shm_wake_all(g);
}

/* ---- failing ---- */

/*
 * The first rank that fails writes its error for all. It may die while it writes, so others wait
 * for its text for a second only.
 */
static int take_failure(struct gt_shm *g, struct gt_err *err)
{
	struct gt_shm_segment *s = g->segment;
	double until = gt_clock_s() + 1;

	while (atomic_load(&s->failed) != GT_SHM_FAILURE_WRITTEN && gt_clock_s() < until)
		sched_yield();
	if (atomic_load(&s->failed) != GT_SHM_FAILURE_WRITTEN) {
		gt_err_set(err, GT_EIO, "another rank has failed and did not say why");
		return gt_err_follow(err);
	}
	gt_err_set(err, s->code < 0 ? s->code : GT_EIO, "%.*s", (int)sizeof(s->text) - 1, s->text);
	gt_err_hint(err, "%.*s", (int)sizeof(s->hint) - 1, s->hint);
	gt_err_follow(err);
	err->lost = s->lost;
	return err->code;
}

int gt_shm_fail(struct gt_shm *g, struct gt_err *err)
{
	struct gt_shm_segment *s = g->segment;
	uint32_t none = GT_SHM_FAILURE_NONE;

	if (!atomic_compare_exchange_strong(&s->failed, &none, GT_SHM_FAILURE_BEING_WRITTEN))
		return take_failure(g, err);
	s->code = err->code;
	s->lost = err->lost;
	memcpy(s->text, err->text, sizeof(s->text));
	memcpy(s->hint, err->hint, sizeof(s->hint));
	atomic_store(&s->failed, GT_SHM_FAILURE_WRITTEN);
	gt_shm_wake_all(g);
	return err->code;
}

int gt_shm_check(struct gt_shm *g, struct gt_err *err)
{
	if (atomic_load_explicit(&g->segment->failed, memory_order_acquire))
		return take_failure(g, err);
	return 0;
}

/* ---- saying so ---- */

/* How far a rank had come: it had begun this collective, or taken part in the one before. Each
 * begins with a meeting of all, so that nobody can be further back. */
static int name_rank(
    struct gt_shm *g, int rank, const char *verb, const char *preposition, struct gt_err *err)
{
	const struct gt_shm_rank_area *area = &g->areas[rank];
	const struct gt_shm_elsewhere *e = &g->elsewhere;
	char who[128];

	snprintf(who, sizeof(who), "rank %d", g->names[rank]);
	if (e->name)
		e->name(e->self, who, sizeof(who), g->names[rank]);
	return gt_call_lost(
	    err, &(struct gt_lost){ .who = who,
	             .rank = g->names[rank],
	             .verb = verb,
	             .preposition = preposition,
	             .by = g->names[g->group.rank],
	             .begun = reached(&area->phase, g->entrance),
	             .call = &g->call,
	             .last = g->number > 1 ? &area->posted[(g->number - 1) % 2].call : NULL });
}

/* The state letter of /proc/PID/stat, which follows the name in brackets; 0: there is none. */
static char process_state(pid_t pid)
{
	char path[64], line[512], *p;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	p = fgets(line, sizeof(line), f);
	fclose(f);
	p = p ? strrchr(line, ')') : NULL;
	return p && p[1] == ' ' ? p[2] : 0;
}

/* A rank that is stopped, not only among those of this group: the one that is late here may wait
 * for it in another. -1: there is none. */
static int stopped_rank(const struct gt_shm *g)
{
	for (int r = 0; r < g->all_count; r++)
		if (process_state(g->all[r]) == 'T' || process_state(g->all[r]) == 't')
			return r;
	return -1;
}

/* Rank `rank` is late in a collective. It may sleep until another rank comes, and so on: the last
 * of these ranks keeps the others waiting. */
static int cause_of_delay(const struct gt_shm *g, int rank)
{
	int last = rank;

	for (int i = 0; i < g->group.size; i++) {
		int awaits = atomic_load(&g->areas[last].awaits);

		if (awaits < 1 || awaits > g->group.size)
			return last;
		last = awaits - 1;
	}
	return rank;
}

/* The ranks of this host wait for one of another host. */
static int fail_late_elsewhere(struct gt_shm *g, int name, struct gt_err *err)
{
	const struct gt_shm_elsewhere *e = &g->elsewhere;
	char who[128];

	e->name(e->self, who, sizeof(who), name);
	gt_call_lost(err, &(struct gt_lost){ .who = who,
	                      .rank = name,
	                      .verb = "is late",
	                      .preposition = "for",
	                      .by = g->names[g->group.rank],
	                      .begun = true,
	                      .call = &g->call });
	gt_err_hint(err,
	    "look at that rank's output, and whether its host can be reached; ranks wait for %g s, "
	    "which {timeout} sets",
	    g->timeout_s);
	return gt_shm_fail(g, err);
}

static int fail_late(struct gt_shm *g, int rank, struct gt_err *err)
{
	const struct gt_shm_elsewhere *e = &g->elsewhere;
	int stopped = g->processes ? stopped_rank(g) : -1, name;

	if (g->call.kind != GT_SEND && g->call.kind != GT_RECV)
		rank = cause_of_delay(g, rank);
	name = e->find_late ? e->find_late(e->self, g->names[rank]) : g->names[rank];
	if (gt_shm_check(g, err))
		return err->code;
	if (name != g->names[rank])
		return fail_late_elsewhere(g, name, err);
	name_rank(g, rank, "is late", "for", err);
	if (!g->processes)
		gt_err_hint(err, "ranks wait for %g s, which {timeout} sets", g->timeout_s);
	else if (stopped >= 0)
		gt_err_hint(err,
		    "rank %d, process %d, was stopped (by SIGSTOP, or in a debugger), and others "
		    "wait for it",
		    stopped, (int)g->all[stopped]);
	else
		gt_err_hint(err,
		    "look at that rank's output, or attach a debugger to its process %d; ranks "
		    "wait for %g s, which {timeout} sets",
		    (int)g->pids[rank], g->timeout_s);
	return gt_shm_fail(g, err);
}

static int name_gone_shm_rank(struct gt_shm *g, int rank, const char *verb, struct gt_err *err)
{
	name_rank(g, rank, verb, "before", err);
	return gt_call_gone(err);
}

static int fail_gone(struct gt_shm *g, int rank, const char *verb, struct gt_err *err)
{
	name_gone_shm_rank(g, rank, verb, err);
	return gt_shm_fail(g, err);
}

/* ---- waiting ---- */

/* Without a descriptor, by its state: one that its parent has not looked at is a zombie. */
static bool process_is_dead(const struct gt_shm *g, int rank)
{
	struct pollfd p = { .fd = g->pidfds[rank], .events = POLLIN };
	char state;

	if (!g->processes)
		return false;
	if (p.fd >= 0)
		return poll(&p, 1, 0) > 0;
	state = process_state(g->pids[rank]);
	return !state || state == 'Z' || state == 'X';
}

int gt_shm_check_peers(struct gt_shm *g, bool *gone, struct gt_err *err)
{
	if (gt_shm_check(g, err))
		return err->code;
	for (int r = 0; !*gone && r < g->group.size; r++) {
		bool left = atomic_load(&g->areas[r].left);

		*gone = r != g->group.rank && (left || process_is_dead(g, r));
		if (*gone)
			name_gone_shm_rank(g, r, left ? "left the group" : "died", err);
	}
	return *gone ? err->code : 0;
}

/* Reasons to end a wait other than the flag. A rank may have moved its flag and then gone. */
static int look_around(
    struct gt_shm *g, struct gt_shm_flag *f, uint32_t value, int rank, struct gt_err *err)
{
	if (atomic_load(&g->quit))
		return gt_err_set(err, GT_EIO, "the group was stopped");
	if (gt_shm_check(g, err))
		return err->code;
	if (atomic_load(&g->areas[rank].left) && !reached(f, value))
		return fail_gone(g, rank, "left the group", err);
	return 0;
}

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb");
#endif
}

/* Whether the flag moved while spinning, or while yielding the processor, which is done at once
 * where ranks share processors. */
static bool spin(
    const struct gt_shm *g, const struct gt_shm_flag *f, uint32_t value, int rank, double from)
{
	bool together =
	    atomic_load_explicit(&g->areas[rank].cpu, memory_order_relaxed) == sched_getcpu();
	double now = from;

	while (!together && now < from + g->spin_s) {
		for (int i = 0; i < SPINS_PER_LOOK; i++) {
			if (reached(f, value))
				return true;
			relax();
		}
		now = gt_clock_s();
	}
	for (; now < from + g->spin_s + g->yield_s; now = gt_clock_s()) {
		sched_yield();
		if (reached(f, value))
			return true;
	}
	return false;
}

/* Sleep for at most look_s. Return the time by which the deadline moves: if the sleep took much
 * longer, this process was stopped, and the same signal may have stopped the others. */
static double sleep_briefly(struct gt_shm_flag *f, uint32_t value, double left)
{
	double seconds = left < look_s ? left > 0 ? left : 0 : look_s, from = gt_clock_s(), took;

	sleep_on_flag(f, value, seconds);
	took = gt_clock_s() - from;
	return took > seconds + stopped_s ? took : 0;
}

/*
 * A futex does not say that a process has died, so a sleeper wakes every look_s and looks. A rank
 * may set its flag and then end: its flag is read again after it is found dead or late.
 */
static int sleep_until(struct gt_shm *g, struct gt_shm_flag *f, uint32_t value, int rank,
    double from, struct gt_err *err)
{
	double left;

	while (!reached(f, value)) {
		if (look_around(g, f, value, rank, err))
			return err->code;
		if (g->elsewhere.look)
			g->elsewhere.look(g->elsewhere.self, g->names[rank]);
		left = from + g->timeout_s - gt_clock_s();
		if (process_is_dead(g, rank) && !reached(f, value))
			return fail_gone(g, rank, "died", err);
		if (left <= 0 && !reached(f, value))
			return fail_late(g, rank, err);
		from += sleep_briefly(f, value, left);
	}
	return 0;
}

int gt_shm_flag_wait(
    struct gt_shm *g, struct gt_shm_flag *f, uint32_t value, int rank, struct gt_err *err)
{
	_Atomic int32_t *awaits = &g->areas[g->group.rank].awaits;
	double from;
	int rc = 0;

	if (reached(f, value))
		return 0;
	from = gt_clock_s();
	if (!spin(g, f, value, rank, from)) {
		atomic_store(awaits, rank + 1);
		rc = sleep_until(g, f, value, rank, from, err);
		atomic_store(awaits, 0);
	}
	atomic_fetch_add_explicit(&g->areas[g->group.rank].waited_ns,
	    (uint64_t)(1e9 * (gt_clock_s() - from)), memory_order_relaxed);
	return rc;
}

double gt_shm_waited_s(const struct gt_group *group, int rank)
{
	const struct gt_shm *g = (const struct gt_shm *)group;

	return 1e-9 * (double)atomic_load_explicit(&g->areas[rank].waited_ns, memory_order_relaxed);
}
