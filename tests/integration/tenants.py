"""A tenants file, and tokens of two tenants, for tests."""

import hashlib
import json

VISION, SPEECH = "the token of vision, made up", "the token of speech, made up"


def sha256(token):
    return hashlib.sha256(token.encode()).hexdigest()


class TenantsFile:
    """A tenants file of one entry for each keyword: its keys, without the name."""

    def __init__(self, path, **tenants):
        self.path = path
        self.flag = f"--tenants={path}"
        self.write(**tenants)

    def write(self, **tenants):
        # YAML has JSON in it.
        entries = [{"name": name, **keys} for name, keys in tenants.items()]
        text = json.dumps({"tenants": entries})
        new = self.path.with_suffix(".new")
        new.write_text(text)
        new.rename(self.path)


def by_token(token, **keys):
    return {"tokens": [{"sha256": sha256(token)}], **keys}
