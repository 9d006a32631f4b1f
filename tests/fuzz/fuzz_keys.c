/* fuzz_keys.c - fuzz target: a key file, the bundle of a signature, or its statement. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/ckpt/sign/bundle.h"
#include "lib/ckpt/sign/manifest.h"
#include "tests/fuzz/fuzz.h"

static const char public_key[] =
    "-----BEGIN PUBLIC KEY-----\n"
    "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEM3Gem3H20advlG59TT35Mhh6OJIsc5BVVUFUAqcVyUxX7EqMmkwimlQw\n"
    "xkYHUInYhm4iMGnL+nFnaCVtxaqC0A==\n"
    "-----END PUBLIC KEY-----\n";

/* Make a file in memory, and write its path. */
static int make_file(char path[64], const void *bytes, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	fuzz_require(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
	snprintf(path, 64, "/proc/self/fd/%d", fd);
	return fd;
}

/* A key describes itself; a private one signs, and checks its own signature. */
static void use_key(const struct gt_sign_key *key, bool is_private)
{
	static const char message[] = "message";
	struct gt_sign_facts facts;
	struct gt_buf signature = { 0 };
	struct gt_err err = GT_ERR_INIT;

	fuzz_require(!gt_sign_key_describe(&facts, key, &err));
	fuzz_require(strlen(facts.key) == GT_SIGN_HEX - 1);
	fuzz_require(!gt_sign_key_verify(key, message, sizeof(message), message, 3));
	if (!is_private)
		return;
	fuzz_require(!gt_sign_key_sign(&signature, key, message, sizeof(message), &err));
	fuzz_require(
	    gt_sign_key_verify(key, signature.text, signature.length, message, sizeof(message)));
	fuzz_require(!gt_sign_key_verify(
	    key, signature.text, signature.length, message, sizeof(message) - 1));
	gt_buf_release(&signature);
}

static void read_key(const char *path, bool is_private)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_sign_key *key;
	int rc = is_private ? gt_sign_key_open_private(&key, path, &err)
	                    : gt_sign_key_open_public(&key, path, &err);

	fuzz_require(!rc == (key != NULL));
	if (rc)
		fuzz_check_error(rc, &err);
	else
		use_key(key, is_private);
	gt_sign_key_close(key);
}

/* No bundle of the fuzzer's is signed by this key. */
static void check_bundle(const char *path)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_sign_facts facts;
	struct gt_sign_key *key;
	char of_key[64];
	json_t *statement;
	int fd = make_file(of_key, public_key, sizeof(public_key) - 1);

	fuzz_require(!gt_sign_key_open_public(&key, of_key, &err));
	close(fd);
	fuzz_require(!gt_sign_key_describe(&facts, key, &err));
	statement = gt_bundle_check(path, key, &facts, &err);
	if (!statement)
		fuzz_check_error(err.code, &err);
	json_decref(statement);
	gt_sign_key_close(key);
}

static void read_statement(const unsigned char *bytes, size_t size)
{
	struct gt_manifest m = { 0 };
	struct gt_err err = GT_ERR_INIT;
	json_t *json = json_loadb((const char *)bytes, size, JSON_REJECT_DUPLICATES, NULL);
	int rc = json ? gt_manifest_from_json(&m, json, &err) : 0;

	if (rc)
		fuzz_check_error(rc, &err);
	gt_manifest_release(&m);
	json_decref(json);
}

void fuzz_keys(const unsigned char *bytes, size_t size)
{
	char path[64];
	int fd = make_file(path, bytes, size);

	if (size && *bytes == '{') {
		check_bundle(path);
		read_statement(bytes, size);
	} else {
		read_key(path, true);
		read_key(path, false);
	}
	close(fd);
}
