/* fault.c - the slot of each device in which kernels report faults that they find in data. */
#include "kernels/cuda/cuda.h"

#include <pthread.h>
#include <stdlib.h>

#include "lib/base/mem.h"

/* A device with streams. */
struct device {
	int index, streams;
	struct gt_fault_slot *slot;
	struct device *next;
};

/* Ranks may be threads and may share a device. */
static struct {
	pthread_mutex_t lock;
	struct device *first;
} open_devices = { PTHREAD_MUTEX_INITIALIZER, NULL };

/* The link to the device, or to the end of the list. With the lock. */
static struct device **find_open_device(int index)
{
	struct device **link = &open_devices.first;

	while (*link && (*link)->index != index)
		link = &(*link)->next;
	return link;
}

static struct device *new_device(int index, struct gt_err *err)
{
	struct device *d = gt_calloc(1, sizeof(*d), err);
	void *slot;

	if (!d)
		return NULL;
	if (gt_cuda_backend.host_alloc(index, sizeof(*d->slot), &slot, err)) {
		free(d);
		return NULL;
	}
	d->index = index;
	d->slot = slot;
	return d;
}

int gt_cuda_faults_open(struct gt_fault_slot **out, int index, struct gt_err *err)
{
	struct device **link;

	pthread_mutex_lock(&open_devices.lock);
	link = find_open_device(index);
	if (!*link)
		*link = new_device(index, err);
	if (*link)
		(*link)->streams++;
	*out = *link ? (*link)->slot : NULL;
	pthread_mutex_unlock(&open_devices.lock);
	return *out ? 0 : err->code;
}

void gt_cuda_faults_close(int index)
{
	struct device **link, *d;

	pthread_mutex_lock(&open_devices.lock);
	link = find_open_device(index);
	d = *link;
	if (!--d->streams) {
		*link = d->next;
		gt_cuda_backend.host_free(index, d->slot, sizeof(*d->slot));
		free(d);
	}
	pthread_mutex_unlock(&open_devices.lock);
}

/* Copy a fault that waits; the slot is empty then. */
static bool take_fault(struct gt_fault_slot *slot, struct gt_fault *fault)
{
	unsigned written = __atomic_load_n(&slot->written, __ATOMIC_ACQUIRE);

	if (written == slot->taken)
		return false;
	*fault = slot->fault;
	__atomic_store_n(&slot->taken, written, __ATOMIC_RELEASE);
	return true;
}

int gt_cuda_faults_take(int index, struct gt_err *err)
{
	struct gt_fault fault;
	struct device *d;
	bool is_there;

	pthread_mutex_lock(&open_devices.lock);
	d = *find_open_device(index);
	is_there = d && take_fault(d->slot, &fault);
	pthread_mutex_unlock(&open_devices.lock);
	if (!is_there)
		return 0;
	gt_fault_set(err, &fault);
	return gt_err_prefix(err, "cuda:%d", index);
}
