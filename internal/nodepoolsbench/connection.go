package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/pkg/errors"
)

// connection is a client: one connection, on which one request follows the other. It does what has to be done and no more, as the load
// takes its CPU time from the service that is measured: http.Client costs as much as the service.
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
	return c.send(method, path, body, func(answer io.Reader) error {
		_, err := io.Copy(io.Discard, answer)
		return errors.Wrap(err, "read the answer")
	})
}

// get reads what is at a path.
func (c *connection) get(path string, into any) error {
	return c.send(http.MethodGet, path, "", func(answer io.Reader) error {
		text, err := io.ReadAll(answer)
		if err != nil {
			return errors.Wrap(err, "read the answer")
		}
		return errors.Wrap(json.Unmarshal(text, into), "read the answer")
	})
}

// send makes one request, which must succeed, and has its answer read.
func (c *connection) send(method, path, body string, read func(answer io.Reader) error) error {
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
		return errors.Wrap(err, "ask")
	}
	response, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return errors.Wrap(err, "read the answer")
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode/100 != 2 {
		text, _ := io.ReadAll(response.Body)
		return errors.Errorf("%s %s: %d %s", method, path, response.StatusCode, text)
	}
	return read(response.Body)
}
