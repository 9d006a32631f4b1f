/* inside.h - inside tests/cudasim: declarations that the simulator's files share. */
#ifndef GT_TESTS_CUDASIM_INSIDE_H
#define GT_TESTS_CUDASIM_INSIDE_H

#include <functional>
#include <memory>
#include <mutex>
#include <sys/types.h>

#include <cuda_runtime.h>

#include "tests/cudasim/cudasim.h"

/* A record of an event: items that wait for it keep it alive, even without the event. */
struct mark {
	bool reached;
	double ms;      /* of the clock, when it was reached */
	uint64_t known; /* that of its stream, when it was recorded */
	bool captured;
	std::weak_ptr<struct capture> in; /* while it lasts */
};

struct cudasim_event {
	std::shared_ptr<mark> last; /* NULL: never recorded */
	bool timed;
};

struct cudasim_grid {
	dim3 blocks, threads;
	size_t dynamic_bytes;
	void (*call)(void *closure);
	void *closure;
	double ms; /* by which it puts the clock forward */
};

/* Work that waits for other streams: with the lock of the run-time. */
struct gate {
	std::function<bool()> may_run; /* once true, it stays true */
	std::function<void()> run;
};

/* A piece of work. Copies of it share its data. */
struct item {
	enum { KERNEL, COPY, FILL, FREE, RECORD, WAIT, WAIT_VALUE, WRITE_VALUE, GATE } kind;
	cudasim_grid grid;
	std::shared_ptr<void> closure; /* of the grid */
	void *to;
	const void *from;
	std::shared_ptr<void> staged; /* the bytes of pageable host memory */
	size_t bytes;
	/* The byte of a fill; the least value to wait for, at `from`; the value to write `to`. */
	unsigned value;
	std::shared_ptr<mark> at;
	std::shared_ptr<gate> behind;
	uint64_t number; /* items of all streams are counted */
	item *next;
};

struct cudasim_stream {
	int device;
	int queue; /* of the device's hardware queues */
	item *first, *last;
	uint64_t queued, done;
	uint64_t known; /* of the calls of NCCL of its rank, those that its next work is behind */
	cudasim_stream *next; /* all streams */
	/* That its work is kept for, and its number there. */
	std::shared_ptr<struct capture> capture;
	int branch;
	bool ends; /* when its work is done */
};

/* ---- clock.cc ---- */

/* A clock that only kernels put forward, and the engines and algorithms of simulated libraries by
 * their own times besides; with the lock of the run-time. */
enum { CUDASIM_KERNELS_PER_MS = 10 };
extern double cudasim_ms;

/* The hardware queues of a device, which its streams take in turn: CUDA_DEVICE_MAX_CONNECTIONS. */
int cudasim_hardware_queues();

/* Whether streams can wait with CU_STREAM_WAIT_VALUE_FLUSH. */
bool cudasim_flushes();

/* Whether CUDASIM_DRIVER says that there is no driver, or one that is older than the run-time. */
bool cudasim_driver_is_old();

/* The driver has a thread of its own, which inherits the signals that the first caller blocks. It
 * calls cudasim_drive() every CUDASIM_DRIVER_MS until that returns false. */
enum { CUDASIM_DRIVER_MS = 20 };
void cudasim_start_driver();

/* ---- limits.cc ---- */

/* The number of a device among those of CUDASIM_DEVICES: CUDA_VISIBLE_DEVICES may choose some. */
int cudasim_visible(int device);

/* ---- modules.cc ---- */

/* The beginning of an image, which the shared object with its kernel follows. */
struct cudasim_image {
	char magic[8]; /* "cudasim" */
	size_t bytes;  /* of the shared object */
};

/* The time of kernels that this thread queues now: those of a module have one of their own. */
extern thread_local double cudasim_kernel_ms;

/* ---- peers.cc ---- */

/* Whether CUDASIM_PEERS says that no GPU reaches another one. */
bool cudasim_has_no_peers();

/* Of a kernel of this device, where CUDASIM_PEERS is "wrong": what it writes to memory of other
 * devices that processes may share arrives with a wrong byte in the middle. Call these before and
 * after it. */
void cudasim_keep_peers(int device);
void cudasim_spoil_peers(int device);

/* Whether the memory of the other one's pool is open to this device. */
bool cudasim_reaches(int device, int peer);

/* ---- runtime.cc: with the lock ---- */

extern std::mutex cudasim_lock;
typedef std::lock_guard<std::mutex> guard;

extern thread_local int cudasim_device; /* the calling thread's */

/* The result of a call, which cudaGetLastError() gives, too; and that of a device's faults. */
cudaError_t cudasim_return(cudaError_t e);
cudaError_t cudasim_device_error(int device);
void cudasim_set_fault(int device, const char *text);

cudasim_stream *cudasim_new_stream(int device);
void cudasim_delete_stream(cudasim_stream *stream);
cudasim_stream *cudasim_stream_of(cudaStream_t stream); /* NULL: the default stream */

/* Queue a copy of the item, once the stream has a place for it. */
cudaError_t cudasim_queue(cudaStream_t stream, const item &like);

/* Run queued work in any valid order until `stream` is idle, or `reached` is true, or nothing can
 * run and the calling thread's device has a fault. Other threads have the lock where nothing can
 * run: a stream waits for a value that they write. */
void cudasim_finish(const cudasim_stream *stream);
void cudasim_work_until(const std::function<bool()> &reached);

/* Run one piece of work, if there is one that may run. */
void cudasim_work();

/* Places for blocks on a GPU. A kernel that waits for another GPU holds some of them, and while all
 * are held no kernel begins; those that do not wait end at once, and hold none. */
enum { CUDASIM_PLACES = 64 };
extern int cudasim_held[CUDASIM_DEVICES];

/* As stream.known: of the calls of NCCL, those that the calling thread has waited for. */
extern thread_local uint64_t cudasim_synced;

/*
 * GPUs go on although no thread of the host calls anything: its threads may all wait for another
 * process, which waits for a GPU of this one. So, once no work has been done for half a second, do
 * some of what is queued. Without the lock. Returns false after cudasim_end_driver().
 */
bool cudasim_drive();
void cudasim_end_driver();

/* Whether a copy, a fill, a wait or a write that is queued uses some of these bytes. */
bool cudasim_is_used(const void *p, size_t bytes);

/* ---- streams.cc: with the lock ---- */

/* The items that a stream holds; wait until it takes one more. Other threads do not get the lock
 * meanwhile. */
enum { CUDASIM_QUEUE = 1024 };
void cudasim_wait_for_place(const cudasim_stream *stream);

/* ---- graphs.cc: with the lock ---- */

/* Keep an item of a stream with a capture; let a stream wait for a mark, one of which has one. */
cudaError_t cudasim_keep(cudasim_stream *stream, const item &like);
cudaError_t cudasim_keep_wait(cudasim_stream *stream, const std::shared_ptr<mark> &at);

/*
 * A call that a capturing thread must not make: returns the error, and ends a capture of this
 * stream or mark, or of the thread. Success: there is none.
 */
cudaError_t cudasim_forbid(const cudasim_stream *stream);
cudaError_t cudasim_forbid_mark(const std::shared_ptr<mark> &at);
cudaError_t cudasim_forbid_thread();

/* ---- block.cc: without sanitizers ---- */

/* Run all blocks, in an order drawn from `order`. The text of a fault, or NULL; it is good until
 * the next one. */
const char *cudasim_run_grid(const struct cudasim_grid *grid, uint64_t order);

/* A number drawn from two. */
uint64_t cudasim_mix(uint64_t a, uint64_t b);

/* For the address sanitizer, where the program has it. */
void cudasim_poison(const void *p, size_t bytes);
void cudasim_unpoison(const void *p, size_t bytes);

/* ---- memory.cc ---- */

/* Device memory, filled with NaN; NULL: there is none left. Other processes may open it where it is
 * shared. */
void *cudasim_take(int device, size_t bytes, bool shared);
bool cudasim_give(int device, void *p); /* false: it is not a block of this device */
size_t cudasim_memory_used(int device);
size_t cudasim_memory_total();

/* A file without a name, that other processes open as the descriptor of a process which has it. */
struct cudasim_file {
	pid_t process;
	int fd;
	ino_t number;
};

int cudasim_new_file(size_t bytes);
struct cudasim_file cudasim_file_of(int fd);            /* of this process */
int cudasim_open_file(const struct cudasim_file *file); /* -1: it is not there any more */

/* Memory that a process lets others open. */
struct cudasim_shared_memory {
	struct cudasim_file file;
	int device;
	size_t bytes;
};

bool cudasim_export(const void *p, struct cudasim_shared_memory *out); /* false: not shared */
void *cudasim_open(const struct cudasim_shared_memory *shared);        /* NULL: it is not there */
bool cudasim_close(void *p);                                           /* false: it is not open */
bool cudasim_is_opened(const void *p); /* a block of another process begins here */

/* Pin memory of the host; false: some of it is pinned in this way; there is none like this. */
bool cudasim_register(void *p, size_t bytes);
bool cudasim_unregister(void *p);

void *cudasim_take_pinned(size_t bytes);
bool cudasim_give_pinned(void *p);
bool cudasim_is_pinned(const void *p, size_t bytes);
/* Whether all these bytes are in one block of some device; and the device that has a block which
 * begins here, or -1. */
bool cudasim_is_device(const void *p, size_t bytes);
int cudasim_device_of(const void *p);

/* cudasim_is_device() for callers without the lock. */
inline bool cudasim_can_use(const void *p, size_t bytes)
{
	guard g(cudasim_lock);

	return cudasim_is_device(p, bytes);
}

/* Call act() for each block of other devices that processes may share. */
void cudasim_each_shared(int but, const std::function<void(char *p, size_t bytes)> &act);

/* Give the host access to the memory of all devices, or take it away. */
void cudasim_open_memory(bool open);

#endif
