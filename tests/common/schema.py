"""schema.py - check a JSON document against a JSON Schema: python3 schema.py SCHEMA < DOCUMENT.

Uses the part of the standard that man/schemas/ uses; any other keyword is an error, so that no rule of a
schema is passed over. Where python3-jsonschema is installed it has to come to the same result.
"""
import json
import re
import sys

TYPES = {
    "null": lambda v: v is None,
    "boolean": lambda v: isinstance(v, bool),
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
    "string": lambda v: isinstance(v, str),
    "array": lambda v: isinstance(v, list),
    "object": lambda v: isinstance(v, dict),
}
WORDS = {"$schema", "title", "description", "type", "properties", "required", "additionalProperties", "items", "minimum",
         "maximum", "pattern", "enum"}


def check(value, schema, where="document"):
    """Yield a line for each rule that the value breaks."""
    unknown = set(schema) - WORDS
    if unknown:
        raise SystemExit(f"{where}: this checker does not know {sorted(unknown)}")
    types = schema.get("type", list(TYPES))
    types = [types] if isinstance(types, str) else types
    if not any(TYPES[t](value) for t in types):
        yield f"{where}: {value!r} is not of type {types}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where}: {value!r} is none of {schema['enum']}"
    if TYPES["number"](value):
        if value < schema.get("minimum", value) or value > schema.get("maximum", value):
            yield f"{where}: {value!r} is out of range"
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        yield f"{where}: {value!r} does not match {schema['pattern']}"
    if isinstance(value, list):
        for i, item in enumerate(value):
            yield from check(item, schema.get("items", {}), f"{where}[{i}]")
    if isinstance(value, dict):
        known = schema.get("properties", {})
        for key in set(schema.get("required", ())) - set(value):
            yield f"{where}: no member {key!r}"
        for key, item in value.items():
            if key in known:
                yield from check(item, known[key], f"{where}.{key}")
            elif schema.get("additionalProperties") is False:
                yield f"{where}: no member may be called {key!r}"


def main():
    schema = json.load(open(sys.argv[1], encoding="utf-8"))
    document = json.load(sys.stdin)
    broken = list(check(document, schema))
    try:
        import jsonschema
    except ImportError:
        pass
    else:
        theirs = list(jsonschema.Draft202012Validator(schema).iter_errors(document))
        if bool(theirs) != bool(broken):
            broken.append(f"jsonschema finds {len(theirs)} errors, this checker {len(broken)}")
    print(*broken, sep="\n", end="\n" if broken else "")
    sys.exit(bool(broken))


if __name__ == "__main__":
    main()
