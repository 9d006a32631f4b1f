/* cluster.c - descriptions of clusters: as a short text, and as JSON. */
#include "lib/plan/cluster.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/suggest.h"
#include "lib/comm/world/world.h"
#include "lib/device/cpu.h"
#include "lib/plan/links.h"

const char *const gt_product_type_names[GT_PRODUCT_TYPES + 1] = { [GT_PRODUCT_F32] = "f32",
	[GT_PRODUCT_TF32] = "tf32",
	[GT_PRODUCT_F16] = "f16",
	[GT_PRODUCT_BF16] = "bf16",
	[GT_PRODUCT_F64] = "f64" };

/* Parts of published peaks that large products, and large passes over memory, reach; the part that
 * a GPU's product of 1e9 FLOPs reaches; and the part of a link's rate that collectives reach. */
static const double product_part = 0.65, memory_part = 0.8, small_product_part = 0.2,
                    link_part = 0.8;

/* Columns that a GPU's multiprocessor computes at once. */
enum { GPU_TILE = 128 };

/*
 * What ops take on a GPU in units of the time that the rates give. With these and the parts above,
 * steps of gpt, gpt2, resnet20 and resnet50 on an H200 are within 20 % of those that were measured
 * (tests/bench/results/2026-11-27-h200.txt, which has the times of ops, too). Plans are made with
 * the kernels of the CPU, which cast more: a GPU's products read and write 16-bit values.
 */
static const struct gt_op_factor gpu_factors[] = {
	{ "attention", 2.85, 0 },
	{ "attention_grad", 3.15, 0 },
	{ "add_layer_norm", 1.27, 0 },
	{ "add_layer_norm_grad", 1.62, 0 },
	{ "layer_norm", 1.6, 0 },
	{ "layer_norm_grad", 1.6, 0 },
	{ "embedding", 1.5, 0 },
	{ "embedding_grad", 1.7, 0 },
	{ "batch_norm", 1.69, 0 },
	{ "batch_norm_grad", 1.54, 0 },
	{ "conv2d", 1.2, 0 },
	{ "conv2d_input_grad", 1.2, 0 },
	{ "conv2d_weight_grad", 1.2, 0 },
	{ "max_pool2d", 1.4, 0 },
	{ "max_pool2d_grad", 1.5, 0 },
	{ "cast", 0.1, 0 },
};

enum { DEVICE_NAMES = 200 };

/* ---- curves ---- */

void gt_curve_add(struct gt_curve *c, double size, double rate)
{
	if (c->count == GT_CURVE_POINTS)
		return;
	c->size[c->count] = size;
	c->rate[c->count++] = rate;
}

double gt_curve_rate(const struct gt_curve *c, double size)
{
	int i = 0;
	double part;

	while (i < c->count && c->size[i] < size)
		i++;
	if (!c->count)
		return 0;
	if (!i || i == c->count)
		return c->rate[i ? i - 1 : 0];
	part = log(size / c->size[i - 1]) / log(c->size[i] / c->size[i - 1]);
	return c->rate[i - 1] + part * (c->rate[i] - c->rate[i - 1]);
}

/* ---- known devices ---- */

/* A GPU needs large products to keep all multiprocessors at work. */
static void set_products(struct gt_cluster_device *d, enum gt_product_type type, double peak)
{
	d->peak[type] = peak;
	d->product[type] = (struct gt_curve){ 0 };
	if (!(peak > 0))
		return;
	if (!d->host)
		gt_curve_add(&d->product[type], 1e9, small_product_part * peak);
	gt_curve_add(&d->product[type], 5e10, product_part * peak);
}

/* Ops whose values fit into a CPU's cache are about three times as fast. */
static void set_memory(struct gt_cluster_device *d, double per_s, double cache_bytes)
{
	d->memory = (struct gt_curve){ 0 };
	if (cache_bytes > 0)
		gt_curve_add(&d->memory, cache_bytes / 2, 3 * memory_part * per_s);
	gt_curve_add(&d->memory, cache_bytes > 0 ? 2 * cache_bytes : 1, memory_part * per_s);
}

static void use_known_device(struct gt_cluster *c, const struct gt_known_device *known)
{
	struct gt_cluster_device *d = &c->device;

	*d = (struct gt_cluster_device){ .memory_bytes = known->memory_bytes,
		.vector = known->f32,
		.memory_peak = known->memory_per_s,
		.launch_s = 3e-6,
		.tile = GPU_TILE,
		.steal = 0.1 };
	snprintf(d->name, sizeof(d->name), "%s", known->name);
	set_products(d, GT_PRODUCT_F32, known->f32);
	set_products(d, GT_PRODUCT_TF32, known->tf32);
	set_products(d, GT_PRODUCT_F16, known->half);
	set_products(d, GT_PRODUCT_BF16, known->half);
	set_products(d, GT_PRODUCT_F64, known->f64);
	set_memory(d, known->memory_per_s, 0);
	memcpy(d->factors, gpu_factors, sizeof(gpu_factors));
	d->factor_count = sizeof(gpu_factors) / sizeof(*gpu_factors);
	c->inside = gt_known_links[known->link];
	c->inside.bytes_per_s = link_part * known->link_per_s;
	c->between = gt_known_links[GT_NETWORK];
	c->between.bytes_per_s = link_part * known->network_per_s;
}

bool gt_cluster_find_device(
    struct gt_cluster_device *out, const char *description, double memory_bytes)
{
	const struct gt_known_device *known = gt_known_device_described(description, memory_bytes);
	struct gt_cluster c = { 0 };

	if (known)
		use_known_device(&c, known);
	*out = c.device;
	return known;
}

/* FLOP/s of one processor in a product, at 3 GHz: two units of so many numbers, multiplied and
 * added. */
static double nominal_flops(const struct gt_cpu *cpu)
{
	double lanes = 4;

	for (size_t i = 0; i < cpu->feature_count; i++) {
		if (!strcmp(cpu->feature[i], "AVX2") && lanes < 8)
			lanes = 8;
		if (!strcmp(cpu->feature[i], "AVX512F"))
			lanes = 16;
	}
	return 3e9 * 2 * 2 * lanes;
}

/* The CPU of this machine. Its rates are nominal until they are measured. */
static int use_this_cpu(struct gt_cluster *c, struct gt_err *err)
{
	static const double memory_per_s = 25e9;
	struct gt_cluster_device *d = &c->device;
	struct gt_cpu cpu;
	double cache = 0, flops;

	if (gt_cpu_read(&cpu, "", err))
		return err->code;
	for (size_t i = 0; i < cpu.cache_count; i++)
		cache = fmax(cache, (double)cpu.cache[i].size_bytes);
	flops = nominal_flops(&cpu) * (double)cpu.usable;
	*d = (struct gt_cluster_device){ .name = "cpu",
		.host = true,
		.processors = (double)cpu.usable,
		.rate_threads = (double)cpu.usable,
		.memory_bytes = (double)gt_cpu_memory_bytes(),
		.vector = flops / 4,
		.launch_s = 1e-6,
		.steal = 1 };
	for (int type = 0; type < GT_PRODUCT_TYPES; type++)
		set_products(d, (enum gt_product_type)type, type == GT_PRODUCT_TF32 ? 0 : flops);
	set_products(d, GT_PRODUCT_F64, flops / 2);
	set_memory(d, memory_per_s, cache);
	c->inside = gt_known_links[GT_SHARED_MEMORY];
	c->inside.bytes_per_s = memory_per_s / 4;
	c->between = gt_known_links[GT_NETWORK];
	c->between.bytes_per_s = link_part * 1.25e9;
	gt_cpu_release(&cpu);
	return 0;
}

/* Name the device `cpu` and all known ones: "cpu, H100, ...". */
static const char *name_devices(char out[DEVICE_NAMES])
{
	size_t used = (size_t)snprintf(out, DEVICE_NAMES, "cpu");

	for (const struct gt_known_device *d = gt_known_devices; d->name && used < DEVICE_NAMES;
	     d++)
		used += (size_t)snprintf(out + used, DEVICE_NAMES - used, ", %s", d->name);
	return out;
}

/* Ranks of a host slow each other down. */
static void use_busy_factors(struct gt_cluster_device *d, int ranks)
{
	double part = d->busy_ranks > 1 ? fmin((ranks - 1) / (d->busy_ranks - 1), 1) : 0;

	for (int i = 0; i < d->factor_count; i++)
		if (d->factors[i].busy > 0)
			d->factors[i].factor += part * (d->factors[i].busy - d->factors[i].factor);
}

void gt_cluster_use_threads(struct gt_cluster *c, int64_t threads)
{
	struct gt_cluster_device *d = &c->device;
	double part = d->processors / c->devices, share;

	if (!d->host)
		return;
	share = (threads > 0 ? fmin((double)threads, part) : part) / d->rate_threads;
	use_busy_factors(d, c->devices);
	d->memory_bytes /= c->devices;
	d->vector *= share;
	for (int type = 0; type < GT_PRODUCT_TYPES; type++) {
		d->peak[type] *= share;
		for (int i = 0; i < d->product[type].count; i++)
			d->product[type].rate[i] *= share;
	}
	for (int i = 0; i < d->memory.count; i++)
		d->memory.rate[i] *= share;
}

static int use_device(struct gt_cluster *c, const char *name, struct gt_err *err)
{
	const struct gt_known_device *known = gt_known_device(name);
	char names[DEVICE_NAMES];

	if (!strcmp(name, "cpu"))
		return use_this_cpu(c, err);
	if (!known) {
		gt_err_set(err, GT_EINVAL, "'%s' is not a known device", name);
		return gt_err_hint(
		    err, "known are %s; a JSON file can describe others", name_devices(names));
	}
	use_known_device(c, known);
	return 0;
}

static int check_counts(const struct gt_cluster *c, int code, struct gt_err *err)
{
	if (c->hosts >= 1 && c->devices >= 1 && c->hosts <= GT_WORLD_MAX_RANKS &&
	    c->devices <= GT_WORLD_MAX_RANKS && c->hosts * c->devices <= GT_WORLD_MAX_RANKS)
		return 0;
	return gt_err_set(err, code, "%d hosts of %d devices are not 1 to %d devices", c->hosts,
	    c->devices, GT_WORLD_MAX_RANKS);
}

static int fail_text(const char *text, struct gt_err *err)
{
	char names[DEVICE_NAMES];

	gt_err_set(err, GT_EINVAL,
	    "{cluster}: '%s' is neither HOSTSxDEVICESxNAME nor a file that ends in .json", text);
	return gt_err_hint(
	    err, "as in {cluster} 4x8xH100; known devices are %s", name_devices(names));
}

int gt_cluster_parse(struct gt_cluster *out, const char *text, struct gt_err *err)
{
	long numbers[2];
	const char *rest = text;
	int count = 0;

	*out = (struct gt_cluster){ 0 };
	while (count < 2 && *rest >= '0' && *rest <= '9') {
		char *end;
		long n = strtol(rest, &end, 10);

		if (*end != 'x' || n > 1000000)
			break;
		numbers[count++] = n;
		rest = end + 1;
	}
	if (!count || !*rest || (*rest >= '0' && *rest <= '9'))
		return fail_text(text, err);
	out->hosts = count == 2 ? (int)numbers[0] : 1;
	out->devices = (int)numbers[count - 1];
	if (check_counts(out, GT_EINVAL, err))
		return gt_err_prefix(err, "{cluster}");
	return use_device(out, rest, err) ? gt_err_prefix(err, "{cluster}") : 0;
}

/* ---- JSON ---- */

/* The file that is read, for errors. */
struct reader {
	const char *name;
	struct gt_err *err;
};

static int fail_key(const struct reader *r, const char *key, const char *wanted)
{
	return gt_err_set(r->err, GT_EFORMAT, "%s: '%s' is not %s", r->name, key, wanted);
}

/* The numbers that a key may have. With the limits no time is 0 or infinite, and sizes of memory
 * are whole numbers of 64 bits. */
struct range {
	double least, most;
	const char *text;
};

static const struct range counts = { 1, 1e6, "a whole number from 1 to 1000000" };
static const struct range rates = { 1, 1e18, "a number from 1 to 1e18" };
static const struct range seconds = { 0, 1e3, "a number from 0 to 1000" };
static const struct range prices = { 0, 1e9, "a number from 0 to 1e9" };

/* Read a number, if the object has it. */
static int read_number(const struct reader *r, double *out, const json_t *object, const char *key,
    const struct range *range)
{
	const json_t *value = json_object_get(object, key);
	double number = json_number_value(value);

	if (!value)
		return 0;
	if (!json_is_number(value) || !(number >= range->least && number <= range->most) ||
	    (range == &counts && number != floor(number)))
		return fail_key(r, key, range->text);
	*out = number;
	return 0;
}

/* Refuse keys that nothing reads: most are spelled wrong. */
static int check_keys(const struct reader *r, const json_t *object, const char *const *known)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)object, key, value)
	{
		int i = 0;

		while (known[i] && strcmp(known[i], key) != 0)
			i++;
		if (!known[i])
			return gt_err_set(r->err, GT_EFORMAT, "%s: unknown key '%s'", r->name, key);
	}
	return 0;
}

static int read_link(
    const struct reader *r, struct gt_cluster_link *link, const json_t *cluster, const char *key)
{
	static const char *const keys[] = { "bytes_per_s", "base_s", "step_s", NULL };
	const json_t *object = json_object_get(cluster, key);

	if (!object)
		return 0;
	if (!json_is_object(object))
		return fail_key(r, key, "an object");
	if (check_keys(r, object, keys) ||
	    read_number(r, &link->bytes_per_s, object, "bytes_per_s", &rates) ||
	    read_number(r, &link->base_s, object, "base_s", &seconds) ||
	    read_number(r, &link->step_s, object, "step_s", &seconds))
		return r->err->code;
	if (json_object_get(object, "step_s"))
		link->tree_s = link->step_s;
	return 0;
}

static int read_rates(const struct reader *r, struct gt_cluster_device *d, const json_t *object)
{
	const json_t *flops = json_object_get(object, "flops");
	double memory = 0, cache = 0;

	if (flops && (!json_is_object(flops) || check_keys(r, flops, gt_product_type_names)))
		return r->err->code ? r->err->code : fail_key(r, "flops", "an object");
	for (int type = 0; type < GT_PRODUCT_TYPES; type++) {
		double peak = 0;

		if (read_number(r, &peak, flops, gt_product_type_names[type], &rates))
			return r->err->code;
		if (peak > 0)
			set_products(d, (enum gt_product_type)type, peak);
		if (peak > 0 && type == GT_PRODUCT_F32)
			d->vector = peak;
	}
	if (read_number(r, &memory, object, "bytes_per_s", &rates) ||
	    read_number(r, &cache, object, "cache_bytes", &rates) ||
	    read_number(r, &d->memory_bytes, object, "memory_bytes", &rates) ||
	    read_number(r, &d->launch_s, object, "launch_s", &seconds))
		return r->err->code;
	if (memory > 0)
		set_memory(d, memory, cache);
	return 0;
}

/* A name, or an object with a name and, if that is not a known device, with all rates. */
static int read_device(const struct reader *r, struct gt_cluster *c, const json_t *cluster)
{
	static const char *const keys[] = { "name", "flops", "bytes_per_s", "cache_bytes",
		"memory_bytes", "launch_s", NULL };
	const json_t *device = json_object_get(cluster, "device");
	const json_t *named = json_is_object(device) ? json_object_get(device, "name") : device;
	struct gt_cluster_device *d = &c->device;
	const char *name = json_string_value(named);

	if (!name)
		return fail_key(r, "device", "a name, or an object with a \"name\"");
	if (!*name || strlen(name) >= sizeof(d->name))
		return fail_key(
		    r, json_is_object(device) ? "name" : "device", "a name of 1 to 63 bytes");
	if (!strcmp(name, "cpu") || gt_known_device(name) || !json_is_object(device)) {
		if (use_device(c, name, r->err)) {
			r->err->code = GT_EFORMAT;
			return gt_err_prefix(r->err, "%s", r->name);
		}
	} else {
		use_known_device(c, gt_known_devices);
		for (int type = 0; type < GT_PRODUCT_TYPES; type++)
			set_products(d, (enum gt_product_type)type, 0);
		d->memory_bytes = 0;
		d->memory = (struct gt_curve){ 0 };
		snprintf(d->name, sizeof(d->name), "%s", name);
	}
	if (json_is_object(device) && (check_keys(r, device, keys) || read_rates(r, d, device)))
		return r->err->code;
	if (d->product[GT_PRODUCT_F32].count && d->memory.count && d->memory_bytes > 0)
		return 0;
	return gt_err_set(r->err, GT_EFORMAT,
	    "%s: '%s' is not a known device, so it needs flops.f32, bytes_per_s and memory_bytes",
	    r->name, name);
}

/* Only a known device has links that are known, too. */
static int check_links(const struct reader *r, const struct gt_cluster *c, const json_t *cluster)
{
	const bool inside = c->devices < 2 || json_object_get(cluster, "inside");
	const bool between = c->hosts < 2 || json_object_get(cluster, "between");

	if (!strcmp(c->device.name, "cpu") || gt_known_device(c->device.name) ||
	    (inside && between))
		return 0;
	gt_err_set(r->err, GT_EFORMAT, "%s: '%s' is missing: '%s' is not a known device", r->name,
	    inside ? "between" : "inside", c->device.name);
	return gt_err_hint(r->err, inside ? "it is the network between hosts, as in "
	                                    "{\"bytes_per_s\":25e9}"
	                                  : "it is the link between devices of a host, as in "
	                                    "{\"bytes_per_s\":450e9}");
}

int gt_cluster_read(
    struct gt_cluster *out, const json_t *json, const char *name, struct gt_err *err)
{
	static const char *const keys[] = { "hosts", "devices_per_host", "device", "inside",
		"between", "price_per_hour", NULL };
	const struct reader r = { name, err };
	double hosts = 1, devices = 1;

	*out = (struct gt_cluster){ 0 };
	if (!json_is_object(json))
		return gt_err_set(err, GT_EFORMAT, "%s: not an object", name);
	if (check_keys(&r, json, keys) || read_number(&r, &hosts, json, "hosts", &counts) ||
	    read_number(&r, &devices, json, "devices_per_host", &counts))
		return err->code;
	out->hosts = (int)hosts;
	out->devices = (int)devices;
	if (check_counts(out, GT_EFORMAT, err))
		return gt_err_prefix(err, "%s", name);
	if (read_device(&r, out, json) || check_links(&r, out, json) ||
	    read_link(&r, &out->inside, json, "inside") ||
	    read_link(&r, &out->between, json, "between") ||
	    read_number(&r, &out->price_per_hour, json, "price_per_hour", &prices))
		return err->code;
	return 0;
}
