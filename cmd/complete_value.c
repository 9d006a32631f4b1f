/* complete_value.c - completion of the value of an option: words, lists, models, data. */
#include <stdio.h>
#include <string.h>

#include "cmd/complete.h"
#include "lib/data/core/data.h"
#include "lib/data/get/sets.h"
#include "lib/model/model.h"

/* Move the item behind the last of the characters `ends` in it. */
static void skip_past(struct gt_completion *c, const char *ends)
{
	for (const char *p = c->item; *p; p++)
		if (strchr(ends, *p))
			c->item = p + 1;
}

/* Return whether `name` and then one of `ends` stand in `list` behind a separator, or at its
 * beginning, before the item. */
static bool is_in_list(
    const struct gt_completion *c, const char *list, const char *name, const char *ends)
{
	size_t length = strlen(name);

	for (const char *p = list; (p = strstr(p, name)) && p < c->item; p++)
		if ((p == list || strchr(":,", p[-1])) && p[length] && strchr(ends, p[length]))
			return true;
	return false;
}

static void complete_list(struct gt_completion *c, const char *const *words)
{
	const char *list = c->item;

	skip_past(c, ",");
	gt_complete_begin(c, GT_COMPLETE_NO_NAMES, false);
	for (size_t i = 0; words[i]; i++)
		if (!is_in_list(c, list, words[i], ","))
			gt_complete_offer(c, words[i], "", "");
}

static void complete_yes_no(const struct gt_completion *c)
{
	gt_complete_begin(c, GT_COMPLETE_NO_NAMES, false);
	gt_complete_offer(c, "yes", "", "");
	gt_complete_offer(c, "no", "", "");
}

static void complete_names(
    const struct gt_completion *c, const struct gt_opt *row, enum gt_complete_names names)
{
	gt_complete_begin(c, names, false);
	for (size_t i = 0; row->words && row->words[i]; i++)
		gt_complete_offer(c, row->words[i], "", "");
}

/* ---- settings: key=value,... behind a name ---- */

/* The choices of a form such as "yes|no"; other forms have none. */
static void offer_choices(const struct gt_completion *c, const char *form)
{
	char choice[64];

	if (!strchr(form, '|'))
		return;
	for (size_t length; *form; form += length + !!form[length]) {
		length = strcspn(form, "|");
		snprintf(choice, sizeof(choice), "%.*s", (int)length, form);
		gt_complete_offer(c, choice, "", "");
	}
}

static bool is_key(const struct gt_setting *setting, const char *key, const char *end)
{
	size_t length = (size_t)(end - key);

	return strlen(setting->key) == length && !memcmp(setting->key, key, length);
}

/* The item is a list of settings; complete the last one: its key, or behind '=' its value. */
static void complete_settings(struct gt_completion *c, const struct gt_setting *settings, int count)
{
	const char *list = c->item, *key, *equals;

	skip_past(c, ":,");
	key = c->item;
	equals = strchr(key, '=');
	if (equals)
		c->item = equals + 1;
	for (int i = 0; i < count; i++) {
		if (!settings[i].key)
			continue;
		if (!equals && !is_in_list(c, list, settings[i].key, "="))
			gt_complete_offer(c, settings[i].key, "=", settings[i].help);
		if (equals && is_key(&settings[i], key, equals))
			offer_choices(c, settings[i].form);
	}
}

/* The tables of data and augmentations end with a row without a help text. */
static void complete_table(struct gt_completion *c, const struct gt_setting *settings)
{
	int count = 0;

	while (settings[count].help)
		count++;
	complete_settings(c, settings, count);
}

/* Copy the name before the first of ":,", and move the item behind it. */
static void take_name(struct gt_completion *c, char *name, size_t size)
{
	size_t length = strcspn(c->item, ":,");

	snprintf(name, size, "%.*s", (int)length, c->item);
	c->item += length + !!c->item[length];
}

/* ---- models, data, augmentations ---- */

enum { MOST_SETTINGS = 32 };

static void complete_model(struct gt_completion *c)
{
	struct gt_setting settings[MOST_SETTINGS];
	char name[64], value[GT_MODEL_VALUE];
	struct gt_err err = GT_ERR_INIT;
	struct gt_model *m;
	int count = 0;

	gt_complete_begin(c, GT_COMPLETE_NO_NAMES, true);
	if (!strpbrk(c->item, ":,")) {
		for (int i = 0; gt_model_at(i); i++)
			gt_complete_offer(c, gt_model_at(i), "", "");
		gt_complete_offer(c, "seq", ":", "");
		return;
	}
	take_name(c, name, sizeof(name));
	if (gt_model_open(&m, name, &err))
		return;
	while (count < MOST_SETTINGS && gt_model_setting(m, count, &settings[count], value))
		count++;
	complete_settings(c, settings, count);
	gt_model_close(m);
}

static const struct gt_data_form *find_form(const char *name)
{
	const struct gt_data_form *form;

	for (int i = 0; (form = gt_data_form(i)); i++)
		if (!strcmp(form->name, name))
			return form;
	return NULL;
}

static void offer_data(const struct gt_completion *c)
{
	const struct gt_data_form *form;

	for (int i = 0; (form = gt_data_form(i)); i++)
		gt_complete_offer(c, form->name, ":", form->summary);
	for (const struct gt_set *set = gt_sets(); set->name; set++)
		if (set->kind)
			gt_complete_offer(c, set->name, "", set->summary);
}

/* KIND:PATH,key=value, or a well-known set with the settings of its kind. */
static void complete_data(struct gt_completion *c)
{
	const struct gt_data_form *form;
	const struct gt_set *set;
	char name[64];

	if (strchr(c->item, ':') && !strchr(c->item, ',')) {
		take_name(c, name, sizeof(name));
		gt_complete_begin(c, GT_COMPLETE_FILES, true);
		return;
	}
	gt_complete_begin(c, GT_COMPLETE_NO_NAMES, true);
	if (!strchr(c->item, ',')) {
		offer_data(c);
		return;
	}
	take_name(c, name, sizeof(name));
	form = find_form(name);
	set = gt_set_find(name);
	if (!form && set && set->kind)
		form = find_form(set->kind);
	if (form)
		complete_table(c, form->settings);
}

/* A list of NAME:key=value:key=value. */
static void complete_augment(struct gt_completion *c)
{
	const struct gt_augment_form *form;
	const char *list = c->item;
	char name[64];

	skip_past(c, ",");
	gt_complete_begin(c, GT_COMPLETE_NO_NAMES, true);
	if (!strchr(c->item, ':')) {
		for (int i = 0; (form = gt_augment_form(i)); i++)
			if (!is_in_list(c, list, form->name, ":,"))
				gt_complete_offer(c, form->name, "", form->summary);
		if (c->item == list)
			gt_complete_offer(c, "none", "", "");
		return;
	}
	take_name(c, name, sizeof(name));
	for (int i = 0; (form = gt_augment_form(i)); i++)
		if (!strcmp(form->name, name))
			complete_table(c, form->settings);
}

void gt_complete_value(struct gt_completion *c, const struct gt_opt *row)
{
	switch (gt_opt_completes(row)) {
	case GT_COMPLETE_MODEL:
		complete_model(c);
		break;
	case GT_COMPLETE_DATA:
		complete_data(c);
		break;
	case GT_COMPLETE_AUGMENT:
		complete_augment(c);
		break;
	case GT_COMPLETE_FILE:
		complete_names(c, row, GT_COMPLETE_FILES);
		break;
	case GT_COMPLETE_DIR:
		complete_names(c, row, GT_COMPLETE_FOLDERS);
		break;
	case GT_COMPLETE_WORDS:
		if (row->type == GT_OPT_CHOICE)
			complete_names(c, row, GT_COMPLETE_NO_NAMES);
		else
			complete_list(c, row->words);
		break;
	case GT_COMPLETE_NONE:
		if (row->type == GT_OPT_FLAG || row->type == GT_OPT_YESNO)
			complete_yes_no(c);
		else
			complete_names(c, row, GT_COMPLETE_NO_NAMES);
		break;
	}
}
