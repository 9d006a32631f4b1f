/* download.c - the rest of a file from an HTTP server. */
#include "lib/data/get/download.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/text.h"

enum { LEAST_BYTES_S = 1000, MOST_REDIRECTS = 8, UNIT_BYTES = 1024 };
enum { HTTP_WHOLE = 200, HTTP_PART = 206, HTTP_NO_SUCH_PART = 416 };

/* A request under way. */
struct transfer {
	const struct gt_download *d;
	struct gt_curl *curl;
	struct gt_err *err;
	enum gt_download_remedy remedy;
	int rc;        /* error of writing, or of a rejected answer */
	uint64_t have; /* bytes of the file so far */
	bool begun;    /* the first bytes of the answer are here */
	bool has_part; /* the answer has the range of a part */
	uint64_t part; /* first byte of this part */
	uint64_t came; /* bytes in this request */
	double began;
	char reason[GT_CURL_ERROR_SIZE];
};

const char *gt_download_host(char out[GT_HOST_SIZE], const char *address)
{
	const char *host = strstr(address, "://"), *at;
	int length;

	host = host ? host + 3 : address;
	length = (int)strcspn(host, "/?#");
	at = memrchr(host, '@', (size_t)length);
	if (at) {
		length -= (int)(at + 1 - host);
		host = at + 1;
	}
	snprintf(out, GT_HOST_SIZE, "%.*s", length, host);
	return out;
}

/* "cannot fetch 'FILE' from HOST: REASON", and the action that may help. */
static int fail_transfer(
    struct transfer *t, int code, enum gt_download_remedy remedy, const char *reason)
{
	char host[GT_HOST_SIZE];

	t->remedy = remedy;
	t->rc = gt_err_set(t->err, code, "cannot fetch '%s' from %s: %s", t->d->name,
	    gt_download_host(host, t->d->address), reason);
	return t->rc;
}

static int empty_file(struct transfer *t)
{
	if (ftruncate(t->d->fd, 0)) {
		t->remedy = GT_REMEDY_NONE;
		t->rc = gt_err_sys(t->err, "cannot write '%s'", t->d->path);
		return t->rc;
	}
	t->have = 0;
	return 0;
}

static int fail_size(struct transfer *t, const char *relation, uint64_t size)
{
	char reason[160];

	snprintf(reason, sizeof(reason), "the file there has %s%" PRIu64 " bytes, not %" PRIu64,
	    relation, size, t->d->size_bytes);
	return empty_file(t) ? t->rc : fail_transfer(t, GT_EFORMAT, GT_REMEDY_ELSEWHERE, reason);
}

/* The answer begins: is it the part that was asked for, or all of the file? */
static int begin(struct transfer *t)
{
	long status = 0;

	t->begun = true;
	t->curl->easy_getinfo(t->curl->easy, GT_CURL_INFO_RESPONSE_CODE, &status);
	if (status == HTTP_PART && t->has_part && t->part == t->have)
		return 0;
	if (status == HTTP_WHOLE)
		return t->have ? empty_file(t) : 0;
	return empty_file(t)
	           ? t->rc
	           : fail_transfer(t, GT_EIO, GT_REMEDY_RETRY, "it is another part of the file");
}

static int write_all(struct transfer *t, const char *bytes, size_t size)
{
	while (size) {
		ssize_t n = pwrite(t->d->fd, bytes, size, (off_t)t->have);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			t->remedy = GT_REMEDY_NONE;
			t->rc = gt_err_sys(t->err, "cannot write '%s'", t->d->path);
			return t->rc;
		}
		bytes += n;
		size -= (size_t)n;
		t->have += (uint64_t)n;
		t->came += (uint64_t)n;
	}
	return 0;
}

static void show_transfer(const struct transfer *t)
{
	double seconds = gt_clock_s() - t->began;
	char rate[GT_TEXT_SIZE], text[GT_TEXT_SIZE + 2];
	const struct gt_progress_field fields[] = { { t->d->name, 1 }, { text, 2 }, { 0 } };

	if (!t->d->progress)
		return;
	snprintf(text, sizeof(text), "%s/s",
	    gt_text_bytes(rate, seconds > 0 ? (uint64_t)((double)t->came / seconds) : 0));
	gt_progress_update(t->d->progress, (int64_t)(t->have / UNIT_BYTES), fields);
}

static size_t take_body(char *bytes, size_t size, size_t n, void *self)
{
	struct transfer *t = self;

	size *= n;
	if (!t->begun && begin(t))
		return !size;
	if (size > t->d->size_bytes - t->have) {
		fail_size(t, "more than ", t->d->size_bytes);
		return !size;
	}
	if (write_all(t, bytes, size))
		return !size;
	show_transfer(t);
	return size;
}

/* "Content-Range: bytes 100-199/200". Headers of a redirect come before those of the answer. */
static size_t take_header(char *line, size_t size, size_t n, void *self)
{
	static const char wanted[] = "content-range:";
	struct transfer *t = self;
	char text[80];

	size *= n;
	if (size >= 5 && !strncasecmp(line, "HTTP/", 5))
		t->has_part = false;
	if (size > sizeof(wanted) && size < sizeof(text) &&
	    !strncasecmp(line, wanted, sizeof(wanted) - 1)) {
		memcpy(text, line, size);
		text[size] = '\0';
		t->has_part =
		    sscanf(text + sizeof(wanted) - 1, " bytes %" SCNu64 "-", &t->part) == 1;
	}
	return size;
}

/* libcurl's codes; its own words where there are none here. */
static const struct {
	int code;
	enum gt_download_remedy remedy;
	const char *text;
} faults[] = {
	{ GT_CURLE_UNSUPPORTED_PROTOCOL, GT_REMEDY_ELSEWHERE,
	    "it leads to an address that is neither http:// nor https://" },
	{ GT_CURLE_URL_MALFORMAT, GT_REMEDY_ELSEWHERE, "it is not an address" },
	{ GT_CURLE_RESOLVE_PROXY, GT_REMEDY_ELSEWHERE, "the name of the proxy is not known" },
	{ GT_CURLE_RESOLVE_HOST, GT_REMEDY_ELSEWHERE,
	    "the name of the host is not known, or there is no network" },
	{ GT_CURLE_CONNECT, GT_REMEDY_ELSEWHERE, NULL },
	{ GT_CURLE_HTTP2, GT_REMEDY_RETRY, NULL },
	{ GT_CURLE_PARTIAL_FILE, GT_REMEDY_RETRY, "the connection ended too early" },
	/* libcurl's limit for the length of a header line */
	{ GT_CURLE_OUT_OF_MEMORY, GT_REMEDY_ELSEWHERE,
	    "the answer has a header that is too long, or memory ran out" },
	{ GT_CURLE_TOO_LARGE, GT_REMEDY_ELSEWHERE, "the answer has a header that is too long" },
	{ GT_CURLE_TIMEOUT, GT_REMEDY_RETRY, NULL },
	{ GT_CURLE_TLS_CONNECT, GT_REMEDY_RETRY, NULL },
	{ GT_CURLE_REDIRECTS, GT_REMEDY_ELSEWHERE, "it leads in circles" },
	{ GT_CURLE_GOT_NOTHING, GT_REMEDY_RETRY, "the server did not answer" },
	{ GT_CURLE_SEND, GT_REMEDY_RETRY, NULL },
	{ GT_CURLE_RECEIVE, GT_REMEDY_RETRY, NULL },
	{ GT_CURLE_CERTIFICATE, GT_REMEDY_ELSEWHERE, NULL },
	{ GT_CURLE_CA_FILE, GT_REMEDY_ELSEWHERE, NULL },
	{ GT_CURLE_HTTP2_STREAM, GT_REMEDY_RETRY, NULL },
};

static int fail_by_status(struct transfer *t)
{
	static const long passing[] = { 408, 425, 429, 500, 502, 503, 504 };
	enum gt_download_remedy remedy = GT_REMEDY_ELSEWHERE;
	char reason[64];
	long status = 0;

	t->curl->easy_getinfo(t->curl->easy, GT_CURL_INFO_RESPONSE_CODE, &status);
	for (size_t i = 0; i < sizeof(passing) / sizeof(*passing); i++)
		if (status == passing[i])
			remedy = GT_REMEDY_RETRY;
	if (status == HTTP_NO_SUCH_PART && t->have) {
		if (empty_file(t))
			return t->rc;
		remedy = GT_REMEDY_RETRY;
	}
	snprintf(reason, sizeof(reason), "HTTP status %ld", status);
	return fail_transfer(t, GT_EIO, remedy, reason);
}

static int fail_by_code(struct transfer *t, int code)
{
	enum gt_download_remedy remedy = GT_REMEDY_ELSEWHERE;
	const char *reason = NULL;
	long status = 0;

	if (t->rc)
		return t->rc;
	if (code == GT_CURLE_HTTP_STATUS)
		return fail_by_status(t);
	for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++)
		if (faults[i].code == code) {
			remedy = faults[i].remedy;
			reason = faults[i].text;
		}
	/* A host that has not answered at all will hardly do so in a moment: often there is no
	 * network, and then each try would take the whole time. */
	t->curl->easy_getinfo(t->curl->easy, GT_CURL_INFO_RESPONSE_CODE, &status);
	if (code == GT_CURLE_TIMEOUT && !status)
		remedy = GT_REMEDY_ELSEWHERE;
	if (!reason)
		reason = *t->reason ? t->reason : t->curl->easy_strerror(code);
	return fail_transfer(t, GT_EIO, remedy, reason);
}

static bool set_up(struct transfer *t, const char *range)
{
	const struct gt_download *d = t->d;
	bool https = !strncasecmp(d->address, "https:", 6);
	const struct {
		int option;
		long value;
	} numbers[] = {
		{ GT_CURL_NOSIGNAL, 1 },
		{ GT_CURL_FAILONERROR, 1 },
		{ GT_CURL_FOLLOWLOCATION, 1 },
		{ GT_CURL_MAXREDIRS, MOST_REDIRECTS },
		{ GT_CURL_PROTOCOLS, GT_CURL_HTTP | GT_CURL_HTTPS },
		{ GT_CURL_REDIR_PROTOCOLS, (https ? 0 : GT_CURL_HTTP) | GT_CURL_HTTPS },
		{ GT_CURL_CONNECTTIMEOUT_MS, lround(d->timeout_s * 1000) },
		{ GT_CURL_LOW_SPEED_LIMIT, LEAST_BYTES_S },
		{ GT_CURL_LOW_SPEED_TIME, (long)ceil(d->timeout_s) },
	};
	const struct {
		int option;
		const void *value;
	} pointers[] = {
		{ GT_CURL_URL, d->address },
		{ GT_CURL_USERAGENT, "gtrain/" GT_VERSION },
		{ GT_CURL_RANGE, range },
		{ GT_CURL_ERRORBUFFER, t->reason },
		{ GT_CURL_WRITEDATA, t },
		{ GT_CURL_HEADERDATA, t },
	};
	bool ok = true;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		ok &= !t->curl->easy_setopt(t->curl->easy, numbers[i].option, numbers[i].value);
	for (size_t i = 0; i < sizeof(pointers) / sizeof(*pointers); i++)
		ok &= !t->curl->easy_setopt(t->curl->easy, pointers[i].option, pointers[i].value);
	return ok && !t->curl->easy_setopt(t->curl->easy, GT_CURL_WRITEFUNCTION, take_body) &&
	       !t->curl->easy_setopt(t->curl->easy, GT_CURL_HEADERFUNCTION, take_header);
}

static int perform(struct transfer *t)
{
	char range[32];
	int code;

	snprintf(range, sizeof(range), "%" PRIu64 "-", t->have);
	if (!set_up(t, t->have ? range : NULL))
		return gt_err_set(t->err, GT_ENOTSUP, "libcurl refuses an option of gtrain's");
	t->began = gt_clock_s();
	code = t->curl->easy_perform(t->curl->easy);
	if (code || t->rc)
		return fail_by_code(t, code);
	return t->have < t->d->size_bytes ? fail_size(t, "", t->have) : 0;
}

/*
 * Download the missing bytes of a file, and append them to the local file. If the server ignores
 * the requested range and sends the whole file, the local file is written again from its start.
 *
 * After an error the local file holds the bytes received so far, and the next call continues after
 * them. There is one exception: if the server rejects the requested range, or sends another part of
 * the file or a file of another size, the local file is emptied. *remedy is always set, also after
 * success.
 *
 * Only HTTP and HTTPS are used, also after redirects. Redirects from HTTPS to HTTP are not
 * followed. Proxies are taken from the environment (http_proxy, https_proxy, no_proxy).
 *
 * Errors: GT_EIO (network, server, disk), GT_EFORMAT (a file of another size), GT_ENOTSUP (libcurl
 * rejects an option).
 */
int gt_download(struct gt_curl *curl, const struct gt_download *d, enum gt_download_remedy *remedy,
    struct gt_err *err)
{
	struct transfer t = { .d = d, .curl = curl, .err = err };
	struct stat st;
	int rc;

	*remedy = GT_REMEDY_NONE;
	if (fstat(d->fd, &st))
		return gt_err_sys(err, "cannot examine '%s'", d->path);
	t.have = (uint64_t)st.st_size;
	if (d->progress) {
		d->progress->unit = "KiB";
		d->progress->total = (int64_t)(d->size_bytes / UNIT_BYTES);
		gt_progress_start(d->progress, (int64_t)(t.have / UNIT_BYTES));
	}
	rc = perform(&t);
	if (d->progress)
		gt_progress_hide(d->progress);
	*remedy = t.remedy;
	return rc;
}
