/* text.c - the result of gtrain probe as text. */
#include <string.h>

#include "cmd/probe/print.h"
#include "lib/base/text.h"

enum { LABEL = 10 };

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

void gt_probe_put_text(FILE *out, const char *text, int column, int indent, int width)
{
	while (*text) {
		int blanks = (int)strspn(text, " ");
		int length = (int)strcspn(text + blanks, " ");

		if (width && column > indent && column + blanks + length > width) {
			fprintf(out, "\n%*s", indent, "");
			column = indent;
			text += blanks;
			blanks = 0;
		}
		for (int i = 0; i < blanks + length; i++, text++)
			fputc(*text >= ' ' && *text <= '~' ? *text : '?', out);
		column += blanks + length;
	}
}

static void line(FILE *out, bool color, const char *name, const char *text, int width)
{
	label(out, color, name);
	gt_probe_put_text(out, text, LABEL, LABEL, width);
	fputc('\n', out);
}

static void print_gpu_count(FILE *out, const struct gt_probe *probe, int width)
{
	if (probe->gpus.count == 0) {
		fprintf(out, "none: ");
		gt_probe_put_text(out, probe->reason, LABEL + (int)strlen("none: "), LABEL, width);
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

static void print_gpus(FILE *out, bool color, const struct gt_probe *probe, int width)
{
	const struct gt_gpus *gpus = &probe->gpus;
	char runtime[32], driver[160], reason[280];

	label(out, color, "GPUs");
	print_gpu_count(out, probe, width);
	if (gpus->driver[0]) {
		snprintf(driver, sizeof(driver), "%s%s%s", gpus->driver,
		    gpus->cuda_version.known ? ", runs CUDA up to " : "",
		    gpus->cuda_version.known ? gt_probe_runtime(runtime, gpus) : "");
		line(out, color, "driver", driver, width);
	}
	if (gpus->count == 0)
		return;
	if (probe->nvrtc.version) {
		snprintf(runtime, sizeof(runtime), "%d.%d", probe->nvrtc.version / 1000,
		    probe->nvrtc.version % 1000 / 10);
		line(out, color, "NVRTC", runtime, width);
	} else if (probe->nvrtc.reason[0]) {
		line(out, color, "NVRTC", probe->nvrtc.reason, width);
	}
	if (!probe->cuda_available) {
		snprintf(reason, sizeof(reason), "not usable: %s", probe->reason);
		line(out, color, "CUDA", reason, width);
	}
	if (probe->note[0])
		line(out, color, "note", probe->note, width);
	if (probe->order_unsure)
		line(out, color, "note", gt_probe_order_note, width);
	fputc('\n', out);
	gt_probe_print_gpus(out, gpus);
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

/* The only list that is longer than a line of 80 characters. */
static void print_features(FILE *out, const struct gt_cpu *cpu)
{
	enum { COLUMNS = 80 };
	size_t column = LABEL;

	for (size_t i = 0; i < cpu->feature_count; i++) {
		size_t width = strlen(cpu->feature[i]);

		if (i && column + 1 + width > COLUMNS) {
			fprintf(out, "\n%*s", LABEL, "");
			column = LABEL;
		} else if (i) {
			fputc(' ', out);
			column++;
		}
		fputs(cpu->feature[i], out);
		column += width;
	}
	fprintf(out, "%s\n", cpu->feature_count ? "" : "?");
}

static void print_backends(FILE *out, bool color, const struct gt_probe *probe, int width)
{
	char text[GT_PROBE_BACKENDS * (GT_REASON_SIZE + 32)] = "";

	for (size_t i = 0; i < GT_PROBE_BACKENDS; i++) {
		const struct gt_backend_status *b = &probe->backend[i];
		size_t used = strlen(text);

		snprintf(text + used, sizeof(text) - used, "%s%s%s%s", i ? "; " : "", b->name,
		    b->available ? "" : ": ", b->reason);
	}
	line(out, color, "backends", text, width);
}

static void print_cpu(FILE *out, bool color, const struct gt_probe *probe, int width)
{
	const struct gt_cpu *cpu = &probe->cpu;
	char size[GT_TEXT_SIZE];

	label(out, color, "CPU");
	put_clean(out, cpu->model[0] ? cpu->model : "unknown model");
	fprintf(out, " (%s)\n", cpu->arch[0] ? cpu->arch : "?");
	label(out, color, "cores");
	print_cores(out, cpu);
	label(out, color, "vector");
	print_features(out, cpu);
	label(out, color, "caches");
	for (size_t i = 0; i < cpu->cache_count; i++)
		fprintf(out, "%s%s %s", i ? ", " : "", cpu->cache[i].name,
		    gt_text_bytes(size, cpu->cache[i].size_bytes));
	fprintf(out, "%s\n", cpu->cache_count ? "" : "?");
	label(out, color, "memory");
	print_memory(out, cpu);
	label(out, color, "math");
	print_math(out, &probe->math);
	print_backends(out, color, probe, width);
}

int gt_probe_print_text(FILE *out, bool color, const struct gt_probe *probe,
    const struct gt_probe_more *more, struct gt_err *err)
{
	print_gpus(out, color, probe, more->width);
	if (more->topology)
		gt_probe_print_topology(out, more->topology);
	fputc('\n', out);
	print_cpu(out, color, probe, more->width);
	if (more->bandwidth)
		gt_probe_print_bandwidth(out, color, more->bandwidth, more->width);
	if (more->findings)
		gt_probe_print_findings(out, color, more->findings, more->width);
	return ferror(out) ? gt_err_sys(err, "cannot write the list of devices") : 0;
}
