"""A registry in Ollama's protocol and a hub, as far as a pull speaks to them, over a real HTTP server of files."""

from __future__ import annotations

import hashlib
import json

from tests.support.web import Web


class Registry:
    """Models as manifests and blobs. Blobs lie elsewhere, as real registries have it."""

    def __init__(self, web: Web) -> None:
        self._web = web

    def blob(self, data: bytes, repository: str) -> str:
        """Its digest."""
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        self._web.files[f"/cdn/{digest[7:]}"] = data
        self._web.redirects[f"/v2/{repository}/blobs/{digest}"] = f"/cdn/{digest[7:]}"
        return digest

    def model(self, repository: str, tag: str, **layers: bytes | list[bytes]) -> dict[str, str]:
        """Put a model there; the digests of its layers by kind."""
        digests, listed = dict[str, str](), list[dict[str, object]]()
        for kind, data in layers.items():
            for one in [data] if isinstance(data, bytes) else data:
                digests[kind] = self.blob(one, repository)
                listed.append(
                    {
                        "mediaType": f"application/vnd.ollama.image.{kind}",
                        "digest": digests[kind],
                        "size": len(one),
                    }
                )
        config = {"mediaType": "application/vnd.docker.container.image.v1+json", "digest": "sha256:" + "0" * 64}
        manifest = {"schemaVersion": 2, "config": config, "layers": listed}
        self._web.files[f"/v2/{repository}/manifests/{tag}"] = json.dumps(manifest).encode()
        return digests


class Hub:
    """Repositories of files. A large file lies elsewhere, behind a redirect, with its SHA-256 in the listing."""

    def __init__(self, web: Web) -> None:
        self._web = web
        self._listed: list[dict[str, object]] = []

    def repository(self, name: str, files: dict[str, bytes], *, large: bool = True) -> None:
        """Put it there."""
        siblings = []
        for path, data in files.items():
            digest = hashlib.sha256(data).hexdigest()
            sibling: dict[str, object] = {"rfilename": path, "size": len(data), "blobId": digest[:40]}
            if large:
                sibling["lfs"] = {"sha256": digest, "size": len(data), "pointerSize": 134}
                self._web.files[f"/xet/{digest}"] = data
                self._web.redirects[f"/{name}/resolve/main/{path}"] = f"/xet/{digest}"
            else:
                self._web.files[f"/{name}/resolve/main/{path}"] = data
            siblings.append(sibling)
        listing = {"id": name, "modelId": name, "sha": "0" * 40, "siblings": siblings, "tags": [], "private": False}
        self._web.files[f"/api/models/{name}"] = json.dumps(listing).encode()
        # The list is the same whatever is asked of it.
        self._listed.append({**listing, "downloads": 1000 * len(files), "likes": len(files)})
        self._web.files["/api/models"] = json.dumps(self._listed).encode()
