// Package lines is the command line that the Go clients of these tests share: subcommands with flags, records as lines
// of JSON. What a client does is a Client; Main is the rest.
//
//	produce -bootstrap a -topic t -codec zstd                  sends the records of standard input, until its end
//	consume -bootstrap a -topic t -limits 0=100,1=50 -start s  prints so many records of each partition
//	tail    -bootstrap a -topic t                              partition 0 from its end, until standard input ends
//	offsets -bootstrap a -topic t -at s                        prints the offset of each partition
//	member  -bootstrap a -topic t -group g -assignor range     see member.go
//	read    -bootstrap a -topic t -count 100                   prints so many records from the first of each partition on
//	group   -bootstrap a -topic t -group g -count 100          the same in a group, and commits; see matrix/client.py
//	transact -bootstrap a -topic t -transactional-id x -group g   sends transactions; see transactions.go
//
// A start s is "earliest", "latest", "offset:0=10,1=20" or "time:1700000000000"; a time after the last record is the end.
// A record is {"partition", "offset", "timestamp_ms", "key", "value", "headers": [{"name", "value"}]}; bytes are base64
// or null. Every subcommand takes -protocol 2.4.0: to speak as clients did at that version of Kafka. Exit status 0: all
// was done; otherwise standard error says why not.
package lines

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// Limit is how long a client may take for a subcommand that ends by itself.
const Limit = 60 * time.Second

const subcommands = "produce, read, group, consume, tail, offsets, member or transact"

// Record is a record as it is sent, where its offset says nothing, or as it was received; a timestamp of -1 is none.
type Record struct {
	Partition   int32    `json:"partition"`
	Offset      int64    `json:"offset"`
	TimestampMs int64    `json:"timestamp_ms"`
	Key         []byte   `json:"key"`
	Value       []byte   `json:"value"`
	Headers     []Header `json:"headers"`
}

// Header is one of a record's headers, in their order; several may have one name.
type Header struct {
	Name  string `json:"name"`
	Value []byte `json:"value"`
}

// Start is where to begin: At is "earliest", "latest", "offset" or "time", whose other fields count.
type Start struct {
	At          string
	Offsets     map[int32]int64
	TimestampMs int64
}

// Target is what every subcommand is told. Protocol is the Kafka version whose protocol to speak, as "2.4.0"; empty is
// the client's default. Isolation is "read_committed" or "read_uncommitted" for Read; empty is the client's default.
type Target struct {
	Bootstrap string
	Topic     string
	Protocol  string
	Isolation string
	// TLS is nil without security.
	TLS *tls.Config
	// Login is nil without SASL.
	Login *Login
}

// Client is a stock client of any age: a row of the matrix.
type Client interface {
	// Produce sends records until next returns io.EOF, idempotently where it can, and returns when all are acknowledged.
	Produce(to Target, codec string, next func() (Record, error)) error
	// Read emits so many records, of all partitions together, each from its first one on.
	Read(from Target, count int, emit func(Record) error) error
	// Group does the same in a group, commits the offsets after them, stays for a while and leaves.
	Group(in Membership, count int, emit func(Record) error) error
}

// Full is a client that can do all that these tests ask of the clients of today.
type Full interface {
	Client
	// Consume emits so many records of each partition; what follows them is left.
	Consume(from Target, limits map[int32]int64, start Start, emit func(Record) error) error
	// Tail reads partition 0 from its end until stop is closed; it calls parked when nothing can be missed any more.
	Tail(from Target, stop <-chan struct{}, parked func() error, emit func(Record) error) error
	// Offsets asks the broker for a start other than "offset", of every partition.
	Offsets(from Target, start Start) (map[int32]int64, error)
	// Member is in a group until input.Stop is closed, says what happens, and commits when it is told to, never by itself.
	Member(in Membership, input Input, events Events) error
}

// Main runs the subcommand of the process's arguments and ends the process; a client that is Full has all of them.
func Main(client Client) {
	if err := run(client, os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(client Client, arguments []string, input io.Reader, output io.Writer) error {
	if len(arguments) == 0 {
		return errors.New("no subcommand: " + subcommands)
	}
	flags := flag.NewFlagSet(arguments[0], flag.ContinueOnError)
	var target Target
	flags.StringVar(&target.Bootstrap, "bootstrap", "", "host:port of a broker")
	flags.StringVar(&target.Topic, "topic", "", "topic")
	flags.StringVar(&target.Protocol, "protocol", "", "Kafka version whose protocol to speak")
	flags.StringVar(&target.Isolation, "isolation", "", "read_committed or read_uncommitted")
	transactionalID := flags.String("transactional-id", "", "of the producer")
	codec := flags.String("codec", "none", "none, gzip, snappy, lz4 or zstd")
	limits := flags.String("limits", "", "records of each partition: 0=100,1=50")
	start := flags.String("start", "earliest", "where to begin")
	at := flags.String("at", "latest", "which offsets")
	group := flags.String("group", "", "group to be a member of")
	count := flags.Int("count", 0, "records to read")
	assignor := flags.String("assignor", "range", "range, sticky, cooperative-sticky, or server")
	instance := flags.String("instance", "", "id of a static member")
	sessionMs := flags.Int("session-ms", 45_000, "session timeout")
	reset := flags.String("reset", "earliest", "where to read without a usable offset: earliest, latest or none")
	if err := flags.Parse(arguments[1:]); err != nil {
		return err
	}
	var err error
	if target.TLS, target.Login, err = security(os.Getenv("COMPAT_TLS")); err != nil {
		return err
	}
	out := bufio.NewWriterSize(output, 1<<16)
	emit := json.NewEncoder(out).Encode
	emitRecord := func(record Record) error { return emit(record) }
	session := time.Duration(*sessionMs) * time.Millisecond
	membership := Membership{target, *group, *assignor, *instance, session, *reset}
	switch arguments[0] {
	case "produce":
		return client.Produce(target, *codec, reader(input))
	case "read":
		return errors.Join(client.Read(target, *count, emitRecord), out.Flush())
	case "group":
		return errors.Join(client.Group(membership, *count, emitRecord), out.Flush())
	}
	if transacting, is := client.(Transacting); is && arguments[0] == "transact" {
		return transacting.Transact(target, *transactionalID, *group, transactions(input))
	}
	full, is := client.(Full)
	if !is {
		return fmt.Errorf("this client has no %q", arguments[0])
	}
	switch arguments[0] {
	case "consume":
		return errors.Join(consume(full, target, *limits, *start, emit), out.Flush())
	case "tail":
		return tail(full, target, input, func(value any) error { return errors.Join(emit(value), out.Flush()) })
	case "offsets":
		return errors.Join(offsets(full, target, *at, emit), out.Flush())
	case "member":
		return full.Member(membership, commands(input), NewEvents(output))
	}
	return fmt.Errorf("unknown subcommand %q: %s", arguments[0], subcommands)
}

func reader(input io.Reader) func() (Record, error) {
	decoder := json.NewDecoder(bufio.NewReaderSize(input, 1<<16))
	return func() (Record, error) {
		var record Record
		err := decoder.Decode(&record)
		return record, err
	}
}

func consume(client Full, from Target, limits, start string, emit func(any) error) error {
	wanted, err := numbers(limits)
	if err != nil {
		return err
	}
	begin, err := parseStart(start)
	if err != nil {
		return err
	}
	return client.Consume(from, wanted, begin, func(record Record) error { return emit(record) })
}

func tail(client Full, from Target, input io.Reader, emit func(any) error) error {
	stop := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, input)
		close(stop)
	}()
	parked := func() error { return emit(map[string]bool{"parked": true}) }
	return client.Tail(from, stop, parked, func(record Record) error { return emit(record) })
}

func offsets(client Full, from Target, at string, emit func(any) error) error {
	start, err := parseStart(at)
	if err != nil {
		return err
	}
	found, err := client.Offsets(from, start)
	if err != nil {
		return err
	}
	for partition, offset := range found {
		if err := emit(map[string]int64{"partition": int64(partition), "offset": offset}); err != nil {
			return err
		}
	}
	return nil
}

func parseStart(text string) (Start, error) {
	at, rest, _ := strings.Cut(text, ":")
	start := Start{At: at}
	var err error
	switch at {
	case "earliest", "latest":
	case "offset":
		start.Offsets, err = numbers(rest)
	case "time":
		start.TimestampMs, err = strconv.ParseInt(rest, 10, 64)
	default:
		err = fmt.Errorf("unknown start %q: earliest, latest, offset:0=10,1=20 or time:1700000000000", text)
	}
	return start, err
}

func numbers(text string) (map[int32]int64, error) {
	found := map[int32]int64{}
	for pair := range strings.SplitSeq(text, ",") {
		var partition int32
		var number int64
		if _, err := fmt.Sscanf(pair, "%d=%d", &partition, &number); err != nil {
			return nil, fmt.Errorf("%q is not a partition and a number, as 0=10: %w", pair, err)
		}
		found[partition] = number
	}
	return found, nil
}

// Limits counts what is still to come of each partition.
type Limits map[int32]int64

// Waiting is a copy of the limits without the partitions of which nothing is wanted.
func Waiting(limits map[int32]int64) Limits {
	left := Limits{}
	for partition, count := range limits {
		if count > 0 {
			left[partition] = count
		}
	}
	return left
}

// Take counts a record and tells whether it was wanted.
func (left Limits) Take(partition int32) bool {
	count, wanted := left[partition]
	if count == 1 {
		delete(left, partition)
	} else if wanted {
		left[partition] = count - 1
	}
	return wanted
}

// Milliseconds is the time of a record; -1 where the client gives none.
func Milliseconds(at time.Time) int64 {
	if at.IsZero() {
		return -1
	}
	return at.UnixMilli()
}

// Late says how many records had come when the time was over.
func Late(taken int) error {
	return fmt.Errorf("after %v only %d records had come", Limit, taken)
}

// Late says which records are missing.
func (left Limits) Late() error {
	return fmt.Errorf("after %v so many records of each partition are missing: %v", Limit, left)
}
