/* zip.c - torch.save's zip archives (since 1.6), and torch.jit.save's. */
#include "lib/ckpt/torch/zip.h"
#include "lib/base/text.h"

#include <stdio.h>
#include <string.h>

#include "lib/ckpt/bytes.h"
#include "lib/ckpt/dcp/dcp.h"
#include "lib/ckpt/edit/private.h"
#include "lib/ckpt/tools/digest.h"
#include "lib/ckpt/torch/write.h"

/*
 * The records of an archive. ROOT is the same for all records, usually the name of the file without
 * its ending.
 *
 *   ROOT/data.pkl                  the pickle
 *   ROOT/data/KEY                  the bytes of a storage
 *   ROOT/byteorder                 "little" or "big"; if absent, gtrain assumes "little"
 *   ROOT/version                   version of the format
 *   ROOT/.data/serialization_id    not needed
 *   ROOT/.format_version           not needed
 *   ROOT/.storage_alignment        not needed
 *
 * PyTorch before 2.1 writes no ROOT/byteorder, although it writes the bytes in the byte order of
 * its host. TorchScript adds these records:
 *
 *   ROOT/constants.pkl             a pickle with the tensors that the code uses as constants
 *   ROOT/constants/KEY             the bytes of their storages
 *   ROOT/code/...                  source code of the classes of the objects in data.pkl
 *
 * Source: torch/serialization.py, caffe2/serialize/inline_container.cc,
 * torch/csrc/jit/serialization/export_module.cpp.
 */

static bool sniff_torch_zip(const struct gt_mapping *map)
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
	{ "model.weights.h5", "a Keras model", "export it as .pth" },
	{ "Manifest.json", "a Core ML package", "export the model it was made of" },
};

static int fail_foreign_zip(const struct gt_zip *zip, struct gt_err *err)
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
		if (gt_ckpt_is_named(zip->records[k].name))
			return gt_err_hint(
			    err, "there is '%.100s' in it: unpack it first", zip->records[k].name);
	return gt_err_hint(err, "if a folder of checkpoints was zipped, unpack it first");
}

/*
 * ROOT is the part of the name before /data.pkl. Two such records are an error, because readers
 * would differ in the one they take. Without such a record, a->root stays NULL.
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
	return 0;
}

/* ---- its records ---- */

const struct gt_zip_record *gt_torch_archive_find(
    const struct gt_torch_archive *a, const char *name)
{
	char path[1024];
	int n = snprintf(path, sizeof(path), "%.*s/%s", a->root_length, a->root, name);

	return n < (int)sizeof(path) ? gt_zip_find(&a->zip, path) : NULL;
}

int gt_torch_archive_byteorder(struct gt_torch_archive *a, struct gt_err *err)
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
	int rc = gt_torch_archive_byteorder(a, err);

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

/* ---- an archive whose end is missing: where it was cut, and how much is gone ---- */

/*
 * The directory of a zip stands at its end, but each record has a header before it. PyTorch leaves
 * the sizes out of those; data.pkl, the first record, tells them: it is as long as its pickle, and
 * names every storage with its size.
 */

enum {
	DESCRIPTOR_BYTES =
	    16, /* a descriptor after a record has a signature, a CRC-32 and two sizes */
	DESCRIPTOR64_BYTES = 24,
	END_MAX = GT_ZIP_END_BYTES +
	          GT_ZIP_COMMENT_MAX, /* maximum bytes of the end record with its comment */
	FAR = 4096,                   /* how far to look for the end of a record of unknown size */
};

struct cut {
	const struct gt_mapping *map;
	struct gt_torch_objects objects;
	bool has_pickle;
	char root[256], name[512]; /* `name` is the record's */
	uint64_t at;               /* offset of the next header */
	uint64_t end;   /* offset of the end of the record's data, perhaps beyond the file */
	uint64_t whole; /* bytes of storages that are there */
};

static bool has(const struct cut *w, uint64_t at, const char *two)
{
	return gt_inside(at, 4, w->map->size) && !memcmp(w->map->data + at, "PK", 2) &&
	       !memcmp(w->map->data + at + 2, two, 2);
}

/* Read the pickle that names the storages. GT_EFORMAT: the file ends before it does. */
static int read_pickle(struct cut *w, uint64_t start)
{
	struct gt_tree *unused;
	size_t slash = strlen(w->name) - strlen("/data.pkl"), used = 0;
	int rc = gt_pickle_read_file(&unused, w->objects.arena, w->map, start, NULL, &used,
	    &w->objects.hooks, GT_ERR_IGNORED);

	if (rc)
		return rc;
	if (slash >= sizeof(w->root))
		return GT_EFORMAT;
	memcpy(w->root, w->name, slash);
	w->root[slash] = '\0';
	w->has_pickle = true;
	w->end = start + used;
	return 0;
}

/* The storage whose bytes the record holds, or NULL. */
static const struct gt_torch_storage *storage_of(const struct cut *w)
{
	size_t n = strlen(w->root);

	if (!w->has_pickle || strncmp(w->name, w->root, n) || strncmp(w->name + n, "/data/", 6))
		return NULL;
	return gt_torch_storage_get(&w->objects, w->name + n + 6);
}

/* Where the data of a small record of unknown size ends; 0 if that cannot be told. */
static uint64_t find_descriptor(const struct cut *w, uint64_t start)
{
	for (uint64_t at = start; at < start + FAR; at++)
		if (has(w, at, "\7\10"))
			return at;
	return 0;
}

/* The sizes of 32 bits in the header, if it has them; not of zip64. */
static uint64_t stated_size(const unsigned char *header)
{
	uint64_t packed = gt_get_le(header + 18, 4);

	return packed == UINT32_MAX ? 0 : packed;
}

/* The header at w->at: sets name and end. False when that cannot be told. */
static bool read_record(struct cut *w)
{
	unsigned char header[GT_ZIP_LOCAL_BYTES];
	uint64_t name_length, start;

	if (!gt_inside(w->at, GT_ZIP_LOCAL_BYTES, w->map->size) ||
	    gt_map_peek(w->map, w->at, header, sizeof(header), GT_ERR_IGNORED))
		return false;
	name_length = gt_get_le(header + 26, 2);
	start = w->at + GT_ZIP_LOCAL_BYTES + name_length + gt_get_le(header + 28, 2);
	if (start >= w->map->size || name_length >= sizeof(w->name))
		return false;
	if (gt_map_peek(w->map, w->at + GT_ZIP_LOCAL_BYTES, w->name, name_length, GT_ERR_IGNORED))
		return false;
	w->name[name_length] = '\0';
	if (!w->has_pickle && gt_text_ends_with(w->name, "/data.pkl"))
		return !read_pickle(w, start);
	if (storage_of(w))
		w->end = start + storage_of(w)->bytes;
	else if (stated_size(header))
		w->end = start + stated_size(header);
	else
		w->end = find_descriptor(w, start);
	return w->end >= start;
}

/* Step over the descriptor behind a record, if there is one. */
static void next_record(struct cut *w)
{
	w->at = w->end;
	if (!has(w, w->at, "\7\10"))
		return;
	if (has(w, w->at + DESCRIPTOR64_BYTES, "\3\4") ||
	    has(w, w->at + DESCRIPTOR64_BYTES, "\1\2"))
		w->at += DESCRIPTOR64_BYTES;
	else
		w->at += DESCRIPTOR_BYTES;
}

static uint64_t all_storages(const struct cut *w)
{
	uint64_t sum = 0;

	for (const struct gt_torch_storage *s = w->objects.storages; s; s = s->next)
		if (__builtin_add_overflow(sum, s->bytes, &sum))
			return UINT64_MAX;
	return sum;
}

static int say_cut(const struct cut *w, struct gt_err *err)
{
	uint64_t all = all_storages(w);

	if (all > w->whole)
		gt_err_set(err, GT_EFORMAT,
		    "the file is cut: it ends at byte %zu, with %llu of the %llu bytes of its tensors: "
		    "at least %llu bytes are missing",
		    w->map->size, (unsigned long long)w->whole, (unsigned long long)all,
		    (unsigned long long)(all - w->whole));
	else
		gt_err_set(err, GT_EFORMAT,
		    "the file is cut: it ends at byte %zu, with all its tensors, but without the "
		    "directory of the zip archive",
		    w->map->size);
	return gt_err_hint(err, "copy or download it again, and compare sizes");
}

/* Walk the records from the start; true when the file ends before the directory begins. */
static bool runs_out(struct cut *w)
{
	while (has(w, w->at, "\3\4") && read_record(w)) {
		const struct gt_torch_storage *s = storage_of(w);
		uint64_t beyond = w->end > w->map->size ? w->end - w->map->size : 0;

		if (s)
			w->whole += s->bytes - (beyond < s->bytes ? beyond : s->bytes);
		if (beyond)
			return true;
		next_record(w);
	}
	return w->has_pickle && (w->at + GT_ZIP_LOCAL_BYTES > w->map->size ||
	                            has(w, w->at, "\1\2") || has(w, w->at, "\3\4"));
}

static bool has_end_record(const struct gt_mapping *map)
{
	size_t far = map->size < END_MAX ? map->size : END_MAX;

	return memmem(map->data + map->size - far, far, "PK\5\6", 4) != NULL;
}

/* Says where the archive ends and how many bytes of tensors are missing, as far as the records that
 * are there can tell; else leaves `err` as it is. */
static void report_cut(const struct gt_mapping *map, struct gt_err *err)
{
	struct gt_arena arena = { 0 };
	struct cut w = { .map = map };

	gt_torch_objects_init(&w.objects, &arena);
	if (!has_end_record(map) && runs_out(&w))
		say_cut(&w, err);
	gt_torch_objects_release(&w.objects);
	gt_arena_release(&arena);
}

/* ---- the whole ---- */

static int open_zip(struct gt_ckpt *ckpt, struct gt_err *err)
{
	struct gt_torch_archive a = { .arena = &ckpt->arena };
	struct gt_torch_part data = { 0 };
	int rc;

	if (ckpt->path && gt_dcp_is_rank_file(ckpt->path))
		return gt_dcp_fail_rank_file(err);
	rc = gt_zip_read(&a.zip, &ckpt->map, a.arena, err);
	if (rc == GT_EFORMAT)
		report_cut(&ckpt->map, err);
	if (!rc)
		rc = find_root(&a, err);
	if (!rc && !a.root)
		return gt_torch_export_is(&a.zip) ? gt_torch_export_open(ckpt, &a, err)
		                                  : fail_foreign_zip(&a.zip, err);
	if (!rc)
		rc = read_archive(ckpt, &a, &data, err);
	if (!rc)
		rc = gt_pickle_state_dict(data.tree, a.arena, err);
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

int gt_torch_zip_read(
    struct gt_tree **out, const struct gt_mapping *part, struct gt_arena *arena, struct gt_err *err)
{
	struct gt_torch_archive a = { .arena = arena };
	struct gt_torch_part data = { 0 };
	int rc;

	*out = NULL;
	if (!sniff_torch_zip(part))
		return gt_err_set(err, GT_EFORMAT, "no archive of torch.save() begins there");
	rc = gt_zip_read(&a.zip, part, arena, err);
	if (!rc)
		rc = find_root(&a, err);
	if (!rc && !a.root)
		return fail_foreign_zip(&a.zip, err);
	if (!rc)
		rc = gt_torch_archive_byteorder(&a, err);
	if (!rc)
		rc = gt_torch_archive_read(&a, "data", &data, err);
	if (!rc)
		*out = data.tree;
	return rc;
}

const struct gt_ckpt_format gt_format_torch_zip = {
	.name = "torch-zip",
	.sniff = sniff_torch_zip,
	.open = open_zip,
	.apply = gt_torch_zip_apply,
	.write = gt_torch_write_zip,
};

/* Told from the above when it is open. */
const struct gt_ckpt_format gt_format_torchscript = {
	.name = "torchscript", .sniff = sniff_torch_zip, .open = open_zip
};

const struct gt_ckpt_format gt_format_torch_export = {
	.name = "torch-export", .sniff = sniff_torch_zip, .open = open_zip
};
