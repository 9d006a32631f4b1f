/* unpack.c - the files of a set, out of its archive. */
#include "lib/data/get/unpack.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/data/byte_stream.h"
#include "lib/data/get/check.h"

/* Source: POSIX.1-2017, pax, "ustar Interchange Format". Archives of sets were checked before, so
 * extended headers need not be understood: their files are no parts. */
enum { BLOCK = 512, NAME = 100, SIZE_AT = 124, SIZE_DIGITS = 12, TYPE_AT = 156 };
enum { CHUNK_BYTES = 1 << 16, MOST_PARTS = 32 };

struct unpacking {
	const struct gt_set *set;
	struct gt_byte_stream *in;
	struct gt_folder folder; /* of the parts */
	unsigned char *chunk;    /* [CHUNK_BYTES] */
	bool done[MOST_PARTS];
};

static int truncated(struct gt_err *err)
{
	return gt_err_set(err, GT_EFORMAT, "the archive is cut short");
}

/* The number of the part that a name of the archive means, or -1. */
static int find_part(const struct unpacking *u, const char *name)
{
	size_t length = strlen(u->set->parts_folder);

	if (!strncmp(name, "./", 2))
		name += 2;
	if (strncmp(name, u->set->parts_folder, length) || name[length] != '/')
		return -1;
	for (int i = 0; u->set->parts[i].name && i < MOST_PARTS; i++)
		if (!strcmp(u->set->parts[i].name, name + length + 1))
			return i;
	return -1;
}

static int copy_bytes(struct unpacking *u, FILE *out, uint64_t size, struct gt_err *err)
{
	while (size) {
		uint64_t n = size < CHUNK_BYTES ? size : CHUNK_BYTES, got;
		int rc = gt_byte_stream_read(u->in, u->chunk, n, &got, err);

		if (rc)
			return rc;
		if (got < n)
			return truncated(err);
		fwrite(u->chunk, 1, n, out); /* an error shows when the file is finished */
		size -= n;
	}
	return 0;
}

/* The written bytes are read once more, so that a bad disk does not go unnoticed either. */
static int check_copy(
    const struct gt_atomic_file *out, const struct gt_set_file *part, struct gt_err *err)
{
	bool there;
	int rc = gt_set_check(&there, out->temporary, part, err);

	return rc ? gt_err_set(err, rc, "'%s' in the archive is not the one expected", part->name)
	          : 0;
}

static int write_part(
    struct unpacking *u, const struct gt_set_file *part, uint64_t size, struct gt_err *err)
{
	struct gt_atomic_file out;
	char *path;
	int rc;

	if (part->size_bytes && size != part->size_bytes)
		return gt_err_set(
		    err, GT_EFORMAT, "'%s' in the archive has %" PRIu64 " bytes", part->name, size);
	path = gt_folder_path(&u->folder, part->name, err);
	if (!path)
		return GT_ENOMEM;
	rc = gt_atomic_open_at(&out, (struct gt_file_name){ &u->folder, path }, err);
	free(path);
	if (rc)
		return rc;
	rc = copy_bytes(u, out.stream, size, err);
	if (!rc)
		rc = gt_atomic_finish(&out, err);
	if (!rc)
		rc = check_copy(&out, part, err);
	if (!rc)
		rc = gt_atomic_commit(&out, err);
	else
		gt_atomic_abandon(&out);
	return rc;
}

static int skip(struct unpacking *u, uint64_t size, struct gt_err *err)
{
	uint64_t got;
	int rc = gt_byte_stream_read(u->in, NULL, size, &got, err);

	return !rc && got < size ? truncated(err) : rc;
}

static int parse_size(uint64_t *size, const unsigned char *header, struct gt_err *err)
{
	char digits[SIZE_DIGITS + 1] = "", *end;

	memcpy(digits, header + SIZE_AT, SIZE_DIGITS);
	*size = strtoull(digits, &end, 8); /* at most 36 bits */
	return end == digits || (*end && *end != ' ')
	           ? gt_err_set(err, GT_EFORMAT, "the archive has a file without a size")
	           : 0;
}

/* A header and the bytes that belong to it; *end after the last. */
static int read_entry(struct unpacking *u, bool *end, struct gt_err *err)
{
	unsigned char header[BLOCK];
	char name[NAME + 1] = "";
	uint64_t got, size = 0;
	int part, rc = gt_byte_stream_read(u->in, header, BLOCK, &got, err);

	if (rc)
		return rc;
	*end = got == BLOCK && !header[0];
	if (*end)
		return 0;
	rc = got < BLOCK ? truncated(err) : parse_size(&size, header, err);
	if (rc)
		return rc;
	memcpy(name, header, NAME);
	part = header[TYPE_AT] == '0' || !header[TYPE_AT] ? find_part(u, name) : -1;
	if (part >= 0)
		rc = write_part(u, &u->set->parts[part], size, err);
	else
		rc = skip(u, size, err);
	if (!rc && part >= 0)
		u->done[part] = true;
	return rc ? rc : skip(u, (BLOCK - size % BLOCK) % BLOCK, err);
}

static int read_archive(struct unpacking *u, struct gt_err *err)
{
	bool end = false;
	int rc = 0;

	while (!rc && !end)
		rc = read_entry(u, &end, err);
	for (int i = 0; !rc && u->set->parts[i].name && i < MOST_PARTS; i++)
		if (!u->done[i])
			rc = gt_err_set(err, GT_EFORMAT, "there is no '%s' in the archive",
			    u->set->parts[i].name);
	return rc;
}

int gt_set_unpack(const struct gt_set *set, const struct gt_folder *folder, const char *archive,
    struct gt_err *err)
{
	struct unpacking u = { .set = set, .chunk = gt_calloc(CHUNK_BYTES, 1, err) };
	int rc = u.chunk ? gt_byte_stream_open(&u.in, archive, err) : GT_ENOMEM;

	if (!rc) {
		rc = gt_folder_open_in(&u.folder, folder, set->parts_folder, true, err);
		if (!rc)
			rc = read_archive(&u, err);
		if (rc)
			gt_err_prefix(err, "'%s'", archive);
		gt_folder_close(&u.folder);
		gt_byte_stream_close(u.in);
	}
	free(u.chunk);
	return rc;
}
