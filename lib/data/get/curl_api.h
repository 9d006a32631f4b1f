/* curl_api.h - private: the libcurl functions that gtrain uses, loaded when needed. */
#ifndef GT_DATA_GET_CURL_API_H
#define GT_DATA_GET_CURL_API_H

#include "lib/base/err.h"

/* The part of libcurl's binary interface that gtrain uses, from its documentation, so that a build
 * needs no headers. The numbers have not changed since libcurl.so.4; tests/unit/test_data_curl.c
 * compares them. libcurl is opened at run time, because linking it would start every command 10 ms
 * later. Source: https://curl.se/libcurl/c/, curl_easy_setopt(3), libcurl-errors(3). */
enum gt_curl_option {                    /* comments: the type of the argument */
	GT_CURL_LOW_SPEED_LIMIT = 19,    /* long, bytes per second */
	GT_CURL_LOW_SPEED_TIME = 20,     /* long, seconds */
	GT_CURL_FAILONERROR = 45,        /* long */
	GT_CURL_FOLLOWLOCATION = 52,     /* long */
	GT_CURL_MAXREDIRS = 68,          /* long */
	GT_CURL_NOSIGNAL = 99,           /* long */
	GT_CURL_CONNECTTIMEOUT_MS = 156, /* long */
	GT_CURL_PROTOCOLS = 181,         /* long, bits of protocols */
	GT_CURL_REDIR_PROTOCOLS = 182,   /* long, bits of protocols */
	GT_CURL_WRITEDATA = 10001,       /* void * */
	GT_CURL_URL = 10002,             /* const char * */
	GT_CURL_RANGE = 10007,           /* const char *; NULL: the whole file */
	GT_CURL_ERRORBUFFER = 10010,     /* char [GT_CURL_ERROR_SIZE] */
	GT_CURL_USERAGENT = 10018,       /* const char * */
	GT_CURL_HEADERDATA = 10029,      /* void * */
	GT_CURL_WRITEFUNCTION = 20011,   /* gt_curl_receive */
	GT_CURL_HEADERFUNCTION = 20079   /* gt_curl_receive */
};

enum { GT_CURL_HTTP = 1, GT_CURL_HTTPS = 2 };       /* bits of protocols */
enum { GT_CURL_INFO_RESPONSE_CODE = 0x200000 + 2 }; /* result: long */
enum { GT_CURL_GLOBAL_ALL = 3, GT_CURL_ERROR_SIZE = 256 };

enum gt_curl_code {
	GT_CURLE_OK = 0,
	GT_CURLE_UNSUPPORTED_PROTOCOL = 1,
	GT_CURLE_URL_MALFORMAT = 3,
	GT_CURLE_RESOLVE_PROXY = 5,
	GT_CURLE_RESOLVE_HOST = 6,
	GT_CURLE_CONNECT = 7,
	GT_CURLE_HTTP2 = 16,
	GT_CURLE_PARTIAL_FILE = 18,
	GT_CURLE_HTTP_STATUS = 22,
	GT_CURLE_WRITE = 23,
	GT_CURLE_OUT_OF_MEMORY = 27,
	GT_CURLE_TIMEOUT = 28,
	GT_CURLE_TLS_CONNECT = 35,
	GT_CURLE_REDIRECTS = 47,
	GT_CURLE_GOT_NOTHING = 52,
	GT_CURLE_SEND = 55,
	GT_CURLE_RECEIVE = 56,
	GT_CURLE_CERTIFICATE = 60,
	GT_CURLE_CA_FILE = 77,
	GT_CURLE_HTTP2_STREAM = 92,
	GT_CURLE_TOO_LARGE = 100
};

/* A callback that receives `size * n` bytes and returns this number. Any other return value stops
 * the transfer with the error GT_CURLE_WRITE. */
typedef size_t gt_curl_receive(char *bytes, size_t size, size_t n, void *self);

/* libcurl's functions, and a handle (`easy`) that keeps connections open. After gt_curl_open() no
 * pointer is NULL. */
struct gt_curl {
	int (*global_init)(long flags);
	void *(*easy_init)(void);
	int (*easy_setopt)(void *easy, int option, ...);
	int (*easy_perform)(void *easy);
	int (*easy_getinfo)(void *easy, int info, ...);
	const char *(*easy_strerror)(int code);
	void (*easy_cleanup)(void *easy);
	void *easy;
};

/* Open libcurl, and create a handle. Errors: GT_ENOTSUP if libcurl is not installed (the hint names
 * its package), GT_ENOMEM. */
int gt_curl_open(struct gt_curl **out, struct gt_err *err);
void gt_curl_close(struct gt_curl *curl);

#endif
