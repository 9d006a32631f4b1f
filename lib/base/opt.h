/* opt.h - tables of options, for parsing, help, completion and configuration files. */
#ifndef GT_BASE_OPT_H
#define GT_BASE_OPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "lib/base/err.h"
#include "lib/base/mem.h"

/* An option table is an array of `struct gt_opt`, one row per option, ended by a row of zeros. A
 * row names the field of the command's struct that stores the value. Parsing, `--help`, completion,
 * config.json (opt_json.h), the checks of options against each other and of resumed runs all read
 * the table. */

/* The kind of a value, and the type of its field. */
enum gt_opt_type {
	GT_OPT_END = 0,
	GT_OPT_HEADING,  /* no option: `help` is the title of the options that follow */
	GT_OPT_FLAG,     /* bool, true if given; also --name=yes and --name=no */
	GT_OPT_YESNO,    /* bool; the value is "yes" or "no" */
	GT_OPT_INT,      /* int64_t, or int if both limits fit into an int; 0 without a default */
	GT_OPT_DOUBLE,   /* double; 0 without a default */
	GT_OPT_PAIR,     /* double[2]; "A,B"; the row has `initial` or `given` */
	GT_OPT_SIZE,     /* int64_t, bytes; the units K, M, G are allowed; 0 without a default */
	GT_OPT_DURATION, /* double, seconds; the units s, m, h are allowed; 0 without a default */
	/* const char *; NULL without a default. If `complete` is FILE, DIR or MODEL, a path, in
	 * which "~/" at the beginning is the folder in HOME. */
	GT_OPT_STRING,
	GT_OPT_CHOICE, /* int or an enum: the index in `words`; -1 without a default */
	GT_OPT_LIST    /* struct gt_opt_list; the option may be given several times */
};

/* The words that a shell proposes as a value. */
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
	GT_OPT_REQUIRED = 1,
	GT_OPT_ONCE = 2,      /* not for configuration files, such as --help */
	GT_OPT_ABOVE = 4,     /* the value must be larger than `min` */
	GT_OPT_BELOW = 8,     /* the value must be less than `max` */
	GT_OPT_EMPTY = 16,    /* the value may be an empty string */
	GT_OPT_INVERTED = 32, /* the field of a FLAG or YESNO stores the opposite */
	GT_OPT_RANKS = 64,    /* the option has no effect with one rank */
	GT_OPT_LOADS = 128    /* it names a file with values of other options */
};

/* The other option has the value `is`, not `is_not`, or, if both are NULL, not its default. */
struct gt_opt_condition {
	const char *option; /* NULL: no condition */
	const char *is, *is_not;
};

/* What another value does when earlier work is resumed. */
enum gt_resume_kind {
	GT_RESUME_UNSAVED, /* the value is not saved with the work */
	GT_RESUME_FREE,    /* it has an effect */
	GT_RESUME_FIXED,   /* it is an error */
	GT_RESUME_UNUSED,  /* it is ignored */
	GT_RESUME_KINDS
};

/* The message about another value: the row's text, or a number in its place. */
enum gt_resume_says {
	GT_RESUME_SAYS_TEXT,
	GT_RESUME_SAYS_EPOCH, /* the number of steps of an epoch */
	GT_RESUME_SAYS_END    /* the last step */
};

struct gt_opt_resume {
	enum gt_resume_kind kind;
	/* the effect of a new value, or why it is an error or ignored; in lower case */
	const char *text;
	enum gt_resume_says says;
};

enum { GT_OPT_CONDITIONS = 2 };

/* A row of an option table. */
struct gt_opt {
	const char *name; /* without the dashes */
	char letter;      /* 'q' for -q, or 0 */
	enum gt_opt_type type;
	/* GT_OPT_FIELD(). Size 0: another table with this row stores the value. */
	size_t offset, size;
	const char *metavar; /* the word for the value in the help */
	const char *help;    /* one line: lower case, no full stop */
	const char *initial; /* the default, as it would be typed, or NULL */
	/* Value of a name without a value. NULL: a value must be given. If set, the next word is
	 * the value only if it is one of `words`; other values need --name=VALUE. */
	const char *implied;
	/* The default as the help shows it, or NULL for `initial`. GT_OPT_REQUIRED: the condition
	 * under which the option may be left out, or NULL. */
	const char *otherwise;
	double min, max; /* allowed (see GT_OPT_ABOVE, GT_OPT_BELOW); both 0: no limits */
	/* Ended by NULL: the values of a CHOICE; the word for 0 of an INT; or words that completion
	 * proposes, with GT_COMPLETE_FILE besides file names. */
	const char *const *words;
	enum gt_opt_complete complete;
	unsigned flags; /* GT_OPT_REQUIRED and others */
	/* an option that cannot be combined with this one, and excludes it, too */
	const char *excludes;
	/* The option has an effect only if a condition of `needs` holds and none of `without`. */
	struct gt_opt_condition needs[GT_OPT_CONDITIONS], without[GT_OPT_CONDITIONS];
	struct gt_opt_resume resume;
	/* options that its default depends on; ended by NULL (gt_opts_reset_stale()) */
	const char *const *follows;
	/* For fields in which 0 is a value: `bit` of the `unsigned` at `offset` is set if the field
	 * has a value. Code that computes a default sets it, too. 0: no such bit. */
	struct {
		size_t offset;
		unsigned bit;
	} given;
};

/* The values of `offset` and `size`. */
#define GT_OPT_FIELD(type, member) offsetof(type, member), sizeof(((type *)0)->member)

/* The value of a LIST option. */
struct gt_opt_list {
	const char *const *items; /* [count] */
	size_t count;
};

/* Where a value comes from; later ones have priority. */
enum gt_opt_source { GT_OPT_DEFAULT, GT_OPT_CONFIG, GT_OPT_COMMAND_LINE };

/* A row of a table, ended by zeros, of words that other programs have for an option, for hints. */
struct gt_opt_synonym {
	/* separated by spaces; compared by their letters (suggest.h). "*": all values of the
	 * option, a CHOICE, with and without "use-" before them */
	const char *words;
	const char *option; /* the table must have this option */
	const char *value;  /* the value to give, or NULL; for "*": the value that is the word */
	const char *note;   /* the whole hint in place of the option, or NULL */
	const char *beside; /* another option that the table must have, or NULL */
};

/* An option table and its values. */
struct gt_opts {
	const struct gt_opt *table;
	void *values;          /* the command's struct */
	unsigned char *source; /* [rows of the table] enum gt_opt_source */
	bool *agrees;          /* [rows] command line and configuration file give the same value */
	char **operands;       /* [operand_count] words of argv that are not options */
	int operand_count;
	const struct gt_opt_synonym *synonyms; /* or NULL; set after gt_opts_init() */
	/* [operand_count] the option directly before the operand, if it was given without its
	 * optional value, or NULL. For messages. */
	const struct gt_opt **before;
	struct gt_arena arena; /* memory of lists, and of strings from configuration files */
};

/* Set every field to its default. Call gt_opts_release() also after an error. Borrows `table` and
 * `values`. Errors: GT_ENOMEM, GT_EINVAL for a wrong default. */
int gt_opts_init(
    struct gt_opts *opts, const struct gt_opt *table, void *values, struct gt_err *err);
void gt_opts_release(struct gt_opts *opts);

/* Set the fields to their defaults, which must be valid, and no lists or paths with "~/". */
void gt_opt_set_defaults(const struct gt_opt *table, void *values);

/* Parse a command line after argv[0], whose strings are borrowed. The last value counts; a LIST
 * collects all. Errors: GT_EINVAL with the option's name and perhaps a hint, GT_ENOMEM. Some fields
 * may then be set. */
int gt_opts_parse(struct gt_opts *opts, int argc, char **argv, struct gt_err *err);

/* Check that all options with GT_OPT_REQUIRED are given. Errors: GT_EINVAL. */
int gt_opts_require(const struct gt_opts *opts, struct gt_err *err);

/* Check that options on the command line have an effect (gt_opt.needs, without). Errors:
 * GT_EINVAL. */
int gt_opts_check_partners(const struct gt_opts *opts, struct gt_err *err);

/* Check that there are at most `max` operands, else GT_EINVAL. The error mentions an option whose
 * optional value the first surplus operand may be. */
int gt_opts_check_operands(struct gt_opts *opts, int max, struct gt_err *err);

/* Reset values of a configuration file to their defaults if an option that they follow
 * (gt_opt.follows), but not one of `except` (or NULL), has another value on the command line.
 * Example: another --lr resets --min-lr. */
int gt_opts_reset_stale(struct gt_opts *opts, const char *const *except, struct gt_err *err);

/* Return whether the option has another value than its default. */
bool gt_opts_is_changed(const struct gt_opts *opts, const struct gt_opt *row);

/* Return the source of an option's value. The table must have it. */
enum gt_opt_source gt_opts_source(const struct gt_opts *opts, const char *name);

/* Return the row with this name of `length` bytes, or NULL. */
const struct gt_opt *gt_opt_find(const struct gt_opt *table, const char *name, size_t length);

/* Write the form of the value for the help: " N", " sgd|adam", "=yes|no", "[=SECONDS]" or "". */
void gt_opt_form(char *out, size_t size, const struct gt_opt *row);

/* Set the hint about an unknown option: one with the same letters, a synonym, or the most similar
 * one, as on a command line or in a configuration file. Returns err->code. */
int gt_opt_hint_unknown(const struct gt_opts *opts, const char *name, size_t length,
    bool command_line, struct gt_err *err);

/* Write the words with ", " between them. A longer text is cut off. */
void gt_opt_join_words(char *out, size_t size, const char *const *words);

/* Return whether the option can, or must, have a value. */
bool gt_opt_takes_value(const struct gt_opt *row);
bool gt_opt_needs_value(const struct gt_opt *row);

/* Return how the value is completed: row->complete, or GT_COMPLETE_WORDS for a CHOICE. */
enum gt_opt_complete gt_opt_completes(const struct gt_opt *row);

/* Print the options as `--help`, at most 80 columns wide. The caller checks the stream. */
void gt_opt_print_help(FILE *stream, const struct gt_opt *table, bool color);

/* Print the right part of a row of help, after `column` columns, wrapped at 80 columns. */
void gt_help_finish_row(FILE *stream, int column, const char *help, const char *ending);

#endif
