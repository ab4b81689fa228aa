package store

import (
	"context"
	"log/slog"
)

// quiet passes on what River warns of, and leaves out that it counts its jobs every few seconds.
func quiet(logger *slog.Logger) *slog.Logger { return slog.New(warnings{logger.Handler()}) }

type warnings struct{ slog.Handler }

// Enabled tells whether a record is passed on.
func (w warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && w.Handler.Enabled(ctx, level)
}

// WithAttrs is that of a slog.Handler.
func (w warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warnings{w.Handler.WithAttrs(attrs)}
}

// WithGroup is that of a slog.Handler.
func (w warnings) WithGroup(name string) slog.Handler { return warnings{w.Handler.WithGroup(name)} }
