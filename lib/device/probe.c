/* probe.c - everything this machine can compute with, in one struct. */
#include "lib/device/probe.h"

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/device/visible.h"

static const struct gt_backend_status backends[] = {
	{ "cpu", true, NULL },
	{ "cuda", false, "this build has no CUDA backend" },
};

static const struct {
	dnnl_cpu_isa_t isa;
	const char *name;
} isas[] = {
	{ dnnl_cpu_isa_all, "any" },
	{ dnnl_cpu_isa_sse41, "SSE4.1" },
	{ dnnl_cpu_isa_avx, "AVX" },
	{ dnnl_cpu_isa_avx2, "AVX2" },
	{ dnnl_cpu_isa_avx2_vnni, "AVX2-VNNI" },
	{ dnnl_cpu_isa_avx512_mic, "AVX512-MIC" },
	{ dnnl_cpu_isa_avx512_mic_4ops, "AVX512-MIC-4OPS" },
	{ dnnl_cpu_isa_avx512_core, "AVX512" },
	{ dnnl_cpu_isa_avx512_core_vnni, "AVX512-VNNI" },
	{ dnnl_cpu_isa_avx512_core_bf16, "AVX512-BF16" },
	{ dnnl_cpu_isa_avx512_core_amx, "AMX" },
};

void gt_cpu_math_read(struct gt_cpu_math *out)
{
	const dnnl_version_t *version = dnnl_version();
	dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();

	*out = (struct gt_cpu_math){ .isa = "unknown", .openmp_threads = omp_get_max_threads() };
	snprintf(out->onednn, sizeof(out->onednn), "%d.%d.%d", version->major, version->minor,
	    version->patch);
	for (size_t i = 0; i < sizeof(isas) / sizeof(*isas); i++)
		if (isas[i].isa == isa)
			out->isa = isas[i].name;
}

static void say(struct gt_probe *probe, const char *reason)
{
	snprintf(probe->reason, sizeof(probe->reason), "%s", reason);
}

/* Number the GPUs and decide, with the first obstacle as the reason, whether CUDA can be used. */
static void judge_cuda(struct gt_probe *probe, const struct gt_probe_options *options)
{
	struct gt_gpus *gpus = &probe->gpus;

	if (gpus->state != GT_NVML_OK) {
		say(probe, gpus->reason);
		return;
	}
	probe->visible = gt_visible_apply(
	    gpus->gpu, gpus->count, options->visible_devices, probe->note, sizeof(probe->note));
	probe->order_unsure = gt_visible_order_unsure(
	    gpus->gpu, gpus->count, options->visible_devices, options->device_order);
	if (gpus->cuda_missing)
		say(probe, "the driver's CUDA library is missing (libcuda.so.1; in a container, "
		           "NVIDIA_DRIVER_CAPABILITIES needs 'compute')");
	else if (probe->visible == 0)
		say(probe, "all GPUs are hidden by CUDA_VISIBLE_DEVICES");
	else
		probe->cuda_available = true;
}

int gt_probe_read(struct gt_probe *out, const struct gt_probe_options *options, struct gt_err *err)
{
	const char *root = options->root ? options->root : "";
	int rc;

	*out = (struct gt_probe){ .backend = backends,
		.backend_count = sizeof(backends) / sizeof(*backends) };
	if (options->visible_devices) {
		out->visible_devices = gt_strdup(options->visible_devices, err);
		if (!out->visible_devices)
			return GT_ENOMEM;
	}
	rc = gt_cpu_read(&out->cpu, root, err);
	if (!rc)
		rc = gt_gpus_read(&out->gpus, options->nvml_library, err);
	if (rc) {
		gt_probe_release(out);
		return rc;
	}
	gt_cpu_math_read(&out->math);
	judge_cuda(out, options);
	return 0;
}

void gt_probe_release(struct gt_probe *probe)
{
	gt_cpu_release(&probe->cpu);
	gt_gpus_release(&probe->gpus);
	free(probe->visible_devices);
	*probe = (struct gt_probe){ 0 };
}
