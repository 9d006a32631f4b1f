/* opt.h - tables of options, for parsing, help, completion and configuration files. */
#ifndef GT_BASE_OPT_H
#define GT_BASE_OPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "lib/base/err.h"
#include "lib/base/mem.h"

/*
 * An option table is an array of `struct gt_opt`, one row for each option, ended by a row of zeros.
 * A command declares its options once, in its table. Each row names the field of the command's
 * struct where the value is stored. The command's struct may contain structs of the library, so
 * values can be stored there directly.
 *
 * The table is used
 *
 * - to parse a command line: `--name value`, `--name=value`, `-x value`, several letters as in
 *   `-qv`, and `--`, which ends the options;
 * - to print the text of `--help`;
 * - to complete words in a shell;
 * - to read and write config.json (opt_json.h);
 * - to check which options have an effect together (gt_opts_check_partners());
 * - to tell what another value changes when earlier work is resumed.
 */

/* The kind of a value, and the type of the field in which it is stored. */
enum gt_opt_type {
	GT_OPT_END = 0,
	GT_OPT_HEADING, /* not an option: `help` is the title of the options that follow */
	/* bool, true if the option is given; its value, --name=yes or --name=no, may be left out */
	GT_OPT_FLAG,
	GT_OPT_YESNO,    /* bool; the value is "yes" or "no" */
	GT_OPT_INT,      /* int64_t, or int if both limits fit into an int; 0 without a default */
	GT_OPT_DOUBLE,   /* double; 0 without a default */
	GT_OPT_PAIR,     /* double[2]; the value is "A,B"; the row must have `initial` or `given` */
	GT_OPT_SIZE,     /* int64_t, bytes; the units K, M, G are allowed; 0 without a default */
	GT_OPT_DURATION, /* double, seconds; the units s, m, h are allowed; 0 without a default */
	/* const char *; NULL without a default. In a path, "~/" at the beginning is the folder in
	 * the variable HOME. A value is a path if `complete` is FILE, DIR or MODEL. */
	GT_OPT_STRING,
	GT_OPT_CHOICE, /* int or an enum: the index in `words`; -1 without a default */
	GT_OPT_LIST    /* struct gt_opt_list; the option may be given several times */
};

/* The words that a shell proposes as the value of an option. */
enum gt_opt_complete {
	GT_COMPLETE_NONE,
	GT_COMPLETE_FILE,
	GT_COMPLETE_DIR,
	GT_COMPLETE_WORDS,  /* the words in gt_opt.words */
	GT_COMPLETE_MODEL,  /* NAME[:key=value,...] */
	GT_COMPLETE_DATA,   /* KIND:PATH[,key=value...] */
	GT_COMPLETE_AUGMENT /* NAME[:key=value[:key=value...]],... */
};

/* Flags of an option. */
enum {
	GT_OPT_REQUIRED = 1,  /* gt_opts_require() fails if the option is not given */
	GT_OPT_ONCE = 2,      /* not allowed in a configuration file; for example --help */
	GT_OPT_ABOVE = 4,     /* the value must be larger than `min`, not equal to it */
	GT_OPT_BELOW = 8,     /* the value must be less than `max`, not equal to it */
	GT_OPT_EMPTY = 16,    /* the value may be an empty string */
	GT_OPT_INVERTED = 32, /* the field of a FLAG or YESNO option stores the opposite value */
	GT_OPT_RANKS = 64     /* the option has no effect with one rank */
};

/* A condition on another option: it has the value `is`, or another value than `is_not`. If both are
 * NULL, it has another value than its default. Both are words, as they would be typed. */
struct gt_opt_condition {
	const char *option; /* NULL: no condition */
	const char *is, *is_not;
};

/* Whether earlier work can be resumed with another value of an option. */
enum gt_resume_kind {
	GT_RESUME_UNSAVED, /* the value is not saved with the work */
	GT_RESUME_FREE,    /* yes, the new value has an effect */
	GT_RESUME_FIXED,   /* no, this is an error */
	GT_RESUME_UNUSED,  /* yes, but the new value has no effect */
	GT_RESUME_KINDS
};

/* The message about another value: the text of the row, or a number in its place. */
enum gt_resume_says {
	GT_RESUME_SAYS_TEXT,
	GT_RESUME_SAYS_EPOCH, /* the number of steps of an epoch */
	GT_RESUME_SAYS_END    /* the last step */
};

/* The effect of another value of an option when earlier work is resumed. */
struct gt_opt_resume {
	enum gt_resume_kind kind;
	/* GT_RESUME_FREE: the effect of a new value; GT_RESUME_FIXED, GT_RESUME_UNUSED: the reason
	 * why a new value is an error or has no effect. In lower case. */
	const char *text;
	enum gt_resume_says says;
};

/* The number of conditions in a row. */
enum { GT_OPT_CONDITIONS = 2 };

/* A row of an option table. */
struct gt_opt {
	const char *name; /* without the dashes */
	char letter;      /* 'q' for -q, or 0 */
	enum gt_opt_type type;
	/* position and size of the field in bytes: use GT_OPT_FIELD(). Size 0: no field, because
	 * another table with this row stores the value */
	size_t offset, size;
	const char *metavar; /* the word for the value in the help, such as "FILE" */
	const char *help;    /* one line: lower case, no full stop */
	const char *initial; /* the default, as it would be typed; NULL: no default */
	/* The value that the option gets if the user gives its name only. NULL: the user must give
	 * a value. If `implied` is set, the word after --name is its value only if it is one of
	 * `words`. Any other value has to be written as --name=VALUE. */
	const char *implied;
	/* The help shows this text as the default; NULL: the help shows `initial`. If the option is
	 * GT_OPT_REQUIRED, the text is the condition under which the user may leave out the option;
	 * NULL: there is no such condition. */
	const char *otherwise;
	/* Limits of a number. The limits themselves are allowed, except with GT_OPT_ABOVE (min) and
	 * GT_OPT_BELOW (max). Both 0: no limits. `max` may be INFINITY. */
	double min, max;
	/* For a CHOICE option, the allowed words; for other types, words that completion proposes.
	 * Ended by NULL. If `complete` is GT_COMPLETE_FILE, completion proposes both `words` and
	 * file names. */
	const char *const *words;
	enum gt_opt_complete
	    complete;   /* ignored for a CHOICE option, which always completes `words` */
	unsigned flags; /* GT_OPT_REQUIRED and other flags, combined by OR */
	/* The name of an option that cannot be combined with this one. The row of the other option
	 * must have the name of this option in its member `excludes`. */
	const char *excludes;
	/* The option has no effect unless one of the conditions `needs` holds, and no effect if one
	 * of the conditions `without` holds. */
	struct gt_opt_condition needs[GT_OPT_CONDITIONS], without[GT_OPT_CONDITIONS];
	struct gt_opt_resume resume;
	/* The names of options, ended by NULL. The default of this option depends on their values:
	 * see gt_opts_reset_stale(). */
	const char *const *follows;
	/* For fields in which 0 is a valid value: a bit that is set if the field has a value.
	 * The bit is in an `unsigned` at `offset` in the command's struct, and `bit` is its mask.
	 * Code that computes a default for the field must also set this bit. If `bit` is 0, the
	 * field has no such bit. */
	struct {
		size_t offset;
		unsigned bit;
	} given;
};

/* The values of `offset` and `size` for a member of a struct. */
#define GT_OPT_FIELD(type, member) offsetof(type, member), sizeof(((type *)0)->member)

/* The value of a LIST option. */
struct gt_opt_list {
	const char *const *items; /* [count] */
	size_t count;
};

/* The source of a value, in ascending order of priority. */
enum gt_opt_source { GT_OPT_DEFAULT, GT_OPT_CONFIG, GT_OPT_COMMAND_LINE };

/* A row of a table of words that other programs have for an option. The table ends with a row of
 * zeros. A hint about an unknown option comes from the first row that has its name. */
struct gt_opt_synonym {
	const char *words;  /* separated by spaces; case, dashes and underscores do not count */
	const char *option; /* the row counts only in tables with this option */
	const char *value;  /* the value to give; NULL: its form is that of the option */
	const char *note;   /* the whole hint, where the option is not the answer; or NULL */
	const char *beside; /* the table must have this option, too; or NULL */
};

/* An option table together with the struct that holds the values. */
struct gt_opts {
	const struct gt_opt *table;
	void *values;          /* the command's struct */
	unsigned char *source; /* [rows of the table] enum gt_opt_source */
	/* [rows of the table] whether the command line and the configuration file give the same
	 * value */
	bool *agrees;
	char **operands; /* [operand_count] words that are not options, borrowed from argv */
	int operand_count;
	const struct gt_opt_synonym *synonyms; /* for hints; NULL: none. Set after gt_opts_init() */
	/* [operand_count] For each operand: the option directly before it in argv, if this option
	 * has an optional value and the user did not give the value. Otherwise NULL. Used for
	 * error messages. */
	const struct gt_opt **before;
	struct gt_arena arena; /* memory of lists, and of strings from configuration files */
};

/* Set every field to its default. `table` and `values` must stay valid until gt_opts_release().
 * Call gt_opts_release() also after an error. Errors: GT_ENOMEM, GT_EINVAL for a wrong default. */
int gt_opts_init(
    struct gt_opts *opts, const struct gt_opt *table, void *values, struct gt_err *err);
void gt_opts_release(struct gt_opts *opts);

/* Set every field of the struct `values` to its default. The defaults must be valid, and none may
 * be a list or a path that begins with "~/". */
void gt_opt_set_defaults(const struct gt_opt *table, void *values);

/*
 * Parse a command line, and store the values. argv[0] is skipped. Strings are borrowed from argv.
 * If an option is given several times, the last value counts; a LIST option collects all values.
 *
 * Errors: GT_EINVAL; GT_ENOMEM. The text of an error names the option: "--batch: '0' is not a
 * number from 1 to 65536". If a word is similar to a valid one, the hint suggests the valid word.
 * After an error, some fields may have been set.
 */
int gt_opts_parse(struct gt_opts *opts, int argc, char **argv, struct gt_err *err);

/* Check that all options with the flag GT_OPT_REQUIRED are given, on the command line or in a
 * configuration file. Errors: GT_EINVAL. */
int gt_opts_require(const struct gt_opts *opts, struct gt_err *err);

/* Check that each option on the command line has an effect with the values of the other options
 * (gt_opt.needs, gt_opt.without). Errors: GT_EINVAL. */
int gt_opts_check_partners(const struct gt_opts *opts, struct gt_err *err);

/*
 * Check that there are at most `max` operands. Errors: GT_EINVAL. If the first surplus operand
 * follows an option with an optional value, the user may have meant the operand as the value. The
 * text or the hint of the error then mentions this option.
 */
int gt_opts_check_operands(struct gt_opts *opts, int max, struct gt_err *err);

/*
 * Reset values from a configuration file that no longer match the command line. An option is reset
 * to its default if its value comes from the file, and an option in its list `follows` has another
 * value on the command line than in the file. Example: the default of --min-lr depends on --lr. If
 * the command line has another --lr, the value of --min-lr in the file is out of date.
 *
 * `except` is a list of option names, ended by NULL. Options in this list cause no reset. NULL
 * means an empty list. Errors: GT_EINVAL for a wrong default; GT_ENOMEM.
 */
int gt_opts_reset_stale(struct gt_opts *opts, const char *const *except, struct gt_err *err);

/* Return whether the option has another value than its default. */
bool gt_opts_is_changed(const struct gt_opts *opts, const struct gt_opt *row);

/* Return the source of the value of the option `name`. The table must contain this option. */
enum gt_opt_source gt_opts_source(const struct gt_opts *opts, const char *name);

/* Return the row of the option with this name, or NULL. `name` has `length` bytes, and needs no
 * zero byte at the end. */
const struct gt_opt *gt_opt_find(const struct gt_opt *table, const char *name, size_t length);

/* Write the form of the option's value as the help shows it to `out`: " N", " sgd|adam", "=yes|no",
 * "[=SECONDS]"; "" if there is none. `size` is the size of `out` in bytes. */
void gt_opt_form(char *out, size_t size, const struct gt_opt *row);

/* Set the hint of an error about an unknown option: the option with the same letters, the one that
 * opts->synonyms names, or the most similar one, if there is any. `name` has `length` bytes. With
 * `command_line`, the hint has the form of a command line, otherwise that of a configuration file.
 * Return err->code. */
int gt_opt_hint_unknown(const struct gt_opts *opts, const char *name, size_t length,
    bool command_line, struct gt_err *err);

/* Write `words`, a list ended by NULL, to `out`, with ", " between them. `size` is the size of
 * `out` in bytes; a longer text is cut off. */
void gt_opt_join_words(char *out, size_t size, const char *const *words);

/* gt_opt_takes_value() returns whether the option can have a value. gt_opt_needs_value() returns
 * whether it must have one. */
bool gt_opt_takes_value(const struct gt_opt *row);
bool gt_opt_needs_value(const struct gt_opt *row);

/* Return how the value is completed: GT_COMPLETE_WORDS for a CHOICE option, otherwise
 * row->complete. */
enum gt_opt_complete gt_opt_completes(const struct gt_opt *row);

/* Print the options in the form of `--help`, at most 80 columns wide. With `color`, headings are
 * bold. The caller must check the stream for write errors. */
void gt_opt_print_help(FILE *stream, const struct gt_opt *table, bool color);

/* Finish a row of help after its left part, which has `column` columns. Print `help` and `ending`
 * as the right part of the row, wrapped at 80 columns. */
void gt_help_finish_row(FILE *stream, int column, const char *help, const char *ending);

#endif
