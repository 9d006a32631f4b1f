/* hugging_face_tables.h - private: tables of the keys of Hugging Face's config.json. */
#ifndef GT_MODEL_HUGGING_FACE_TABLES_H
#define GT_MODEL_HUGGING_FACE_TABLES_H

#include <stdbool.h>
#include <stddef.h>

enum { GT_HF_TEXT = 64 /* size of a value as text, with a terminating zero */ };

/*
 * A key of config.json, and the setting of gtrain's model that it corresponds to. `words` are the
 * allowed values, separated by spaces; a key without a setting is written as the first one:
 *
 *   WORD         the value of key and setting; JSON strings are in single quotes
 *   WORD=VALUE   WORD in the key means VALUE; null= leaves the setting at its default
 *   WORD=@NAME   WORD in the key means the value of the setting NAME
 *   #            any number
 *   ##           a list of whole numbers; the value of the setting has '-' between them
 */
struct gt_hf_row {
	/* perhaps with other names of it, separated by spaces, which are read, too */
	const char *key;
	const char *setting; /* or NULL: the value must be one of the words */
	const char *words;
	const char *initial; /* value of a missing key in transformers */
};

/* A model_type of transformers, and gtrain's model of the same network. */
struct gt_hf_family {
	const char *model_type;
	/* Classes in transformers with these weights, with or without the head; the first is
	 * written. */
	const char *architectures;
	const char *base; /* gtrain's model; NULL: one of gt_hf_resnets */
	const struct gt_hf_row *rows;
	/* Keys without rows: positions and windows of decoders, or sizes of ResNets. */
	enum gt_hf_special { GT_HF_NOTHING, GT_HF_DECODER, GT_HF_DEPTHS } special;
	const char *accepted_keys; /* other keys: of `special`, or without an effect */
	/* NAME or NAME=VALUE, separated by spaces: other settings of a model that can be
	 * written. */
	const char *settings_without_key;
	/* Decoders: kinds of scaled positions; blocks with a window, unless the file lists them */
	const char *rope_kinds;
	enum gt_hf_windows {
		GT_HF_WINDOWS_ALL,
		GT_HF_WINDOWS_EVERY,     /* all but each Nth; the key sliding_window_pattern is N */
		GT_HF_WINDOWS_BUT_FIRST, /* all but the first and each Nth behind it */
		GT_HF_WINDOWS_FROM,      /* from max_window_layers on */
		GT_HF_WINDOWS_UNROTATED, /* those without rotary positions */
	} windows;
	int window_period; /* EVERY: N of files without the key */
};

/* A ResNet of gtrain, and its values in config.json, lists as JSON. */
struct gt_hf_resnet {
	const char *base, *layer_type, *depths, *hidden_sizes;
};

enum { GT_HF_FAMILIES = 23, GT_HF_RESNETS = 5 };

extern const struct gt_hf_family gt_hf_families[GT_HF_FAMILIES];
/* The first has the values of missing keys. */
extern const struct gt_hf_resnet gt_hf_resnets[GT_HF_RESNETS];

/* hugging_face_rows.c: the keys of each decoder. */
extern const struct gt_hf_row gt_hf_llama_rows[], gt_hf_mistral_rows[], gt_hf_qwen2_rows[],
    gt_hf_qwen3_rows[], gt_hf_gemma2_rows[], gt_hf_gemma3_rows[], gt_hf_phi3_rows[],
    gt_hf_olmo2_rows[], gt_hf_gpt_neox_rows[], gt_hf_smollm3_rows[], gt_hf_modernbert_rows[],
    gt_hf_mixtral_rows[], gt_hf_qwen3_moe_rows[], gt_hf_olmoe_rows[];

/* Keys of all families: rows, ended by one without a key, and NULL-terminated lists of keys,
 * separated by spaces, without an effect. */
extern const struct gt_hf_row gt_hf_common_rows[];
extern const char *const gt_hf_common_accepted[];

/* Skip spaces, and return the length of the word, which the caller skips, or 0 at the end. */
size_t gt_hf_next_word(const char **list);
/* Return whether a word is in a list. */
bool gt_hf_in_list(const char *list, const char *word);

#endif
