-- +goose Up
CREATE TABLE files (
    name    TEXT NOT NULL PRIMARY KEY,
    content BLOB NOT NULL
) WITHOUT ROWID;
