/* writer.h - inside ckpt: declarations shared by the files that write pickles. */
#ifndef GT_CKPT_PICKLE_WRITER_H
#define GT_CKPT_PICKLE_WRITER_H

#include "lib/ckpt/pickle/pickle.h"

/* The little-endian operand of an opcode. */
void gt_pickle_put_number(struct gt_pickle_writer *w, uint64_t value, size_t width);

/* A value, or its place in the memo if it was written before. */
int gt_pickle_put_node(struct gt_pickle_writer *w, const struct gt_tree *node, struct gt_err *err);

/* The items of a dict or list put into the object at the top of the reader's stack. */
int gt_pickle_put_items(struct gt_pickle_writer *w, const struct gt_tree *seq, struct gt_err *err);

/* An opaque object (pickle/write_opaque.c). */
int gt_pickle_put_opaque(
    struct gt_pickle_writer *w, const struct gt_tree *node, struct gt_err *err);

#endif
