/* opt.h - options as one table: parsing, help, completion and configuration files all read it. */
#ifndef GT_BASE_OPT_H
#define GT_BASE_OPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "lib/base/err.h"
#include "lib/base/mem.h"

/*
 * A command declares its options once, as rows of `struct gt_opt` ended by a row of zeros. Each row
 * says where the value goes in one struct, which may contain a library's struct of options: the
 * rows then write straight into it. From that table come the parser (`--name value`,
 * `--name=value`, `-x value`, grouped letters, `--`), the text of `--help`, the completions, and
 * both directions of config.json.
 */

/* The kind of a value, and the type of the field it is stored in. */
enum gt_opt_type {
	GT_OPT_END = 0,
	GT_OPT_HEADING,  /* not an option: `help` is the title of the options that follow */
	GT_OPT_FLAG,     /* bool: has no value; it is true if the option is given */
	GT_OPT_YESNO,    /* bool: yes or no */
	GT_OPT_INT,      /* int64_t, or int where `max` fits; 0 without a default */
	GT_OPT_DOUBLE,   /* double; 0 without a default */
	GT_OPT_PAIR,     /* double[2]: A,B; needs a default or `given` */
	GT_OPT_SIZE,     /* int64_t bytes; takes K, M, G; 0 without a default */
	GT_OPT_DURATION, /* double seconds; takes s, m, h; 0 without a default */
	GT_OPT_STRING,   /* const char *; NULL without a default */
	GT_OPT_CHOICE,   /* int or an enum: the index in `words`; -1 without a default */
	GT_OPT_LIST      /* struct gt_opt_list: may be given several times */
};

enum gt_opt_complete {
	GT_COMPLETE_NONE,
	GT_COMPLETE_FILE,
	GT_COMPLETE_DIR,
	GT_COMPLETE_WORDS,
	GT_COMPLETE_MODEL,  /* NAME[:key=value,...] */
	GT_COMPLETE_DATA,   /* KIND:PATH[,key=value...] */
	GT_COMPLETE_AUGMENT /* NAME[:key=value...],... */
};

enum {
	GT_OPT_REQUIRED = 1, /* gt_opts_require() fails without it */
	GT_OPT_ONCE = 2,     /* applies to this call only: never in a configuration file */
	GT_OPT_ABOVE = 4,    /* the value must be above min, not equal to it */
	GT_OPT_BELOW = 8,    /* the value must be below max, not equal to it */
	GT_OPT_EMPTY = 16,   /* an empty text is a value */
	GT_OPT_INVERTED = 32 /* the field is the opposite of the flag or yes/no */
};

struct gt_opt {
	const char *name; /* without the dashes */
	char letter;      /* 'q' for -q, or 0 */
	enum gt_opt_type type;
	size_t offset, size; /* offset of the field in the command's struct: GT_OPT_FIELD() */
	const char *metavar; /* name of the value in the help */
	const char *help;    /* one line: lower case, no full stop */
	const char *initial; /* the default, as one would type it; NULL: none */
	/* the value if the option is given without one; NULL: a value is required. With `implied`,
	 * values that are not choices need a '=' */
	const char *implied;
	const char *otherwise; /* the default in words, if `initial` cannot express it */
	/* limits of numbers, inclusive; both 0: no limits; max may be INFINITY */
	double min, max;
	/* Ended by NULL: the choices, or words that completion proposes; with GT_COMPLETE_FILE it
	 * proposes files, too. */
	const char *const *words;
	enum gt_opt_complete complete; /* a choice always completes its words */
	unsigned flags;                /* GT_OPT_... */
	/* an option that cannot be combined with this one; its row names this one, too */
	const char *excludes;
	/* The options, ended by NULL, on whose values the default depends: see
	 * gt_opts_reset_stale(). */
	const char *const *follows;
	/* The bit that says whether the field has a value, for fields in which 0 is also a value.
	 * It is a bit of an `unsigned` at `offset` in the same struct. Code that computes a default
	 * sets the bit, too. bit 0: the field has no such bit. */
	struct {
		size_t offset;
		unsigned bit;
	} given;
};

/* The offset and the size of a member. */
#define GT_OPT_FIELD(type, member) offsetof(type, member), sizeof(((type *)0)->member)

struct gt_opt_list {
	const char *const *items; /* [count] */
	size_t count;
};

/* The source of a value; later sources override earlier ones. */
enum gt_opt_source { GT_OPT_DEFAULT, GT_OPT_CONFIG, GT_OPT_COMMAND_LINE };

/* An option table bound to one command's struct. */
struct gt_opts {
	const struct gt_opt *table;
	void *values;
	unsigned char *source; /* [rows] enum gt_opt_source */
	char **operands;       /* [operand_count], borrowed from argv: words that are not options */
	int operand_count;
	/* [operand_count]: the option directly before the operand, if it can have a value but was
	 * given without one; otherwise NULL. */
	const struct gt_opt **before;
	struct gt_arena arena; /* copies of strings from configuration files; lists */
};

/* Set every field to its default. The table and `values` must outlive `opts`. Release it always. */
int gt_opts_init(
    struct gt_opts *opts, const struct gt_opt *table, void *values, struct gt_err *err);
void gt_opts_release(struct gt_opts *opts);

/*
 * Read a command line; argv[0] is skipped. Strings are borrowed from argv. If an option is given
 * several times, the last value counts; values of a list are collected.
 *
 * Errors: GT_EINVAL, text begins with the option ("--batch: '0' is not a number from 1 to 65536"),
 * the hint names the nearest right word if there is one; GT_ENOMEM. Fields may then be half set.
 */
int gt_opts_parse(struct gt_opts *opts, int argc, char **argv, struct gt_err *err);

/* Check that all options marked GT_OPT_REQUIRED are given on the command line or in the
 * configuration file. */
int gt_opts_require(const struct gt_opts *opts, struct gt_err *err);

/*
 * Check that there are at most `most` operands. Errors: GT_EINVAL. If the first surplus operand
 * follows an option with an optional value, the error is about this value.
 */
int gt_opts_check_operands(struct gt_opts *opts, int most, struct gt_err *err);

/*
 * Reset values of a configuration file whose default depends on an option of the command line: if
 * --lr is given, the file's --min-lr is out of date and becomes its default again. Options in the
 * list `except`, ended by NULL, do not have this effect; NULL: all have it. Errors: GT_EINVAL for a
 * default that is wrong; GT_ENOMEM.
 */
int gt_opts_reset_stale(struct gt_opts *opts, const char *const *except, struct gt_err *err);

/* The source of the value of option `name`, which the table must have. */
enum gt_opt_source gt_opts_source(const struct gt_opts *opts, const char *name);

/* The row called `name` [length], or NULL. Headings have no name. */
const struct gt_opt *gt_opt_find(const struct gt_opt *table, const char *name, size_t length);

/* Whether the option can have a value, and whether it must have one. */
bool gt_opt_takes_value(const struct gt_opt *row);
bool gt_opt_needs_value(const struct gt_opt *row);

/* How the value is completed: the words of a choice; for other types the row's `complete`. */
enum gt_opt_complete gt_opt_completes(const struct gt_opt *row);

/* Write the options as `--help` shows them, at most 80 columns wide, headings in bold if `color`.
 * The stream keeps its own error state. */
void gt_opt_print_help(FILE *stream, const struct gt_opt *table, bool color);

/* Finish a line of help of which `column` columns are written: print `help` and `ending` in the
 * column of texts, wrapped at 80 columns. */
void gt_help_finish_row(FILE *stream, int column, const char *help, const char *ending);

#endif
