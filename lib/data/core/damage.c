/* damage.c - the record of damaged samples: a bit for each, and the errors of the first ones. */
#include "lib/data/core/damage.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"

struct sample_error {
	int64_t sample; /* -1: none */
	/* gt_damage_next() has returned it; no bool, because ranks exchange these bytes */
	int32_t given;
	char text[GT_DAMAGE_TEXT];
};

struct gt_damage {
	int64_t samples;
	bool strict;
	atomic_llong count;   /* number of bits that are set */
	pthread_mutex_t lock; /* guards the members below */
	uint8_t *bits;        /* [samples / 8, rounded up]; NULL until the first is recorded */
	struct sample_error first[GT_DAMAGE_TEXTS]; /* ascending; unused entries follow */
};

static size_t bits_bytes(const struct gt_damage *d)
{
	return (size_t)((d->samples + 7) / 8);
}

int gt_damage_new(struct gt_damage **out, int64_t samples, bool strict, struct gt_err *err)
{
	struct gt_damage *d = gt_calloc(1, sizeof(*d), err);

	*out = d;
	if (!d)
		return GT_ENOMEM;
	d->samples = samples;
	d->strict = strict;
	for (int i = 0; i < GT_DAMAGE_TEXTS; i++)
		d->first[i].sample = -1;
	pthread_mutex_init(&d->lock, NULL);
	return 0;
}

void gt_damage_free(struct gt_damage *d)
{
	if (!d)
		return;
	pthread_mutex_destroy(&d->lock);
	free(d->bits);
	free(d);
}

static bool is_set(const struct gt_damage *d, int64_t sample)
{
	return d->bits && d->bits[sample / 8] >> (sample % 8) & 1;
}

/* Set the sample's bit; the lock is held. */
static int set(struct gt_damage *d, int64_t sample, struct gt_err *err)
{
	if (!d->bits)
		d->bits = gt_calloc(bits_bytes(d), 1, err);
	if (!d->bits)
		return GT_ENOMEM;
	if (!is_set(d, sample))
		atomic_fetch_add(&d->count, 1);
	d->bits[sample / 8] |= (uint8_t)(1 << sample % 8);
	return 0;
}

/* Keep the text if the sample is among the first ones and has none; the lock is held. */
static void note_damaged_sample(struct gt_damage *d, int64_t sample, const char *text)
{
	int i = 0, last = GT_DAMAGE_TEXTS - 1;

	while (i <= last && d->first[i].sample >= 0 && d->first[i].sample < sample)
		i++;
	if (i > last || d->first[i].sample == sample)
		return;
	memmove(&d->first[i + 1], &d->first[i], (size_t)(last - i) * sizeof(*d->first));
	d->first[i] = (struct sample_error){ .sample = sample };
	snprintf(d->first[i].text, sizeof(d->first[i].text), "%s", text);
}

int gt_damage_record(struct gt_damage *d, int64_t sample, struct gt_err *err)
{
	int code = err->code, rc;

	if (d->strict)
		return code;
	pthread_mutex_lock(&d->lock);
	rc = set(d, sample, err);
	if (!rc)
		note_damaged_sample(d, sample, err->text);
	if (!rc && d->count == d->samples) {
		rc = code;
		d->first[0].given = true;
		if (d->samples > 1)
			gt_err_set(err, code,
			    "none of the %lld images can be decoded; the first: %s",
			    (long long)d->samples, d->first[0].text);
	}
	pthread_mutex_unlock(&d->lock);
	return rc;
}

bool gt_damage_has(struct gt_damage *d, int64_t sample)
{
	bool has;

	if (!d->count)
		return false;
	pthread_mutex_lock(&d->lock);
	has = is_set(d, sample);
	pthread_mutex_unlock(&d->lock);
	return has;
}

int64_t gt_damage_count(const struct gt_damage *d)
{
	return d->count;
}

int64_t gt_damage_samples(const struct gt_damage *d)
{
	return d->samples;
}

bool gt_damage_next(struct gt_damage *d, char text[GT_DAMAGE_TEXT])
{
	struct sample_error *next = NULL;

	pthread_mutex_lock(&d->lock);
	for (int i = 0; i < GT_DAMAGE_TEXTS && !next; i++)
		if (d->first[i].sample >= 0 && !d->first[i].given)
			next = &d->first[i];
	if (next) {
		next->given = true;
		memcpy(text, next->text, sizeof(next->text));
	}
	pthread_mutex_unlock(&d->lock);
	return next != NULL;
}

size_t gt_damage_bytes(const struct gt_damage *d)
{
	return sizeof(d->first) + bits_bytes(d);
}

void gt_damage_pack(struct gt_damage *d, void *out)
{
	pthread_mutex_lock(&d->lock);
	memcpy(out, d->first, sizeof(d->first));
	if (d->bits)
		memcpy((char *)out + sizeof(d->first), d->bits, bits_bytes(d));
	else
		memset((char *)out + sizeof(d->first), 0, bits_bytes(d));
	pthread_mutex_unlock(&d->lock);
}

int gt_damage_merge(struct gt_damage *d, const void *packed, struct gt_err *err)
{
	const uint8_t *bits = (const uint8_t *)packed + sizeof(d->first);
	int rc = 0;

	pthread_mutex_lock(&d->lock);
	for (int64_t i = 0; !rc && i < d->samples; i++)
		if (bits[i / 8] >> (i % 8) & 1)
			rc = set(d, i, err);
	for (int i = 0; !rc && i < GT_DAMAGE_TEXTS; i++) {
		struct sample_error other;

		memcpy(&other, (const char *)packed + (size_t)i * sizeof(other), sizeof(other));
		if (other.sample >= 0)
			note_damaged_sample(d, other.sample, other.text);
	}
	pthread_mutex_unlock(&d->lock);
	return rc;
}
