/* gpus.c - the tables of gtrain probe that have a row per GPU. */
#include <inttypes.h>
#include <string.h>

#include "cmd/probe/print.h"
#include "cmd/table_out.h"
#include "lib/base/text.h"

enum { COLUMNS = 10, CELL = GT_GPU_TEXT_SIZE + 16 };

/* The cells of a row, in the order of the columns. */
struct row {
	char cell[COLUMNS][CELL];
};

struct column {
	const char *title;
	bool right; /* numbers end in one column */
};

/* A table for each question: how much memory, how busy, which GPU. All fit into 80 columns. */
struct shape {
	struct column column[COLUMNS];
	void (*fill)(struct row *row, const struct gt_gpu *gpu);
	bool all; /* a GPU of which nothing is known has a row, too */
};

/* A cell: the figure with its unit, or '?' where it is unknown. */
static void put_figure(char *cell, struct gt_maybe figure, const char *unit)
{
	if (figure.known)
		snprintf(cell, CELL, "%" PRIu64 "%s", figure.value, unit);
	else
		snprintf(cell, CELL, "?");
}

static void put_bytes(char *cell, struct gt_maybe figure)
{
	char text[GT_TEXT_SIZE];

	snprintf(cell, CELL, "%s", figure.known ? gt_text_bytes(text, figure.value) : "?");
}

static void put_text(char *cell, const char *text, const char *otherwise)
{
	snprintf(cell, CELL, "%s", text && *text ? text : otherwise);
}

/* "512/700 W", "345/1980 MHz". */
static void put_part(char *cell, struct gt_maybe part, struct gt_maybe whole, const char *unit)
{
	put_figure(cell, part, "");
	if (whole.known)
		snprintf(cell + strlen(cell), CELL - strlen(cell), "/%" PRIu64, whole.value);
	if (part.known || whole.known)
		snprintf(cell + strlen(cell), CELL - strlen(cell), "%s", unit);
}

static void put_gpu(struct row *row, const struct gt_gpu *gpu)
{
	char device[GT_DEVICE_NAME_SIZE];

	put_text(row->cell[0], gt_probe_device(device, gpu), "-");
	snprintf(row->cell[1], CELL, "%d", gpu->index);
}

static void fill_memory(struct row *row, const struct gt_gpu *gpu)
{
	const char *name = gpu->problem[0] ? gpu->problem : gpu->name;

	put_text(row->cell[2], name, "?");
	if (gpu->mig.value)
		strcat(row->cell[2], " (MIG)");
	put_bytes(row->cell[3], gpu->memory_total_bytes);
	put_bytes(row->cell[4], gpu->memory_used_bytes);
	put_bytes(row->cell[5], gpu->memory_free_bytes);
}

static struct gt_maybe watts(struct gt_maybe mw)
{
	return (struct gt_maybe){ mw.known, (mw.value + 500) / 1000 };
}

static void put_ecc(char *cell, const struct gt_gpu *gpu)
{
	put_text(cell, !gpu->ecc.known ? "?" : gpu->ecc.value ? "on" : "off", "?");
	if (gpu->ecc_errors.value)
		snprintf(cell, CELL, "%" PRIu64 " error%s", gpu->ecc_errors.value,
		    gpu->ecc_errors.value == 1 ? "" : "s");
}

static void fill_state(struct row *row, const struct gt_gpu *gpu)
{
	char capability[16];

	put_text(row->cell[2], gt_probe_capability(capability, gpu), "?");
	put_ecc(row->cell[3], gpu);
	put_figure(row->cell[4], gpu->utilization_percent, " %");
	put_figure(row->cell[5], gpu->temperature_c, " C");
	put_part(row->cell[6], watts(gpu->power_mw), watts(gpu->power_limit_mw), " W");
	put_part(row->cell[7], gpu->clock_sm_mhz, gpu->clock_sm_max_mhz, " MHz");
	put_figure(row->cell[8], gpu->clock_memory_mhz, " MHz");
}

static void fill_names(struct row *row, const struct gt_gpu *gpu)
{
	put_text(row->cell[2], gpu->pci_bus_id, "?");
	put_text(
	    row->cell[3], gpu->logical_mig < 0 ? gpu->uuid : gpu->mig_uuid[gpu->logical_mig], "?");
}

static const struct shape shapes[] = {
	{ { { "device", false }, { "GPU", true }, { "name", false }, { "memory", true },
	      { "used", true }, { "free", true } },
	    fill_memory, true },
	{ { { "device", false }, { "GPU", true }, { "compute", true }, { "ECC", false },
	      { "busy", true }, { "temp", true }, { "power", true }, { "SM clock", true },
	      { "memory", true } },
	    fill_state, false },
	{ { { "device", false }, { "GPU", true }, { "PCI bus id", false }, { "UUID", false } },
	    fill_names, false },
};

static void print_gpu_row(struct gt_table *table, const struct row *row, size_t count)
{
	const char *cells[COLUMNS];

	for (size_t c = 0; c < count; c++)
		cells[c] = row->cell[c];
	gt_table_row(table, cells, count);
}

/* The headings are not bold: tables are told apart by the empty line before them. */
static void print_shape(FILE *out, const struct shape *shape, const struct gt_gpus *gpus)
{
	struct gt_table table = { .out = out };
	struct row row = { 0 };
	size_t count = 0;

	for (; count < COLUMNS && shape->column[count].title; count++)
		table.right[count] = shape->column[count].right;
	for (int measuring = 1; measuring >= 0; measuring--) {
		table.measuring = measuring;
		for (size_t c = 0; c < count; c++)
			put_text(row.cell[c], shape->column[c].title, "");
		print_gpu_row(&table, &row, count);
		for (size_t i = 0; i < gpus->count; i++) {
			if (gpus->gpu[i].problem[0] && !shape->all)
				continue;
			put_gpu(&row, &gpus->gpu[i]);
			shape->fill(&row, &gpus->gpu[i]);
			print_gpu_row(&table, &row, count);
		}
	}
}

static void print_process(
    struct gt_table *table, const struct gt_gpu *gpu, const struct gt_gpu_process *process)
{
	struct row row = { 0 };

	put_gpu(&row, gpu);
	snprintf(row.cell[2], CELL, "%u", process->pid);
	put_bytes(row.cell[3], process->memory_bytes);
	put_text(row.cell[4], process->name, "?");
	print_gpu_row(table, &row, 5);
}

/* Nothing where no process is known. */
static void print_processes(FILE *out, const struct gt_gpus *gpus)
{
	static const char *const titles[] = { "device", "GPU", "PID", "used", "program" };
	struct gt_table table = { .out = out, .right = { [1] = true, [2] = true, [3] = true } };
	size_t count = 0;

	for (size_t i = 0; i < gpus->count; i++)
		count += gpus->gpu[i].process_count;
	if (!count)
		return;
	fputc('\n', out);
	for (int measuring = 1; measuring >= 0; measuring--) {
		table.measuring = measuring;
		gt_table_row(&table, titles, sizeof(titles) / sizeof(*titles));
		for (size_t i = 0; i < gpus->count; i++)
			for (size_t j = 0; j < gpus->gpu[i].process_count; j++)
				print_process(&table, &gpus->gpu[i], &gpus->gpu[i].process[j]);
	}
}

void gt_probe_print_gpus(FILE *out, const struct gt_gpus *gpus)
{
	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
		if (i)
			fputc('\n', out);
		print_shape(out, &shapes[i], gpus);
	}
	print_processes(out, gpus);
}
