/* cudasim.h - a simulator of CUDA for tests: its checks, and functions by which tests steer it. */
#ifndef GT_TESTS_CUDASIM_CUDASIM_H
#define GT_TESTS_CUDASIM_CUDASIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The files of kernels/cuda/ are compiled by a C++ compiler against the headers in include/, which
 * take the place of the toolkit's. The threads of a block are fibers, so they run one at a time and
 * switch only where they wait for each other. A GPU is as indeterminate as this:
 *
 * - Blocks of a grid, threads of a block, and items of different streams run in an order drawn from
 *   the seed: ascending, descending, or shuffled. A result that is not the same for every seed is a
 *   race. Queued work runs when the host waits for something.
 * - Shared memory, and device memory from cudaMalloc(), begin as NaN. So a missing barrier shows.
 * - The host can access device memory only while kernels run; at other times it gets a SIGSEGV.
 * - Blocks of device, shared and pinned memory have red zones. With the address sanitizer an access
 *   out of bounds ends the program with the line of the kernel.
 * - The pinned host memory that a copy goes to is NaN until the copy runs, unless an earlier copy
 *   that still has to run uses it, or streams wait for functions of the host, which may use it.
 * - A device has CUDA_DEVICE_MAX_CONNECTIONS hardware queues (default 8), which new streams take in
 *   turn. A stream that waits holds up later work of other streams of its queue.
 * - A stream holds 1024 operations. The thread that queues one more waits for a place, and all
 *   calls of other threads wait for this thread.
 *
 * - A device has places for 64 blocks. Kernels of NCCL hold some of them while they wait for other
 *   ranks. While none is left, no kernel begins.
 *
 * - Memory of cudaMalloc() may be opened by other processes, each of which simulates the same GPUs
 *   with queues of its own. The host's rights, NaN and red zones are as for other memory.
 *
 * Faults are: threads that wait at different barriers, or for lanes that never come; a lane that is
 * not in its own mask; a shuffle from a lane outside of the mask; memory that is
 * freed while another process has it open; opened memory that is closed, or memory of the host that
 * is unregistered, while queued work uses it; calls of NCCL without an order (lib/nccl.cc). A fault
 * ends its kernel; from then on all calls for the device return cudaErrorLaunchFailure. A program
 * that ends with a fault that no test asked for exits with status 99.
 *
 * Environment: CUDASIM_SEED (default 1), CUDASIM_DEVICES (default 2, at most 8), CUDASIM_MEMORY
 * (bytes of a device; default and at most 1 GiB), CUDASIM_MAJOR (of the compute capability,
 * MAJOR.0; default 9; below 8 the library has no products of bfloat16), CUDASIM_PEERS ("yes", the
 * default: GPUs reach each other's memory; "no": the driver says that they do not; "full": it says
 * that they do, but grants no access, as a GPU has too many peers already; "wrong": it says that
 * they do, and a byte in the middle of what a copy or a kernel of one writes to the memory of
 * another one arrives wrong; of kernels, to memory of cudaMalloc() alone), CUDASIM_CUDNN
 * ("no", the default: cuDNN is there in a version that gtrain does not take; "yes": in one that it
 * does), CUDASIM_NVRTC ("no", the default: NVRTC does not work; "yes": it does), CUDASIM_NCCL
 * ("yes", the default: NCCL reports that the process of another rank has died; "silent": it does
 * not), CUDASIM_DRIVER (the newest CUDA that the driver runs; default 13000; 0: there is no
 * driver), CUDASIM_FIRST (the first of the machine's GPUs that this process sees; default 0),
 * CUDASIM_INSTANCE (the devices are these MIG instances of their GPUs; default 0), CUDASIM_FLUSH
 * ("yes": GPUs can flush the writes of others when a stream waits for a value; default: they
 * cannot), CUDA_VISIBLE_DEVICES (numbers only).
 */
enum { CUDASIM_DEVICES = 8 };

/* Orders from now on, of all devices. The seed in use is printed when a fault ends a program. */
void cudasim_seed(uint64_t seed);

/* The text of a device's fault, or NULL; and go on as if there had been none. */
const char *cudasim_fault(int device);
void cudasim_forget(int device);

/* The n-th allocation from now on (cudaMalloc(), cudaMallocAsync(), cudaMallocHost()) fails, and so
 * do all after it; 0: none. */
void cudasim_fail_allocation(int n);

/* Of the waits for a value from now on, the n-th does not wait; 0: all do. */
void cudasim_lose_wait(int n);

/* Waits for a value so far that flush the writes of other GPUs. */
long cudasim_flushed(void);

/* Pairs of GPUs between which this process has enabled access with cudaDeviceEnablePeerAccess():
 * each takes a context on the other GPU. */
int cudasim_peers(void);

/* Kernels that ran so far; calls of cudaGetDeviceProperties() so far. */
long cudasim_kernels(void);
long cudasim_descriptions(void);

/*
 * Simulated products: lib/cublaslt.cc stands in for cuBLASLt, and says there which algorithms it
 * has. `queued` counts cublasLtMatmul(), `algorithm` is the last one's. A test may set `slow` to
 * the number of an algorithm that is to take ten times as long, plus 1; and the number of calls of
 * cublasLtCreate() that are to fail, with their status.
 */
struct cudasim_products {
	long queued;
	int algorithm, slow, create_fails, create_status;
};
extern struct cudasim_products cudasim_products;

/*
 * lib/nccl.cc stands in for NCCL. A test may set a version. Calls on a communicator are counted
 * from 1: rank `rank` rejects call `refuses` and gets an error in call `fails`; call `hangs` never
 * ends on any rank. `never_joins`: this rank does not connect. `abort_waits`: an abort waits until
 * so many have begun, as one that frees memory waits for the other kernels of its GPU. `serial`: of
 * kernels that NCCL_LAUNCH_ORDER_IMPLICIT puts in an order, one ends before the next begins.
 *
 * The struct also counts calls on communicators, and launches: calls outside of groups, and groups
 * of them, for each of which the real library starts a thread.
 */
struct cudasim_nccl {
	int version, rank;
	long refuses, fails, hangs;
	bool never_joins;
	bool serial;
	long abort_waits;
	long calls, launches, destroyed, aborted;
};
extern struct cudasim_nccl cudasim_nccl;

/*
 * lib/cudnn.cc stands in for cuDNN, and says there which engines it has. `version` is its version
 * where CUDASIM_CUDNN is "yes", `queued` counts cudnnBackendExecute(), `engine` is the number of
 * the last one's engine. A test may set `slow`, so that all engines take much longer, and
 * statuses with which cudnnCreate() or all executions fail. `stream` is the one that a handle was
 * given last.
 */
struct cudasim_cudnn {
	size_t version;
	long queued;
	int64_t engine;
	bool slow;
	int create_fails, execute_fails;
	const void *stream;
};
extern struct cudasim_cudnn cudasim_cudnn;

/*
 * lib/nvrtc.cc stands in for NVRTC: the simulator's compiler compiles the source. `compiled` counts
 * programs, `launched` counts kernels of modules, which take half the time of others, or ten times
 * as long where a test sets `slow`. A test may have compilations fail, or products come out wrong.
 */
struct cudasim_nvrtc {
	long compiled, launched;
	bool slow, fails, wrong;
};
extern struct cudasim_nvrtc cudasim_nvrtc;

/* Whether the program has the address sanitizer. */
bool cudasim_has_asan(void);

#ifdef __cplusplus
}
#endif

#endif
