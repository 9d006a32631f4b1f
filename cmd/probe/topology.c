/* topology.c - how GPUs are linked, as text and as JSON. */
#include <string.h>

#include "cmd/probe/print.h"

static const struct {
	const char *name, *meaning;
} legend[GT_LINKS] = {
	[GT_LINK_UNKNOWN] = { "?", "the driver does not say" },
	[GT_LINK_SELF] = { "X", "the GPU itself" },
	[GT_LINK_NVLINK] = { "NV#", "# NVLinks" },
	[GT_LINK_BOARD] = { "INT", "on one board" },
	[GT_LINK_PIX] = { "PIX", "at most one PCIe bridge" },
	[GT_LINK_PXB] = { "PXB", "several PCIe bridges, but not the CPU" },
	[GT_LINK_PHB] = { "PHB", "PCIe and the host bridge of a CPU" },
	[GT_LINK_NODE] = { "NODE", "PCIe and several host bridges of one NUMA node" },
	[GT_LINK_SYS] = { "SYS", "PCIe and the connection between NUMA nodes" },
};

static struct gt_gpu_link link_at(const struct gt_topology *t, size_t a, size_t b)
{
	return t->links[a * t->count + b];
}

static size_t longest_cpus(const struct gt_topology *t)
{
	size_t longest = strlen("CPUs");

	for (size_t i = 0; i < t->count; i++)
		if (strlen(t->affinity[i].cpus) > longest)
			longest = strlen(t->affinity[i].cpus);
	return longest;
}

static void print_matrix(FILE *out, const struct gt_topology *t)
{
	int cpus = (int)longest_cpus(t);
	char name[16];

	fprintf(out, "%-6s", "");
	for (size_t i = 0; i < t->count; i++)
		fprintf(out, "GPU%-3zu", i);
	fprintf(out, "%-*s  NUMA\n", cpus, "CPUs");
	for (size_t a = 0; a < t->count; a++) {
		fprintf(out, "GPU%-3zu", a);
		for (size_t b = 0; b < t->count; b++)
			fprintf(out, "%-6s", gt_link_name(name, link_at(t, a, b)));
		fprintf(out, "%-*s  %s\n", cpus, t->affinity[a].cpus[0] ? t->affinity[a].cpus : "?",
		    t->affinity[a].nodes[0] ? t->affinity[a].nodes : "?");
	}
}

/* Only those that the matrix has. */
static void print_legend(FILE *out, const struct gt_topology *t)
{
	bool used[GT_LINKS] = { false };

	for (size_t i = 0; i < t->count * t->count; i++)
		used[t->links[i].kind] = true;
	fputc('\n', out);
	for (int k = 0; k < GT_LINKS; k++)
		if (used[k])
			fprintf(out, "%-6s%s\n", legend[k].name, legend[k].meaning);
}

void gt_probe_print_topology(FILE *out, const struct gt_topology *t)
{
	fputc('\n', out);
	if (!t->count) {
		fputs("There is no GPU, and so no topology.\n", out);
		return;
	}
	print_matrix(out, t);
	print_legend(out, t);
}

static json_t *text_or_null(const char *text)
{
	return *text ? json_string(text) : json_null();
}

/* Pairs, each once. */
static json_t *links_json(const struct gt_topology *t)
{
	json_t *list = json_array();

	for (size_t a = 0; a < t->count; a++)
		for (size_t b = a + 1; b < t->count; b++) {
			struct gt_gpu_link link = link_at(t, a, b);
			bool nvlink = link.kind == GT_LINK_NVLINK;
			char name[16];
			json_t *pair =
			    json_pack("{s:[ii], s:o, s:o}", "gpus", (int)a, (int)b, "link",
			        link.kind == GT_LINK_UNKNOWN
			            ? json_null()
			            : json_string(nvlink ? "NV" : gt_link_name(name, link)),
			        "nvlinks", nvlink ? json_integer(link.nvlinks) : json_null());

			if (json_array_append_new(list, pair)) {
				json_decref(list);
				return NULL;
			}
		}
	return list;
}

json_t *gt_probe_topology_json(const struct gt_topology *t)
{
	json_t *near = json_array();

	for (size_t i = 0; i < t->count; i++) {
		json_t *gpu = json_pack("{s:i, s:o, s:o}", "index", (int)i, "cpus",
		    text_or_null(t->affinity[i].cpus), "numa_nodes",
		    text_or_null(t->affinity[i].nodes));

		if (json_array_append_new(near, gpu)) {
			json_decref(near);
			return NULL;
		}
	}
	return json_pack("{s:o, s:o}", "gpus", near, "links", links_json(t));
}
