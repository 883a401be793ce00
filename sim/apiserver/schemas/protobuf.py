#!/usr/bin/env python3
"""Writes protobuf.json: the messages of the Kubernetes API, by field number, from Go module directories.

    protobuf.py DIR_OF_k8s.io/api DIR_OF_k8s.io/apimachinery > protobuf.json

A field is [number, name, type]; the type starts with `r ` if repeated, `m ` if a map from strings, `i ` if the
fields of the message stand in the surrounding JSON object.
"""

import json
import pathlib
import re
import sys

VERSIONS = ["v1", "v2"]
SCALARS = {"string": "string", "bytes": "bytes", "bool": "bool", "double": "double"}
SCALARS |= {name: "int" for name in ["int32", "int64", "uint32", "uint64"]}
FIELD = re.compile(r"^\s+(optional|repeated|map<string,\s*)\s*([.\w]+)>?\s+(\w+)\s*=\s*(\d+)")


def short(name, package):
    """`k8s.io.api.core.v1.Pod` becomes `core.v1.Pod`."""
    if not name.startswith("."):
        return f"{package}.{name}"
    return ".".join(name.split(".")[-3:])


def read(proto, inline, messages):
    package = current = None
    for line in proto.read_text().splitlines():
        if match := re.match(r"^package ([\w.]+);", line):
            package = ".".join(match[1].split(".")[-2:])
        elif match := re.match(r"^message (\w+) \{", line):
            current = messages.setdefault(f"{package}.{match[1]}", [])
        elif match := FIELD.match(line):
            label, kind, name, number = match.groups()
            kind = SCALARS.get(kind) or short(kind, package)
            if label == "repeated":
                kind = f"r {kind}"
            elif label.startswith("map"):
                kind = f"m {kind}"
            elif name in inline:
                kind = f"i {kind}"
            # Some fields are named as in Go; in JSON none begins with a capital.
            current.append([int(number), name[0].lower() + name[1:], kind])


def main(api, machinery):
    protos = [path for path in sorted(pathlib.Path(api).glob("*/*/generated.proto")) if path.parent.name in VERSIONS]
    root = pathlib.Path(machinery) / "pkg"
    protos += [root / "apis/meta/v1/generated.proto"]
    messages = {}
    for proto in protos:
        source = "".join(path.read_text() for path in sorted(proto.parent.glob("types*.go")))
        inline = set(re.findall(r'json:",inline" protobuf:"bytes,\d+,opt,name=(\w+)', source))
        read(proto, inline, messages)
    lines = [f"{json.dumps(name)}: {json.dumps(fields)}" for name, fields in sorted(messages.items())]
    print("{\n" + ",\n".join(lines) + "\n}")


main(*sys.argv[1:])
