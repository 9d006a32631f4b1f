/* verify_zip.c - every record of a zip archive: its checksum, the globals of its pickles. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/base/text.h"
#include "lib/ckpt/tools/verify_steps.h"
#include "lib/ckpt/tree/copy_tensors.h"
#include "lib/ckpt/zip/crc.h"
#include "lib/ckpt/zip/zip.h"

/* ---- checksums ---- */

enum { STORED = 0, DEFLATED = 8 };

/* Bytes that are inflated to compare sums: so many, or so many times the file's. */
#define CHECK_MAX ((uint64_t)4 << 30)
enum { CHECK_RATIO = 20 };

/* Bytes of a deflated record in which a pickle is looked for, at first and at most. */
enum { START_BYTES = 64 << 10, PICKLE_MAX = 256 << 20 };

struct checker {
	struct gt_zip *zip;
	const struct gt_index *known; /* or NULL */
	uint64_t inflate_left;        /* bytes that may still be inflated */
	struct gt_storage *storages;  /* [records], */
	struct gt_copy_place *sums;   /* and the sums of those that are work for threads */
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
	return gt_copy_sums(c->sums, c->count, threads, NULL, err);
}

/* The CRC-32 of a record that is inflated piece by piece. */
struct inflating {
	uint32_t crc;
	uint64_t left; /* bytes that may still be inflated */
};

static int add_to_sum(void *self, const unsigned char *bytes, size_t size, struct gt_err *err)
{
	struct inflating *sum = self;

	(void)err;
	sum->crc = gt_crc32(sum->crc, bytes, size);
	sum->left -= size < sum->left ? size : sum->left;
	return sum->left ? 0 : 1;
}

/* No memory is needed, so the time alone is bounded. */
static int check_deflated(struct checker *c, const struct gt_zip_record *r,
    enum gt_record_state *state, struct gt_err *err)
{
	struct inflating sum = { .left = c->inflate_left };
	struct gt_zip_inflated got;
	int rc = 0;

	*state = GT_RECORD_UNCHECKED;
	if (r->size >= sum.left)
		return 0;
	rc = gt_zip_inflate(&got, c->zip->map, r->data, r->packed, add_to_sum, &sum, err);
	c->inflate_left = sum.left;
	if (gt_zip_inflated_whole(&got, r) && (!r->crc || sum.crc == r->crc))
		*state = GT_RECORD_SOUND;
	else
		*state = GT_RECORD_DAMAGED;
	return rc;
}

/* Check record i. The next sum is *k, which moves on. */
static int check_record(
    struct checker *c, size_t i, size_t *k, enum gt_record_state *state, struct gt_err *err)
{
	const struct gt_zip_record *r = &c->zip->records[i];
	const struct gt_known_sum *known = find_sum(c, r);
	uint32_t crc = known ? known->crc : 0;

	*state = GT_RECORD_UNKNOWN_METHOD;
	if (!gt_zip_can_unpack(r))
		return 0;
	if (r->method != STORED)
		return check_deflated(c, r, state, err);
	if (is_work(c, r))
		crc = c->sums[(*k)++].crc;
	*state =
	    r->packed != r->size || (r->crc && crc != r->crc) ? GT_RECORD_DAMAGED : GT_RECORD_SOUND;
	return 0;
}

int gt_zip_check_records(struct gt_zip *zip, const struct gt_index *known, size_t threads,
    enum gt_record_state *states, uint64_t *checked_bytes, struct gt_err *err)
{
	struct checker c = { .zip = zip, .known = known };
	uint64_t ratio = (uint64_t)CHECK_RATIO * zip->map->size;
	int rc = sum_records(&c, threads, err);

	c.inflate_left = ratio > CHECK_MAX ? ratio : CHECK_MAX;
	*checked_bytes = 0;
	for (size_t i = 0, k = 0; i < zip->count && !rc; i++) {
		rc = check_record(&c, i, &k, &states[i], err);
		if (zip->records[i].crc && states[i] <= GT_RECORD_DAMAGED)
			*checked_bytes += zip->records[i].size;
	}
	free(c.sums);
	free(c.storages);
	return rc;
}

/* ---- the contents of records ---- */

/* The start of a deflated record. */
struct start {
	unsigned char *bytes;
	size_t size, capacity, max;
};

static int keep_start(void *self, const unsigned char *bytes, size_t size, struct gt_err *err)
{
	struct start *s = self;

	if (size > s->max - s->size)
		size = s->max - s->size;
	if (s->size + size > s->capacity) {
		size_t capacity = 2 * (s->size + size);
		unsigned char *grown = gt_reallocarray(s->bytes, capacity, 1, err);

		if (!grown)
			return GT_ENOMEM;
		s->bytes = grown;
		s->capacity = capacity;
	}
	memcpy(s->bytes + s->size, bytes, size);
	s->size += size;
	return s->size == s->max;
}

/* Look through the first bytes of a deflated record, at most `max`. */
static int look_at_start(struct gt_verify *v, const struct gt_mapping *map, uint64_t at,
    uint64_t packed, uint64_t *budget, size_t max, struct gt_verify_source *source,
    struct gt_err *err)
{
	struct start start = { .max = *budget < max ? (size_t)*budget : max };
	struct gt_zip_inflated got;
	struct gt_mapping shown;
	int rc = gt_zip_inflate(&got, map, at, packed, keep_start, &start, err);

	*budget -= start.size;
	shown = (struct gt_mapping){ start.bytes, start.size, -1, 0 };
	source->map = &shown;
	source->at = 0;
	source->cut = start.size == start.max;
	if (!rc)
		rc = gt_verify_pickle(v, source, err);
	free(start.bytes);
	return rc;
}

/* Most records are no pickles, which their first bytes show. */
int gt_verify_deflated(struct gt_verify *v, const struct gt_mapping *map, uint64_t at,
    uint64_t packed, uint64_t *budget, struct gt_verify_source *source, struct gt_err *err)
{
	int rc;

	source->more = *budget > START_BYTES;
	rc = look_at_start(v, map, at, packed, budget, START_BYTES, source, err);
	if (rc || !source->unfinished)
		return rc;
	source->more = false;
	return look_at_start(v, map, at, packed, budget, PICKLE_MAX, source, err);
}

static int read_pickle(struct gt_verify *v, const struct gt_zip *zip, const struct gt_zip_record *r,
    uint64_t *budget, struct gt_err *err)
{
	bool torch = !strcmp(v->format, "torch-zip") && gt_text_ends_with(r->name, "/data.pkl");
	bool sure = gt_text_ends_with(r->name, ".pkl");
	struct gt_mapping map = *zip->map;
	struct gt_verify_source source = { .map = &map, .at = r->data, .where = r->name };
	int rc = 0;

	source.trust = torch ? GT_VERIFY_TORCH : sure ? GT_VERIFY_PICKLE : GT_VERIFY_MAYBE;
	map.size = (size_t)(r->data + r->packed);
	if (r->method == STORED)
		rc = gt_verify_pickle(v, &source, err);
	else if (r->method == DEFLATED)
		rc = gt_verify_deflated(v, zip->map, r->data, r->packed, budget, &source, err);
	else
		return 0;
	/* Opening the file tells of data.pkl. */
	if (rc || source.used || !sure || gt_text_ends_with(r->name, "/data.pkl"))
		return rc;
	return gt_verify_find(v, GT_FINDING_DAMAGE, "", err,
	    "record '%s' cannot be read as the pickle its name promises", r->name);
}

/* Scan the pickles in records of any name. */
static int read_pickles(struct gt_verify *v, const struct gt_zip *zip, struct gt_err *err)
{
	uint64_t budget = PICKLE_MAX + 2 * gt_zip_unpack_limit(zip);
	int rc = 0;

	for (size_t i = 0; i < zip->count && !rc; i++)
		rc = read_pickle(v, zip, &zip->records[i], &budget, err);
	return rc;
}

/* Records that could not be checked may be intact, so they are not reported as damaged. */
static int report_unchecked(struct gt_verify *v, const struct gt_zip *zip,
    const enum gt_record_state *states, enum gt_record_state state, struct gt_err *err)
{
	struct gt_name_list names = { .max = 3 };
	bool limit = state == GT_RECORD_UNCHECKED;
	size_t count;
	int rc = 0;

	for (size_t i = 0; i < zip->count; i++) {
		if (states[i] != state)
			continue;
		if (limit)
			gt_name_list_add(&names, "'%.80s'", zip->records[i].name);
		else
			gt_name_list_add(&names, "'%.80s' (method %u)", zip->records[i].name,
			    zip->records[i].method);
	}
	count = names.count;
	if (count)
		rc = gt_verify_find(v, GT_FINDING_UNREAD,
		    limit
		        ? "if the file is meant to be so large, unpack it and pack it with `zip -0`"
		        : "unpack the archive, and pack it with `zip -0`",
		    err, "%zu record%s %s: %s", count, count == 1 ? " is" : "s are",
		    limit ? "not unpacked: the file would unpack to more than the limit"
		          : "packed by a method that gtrain cannot unpack",
		    gt_name_list_text(&names));
	gt_name_list_release(&names);
	return rc;
}

static int report_sums(struct gt_verify *v, const struct gt_zip *zip,
    const enum gt_record_state *states, struct gt_err *err)
{
	size_t silent = 0;
	int rc = 0;

	for (size_t i = 0; i < zip->count && !rc; i++) {
		silent += !zip->records[i].crc && zip->records[i].size;
		if (states[i] == GT_RECORD_DAMAGED)
			rc = gt_verify_find(v, GT_FINDING_DAMAGE, "copy or download the file again",
			    err, "record '%s' is damaged: it differs from its CRC-32",
			    zip->records[i].name);
	}
	if (!rc)
		rc = report_unchecked(v, zip, states, GT_RECORD_UNKNOWN_METHOD, err);
	if (!rc)
		rc = report_unchecked(v, zip, states, GT_RECORD_UNCHECKED, err);
	if (!rc && silent)
		rc = gt_verify_find(v, GT_FINDING_NOTE, "", err,
		    "%zu record%s no CRC-32 to compare with", silent,
		    silent == 1 ? " has" : "s have");
	return rc;
}

static int check_sums(struct gt_verify *v, struct gt_zip *zip, const struct gt_index *known,
    size_t threads, struct gt_err *err)
{
	enum gt_record_state *states = gt_calloc(zip->count, sizeof(*states), err);
	uint64_t checked = 0;
	int rc = GT_ENOMEM;

	if (states)
		rc = gt_zip_check_records(zip, known, threads, states, &checked, err);
	v->checked_bytes += checked;
	if (!rc)
		rc = report_sums(v, zip, states, err);
	free(states);
	return rc;
}

int gt_verify_zip(struct gt_verify *v, const struct gt_mapping *map, const struct gt_index *known,
    size_t threads, struct gt_err *err)
{
	struct gt_err found = GT_ERR_INIT;
	struct gt_zip zip;
	uint64_t dead = 0, first;
	size_t count;
	int rc = gt_zip_read(&zip, map, &v->arena, &found);

	if (rc == GT_EFORMAT || rc == GT_ENOTSUP) /* opening the file reports it */
		return gt_verify_headers(v, map, &first, &count, err);
	if (rc) {
		*err = found;
		return rc;
	}
	v->records += zip.count;
	rc = check_sums(v, &zip, known, threads, err);
	if (!rc)
		rc = gt_zip_dead_bytes(&zip, &dead, err);
	v->dead_bytes += dead;
	return rc ? rc : read_pickles(v, &zip, err);
}
