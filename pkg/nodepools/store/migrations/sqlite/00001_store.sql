-- +goose Up
CREATE TABLE state (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    revision BIGINT NOT NULL,
    sequence BIGINT NOT NULL,
    time     BIGINT NOT NULL,
    floor    BIGINT NOT NULL
);
INSERT INTO state (one, revision, sequence, time, floor) VALUES (1, 0, 0, 0, 0);

CREATE TABLE objects (
    sequence            INTEGER PRIMARY KEY,
    kind                TEXT    NOT NULL,
    id                  TEXT    NOT NULL,
    scope               TEXT    NOT NULL,
    name                TEXT    NOT NULL,
    cluster_id          TEXT    NOT NULL,
    owner               TEXT    NOT NULL,
    platform            TEXT    NOT NULL,
    phase               TEXT    NOT NULL,
    health              TEXT    NOT NULL,
    generation          BIGINT  NOT NULL,
    observed_generation BIGINT  NOT NULL,
    revision            BIGINT  NOT NULL,
    nodes               BIGINT  NOT NULL,
    labels              TEXT    NOT NULL,
    deleting            BOOLEAN NOT NULL,
    needs_reconcile     BOOLEAN NOT NULL,
    due                 BIGINT  NOT NULL,
    message             BLOB NOT NULL,
    document            BLOB NOT NULL
);
CREATE UNIQUE INDEX objects_id ON objects (kind, id);
CREATE UNIQUE INDEX objects_name ON objects (kind, scope, name);
CREATE INDEX objects_kind ON objects (kind, sequence);
CREATE INDEX objects_owner ON objects (kind, owner, sequence);
CREATE INDEX objects_cluster ON objects (kind, cluster_id, sequence);
CREATE INDEX objects_due ON objects (due) WHERE due > 0;

CREATE TABLE labels (
    sequence BIGINT NOT NULL,
    key      TEXT   NOT NULL,
    value    TEXT   NOT NULL,
    PRIMARY KEY (key, value, sequence)
) WITHOUT ROWID;
CREATE INDEX labels_sequence ON labels (sequence);

CREATE TABLE tombstones (
    kind TEXT   NOT NULL,
    id   TEXT   NOT NULL,
    time BIGINT NOT NULL,
    PRIMARY KEY (kind, id)
) WITHOUT ROWID;
CREATE INDEX tombstones_time ON tombstones (time);

CREATE TABLE reports (
    kind                TEXT   NOT NULL,
    id                  TEXT   NOT NULL,
    controller          TEXT   NOT NULL,
    observed_generation BIGINT NOT NULL,
    first_at            BIGINT NOT NULL,
    at                  BIGINT NOT NULL,
    message             BLOB NOT NULL,
    PRIMARY KEY (kind, id, controller)
);

CREATE TABLE controllers (
    name      TEXT    NOT NULL PRIMARY KEY,
    platforms TEXT    NOT NULL,
    version   TEXT    NOT NULL,
    clusters  BOOLEAN NOT NULL,
    last_seen BIGINT  NOT NULL
);

CREATE TABLE events (
    revision   BIGINT NOT NULL,
    number     BIGINT NOT NULL,
    type       TEXT   NOT NULL,
    time       BIGINT NOT NULL,
    actor      TEXT   NOT NULL,
    kind       TEXT   NOT NULL,
    id         TEXT   NOT NULL,
    cluster_id TEXT   NOT NULL,
    owner      TEXT   NOT NULL,
    platform   TEXT   NOT NULL,
    generation BIGINT NOT NULL,
    text       TEXT   NOT NULL,
    document   BLOB NOT NULL,
    PRIMARY KEY (revision, number)
) WITHOUT ROWID;
CREATE INDEX events_object ON events (id, revision);
CREATE INDEX events_cluster ON events (cluster_id, revision);

CREATE TABLE audit (
    revision   BIGINT NOT NULL,
    number     BIGINT NOT NULL,
    time       BIGINT NOT NULL,
    actor      TEXT   NOT NULL,
    action     TEXT   NOT NULL,
    resource   TEXT   NOT NULL,
    object_id  TEXT   NOT NULL,
    before     TEXT   NOT NULL,
    after      TEXT   NOT NULL,
    request_id TEXT   NOT NULL,
    PRIMARY KEY (revision, number)
) WITHOUT ROWID;
CREATE INDEX audit_object ON audit (object_id, revision);

CREATE TABLE webhooks (
    id         TEXT    NOT NULL PRIMARY KEY,
    url        TEXT    NOT NULL,
    owner      TEXT    NOT NULL,
    types      TEXT    NOT NULL,
    secret     BLOB NOT NULL,
    sees_all   BOOLEAN NOT NULL,
    created_at BIGINT  NOT NULL,
    delivered  BIGINT  NOT NULL,
    last_error TEXT    NOT NULL
);

CREATE TABLE idempotent (
    actor       TEXT    NOT NULL,
    key         TEXT    NOT NULL,
    fingerprint BLOB NOT NULL,
    kind        TEXT    NOT NULL,
    id          TEXT    NOT NULL,
    answer      BLOB NOT NULL,
    expires     BIGINT  NOT NULL,
    PRIMARY KEY (actor, key)
);
CREATE INDEX idempotent_expires ON idempotent (expires);

CREATE TABLE leases (
    kind    TEXT   NOT NULL,
    id      TEXT   NOT NULL,
    holder  TEXT   NOT NULL,
    token   BIGINT NOT NULL,
    expires BIGINT NOT NULL,
    PRIMARY KEY (kind, id)
) WITHOUT ROWID;

-- What is to be worked on. due is when (0: nothing waits); token names the job that was given out for it (0: none yet);
-- running is the token of the job that is at it (0: none), which is believed until the time in until.
CREATE TABLE work (
    kind     TEXT   NOT NULL,
    id       TEXT   NOT NULL,
    due      BIGINT NOT NULL,
    token    BIGINT NOT NULL,
    running  BIGINT NOT NULL,
    until    BIGINT NOT NULL,
    failures BIGINT NOT NULL,
    PRIMARY KEY (kind, id)
) WITHOUT ROWID;
CREATE INDEX work_due ON work (due) WHERE token = 0;
CREATE INDEX work_until ON work (until) WHERE running <> 0;
