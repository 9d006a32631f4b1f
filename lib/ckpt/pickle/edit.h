/* edit.h - inside ckpt: strings of a pickle exchanged, every other byte kept. */
#ifndef GT_CKPT_PICKLE_EDIT_H
#define GT_CKPT_PICKLE_EDIT_H

#include "lib/ckpt/pickle/pickle.h"

/* The string that the opcode at byte `at` puts on the stack becomes `to`. */
struct gt_pickle_change {
	size_t at;
	const char *to; /* UTF-8 */
};

/*
 * Write the pickle [bytes, bytes + size), read into `layout`, with `count` changes, sorted by `at`,
 * no two at one place; *out is yours to free.
 *
 * A string stands where it is first used, and the memo brings it back elsewhere. Where it stands it
 * gets the text wanted there; a later use that wants the same text still takes it from the memo,
 * one that wants another, its old one for instance, gets that written out. So a change of one use
 * is seen at that use alone. Opcodes keep their kind (a short one becomes long where the text asks
 * for it): what a restricted unpickler accepted, it accepts. Frames are measured again.
 *
 * Errors: GT_EINVAL for a change where no string is put; GT_ENOTSUP for one that no opcode of its
 * own puts there; GT_ENOMEM.
 */
int gt_pickle_edit(unsigned char **out, size_t *out_size, const unsigned char *bytes, size_t size,
    const struct gt_pickle_layout *layout, const struct gt_pickle_change *changes, size_t count,
    struct gt_err *err);

#endif
