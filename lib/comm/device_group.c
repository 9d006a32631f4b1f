/* device_group.c - choose and open the group for the memory of a device. */
#include "lib/comm/device_group.h"

#include <string.h>

#include "lib/comm/staged.h"
#include "lib/device/marks.h"

/* ---- choosing ---- */

static const struct gt_device_groups *find_groups(
    const struct gt_backend *backend, const char *name)
{
	const struct gt_device_groups *const *own = backend->groups;

	while (own && *own && strcmp((*own)->name, name) != 0)
		own++;
	return own ? *own : NULL;
}

/* Whether the data goes by way of the host if this is asked for. */
static bool is_by_host(const struct gt_backend *backend, const char *name)
{
	return name && (!strcmp(name, GT_WAY_BY_HOST) ||
	                   (!strcmp(name, GT_WAY_RING) && !find_groups(backend, name)));
}

int gt_device_way_check(
    const struct gt_backend *backend, const struct gt_device_way_options *o, struct gt_err *err)
{
	const struct gt_device_groups *own;

	if (!o->name || is_by_host(backend, o->name))
		return 0;
	own = find_groups(backend, o->name);
	if (!own) {
		gt_err_set(err, GT_EINVAL, "{backend} %s is not for devices of '%s'", o->name,
		    backend->name);
		return gt_err_hint(
		    err, "it connects GPUs: {device} cuda; {backend} auto takes the fastest way");
	}
	if (!o->ordered || own->ordered)
		return 0;
	gt_err_set(err, GT_ENOTSUP, "the order in which '%s' adds up is not fixed", own->name);
	return gt_err_hint(err, "{backend} ring and shm add up in a fixed order");
}

/* Another reason, behind the one that there may be. */
static void add_reason(struct gt_err *why, const struct gt_err *more)
{
	struct gt_err first = *why;

	if (first.code)
		gt_err_set(why, first.code, "%s; %s", first.text, more->text);
	else
		*why = *more;
}

static bool is_allowed(const struct gt_device_groups *groups, const struct gt_device_way_options *o)
{
	return !(o->name && strcmp(o->name, groups->name) != 0) && (!o->ordered || groups->ordered);
}

/* Return the first of the allowed kinds of groups that these ranks can use, or NULL. */
static const struct gt_device_groups *choose_groups(struct gt_group *world,
    const struct gt_device *device, const struct gt_device_way_options *o, struct gt_err *why)
{
	const struct gt_device_groups *const *own = device->backend->groups;

	for (; own && *own; own++) {
		struct gt_err err = GT_ERR_INIT;

		if (!is_allowed(*own, o))
			continue;
		if (!(*own)->check(world, device, &err))
			return *own;
		add_reason(why, &err);
	}
	return NULL;
}

int gt_device_way_choose(struct gt_device_way *out, struct gt_group *world,
    const struct gt_device *device, const struct gt_device_way_options *o, struct gt_err *err)
{
	*out = (struct gt_device_way){ .why = GT_ERR_INIT };
	if (gt_device_way_check(device->backend, o, err))
		return err->code;
	if (world->size == 1 || is_by_host(device->backend, o->name))
		return 0;
	out->own = choose_groups(world, device, o, &out->why);
	if (out->own || !o->name)
		return 0;
	*err = out->why;
	return err->code;
}

/* Groups that the caller asks for are taken, or the run ends. */
void gt_device_way_expect(struct gt_device_way *out, const struct gt_device *device, bool shared,
    const struct gt_device_way_options *o)
{
	const struct gt_device_groups *const *own = device->backend->groups;

	*out = (struct gt_device_way){ .why = GT_ERR_INIT };
	for (; !out->own && own && *own; own++)
		if (is_allowed(*own, o) &&
		    (o->name || ((!shared || (*own)->shares) &&
		                    !(*own)->check_alone(device, GT_ERR_IGNORED))))
			out->own = *own;
}

bool gt_device_way_add_memory(
    uint64_t *bytes, const struct gt_device_way *way, const struct gt_device *device, int ranks)
{
	if (!way->own || ranks == 1)
		return true;
	if (!way->own->memory)
		return false;
	*bytes += way->own->memory(device, ranks);
	return true;
}

const char *gt_device_way_text(const struct gt_device_way *way)
{
	return way->own ? way->own->name : "way of the host";
}

/* ---- groups ---- */

/* Turn *group, a group for host memory, into one for the memory of the device. */
static int make_device_group(struct gt_group **group, const struct gt_device *device,
    const struct gt_device_way *way, struct gt_err *err)
{
	if (way->own && (*group)->size > 1)
		return way->own->make(group, device, way, err);
	return gt_staged_new(group, device, 0, err);
}

int gt_device_group_open(struct gt_group **out, struct gt_group *host,
    const struct gt_device *device, const struct gt_device_way *way, struct gt_err *err)
{
	struct gt_group *own;

	*out = device->backend->host_memory ? host : NULL;
	if (*out)
		return 0;
	if (gt_group_split(&own, host, 0, host->rank, err))
		return err->code;
	if (make_device_group(&own, device, way, err)) {
		gt_group_free(own);
		return err->code;
	}
	*out = own;
	return 0;
}

int gt_device_group_take(struct gt_group **group, const struct gt_device *device,
    const struct gt_device_way *way, struct gt_err *err)
{
	return *group && !device->backend->host_memory ? make_device_group(group, device, way, err)
	                                               : 0;
}

/* ---- marks ---- */

int gt_device_group_mark_begin(
    const struct gt_collective *c, struct gt_stream *stream, struct gt_err *err)
{
	return c->marks && c->span ? gt_marks_add(c->marks, stream, &c->span->began, err) : 0;
}

int gt_device_group_mark_end(
    const struct gt_collective *c, struct gt_stream *stream, struct gt_err *err)
{
	return c->marks && c->span ? gt_marks_add(c->marks, stream, &c->span->ended, err) : 0;
}
