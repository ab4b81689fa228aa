package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pkg/errors"
)

// connection is a client: one connection, on which one request follows the other. It does what has to be done and no more, as the load
// takes its CPU time from the service that is measured: http.Client costs as much as the service. Tools that are made for load, such as wrk,
// read no more of an answer either.
type connection struct {
	conn   net.Conn
	reader *bufio.Reader
	host   string
	out    []byte
}

func dial(url string) (*connection, error) {
	host := strings.TrimPrefix(url, "http://")
	conn, err := net.DialTimeout("tcp", host, 10*time.Second)
	if err != nil {
		return nil, errors.Wrap(err, "connect")
	}
	return &connection{conn: conn, reader: bufio.NewReaderSize(conn, 64<<10), host: host}, nil
}

func (c *connection) close() { _ = c.conn.Close() }

// ask makes one request, which must succeed, and reads all of the answer.
func (c *connection) ask(method, path, body string) error {
	length, err := c.send(method, path, body)
	if err != nil {
		return err
	}
	_, err = c.reader.Discard(length)
	return errors.Wrap(err, "read the answer")
}

// get reads what is at a path.
func (c *connection) get(path string, into any) error {
	length, err := c.send(http.MethodGet, path, "")
	if err != nil {
		return err
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(c.reader, text); err != nil {
		return errors.Wrap(err, "read the answer")
	}
	return errors.Wrap(json.Unmarshal(text, into), "read the answer")
}

// send makes one request, which must succeed, and tells how many bytes the answer has, which the caller reads.
func (c *connection) send(method, path, body string) (length int, err error) {
	c.out = fmt.Appendf(c.out[:0], "%s %s HTTP/1.1\r\nHost: %s\r\nX-User-Email: bench@example.com\r\n", method, path, c.host)
	if body != "" {
		media := "application/json"
		if method == http.MethodPatch {
			media = "application/merge-patch+json"
		}
		c.out = fmt.Appendf(c.out, "Content-Type: %s\r\nContent-Length: %d\r\n", media, len(body))
	}
	c.out = append(append(c.out, "\r\n"...), body...)
	if _, err := c.conn.Write(c.out); err != nil {
		return 0, errors.Wrap(err, "ask")
	}
	status, length, err := c.head()
	if err != nil {
		return 0, errors.Wrap(err, "read the answer")
	}
	if status/100 != 2 {
		text, _ := io.ReadAll(io.LimitReader(c.reader, int64(length)))
		return 0, errors.Errorf("%s %s: %d %s", method, path, status, text)
	}
	return length, nil
}

// head reads the status line and the headers of an answer, whose length must be told.
func (c *connection) head() (status, length int, err error) {
	line, err := c.line()
	if err != nil {
		return 0, 0, err
	}
	_, rest, _ := bytes.Cut(line, []byte(" "))
	code, _, _ := bytes.Cut(rest, []byte(" "))
	if status, err = strconv.Atoi(string(code)); err != nil {
		return 0, 0, errors.Errorf("the answer begins with %q", line)
	}
	length = -1
	for {
		line, err := c.line()
		switch {
		case err != nil:
			return 0, 0, err
		case len(line) == 0 && status == http.StatusNoContent:
			return status, 0, nil
		case len(line) == 0 && length < 0:
			return 0, 0, errors.New("the answer does not tell its length")
		case len(line) == 0:
			return status, length, nil
		}
		if name, value, _ := bytes.Cut(line, []byte(": ")); string(name) == "Content-Length" {
			if length, err = strconv.Atoi(string(value)); err != nil {
				return 0, 0, errors.Wrap(err, "read the length of the answer")
			}
		}
	}
}

// line reads up to the end of a line, which is left out.
func (c *connection) line() ([]byte, error) {
	line, err := c.reader.ReadSlice('\n')
	return bytes.TrimRight(line, "\r\n"), err
}
