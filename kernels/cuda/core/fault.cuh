/* fault.cuh - how a GPU kernel reports an invalid value in its data, such as a wrong token id. */
#ifndef GT_KERNELS_CUDA_CORE_FAULT_CUH
#define GT_KERNELS_CUDA_CORE_FAULT_CUH

#include "kernels/cuda/core/gpu.cuh"
#include "kernels/cuda/cuda.h"

/*
 * Report an invalid value (lib/graph/fault.h) as an error of the host's next wait. `slot` is
 * stream->faults. Any thread may call this, any number of times; one fault is kept, not always the
 * same. The kernel and later ones go on, so it must not use the value as an address:
 *
 * 	if (id < 0 || id >= rows) {
 * 		gt_report_fault(slot, GT_FAULT_ID, id, b, t, rows);
 * 		return;
 * 	}
 */
__device__ __forceinline__ void gt_report_fault(struct gt_fault_slot *slot, gt_fault_kind kind,
    int64_t a, int64_t b = 0, int64_t c = 0, int64_t d = 0)
{
	unsigned taken = gt_load_word(&slot->taken);

	static_assert(GT_FAULT_VALUES == 4, "values are stored one by one");
	if (atomicCAS(&slot->claimed, taken, taken + 1) != taken)
		return; /* the host has not read an earlier fault yet */
	slot->fault.kind = kind;
	slot->fault.values[0] = a;
	slot->fault.values[1] = b;
	slot->fault.values[2] = c;
	slot->fault.values[3] = d;
	__threadfence_system();
	gt_store_word(&slot->written, taken + 1);
}

#endif
