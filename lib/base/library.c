/* library.c - open libraries at run time, and find their functions. */
#include "lib/base/library.h"

#include <dlfcn.h>
#include <string.h>

bool gt_library_is_static(void)
{
#ifdef GT_STATIC
	return true;
#else
	return false;
#endif
}

const char *gt_library_hint(const char *hint)
{
	return gt_library_is_static() ? "use the gtrain of `make` or `make deb`" : hint;
}

static int add_library_hint(const struct gt_library *library, struct gt_err *err)
{
	const char *hint = gt_library_hint(library->hint);

	return hint ? gt_err_hint(err, "%s", hint) : err->code;
}

/*
 * dlopen() of a static program needs the very C library with which the program was linked, and may
 * crash where the system has another one.
 */
static void *open_file(const char *file, bool global, const char **why)
{
	void *handle;

	if (gt_library_is_static()) {
		*why = "this is the static gtrain, which opens no libraries";
		return NULL;
	}
	handle = dlopen(file, RTLD_NOW | (global ? RTLD_GLOBAL : RTLD_LOCAL));
	if (!handle)
		*why = dlerror();
	return handle;
}

int gt_library_open(
    void **handle, const struct gt_library *library, const char *file, struct gt_err *err)
{
	const char *why;

	*handle = open_file(file, library->global, &why);
	if (*handle)
		return 0;
	if (library->cannot_open)
		gt_err_set(err, library->code, "%s: %s", library->cannot_open, why);
	else
		gt_err_set(err, library->code, "%s", why);
	return add_library_hint(library, err);
}

static void *get_pointer(const void *pointers, size_t slot)
{
	void *pointer;

	memcpy(&pointer, (const char *)pointers + slot, sizeof(pointer));
	return pointer;
}

static void set_pointer(void *pointers, size_t slot, void *pointer)
{
	memcpy((char *)pointers + slot, &pointer, sizeof(pointer));
}

static void clear_pointers(void *pointers, const struct gt_library *library)
{
	for (const struct gt_library_function *f = library->functions; f->name; f++)
		set_pointer(pointers, f->slot, NULL);
}

int gt_library_find(void *pointers, const struct gt_library *library, void *handle,
    const char *name, struct gt_err *err)
{
	clear_pointers(pointers, library);
	for (const struct gt_library_function *f = library->functions; f->name; f++) {
		if (get_pointer(pointers, f->slot))
			continue;
		set_pointer(pointers, f->slot, dlsym(handle, f->name));
		if (get_pointer(pointers, f->slot) || f->optional)
			continue;
		clear_pointers(pointers, library);
		gt_err_set(err, library->code, "%s has no function '%s'", name, f->name);
		return add_library_hint(library, err);
	}
	return 0;
}

void gt_library_close(void *handle)
{
	if (handle)
		dlclose(handle);
}
