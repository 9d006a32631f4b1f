/* hugging_face_tables.h - inside model: the tables of Hugging Face's config.json. */
#ifndef GT_MODEL_HUGGING_FACE_TABLES_H
#define GT_MODEL_HUGGING_FACE_TABLES_H

#include <stdbool.h>
#include <stddef.h>

enum { GT_HF_TEXT = 64 /* bytes of a value as text, with a terminating zero */ };

/*
 * A key of config.json, and its setting in gtrain.
 *
 * `words` lists the allowed values of the key, divided by spaces:
 *
 *   WORD         the value of the key and of the setting; strings of JSON are in single quotes
 *   WORD=VALUE   if the key is WORD, the setting is VALUE; "null=" leaves the setting at its
 *                default
 *   WORD=@NAME   if the key is WORD, the setting has the same value as the setting NAME
 *   #            any number
 *
 * When a config.json is written and no setting gives the value, the first word is written.
 */
struct gt_hf_row {
	const char *key;
	/* The setting of the model; NULL: there is none, and the value must be one of the words. */
	const char *setting;
	const char *words;
	const char *initial; /* the value that transformers uses if the key is missing */
};

/* A model_type of transformers, and the architecture of gtrain that is the same network. */
struct gt_hf_family {
	const char *model_type;
	/* Names of transformers' classes that have the same weights, maybe without the head.
	 * Divided by spaces; the first one is written. */
	const char *architectures;
	const char *base; /* the model's name in gtrain; NULL: it is chosen from gt_hf_resnets */
	const struct gt_hf_row *rows;
	/* Keys that need code, not a row: positions and heads of llama (ROPE), or sizes of ResNets
	 * (DEPTHS). */
	enum gt_hf_special { GT_HF_NOTHING, GT_HF_ROPE, GT_HF_DEPTHS } special;
	/* More keys that are accepted: the keys that `special` stands for, and keys that do not
	 * affect results. */
	const char *accepted_keys;
	/* Settings of gtrain that have no key, divided by spaces: NAME may have any value; for
	 * NAME=VALUE, only this value can be written. */
	const char *settings_without_key;
};

/* A ResNet of gtrain (`base`), and the values of its keys in config.json. Lists are JSON text. */
struct gt_hf_resnet {
	const char *base, *layer_type, *depths, *hidden_sizes;
};

enum { GT_HF_FAMILIES = 4, GT_HF_RESNETS = 5 };

extern const struct gt_hf_family gt_hf_families[GT_HF_FAMILIES];
extern const struct gt_hf_resnet gt_hf_resnets[GT_HF_RESNETS]; /* the first is the default */

/* Keys that all families have. The rows end with a row without a key. The keys of
 * gt_hf_common_accepted do not affect results; each string is a list divided by spaces, and NULL
 * ends the array. */
extern const struct gt_hf_row gt_hf_common_rows[];
extern const char *const gt_hf_common_accepted[];

/* Move *list to the next word, and return the word's length; 0 at the end. To go on, first add the
 * length to *list. */
size_t gt_hf_next_word(const char **list);
/* Return whether a word is in a list divided by spaces. */
bool gt_hf_in_list(const char *list, const char *word);

#endif
