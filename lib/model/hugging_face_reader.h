/* hugging_face_reader.h - private: the settings that are read from a config.json. */
#ifndef GT_MODEL_HUGGING_FACE_READER_H
#define GT_MODEL_HUGGING_FACE_READER_H

#include "lib/model/hugging_face.h"
#include "lib/model/hugging_face_tables.h"

enum { GT_HF_SETTINGS = 32 };

struct gt_hf_reader {
	const json_t *config;
	const struct gt_hf_family *family;
	const char *base;
	int count;
	struct {
		const char *key, *setting; /* borrowed */
		char value[GT_HF_TEXT];
	} settings[GT_HF_SETTINGS];
};

/* Write a value in the form of gt_hf_row.words, or "?" if no word can have this value. */
void gt_hf_text_of(char text[GT_HF_TEXT], const json_t *value);

/* Return the value of a setting, or "". */
const char *gt_hf_setting_of(const struct gt_hf_reader *r, const char *setting);

/* Store a setting. If another key has given it, both must agree, unless this one `overrides` it. */
int gt_hf_set(struct gt_hf_reader *r, const char *key, const char *setting, const char *value,
    bool overrides, struct gt_err *err);

/* Remove a setting, if it is there. */
void gt_hf_unset(struct gt_hf_reader *r, const char *setting);

/* ---- hugging_face_decoder.c: keys of decoders that are no plain values ---- */

/* Read positions, windows and the size of heads. */
int gt_hf_read_decoder(struct gt_hf_reader *r, struct gt_err *err);

/* Write them. Returns 0, or GT_ENOMEM. */
int gt_hf_write_decoder(
    json_t *config, const struct gt_hf_family *f, const struct gt_model *m, struct gt_err *err);

#endif
