/* names.h - the names that other programs give to the parameters of a model. */
#ifndef GT_MODEL_NAMES_H
#define GT_MODEL_NAMES_H

#include "lib/model/model.h"

/* The programs, in the order of gt_names_words. */
enum gt_names {
	/* chosen by the file's place: Hugging Face's names in one of its folders, otherwise the
	 * model's */
	GT_NAMES_AUTO,
	GT_NAMES_TORCHVISION,
	GT_NAMES_TIMM,
	GT_NAMES_HUGGINGFACE
};

extern const char *const gt_names_words[]; /* ended by NULL */

struct gt_names_table;

/* The table of a program for a model; NULL with err set if the program has no such model
 * (GT_EINVAL). Do not pass GT_NAMES_AUTO. */
const struct gt_names_table *gt_names_find(
    const struct gt_model *m, enum gt_names who, struct gt_err *err);

/* A parameter, or one of the `parts` of equal size that follow each other in its first dimension:
 * query, key and value in one matrix. */
struct gt_names_place {
	char name[256];
	int part, parts; /* part 0 of 1: the whole */
};

/*
 * The model's own name for `theirs`; false if the table has no rule for it. With `without_head` the
 * name is from the network without its head, whose names lack the first word: "h.0.ln_1.weight" for
 * "transformer.h.0.ln_1.weight".
 */
bool gt_names_to_own(struct gt_names_place *out, const struct gt_names_table *t, const char *theirs,
    bool without_head);

/* Their name for part i of `own`, i from 0; false after the last. out->parts is how many there
 * are. */
bool gt_names_to_theirs(
    struct gt_names_place *out, const struct gt_names_table *t, const char *own, int i);

#endif
