/* mpirun.c - the command line that starts the same job by mpirun. */
#include <stdio.h>
#include <string.h>

#include "lib/comm/comm.h"

enum { MOST_NAMED = 4 };

/* " --host a:2,b:2". Slurm tells mpirun by itself; of torchrun's hosts one is known. */
static void write_hosts(char *out, size_t size, const struct gt_world *w)
{
	int each = w->local_size, left = w->size - each;
	size_t n;

	out[0] = '\0';
	if (w->hosts[0]) {
		snprintf(out, size, " --host %s", w->hosts);
		return;
	}
	if (w->source == GT_WORLD_SLURM || !left)
		return;
	if (left > each * (MOST_NAMED - 1)) {
		snprintf(out, size, " --hostfile FILE");
		return;
	}
	n = (size_t)snprintf(
	    out, size, " --host %s:%d", w->address[0] ? w->address : "HOST1", each);
	for (int host = 2; left > 0 && n < size; host++, left -= each)
		n += (size_t)snprintf(
		    out + n, size - n, ",HOST%d:%d", host, left < each ? left : each);
}

void gt_comm_mpirun_line(char *out, size_t size, const struct gt_world *world, const char *command)
{
	static const char dots[] = " ...";
	char hosts[sizeof(world->hosts) + 64];
	size_t n;

	write_hosts(hosts, sizeof(hosts), world);
	n = (size_t)snprintf(
	    out, size, "mpirun -n %d%s %s", world->size, hosts, command ? command : "gtrain ...");
	if (n < size)
		return;
	for (n = size - sizeof(dots); n > 0 && out[n] != ' '; n--)
		;
	memcpy(out + n, dots, sizeof(dots));
}
