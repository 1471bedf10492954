"""A server with the part of the Hugging Face Hub's HTTP interface that serves models.

Addresses and answers are those that huggingface_hub 2 asks for (hf_api.py, _commit_api.py, lfs.py).
Files of up to `INLINE` bytes come with the commit, longer ones by Git LFS's basic transfer.
"""

import base64
import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

INLINE = 500
COMMIT = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "hf_may_write"


class HubServer(ThreadingHTTPServer):
    """Repositories by name: {"private": bool, "files": {path: bytes}, "commits": int}."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repositories = {}
        self.stored = {}  # LFS: SHA-256 -> bytes
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.organizations = {"org"}
        self.read_only = {"others"}

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, content=b"", **headers):
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def handle_request(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        if path.startswith("/lfs/"):  # signed addresses: no token
            self.server.stored[path.removeprefix("/lfs/")] = body
            return self.answer(200)
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self.answer(401, {"error": "Invalid credentials"})
        for pattern, method in _ROUTES:
            if found := re.fullmatch(pattern, path):
                return method(self, body, *found.groups())
        return self.answer(404, {"error": f"no such address: {path}"})

    do_GET = do_HEAD = do_POST = do_PUT = handle_request

    def who(self, body):
        self.answer(200, {"type": "user", "name": "tester", "orgs": []})

    def check_yaml(self, body):
        self.answer(200, {"errors": [], "warnings": []})

    def create(self, body):
        values = json.loads(body)
        organization, name = values["organization"], values["name"]
        repository = f"{organization}/{name}"
        if organization in self.server.read_only:
            return self.answer(403, {"error": "no write permission"})
        if organization not in self.server.organizations:
            return self.answer(404, {"error": "no such organization"})
        if repository in self.server.repositories:
            url = f"{self.server.url}/{repository}"
            return self.answer(409, {"error": "exists already", "url": url})
        private = values.get("visibility") == "private"
        self.server.repositories[repository] = {"private": private, "files": {}, "commits": 0}
        return self.answer(200, {"url": f"{self.server.url}/{repository}"})

    def before_upload(self, body, repository):
        modes = [
            {
                "path": file["path"],
                "uploadMode": "lfs" if file["size"] > INLINE else "regular",
                "shouldIgnore": False,
                "oid": None,
            }
            for file in json.loads(body)["files"]
        ]
        self.answer(200, {"files": modes})

    def large_files(self, body, repository):
        objects = [
            {**item, "actions": {"upload": {"href": f"{self.server.url}/lfs/{item['oid']}"}}}
            for item in json.loads(body)["objects"]
        ]
        self.answer(200, {"transfer": "basic", "objects": objects})

    def commit(self, body, repository):
        files = {}
        for line in body.splitlines():
            entry = json.loads(line)
            value = entry["value"]
            if entry["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif entry["key"] == "lfsFile":
                content = self.server.stored[value["oid"]]
                assert hashlib.sha256(content).hexdigest() == value["oid"]
                files[value["path"]] = content
        stored = self.server.repositories[repository]
        stored["files"] |= files
        stored["commits"] += 1
        url = f"{self.server.url}/{repository}/commit/{COMMIT}"
        self.answer(200, {"commitUrl": url, "commitOid": COMMIT, "pullRequestUrl": None})

    def information(self, body, repository, revision=None):
        if repository not in self.server.repositories:
            return self.answer(404, {"error": "no such repository"}, X_Error_Code="RepoNotFound")
        files = self.server.repositories[repository]["files"]
        siblings = [{"rfilename": name} for name in files]
        return self.answer(200, {"id": repository, "sha": COMMIT, "siblings": siblings})

    def tree(self, body, repository):
        files = self.server.repositories[repository]["files"]
        self.answer(
            200,
            [
                {"type": "file", "path": name, "size": len(content), "oid": _etag(content)}
                for name, content in files.items()
            ],
        )

    def file(self, body, repository, path):
        files = self.server.repositories.get(repository, {"files": {}})["files"]
        if path not in files:
            return self.answer(404, {"error": "no such file"}, X_Error_Code="EntryNotFound")
        content = files[path]
        return self.answer(200, content, ETag=f'"{_etag(content)}"', X_Repo_Commit=COMMIT)


def _etag(content):
    return hashlib.sha1(content).hexdigest()


_NAME = r"([\w.-]+/[\w.-]+)"
_ROUTES = [
    (r"/api/whoami-v2", _Handler.who),
    (r"/api/validate-yaml", _Handler.check_yaml),
    (r"/api/repos/create", _Handler.create),
    (rf"/api/models/{_NAME}/preupload/main", _Handler.before_upload),
    (rf"/{_NAME}\.git/info/lfs/objects/batch", _Handler.large_files),
    (rf"/api/models/{_NAME}/commit/main", _Handler.commit),
    (rf"/api/models/{_NAME}/revision/(.+)", _Handler.information),
    (rf"/api/models/{_NAME}/tree/.+", _Handler.tree),
    (rf"/api/models/{_NAME}", _Handler.information),
    (rf"/{_NAME}/resolve/[^/]+/(.+)", _Handler.file),
]
