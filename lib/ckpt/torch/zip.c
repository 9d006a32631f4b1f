/* zip.c - torch.save's zip archives (since 1.6), and torch.jit.save's. */
#include "lib/ckpt/torch/zip.h"
#include "lib/base/text.h"

#include <stdio.h>
#include <string.h>

#include "lib/ckpt/bytes.h"
#include "lib/ckpt/edit/private.h"
#include "lib/ckpt/tools/digest.h"
#include "lib/ckpt/torch/write.h"

static bool sniff(const struct gt_mapping *map)
{
	return map->size >= 4 && !memcmp(map->data, "PK\3\4", 4);
}

/* ---- whose archive it is ---- */

/* Other files that are zip archives: the end of a record's name, the kind of file, the advice. */
static const struct {
	const char *ending, *what, *hint;
} others[] = {
	{ "/.data/extern_modules", "a package of torch.package", "load it with torch.package" },
	{ "/model.json", "TorchScript of PyTorch 1.0 to 1.3",
	    "load it with such a version and save the state_dict" },
	{ "MAR-INF/MANIFEST.json", "a model archive of TorchServe", "unpack it with unzip" },
	{ "/archive_format", "a program of torch.export", "save the model's state_dict" },
	{ "serialized_exported_program.json", "a program of torch.export",
	    "save the model's state_dict" },
	{ "model.weights.h5", "a Keras model", "export it as .pth" },
	{ "Manifest.json", "a Core ML package", "export the model it was made of" },
};

static const char *const checkpoints[] = { ".pth", ".pt", ".th", ".bin", ".ckpt", ".safetensors",
	".pth.tar", ".npz" };

static int fail(const struct gt_zip *zip, struct gt_err *err)
{
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
		for (size_t k = 0; k < zip->count; k++) {
			if (!gt_text_ends_with(zip->records[k].name, others[i].ending))
				continue;
			gt_err_set(
			    err, GT_ENOTSUP, "a zip archive without data.pkl: %s", others[i].what);
			return gt_err_hint(err, "%s", others[i].hint);
		}
	}
	gt_err_set(err, GT_EFORMAT, "a zip archive, but without data.pkl: not torch's");
	for (size_t k = 0; k < zip->count; k++)
		for (size_t i = 0; i < sizeof(checkpoints) / sizeof(*checkpoints); i++)
			if (gt_text_ends_with(zip->records[k].name, checkpoints[i]))
				return gt_err_hint(err, "there is '%.100s' in it: unpack it first",
				    zip->records[k].name);
	return gt_err_hint(err, "if a folder of checkpoints was zipped, unpack it first");
}

/*
 * ROOT is the part of the name before /data.pkl. Two such records are an error, because readers
 * would differ in the one they take.
 */
static int find_root(struct gt_torch_archive *a, struct gt_err *err)
{
	for (size_t i = 0; i < a->zip.count; i++) {
		const char *name = a->zip.records[i].name;
		const char *slash = strchr(name, '/');

		if (!slash || strcmp(slash, "/data.pkl"))
			continue;
		if (a->root)
			return gt_err_set(err, GT_EFORMAT,
			    "two checkpoints in one archive: '%.*s' and '%.80s'",
			    a->root_length < 80 ? a->root_length : 80, a->root, name);
		a->root = name;
		a->root_length = (int)(slash - name);
	}
	return a->root ? 0 : fail(&a->zip, err);
}

/* ---- its records ---- */

const struct gt_zip_record *gt_torch_archive_find(
    const struct gt_torch_archive *a, const char *name)
{
	char path[1024];
	int n = snprintf(path, sizeof(path), "%.*s/%s", a->root_length, a->root, name);

	return n < (int)sizeof(path) ? gt_zip_find(&a->zip, path) : NULL;
}

static int read_byteorder(struct gt_torch_archive *a, struct gt_err *err)
{
	const struct gt_zip_record *r = gt_torch_archive_find(a, "byteorder");
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
	a->swapped = big != gt_host_is_big();
	return 0;
}

static int open_storage(
    struct gt_torch_archive *a, const char *part, struct gt_torch_storage *s, struct gt_err *err)
{
	char name[512];
	const struct gt_zip_record *r;

	if (!s->bytes)
		return 0;
	snprintf(name, sizeof(name), "%s/%s", part, s->base.key);
	r = gt_torch_archive_find(a, name);
	if (!r)
		return gt_err_set(err, GT_EFORMAT, "storage '%.80s' has no record %s/%.80s",
		    s->base.key, part, s->base.key);
	if (r->size < s->bytes)
		return gt_err_set(err, GT_EFORMAT,
		    "storage '%.80s' needs %llu bytes, its record has %llu", s->base.key,
		    (unsigned long long)s->bytes, (unsigned long long)r->size);
	return gt_zip_storage(&a->zip, r, a->arena, &s->base, err);
}

int gt_torch_archive_read(
    struct gt_torch_archive *a, const char *part, struct gt_torch_part *out, struct gt_err *err)
{
	const struct gt_zip_record *r;
	struct gt_torch_objects objects;
	char name[32];
	int rc;

	snprintf(name, sizeof(name), "%s.pkl", part);
	r = gt_torch_archive_find(a, name);
	if (!r)
		return gt_err_set(err, GT_EFORMAT, "there is no record %s", name);
	gt_torch_objects_init(&objects, a->arena);
	rc = gt_zip_open_record(&a->zip, r, a->arena, &out->pickle, err);
	if (!rc)
		rc = gt_pickle_read(&out->tree, a->arena, out->pickle, r->size, &out->pickle_bytes,
		    &objects.hooks, err);
	if (!rc && out->pickle_bytes != r->size)
		rc = gt_err_set(err, GT_EFORMAT, "%llu bytes follow the pickle in record '%s'",
		    (unsigned long long)(r->size - out->pickle_bytes), r->name);
	for (struct gt_torch_storage *s = objects.storages; s && !rc; s = s->next)
		rc = open_storage(a, part, s, err);
	if (!rc)
		rc = gt_torch_objects_finish(&objects, a->swapped, err);
	out->locations = objects.locations;
	out->record = r->name;
	gt_torch_objects_release(&objects);
	return rc;
}

static int read_archive(struct gt_ckpt *ckpt, struct gt_torch_archive *a,
    struct gt_torch_part *data, struct gt_err *err)
{
	int rc = find_root(a, err);

	if (!rc)
		rc = read_byteorder(a, err);
	if (!rc)
		rc = gt_torch_archive_read(a, "data", data, err);
	if (!rc && gt_torch_archive_find(a, "constants.pkl")) {
		ckpt->format = &gt_format_torchscript;
		rc = gt_torchscript_shape(a, data->tree, err);
	}
	return rc;
}

/* Only finds the digests: a caller that compares them reads them. */
static int find_digests(struct gt_torch_archive *a, struct gt_ckpt *ckpt, struct gt_err *err)
{
	const struct gt_zip_record *r = gt_torch_archive_find(a, GT_DIGEST_RECORD);

	if (!r)
		return 0;
	ckpt->digests = gt_arena_alloc(a->arena, sizeof(*ckpt->digests), err);
	if (!ckpt->digests)
		return GT_ENOMEM;
	return gt_zip_storage(&a->zip, r, a->arena, ckpt->digests, err);
}

static int open_zip(struct gt_ckpt *ckpt, struct gt_err *err)
{
	struct gt_torch_archive a = { .arena = &ckpt->arena };
	struct gt_torch_part data = { 0 };
	int rc = gt_zip_read(&a.zip, &ckpt->map, a.arena, err);

	if (rc == GT_EFORMAT)
		gt_torch_cut(&ckpt->map, err);
	if (!rc)
		rc = read_archive(ckpt, &a, &data, err);
	if (!rc)
		rc = find_digests(&a, ckpt, err);
	if (rc)
		return rc == GT_EFORMAT ? gt_zip_hint_repair(&ckpt->map, err) : rc;
	ckpt->root = data.tree;
	ckpt->pickle = data.pickle;
	ckpt->pickle_bytes = data.pickle_bytes;
	ckpt->locations = data.locations;
	ckpt->pickle_record = data.record;
	return 0;
}

const struct gt_ckpt_format gt_format_torch_zip = {
	.name = "torch-zip",
	.sniff = sniff,
	.open = open_zip,
	.apply = gt_torch_zip_apply,
	.write = gt_torch_write_zip,
};

/* Told from the above when it is open. */
const struct gt_ckpt_format gt_format_torchscript = {
	.name = "torchscript", .sniff = sniff, .open = open_zip
};
