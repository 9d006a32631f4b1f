/* check.c - problems of a machine that a run would meet, each with its fix. */
#include "lib/device/check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/library.h"
#include "lib/base/mem.h"
#include "lib/base/text.h"

enum { SHM_LEAST = 128 << 20, SHM_GOOD = 1 << 30, FILES_LEAST = 1024, LOCKED_LEAST = 64 << 20 };

/* A check, which adds its findings. */
struct check {
	struct gt_findings *out;
	const struct gt_probe *probe;
	const struct gt_check_facts *facts;
	size_t capacity;
	struct gt_err *err;
};

/* Add a finding, whose fix the caller sets. Returns NULL if memory runs out. */
static struct gt_finding *add_finding(struct check *c, enum gt_severity severity, const char *id,
    const char *format, ...) __attribute__((format(printf, 4, 5)));

static struct gt_finding *add_finding(
    struct check *c, enum gt_severity severity, const char *id, const char *format, ...)
{
	struct gt_findings *out = c->out;
	struct gt_finding *f;
	va_list ap;

	if (gt_grow(&out->item, out->count, &c->capacity, sizeof(*out->item), c->err))
		return NULL;
	f = &out->item[out->count++];
	*f = (struct gt_finding){ .severity = severity, .id = id };
	out->errors += severity == GT_SEVERITY_ERROR;
	va_start(ap, format);
	vsnprintf(f->text, sizeof(f->text), format, ap);
	va_end(ap);
	return f;
}

static int fix(struct gt_finding *f, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int fix(struct gt_finding *f, const char *format, ...)
{
	va_list ap;

	if (!f)
		return GT_ENOMEM;
	va_start(ap, format);
	vsnprintf(f->fix, sizeof(f->fix), format, ap);
	va_end(ap);
	return 0;
}

/* Write "GPU 3 (cuda:1)" or, for a hidden GPU, "GPU 3". */
static const char *gpu_name(char buffer[32], const struct gt_gpu *gpu)
{
	if (gpu->logical < 0)
		snprintf(buffer, 32, "GPU %d", gpu->index);
	else
		snprintf(buffer, 32, "GPU %d (cuda:%d)", gpu->index, gpu->logical);
	return buffer;
}

static int check_cpu(struct check *c)
{
	const struct gt_cpu_math *math = &c->probe->math;

	if (c->probe->backend[0].available)
		return 0;
	return fix(
	    add_finding(c, GT_SEVERITY_ERROR, "cpu", "the CPU cannot compute: %s", math->reason),
	    "%s", math->hint);
}

/* A machine without an NVIDIA GPU needs no driver. */
static int check_driver(struct check *c)
{
	static const struct {
		enum gt_nvml_state state;
		const char *id, *fix;
	} rows[] = {
		{ GT_NVML_NO_LIBRARY, "no-driver",
		    "install NVIDIA's driver; in a container, start it with --gpus all" },
		{ GT_NVML_BAD_LIBRARY, "no-driver", "install NVIDIA's driver again" },
		{ GT_NVML_NO_DRIVER, "driver-not-loaded",
		    "run 'modprobe nvidia', or reboot after an update of the driver" },
		{ GT_NVML_MISMATCH, "driver-mismatch",
		    "reboot, so that the kernel loads the driver that is installed" },
		{ GT_NVML_NO_PERMISSION, "no-permission",
		    "add this user to the group of /dev/nvidia*, often 'video' or 'render'" },
		{ GT_NVML_FAILED, "driver-failed",
		    "look for lines with NVRM in the kernel's log (dmesg)" },
	};
	const struct gt_gpus *gpus = &c->probe->gpus;

	if (gpus->state == GT_NVML_NO_LIBRARY && !c->facts->nvidia_card)
		return 0;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (rows[i].state == gpus->state)
			return fix(
			    add_finding(c, GT_SEVERITY_ERROR, rows[i].id, "%s", gpus->reason), "%s",
			    gt_library_hint(rows[i].fix));
	return 0;
}

/* Report GPUs that CUDA cannot use. */
static int check_cuda(struct check *c)
{
	const struct gt_probe *p = c->probe;

	if (p->gpus.state != GT_NVML_OK)
		return 0;
	if (p->driver_old)
		return fix(add_finding(c, GT_SEVERITY_ERROR, "driver-old", "%s", p->reason),
		    "update NVIDIA's driver, or build gtrain with an older CUDA toolkit");
	if (p->gpus.cuda_missing)
		return fix(add_finding(c, GT_SEVERITY_ERROR, "no-libcuda", "%s", p->reason),
		    "start the container with NVIDIA_DRIVER_CAPABILITIES=compute,utility");
	if (!p->cuda_available)
		return fix(add_finding(c, GT_SEVERITY_WARNING, "all-hidden", "%s", p->reason),
		    "unset CUDA_VISIBLE_DEVICES, or name a GPU in it");
	if (!p->backend[1].available)
		return fix(
		    add_finding(c, GT_SEVERITY_WARNING, "no-backend", "%s", p->backend[1].reason),
		    "install the CUDA toolkit and build gtrain with 'make CUDA=1'");
	return 0;
}

/* Error numbers of CUDA's driver API, and a fix for each. */
static const char *cuda_fix(int error)
{
	static const struct {
		int error;
		const char *fix;
	} rows[] = {
		{ 100, "look at CUDA_VISIBLE_DEVICES and at the modes of /dev/nvidia*" },
		{ 802, "start nvidia-fabricmanager, of the driver's version" },
		{ 803, "reboot, so that the kernel loads the driver that is installed" },
		{ 804, "take the compatibility package of CUDA out of LD_LIBRARY_PATH" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (rows[i].error == error)
			return rows[i].fix;
	return "load the module nvidia-uvm ('nvidia-modprobe -u -c 0'), and look for lines with "
	       "NVRM in the kernel's log (dmesg)";
}

/* A process of CUDA uses one MIG instance, however many there are. */
static bool has_mig(const struct gt_gpus *gpus)
{
	for (size_t i = 0; i < gpus->count; i++)
		if (gpus->gpu[i].mig.value)
			return true;
	return false;
}

/* NVML and CUDA are two libraries of the driver: the first may see GPUs that the second cannot
 * use. */
static int check_cuda_driver(struct check *c)
{
	const struct gt_cuda_driver *cuda = &c->facts->cuda;
	const char *closed = c->facts->closed_file;
	int visible = (int)c->probe->visible;

	if (!cuda->asked)
		return 0;
	if (cuda->missing)
		return fix(add_finding(c, GT_SEVERITY_ERROR, "no-libcuda",
		               "the driver's CUDA library cannot be opened: %s", cuda->reason),
		    "start the container with NVIDIA_DRIVER_CAPABILITIES=compute,utility");
	if (cuda->error && *closed)
		return fix(
		    add_finding(c, GT_SEVERITY_ERROR, "cuda-failed",
		        "CUDA cannot be used: %s; this user may not open %s", cuda->reason, closed),
		    "add this user to the group of %s, often 'video' or 'render'", closed);
	if (cuda->error)
		return fix(add_finding(c, GT_SEVERITY_ERROR, "cuda-failed",
		               "CUDA cannot be used: %s", cuda->reason),
		    "%s", cuda_fix(cuda->error));
	if (cuda->devices < visible && !has_mig(&c->probe->gpus))
		return fix(add_finding(c, GT_SEVERITY_ERROR, "cuda-devices",
		               "CUDA can use %d of the %d visible GPUs", cuda->devices, visible),
		    "look for lines with NVRM in the kernel's log (dmesg), and at the modes of "
		    "/dev/nvidia*");
	return 0;
}

static int check_order(struct check *c)
{
	int rc = 0;

	if (c->probe->note[0])
		rc = fix(
		    add_finding(c, GT_SEVERITY_WARNING, "visible-devices", "%s", c->probe->note),
		    "list numbers or UUIDs of this machine, each once");
	if (!rc && c->probe->order_unsure)
		rc = fix(add_finding(c, GT_SEVERITY_WARNING, "device-order",
		             "the GPUs are of different models, and CUDA may count them in "
		             "another order"),
		    "set CUDA_DEVICE_ORDER=PCI_BUS_ID");
	return rc;
}

static bool differ(const struct gt_gpu *a, const struct gt_gpu *b)
{
	return strcmp(a->name, b->name) ||
	       a->memory_total_bytes.value != b->memory_total_bytes.value;
}

/* Report visible GPUs of several models, because ranks wait for the slowest. */
static int check_models(struct check *c)
{
	const struct gt_gpus *gpus = &c->probe->gpus;
	const struct gt_gpu *first = NULL;

	for (size_t i = 0; i < gpus->count; i++) {
		const struct gt_gpu *gpu = &gpus->gpu[i];

		if (gpu->logical < 0 || gpu->problem[0] || !gpu->name[0])
			continue;
		if (!first)
			first = gpu;
		else if (differ(first, gpu))
			return fix(add_finding(c, GT_SEVERITY_WARNING, "mixed-models",
			               "GPU %d is an %s and GPU %d an %s: ranks wait for the "
			               "slower one",
			               first->index, first->name, gpu->index, gpu->name),
			    "list GPUs of one model in CUDA_VISIBLE_DEVICES");
	}
	return 0;
}

static int check_health(struct check *c, const struct gt_gpu *gpu)
{
	char name[32];

	if (gpu->problem[0])
		return fix(add_finding(c, GT_SEVERITY_ERROR, "gpu-problem", "%s: %s",
		               gpu_name(name, gpu), gpu->problem),
		    "look for its lines in the kernel's log (dmesg, 'Xid'); a lost GPU needs a "
		    "reboot");
	if (gpu->ecc_errors.value)
		return fix(add_finding(c, GT_SEVERITY_ERROR, "ecc-errors",
		               "%s: %" PRIu64 " memory error%s could not be corrected",
		               gpu_name(name, gpu), gpu->ecc_errors.value,
		               gpu->ecc_errors.value == 1 ? "" : "s"),
		    "run 'nvidia-smi -i %d --gpu-reset' when the GPU is idle; if there are more "
		    "errors later, replace the GPU",
		    gpu->index);
	return 0;
}

/* Return the process that holds most memory, or NULL. */
static const struct gt_gpu_process *largest(const struct gt_gpu *gpu)
{
	const struct gt_gpu_process *max = NULL;

	for (size_t i = 0; i < gpu->process_count; i++)
		if (!max || gpu->process[i].memory_bytes.value > max->memory_bytes.value)
			max = &gpu->process[i];
	return max;
}

/* Report visible GPUs with less than half of their memory. With less than a tenth, hardly any run
 * is possible. */
static int check_full(struct check *c, const struct gt_gpu *gpu)
{
	char name[32], left[GT_TEXT_SIZE], all[GT_TEXT_SIZE], held[GT_TEXT_SIZE];
	uint64_t total = gpu->memory_total_bytes.value, available = gpu->memory_free_bytes.value;
	const struct gt_gpu_process *process = largest(gpu);
	struct gt_finding *f;
	size_t used;

	if (gpu->logical < 0 || !gpu->memory_free_bytes.known || available >= total / 2)
		return 0;
	f = add_finding(c, available < total / 10 ? GT_SEVERITY_ERROR : GT_SEVERITY_WARNING,
	    "gpu-full", "%s: only %s of %s are free", gpu_name(name, gpu),
	    gt_text_bytes(left, available), gt_text_bytes(all, total));
	if (!f || !process)
		return fix(f, "end the programs that use it, or leave it out of "
		              "CUDA_VISIBLE_DEVICES");
	used = strlen(f->text);
	if (process->memory_bytes.known)
		snprintf(f->text + used, sizeof(f->text) - used, "; process %u%s%s%s has %s",
		    process->pid, process->name[0] ? " (" : "", process->name,
		    process->name[0] ? ")" : "", gt_text_bytes(held, process->memory_bytes.value));
	return fix(f, "end process %u, or leave the GPU out of CUDA_VISIBLE_DEVICES", process->pid);
}

/* Report visible GPUs for which this build has no kernels. */
static int check_age(struct check *c, const struct gt_gpu *gpu)
{
	unsigned has = (unsigned)gpu->capability.value, least = (unsigned)c->facts->oldest_gpu;
	char name[32];

	if (gpu->logical < 0 || !gpu->capability.known || has >= least)
		return 0;
	return fix(add_finding(c, GT_SEVERITY_ERROR, "gpu-old",
	               "%s, %s, has compute capability %u.%u, and this build has kernels for %u.%u "
	               "and above",
	               gpu_name(name, gpu), gpu->name, has / 10, has % 10, least / 10, least % 10),
	    "leave the GPU out of CUDA_VISIBLE_DEVICES, or build gtrain with 'make CUDA_ARCH=%u', if "
	    "the CUDA toolkit compiles for it",
	    has);
}

static int check_gpus(struct check *c)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < c->probe->gpus.count; i++) {
		rc = check_health(c, &c->probe->gpus.gpu[i]);
		if (!rc)
			rc = check_age(c, &c->probe->gpus.gpu[i]);
		if (!rc)
			rc = check_full(c, &c->probe->gpus.gpu[i]);
	}
	return rc;
}

/* Report the first two visible GPUs that are linked, but not by NVLink. */
static int check_links(struct check *c)
{
	const struct gt_topology *t = c->facts->topology;
	const struct gt_gpus *gpus = &c->probe->gpus;
	char a[32], b[32], link[16];

	for (size_t i = 0; t && i < gpus->count && i < t->count; i++)
		for (size_t k = i + 1; k < gpus->count && k < t->count; k++) {
			struct gt_gpu_link between = t->links[i * t->count + k];

			if (gpus->gpu[i].logical < 0 || gpus->gpu[k].logical < 0 ||
			    between.kind == GT_LINK_UNKNOWN || between.kind == GT_LINK_NVLINK)
				continue;
			return fix(add_finding(c, GT_SEVERITY_WARNING, "no-nvlink",
			               "%s and %s have no NVLink with each other, only PCIe (%s): "
			               "ranks may wait for gradients",
			               gpu_name(a, &gpus->gpu[i]), gpu_name(b, &gpus->gpu[k]),
			               gt_link_name(link, between)),
			    "train with --compress bf16, or fp16, which halves what ranks send; "
			    "'gtrain bench train' measures the gain");
		}
	return 0;
}

/* NCCL talks through /dev/shm and locked memory. */
static int check_nccl(struct check *c)
{
	const struct gt_check_facts *f = c->facts;
	char size[GT_TEXT_SIZE];
	int rc = 0;

	if (c->probe->visible < 2)
		return 0;
	if (!f->nccl)
		rc = fix(add_finding(c, GT_SEVERITY_WARNING, "no-nccl",
		             "NCCL is missing (libnccl.so.2): ranks on several GPUs exchange "
		             "data by a ring or through the host, which may be slower"),
		    "install NVIDIA's package libnccl2");
	if (!rc && f->shm_bytes.known && f->shm_bytes.value < SHM_GOOD)
		rc = fix(
		    add_finding(c,
		        f->shm_bytes.value < SHM_LEAST ? GT_SEVERITY_ERROR : GT_SEVERITY_WARNING,
		        "small-shm", "/dev/shm has %s, which is little for NCCL",
		        gt_text_bytes(size, f->shm_bytes.value)),
		    "start the container with --shm-size=8g, or --ipc=host");
	if (!rc && f->locked_bytes.known && f->locked_bytes.value < LOCKED_LEAST)
		rc = fix(add_finding(c, GT_SEVERITY_WARNING, "locked-memory",
		             "this process may lock %s of memory; NCCL over InfiniBand needs more",
		             gt_text_bytes(size, f->locked_bytes.value)),
		    "run 'ulimit -l unlimited', or start the container with --ulimit memlock=-1");
	return rc;
}

static int check_cudnn(struct check *c)
{
	if (!c->probe->visible || c->facts->cudnn)
		return 0;
	return fix(add_finding(c, GT_SEVERITY_WARNING, "no-cudnn",
	               "cuDNN is missing (libcudnn.so.9): convolutions use gtrain's own kernels, "
	               "even where cuDNN's are faster"),
	    "install NVIDIA's package libcudnn9-cuda-13 or libcudnn9-cuda-12");
}

static int check_nvrtc(struct check *c)
{
	const struct gt_nvrtc_status *nvrtc = &c->probe->nvrtc;

	if (!nvrtc->reason[0])
		return 0;
	return fix(add_finding(c, GT_SEVERITY_WARNING, "no-nvrtc",
	               "%s: expressions of several functions are interpreted, even where compiled "
	               "ones are faster",
	               nvrtc->reason),
	    "%s", nvrtc->hint[0] ? nvrtc->hint : "install another version of NVRTC");
}

static int check_pair(struct check *c, const struct gt_bandwidth *b, size_t from, size_t to)
{
	const struct gt_peer_report *p = &b->peer[from * b->count + to];

	if (!p->wrong)
		return 0;
	return fix(
	    add_finding(c, GT_SEVERITY_ERROR, "peer-data",
	        "data from cuda:%zu arrive wrong on cuda:%zu (%" PRId64 " of %" PRId64 " words)%s",
	        from, to, p->wrong, p->words,
	        p->direct ? ", although the driver reports direct access" : ""),
	    "disable ACS on the PCIe bridges, or set the IOMMU to pass-through (kernel option iommu=pt); "
	    "until then set NCCL_P2P_DISABLE=1, with which NCCL copies through the host");
}

/* The driver's answer is not enough: with a wrong setting of the IOMMU or of PCIe bridges it says
 * that GPUs reach each other, but copies corrupt data. (NCCL's manual, "Troubleshooting".) */
static int check_peers(struct check *c)
{
	const struct gt_bandwidth *b = c->facts->copies;
	int rc = 0;

	if (!b)
		return 0;
	if (b->problem[0])
		return fix(add_finding(c, GT_SEVERITY_WARNING, "copies-untested",
		               "copies between GPUs could not be tested: %.800s", b->problem),
		    "fix the other problems first; 'nvidia-smi' shows the processes on each GPU");
	for (size_t i = 0; b->peer && i < b->count; i++)
		for (size_t k = 0; !rc && k < b->count; k++)
			rc = check_pair(c, b, i, k);
	return rc;
}

static int check_limits(struct check *c)
{
	const struct gt_check_facts *f = c->facts;
	char size[GT_TEXT_SIZE];
	int rc = 0;

	if (f->open_files.known && f->open_files.value < FILES_LEAST)
		rc = fix(add_finding(c, GT_SEVERITY_WARNING, "open-files",
		             "this process may have %" PRIu64 " files open, which is little for "
		             "many ranks and shards",
		             f->open_files.value),
		    "run 'ulimit -n 65536'");
	/* CUDA reserves addresses for the memory of all GPUs and of the host. */
	if (!rc && f->address_bytes.known)
		rc = fix(add_finding(c,
		             c->probe->cuda_available ? GT_SEVERITY_ERROR : GT_SEVERITY_WARNING,
		             "address-space", "this process may map only %s of memory",
		             gt_text_bytes(size, f->address_bytes.value)),
		    "run 'ulimit -v unlimited'");
	return rc;
}

int gt_check(struct gt_findings *out, const struct gt_probe *probe,
    const struct gt_check_facts *facts, struct gt_err *err)
{
	static int (*const checks[])(struct check *) = { check_cpu, check_driver, check_cuda,
		check_cuda_driver, check_order, check_models, check_gpus, check_links, check_peers,
		check_nccl, check_cudnn, check_nvrtc, check_limits };
	struct check c = { .out = out, .probe = probe, .facts = facts, .err = err };
	int rc = 0;

	*out = (struct gt_findings){ 0 };
	for (size_t i = 0; !rc && i < sizeof(checks) / sizeof(*checks); i++)
		rc = checks[i](&c);
	if (rc)
		gt_findings_release(out);
	return rc;
}

void gt_findings_release(struct gt_findings *findings)
{
	free(findings->item);
	*findings = (struct gt_findings){ 0 };
}
