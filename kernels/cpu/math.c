/* math.c - names of the libraries that the CPU backend computes with. */
#include <omp.h>
#include <stdio.h>

#include "kernels/cpu/dnnl_api.h"
#include "lib/device/probe.h"

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

static const char *isa_name(dnnl_cpu_isa_t isa)
{
	for (size_t i = 0; i < sizeof(isas) / sizeof(isas[0]); i++)
		if (isas[i].isa == isa)
			return isas[i].name;
	return "unknown";
}

void gt_cpu_math_read(struct gt_cpu_math *out)
{
	const dnnl_version_t *version;
	struct gt_err err;

	*out = (struct gt_cpu_math){ .isa = "", .openmp_threads = omp_get_max_threads() };
	if (gt_dnnl_api_load(&err)) {
		snprintf(out->reason, sizeof(out->reason), "%s (%s)", err.text, err.hint);
		return;
	}
	version = gt_dnnl_api->version();
	snprintf(out->onednn, sizeof(out->onednn), "%d.%d.%d", version->major, version->minor,
	    version->patch);
	out->isa = isa_name(gt_dnnl_api->get_effective_cpu_isa());
}
