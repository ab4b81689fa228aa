package store

import (
	"context"
	"time"

	"github.com/pkg/errors"
)

// filesTimeout bounds a read or a write of a file. What a cloud was asked for is to be remembered also when whoever asked is being stopped,
// so nothing else does.
const filesTimeout = 30 * time.Second

// Files are small files that all processes on the database share, such as what they asked a cloud for: see journal.Files, which
// they are. There are few, for a short time.
type Files struct{ db *DB }

// Files are the files in the database.
func (d *DB) Files() *Files { return &Files{db: d} }

// String says where they are.
func (f *Files) String() string { return "the database" }

// Read reads all files whose names begin so.
func (f *Files) Read(prefix string) (map[string][]byte, error) {
	const statement = `SELECT name, content FROM files WHERE name >= ?1 AND name < ?2`
	ctx, cancel := context.WithTimeout(context.Background(), filesTimeout)
	defer cancel()
	files := map[string][]byte{}
	err := f.db.reader(ctx)(statement, []any{prefix, prefix + "\U0010ffff"}, func(scan scan) error {
		var name string
		var content []byte
		err := scan(&name, &content)
		files[name] = content
		return err
	})
	if err != nil {
		return nil, errors.Wrap(err, "read files")
	}
	return files, nil
}

// Write puts a file in the place of the one of that name. It is committed when it returns.
func (f *Files) Write(name string, content []byte) error {
	const statement = `INSERT INTO files (name, content) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET content = excluded.content`
	if content == nil {
		content = []byte{}
	}
	return errors.Wrap(f.send(statement, name, content), "write a file")
}

// Remove removes a file. That there is none is a success.
func (f *Files) Remove(name string) error {
	return errors.Wrap(f.send(`DELETE FROM files WHERE name = ?1`, name), "remove a file")
}

func (f *Files) send(statement string, arguments ...any) error {
	ctx, cancel := context.WithTimeout(context.Background(), filesTimeout)
	defer cancel()
	return f.db.write(ctx, false, func(tx *tx) error { return tx.send(statement, arguments...) })
}
