/* hugging_face_tables.h - inside model: the tables of Hugging Face's config.json. */
#ifndef GT_MODEL_HUGGING_FACE_TABLES_H
#define GT_MODEL_HUGGING_FACE_TABLES_H

#include <stdbool.h>
#include <stddef.h>

enum { GT_HF_TEXT = 64 /* bytes of a value as a word */ };

/*
 * A key of config.json. `words` lists the allowed values, separated by spaces. Strings are in
 * single quotes; "#" is any number. WORD=VALUE means that WORD stands for VALUE of the setting;
 * "@heads" is the value of another setting. If no setting determines the value, the first word is
 * written.
 */
struct gt_hf_row {
	const char *key;
	/* setting of the spec; NULL: no setting, so the value must be one of the words */
	const char *setting;
	const char *words;
	const char *initial; /* the value if the key is missing */
};

/* The network in transformers that is the same as an architecture. */
struct gt_hf_family {
	const char *model_type;
	const char *architectures; /* classes whose weights are those of the architecture */
	const char *base;          /* the model in specs; NULL: one of gt_hf_resnets */
	const struct gt_hf_row *rows;
	enum gt_hf_more { GT_HF_NOTHING, GT_HF_ROPE, GT_HF_DEPTHS } more; /* keys without a row */
	const char *free;  /* more keys that change no result */
	const char *given; /* settings that no key has: NAME, or NAME=VALUE, the only one */
};

/* A ResNet by its numbers of blocks. */
struct gt_hf_resnet {
	const char *base, *layer_type, *depths, *hidden_sizes;
};

enum { GT_HF_FAMILIES = 4, GT_HF_RESNETS = 5 };

extern const struct gt_hf_family gt_hf_families[GT_HF_FAMILIES];
extern const struct gt_hf_resnet gt_hf_resnets[GT_HF_RESNETS]; /* the first is the default */

/* Keys that all families have; those that change no result, lists ended by NULL. */
extern const struct gt_hf_row gt_hf_common_rows[];
extern const char *const gt_hf_common_free[];

/* Find the next word of a list. Returns its length; 0 at the end. */
size_t gt_hf_next_word(const char **list);
bool gt_hf_in_list(const char *list, const char *word);

#endif
