/* memory_limit.c - check that a session fits into memory: its needs, options that need less. */
#include "lib/train/memory_limit.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/base/option_names.h"
#include "lib/base/text.h"
#include "lib/device/name.h"

/* ---- the memory there is, and the memory that is needed ---- */

struct available {
	uint64_t there, free, total; /* bytes that can be had, those that are free, and all */
	uint64_t reserve;            /* bytes of the free ones that each rank leaves */
	char name[GT_DEVICE_NAME_SIZE];
};

static int find_available(struct available *out, const struct gt_device *d, struct gt_err *err)
{
	snprintf(out->name, sizeof(out->name), "%s:%d", d->backend->name, d->index);
	if (d->backend->memory(d->index, &out->free, &out->total, err))
		return err->code;
	out->reserve = d->backend->host_memory ? 0 : gt_session_reserve(out->total);
	out->there = out->free;
	return 0;
}

/* The ranks on one device, which may be stages of a pipeline: they need different amounts then. */
struct needs {
	struct gt_session_memory mine;
	uint64_t all;   /* bytes of all these ranks */
	uint64_t taken; /* bytes of `all` that are allocated already */
	int ranks;
	bool alike;
};

static void add_ranks(struct needs *n, const int64_t (*all)[3], int ranks, int me)
{
	n->ranks = 0;
	n->all = n->taken = 0;
	for (int r = 0; r < ranks; r++) {
		if (all[r][0] != all[me][0])
			continue;
		n->ranks++;
		n->all += (uint64_t)all[r][1];
		n->taken += (uint64_t)all[r][2];
		n->alike &= all[r][1] == all[me][1];
	}
}

/* A collective call where there are several ranks. */
static int gather_needs(struct needs *out, const struct gt_session *s, struct gt_err *err)
{
	int ranks = s->group ? s->group->size : 1, me = s->group ? s->group->rank : 0;
	int64_t(*all)[3];
	int rc;

	out->ranks = s->sharing;
	out->alike = true;
	out->all = out->mine.total * (uint64_t)s->sharing;
	out->taken = gt_session_early_bytes(s) * (uint64_t)s->sharing;
	if (ranks == 1)
		return 0;
	all = gt_calloc((size_t)ranks, sizeof(*all), err);
	if (!all)
		return GT_ENOMEM;
	all[me][0] = s->place;
	all[me][1] = (int64_t)out->mine.total;
	all[me][2] = (int64_t)gt_session_early_bytes(s);
	rc = gt_all_reduce(s->group, all, 3 * (int64_t)ranks, GT_I64, GT_SUM, err);
	if (!rc)
		add_ranks(out, all, ranks, me);
	free(all);
	return rc;
}

/* The memory that the ranks on the device may use together, less the reserve of each. */
static void share_out(struct available *available, const struct needs *needs)
{
	uint64_t all = available->free + needs->taken,
	         reserve = available->reserve * (uint64_t)needs->ranks;

	available->there = all > reserve ? all - reserve : 0;
}

static void add_up(struct gt_session_memory *out, const struct gt_session *s,
    const struct gt_session_purpose *purpose, void *self)
{
	gt_session_memory(out, s);
	if (purpose->memory)
		purpose->memory(s, self, out);
}

/* ---- other options ---- */

/* Options that were tried, by whether the session would fit with them. */
struct gt_trials {
	const struct gt_session *s;
	const struct available *available;
	const struct needs *needs;
	char fit[240], rest[240];
	size_t before; /* the length of `rest` before the last trial */
};

void gt_trial_words(char words[GT_TRIAL_WORDS], const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	gt_option_names_vformat(words, GT_TRIAL_WORDS, format, ap);
	va_end(ap);
}

static bool add_trial(struct gt_trials *trials, const struct available *available, int ranks,
    uint64_t bytes, const char *words)
{
	bool fits = bytes * (uint64_t)ranks <= available->there;
	char size[GT_TEXT_SIZE], *list = fits ? trials->fit : trials->rest;

	snprintf(list + strlen(list), sizeof(trials->fit) - strlen(list), "%s%s (%s%s)",
	    *list ? ", " : "", words, gt_text_bytes(size, bytes), ranks > 1 ? " each" : "");
	return fits;
}

bool gt_trial_add(struct gt_trials *trials, int rc, uint64_t bytes, const char *words)
{
	trials->before = strlen(trials->rest);
	return !rc && bytes < trials->needs->mine.total &&
	       add_trial(trials, trials->available, trials->needs->ranks, bytes, words);
}

bool gt_trial_add_on(struct gt_trials *trials, const struct gt_device *device, int rc,
    uint64_t bytes, const char *words)
{
	struct available available;
	int ranks = device->backend->host_memory ? trials->s->host_ranks : trials->needs->ranks;

	trials->before = strlen(trials->rest);
	return !rc && !find_available(&available, device, GT_ERR_IGNORED) &&
	       add_trial(trials, &available, ranks, bytes, words);
}

void gt_trial_drop_last(struct gt_trials *trials)
{
	trials->rest[trials->before] = '\0';
}

/* Stages of a pipeline have other plans on other ranks: one that fits here may not fit there. */
static bool can_try(const struct gt_session *s, const struct gt_session_purpose *purpose)
{
	struct gt_group *stages = gt_parallel_axis(s->parallel, GT_AXIS_PIPELINE);

	return purpose->try_others && !(stages && stages->size > 1);
}

static int hint(const struct gt_session *s, const struct gt_session_purpose *purpose, void *self,
    const struct available *available, const struct needs *needs, struct gt_err *err)
{
	const char *resort =
	    purpose->trains ? "use a smaller model" : "use a device with more memory";
	bool plans = purpose->trains && !s->dry;
	struct gt_trials trials = { .s = s, .available = available, .needs = needs };

	if (can_try(s, purpose))
		purpose->try_others(s, self, &trials);
	else if (purpose->trains)
		return gt_err_hint(err,
		    "use a smaller {batch}, {recompute}, more stages or a smaller model%s",
		    plans ? "; {dry-run} prints the need of each stage" : "");
	if (*trials.fit)
		return gt_err_hint(err, "it fits with %s%s%s", trials.fit,
		    *trials.rest ? "; not with " : "", trials.rest);
	if (*trials.rest)
		return gt_err_hint(err, "%s: it does not fit with %s either", resort, trials.rest);
	return gt_err_hint(err, "%s%s", resort, plans ? "; {dry-run} prints its need" : "");
}

/* ---- the error ---- */

/* "1 GiB parameters, 2 GiB activations": those roles that need any. */
static void write_roles(char *text, size_t size, const struct gt_session_memory *m)
{
	const struct {
		uint64_t bytes;
		const char *role;
	} parts[] = { { m->parameters + m->buffers, "parameters" }, { m->gradients, "gradients" },
		{ m->optimizer, "optimizer state" }, { m->caches, "keys and values" },
		{ m->arena, "activations" }, { m->batches, "batches" },
		{ m->collectives, "collectives" }, { m->copy, "copy of a checkpoint" } };
	char bytes[GT_TEXT_SIZE];
	size_t used = 0;

	*text = '\0';
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts) && used < size; i++)
		if (parts[i].bytes)
			used += (size_t)snprintf(text + used, size - used, "%s%s %s",
			    used ? ", " : "", gt_text_bytes(bytes, parts[i].bytes), parts[i].role);
}

/* List the processes that hold memory of a device with its own memory; "" if the list says no more
 * than that the memory is full. */
static void write_holders(char *text, size_t size, const struct gt_session *s)
{
	char holders[160] = "";

	*text = '\0';
	if (s->device->backend->holders)
		s->device->backend->holders(holders, sizeof(holders), s->device->index);
	if (*holders)
		snprintf(text, size, "; %s", holders);
}

static void fail_memory_limit(const struct gt_session *s, const struct gt_session_purpose *purpose,
    const struct available *available, const struct needs *needs, struct gt_err *err)
{
	char a[GT_TEXT_SIZE], b[GT_TEXT_SIZE], c[GT_TEXT_SIZE], d[GT_TEXT_SIZE],
	    ranks[60] = "it needs", roles[220], holders[180];

	write_roles(roles, sizeof(roles), &needs->mine);
	write_holders(holders, sizeof(holders), s);
	if (needs->ranks > 1 && needs->alike)
		snprintf(ranks, sizeof(ranks), "it needs for %d ranks, each", needs->ranks);
	else if (needs->ranks > 1)
		snprintf(ranks, sizeof(ranks), "of its %d ranks %s needs", needs->ranks,
		    s->dry ? "the first one" : "this one");
	gt_text_bytes(a, needs->all);
	gt_text_bytes(b, available->free + needs->taken);
	if (s->device->backend->host_memory)
		gt_err_set(err, GT_ENOMEM, "the %s needs %s of memory, this machine has %s; %s %s",
		    purpose->name, a, b, ranks, roles);
	else
		gt_err_set(err, GT_ENOMEM,
		    "the %s needs %s of memory, %s has %s free of %s, and %s of it stay free%s; "
		    "%s %s",
		    purpose->name, a, available->name, b, gt_text_bytes(c, available->total),
		    gt_text_bytes(d, available->reserve * (uint64_t)needs->ranks), holders, ranks,
		    roles);
}

static int compare_with_available(struct gt_session *s, const struct gt_session_purpose *purpose,
    void *self, struct available *available, const struct needs *needs, struct gt_err *err)
{
	share_out(available, needs);
	s->free_bytes = available->there;
	if (needs->all <= available->there)
		return 0;
	fail_memory_limit(s, purpose, available, needs, err);
	return hint(s, purpose, self, available, needs, err);
}

/*
 * All ranks have planned before one looks at the memory, and all have looked before one takes any:
 * else ranks that share a device would count each other's memory twice.
 */
int gt_memory_limit_check(
    struct gt_session *s, const struct gt_session_purpose *purpose, void *self, struct gt_err *err)
{
	struct needs needs;
	struct available available;
	int rc;

	add_up(&needs.mine, s, purpose, self);
	rc = gather_needs(&needs, s, err);
	if (!rc)
		rc = find_available(&available, s->device, err);
	if (!rc && s->group && s->group->size > 1)
		rc = gt_barrier(s->group, err);
	if (rc)
		return rc;
	return compare_with_available(s, purpose, self, &available, &needs, err);
}

int gt_memory_limit_check_plans(struct gt_session *s, const struct gt_session_purpose *purpose,
    void *self, const struct gt_memory_planned *planned, struct gt_err *err)
{
	struct needs needs = {
		.all = planned->bytes, .ranks = planned->ranks, .alike = planned->alike
	};
	struct available available;

	add_up(&needs.mine, s, purpose, self);
	if (find_available(&available, s->device, err))
		return err->code;
	return compare_with_available(s, purpose, self, &available, &needs, err);
}

int gt_memory_limit_explain(const struct gt_session *s, const struct gt_session_purpose *purpose,
    void *self, struct gt_err *err)
{
	char roles[220], holders[180], size[GT_TEXT_SIZE], text[sizeof(err->text)];
	struct needs needs = { .ranks = s->sharing, .alike = true };
	struct available available;

	if (!err->device_memory || err->follows ||
	    find_available(&available, s->device, GT_ERR_IGNORED))
		return err->code;
	/* All that this session's ranks have taken is there for another try. */
	available.there = s->free_bytes;
	add_up(&needs.mine, s, purpose, self);
	write_roles(roles, sizeof(roles), &needs.mine);
	write_holders(holders, sizeof(holders), s);
	snprintf(text, sizeof(text), "%s", err->text);
	gt_err_set(err, GT_ENOMEM, "%s; the %s needs %s: %s%s", text, purpose->name,
	    gt_text_bytes(size, needs.mine.total), roles, holders);
	return hint(s, purpose, self, &available, &needs, err);
}
