/* verify_pickle.c - the globals that pickles name, also pickles inside strings of pickles. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/base/index.h"
#include "lib/ckpt/npz/npy.h"
#include "lib/ckpt/pickle/pickle.h"
#include "lib/ckpt/tools/verify_steps.h"
#include "lib/ckpt/tree/tree.h"

enum { MAX_NESTING = 4, LEAST_BYTES = 4, STRING_MAX_BYTES = 1 << 20, PROTO = 0x80 };

/* A pickle being looked through, and the strings of it that have been. */
struct scan {
	struct gt_verify *v;
	struct gt_arena arena;
	const char *where;
	int nesting;
	struct gt_index seen; /* the bytes of strings */
	struct gt_err *err;
};

/* Bytes that may be a pickle: in memory, or at byte `at` of a file. */
struct text {
	const unsigned char *bytes;
	size_t size;
	const struct gt_mapping *map;
	uint64_t at;
	unsigned char first; /* byte */
	bool is_one;         /* it is a pickle for sure */
};

static int scan_pickle(struct gt_verify *v, const struct text *text, const char *where, int nesting,
    size_t *used, struct gt_err *err);

/* ---- as data alone ---- */

/*
 * A persistent id names data outside the pickle, which has no globals. ('module', class, ...), as
 * old torch files wrote a class, stands for that class.
 */
static int persistent(void *self, struct gt_tree *id, struct gt_tree **out, struct gt_err *err)
{
	struct scan *s = self;

	if (gt_tree_is_seq(id) && id->seq.count > 1 &&
	    id->seq.items[1].value->kind == GT_TREE_OPAQUE &&
	    gt_tree_is_string(id->seq.items[0].value, "module")) {
		*out = id->seq.items[1].value;
		return 0;
	}
	*out = gt_tree_opaque(&s->arena, "(elsewhere)", err);
	if (*out)
		(*out)->opaque.args = gt_tree_new(&s->arena, GT_TREE_TUPLE, err);
	return *out && (*out)->opaque.args ? 0 : GT_ENOMEM;
}

static int keep_globals(struct scan *s, const struct gt_pickle_globals *globals, struct gt_err *err)
{
	struct gt_verify *v = s->v;

	for (size_t i = 0; i < globals->count; i++) {
		const struct gt_pickle_global *g = &globals->items[i];
		const char *name = gt_arena_strdup(&v->arena, g->name, err);
		enum gt_global_verdict verdict = gt_global_classify(g->name);

		if (!name || gt_grow(&v->globals, v->global_count, &v->global_capacity,
		                 sizeof(*v->globals), err))
			return GT_ENOMEM;
		v->globals[v->global_count++] = (struct gt_verify_global){ .name = name,
			.where = s->where,
			.at = g->at,
			.count = !g->called,
			.called = g->called,
			.allowed = verdict == GT_GLOBAL_ALLOWED,
			.dangerous = verdict == GT_GLOBAL_DANGEROUS };
	}
	return 0;
}

/* ---- strings ---- */

/* Whether these bytes, read as a pickle, would do something: a pickle by its first byte names a
 * global, others call one. */
static int scan_string(struct scan *s, const struct gt_tree *node)
{
	struct text text = { .bytes = (const unsigned char *)node->string.bytes,
		.size = node->string.length };
	size_t used;
	const char *where;

	if (text.size < LEAST_BYTES || s->nesting == MAX_NESTING ||
	    gt_index_find(&s->seen, text.bytes))
		return 0;
	if (!gt_index_add(&s->seen, text.bytes, s->err))
		return GT_ENOMEM;
	where = s->where;
	if (!strstr(where, ", in a string")) {
		struct gt_buf longer = { 0 };

		gt_buf_printf(&longer, "%s, in a string of it", where);
		where = gt_buf_keep(&longer, &s->v->arena, s->err);
		if (!where)
			return GT_ENOMEM;
	}
	if (text.size > STRING_MAX_BYTES)
		text.size = STRING_MAX_BYTES;
	text.first = text.bytes[0];
	return scan_pickle(s->v, &text, where, s->nesting + 1, &used, s->err);
}

static int walk(struct scan *s, const struct gt_tree *node)
{
	struct gt_walk w = { 0 };
	int rc = 0;

	if (node->kind == GT_TREE_STRING)
		return scan_string(s, node);
	while (!rc && gt_walk_next(node, &w))
		rc = walk(s, w.node);
	return rc;
}

/* ---- one pickle ---- */

/* Whether bytes are a pickle that does something, or chance. */
static bool is_meant(const struct gt_pickle_globals *globals, unsigned char first)
{
	bool called = false;

	for (size_t i = 0; i < globals->count; i++)
		called |= globals->items[i].called;
	return called || (first == PROTO && globals->count);
}

static int scan_pickle(struct gt_verify *v, const struct text *text, const char *where, int nesting,
    size_t *used, struct gt_err *err)
{
	struct gt_pickle_globals globals = { 0 };
	struct scan s = { .v = v, .where = where, .nesting = nesting, .err = err };
	struct gt_pickle_hooks hooks = {
		.self = &s, .globals = &globals, .persistent = persistent
	};
	struct gt_tree *root;
	struct gt_err found = GT_ERR_INIT;
	int failed, rc = 0;

	*used = 0;
	if (text->map)
		failed = gt_pickle_read_file(
		    &root, &s.arena, text->map, text->at, NULL, used, &hooks, &found);
	else
		failed =
		    gt_pickle_read(&root, &s.arena, text->bytes, text->size, used, &hooks, &found);
	if (failed) {
		*used = 0;
		/* Bytes that are not a pickle are no error here; bytes that cannot be read are. */
		rc = found.code == GT_ENOMEM || found.code == GT_EIO ? found.code : 0;
		if (rc)
			*err = found;
	} else {
		rc = walk(&s, root);
	}
	if (!rc && (text->is_one || is_meant(&globals, text->first)))
		rc = keep_globals(&s, &globals, err);
	gt_index_release(&s.seen);
	free(globals.items);
	gt_arena_release(&s.arena);
	return rc;
}

/* Step behind the header of an array. */
static int skip_header(const struct gt_mapping *map, uint64_t *at, struct gt_err *err)
{
	unsigned char head[GT_NPY_START];
	size_t n = map->size - *at < sizeof(head) ? (size_t)(map->size - *at) : sizeof(head);
	int rc = gt_map_peek(map, *at, head, n, err);

	if (rc || !gt_npy_begins(head, n))
		return rc;
	*at += gt_npy_header_bytes(head, n);
	return 0;
}

int gt_verify_pickle(struct gt_verify *v, const struct gt_mapping *map, uint64_t at,
    const char *where, bool is_one, size_t *used, struct gt_err *err)
{
	struct text text = { .map = map, .is_one = is_one };
	const char *kept = gt_arena_strdup(&v->arena, where, err);
	int rc = kept ? skip_header(map, &at, err) : GT_ENOMEM;

	*used = 0;
	text.at = at;
	if (rc || at >= map->size || map->size - at < LEAST_BYTES)
		return rc;
	rc = gt_map_peek(map, at, &text.first, 1, err);
	return rc ? rc : scan_pickle(v, &text, kept, 0, used, err);
}

/* ---- all of them ---- */

static int compare_globals(const void *a, const void *b)
{
	const struct gt_verify_global *x = a, *y = b;
	int order = strcmp(x->where, y->where);

	order = order ? order : strcmp(x->name, y->name);
	return order ? order : (x->at > y->at) - (x->at < y->at);
}

static int report_global(struct gt_verify *v, const struct gt_verify_global *g, struct gt_err *err)
{
	if (g->dangerous)
		return gt_verify_find(v, GT_FINDING_GLOBAL,
		    "do not load this file in Python unless you know why it is there", err,
		    "%s at byte %zu %s '%s', which can run code or open files", g->where, g->at,
		    g->called ? "calls" : "names", g->name);
	return gt_verify_find(v, GT_FINDING_GLOBAL,
	    "torch.load() would import it: load such files from people you trust alone", err,
	    "%s at byte %zu %s '%s', which weights_only=True refuses", g->where, g->at,
	    g->called ? "calls" : "names", g->name);
}

int gt_verify_globals(struct gt_verify *v, struct gt_err *err)
{
	size_t kept = 0;
	int rc = 0;

	if (v->global_count)
		qsort(v->globals, v->global_count, sizeof(*v->globals), compare_globals);
	for (size_t i = 0; i < v->global_count; i++) {
		struct gt_verify_global *g = &v->globals[i];
		struct gt_verify_global *last = kept ? &v->globals[kept - 1] : NULL;

		if (last && !strcmp(last->name, g->name) && !strcmp(last->where, g->where)) {
			last->count += g->count;
			last->called |= g->called;
		} else {
			v->globals[kept++] = *g;
		}
	}
	v->global_count = kept;
	for (size_t i = 0; i < kept && !rc; i++)
		if (!v->globals[i].allowed)
			rc = report_global(v, &v->globals[i], err);
	return rc;
}
