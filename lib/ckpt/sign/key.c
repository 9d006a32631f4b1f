/* key.c - ECDSA keys of files, and the signatures that they make. */
#include "lib/ckpt/sign/key.h"

#include <errno.h>
#include <fcntl.h>
#include <nettle/base16.h>
#include <nettle/ecc-curve.h>
#include <nettle/ecdsa.h>
#include <nettle/sha2.h>
#include <nettle/yarrow.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "lib/base/file.h"
#include "lib/base/folder.h"
#include "lib/ckpt/sign/der.h"

/* ---- tables ---- */

enum { OID_BYTES = 9, MAX_DIGEST = SHA512_DIGEST_SIZE, MAX_COORDINATE = 66 };

/* A curve, the identifier that key files have for it, and the hash of messages. */
struct curve {
	const char *name;
	unsigned char oid[OID_BYTES];
	size_t oid_size;
	const struct ecc_curve *(*get)(void);
	void (*hash)(unsigned char digest[MAX_DIGEST], const void *message, size_t size);
	size_t digest_size;
	size_t coordinate; /* bytes of x and of y */
};

static void hash_sha256(unsigned char digest[MAX_DIGEST], const void *message, size_t size)
{
	struct sha256_ctx sha;

	sha256_init(&sha);
	sha256_update(&sha, size, message);
	sha256_digest(&sha, SHA256_DIGEST_SIZE, digest);
}

static void hash_sha384(unsigned char digest[MAX_DIGEST], const void *message, size_t size)
{
	struct sha384_ctx sha;

	sha384_init(&sha);
	sha384_update(&sha, size, message);
	sha384_digest(&sha, SHA384_DIGEST_SIZE, digest);
}

static void hash_sha512(unsigned char digest[MAX_DIGEST], const void *message, size_t size)
{
	struct sha512_ctx sha;

	sha512_init(&sha);
	sha512_update(&sha, size, message);
	sha512_digest(&sha, SHA512_DIGEST_SIZE, digest);
}

static const struct curve curves[] = {
	{ "P-256", { 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07 }, 8, nettle_get_secp_256r1,
	    hash_sha256, SHA256_DIGEST_SIZE, 32 },
	{ "P-384", { 0x2b, 0x81, 0x04, 0x00, 0x22 }, 5, nettle_get_secp_384r1, hash_sha384,
	    SHA384_DIGEST_SIZE, 48 },
	{ "P-521", { 0x2b, 0x81, 0x04, 0x00, 0x23 }, 5, nettle_get_secp_521r1, hash_sha512,
	    SHA512_DIGEST_SIZE, 66 },
};

/* Algorithms of keys; the first one is that of the curves. */
static const struct algorithm {
	const char *name;
	unsigned char oid[OID_BYTES];
	size_t oid_size;
} algorithms[] = {
	{ "elliptic curves", { 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01 }, 7 },
	{ "RSA", { 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01 }, 9 },
	{ "Ed25519", { 0x2b, 0x65, 0x70 }, 3 },
	{ "Ed448", { 0x2b, 0x65, 0x71 }, 3 },
};

enum { CURVES = sizeof(curves) / sizeof(*curves) };
enum { ALGORITHMS = sizeof(algorithms) / sizeof(*algorithms) };

struct gt_sign_key {
	const struct curve *curve;
	struct ecc_point point;   /* the public key */
	struct ecc_scalar secret; /* the private key; secret.ecc is NULL: there is none */
};

static bool is_oid(struct gt_der_bytes found, const unsigned char *oid, size_t size)
{
	return found.size == size && !memcmp(found.data, oid, size);
}

/* ---- errors ---- */

static int fail_damaged(struct gt_err *err)
{
	return gt_err_set(err, GT_EFORMAT, "the key is damaged");
}

static int fail_kind(struct gt_err *err, const char *kind)
{
	gt_err_set(
	    err, GT_ENOTSUP, "the key is of %s, not of the curve P-256, P-384 or P-521", kind);
	return gt_err_hint(err, "openssl ecparam -name prime256v1 -genkey -noout -out key.pem");
}

/* ---- the values of a key file ---- */

/* Read the identifier of a curve at `i`; explicit parameters of a curve are a sequence. */
static int read_curve(
    const struct curve **curve, const struct asn1_der_iterator *i, struct gt_err *err)
{
	*curve = NULL;
	if (gt_der_is(i, ASN1_SEQUENCE))
		return fail_kind(err, "a curve that has no name");
	if (!gt_der_is(i, ASN1_IDENTIFIER))
		return fail_damaged(err);
	for (size_t k = 0; k < CURVES; k++)
		if (is_oid(gt_der_content(i), curves[k].oid, curves[k].oid_size))
			*curve = &curves[k];
	return *curve ? 0 : fail_kind(err, "another curve");
}

/* Read the sequence of an algorithm and its curve. */
static int read_algorithm(
    const struct curve **curve, struct asn1_der_iterator *i, struct gt_err *err)
{
	struct asn1_der_iterator inner;
	struct gt_der_bytes oid;

	if (!gt_der_enter_at(&inner, i, ASN1_SEQUENCE) || !gt_der_is(&inner, ASN1_IDENTIFIER))
		return fail_damaged(err);
	oid = gt_der_content(&inner);
	if (!is_oid(oid, algorithms[0].oid, algorithms[0].oid_size)) {
		for (size_t k = 1; k < ALGORITHMS; k++)
			if (is_oid(oid, algorithms[k].oid, algorithms[k].oid_size))
				return fail_kind(err, algorithms[k].name);
		return fail_kind(err, "another algorithm");
	}
	if (asn1_der_iterator_next(&inner) == ASN1_ITERATOR_ERROR)
		return fail_damaged(err);
	return read_curve(curve, &inner, err);
}

static int set_secret(struct gt_sign_key *key, struct gt_der_bytes number, struct gt_err *err)
{
	mpz_t z;
	bool right;

	if (!number.size || number.size > key->curve->coordinate)
		return fail_damaged(err);
	ecc_point_init(&key->point, key->curve->get());
	ecc_scalar_init(&key->secret, key->curve->get());
	nettle_mpz_init_set_str_256_u(z, number.size, number.data);
	right = ecc_scalar_set(&key->secret, z);
	if (right)
		ecc_point_mul_g(&key->point, &key->secret);
	mpz_clear(z);
	return right ? 0 : fail_damaged(err);
}

/* Read an ECPrivateKey of SEC 1: a version, a number, and perhaps the curve. */
static int read_secret(struct gt_sign_key *key, struct gt_der_bytes bytes, struct gt_err *err)
{
	struct asn1_der_iterator i, inner;
	struct gt_der_bytes number;
	const struct curve *curve = NULL;
	uint32_t version;
	int rc = 0;

	if (!gt_der_enter(&i, bytes) || !asn1_der_get_uint32(&i, &version) || version != 1)
		return fail_damaged(err);
	if (asn1_der_iterator_next(&i) != ASN1_ITERATOR_PRIMITIVE ||
	    !gt_der_is(&i, ASN1_OCTETSTRING))
		return fail_damaged(err);
	number = gt_der_content(&i);
	if (asn1_der_iterator_next(&i) == ASN1_ITERATOR_CONSTRUCTED &&
	    gt_der_enter_at(&inner, &i, (enum asn1_type)GT_DER_CONTEXT_0))
		rc = read_curve(&curve, &inner, err);
	if (rc)
		return rc;
	if (!key->curve)
		key->curve = curve;
	if (!key->curve || (curve && curve != key->curve))
		return fail_damaged(err);
	return set_secret(key, number, err);
}

/* Read a PrivateKeyInfo of PKCS #8, which has such a key inside. */
static int read_pkcs8(struct gt_sign_key *key, struct gt_der_bytes bytes, struct gt_err *err)
{
	struct asn1_der_iterator i;
	uint32_t version;
	int rc;

	if (!gt_der_enter(&i, bytes) || !asn1_der_get_uint32(&i, &version) || version > 1 ||
	    asn1_der_iterator_next(&i) != ASN1_ITERATOR_CONSTRUCTED)
		return fail_damaged(err);
	rc = read_algorithm(&key->curve, &i, err);
	if (rc)
		return rc;
	if (asn1_der_iterator_next(&i) != ASN1_ITERATOR_PRIMITIVE ||
	    !gt_der_is(&i, ASN1_OCTETSTRING))
		return fail_damaged(err);
	return read_secret(key, gt_der_content(&i), err);
}

/* Set the point from its bytes: unused bits, none; 4 for an uncompressed point; x and y. */
static int set_point(struct gt_sign_key *key, struct gt_der_bytes bits, struct gt_err *err)
{
	size_t n = key->curve->coordinate;
	mpz_t x, y;
	bool right;

	if (bits.size == n + 2 && !bits.data[0] && (bits.data[1] == 2 || bits.data[1] == 3)) {
		gt_err_set(err, GT_ENOTSUP, "the key is a compressed point");
		return gt_err_hint(err, "openssl ec -pubin -in KEY -pubout -conv_form uncompressed "
		                        "-out pub.pem");
	}
	if (bits.size != 2 * n + 2 || bits.data[0] || bits.data[1] != 4)
		return fail_damaged(err);
	ecc_point_init(&key->point, key->curve->get());
	nettle_mpz_init_set_str_256_u(x, n, bits.data + 2);
	nettle_mpz_init_set_str_256_u(y, n, bits.data + 2 + n);
	right = ecc_point_set(&key->point, x, y);
	mpz_clear(x);
	mpz_clear(y);
	return right ? 0 : fail_damaged(err);
}

/* Read a SubjectPublicKeyInfo of X.509. */
static int read_public(struct gt_sign_key *key, struct gt_der_bytes bytes, struct gt_err *err)
{
	struct asn1_der_iterator i;
	int rc;

	if (!gt_der_enter(&i, bytes))
		return fail_damaged(err);
	rc = read_algorithm(&key->curve, &i, err);
	if (rc)
		return rc;
	if (asn1_der_iterator_next(&i) != ASN1_ITERATOR_PRIMITIVE || !gt_der_is(&i, ASN1_BITSTRING))
		return fail_damaged(err);
	return set_point(key, gt_der_content(&i), err);
}

/* ---- files ---- */

/* Blocks of PEM files. Those without `read` are refused by their kind. */
static const struct block_kind {
	const char *label;
	bool secret;
	int (*read)(struct gt_sign_key *key, struct gt_der_bytes bytes, struct gt_err *err);
	const char *what, *hint;
} block_kinds[] = {
	{ "EC PRIVATE KEY", true, read_secret, "a private key", NULL },
	{ "PRIVATE KEY", true, read_pkcs8, "a private key", NULL },
	{ "PUBLIC KEY", false, read_public, "a public key", NULL },
	{ "ENCRYPTED PRIVATE KEY", true, NULL, "an encrypted key",
	    "decrypt it: openssl pkey -in KEY -out key.pem" },
	{ "CERTIFICATE", false, NULL, "a certificate",
	    "its key: openssl x509 -in FILE -pubkey -noout -out pub.pem" },
	{ "RSA PRIVATE KEY", true, NULL, "a key of RSA, not of the curve P-256, P-384 or P-521",
	    "openssl ecparam -name prime256v1 -genkey -noout -out key.pem" },
	{ "OPENSSH PRIVATE KEY", true, NULL, "a key of OpenSSH",
	    "as PEM: ssh-keygen -p -m PKCS8 -f KEY" },
};

static const struct block_kind *find_kind(const struct gt_pem_block *block)
{
	for (size_t i = 0; i < sizeof(block_kinds) / sizeof(*block_kinds); i++)
		if (strlen(block_kinds[i].label) == block->label_size &&
		    !memcmp(block_kinds[i].label, block->label, block->label_size))
			return &block_kinds[i];
	return NULL;
}

static int fail_block(const struct block_kind *kind, bool secret, struct gt_err *err)
{
	gt_err_set(err, kind->read ? GT_EINVAL : GT_ENOTSUP, "this is %s%s", kind->what,
	    !kind->read ? ""
	    : secret    ? ", and the private one signs"
	                : ", and the public one checks signatures");
	if (kind->hint)
		return gt_err_hint(err, "%s", kind->hint);
	return secret ? err->code : gt_err_hint(err, "openssl pkey -in KEY -pubout -out pub.pem");
}

/* Read the first block of PEM that is a key. Others, such as EC PARAMETERS, may come before. */
static int read_pem(
    struct gt_sign_key *key, const char *text, size_t size, bool secret, struct gt_err *err)
{
	const struct block_kind *kind = NULL;
	struct gt_pem_block block;
	struct gt_buf der = { 0 };
	size_t at = 0;
	int rc;

	while (!kind && gt_pem_next(&block, &at, text, size))
		kind = find_kind(&block);
	if (!kind) {
		gt_err_set(
		    err, GT_EFORMAT, "there is no %s key in PEM", secret ? "private" : "public");
		return gt_err_hint(err, "a key file has a line '-----BEGIN %s KEY-----'",
		    secret ? "PRIVATE" : "PUBLIC");
	}
	if (block.encrypted && kind->read)
		kind = find_kind(
		    &(struct gt_pem_block){ .label = "ENCRYPTED PRIVATE KEY", .label_size = 21 });
	if (!kind->read || kind->secret != secret)
		return fail_block(kind, secret, err);
	rc = gt_pem_decode(&der, &block, err);
	if (!rc)
		rc = kind->read(key,
		    (struct gt_der_bytes){ (const unsigned char *)gt_buf_text(&der), der.length },
		    err);
	if (der.text)
		explicit_bzero(der.text, der.length);
	gt_buf_release(&der);
	return rc;
}

/* Public keys may be files of DER, too. */
static int read_key(
    struct gt_sign_key *key, const char *text, size_t size, bool secret, struct gt_err *err)
{
	const struct gt_der_bytes bytes = { (const unsigned char *)text, size };

	if (!secret && size && bytes.data[0] == GT_DER_SEQUENCE_TAG)
		return read_public(key, bytes, err);
	return read_pem(key, text, size, secret, err);
}

static int open_key(struct gt_sign_key **out, const char *path, bool secret, struct gt_err *err)
{
	enum { MAX_FILE = 1 << 16 };
	struct gt_sign_key *key = gt_calloc(1, sizeof(*key), err);
	void *text = NULL;
	size_t size = 0;
	int fd = -1,
	    rc = key ? gt_file_open(&fd, (struct gt_file_name){ .path = path }, O_RDONLY, err)
	             : GT_ENOMEM;

	*out = NULL;
	if (!rc) {
		rc = gt_read_to_end(&text, &size, fd, MAX_FILE, err);
		if (rc == GT_ENOMEM && size > MAX_FILE)
			rc = gt_err_set(err, GT_EFORMAT, "too large for a key");
		if (!rc)
			rc = read_key(key, text, size, secret, err);
		if (rc)
			gt_err_prefix(err, "'%s'", path);
	}
	if (text)
		explicit_bzero(text, size);
	free(text);
	if (fd >= 0)
		close(fd);
	if (rc)
		gt_sign_key_close(key);
	else
		*out = key;
	return rc;
}

int gt_sign_key_open_private(struct gt_sign_key **out, const char *path, struct gt_err *err)
{
	return open_key(out, path, true, err);
}

int gt_sign_key_open_public(struct gt_sign_key **out, const char *path, struct gt_err *err)
{
	return open_key(out, path, false, err);
}

void gt_sign_key_close(struct gt_sign_key *key)
{
	if (!key)
		return;
	if (key->secret.ecc) {
		explicit_bzero(key->secret.p, ecc_size(key->secret.ecc) * sizeof(*key->secret.p));
		ecc_scalar_clear(&key->secret);
	}
	if (key->point.ecc)
		ecc_point_clear(&key->point);
	free(key);
}

/* Append the public key as a SubjectPublicKeyInfo. */
static void add_public(struct gt_buf *out, const struct gt_sign_key *key)
{
	size_t n = key->curve->coordinate;
	unsigned char bits[2 + 2 * MAX_COORDINATE] = { 0, 4 };
	struct gt_buf oids = { 0 }, all = { 0 };
	mpz_t x, y;

	mpz_init(x);
	mpz_init(y);
	ecc_point_get(&key->point, x, y);
	nettle_mpz_get_str_256(n, bits + 2, x);
	nettle_mpz_get_str_256(n, bits + 2 + n, y);
	mpz_clear(x);
	mpz_clear(y);
	gt_der_add(&oids, ASN1_IDENTIFIER, algorithms[0].oid, algorithms[0].oid_size);
	gt_der_add(&oids, ASN1_IDENTIFIER, key->curve->oid, key->curve->oid_size);
	gt_der_add(&all, GT_DER_SEQUENCE_TAG, gt_buf_text(&oids), oids.length);
	gt_der_add(&all, ASN1_BITSTRING, bits, 2 + 2 * n);
	gt_der_add(out, GT_DER_SEQUENCE_TAG, gt_buf_text(&all), all.length);
	out->failed |= oids.failed || all.failed;
	gt_buf_release(&oids);
	gt_buf_release(&all);
}

int gt_sign_key_describe(
    struct gt_sign_facts *facts, const struct gt_sign_key *key, struct gt_err *err)
{
	unsigned char digest[MAX_DIGEST];
	struct gt_buf der = { 0 }, pem = { 0 };
	int rc;

	add_public(&der, key);
	gt_pem_add(&pem, "PUBLIC KEY", gt_buf_text(&der), der.length);
	pem.failed |= der.failed;
	hash_sha256(digest, gt_buf_text(&pem), pem.length);
	base16_encode_update(facts->key, SHA256_DIGEST_SIZE, digest);
	facts->key[GT_SIGN_HEX - 1] = '\0';
	facts->curve = key->curve->name;
	rc = gt_buf_check(&pem, err);
	gt_buf_release(&der);
	gt_buf_release(&pem);
	return rc;
}

/* ---- signatures ---- */

static void draw(void *generator, size_t length, uint8_t *out)
{
	yarrow256_random(generator, length, out);
}

/* A generator with a seed of the system's, as the functions that take one cannot fail. */
static int seed_generator(struct yarrow256_ctx *generator, struct gt_err *err)
{
	unsigned char seed[2 * YARROW256_SEED_FILE_SIZE];

	if (getrandom(seed, sizeof(seed), 0) != sizeof(seed))
		return gt_err_sys(err, "cannot get random numbers");
	yarrow256_init(generator, 0, NULL);
	yarrow256_seed(generator, sizeof(seed), seed);
	explicit_bzero(seed, sizeof(seed));
	return 0;
}

static void add_number(struct gt_buf *out, const mpz_t z)
{
	unsigned char bytes[MAX_COORDINATE + 1];
	size_t size = nettle_mpz_sizeinbase_256_s(z);

	nettle_mpz_get_str_256(size, bytes, z);
	gt_der_add(out, ASN1_INTEGER, bytes, size);
}

int gt_sign_key_sign(struct gt_buf *out, const struct gt_sign_key *key, const void *message,
    size_t size, struct gt_err *err)
{
	unsigned char digest[MAX_DIGEST];
	struct yarrow256_ctx generator;
	struct dsa_signature signature;
	struct gt_buf numbers = { 0 };

	if (seed_generator(&generator, err))
		return err->code;
	key->curve->hash(digest, message, size);
	dsa_signature_init(&signature);
	ecdsa_sign(&key->secret, &generator, draw, key->curve->digest_size, digest, &signature);
	explicit_bzero(&generator, sizeof(generator));
	add_number(&numbers, signature.r);
	add_number(&numbers, signature.s);
	dsa_signature_clear(&signature);
	gt_der_add(out, GT_DER_SEQUENCE_TAG, gt_buf_text(&numbers), numbers.length);
	out->failed |= numbers.failed;
	gt_buf_release(&numbers);
	return gt_buf_check(out, err);
}

bool gt_sign_key_verify(const struct gt_sign_key *key, const void *bytes, size_t bytes_size,
    const void *message, size_t size)
{
	const struct gt_der_bytes der = { bytes, bytes_size };
	const unsigned bits = 8 * MAX_COORDINATE;
	unsigned char digest[MAX_DIGEST];
	struct dsa_signature signature;
	struct asn1_der_iterator i;
	bool right;

	key->curve->hash(digest, message, size);
	dsa_signature_init(&signature);
	right = gt_der_enter(&i, der) && asn1_der_get_bignum(&i, signature.r, bits) &&
	        asn1_der_iterator_next(&i) == ASN1_ITERATOR_PRIMITIVE &&
	        asn1_der_get_bignum(&i, signature.s, bits) &&
	        asn1_der_iterator_next(&i) == ASN1_ITERATOR_END &&
	        ecdsa_verify(&key->point, key->curve->digest_size, digest, &signature);
	dsa_signature_clear(&signature);
	return right;
}
