/* thread_peers.c - ranks that are threads of one process wait for each other on the host. */
#include "kernels/cuda/group/thread_peers.h"

#include <stdlib.h>

#include "kernels/cuda/group/ranks.h"
#include "kernels/cuda/runtime/host_call.h"
#include "lib/base/mem.h"
#include "lib/base/text.h"

/*
 * Ranks of a group that are threads of one process are called thread peers. CUDA makes a launch
 * wait, on the host, once about 1024 operations of the process are queued and not done. Suppose a
 * rank queues a collective and then 1024 more operations, and a thread peer has not queued the same
 * collective yet. Then the launch of the thread peer waits for these operations, and they wait for
 * the thread peer: a deadlock.
 *
 * So thread peers wait for each other on the host, without a call of CUDA:
 *
 *   after a collective       until all of them have queued the same collective
 *   in a long collective     until all of them are at most N acts behind. The ring algorithm cuts
 *                            buffers into chunks; an act is the work on one chunk in one step
 *                            of the ring (lib/comm/ring/collectives.c). N is
 *                            GT_CUDA_THREAD_PEERS_ACTS divided by the number of ranks in the
 *                            process, but at least 2
 *   before a message         until the peer has queued the previous message of the same direction
 *   in a long message        until the peer is at most 2 N chunks behind: a chunk of a message
 *                            takes half as many operations as an act
 *   after a receive          until the peer has queued the matching send. Otherwise later work on
 *                            the caller's stream, which waits for the message, could fill the
 *                            1024 operations
 *
 * For messages, gt_group_run() waits in the last two cases, and gt_group_exchange() in the last.
 * gt_group_start() does not: two messages in opposite directions would wait for each other.
 *
 * If the group fails, these waits end with the error of the group. They also end, with an error,
 * when gt_group_stop() is called. They have no timeout of their own. The watch, a thread of the
 * group (group.h), has a timeout: when it expires, the group fails. If no rank of the group has a
 * thread peer, g->thread_peers is NULL, and the functions of thread_peers.h do nothing.
 */

/*
 * The progress of a rank, in memory that all ranks share. The lock and the condition of a process
 * are those of its lowest rank, in whose progress they lie. Both stay as they are until the memory
 * is unmapped.
 */
struct progress {
	pthread_mutex_t lock;
	pthread_cond_t change; /* a number of a thread peer has changed */
	/* how far the rank has come: the number of collectives that it has queued, times 2^32, plus
	 * the acts of the next one */
	uint64_t at;
};

/* How far a rank has come with messages to and from one other rank: the number of messages that it
 * has queued, times 2^32, plus the chunks of the next one. */
struct messages {
	uint64_t sent, received;
};

struct gt_cuda_thread_peers {
	struct progress *progress; /* [size] */
	struct messages *messages; /* [size * size]: rank r with rank s at r * size + s */
	uint64_t collectives;      /* collectives that this rank has queued */
	uint32_t acts;             /* a thread peer may be so many behind */
	int first;                 /* the lowest rank of the process */
	bool is_thread_peer[];     /* [size]; this rank is one, too */
};

/* The facts that the ranks exchange. */
struct rank_info {
	struct gt_cuda_rank_info rank;
	/* the streams of the rank's process on its GPU, and the hardware queues of the GPU */
	int32_t streams, queues;
};

/* ---- finding the thread peers ---- */

/*
 * Return the number of hardware queues to which CUDA maps the streams of a GPU: the value of
 * CUDA_DEVICE_MAX_CONNECTIONS, at most 32; 8 if it is not set (CUDA C++ Programming Guide, "CUDA
 * Environment Variables").
 */
static int count_queues(void)
{
	const char *text = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
	int64_t queues;

	if (!text || !gt_text_parse_int(&queues, text) || queues < 1)
		return 8;
	return queues < 32 ? (int)queues : 32;
}

static bool share_gpu(const struct rank_info *a, const struct rank_info *b)
{
	return gt_cuda_same_process(&a->rank, &b->rank) && a->rank.index == b->rank.index;
}

/* The default stream, by which memory is allocated, and the one that times algorithms. */
enum { OTHER_STREAMS = 2 };

/*
 * A stream that waits for another rank holds up the streams behind it in its queue, and one of
 * them may have the work that it waits for. Each rank counted the streams when it had made its own.
 * The highest count is that of the last rank, which saw those of all. While the process has never
 * had more of them at a time than queues, each has its own (kernels/cuda/runtime/queues.h).
 */
static int check_queues(const struct rank_info *infos, int size, struct gt_err *err)
{
	for (int r = 0; r < size; r++) {
		int ranks = 0, streams = 0;

		for (int s = 0; s < size; s++) {
			if (!share_gpu(&infos[r], &infos[s]))
				continue;
			ranks++;
			streams = streams > infos[s].streams ? streams : infos[s].streams;
		}
		streams += OTHER_STREAMS;
		if (ranks == 1 || streams <= infos[r].queues)
			continue;
		gt_err_set(err, GT_EDEVICE, "%s: %d streams of the ranks share %d queues",
		    infos[r].rank.gpu, streams, infos[r].queues);
		return gt_err_hint(err, "%s",
		    infos[r].queues < 32
		        ? "set CUDA_DEVICE_MAX_CONNECTIONS=32 in the environment, or put fewer "
		          "ranks on this GPU"
		        : "put fewer ranks on this GPU, or let ranks be processes");
	}
	return 0;
}

static int check_infos(const struct rank_info *infos, int size, int mine, struct gt_err *err)
{
	for (int r = 0; r < size; r++)
		if (infos[r].rank.error.code)
			return gt_cuda_rank_error_pass(&infos[r].rank.error, r, mine, err);
	return check_queues(infos, size, err);
}

/* Whether any rank has a thread peer: all ranks find the same in the
 * gathered infos. */
static bool have_thread_peers(const struct rank_info *infos, int size)
{
	for (int r = 0; r < size; r++)
		for (int s = 0; s < r; s++)
			if (gt_cuda_same_process(&infos[r].rank, &infos[s].rank))
				return true;
	return false;
}

static struct gt_cuda_thread_peers *new_thread_peers(
    const struct gt_cuda_group *g, const struct rank_info *infos, struct gt_err *err)
{
	const int size = g->group.size;
	struct gt_cuda_thread_peers *m =
	    gt_calloc(1, sizeof(*m) + (size_t)size * sizeof(bool), err);
	int count = 0;

	if (!m)
		return NULL;
	m->first = -1;
	for (int r = 0; r < size; r++) {
		m->is_thread_peer[r] =
		    gt_cuda_same_process(&infos[r].rank, &infos[g->group.rank].rank);
		if (m->is_thread_peer[r] && m->first < 0)
			m->first = r;
		count += m->is_thread_peer[r];
	}
	m->acts = GT_CUDA_THREAD_PEERS_ACTS > 2 * count
	              ? (uint32_t)(GT_CUDA_THREAD_PEERS_ACTS / count)
	              : 2;
	return m;
}

static int share_progress(
    struct gt_cuda_group *g, struct gt_cuda_thread_peers *m, struct gt_err *err)
{
	const size_t size = (size_t)g->group.size;
	void *memory;

	if (gt_group_share(g->host,
	        size * sizeof(struct progress) + size * size * sizeof(struct messages), &memory,
	        err))
		return err->code;
	m->progress = memory;
	m->messages = (void *)(m->progress + size);
	if (m->first == g->group.rank) {
		pthread_mutex_init(&m->progress[m->first].lock, NULL);
		pthread_cond_init(&m->progress[m->first].change, NULL);
	}
	return 0;
}

/* Gather and check the infos of all ranks. The caller frees *out. */
static int gather_infos(struct gt_group *host, const struct gt_device *device,
    struct rank_info **out, struct gt_err *err)
{
	struct gt_err own = GT_ERR_INIT;
	struct rank_info mine = { .streams = gt_cuda_count_stream(device->index, 0),
		.queues = count_queues(),
		.rank = gt_cuda_rank_info_of(device, &own) };
	void *gathered;
	int rc = gt_cuda_gather_new(host, &mine, sizeof(mine), &gathered, err);

	*out = gathered;
	return rc ? rc : check_infos(*out, host->size, host->rank, err);
}

int gt_cuda_check_queues(struct gt_group *host, const struct gt_device *device, struct gt_err *err)
{
	struct rank_info *infos;
	int rc = gather_infos(host, device, &infos, err);

	free(infos);
	return rc;
}

/*
 * Find the thread peers, and set g->thread_peers. All ranks of the group must call this. Call it
 * after g->stream is created and before links->connect() (struct gt_cuda_links). Call the functions
 * below, except gt_cuda_thread_peers_free(), only after connect() has returned, because they use a
 * lock that one of the thread peers initializes. connect() waits for all ranks, and so also for the
 * rank that initializes the lock.
 *
 * Errors: GT_EDEVICE on all ranks if thread peers share a GPU and it has too few hardware queues
 * for the streams of their process (kernels/cuda/runtime/queues.h); the errors of lib/comm/group.h.
 */
int gt_cuda_thread_peers_find(struct gt_cuda_group *g, struct gt_err *err)
{
	struct gt_err own = GT_ERR_INIT;
	struct rank_info *infos;
	int rc = gather_infos(g->host, g->device, &infos, err);

	if (!rc && have_thread_peers(infos, g->group.size)) {
		struct gt_cuda_thread_peers *m = new_thread_peers(g, infos, &own);

		rc = gt_cuda_agree(g->host, &own, err);
		if (!rc)
			rc = share_progress(g, m, err);
		if (!rc)
			g->thread_peers = m;
		else
			free(m);
	}
	free(infos);
	return rc;
}

void gt_cuda_thread_peers_free(struct gt_cuda_group *g)
{
	free(g->thread_peers);
	g->thread_peers = NULL;
}

/* ---- waiting ---- */

static struct progress *progress_of_process(const struct gt_cuda_thread_peers *m)
{
	return &m->progress[m->first];
}

static bool is_over(struct gt_cuda_group *g)
{
	bool over;

	pthread_mutex_lock(&g->lock);
	over = g->failed || g->stopped;
	pthread_mutex_unlock(&g->lock);
	return over;
}

/* Wait until *number of a thread peer is at least `least`, or the group fails. The caller holds the
 * lock of the process. */
static void await(struct gt_cuda_group *g, const uint64_t *number, uint64_t least)
{
	struct progress *process = progress_of_process(g->thread_peers);

	while (*number < least && !is_over(g))
		pthread_cond_wait(&process->change, &process->lock);
}

static int result_of(struct gt_cuda_group *g, struct gt_err *err)
{
	if (gt_cuda_group_failed(g, err))
		return err->code;
	return is_over(g) ? gt_err_set(err, GT_EIO, "the group was stopped") : 0;
}

/*
 * This rank has come to `at`; wait until no thread peer is more than `behind` behind. The rank that
 * is the furthest behind never waits.
 */
static int come_to(struct gt_cuda_group *g, uint64_t at, uint32_t behind, struct gt_err *err)
{
	struct gt_cuda_thread_peers *m = g->thread_peers;
	struct progress *process = progress_of_process(m);

	pthread_mutex_lock(&process->lock);
	m->progress[g->group.rank].at = at;
	pthread_cond_broadcast(&process->change);
	for (int r = 0; r < g->group.size; r++)
		if (m->is_thread_peer[r])
			await(g, &m->progress[r].at, at > behind ? at - behind : 0);
	pthread_mutex_unlock(&process->lock);
	return result_of(g, err);
}

static bool is_message(const struct gt_collective *c)
{
	return c->kind == GT_SEND || c->kind == GT_RECV;
}

static struct messages *messages_of(const struct gt_cuda_group *g, int rank, int peer)
{
	return &g->thread_peers->messages[rank * g->group.size + peer];
}

/* The place of a rank, in messages of the direction of *c. */
static uint64_t *message_counter(
    struct gt_cuda_group *g, const struct gt_collective *c, bool is_mine)
{
	struct messages *m = is_mine ? messages_of(g, g->group.rank, c->peer)
	                             : messages_of(g, c->peer, g->group.rank);

	return (c->kind == GT_SEND) == is_mine ? &m->sent : &m->received;
}

/* Wait until the thread peer at the other end of the message is where this rank is. */
static int meet_thread_peer(
    struct gt_cuda_group *g, const struct gt_collective *c, struct gt_err *err)
{
	struct progress *process;

	if (!g->thread_peers || !g->thread_peers->is_thread_peer[c->peer])
		return 0;
	process = progress_of_process(g->thread_peers);
	pthread_mutex_lock(&process->lock);
	await(g, message_counter(g, c, false), *message_counter(g, c, true));
	pthread_mutex_unlock(&process->lock);
	return result_of(g, err);
}

int gt_cuda_thread_peers_before(
    struct gt_cuda_group *g, const struct gt_collective *c, struct gt_err *err)
{
	return is_message(c) ? meet_thread_peer(g, c, err) : 0;
}

int gt_cuda_thread_peers_meet(
    struct gt_cuda_group *g, const struct gt_collective *c, struct gt_err *err)
{
	return c->kind == GT_RECV ? meet_thread_peer(g, c, err) : 0;
}

static void count_message(struct gt_cuda_group *g, const struct gt_collective *c)
{
	struct progress *process = progress_of_process(g->thread_peers);
	uint64_t *mine = message_counter(g, c, true);

	pthread_mutex_lock(&process->lock);
	*mine = ((*mine >> 32) + 1) << 32;
	pthread_cond_broadcast(&process->change);
	pthread_mutex_unlock(&process->lock);
}

/* Report progress every m->acts chunks. */
int gt_cuda_thread_peers_along(
    struct gt_cuda_group *g, const struct gt_collective *c, uint32_t chunks, struct gt_err *err)
{
	struct gt_cuda_thread_peers *m = g->thread_peers;
	struct progress *process;
	uint64_t *mine;

	if (!m || !m->is_thread_peer[c->peer] || chunks % m->acts)
		return 0;
	process = progress_of_process(m);
	mine = message_counter(g, c, true);
	pthread_mutex_lock(&process->lock);
	*mine = (*mine >> 32 << 32) + chunks;
	pthread_cond_broadcast(&process->change);
	if (g->runs && chunks > 2 * m->acts)
		await(g, message_counter(g, c, false), *mine - 2 * m->acts);
	pthread_mutex_unlock(&process->lock);
	return result_of(g, err);
}

/* Report progress every m->acts / 2 acts: twice as often as thread peers may have to wait, so that
 * they rarely do. */
int gt_cuda_thread_peers_within(struct gt_cuda_group *g, uint32_t acts, struct gt_err *err)
{
	struct gt_cuda_thread_peers *m = g->thread_peers;

	if (!m || acts % (m->acts / 2))
		return 0;
	return come_to(g, (m->collectives << 32) + acts, m->acts, err);
}

int gt_cuda_thread_peers_after(
    struct gt_cuda_group *g, const struct gt_collective *c, struct gt_err *err)
{
	struct gt_cuda_thread_peers *m = g->thread_peers;

	if (!m)
		return 0;
	if (!is_message(c))
		return come_to(g, ++m->collectives << 32, 0, err);
	if (m->is_thread_peer[c->peer])
		count_message(g, c);
	return 0;
}

/* Take the lock before the signal: a thread peer that has just checked for failure is then asleep,
 * and wakes up. */
void gt_cuda_thread_peers_wake(struct gt_cuda_group *g)
{
	struct progress *process;

	if (!g->thread_peers)
		return;
	process = progress_of_process(g->thread_peers);
	pthread_mutex_lock(&process->lock);
	pthread_cond_broadcast(&process->change);
	pthread_mutex_unlock(&process->lock);
}
