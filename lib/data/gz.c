/* gz.c - files that may be compressed with gzip, whole in memory. */
#include <stdint.h>
#include <sys/mman.h>
#include <zlib.h>

#include "lib/data/source.h"

enum { CHUNK_BYTES = 1 << 30, FIRST_BYTES = 1 << 20 };

struct inflating {
	z_stream z;
	const unsigned char *end; /* of the compressed bytes */
	unsigned char *data;      /* anonymous mapping of `room` bytes, `used` of them filled */
	size_t room, used;
};

static int make_room(struct inflating *f, struct gt_err *err)
{
	size_t wanted = f->room * 2;
	void *p;

	if (f->used < f->room)
		return 0;
	p = wanted > f->room ? mremap(f->data, f->room, wanted, MREMAP_MAYMOVE) : MAP_FAILED;
	if (p == MAP_FAILED)
		return gt_err_set(
		    err, GT_ENOMEM, "out of memory: more than %zu inflated bytes", f->room);
	f->data = p;
	f->room = wanted;
	return 0;
}

static bool is_gzip(const unsigned char *p, size_t size)
{
	return size >= 2 && p[0] == 0x1f && p[1] == 0x8b;
}

/* After a member's end: another member follows (1), nothing but zeros (0), or rubbish. */
static int next_member(struct inflating *f, struct gt_err *err)
{
	const unsigned char *p = f->z.next_in;

	if (is_gzip(p, (size_t)(f->end - p)) && inflateReset(&f->z) == Z_OK)
		return 1;
	while (p < f->end && !*p)
		p++;
	if (p == f->end)
		return 0;
	return gt_err_set(err, GT_EFORMAT, "%td bytes of rubbish after the end of the gzip data",
	    f->end - f->z.next_in);
}

/* Inflate some more: 1 to be called again, 0 at the end. */
static int inflate_some(struct inflating *f, struct gt_err *err)
{
	size_t left = (size_t)(f->end - f->z.next_in), room;
	int rc = make_room(f, err);

	if (rc)
		return rc;
	room = f->room - f->used;
	f->z.avail_in = left < CHUNK_BYTES ? (uInt)left : CHUNK_BYTES;
	f->z.next_out = f->data + f->used;
	f->z.avail_out = room < CHUNK_BYTES ? (uInt)room : CHUNK_BYTES;
	rc = inflate(&f->z, Z_NO_FLUSH);
	f->used = (size_t)(f->z.next_out - f->data);
	if (rc == Z_STREAM_END)
		return next_member(f, err);
	if (rc == Z_MEM_ERROR)
		return gt_err_set(err, GT_ENOMEM, "out of memory: inflating");
	if (rc == Z_BUF_ERROR || (rc == Z_OK && f->z.next_in == f->end && f->z.avail_out)) {
		gt_err_set(err, GT_EFORMAT, "truncated gzip data: it ends after %zu inflated bytes",
		    f->used);
		return gt_err_hint(err, "the file was cut short; copy or download it again");
	}
	if (rc != Z_OK) {
		gt_err_set(err, GT_EFORMAT, "corrupt gzip data after %zu inflated bytes: %s",
		    f->used, f->z.msg ? f->z.msg : "unknown error");
		return gt_err_hint(err, "the file is damaged; copy or download it again");
	}
	return 1;
}

/* Give back what was not used; an empty result has no mapping. */
static void trim(struct inflating *f, struct gt_mapping *out)
{
	void *p = f->used ? mremap(f->data, f->room, f->used, MREMAP_MAYMOVE) : MAP_FAILED;

	if (p == MAP_FAILED)
		munmap(f->data, f->room);
	else
		*out = (struct gt_mapping){ .data = p, .size = f->used };
}

static int inflate_all(struct gt_mapping *out, const struct gt_mapping *packed, struct gt_err *err)
{
	struct inflating f = { .room = FIRST_BYTES, .end = packed->data + packed->size };
	int rc;

	while (f.room / 4 < packed->size)
		f.room *= 2;
	f.data = mmap(NULL, f.room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (f.data == MAP_FAILED)
		return gt_err_set(err, GT_ENOMEM, "out of memory: %zu bytes wanted", f.room);
	f.z.next_in = (Bytef *)packed->data;
	if (inflateInit2(&f.z, 15 + 16) != Z_OK) { /* 16: gzip framing */
		munmap(f.data, f.room);
		return gt_err_set(err, GT_ENOMEM, "out of memory: inflating");
	}
	do
		rc = inflate_some(&f, err);
	while (rc > 0);
	inflateEnd(&f.z);
	if (rc)
		munmap(f.data, f.room);
	else
		trim(&f, out);
	return rc;
}

int gt_map_inflated(struct gt_mapping *out, const char *path, struct gt_err *err)
{
	struct gt_mapping packed;
	int rc = gt_map(&packed, path, err);

	*out = packed;
	if (rc || !is_gzip(packed.data, packed.size))
		return rc;
	*out = (struct gt_mapping){ 0 };
	rc = inflate_all(out, &packed, err);
	gt_unmap(&packed);
	if (rc)
		gt_err_prefix(err, "'%s'", path);
	return rc;
}
