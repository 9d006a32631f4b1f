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
 * A pickle writes a string at its first use and fetches it from the memo at later uses. The first
 * use gets its new text. A later use with the same text still fetches it from the memo; a later use
 * with another text (the old one, for instance) gets that text written out. So each change is seen
 * at its own use alone. Opcodes keep their kind, except that a short one becomes long for a long
 * text, so a restricted unpickler that accepted the old pickle accepts the new one. The lengths of
 * frames are computed anew.
 *
 * Example: {"m.w": 1, "x": "m.w"}, whose key "m.w" becomes "w".
 *
 *   before                             after
 *   PROTO 2, EMPTY_DICT, BINPUT 0      the same bytes
 *   MARK                               the same
 *   BINUNICODE "m.w", BINPUT 1         BINUNICODE "w", BINPUT 1    the change, at this opcode
 *   BININT1 1                          the same
 *   BINUNICODE "x", BINPUT 2           the same
 *   BINGET 1                           BINUNICODE "m.w"            a later use keeps its text
 *   SETITEMS, STOP                     the same
 *
 * Errors: GT_EINVAL for a change where no string is put; GT_ENOTSUP for one that no opcode of its
 * own puts there; GT_ENOMEM.
 */
int gt_pickle_edit(unsigned char **out, size_t *out_size, const unsigned char *bytes, size_t size,
    const struct gt_pickle_layout *layout, const struct gt_pickle_change *changes, size_t count,
    struct gt_err *err);

#endif
