/* fault.cuh - how a kernel reports a value that it cannot take, such as an id of no token. */
#ifndef GT_KERNELS_CUDA_FAULT_CUH
#define GT_KERNELS_CUDA_FAULT_CUH

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/gpu.cuh"

/*
 * gt_report_fault(slot, kind, values...) stores a fault for the host's next wait, which returns it
 * as an error. `slot` is stream->faults; kinds and their values are those of lib/graph/fault.h.
 *
 * Any thread may call it, any number of times. The first fault since the last report counts; which
 * one that is, differs from run to run. The kernel goes on: it must not read or write memory at the
 * bad value's place, and its results no longer matter. Other kernels queued behind it run, too.
 *
 *	if (id < 0 || id >= rows) {
 *		gt_report_fault(slot, GT_FAULT_ID, id, b, t, rows);
 *		return;
 *	}
 */
__device__ __forceinline__ void gt_report_fault(struct gt_fault_slot *slot, gt_fault_kind kind,
    int64_t a, int64_t b = 0, int64_t c = 0, int64_t d = 0)
{
	unsigned taken = *(volatile unsigned *)&slot->taken;

	static_assert(GT_FAULT_VALUES == 4, "values are stored one by one");
	if (atomicCAS(&slot->claimed, taken, taken + 1) != taken)
		return; /* another one waits to be taken */
	slot->fault.kind = kind;
	slot->fault.values[0] = a;
	slot->fault.values[1] = b;
	slot->fault.values[2] = c;
	slot->fault.values[3] = d;
	__threadfence_system();
	*(volatile unsigned *)&slot->written = taken + 1;
}

#endif
