/* wait.c - messages on their way, waiting for them for so long, and failing together. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/comm/mpi/state.h"

/* MPI gets on with its work when it is called: first without a pause, then letting others run,
 * then now and then. */
static const double yield_s = 1e-3, often_s = 50e-6, seldom_after_s = 20e-3, seldom_s = 500e-6;

/* A sleeper that oversleeps by so much did not run. */
static const double stopped_s = 0.3;

/* Time for cancelled messages to end and for a notice to be sent. */
static const double grace_s = 0.2;

/* ---- messages ---- */

static int tag_of(const struct gt_mpi_group *g, enum gt_mpi_tag tag)
{
	return g->context * GT_MPI_TAGS + (int)tag;
}

static struct gt_mpi_transfer *new_transfer(struct gt_mpi_set *set, int peer, bool receives)
{
	struct gt_mpi_transfer *f = &set->transfers[set->count++];

	*f = (struct gt_mpi_transfer){ .peer = peer, .receives = receives, .active = true };
	return f;
}

static int fail_transfer(
    struct gt_mpi_group *g, struct gt_mpi_transfer *f, int e, struct gt_err *err)
{
	char doing[64];

	f->active = false;
	snprintf(doing, sizeof(doing), "%s rank %d", f->receives ? "receive from" : "send to",
	    g->ranks[f->peer]);
	gt_mpi_error(g->mpi, e, doing, err);
	return gt_mpi_fail(g, err);
}

int gt_mpi_send(struct gt_mpi_group *g, struct gt_mpi_set *set, int peer, const void *p,
    size_t bytes, enum gt_mpi_tag tag, struct gt_err *err)
{
	struct gt_mpi_transfer *f = new_transfer(set, peer, false);
	int e = g->mpi->calls->send(&f->request, p, (int)bytes, g->ranks[peer], tag_of(g, tag));

	return e ? fail_transfer(g, f, e, err) : 0;
}

int gt_mpi_receive(struct gt_mpi_group *g, struct gt_mpi_set *set, int peer, void *p, size_t bytes,
    enum gt_mpi_tag tag, struct gt_err *err)
{
	struct gt_mpi_transfer *f = new_transfer(set, peer, true);
	int e = g->mpi->calls->receive(&f->request, p, (int)bytes, g->ranks[peer], tag_of(g, tag));

	return e ? fail_transfer(g, f, e, err) : 0;
}

/* See which have arrived. *came: one at least. Returns the first that has not, NULL if all have.
 * Receives come first: errors name a late sender rather than a late receiver. */
static struct gt_mpi_transfer *look_at(
    struct gt_mpi_group *g, struct gt_mpi_set *set, bool *came, struct gt_err *err)
{
	struct gt_mpi_transfer *first = NULL;

	for (int i = 0; i < set->count; i++) {
		struct gt_mpi_transfer *f = &set->transfers[i];
		int done = 0, e;

		if (!f->active)
			continue;
		e = g->mpi->calls->test(&f->request, &done);
		if (e) {
			fail_transfer(g, f, e, err);
			return f;
		}
		f->active = !done;
		*came = *came || done;
		if (!done && (!first || (f->receives && !first->receives)))
			first = f;
	}
	if (!first)
		set->count = 0;
	return first;
}

/* Give up: messages that MPI has not begun to move are cancelled; the others get a little time to
 * end, as their buffers belong to the caller again after this. False: not all did. */
static bool drop_set(struct gt_mpi_group *g, struct gt_mpi_set *set, double until)
{
	const struct gt_mpi_calls *calls = g->mpi->calls;
	bool all = true;

	for (int i = 0; i < set->count; i++) {
		struct gt_mpi_transfer *f = &set->transfers[i];
		int done = 0;

		if (!f->active)
			continue;
		f->active = false;
		if (f->receives)
			calls->cancel(&f->request);
		do
			if (calls->test(&f->request, &done))
				break;
		while (!done && gt_clock_s() < until);
		if (!done)
			calls->forget(&f->request);
		all = all && done;
	}
	set->count = 0;
	return all;
}

static void drop_transfers(struct gt_mpi_group *g)
{
	double until = gt_clock_s() + grace_s;

	for (int s = 0; s < GT_MPI_SETS; s++)
		drop_set(g, &g->sets[s], until);
}

/* Cancel the headers that are still being sent. MPI keeps the memory of those that it cannot
 * cancel. */
static void drop_headers(struct gt_mpi_group *g)
{
	double until = gt_clock_s() + grace_s;

	for (int r = 0; r < g->group.size; r++)
		if (!drop_set(g, &g->last_headers[r].set, until))
			g->last_headers[r].header = NULL;
}

/* ---- notices ---- */

int gt_mpi_listen(struct gt_mpi_group *g, struct gt_err *err)
{
	int e = g->mpi->calls->receive(
	    &g->inbox_request, &g->inbox, sizeof(g->inbox), -1, tag_of(g, GT_MPI_TAG_NOTICE));

	return e ? gt_mpi_error(g->mpi, e, "listen", err) : 0;
}

/* Take the notices that have come, until one of them is from a failed rank. */
static void read_inbox(struct gt_mpi_group *g)
{
	struct gt_err ignored;
	int done = 1;

	while (!g->failed.code && !g->mpi->calls->test(&g->inbox_request, &done) && done) {
		struct gt_mpi_notice n = g->inbox;

		n.text[sizeof(n.text) - 1] = n.hint[sizeof(n.hint) - 1] = '\0';
		if (n.rank >= 0 && n.rank < g->group.size && !n.code)
			g->left[n.rank] = true;
		if (n.code) {
			gt_err_set(&g->failed, n.code < 0 ? n.code : GT_EIO, "%s", n.text);
			gt_err_hint(&g->failed, "%s", n.hint);
			gt_err_follow(&g->failed);
		}
		if (gt_mpi_listen(g, &ignored))
			return;
	}
}

/* Send to all ranks that are still there. MPI keeps a notice that it cannot send soon. */
static void send_notice(struct gt_mpi_group *g, const struct gt_err *why)
{
	const struct gt_mpi_calls *calls = g->mpi->calls;
	struct gt_mpi_notice *n = gt_calloc(1, sizeof(*n), GT_ERR_IGNORED);
	size_t bytes = why ? sizeof(*n) : offsetof(struct gt_mpi_notice, text);
	double until = gt_clock_s() + grace_s;
	bool all_gone = true;

	if (!n)
		return;
	n->rank = g->group.rank;
	n->code = why ? why->code : 0;
	if (why) {
		memcpy(n->text, why->text, sizeof(n->text));
		memcpy(n->hint, why->hint, sizeof(n->hint));
	}
	for (int r = 0; r < g->group.size; r++) {
		struct gt_mpi_request request;
		int done = 0;

		if (r == g->group.rank || g->left[r] ||
		    calls->send(&request, n, (int)bytes, g->ranks[r], tag_of(g, GT_MPI_TAG_NOTICE)))
			continue;
		do
			if (calls->test(&request, &done))
				break;
		while (!done && gt_clock_s() < until);
		all_gone = all_gone && done;
	}
	if (all_gone)
		free(n);
}

int gt_mpi_fail(struct gt_mpi_group *g, struct gt_err *err)
{
	struct gt_err mine = *err;

	read_inbox(g);
	if (!g->failed.code) {
		g->failed = mine;
		send_notice(g, &mine);
	}
	drop_transfers(g);
	*err = g->failed;
	return err->code;
}

int gt_mpi_check(struct gt_mpi_group *g, struct gt_err *err)
{
	read_inbox(g);
	if (g->failed.code) {
		drop_transfers(g);
		*err = g->failed;
	}
	return g->failed.code;
}

void gt_mpi_leave(struct gt_mpi_group *g, bool notify)
{
	int done = 0;

	if (g->mpi->finished)
		return;
	drop_transfers(g);
	drop_headers(g);
	read_inbox(g);
	if (notify && !g->failed.code)
		send_notice(g, NULL);
	if (!g->mpi->calls->cancel(&g->inbox_request) &&
	    !g->mpi->calls->test(&g->inbox_request, &done) && !done)
		g->mpi->calls->forget(&g->inbox_request);
}

/* ---- saying so ---- */

/* "rank 2", or "rank 2 on host b" where there are several. */
static int name_rank(
    struct gt_mpi_group *g, int rank, const char *verb, const char *preposition, struct gt_err *err)
{
	int name = g->ranks[rank];
	char who[GT_MPI_HOST_BYTES + 32];

	snprintf(who, sizeof(who), "rank %d", name);
	if (g->mpi->hosts)
		snprintf(who, sizeof(who), "rank %d on host %s", name, g->mpi->hosts[name]);
	return gt_call_lost(err, &(struct gt_lost){ .who = who,
	                             .verb = verb,
	                             .preposition = preposition,
	                             .by = g->ranks[g->group.rank],
	                             .begun = g->begun,
	                             .call = &g->call,
	                             .last = g->number > 1 ? &g->last : NULL });
}

static int fail_late(struct gt_mpi_group *g, int rank, struct gt_err *err)
{
	name_rank(g, rank, "is late", "for", err);
	gt_err_hint(err,
	    "look at that rank's output, and whether its host can be reached; ranks wait for %g s, "
	    "which {timeout} sets",
	    g->timeout_s);
	return gt_mpi_fail(g, err);
}

static int name_gone_mpi_rank(struct gt_mpi_group *g, int rank, struct gt_err *err)
{
	name_rank(g, rank, "left the group", "before", err);
	return gt_call_gone(err);
}

static int fail_gone(struct gt_mpi_group *g, int rank, struct gt_err *err)
{
	name_gone_mpi_rank(g, rank, err);
	return gt_mpi_fail(g, err);
}

int gt_mpi_check_peers(struct gt_mpi_group *g, bool *gone, struct gt_err *err)
{
	int r = 0;

	if (gt_mpi_check(g, err))
		return err->code;
	while (r < g->group.size && !g->left[r])
		r++;
	*gone = r < g->group.size;
	return *gone ? name_gone_mpi_rank(g, r, err) : 0;
}

/* ---- waiting ---- */

static void rest(double seconds)
{
	nanosleep(&(struct timespec){ .tv_nsec = (long)(1e9 * seconds) }, NULL);
}

/* Returns by how much the deadline moves: if the pause was much too long, this process was stopped,
 * and so may have been the others, by the same hand. */
static double pause_after(const struct gt_mpi_group *g, double waited_s)
{
	double seconds = waited_s < seldom_after_s ? often_s : seldom_s, from, took;

	if (waited_s < g->spin_s)
		return 0;
	if (waited_s < yield_s) {
		sched_yield();
		return 0;
	}
	from = gt_clock_s();
	rest(seconds);
	took = gt_clock_s() - from;
	return took > stopped_s ? took : 0;
}

/* Reasons to end a wait other than a message. */
static int look_around(struct gt_mpi_group *g, struct gt_mpi_set *set,
    const struct gt_mpi_transfer *late, struct gt_err *err)
{
	bool came = false;
	int peer = late->peer;

	if (atomic_load(&g->quit))
		return gt_err_set(err, GT_EIO, "the group was stopped");
	if (gt_mpi_check(g, err))
		return err->code;
	if (!g->left[peer])
		return 0;
	/* Messages that the rank sent before it left may have come by now. */
	late = look_at(g, set, &came, err);
	if (err->code || !late || late->peer != peer || came)
		return err->code;
	return fail_gone(g, peer, err);
}

int gt_mpi_await(struct gt_mpi_group *g, struct gt_mpi_set *set, struct gt_err *err)
{
	double from = gt_clock_s(), now = from, since = from;

	for (;;) {
		bool came = false;
		struct gt_mpi_transfer *late;

		*err = GT_ERR_INIT;
		late = look_at(g, set, &came, err);
		if (!late || err->code)
			return err->code;
		now = gt_clock_s();
		if (came)
			from = since = now;
		if (now - since > g->spin_s && look_around(g, set, late, err))
			return err->code;
		if (late->active && now - from > g->timeout_s)
			return fail_late(g, late->peer, err);
		from += pause_after(g, now - since);
	}
}
