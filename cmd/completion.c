/* completion.c - completion scripts for bash, zsh and fish, written from the tables of options. */
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/completion_specs.h"
#include "cmd/topics.h"

/* Every option of a command; headings have no name. */
#define FOR_EACH_OPTION(row, cmd)                                                                  \
	for (const struct gt_opt *row = (cmd)->options(); row->type != GT_OPT_END; row++)          \
		if (row->name)

#define FOR_EACH_COMMAND(cmd) for (const struct gt_cmd *cmd = gt_cmd_table(); cmd->name; cmd++)

static void print_words(FILE *f, const char *const *words)
{
	for (size_t i = 0; words[i]; i++)
		fprintf(f, "%s%s", i ? " " : "", words[i]);
}

#define FOR_EACH_GROUP(group)                                                                      \
	for (const struct gt_cmd_group *group = gt_cmd_groups(); group->name; group++)

/* The words that a command line may begin with. */
static void print_first_words(FILE *f)
{
	const char *summary;

	FOR_EACH_COMMAND(cmd)
	{
		const char *word = gt_cmd_first_word(cmd, &summary);

		if (word)
			fprintf(f, "%s ", word);
	}
}

/* Those that may follow a group's. */
static void print_words_of(FILE *f, const struct gt_cmd_group *group)
{
	FOR_EACH_COMMAND(cmd)
	{
		const char *word = gt_cmd_word_in(cmd, group);

		if (word)
			fprintf(f, "%s ", word);
	}
}

static void print_topics(FILE *f)
{
	for (const struct gt_cmd_topic *topic = gt_cmd_topics(); topic->name; topic++)
		fprintf(f, "%s ", topic->name);
}

/* A name with its words joined by `joint`. */
static void print_name(FILE *f, const struct gt_cmd *cmd, const char *joint)
{
	const char *space = strchr(cmd->name, ' ');

	if (space)
		fprintf(f, "%.*s%s%s", (int)(space - cmd->name), cmd->name, joint, space + 1);
	else
		fputs(cmd->name, f);
}

/* `help` is the one command whose operands are commands, or topics. */
static bool takes_command(const struct gt_cmd *cmd)
{
	return cmd->run == gt_cmd_help;
}

/* The operands of all others are files, unless there is a list of them. */
static bool takes_files(const struct gt_cmd *cmd)
{
	return cmd->operands && !takes_command(cmd) && !cmd->word;
}

static void print_operands(FILE *f, const struct gt_cmd *cmd)
{
	for (int i = 0; cmd->word && cmd->word(i); i++)
		fprintf(f, "%s ", cmd->word(i));
}

static const char *const yes_no[] = { "yes", "no", NULL };

static const char *const *value_words(const struct gt_opt *row)
{
	if (row->type == GT_OPT_YESNO)
		return yes_no;
	return gt_opt_completes(row) == GT_COMPLETE_WORDS ? row->words : NULL;
}

/* The list of names that the value of an option begins with; NULL: none. */
static const char *spec_name(const struct gt_opt *row)
{
	static const char *const names[] = { [GT_COMPLETE_MODEL] = "model",
		[GT_COMPLETE_DATA] = "data",
		[GT_COMPLETE_AUGMENT] = "augment" };

	return names[gt_opt_completes(row)];
}

/* ---- bash ---- */

static const char bash_head[] =
    "\n"
    "_gtrain()\n"
    "{\n"
    "\tlocal line=${COMP_LINE:0:COMP_POINT} typed\n"
    "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
    "\tlocal command=${COMP_WORDS[1]} words=\n"
    "\n"
    "\tCOMPREPLY=()\n"
    "\t# bash splits '--name=value' at the '='\n"
    "\tif [[ $cur == = ]]; then\n"
    "\t\tcur=\n"
    "\telif [[ $prev == = ]]; then\n"
    "\t\tprev=${COMP_WORDS[COMP_CWORD - 2]}\n"
    "\tfi\n"
    "\t# a model or data set that is divided has its option further back\n"
    "\ttyped=${line##*[[:space:]]}\n"
    "\tif [[ $typed == --*=* ]]; then\n"
    "\t\tprev=${typed%%=*} typed=${typed#*=}\n"
    "\telif [[ $typed == *[:=]* ]]; then\n"
    "\t\tline=${line%\"$typed\"}\n"
    "\t\tline=${line%\"${line##*[![:space:]]}\"}\n"
    "\t\tprev=${line##*[[:space:]]}\n"
    "\tfi\n"
    "\t((COMP_CWORD == 1)) && command='' prev=''\n";

/* A group's second word is the rest of the command; until it is there, such words are offered. */
static const char bash_group[] = "\tif [[ $command == %s ]]; then\n"
                                 "\t\tcommand+=-${COMP_WORDS[2]}\n"
                                 "\t\t((COMP_CWORD == 2)) && command=%s- prev=''\n"
                                 "\tfi\n";

static const char bash_files[] = "\n"
                                 "\t\tif [[ $cur != -* ]]; then\n"
                                 "\t\t\tcompopt -o filenames\n"
                                 "\t\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
                                 "\t\t\treturn\n"
                                 "\t\tfi\n"
                                 "\t\t";

static const char bash_tail[] = "\t*) return ;;\n"
                                "\tesac\n"
                                "\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
                                "}\n"
                                "\n"
                                "complete -F _gtrain gtrain\n";

static void print_option_names(FILE *f, const struct gt_cmd *cmd)
{
	FOR_EACH_OPTION(row, cmd)
	{
		fprintf(f, "--%s ", row->name);
	}
}

/* The text after `command:--option)`. Where no value need follow, another option may. */
static void print_bash_value(FILE *f, const struct gt_cmd *cmd, const struct gt_opt *row)
{
	const char *const *words = value_words(row);

	if (words) {
		fputs("words='", f);
		print_words(f, words);
		if (!gt_opt_needs_value(row)) {
			fputc(' ', f);
			print_option_names(f, cmd);
		}
		fputs("' ;;\n", f);
	} else if (gt_opt_completes(row) == GT_COMPLETE_NONE && !gt_opt_needs_value(row)) {
		fputs("words='", f);
		print_option_names(f, cmd);
		fputs("' ;;\n", f);
	} else if (spec_name(row)) {
		fprintf(f, "_gtrain_spec %s \"$typed\"; return ;;\n", spec_name(row));
	} else if (gt_opt_completes(row) == GT_COMPLETE_NONE) {
		fputs("return ;;\n", f);
	} else {
		fprintf(f,
		    "\n\t\tcompopt -o filenames\n"
		    "\t\tmapfile -t COMPREPLY < <(compgen -%c",
		    gt_opt_completes(row) == GT_COMPLETE_DIR ? 'd' : 'f');
		if (row->words) {
			fputs(" -W '", f);
			print_words(f, row->words);
			fputc('\'', f);
		}
		fputs(" -- \"$cur\")\n"
		      "\t\treturn\n"
		      "\t\t;;\n",
		    f);
	}
}

static void print_bash_options(FILE *f, const struct gt_cmd *cmd)
{
	fputc('\t', f);
	print_name(f, cmd, "-");
	fputs(":*) ", f);
	if (takes_files(cmd))
		fputs(bash_files, f);
	fputs("words='", f);
	if (takes_command(cmd)) {
		print_first_words(f);
		print_topics(f);
	}
	print_operands(f, cmd);
	print_option_names(f, cmd);
	fputs(takes_files(cmd) ? "'\n\t\t;;\n" : "' ;;\n", f);
}

static void print_bash(FILE *f)
{
	fputs("# bash completion for gtrain, printed by 'gtrain help --completion bash'\n", f);
	gt_cmd_print_spec_functions(f, GT_SHELL_BASH);
	fputs(bash_head, f);
	FOR_EACH_GROUP(group)
	{
		fprintf(f, bash_group, group->name, group->name);
	}
	fputs("\tcase $command:$prev in\n", f);
	FOR_EACH_COMMAND(cmd)
	{
		FOR_EACH_OPTION(row, cmd)
		{
			if (!gt_opt_takes_value(row))
				continue;
			fputc('\t', f);
			print_name(f, cmd, "-");
			fprintf(f, ":--%s) ", row->name);
			print_bash_value(f, cmd, row);
		}
	}
	fputs("\t:) words='", f);
	print_first_words(f);
	fputs("--version --help' ;;\n", f);
	FOR_EACH_GROUP(group)
	{
		fprintf(f, "\t%s-:) words='", group->name);
		print_words_of(f, group);
		fputs("--help' ;;\n", f);
	}
	FOR_EACH_COMMAND(cmd)
	{
		print_bash_options(f, cmd);
	}
	fputs(bash_tail, f);
}

/* ---- zsh ---- */

/* Inside single quotes, with a backslash before characters that _arguments interprets. */
static void print_zsh_text(FILE *f, const char *text)
{
	for (; *text; text++) {
		if (*text == '\'')
			fputs("'\\''", f);
		else
			fprintf(f, "%s%c", strchr("[]:\\", *text) ? "\\" : "", *text);
	}
}

static void print_zsh_value(FILE *f, const struct gt_opt *row)
{
	const char *const *words = value_words(row);

	fputs(gt_opt_needs_value(row) ? ":" : "::", f);
	print_zsh_text(f, row->metavar ? row->metavar : row->name);
	if (words) {
		fputs(":(", f);
		print_words(f, words);
		fputc(')', f);
	} else if (spec_name(row)) {
		fprintf(f, ":_gtrain_%s", spec_name(row));
	} else if (row->words) { /* and files */
		fputs(":{ compadd -- ", f);
		print_words(f, row->words);
		fputs("; _files }", f);
	} else {
		fputs(gt_opt_completes(row) == GT_COMPLETE_FILE  ? ":_files"
		      : gt_opt_completes(row) == GT_COMPLETE_DIR ? ":_files -/"
		                                                 : ": ",
		    f);
	}
}

static void print_zsh_option(FILE *f, const struct gt_opt *row)
{
	const char *equals = gt_opt_takes_value(row) ? "=" : "";

	fputs(" \\\n\t\t\t'", f);
	if (row->letter)
		fprintf(f, "(-%c --%s)'{-%c,--%s%s}'", row->letter, row->name, row->letter,
		    row->name, equals);
	else
		fprintf(f, "%s--%s%s", row->type == GT_OPT_LIST ? "*" : "", row->name, equals);
	fputc('[', f);
	print_zsh_text(f, row->help);
	fputc(']', f);
	if (gt_opt_takes_value(row))
		print_zsh_value(f, row);
	fputc('\'', f);
}

static const char zsh_middle[] = "\t)\n"
                                 "\tif (( CURRENT == 2 )); then\n"
                                 "\t\t_describe -t commands command commands\n"
                                 "\t\tcompadd -- --version --help\n"
                                 "\t\treturn\n"
                                 "\tfi\n"
                                 "\tshift words\n"
                                 "\t(( CURRENT-- ))\n";

/* A group's second word becomes part of the first. */
static void print_zsh_group(FILE *f, const struct gt_cmd_group *group)
{
	fprintf(f, "\tif [[ $words[1] == %s ]]; then\n", group->name);
	fputs("\t\tif (( CURRENT == 2 )); then\n"
	      "\t\t\tcommands=(\n",
	    f);
	FOR_EACH_COMMAND(cmd)
	{
		const char *word = gt_cmd_word_in(cmd, group);

		if (!word)
			continue;
		fprintf(f, "\t\t\t\t'%s:", word);
		print_zsh_text(f, cmd->summary);
		fputs("'\n", f);
	}
	fprintf(f,
	    "\t\t\t)\n"
	    "\t\t\t_describe -t commands command commands\n"
	    "\t\t\treturn\n"
	    "\t\tfi\n"
	    "\t\tshift words\n"
	    "\t\t(( CURRENT-- ))\n"
	    "\t\twords[1]=%s-$words[1]\n"
	    "\tfi\n",
	    group->name);
}

static void print_zsh_command(FILE *f, const struct gt_cmd *cmd)
{
	fputs("\t(", f);
	print_name(f, cmd, "-");
	fputs(")\n\t\t_arguments -s", f);
	FOR_EACH_OPTION(row, cmd)
	{
		print_zsh_option(f, row);
	}
	if (takes_command(cmd)) {
		fputs(" \\\n\t\t\t':command:{ _describe -t commands command commands; compadd -- ",
		    f);
		print_topics(f);
		fputs("}'", f);
	}
	if (takes_files(cmd))
		fputs(" \\\n\t\t\t'*:file:_files'", f);
	if (cmd->word) {
		fputs(" \\\n\t\t\t'*:name:(", f);
		print_operands(f, cmd);
		fputs(")'", f);
	}
	fputs("\n\t\t;;\n", f);
}

static void print_zsh(FILE *f)
{
	const char *name, *summary;

	fputs("#compdef gtrain\n"
	      "# zsh completion for gtrain, printed by 'gtrain help --completion zsh'\n"
	      "\n",
	    f);
	gt_cmd_print_spec_functions(f, GT_SHELL_ZSH);
	fputs("_gtrain() {\n"
	      "\tlocal -a commands=(\n",
	    f);
	FOR_EACH_COMMAND(cmd)
	{
		name = gt_cmd_first_word(cmd, &summary);
		if (!name)
			continue;
		fprintf(f, "\t\t'%s:", name);
		print_zsh_text(f, summary);
		fputs("'\n", f);
	}
	fputs(zsh_middle, f);
	FOR_EACH_GROUP(group)
	{
		print_zsh_group(f, group);
	}
	fputs("\tcase $words[1] in\n", f);
	FOR_EACH_COMMAND(cmd)
	{
		print_zsh_command(f, cmd);
	}
	fputs("\tesac\n}\n\n_gtrain \"$@\"\n", f);
}

/* ---- fish ---- */

static void print_fish_text(FILE *f, const char *text)
{
	fputc('\'', f);
	for (; *text; text++)
		fprintf(f, "%s%c", strchr("'\\", *text) ? "\\" : "", *text);
	fputc('\'', f);
}

static void print_fish_option(FILE *f, const struct gt_cmd *cmd, const struct gt_opt *row)
{
	const char *const *words = value_words(row);

	fprintf(f, "complete -c gtrain -n '__gtrain_command %s' -l %s", cmd->name, row->name);
	if (row->letter)
		fprintf(f, " -s %c", row->letter);
	if (words) {
		fputs(gt_opt_needs_value(row) ? " -x -a '" : " -a '", f);
		print_words(f, words);
		fputc('\'', f);
	} else if (spec_name(row)) {
		fprintf(f, " -x -a '(__gtrain_spec %s)'", spec_name(row));
	} else if (gt_opt_takes_value(row)) {
		if (row->words) { /* and files */
			fputs(" -a '", f);
			print_words(f, row->words);
			fputc('\'', f);
		}
		fputs(gt_opt_completes(row) == GT_COMPLETE_FILE ? " -r -F"
		      : gt_opt_completes(row) == GT_COMPLETE_DIR
		          ? " -x -a '(__fish_complete_directories)'"
		          : " -x",
		    f);
	}
	fputs(" -d ", f);
	print_fish_text(f, row->help);
	fputc('\n', f);
}

static void print_fish_group(FILE *f, const struct gt_cmd_group *group)
{
	FOR_EACH_COMMAND(cmd)
	{
		const char *word = gt_cmd_word_in(cmd, group);

		if (!word)
			continue;
		fprintf(
		    f, "complete -c gtrain -n '__gtrain_group %s' -a %s -d ", group->name, word);
		print_fish_text(f, cmd->summary);
		fputc('\n', f);
	}
}

static void print_fish_command(FILE *f, const struct gt_cmd *cmd)
{
	fputc('\n', f);
	if (takes_command(cmd)) {
		fprintf(f, "complete -c gtrain -n '__gtrain_command %s' -a '", cmd->name);
		print_first_words(f);
		print_topics(f);
		fputs("'\n", f);
	}
	if (takes_files(cmd))
		fprintf(f, "complete -c gtrain -n '__gtrain_command %s' -F\n", cmd->name);
	if (cmd->word) {
		fprintf(f, "complete -c gtrain -n '__gtrain_command %s' -a '", cmd->name);
		print_operands(f, cmd);
		fputs("'\n", f);
	}
	FOR_EACH_OPTION(row, cmd)
	{
		print_fish_option(f, cmd, row);
	}
}

static void print_fish(FILE *f)
{
	const char *name, *summary;

	fputs("# fish completion for gtrain, printed by 'gtrain help --completion fish'\n"
	      "\n"
	      "# Whether the command line begins with these words.\n"
	      "function __gtrain_command\n"
	      "\tset -l words (commandline -opc)\n"
	      "\tset -l last (math (count $argv) + 1)\n"
	      "\ttest (count $words) -ge $last; and test \"$words[2..$last]\" = \"$argv\"\n"
	      "end\n"
	      "\n"
	      "function __gtrain_no_command\n"
	      "\ttest (count (commandline -opc)) -eq 1\n"
	      "end\n"
	      "\n"
	      "function __gtrain_group\n"
	      "\tset -l words (commandline -opc)\n"
	      "\ttest (count $words) -eq 2; and test $words[2] = $argv[1]\n"
	      "end\n"
	      "\n",
	    f);
	gt_cmd_print_spec_functions(f, GT_SHELL_FISH);
	fputs("complete -c gtrain -f\n"
	      "complete -c gtrain -n __gtrain_no_command -l version -d 'print the version'\n"
	      "complete -c gtrain -n __gtrain_no_command -l help -d 'list the commands'\n",
	    f);
	FOR_EACH_COMMAND(cmd)
	{
		name = gt_cmd_first_word(cmd, &summary);
		if (!name)
			continue;
		fprintf(f, "complete -c gtrain -n __gtrain_no_command -a %s -d ", name);
		print_fish_text(f, summary);
		fputc('\n', f);
	}
	FOR_EACH_GROUP(group)
	{
		print_fish_group(f, group);
	}
	FOR_EACH_COMMAND(cmd)
	{
		print_fish_command(f, cmd);
	}
}

void gt_cmd_print_completion(FILE *stream, enum gt_shell shell)
{
	static void (*const print[])(FILE *) = {
		[GT_SHELL_BASH] = print_bash,
		[GT_SHELL_ZSH] = print_zsh,
		[GT_SHELL_FISH] = print_fish,
	};

	print[shell](stream);
}
