/* sample.c - the fields of a sample: the inputs of a network that takes several. */
#include "lib/base/sample.h"

#include <stdio.h>
#include <string.h>

enum { ALIGN = 4 };

enum gt_field_meaning gt_field_meaning(const struct gt_sample_field *field)
{
	static const char *const names[] = { [GT_FIELD_MASK] = "attention_mask",
		[GT_FIELD_POSITIONS] = "position_ids",
		[GT_FIELD_TYPES] = "token_type_ids" };

	for (int i = GT_FIELD_MASK; i <= GT_FIELD_TYPES; i++)
		if (!strcmp(field->name, names[i]))
			return (enum gt_field_meaning)i;
	return GT_FIELD_DATA;
}

int64_t gt_field_values(const struct gt_sample_field *field)
{
	int64_t values = 1;

	for (int i = 0; i < field->ndim && values <= GT_FIELD_VALUES; i++)
		values *= field->shape[i];
	return values;
}

size_t gt_field_bytes(const struct gt_sample_field *field)
{
	size_t each = field->type == GT_FIELD_PIXELS ? 1 : sizeof(int32_t);

	return each * (size_t)gt_field_values(field);
}

size_t gt_sample_field_at(const struct gt_sample_form *form, int i)
{
	size_t at = 0;

	for (int k = 0; k < i; k++)
		at += (gt_field_bytes(&form->fields[k]) + ALIGN - 1) / ALIGN * ALIGN;
	return at;
}

int gt_sample_field_find(const struct gt_sample_form *form, const char *name)
{
	for (int i = 0; i < form->field_count; i++)
		if (!strcmp(form->fields[i].name, name))
			return i;
	return -1;
}

size_t gt_sample_input_words(const struct gt_sample_form *form)
{
	const size_t rows = form->packed || form->paired ? 2 : 1;

	return rows * (size_t)form->block + form->paired;
}

size_t gt_sample_target_words(const struct gt_sample_form *form)
{
	return (form->paired ? 2 : 1) * (size_t)form->block;
}

bool gt_sample_has_fields(const struct gt_sample_form *form)
{
	return form->field_count > 1 ||
	       (form->field_count == 1 && form->fields[0].type != GT_FIELD_FLOAT);
}

bool gt_sample_is_text(const struct gt_sample_form *form)
{
	bool text = form->kind == GT_SAMPLE_TOKENS;

	for (int i = 1; i < form->field_count && text; i++)
		text = gt_field_meaning(&form->fields[i]) != GT_FIELD_DATA;
	return text;
}

const char *gt_field_type_name(enum gt_field_type type)
{
	static const char *const names[] = { [GT_FIELD_FLOAT] = "float32",
		[GT_FIELD_INT] = "int64",
		[GT_FIELD_BOOL] = "bool",
		[GT_FIELD_PIXELS] = "uint8" };

	return names[type];
}

const char *gt_field_shape_text(char text[GT_FIELD_SHAPE], const struct gt_sample_field *field)
{
	size_t used = (size_t)snprintf(text, GT_FIELD_SHAPE, "[");

	for (int i = 0; i < field->ndim; i++) {
		const char *comma = i ? ", " : "";

		if (field->open >> i & 1)
			used += (size_t)snprintf(text + used, GT_FIELD_SHAPE - used, "%s?", comma);
		else
			used += (size_t)snprintf(
			    text + used, GT_FIELD_SHAPE - used, "%s%d", comma, field->shape[i]);
	}
	snprintf(text + used, GT_FIELD_SHAPE - used, "]");
	return text;
}

const char *gt_sample_fields_text(char text[GT_FIELDS_TEXT], const struct gt_sample_form *form)
{
	char shape[GT_FIELD_SHAPE];
	size_t used = 0;

	*text = '\0';
	for (int i = 0; i < form->field_count; i++) {
		const struct gt_sample_field *f = &form->fields[i];
		size_t size = strlen(f->name) + strlen(gt_field_shape_text(shape, f)) + 16;

		if (used + size + 16 > GT_FIELDS_TEXT) {
			snprintf(text + used, GT_FIELDS_TEXT - used, " and %d more",
			    form->field_count - i);
			break;
		}
		used += (size_t)snprintf(text + used, GT_FIELDS_TEXT - used, "%s%s %s %s",
		    i ? ", " : "", f->name, gt_field_type_name(f->type), shape);
	}
	return text;
}
