/* meter.c - bytes of a job of several threads, on a progress line. */
#include "lib/base/meter.h"

#include "lib/base/clock.h"
#include "lib/base/copy.h"
#include "lib/base/text.h"

enum { MIB_BITS = 20 };

void gt_meter_begin(
    struct gt_meter *m, struct gt_progress *progress, const char *unit, uint64_t total_bytes)
{
	m->progress = progress;
	m->drawer = pthread_self();
	m->began = gt_clock_s();
	atomic_init(&m->bytes, 0);
	m->outer = gt_progress_enter(progress, unit, (int64_t)(total_bytes >> MIB_BITS));
}

void gt_meter_add(struct gt_meter *m, uint64_t bytes)
{
	uint64_t done = atomic_fetch_add(&m->bytes, bytes) + bytes;
	double seconds = gt_clock_s() - m->began;
	char rate[GT_TEXT_SIZE], text[GT_TEXT_SIZE + 2];
	const struct gt_progress_field fields[] = { { text, 1 }, { 0 } };

	if (!m->progress || !pthread_equal(m->drawer, pthread_self()))
		return;
	snprintf(text, sizeof(text), "%s/s",
	    gt_text_bytes(rate, seconds > 0 ? (uint64_t)((double)done / seconds) : 0));
	gt_progress_update(m->progress, (int64_t)(done >> MIB_BITS), fields);
}

/* The parts are long, so that the kernel copies as fast as in one call, and are whole blocks, which
 * files can share. */
int gt_meter_copy(struct gt_meter *m, int out, uint64_t out_at, int in, uint64_t in_at,
    uint64_t size, bool write_back, struct gt_err *err)
{
	static const uint64_t most = UINT64_C(64) << 20;
	int rc = 0;

	for (uint64_t done = 0, part; !rc && done < size; done += part) {
		part = size - done < most ? size - done : most;
		rc = gt_copy_range(out, out_at + done, in, in_at + done, part, write_back, err);
		gt_meter_add(m, part);
	}
	return rc;
}

void gt_meter_end(struct gt_meter *m)
{
	gt_progress_leave(m->progress, &m->outer);
}
