/* torch_zip.c - torch.save's zip archives (since 1.6): data.pkl, one record per storage. */
#include <stdio.h>
#include <string.h>

#include "lib/ckpt/bytes.h"
#include "lib/ckpt/format.h"
#include "lib/ckpt/torch.h"
#include "lib/ckpt/zip_layout.h"

/*
 * ROOT/data.pkl       the pickle
 * ROOT/data/KEY       the bytes of a storage
 * ROOT/byteorder      "little" or "big"; absent before 2.1: little (or the writer's, untold)
 * ROOT/version        of the format
 * ROOT is one name for all, the file's stem as a rule.
 * Source: torch/serialization.py, caffe2/serialize/inline_container.cc.
 */

struct archive {
	struct gt_zip zip;
	const char *root; /* "archive", not zero-terminated */
	int root_length;
	struct gt_arena *arena;
};

static bool sniff(const struct gt_mapping *map)
{
	return map->size >= 4 && !memcmp(map->data, "PK\3\4", 4);
}

/* ROOT is what stands before /data.pkl. */
static int find_root(struct archive *a, struct gt_err *err)
{
	for (size_t i = 0; i < a->zip.count; i++) {
		const char *name = a->zip.records[i].name;
		const char *slash = strchr(name, '/');

		if (!slash || strcmp(slash, "/data.pkl"))
			continue;
		a->root = name;
		a->root_length = (int)(slash - name);
		return 0;
	}
	gt_err_set(err, GT_EFORMAT, "a zip archive, but without data.pkl: not torch's");
	return gt_err_hint(err, "if a folder of checkpoints was zipped, unpack it first");
}

/* The record ROOT/NAME, or NULL. */
static const struct gt_zip_record *find(const struct archive *a, const char *name)
{
	char path[1024];
	int n = snprintf(path, sizeof(path), "%.*s/%s", a->root_length, a->root, name);

	return n < (int)sizeof(path) ? gt_zip_find(&a->zip, path) : NULL;
}

static int read_byteorder(struct archive *a, bool *swapped, struct gt_err *err)
{
	const struct gt_zip_record *r = find(a, "byteorder");
	const unsigned char *bytes;
	bool big = false;
	int rc;

	if (r) {
		rc = gt_zip_open_record(&a->zip, r, a->arena, &bytes, err);
		if (rc)
			return rc;
		big = r->size == 3 && !memcmp(bytes, "big", 3);
		if (!big && (r->size != 6 || memcmp(bytes, "little", 6)))
			return gt_err_set(err, GT_EFORMAT,
			    "record '%s' says neither 'little' nor 'big'", r->name);
	}
	*swapped = big != gt_host_is_big();
	return 0;
}

static int open_storage(struct archive *a, struct gt_torch_storage *s, struct gt_err *err)
{
	char name[512];
	const struct gt_zip_record *r;

	if (!s->bytes)
		return 0;
	snprintf(name, sizeof(name), "data/%s", s->base.key);
	r = find(a, name);
	if (!r)
		return gt_err_set(err, GT_EFORMAT, "storage '%.80s' has no record data/%.80s",
		    s->base.key, s->base.key);
	if (r->size < s->bytes)
		return gt_err_set(err, GT_EFORMAT,
		    "storage '%.80s' needs %llu bytes, its record has %llu", s->base.key,
		    (unsigned long long)s->bytes, (unsigned long long)r->size);
	return gt_zip_storage(&a->zip, r, a->arena, &s->base, err);
}

static int read_pickle(
    struct archive *a, struct gt_torch_objects *objects, struct gt_ckpt *ckpt, struct gt_err *err)
{
	const struct gt_zip_record *r = find(a, "data.pkl");
	int rc = gt_zip_open_record(&a->zip, r, a->arena, &ckpt->pickle, err);

	if (!rc)
		rc = gt_pickle_read(&ckpt->root, a->arena, ckpt->pickle, r->size,
		    &ckpt->pickle_bytes, &objects->hooks, err);
	ckpt->locations = objects->locations;
	return rc;
}

static int open_zip(struct gt_ckpt *ckpt, struct gt_err *err)
{
	struct archive a = { .arena = &ckpt->arena };
	struct gt_torch_objects objects;
	bool swapped = false;
	int rc;

	gt_torch_objects_init(&objects, a.arena);
	rc = gt_zip_read(&a.zip, &ckpt->map, a.arena, err);
	if (!rc)
		rc = find_root(&a, err);
	if (!rc)
		rc = read_byteorder(&a, &swapped, err);
	if (!rc)
		rc = read_pickle(&a, &objects, ckpt, err);
	for (struct gt_torch_storage *s = objects.storages; s && !rc; s = s->next)
		rc = open_storage(&a, s, err);
	if (!rc)
		rc = gt_torch_objects_finish(&objects, swapped, err);
	gt_torch_objects_release(&objects);
	return rc == GT_EFORMAT ? gt_zip_hint_repair(&ckpt->map, err) : rc;
}

const struct gt_ckpt_format gt_format_torch_zip = {
	.name = "torch-zip",
	.sniff = sniff,
	.open = open_zip,
};
