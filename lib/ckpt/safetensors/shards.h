/* shards.h - inside ckpt: checkpoints in several files, held together by an index. */
#ifndef GT_CKPT_SAFETENSORS_SHARDS_H
#define GT_CKPT_SAFETENSORS_SHARDS_H

#include "lib/ckpt/ckpt.h"

/*
 * Hugging Face's index of a checkpoint in shards, model.safetensors.index.json or
 * pytorch_model.bin.index.json:
 *
 *   {"metadata": {"total_size": 123}, "weight_map": {"NAME": "model-00001-of-00002.safetensors"}}
 *
 * The shards lie beside it; a file name with a "/" is an error. The shards and weight_map must
 * agree: each tensor is in the shard that weight_map names and in no other. Tensors that it does
 * not list (tied ones) are read too.
 * Source: transformers, docs/source/en/big_models.md, "Sharded checkpoints".
 */

/*
 * Find the file by which a folder's checkpoint is opened: an index or the only file, the first that
 * exists of model.safetensors.index.json, pytorch_model.bin.index.json, another single
 * *.index.json, model.safetensors, pytorch_model.bin. *path is yours to free().
 */
int gt_shards_in_folder(char **path, const char *folder, struct gt_err *err);

#endif
