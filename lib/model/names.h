/* names.h - convert between gtrain's names of a model's parameters and those of other programs. */
#ifndef GT_MODEL_NAMES_H
#define GT_MODEL_NAMES_H

#include "lib/model/model.h"

/* The program whose names a file uses, in the order of gt_names_words. */
enum gt_names {
	GT_NAMES_AUTO, /* Hugging Face's in its model folders, else the model's own names */
	GT_NAMES_TORCHVISION,
	GT_NAMES_TIMM,
	GT_NAMES_HUGGINGFACE
};

extern const char *const gt_names_words[]; /* ended by NULL */

struct gt_names_table;

/* Return the rules for a model, or NULL with GT_EINVAL if the program (not GT_NAMES_AUTO) lacks
 * it. */
const struct gt_names_table *gt_names_find(
    const struct gt_model *m, enum gt_names program, struct gt_err *err);

/* A parameter of the model, or one of equal parts along the first dimension: query, key and value
 * are one matrix in a model, and may be three parameters in a file. A stack of matrices [E, rows,
 * columns] consists of E matrices, or of E times `parts` parts of their rows. */
struct gt_names_place {
	char name[256];
	int part, parts; /* 0, 1: not divided */
	/* `parts` are those of one matrix of a stack; `part` counts those of all matrices */
	bool stacked;
};

/* Convert the program's name to the model's. Returns false if no rule fits. `without_head`: the
 * file lacks the last layer, and names lack their first word ("h.0.ln_1.weight" without
 * "transformer."). */
bool gt_names_to_own(struct gt_names_place *out, const struct gt_names_table *t, const char *theirs,
    bool without_head);

/* Convert the model's name to the program's name of part i, and set out->parts. Returns false if
 * there is no part i; for a stack, whose size is not known here, there always is. */
bool gt_names_to_theirs(
    struct gt_names_place *out, const struct gt_names_table *t, const char *own, int i);

#endif
