/* import.h - private: networks of exported files, as an architecture among the others. */
#ifndef GT_MODEL_IMPORT_IMPORT_H
#define GT_MODEL_IMPORT_IMPORT_H

#include "lib/model/arch.h"

struct gt_network;
struct gt_ckpt;

/* Return whether a model's spec is the path of an exported network: it ends with ".pt2" or
 * ".onnx". */
bool gt_network_is_path(const char *spec);

/* Read an exported network. Errors: GT_EFORMAT, GT_ENOTSUP, GT_EIO, GT_ENOMEM. */
int gt_network_open(struct gt_network **out, const char *path, struct gt_err *err);
/* Read the network of an open checkpoint, and take the checkpoint over, also after an error. */
int gt_network_of(
    struct gt_network **out, struct gt_ckpt *ckpt, const char *path, struct gt_err *err);

void gt_network_close(struct gt_network *n); /* NULL is fine */

/* Return the largest probability of the network's dropouts; 0: nothing is random. */
double gt_network_dropout(const struct gt_network *n);

/* Return whether the module was exported in eval mode: batch norms or dropouts say so. */
bool gt_network_was_evaluating(const struct gt_network *n);

/* Return the number of batch norms that ONNX's exporter has folded into convolutions. */
int gt_network_folded_norms(const struct gt_network *n);

/* Return the function whose result the network returns, such as "linear.default"; NULL: none. */
const char *gt_network_last_function(const struct gt_network *n);

/* Return whether one of the tensors that the network returns is its loss (outputs.c). */
bool gt_network_computes_loss(const struct gt_network *n);

/* Return the name of the file, without its folder. */
const char *gt_network_file(const struct gt_network *n);

/* Return whether two files have the same graph; their weights may differ. */
bool gt_network_same(const struct gt_network *a, const struct gt_network *b);

/* Return the second names of tied weights, as gt_model_aliases(). */
const struct gt_model_alias *gt_network_aliases(const struct gt_network *n);

/* Emit the network as the file has it, without faster ops for the patterns in it: for tests. */
void gt_network_keep_patterns(struct gt_network *n);

/* Emit the nodes of a network for a batch x, and return its result, which may have any shape; with
 * the targets of the batch, its loss. `target` NULL: it takes none. `in` describes the samples for
 * messages. `rng` and `train` are as in struct gt_arch. */
struct gt_value *gt_network_emit(struct gt_graph *g, const struct gt_network *n,
    const struct gt_model_input *in, struct gt_value *x, struct gt_value *target,
    struct gt_value *rng, bool train);

/* The architecture of all exported networks: the network is gt_arch_config.network. */
extern const struct gt_arch gt_arch_exported;

#endif
