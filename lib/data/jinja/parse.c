/* parse.c - the statements of a template. */
#include <stdlib.h>
#include <string.h>

#include "lib/data/jinja/inside.h"

/* Parse nodes up to one of the words `ends`, ended by NULL, whose block begins at the present token
 * afterwards: behind "{%". Without `ends`, up to the end of the template. */
static bool parse_nodes(
    struct gt_jinja_parser *p, struct gt_jinja_node **out, const char *const *ends);

static const char *const
    end_for[] = { "else", "endfor", NULL },
    *const end_else[] = { "endfor", NULL }, *const end_if[] = { "elif", "else", "endif", NULL },
    *const end_last[] = { "endif", NULL }, *const end_set[] = { "endset", NULL },
    *const end_generation[] = { "endgeneration", NULL };

/* Statements of Jinja that are refused; all others are unknown. */
static const char *const unsupported[] = { "macro", "call", "filter", "with", "raw", "include",
	"import", "from", "extends", "block", "autoescape", "do", "trans", NULL };

static bool has_word(const char *const *words, const char *word)
{
	while (*words && strcmp(*words, word) != 0)
		words++;
	return *words != NULL;
}

static bool end_block(struct gt_jinja_parser *p)
{
	if (p->at->kind != GT_JINJA_T_BLOCK_END) {
		gt_jinja_fail(p, GT_EFORMAT, "expected the end of the tag");
		return false;
	}
	p->at++;
	return true;
}

static struct gt_jinja_node *new_node(struct gt_jinja_parser *p, enum gt_jinja_node_kind kind)
{
	struct gt_jinja_node *n = gt_arena_alloc(p->arena, sizeof(*n), p->err);

	if (n) {
		n->kind = kind;
		n->line = p->at->line;
	}
	return n;
}

static bool parse_value(
    struct gt_jinja_parser *p, struct gt_jinja_expr **out, bool conditional, bool tuple)
{
	*out = gt_jinja_parse_expr(p, conditional, tuple);
	return *out != NULL;
}

/* A name, or names between commas. */
static bool parse_target(struct gt_jinja_parser *p, struct gt_jinja_target *t)
{
	bool parentheses = gt_jinja_skip_op(p, '(');

	do {
		if (p->at->kind != GT_JINJA_T_NAME)
			return gt_jinja_fail(p, GT_EFORMAT, "expected a name to set");
		if (t->count == GT_JINJA_MAX_TARGETS)
			return gt_jinja_fail(
			    p, GT_ENOTSUP, "more than %d names", GT_JINJA_MAX_TARGETS);
		t->names[t->count++] = p->at->text;
		p->at++;
	} while (gt_jinja_skip_op(p, ','));
	if (parentheses && !gt_jinja_skip_op(p, ')'))
		return gt_jinja_fail(p, GT_EFORMAT, "expected ')'");
	return true;
}

/* ---- statements: each begins behind its word ---- */

static bool parse_for(struct gt_jinja_parser *p, struct gt_jinja_node *n)
{
	n->kind = GT_JINJA_N_FOR;
	if (!parse_target(p, &n->target))
		return false;
	if (!gt_jinja_skip_name(p, "in"))
		return gt_jinja_fail(p, GT_EFORMAT, "expected 'in'");
	if (!parse_value(p, &n->value, false, true))
		return false;
	if (gt_jinja_skip_name(p, "if") && !parse_value(p, &n->filter, true, false))
		return false;
	if (gt_jinja_at_name(p, "recursive"))
		return gt_jinja_fail(p, GT_ENOTSUP, "'for ... recursive' is not supported");
	p->loops++;
	if (!end_block(p) || !parse_nodes(p, &n->body, end_for))
		return false;
	p->loops--;
	if (gt_jinja_skip_name(p, "else") &&
	    (!end_block(p) || !parse_nodes(p, &n->other, end_else)))
		return false;
	p->at++;
	return end_block(p);
}

/* "elif" is an "if" in the other branch, with the same end. */
static bool parse_if(struct gt_jinja_parser *p, struct gt_jinja_node *n)
{
	for (;;) {
		n->kind = GT_JINJA_N_IF;
		if (!parse_value(p, &n->value, false, false) || !end_block(p) ||
		    !parse_nodes(p, &n->body, end_if))
			return false;
		if (!gt_jinja_skip_name(p, "elif"))
			break;
		n->other = new_node(p, GT_JINJA_N_IF);
		n = n->other;
		if (!n)
			return false;
	}
	if (gt_jinja_skip_name(p, "else") &&
	    (!end_block(p) || !parse_nodes(p, &n->other, end_last)))
		return false;
	p->at++;
	return end_block(p);
}

static bool parse_set(struct gt_jinja_parser *p, struct gt_jinja_node *n)
{
	n->kind = GT_JINJA_N_SET;
	if (!parse_target(p, &n->target))
		return false;
	if (n->target.count == 1 && gt_jinja_skip_op(p, '.')) {
		if (p->at->kind != GT_JINJA_T_NAME)
			return gt_jinja_fail(p, GT_EFORMAT, "expected a name behind '.'");
		n->target.attribute = p->at->text;
		p->at++;
	}
	if (gt_jinja_skip_op(p, '='))
		return parse_value(p, &n->value, true, true) && end_block(p);
	if (gt_jinja_at_op(p, '|'))
		return gt_jinja_fail(p, GT_ENOTSUP, "a filter of a 'set' block is not supported");
	n->kind = GT_JINJA_N_SET_BLOCK;
	if (n->target.count != 1)
		return gt_jinja_fail(p, GT_EFORMAT, "expected '='");
	if (!end_block(p) || !parse_nodes(p, &n->body, end_set))
		return false;
	p->at++;
	return end_block(p);
}

static bool parse_generation(struct gt_jinja_parser *p, struct gt_jinja_node *n)
{
	int loops = p->loops;

	n->kind = GT_JINJA_N_GENERATION;
	p->marks = true;
	p->loops = 0;
	if (!end_block(p) || !parse_nodes(p, &n->body, end_generation))
		return false;
	p->loops = loops;
	p->at++;
	return end_block(p);
}

static bool parse_jump(struct gt_jinja_parser *p, struct gt_jinja_node *n, const char *word)
{
	n->kind = *word == 'b' ? GT_JINJA_N_BREAK : GT_JINJA_N_CONTINUE;
	if (!p->loops)
		return gt_jinja_fail(p, GT_EFORMAT, "'%s' outside of a loop", word);
	return end_block(p);
}

static bool parse_statement(struct gt_jinja_parser *p, struct gt_jinja_node *n)
{
	const char *word = p->at->kind == GT_JINJA_T_NAME ? p->at->text : "";

	if (gt_jinja_skip_name(p, "for"))
		return parse_for(p, n);
	if (gt_jinja_skip_name(p, "if"))
		return parse_if(p, n);
	if (gt_jinja_skip_name(p, "set"))
		return parse_set(p, n);
	if (gt_jinja_skip_name(p, "generation"))
		return parse_generation(p, n);
	if (gt_jinja_skip_name(p, "break") || gt_jinja_skip_name(p, "continue"))
		return parse_jump(p, n, word);
	if (has_word(unsupported, word))
		return gt_jinja_fail(p, GT_ENOTSUP, "statement '%s' is not supported", word);
	return gt_jinja_fail(p, GT_EFORMAT,
	    *word ? "unknown statement '%.60s'" : "a tag without a statement%s", word);
}

/* ---- nodes ---- */

/* Parse the node at this token. */
static struct gt_jinja_node *parse_node(struct gt_jinja_parser *p)
{
	struct gt_jinja_node *n = new_node(p, GT_JINJA_N_TEXT);

	if (!n)
		return NULL;
	if (p->at->kind == GT_JINJA_T_DATA) {
		n->text = p->at->text;
		n->size = p->at->size;
		p->at++;
		return n;
	}
	if (p->at->kind == GT_JINJA_T_BLOCK) {
		p->at++;
		return parse_statement(p, n) ? n : NULL;
	}
	p->at++;
	n->kind = GT_JINJA_N_PRINT;
	if (!parse_value(p, &n->value, true, true))
		return NULL;
	if (p->at->kind != GT_JINJA_T_PRINT_END)
		return gt_jinja_fail(p, GT_EFORMAT, "expected '}}'");
	p->at++;
	return n;
}

static bool parse_nodes(
    struct gt_jinja_parser *p, struct gt_jinja_node **out, const char *const *ends)
{
	struct gt_jinja_node **link = out;

	if (++p->depth > GT_JINJA_MAX_DEPTH)
		return gt_jinja_fail(p, GT_ENOTSUP, "more than %d nested blocks and expressions",
		    GT_JINJA_MAX_DEPTH);
	while (p->at->kind != GT_JINJA_T_END) {
		if (ends && p->at->kind == GT_JINJA_T_BLOCK && p->at[1].kind == GT_JINJA_T_NAME &&
		    has_word(ends, p->at[1].text)) {
			p->at++;
			p->depth--;
			return true;
		}
		*link = parse_node(p);
		if (!*link)
			return false;
		link = &(*link)->next;
	}
	p->depth--;
	while (ends && ends[1])
		ends++;
	if (ends)
		gt_jinja_fail(p, GT_EFORMAT, "the template ends before '%s'", *ends);
	return !ends;
}

int gt_jinja_parse(struct gt_jinja **out, const char *source, size_t size, struct gt_err *err)
{
	struct gt_jinja_tokens tokens = { 0 };
	struct gt_jinja *t = gt_calloc(1, sizeof(*t), err);
	struct gt_jinja_parser p = { .err = err };
	int rc;

	*out = NULL;
	if (!t)
		return GT_ENOMEM;
	p.arena = &t->arena;
	rc = size > GT_JINJA_MAX_SOURCE
	         ? gt_err_set(err, GT_ENOTSUP, "the template has %zu bytes, more than %d", size,
	               GT_JINJA_MAX_SOURCE)
	         : gt_jinja_lex(&tokens, &t->arena, source, size, err);
	if (!rc) {
		p.at = tokens.tokens;
		rc = parse_nodes(&p, &t->nodes, NULL) ? 0 : err->code;
	}
	t->marks = p.marks;
	free(tokens.tokens);
	if (rc)
		gt_jinja_close(t);
	else
		*out = t;
	return rc;
}

bool gt_jinja_has_marks(const struct gt_jinja *t)
{
	return t->marks;
}

void gt_jinja_close(struct gt_jinja *t)
{
	if (!t)
		return;
	gt_arena_release(&t->arena);
	free(t);
}
