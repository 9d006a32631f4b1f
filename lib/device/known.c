/* known.c - the table of known GPUs: published peaks, memory and links. */
#include "lib/device/known.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

/*
 * Published peaks without sparsity. Sources: the datasheets of NVIDIA H100 (SXM, PCIe), H200, A100
 * (80 GB SXM, 40 GB SXM), L40S and HGX B200 (divided by 8), and the Ada GPU architecture whitepaper
 * (RTX 4090). Rates of NVLink are per direction.
 */
#define T 1e12
#define G 1e9

const struct gt_known_device gt_known_devices[] = {
	/* name, f32, tf32, 16-bit, f64, memory, bytes/s, link, bytes/s, network of a device */
	{ "H100", 67 * T, 494.7 * T, 989.4 * T, 67 * T, 80 * G, 3350 * G, GT_NVLINK, 450 * G,
	    50 * G },
	{ "H100-PCIe", 51 * T, 378 * T, 756 * T, 51 * T, 80 * G, 2000 * G, GT_PCIE, 64 * G,
	    25 * G },
	{ "H200", 67 * T, 494.7 * T, 989.4 * T, 67 * T, 141 * G, 4800 * G, GT_NVLINK, 450 * G,
	    50 * G },
	{ "A100", 19.5 * T, 156 * T, 312 * T, 19.5 * T, 80 * G, 2039 * G, GT_NVLINK, 300 * G,
	    25 * G },
	{ "A100-40GB", 19.5 * T, 156 * T, 312 * T, 19.5 * T, 40 * G, 1555 * G, GT_NVLINK, 300 * G,
	    25 * G },
	{ "B200", 75 * T, 1100 * T, 2250 * T, 37 * T, 180 * G, 7700 * G, GT_NVLINK, 900 * G,
	    50 * G },
	{ "L40S", 91.6 * T, 183 * T, 362 * T, 1.4 * T, 48 * G, 864 * G, GT_PCIE, 32 * G, 25 * G },
	{ "RTX4090", 82.6 * T, 82.6 * T, 165.2 * T, 1.3 * T, 24 * G, 1008 * G, GT_PCIE, 32 * G,
	    3 * G },
	{ .name = NULL },
};

const struct gt_known_device *gt_known_device(const char *name)
{
	const struct gt_known_device *d = gt_known_devices;

	while (d->name && strcasecmp(d->name, name) != 0)
		d++;
	return d->name ? d : NULL;
}

/* Return whether the text begins with `length` characters of a name, in upper or lower case, and
 * the word ends there. The text may have spaces between them: "RTX 4090" is RTX4090. */
static bool begins_with(const char *text, const char *name, size_t length)
{
	for (size_t i = 0; i < length; text++) {
		if (*text == ' ' && i)
			continue;
		if (tolower((unsigned char)*text) != tolower((unsigned char)name[i++]))
			return false;
	}
	return !isalnum((unsigned char)*text);
}

/* Return whether a word of the text is the name. */
static bool has_name(const char *text, const char *name, size_t length)
{
	bool inside = false; /* the character before is part of a word */

	for (; *text; text++) {
		if (!inside && begins_with(text, name, length))
			return true;
		inside = isalnum((unsigned char)*text);
	}
	return false;
}

/* A row such as H100-PCIe needs both words, and comes behind the row H100. Devices of the same name
 * with less memory, such as those of laptops, are others; drivers keep some memory for
 * themselves. */
const struct gt_known_device *gt_known_device_described(
    const char *description, double memory_bytes)
{
	const struct gt_known_device *found = NULL;

	for (const struct gt_known_device *d = gt_known_devices; d->name; d++) {
		size_t length = strcspn(d->name, "-");
		const char *variant = d->name[length] ? d->name + length + 1 : NULL;

		if (has_name(description, d->name, length) &&
		    (!variant || has_name(description, variant, strlen(variant))) &&
		    fabs(memory_bytes / d->memory_bytes - 1) < 0.15)
			found = d;
	}
	return found;
}

double gt_known_device_peak(const struct gt_known_device *d, enum gt_dtype dtype, bool tf32)
{
	switch (dtype) {
	case GT_F32:
		return tf32 ? d->tf32 : d->f32;
	case GT_F16:
	case GT_BF16:
		return d->half;
	case GT_F64:
		return d->f64;
	default:
		return 0;
	}
}

/* ---- other GPUs ---- */

/*
 * FLOP of a multiprocessor in a cycle, without sparsity; 0: no tensor cores for that type. Sources:
 * the CUDA C++ programming guide (arithmetic instructions) and the architecture whitepapers. GPUs
 * for desktops reach half of it with sums in float32.
 */
static const struct {
	int major, minor;
	double single, half, bfloat, tf32;
} rates[] = {
	{ 7, 0, 128, 1024, 0, 0 },
	{ 7, 5, 128, 1024, 0, 0 },
	{ 8, 0, 128, 2048, 2048, 1024 },
	{ 8, 6, 256, 1024, 1024, 512 },
	{ 8, 9, 256, 1024, 1024, 512 },
	{ 9, 0, 256, 4096, 4096, 2048 },
	{ 10, 0, 256, 8192, 8192, 4096 },
	{ 10, 3, 256, 8192, 8192, 4096 },
	{ 12, 0, 256, 1024, 1024, 512 },
};

double gt_multiprocessor_peak(int major, int minor, enum gt_dtype dtype, bool tf32)
{
	for (size_t i = 0; i < sizeof(rates) / sizeof(*rates); i++)
		if (rates[i].major == major && rates[i].minor == minor)
			return dtype == GT_F32    ? tf32 ? rates[i].tf32 : rates[i].single
			       : dtype == GT_F16  ? rates[i].half
			       : dtype == GT_BF16 ? rates[i].bfloat
			                          : 0;
	return 0;
}
