/* planted.c - folders of made-up files. */
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/base/file.h"
#include "tests/common/planted.h"

static void write_file(const char *root, const char *path, const char *text)
{
	char full[512], *slash;
	FILE *f;

	assert_true(snprintf(full, sizeof(full), "%s%s", root, path) < (int)sizeof(full));
	slash = strrchr(full, '/');
	*slash = '\0';
	assert_int_equal(gt_make_dirs(full, NULL), 0);
	*slash = '/';
	f = fopen(full, "w");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

void planted_make(char root[PLANTED_ROOT], const struct planted_file *files)
{
	strcpy(root, "/tmp/gtrain-probe-XXXXXX");
	assert_non_null(mkdtemp(root));
	for (; files->path; files++)
		write_file(root, files->path, files->text);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

void planted_remove(const char *root)
{
	assert_int_equal(nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}
