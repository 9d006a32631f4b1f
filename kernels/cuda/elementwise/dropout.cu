/* dropout.cu - dropout, drawn by counting: whether an element drops depends on its number. */
#include "kernels/cuda/core/map.cuh"
#include "kernels/cuda/core/philox.cuh"
#include "kernels/cuda/core/rows.cuh"

/*
 * Element e of sample i has the number c = (first + i * stride) * (elements per sample) + e and
 * draws word c mod 4 of block c / 4 (lib/graph/kernel.h). For images e counts in the order of the
 * dimensions [C, H, W], though the memory is channels-last. Neighbours in a thread mostly share a
 * block, so the last one is kept.
 */
struct dropout_f {
	const int64_t *rng;
	int64_t of_sample, channels; /* 1: e is the place in memory */
	int64_t first; /* index of x's first element among the elements of all samples */
	uint32_t stream;
	float limit;
	double scale;
	uint64_t block;
	uint32_t word[4];

	__device__ void draw(uint64_t wanted)
	{
		block = wanted;
		gt_draw_block(
		    (uint64_t)rng[GT_RNG_SEED], block, stream, (uint32_t)rng[GT_RNG_STEP], word);
	}

	__device__ bool begin()
	{
		draw(0);
		return true;
	}

	template <class W> __device__ void operator()(W &y, int64_t i, W x)
	{
		int64_t at = first + i, e = at % of_sample;
		int64_t sample = rng[GT_RNG_FIRST] + at / of_sample * rng[GT_RNG_STRIDE];
		uint64_t c;
		uint32_t bits;

		if (channels > 1)
			e = e % channels * (of_sample / channels) + e / channels;
		c = (uint64_t)(sample * of_sample + e);
		if (c / 4 != block)
			draw(c / 4);
		bits = gt_drawn(word, c);
		y = (float)(bits >> 8) * 0x1p-24f < limit ? 0 : x * (W)scale;
	}
};

template <class T> static int run_dropout(struct gt_call *call, struct gt_err *err)
{
	const struct gt_tensor *t = &call->in[0];
	int64_t n = gt_tensor_elements(t), samples = t->ndim ? t->shape[0] : 1;
	double p = call->attrs.dropout.p;
	dropout_f f = {};

	f.rng = gt_in_data<int64_t>(call, 1);
	f.of_sample = samples ? n / samples : 0;
	if (call->attrs.dropout.sample)
		f.of_sample = call->attrs.dropout.sample;
	f.first = call->attrs.dropout.first;
	f.channels = t->layout == GT_CHANNELS_LAST ? t->shape[1] : 1;
	f.stream = call->attrs.dropout.stream;
	f.limit = (float)p;
	f.scale = 1 / (1 - p);
	return gt_map(call->stream, "dropout", n, f, err, gt_out(gt_out_data<T>(call)), gt_index(),
	    gt_in(gt_in_data<T>(call, 0)));
}

const struct gt_kernel gt_cuda_dropout_kernels[] = {
	GT_ROWS(dropout, nullptr, nullptr),
	{},
};
