#!/usr/bin/env python3
"""Sends the requests of the golden cases to a real kube-apiserver and records its answers.

    record.py SERVER TOKEN FILE...

Each file holds cases of one resource; a case is a list of steps, each a POST or PUT of a body. The answers are
written beside the bodies, without what differs from run to run.
"""

import json
import ssl
import sys
import urllib.error
import urllib.request

NAMESPACE = "golden"
VOLATILE = ["resourceVersion", "managedFields"]


TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def call(method, path, body=None, accept="application/json"):
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    request = urllib.request.Request(
        SERVER + path,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": "Bearer " + TOKEN, "Content-Type": kind, "Accept": accept},
    )
    context = ssl._create_unverified_context()
    try:
        response = urllib.request.urlopen(request, context=context)
    except urllib.error.HTTPError as error:
        response = error
    return response.status, json.load(response), response.headers.get_all("Warning") or []


def stable(code, reply):
    if code >= 400:
        causes = reply.get("details", {}).get("causes", [])
        kept = {"reason": reply["reason"], "message": reply["message"]}
        return {**kept, "causes": causes} if causes else kept
    metadata = reply.get("metadata", {})
    for field in VOLATILE:
        metadata.pop(field, None)
    return reply


def record(resource, case):
    base = "/api/v1" if not resource["group"] else f"/apis/{resource['group']}/{resource['version']}"
    if resource["namespaced"]:
        base += f"/namespaces/{NAMESPACE}"
    base += "/" + resource["plural"]
    name = None
    version = None
    for step in case["steps"]:
        path = base
        if step["method"] == "PUT":
            path += "/" + name + ("/" + step["subresource"] if step.get("subresource") else "")
            step["body"].setdefault("metadata", {})["resourceVersion"] = version
        code, reply, warnings = call(step["method"], path + "?fieldValidation=Warn", step["body"])
        if step["method"] == "PUT":
            del step["body"]["metadata"]["resourceVersion"]
        if code < 300:
            name = reply["metadata"]["name"]
            version = reply["metadata"]["resourceVersion"]
        step["code"] = code
        step["reply"] = stable(code, reply)
        step["unknown"] = [text.split('"')[2].rstrip("\\") for text in warnings if "unknown field" in text]
    if name:
        row = call("GET", f"{base}/{name}", accept=TABLE)[1]["rows"][0]
        case["cells"] = row["cells"]
        call("DELETE", f"{base}/{name}?gracePeriodSeconds=0&propagationPolicy=Background")
        call("PATCH", f"{base}/{name}", {"metadata": {"finalizers": None}})


def main(files):
    call("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    for file in files:
        with open(file, encoding="utf-8") as source:
            suite = json.load(source)
        for case in suite["cases"]:
            record(suite["resource"], case)
        with open(file, "w", encoding="utf-8") as target:
            json.dump(suite, target, indent=1, ensure_ascii=False)
            target.write("\n")


if __name__ == "__main__":
    SERVER, TOKEN, *FILES = sys.argv[1:]
    main(FILES)
