/* sampler_dump.c - print which samples a rank draws, for the script that compares with PyTorch. */
#include <stdio.h>
#include <stdlib.h>

#include "lib/data/core/data.h"

static void dump(const struct gt_sampler *s, uint32_t epoch, int64_t *order, int64_t *index)
{
	gt_sampler_permutation(s, epoch, order);
	printf("%lld\n", (long long)gt_sampler_rank_samples(s));
	for (int64_t step = 0; step < gt_sampler_batches(s); step++) {
		int count = gt_sampler_batch(s, order, step, index);

		for (int i = 0; i < count; i++)
			printf("%s%lld", i ? " " : "", (long long)index[i]);
		putchar('\n');
	}
	puts("end");
}

/*
 * Reads lines "samples world rank batch drop_last pad shuffle seed epoch" and answers each with
 * the number of samples of the rank, a line of indices for each batch, and "end".
 */
int main(void)
{
	long long samples;
	unsigned long long seed;
	int world, rank, batch, drop_last, pad, shuffle;
	unsigned epoch;

	while (scanf("%lld %d %d %d %d %d %d %llu %u", &samples, &world, &rank, &batch, &drop_last,
	           &pad, &shuffle, &seed, &epoch) == 9) {
		struct gt_sampler s = { .samples = samples,
			.seed = seed,
			.rank = rank,
			.world = world,
			.batch = batch,
			.shuffle = shuffle,
			.drop_last = drop_last,
			.pad = pad };
		int64_t *order = malloc((size_t)samples * sizeof(*order));
		int64_t *index = malloc((size_t)batch * sizeof(*index));

		if (!order || !index)
			return 1;
		dump(&s, epoch, order, index);
		free(order);
		free(index);
	}
	return fflush(stdout) ? 1 : 0;
}
