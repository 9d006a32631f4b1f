/* fit.c - a run that does not fit into memory: what it needs, who has the rest, what would fit. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/option_names.h"
#include "lib/base/text.h"
#include "lib/device/holders.h"
#include "lib/device/name.h"
#include "lib/train/inside.h"

/* ---- what there is, and what is needed ---- */

/* Memory that a run meets. */
struct room {
	uint64_t there, total; /* bytes that can be had, and all */
	int ranks;             /* that share it */
	char name[GT_DEVICE_NAME_SIZE];
};

/* Ranks of this host take the devices of the list in turn; all share its own memory. */
static int count_ranks(const struct gt_train *t)
{
	int ranks = gt_train_host_ranks(t), sharing = 0;
	struct gt_device_name *names;
	size_t count;

	if (t->s.device->backend->host_memory ||
	    gt_device_names_read(&names, &count, t->o.device, gt_backends, GT_ERR_IGNORED))
		return ranks;
	free(names);
	for (int r = t->o.host_rank % (int)count; r < ranks; r += (int)count)
		sharing++;
	return sharing ? sharing : 1;
}

static int find_room(struct room *out, const struct gt_train *t, struct gt_err *err)
{
	const struct gt_device *d = t->s.device;

	out->ranks = count_ranks(t);
	snprintf(out->name, sizeof(out->name), "%s:%d", d->backend->name, d->index);
	return d->backend->memory(d->index, &out->there, &out->total, err);
}

/* ---- other options ---- */

/* The memory of a run with these options, by plans that are never run: those of this rank. */
static int plan_other(
    uint64_t *bytes, const struct gt_train *t, const struct gt_train_options *o, struct gt_err *err)
{
	struct gt_train other = *t;
	struct gt_parallel_options parallel;
	struct gt_train_memory m;
	int rc;

	other.o = *o;
	other.o.group = NULL;
	other.o.nproc = gt_train_world(t) > o->nproc ? gt_train_world(t) : o->nproc;
	other.s = (struct gt_session){
		.dry = true, .device = t->s.device, .model = t->s.model, .input = t->s.input
	};
	other.steps = other.evals = (struct gt_program_pair){ 0 };
	rc = gt_train_set_ranks(&other, err);
	parallel = other.o.parallel;
	parallel.rank = gt_train_rank(t);
	if (!rc)
		rc = gt_parallel_new(&other.s.parallel, &parallel, NULL, err);
	if (!rc)
		gt_train_set_sampler(&other);
	if (!rc)
		rc = gt_program_store(&other.s.store, other.s.model, &other.s.input, other.s.device,
		    true, other.s.parallel, err);
	if (!rc)
		rc = gt_train_plan(&other, err);
	if (!rc)
		gt_train_memory(&m, &other);
	*bytes = rc ? 0 : m.total;
	gt_program_pair_release(&other.evals);
	gt_program_pair_release(&other.steps);
	gt_store_free(other.s.store);
	gt_parallel_free(other.s.parallel);
	return rc;
}

enum { WORDS = 160 };

/* As errors are formatted, with names of options. */
static void put_words(char words[WORDS], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void put_words(char words[WORDS], const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	gt_option_names_vformat(words, WORDS, format, ap);
	va_end(ap);
}

/* Options that were tried, by whether the run would fit with them. */
struct trials {
	const struct gt_train *t;
	const struct room *room;
	uint64_t least; /* bytes: more is no help */
	char fit[240], rest[240];
};

/* Whether it fits. What cannot be planned, as the options exclude each other, is left out, and so
 * is what needs no less. */
static bool try_options(struct trials *trials, const struct gt_train_options *o, const char *words)
{
	char size[GT_TEXT_SIZE], *list;
	uint64_t bytes;
	bool fits;

	if (plan_other(&bytes, trials->t, o, GT_ERR_IGNORED) || bytes >= trials->least)
		return false;
	fits = bytes * (uint64_t)trials->room->ranks <= trials->room->there;
	list = fits ? trials->fit : trials->rest;
	snprintf(list + strlen(list), sizeof(trials->fit) - strlen(list), "%s%s (%s%s)",
	    *list ? ", " : "", words, gt_text_bytes(size, bytes),
	    trials->room->ranks > 1 ? " each" : "");
	return fits;
}

/* The largest divisor up to a half, so that accumulation makes up for it. */
static int next_batch(int batch, int whole)
{
	int next = batch / 2;

	while (next > 1 && whole % next)
		next--;
	return next;
}

static void set_batch(struct gt_train_options *o, int batch, char words[WORDS])
{
	o->accumulate = o->accumulate * (o->batch / batch);
	o->batch = batch;
	put_words(words, "{batch} %d {accumulate} %d", batch, o->accumulate);
}

/* The largest batch that fits; the smallest one, if none does. */
static bool try_batches(struct trials *trials, const struct gt_train_options *from)
{
	char words[WORDS];

	for (int b = from->batch; b > 1;) {
		struct gt_train_options o = *from;
		size_t used = strlen(trials->rest);

		b = next_batch(b, from->batch);
		set_batch(&o, b, words);
		if (try_options(trials, &o, words))
			return true;
		if (b > 1)
			trials->rest[used] = '\0';
	}
	return false;
}

/* ZeRO is for several ranks: those there are, or one for each GPU. */
static int zero_ranks(const struct gt_train *t)
{
	int world = gt_train_world(t);

	return world > 1 || t->s.device->backend->host_memory ? world
	                                                      : t->s.device->backend->count();
}

static bool try_zero(struct trials *trials, const struct gt_train_options *from, int ranks)
{
	static const enum gt_parallel_kind kinds[] = { GT_PARALLEL_ZERO1, GT_PARALLEL_ZERO2,
		GT_PARALLEL_ZERO3 };
	bool fits = false, started = gt_train_world(trials->t) > 1;
	char words[WORDS];

	for (size_t i = 0; ranks > 1 && i < sizeof(kinds) / sizeof(*kinds); i++) {
		const char *name = gt_parallel_names[kinds[i]];
		struct gt_train_options o = *from;

		if (from->parallel.kind == kinds[i] && started)
			continue;
		o.parallel.kind = kinds[i];
		o.nproc = ranks;
		if (started)
			put_words(words, "{parallel} %s", name);
		else
			put_words(words, "{device} cuda {nproc} %d {parallel} %s", ranks, name);
		fits |= try_options(trials, &o, words);
	}
	return fits;
}

/* All at once, where none of them is enough. */
static void try_all(struct trials *trials, const struct gt_train_options *from)
{
	char batch[WORDS] = "", parallel[WORDS] = "", words[WORDS];
	struct gt_train_options o = *from;

	o.recompute = GT_RECOMPUTE_ALL;
	if (o.batch > 1)
		set_batch(&o, 1, batch);
	if (gt_train_world(trials->t) > 1) {
		o.parallel.kind = GT_PARALLEL_ZERO3;
		put_words(parallel, " {parallel} %s", gt_parallel_names[o.parallel.kind]);
	}
	put_words(words, "{recompute}%s%.60s%.40s", *batch ? " " : "", batch, parallel);
	try_options(trials, &o, words);
}

static void try_each(struct trials *trials)
{
	const struct gt_train_options *from = &trials->t->o;
	int ranks = zero_ranks(trials->t);
	struct gt_train_options o = *from;
	char words[WORDS];
	bool fits = false;

	o.recompute = GT_RECOMPUTE_ALL;
	put_words(words, "{recompute}");
	if (from->recompute == GT_RECOMPUTE_NONE)
		fits = try_options(trials, &o, words);
	fits |= try_batches(trials, from);
	fits |= try_zero(trials, from, ranks);
	if (!fits)
		try_all(trials, from);
}

static int hint(const struct gt_train *t, const struct room *room, const struct gt_train_memory *m,
    struct gt_err *err)
{
	struct trials trials = { .t = t, .room = room, .least = m->total };

	try_each(&trials);
	if (*trials.fit)
		return gt_err_hint(err, "it fits with %s%s%s", trials.fit,
		    *trials.rest ? "; not with " : "", trials.rest);
	if (*trials.rest)
		return gt_err_hint(
		    err, "use a smaller model: it does not fit with %s either", trials.rest);
	return gt_err_hint(err, "use a smaller model; {dry-run} tells what it needs");
}

/* ---- the error ---- */

/* "1 GiB parameters, 2 GiB activations": those roles that need any. */
static void write_roles(char *text, size_t size, const struct gt_train_memory *m)
{
	const struct {
		uint64_t bytes;
		const char *role;
	} parts[] = { { m->parameters + m->buffers, "parameters" }, { m->gradients, "gradients" },
		{ m->optimizer, "optimizer state" }, { m->arena, "activations" },
		{ m->batches, "batches" } };
	char bytes[GT_TEXT_SIZE];
	size_t used = 0;

	*text = '\0';
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts) && used < size; i++)
		if (parts[i].bytes)
			used += (size_t)snprintf(text + used, size - used, "%s%s %s",
			    used ? ", " : "", gt_text_bytes(bytes, parts[i].bytes), parts[i].role);
}

/* Of a device with memory of its own; "" where it says no more than that it is full. */
static void write_holders(char *text, size_t size, const struct gt_train *t)
{
	char holders[160] = "";

	*text = '\0';
	if (!strcmp(t->s.device->backend->name, "cuda"))
		gt_holders_read(holders, sizeof(holders), t->s.device->index);
	if (*holders)
		snprintf(text, size, "; %s", holders);
}

static int refuse(const struct gt_train *t, const struct room *room,
    const struct gt_train_memory *m, struct gt_err *err)
{
	char a[GT_TEXT_SIZE], b[GT_TEXT_SIZE], c[GT_TEXT_SIZE], ranks[40] = "", roles[180],
	                                                        holders[180];

	write_roles(roles, sizeof(roles), m);
	write_holders(holders, sizeof(holders), t);
	if (room->ranks > 1)
		snprintf(ranks, sizeof(ranks), " for %d ranks, each", room->ranks);
	gt_text_bytes(a, m->total * (uint64_t)room->ranks);
	gt_text_bytes(b, room->there);
	if (t->s.device->backend->host_memory)
		gt_err_set(err, GT_ENOMEM,
		    "the run needs %s of memory, this machine has %s; it needs%s %s", a, b, ranks,
		    roles);
	else
		gt_err_set(err, GT_ENOMEM,
		    "the run needs %s of memory, %s has %s free of %s%s; it needs%s %s", a,
		    room->name, b, gt_text_bytes(c, room->total), holders, ranks, roles);
	return hint(t, room, m, err);
}

int gt_train_check_memory(const struct gt_train *t, struct gt_err *err)
{
	struct gt_train_memory m;
	struct room room;
	int rc = find_room(&room, t, err);

	gt_train_memory(&m, t);
	if (rc || m.total * (uint64_t)room.ranks <= room.there)
		return rc;
	return refuse(t, &room, &m, err);
}

/* What this rank has taken so far is there for another try. */
static uint64_t taken_bytes(const struct gt_train *t)
{
	const struct gt_store *s = t->s.store;
	uint64_t bytes = t->s.arena ? t->s.arena_bytes : 0;

	bytes += s->parameters && !s->lent_parameters ? gt_store_parameter_bytes(s) : 0;
	bytes += s->gradients && !s->lent_gradients ? gt_store_gradient_bytes(s) : 0;
	bytes += s->copies ? gt_store_copy_bytes(s) : 0;
	return bytes + (s->buffers ? s->buffer_bytes : 0);
}

int gt_train_explain_memory(const struct gt_train *t, struct gt_err *err)
{
	char roles[180], holders[180], size[GT_TEXT_SIZE], text[sizeof(err->text)];
	struct gt_train_memory m;
	struct room room;

	/* In the words of backends: not for want of other memory of the host. */
	if (!strstr(err->text, "no memory: ") || err->follows)
		return err->code;
	if (find_room(&room, t, GT_ERR_IGNORED))
		return err->code;
	room.there += taken_bytes(t);
	gt_train_memory(&m, t);
	write_roles(roles, sizeof(roles), &m);
	write_holders(holders, sizeof(holders), t);
	snprintf(text, sizeof(text), "%s", err->text);
	gt_err_set(err, GT_ENOMEM, "%s; the run needs %s: %s%s", text, gt_text_bytes(size, m.total),
	    roles, holders);
	return hint(t, &room, &m, err);
}
