/* fault.cuh - how a kernel reports an invalid value in its data, such as a wrong id. */
#ifndef GT_KERNELS_CUDA_FAULT_CUH
#define GT_KERNELS_CUDA_FAULT_CUH

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/gpu.cuh"

/*
 * gt_report_fault(slot, kind, values...) stores a fault for the host's next wait, which returns it
 * as an error. `slot` is stream->faults; kinds and their values are those of lib/graph/fault.h.
 *
 * Any thread may call it, any number of times. Only the first fault after the last report is kept,
 * and runs may differ in which one is first. The kernel does not stop, and kernels queued behind it
 * run, too. Their results are not used. The kernel must not read or write memory at an address
 * computed from the invalid value.
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
		return; /* an earlier fault has not been reported yet */
	slot->fault.kind = kind;
	slot->fault.values[0] = a;
	slot->fault.values[1] = b;
	slot->fault.values[2] = c;
	slot->fault.values[3] = d;
	__threadfence_system();
	*(volatile unsigned *)&slot->written = taken + 1;
}

#endif
