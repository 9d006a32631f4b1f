/* json.c - the result of gtrain probe as JSON. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/probe/print.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* Values below are NULL when there was no memory for them; an object or list that should take one
 * becomes NULL itself, so that one test at the end is enough. */
struct member {
	const char *key;
	json_t *value; /* taken */
};

static json_t *object_json(const struct member *members, size_t count)
{
	json_t *object = json_object();
	bool failed = false;

	for (size_t i = 0; i < count; i++)
		failed |= json_object_set_new(object, members[i].key, members[i].value) != 0;
	if (!failed)
		return object;
	json_decref(object);
	return NULL;
}

/* Takes both. */
static json_t *appended(json_t *list, json_t *value)
{
	if (!json_array_append_new(list, value))
		return list;
	json_decref(list);
	return NULL;
}

json_t *gt_probe_text_json(const char *text)
{
	char *clean = strdup(text);
	json_t *value;

	if (!clean)
		return NULL;
	for (char *p = clean; *p; p++)
		if (*p < ' ' || *p > '~')
			*p = '?';
	value = json_string(clean);
	free(clean);
	return value;
}

/* The same where "" and NULL mean that nothing is known. */
static json_t *text_json(const char *text)
{
	return text && *text ? gt_probe_text_json(text) : json_null();
}

static json_t *maybe_json(struct gt_maybe figure)
{
	return figure.known ? json_integer((json_int_t)figure.value) : json_null();
}

static json_t *count_json(size_t count)
{
	return count ? json_integer((json_int_t)count) : json_null();
}

static json_t *watts_json(struct gt_maybe mw)
{
	return mw.known ? json_real((double)mw.value / 1000) : json_null();
}

static json_t *flag_json(struct gt_maybe figure)
{
	return figure.known ? json_boolean(figure.value) : json_null();
}

static json_t *processes_json(const struct gt_gpu *gpu)
{
	json_t *list;

	if (!gpu->processes_known)
		return json_null();
	list = json_array();
	for (size_t i = 0; i < gpu->process_count; i++) {
		const struct gt_gpu_process *process = &gpu->process[i];
		const struct member members[] = {
			{ "pid", json_integer(process->pid) },
			{ "name", text_json(process->name) },
			{ "memory_bytes", maybe_json(process->memory_bytes) },
		};

		list = appended(list, object_json(members, COUNT(members)));
	}
	return list;
}

static json_t *gpu_json(const struct gt_gpu *gpu)
{
	char device[GT_DEVICE_NAME_SIZE], capability[16];
	json_t *instances = json_array();

	for (size_t i = 0; i < gpu->mig_count; i++)
		instances = appended(instances, text_json(gpu->mig_uuid[i]));

	const struct member members[] = {
		{ "device", text_json(gt_probe_device(device, gpu)) },
		{ "index", json_integer(gpu->index) },
		{ "name", text_json(gpu->name) },
		{ "uuid", text_json(gpu->uuid) },
		{ "pci_bus_id", text_json(gpu->pci_bus_id) },
		{ "compute_capability", text_json(gt_probe_capability(capability, gpu)) },
		{ "memory_total_bytes", maybe_json(gpu->memory_total_bytes) },
		{ "memory_used_bytes", maybe_json(gpu->memory_used_bytes) },
		{ "memory_free_bytes", maybe_json(gpu->memory_free_bytes) },
		{ "utilization_percent", maybe_json(gpu->utilization_percent) },
		{ "temperature_c", maybe_json(gpu->temperature_c) },
		{ "power_w", watts_json(gpu->power_mw) },
		{ "power_limit_w", watts_json(gpu->power_limit_mw) },
		{ "clock_sm_mhz", maybe_json(gpu->clock_sm_mhz) },
		{ "clock_sm_max_mhz", maybe_json(gpu->clock_sm_max_mhz) },
		{ "clock_memory_mhz", maybe_json(gpu->clock_memory_mhz) },
		{ "clock_memory_max_mhz", maybe_json(gpu->clock_memory_max_mhz) },
		{ "ecc", flag_json(gpu->ecc) },
		{ "ecc_uncorrected_errors", maybe_json(gpu->ecc_errors) },
		{ "mig", flag_json(gpu->mig) },
		{ "mig_uuids", instances },
		{ "processes", processes_json(gpu) },
		{ "problem", text_json(gpu->problem) },
	};

	return object_json(members, COUNT(members));
}

static json_t *gpus_json(const struct gt_gpus *gpus)
{
	json_t *list = json_array();

	for (size_t i = 0; i < gpus->count; i++)
		list = appended(list, gpu_json(&gpus->gpu[i]));
	return list;
}

static const struct gt_gpu *gpu_at(const struct gt_gpus *gpus, size_t logical)
{
	for (size_t i = 0; i < gpus->count; i++)
		if (gpus->gpu[i].logical == (int)logical)
			return &gpus->gpu[i];
	return NULL;
}

/* The device of each name, in the order of the names. */
static json_t *devices_json(const struct gt_probe *probe)
{
	json_t *list = json_array();
	char device[GT_DEVICE_NAME_SIZE];

	for (size_t i = 0; i < probe->visible; i++) {
		const struct gt_gpu *gpu = gpu_at(&probe->gpus, i);

		if (!gpu)
			continue;

		const char *mig = gpu->logical_mig < 0 ? NULL : gpu->mig_uuid[gpu->logical_mig];
		const struct member members[] = {
			{ "device", text_json(gt_probe_device(device, gpu)) },
			{ "index", json_integer(gpu->index) },
			{ "pci_bus_id", text_json(gpu->pci_bus_id) },
			{ "uuid", text_json(gpu->uuid) },
			{ "mig_uuid", text_json(mig) },
		};

		list = appended(list, object_json(members, COUNT(members)));
	}
	return list;
}

static json_t *cuda_json(const struct gt_probe *probe)
{
	const char *visible = probe->visible_devices;
	json_t *notes = json_array();
	char runtime[32], nvrtc[32] = "";

	if (probe->nvrtc.version)
		snprintf(nvrtc, sizeof(nvrtc), "%d.%d", probe->nvrtc.version / 1000,
		    probe->nvrtc.version % 1000 / 10);
	if (probe->note[0])
		notes = appended(notes, text_json(probe->note));
	if (probe->order_unsure)
		notes = appended(notes, text_json(gt_probe_order_note));

	const struct member members[] = {
		{ "available", json_boolean(probe->cuda_available) },
		{ "driver", text_json(probe->gpus.driver) },
		{ "runtime", text_json(gt_probe_runtime(runtime, &probe->gpus)) },
		{ "nvrtc", text_json(nvrtc) },
		{ "reason", text_json(probe->reason) },
		{ "visible",
		    visible ? gt_probe_text_json(visible) : json_null() }, /* "" hides all */
		{ "count", json_integer((json_int_t)probe->visible) },
		{ "devices", devices_json(probe) },
		{ "notes", notes },
	};

	return object_json(members, COUNT(members));
}

static json_t *numa_json(const struct gt_cpu *cpu)
{
	json_t *list = json_array();

	for (size_t i = 0; i < cpu->node_count; i++) {
		const struct member members[] = {
			{ "node", json_integer(cpu->node[i].node) },
			{ "cpus", json_integer((json_int_t)cpu->node[i].cpus) },
			{ "memory_bytes", maybe_json(cpu->node[i].memory_bytes) },
		};

		list = appended(list, object_json(members, COUNT(members)));
	}
	return list;
}

static json_t *caches_json(const struct gt_cpu *cpu)
{
	json_t *list = json_array();

	for (size_t i = 0; i < cpu->cache_count; i++) {
		const struct member members[] = {
			{ "name", text_json(cpu->cache[i].name) },
			{ "size_bytes", json_integer((json_int_t)cpu->cache[i].size_bytes) },
			{ "shared_by", count_json(cpu->cache[i].shared_by) },
		};

		list = appended(list, object_json(members, COUNT(members)));
	}
	return list;
}

static json_t *math_json(const struct gt_cpu_math *math)
{
	const struct member members[] = {
		{ "onednn", text_json(math->onednn) },
		{ "isa", text_json(math->isa) },
		{ "openmp_threads", json_integer(math->openmp_threads) },
	};

	return object_json(members, COUNT(members));
}

static json_t *cpu_json(const struct gt_cpu *cpu, const struct gt_cpu_math *math)
{
	json_t *vector = json_array();

	for (size_t i = 0; i < cpu->feature_count; i++)
		vector = appended(vector, text_json(cpu->feature[i]));

	const struct member members[] = {
		{ "model", text_json(cpu->model) },
		{ "arch", text_json(cpu->arch) },
		{ "sockets", count_json(cpu->sockets) },
		{ "cores", count_json(cpu->cores) },
		{ "threads", count_json(cpu->threads) },
		{ "allowed", count_json(cpu->allowed) },
		{ "quota", cpu->quota > 0 ? json_real(cpu->quota) : json_null() },
		{ "usable", count_json(cpu->usable) },
		{ "numa", numa_json(cpu) },
		{ "vector", vector },
		{ "caches", caches_json(cpu) },
		{ "memory_total_bytes", maybe_json(cpu->memory_total_bytes) },
		{ "memory_available_bytes", maybe_json(cpu->memory_available_bytes) },
		{ "memory_limit_bytes", maybe_json(cpu->memory_limit_bytes) },
		{ "math", math_json(math) },
	};

	return object_json(members, COUNT(members));
}

static json_t *backends_json(const struct gt_probe *probe)
{
	json_t *list = json_array();

	for (size_t i = 0; i < GT_PROBE_BACKENDS; i++) {
		const struct member members[] = {
			{ "name", text_json(probe->backend[i].name) },
			{ "available", json_boolean(probe->backend[i].available) },
			{ "reason", text_json(probe->backend[i].reason) },
		};

		list = appended(list, object_json(members, COUNT(members)));
	}
	return list;
}

/* NULL where something that was asked for is missing. */
static json_t *document_json(const struct gt_probe *probe, const struct gt_probe_more *more)
{
	const struct member members[] = {
		{ "cuda", cuda_json(probe) },
		{ "gpus", gpus_json(&probe->gpus) },
		{ "cpu", cpu_json(&probe->cpu, &probe->math) },
		{ "backends", backends_json(probe) },
	};
	json_t *document = object_json(members, COUNT(members));
	bool failed = !document;

	if (more->topology)
		failed |= json_object_set_new(
		              document, "topology", gt_probe_topology_json(more->topology)) != 0;
	if (more->bandwidth)
		failed |= json_object_set_new(
		              document, "bandwidth", gt_probe_bandwidth_json(more->bandwidth)) != 0;
	if (more->findings)
		failed |= json_object_set_new(
		              document, "findings", gt_probe_findings_json(more->findings)) != 0;
	if (!failed)
		return document;
	json_decref(document);
	return NULL;
}

int gt_probe_print_json(
    FILE *out, const struct gt_probe *probe, const struct gt_probe_more *more, struct gt_err *err)
{
	json_t *document = document_json(probe, more);
	int rc = 0;

	if (!document)
		return gt_err_set(err, GT_ENOMEM, "no memory for the list of devices");
	if (json_dumpf(document, out, JSON_INDENT(2)) || fputc('\n', out) == EOF)
		rc = gt_err_sys(err, "cannot write the list of devices");
	json_decref(document);
	return rc;
}
