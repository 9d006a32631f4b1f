/* completion_specs.c - completion of NAME[:key=value,...], KIND:PATH[,key=value...] and lists. */
#include <string.h>

#include "cmd/completion_specs.h"
#include "lib/base/err.h"
#include "lib/data/data.h"
#include "lib/data/get/sets.h"
#include "lib/model/model.h"

/* A list of words and the branch of a shell's case statement in which it stands. */
struct branch {
	const char *open, *close;
};

static void print_keys(FILE *f, const struct branch *b, const char *list, const char *name,
    const struct gt_setting *settings, size_t count)
{
	if (!count || !settings->key)
		return;
	fprintf(f, b->open, list, ":", name);
	for (size_t i = 0; i < count; i++)
		fprintf(f, "%s= ", settings[i].key);
	fputs(b->close, f);
	for (size_t i = 0; i < count; i++) {
		char key[64];

		if (!strchr(settings[i].form, '|'))
			continue;
		snprintf(key, sizeof(key), "%s:%s", name, settings[i].key);
		fprintf(f, b->open, list, ":", key);
		for (const char *c = settings[i].form; *c; c++)
			fputc(*c == '|' ? ' ' : *c, f);
		fputs(b->close, f);
	}
}

enum { MOST_SETTINGS = 32 };

static void print_model_branches(FILE *f, const struct branch *b)
{
	fprintf(f, b->open, "model", "", "");
	for (int i = 0; gt_model_at(i); i++)
		fprintf(f, "%s ", gt_model_at(i));
	fputs(b->close, f);
	for (int i = 0; gt_model_at(i); i++) {
		struct gt_setting settings[MOST_SETTINGS];
		char value[GT_MODEL_VALUE];
		struct gt_err err = GT_ERR_INIT;
		struct gt_model *m;
		int count = 0;

		if (gt_model_open(&m, gt_model_at(i), &err))
			continue;
		while (count < MOST_SETTINGS && gt_model_setting(m, count, &settings[count], value))
			count++;
		print_keys(f, b, "model", gt_model_at(i), settings, (size_t)count);
		gt_model_close(m);
	}
}

static size_t count_settings(const struct gt_setting *settings)
{
	size_t count = 0;

	while (settings[count].help)
		count++;
	return count;
}

/* Well-known sets take the settings of their kind; where they have its name, too, these are
 * there. */
static void print_set_branches(FILE *f, const struct branch *b)
{
	const struct gt_data_form *form;

	for (const struct gt_set *set = gt_sets(); set->name; set++)
		for (int i = 0; set->kind && (form = gt_data_form(i)); i++)
			if (!strcmp(form->name, set->kind) && strcmp(form->name, set->name))
				print_keys(f, b, "data", set->name, form->settings,
				    count_settings(form->settings));
}

static void print_data_branches(FILE *f, const struct branch *b)
{
	const struct gt_data_form *form;

	fprintf(f, b->open, "data", "", "");
	for (int i = 0; (form = gt_data_form(i)); i++)
		fprintf(f, "%s: ", form->name);
	for (const struct gt_set *set = gt_sets(); set->name; set++)
		if (set->kind)
			fprintf(f, "%s ", set->name);
	fputs(b->close, f);
	for (int i = 0; (form = gt_data_form(i)); i++)
		print_keys(
		    f, b, "data", form->name, form->settings, count_settings(form->settings));
	print_set_branches(f, b);
}

static void print_augment_branches(FILE *f, const struct branch *b)
{
	const struct gt_augment_form *form;

	fprintf(f, b->open, "augment", "", "");
	for (int i = 0; (form = gt_augment_form(i)); i++)
		fprintf(f, "%s ", form->name);
	fputs("none ", f);
	fputs(b->close, f);
	for (int i = 0; (form = gt_augment_form(i)); i++)
		print_keys(
		    f, b, "augment", form->name, form->settings, count_settings(form->settings));
}

static void print_branches(FILE *f, const struct branch *b)
{
	print_model_branches(f, b);
	print_data_branches(f, b);
	print_augment_branches(f, b);
}

/* ---- bash ---- */

static const char bash_spec[] =
    "\n"
    "# Complete a model, a data set or a list of augmentations. bash divides words\n"
    "# at ':' and '=': it replaces the text behind the last of them.\n"
    "_gtrain_spec()\n"
    "{\n"
    "\tlocal list=$1 typed=$2 breaks='' name item rest words\n"
    "\n"
    "\t[[ $COMP_WORDBREAKS == *:* ]] && breaks+=:\n"
    "\t[[ $COMP_WORDBREAKS == *=* ]] && breaks+='='\n"
    "\trest=$typed\n"
    "\t[[ $breaks ]] && rest=${typed##*[\"$breaks\"]}\n"
    "\t[[ $list == augment ]] && typed=${typed##*,}\n"
    "\tname=${typed%%[:,]*} item=${typed##*[:,]}\n"
    "\tcompopt -o nospace 2>/dev/null\n"
    "\tif [[ $typed != *[:,]* ]]; then\n"
    "\t\twords=$(_gtrain_words \"$list\")\n"
    "\telif [[ $list == data && $typed != *,* ]]; then\n"
    "\t\tcompopt -o filenames 2>/dev/null\n"
    "\t\tmapfile -t COMPREPLY < <(compgen -P \"${rest%\"$item\"}\" -f -- \"$item\")\n"
    "\t\treturn\n"
    "\telif [[ $item == *=* ]]; then\n"
    "\t\twords=$(_gtrain_words \"$list:$name:${item%%=*}\")\n"
    "\t\titem=${item#*=}\n"
    "\telse\n"
    "\t\twords=$(_gtrain_words \"$list:$name\")\n"
    "\tfi\n"
    "\tmapfile -t COMPREPLY < <(compgen -P \"${rest%\"$item\"}\" -W \"$words\" -- \"$item\")\n"
    "}\n";

static void print_bash(FILE *f)
{
	static const struct branch branch = { "\t%s%s%s) echo '", "' ;;\n" };

	fputs("\n"
	      "# The words that may follow: names, settings of one, values of a setting.\n"
	      "_gtrain_words()\n"
	      "{\n"
	      "\tcase $1 in\n",
	    f);
	print_branches(f, &branch);
	fputs("\tesac\n}\n", f);
	fputs(bash_spec, f);
}

/* ---- zsh ---- */

static const char zsh_spec[] = "# Complete a model, a data set or a list of augmentations.\n"
                               "_gtrain_spec() {\n"
                               "\tlocal list=$1 name key\n"
                               "\t[[ $list == augment ]] && compset -P '*,'\n"
                               "\tname=${PREFIX%%[:,]*}\n"
                               "\tif [[ $PREFIX != *[:,]* ]]; then\n"
                               "\t\tcompadd -S '' -- ${=$(_gtrain_words $list)}\n"
                               "\telif [[ $list == data && $PREFIX != *,* ]]; then\n"
                               "\t\tcompset -P '*:'\n"
                               "\t\t_files -S ''\n"
                               "\telse\n"
                               "\t\tcompset -P '*[:,]'\n"
                               "\t\tif [[ $PREFIX == *=* ]]; then\n"
                               "\t\t\tkey=${PREFIX%%=*}\n"
                               "\t\t\tcompset -P '*='\n"
                               "\t\t\tname+=:$key\n"
                               "\t\tfi\n"
                               "\t\tcompadd -S '' -- ${=$(_gtrain_words $list:$name)}\n"
                               "\tfi\n"
                               "}\n"
                               "_gtrain_model() { _gtrain_spec model }\n"
                               "_gtrain_data() { _gtrain_spec data }\n"
                               "_gtrain_augment() { _gtrain_spec augment }\n"
                               "\n";

static void print_zsh(FILE *f)
{
	static const struct branch branch = { "\t(%s%s%s) echo '", "' ;;\n" };

	fputs("# The words that may follow: names, settings of one, values of a setting.\n"
	      "_gtrain_words() {\n"
	      "\tcase $1 in\n",
	    f);
	print_branches(f, &branch);
	fputs("\tesac\n}\n\n", f);
	fputs(zsh_spec, f);
}

/* ---- fish ---- */

static const char fish_spec[] =
    "# Complete a model, a data set or a list of augmentations.\n"
    "function __gtrain_spec\n"
    "\tset -l typed (string replace -r -- '^--[a-z-]+=' '' (commandline -ct))\n"
    "\tset -l list $argv[1]\n"
    "\tset -l front (string replace -r -- '[^:,]*$' '' \"$typed\")\n"
    "\ttest $list = augment; and set typed (string replace -r -- '.*,' '' \"$typed\")\n"
    "\tif not string match -q -r -- '[:,]' \"$typed\"\n"
    "\t\tstring replace -r -- '^' \"$front\" (__gtrain_words $list)\n"
    "\t\treturn\n"
    "\tend\n"
    "\tset -l name (string replace -r -- '[:,].*' '' $typed)\n"
    "\tset -l item (string replace -r -- '.*[:,]' '' $typed)\n"
    "\tif test $list = data; and not string match -q -- '*,*' $typed\n"
    "\t\tstring replace -r -- '^' $front (__fish_complete_path \"$item\")\n"
    "\telse if string match -q -- '*=*' $item\n"
    "\t\tset -l key (string replace -r -- '=.*' '' $item)\n"
    "\t\tstring replace -r -- '^' \"$front$key=\" (__gtrain_words $list:$name:$key)\n"
    "\telse\n"
    "\t\tstring replace -r -- '^' $front (__gtrain_words $list:$name)\n"
    "\tend\n"
    "end\n"
    "\n";

static void print_fish(FILE *f)
{
	static const struct branch branch = { "\t\tcase %s%s%s\n\t\t\tstring split -n ' ' '",
		"'\n" };

	fputs("# The words that may follow: names, settings of one, values of a setting.\n"
	      "function __gtrain_words\n"
	      "\tswitch $argv[1]\n",
	    f);
	print_branches(f, &branch);
	fputs("\tend\nend\n\n", f);
	fputs(fish_spec, f);
}

void gt_cmd_print_spec_functions(FILE *f, enum gt_shell shell)
{
	static void (*const print[])(FILE *) = {
		[GT_SHELL_BASH] = print_bash,
		[GT_SHELL_ZSH] = print_zsh,
		[GT_SHELL_FISH] = print_fish,
	};

	print[shell](f);
}
