/* repair.c - a torn edit in place undone: the archive as it was before. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/ckpt/edit/lock.h"
#include "lib/ckpt/tools/verify_steps.h"
#include "lib/ckpt/zip/zip.h"

/* Whether the first `size` bytes are an archive of torch's whose records all agree with their
 * sums. */
static int is_sound(
    const struct gt_mapping *map, uint64_t size, size_t *records, bool *sound, struct gt_err *err)
{
	struct gt_mapping cut = gt_map_part(map, 0, size);
	struct gt_err found = GT_ERR_INIT;
	struct gt_arena arena = { 0 };
	enum gt_record_state *states = NULL;
	struct gt_zip zip;
	uint64_t checked;
	bool torch = false, whole = true;
	int rc = gt_zip_read(&zip, &cut, &arena, &found);

	for (size_t i = 0; !rc && i < zip.count; i++) {
		const char *slash = strrchr(zip.records[i].name, '/');

		torch |= slash && !strcmp(slash, "/data.pkl");
	}
	if (!rc) {
		states = gt_calloc(zip.count, sizeof(*states), &found);
		rc = states ? gt_zip_check_records(&zip, NULL, 0, states, &checked, &found)
		            : GT_ENOMEM;
	}
	for (size_t i = 0; !rc && i < zip.count; i++)
		whole &= states[i] == GT_RECORD_SOUND;
	*sound = !rc && torch && whole;
	*records = *sound ? zip.count : 0;
	free(states);
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

/* Cut the file, open as *fd; where it could not be opened to write, trying again tells why. */
static int cut_locked_file(
    int *fd, const char *path, const struct gt_mapping *map, uint64_t size, struct gt_err *err)
{
	struct stat locked, opened;
	int rc = *fd < 0 ? gt_lock_file(fd, path, 0, err) : 0;

	if (rc)
		return rc;
	if (fstat(*fd, &locked) || fstat(map->fd, &opened))
		return gt_err_sys(err, "cannot examine '%s'", path);
	if (locked.st_ino != opened.st_ino || locked.st_dev != opened.st_dev ||
	    (uint64_t)opened.st_size != map->size)
		return gt_err_set(err, GT_EIO, "'%s' has changed since it was opened", path);
	if (ftruncate(*fd, (off_t)size))
		return gt_err_sys(
		    err, "cannot cut '%s' to %llu bytes", path, (unsigned long long)size);
	return 0;
}

/* Repair the mapped file, open as *fd or -1. */
static int repair(struct gt_repair *out, const char *path, const struct gt_mapping *map, int *fd,
    struct gt_err *err)
{
	unsigned char start[4];
	int rc = map->size < sizeof(start) ? 0 : gt_map_peek(map, 0, start, sizeof(start), err);

	if (rc)
		return rc;
	out->old_bytes = map->size;
	if (map->size < sizeof(start) || memcmp(start, "PK\3\4", 4)) {
		gt_err_set(
		    err, GT_ENOTSUP, "'%s' is not a zip archive and cannot be repaired", path);
		return gt_err_hint(err, "copy or download the file again");
	}
	rc = find_state(map, &out->new_bytes, &out->records, err);
	if (rc)
		return rc;
	if (!out->new_bytes) {
		gt_err_set(err, GT_EFORMAT, "'%s': no earlier state of the file is sound", path);
		return gt_err_hint(err, "use another copy of the file");
	}
	if (out->new_bytes == out->old_bytes)
		return 0;
	if (!gt_zip_edit_follows(map, out->new_bytes)) {
		gt_err_set(err, GT_EFORMAT,
		    "'%s': no edit of gtrain wrote the bytes after the archive", path);
		return gt_zip_hint_foreign(map, out->new_bytes, err);
	}
	return cut_locked_file(fd, path, map, out->new_bytes, err);
}

int gt_repair(struct gt_repair *out, const char *path, double wait_s, struct gt_err *err)
{
	struct gt_mapping map;
	int fd, rc = gt_lock_if_writable(&fd, path, wait_s, err);

	*out = (struct gt_repair){ 0 };
	if (rc)
		return rc;
	rc = gt_map(&map, path, err);
	if (!rc)
		rc = repair(out, path, &map, &fd, err);
	gt_unmap(&map);
	if (!rc && out->new_bytes < out->old_bytes)
		return gt_change_finish(fd, path, false, err);
	if (fd >= 0)
		close(fd);
	return rc;
}
