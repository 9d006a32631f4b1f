/* test_check.c - problems of made-up machines are found, each with its fix, and no others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/device/check.h"
#include "tests/common/planted.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))
#define GIB          (UINT64_C(1) << 30)

/* A machine with two good GPUs, which a row changes in one point. */
struct machine {
	struct gt_probe probe;
	struct gt_check_facts facts;
	struct gt_gpu gpu[2];
	struct gt_gpu_process process;
	struct gt_topology topology;
	struct gt_gpu_link links[4];
};

static struct gt_maybe known(uint64_t value)
{
	return (struct gt_maybe){ true, value };
}

static void make(struct machine *m)
{
	*m = (struct machine){ .facts = { .nvidia_card = true,
		                   .nccl = true,
		                   .cudnn = true,
		                   .shm_bytes = known(8 * GIB),
		                   .open_files = known(65536) } };
	m->probe.gpus = (struct gt_gpus){ .gpu = m->gpu, .count = 2 };
	m->probe.cuda_available = true;
	m->probe.visible = 2;
	m->probe.nvrtc.version = 13000;
	m->probe.backend[0].available = m->probe.backend[1].available = true;
	for (int i = 0; i < 2; i++) {
		struct gt_gpu *gpu = &m->gpu[i];

		gpu->index = gpu->logical = i;
		gpu->logical_mig = -1;
		strcpy(gpu->name, "H100");
		gpu->memory_total_bytes = known(80 * GIB);
		gpu->memory_free_bytes = known(79 * GIB);
	}
}

static void no_gpus(struct machine *m, enum gt_nvml_state state)
{
	m->probe.gpus = (struct gt_gpus){ .state = state, .reason = "the reason" };
	m->probe.cuda_available = m->probe.backend[1].available = false;
	m->probe.visible = 0;
}

static void old_gpu(struct machine *m)
{
	m->facts.oldest_gpu = 80;
	m->gpu[0].capability = known(80);
	m->gpu[1].capability = known(75);
	strcpy(m->gpu[1].name, m->gpu[0].name);
}

/* No build has been asked for its kernels. */
static void old_gpu_no_kernels(struct machine *m)
{
	old_gpu(m);
	m->facts.oldest_gpu = 0;
}

static void link_gpus(struct machine *m, enum gt_link kind)
{
	m->links[1] = m->links[2] = (struct gt_gpu_link){ .kind = kind };
	m->topology = (struct gt_topology){ .count = 2, .links = m->links };
	m->facts.topology = &m->topology;
}

static void nvlink(struct machine *m)
{
	link_gpus(m, GT_LINK_NVLINK);
}

static void unknown_link(struct machine *m)
{
	link_gpus(m, GT_LINK_UNKNOWN);
}

static void pcie(struct machine *m)
{
	link_gpus(m, GT_LINK_PHB);
}

static void pcie_hidden(struct machine *m)
{
	link_gpus(m, GT_LINK_PHB);
	m->gpu[1].logical = -1;
	m->probe.visible = 1;
}

static void good(struct machine *m)
{
	(void)m;
}

static void no_driver(struct machine *m)
{
	no_gpus(m, GT_NVML_NO_LIBRARY);
}

static void no_card(struct machine *m)
{
	no_gpus(m, GT_NVML_NO_LIBRARY);
	m->facts.nvidia_card = false;
}

static void not_loaded(struct machine *m)
{
	no_gpus(m, GT_NVML_NO_DRIVER);
}

static void mismatch(struct machine *m)
{
	no_gpus(m, GT_NVML_MISMATCH);
}

static void no_permission(struct machine *m)
{
	no_gpus(m, GT_NVML_NO_PERMISSION);
}

static void failed(struct machine *m)
{
	no_gpus(m, GT_NVML_FAILED);
}

static void no_onednn(struct machine *m)
{
	m->probe.backend[0].available = false;
	strcpy(m->probe.math.reason, "cannot open oneDNN: no such file");
	strcpy(m->probe.math.hint, "install libdnnl2");
}

static void old_driver(struct machine *m)
{
	m->probe.cuda_available = false;
	m->probe.driver_old = true;
	strcpy(m->probe.reason, "the driver runs CUDA up to 12.2");
}

static void no_libcuda(struct machine *m)
{
	m->probe.cuda_available = false;
	m->probe.gpus.cuda_missing = true;
}

static void hidden(struct machine *m)
{
	m->gpu[0].logical = m->gpu[1].logical = -1;
	m->probe.visible = 0;
	m->probe.cuda_available = false;
}

static void cuda_good(struct machine *m)
{
	m->facts.cuda = (struct gt_cuda_driver){ .asked = true, .devices = 2 };
}

static void cuda_missing(struct machine *m)
{
	m->facts.cuda = (struct gt_cuda_driver){ .asked = true, .missing = true, .reason = "why" };
}

static void cuda_old(struct machine *m)
{
	m->facts.cuda = (struct gt_cuda_driver){ .asked = true, .error = 803, .reason = "why" };
}

static void cuda_closed(struct machine *m)
{
	m->facts.cuda = (struct gt_cuda_driver){ .asked = true, .error = 100, .reason = "why" };
	strcpy(m->facts.closed_file, "/dev/nvidia0");
}

static void cuda_unknown(struct machine *m)
{
	m->facts.cuda = (struct gt_cuda_driver){ .asked = true, .error = 999, .reason = "why" };
}

static void cuda_few(struct machine *m)
{
	m->facts.cuda = (struct gt_cuda_driver){ .asked = true, .devices = 1 };
}

static void cuda_mig(struct machine *m)
{
	cuda_few(m);
	m->gpu[0].mig = known(1);
}

static void no_backend(struct machine *m)
{
	m->probe.backend[1].available = false;
}

static void odd_list(struct machine *m)
{
	strcpy(m->probe.note, "'9' is no device here");
}

static void unsure(struct machine *m)
{
	m->probe.order_unsure = true;
}

static void mixed(struct machine *m)
{
	strcpy(m->gpu[1].name, "A100");
}

static void mixed_memory(struct machine *m)
{
	m->gpu[1].memory_total_bytes.value = 90 * GIB;
}

static void mixed_hidden(struct machine *m)
{
	mixed(m);
	m->gpu[1].logical = -1;
	m->probe.visible = 1;
}

static void lost(struct machine *m)
{
	strcpy(m->gpu[1].problem, "the GPU is lost");
}

static void ecc(struct machine *m)
{
	m->gpu[0].ecc_errors = known(2);
}

static void full(struct machine *m)
{
	m->process = (struct gt_gpu_process){ 77, known(75 * GIB), "python3" };
	m->gpu[1].process = &m->process;
	m->gpu[1].process_count = 1;
	m->gpu[1].memory_free_bytes = known(4 * GIB);
}

static void full_unknown(struct machine *m)
{
	m->gpu[1].memory_free_bytes = known(0);
}

static void half_full(struct machine *m)
{
	m->gpu[0].memory_free_bytes = known(39 * GIB);
}

static void just_enough(struct machine *m)
{
	m->gpu[0].memory_free_bytes = known(40 * GIB);
}

static void full_hidden(struct machine *m)
{
	full(m);
	m->gpu[1].logical = -1;
	m->probe.visible = 1;
}

static void no_nccl(struct machine *m)
{
	m->facts.nccl = false;
}

static void no_cudnn(struct machine *m)
{
	m->facts.cudnn = false;
}

static void no_nvrtc(struct machine *m)
{
	m->probe.nvrtc = (struct gt_nvrtc_status){ 0, "cannot open NVRTC: libnvrtc.so.13: no file",
		"install cuda-nvrtc-13-0" };
}

/* cuDNN is of no use there. */
static void hidden_no_cudnn(struct machine *m)
{
	hidden(m);
	no_cudnn(m);
}

static void small_shm(struct machine *m)
{
	m->facts.shm_bytes = known(64 << 20);
}

static void little_shm(struct machine *m)
{
	m->facts.shm_bytes = known(512 << 20);
}

static void one_gpu(struct machine *m)
{
	no_nccl(m);
	small_shm(m);
	m->facts.locked_bytes = known(65536);
	m->gpu[1].logical = -1;
	m->probe.visible = 1;
}

static void locked(struct machine *m)
{
	m->facts.locked_bytes = known(8 << 20);
}

static void few_files(struct machine *m)
{
	m->facts.open_files = known(256);
}

static void few_addresses(struct machine *m)
{
	m->facts.address_bytes = known(64 * GIB);
}

static void few_addresses_cpu(struct machine *m)
{
	no_card(m);
	few_addresses(m);
}

static const struct {
	void (*change)(struct machine *m);
	const char *id; /* NULL: nothing is found */
	enum gt_severity severity;
	const char *text, *fix; /* parts of them */
} rows[] = {
	{ good, NULL, 0, NULL, NULL },
	{ no_card, NULL, 0, NULL, NULL },
	{ just_enough, NULL, 0, NULL, NULL },
	{ full_hidden, NULL, 0, NULL, NULL },
	{ mixed_hidden, NULL, 0, NULL, NULL },
	{ one_gpu, NULL, 0, NULL, NULL },
	{ no_driver, "no-driver", GT_SEVERITY_ERROR, "the reason", "install NVIDIA's driver" },
	{ not_loaded, "driver-not-loaded", GT_SEVERITY_ERROR, "the reason", "modprobe" },
	{ mismatch, "driver-mismatch", GT_SEVERITY_ERROR, "the reason", "reboot" },
	{ no_permission, "no-permission", GT_SEVERITY_ERROR, "the reason", "group" },
	{ failed, "driver-failed", GT_SEVERITY_ERROR, "the reason", "dmesg" },
	{ no_onednn, "cpu", GT_SEVERITY_ERROR, "the CPU cannot compute: cannot open oneDNN",
	    "libdnnl2" },
	{ old_driver, "driver-old", GT_SEVERITY_ERROR, "12.2", "update" },
	{ no_libcuda, "no-libcuda", GT_SEVERITY_ERROR, "", "compute,utility" },
	{ cuda_good, NULL, 0, NULL, NULL },
	{ cuda_mig, NULL, 0, NULL, NULL },
	{ cuda_missing, "no-libcuda", GT_SEVERITY_ERROR, "cannot be opened: why",
	    "compute,utility" },
	{ cuda_old, "cuda-failed", GT_SEVERITY_ERROR, "CUDA cannot be used: why", "reboot" },
	{ cuda_closed, "cuda-failed", GT_SEVERITY_ERROR, "why; this user may not open /dev/nvidia0",
	    "group of /dev/nvidia0" },
	{ cuda_unknown, "cuda-failed", GT_SEVERITY_ERROR, "why", "nvidia-uvm" },
	{ cuda_few, "cuda-devices", GT_SEVERITY_ERROR, "1 of the 2 visible GPUs", "dmesg" },
	{ hidden, "all-hidden", GT_SEVERITY_WARNING, "", "unset CUDA_VISIBLE_DEVICES" },
	{ hidden_no_cudnn, "all-hidden", GT_SEVERITY_WARNING, "", "unset CUDA_VISIBLE_DEVICES" },
	{ no_backend, "no-backend", GT_SEVERITY_WARNING, "", "make CUDA=1" },
	{ odd_list, "visible-devices", GT_SEVERITY_WARNING, "'9'", "numbers or UUIDs" },
	{ unsure, "device-order", GT_SEVERITY_WARNING, "order", "CUDA_DEVICE_ORDER" },
	{ mixed, "mixed-models", GT_SEVERITY_WARNING, "GPU 0 is an H100 and GPU 1 an A100",
	    "one model" },
	{ mixed_memory, "mixed-models", GT_SEVERITY_WARNING, "GPU 1", "one model" },
	{ lost, "gpu-problem", GT_SEVERITY_ERROR, "GPU 1 (cuda:1): the GPU is lost", "Xid" },
	{ ecc, "ecc-errors", GT_SEVERITY_ERROR, "GPU 0 (cuda:0): 2 memory errors",
	    "nvidia-smi -i 0" },
	{ full, "gpu-full", GT_SEVERITY_ERROR,
	    "GPU 1 (cuda:1): only 4 GiB of 80 GiB are free; process 77 (python3) has 75 GiB",
	    "end process 77" },
	{ full_unknown, "gpu-full", GT_SEVERITY_ERROR, "only 0 B of 80 GiB are free", "end the" },
	{ half_full, "gpu-full", GT_SEVERITY_WARNING, "only 39 GiB", "end the programs" },
	{ old_gpu, "gpu-old", GT_SEVERITY_ERROR,
	    "GPU 1 (cuda:1), H100, has compute capability 7.5, and this build has kernels for 8.0",
	    "CUDA_ARCH=75" },
	{ old_gpu_no_kernels, NULL, 0, NULL, NULL },
	{ nvlink, NULL, 0, NULL, NULL },
	{ unknown_link, NULL, 0, NULL, NULL },
	{ pcie_hidden, NULL, 0, NULL, NULL },
	{ pcie, "no-nvlink", GT_SEVERITY_WARNING,
	    "GPU 0 (cuda:0) and GPU 1 (cuda:1) have no NVLink with each other, only PCIe (PHB)",
	    "--compress" },
	{ no_nccl, "no-nccl", GT_SEVERITY_WARNING, "libnccl.so.2", "libnccl2" },
	{ no_cudnn, "no-cudnn", GT_SEVERITY_WARNING, "libcudnn.so.9", "libcudnn9-cuda-13" },
	{ no_nvrtc, "no-nvrtc", GT_SEVERITY_WARNING,
	    "cannot open NVRTC: libnvrtc.so.13: no file: expressions of several functions",
	    "install cuda-nvrtc-13-0" },
	{ small_shm, "small-shm", GT_SEVERITY_ERROR, "64 MiB", "--shm-size" },
	{ little_shm, "small-shm", GT_SEVERITY_WARNING, "512 MiB", "--shm-size" },
	{ locked, "locked-memory", GT_SEVERITY_WARNING, "8 MiB", "ulimit -l" },
	{ few_files, "open-files", GT_SEVERITY_WARNING, "256 files", "ulimit -n" },
	{ few_addresses, "address-space", GT_SEVERITY_ERROR, "64 GiB", "ulimit -v" },
	{ few_addresses_cpu, "address-space", GT_SEVERITY_WARNING, "64 GiB", "ulimit -v" },
};

static void test_findings(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct gt_err err = GT_ERR_INIT;
		struct gt_findings found;
		struct machine m;
		const struct gt_finding *f;

		make(&m);
		rows[i].change(&m);
		assert_int_equal(gt_check(&found, &m.probe, &m.facts, &err), 0);
		f = found.item;
		if (found.count != (rows[i].id != NULL))
			fail_msg("row %zu: %zu findings, the first is '%s'", i, found.count,
			    f ? f->text : "");
		if (rows[i].id) {
			assert_string_equal(f->id, rows[i].id);
			assert_int_equal(f->severity, rows[i].severity);
			assert_int_equal(found.errors, rows[i].severity == GT_SEVERITY_ERROR);
			if (!strstr(f->text, rows[i].text) || !strstr(f->fix, rows[i].fix))
				fail_msg("row %zu: '%s', fix '%s'", i, f->text, f->fix);
		}
		gt_findings_release(&found);
	}
}

static void test_several(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_findings found;
	struct machine m;

	(void)state;
	make(&m);
	lost(&m);
	half_full(&m);
	no_nccl(&m);
	few_files(&m);
	assert_int_equal(gt_check(&found, &m.probe, &m.facts, &err), 0);
	assert_int_equal(found.count, 4);
	assert_int_equal(found.errors, 1);
	gt_findings_release(&found);
}

/* Cards are known by vendor and class; other devices of the vendor, such as sound, are none. */
static void test_facts(void **state)
{
#define DEVICE(vendor, class)                                                                      \
	{ "/sys/bus/pci/devices/0000:01:00.0/vendor", vendor "\n" },                               \
	    { "/sys/bus/pci/devices/0000:01:00.0/class", class "\n" },                             \
	{                                                                                          \
		NULL, NULL                                                                         \
	}
	static const struct planted_file machines[][3] = { { DEVICE("0x10de", "0x030200") },
		{ DEVICE("0x10de", "0x030000") }, { DEVICE("0x10de", "0x040300") },
		{ DEVICE("0x8086", "0x030000") } };
	struct gt_probe probe = { 0 };
	struct gt_check_facts facts;
	char root[PLANTED_ROOT];

	(void)state;
	for (size_t i = 0; i < COUNT(machines); i++) {
		planted_make(root, machines[i]);
		gt_check_facts_read(&facts, &probe, root);
		assert_int_equal(facts.nvidia_card, i < 2);
		assert_false(facts.shm_bytes.known);
		planted_remove(root);
	}
	gt_check_facts_read(&facts, &probe, "/nonexistent");
	assert_false(facts.nvidia_card);
	assert_false(facts.nccl);
	assert_false(facts.cudnn);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_findings),
		cmocka_unit_test(test_several),
		cmocka_unit_test(test_facts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
