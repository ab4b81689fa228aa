package store

import (
	"context"
	"database/sql"
	"embed"
	"io/fs"
	"strings"

	"github.com/pkg/errors"
	"github.com/pressly/goose/v3"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/rivermigrate"
)

// migrations are SQL files, numbered from 1, one folder a database. They only go forward: to go back is to restore a backup.
//
//go:embed migrations
var migrations embed.FS

// migrate brings our tables and River's to the versions of this program, or tells that they are not. One process does so at a
// time: the callers hold a lock.
func migrate[TTx any](ctx context.Context, dialect goose.Dialect, db *sql.DB, driver riverdriver.Driver[TTx], options Options, run bool) error {
	files, err := fs.Sub(migrations, "migrations/"+map[goose.Dialect]string{goose.DialectSQLite3: "sqlite", goose.DialectPostgres: "postgres"}[dialect])
	if err != nil {
		return errors.Wrap(err, "read the migrations")
	}
	ours, err := goose.NewProvider(dialect, db, files, goose.WithTableName("store_migrations"), goose.WithDisableGlobalRegistry(true),
		goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return errors.Wrap(err, "read the migrations")
	}
	rivers, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: options.Logger})
	if err != nil {
		return errors.Wrap(err, "read the migrations of the job queue")
	}
	current, target, err := ours.GetVersions(ctx)
	if err != nil {
		return errors.Wrap(err, "read the version of the database")
	}
	if current > target {
		return errors.Wrapf(ErrNewer, "the database has version %d, this program knows %d", current, target)
	}
	existing, err := rivers.ExistingVersions(ctx)
	if err != nil {
		// River has no error of its own for it.
		if strings.Contains(err.Error(), "not found in migrator bundle") {
			return errors.Wrapf(ErrNewer, "the job queue: %s", err)
		}
		return errors.Wrap(err, "read the version of the job queue")
	}
	if current == target && len(existing) == len(rivers.AllVersions()) {
		return nil
	}
	if !run {
		return ErrNotMigrated
	}
	if _, err := ours.Up(ctx); err != nil {
		return errors.Wrap(err, "migrate the database")
	}
	_, err = rivers.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return errors.Wrap(err, "migrate the job queue")
}
