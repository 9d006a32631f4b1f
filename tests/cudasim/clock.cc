/* clock.cc - the simulator's clock: simulated products put it forward, events read it. */
#include "tests/cudasim/inside.h"

double cudasim_ms;
struct cudasim_products cudasim_products;

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end)
{
	if (!begin->last || !end->last)
		return cudaErrorInvalidResourceHandle;
	if (!begin->last->reached || !end->last->reached)
		return cudaErrorNotReady;
	*ms = (float)(end->last->ms - begin->last->ms);
	return cudaSuccess;
}
