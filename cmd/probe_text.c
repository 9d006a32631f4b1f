/* probe_text.c - the result of gtrain probe as text. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/probe_print.h"
#include "lib/base/mem.h"
#include "lib/base/text.h"

static void label(FILE *out, bool color, const char *text)
{
	fprintf(out, "%s%-9s%s ", color ? "\033[1m" : "", text, color ? "\033[0m" : "");
}

/* Text from outside, nothing in it that a terminal might obey. */
static void put_clean(FILE *out, const char *text)
{
	for (; *text; text++)
		fputc(*text >= ' ' && *text <= '~' ? *text : '?', out);
}

enum { COLUMNS = 11 };

struct row {
	char cell[COLUMNS][GT_GPU_TEXT_SIZE + 16];
};

static const struct {
	const char *title;
	bool right; /* numbers end in one column */
} columns[COLUMNS] = {
	{ "device", false },
	{ "GPU", true },
	{ "name", false },
	{ "compute", true },
	{ "memory", true },
	{ "free", true },
	{ "busy", true },
	{ "temp", true },
	{ "power", true },
	{ "PCI bus id", false },
	{ "UUID", false },
};

/* A cell: the figure through a format, or '?' where it is unknown. */
static void put_figure(char *cell, struct gt_maybe figure, const char *unit)
{
	if (figure.known)
		snprintf(cell, GT_GPU_TEXT_SIZE, "%" PRIu64 "%s", figure.value, unit);
	else
		snprintf(cell, GT_GPU_TEXT_SIZE, "?");
}

static void put_bytes(char *cell, struct gt_maybe figure)
{
	char text[GT_TEXT_SIZE];

	snprintf(
	    cell, GT_GPU_TEXT_SIZE, "%s", figure.known ? gt_text_bytes(text, figure.value) : "?");
}

static void put_text(char *cell, const char *text, const char *otherwise)
{
	snprintf(cell, sizeof(((struct row *)0)->cell[0]), "%s", text && *text ? text : otherwise);
}

static void fill_row(struct row *row, const struct gt_gpu *gpu)
{
	struct gt_maybe watts = { gpu->power_mw.known, (gpu->power_mw.value + 500) / 1000 };
	char device[GT_DEVICE_NAME_SIZE], capability[16];
	const char *uuid = gpu->logical_mig < 0 ? gpu->uuid : gpu->mig_uuid[gpu->logical_mig];

	put_text(row->cell[0], gt_probe_device(device, gpu), "-");
	snprintf(row->cell[1], sizeof(row->cell[1]), "%d", gpu->index);
	put_text(row->cell[2], gpu->problem[0] ? gpu->problem : gpu->name, "?");
	if (gpu->mig.value)
		strcat(row->cell[2], " (MIG)");
	put_text(row->cell[3], gt_probe_capability(capability, gpu), "?");
	put_bytes(row->cell[4], gpu->memory_total_bytes);
	put_bytes(row->cell[5], gpu->memory_free_bytes);
	put_figure(row->cell[6], gpu->utilization_percent, " %");
	put_figure(row->cell[7], gpu->temperature_c, " C");
	put_figure(row->cell[8], watts, " W");
	put_text(row->cell[9], gpu->pci_bus_id, "?");
	put_text(row->cell[10], uuid, "?");
}

static void print_row(FILE *out, const struct row *row, const size_t width[COLUMNS])
{
	for (int c = 0; c < COLUMNS; c++) {
		int pad = (int)(width[c] - strlen(row->cell[c]));

		fprintf(out, "%s%*s", c ? "  " : "", columns[c].right ? pad : 0, "");
		put_clean(out, row->cell[c]);
		if (!columns[c].right && c < COLUMNS - 1)
			fprintf(out, "%*s", pad, "");
	}
	fputc('\n', out);
}

static int print_gpu_table(FILE *out, const struct gt_gpus *gpus, struct gt_err *err)
{
	struct row *rows = gt_calloc(gpus->count + 1, sizeof(*rows), err);
	size_t width[COLUMNS] = { 0 };

	if (!rows)
		return GT_ENOMEM;
	for (int c = 0; c < COLUMNS; c++)
		put_text(rows[0].cell[c], columns[c].title, "");
	for (size_t i = 0; i < gpus->count; i++)
		fill_row(&rows[i + 1], &gpus->gpu[i]);
	for (size_t i = 0; i <= gpus->count; i++)
		for (int c = 0; c < COLUMNS; c++)
			if (strlen(rows[i].cell[c]) > width[c])
				width[c] = strlen(rows[i].cell[c]);
	for (size_t i = 0; i <= gpus->count; i++)
		print_row(out, &rows[i], width);
	free(rows);
	return 0;
}

static void line(FILE *out, bool color, const char *name, const char *text)
{
	label(out, color, name);
	put_clean(out, text);
	fputc('\n', out);
}

static void print_gpu_count(FILE *out, const struct gt_probe *probe)
{
	if (probe->gpus.count == 0) {
		fprintf(out, "none: ");
		put_clean(out, probe->reason);
	} else {
		fprintf(out, "%zu, %zu visible to CUDA", probe->gpus.count, probe->visible);
	}
	if (probe->visible_devices) {
		fprintf(out, " (CUDA_VISIBLE_DEVICES='");
		put_clean(out, probe->visible_devices);
		fprintf(out, "')");
	}
	fputc('\n', out);
}

static int print_gpus(FILE *out, bool color, const struct gt_probe *probe, struct gt_err *err)
{
	const struct gt_gpus *gpus = &probe->gpus;
	char runtime[32], driver[160];

	label(out, color, "GPUs");
	print_gpu_count(out, probe);
	if (gpus->driver[0]) {
		snprintf(driver, sizeof(driver), "%s%s%s", gpus->driver,
		    gpus->cuda_version.known ? ", runs CUDA up to " : "",
		    gpus->cuda_version.known ? gt_probe_runtime(runtime, gpus) : "");
		line(out, color, "driver", driver);
	}
	if (gpus->count == 0)
		return 0;
	if (!probe->cuda_available) {
		label(out, color, "CUDA");
		fprintf(out, "not usable: %s\n", probe->reason);
	}
	if (probe->note[0])
		line(out, color, "note", probe->note);
	if (probe->order_unsure)
		line(out, color, "note", gt_probe_order_note);
	fputc('\n', out);
	return print_gpu_table(out, gpus, err);
}

static void print_cores(FILE *out, const struct gt_cpu *cpu)
{
	if (cpu->cores)
		fprintf(out, "%zu physical, ", cpu->cores);
	fprintf(out, "%zu logical, %zu usable here", cpu->threads, cpu->usable);
	if (cpu->allowed < cpu->threads)
		fprintf(out, " (affinity: %zu)", cpu->allowed);
	if (cpu->quota > 0)
		fprintf(out, " (cgroup quota: %.3g)", cpu->quota);
	if (cpu->sockets)
		fprintf(out, "; %zu socket%s", cpu->sockets, cpu->sockets == 1 ? "" : "s");
	if (cpu->node_count)
		fprintf(out, ", %zu NUMA node%s", cpu->node_count, cpu->node_count == 1 ? "" : "s");
	fputc('\n', out);
}

static void print_memory(FILE *out, const struct gt_cpu *cpu)
{
	char total[GT_TEXT_SIZE], available[GT_TEXT_SIZE], limit[GT_TEXT_SIZE];

	if (!cpu->memory_total_bytes.known)
		fprintf(out, "?");
	else
		fprintf(out, "%s", gt_text_bytes(total, cpu->memory_total_bytes.value));
	if (cpu->memory_available_bytes.known)
		fprintf(out, ", %s available",
		    gt_text_bytes(available, cpu->memory_available_bytes.value));
	if (cpu->memory_limit_bytes.known)
		fprintf(
		    out, ", cgroup limit %s", gt_text_bytes(limit, cpu->memory_limit_bytes.value));
	fputc('\n', out);
}

static void print_math(FILE *out, const struct gt_cpu_math *math)
{
	if (math->onednn[0])
		fprintf(out, "oneDNN %s (%s)", math->onednn, math->isa);
	else
		fputs("no oneDNN", out);
	fprintf(out, ", OpenMP with %d thread%s\n", math->openmp_threads,
	    math->openmp_threads == 1 ? "" : "s");
}

static void print_cpu(FILE *out, bool color, const struct gt_probe *probe)
{
	const struct gt_cpu *cpu = &probe->cpu;
	char size[GT_TEXT_SIZE];

	label(out, color, "CPU");
	put_clean(out, cpu->model[0] ? cpu->model : "unknown model");
	fprintf(out, " (%s)\n", cpu->arch[0] ? cpu->arch : "?");
	label(out, color, "cores");
	print_cores(out, cpu);
	label(out, color, "vector");
	for (size_t i = 0; i < cpu->feature_count; i++)
		fprintf(out, "%s%s", i ? " " : "", cpu->feature[i]);
	fprintf(out, "%s\n", cpu->feature_count ? "" : "?");
	label(out, color, "caches");
	for (size_t i = 0; i < cpu->cache_count; i++)
		fprintf(out, "%s%s %s", i ? ", " : "", cpu->cache[i].name,
		    gt_text_bytes(size, cpu->cache[i].size_bytes));
	fprintf(out, "%s\n", cpu->cache_count ? "" : "?");
	label(out, color, "memory");
	print_memory(out, cpu);
	label(out, color, "math");
	print_math(out, &probe->math);
	label(out, color, "backends");
	for (size_t i = 0; i < GT_PROBE_BACKENDS; i++)
		fprintf(out, "%s%s%s%s", i ? "; " : "", probe->backend[i].name,
		    probe->backend[i].available ? "" : ": ", probe->backend[i].reason);
	fputc('\n', out);
}

int gt_probe_print_text(FILE *out, bool color, const struct gt_probe *probe, struct gt_err *err)
{
	int rc = print_gpus(out, color, probe, err);

	if (rc)
		return rc;
	fputc('\n', out);
	print_cpu(out, color, probe);
	return ferror(out) ? gt_err_sys(err, "cannot write the list of devices") : 0;
}
