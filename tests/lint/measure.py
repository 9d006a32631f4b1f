#!/usr/bin/env python3
"""
measure.py - how the sources read: openings of comments, words in private headers, names of static functions.

measure.py [-l]      (-l lists the places behind each number)
"""
import collections
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# A comment that opens with one of these is most often no sentence: its subject has to be guessed.
FRAGMENT_WORDS = set("of that those it they its their these behind from as in to with so such".split())
PRIVATE_WORDS, NAME_FILES = 35, 3  # a declared function may have so many on average; a name may stand in so many files

COMMENT = re.compile(r"/\*(.*?)\*/|//([^\n]*)", re.S)
# A static function that is defined, not declared: its name is the last word before a parenthesis in column 0's line.
STATIC = re.compile(r"^(?:__attribute__\(\(\w+\)\) )?static (?:[\w*]+\s+)*?\**(\w+)\(([^;{]*)\)\s*\{", re.M)
STRUCT = re.compile(r"\b(?:struct|class|union)\b[^()=]*$")  # functions in its braces are members of it
UNCOUNTED = re.compile(r"\btypedef\b|\b_?static_assert\b|\b_Static_assert\b")
DECLARED = re.compile(r"\b[A-Za-z_]\w*\s*\([^;]*\)[\s\w()\",\d]*$")


def files(*endings):
    """The product's files with one of the endings, and their text."""
    for top in ("lib", "kernels", "cmd"):
        for folder, _, names in sorted(os.walk(os.path.join(ROOT, top))):
            for name in sorted(names):
                if name.endswith(endings):
                    path = os.path.join(folder, name)
                    with open(path, encoding="utf-8") as f:
                        yield os.path.relpath(path, ROOT), f.read()


def comments(text):
    """The comments of at least three words, each with its line."""
    for match in COMMENT.finditer(text):
        words = re.sub(r"\s*\n\s*\*? ?", " ", match.group(1) or match.group(2) or "").strip(" *!")
        if len(words.split()) >= 3:
            yield text.count("\n", 0, match.start()) + 1, words


def openings():
    """The number of comments in sources, and those that open with a fragment word: [(word, place)]."""
    count, found = 0, []
    for path, text in files(".c", ".cu", ".inc", ".cc", ".cpp"):
        for line, words in comments(text):
            count += 1
            first = words.split()[0].lower()
            if first in FRAGMENT_WORDS:
                found.append((first, f"{path}:{line}: {words[:120]}"))
    return count, found


def declared_functions(text):
    """The number of functions that a header declares or defines, those of structs and of pointers in structs among them."""
    bare = re.sub(r"/\*.*?\*/|//[^\n]*|^\s*#(?:[^\n\\]|\\.|\\\n)*", "", text, flags=re.S | re.M)
    bare = re.sub(r'extern\s+"C"\s*\{', "", bare)
    depth, statement, count, struct = 0, "", 0, False
    for letter in bare:
        if letter in ";{" and (depth == 0 or depth == 1 and struct):
            count += bool(DECLARED.search(statement.strip())) and not UNCOUNTED.search(statement)
        if letter == "{" and depth == 0:
            struct = bool(STRUCT.search(statement))
        depth = max(0, depth + (letter == "{") - (letter == "}"))  # the end of extern "C" closes nothing
        statement = "" if letter in ";{}" else statement + letter
    return count


def private_headers():
    """Words of comments and declared functions of each header that is for one module: [(words, functions, path)]."""
    return [(sum(len(re.findall(r"[A-Za-z']+", a or b)) for a, b in COMMENT.findall(text)), declared_functions(text), path)
            for path, text in files(".h", ".cuh") if " - private: " in text.split("\n", 1)[0]]


def shared_names():
    """Names of static functions that stand in too many files: {name: [path]}."""
    places = collections.defaultdict(set)
    for path, text in files(".c", ".cu"):
        for match in STATIC.finditer(re.sub(r"__launch_bounds__\([^)]*\)", "", text)):
            places[match.group(1)].add(path)
    return {name: sorted(where) for name, where in places.items() if len(where) > NAME_FILES}


def main():
    listed = sys.argv[1:] == ["-l"]
    count, found = openings()
    of = sum(word == "of" for word, _ in found)
    print(f"comments in sources that open with a fragment word: {1000 * len(found) / count:.1f} per 1,000, with 'of' {1000 * of / count:.1f}")
    if listed:
        print(*(f"  {place}" for _, place in found), sep="\n")
    headers = private_headers()
    words, functions = sum(h[0] for h in headers), sum(h[1] for h in headers)
    print(f"words of comments in private headers: {words / functions:.1f} per function that they declare or define ({PRIVATE_WORDS} is the aim)")
    if listed:
        for many, few, path in sorted(headers, key=lambda h: PRIVATE_WORDS * h[1] - h[0])[:40]:
            print(f"  {path}: {many} words, {few} functions")
    names = shared_names()
    print(f"names of static functions that stand in more than {NAME_FILES} files: {len(names)}")
    if listed:
        for name, where in sorted(names.items(), key=lambda item: -len(item[1])):
            print(f"  {name}: {' '.join(where)}")


if __name__ == "__main__":
    main()
