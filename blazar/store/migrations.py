"""The numbered steps from an empty file to this version's tables. A step that was released never changes again."""

from __future__ import annotations

_FIRST = (
    # Names are ASCII (models.reference sees to that), so NOCASE folds all of them.
    """
    CREATE TABLE models (
        id             INTEGER PRIMARY KEY,
        name           TEXT NOT NULL COLLATE NOCASE UNIQUE,
        source         TEXT NOT NULL,
        size           INTEGER NOT NULL,
        digest         TEXT NOT NULL,
        format         TEXT NOT NULL,
        architecture   TEXT NOT NULL,
        parameters     INTEGER NOT NULL,
        context_length INTEGER NOT NULL,
        quantization   TEXT NOT NULL,
        capabilities   TEXT NOT NULL,
        owned          INTEGER NOT NULL,
        added_ns       INTEGER NOT NULL,
        modified_ns    INTEGER NOT NULL
    )
    """,
    """
    CREATE TABLE model_files (
        model_id INTEGER NOT NULL REFERENCES models (id) ON DELETE CASCADE,
        position INTEGER NOT NULL,
        path     TEXT NOT NULL,
        PRIMARY KEY (model_id, position)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX model_files_by_path ON model_files (path)",
    """
    CREATE TABLE builds (
        kind        TEXT NOT NULL,
        tag         TEXT NOT NULL,
        channel     TEXT NOT NULL,
        path        TEXT NOT NULL,
        version     TEXT NOT NULL,
        flags       TEXT NOT NULL,
        fingerprint TEXT NOT NULL,
        active      INTEGER NOT NULL,
        added_ns    INTEGER NOT NULL,
        PRIMARY KEY (kind, tag)
    ) WITHOUT ROWID
    """,
    "CREATE UNIQUE INDEX builds_one_active ON builds (kind) WHERE active",
    """
    CREATE TABLE measures (
        model_id       INTEGER NOT NULL REFERENCES models (id) ON DELETE CASCADE,
        kind           TEXT NOT NULL,
        tag            TEXT NOT NULL,
        context        INTEGER NOT NULL,
        slots          INTEGER NOT NULL,
        resident_bytes INTEGER NOT NULL,
        load_seconds   REAL NOT NULL,
        measured_ns    INTEGER NOT NULL,
        PRIMARY KEY (model_id, kind, tag)
    ) WITHOUT ROWID
    """,
)

_RESPONSES = (
    """
    CREATE TABLE responses (
        id         TEXT PRIMARY KEY,
        created_ns INTEGER NOT NULL,
        previous   TEXT NOT NULL,
        model      TEXT NOT NULL,
        status     TEXT NOT NULL,
        bytes      INTEGER NOT NULL,
        input      TEXT NOT NULL,
        body       TEXT NOT NULL
    )
    """,
    "CREATE INDEX responses_by_age ON responses (created_ns, bytes)",
    "CREATE INDEX responses_unfinished ON responses (status) WHERE status IN ('queued', 'in_progress')",
)

_OVERLAYS = (
    "ALTER TABLE models ADD COLUMN projector TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE models ADD COLUMN overlay TEXT NOT NULL DEFAULT ''",
)

_BATCHES = (
    """
    CREATE TABLE files (
        id         TEXT PRIMARY KEY,
        created_ns INTEGER NOT NULL,
        expires_ns INTEGER NOT NULL,
        filename   TEXT NOT NULL,
        purpose    TEXT NOT NULL,
        bytes      INTEGER NOT NULL
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE batches (
        id         TEXT PRIMARY KEY,
        dialect    TEXT NOT NULL,
        created_ns INTEGER NOT NULL,
        over       INTEGER NOT NULL,
        state      TEXT NOT NULL
    ) WITHOUT ROWID
    """,
)

_KEYS = (
    """
    CREATE TABLE key_usage (
        name       TEXT NOT NULL,
        day        INTEGER NOT NULL,
        requests   INTEGER NOT NULL,
        prompt     INTEGER NOT NULL,
        completion INTEGER NOT NULL,
        PRIMARY KEY (name, day)
    ) WITHOUT ROWID
    """,
    "ALTER TABLE responses ADD COLUMN owner TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE files ADD COLUMN owner TEXT NOT NULL DEFAULT ''",
)

_GPUS = (
    "ALTER TABLE builds ADD COLUMN backends TEXT NOT NULL DEFAULT '[]'",
    "ALTER TABLE measures ADD COLUMN gpu_layers INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE measures ADD COLUMN device_bytes INTEGER NOT NULL DEFAULT 0",
)

_ROLLBACK = ("ALTER TABLE builds ADD COLUMN used_ns INTEGER NOT NULL DEFAULT 0",)

_BENCHES = (
    """
    CREATE TABLE benches (
        model   TEXT NOT NULL,
        build   TEXT NOT NULL,
        at_ns   INTEGER NOT NULL,
        results TEXT NOT NULL
    )
    """,
    "CREATE INDEX benches_of_model ON benches (model, at_ns)",
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (_FIRST, _RESPONSES, _OVERLAYS, _BATCHES, _KEYS, _GPUS, _ROLLBACK, _BENCHES)
"""Step ``n`` (from 1) leads from ``user_version`` n - 1 to n; the statements of one step are one transaction."""
