/* nccl_ranks.cc - the ranks of a simulated NCCL: the file they share, and the gates of a call. */
#include "tests/cudasim/lib/nccl_ranks.h"

#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

static const size_t span = (size_t)1 << 30; /* no device has more memory */
static const size_t seats_bytes = 1 << 15;

static_assert(CUDASIM_DEVICES * sizeof(seat) <= seats_bytes, "all seats have room");

/* ---- the file ---- */

static void die(const char *text)
{
	perror(text);
	abort();
}

struct cudasim_file nccl_new_file()
{
	return cudasim_file_of(cudasim_new_file(seats_bytes));
}

/* A rank holds the lock of the byte of its number as long as it has the file open. */
static struct flock lock_of(int rank)
{
	struct flock l = {};

	l.l_type = F_WRLCK;
	l.l_whence = SEEK_SET;
	l.l_start = rank;
	l.l_len = 1;
	return l;
}

std::shared_ptr<member> nccl_open(const struct cudasim_file &file, size_t size, int rank)
{
	bool made_here = file.process == getpid() && !rank;
	int fd = made_here ? file.fd : cudasim_open_file(&file);
	struct flock lock = lock_of(rank);
	void *p;

	if (fd < 0)
		return nullptr;
	if (fcntl(fd, F_OFD_SETLK, &lock)) {
		close(fd);
		return nullptr;
	}
	p = mmap(nullptr, seats_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		die("cudasim: memory of NCCL's ranks");
	return std::shared_ptr<member>(new member{ fd, (seat *)p, size, rank, 0, false, 0, 0, 0 });
}

member::~member()
{
	munmap(seats, seats_bytes);
	close(fd);
}

/* A rank that leaves says so before it closes the file. */
int nccl_lost_rank(const member &m)
{
	for (int r = 0; r < (int)m.size; r++) {
		struct flock lock = lock_of(r);
		bool joined = m.seats[r].joined;

		if (r == m.rank || !joined)
			continue;
		if (fcntl(m.fd, F_OFD_GETLK, &lock))
			die("cudasim: locks of NCCL's ranks");
		if (lock.l_type == F_UNLCK && !m.seats[r].left)
			return r;
	}
	return -1;
}

static off_t place_of(int rank, size_t offset)
{
	return (off_t)(seats_bytes + (size_t)rank * span + offset);
}

static void write_input(const member &m, const call &c, size_t bytes)
{
	for (size_t done = 0, n; done < bytes; done += n) {
		n = (size_t)pwrite(m.fd, (const char *)c.in + done, bytes - done,
		    place_of(m.rank, c.place + done));
		if ((ssize_t)n <= 0)
			die("cudasim: writing what NCCL's ranks share");
	}
}

/* ---- the gates ---- */

/* The channel that call c has at its other end. */
static int channel_at_other_end(const member &m, const call &c)
{
	return c.kind == SEND ? 2 * m.rank + 2 : c.kind == RECEIVE ? 2 * m.rank + 1 : 0;
}

void nccl_read(const member &m, const call &c, int rank, size_t offset, void *to, size_t bytes)
{
	offset += m.seats[rank].latest[channel_at_other_end(m, c)].place;
	for (ssize_t n; bytes; offset += (size_t)n, to = (char *)to + n, bytes -= (size_t)n) {
		n = pread(m.fd, to, bytes, place_of(rank, offset));
		if (n <= 0)
			die("cudasim: reading what NCCL's ranks share");
	}
}

static bool takes_part(const call &c, int rank)
{
	return !is_message(c) || rank == c.peer;
}

bool nccl_all_have(const member &m, const call &c, counters seat::*step)
{
	int channel = channel_at_other_end(m, c);

	for (int r = 0; r < (int)m.size; r++)
		if (takes_part(c, r) && (m.seats[r].*step)[channel] <= c.number)
			return false;
	return true;
}

/* All have reached it. */
static bool fits_together(const member &m, const call &c)
{
	for (int r = 0; r < (int)m.size; r++) {
		const call &other = m.seats[r].latest[channel_at_other_end(m, c)];

		if (!takes_part(c, r))
			continue;
		if (other.count != c.count || other.dtype != c.dtype ||
		    other.reduction != c.reduction || other.hangs || other.fails)
			return false;
		if (!is_message(c) && (other.kind != c.kind || other.peer != c.peer))
			return false;
	}
	return !c.hangs && !c.fails;
}

static size_t input_bytes(const member &m, const call &c)
{
	size_t bytes = c.count * nccl_size_of(c.dtype);

	if (c.kind == RECEIVE || (c.kind == BROADCAST && c.peer != m.rank))
		return 0;
	return c.kind == REDUCE_SCATTER ? bytes * m.size : bytes;
}

static void queue_gate(
    cudaStream_t stream, const std::function<bool()> &may, const std::function<void()> &run)
{
	item i = {};

	i.kind = item::GATE;
	i.behind = std::make_shared<gate>(gate{ may, run });
	cudasim_queue(stream, i);
}

static bool has_turn(const launch &l)
{
	return !l.by->aborted && l.by->ended == l.turn;
}

/* Whether the launch that comes before it, if there is one, has come far enough. */
static bool is_behind(const launch &l)
{
	return !l.behind || (l.serial ? l.behind->ended : l.behind->begun);
}

static bool may_begin(const launch &l)
{
	return has_turn(l) && is_behind(l) &&
	       cudasim_held[l.by->own().device] + l.by->blocks <= CUDASIM_PLACES;
}

static void begin(launch *l)
{
	member &m = *l->by;
	size_t place = 0;

	l->begun = true;
	l->behind.reset();
	if (!has_turn(*l))
		return;
	l->holds = true;
	cudasim_held[m.own().device] += m.blocks;
	for (call &c : l->calls) {
		c.place = place;
		place += input_bytes(m, c);
		write_input(m, c, input_bytes(m, c));
		m.own().latest[c.channel] = c;
		m.own().reached[c.channel]++;
	}
}

static bool can_take(const member &m, const call &c)
{
	bool all = nccl_all_have(m, c, &seat::reached);

	if (all && c.fails)
		const_cast<member &>(m).error = GT_NCCL_REMOTE_ERROR;
	return all && fits_together(m, c);
}

/* The first call that can take and has not; or the number of calls. */
static size_t next_to_take(const launch &l)
{
	size_t i = 0;

	while (i < l.calls.size() && (l.taken[i] || !has_turn(l) || !can_take(*l.by, l.calls[i])))
		i++;
	return i;
}

static void take(launch *l)
{
	size_t i = next_to_take(*l);

	if (i == l->calls.size())
		return;
	nccl_take(*l->by, l->calls[i]);
	l->by->own().taken[l->calls[i].channel]++;
	l->taken[i] = true;
}

static bool can_leave(const launch &l)
{
	for (const call &c : l.calls)
		if (!nccl_all_have(*l.by, c, &seat::taken))
			return false;
	return has_turn(l);
}

static void leave(launch *l)
{
	l->by->ended += can_leave(*l);
	if (l->holds)
		cudasim_held[l->by->own().device] -= l->by->blocks;
	l->ended = true;
}

/* The gates of a communicator that is aborted open too early, so the work behind them looks once
 * more. */
void nccl_queue(const std::shared_ptr<launch> &l)
{
	queue_gate(
	    l->stream, [l] { return l->by->aborted || may_begin(*l); }, [l] { begin(l.get()); });
	for (size_t i = 0; i < l->calls.size(); i++)
		queue_gate(
		    l->stream, [l] { return l->by->aborted || next_to_take(*l) < l->calls.size(); },
		    [l] { take(l.get()); });
	queue_gate(
	    l->stream, [l] { return l->by->aborted || can_leave(*l); }, [l] { leave(l.get()); });
}
