/* test_ipc.c - device memory that processes share: rounds by it, a lost wait, wrong use. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these three first */
#include <cmocka.h>

#include <cuda.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/cudasim/cudasim.h"

enum { BYTES = 10000, ROUNDS = 2, PAGE = 4096, WELL = 42 };

/* Memory of the host that both processes map. */
struct common {
	uint32_t arrived, consumed; /* rounds: written by streams */
	cudaIpcMemHandle_t slot;
};

/* In the child cmocka cannot tell of it, so its status does. */
static void expect(int line, bool yes)
{
	if (yes)
		return;
	fprintf(stderr, "test_ipc.c:%d is not so\n", line);
	_exit(1);
}
#define EXPECT(yes) expect(__LINE__, yes)

static struct common *new_common(void)
{
	void *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static void use(struct common *c)
{
	EXPECT(cudaHostRegister(c, PAGE, cudaHostRegisterMapped) == cudaSuccess);
}

static void *new_memory(int value)
{
	void *p;

	EXPECT(cudaMalloc(&p, BYTES) == cudaSuccess);
	if (value)
		EXPECT(cudaMemsetAsync(p, value, BYTES, NULL) == cudaSuccess);
	EXPECT(cudaStreamSynchronize(NULL) == cudaSuccess);
	return p;
}

/* For as long as a process may take to come. */
static void await_value(const uint32_t *value, uint32_t least)
{
	for (int ms = 0; __atomic_load_n(value, __ATOMIC_ACQUIRE) < least; ms++) {
		EXPECT(ms < 20000);
		usleep(1000);
	}
}

static void stream_waits(const uint32_t *value, uint32_t least)
{
	EXPECT(cuStreamWaitValue32(NULL, (CUdeviceptr)value, least, CU_STREAM_WAIT_VALUE_GEQ) ==
	       CUDA_SUCCESS);
}

static void stream_writes(uint32_t *value, uint32_t now)
{
	EXPECT(cuStreamWriteValue32(NULL, (CUdeviceptr)value, now, CU_STREAM_WRITE_VALUE_DEFAULT) ==
	       CUDA_SUCCESS);
}

/* ---- rounds through one slot ---- */

/*
 * A process sends 1, 2 to the slot of another one, which takes them from there. Where one of them
 * is to lose its wait, the other one lets it go first: the host of the receiver holds its queue
 * until the sender's has ended, or the sender's until the receiver has read.
 */
struct way {
	int device; /* of the sender; the receiver has 0 */
	bool sender_loses, receiver_loses;
	int want[ROUNDS];
};

static void send_all(struct common *c, const struct way *w)
{
	void *slot, *own[ROUNDS];

	use(c);
	EXPECT(cudaSetDevice(w->device) == cudaSuccess);
	EXPECT(cudaIpcOpenMemHandle(&slot, c->slot, cudaIpcMemLazyEnablePeerAccess) == cudaSuccess);
	for (int i = 0; i < ROUNDS; i++)
		own[i] = new_memory(1 + i);
	cudasim_lose_wait(w->sender_loses ? 1 : 0);
	for (int i = 0; i < ROUNDS; i++) {
		if (i)
			stream_waits(&c->consumed, (uint32_t)i);
		EXPECT(cudaMemcpyPeerAsync(slot, 0, own[i], w->device, BYTES, NULL) == cudaSuccess);
		stream_writes(&c->arrived, (uint32_t)i + 1);
	}
	if (w->receiver_loses)
		await_value(&c->consumed, 1);
	EXPECT(cudaStreamSynchronize(NULL) == cudaSuccess);
	EXPECT(cudaIpcCloseMemHandle(slot) == cudaSuccess);
	for (int i = 0; i < ROUNDS; i++)
		EXPECT(cudaFree(own[i]) == cudaSuccess);
	_exit(WELL);
}

static void receive_all(struct common *c, const struct way *w, void *slot, unsigned char *got)
{
	char *own[ROUNDS];

	for (int i = 0; i < ROUNDS; i++)
		own[i] = new_memory(0);
	cudasim_lose_wait(w->receiver_loses ? 1 : 0);
	for (int i = 0; i < ROUNDS; i++) {
		stream_waits(&c->arrived, (uint32_t)i + 1);
		assert_int_equal(
		    cudaMemcpyAsync(own[i], slot, BYTES, cudaMemcpyDeviceToDevice, NULL), 0);
		stream_writes(&c->consumed, (uint32_t)i + 1);
	}
	if (w->sender_loses)
		await_value(&c->arrived, ROUNDS);
	for (int i = 0; i < ROUNDS; i++) {
		assert_int_equal(cudaMemcpyAsync(got + (size_t)i * BYTES, own[i], BYTES,
		                     cudaMemcpyDeviceToHost, NULL),
		    0);
		assert_int_equal(cudaFree(own[i]), 0);
	}
}

static pid_t start(
    void (*act)(struct common *c, const struct way *w), struct common *c, const struct way *w)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid)
		return pid;
	signal(SIGSEGV, SIG_DFL);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* where a check of the parent fails */
	act(c, w);
	_exit(2);
}

static void expect_end(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), WELL);
}

static void do_rounds(const struct way *w)
{
	static unsigned char got[ROUNDS * BYTES];
	struct common *c = new_common();
	void *slot = new_memory(0);
	pid_t pid;

	assert_int_equal(cudaIpcGetMemHandle(&c->slot, slot), cudaSuccess);
	pid = start(send_all, c, w);
	use(c);
	receive_all(c, w, slot, got);
	expect_end(pid);
	for (int i = 0; i < ROUNDS * BYTES; i++)
		if (got[i] != w->want[i / BYTES])
			fail_msg("round %d: byte %d is %d, not %d", i / BYTES, i % BYTES, got[i],
			    w->want[i / BYTES]);
	assert_int_equal(cudaHostUnregister(c), cudaSuccess);
	assert_int_equal(cudaFree(slot), cudaSuccess);
	assert_null(cudasim_fault(0));
	munmap(c, PAGE);
}

static void processes_send_through_a_slot(void **state)
{
	(void)state;
	for (int device = 0; device < 2; device++)
		for (uint64_t seed = 1; seed <= 4; seed++) {
			cudasim_seed(seed);
			do_rounds(&(struct way){ .device = device, .want = { 1, 2 } });
		}
}

/* Nothing has come yet: memory is NaN from the beginning. */
static void a_receiver_without_its_wait_is_seen(void **state)
{
	(void)state;
	for (int device = 0; device < 2; device++)
		do_rounds(
		    &(struct way){ .device = device, .receiver_loses = true, .want = { 0xff, 2 } });
}

static void a_sender_without_its_wait_is_seen(void **state)
{
	(void)state;
	for (int device = 0; device < 2; device++)
		do_rounds(
		    &(struct way){ .device = device, .sender_loses = true, .want = { 2, 2 } });
}

/* ---- wrong use ---- */

static cudaError_t export_it(void *p)
{
	cudaIpcMemHandle_t handle;

	return cudaIpcGetMemHandle(&handle, p);
}

static void only_the_beginning_of_shared_memory_has_a_handle(void **state)
{
	char *shared = new_memory(0);
	void *own, *pinned;

	(void)state;
	assert_int_equal(cudaMallocAsync(&own, BYTES, NULL), cudaSuccess);
	assert_int_equal(cudaMallocHost(&pinned, BYTES), cudaSuccess);
	assert_int_equal(export_it(shared), cudaSuccess);
	assert_int_equal(export_it(shared + 256), cudaErrorInvalidValue);
	assert_int_equal(export_it(own), cudaErrorInvalidValue);
	assert_int_equal(export_it(pinned), cudaErrorInvalidValue);
	assert_int_equal(cudaFreeAsync(own, NULL), cudaSuccess);
	assert_int_equal(cudaFreeHost(pinned), cudaSuccess);
	assert_int_equal(cudaFree(shared), cudaSuccess);
}

static void open_wrongly(struct common *c, const struct way *w)
{
	void *p, *again;

	(void)w;
	EXPECT(cudaIpcOpenMemHandle(&p, c->slot, 0) == cudaErrorInvalidValue);
	EXPECT(cudaIpcOpenMemHandle(&p, c->slot, cudaIpcMemLazyEnablePeerAccess) == cudaSuccess);
	EXPECT(
	    cudaIpcOpenMemHandle(&again, c->slot, cudaIpcMemLazyEnablePeerAccess) == cudaSuccess);
	EXPECT(again == p);
	EXPECT(export_it(p) == cudaErrorInvalidValue);
	EXPECT(cudaFree(p) == cudaErrorInvalidValue);
	EXPECT(cudaFreeAsync(p, NULL) == cudaErrorInvalidValue);
	EXPECT(cudaIpcCloseMemHandle(p) == cudaSuccess);
	EXPECT(cudaMemsetAsync(p, 1, BYTES, NULL) == cudaSuccess);
	EXPECT(cudaStreamSynchronize(NULL) == cudaSuccess);
	EXPECT(cudaIpcCloseMemHandle(p) == cudaSuccess);
	EXPECT(cudaIpcCloseMemHandle(p) == cudaErrorInvalidValue);
	EXPECT(cudaMemsetAsync(p, 1, BYTES, NULL) == cudaErrorInvalidValue);
	EXPECT(!cudasim_fault(0));
	_exit(WELL);
}

static void open_from_afar(struct common *c, const struct way *w)
{
	void *p;

	(void)w;
	setenv("CUDASIM_PEERS", "no", 1);
	EXPECT(cudaSetDevice(1) == cudaSuccess);
	EXPECT(cudaIpcOpenMemHandle(&p, c->slot, cudaIpcMemLazyEnablePeerAccess) ==
	       cudaErrorPeerAccessUnsupported);
	EXPECT(cudaSetDevice(0) == cudaSuccess);
	EXPECT(cudaIpcOpenMemHandle(&p, c->slot, cudaIpcMemLazyEnablePeerAccess) == cudaSuccess);
	_exit(WELL);
}

static void open_what_is_gone(struct common *c, const struct way *w)
{
	void *p;

	(void)w;
	EXPECT(cudaIpcOpenMemHandle(&p, c->slot, cudaIpcMemLazyEnablePeerAccess) ==
	       cudaErrorInvalidResourceHandle);
	_exit(WELL);
}

static void close_too_early(struct common *c, const struct way *w)
{
	void *p;

	(void)w;
	EXPECT(cudaIpcOpenMemHandle(&p, c->slot, cudaIpcMemLazyEnablePeerAccess) == cudaSuccess);
	EXPECT(cudaMemsetAsync(p, 1, BYTES, NULL) == cudaSuccess);
	EXPECT(cudaIpcCloseMemHandle(p) == cudaSuccess);
	EXPECT(cudasim_fault(0) && strstr(cudasim_fault(0), "closed"));
	_exit(WELL);
}

static void handles_are_used_as_they_may_be(void **state)
{
	struct common *c = new_common();
	void *p = new_memory(0), *same;

	(void)state;
	assert_int_equal(cudaIpcGetMemHandle(&c->slot, p), cudaSuccess);
	assert_int_equal(cudaIpcOpenMemHandle(&same, c->slot, cudaIpcMemLazyEnablePeerAccess),
	    cudaErrorDeviceUninitialized);
	assert_int_equal(cudaIpcCloseMemHandle(p), cudaErrorInvalidValue);
	expect_end(start(open_wrongly, c, NULL));
	expect_end(start(open_from_afar, c, NULL));
	expect_end(start(close_too_early, c, NULL));
	assert_int_equal(cudaFree(p), cudaSuccess);
	assert_null(cudasim_fault(0));
	expect_end(start(open_what_is_gone, c, NULL));
	munmap(c, PAGE);
}

/* ---- the other process ---- */

static void open_and_stay(struct common *c, const struct way *w)
{
	void *p;

	(void)w;
	EXPECT(cudaIpcOpenMemHandle(&p, c->slot, cudaIpcMemLazyEnablePeerAccess) == cudaSuccess);
	__atomic_store_n(&c->arrived, 1, __ATOMIC_RELEASE);
	for (;;)
		pause();
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* With its memory open there; it is killed before the memory is freed, or after. */
static void free_beside(bool killed)
{
	struct common *c = new_common();
	void *p = new_memory(0);
	pid_t pid;

	assert_int_equal(cudaIpcGetMemHandle(&c->slot, p), cudaSuccess);
	pid = start(open_and_stay, c, NULL);
	await_value(&c->arrived, 1);
	if (killed)
		end(pid);
	assert_int_equal(cudaFree(p), killed ? cudaSuccess : cudaErrorLaunchFailure);
	if (!killed)
		end(pid);
	assert_int_equal(cudasim_fault(0) != NULL, !killed);
	if (!killed)
		assert_non_null(strstr(cudasim_fault(0), "another process has open"));
	cudasim_forget(0);
	cudaGetLastError();
	munmap(c, PAGE);
}

static void memory_is_freed_when_nobody_else_has_it(void **state)
{
	(void)state;
	free_beside(false);
	free_beside(true);
}

static void touch(struct common *c, const struct way *w)
{
	void *p;

	(void)w;
	EXPECT(cudaIpcOpenMemHandle(&p, c->slot, cudaIpcMemLazyEnablePeerAccess) == cudaSuccess);
	*(volatile char *)p = 1;
	_exit(WELL);
}

static void the_host_does_not_reach_opened_memory(void **state)
{
	struct common *c = new_common();
	void *p = new_memory(0);
	int status;

	(void)state;
	assert_int_equal(cudaIpcGetMemHandle(&c->slot, p), cudaSuccess);
	assert_int_equal(waitpid(start(touch, c, NULL), &status, 0) > 0, 1);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	assert_int_equal(cudaFree(p), cudaSuccess);
	munmap(c, PAGE);
}

/* ---- memory of the host ---- */

static void memory_of_the_host_is_registered_once(void **state)
{
	struct common *c = new_common();
	CUdeviceptr at = (CUdeviceptr)&c->arrived;

	(void)state;
	assert_int_equal(cuStreamWriteValue32(NULL, at, 1, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cudaHostRegister(c, 0, 0), cudaErrorInvalidValue);
	assert_int_equal(cudaHostRegister(c, PAGE, 0), cudaSuccess);
	assert_int_equal(
	    cudaHostRegister((char *)c + 8, 8, 0), cudaErrorHostMemoryAlreadyRegistered);
	assert_int_equal(cuStreamWriteValue32(NULL, at + 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuStreamWriteValue32(NULL, at, 1, 0), CUDA_SUCCESS);
	assert_int_equal(c->arrived, 0);
	assert_int_equal(cudaStreamSynchronize(NULL), cudaSuccess);
	assert_int_equal(c->arrived, 1);
	assert_int_equal(cuStreamWriteValue32(NULL, at, 2, 0), CUDA_SUCCESS);
	assert_int_equal(cudaHostUnregister(c), cudaSuccess);
	assert_non_null(cudasim_fault(0));
	cudasim_forget(0);
	assert_int_equal(cudaStreamSynchronize(NULL), cudaSuccess);
	assert_int_equal(cudaHostUnregister(c), cudaErrorHostMemoryNotRegistered);
	cudaGetLastError();
	munmap(c, PAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(processes_send_through_a_slot),
		cmocka_unit_test(a_receiver_without_its_wait_is_seen),
		cmocka_unit_test(a_sender_without_its_wait_is_seen),
		cmocka_unit_test(only_the_beginning_of_shared_memory_has_a_handle),
		cmocka_unit_test(handles_are_used_as_they_may_be),
		cmocka_unit_test(memory_is_freed_when_nobody_else_has_it),
		cmocka_unit_test(the_host_does_not_reach_opened_memory),
		cmocka_unit_test(memory_of_the_host_is_registered_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
