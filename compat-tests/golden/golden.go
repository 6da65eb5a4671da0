// Package golden compares the broker with Apache Kafka answer by answer. Scripts send raw requests, one at a time, at the
// versions that clients use; what Kafka answered is kept in testdata, recorded by cmd/record; a test sends the same to the
// broker and compares.
//
// An exchange is kept as text: every field of request and answer, with words for what differs from run to run (see
// render.go). A Session has no goroutines of its own; a script that has several requests under way starts them with Send.
package golden

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Script is a list of requests that depend on each other.
type Script struct {
	Name     string
	Versions Versions
	Needs    []kmsg.Key // the requests that it cannot do without
	run      func(*Session)
}

// Versions say at which version a script sends a request: that of its key, else the newest that Kafka 4.4 has.
type Versions map[kmsg.Key]int16

// Exchange is a request and its answer.
type Exchange struct {
	Title   string
	Request string
	Answer  string
}

// Text is how an exchange is kept.
func (e Exchange) Text() string {
	return fmt.Sprintf("=== %s\n--- request\n%s--- answer\n%s", e.Title, e.Request, e.Answer)
}

// Parse takes a file of exchanges apart.
func Parse(text string) (exchanges []Exchange) {
	for part := range strings.SplitSeq(text, "=== ") {
		title, rest, _ := strings.Cut(part, "\n--- request\n")
		request, answer, ok := strings.Cut(rest, "--- answer\n")
		if ok {
			exchanges = append(exchanges, Exchange{Title: title, Request: request, Answer: answer})
		}
	}
	return exchanges
}

// Session is one run of a script against a broker.
type Session struct {
	script    Script
	address   string
	run       string // a word that makes names unique
	renderer  renderer
	names     []string // of Name
	conn      *Conn    // of requests that are sent one at a time
	open      []*Conn  // of all requests
	exchanges []Exchange
}

// broken ends a script early.
type broken struct{ err error }

// Run sends the script's requests to the broker at an address. run is a word that makes the names of topics and groups
// unique. An error is of the connection: the exchanges before it are returned.
func (s Script) Run(address, run string) (exchanges []Exchange, err error) {
	session := &Session{script: s, address: address, run: run, renderer: newRenderer(run)}
	defer func() {
		session.deleteTopics()
		for _, c := range session.open {
			c.Close()
		}
		exchanges = session.exchanges
		switch r := recover().(type) {
		case nil:
		case broken:
			err = r.err
		default:
			panic(r)
		}
	}()
	session.conn = session.connect()
	s.run(session)
	return session.exchanges, nil
}

// Version is the one at which the script sends a request.
func (s *Session) Version(key kmsg.Key) int16 { return s.script.Version(key) }

// Version is the one at which the script sends a request.
func (s Script) Version(key kmsg.Key) int16 {
	if v, ok := s.Versions[key]; ok {
		return v
	}
	return newest(key)
}

// newest is the highest version that Kafka 4.4 serves.
func newest(key kmsg.Key) int16 {
	v, ok := kversion44.LookupMaxKeyVersion(key.Int16())
	if !ok {
		panic(fmt.Sprintf("no version of %s", key.Name()))
	}
	return v
}

// Name makes a name of a topic or a group unique; it is rendered with RUN in its place.
func (s *Session) Name(name string) string {
	s.names = append(s.names, name+"-"+s.run)
	return s.names[len(s.names)-1]
}

// deleteTopics removes what the script made: the broker may be the user's.
func (s *Session) deleteTopics() {
	r := kmsg.NewPtrDeleteTopicsRequest()
	r.TimeoutMillis, r.TopicNames = 30000, s.names
	if c, err := Dial(s.address); err == nil {
		defer c.Close()
		_, _ = c.Request(r, 5) // not all of them are topics
	}
}

// Ask sends a request, keeps the exchange and returns the answer.
func (s *Session) Ask(what string, r kmsg.Request) kmsg.Response {
	s.send(s.conn, r)
	return s.wait(what, s.conn, r)
}

// Quiet sends a request until ok likes the answer, and keeps nothing: for what takes effect after it was answered, and to
// see what was done.
func (s *Session) Quiet(r kmsg.Request, ok func(kmsg.Response) bool) {
	s.retry(r, ok)
}

// Eventually is Ask for what takes effect later: the first answer that ok likes is kept.
func (s *Session) Eventually(what string, r kmsg.Request, ok func(kmsg.Response) bool) kmsg.Response {
	response := s.retry(r, ok)
	s.keep(what, r, response)
	return response
}

func (s *Session) retry(r kmsg.Request, ok func(kmsg.Response) bool) kmsg.Response {
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		response := s.request(s.conn, r)
		if ok(response) || time.Now().After(deadline) {
			return response
		}
	}
}

// Send sends a request on a connection of its own; Wait receives the answer.
func (s *Session) Send(what string, r kmsg.Request) (wait func() kmsg.Response) {
	c := s.connect()
	s.send(c, r)
	return func() kmsg.Response { return s.wait(what, c, r) }
}

func (s *Session) send(c *Conn, r kmsg.Request) {
	if err := c.Send(r, s.Version(kmsg.Key(r.Key()))); err != nil {
		panic(broken{err})
	}
}

// request sends a request and keeps nothing.
func (s *Session) request(c *Conn, r kmsg.Request) kmsg.Response {
	response, err := c.Request(r, s.Version(kmsg.Key(r.Key())))
	if err != nil {
		panic(broken{err})
	}
	return response
}

func (s *Session) wait(what string, c *Conn, r kmsg.Request) kmsg.Response {
	response, err := c.Receive(r)
	if err != nil {
		panic(broken{fmt.Errorf("%s: %w", s.title(what, r), err)})
	}
	s.keep(what, r, response)
	return response
}

func (s *Session) keep(what string, r kmsg.Request, response kmsg.Response) {
	s.exchanges = append(s.exchanges, Exchange{Title: s.title(what, r), Request: s.renderer.text(r), Answer: s.renderer.text(response)})
}

func (s *Session) title(what string, r kmsg.Request) string {
	return fmt.Sprintf("%s v%d: %s", kmsg.NameForKey(r.Key()), r.GetVersion(), what)
}

func (s *Session) connect() *Conn {
	c, err := Dial(s.address)
	if err != nil {
		panic(broken{err})
	}
	s.open = append(s.open, c)
	return c
}

// Offers tells which requests a broker serves, and up to which version.
func Offers(ctx context.Context, address string) (map[int16]kmsg.ApiVersionsResponseApiKey, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.DisableClientMetrics())
	if err != nil {
		return nil, err
	}
	defer client.Close()
	response, err := kmsg.NewPtrApiVersionsRequest().RequestWith(ctx, client)
	if err != nil {
		return nil, err
	}
	keys := make(map[int16]kmsg.ApiVersionsResponseApiKey)
	for _, k := range response.ApiKeys {
		keys[k.ApiKey] = k
	}
	return keys, nil
}

// Missing names the first request of a script that a broker does not offer at the version it is sent at.
func (s Script) Missing(offers map[int16]kmsg.ApiVersionsResponseApiKey) string {
	for _, key := range s.Needs {
		offer, ok := offers[key.Int16()]
		if v := s.Version(key); !ok || v < offer.MinVersion || v > offer.MaxVersion {
			return fmt.Sprintf("%s v%d", key.Name(), v)
		}
	}
	return ""
}

// Scripts are all of them, each at every set of versions it has.
func Scripts() []Script {
	return slices.Concat(topicScripts(), configScripts(), dataScripts(), offsetScripts(), groupScripts())
}

// File is where the exchanges of a script are kept, below this package's folder.
func (s Script) File() string { return filepath.Join("testdata", s.Name+".txt") }
