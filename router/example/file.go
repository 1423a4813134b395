package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"
)

// file is a message as it lies in a spool: {"id": "7", "metadata": {"tenant": "blue"}, "payload": "hello"}.
type file struct {
	ID       text            `json:"id"`
	Metadata map[string]text `json:"metadata,omitempty"`
	Payload  text            `json:"payload"`
}

// text is any bytes: a JSON string if they are UTF-8, which is kind to the reader, {"base64": "…"} if they are not, and null if there are none. A JSON
// string alone would change bytes that are not UTF-8, without an error.
type text []byte

type binary struct {
	Base64 []byte `json:"base64"`
}

// MarshalJSON writes the bytes.
func (t text) MarshalJSON() ([]byte, error) {
	switch {
	case t == nil:
		return []byte("null"), nil
	case utf8.Valid(t):
		return json.Marshal(string(t))
	}
	return json.Marshal(binary{t})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (t *text) UnmarshalJSON(b []byte) error {
	if bytes.HasPrefix(b, []byte("{")) {
		var raw binary
		err := strict(b, &raw)
		*t = raw.Base64
		return err
	}
	var s *string
	err := json.Unmarshal(b, &s)
	if s != nil {
		*t = text(*s)
	}
	return err
}

// strict decodes all of b, which must have no fields that into has not.
func strict(b []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if d.More() {
		return fmt.Errorf("there is something behind the value")
	}
	return nil
}

func encode(msg *message.Message) ([]byte, error) {
	f := file{ID: text(msg.UUID), Payload: text(msg.Payload), Metadata: map[string]text{}}
	for k, v := range msg.Metadata {
		if !utf8.ValidString(k) {
			return nil, fmt.Errorf("the name of header %q is not UTF-8", k)
		}
		f.Metadata[k] = text(v)
	}
	return json.Marshal(f)
}

// load reads a message. A file that is not in our format is a message too, of which all is payload: what cannot be understood is carried, not lost.
// A message without an id goes by its file's name, which is the same at each delivery.
func load(path string) (*message.Message, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var f file
	if strict(content, &f) != nil {
		f = file{Payload: content}
	}
	if len(f.ID) == 0 {
		f.ID = text(strings.TrimSuffix(filepath.Base(path), extension))
	}
	msg := message.NewMessage(string(f.ID), message.Payload(f.Payload))
	for k, v := range f.Metadata {
		msg.Metadata.Set(k, string(v))
	}
	return msg, nil
}

// extension ends the names of files that are complete.
const extension = ".json"

func isMessage(e fs.DirEntry) bool {
	return e.Type().IsRegular() && strings.HasSuffix(e.Name(), extension) && !strings.HasPrefix(e.Name(), ".")
}

// writeFile makes a file that is either there as a whole or not at all, and is on the disk when it returns: first the content, then the name. A crash
// in between leaves a hidden file, which nobody reads.
func writeFile(folder, name string, content []byte) error {
	f, err := os.CreateTemp(folder, ".new-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // After the rename there is none.
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if wrong := f.Close(); err == nil {
		err = wrong
	}
	if err != nil {
		return err
	}
	if err := os.Rename(f.Name(), filepath.Join(folder, name)); err != nil {
		return err
	}
	return syncFolder(folder)
}

// makeFolder makes a folder unless it is there. The one it is in must exist.
func makeFolder(path string) error {
	err := os.Mkdir(path, 0o755)
	switch {
	case err == nil:
		return syncFolder(filepath.Dir(path))
	case os.IsExist(err):
		return nil
	}
	return err
}

// syncFolder brings the names in a folder to the disk.
func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	err = d.Sync()
	if wrong := d.Close(); err == nil {
		err = wrong
	}
	return err
}
