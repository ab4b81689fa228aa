package store

import (
	"context"
	"database/sql/driver"
	"strings"

	"github.com/pkg/errors"
)

// maxStatements is how many statements a connection keeps parsed.
const maxStatements = 200

// connector makes connections to an SQLite file that keep their statements parsed, River's too: SQLite takes longer to parse
// most of them than to run them.
type connector struct {
	address string
	driver  driver.Driver
}

// Connect opens a connection.
func (c *connector) Connect(context.Context) (driver.Conn, error) {
	opened, err := c.driver.Open(c.address)
	if err != nil {
		return nil, err
	}
	conn, ok := opened.(conn)
	if !ok {
		_ = opened.Close()
		return nil, errors.Errorf("the SQLite driver's %T lacks methods", opened)
	}
	return &keeper{conn: conn, kept: map[string]*kept{}}, nil
}

// Driver is the driver of the connections.
func (c *connector) Driver() driver.Driver { return c.driver }

// conn is what the driver's connections can do.
type conn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// stmt is what the driver's statements can do.
type stmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// keeper is a connection that keeps its statements.
type keeper struct {
	conn
	kept map[string]*kept
}

type kept struct {
	stmt stmt
	used bool // its rows are open
}

// statement returns a parsed statement, nil when it is not one to keep, or in use.
func (k *keeper) statement(ctx context.Context, text string) *kept {
	if known, ok := k.kept[text]; ok {
		if known.used {
			return nil
		}
		return known
	}
	// What is more than one statement, or changes the schema, is not kept.
	start := strings.TrimSpace(text)
	for strings.HasPrefix(start, "--") {
		_, start, _ = strings.Cut(start, "\n")
		start = strings.TrimSpace(start)
	}
	verb, _, _ := strings.Cut(start, " ")
	verb, _, _ = strings.Cut(verb, "\n")
	switch verb {
	case "SELECT", "INSERT", "UPDATE", "DELETE", "WITH", "SAVEPOINT", "RELEASE", "ROLLBACK":
	default:
		return nil
	}
	if strings.Contains(strings.TrimSuffix(strings.TrimSpace(start), ";"), ";") {
		return nil
	}
	prepared, err := k.PrepareContext(ctx, text)
	if err != nil {
		return nil // the caller gets the error when it runs the statement
	}
	parsed, ok := prepared.(stmt)
	if !ok {
		_ = prepared.Close()
		return nil
	}
	if len(k.kept) >= maxStatements {
		for text, known := range k.kept {
			if !known.used {
				_ = known.stmt.Close()
				delete(k.kept, text)
			}
		}
	}
	made := &kept{stmt: parsed}
	k.kept[text] = made
	return made
}

// ExecContext runs a statement.
func (k *keeper) ExecContext(ctx context.Context, text string, arguments []driver.NamedValue) (driver.Result, error) {
	if statement := k.statement(ctx, text); statement != nil {
		return statement.stmt.ExecContext(ctx, arguments)
	}
	return k.conn.ExecContext(ctx, text, arguments)
}

// QueryContext runs a statement that has rows.
func (k *keeper) QueryContext(ctx context.Context, text string, arguments []driver.NamedValue) (driver.Rows, error) {
	statement := k.statement(ctx, text)
	if statement == nil {
		return k.conn.QueryContext(ctx, text, arguments)
	}
	rows, err := statement.stmt.QueryContext(ctx, arguments)
	if err != nil {
		return nil, err
	}
	statement.used = true
	return &keptRows{Rows: rows, statement: statement}, nil
}

// Close closes the connection and its statements.
func (k *keeper) Close() error {
	for _, known := range k.kept {
		_ = known.stmt.Close()
	}
	return k.conn.Close()
}

type keptRows struct {
	driver.Rows
	statement *kept
}

// Close ends the use of the statement.
func (r *keptRows) Close() error {
	r.statement.used = false
	return r.Rows.Close()
}
