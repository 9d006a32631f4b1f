/* json.h - private: large JSON objects, read one member at a time. */
#ifndef GT_CKPT_SAFETENSORS_JSON_H
#define GT_CKPT_SAFETENSORS_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "lib/base/err.h"

/*
 * The headers of safetensors files, and the index files of checkpoints in several files, are JSON
 * objects with many small members. For a whole document, jansson needs about twenty times the size
 * of the text in memory. So these functions find the members one by one, and jansson parses only
 * one key or value at a time. `text` is borrowed and need not be zero-terminated.
 */
struct gt_json {
	const char *text;
	size_t size, at; /* length of the text in bytes; offset of the next byte to read */
	size_t base;     /* offset of the text in its file, for messages */
};

/* Skip the "{" at the start of an object. */
int gt_json_enter(struct gt_json *json, struct gt_err *err);

/*
 * Read the next key of the object that was entered with gt_json_enter(). `first` is true for the
 * first key of the object. The caller frees *key, which contains no zero byte. At the end of the
 * object, set *key to NULL and skip the "}". Otherwise set *at to the position of the key's opening
 * quote, as an offset in the text, and *length to the number of bytes of the key in the text, with
 * its quotes and escapes. The caller then reads the value: with gt_json_value(), or, if it is an
 * object, with gt_json_enter() and gt_json_key().
 */
int gt_json_key(
    struct gt_json *json, bool first, char **key, size_t *at, size_t *length, struct gt_err *err);

/* A key of an object; the fields have the values that gt_json_key() returns. */
struct gt_json_key {
	char *text;
	size_t at, length;
};

/*
 * A caller's function that reads the value of a member, with gt_json_value() or gt_json_enter(). If
 * this function returns an error, gt_json_members() stops and returns that error. The key is
 * borrowed.
 */
typedef int gt_json_member(
    void *self, struct gt_json *json, const struct gt_json_key *key, struct gt_err *err);

/*
 * Read an object at the current position: call `member` for each of its members. `self` is the
 * first argument of `member`.
 */
int gt_json_members(struct gt_json *json, gt_json_member *member, void *self, struct gt_err *err);

/*
 * Parse the value at the current position. Its text may have at most `limit` bytes. An object that
 * has a key twice is an error. Release *value with json_decref().
 */
int gt_json_value(struct gt_json *json, size_t limit, json_t **value, struct gt_err *err);

/*
 * Skip the value at the current position. Its integers may have more than 64 bits. Its text may
 * have at most `limit` bytes.
 */
int gt_json_skip(struct gt_json *json, size_t limit, struct gt_err *err);

/* Skip white space. Return true if no text follows. */
bool gt_json_at_end(struct gt_json *json);

/*
 * Return the value of a JSON integer that is 0 or more. Return -1 for any other value and for NULL.
 */
json_int_t gt_json_count(const json_t *value);

#endif
