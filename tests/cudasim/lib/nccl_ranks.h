/* nccl_ranks.h - inside tests/cudasim/lib: the ranks of a simulated NCCL, and memory they share. */
#ifndef GT_TESTS_CUDASIM_LIB_NCCL_RANKS_H
#define GT_TESTS_CUDASIM_LIB_NCCL_RANKS_H

#include <atomic>
#include <memory>

#include "kernels/cuda/nccl/api.h"
#include "tests/cudasim/inside.h"

/*
 * The ranks of a communicator are threads or processes: for both they share a file without a name,
 * whose number is the communicator's id. The file ends with the last process that has it open.
 *
 *   page 0    a seat of each rank, which that rank alone writes
 *   behind    the input of each rank's call, in so many bytes as a device may have; mostly holes
 *
 * A call goes through three gates of its stream. Ranks A and B, and a sum of x into y:
 *
 *   reach   A copies its x to the file
 *   take    when A and B have reached it, and their calls fit together: A reads the x of both, and
 *           writes y
 *   leave   when A and B have taken it: from now on A may overwrite its x in the file
 *
 * So a rank touches the memory of its own process alone, and its calls follow each other.
 */

enum { ALL_REDUCE, REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, SEND, RECEIVE };

struct call {
	int kind;
	const void *in; /* addresses of the rank's own process */
	void *out;
	size_t count;
	int dtype, reduction;
	int peer;          /* the root; the other end of a message */
	bool hangs, fails; /* planted: it never ends; this rank gets an error when all are there */
	int channel;       /* 0: of all ranks; 2 peer + 1: to that one; 2 peer + 2: from it */
	uint64_t number;   /* of the channel's calls */
	uint64_t turn;     /* of all calls of the rank */
};

static inline bool is_message(const call &c)
{
	return c.kind == SEND || c.kind == RECEIVE;
}

/* Calls of each channel so far. */
typedef std::atomic<uint64_t> counters[2 * CUDASIM_DEVICES + 1];

struct seat {
	std::atomic<bool> joined, left;
	pid_t process;
	int device;
	call latest; /* that was reached; it stays until it is left */
	counters called, reached, taken;
};

/* A rank, as one of its communicators and their work know it. With the lock of the run-time. */
struct member {
	int fd;
	seat *seats;
	size_t size;
	int rank;
	bool aborted;
	int error; /* in the background */
	uint64_t calls, ended;

	seat &own() const
	{
		return seats[rank];
	}
	~member();
};

/* ---- nccl_ranks.cc ---- */

/* The file of a new communicator; the rank 0 that joins in this process takes it. */
struct cudasim_file nccl_new_file();

/* NULL: the file is gone, or the rank is there already. The rank has not joined yet. */
std::shared_ptr<member> nccl_open(const struct cudasim_file &file, size_t size, int rank);

/* Whether all ranks of a call have come so far with it. */
bool nccl_all_have(const member &m, const call &c, counters seat::*step);

/* A rank that has joined, has not left and has the file open no more: it has died. Or -1. */
int nccl_lost_rank(const member &m);

/* Queue the work of a call. */
void nccl_queue(const std::shared_ptr<member> &m, const call &c, cudaStream_t stream);

/* Bytes from a rank's input that is in the file. */
void nccl_read(const member &m, int rank, size_t offset, void *to, size_t bytes);

/* ---- nccl_sums.cc ---- */

size_t nccl_size_of(int dtype);

/* Write the output of a call that all its ranks have reached. */
void nccl_take(const member &m, const call &c);

#endif
