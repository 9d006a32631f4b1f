/* verify_pickle.c - the globals that pickles name, also pickles inside strings of pickles. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/ckpt/npz/npy.h"
#include "lib/ckpt/pickle/pickle.h"
#include "lib/ckpt/pickle/scan.h"
#include "lib/ckpt/tools/verify_steps.h"

enum { MAX_NESTING = 4, LEAST_BYTES = 4, PROTO = 0x80 };

/* A pickle that is looked through. */
struct look {
	struct gt_verify *v;
	const char *where;
	int nesting;
	enum gt_verify_trust trust;
	bool cut;            /* the bytes go on behind the end of the mapping */
	bool more;           /* and can be had */
	unsigned char first; /* byte */
};

/* Set *used to the pickle's length, or 0; *unfinished where more bytes are needed. */
static int scan_pickle(const struct look *look, const struct gt_mapping *map, uint64_t at,
    size_t *used, bool *unfinished, struct gt_err *err);

/* ---- strings ---- */

/* Whether these bytes, read as a pickle, would do something: a pickle by its first byte names a
 * global, others call one. */
static int scan_string(void *self, const unsigned char *bytes, size_t size, struct gt_err *err)
{
	const struct look *outer = self;
	struct look inner = { outer->v, outer->where, outer->nesting + 1,
		.trust = GT_VERIFY_MAYBE };
	const struct gt_mapping string = { bytes, size, -1, 0 };
	bool unfinished;
	size_t used;

	if (size < LEAST_BYTES || outer->nesting == MAX_NESTING)
		return 0;
	inner.first = bytes[0];
	return scan_pickle(&inner, &string, 0, &used, &unfinished, err);
}

/* ---- one pickle ---- */

/* Whether bytes are a pickle that does something, or chance. */
static bool is_meant(const struct gt_pickle_scan *scan, unsigned char first)
{
	bool meant = first == PROTO && scan->count;

	for (size_t i = 0; i < scan->count; i++)
		meant |= scan->items[i]->called ||
		         gt_global_classify(scan->items[i]->name) == GT_GLOBAL_DANGEROUS;
	return meant;
}

/*
 * Whether a global belongs where it is. The metadata of a distributed checkpoint may call getattr,
 * for the item of an enum alone: gtrain opens no other (dcp/metadata.c).
 */
static bool is_expected(const struct look *look, const char *name)
{
	return gt_global_classify(name) == GT_GLOBAL_ALLOWED ||
	       (look->trust == GT_VERIFY_DCP &&
	           (gt_global_is_of_dcp(name) ||
	               (!strcmp(look->v->format, "dcp") && !strcmp(name, "builtins.getattr"))));
}

static int keep_globals(const struct look *look, const struct gt_pickle_scan *scan,
    const char *where, struct gt_err *err)
{
	struct gt_verify *v = look->v;

	for (size_t i = 0; i < scan->count; i++) {
		const struct gt_pickle_named *g = scan->items[i];
		const char *name = gt_arena_strdup(&v->arena, g->name, err);
		enum gt_global_verdict verdict = gt_global_classify(g->name);
		bool expected = is_expected(look, g->name);

		if (!name || gt_grow(&v->globals, v->global_count, &v->global_capacity,
		                 sizeof(*v->globals), err))
			return GT_ENOMEM;
		v->globals[v->global_count++] = (struct gt_verify_global){ .name = name,
			.where = where,
			.at = (size_t)g->at,
			.count = g->count,
			.called = g->called,
			.changed = g->changed,
			.allowed = expected && !g->changed,
			.dangerous = (!expected && verdict == GT_GLOBAL_DANGEROUS) || g->changed };
	}
	return 0;
}

/* The name of a string's pickle; NULL if memory runs out. */
static const char *name_place(const struct look *look, struct gt_err *err)
{
	struct gt_buf longer = { 0 };

	if (!look->nesting || strstr(look->where, ", in a string"))
		return look->where;
	gt_buf_printf(&longer, "%s, in a string of it", look->where);
	return gt_buf_keep(&longer, &look->v->arena, err);
}

/* The opcode that PyTorch's restricted unpickler fails at, of the first pickle that has one. */
static int report_refused(
    const struct look *look, const struct gt_pickle_scan *scan, struct gt_err *err)
{
	struct gt_verify *v = look->v;

	if (look->trust != GT_VERIFY_TORCH || !scan->refused || v->refused)
		return 0;
	v->refused = true;
	return gt_verify_find(v, GT_FINDING_NOTE,
	    "`gtrain ckpt convert` writes the checkpoint in protocol 2, which torch.load() reads",
	    err,
	    "%s is written in pickle protocol %u, of which torch.load(weights_only=True) refuses "
	    "the opcode at byte %" PRIu64 " ('Unsupported operand %u')",
	    look->where, scan->protocol, scan->refused_at, scan->refused);
}

static int report_scan(
    const struct look *look, const struct gt_pickle_scan *scan, struct gt_err *err)
{
	/* Chance does not get as far as a limit. */
	bool sure = look->trust != GT_VERIFY_MAYBE || scan->limited || is_meant(scan, look->first);
	const char *where = sure ? name_place(look, err) : "";
	int rc = where ? report_refused(look, scan, err) : GT_ENOMEM;

	if (!rc && sure)
		rc = keep_globals(look, scan, where, err);
	if (!rc && scan->limited)
		rc = gt_verify_find(look->v, GT_FINDING_UNREAD, "", err,
		    "%s is larger than gtrain follows: its globals behind byte %" PRIu64
		    " are not known",
		    where, scan->at);
	return rc;
}

static int scan_pickle(const struct look *look, const struct gt_mapping *map, uint64_t at,
    size_t *used, bool *unfinished, struct gt_err *err)
{
	struct gt_arena arena = { 0 };
	struct gt_pickle_scan scan;
	int rc = gt_pickle_scan(&scan, &arena, map, at, scan_string, (void *)look, err);

	*used = (size_t)scan.used;
	*unfinished = look->more && scan.exhausted;
	if (look->cut && scan.exhausted)
		scan.limited = true;
	if (!rc && !*unfinished)
		rc = report_scan(look, &scan, err);
	gt_pickle_scan_release(&scan);
	gt_arena_release(&arena);
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

/*
 * Run a pickle as far as Python would (pickle/scan.h), and add
 * its globals to v->globals. The globals of a pickle are the Python functions and classes whose
 * names it contains. Python imports them when it loads the pickle. If a NumPy array begins at this
 * offset, read the pickle after the header of the array, because arrays of objects contain a
 * pickle. If the pickle breaks off, the globals before the faulty byte are added. This function
 * adds no finding for it, because gt_verify() also opens the file as a checkpoint, and reports the
 * fault then. It adds a note for the first pickle with an opcode that PyTorch refuses.
 *
 * With GT_VERIFY_MAYBE, globals are added in three cases only: the bytes contain an opcode that
 * calls a global; or they name one that is dangerous; or they begin like a pickle of protocol 2 or
 * later.
 */
int gt_verify_pickle(struct gt_verify *v, struct gt_verify_source *source, struct gt_err *err)
{
	struct look look = { v, gt_arena_strdup(&v->arena, source->where, err),
		.trust = source->trust, .cut = source->cut, .more = source->cut && source->more };
	uint64_t at = source->at;
	int rc = look.where ? skip_header(source->map, &at, err) : GT_ENOMEM;

	source->used = 0;
	source->unfinished = false;
	if (rc || at >= source->map->size || source->map->size - at < LEAST_BYTES)
		return rc;
	rc = gt_map_peek(source->map, at, &look.first, 1, err);
	return rc ? rc
	          : scan_pickle(&look, source->map, at, &source->used, &source->unfinished, err);
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
	if (g->changed)
		return gt_verify_find(v, GT_FINDING_GLOBAL,
		    "do not load this file in Python: it changes the program that loads it", err,
		    "%s, which names '%s' at byte %zu, sets attributes of it", g->where, g->name,
		    g->at);
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
			last->changed |= g->changed;
			last->allowed &= g->allowed;
			last->dangerous |= g->dangerous;
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
