/* cluster.h - a described cluster: hosts, devices with their rates, and links between them. */
#ifndef GT_PLAN_CLUSTER_H
#define GT_PLAN_CLUSTER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"

/* The rates of a device by the size of its work, as points of ascending size. Between two points
 * the rate changes with the logarithm of the size; beyond the ends it is constant. */
enum { GT_CURVE_POINTS = 16 };

struct gt_curve {
	int count;
	double size[GT_CURVE_POINTS], rate[GT_CURVE_POINTS];
};

/* Return the rate for a size; 0 if there are no points. */
double gt_curve_rate(const struct gt_curve *curve, double size);

/* Append a point; the size is above those of the points before. Ignored if the curve is full. */
void gt_curve_add(struct gt_curve *curve, double size, double rate);

/* The types of products that have rates of their own. */
enum gt_product_type {
	GT_PRODUCT_F32,
	GT_PRODUCT_TF32,
	GT_PRODUCT_F16,
	GT_PRODUCT_BF16,
	GT_PRODUCT_F64,
	GT_PRODUCT_TYPES
};

/* "f32", "tf32", "f16", "bf16", "f64"; NULL at the end. */
extern const char *const gt_product_type_names[GT_PRODUCT_TYPES + 1];

/* The measured time of an op, as a part of the time that the rates give: 2 is half as fast. */
struct gt_op_factor {
	char op[48];
	double factor;
	double busy; /* while gt_cluster_device.busy_ranks ranks compute; 0: not measured */
};

enum { GT_OP_FACTORS = 96 };

/* One device. */
struct gt_cluster_device {
	char name[64];
	bool host; /* a CPU */
	/* of a CPU: processors of a host, and the threads for which the rates are */
	double processors, rate_threads;
	bool calibrated; /* the rates are measured, and not a part of published peaks */
	double memory_bytes;
	/* published peak of products, FLOP/s; 0: products of this type are not possible */
	double peak[GT_PRODUCT_TYPES];
	/* FLOP/s of products that are reached, by the FLOPs of a product */
	struct gt_curve product[GT_PRODUCT_TYPES];
	/* columns of a product that are computed at once: a narrower one leaves units without
	 * work; 0: products of every width are as fast */
	double tile;
	/* FLOP/s of other ops */
	double vector;
	/* bytes/s that are reached, by the bytes of an op */
	struct gt_curve memory;
	double memory_peak; /* published bytes/s; 0: not known */
	double launch_s;    /* time of a kernel beside its work */
	/* Part of a collective's time that it takes from computation if both run at once: 1 for a
	 * processor, which does both, and little for a GPU. */
	double steal;
	struct gt_op_factor factors[GT_OP_FACTORS];
	int factor_count;
	double busy_ranks; /* 0: factors of ranks that compute at once are not measured */
};

/* A link of a device to others. */
struct gt_cluster_link {
	char name[16];
	double bytes_per_s; /* that a device sends, and receives at the same time */
	/* the same from memory that a group has not lent, so that it copies it; 0: bytes_per_s */
	double copied_per_s;
	/* seconds of a collective beside its steps; of a step of a ring, and of a tree */
	double base_s, step_s, tree_s;
};

struct gt_cluster {
	int hosts, devices; /* devices: of a host */
	struct gt_cluster_device device;
	struct gt_cluster_link inside, between; /* within a host, and between hosts */
	double price_per_hour;                  /* of a device; 0: not known */
};

/* Parse "4x8xH100" (hosts, devices of each, device), or "8xH100" for one host. Errors:
 * GT_EINVAL. */
int gt_cluster_parse(struct gt_cluster *out, const char *text, struct gt_err *err);

/* Find the known device with a description such as "NVIDIA H100 PCIe, 79.6 GiB" and about so much
 * memory. Returns false if there is none. */
bool gt_cluster_find_device(
    struct gt_cluster_device *out, const char *description, double memory_bytes);

/* Read a description as JSON (gtrain-plan(1)). `name` is that of the file, for errors. Errors:
 * GT_EFORMAT. */
int gt_cluster_read(
    struct gt_cluster *out, const json_t *json, const char *name, struct gt_err *err);

/* Give each rank its share of a host, if the device is a CPU: the memory divided by the ranks, and
 * the rates of `threads` threads, at most of its part of the processors; 0: of that part. Factors
 * of ops become those of as many ranks at work: between the factor of one rank and that of
 * busy_ranks they change with the number of ranks. Call this once, after all rates are set. */
void gt_cluster_use_threads(struct gt_cluster *cluster, int64_t threads);

#endif
