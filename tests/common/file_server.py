#!/usr/bin/python3
# file_server.py - a web server of a folder for tests of the command line: file_server.py FOLDER PORT_FILE.
"""
GET /WAY/PATH gives the file PATH of FOLDER, in one of these ways:
  whole  all of it, or the part that Range asks for
  stall  half of it, and then nothing
  silent nothing at all
  wrong  as many zeros
  NNN    this HTTP status
The port goes into PORT_FILE, a line for each request to standard output.
"""
import http.server
import os
import sys
import time


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def head(self, status, length, **headers):
        self.send_response(status)
        for name, value in {"Content-Length": str(length), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def do_GET(self):
        _, way, path = self.path.split("/", 2)
        print(way, path, self.headers.get("Range", "all"), flush=True)
        if way == "silent":
            time.sleep(60)
        if way.isdigit():
            return self.head(int(way), 0)
        try:
            with open(os.path.join(sys.argv[1], path), "rb") as f:
                data = f.read()
        except OSError:
            return self.head(404, 0)
        if way == "wrong":
            data = bytes(len(data))
        first = int(self.headers.get("Range", "bytes=0-")[6:].split("-")[0])
        if first:
            self.head(206, len(data) - first, Content_Range=f"bytes {first}-{len(data) - 1}/{len(data)}")
        else:
            self.head(200, len(data))
        if way == "stall":
            self.wfile.write(data[first:len(data) // 2])
            self.wfile.flush()
            time.sleep(60)
        else:
            self.wfile.write(data[first:])


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    with open(sys.argv[2] + ".new", "w") as f:
        f.write(str(server.server_port))
    os.rename(sys.argv[2] + ".new", sys.argv[2])
    server.serve_forever()


if __name__ == "__main__":
    main()
