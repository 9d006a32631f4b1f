/* inside.h - private: tokens, syntax trees and values of templates. */
#ifndef GT_DATA_JINJA_INSIDE_H
#define GT_DATA_JINJA_INSIDE_H

#include <stdint.h>

#include "lib/base/buf.h"
#include "lib/base/mem.h"
#include "lib/data/jinja/jinja.h"

/* ---- lexer.c ---- */

enum gt_jinja_token_kind {
	GT_JINJA_T_END,
	GT_JINJA_T_DATA,
	GT_JINJA_T_BLOCK, /* "{%", and "%}" */
	GT_JINJA_T_BLOCK_END,
	GT_JINJA_T_PRINT, /* the braces around an expression */
	GT_JINJA_T_PRINT_END,
	GT_JINJA_T_NAME,
	GT_JINJA_T_STRING,
	GT_JINJA_T_INT,
	GT_JINJA_T_REAL,
	GT_JINJA_T_OPERATOR
};

struct gt_jinja_token {
	enum gt_jinja_token_kind kind;
	int line;
	int op; /* an operator: its first character + 256 * its second one, if it has two */
	const char *text; /* data, names and strings: [size], ended by a zero byte */
	size_t size;
	int64_t integer;
	double real;
};

struct gt_jinja_tokens {
	struct gt_jinja_token *tokens; /* [count], the last is GT_JINJA_T_END */
	size_t count, capacity;
};

#define GT_JINJA_OP(a, b) ((a) + 256 * (b))

/* Cut a template into tokens. Texts are in the arena; the caller frees out->tokens, also after an
 * error. */
int gt_jinja_lex(struct gt_jinja_tokens *out, struct gt_arena *arena, const char *source,
    size_t size, struct gt_err *err);

/* ---- values: value.c, text.c, json.c ---- */

enum gt_jinja_kind {
	GT_JINJA_UNDEFINED,
	GT_JINJA_NONE,
	GT_JINJA_BOOL,
	GT_JINJA_INT,
	GT_JINJA_REAL,
	GT_JINJA_STRING,
	GT_JINJA_LIST,
	GT_JINJA_DICT,
	GT_JINJA_NAMESPACE,
	GT_JINJA_LOOP,
	GT_JINJA_FUNCTION
};

struct gt_jinja_list;
struct gt_jinja_dict;
struct gt_jinja_loop;
struct gt_jinja_bound;

struct gt_jinja_value {
	enum gt_jinja_kind kind;
	size_t size; /* bytes of a string */
	union {
		const char *text; /* a string [size]; the name of something undefined, or NULL */
		bool truth;
		int64_t integer;
		double real;
		struct gt_jinja_list *list;
		struct gt_jinja_dict *dict; /* of a dict or a namespace */
		struct gt_jinja_loop *loop;
		struct gt_jinja_bound *bound;
	};
};

struct gt_jinja_list {
	struct gt_jinja_value *items; /* [count] */
	size_t count;
	bool tuple;
};

struct gt_jinja_pair {
	struct gt_jinja_value key; /* a string */
	struct gt_jinja_value value;
};

/* In the order in which keys were added. */
struct gt_jinja_dict {
	struct gt_jinja_pair *pairs; /* [count] */
	size_t count, capacity;
};

struct gt_jinja_loop {
	const struct gt_jinja_list *list;
	size_t index; /* of the item, from 0 on */
};

/* Arguments of a call. */
enum { GT_JINJA_MAX_ARGS = 16 };

struct gt_jinja_args {
	struct gt_jinja_value values[GT_JINJA_MAX_ARGS]; /* [count] */
	const char *names[GT_JINJA_MAX_ARGS];            /* NULL: by position */
	int count;
};

struct gt_jinja_run;

/* Compute a filter, test, function or method of *v, and replace *v by the result. */
typedef int gt_jinja_fn(struct gt_jinja_run *r, struct gt_jinja_value *v,
    const struct gt_jinja_args *args, struct gt_err *err);

/* A row of a table of functions. */
struct gt_jinja_function {
	const char *name;
	const char *parameters; /* names with spaces between them; NULL: any */
	gt_jinja_fn *call;
};

struct gt_jinja_bound {
	const struct gt_jinja_function *function;
	struct gt_jinja_value self;
};

/* A rendering. */
struct gt_jinja_run {
	struct gt_arena arena; /* of all values */
	struct gt_buf *out;    /* where text goes */
	struct gt_jinja_text *result;
	int captures; /* blocks whose text becomes a value */
	struct gt_jinja_frame *frame;
	struct gt_jinja_date date;
	int64_t steps;
	int depth;
	bool located; /* the error has a line */
};

/* Count steps. Errors: GT_ENOTSUP if there are too many. */
int gt_jinja_spend(struct gt_jinja_run *r, size_t steps, struct gt_err *err);

/* Return the steps of reading `size` bytes of a string, and of looking for a key of this size. */
size_t gt_jinja_bytes_cost(size_t size);
size_t gt_jinja_get_cost(const struct gt_jinja_dict *d, size_t size);

/* The name of a kind, for messages. */
const char *gt_jinja_kind_name(const struct gt_jinja_value *v);

struct gt_jinja_value gt_jinja_string(const char *text, size_t size); /* borrowed */
struct gt_jinja_value gt_jinja_bool(bool truth);
struct gt_jinja_value gt_jinja_int(int64_t n);

/* Set *out to a copy of a text, or to a list of `count` undefined items, or to an empty dict. */
int gt_jinja_copy_string(struct gt_jinja_value *out, struct gt_jinja_run *r, const char *text,
    size_t size, struct gt_err *err);
int gt_jinja_new_list(
    struct gt_jinja_value *out, struct gt_jinja_run *r, size_t count, struct gt_err *err);
int gt_jinja_new_dict(struct gt_jinja_value *out, struct gt_jinja_run *r, struct gt_err *err);
/* Move the text of a buffer, which is released, to *out. */
int gt_jinja_take_string(
    struct gt_jinja_value *out, struct gt_jinja_run *r, struct gt_buf *b, struct gt_err *err);

/* Return the value of a key, or NULL. It takes gt_jinja_get_cost(). */
struct gt_jinja_value *gt_jinja_get(const struct gt_jinja_dict *d, const char *key, size_t size);
/* Set the value of a key. */
int gt_jinja_put(struct gt_jinja_dict *d, struct gt_jinja_run *r, struct gt_jinja_value key,
    struct gt_jinja_value value, struct gt_err *err);

bool gt_jinja_is_true(const struct gt_jinja_value *v);
/* Errors: GT_ENOTSUP if the values are nested too deeply, or take too many steps. */
int gt_jinja_equal(bool *out, struct gt_jinja_run *r, const struct gt_jinja_value *a,
    const struct gt_jinja_value *b, struct gt_err *err);
/* Set *out to a number below, equal to or above 0. Errors: GT_EFORMAT for other kinds. */
int gt_jinja_compare(int *out, struct gt_jinja_run *r, const struct gt_jinja_value *a,
    const struct gt_jinja_value *b, struct gt_err *err);
int gt_jinja_contains(bool *out, struct gt_jinja_run *r, const struct gt_jinja_value *container,
    const struct gt_jinja_value *item, struct gt_err *err);
/* Set *out to the items of a list, the keys of a dict, or the characters of a string. */
int gt_jinja_items(struct gt_jinja_list *out, struct gt_jinja_run *r,
    const struct gt_jinja_value *v, struct gt_err *err);
/* Return whether a number is one, and set *out to it. */
bool gt_jinja_number(double *out, const struct gt_jinja_value *v);

/* text.c: append the text of a value, as Python's str(). Loops and functions have none:
 * GT_ENOTSUP. */
int gt_jinja_append(struct gt_buf *b, const struct gt_jinja_value *v, struct gt_err *err);
void gt_jinja_append_real(struct gt_buf *b, double x);
/* Characters of a string; the byte at which character `index` begins. */
size_t gt_jinja_length(const char *text, size_t size);
size_t gt_jinja_offset(const char *text, size_t size, size_t index);
/* Return the bytes of the character at p [left]. */
size_t gt_jinja_step(const char *p, size_t left);
/* Remove white space, or the characters of `set` if it is not NULL, from both ends of *v. */
int gt_jinja_strip(struct gt_jinja_value *v, struct gt_jinja_run *r,
    const struct gt_jinja_value *set, bool left, bool right, struct gt_err *err);

/* json.c: values from JSON and back. */
int gt_jinja_from_json(struct gt_jinja_value *out, struct gt_jinja_run *r, const json_t *json,
    int depth, struct gt_err *err);
gt_jinja_fn gt_jinja_tojson;
#define GT_JINJA_TOJSON_PARAMETERS "ensure_ascii indent separators sort_keys"

/* ---- tables: filters.c, tests.c, methods.c ---- */

/* Return the row of this name, or NULL. */
const struct gt_jinja_function *gt_jinja_filter(const char *name);
const struct gt_jinja_function *gt_jinja_test(const char *name);
/* A method of a string or dict; and a function that every template can call. */
const struct gt_jinja_function *gt_jinja_method(enum gt_jinja_kind kind, const char *name);
const struct gt_jinja_function *gt_jinja_global(const char *name);

/* Return the row of this name in a table [count], or NULL. */
const struct gt_jinja_function *gt_jinja_row(
    const struct gt_jinja_function *rows, size_t count, const char *name);

/* Check the arguments against the row, and call it. */
int gt_jinja_call(struct gt_jinja_run *r, const struct gt_jinja_function *f,
    struct gt_jinja_value *v, const struct gt_jinja_args *args, struct gt_err *err);
/* Return the argument of this position or name, or NULL. */
const struct gt_jinja_value *gt_jinja_arg(
    const struct gt_jinja_args *args, int position, const char *name);
/* Set *out to the argument of this position or name. Errors: GT_EFORMAT if it is no string. */
int gt_jinja_string_arg(struct gt_jinja_value *out, const struct gt_jinja_args *args, int position,
    const char *name, struct gt_err *err);

/* ---- syntax: parse.c, parse_expr.c ---- */

enum gt_jinja_expr_kind {
	GT_JINJA_X_CONST,
	GT_JINJA_X_NAME,
	GT_JINJA_X_ATTRIBUTE, /* a.name */
	GT_JINJA_X_ITEM,      /* a[b] */
	GT_JINJA_X_SLICE,     /* a[b:c:d] */
	GT_JINJA_X_CALL,      /* a(args) */
	GT_JINJA_X_FILTER,    /* a|function(args) */
	GT_JINJA_X_TEST,      /* a is function(args) */
	GT_JINJA_X_NOT,       /* not a */
	GT_JINJA_X_SIGN,      /* op a */
	GT_JINJA_X_AND,
	GT_JINJA_X_OR,
	GT_JINJA_X_MATH, /* a op b, "~" too */
	/* a op args[0], and so on; each item of `args` has its operator as `op` */
	GT_JINJA_X_COMPARE,
	GT_JINJA_X_IF,   /* a if b else c */
	GT_JINJA_X_LIST, /* args */
	GT_JINJA_X_TUPLE,
	GT_JINJA_X_DICT /* args: key, value, key, value */
};

enum { GT_JINJA_IN = 1, GT_JINJA_NOT_IN = 2 }; /* operators that are words */

struct gt_jinja_arg_node {
	const char *name; /* NULL: by position */
	int op;           /* of a comparison */
	struct gt_jinja_expr *value;
	struct gt_jinja_arg_node *next;
};

struct gt_jinja_expr {
	enum gt_jinja_expr_kind kind;
	int line, op;
	const char *name;
	struct gt_jinja_value constant;
	const struct gt_jinja_function *function;
	struct gt_jinja_expr *a, *b, *c, *d;
	struct gt_jinja_arg_node *args;
};

enum gt_jinja_node_kind {
	GT_JINJA_N_TEXT,
	GT_JINJA_N_PRINT,
	GT_JINJA_N_IF,
	GT_JINJA_N_FOR,
	GT_JINJA_N_SET,       /* target = value */
	GT_JINJA_N_SET_BLOCK, /* target = text of the body */
	GT_JINJA_N_BREAK,
	GT_JINJA_N_CONTINUE,
	GT_JINJA_N_GENERATION
};

enum { GT_JINJA_MAX_TARGETS = 8 };

/* Names that get a value, or the items of a value; or an attribute of a namespace. */
struct gt_jinja_target {
	const char *names[GT_JINJA_MAX_TARGETS]; /* [count] */
	int count;
	const char *attribute; /* of names[0]; NULL: none */
};

struct gt_jinja_node {
	enum gt_jinja_node_kind kind;
	int line;
	const char *text; /* [size] */
	size_t size;
	struct gt_jinja_target target;
	struct gt_jinja_expr *value;        /* printed, tested, iterated or set */
	struct gt_jinja_expr *filter;       /* for: items must satisfy it; NULL: all do */
	struct gt_jinja_node *body, *other; /* `other`: else */
	struct gt_jinja_node *next;
};

struct gt_jinja {
	struct gt_arena arena;
	struct gt_jinja_node *nodes;
	bool marks;
};

struct gt_jinja_parser {
	const struct gt_jinja_token *at;
	struct gt_arena *arena;
	struct gt_err *err;
	int depth, loops;
	bool marks;
};

/* Set the error with the line of the present token, and return NULL. */
void *gt_jinja_fail(struct gt_jinja_parser *p, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool gt_jinja_at_op(const struct gt_jinja_parser *p, int op);
bool gt_jinja_at_name(const struct gt_jinja_parser *p, const char *name);
/* Skip an operator or a word if it is the present token. */
bool gt_jinja_skip_op(struct gt_jinja_parser *p, int op);
bool gt_jinja_skip_name(struct gt_jinja_parser *p, const char *name);
/* Parse an expression; without `conditional`, "if" ends it. With `tuple`, commas make a tuple.
 * NULL: an error. */
struct gt_jinja_expr *gt_jinja_parse_expr(struct gt_jinja_parser *p, bool conditional, bool tuple);

/* ---- eval.c ---- */

/* Variables of a block. */
struct gt_jinja_frame {
	struct gt_jinja_dict variables;
	struct gt_jinja_frame *outer;
};

int gt_jinja_eval(struct gt_jinja_value *out, struct gt_jinja_run *r, const struct gt_jinja_expr *x,
    struct gt_err *err);
/* Put the line before the text of an error that has none. Return rc. */
int gt_jinja_locate(struct gt_jinja_run *r, int line, int rc, struct gt_err *err);
/* Replace *v by its item, or else its attribute, with this index or name; undefined if it has
 * neither. */
int gt_jinja_item(struct gt_jinja_value *v, struct gt_jinja_run *r,
    const struct gt_jinja_value *index, struct gt_err *err);

#endif
