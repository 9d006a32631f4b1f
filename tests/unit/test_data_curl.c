/* test_data_curl.c - the numbers that gtrain declares of libcurl's interface are its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <stdio.h>

#include "lib/data/get/curl_api.h"

#if __has_include(<curl/curl.h>)
#define CURL_DISABLE_DEPRECATION
#include <curl/curl.h>

static const struct {
	const char *name;
	long ours, theirs;
} numbers[] = {
#define SAME(ours, theirs)                                                                         \
	{                                                                                          \
#theirs, GT_##ours, (long)(theirs)                                                 \
	}
	SAME(CURL_LOW_SPEED_LIMIT, CURLOPT_LOW_SPEED_LIMIT),
	SAME(CURL_LOW_SPEED_TIME, CURLOPT_LOW_SPEED_TIME),
	SAME(CURL_FAILONERROR, CURLOPT_FAILONERROR),
	SAME(CURL_FOLLOWLOCATION, CURLOPT_FOLLOWLOCATION),
	SAME(CURL_MAXREDIRS, CURLOPT_MAXREDIRS),
	SAME(CURL_NOSIGNAL, CURLOPT_NOSIGNAL),
	SAME(CURL_CONNECTTIMEOUT_MS, CURLOPT_CONNECTTIMEOUT_MS),
	SAME(CURL_PROTOCOLS, CURLOPT_PROTOCOLS),
	SAME(CURL_REDIR_PROTOCOLS, CURLOPT_REDIR_PROTOCOLS),
	SAME(CURL_WRITEDATA, CURLOPT_WRITEDATA),
	SAME(CURL_URL, CURLOPT_URL),
	SAME(CURL_RANGE, CURLOPT_RANGE),
	SAME(CURL_ERRORBUFFER, CURLOPT_ERRORBUFFER),
	SAME(CURL_USERAGENT, CURLOPT_USERAGENT),
	SAME(CURL_HEADERDATA, CURLOPT_HEADERDATA),
	SAME(CURL_WRITEFUNCTION, CURLOPT_WRITEFUNCTION),
	SAME(CURL_HEADERFUNCTION, CURLOPT_HEADERFUNCTION),
	SAME(CURL_HTTP, CURLPROTO_HTTP),
	SAME(CURL_HTTPS, CURLPROTO_HTTPS),
	SAME(CURL_INFO_RESPONSE_CODE, CURLINFO_RESPONSE_CODE),
	SAME(CURL_GLOBAL_ALL, CURL_GLOBAL_ALL),
	SAME(CURL_ERROR_SIZE, CURL_ERROR_SIZE),
	SAME(CURLE_OK, CURLE_OK),
	SAME(CURLE_UNSUPPORTED_PROTOCOL, CURLE_UNSUPPORTED_PROTOCOL),
	SAME(CURLE_URL_MALFORMAT, CURLE_URL_MALFORMAT),
	SAME(CURLE_RESOLVE_PROXY, CURLE_COULDNT_RESOLVE_PROXY),
	SAME(CURLE_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_HOST),
	SAME(CURLE_CONNECT, CURLE_COULDNT_CONNECT),
	SAME(CURLE_HTTP2, CURLE_HTTP2),
	SAME(CURLE_PARTIAL_FILE, CURLE_PARTIAL_FILE),
	SAME(CURLE_HTTP_STATUS, CURLE_HTTP_RETURNED_ERROR),
	SAME(CURLE_WRITE, CURLE_WRITE_ERROR),
	SAME(CURLE_TIMEOUT, CURLE_OPERATION_TIMEDOUT),
	SAME(CURLE_TLS_CONNECT, CURLE_SSL_CONNECT_ERROR),
	SAME(CURLE_REDIRECTS, CURLE_TOO_MANY_REDIRECTS),
	SAME(CURLE_GOT_NOTHING, CURLE_GOT_NOTHING),
	SAME(CURLE_SEND, CURLE_SEND_ERROR),
	SAME(CURLE_RECEIVE, CURLE_RECV_ERROR),
	SAME(CURLE_CERTIFICATE, CURLE_PEER_FAILED_VERIFICATION),
	SAME(CURLE_CA_FILE, CURLE_SSL_CACERT_BADFILE),
	SAME(CURLE_HTTP2_STREAM, CURLE_HTTP2_STREAM),
#undef SAME
};

static void the_numbers_are_those_of_its_header(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (numbers[i].ours != numbers[i].theirs)
			fail_msg("%s is %ld, not %ld", numbers[i].name, numbers[i].theirs,
			    numbers[i].ours);
}

#else

static void the_numbers_are_those_of_its_header(void **state)
{
	(void)state;
	printf("curl: no <curl/curl.h> (Debian's libcurl4-openssl-dev)\n");
	skip();
}

#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_numbers_are_those_of_its_header),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
