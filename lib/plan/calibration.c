/* calibration.c - read measured rates, and fit latency and bandwidth to times. */
#include "lib/plan/calibration.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/device/cpu.h"

int gt_calibration_machine(char text[GT_MACHINE_SIZE], struct gt_err *err)
{
	struct gt_cpu cpu;

	if (gt_cpu_read(&cpu, "", err))
		return err->code;
	snprintf(text, GT_MACHINE_SIZE, "%s, %zu processors", cpu.model, cpu.usable);
	gt_cpu_release(&cpu);
	return 0;
}

/*
 * Least squares with the weight 1 / time^2, which makes a relative error of a small size count as
 * much as one of a large size:
 *
 *   minimize  sum ((base + bytes * slope) / time - 1)^2
 */
void gt_calibration_fit(
    double *base_s, double *bytes_per_s, const double *bytes, const double *time_s, int count)
{
	double a = 0, b = 0, c = 0, d = 0, e = 0, determinant, base, slope;

	for (int i = 0; i < count; i++) {
		double u = 1 / time_s[i], v = bytes[i] / time_s[i];

		a += u * u;
		b += u * v;
		c += v * v;
		d += u;
		e += v;
	}
	determinant = a * c - b * b;
	base = (d * c - b * e) / determinant;
	slope = (a * e - b * d) / determinant;
	if (!(base > 0)) {
		base = 0;
		slope = e / c;
	}
	/* Times that do not grow with the size: the largest size gives the rate. */
	if (!(slope > 0))
		slope = time_s[count - 1] / bytes[count - 1];
	*base_s = base;
	*bytes_per_s = 1 / slope;
}

/* ---- reading ---- */

static int fail(const char *name, const char *key, struct gt_err *err)
{
	gt_err_set(err, GT_EFORMAT, "%s: '%s' is missing or wrong", name, key);
	return gt_err_hint(err, "gtrain bench calibrate writes such files");
}

/* With these limits no time is infinite. */
static bool is_positive(const json_t *value)
{
	double number = json_number_value(value);

	return number >= 1e-9 && number <= 1e18;
}

/* Read pairs of ascending sizes, and rates. */
static bool read_curve(struct gt_curve *out, const json_t *pairs)
{
	size_t count = json_array_size(pairs);

	*out = (struct gt_curve){ 0 };
	for (size_t i = 0; i < count; i++) {
		const json_t *pair = json_array_get(pairs, i);
		const json_t *size = json_array_get(pair, 0), *rate = json_array_get(pair, 1);

		if (!is_positive(size) || !is_positive(rate) || count > GT_CURVE_POINTS ||
		    (i && json_number_value(size) <= out->size[i - 1]))
			return false;
		gt_curve_add(out, json_number_value(size), json_number_value(rate));
	}
	return count;
}

/* The highest measured rate stands for the peak. */
static bool read_products(struct gt_cluster_device *d, const json_t *products)
{
	bool any = false;

	for (int type = 0; type < GT_PRODUCT_TYPES; type++) {
		const json_t *pairs = json_object_get(products, gt_product_type_names[type]);
		struct gt_curve *curve = &d->product[type];

		if (!pairs)
			continue;
		if (!read_curve(curve, pairs))
			return false;
		d->peak[type] = 0;
		for (int i = 0; i < curve->count; i++)
			d->peak[type] = fmax(d->peak[type], curve->rate[i]);
		any = true;
	}
	return any;
}

/* The factors with several ranks at work. Older files have none. */
static bool read_busy(struct gt_cluster_device *d, const json_t *busy)
{
	const json_t *ranks = json_object_get(busy, "ranks");
	const json_t *ops = json_object_get(busy, "ops");

	d->busy_ranks = 0;
	if (!busy || json_is_null(busy))
		return true;
	if (!is_positive(ranks) || json_number_value(ranks) < 2 || !json_is_object(ops))
		return false;
	d->busy_ranks = json_number_value(ranks);
	for (int i = 0; i < d->factor_count; i++) {
		const json_t *factor = json_object_get(ops, d->factors[i].op);

		if (factor && !is_positive(factor))
			return false;
		d->factors[i].busy = json_number_value(factor);
	}
	return true;
}

static bool read_factors(struct gt_cluster_device *d, json_t *ops)
{
	const char *op;
	json_t *factor;

	d->factor_count = 0;
	json_object_foreach(ops, op, factor)
	{
		struct gt_op_factor *f = &d->factors[d->factor_count];

		if (!is_positive(factor) || d->factor_count == GT_OP_FACTORS ||
		    strlen(op) >= sizeof(f->op))
			return false;
		snprintf(f->op, sizeof(f->op), "%s", op);
		f->factor = json_number_value(factor);
		f->busy = 0;
		d->factor_count++;
	}
	return json_is_object(ops);
}

/* Ranks of a CPU share the rate at which its memory passes bytes on. Files of GPUs, and older
 * files, have one rate. */
static bool read_measured_link(struct gt_cluster *c, const json_t *link)
{
	const json_t *rate = json_object_get(link, "bytes_per_s");
	const json_t *copied = json_object_get(link, "copied_per_s");
	const json_t *ranks = json_object_get(link, "ranks");
	double shared = 1, base_s = json_number_value(json_object_get(link, "base_s"));

	if (json_is_null(link))
		return true;
	if (!is_positive(rate) || !is_positive(ranks) || !(base_s >= 0) || !isfinite(base_s) ||
	    (copied && !is_positive(copied)))
		return false;
	c->inside.base_s = base_s;
	c->inside.step_s = c->inside.tree_s = 0;
	if (c->device.host && c->devices > 1)
		shared = json_number_value(ranks) / c->devices;
	c->inside.bytes_per_s = shared * json_number_value(rate);
	c->inside.copied_per_s = shared * json_number_value(copied);
	return true;
}

int gt_calibration_apply(struct gt_cluster *c, const char **machine, const json_t *json,
    const char *name, struct gt_err *err)
{
	struct gt_cluster_device *d = &c->device;
	const char *format = json_string_value(json_object_get(json, "format"));
	const char *device = json_string_value(json_object_get(json, "device"));
	const json_t *processors = json_object_get(json, "processors");
	const json_t *threads = json_object_get(json, "threads");

	*machine = json_string_value(json_object_get(json, "machine"));
	if (!format || strcmp(format, GT_CALIBRATION_FORMAT) != 0)
		return fail(name, "format", err);
	if (!*machine || !device)
		return fail(name, *machine ? "device" : "machine", err);
	if (!strcmp(device, "cpu") != d->host)
		return gt_err_set(err, GT_EINVAL, "%s: the rates of a '%s' are not those of a '%s'",
		    name, device, d->name);
	if (d->host && (!is_positive(processors) || !is_positive(threads)))
		return fail(name, is_positive(processors) ? "threads" : "processors", err);
	if (!read_products(d, json_object_get(json, "products")))
		return fail(name, "products", err);
	if (!read_curve(&d->memory, json_object_get(json, "copies")))
		return fail(name, "copies", err);
	if (!read_measured_link(c, json_object_get(json, "link")))
		return fail(name, "link", err);
	if (!read_factors(d, json_object_get(json, "ops")))
		return fail(name, "ops", err);
	if (!read_busy(d, json_object_get(json, "busy")))
		return fail(name, "busy", err);
	if (d->host) {
		d->processors = json_number_value(processors);
		d->rate_threads = json_number_value(threads);
		d->vector = d->peak[GT_PRODUCT_F32] / 4;
	}
	d->launch_s = 0;
	d->calibrated = true;
	return 0;
}
