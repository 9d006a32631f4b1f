/* repair.c - a torn edit in place undone: the archive as it was before. */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/ckpt/edit_inside.h"
#include "lib/ckpt/verify_inside.h"
#include "lib/ckpt/zip_layout.h"

/* Whether the first `size` bytes are an archive of torch's whose records all agree with their
 * sums. */
static int is_sound(
    const struct gt_mapping *map, uint64_t size, size_t *records, bool *sound, struct gt_err *err)
{
	struct gt_mapping cut = { map->data, size, map->fd };
	struct gt_err found = GT_ERR_INIT;
	struct gt_arena arena = { 0 };
	struct gt_zip zip;
	uint64_t checked;
	bool torch = false;
	int rc = gt_zip_read(&zip, &cut, &arena, &found);

	for (size_t i = 0; !rc && i < zip.count; i++) {
		const char *slash = strrchr(zip.records[i].name, '/');

		torch |= slash && !strcmp(slash, "/data.pkl");
	}
	if (!rc)
		rc = gt_zip_check_records(&zip, NULL, &arena, 0, NULL, &checked, &found);
	*sound = !rc && torch;
	*records = rc ? 0 : zip.count;
	gt_arena_release(&arena);
	if (!rc || found.code == GT_EFORMAT || found.code == GT_ENOTSUP)
		return 0;
	*err = found;
	return rc;
}

/* The longest part of the file, from its start, that is sound. 0: none. */
static int find_state(
    const struct gt_mapping *map, uint64_t *size, size_t *records, struct gt_err *err)
{
	uint64_t below = map->size;
	bool sound = false;
	int tries = GT_ZIP_TRIES, rc = 0;

	*size = 0;
	while (!rc && !sound && gt_zip_earlier(map, &below, below, &tries, size))
		rc = is_sound(map, *size, records, &sound, err);
	if (!rc && !sound)
		*size = 0;
	return rc;
}

static int cut(const char *path, const struct stat *opened, uint64_t size, struct gt_err *err)
{
	int fd;
	int rc = gt_edit_lock(&fd, path, path, opened, err);

	if (rc)
		return rc;
	if (ftruncate(fd, (off_t)size))
		rc = gt_err_sys(
		    err, "cannot cut '%s' to %llu bytes", path, (unsigned long long)size);
	else if (fsync(fd))
		rc = gt_err_sys(err, "cannot sync '%s'", path);
	if (close(fd) && !rc)
		rc = gt_err_sys(err, "cannot close '%s'", path);
	return rc;
}

int gt_repair(struct gt_repair *out, const char *path, struct gt_err *err)
{
	struct gt_mapping map;
	struct stat opened = { 0 };
	int rc = gt_map(&map, path, err);

	*out = (struct gt_repair){ 0 };
	if (rc)
		return rc;
	out->old_bytes = map.size;
	if (map.size < 4 || memcmp(map.data, "PK\3\4", 4)) {
		rc = gt_err_set(
		    err, GT_ENOTSUP, "'%s' is no zip archive: only those can be mended", path);
		gt_err_hint(err, "take the file from where it came");
	} else if (fstat(map.fd, &opened)) {
		rc = gt_err_sys(err, "cannot examine '%s'", path);
	} else {
		rc = find_state(&map, &out->new_bytes, &out->records, err);
		if (!rc && !out->new_bytes) {
			rc = gt_err_set(
			    err, GT_EFORMAT, "'%s': no earlier state of the file is sound", path);
			gt_err_hint(err, "this was no edit cut short; take another copy");
		}
	}
	gt_unmap(&map);
	if (!rc && out->new_bytes < out->old_bytes)
		rc = cut(path, &opened, out->new_bytes, err);
	return rc;
}
