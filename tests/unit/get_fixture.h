/* get_fixture.h - a folder for data sets, and a server to fetch them from. */
#ifndef GT_TESTS_GET_FIXTURE_H
#define GT_TESTS_GET_FIXTURE_H

#include <nettle/base16.h>
#include <nettle/sha2.h>
#include <sys/stat.h>

#include "lib/data/get/curl_api.h"
#include "lib/data/get/get.h"
#include "tests/common/http_server.h"
#include "tests/unit/data_fixture.h"

enum { SIZE = 300000, HALF = SIZE / 2 };

static unsigned char body[SIZE];
static char body_sum[2 * SHA256_DIGEST_SIZE + 1];

UNUSED static void sum_of(char hex[2 * SHA256_DIGEST_SIZE + 1], const void *bytes, size_t size)
{
	unsigned char sum[SHA256_DIGEST_SIZE];
	struct sha256_ctx sha;

	sha256_init(&sha);
	sha256_update(&sha, size, bytes);
	sha256_digest(&sha, SHA256_DIGEST_SIZE, sum);
	base16_encode_update(hex, SHA256_DIGEST_SIZE, sum);
	hex[2 * SHA256_DIGEST_SIZE] = '\0';
}

struct place {
	struct fixture f;
	struct gt_get get;
	struct gt_log log;
	FILE *told;
	char *text;
	size_t text_size;
	char mirror[64];
};

UNUSED static void open_place(struct place *p, const char *way)
{
	*p = (struct place){ .log = { .level = GT_LOG_NORMAL } };
	fixture_open(&p->f);
	p->told = open_memstream(&p->text, &p->text_size);
	p->log.stream = p->told;
	snprintf(p->mirror, sizeof(p->mirror), "http://127.0.0.1:%d/%s", http_server.port, way);
	p->get = (struct gt_get){ .folder = p->f.folder,
		.mirror = p->mirror,
		.timeout_s = 1,
		.retries = 1,
		.pause_s = 0.01,
		.log = &p->log };
	http_server.requests = 0;
	http_server.body = body;
	http_server.size = SIZE;
}

UNUSED static void close_place(struct place *p)
{
	gt_get_release(&p->get);
	fclose(p->told);
	free(p->text);
	fixture_close(&p->f);
}

/* How many bytes a file of the set has; -1: none is there. */
UNUSED static long size_of(const struct place *p, const char *name)
{
	char path[128];
	struct stat st;

	snprintf(path, sizeof(path), "set/%s", name);
	return stat(in(&p->f, path), &st) ? -1 : (long)st.st_size;
}

UNUSED static void plant(const struct place *p, const char *name, const void *bytes, size_t size)
{
	char path[128];
	FILE *f;

	mkdir(in(&p->f, "set"), 0777);
	snprintf(path, sizeof(path), "set/%s", name);
	f = fopen(in(&p->f, path), "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, size, f), size);
	fclose(f);
}

UNUSED static int set_up(void **state)
{
	(void)state;
	for (const char *const *name = (const char *const[]){ "http_proxy", "https_proxy",
	         "all_proxy", "HTTPS_PROXY", "ALL_PROXY", NULL };
	     *name; name++)
		unsetenv(*name);
	for (size_t i = 0; i < SIZE; i++)
		body[i] = (unsigned char)(i * 2654435761u >> 13);
	sum_of(body_sum, body, SIZE);
	http_server_start(body, SIZE);
	return 0;
}

UNUSED static int tear_down(void **state)
{
	(void)state;
	http_server_stop();
	return 0;
}

/* A setup: skip the test without libcurl. */
UNUSED static int needs_curl(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_curl *curl;

	(void)state;
	if (gt_curl_open(&curl, &err)) {
		printf("curl: %s\n", err.text);
		skip();
	}
	gt_curl_close(curl);
	return 0;
}

#endif
