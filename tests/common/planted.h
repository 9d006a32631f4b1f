/* planted.h - folders of made-up files, as /proc and /sys of another machine. */
#ifndef GT_TESTS_COMMON_PLANTED_H
#define GT_TESTS_COMMON_PLANTED_H

/* A made-up machine: its files, ended by a NULL path. */
struct planted_file {
	const char *path, *text;
};

enum { PLANTED_ROOT = 64 };

/* Make a folder of its own and the files in it, root put before each path; remove all of it. */
void planted_make(char root[PLANTED_ROOT], const struct planted_file *files);
void planted_remove(const char *root);

#endif
