/* run_list.c - list the run directories in a folder, for hints. */
#include "lib/train/run/run_list.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/ckpt/ckpt.h"
#include "lib/train/run/run_dir.h"

enum { SHOWN = 3, MOST_NAMES = 1000 };

static void add_run_path(char *out, size_t size, const char *folder, const char *name, int before)
{
	size_t used = strlen(out), length = strlen(folder);

	snprintf(out + used, size - used, "%s'%s%s%s'", before ? ", " : "", folder,
	    length && folder[length - 1] == '/' ? "" : "/", name);
}

int gt_run_list(char *out, size_t size, const char *folder)
{
	struct dirent **names = NULL;
	int count = scandir(folder, &names, NULL, alphasort), runs = 0;
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool other = fd < 0;

	*out = '\0';
	for (int i = 0; i < count; i++) {
		const char *name = names[i]->d_name;

		/* the folder itself was meant if `gtrain ckpt` may read a file in it */
		other |= gt_ckpt_is_named(name);
		if (!other && i < MOST_NAMES && *name != '.' && gt_run_dir_is_run(fd, name) &&
		    runs++ < SHOWN)
			add_run_path(out, size, folder, name, runs - 1);
		free(names[i]);
	}
	free(names);
	if (fd >= 0)
		close(fd);
	if (other)
		*out = '\0';
	else if (runs > SHOWN)
		snprintf(out + strlen(out), size - strlen(out), " and %d more", runs - SHOWN);
	return other ? 0 : runs;
}
