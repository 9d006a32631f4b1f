/* lora.h - low-rank adapters: their settings, and the names of their weights. */
#ifndef GT_MODEL_LORA_H
#define GT_MODEL_LORA_H

#include "lib/base/blocks.h"
#include "lib/model/model.h"

/*
 * A low-rank adapter (Hu et al., "LoRA", arXiv 2106.09685) trains two small matrices beside the
 * weight of a linear layer, which stays as it is:
 *
 *   y = W x + b + scale * B (A dropout(x))       A: [r, in], B: [out, r], scale: alpha / r
 *
 * A begins as in PEFT, uniform between -1/sqrt(in) and 1/sqrt(in) (Kaiming's with a = sqrt(5)), and
 * B with zeros, so that the first step computes the model as it was. The weights have PEFT's names:
 *
 *   base_model.model.MODULE.lora_A.weight    where MODULE.weight is the weight of the layer
 */
struct gt_lora {
	int rank;
	double alpha;
	double dropout;
	/* The type in which training stores the frozen weights of linear layers; GT_BLOCK_NONE is
	 * float32. A quantized type is for layers between hidden features; other layers, such as
	 * the head, are then stored in bfloat16. */
	enum gt_block frozen;
	bool root; /* the scale is alpha / sqrt(r) (Kalajdzievski, arXiv 2312.03732) */
	/* Patterns of fnmatch(3), separated by '|', for names of weights or of their modules. NULL:
	 * all linear layers between hidden features, so not the last layer. */
	char *targets;
	/* Patterns, as above, for names of modules whose parameters are trained and saved with the
	 * adapter, such as a new last layer (PEFT's modules_to_save). A module has the parameters
	 * of all modules in it. NULL: there are none. */
	char *trained;
};

enum { GT_LORA_MAX_RANK = 1 << 16 };

/* The settings that are numbers, by the name that {lora} has for them. */
enum gt_lora_number { GT_LORA_RANK, GT_LORA_ALPHA, GT_LORA_DROPOUT };

/* Set a setting to a number. Return NULL, or if the number is no value for it, the numbers that
 * are, such as "a number from 0 to below 1". */
const char *gt_lora_set(struct gt_lora *l, enum gt_lora_number setting, double value);

/* Return whether a text is patterns, none of them empty. */
bool gt_lora_is_targets(const char *text);

/* Return whether a pattern matches the name of a weight, or of its module. Bit i of *found is set
 * if pattern i does (bit 63: one from there on). */
bool gt_lora_matches(const char *targets, const char *weight, uint64_t *found);

/* Return the first pattern whose bit is not set, in `targets` up to the next '|'; NULL: none. */
const char *gt_lora_unmatched(const char *targets, uint64_t found);

/* Parse r=N,alpha=X,targets=GLOB[|GLOB...],train=GLOB[|GLOB...],dropout=P,rslora=yes|no,
 * frozen=TYPE, where TYPE is fp32, bf16, q8_0 or q4_0.
 * Errors: GT_EINVAL, GT_ENOMEM. */
int gt_lora_parse(struct gt_lora *out, const char *spec, struct gt_err *err);
int gt_lora_check(const char *spec, struct gt_err *err); /* only parse it */
void gt_lora_release(struct gt_lora *l);

/* Return the spec with all settings; the caller frees it. NULL: memory ran out. */
char *gt_lora_spec(const struct gt_lora *l, struct gt_err *err);

/* Return the factor of the product B A x. */
double gt_lora_scale(const struct gt_lora *l);

enum { GT_LORA_NAME = 256 }; /* size of a module's name, in bytes */

/* Return whether a parameter is that of an adapter, by its name; then `module` (or NULL) is the
 * name of the layer, and *is_b (or NULL) tells B from A. */
bool gt_lora_is_adapter(const char *name, char module[GT_LORA_NAME], bool *is_b);

/* Set `module` to the name of the module that a weight, MODULE.weight, belongs to. Return false if
 * the name has another end, or is too long. */
bool gt_lora_name_module(char module[GT_LORA_NAME], const char *weight);

/* Return whether a parameter or buffer is of a module that is trained with the adapter. Then
 * `module` (or NULL) is the outermost one that a pattern matches. *found (or NULL): as above. */
bool gt_lora_is_trained(
    const struct gt_lora *l, const char *name, char module[GT_LORA_NAME], uint64_t *found);

/* Return whether the adapter has this parameter or buffer: A, B, or one of a trained module. */
bool gt_lora_has(const struct gt_lora *l, const char *name);

/* Return the name that a parameter of a trained module has in PEFT's files without their prefix;
 * NULL: the name has not this prefix, or is A or B. */
const char *gt_lora_without_prefix(const char *name);

enum { GT_LORA_WEIGHT_NAME = GT_LORA_NAME + 64 }; /* size of the name of A or B, in bytes */

enum { GT_LORA_PREFIX = 17 }; /* length of "base_model.model." */

/* Set `out` to the name that files of PEFT have for a parameter of a trained module, or for the
 * module. */
void gt_lora_name_trained(char out[GT_LORA_WEIGHT_NAME], const char *name);

/* Set `out` to the name of the weight A or B beside the layer `module`. */
void gt_lora_name_weight(char out[GT_LORA_WEIGHT_NAME], const char *module, bool is_b);

/* Give the layers of g adapters, and freeze all parameters that no adapter has. `result` is what
 * the network computes; return what takes its place. rng: NULL for no dropout. */
struct gt_value *gt_lora_apply(
    const struct gt_lora *l, struct gt_graph *g, struct gt_value *result, struct gt_value *rng);

#endif
