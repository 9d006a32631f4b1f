/* room.c - a session that does not fit into memory: its needs, and options that need less. */
#include "lib/train/room.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/option_names.h"
#include "lib/base/text.h"
#include "lib/device/holders.h"
#include "lib/device/name.h"

/* ---- the memory there is ---- */

struct room {
	uint64_t there, total; /* bytes that can be had, and all */
	int ranks;             /* that share it */
	char name[GT_DEVICE_NAME_SIZE];
};

static int find_room(struct room *out, const struct gt_device *d, int ranks, struct gt_err *err)
{
	out->ranks = ranks;
	snprintf(out->name, sizeof(out->name), "%s:%d", d->backend->name, d->index);
	return d->backend->memory(d->index, &out->there, &out->total, err);
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
	const struct room *room;
	uint64_t least; /* bytes: more is no help */
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

static bool add(
    struct gt_trials *trials, const struct room *room, uint64_t bytes, const char *words)
{
	bool fits = bytes * (uint64_t)room->ranks <= room->there;
	char size[GT_TEXT_SIZE], *list = fits ? trials->fit : trials->rest;

	snprintf(list + strlen(list), sizeof(trials->fit) - strlen(list), "%s%s (%s%s)",
	    *list ? ", " : "", words, gt_text_bytes(size, bytes), room->ranks > 1 ? " each" : "");
	return fits;
}

bool gt_trial_add(struct gt_trials *trials, int rc, uint64_t bytes, const char *words)
{
	trials->before = strlen(trials->rest);
	return !rc && bytes < trials->least && add(trials, trials->room, bytes, words);
}

bool gt_trial_add_on(struct gt_trials *trials, const struct gt_device *device, int rc,
    uint64_t bytes, const char *words)
{
	struct room room;
	int ranks = device->backend->host_memory ? trials->s->host_ranks : trials->room->ranks;

	trials->before = strlen(trials->rest);
	return !rc && !find_room(&room, device, ranks, GT_ERR_IGNORED) &&
	       add(trials, &room, bytes, words);
}

void gt_trial_drop_last(struct gt_trials *trials)
{
	trials->rest[trials->before] = '\0';
}

static int hint(const struct gt_session *s, const struct gt_session_purpose *purpose, void *self,
    const struct room *room, const struct gt_session_memory *m, struct gt_err *err)
{
	const char *resort =
	    purpose->trains ? "use a smaller model" : "use a device with more memory";
	struct gt_trials trials = { .s = s, .room = room, .least = m->total };

	if (purpose->try_others)
		purpose->try_others(s, self, &trials);
	if (*trials.fit)
		return gt_err_hint(err, "it fits with %s%s%s", trials.fit,
		    *trials.rest ? "; not with " : "", trials.rest);
	if (*trials.rest)
		return gt_err_hint(err, "%s: it does not fit with %s either", resort, trials.rest);
	return gt_err_hint(
	    err, purpose->trains ? "%s; {dry-run} tells what it needs" : "%s", resort);
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
		{ m->arena, "activations" }, { m->batches, "batches" } };
	char bytes[GT_TEXT_SIZE];
	size_t used = 0;

	*text = '\0';
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts) && used < size; i++)
		if (parts[i].bytes)
			used += (size_t)snprintf(text + used, size - used, "%s%s %s",
			    used ? ", " : "", gt_text_bytes(bytes, parts[i].bytes), parts[i].role);
}

/* Of a device with memory of its own; "" where it says no more than that it is full. */
static void write_holders(char *text, size_t size, const struct gt_session *s)
{
	char holders[160] = "";

	*text = '\0';
	if (!strcmp(s->device->backend->name, "cuda"))
		gt_holders_read(holders, sizeof(holders), s->device->index);
	if (*holders)
		snprintf(text, size, "; %s", holders);
}

static void refuse(const struct gt_session *s, const struct gt_session_purpose *purpose,
    const struct room *room, const struct gt_session_memory *m, struct gt_err *err)
{
	char a[GT_TEXT_SIZE], b[GT_TEXT_SIZE], c[GT_TEXT_SIZE], ranks[40] = "", roles[180],
	                                                        holders[180];

	write_roles(roles, sizeof(roles), m);
	write_holders(holders, sizeof(holders), s);
	if (room->ranks > 1)
		snprintf(ranks, sizeof(ranks), " for %d ranks, each", room->ranks);
	gt_text_bytes(a, m->total * (uint64_t)room->ranks);
	gt_text_bytes(b, room->there);
	if (s->device->backend->host_memory)
		gt_err_set(err, GT_ENOMEM,
		    "the %s needs %s of memory, this machine has %s; it needs%s %s", purpose->name,
		    a, b, ranks, roles);
	else
		gt_err_set(err, GT_ENOMEM,
		    "the %s needs %s of memory, %s has %s free of %s%s; it needs%s %s",
		    purpose->name, a, room->name, b, gt_text_bytes(c, room->total), holders, ranks,
		    roles);
}

int gt_room_check(const struct gt_session *s, const struct gt_session_purpose *purpose, void *self,
    struct gt_err *err)
{
	struct gt_session_memory m;
	struct room room;
	int rc = find_room(&room, s->device, s->sharing, err);

	add_up(&m, s, purpose, self);
	if (rc || m.total * (uint64_t)room.ranks <= room.there)
		return rc;
	refuse(s, purpose, &room, &m, err);
	return hint(s, purpose, self, &room, &m, err);
}

/* What this rank has taken so far is there for another try. */
static uint64_t taken_bytes(const struct gt_session *s)
{
	const struct gt_store *store = s->store;
	uint64_t bytes = s->arena ? s->arena_bytes : 0;

	bytes += store->parameters && !store->lent_parameters ? gt_store_parameter_bytes(store) : 0;
	bytes += store->gradients && !store->lent_gradients ? gt_store_gradient_bytes(store) : 0;
	bytes += store->copies ? gt_store_copy_bytes(store) : 0;
	bytes += store->cache ? store->cache_bytes : 0;
	return bytes + (store->buffers ? store->buffer_bytes : 0);
}

int gt_room_explain(const struct gt_session *s, const struct gt_session_purpose *purpose,
    void *self, struct gt_err *err)
{
	char roles[180], holders[180], size[GT_TEXT_SIZE], text[sizeof(err->text)];
	struct gt_session_memory m;
	struct room room;

	/* In the words of backends: not for want of other memory of the host. */
	if (!strstr(err->text, "no memory: ") || err->follows)
		return err->code;
	if (find_room(&room, s->device, s->sharing, GT_ERR_IGNORED))
		return err->code;
	room.there += taken_bytes(s);
	add_up(&m, s, purpose, self);
	write_roles(roles, sizeof(roles), &m);
	write_holders(holders, sizeof(holders), s);
	snprintf(text, sizeof(text), "%s", err->text);
	gt_err_set(err, GT_ENOMEM, "%s; the %s needs %s: %s%s", text, purpose->name,
	    gt_text_bytes(size, m.total), roles, holders);
	return hint(s, purpose, self, &room, &m, err);
}
