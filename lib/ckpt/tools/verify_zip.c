/* verify_zip.c - every record of a zip archive: its checksum, the globals of its pickles. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/base/text.h"
#include "lib/ckpt/tools/verify_steps.h"
#include "lib/ckpt/tree/copy_tensors.h"
#include "lib/ckpt/zip/zip.h"

/* ---- checksums ---- */

enum { STORED = 0 };

struct checker {
	struct gt_zip *zip;
	const struct gt_index *known; /* or NULL */
	struct gt_arena *arena;
	struct gt_storage *storages; /* [records], */
	struct gt_copy_place *sums;  /* and the sums of those that are work for threads */
	size_t count;
};

/* The sum of a stored record, where it is known already. */
static const struct gt_known_sum *find_sum(const struct checker *c, const struct gt_zip_record *r)
{
	const void *bytes = c->zip->map->data + r->data;
	const struct gt_known_sum *found =
	    c->known && r->method == STORED ? gt_index_find(c->known, &bytes) : NULL;

	return found && found->size == r->packed ? found : NULL;
}

/* Records without a CRC (0), those that have to be unpacked and those whose sum is known are no
 * work for threads. */
static bool is_work(const struct checker *c, const struct gt_zip_record *r)
{
	return r->method == STORED && r->crc && !find_sum(c, r);
}

static int sum_records(struct checker *c, size_t threads, struct gt_err *err)
{
	const struct gt_mapping *map = c->zip->map;

	c->storages = gt_calloc(c->zip->count, sizeof(*c->storages), err);
	c->sums = gt_calloc(c->zip->count, sizeof(*c->sums), err);
	if (!c->storages || !c->sums)
		return GT_ENOMEM;
	for (size_t i = 0; i < c->zip->count; i++) {
		const struct gt_zip_record *r = &c->zip->records[i];
		struct gt_storage *s = &c->storages[i];

		if (!is_work(c, r))
			continue;
		s->bytes = map->data + r->data;
		s->size_bytes = r->packed;
		s->map = map;
		s->file_offset = r->data;
		c->sums[c->count++] = gt_copy_sum_of_storage(s);
	}
	return gt_copy_sums(c->sums, c->count, threads, err);
}

static int damaged(
    const struct gt_zip_record *r, const char *how, bool *bad, size_t i, struct gt_err *err)
{
	if (!bad)
		return gt_err_set(err, GT_EFORMAT, "record '%s' %s", r->name, how);
	bad[i] = true;
	return 0;
}

/* Check record i. The next sum is *k, which moves on. */
static int check_record(struct checker *c, size_t i, size_t *k, bool *bad, struct gt_err *err)
{
	const struct gt_zip_record *r = &c->zip->records[i];
	const struct gt_known_sum *known = find_sum(c, r);
	uint32_t crc = known ? known->crc : 0;
	const unsigned char *bytes;

	if (!gt_zip_can_unpack(r)) /* it may be intact: it is no damage */
		return bad ? 0 : damaged(r, "cannot be unpacked", NULL, i, err);
	if (r->method != STORED)
		return gt_zip_open_record(c->zip, r, c->arena, &bytes, err)
		           ? damaged(r, "does not unpack", bad, i, err)
		           : 0;
	if (is_work(c, r))
		crc = c->sums[(*k)++].crc;
	if (r->packed != r->size)
		return damaged(r, "has two sizes", bad, i, err);
	return r->crc && crc != r->crc ? damaged(r, "differs from its CRC-32", bad, i, err) : 0;
}

int gt_zip_check_records(struct gt_zip *zip, const struct gt_index *known, struct gt_arena *arena,
    size_t threads, bool *bad, uint64_t *checked_bytes, struct gt_err *err)
{
	struct checker c = { .zip = zip, .known = known, .arena = arena };
	int rc = sum_records(&c, threads, err);

	*checked_bytes = 0;
	for (size_t i = 0, k = 0; i < zip->count && !rc; i++) {
		rc = check_record(&c, i, &k, bad, err);
		if (zip->records[i].crc && gt_zip_can_unpack(&zip->records[i]))
			*checked_bytes += zip->records[i].size;
	}
	free(c.sums);
	free(c.storages);
	return rc;
}

/* ---- the contents of records ---- */

/* Damage that is reported by another check is no error here; a read that failed is one. */
static int unless_damage(int rc, const struct gt_err *found, struct gt_err *err)
{
	if (!rc || rc == GT_EFORMAT || rc == GT_ENOTSUP)
		return 0;
	*err = *found;
	return rc;
}

/* The bytes of a record, which end where it ends: in the file, or inflated into the arena. */
static int open_record(struct gt_mapping *out, uint64_t *at, struct gt_zip *zip,
    const struct gt_zip_record *r, struct gt_arena *arena, struct gt_err *err)
{
	const unsigned char *bytes = NULL;
	int rc;

	*out = *zip->map;
	*at = r->data;
	out->size = (size_t)(r->data + r->packed);
	if (r->method == STORED)
		return 0;
	rc = gt_zip_open_record(zip, r, arena, &bytes, err);
	*out = (struct gt_mapping){ bytes, (size_t)r->size, -1 };
	*at = 0;
	return rc;
}

static int read_pickle(struct gt_verify *v, struct gt_zip *zip, const struct gt_zip_record *r,
    struct gt_arena *arena, struct gt_err *err)
{
	bool is_one = gt_text_ends_with(r->name, ".pkl");
	struct gt_err found = GT_ERR_INIT;
	struct gt_mapping map;
	uint64_t at;
	size_t used;
	int rc = open_record(&map, &at, zip, r, arena, &found);

	/* A wrong checksum is found elsewhere. */
	if (rc)
		return unless_damage(rc, &found, err);
	rc = gt_verify_pickle(v, &map, at, r->name, is_one, &used, err);
	/* Opening the file tells of data.pkl. */
	if (rc || used || !is_one || gt_text_ends_with(r->name, "/data.pkl"))
		return rc;
	return gt_verify_find(v, GT_FINDING_DAMAGE, "", err,
	    "record '%s' cannot be read as the pickle its name promises", r->name);
}

/* Those of records of any name. */
static int read_pickles(struct gt_verify *v, struct gt_zip *zip, struct gt_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < zip->count && !rc; i++) {
		struct gt_arena arena = { 0 };

		rc = read_pickle(v, zip, &zip->records[i], &arena, err);
		gt_arena_release(&arena);
	}
	return rc;
}

/* Records that gtrain cannot unpack may be intact, so they are not reported as damaged. */
static int report_packed(struct gt_verify *v, const struct gt_zip *zip, struct gt_err *err)
{
	struct gt_name_list names = { .max = 3 };
	size_t count;
	int rc = 0;

	for (size_t i = 0; i < zip->count; i++)
		if (!gt_zip_can_unpack(&zip->records[i]))
			gt_name_list_add(&names, "'%.80s' (method %u)", zip->records[i].name,
			    zip->records[i].method);
	count = names.count;
	if (count)
		rc = gt_verify_find(v, GT_FINDING_UNREAD,
		    "unpack the archive, and pack it with `zip -0`", err,
		    "%zu record%s packed by a method that gtrain cannot unpack: %s", count,
		    count == 1 ? " is" : "s are", gt_name_list_text(&names));
	gt_name_list_release(&names);
	return rc;
}

static int check_sums(struct gt_verify *v, struct gt_zip *zip, const struct gt_index *known,
    size_t threads, struct gt_err *err)
{
	bool *bad = gt_calloc(zip->count, sizeof(*bad), err);
	uint64_t checked = 0;
	size_t silent = 0;
	int rc = GT_ENOMEM;

	if (bad)
		rc = gt_zip_check_records(zip, known, &v->arena, threads, bad, &checked, err);
	v->checked_bytes += checked;
	for (size_t i = 0; i < zip->count && !rc; i++) {
		silent += !zip->records[i].crc && zip->records[i].size;
		if (bad[i])
			rc = gt_verify_find(v, GT_FINDING_DAMAGE, "copy or download the file again",
			    err, "record '%s' is damaged: it differs from its CRC-32",
			    zip->records[i].name);
	}
	if (!rc)
		rc = report_packed(v, zip, err);
	if (!rc && silent)
		rc = gt_verify_find(v, GT_FINDING_NOTE, "", err,
		    "%zu record%s no CRC-32 to compare with", silent,
		    silent == 1 ? " has" : "s have");
	free(bad);
	return rc;
}

int gt_verify_zip(struct gt_verify *v, const struct gt_mapping *map, const struct gt_index *known,
    size_t threads, struct gt_err *err)
{
	struct gt_err found = GT_ERR_INIT;
	struct gt_zip zip;
	uint64_t dead = 0;
	int rc = gt_zip_read(&zip, map, &v->arena, &found);

	if (rc)
		return unless_damage(rc, &found, err); /* opening the file reports damage */
	v->records += zip.count;
	rc = check_sums(v, &zip, known, threads, err);
	if (!rc)
		rc = gt_zip_dead_bytes(&zip, &dead, err);
	v->dead_bytes += dead;
	return rc ? rc : read_pickles(v, &zip, err);
}
