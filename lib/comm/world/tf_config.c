/* tf_config.c - TF_CONFIG: a cluster's tasks by address, and which of them this one is. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/text.h"
#include "lib/comm/world/environment.h"

enum { MAX_TEXT = 256 << 10 };

/* The two sides of the last colon of "host:port". */
struct place {
	const char *host;
	size_t length;
	int port;
};

static int read_place(struct place *out, const json_t *value, struct gt_err *err)
{
	const char *text = json_string_value(value), *colon = text ? strrchr(text, ':') : NULL;
	int64_t port;

	*out = (struct place){ 0 };
	if (!colon || !gt_text_parse_int(&port, colon + 1) || port < 1 || port > 65535)
		return gt_err_set(err, GT_EINVAL, "TF_CONFIG: '%s' is not 'host:port'",
		    text ? text : "(no text)");
	*out = (struct place){ text, (size_t)(colon - text), (int)port };
	return 0;
}

/* The tasks that train, in the order of their ranks: the chief, then the workers. */
static const json_t *task_at(const json_t *cluster, size_t rank)
{
	static const char *const types[] = { "chief", "master", "worker" };

	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
		const json_t *list = json_object_get(cluster, types[i]);

		if (rank < json_array_size(list))
			return json_array_get(list, rank);
		rank -= json_array_size(list);
	}
	return NULL;
}

/* TensorFlow takes an index as a number and as text. */
static int read_task_index(int64_t *out, const json_t *index, struct gt_err *err)
{
	if (json_is_integer(index)) {
		*out = json_integer_value(index);
		return 0;
	}
	if (json_is_string(index) && gt_text_parse_int(out, json_string_value(index)))
		return 0;
	return gt_err_set(err, GT_EINVAL, "TF_CONFIG: task: the index is not a number");
}

static int read_rank(
    struct gt_world *world, const json_t *cluster, const json_t *task, struct gt_err *err)
{
	const char *type = json_string_value(json_object_get(task, "type"));
	const json_t *list = type ? json_object_get(cluster, type) : NULL;
	size_t first = 0;
	int64_t index;

	if (!type)
		return gt_err_set(err, GT_EINVAL, "TF_CONFIG: task has no type");
	if (!strcmp(type, "ps") || !strcmp(type, "evaluator")) {
		gt_err_set(
		    err, GT_ENOTSUP, "TF_CONFIG: task type '%s' takes no part in training", type);
		return gt_err_hint(err, "start gtrain on the chief and the workers alone");
	}
	if (strcmp(type, "chief") && strcmp(type, "master") && strcmp(type, "worker"))
		return gt_err_set(err, GT_EINVAL, "TF_CONFIG: unknown task type '%s'", type);
	if (read_task_index(&index, json_object_get(task, "index"), err))
		return err->code;
	if (index < 0 || (uint64_t)index >= json_array_size(list))
		return gt_err_set(err, GT_EINVAL,
		    "TF_CONFIG: task index %lld, but the cluster has %zu of type '%s'",
		    (long long)index, json_array_size(list), type);
	if (!strcmp(type, "worker"))
		first = json_array_size(json_object_get(cluster, "chief")) +
		        json_array_size(json_object_get(cluster, "master"));
	world->rank = (int)(first + (size_t)index);
	return 0;
}

/* Ranks whose addresses have the same host are on one. */
static int read_hosts(struct gt_world *world, const json_t *cluster, struct gt_err *err)
{
	struct place mine, place;
	int rc = read_place(&mine, task_at(cluster, (size_t)world->rank), err);

	world->local_rank = world->local_size = 0;
	for (int rank = 0; rank < world->size && !rc; rank++) {
		rc = read_place(&place, task_at(cluster, (size_t)rank), err);
		if (!rc && !rank && world->size > 1) {
			world->port = place.port;
			rc =
			    gt_world_set_address(world, place.host, place.length, "TF_CONFIG", err);
		}
		if (rc || place.length != mine.length || memcmp(place.host, mine.host, mine.length))
			continue;
		world->local_rank += rank < world->rank;
		world->local_size++;
	}
	return rc;
}

/* Whether rank `rank` is the first of its host; and how many there are on that. */
static bool first_of_host(int *count, const json_t *cluster, int rank, int size)
{
	struct place mine, place;

	*count = 0;
	if (read_place(&mine, task_at(cluster, (size_t)rank), GT_ERR_IGNORED))
		return false;
	for (int r = 0; r < size; r++) {
		if (read_place(&place, task_at(cluster, (size_t)r), GT_ERR_IGNORED) ||
		    place.length != mine.length || memcmp(place.host, mine.host, mine.length))
			continue;
		if (r < rank)
			return false;
		++*count;
	}
	return true;
}

/* "a:2,b:1", in the order in which they come first; nothing where they do not all fit, or a
 * name has a colon. */
static void list_hosts(struct gt_world *world, const json_t *cluster)
{
	size_t n = 0, size = sizeof(world->hosts);
	struct place place;
	int count;

	for (int rank = 0; rank < world->size && n < size; rank++) {
		if (!first_of_host(&count, cluster, rank, world->size) ||
		    read_place(&place, task_at(cluster, (size_t)rank), GT_ERR_IGNORED))
			continue;
		if (memchr(place.host, ':', place.length)) {
			n = size;
			break;
		}
		n += (size_t)snprintf(world->hosts + n, size - n, "%s%.*s:%d", n ? "," : "",
		    (int)place.length, place.host, count);
	}
	if (n >= size)
		world->hosts[0] = '\0';
}

static int read_cluster(struct gt_world *world, const json_t *root, struct gt_err *err)
{
	const json_t *cluster = json_object_get(root, "cluster");
	size_t chiefs = json_array_size(json_object_get(cluster, "chief")) +
	                json_array_size(json_object_get(cluster, "master"));
	size_t size = chiefs + json_array_size(json_object_get(cluster, "worker"));
	int rc;

	if (!size || size > GT_WORLD_MAX_RANKS || chiefs > 1) {
		gt_err_set(err, GT_EINVAL, "TF_CONFIG: a cluster of %zu chiefs and %zu workers",
		    chiefs, size - chiefs);
		return gt_err_hint(
		    err, "\"cluster\" lists \"worker\" and at most one \"chief\" as \"host:port\"");
	}
	world->source = GT_WORLD_TF_CONFIG;
	world->size = (int)size;
	rc = read_rank(world, cluster, json_object_get(root, "task"), err);
	if (!rc)
		rc = read_hosts(world, cluster, err);
	if (!rc)
		list_hosts(world, cluster);
	return rc;
}

int gt_world_tf_config(struct gt_world *world, const char *text, struct gt_err *err)
{
	json_error_t why;
	json_t *root;
	int rc;

	if (strlen(text) > MAX_TEXT)
		return gt_err_set(err, GT_EINVAL, "TF_CONFIG: %zu bytes", strlen(text));
	root = json_loads(text, JSON_REJECT_DUPLICATES, &why);
	if (!json_is_object(root)) {
		rc = gt_err_set(err, GT_EINVAL, "TF_CONFIG is not a JSON object: %s",
		    root ? "another value" : why.text);
	} else {
		rc = read_cluster(world, root, err);
	}
	if (rc && !err->hint[0])
		gt_err_hint(err, "its form is {\"cluster\":{\"worker\":[\"a:1234\",\"b:1234\"]},"
		                 "\"task\":{\"type\":\"worker\",\"index\":0}}");
	json_decref(root);
	return rc;
}
