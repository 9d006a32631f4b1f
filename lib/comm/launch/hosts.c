/* hosts.c - ranks on other hosts, started by ssh: the list of hosts, and the command of a rank. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/mem.h"
#include "lib/base/text.h"
#include "lib/comm/launch/job.h"
#include "lib/comm/world/world.h"

/* ---- the list ---- */

static int fail_hosts(const char *word, const char *why, struct gt_err *err)
{
	gt_err_set(err, GT_EINVAL, "{hosts}: '%s' %s", word, why);
	return gt_err_hint(err, "HOST:RANKS,... names hosts, with the number of ranks of each");
}

/* Parse "HOST:RANKS", of which the number may be left out; `word` is cut. ssh would take a name
 * that begins with a dash for an option. */
static int parse_host(struct gt_launch_host *out, char *word, struct gt_err *err)
{
	char *colon = strrchr(word, ':');
	int64_t ranks = 1;

	if (colon && strchr(colon, ']'))
		colon = NULL;
	if (colon &&
	    (!gt_text_parse_int(&ranks, colon + 1) || ranks < 1 || ranks > GT_WORLD_MAX_RANKS))
		return fail_hosts(word, "has no number of ranks after the colon", err);
	if (colon)
		*colon = '\0';
	if (*word == '[' && word[strlen(word) - 1] == ']') {
		word[strlen(word) - 1] = '\0';
		word++;
	}
	if (!*word || *word == '-' || strpbrk(word, " \t\n'\"\\$`"))
		return fail_hosts(word, "is not the name of a host", err);
	*out = (struct gt_launch_host){ word, (int)ranks };
	return 0;
}

int gt_launch_parse_hosts(struct gt_launch_host *out, int *count, int *ranks, const char *list,
    struct gt_arena *arena, struct gt_err *err)
{
	char *text = gt_arena_strdup(arena, list, err), *word;

	*count = *ranks = 0;
	if (!text)
		return GT_ENOMEM;
	while ((word = strsep(&text, ","))) {
		if (*count == GT_LAUNCH_HOSTS)
			return gt_err_set(
			    err, GT_EINVAL, "{hosts}: more than %d hosts", GT_LAUNCH_HOSTS);
		if (parse_host(&out[*count], word, err))
			return err->code;
		for (int i = 0; i < *count; i++)
			if (!strcmp(out[i].name, out[*count].name))
				return fail_hosts(out[i].name, "is there twice", err);
		*ranks += out[(*count)++].ranks;
	}
	if (*ranks <= GT_WORLD_MAX_RANKS)
		return 0;
	return gt_err_set(
	    err, GT_EINVAL, "{hosts}: %d ranks, at most %d", *ranks, GT_WORLD_MAX_RANKS);
}

/* ---- the command of a rank ---- */

void gt_launch_quote(FILE *out, const char *word)
{
	putc('\'', out);
	for (; *word; word++)
		*word == '\'' ? fputs("'\\''", out) : putc(*word, out);
	putc('\'', out);
}

/* Whether a shell takes the name of "NAME=value". */
static bool has_shell_name(const char *variable)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"
	                              "0123456789";

	return variable[strspn(variable, letters)] == '=';
}

/* Variables of this process that ranks on other hosts get, by the beginnings of their names. The
 * launcher's own are others for each rank. */
static void write_variables(FILE *out)
{
	static const char *const kept[] = { "NCCL_",
		"GTRAIN_IFNAME=", "GTRAIN_COLOR=", "OMP_NUM_THREADS=", "GLOO_SOCKET_IFNAME=" };

	for (char **e = environ; *e; e++)
		for (size_t i = 0; i < sizeof(kept) / sizeof(*kept); i++)
			if (!strncmp(*e, kept[i], strlen(kept[i])) && has_shell_name(*e)) {
				fputs("export ", out);
				gt_launch_quote(out, *e);
				putc('\n', out);
			}
}

/* The address of the first host, as the others know it: ssh's name without the user. */
static const char *address_of(const struct gt_launch_host *host)
{
	const char *at = strrchr(host->name, '@');

	return at ? at + 1 : host->name;
}

/*
 * The shell of the other host reads the secret from its standard input, which no list of processes
 * shows. A line there asks the rank to end, which may take any time. At the end of the input, which
 * comes, too, if the launcher or the connection is lost, it is asked once more, and killed 10
 * seconds later. The ranks of a host share its processors.
 */
static void write_script(FILE *out, const struct gt_launch_options *o, const char *program,
    const char *folder, const struct gt_remote_rank *r)
{
	fputs("IFS= read -r GTRAIN_SECRET || exit 1\nexport GTRAIN_SECRET\ncd ", out);
	gt_launch_quote(out, folder);
	fputs(" || exit 1\n", out);
	write_variables(out);
	fprintf(out,
	    "n=$(nproc 2>/dev/null || echo 1)\n"
	    "export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((n > %d ? n / %d : 1))}\n"
	    "export RANK=%d WORLD_SIZE=%d LOCAL_RANK=%d LOCAL_WORLD_SIZE=%d\n"
	    "export MASTER_PORT=%d GTRAIN_RESTART=%d MASTER_ADDR=",
	    o->hosts[r->host].ranks, o->hosts[r->host].ranks, r->rank, o->nproc, r->local_rank,
	    o->hosts[r->host].ranks, r->port, r->restart);
	gt_launch_quote(out, address_of(&o->hosts[0]));
	fputs("\nexec 3<&0\n", out);
	gt_launch_quote(out, program);
	for (int i = 1; o->argv[i]; i++) {
		putc(' ', out);
		gt_launch_quote(out, o->argv[i]);
	}
	fputs(r->rank ? " >/dev/null" : "", out);
	fputs(" </dev/null 3<&- &\np=$!\n"
	      "{ read -r word <&3 && kill $p && cat <&3; kill $p; sleep 10; kill -9 $p; }"
	      " >/dev/null 2>&1 &\n"
	      "w=$!\nexec 3<&-\nwait $p\ns=$?\nkill $w 2>/dev/null\nexit $s\n",
	    out);
}

/* The script for sh, as one word for the user's shell there, which may be another one. */
static char *quote_script(const char *script, struct gt_err *err)
{
	char *command = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&command, &size);

	if (out) {
		fputs("exec sh -c ", out);
		gt_launch_quote(out, script);
	}
	if (out && !fclose(out))
		return command;
	free(command);
	gt_err_set(err, GT_ENOMEM, "out of memory: the command of a rank");
	return NULL;
}

char *gt_launch_remote_command(
    const struct gt_launch_options *o, const struct gt_remote_rank *r, struct gt_err *err)
{
	char program[4096], folder[4096], *script = NULL, *command = NULL;
	ssize_t length = readlink(o->program, program, sizeof(program) - 1);
	size_t size = 0;
	FILE *out;

	if (length < 0)
		snprintf(program, sizeof(program), "%s", o->program);
	else
		program[length] = '\0';
	if (!getcwd(folder, sizeof(folder))) {
		gt_err_sys(err, "cannot find the current folder");
		return NULL;
	}
	out = open_memstream(&script, &size);
	if (out)
		write_script(out, o, program, folder, r);
	if (out && !fclose(out))
		command = quote_script(script, err);
	else
		gt_err_set(err, GT_ENOMEM, "out of memory: the command of a rank");
	free(script);
	return command;
}

void gt_launch_find_remote(struct gt_remote_rank *r, const struct gt_launch_options *o)
{
	r->local_rank = r->rank;
	for (r->host = 0; r->local_rank >= o->hosts[r->host].ranks; r->host++)
		r->local_rank -= o->hosts[r->host].ranks;
}
