/* session.c - a session is opened in order, and closed in reverse. */
#include "lib/train/session.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/ckpt/edit/rename.h"
#include "lib/comm/device_group.h"
#include "lib/comm/place.h"
#include "lib/comm/shm/shm.h"
#include "lib/device/name.h"
#include "lib/device/plan_device.h"
#include "lib/train/memory_limit.h"

/* ---- opening ---- */

/* The devices of a list, yours to free(). */
static int read_devices(
    struct gt_device_name **out, size_t *count, const char *list, struct gt_err *err)
{
	int rc = gt_device_names_read(out, count, list ? list : "cpu", gt_backends, err);

	if (rc)
		gt_err_prefix(err, "{device} %s", list ? list : "cpu");
	return rc;
}

static int check_products(
    const struct gt_device_name *name, const struct gt_precision *precision, struct gt_err *err)
{
	const struct gt_backend *b = name->backend;

	if (precision->tf32 && !b->check_products) {
		gt_err_set(err, GT_EINVAL, "{tf32}: tf32 needs a GPU, and device '%s' is not a GPU",
		    b->name);
		return gt_err_hint(err, "{device} cuda computes on a GPU");
	}
	if (precision->tf32 && b->check_products(name->index, GT_F32, true, err))
		return gt_err_prefix(err, "{tf32}");
	if (!b->check_products || !b->check_products(name->index, precision->low, false, err))
		return 0;
	gt_err_prefix(err, "{amp}");
	return gt_err_hint(err, "{amp} fp16 is for older GPUs");
}

int gt_session_check_device(
    const struct gt_where *where, const struct gt_precision *precision, struct gt_err *err)
{
	const struct gt_device_way_options options = { .name = where->way };
	struct gt_device_name *names;
	size_t count;
	int rc = read_devices(&names, &count, where->devices, err);

	if (!rc)
		rc = gt_device_way_check(names[0].backend, &options, err);
	for (size_t i = 0; !rc && i < count; i++)
		rc = check_products(&names[i], precision, err);
	free(names);
	return rc;
}

int gt_session_check_block(const struct gt_where *where, enum gt_block block, struct gt_err *err)
{
	struct gt_device_name *names;
	size_t count;
	int rc = block ? read_devices(&names, &count, where->devices, err) : 0;

	if (rc || !block)
		return rc;
	for (size_t i = 0; !rc && i < count; i++)
		if (!names[i].backend->reads_blocks) {
			gt_err_set(err, GT_ENOTSUP,
			    "{dtype} %s: device '%s' computes with weights of %s alone",
			    gt_block_names[block], names[i].backend->name,
			    gt_block_names[GT_BLOCK_NONE]);
			rc = gt_err_hint(err, "{device} cpu has all types");
		}
	free(names);
	return rc;
}

/* Ranks of this host take the devices of the list in turn; all share its own memory. */
static void count_ranks(struct gt_session *s, const struct gt_session_options *o, size_t devices)
{
	int all = o->where.group          ? o->where.group->size
	          : o->parallel.ranks > 1 ? o->parallel.ranks
	                                  : 1;

	s->host_ranks = o->where.host_ranks ? o->where.host_ranks : all;
	s->sharing = 0;
	for (int r = o->where.host_rank % (int)devices; r < s->host_ranks; r += (int)devices)
		s->sharing++;
	if (s->device->backend->host_memory)
		s->sharing = s->host_ranks;
	else if (!s->sharing)
		s->sharing = 1;
}

static int open_device(struct gt_session *s, const struct gt_session_options *o, struct gt_err *err)
{
	int (*open)(struct gt_device **, const struct gt_backend *, int, struct gt_err *) =
	    o->dry ? gt_device_open_for_plans : gt_device_open;
	struct gt_device_name *names, *mine;
	size_t count;

	if (read_devices(&names, &count, o->where.devices, err))
		return err->code;
	mine = &names[(size_t)o->where.host_rank % count];
	if (!check_products(mine, &o->parallel.precision, err) &&
	    !open(&s->device, mine->backend, mine->index, err)) {
		s->device->untimed = o->parallel.reproducible;
		count_ranks(s, o, count);
	}
	free(names);
	return err->code;
}

/*
 * The list of devices tells how many ranks share one, if all ranks see the same devices. A launcher
 * may let each rank see only its own device, which is then the first for all of them. So ranks that
 * run compare their devices.
 */
static int compare_places(struct gt_session *s, struct gt_err *err)
{
	int rc = s->dry || s->group->size == 1 ? 0 : gt_place_of(&s->place, s->device, err);

	if (rc || s->dry || s->group->size == 1 || s->device->backend->host_memory)
		return rc;
	return gt_place_count(&s->sharing, s->place, s->group, err);
}

/* A rank without others is a group of one. */
static int open_ranks(struct gt_session *s, const struct gt_session_options *o, struct gt_err *err)
{
	struct gt_parallel_options parallel = o->parallel;
	int rc = 0;

	if (!o->where.group && !o->dry)
		rc = gt_shm_of_threads(&s->own_group, 1, &(struct gt_shm_options){ 0 }, err);
	s->group = s->own_group ? s->own_group : o->where.group;
	if (!rc)
		rc = compare_places(s, err);
	parallel.sharing = s->sharing;
	return rc ? rc : gt_parallel_new(&s->parallel, &parallel, s->group, err);
}

static int take_arena(struct gt_session *s, struct gt_err *err)
{
	int rc = gt_store_alloc(s->store, err);

	s->arena_bytes = gt_session_arena_bytes(s);
	if (!rc)
		rc = gt_device_alloc(s->device, s->arena_bytes, &s->arena, err);
	for (int i = 0; !rc && i < s->program_count; i++)
		if (s->programs[i]->plan)
			rc = gt_program_bind(s->programs[i], s->arena, err);
	return rc;
}

static int take_session_memory(
    struct gt_session *s, const struct gt_session_purpose *purpose, void *self, struct gt_err *err)
{
	int rc = purpose->name ? gt_memory_limit_check(s, purpose, self, err) : 0;

	if (rc)
		return rc;
	rc = take_arena(s, err);
	if (!rc)
		rc = purpose->weights(s, self, err);
	if (!rc)
		rc = gt_parallel_begin(s->parallel, err);
	return rc == GT_ENOMEM && purpose->name ? gt_memory_limit_explain(s, purpose, self, err)
	                                        : rc;
}

int gt_session_open(struct gt_session *s, const struct gt_session_options *o,
    const struct gt_session_purpose *purpose, void *self, struct gt_err *err)
{
	int rc;

	*s = (struct gt_session){ .dry = o->dry, .precision = o->parallel.precision };
	rc = gt_session_check_block(&o->where, o->block, err);
	if (!rc)
		rc = open_device(s, o, err);
	if (!rc)
		rc = gt_model_open(&s->model, o->model, err);
	if (!rc)
		rc = gt_model_tune(s->model, &o->freeze, &o->lr_scale, err);
	if (!rc)
		rc = gt_model_adapt(s->model, o->lora, err);
	if (!rc && !purpose->trains)
		rc = gt_model_pack(s->model, o->block, err);
	if (!rc)
		rc = open_ranks(s, o, err);
	if (!rc)
		rc = purpose->input(s, self, err);
	if (!rc)
		rc = gt_program_store(
		    &s->store, s->model, &s->input, s->device, purpose->trains, s->parallel, err);
	if (!rc)
		rc = purpose->plan(s, self, err);
	return rc || o->dry ? rc : take_session_memory(s, purpose, self, err);
}

void gt_session_stop(struct gt_session *s)
{
	if (s->device && !s->dry)
		(void)gt_device_sync(s->device, GT_ERR_IGNORED);
	gt_parallel_stop(s->parallel);
}

void gt_session_close(struct gt_session *s)
{
	gt_session_stop(s);
	for (int i = 0; i < s->program_count; i++)
		gt_program_release(s->programs[i]);
	gt_device_free(s->device, s->arena, s->arena_bytes);
	gt_store_free(s->store);
	gt_parallel_free(s->parallel);
	gt_group_free(s->own_group);
	gt_model_close(s->model);
	gt_device_close(s->device);
	*s = (struct gt_session){ 0 };
}

/* ---- plans that are never run ---- */

int gt_session_plan_open(struct gt_session *s, const struct gt_session *other,
    struct gt_device *device, const struct gt_parallel_options *parallel, bool trains,
    struct gt_err *err)
{
	struct gt_parallel_options options = *parallel;
	int rc;

	*s = (struct gt_session){ .dry = true,
		.device = device,
		.model = other->model,
		.input = other->input,
		.precision = parallel->precision,
		.host_ranks = other->host_ranks,
		.sharing = other->sharing,
		.free_bytes = other->free_bytes };
	options.sharing = other->sharing;
	rc = gt_parallel_new(&s->parallel, &options, NULL, err);
	return rc ? rc
	          : gt_program_store(
	                &s->store, s->model, &s->input, s->device, trains, s->parallel, err);
}

void gt_session_plan_close(struct gt_session *s)
{
	for (int i = 0; i < s->program_count; i++)
		gt_program_release(s->programs[i]);
	gt_store_free(s->store);
	gt_parallel_free(s->parallel);
	*s = (struct gt_session){ 0 };
}

/* ---- programs ---- */

void gt_session_add(struct gt_session *s, struct gt_program *p)
{
	assert(s->program_count < GT_SESSION_PROGRAMS);
	s->programs[s->program_count++] = p;
}

void gt_session_add_pair(struct gt_session *s, struct gt_program_pair *pair)
{
	gt_session_add(s, &pair->full);
	gt_session_add(s, &pair->tail);
}

size_t gt_session_arena_bytes(const struct gt_session *s)
{
	size_t max = 0;

	for (int i = 0; i < s->program_count; i++) {
		const struct gt_plan *plan = s->programs[i]->plan;

		if (plan && gt_plan_arena_bytes(plan) > max)
			max = gt_plan_arena_bytes(plan);
	}
	return max;
}

/* Return the member of *m that counts the memory of a plane. */
static uint64_t *use_of_plane(
    struct gt_session_memory *m, const struct gt_store *s, const struct gt_plane *plane)
{
	if (plane == s->parameters || plane == s->copies)
		return &m->parameters;
	if (plane->role == GT_BUFFER)
		return &m->buffers;
	if (plane->role == GT_CACHE)
		return &m->caches;
	return plane->saved ? &m->optimizer : &m->gradients;
}

void gt_session_memory(struct gt_session_memory *out, const struct gt_session *s)
{
	const struct gt_group_memory groups = gt_parallel_group_memory(s->parallel);

	*out = (struct gt_session_memory){ .arena = gt_session_arena_bytes(s),
		.collectives = groups.bytes,
		.unknown_collectives = groups.unknown };
	for (size_t i = 0; i < s->store->plane_count; i++)
		*use_of_plane(out, s->store, s->store->planes[i]) +=
		    gt_plane_bytes(s->store, s->store->planes[i]);
	for (int i = 0; i < s->program_count; i++)
		out->batches += gt_program_staging(s->programs[i]);
	out->total = out->parameters + out->gradients + out->optimizer + out->buffers +
	             out->caches + out->arena + out->batches + out->collectives;
}

uint64_t gt_session_early_bytes(const struct gt_session *s)
{
	if (s->dry || s->device->backend->host_memory)
		return 0;
	return gt_parallel_group_memory(s->parallel).bytes + gt_store_lent_bytes(s->store);
}

/* A small memory is a small GPU's, or a simulated one's. */
uint64_t gt_session_reserve(uint64_t total)
{
	const uint64_t most = UINT64_C(256) << 20, share = total / 64;

	return share < most ? share : most;
}

struct gt_program_options gt_session_program_options(
    const struct gt_session *s, enum gt_model_purpose purpose)
{
	return (struct gt_program_options){ .model = s->model,
		.input = &s->input,
		.purpose = purpose,
		.store = s->store,
		.parallel = s->parallel,
		.precision = s->precision };
}

/* ---- weights ---- */

const char **gt_load_maps(const struct gt_load_options *load, struct gt_err *err)
{
	const char **maps = gt_calloc(load->map.count + 1, sizeof(*maps), err);

	for (size_t i = 0; maps && i < load->map.count; i++)
		maps[i] = load->map.items[i];
	return maps;
}

int gt_load_check(const struct gt_load_options *load, struct gt_err *err)
{
	const char **maps = gt_load_maps(load, err);
	struct gt_renames renames = { 0 };
	int rc = maps ? gt_renames_init(&renames, maps, err) : GT_ENOMEM;

	if (rc)
		gt_err_prefix(err, "{map}");
	gt_renames_release(&renames);
	free(maps);
	return rc;
}

/* Whether one of the unexpected keys is the program's name of this parameter or of its parts. */
static bool has_theirs(
    const struct gt_weights_report *report, const struct gt_names_table *names, const char *own)
{
	struct gt_names_place place;

	for (size_t i = 0; i < report->unexpected_count; i++)
		if (gt_names_to_own(&place, names, report->unexpected[i], false) &&
		    !strcmp(place.name, own))
			return true;
	return false;
}

/* If all missing keys are there under the names of a program, say which one. */
static int hint_program(
    const struct gt_session *s, const struct gt_weights_report *report, struct gt_err *err)
{
	for (int p = GT_NAMES_AUTO + 1; report->missing_count && gt_names_words[p]; p++) {
		const struct gt_names_table *names =
		    gt_names_find(s->model, (enum gt_names)p, GT_ERR_IGNORED);
		size_t i = 0;

		while (names && i < report->missing_count &&
		       has_theirs(report, names, report->missing[i]))
			i++;
		if (i == report->missing_count)
			return gt_err_hint(err, "the keys are the names of %s: add {names} %s",
			    gt_names_words[p], gt_names_words[p]);
	}
	return err->code;
}

int gt_session_load(struct gt_session *s, struct gt_file_name file,
    const struct gt_load_options *load, const struct gt_weights_options *options,
    struct gt_weights_report *report, struct gt_err *err)
{
	const char **maps = gt_load_maps(load, err);
	struct gt_weights_options o = *options;
	int rc = GT_ENOMEM;

	*report = (struct gt_weights_report){ 0 };
	o.maps = maps;
	o.names = load->names ? gt_names_find(s->model, load->names, err) : NULL;
	o.lenient = load->lenient;
	o.parallel = s->parallel;
	if (maps && load->names && !o.names)
		rc = err->code;
	else if (maps)
		rc = gt_weights_load_file(s->store, s->model, file, &o, report, err);
	if (rc == GT_EFORMAT && !o.lenient && !o.no_map)
		rc = hint_program(s, report, err);
	free(maps);
	return rc;
}

static void log_keys(struct gt_log *log, const char *what, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		gt_log_warn(log, "%s key '%s'", what, names[i]);
}

void gt_session_log_keys(struct gt_log *log, const struct gt_weights_report *report)
{
	log_keys(log, "missing", report->missing, report->missing_count);
	log_keys(log, "unexpected", report->unexpected, report->unexpected_count);
}

/* ---- ranks ---- */

int gt_session_data_rank(const struct gt_session *s)
{
	return gt_parallel_seat(s->parallel, GT_AXIS_DATA);
}

int gt_session_data_world(const struct gt_session *s)
{
	return gt_parallel_axis(s->parallel, GT_AXIS_DATA)->size;
}
