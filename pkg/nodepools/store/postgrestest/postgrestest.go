// Package postgrestest starts a PostgreSQL server for the tests of a package: one with a new data folder that ends with the tests.
package postgrestest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/pkg/errors"
)

// Server is a PostgreSQL server that listens on a unix socket in its own folder, and keeps what it commits (fsync is on).
type Server struct {
	folder  string
	bin     string
	account *user.User // who runs it; nil: the user of the test
	command *exec.Cmd
	made    atomic.Int64
}

var (
	once    sync.Once
	shared  *Server
	failure error
)

// ErrMissing says that PostgreSQL is not installed.
var ErrMissing = errors.New("PostgreSQL's server is not installed: apt-get install postgresql")

// Main runs the tests of a package and ends the server that they started. Call it from TestMain: os.Exit(postgrestest.Main(m)).
func Main(m *testing.M) int {
	code := m.Run()
	if shared != nil {
		shared.Stop()
	}
	return code
}

// Database makes an empty database on the server of the test's package, which it starts first if need be, and returns its address.
// The test is skipped, with the reason, where PostgreSQL is not installed; the package needs a TestMain that calls Main.
func Database(t testing.TB) string {
	t.Helper()
	once.Do(func() {
		shared, failure = Start()
	})
	if errors.Is(failure, ErrMissing) {
		t.Skip(failure)
	}
	if failure != nil {
		t.Fatalf("start PostgreSQL: %s", failure)
	}
	address, err := shared.Database(context.Background())
	if err != nil {
		t.Fatalf("make a database: %s", err)
	}
	return address
}

// Start makes a server. Stop it after use.
func Start() (*Server, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if path, err := exec.LookPath("initdb"); err == nil {
		found = append(found, path)
	}
	if len(found) == 0 {
		return nil, ErrMissing
	}
	slices.Sort(found)
	s := &Server{bin: filepath.Dir(found[len(found)-1])}
	var err error
	// The path of a socket must be short; that of a test's folder may not be.
	if s.folder, err = os.MkdirTemp("", "postgrestest"); err != nil {
		return nil, err
	}
	if err := s.prepare(); err != nil {
		_ = os.RemoveAll(s.folder)
		return nil, err
	}
	if err := s.Run(); err != nil {
		_ = os.RemoveAll(s.folder)
		return nil, err
	}
	return s, nil
}

func (s *Server) prepare() error {
	// PostgreSQL refuses to run as root.
	if os.Geteuid() == 0 {
		account, err := user.Lookup("postgres")
		if err != nil {
			return errors.Wrap(err, "root cannot run PostgreSQL")
		}
		uid, _ := strconv.Atoi(account.Uid)
		gid, _ := strconv.Atoi(account.Gid)
		if err := os.Chown(s.folder, uid, gid); err != nil {
			return err
		}
		s.account = account
	}
	initialise := s.run(filepath.Join(s.bin, "initdb"), "--pgdata="+s.data(), "--username=tester", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync")
	output, err := initialise.CombinedOutput()
	return errors.Wrapf(err, "initdb: %s", output)
}

func (s *Server) data() string { return filepath.Join(s.folder, "data") }

func (s *Server) run(name string, arguments ...string) *exec.Cmd {
	command := exec.Command(name, arguments...)
	command.Dir = s.folder
	command.SysProcAttr = attributes(s.account)
	return command
}

// Run starts a server that was made and stopped or killed.
func (s *Server) Run() error {
	s.command = s.run(filepath.Join(s.bin, "postgres"), "-D", s.data(), "-c", "listen_addresses=",
		"-c", "unix_socket_directories="+s.folder, "-c", "max_connections=200", "-c", "log_min_messages=fatal",
		// After a kill, the files of the data folder are synced all at once instead of one by one.
		"-c", "recovery_init_sync_method="+syncMethod)
	if err := s.command.Start(); err != nil {
		return err
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		connection, err := pgx.Connect(ctx, s.address("postgres"))
		if err == nil {
			err = connection.Close(ctx)
		}
		cancel()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			s.Kill()
			return errors.Wrap(err, "wait for PostgreSQL")
		}
	}
}

func (s *Server) address(database string) string {
	return fmt.Sprintf("postgres://tester@/%s?host=%s", database, url.QueryEscape(s.folder))
}

// Database makes an empty database and returns its address.
func (s *Server) Database(ctx context.Context) (string, error) {
	connection, err := pgx.Connect(ctx, s.address("postgres"))
	if err != nil {
		return "", err
	}
	defer func() { _ = connection.Close(ctx) }()
	name := fmt.Sprintf("test%d", s.made.Add(1))
	_, err = connection.Exec(ctx, "CREATE DATABASE "+name)
	return s.address(name), err
}

// PID is that of the server's first process, the parent of its others.
func (s *Server) PID() int { return s.command.Process.Pid }

// Kill ends the server as a failure of the machine's power would for its processes: at once. Run starts it again.
func (s *Server) Kill() {
	_ = s.command.Process.Signal(syscall.SIGQUIT)
	_ = s.command.Wait()
}

// Stop ends the server and removes its data.
func (s *Server) Stop() {
	_ = s.command.Process.Signal(syscall.SIGINT)
	_ = s.command.Wait()
	_ = os.RemoveAll(s.folder)
}
