/* wait.c - messages on their way, waiting for them for so long, and failing together. */
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/comm/messages/state.h"

/* MPI gets on with its work when it is called: first without a pause, then letting others run,
 * then now and then. A messenger that wakes sleeps at once, and then only looks whether the group
 * was stopped. */
static const double yield_s = 1e-3, often_s = 50e-6, seldom_after_s = 20e-3, seldom_s = 500e-6;
static const double woken_s = 5e-3;

/* A wait is noted once it is so long. */
static const double note_s = 20e-3;

/* A sleeper that oversleeps by so much did not run. */
static const double stopped_s = 0.3;

/* Time for cancelled messages to end and for a notice to be sent. */
static const double grace_s = 0.2;

/* ---- messages ---- */

/* Set *err to "mpi cannot DOING: " and the messenger's text for `error`. */
static int fail_call(struct gt_messenger *m, int error, const char *doing, struct gt_err *err)
{
	char text[256] = "";

	m->ops->explain(m, error, text, sizeof(text));
	return gt_err_set(err, GT_EIO, "%s cannot %s: %s", m->ops->name, doing, text);
}

static int tag_of(const struct gt_msg_group *g, enum gt_msg_tag tag)
{
	return g->context * GT_MSG_TAGS + (int)tag;
}

static struct gt_msg_transfer *new_transfer(struct gt_msg_set *set, int peer, bool receives)
{
	struct gt_msg_transfer *f = &set->transfers[set->count++];

	*f = (struct gt_msg_transfer){ .peer = peer, .receives = receives, .active = true };
	return f;
}

static int fail_transfer(
    struct gt_msg_group *g, struct gt_msg_transfer *f, int e, struct gt_err *err)
{
	char doing[64];

	f->active = false;
	snprintf(doing, sizeof(doing), "%s rank %d", f->receives ? "receive from" : "send to",
	    g->ranks[f->peer]);
	fail_call(g->messenger, e, doing, err);
	return gt_msg_fail(g, err);
}

int gt_msg_send(struct gt_msg_group *g, struct gt_msg_set *set, int peer, const void *p,
    size_t bytes, enum gt_msg_tag tag, struct gt_err *err)
{
	struct gt_msg_transfer *f = new_transfer(set, peer, false);
	struct gt_messenger *m = g->messenger;
	int e = m->ops->send(m, &f->request, p, bytes, g->ranks[peer], tag_of(g, tag));

	return e ? fail_transfer(g, f, e, err) : 0;
}

int gt_msg_receive(struct gt_msg_group *g, struct gt_msg_set *set, int peer, void *p, size_t bytes,
    enum gt_msg_tag tag, struct gt_err *err)
{
	struct gt_msg_transfer *f = new_transfer(set, peer, true);
	struct gt_messenger *m = g->messenger;
	int e = m->ops->receive(m, &f->request, p, bytes, g->ranks[peer], tag_of(g, tag));

	return e ? fail_transfer(g, f, e, err) : 0;
}

/* See which have arrived. *came: one at least. Returns the first that has not, NULL if all have.
 * Receives come first: errors name a late sender rather than a late receiver. */
static struct gt_msg_transfer *look_at(
    struct gt_msg_group *g, struct gt_msg_set *set, bool *came, struct gt_err *err)
{
	struct gt_msg_transfer *first = NULL;

	g->messenger->ops->progress(g->messenger, 0);
	for (int i = 0; i < set->count; i++) {
		struct gt_msg_transfer *f = &set->transfers[i];
		int done = 0, e;

		if (!f->active)
			continue;
		e = g->messenger->ops->test(g->messenger, &f->request, &done);
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

/* Test a request until it has ended or a time has come. */
static int test_until(
    struct gt_messenger *m, struct gt_msg_request *request, int *done, double until)
{
	int e;

	while (!(e = m->ops->test(m, request, done)) && !*done && gt_clock_s() < until)
		m->ops->progress(m, 0);
	return e;
}

/* Give up: messages that the messenger has not begun to move are cancelled; the others get a little
 * time to end, as their buffers belong to the caller again after this. False: not all did. */
static bool drop_set(struct gt_msg_group *g, struct gt_msg_set *set, double until)
{
	struct gt_messenger *m = g->messenger;
	bool all = true;

	for (int i = 0; i < set->count; i++) {
		struct gt_msg_transfer *f = &set->transfers[i];
		int done = 0;

		if (!f->active)
			continue;
		f->active = false;
		if (f->receives)
			m->ops->cancel(m, &f->request);
		if (!test_until(m, &f->request, &done, until) && !done)
			m->ops->forget(m, &f->request);
		all = all && done;
	}
	set->count = 0;
	return all;
}

static void drop_transfers(struct gt_msg_group *g)
{
	double until = gt_clock_s() + grace_s;

	for (int s = 0; s < GT_MSG_SETS; s++)
		drop_set(g, &g->sets[s], until);
}

/* Cancel the headers that are still being sent. The messenger keeps the memory of those that
 * cannot be cancelled. */
static void drop_headers(struct gt_msg_group *g)
{
	double until = gt_clock_s() + grace_s;

	for (int r = 0; r < g->group.size; r++)
		if (!drop_set(g, &g->last_headers[r].set, until))
			g->last_headers[r].header = NULL;
}

/* ---- notices ---- */

int gt_msg_listen(struct gt_msg_group *g, struct gt_err *err)
{
	struct gt_messenger *m = g->messenger;
	int e = m->ops->receive(
	    m, &g->inbox_request, &g->inbox, sizeof(g->inbox), -1, tag_of(g, GT_MSG_TAG_NOTICE));

	return e ? fail_call(m, e, "listen", err) : 0;
}

/* Take the notices that have come, until one of them is from a failed rank. */
static void read_inbox(struct gt_msg_group *g)
{
	struct gt_err ignored;
	int done = 1;

	while (!g->failed.code &&
	       !g->messenger->ops->test(g->messenger, &g->inbox_request, &done) && done) {
		struct gt_msg_notice n = g->inbox;

		n.text[sizeof(n.text) - 1] = n.hint[sizeof(n.hint) - 1] = '\0';
		if (n.rank >= 0 && n.rank < g->group.size && !n.code)
			g->left[n.rank] = true;
		if (n.code) {
			gt_err_set(&g->failed, n.code < 0 ? n.code : GT_EIO, "%s", n.text);
			gt_err_hint(&g->failed, "%s", n.hint);
			gt_err_follow(&g->failed);
			g->failed.lost = n.lost;
		}
		if (gt_msg_listen(g, &ignored))
			return;
	}
}

/* Send to all ranks that are still there. The messenger keeps a notice that it cannot
 * send soon. */
static void send_notice(struct gt_msg_group *g, const struct gt_err *why)
{
	struct gt_messenger *m = g->messenger;
	struct gt_msg_notice *n = gt_calloc(1, sizeof(*n), GT_ERR_IGNORED);
	size_t bytes = why ? sizeof(*n) : offsetof(struct gt_msg_notice, text);
	double until = gt_clock_s() + grace_s;
	bool all_gone = true;

	if (!n)
		return;
	n->rank = g->group.rank;
	n->code = why ? why->code : 0;
	n->lost = why ? why->lost : 0;
	if (why) {
		memcpy(n->text, why->text, sizeof(n->text));
		memcpy(n->hint, why->hint, sizeof(n->hint));
	}
	for (int r = 0; r < g->group.size; r++) {
		struct gt_msg_request request;
		int done = 0;

		if (r == g->group.rank || g->left[r] ||
		    m->ops->send(m, &request, n, bytes, g->ranks[r], tag_of(g, GT_MSG_TAG_NOTICE)))
			continue;
		test_until(m, &request, &done, until);
		all_gone = all_gone && done;
	}
	if (all_gone)
		free(n);
}

int gt_msg_fail(struct gt_msg_group *g, struct gt_err *err)
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

int gt_msg_check(struct gt_msg_group *g, struct gt_err *err)
{
	read_inbox(g);
	if (g->failed.code) {
		drop_transfers(g);
		*err = g->failed;
	}
	return g->failed.code;
}

void gt_msg_leave(struct gt_msg_group *g, bool notify)
{
	struct gt_messenger *m = g->messenger;
	int done = 0;

	if (m->finished)
		return;
	drop_transfers(g);
	drop_headers(g);
	read_inbox(g);
	if (notify && !g->failed.code)
		send_notice(g, NULL);
	if (!m->ops->cancel(m, &g->inbox_request) && !m->ops->test(m, &g->inbox_request, &done) &&
	    !done)
		m->ops->forget(m, &g->inbox_request);
}

/* ---- saying so ---- */

const char *gt_msg_rank_name(char out[GT_MSG_RANK_NAME], const struct gt_messenger *m, int rank)
{
	if (m->hosts)
		snprintf(out, GT_MSG_RANK_NAME, "rank %d on host %s", rank, m->hosts[rank]);
	else
		snprintf(out, GT_MSG_RANK_NAME, "rank %d", rank);
	return out;
}

/* `name` is the messenger's number of a rank. */
static int name_rank(
    struct gt_msg_group *g, int name, const char *verb, const char *preposition, struct gt_err *err)
{
	char who[GT_MSG_RANK_NAME];

	return gt_call_lost(
	    err, &(struct gt_lost){ .who = gt_msg_rank_name(who, g->messenger, name),
	             .rank = name,
	             .verb = verb,
	             .preposition = preposition,
	             .by = g->ranks[g->group.rank],
	             .begun = g->begun,
	             .call = &g->call,
	             .last = g->number > 1 ? &g->last : NULL });
}

/* Another rank may have found the cause while this one asked for it. */
static int fail_late(struct gt_msg_group *g, int rank, struct gt_err *err)
{
	struct gt_messenger *m = g->messenger;
	int name = m->ops->find_late ? m->ops->find_late(m, g->ranks[rank]) : g->ranks[rank];

	if (gt_msg_check(g, err))
		return err->code;
	name_rank(g, name, "is late", "for", err);
	gt_err_hint(err,
	    "look at that rank's output, and whether its host can be reached; ranks wait for %g s, "
	    "which {timeout} sets",
	    g->timeout_s);
	return gt_msg_fail(g, err);
}

/* Return how a rank is gone, such as "died"; NULL: it is there. */
static const char *how_gone(struct gt_msg_group *g, int rank)
{
	struct gt_messenger *m = g->messenger;
	const char *how =
	    m->ops->lost && rank != g->group.rank ? m->ops->lost(m, g->ranks[rank]) : NULL;

	/* A rank that leaves says so before its connection ends. */
	if (how)
		read_inbox(g);
	return g->left[rank] ? "left the group" : how;
}

static int name_gone_msg_rank(struct gt_msg_group *g, int rank, const char *how, struct gt_err *err)
{
	name_rank(g, g->ranks[rank], how, "before", err);
	return gt_call_gone(err);
}

int gt_msg_check_peers(struct gt_msg_group *g, bool *gone, struct gt_err *err)
{
	const char *how = NULL;
	int r = -1;

	g->messenger->ops->progress(g->messenger, 0);
	if (gt_msg_check(g, err))
		return err->code;
	while (!how && ++r < g->group.size)
		how = how_gone(g, r);
	*gone = how;
	/* The inbox may have said why. */
	if (how && gt_msg_check(g, err))
		return err->code;
	return how ? name_gone_msg_rank(g, r, how, err) : 0;
}

/* ---- waiting ---- */

/* Returns by how much the deadline moves: if the pause was much too long, this process was stopped,
 * and so may have been the others, by the same hand. */
static double pause_after(const struct gt_msg_group *g, double waited_s)
{
	const bool wakes = g->messenger->ops->wakes;
	double seconds = wakes ? woken_s : waited_s < seldom_after_s ? often_s : seldom_s;
	double from, took;

	if (waited_s < g->spin_s)
		return 0;
	if (!wakes && waited_s < yield_s) {
		sched_yield();
		return 0;
	}
	from = gt_clock_s();
	g->messenger->ops->progress(g->messenger, seconds);
	took = gt_clock_s() - from;
	return took > stopped_s ? took : 0;
}

/* Reasons to end a wait other than a message. */
static int look_around(struct gt_msg_group *g, struct gt_msg_set *set,
    const struct gt_msg_transfer *late, struct gt_err *err)
{
	bool came = false;
	int peer = late->peer;
	const char *how;

	if (atomic_load(&g->quit))
		return gt_err_set(err, GT_EIO, "the group was stopped");
	if (gt_msg_check(g, err))
		return err->code;
	how = how_gone(g, peer);
	if (!how)
		return 0;
	/* Messages that the rank sent before it left may have come by now. */
	late = look_at(g, set, &came, err);
	if (err->code || !late || late->peer != peer || came)
		return err->code;
	if (!gt_msg_check(g, err)) {
		name_gone_msg_rank(g, peer, how, err);
		gt_msg_fail(g, err);
	}
	return err->code;
}

/* Other ranks may ask for the rank that this one waits for. */
static void note_wait(struct gt_msg_group *g, struct gt_msg_wait *wait, int rank, double since)
{
	const struct gt_messenger_ops *ops = g->messenger->ops;

	if (!ops->begin_wait || wait->rank == rank)
		return;
	if (wait->rank >= 0)
		ops->end_wait(g->messenger, wait);
	*wait = (struct gt_msg_wait){ .rank = rank, .since = since, .until = INFINITY };
	ops->begin_wait(g->messenger, wait);
}

static int await_set(
    struct gt_msg_group *g, struct gt_msg_set *set, struct gt_msg_wait *wait, struct gt_err *err)
{
	double from = gt_clock_s(), now = from, since = from;

	for (;;) {
		bool came = false;
		struct gt_msg_transfer *late;

		*err = GT_ERR_INIT;
		late = look_at(g, set, &came, err);
		if (!late || err->code)
			return err->code;
		now = gt_clock_s();
		if (came)
			from = since = now;
		if (now - since > note_s)
			note_wait(g, wait, g->ranks[late->peer], since);
		if (now - since > g->spin_s && look_around(g, set, late, err))
			return err->code;
		if (late->active && now - from > g->timeout_s)
			return fail_late(g, late->peer, err);
		from += pause_after(g, now - since);
	}
}

int gt_msg_await(struct gt_msg_group *g, struct gt_msg_set *set, struct gt_err *err)
{
	struct gt_msg_wait wait = { .rank = -1 };
	int rc = await_set(g, set, &wait, err);

	if (wait.rank >= 0)
		g->messenger->ops->end_wait(g->messenger, &wait);
	return rc;
}
