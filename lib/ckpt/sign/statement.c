/* statement.c - the list of a model's files as a statement of in-toto. */
#include <math.h>
#include <nettle/base16.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/text.h"
#include "lib/ckpt/sign/manifest.h"

static const char statement_type[] = "https://in-toto.io/Statement/v1";
static const char predicate_type[] = "https://model_signing/signature/v1.0";
static const char old_predicate_type[] = "https://model_signing/Digests/v0.1";

enum { HEX = 2 * SHA256_DIGEST_SIZE };

static void put_hex(char hex[HEX + 1], const unsigned char *digest)
{
	base16_encode_update(hex, SHA256_DIGEST_SIZE, digest);
	hex[HEX] = '\0';
}

/* The digest of the whole model is that of the digests of its items, in their order. */
static void digest_model(char hex[HEX + 1], const struct gt_manifest *m)
{
	unsigned char digest[SHA256_DIGEST_SIZE];
	struct sha256_ctx sha;

	sha256_init(&sha);
	for (size_t i = 0; i < m->count; i++)
		sha256_update(&sha, SHA256_DIGEST_SIZE, m->items[i].digest);
	sha256_digest(&sha, SHA256_DIGEST_SIZE, digest);
	put_hex(hex, digest);
}

/* ---- to JSON ---- */

static json_t *resources_of(const struct gt_manifest *m)
{
	json_t *resources = json_array();

	for (size_t i = 0; i < m->count && resources; i++) {
		char hex[HEX + 1];
		json_t *one;

		put_hex(hex, m->items[i].digest);
		one = json_pack("{s:s,s:s,s:s}", "name", m->items[i].name, "algorithm", "sha256",
		    "digest", hex);
		if (json_array_append_new(resources, one)) {
			json_decref(resources);
			resources = NULL;
		}
	}
	return resources;
}

static json_t *ignored_of(const struct gt_manifest *m)
{
	json_t *paths = json_array();

	for (size_t i = 0; i < m->ignore_count && paths; i++)
		if (json_array_append_new(paths, json_string(m->ignore[i]))) {
			json_decref(paths);
			paths = NULL;
		}
	return paths;
}

json_t *gt_manifest_to_json(const struct gt_manifest *m, struct gt_err *err)
{
	char hex[HEX + 1];
	json_t *out;

	digest_model(hex, m);
	/* json_pack() takes the values of "o", also when it fails. */
	out = json_pack("{s:s,s:[{s:s,s:{s:s}}],s:s,s:{s:{s:s,s:s,s:b,s:o},s:o}}", "_type",
	    statement_type, "subject", "name", m->model, "digest", "sha256", hex, "predicateType",
	    predicate_type, "predicate", "serialization", "method", "files", "hash_type", "sha256",
	    "allow_symlinks", m->symlinks, "ignore_paths", ignored_of(m), "resources",
	    resources_of(m));
	if (!out)
		gt_err_set(err, GT_ENOMEM, "out of memory: the list of %zu files", m->count);
	return out;
}

/* ---- from JSON ---- */

static int fail_damaged(struct gt_err *err, const char *member)
{
	return gt_err_set(err, GT_EFORMAT, "the signed statement has no valid '%s'", member);
}

static int fail_unsupported(
    struct gt_err *err, const char *member, const char *value, const char *wanted)
{
	return gt_err_set(err, GT_ENOTSUP, "%s '%s' is not supported, only '%s'", member,
	    value ? value : "", wanted);
}

static const char *text_of(const json_t *object, const char *member)
{
	return json_string_value(json_object_get(object, member));
}

static int check_types(const json_t *statement, struct gt_err *err)
{
	const char *type = text_of(statement, "_type"), *kind = text_of(statement, "predicateType");

	if (!type || strcmp(type, statement_type))
		return fail_unsupported(err, "a statement of the type", type, statement_type);
	if (kind && !strcmp(kind, old_predicate_type)) {
		gt_err_set(err, GT_ENOTSUP, "the signature has the format of model-signing v0.2");
		return gt_err_hint(err, "sign the model again, in the format of v1.0");
	}
	if (!kind || strcmp(kind, predicate_type))
		return fail_unsupported(err, "a predicate of the type", kind, predicate_type);
	return 0;
}

/* The parts of a file are named NAME:START:END. Files of these names are not searched for, but
 * names are compared. */
static int name_item(
    struct gt_manifest *m, struct gt_manifest_item *item, const char *name, struct gt_err *err)
{
	char *file = gt_arena_strdup(&m->arena, name, err);

	item->name = gt_arena_strdup(&m->arena, name, err);
	item->file = file;
	if (!item->name || !file)
		return GT_ENOMEM;
	for (int i = 0; m->part_bytes && i < 2; i++) {
		char *colon = strrchr(file, ':');

		if (!colon)
			return gt_err_set(err, GT_EFORMAT, "'%s' does not name a part", name);
		*colon = '\0';
	}
	return 0;
}

/* The digest of a part is named after the size of parts, too: "sha256-sharded-1000000000". */
static void name_digest(char name[48], const struct gt_manifest *m)
{
	if (m->part_bytes)
		snprintf(name, 48, "sha256-sharded-%llu", (unsigned long long)m->part_bytes);
	else
		snprintf(name, 48, "sha256");
}

static int read_resource(struct gt_manifest *m, const json_t *resource, struct gt_err *err)
{
	const char *name = text_of(resource, "name"), *hex = text_of(resource, "digest");
	const char *algorithm = text_of(resource, "algorithm");
	struct gt_manifest_item item = { 0 };
	struct base16_decode_ctx decoder;
	size_t size = sizeof(item.digest);
	char wanted[48];
	int rc;

	if (!name || !*name)
		return fail_damaged(err, "name");
	name_digest(wanted, m);
	if (!algorithm || strcmp(algorithm, wanted))
		return fail_unsupported(err, "the digest", algorithm, wanted);
	base16_decode_init(&decoder);
	if (!hex || strlen(hex) != HEX ||
	    !base16_decode_update(&decoder, &size, item.digest, HEX, hex) ||
	    !base16_decode_final(&decoder))
		return fail_damaged(err, "digest");
	rc = name_item(m, &item, name, err);
	if (!rc)
		rc = gt_grow(&m->items, m->count, &m->capacity, sizeof(*m->items), err);
	if (!rc)
		m->items[m->count++] = item;
	return rc;
}

static int read_serialization(struct gt_manifest *m, const json_t *s, struct gt_err *err)
{
	const char *method = text_of(s, "method"), *hash = text_of(s, "hash_type");
	const json_t *path, *paths = json_object_get(s, "ignore_paths");
	double part = json_number_value(json_object_get(s, "shard_size"));
	size_t i;
	int rc = 0;

	if (!hash || strcmp(hash, "sha256"))
		return fail_unsupported(err, "the digest", hash, "sha256");
	if (method && !strcmp(method, "shards")) {
		if (!(part >= 1 && part < 9e15 && floor(part) == part))
			return fail_damaged(err, "shard_size");
		m->part_bytes = (uint64_t)part;
	} else if (!method || strcmp(method, "files")) {
		return fail_unsupported(err, "the method", method, "files");
	}
	m->symlinks = json_is_true(json_object_get(s, "allow_symlinks"));
	json_array_foreach((json_t *)paths, i, path) if (!rc && json_is_string(path)) rc =
	    gt_manifest_ignore(m, json_string_value(path), err);
	if (rc == GT_EINVAL) /* the path is not the user's */
		rc = err->code = GT_EFORMAT;
	return rc;
}

static int check_digest(const struct gt_manifest *m, const json_t *subject, struct gt_err *err)
{
	const char *found = text_of(json_object_get(subject, "digest"), "sha256");
	char hex[HEX + 1];

	digest_model(hex, m);
	if (!found || strcmp(found, hex))
		return gt_err_set(err, GT_EFORMAT,
		    "the digest of the model is not that of the digests of its files");
	return 0;
}

int gt_manifest_from_json(struct gt_manifest *m, const json_t *statement, struct gt_err *err)
{
	const json_t *subjects = json_object_get(statement, "subject"), *resource;
	const json_t *predicate = json_object_get(statement, "predicate");
	const json_t *resources = json_object_get(predicate, "resources");
	const char *name = text_of(json_array_get(subjects, 0), "name");
	size_t i;
	int rc = check_types(statement, err);

	if (rc)
		return rc;
	if (json_array_size(subjects) != 1 || !name)
		return fail_damaged(err, "subject");
	if (!json_array_size(resources))
		return fail_damaged(err, "resources");
	m->model = gt_arena_strdup(&m->arena, name, err);
	rc = m->model ? read_serialization(m, json_object_get(predicate, "serialization"), err)
	              : GT_ENOMEM;
	json_array_foreach((json_t *)resources, i, resource) if (!rc) rc =
	    read_resource(m, resource, err);
	return rc ? rc : check_digest(m, json_array_get(subjects, 0), err);
}
