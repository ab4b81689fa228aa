// Package s3emulator answers for Amazon S3, for tests: as much of its API as Pulumi's backend asks for.
package s3emulator

import (
	"bufio"
	"crypto/md5" //nolint:gosec // S3 says so for its ETags
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

const bucket = "states"

// Environment is what the Pulumi CLI needs to keep its states in the store at an address.
func Environment(address string) map[string]string {
	return map[string]string{
		"PULUMI_BACKEND_URL": "s3://" + bucket +
			"?region=us-east-1&use_path_style=true&response_checksum_validation=when_required&endpoint=" + address,
		"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any", "AWS_EC2_METADATA_DISABLED": "true",
	}
}

// Store has one bucket, addressed by its path. It knows no signatures. The zero Store is empty, and ready for use by several goroutines
// at once.
// https://docs.aws.amazon.com/AmazonS3/latest/API/
type Store struct {
	mu      sync.Mutex
	objects map[string]storedObject
}

type storedObject struct {
	content     []byte
	contentType string
	changed     time.Time
}

func (o storedObject) etag() string {
	sum := md5.Sum(o.content) //nolint:gosec // as above
	return `"` + hex.EncodeToString(sum[:]) + `"`
}

// Files are the objects by name.
func (s *Store) Files() map[string][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	files := map[string][]byte{}
	for key, object := range s.objects {
		files[key] = object.content
	}
	return files
}

// ServeHTTP implements http.Handler.
func (s *Store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	asked, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if asked != bucket {
		refuseS3(w, http.StatusNotFound, "NoSuchBucket")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	object, found := s.objects[key]
	switch {
	case r.Method == http.MethodGet && key == "":
		s.list(w, r.URL.Query())
	case r.Method == http.MethodPost && r.URL.Query().Has("delete"):
		s.deleteAll(w, r)
	case r.Method == http.MethodPut && r.Header.Get("X-Amz-Copy-Source") != "":
		s.copy(w, r, key)
	case r.Method == http.MethodPut && len(r.URL.Query()) <= 1:
		s.put(w, r, key)
	case r.Method == http.MethodDelete:
		delete(s.objects, key)
		w.WriteHeader(http.StatusNoContent)
	case (r.Method == http.MethodGet || r.Method == http.MethodHead) && !found:
		refuseS3(w, http.StatusNotFound, "NoSuchKey")
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		w.Header().Set("ETag", object.etag())
		w.Header().Set("Content-Type", object.contentType)
		http.ServeContent(w, r, "", object.changed, strings.NewReader(string(object.content)))
	default:
		refuseS3(w, http.StatusNotImplemented, "NotImplemented")
	}
}

func (s *Store) put(w http.ResponseWriter, r *http.Request, key string) {
	read := io.ReadAll
	if strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-") {
		read = readChunks
	}
	content, err := read(r.Body)
	if err != nil {
		refuseS3(w, http.StatusBadRequest, "IncompleteBody")
		return
	}
	made := storedObject{content: content, contentType: r.Header.Get("Content-Type"), changed: time.Now()}
	s.set(key, made)
	w.Header().Set("ETag", made.etag())
}

func (s *Store) set(key string, object storedObject) {
	if s.objects == nil {
		s.objects = map[string]storedObject{}
	}
	s.objects[key] = object
}

// readChunks reads a body in the encoding aws-chunked: a line with the length in hexadecimal before each chunk.
func readChunks(body io.Reader) ([]byte, error) {
	var content []byte
	reader := bufio.NewReader(body)
	for {
		line, err := reader.ReadString('\n')
		if err != nil {
			return nil, err
		}
		length, _, _ := strings.Cut(strings.TrimSpace(line), ";")
		size, err := strconv.ParseUint(length, 16, 31)
		if err != nil || size == 0 {
			return content, err
		}
		chunk := make([]byte, size+2)
		if _, err := io.ReadFull(reader, chunk); err != nil {
			return nil, err
		}
		content = append(content, chunk[:size]...)
	}
}

func (s *Store) copy(w http.ResponseWriter, r *http.Request, key string) {
	source, err := url.PathUnescape(r.Header.Get("X-Amz-Copy-Source"))
	from, found := s.objects[strings.TrimPrefix(strings.TrimPrefix(source, "/"), bucket+"/")]
	if err != nil || !found {
		refuseS3(w, http.StatusNotFound, "NoSuchKey")
		return
	}
	from.changed = time.Now()
	s.set(key, from)
	answerS3(w, struct {
		XMLName      xml.Name `xml:"CopyObjectResult"`
		ETag         string
		LastModified string
	}{ETag: from.etag(), LastModified: from.changed.UTC().Format(time.RFC3339)})
}

type s3Object struct {
	Key          string
	LastModified string
	ETag         string
	Size         int
}

type s3Prefix struct{ Prefix string }

func (s *Store) list(w http.ResponseWriter, query url.Values) {
	result := struct {
		XMLName        xml.Name `xml:"ListBucketResult"`
		Name           string
		Prefix         string
		KeyCount       int
		IsTruncated    bool
		Contents       []s3Object
		CommonPrefixes []s3Prefix
	}{Name: bucket, Prefix: query.Get("prefix")}
	keys := make([]string, 0, len(s.objects))
	for key := range s.objects {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	delimiter := query.Get("delimiter")
	for _, key := range keys {
		rest, ok := strings.CutPrefix(key, result.Prefix)
		if !ok {
			continue
		}
		if folder, _, inside := strings.Cut(rest, delimiter); delimiter != "" && inside {
			common := s3Prefix{result.Prefix + folder + delimiter}
			if n := len(result.CommonPrefixes); n == 0 || result.CommonPrefixes[n-1] != common {
				result.CommonPrefixes = append(result.CommonPrefixes, common)
			}
			continue
		}
		object := s.objects[key]
		result.Contents = append(result.Contents, s3Object{
			Key: key, LastModified: object.changed.UTC().Format(time.RFC3339), ETag: object.etag(), Size: len(object.content),
		})
	}
	result.KeyCount = len(result.Contents) + len(result.CommonPrefixes)
	answerS3(w, result)
}

func (s *Store) deleteAll(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Objects []struct{ Key string } `xml:"Object"`
	}
	if err := xml.NewDecoder(r.Body).Decode(&asked); err != nil {
		refuseS3(w, http.StatusBadRequest, "MalformedXML")
		return
	}
	for _, object := range asked.Objects {
		delete(s.objects, object.Key)
	}
	answerS3(w, struct {
		XMLName xml.Name `xml:"DeleteResult"`
	}{})
}

func refuseS3(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%s</Message></Error>", code, code)
}

func answerS3(w http.ResponseWriter, document any) {
	w.Header().Set("Content-Type", "application/xml")
	_ = xml.NewEncoder(w).Encode(document)
}
