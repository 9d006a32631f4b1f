/* count_allocations.c - preloaded: how often the program itself asks for memory. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

/*
 * Calls whose return address lies in the main program count; those of shared libraries (oneDNN
 * makes a map of arguments in every call, and frees it) do not. The count goes to standard error at
 * exit.
 */
static atomic_long calls;
static uintptr_t program_start, program_end;

static int find_program(struct dl_phdr_info *info, size_t size, void *unused)
{
	(void)size;
	(void)unused;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type != PT_LOAD || !(p->p_flags & PF_X))
			continue;
		program_start = info->dlpi_addr + p->p_vaddr;
		program_end = program_start + p->p_memsz;
	}
	return 1; /* the program is the first object */
}

__attribute__((constructor)) static void begin(void)
{
	dl_iterate_phdr(find_program, NULL);
}

__attribute__((destructor)) static void report(void)
{
	fprintf(stderr, "allocations: %ld\n", atomic_load(&calls));
}

static void count(const void *caller)
{
	uintptr_t at = (uintptr_t)caller;

	if (at >= program_start && at < program_end)
		atomic_fetch_add(&calls, 1);
}

#include "tests/common/interpose.inc"
