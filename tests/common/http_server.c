/* http_server.c - a server of one file that behaves well, badly, and worse. */
#include "tests/common/http_server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct http_server http_server;

static void send_all(int fd, const void *bytes, size_t size)
{
	for (const char *p = bytes; size;) {
		ssize_t n = send(fd, p, size, MSG_NOSIGNAL);

		if (n <= 0)
			return;
		p += n;
		size -= (size_t)n;
	}
}

static void send_head(int fd, const char *status, long from, long length, const char *more)
{
	char text[512];
	int n =
	    snprintf(text, sizeof(text), "HTTP/1.1 %s\r\nConnection: close\r\n%s", status, more);

	if (length >= 0)
		n +=
		    snprintf(text + n, sizeof(text) - (size_t)n, "Content-Length: %ld\r\n", length);
	if (from >= 0)
		n += snprintf(text + n, sizeof(text) - (size_t)n,
		    "Content-Range: bytes %ld-%zu/%zu\r\n", from, http_server.size - 1,
		    http_server.size);
	n += snprintf(text + n, sizeof(text) - (size_t)n, "\r\n");
	send_all(fd, text, (size_t)n);
}

/* The whole, or the part asked for, of which `max` bytes arrive. */
static void send_body(int fd, long first, long max)
{
	long left = (long)http_server.size - first;

	if (first)
		send_head(fd, "206 Partial Content", first, left, "");
	else
		send_head(fd, "200 OK", -1, left, "");
	send_all(fd, http_server.body + first, (size_t)(left < max ? left : max));
}

static void whole(int fd, long first)
{
	send_body(fd, first, (long)http_server.size);
}

static void plain(int fd, long first)
{
	(void)first;
	send_body(fd, 0, (long)http_server.size);
}

static void cut(int fd, long first)
{
	send_body(fd, first, first ? (long)http_server.size : (long)http_server.size / 2);
}

static void always_cut(int fd, long first)
{
	send_body(fd, first, 10);
}

/* A header line without an end, as far as the client reads. */
static void long_header(int fd, long first)
{
	static const char start[] = "HTTP/1.1 200 OK\r\nX: ";
	char line[4096];

	(void)first;
	memset(line, 'x', sizeof(line));
	send_all(fd, start, sizeof(start) - 1);
	for (int i = 0; i < 512; i++)
		send_all(fd, line, sizeof(line));
}

static void slow(int fd, long first)
{
	long step = (long)http_server.size / 10;

	send_head(fd, "200 OK", -1, (long)http_server.size, "");
	(void)first;
	for (long at = 0; at < (long)http_server.size; at += step) {
		send_all(fd, http_server.body + at, (size_t)step);
		usleep(20000);
	}
}

static void send_zeros(int fd, long first, long max)
{
	static const char zeros[1 << 20];
	long left = (long)http_server.size - first;

	if (first)
		send_head(fd, "206 Partial Content", first, left, "");
	else
		send_head(fd, "200 OK", -1, left, "");
	send_all(fd, zeros, (size_t)(left < max ? left : max));
}

static void wrong(int fd, long first)
{
	send_zeros(fd, first, (long)http_server.size);
}

static void wrong_cut(int fd, long first)
{
	send_zeros(fd, first, (long)http_server.size / (first ? 1 : 2));
}

static void shifted(int fd, long first)
{
	if (!first) {
		whole(fd, 0);
		return;
	}
	send_head(fd, "206 Partial Content", first - 1, (long)http_server.size - first + 1, "");
	send_all(fd, http_server.body + first - 1, http_server.size - (size_t)first + 1);
}

static void shorter(int fd, long first)
{
	(void)first;
	send_head(fd, "200 OK", -1, 100, "");
	send_all(fd, http_server.body, 100);
}

static void empty(int fd, long first)
{
	(void)first;
	send_head(fd, "200 OK", -1, 0, "");
}

static void longer(int fd, long first)
{
	(void)first;
	send_head(fd, "200 OK", -1, -1, "");
	for (int i = 0; i < 100; i++)
		send_all(fd, http_server.body, http_server.size);
}

static void missing(int fd, long first)
{
	(void)first;
	send_head(fd, "404 Not Found", -1, 5, "");
	send_all(fd, "where", 5);
}

static void broken(int fd, long first)
{
	(void)first;
	send_head(fd, "500 Internal Server Error", -1, 0, "");
}

static void busy(int fd, long first)
{
	if (http_server.requests == 1)
		send_head(fd, "503 Service Unavailable", -1, 0, "");
	else
		whole(fd, first);
}

static void no_part(int fd, long first)
{
	if (first)
		send_head(fd, "416 Range Not Satisfiable", -1, 0, "");
	else
		whole(fd, 0);
}

static void to_file(int fd, long first)
{
	(void)first;
	send_head(fd, "302 Found", -1, 0, "Location: file:///etc/passwd\r\n");
}

static void hop(int fd, long first)
{
	(void)first;
	send_head(fd, "302 Found", -1, 0, "Location: /whole/set/a.bin\r\n");
}

static void circle(int fd, long first)
{
	(void)first;
	send_head(fd, "302 Found", -1, 0, "Location: /circle/set/a.bin\r\n");
}

static void garbage(int fd, long first)
{
	(void)first;
	send_all(fd, "SSH-2.0-OpenSSH\r\n", 17);
}

#define WAY(name)                                                                                  \
	{                                                                                          \
#name, name                                                                        \
	}

static const struct {
	const char *name;
	void (*answer)(int fd, long first);
} ways[] = {
	WAY(whole),
	WAY(plain),
	WAY(cut),
	WAY(always_cut),
	WAY(slow),
	WAY(wrong),
	WAY(wrong_cut),
	WAY(shifted),
	WAY(shorter),
	WAY(empty),
	WAY(longer),
	WAY(missing),
	WAY(broken),
	WAY(busy),
	WAY(no_part),
	WAY(to_file),
	WAY(hop),
	WAY(circle),
	WAY(garbage),
	WAY(long_header),
};

/* "GET /WAY/SET/FILE HTTP/1.1", and headers, of which Range counts. */
static void *serve_one(void *context)
{
	int fd = (int)(intptr_t)context;
	char request[4096] = "", *range;
	size_t used = 0;
	long first = 0;

	while (!strstr(request, "\r\n\r\n") && used < sizeof(request) - 1) {
		ssize_t n = recv(fd, request + used, sizeof(request) - 1 - used, 0);

		if (n <= 0)
			break;
		used += (size_t)n;
		request[used] = '\0';
	}
	range = strstr(request, "Range: bytes=");
	first = range ? strtol(range + 13, NULL, 10) : 0;
	http_server.requests++;
	http_server.first = first;
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		size_t length = strlen(ways[i].name);

		if (!strncmp(request + 5, ways[i].name, length) && request[5 + length] == '/')
			ways[i].answer(fd, first);
	}
	close(fd);
	return NULL;
}

static void *serve(void *unused)
{
	(void)unused;
	for (;;) {
		int fd = accept(http_server.fd, NULL, NULL);
		pthread_t thread;

		if (fd < 0)
			return NULL;
		if (pthread_create(&thread, NULL, serve_one, (void *)(intptr_t)fd))
			close(fd);
		else
			pthread_detach(thread);
	}
}

void http_server_start(const void *body, size_t size)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t at_size = sizeof(at);

	http_server.body = body;
	http_server.size = size;
	http_server.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(http_server.fd, (struct sockaddr *)&at, at_size), 0);
	assert_int_equal(listen(http_server.fd, 16), 0);
	assert_int_equal(getsockname(http_server.fd, (struct sockaddr *)&at, &at_size), 0);
	http_server.port = ntohs(at.sin_port);
	assert_int_equal(pthread_create(&http_server.thread, NULL, serve, NULL), 0);
}

void http_server_stop(void)
{
	shutdown(http_server.fd, SHUT_RDWR);
	pthread_join(http_server.thread, NULL);
	close(http_server.fd);
}
