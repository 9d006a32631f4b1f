/* math.c - names of the libraries that the CPU backend computes with. */
#include <omp.h>
#include <stdio.h>

#include "kernels/cpu/dnnl_major.h"
#include "lib/device/probe.h"

/* The widest set of instructions that `isa` includes: the number of a set has the bits of the sets
 * that it includes, and the table goes from narrow to wide. */
static const char *isa_name(dnnl_cpu_isa_t isa)
{
	const char *name = "unknown";

	for (const struct gt_dnnl_isa *known = gt_dnnl_isas; known->name; known++)
		if ((isa & known->isa) == known->isa)
			name = known->name;
	return name;
}

void gt_cpu_math_read(struct gt_cpu_math *out)
{
	const dnnl_version_t *version;
	struct gt_err err;

	*out = (struct gt_cpu_math){ .isa = "", .openmp_threads = omp_get_max_threads() };
	if (gt_dnnl_api_load(&err)) {
		snprintf(out->reason, sizeof(out->reason), "%s", err.text);
		snprintf(out->hint, sizeof(out->hint), "%s", err.hint);
		return;
	}
	version = gt_dnnl_api->version();
	snprintf(out->onednn, sizeof(out->onednn), "%d.%d.%d", version->major, version->minor,
	    version->patch);
	out->isa = isa_name(gt_dnnl_api->get_effective_cpu_isa());
}
