/* slow_lock.c - preloaded: flock() waits for ever, as on a file system whose server is gone. */
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

int flock(int fd, int operation)
{
	(void)fd;
	(void)operation;
	fputs("flock waits\n", stderr);
	for (;;)
		sleep(1);
}
