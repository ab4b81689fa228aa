package bootstrap

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"net/textproto"
	"strings"
	"unicode/utf8"

	"github.com/pkg/errors"
)

// contentTypes are what cloud-init knows the parts of user data by, by how they begin.
// https://cloudinit.readthedocs.io/en/latest/explanation/format.html
var contentTypes = []struct{ begin, contentType string }{
	{"## template: jinja", "text/jinja2"},
	{"#cloud-config-archive", "text/cloud-config-archive"},
	{"#cloud-config-jsonp", "text/cloud-config-jsonp"},
	{"#cloud-config", "text/cloud-config"},
	{"#cloud-boothook", "text/cloud-boothook"},
	{"#include-once", "text/x-include-once-url"},
	{"#include", "text/x-include-url"},
	{"#part-handler", "text/part-handler"},
	{"#!", "text/x-shellscript"},
}

// mergeType has the lists of our configuration appended to those of the user's, and leaves all else of the user's as it is.
const mergeType = "list(append)+dict(no_replace,recurse_list)+str()"

// part is one document of user data.
type part struct {
	header textproto.MIMEHeader
	body   string
}

func newPart(contentType, fileName, body string) part {
	header := textproto.MIMEHeader{}
	header.Set("Content-Type", contentType+`; charset="utf-8"`)
	if fileName != "" {
		header.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": fileName}))
	}
	if isASCII(body) {
		header.Set("Content-Transfer-Encoding", "7bit")
		return part{header: header, body: body}
	}
	header.Set("Content-Transfer-Encoding", "base64")
	return part{header: header, body: lines(base64.StdEncoding.EncodeToString([]byte(body)))}
}

// merge puts the user's own user data before ours. cloud-init runs scripts in the order of their file names, and commands of its
// configuration as a script named runcmd: the user's is named so that it comes before.
func merge(userData, cloudConfig string) (string, error) {
	parts, err := partsOf(userData)
	if err != nil {
		return "", err
	}
	ours := newPart("text/cloud-config", "karpenter-join.cfg", cloudConfig)
	ours.header.Set("Merge-Type", mergeType)
	return write(append(parts, ours)), nil
}

func partsOf(userData string) ([]part, error) {
	if !utf8.ValidString(userData) {
		return nil, failure("UserDataInvalid", "userData is no text: give it as it is, neither packed nor encoded")
	}
	begin := strings.ToLower(userData[:min(len(userData), 4096)])
	if strings.HasPrefix(begin, "mime-version:") || strings.HasPrefix(begin, "content-type: multipart/") {
		return multiparts(userData)
	}
	for _, known := range contentTypes {
		if !strings.HasPrefix(userData, known.begin) {
			continue
		}
		fileName := ""
		if known.contentType == "text/x-shellscript" {
			fileName = "10-user-data.sh"
		}
		return []part{newPart(known.contentType, fileName, userData)}, nil
	}
	return nil, failure("UserDataInvalid",
		"cloud-init would pass over userData: with this bootstrap mode it has to begin with #!, "+
			"#cloud-config or another line that cloud-init knows, or be MIME multipart")
}

// multiparts takes a MIME multipart document apart. Parts are kept as they are, encoded or not.
func multiparts(userData string) ([]part, error) {
	invalid := func(what string) error {
		return failure("UserDataInvalid", "userData begins like MIME multipart, and %s", what)
	}
	message, err := mail.ReadMessage(strings.NewReader(userData))
	if err != nil {
		return nil, invalid("its header cannot be read: one line for each field, then an empty line")
	}
	mediaType, parameters, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil || !strings.HasPrefix(mediaType, "multipart/") || parameters["boundary"] == "" {
		return nil, invalid(`has no Content-Type: multipart/mixed; boundary="…" in its header`)
	}
	var parts []part
	for reader := multipart.NewReader(message.Body, parameters["boundary"]); ; {
		next, err := reader.NextRawPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, invalid("its parts cannot be told apart: is the last boundary there, with two hyphens after it?")
		}
		body, err := io.ReadAll(next)
		if err != nil {
			return nil, invalid("its parts cannot be told apart: is the last boundary there, with two hyphens after it?")
		}
		parts = append(parts, part{header: next.Header, body: string(body)})
	}
	if len(parts) == 0 {
		return nil, invalid("has no part")
	}
	return parts, nil
}

// write makes one MIME multipart document. Its boundary follows from the parts, so that the same parts make the same document.
func write(parts []part) string {
	sum := sha256.New()
	for _, part := range parts {
		_, _ = io.WriteString(sum, part.body)
	}
	boundary := "karpenter-" + hex.EncodeToString(sum.Sum(nil))[:32]
	var document bytes.Buffer
	document.WriteString("MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=\"" + boundary + "\"\r\n\r\n")
	writer := multipart.NewWriter(&document)
	err := writer.SetBoundary(boundary)
	for _, part := range parts {
		if err != nil {
			break
		}
		var into io.Writer
		if into, err = writer.CreatePart(part.header); err == nil {
			_, err = io.WriteString(into, part.body)
		}
	}
	if err == nil {
		err = writer.Close()
	}
	if err != nil {
		panic(err) // a buffer takes all, and the boundary is well formed
	}
	return document.String()
}

// lines breaks base64 into lines that MIME allows.
func lines(text string) string {
	const width = 76
	var broken strings.Builder
	for len(text) > width {
		broken.WriteString(text[:width] + "\r\n")
		text = text[width:]
	}
	return broken.String() + text
}

func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf || text[i] == 0 {
			return false
		}
	}
	return true
}
