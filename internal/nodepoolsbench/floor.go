package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/internal/nodepoolsserver"
)

// The floors are what the parts take that the service is made of, measured with the same clients on the same machine: no service that has
// them can be faster.

// answerSize is about that of a node pool as JSON.
const answerSize = 700

// floors measures the disk, HTTP and SQLite by themselves.
func (o options) floors(ctx context.Context, out io.Writer) error {
	fsyncs, err := fsyncRate()
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "floors\n  write 4 KiB and fsync  %8.0f/s   one after the other\n", fsyncs)
	url, pid, stop, err := startFloor(ctx)
	if err != nil {
		return err
	}
	defer stop()
	empty, err := load(url, o.phase, 0, []spender{{"server", pid}}, func(c *connection, _ int64) error { return c.ask(http.MethodGet, "/", "") })
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "  net/http, %d bytes    %s\n", answerSize, empty)
	inserts, err := sqliteFloor(o.phase)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "  SQLite, insert, commit %s\n\n", inserts)
	return nil
}

// serveFloor serves the same bytes to everybody, at the address that it writes out.
func serveFloor(out io.Writer) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return errors.Wrap(err, "listen")
	}
	if _, err := fmt.Fprintln(out, listener.Addr()); err != nil {
		return errors.Wrap(err, "write the address")
	}
	answer := make([]byte, answerSize)
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		_, _ = w.Write(answer)
	})}
	return errors.Wrap(server.Serve(listener), "serve")
}

// startFloor starts a process that serves the same bytes to everybody.
func startFloor(ctx context.Context) (url string, pid int, stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return "", 0, nil, errors.Wrap(err, "find this program")
	}
	command := exec.CommandContext(ctx, self)
	command.Env = append(os.Environ(), serveVariable+"=floor")
	out, err := command.StdoutPipe()
	if err != nil {
		return "", 0, nil, errors.Wrap(err, "start a server")
	}
	if err := command.Start(); err != nil {
		return "", 0, nil, errors.Wrap(err, "start a server")
	}
	stop = func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	}
	var address string
	if _, err := fmt.Fscanln(out, &address); err != nil {
		stop()
		return "", 0, nil, errors.Wrap(err, "start a server")
	}
	return "http://" + address, command.Process.Pid, stop, nil
}

// serveProfiled is the service, whose CPU time is profiled where that is wanted.
func serveProfiled() int {
	if name := os.Getenv(profileVariable); name != "" {
		file, err := os.Create(name)
		if err == nil {
			err = pprof.StartCPUProfile(file)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() {
			pprof.StopCPUProfile()
			_ = file.Close()
		}()
	}
	return nodepoolsserver.Main()
}

const (
	floorTable  = `CREATE TABLE floor (id BIGINT PRIMARY KEY, document TEXT NOT NULL)`
	floorInsert = `INSERT INTO floor (id, document) VALUES ($1, $2)`
	floorSelect = `SELECT document FROM floor WHERE id = $1`
)

// sqliteFloor measures a row at a time by the one connection that can write, with the settings of the service.
func sqliteFloor(length time.Duration) (figures, error) {
	directory, err := os.MkdirTemp("", "nodepoolsbench-")
	if err != nil {
		return figures{}, errors.Wrap(err, "make a folder")
	}
	defer func() { _ = os.RemoveAll(directory) }()
	db, err := sql.Open("sqlite", filepath.Join(directory, "floor.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		return figures{}, errors.Wrap(err, "open a database")
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec(floorTable); err != nil {
		return figures{}, errors.Wrap(err, "make a table")
	}
	insert, err := db.Prepare(floorInsert)
	if err != nil {
		return figures{}, errors.Wrap(err, "prepare a statement")
	}
	document := string(make([]byte, answerSize))
	return measure(length, 0, nil, func() (func(n int64) error, func(), error) {
		return func(n int64) error {
			_, err := insert.Exec(n, document)
			return err
		}, func() {}, nil
	})
}

// postgresFloor measures a row at a time by as many connections as there are clients.
func (o options) postgresFloor(ctx context.Context, out io.Writer, address string, pid int) error {
	connection, err := pgx.Connect(ctx, address)
	if err != nil {
		return errors.Wrap(err, "connect to the database")
	}
	defer func() { _ = connection.Close(ctx) }()
	if _, err := connection.Exec(ctx, floorTable); err != nil {
		return errors.Wrap(err, "make a table")
	}
	document := fmt.Sprintf("%0*d", answerSize, 0)
	var rows int
	for _, floor := range []struct {
		name string
		do   func(c *pgx.Conn, n int64) error
	}{
		{"insert, commit", func(c *pgx.Conn, n int64) error {
			_, err := c.Exec(ctx, floorInsert, n, document)
			return err
		}},
		{"select by its key", func(c *pgx.Conn, n int64) error {
			var found string
			return c.QueryRow(ctx, floorSelect, 1+n%int64(rows)).Scan(&found)
		}},
	} {
		measured, err := measure(o.phase, 0, []spender{{"database", pid}}, func() (func(n int64) error, func(), error) {
			c, err := pgx.Connect(ctx, address)
			if err != nil {
				return nil, nil, err
			}
			return func(n int64) error { return floor.do(c, n) }, func() { _ = c.Close(ctx) }, nil
		})
		if err != nil {
			return err
		}
		if rows == 0 {
			rows = measured.count
			_, _ = fmt.Fprintln(out, "floors of PostgreSQL, one row")
		}
		_, _ = fmt.Fprintf(out, "  %-22s %s\n", floor.name, measured)
	}
	_, _ = fmt.Fprintln(out)
	_, err = connection.Exec(ctx, `DROP TABLE floor`)
	return errors.Wrap(err, "drop a table")
}

// fsyncRate is how many small writes a second the disk takes, each with fsync.
func fsyncRate() (float64, error) {
	file, err := os.CreateTemp("", "nodepoolsbench-")
	if err != nil {
		return 0, errors.Wrap(err, "make a file")
	}
	defer func() {
		_ = file.Close()
		_ = os.Remove(file.Name())
	}()
	block, count, began := make([]byte, 4<<10), 0, time.Now()
	for ; time.Since(began) < time.Second; count++ {
		if _, err := file.WriteAt(block, 0); err != nil {
			return 0, errors.Wrap(err, "write")
		}
		if err := file.Sync(); err != nil {
			return 0, errors.Wrap(err, "sync")
		}
	}
	return float64(count) / time.Since(began).Seconds(), nil
}
