/* http_server.h - a server of one file that behaves well, badly, and worse. */
#ifndef GT_TESTS_COMMON_HTTP_SERVER_H
#define GT_TESTS_COMMON_HTTP_SERVER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

/*
 * Each path http://127.0.0.1:PORT/WAY/... gives the body, in the way of the table in
 * http_server.c: whole, plain (ignores Range), cut (half of it, the rest when asked for), slow,
 * wrong (zeros), missing (404), to_file (leads to file://), ... Each request has a thread.
 */
extern struct http_server {
	int fd, port;
	pthread_t thread;
	atomic_int requests;
	atomic_long first; /* of the last request: the byte it began with */
	/* A test may set these while threads of earlier requests still send. */
	const unsigned char *_Atomic body;
	atomic_size_t size; /* at most 1 MiB */
} http_server;

void http_server_start(const void *body, size_t size);
void http_server_stop(void);

#endif
