"""Holds what pare prints against docs/schema: schemas.py FOLDER NAME=FILE ...

NAME is a schema without .json; "log" holds for every line of its file. Every schema but common.json
must be named. A document with one more key and one with a key less must fail, or the schema would
allow anything.
"""
import copy
import json
import pathlib
import sys

import jsonschema

PREFIX = "common.json"


def here(node):
    """References into common.json as references into the schema that has its definitions."""
    if isinstance(node, dict):
        return {k: v.removeprefix(PREFIX) if k == "$ref" else here(v) for k, v in node.items()}
    return [here(v) for v in node] if isinstance(node, list) else node


def read(folder, common, name):
    schema = json.loads((folder / f"{name}.json").read_text())
    own = schema.get("$defs", {})
    both = own.keys() & common["$defs"].keys()
    if both:
        sys.exit(f"{name}.json defines {sorted(both)} again")
    schema = here({**schema, "$defs": {**common["$defs"], **own}})
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def main():
    folder = pathlib.Path(sys.argv[1])
    common = json.loads((folder / PREFIX).read_text())
    named, bad = set(), 0
    for argument in sys.argv[2:]:
        name, path = argument.split("=", 1)
        validator = read(folder, common, name)
        named.add(name)
        text = pathlib.Path(path).read_text()
        documents = [json.loads(x) for x in text.splitlines()] if name == "log" else [json.loads(text)]
        if not documents:
            sys.exit(f"{path} is empty")
        for document in documents:
            for error in validator.iter_errors(document):
                print(f"{name}: {path}: {error.json_path}: {error.message[:300]}")
                bad += 1
            more, less = copy.deepcopy(document), copy.deepcopy(document)
            more["ppl_after"] = 1.0
            less.pop(next(iter(validator.schema.get("required", document))))
            if validator.is_valid(more) or validator.is_valid(less):
                print(f"{name}.json allows keys that it does not name, or to leave one out")
                bad += 1
    unused = {p.stem for p in folder.glob("*.json")} - named - {"common"}
    if unused:
        print(f"no document of {sorted(unused)}")
        bad += 1
    print(f"e2e.schemas: {len(sys.argv) - 2} documents, {bad} findings")
    sys.exit(bad > 0)


main()
