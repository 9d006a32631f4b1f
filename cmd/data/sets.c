/* sets.c - names and states of well-known data sets, for the commands about them. */
#include "cmd/data/sets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/suggest.h"

const char *gt_cmd_data_name(int i)
{
	return gt_sets()[i].name;
}

int gt_cmd_data_folder(char **out, const char *to, struct gt_err *err)
{
	size_t length;

	*out = to ? gt_strdup(to, err) : gt_sets_folder();
	if (!*out && to)
		return GT_ENOMEM;
	if (!*out) {
		gt_err_set(err, GT_EIO, "there is no folder for caches: HOME is not set");
		return gt_err_hint(err, "name a folder with {to}");
	}
	length = strlen(*out);
	while (length > 1 && (*out)[length - 1] == '/')
		(*out)[--length] = '\0';
	return 0;
}

static int unknown_set(const char *name, struct gt_err *err)
{
	struct gt_suggest near = { .word = name };

	for (const struct gt_set *set = gt_sets(); set->name; set++)
		gt_suggest_offer(&near, set->name);
	gt_err_set(err, GT_EINVAL, "there is no data set '%s' to fetch", name);
	return near.best ? gt_err_hint(err, "did you mean '%s'?", near.best)
	                 : gt_err_hint(err, "'gtrain data ls' lists the data sets");
}

int gt_cmd_data_find(const struct gt_set ***out, const struct gt_opts *opts, struct gt_err *err)
{
	int rc = 0;

	*out = gt_calloc((size_t)opts->operand_count, sizeof(**out), err);
	if (!*out)
		return GT_ENOMEM;
	for (int i = 0; i < opts->operand_count && !rc; i++) {
		(*out)[i] = gt_set_find(opts->operands[i]);
		if (!(*out)[i])
			rc = unknown_set(opts->operands[i], err);
	}
	return rc;
}

/* ---- lines to type ---- */

/* Write `text` with the set's folder in place of '@'; in data, with "\," for a comma of it. */
static void put_filled(
    FILE *out, const char *text, const struct gt_set *set, const char *folder, bool data)
{
	for (; *text; text++) {
		if (*text != '@') {
			fputc(*text, out);
			continue;
		}
		for (const char *p = folder; *p; p++)
			fprintf(out, "%s%c", data && *p == ',' ? "\\" : "", *p);
		fprintf(out, "/%s", set->name);
	}
}

/* The text that a stream of open_memstream() has collected. */
static char *collected(FILE *out, char **text, struct gt_err *err)
{
	if (!out || fclose(out)) {
		free(*text);
		gt_err_set(err, GT_ENOMEM, "out of memory: a command line");
		return NULL;
	}
	return *text;
}

static char *fill_set_text(
    const char *text, const struct gt_set *set, const char *folder, bool data, struct gt_err *err)
{
	char *filled = NULL;
	size_t size;
	FILE *out = open_memstream(&filled, &size);

	if (out)
		put_filled(out, text, set, folder, data);
	return collected(out, &filled, err);
}

char *gt_cmd_data_spec(
    const struct gt_set *set, const char *folder, const char *to, struct gt_err *err)
{
	return set->kind && !to ? gt_strdup(set->name, err)
	                        : fill_set_text(set->data, set, folder, true, err);
}

/* A word of a command line; in single quotes unless a shell takes it as it is. */
static void put_word(FILE *out, const char *option, const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	                            "0123456789_-+=:,./@%";

	fprintf(out, " %s ", option);
	if (*word && !word[strspn(word, plain)]) {
		fputs(word, out);
		return;
	}
	fputc('\'', out);
	for (; *word; word++)
		fputs(*word == '\'' ? "'\\''" : (const char[]){ *word, '\0' }, out);
	fputc('\'', out);
}

char *gt_cmd_data_command(
    const struct gt_set *set, const char *folder, const char *to, struct gt_err *err)
{
	char *data = gt_cmd_data_spec(set, folder, to, err), *text = NULL;
	char *model = data ? fill_set_text(set->model, set, folder, false, err) : NULL;
	char *weights =
	    model ? fill_set_text(set->weights ? set->weights : "", set, folder, false, err) : NULL;
	size_t size;
	FILE *out = weights ? open_memstream(&text, &size) : NULL;

	if (out) {
		fputs("gtrain train", out);
		put_word(out, "--model", model);
		if (*weights)
			put_word(out, "--init-from", weights);
		put_word(out, "--data", data);
	}
	free(weights);
	free(model);
	free(data);
	return collected(out, &text, err);
}
