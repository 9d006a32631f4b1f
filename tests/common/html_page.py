#!/usr/bin/python3
"""
html_page.py - check a page of `gtrain report`.

html_page.py FILE EXPRESSION...: fail unless every element that must be closed is, in order, the page asks for nothing from
elsewhere (no element or attribute that loads but pictures in the page, no script but its own, no address but that of a license), and the Python expressions
are true. In them p has facts: text, titles (of charts and lists), tags (number of each), data (of the script), bytes. c has the
series of each chart by its name; only a build with dygraphs (live) has them.
"""
import html.parser
import json
import re
import sys

VOID = {"meta", "input", "wbr", "br", "path", "img"}
LOADING = {"link", "iframe", "object", "embed", "audio", "video", "base", "form", "source", "image", "use", "a"}
ATTRIBUTES = {"src", "href", "srcset", "action", "data", "poster", "background", "xlink:href"}


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.text, self.titles, self.scripts, self.styles = [], {}, [], [], [], []
        self.csp = self.data = None

    def handle_starttag(self, tag, attrs):
        self.tags[tag] = self.tags.get(tag, 0) + 1
        if tag in LOADING:
            sys.exit(f"line {self.getpos()[0]}: an element <{tag}>")
        if tag == "img" and not re.fullmatch(r"data:image/png;base64,[A-Za-z0-9+/]+=*", dict(attrs).pop("src")):
            sys.exit(f"line {self.getpos()[0]}: an image {attrs}")
        for name, value in attrs:
            if tag == "img" and name == "src":
                continue
            if name in ATTRIBUTES or name.startswith("on"):
                sys.exit(f"line {self.getpos()[0]}: an attribute {name}={value}")
            if name == "style" and not re.fullmatch(r"(top|left):-?[0-9.]+%", value):
                sys.exit(f"line {self.getpos()[0]}: style={value}")
        attrs = dict(attrs)
        if attrs.get("http-equiv") == "Content-Security-Policy":
            self.csp = attrs["content"]
        if tag not in VOID:
            self.open.append((tag, attrs))

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open[-1][0] != tag:
            sys.exit(f"line {self.getpos()[0]}: </{tag}> closes {self.open[-1:]}")
        self.open.pop()

    def handle_data(self, data):
        tag, attrs = self.open[-1] if self.open else ("", {})
        if tag == "script" and attrs.get("id") == "data":
            self.data = data
        elif tag == "script":
            self.scripts.append(data)
        elif tag == "style":
            self.styles.append(data)
        else:
            self.text.append(data)
            if tag == "h3":
                self.titles.append(data)


def main(path, expressions):
    with open(path, encoding="utf-8", newline="") as f:
        source = f.read()
    page = Page()
    page.feed(source)
    page.close()
    if page.open:
        sys.exit(f"not closed: {page.open}")
    if not page.csp or not page.csp.startswith("default-src 'none';"):
        sys.exit(f"the policy is {page.csp}")
    bad = [c for c in source if ord(c) < 32 and c not in "\n\t" or 0x7f <= ord(c) < 0xa0 or 0x202a <= ord(c) <= 0x202e or 0x2066 <= ord(c) <= 0x2069]
    if bad:
        sys.exit(f"control characters: {set(bad)}")
    addresses = re.findall(r"(?:https?:)?//[\w.-]+\.[a-z]{2,}/\S*", "".join(page.text + page.styles + [page.data]))
    addresses += [a for s in page.scripts for a in re.findall(r"https?://\S+", s) if "/LICENSE" not in a]
    if addresses or any(re.search(r"@import|url\(|sourceMappingURL", s) for s in page.styles + page.scripts):
        sys.exit(f"something from elsewhere: {addresses}")
    p = {"text": "".join(page.text), "titles": page.titles, "tags": page.tags, "data": json.loads(page.data), "bytes": len(source.encode())}
    facts = {"p": p, "live": "built without dygraphs" not in p["text"], "c": {c["id"]: c["series"] for c in p["data"]["charts"]}}
    for expression in expressions:
        if not eval(f"({expression})", facts):
            sys.exit(f"not so: {expression}\n{p['titles']} {p['tags']} {p['bytes']}\n{p['text'][:2000]}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
