/* csv.c - print the state of GPUs as CSV, for gtrain probe --csv. */
#include <inttypes.h>
#include <time.h>

#include "cmd/probe/print.h"
#include "cmd/table_out.h"

/* The figures of a line, after the time, the device, the index and the name. */
static const struct {
	const char *name;
	size_t offset; /* where the struct gt_maybe lies in struct gt_gpu */
	bool milli;    /* in thousandths of the unit */
} figures[] = {
	{ "utilization_percent", offsetof(struct gt_gpu, utilization_percent), false },
	{ "memory_used_bytes", offsetof(struct gt_gpu, memory_used_bytes), false },
	{ "memory_total_bytes", offsetof(struct gt_gpu, memory_total_bytes), false },
	{ "temperature_c", offsetof(struct gt_gpu, temperature_c), false },
	{ "power_w", offsetof(struct gt_gpu, power_mw), true },
	{ "power_limit_w", offsetof(struct gt_gpu, power_limit_mw), true },
	{ "clock_sm_mhz", offsetof(struct gt_gpu, clock_sm_mhz), false },
	{ "clock_memory_mhz", offsetof(struct gt_gpu, clock_memory_mhz), false },
	{ "ecc_uncorrected_errors", offsetof(struct gt_gpu, ecc_errors), false },
};

enum { FIGURES = sizeof(figures) / sizeof(*figures) };

static void print_figure(FILE *out, const struct gt_gpu *gpu, int i)
{
	const struct gt_maybe *m =
	    (const struct gt_maybe *)(const void *)((const char *)gpu + figures[i].offset);

	fputc(',', out);
	if (m->known && figures[i].milli)
		fprintf(out, "%" PRIu64 ".%03" PRIu64, m->value / 1000, m->value % 1000);
	else if (m->known)
		fprintf(out, "%" PRIu64, m->value);
}

/* The time in UTC, with milliseconds, as in ISO 8601. */
static void print_time(FILE *out)
{
	struct timespec now;
	char text[32] = "";
	struct tm tm;

	clock_gettime(CLOCK_REALTIME, &now);
	if (gmtime_r(&now.tv_sec, &tm))
		strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	fprintf(out, "%s.%03ldZ", text, now.tv_nsec / 1000000);
}

int gt_probe_print_csv(FILE *out, const struct gt_gpus *gpus, bool header, struct gt_err *err)
{
	char device[GT_DEVICE_NAME_SIZE];

	if (header) {
		fputs("time,device,gpu,name", out);
		for (int i = 0; i < FIGURES; i++)
			fprintf(out, ",%s", figures[i].name);
		fputc('\n', out);
	}
	for (size_t g = 0; g < gpus->count; g++) {
		const struct gt_gpu *gpu = &gpus->gpu[g];
		const char *name = gt_probe_device(device, gpu);

		print_time(out);
		fprintf(out, ",%s,%d,", name ? name : "", gpu->index);
		gt_csv_field(out, gpu->name);
		for (int i = 0; i < FIGURES; i++)
			print_figure(out, gpu, i);
		fputc('\n', out);
	}
	return ferror(out) ? gt_err_sys(err, "cannot write the report") : 0;
}
