/* bundle.c - a signed statement in a bundle of Sigstore. */
#include "lib/ckpt/sign/bundle.h"

#include <string.h>

#include "lib/base/base64.h"
#include "lib/base/file.h"
#include "lib/ckpt/sign/der.h"

static const char media_type[] = "application/vnd.dev.sigstore.bundle.v0.3+json";
static const char media_start[] = "application/vnd.dev.sigstore";
static const char payload_type[] = "application/vnd.in-toto+json";

/* The bytes that the key signs: the type of the statement and its text, with their lengths. Source:
 * DSSE v1.0, Pre-Authentication Encoding. */
static void add_signed_bytes(struct gt_buf *out, const void *payload, size_t size)
{
	gt_buf_printf(out, "DSSEv1 %zu %s %zu ", strlen(payload_type), payload_type, size);
	gt_buf_add(out, payload, size);
}

/* ---- writing ---- */

static json_t *fail_memory(struct gt_err *err)
{
	gt_err_set(err, GT_ENOMEM, "out of memory: the signature");
	return NULL;
}

json_t *gt_bundle_sign(const json_t *statement, const struct gt_sign_key *key,
    const struct gt_sign_facts *facts, struct gt_err *err)
{
	char *payload = json_dumps(statement, JSON_COMPACT);
	struct gt_buf message = { 0 }, signature = { 0 }, payload64 = { 0 }, signature64 = { 0 };
	json_t *out = NULL;
	int rc;

	if (!payload)
		return fail_memory(err);
	add_signed_bytes(&message, payload, strlen(payload));
	rc = gt_buf_check(&message, err);
	if (!rc)
		rc = gt_sign_key_sign(&signature, key, gt_buf_text(&message), message.length, err);
	if (!rc) {
		gt_base64_add(&payload64, payload, strlen(payload));
		gt_base64_add(&signature64, gt_buf_text(&signature), signature.length);
		if (!payload64.failed && !signature64.failed)
			out = json_pack("{s:s,s:{s:{s:s},s:[]},s:{s:s,s:s,s:[{s:s,s:s}]}}",
			    "mediaType", media_type, "verificationMaterial", "publicKey", "hint",
			    facts->key, "tlogEntries", "dsseEnvelope", "payload",
			    gt_buf_text(&payload64), "payloadType", payload_type, "signatures",
			    "sig", gt_buf_text(&signature64), "keyid", "");
		if (!out)
			fail_memory(err);
	}
	gt_buf_release(&message);
	gt_buf_release(&signature);
	gt_buf_release(&payload64);
	gt_buf_release(&signature64);
	free(payload);
	return out;
}

/* ---- reading ---- */

static const char *text_of(const json_t *object, const char *member)
{
	return json_string_value(json_object_get(object, member));
}

static json_t *load(const char *path, bool *empty, struct gt_err *err)
{
	enum { MAX_BYTES = 1 << 28 };
	struct gt_mapping map;
	json_error_t error;
	json_t *out;

	*empty = false;
	if (gt_map(&map, path, err))
		return NULL;
	*empty = !map.size;
	if (map.size > MAX_BYTES) {
		gt_err_set(err, GT_EFORMAT, "'%s' is too large for a signature", path);
		gt_unmap(&map);
		return NULL;
	}
	out = json_loadb((const char *)map.data, map.size, JSON_REJECT_DUPLICATES, &error);
	if (!json_is_object(out) || !text_of(out, "mediaType") ||
	    strncmp(text_of(out, "mediaType"), media_start, strlen(media_start))) {
		json_decref(out);
		out = NULL;
		gt_err_set(err, GT_EFORMAT, "'%s' is not a signature: no bundle of Sigstore", path);
	}
	gt_unmap(&map);
	return out;
}

/* A certificate names its owner by an authority; gtrain does not follow that. */
static int check_method(const json_t *bundle, struct gt_err *err)
{
	const json_t *material = json_object_get(bundle, "verificationMaterial");
	const char *type = text_of(bundle, "mediaType");
	bool chain = json_object_get(material, "x509CertificateChain") != NULL;
	bool certificate = chain || json_object_get(material, "certificate");
	bool logged = json_array_size(json_object_get(material, "tlogEntries")) > 0;

	if (certificate && (logged || !chain)) {
		gt_err_set(err, GT_ENOTSUP,
		    "the signature is keyless, by a certificate of Sigstore%s",
		    logged ? " in a transparency log" : "");
		return gt_err_hint(err, "gtrain checks signatures by keys; this one: "
		                        "model_signing verify sigstore");
	}
	if (certificate) {
		gt_err_set(err, GT_ENOTSUP, "the signature is by a chain of certificates");
		return gt_err_hint(err, "gtrain checks signatures by keys; this one: "
		                        "model_signing verify certificate");
	}
	if (strcmp(type, media_type))
		return gt_err_set(err, GT_ENOTSUP,
		    "a bundle of the type '%s' is not supported, only '%s'", type, media_type);
	if (!json_is_object(json_object_get(material, "publicKey")))
		return gt_err_set(err, GT_EFORMAT, "the bundle has no 'publicKey'");
	return 0;
}

static int fail_key(const char *hint, const struct gt_sign_facts *facts, struct gt_err *err)
{
	return gt_err_set(err, GT_EFORMAT,
	    "signed by another key: by %.12s..., but {key} is %.12s...", hint, facts->key);
}

/* Decode the payload and check its signature. */
static int check_envelope(struct gt_buf *payload, const json_t *bundle,
    const struct gt_sign_key *key, const struct gt_sign_facts *facts, struct gt_err *err)
{
	const json_t *envelope = json_object_get(bundle, "dsseEnvelope");
	const json_t *signatures = json_object_get(envelope, "signatures");
	const char *text = text_of(envelope, "payload"), *type = text_of(envelope, "payloadType");
	const char *sig = text_of(json_array_get(signatures, 0), "sig");
	const char *hint = text_of(
	    json_object_get(json_object_get(bundle, "verificationMaterial"), "publicKey"), "hint");
	struct gt_buf signature = { 0 }, message = { 0 };
	int rc = 0;

	if (!text || !sig || json_array_size(signatures) != 1)
		return gt_err_set(err, GT_EFORMAT, "the bundle has no envelope with one signature");
	if (!type || strcmp(type, payload_type))
		return gt_err_set(err, GT_ENOTSUP,
		    "a payload of the type '%s' is not supported, "
		    "only '%s'",
		    type ? type : "", payload_type);
	if (hint && *hint && strcmp(hint, facts->key))
		return fail_key(hint, facts, err);
	rc = gt_base64_decode(payload, text, strlen(text), err);
	if (!rc)
		rc = gt_base64_decode(&signature, sig, strlen(sig), err);
	if (!rc) {
		add_signed_bytes(&message, gt_buf_text(payload), payload->length);
		rc = gt_buf_check(&message, err);
	}
	if (!rc && !gt_sign_key_verify(key, gt_buf_text(&signature), signature.length,
	               gt_buf_text(&message), message.length))
		rc = gt_err_set(err, GT_EFORMAT, "the key has not signed this: %s",
		    hint && *hint ? "the signature was changed"
		                  : "another key has, or the signature was changed");
	gt_buf_release(&signature);
	gt_buf_release(&message);
	return rc;
}

json_t *gt_bundle_check(const char *path, const struct gt_sign_key *key,
    const struct gt_sign_facts *facts, struct gt_err *err)
{
	bool empty;
	json_t *bundle = load(path, &empty, err), *statement = NULL;
	struct gt_buf payload = { 0 };
	json_error_t error;
	int rc;

	if (!bundle)
		return NULL;
	rc = check_method(bundle, err);
	if (!rc)
		rc = check_envelope(&payload, bundle, key, facts, err);
	if (!rc) {
		statement = json_loadb(
		    gt_buf_text(&payload), payload.length, JSON_REJECT_DUPLICATES, &error);
		if (!statement)
			rc = gt_err_set(
			    err, GT_EFORMAT, "the signed statement is no JSON: %s", error.text);
	}
	if (rc)
		gt_err_prefix(err, "'%s'", path);
	gt_buf_release(&payload);
	json_decref(bundle);
	return statement;
}

int gt_bundle_check_output(const char *path, struct gt_err *err)
{
	const struct gt_file_name file = { .path = path };
	struct gt_err why = GT_ERR_INIT;
	struct stat st;
	bool found, empty;
	json_t *bundle;
	int rc = gt_file_check(file, &st, &found, err);

	if (rc || !found)
		return rc;
	bundle = load(path, &empty, &why);
	if (bundle || empty) {
		json_decref(bundle);
		return 0;
	}
	gt_err_set(err, GT_EINVAL, "{output}: '%s' exists, and is not a signature", path);
	return gt_err_hint(err, "choose another name, or remove the file");
}
