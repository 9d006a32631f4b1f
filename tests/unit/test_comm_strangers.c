/* test_comm_strangers.c - strangers that come to a meeting, or answer, in place of ranks. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/base/clock.h"
#include "lib/comm/rendezvous/messages.h"
#include "tests/common/ranks.h"

/* Another program has the port: it says hello as such programs do. */
static void other_programs_are_recognised(void **state)
{
	static const char *const answers[] = { "SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n",
		"HTTP/1.1 400 Bad Request\r\n\r\n" };
	struct rank rank[2];

	(void)state;
	for (size_t k = 0; k < 2; k++) {
		int fd;

		ranks_make(rank, 2, AF_INET);
		ranks_start(rank + 1, 1);
		fd = accept(rank[0].world.listen_fd, NULL, NULL);
		assert_true(fd >= 0);
		assert_true(send(fd, answers[k], strlen(answers[k]), 0) > 0);
		ranks_finish(rank + 1, 1);
		assert_int_equal(rank[1].rc, GT_EFORMAT);
		assert_non_null(strstr(rank[1].err.text, "is not rank 0 of a gtrain job"));
		close(fd);
		close(rank[0].world.listen_fd);
	}
}

/* A listener without the secret cannot admit any rank. */
static void impostors_are_found_out(void **state)
{
	unsigned char hello[GT_WIRE_HELLO], nonce[GT_WIRE_NONCE] = { 7 }, head[GT_WIRE_HEAD],
	                                    body[1024];
	unsigned char hash[SHA256_DIGEST_SIZE] = { 0 };
	struct rank rank[2];
	double deadline = gt_clock_s() + 10;
	int fd;

	(void)state;
	ranks_make(rank, 2, AF_INET);
	ranks_start(rank + 1, 1);
	fd = accept(rank[0].world.listen_fd, NULL, NULL);
	assert_int_equal(gt_wire_receive(fd, hello, sizeof(hello), deadline), 0);
	assert_int_equal(gt_wire_send_message(fd, GT_WIRE_CHALLENGE, nonce, sizeof(nonce)), 0);
	assert_int_equal(gt_wire_receive(fd, head, sizeof(head), deadline), 0);
	assert_int_equal(gt_wire_receive(fd, body, gt_wire_get(head + 4), deadline), 0);
	memcpy(hash, body, sizeof(hash)); /* the guest's own words */
	assert_int_equal(gt_wire_send_message(fd, GT_WIRE_ADMITTED, hash, sizeof(hash)), 0);
	ranks_finish(rank + 1, 1);
	assert_int_equal(rank[1].rc, GT_EINVAL);
	assert_non_null(strstr(rank[1].err.text, "does not know the job's secret"));
	close(fd);
	close(rank[0].world.listen_fd);
}

/* A rank of another version is told so, and ends no job. */
static void other_versions_are_told(void **state)
{
	unsigned char hello[GT_WIRE_HELLO], head[GT_WIRE_HEAD], body[GT_WIRE_MAX_ERROR];
	struct gt_hello other = { 9, 2, 1, 0, { 1 } };
	struct gt_err err = GT_ERR_INIT;
	struct rank rank[2];
	uint32_t size;
	int fd;

	(void)state;
	ranks_make(rank, 2, AF_INET);
	rank[0].timeout_s = 0.2;
	ranks_start(rank, 1);
	fd = ranks_dial(rank[0].world.port);
	gt_hello_write(hello, &other);
	assert_int_equal(gt_wire_send(fd, hello, sizeof(hello), gt_clock_s() + 10), 0);
	assert_int_equal(gt_wire_receive(fd, head, sizeof(head), gt_clock_s() + 10), 0);
	size = gt_wire_get(head + 4);
	assert_int_equal(gt_wire_get(head), GT_WIRE_ERROR);
	assert_in_range(size, 5, sizeof(body));
	assert_int_equal(gt_wire_receive(fd, body, size, gt_clock_s() + 10), 0);
	gt_wire_read_error(&err, body, size);
	assert_string_equal(err.text, "rank 1 speaks version 9 of the protocol, rank 0 version 1");
	ranks_finish(rank, 1);
	assert_int_equal(rank[0].rc, GT_EINVAL);
	assert_non_null(strstr(rank[0].err.text, "speaks version 9"));
	close(fd);
}

/* Rank 0 allocates nothing for a stranger without a proof: it closes the connection at once. */
static void large_claims_are_not_believed(void **state)
{
	static const uint32_t sizes[] = { 0, SHA256_DIGEST_SIZE - 1, GT_WIRE_MAX_PROOF, 1u << 31,
		~0u };
	struct gt_hello hello = { GT_WIRE_VERSION, 2, 1, 0, { 1 } };
	unsigned char bytes[GT_WIRE_HELLO + GT_WIRE_HEAD], answer[GT_WIRE_HEAD + GT_WIRE_NONCE];
	struct rank rank[2];

	(void)state;
	ranks_make(rank, 2, AF_INET);
	ranks_start(rank, 1);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		int fd = ranks_dial(rank[0].world.port);
		double deadline = gt_clock_s() + 4; /* sooner than it loses patience */

		gt_hello_write(bytes, &hello);
		gt_wire_put(bytes + GT_WIRE_HELLO, GT_WIRE_PROOF);
		gt_wire_put(bytes + GT_WIRE_HELLO + 4, sizes[i]);
		assert_int_equal(gt_wire_send(fd, bytes, sizeof(bytes), deadline), 0);
		assert_int_equal(gt_wire_receive(fd, answer, sizeof(answer), deadline), 0);
		assert_int_equal(gt_wire_receive(fd, answer, 1, deadline), -ECONNRESET);
		close(fd);
	}
	ranks_start(rank + 1, 1);
	ranks_finish(rank, 2);
	ranks_expect_well(rank, 2);
}

/* splitmix64, for numbers that only have to be the same again. */
static uint64_t draw(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* A hello and a proof with some bytes altered and the end cut off, or nothing of the kind. */
static size_t garbage(unsigned char *out, size_t max, uint64_t *seed)
{
	struct gt_hello hello = { GT_WIRE_VERSION, 3, (uint32_t)(draw(seed) % 4), 0, { 0 } };
	size_t size =
	    GT_WIRE_HELLO + GT_WIRE_HEAD + draw(seed) % (max - GT_WIRE_HELLO - GT_WIRE_HEAD);

	for (size_t i = 0; i < size; i++)
		out[i] = (unsigned char)draw(seed);
	if (draw(seed) % 8) {
		gt_hello_write(out, &hello);
		gt_wire_put(out + GT_WIRE_HELLO, GT_WIRE_PROOF);
		if (draw(seed) % 4)
			gt_wire_put(out + GT_WIRE_HELLO + 4, (uint32_t)(draw(seed) % 20000));
	}
	for (uint64_t n = draw(seed) % 3; n; n--)
		out[draw(seed) % size] ^= (unsigned char)(1 << draw(seed) % 8);
	return draw(seed) % 2 ? size : draw(seed) % size;
}

/* More silent ones than there is room for, and many that say anything, before the ranks and
 * between them: the ranks meet all the same. */
static void strangers_are_in_nobodys_way(void **state)
{
	uint64_t seed = (uint64_t)time(NULL), first = seed;
	unsigned char bytes[1200];
	struct rank rank[3];
	int fd[300];

	(void)state;
	ranks_make(rank, 3, AF_INET);
	ranks_start(rank, 1);
	for (int i = 0; i < 300; i++) {
		size_t size = garbage(bytes, sizeof(bytes), &seed);

		fd[i] = ranks_dial(rank[0].world.port);
		assert_true(fd[i] >= 0 || i > 200); /* once all ranks are there, nobody listens */
		if (i % 3)
			(void)send(fd[i], bytes, size, MSG_NOSIGNAL);
		if (i % 7 == 0)
			shutdown(fd[i], SHUT_WR);
		if (i == 200)
			ranks_start(rank + 1, 2);
	}
	ranks_finish(rank, 3);
	for (int i = 0; i < 300; i++)
		if (fd[i] >= 0)
			close(fd[i]);
	for (int i = 0; i < 3; i++)
		if (rank[i].rc || rank[i].took_s > 10)
			fail_msg("seed %llu, rank %d: %.1f s, '%s'", (unsigned long long)first, i,
			    rank[i].took_s, rank[i].err.text);
}

/* And a rank believes nothing that it is answered: it fails, and soon. */
static void ranks_survive_any_answer(void **state)
{
	uint64_t seed = (uint64_t)time(NULL) + 1, first = seed;

	(void)state;
	for (int i = 0; i < 40; i++) {
		unsigned char bytes[700];
		size_t size = 1 + draw(&seed) % sizeof(bytes);
		struct rank rank[2];
		int fd;

		ranks_make(rank, 2, AF_INET);
		rank[1].timeout_s = 0.02;
		ranks_start(rank + 1, 1);
		fd = accept(rank[0].world.listen_fd, NULL, NULL);
		for (size_t k = 0; k < size; k++)
			bytes[k] = (unsigned char)draw(&seed);
		if (size >= GT_WIRE_HEAD && draw(&seed) % 4) {
			gt_wire_put(bytes, 1 + (uint32_t)(draw(&seed) % 6));
			gt_wire_put(
			    bytes + 4, (uint32_t)(draw(&seed) % 3 ? 32 : draw(&seed) % 600));
		}
		(void)send(fd, bytes, size, MSG_NOSIGNAL);
		shutdown(fd, SHUT_WR);
		close(rank[0].world.listen_fd);
		ranks_finish(rank + 1, 1);
		close(fd);
		if (!rank[1].rc || rank[1].took_s > 5)
			fail_msg(
			    "seed %llu, answer %d: %d", (unsigned long long)first, i, rank[1].rc);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(other_programs_are_recognised),
		cmocka_unit_test(impostors_are_found_out),
		cmocka_unit_test(other_versions_are_told),
		cmocka_unit_test(large_claims_are_not_believed),
		cmocka_unit_test(strangers_are_in_nobodys_way),
		cmocka_unit_test(ranks_survive_any_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
