/* names.h - convert between gtrain's names of a model's parameters and those of other programs. */
#ifndef GT_MODEL_NAMES_H
#define GT_MODEL_NAMES_H

#include "lib/model/model.h"

/* The program whose names a file uses. gt_names_words has the names of these values in the same
 * order. */
enum gt_names {
	/* Choose by the location of the file: Hugging Face's names if it is in a model folder of
	 * Hugging Face, otherwise the model's own names. */
	GT_NAMES_AUTO,
	GT_NAMES_TORCHVISION,
	GT_NAMES_TIMM,
	GT_NAMES_HUGGINGFACE
};

extern const char *const gt_names_words[]; /* ended by NULL */

/* The rules that convert names between a model and a program. */
struct gt_names_table;

/* Return the table of `program` for a model. If the program has no such model, return NULL and
 * set err to GT_EINVAL. `program` must not be GT_NAMES_AUTO. */
const struct gt_names_table *gt_names_find(
    const struct gt_model *m, enum gt_names program, struct gt_err *err);

/* A parameter of the model, or a part of it. A program may divide a parameter of the model into
 * `parts` parameters of equal size, along the first dimension. For example, query, key and value
 * are one matrix in the model, and three parameters in a file. */
struct gt_names_place {
	char name[256];
	/* part: index of the part, from 0 on; parts: number of parts. If the parameter is not
	 * divided, `part` is 0 and `parts` is 1. */
	int part, parts;
};

/*
 * Convert `theirs`, the program's name of a parameter, to the model's own name. Return false if the
 * table has no rule for this name.
 *
 * Some files contain the network without its last layer, the head. In these files, names lack the
 * first word, for example "h.0.ln_1.weight" instead of "transformer.h.0.ln_1.weight". If
 * `without_head` is true, `theirs` is such a name.
 */
bool gt_names_to_own(struct gt_names_place *out, const struct gt_names_table *t, const char *theirs,
    bool without_head);

/* `own` is the model's name of a parameter. Convert it to the program's name of part i of this
 * parameter; the first part is part 0. Set out->parts to the number of parts. Return false if there
 * is no part i. */
bool gt_names_to_theirs(
    struct gt_names_place *out, const struct gt_names_table *t, const char *own, int i);

#endif
