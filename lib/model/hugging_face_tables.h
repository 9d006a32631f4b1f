/* hugging_face_tables.h - private: tables of the keys of Hugging Face's config.json. */
#ifndef GT_MODEL_HUGGING_FACE_TABLES_H
#define GT_MODEL_HUGGING_FACE_TABLES_H

#include <stdbool.h>
#include <stddef.h>

enum { GT_HF_TEXT = 64 /* size of a value as text, with a terminating zero */ };

/*
 * A key of config.json, and the setting of a model of gtrain (lib/model/model.h) that corresponds
 * to it.
 *
 * `words` is a list of the allowed values of the key, separated by spaces. Each element has one of
 * these forms:
 *
 *   WORD         a value that the key and the setting share; JSON strings are in single quotes
 *   WORD=VALUE   if the key has the value WORD, the setting has the value VALUE; with "null=",
 *                the value null leaves the setting at its default
 *   WORD=@NAME   if the key has the value WORD, the setting has the value of the setting NAME
 *   #            any number
 *
 * When gtrain writes a config.json, and no setting determines the value of a key, the key gets the
 * first word.
 */
struct gt_hf_row {
	const char *key;
	/* The name of the setting. NULL: there is no setting, but the value must be one of the
	 * words. */
	const char *setting;
	const char *words;
	const char *initial; /* the value that transformers uses if the key is missing */
};

/* A kind of network (model_type) in Hugging Face's library transformers, and the model of gtrain
 * that is the same network. */
struct gt_hf_family {
	const char *model_type;
	/* Names of classes in transformers, separated by spaces. These classes have the weights of
	 * the model, with or without the head (the last layer). gtrain writes the first name. */
	const char *architectures;
	const char *base; /* the model's name in gtrain; NULL: the name is one of gt_hf_resnets */
	const struct gt_hf_row *rows;
	/* The keys that C code handles instead of a row. GT_HF_ROPE: the keys for positions and
	 * heads of llama. GT_HF_DEPTHS: the keys for the sizes of ResNets. */
	enum gt_hf_special { GT_HF_NOTHING, GT_HF_ROPE, GT_HF_DEPTHS } special;
	/* More keys that gtrain accepts: the keys of `special`, and keys that do not affect
	 * results. */
	const char *accepted_keys;
	/* Settings of gtrain that have no key, separated by spaces. A model can only be written as
	 * config.json if each of its settings has a key or is in this list. NAME stands for the
	 * setting with any value, NAME=VALUE for the setting with this value. */
	const char *settings_without_key;
};

/* A ResNet of gtrain (`base` is its name), and the values of its keys in config.json. Lists are
 * JSON text. */
struct gt_hf_resnet {
	const char *base, *layer_type, *depths, *hidden_sizes;
};

enum { GT_HF_FAMILIES = 4, GT_HF_RESNETS = 5 };

extern const struct gt_hf_family gt_hf_families[GT_HF_FAMILIES];
/* The first element has the values that transformers uses if keys are missing. */
extern const struct gt_hf_resnet gt_hf_resnets[GT_HF_RESNETS];

/* Keys that all families have: gt_hf_common_rows has a row for each key with a fixed set of values,
 * and ends with a row without a key. The keys in gt_hf_common_accepted do not affect results. Each
 * string of this array is a list separated by spaces; NULL ends the array. */
extern const struct gt_hf_row gt_hf_common_rows[];
extern const char *const gt_hf_common_accepted[];

/* Move *list past spaces to the next word. Return the length of the word, or 0 at the end of the
 * list. Before the next call, the caller adds this length to *list. */
size_t gt_hf_next_word(const char **list);
/* Return whether a word is in a list separated by spaces. */
bool gt_hf_in_list(const char *list, const char *word);

#endif
