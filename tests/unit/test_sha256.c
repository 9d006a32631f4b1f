/* test_sha256.c - SHA-256 and HMAC against published vectors, however the bytes come in. */
#include "lib/base/sha256.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { HEX = 2 * GT_SHA256_SIZE + 1 };

static const char *hex(char out[HEX], const unsigned char hash[GT_SHA256_SIZE])
{
	for (int i = 0; i < GT_SHA256_SIZE; i++)
		snprintf(out + 2 * i, 3, "%02x", hash[i]);
	return out;
}

/* `text` repeated. The first three are FIPS 180-4's own examples, the one of a million bytes too;
 * the others lie around the edges of a block and are Python's hashlib's. */
static const struct {
	const char *text;
	size_t times;
	const char *hash;
} messages[] = {
	{ "", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
	{ "abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
	{ "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
	    "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
	{ "a", 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0" },
	{ "b", 55, "eb2c86e932179f4ba13fe8715a26124b77d6bad290b9b4c1cc140cf633300c19" },
	{ "b", 56, "a5fc6e203a4c2b657d0d153885932414b2ffc6a93f0f8bf8b3183315e5a7212c" },
	{ "b", 63, "94e419fabac7f930810f9636354042f8c1426d2f834d4ab65c93dc1e69326b13" },
	{ "b", 64, "a0fab1377f49a759b57f63318262ebe89fabfc990e8e93ceac2984561482b9d4" },
	{ "b", 65, "74b128f30cf83de43ddf4aafc40c7b50a7443d3c73a89a7cfca17e15e43d51ab" },
	{ "b", 119, "68297a9eb141ce16bbc0847da1c0c48e2858704feaa13993bde29f87a198a6e1" },
	{ "b", 120, "392add47fbaa8197a874ebe770a947a26dd6f2becce5f64688cc4d18c9da93bd" },
};

static void messages_have_their_hash(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(messages) / sizeof(*messages); i++) {
		unsigned char hash[GT_SHA256_SIZE];
		struct gt_sha256 sha;
		char shown[HEX];

		gt_sha256_init(&sha);
		for (size_t n = 0; n < messages[i].times; n++)
			gt_sha256_update(&sha, messages[i].text, strlen(messages[i].text));
		gt_sha256_finish(&sha, hash);
		assert_string_equal(hex(shown, hash), messages[i].hash);
	}
}

static void pieces_do_not_matter(void **state)
{
	unsigned char text[300], whole[GT_SHA256_SIZE], hash[GT_SHA256_SIZE];
	struct gt_sha256 sha;

	(void)state;
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (unsigned char)(7 * i);
	gt_sha256_init(&sha);
	gt_sha256_update(&sha, text, sizeof(text));
	gt_sha256_finish(&sha, whole);
	for (size_t cut = 0; cut <= sizeof(text); cut++) {
		gt_sha256_init(&sha);
		gt_sha256_update(&sha, text, cut);
		gt_sha256_update(&sha, text + cut, sizeof(text) - cut);
		gt_sha256_finish(&sha, hash);
		assert_memory_equal(hash, whole, sizeof(hash));
	}
}

/* RFC 4231, test cases 1, 2, 3, 4, 6 and 7 (5 is about a shortened hash). A key or text of one
 * repeated byte, or of 1, 2, 3, ... where the byte is 0. */
static const struct {
	int key_byte;
	size_t key_size;
	const char *key, *text;
	int text_byte;
	size_t text_size;
	const char *hash;
} macs[] = {
	{ 0x0b, 20, NULL, "Hi There", 0, 0,
	    "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7" },
	{ 0, 0, "Jefe", "what do ya want for nothing?", 0, 0,
	    "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843" },
	{ 0xaa, 20, NULL, NULL, 0xdd, 50,
	    "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe" },
	{ 0, 25, NULL, NULL, 0xcd, 50,
	    "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b" },
	{ 0xaa, 131, NULL, "Test Using Larger Than Block-Size Key - Hash Key First", 0, 0,
	    "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54" },
	{ 0xaa, 131, NULL,
	    "This is a test using a larger than block-size key and a larger than block-size data. "
	    "The key needs to be hashed before being used by the HMAC algorithm.",
	    0, 0, "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2" },
};

/* Where there is no text, `size` bytes of `byte` in `room`. */
static const void *material(unsigned char *room, const char *text, int byte, size_t *size)
{
	if (text) {
		*size = strlen(text);
		return text;
	}
	for (size_t i = 0; i < *size; i++)
		room[i] = byte ? (unsigned char)byte : (unsigned char)(i + 1);
	return room;
}

static void keyed_hashes_are_those_of_the_rfc(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(macs) / sizeof(*macs); i++) {
		unsigned char key_room[200], text_room[200], hash[GT_SHA256_SIZE];
		size_t key_size = macs[i].key_size, text_size = macs[i].text_size;
		const void *key = material(key_room, macs[i].key, macs[i].key_byte, &key_size);
		const void *text = material(text_room, macs[i].text, macs[i].text_byte, &text_size);
		struct gt_hmac hmac;
		char shown[HEX];

		gt_hmac_init(&hmac, key, key_size);
		gt_hmac_update(&hmac, text, text_size);
		gt_hmac_finish(&hmac, hash);
		assert_string_equal(hex(shown, hash), macs[i].hash);
	}
}

static void any_bit_makes_two_hashes_differ(void **state)
{
	unsigned char a[GT_SHA256_SIZE] = { 1, 2, 3 }, b[GT_SHA256_SIZE];

	(void)state;
	memcpy(b, a, sizeof(b));
	assert_true(gt_sha256_same(a, b));
	for (int bit = 0; bit < 8 * GT_SHA256_SIZE; bit++) {
		b[bit / 8] ^= (unsigned char)(1 << bit % 8);
		assert_false(gt_sha256_same(a, b));
		b[bit / 8] ^= (unsigned char)(1 << bit % 8);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_have_their_hash),
		cmocka_unit_test(pieces_do_not_matter),
		cmocka_unit_test(keyed_hashes_are_those_of_the_rfc),
		cmocka_unit_test(any_bit_makes_two_hashes_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
