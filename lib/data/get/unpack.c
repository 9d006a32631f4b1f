/* unpack.c - the files of a set, out of its archive. */
#include "lib/data/get/unpack.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/data/core/tar.h"
#include "lib/data/get/check.h"

enum { CHUNK_BYTES = 1 << 16, MOST_PARTS = 32 };

struct unpacking {
	const struct gt_set *set;
	struct gt_tar tar;
	struct gt_folder folder; /* folder of the unpacked files */
	unsigned char *chunk;    /* [CHUNK_BYTES] */
	bool done[MOST_PARTS];
};

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

static int copy_bytes(struct unpacking *u, FILE *out, struct gt_err *err)
{
	for (uint64_t n, left = u->tar.size; left; left -= n) {
		int rc;

		n = left < CHUNK_BYTES ? left : CHUNK_BYTES;
		rc = gt_tar_read(&u->tar, u->chunk, n, err);
		if (rc)
			return rc;
		fwrite(u->chunk, 1, n, out); /* an error shows when the file is finished */
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

static int write_part(struct unpacking *u, const struct gt_set_file *part, struct gt_err *err)
{
	struct gt_atomic_file out;
	char *path;
	int rc;

	if (part->size_bytes && u->tar.size != part->size_bytes)
		return gt_err_set(err, GT_EFORMAT, "'%s' in the archive has %" PRIu64 " bytes",
		    part->name, u->tar.size);
	path = gt_folder_path(&u->folder, part->name, err);
	if (!path)
		return GT_ENOMEM;
	rc = gt_atomic_open_at(&out, (struct gt_file_name){ &u->folder, path }, err);
	free(path);
	if (rc)
		return rc;
	rc = copy_bytes(u, out.stream, err);
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

static int unpack_entry(struct unpacking *u, struct gt_err *err)
{
	int part = u->tar.kind == GT_TAR_FILE ? find_part(u, u->tar.path) : -1;
	int rc;

	if (part < 0)
		return 0;
	rc = write_part(u, &u->set->parts[part], err);
	u->done[part] = !rc;
	return rc;
}

static int read_archive(struct unpacking *u, struct gt_err *err)
{
	bool there = true;
	int rc = 0;

	while (!rc && there) {
		rc = gt_tar_next(&u->tar, &there, err);
		if (!rc && there)
			rc = unpack_entry(u, err);
	}
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
	struct gt_byte_stream *in;
	int rc = u.chunk ? gt_byte_stream_open(&in, archive, err) : GT_ENOMEM;

	if (!rc) {
		gt_tar_init(&u.tar, in);
		rc = gt_folder_open_in(&u.folder, folder, set->parts_folder, true, err);
		if (!rc)
			rc = read_archive(&u, err);
		if (rc)
			gt_err_prefix(err, "'%s'", archive);
		gt_folder_close(&u.folder);
		gt_tar_release(&u.tar);
		gt_byte_stream_close(in);
	}
	free(u.chunk);
	return rc;
}
