/* sample.h - the form of a sample: the input of a model and its target. */
#ifndef GT_BASE_SAMPLE_H
#define GT_BASE_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gt_sample_kind {
	GT_SAMPLE_IMAGE,  /* input: uint8 [height, width, channels] */
	GT_SAMPLE_VECTOR, /* input: float32 [features] */
	/* input: int32 [block], [2, block] if packed; target: int32 [block], the next tokens */
	GT_SAMPLE_TOKENS
};

/* The target of a sample. Of tokens, each has a class: the next token. */
enum gt_sample_target {
	GT_SAMPLE_CLASS,  /* int32 */
	GT_SAMPLE_NUMBER, /* float32 */
	GT_SAMPLE_LABELS  /* float32 [classes]: 1 for each label that holds, 0 for the others */
};

enum { GT_MAX_CHANNELS = 4 };

/*
 * A network of the user's own may take several inputs, such as the columns of a table and the id of
 * a city. Each of them is a field of a sample. The fields lie one after another in a sample's
 * bytes, and each begins at a multiple of 4 bytes:
 *
 *   numbers float32 [3], city int64 [], scan uint8 [5, 5, 1]    0: numbers   12: city   16: scan
 */
enum gt_field_type {
	GT_FIELD_FLOAT, /* float32 */
	GT_FIELD_INT,   /* int32; of the network, int64 or int32 */
	GT_FIELD_BOOL,  /* float32, 0 or 1; of the network, bool */
	GT_FIELD_PIXELS /* uint8: an image in the form of its samples, normalized by the network */
};

enum { GT_MAX_FIELDS = 16, GT_FIELD_NAME = 64, GT_FIELD_DIMS = 8 };

struct gt_sample_field {
	char name[GT_FIELD_NAME]; /* of the network's input */
	enum gt_field_type type;
	int ndim, shape[GT_FIELD_DIMS]; /* without the dimension of the samples */
	/* Bit i: a network takes any size along dimension i, and shape[i] is an example. 0 for
	 * data. */
	unsigned open;
};

/* How data sets and models describe their samples. Members of other kinds are 0. */
struct gt_sample_form {
	enum gt_sample_kind kind;
	int height, width, channels; /* images */
	int features;                /* vectors: numbers per sample */
	int block;                   /* tokens per sample */
	/* tokens: a sample has several documents, one behind the other. Behind the tokens in its
	 * input are their places in their documents: 0, 1, 2, 0, 1, ... */
	bool packed;
	/* tokens: a sample has two texts of `block` tokens, of which the first is the better one.
	 * input: int32 [2 * block + 1], where the last word has the bits of a float32, the
	 * reference (lib/train/reference.h); target: int32 [2 * block] */
	bool paired;
	/* tokens: some are hidden, and the targets are these, in their own places */
	bool masks;
	/* number of classes or labels, or size of the vocabulary; 1 for a number */
	int classes;
	enum gt_sample_target target;
	/* 0: the input is the first field alone, in the form that its kind has above. Else `kind`
	 * is that of the first field, and `features` counts the values of all fields unless that is
	 * an image. */
	int field_count;
	struct gt_sample_field fields[GT_MAX_FIELDS];
	/* Images: pixels are normalized as (pixel / 255 - mean) / std. */
	float mean[GT_MAX_CHANNELS], std[GT_MAX_CHANNELS];
};

/* The meaning of a further input with a name that the libraries of transformers use. Its values
 * follow from the length of a text, so data need not have them. */
enum gt_field_meaning {
	GT_FIELD_DATA,      /* another name: the data give the values */
	GT_FIELD_MASK,      /* attention_mask: 1 for a token, 0 for padding */
	GT_FIELD_POSITIONS, /* position_ids: 0, 1, ... */
	GT_FIELD_TYPES      /* token_type_ids: 0 */
};

enum gt_field_meaning gt_field_meaning(const struct gt_sample_field *field);

/* Return the number of a field's values, and its bytes in a sample. A field is small enough if its
 * values are at most GT_FIELD_VALUES. */
enum { GT_FIELD_VALUES = 1 << 26 };
int64_t gt_field_values(const struct gt_sample_field *field);
size_t gt_field_bytes(const struct gt_sample_field *field);

/* Return the place of field i in a sample; of field_count, the bytes of a sample. */
size_t gt_sample_field_at(const struct gt_sample_form *form, int i);

/* Return the index of a field by its name; -1: there is none. */
int gt_sample_field_find(const struct gt_sample_form *form, const char *name);

/* Tokens: return the int32 words of a sample's input and of its target. */
size_t gt_sample_input_words(const struct gt_sample_form *form);
size_t gt_sample_target_words(const struct gt_sample_form *form);

/* Return whether a model, whose form this is, takes its inputs from data as fields: it takes
 * several, or one of whole numbers or truth values. */
bool gt_sample_has_fields(const struct gt_sample_form *form);

/* Return whether all inputs of a model follow from a text of tokens. */
bool gt_sample_is_text(const struct gt_sample_form *form);

/* Write "x float32 [3], ids int64 [16]" to text, and return it; "?" stands for any size. */
enum { GT_FIELDS_TEXT = 320 };
const char *gt_sample_fields_text(char text[GT_FIELDS_TEXT], const struct gt_sample_form *form);

/* Write "[3, 16]" to text, and return it. */
enum { GT_FIELD_SHAPE = 128 };
const char *gt_field_shape_text(char text[GT_FIELD_SHAPE], const struct gt_sample_field *field);

/* Return the name of a field's type in a network: "float32", "int64", "bool" or "uint8". */
const char *gt_field_type_name(enum gt_field_type type);

#endif
