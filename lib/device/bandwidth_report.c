/* bandwidth_report.c - the copies of a machine: how fast, and whether GPUs reach each other. */
#include "lib/device/bandwidth_report.h"

#include <stdio.h>
#include <stdlib.h>

#include "lib/base/mem.h"

enum {
	MOST_BYTES = 32 << 20,
	LEAST_BYTES = 1 << 20,
	CHECKED_BYTES = 4 << 20,
	CPU_BYTES = 64 << 20
};

static const struct gt_measure quick = { .rounds = 3, .seconds = 0.02 };

static int rate(double *bytes_per_s, struct gt_copies *c, enum gt_copy kind, size_t from, size_t to,
    size_t bytes, struct gt_err *err)
{
	double time_s;
	int rc = gt_copies_measure(&time_s, c, kind, from, to, bytes, &quick, err);

	if (!rc)
		*bytes_per_s = (kind == GT_COPY_PEERS ? 2 : 1) * (double)bytes / time_s;
	return rc;
}

static int read_cpu(struct gt_bandwidth *b, struct gt_err *err)
{
	const struct gt_device_name cpu = { gt_backend_find("cpu"), 0 };
	struct gt_copies *c;
	int rc = gt_copies_open(&c, &cpu, 1, CPU_BYTES, err);

	if (!rc)
		rc = rate(&b->cpu, c, GT_COPY_WITHIN, 0, 0, CPU_BYTES, err);
	gt_copies_close(c);
	return rc;
}

static int read_pair(struct gt_bandwidth *b, struct gt_copies *c, size_t from, size_t to,
    bool rates, struct gt_err *err)
{
	struct gt_peer_report *p = &b->peer[from * b->count + to];
	int rc = gt_copies_check(&p->wrong, &p->words, c, from, to, err);

	p->direct = gt_copies_direct(c, from, to);
	if (!rc && rates)
		rc = rate(&p->bytes_per_s, c, GT_COPY_PEER, from, to, b->bytes, err);
	if (!rc && rates)
		rc = rate(&p->both_bytes_per_s, c, GT_COPY_PEERS, from, to, b->bytes, err);
	return rc;
}

static int read_copies(struct gt_bandwidth *b, struct gt_copies *c, bool rates, struct gt_err *err)
{
	int rc = 0;

	for (size_t i = 0; rates && i < b->count; i++)
		for (enum gt_copy kind = 0; !rc && kind <= GT_COPY_WITHIN; kind++)
			rc = rate(&b->rate[i][kind], c, kind, i, i, b->bytes, err);
	for (size_t i = 0; gt_copies_has(c, GT_COPY_PEER) && i < b->count; i++)
		for (size_t k = 0; !rc && k < b->count; k++)
			if (i != k)
				rc = read_pair(b, c, i, k, rates, err);
	return rc;
}

/* Use the largest copies that fit: another process may hold almost all memory. */
static int open_copies(struct gt_copies **c, struct gt_bandwidth *b,
    const struct gt_device_name *names, bool rates, struct gt_err *err)
{
	int rc;

	b->bytes = rates ? MOST_BYTES : CHECKED_BYTES;
	do
		rc = gt_copies_open(c, names, b->count, b->bytes, err);
	while (rc == GT_ENOMEM && (b->bytes /= 2) >= LEAST_BYTES);
	return rc;
}

static int read_gpus(
    struct gt_bandwidth *b, const struct gt_backend *cuda, bool rates, struct gt_err *err)
{
	struct gt_device_name *names = gt_calloc(b->count, sizeof(*names), err);
	struct gt_err why = GT_ERR_INIT;
	struct gt_copies *c = NULL;
	int rc;

	b->rate = gt_calloc(b->count, sizeof(*b->rate), err);
	b->peer = gt_calloc(b->count * b->count, sizeof(*b->peer), err);
	if (!names || !b->rate || !b->peer) {
		free(names);
		return GT_ENOMEM;
	}
	for (size_t i = 0; i < b->count; i++)
		names[i] = (struct gt_device_name){ cuda, (int)i };
	rc = open_copies(&c, b, names, rates, &why);
	if (!rc)
		rc = read_copies(b, c, rates, &why);
	if (rc)
		snprintf(b->problem, sizeof(b->problem), "%s", why.text);
	gt_copies_close(c);
	free(names);
	return 0;
}

int gt_bandwidth_read(struct gt_bandwidth *out, bool rates, struct gt_err *err)
{
	const struct gt_backend *cuda = gt_backend_find("cuda");
	int rc = 0, count = cuda ? cuda->count() : 0;

	*out = (struct gt_bandwidth){ .count = count > 0 ? (size_t)count : 0 };
	if (rates)
		rc = read_cpu(out, err);
	if (!rc && out->count && (rates || out->count > 1))
		rc = read_gpus(out, cuda, rates, err);
	if (rc)
		gt_bandwidth_release(out);
	return rc;
}

void gt_bandwidth_release(struct gt_bandwidth *b)
{
	free(b->rate);
	free(b->peer);
	*b = (struct gt_bandwidth){ 0 };
}
