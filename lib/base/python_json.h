/* python_json.h - parse JSON as Python's json module writes it. */
#ifndef GT_BASE_PYTHON_JSON_H
#define GT_BASE_PYTHON_JSON_H

#include <jansson.h>
#include <stddef.h>

/* Parse JSON like json_loadb(), but accept what Python writes besides: an integer that int64_t
 * cannot hold becomes a real number, and NaN, Infinity and -Infinity become strings. After these,
 * `error->column` may be too large. `flags` may not have JSON_DISABLE_EOF_CHECK. The caller calls
 * json_decref(). */
json_t *gt_python_json_loadb(const char *text, size_t size, size_t flags, json_error_t *error);

#endif
