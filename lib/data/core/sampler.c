/* sampler.c - which samples a rank reads, as torch.utils.data.DistributedSampler has it. */
#include "lib/base/philox.h"
#include "lib/data/core/source.h"

void gt_permute(int64_t *order, int64_t n, uint64_t seed, uint32_t stream, uint32_t step)
{
	for (int64_t i = 0; i < n; i++) {
		uint64_t bits = gt_philox_u64(seed, (uint64_t)i, stream, step);
		int64_t j = (int64_t)gt_philox_below(bits, (uint64_t)i + 1);

		/* The "inside-out" form: fills and shuffles in one pass. */
		order[i] = i;
		order[i] = order[j];
		order[j] = i;
	}
}

static int virtual_ranks(const struct gt_sampler *s)
{
	return s->virtual_ranks > 1 ? s->virtual_ranks : 1;
}

/* Count the samples of this rank: ranks take whole batches in turn, then the short last one. */
static int64_t rank_samples_by_batch(const struct gt_sampler *s)
{
	int64_t whole = s->samples / s->batch, next = whole % s->world;

	return (whole / s->world + (s->rank < next)) * s->batch +
	       (s->rank == next ? s->samples % s->batch : 0);
}

int64_t gt_sampler_rank_samples(const struct gt_sampler *s)
{
	int64_t whole = s->samples / s->world, rest = s->samples % s->world;

	if (s->by_batch)
		return rank_samples_by_batch(s);
	if (s->drop_last || !rest)
		return whole * virtual_ranks(s);
	return (whole + (s->pad || s->rank < rest)) * virtual_ranks(s);
}

int64_t gt_sampler_batches(const struct gt_sampler *s)
{
	int64_t n = gt_sampler_rank_samples(s), whole = n / s->batch;

	if (!s->drop_last)
		return whole + (n % s->batch != 0);
	return s->per_step > 1 ? whole - whole % s->per_step : whole;
}

void gt_sampler_permutation(const struct gt_sampler *s, uint32_t epoch, int64_t *order)
{
	if (s->shuffle) {
		gt_permute(order, s->samples, s->seed, GT_RNG_SHUFFLE, epoch);
		return;
	}
	for (int64_t i = 0; i < s->samples; i++)
		order[i] = i;
}

int gt_sampler_batch(const struct gt_sampler *s, const int64_t *order, int64_t step, int64_t *index)
{
	int64_t first = step * s->batch, left = gt_sampler_rank_samples(s) - first;
	int count = left < s->batch ? (int)left : s->batch;

	if (step < 0 || step >= gt_sampler_batches(s))
		return 0;
	for (int i = 0; s->by_batch && i < count; i++)
		index[i] = order[(step * s->world + s->rank) * s->batch + i];
	if (s->by_batch)
		return count;
	/* Padding repeats the permutation from its head, as often as it takes: hence the modulo. */
	for (int i = 0; i < count; i++) {
		int rank = s->rank + i / (count / virtual_ranks(s)),
		    place = i % (count / virtual_ranks(s));

		index[i] =
		    order[(rank + (first / virtual_ranks(s) + place) * s->world) % s->samples];
	}
	return count;
}
