-- +goose Up
CREATE TABLE files (
    name    TEXT COLLATE "C" PRIMARY KEY,
    content BYTEA NOT NULL
);
