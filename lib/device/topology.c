/* topology.c - how GPUs are linked with each other, and which CPUs are near them. */
#include "lib/device/topology.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/device/nvml_api.h"

/* Numbers of CPUs and nodes in the masks: more than any machine has now. */
enum { CPUS_MAX = 8192, NODES_MAX = 1024, NVLINKS_MAX = 64 };

enum { BITS = 8 * sizeof(unsigned long) };

static const struct {
	int level;
	enum gt_link kind;
} levels[] = {
	{ NVML_TOPOLOGY_INTERNAL, GT_LINK_BOARD },
	{ NVML_TOPOLOGY_SINGLE, GT_LINK_PIX },
	{ NVML_TOPOLOGY_MULTIPLE, GT_LINK_PXB },
	{ NVML_TOPOLOGY_HOSTBRIDGE, GT_LINK_PHB },
	{ NVML_TOPOLOGY_NODE, GT_LINK_NODE },
	{ NVML_TOPOLOGY_SYSTEM, GT_LINK_SYS },
};

/* Add "first-last" or "first". A list that is too long ends with "...". */
static void add_range(char list[GT_TOPOLOGY_LIST], size_t first, size_t last)
{
	char text[48];
	size_t used = strlen(list);

	if (first == last)
		snprintf(text, sizeof(text), "%s%zu", used ? "," : "", first);
	else
		snprintf(text, sizeof(text), "%s%zu-%zu", used ? "," : "", first, last);
	if (used >= 3 && !strcmp(list + used - 3, "..."))
		return;
	if (used + strlen(text) + 4 >= GT_TOPOLOGY_LIST)
		snprintf(text, sizeof(text), "...");
	strcat(list, text);
}

static void put_mask(char list[GT_TOPOLOGY_LIST], const unsigned long *mask, size_t bits)
{
	size_t first = 0;
	bool inside = false;

	list[0] = '\0';
	for (size_t i = 0; i <= bits; i++) {
		bool set = i < bits && mask[i / BITS] >> i % BITS & 1;

		if (set && !inside)
			first = i;
		if (!set && inside)
			add_range(list, first, i - 1);
		inside = set;
	}
}

static void read_affinity(
    const struct gt_nvml *nvml, gt_nvml_device device, struct gt_gpu_affinity *affinity)
{
	unsigned long cpus[CPUS_MAX / BITS] = { 0 }, nodes[NODES_MAX / BITS] = { 0 };

	if (GT_NVML_ASK(nvml->cpu_affinity, device, CPUS_MAX / BITS, cpus))
		put_mask(affinity->cpus, cpus, CPUS_MAX);
	if (GT_NVML_ASK(nvml->memory_affinity, device, NODES_MAX / BITS, nodes, NVML_SCOPE_NODE))
		put_mask(affinity->nodes, nodes, NODES_MAX);
}

/* The number of NVLinks of a GPU by their other end: a switch, which connects all GPUs with links
 * to it, or another GPU. */
struct links {
	unsigned to_switch;
	unsigned *to_gpu; /* [count] */
};

/* Return the GPU with this PCI bus id, or `count`. */
static size_t find_gpu(const struct gt_nvml_pci *at, const struct gt_nvml_pci *gpus, size_t count)
{
	size_t i = 0;

	while (i < count && (gpus[i].domain != at->domain || gpus[i].bus != at->bus ||
	                        gpus[i].device != at->device))
		i++;
	return i;
}

static void read_links(const struct gt_nvml *nvml, gt_nvml_device device, struct links *links,
    const struct gt_nvml_pci *gpus, size_t count)
{
	for (unsigned link = 0; link < NVLINKS_MAX; link++) {
		struct gt_nvml_pci remote;
		unsigned active = 0, kind;
		size_t found;

		if (!GT_NVML_ASK(nvml->nvlink_state, device, link, &active) || !active)
			continue;
		if (GT_NVML_ASK(nvml->nvlink_kind, device, link, &kind) &&
		    kind == NVML_NVLINK_SWITCH) {
			links->to_switch++;
			continue;
		}
		if (!GT_NVML_ASK(nvml->nvlink_pci, device, link, &remote))
			continue;
		found = find_gpu(&remote, gpus, count);
		if (found < count)
			links->to_gpu[found]++;
	}
}

static unsigned fewer(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

static struct gt_gpu_link find_link(const struct gt_nvml *nvml, const gt_nvml_device *device,
    const struct links *links, size_t a, size_t b)
{
	unsigned nvlinks = fewer(links[a].to_gpu[b], links[b].to_gpu[a]) +
	                   fewer(links[a].to_switch, links[b].to_switch);
	int level;

	if (a == b)
		return (struct gt_gpu_link){ .kind = GT_LINK_SELF };
	if (nvlinks)
		return (struct gt_gpu_link){ .kind = GT_LINK_NVLINK, .nvlinks = nvlinks };
	if (!device[a] || !device[b] || !GT_NVML_ASK(nvml->ancestor, device[a], device[b], &level))
		return (struct gt_gpu_link){ .kind = GT_LINK_UNKNOWN };
	for (size_t i = 0; i < sizeof(levels) / sizeof(*levels); i++)
		if (levels[i].level == level)
			return (struct gt_gpu_link){ .kind = levels[i].kind };
	return (struct gt_gpu_link){ .kind = GT_LINK_UNKNOWN };
}

/* Facts about the GPUs that are needed to read their links. */
struct survey {
	gt_nvml_device *device; /* [count], NULL for a lost GPU */
	struct gt_nvml_pci *pci;
	struct links *links;
	unsigned *to_gpu; /* [count * count] */
};

static int survey_new(struct survey *s, size_t count, struct gt_err *err)
{
	*s = (struct survey){ 0 };
	s->device = gt_calloc(count, sizeof(*s->device), err);
	s->pci = gt_calloc(count, sizeof(*s->pci), err);
	s->links = gt_calloc(count, sizeof(*s->links), err);
	s->to_gpu = gt_calloc(count * count, sizeof(*s->to_gpu), err);
	return s->device && s->pci && s->links && s->to_gpu ? 0 : GT_ENOMEM;
}

static void survey_free(struct survey *s)
{
	free(s->device);
	free(s->pci);
	free(s->links);
	free(s->to_gpu);
}

static void survey_read(struct survey *s, const struct gt_nvml *nvml, struct gt_topology *out)
{
	size_t n = out->count;

	for (unsigned i = 0; i < n; i++) {
		s->links[i].to_gpu = s->to_gpu + i * n;
		s->pci[i].domain = ~0u;
		if (nvml->by_index(i, &s->device[i]) != NVML_SUCCESS)
			s->device[i] = NULL;
		else if (!GT_NVML_ASK(nvml->pci, s->device[i], &s->pci[i]))
			s->pci[i].domain = ~0u;
	}
	for (size_t i = 0; i < n; i++) {
		if (!s->device[i])
			continue;
		read_affinity(nvml, s->device[i], &out->affinity[i]);
		read_links(nvml, s->device[i], &s->links[i], s->pci, n);
	}
	for (size_t a = 0; a < n; a++)
		for (size_t b = 0; b < n; b++)
			out->links[a * n + b] = find_link(nvml, s->device, s->links, a, b);
}

static int read_all(const struct gt_nvml *nvml, struct gt_topology *out, struct gt_err *err)
{
	unsigned count = 0;
	struct survey s;
	int rc;

	if (nvml->count(&count) != NVML_SUCCESS || !count || count > GT_NVML_GPUS_MAX)
		return 0;
	out->links = gt_calloc((size_t)count * count, sizeof(*out->links), err);
	out->affinity = gt_calloc(count, sizeof(*out->affinity), err);
	if (!out->links || !out->affinity)
		return GT_ENOMEM;
	out->count = count;
	rc = survey_new(&s, count, err);
	if (!rc)
		survey_read(&s, nvml, out);
	survey_free(&s);
	return rc;
}

int gt_topology_read(struct gt_topology *out, const char *library, struct gt_err *err)
{
	struct gt_gpus gpus = { 0 };
	struct gt_nvml nvml;
	int rc = 0;

	*out = (struct gt_topology){ 0 };
	if (!gt_nvml_open(&nvml, library, &gpus))
		return 0;
	rc = read_all(&nvml, out, err);
	gt_nvml_close(&nvml);
	if (rc)
		gt_topology_release(out);
	return rc;
}

void gt_topology_release(struct gt_topology *t)
{
	free(t->links);
	free(t->affinity);
	*t = (struct gt_topology){ 0 };
}

const char *gt_link_name(char buffer[16], struct gt_gpu_link link)
{
	static const char *const names[GT_LINKS] = { [GT_LINK_UNKNOWN] = "?",
		[GT_LINK_SELF] = "X",
		[GT_LINK_BOARD] = "INT",
		[GT_LINK_PIX] = "PIX",
		[GT_LINK_PXB] = "PXB",
		[GT_LINK_PHB] = "PHB",
		[GT_LINK_NODE] = "NODE",
		[GT_LINK_SYS] = "SYS" };

	if (link.kind == GT_LINK_NVLINK)
		snprintf(buffer, 16, "NV%u", link.nvlinks);
	else
		snprintf(buffer, 16, "%s", names[link.kind]);
	return buffer;
}
