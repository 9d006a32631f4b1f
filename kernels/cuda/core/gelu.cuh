/* gelu.cuh - GELU and its derivative for one element: the exact form and the tanh form. */
#ifndef GT_KERNELS_CUDA_CORE_GELU_CUH
#define GT_KERNELS_CUDA_CORE_GELU_CUH

#include "kernels/cuda/core/map.cuh"
#include "kernels/cuda/core/real.cuh"

/*
 * gelu(x) = x * gate(x). In the exact form, gate() is the cumulative distribution function of the
 * standard normal distribution. The tanh form approximates it:
 *
 *   gate(x) = (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 * u))
 *   where u = sqrt(2 / pi) * (x + 0.044715 * x^3)
 *
 * gt_gelu_gate() returns the gate of the tanh form.
 */
template <class W> __device__ __forceinline__ W gt_gelu_gate(W x)
{
	const W scale = (W)0.79788456080286535588, cubic = (W)0.044715;

	return 1 / (1 + gt_exp(-2 * scale * x * (1 + cubic * x * x)));
}

/* Return the derivative of x * gt_gelu_gate(x). */
template <class W> __device__ __forceinline__ W gt_gelu_gate_slope(W x)
{
	const W scale = (W)0.79788456080286535588, cubic = (W)0.044715;
	W s = gt_gelu_gate(x);

	return s + 2 * x * s * (1 - s) * scale * (1 + 3 * cubic * x * x);
}

/* Return the gate of the exact form. */
template <class W> __device__ __forceinline__ W gt_gelu_normal(W x)
{
	return (W)0.5 * (1 + gt_erf(x * (W)0.70710678118654752440));
}

/* Return the density of the standard normal distribution: the derivative of gt_gelu_normal(). */
template <class W> __device__ __forceinline__ W gt_gelu_density(W x)
{
	return (W)0.39894228040143267794 * gt_exp((W)-0.5 * x * x);
}

/* Functors for gt_map(): y = gelu(x), and dx = dy * gelu'(x), where gelu' is the derivative. If
 * TANH is true, gelu has the tanh form. */
template <bool TANH> struct gt_gelu_f : gt_map_always {
	template <class W> __device__ void operator()(W &y, W x)
	{
		y = x * (TANH ? gt_gelu_gate(x) : gt_gelu_normal(x));
	}
};

template <bool TANH> struct gt_gelu_grad_f : gt_map_always {
	template <class W> __device__ void operator()(W &dx, W dy, W x)
	{
		dx = dy *
		     (TANH ? gt_gelu_gate_slope(x) : gt_gelu_normal(x) + x * gt_gelu_density(x));
	}
};

#endif
