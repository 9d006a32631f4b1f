/* gguf.h - a tokenizer of subwords as metadata of a GGUF file. */
#ifndef GT_DATA_TEXT_GGUF_H
#define GT_DATA_TEXT_GGUF_H

#include <jansson.h>

#include "lib/ckpt/gguf/write.h"
#include "lib/data/core/description.h"

/*
 * Add the tokenizer of a model with `vocab` tokens, which llama.cpp applies: byte-pair encoding of
 * bytes or of characters, and Unigram. NULL, or a vocabulary of characters or bytes: llama.cpp gets
 * ids alone. Append a line to `note` for that, and for what llama.cpp does in another way. The chat
 * template is that of `config` (gt_tokenizer_config_read()), which may be NULL. Errors: GT_ENOTSUP,
 * which name the part that llama.cpp does not apply; GT_ENOMEM.
 */
int gt_tokenizer_to_gguf(struct gt_gguf *g, const struct gt_tokenizer *tok, int vocab,
    const struct gt_data_specials *specials, const json_t *config, struct gt_buf *note,
    struct gt_err *err);

#endif
