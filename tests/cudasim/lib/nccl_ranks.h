/* nccl_ranks.h - inside tests/cudasim/lib: the ranks of a simulated NCCL, and memory they share. */
#ifndef GT_TESTS_CUDASIM_LIB_NCCL_RANKS_H
#define GT_TESTS_CUDASIM_LIB_NCCL_RANKS_H

#include <atomic>
#include <memory>
#include <vector>

#include "kernels/cuda/nccl/api.h"
#include "tests/cudasim/inside.h"

/*
 * The ranks of a communicator are threads or processes: for both they share a file without a name,
 * whose number is the communicator's id. The file ends with the last process that has it open.
 *
 *   page 0    a seat of each rank, which that rank alone writes
 *   behind    the inputs of each rank's launch, in so many bytes as a device may have; mostly holes
 *
 * Calls that begin and end together are a launch: one call, or those of a group. A launch goes
 * through gates of its stream. Ranks A and B, and a sum of x into y:
 *
 *   begin   when the GPU has places for its blocks, which it holds from now on: A copies its x to
 *           the file
 *   take    when A and B have begun, and their calls fit together: A reads the x of both, and
 *           writes y. There is one gate for each call, and calls take in any order
 *   leave   when A and B have taken it: from now on A may overwrite its x in the file
 *
 * So a rank touches the memory of its own process alone, and its launches follow each other.
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
	size_t place;      /* of its input in the file, among those of the launch */
	bool connects;     /* it is the first of its kind */
};

static inline bool is_message(const call &c)
{
	return c.kind == SEND || c.kind == RECEIVE;
}

enum { CHANNELS = 2 * CUDASIM_DEVICES + 1 };

/* Calls of each channel so far. */
typedef std::atomic<uint64_t> counters[CHANNELS];

struct seat {
	std::atomic<bool> joined, left;
	pid_t process;
	int device;
	call latest[CHANNELS]; /* that were reached; they stay until they are left */
	counters called, reached, taken;
};

/* A rank, as one of its communicators and their work know it. With the lock of the run-time. */
struct member {
	int fd;
	seat *seats;
	size_t size;
	int rank;
	int blocks; /* of a kernel: the places that it holds */
	bool aborted;
	int error; /* in the background */
	uint64_t launches, ended;

	seat &own() const
	{
		return seats[rank];
	}
	~member();
};

struct launch {
	std::shared_ptr<member> by;
	std::vector<call> calls;
	std::vector<bool> taken; /* of each call */
	cudaStream_t stream;
	uint64_t turn;   /* of all launches of the member */
	uint64_t number; /* of all launches of the rank on its GPU: cudasim_stream.known */
	bool begun, holds, ended;
	/* It does not begin before this one has begun, or has ended if `serial`; NULL: there is
	 * none, or no more. */
	std::shared_ptr<launch> behind;
	bool serial;
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

/* Queue the work of a launch. */
void nccl_queue(const std::shared_ptr<launch> &l);

/* Bytes from the input of a rank's part of a call. */
void nccl_read(const member &m, const call &c, int rank, size_t offset, void *to, size_t bytes);

/* ---- nccl_sums.cc ---- */

size_t nccl_size_of(int dtype);

/* Write the output of a call that all its ranks have reached. */
void nccl_take(const member &m, const call &c);

#endif
