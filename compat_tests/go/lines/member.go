package lines

import (
	"bufio"
	"encoding/json"
	"io"
	"slices"
	"sync"
	"time"
)

// Membership is what a member of a group is told. Assignor "server" is the protocol in which the broker assigns (KIP-848).
type Membership struct {
	Target
	Group    string
	Assignor string
	Instance string
	Session  time.Duration
	// Reset is where to read without a usable offset: "earliest", "latest", or "none", which is an error.
	Reset string
}

// Heartbeat is the interval at which a member of a test says that it is alive.
const Heartbeat = 500 * time.Millisecond

// The only member of a group says so more often, and stays for some of its heartbeats.
const (
	ShortHeartbeat = 100 * time.Millisecond
	Stay           = 350 * time.Millisecond
)

// Input is what comes on standard input: each line "commit", and its end.
type Input struct {
	Commits <-chan struct{}
	Stop    <-chan struct{}
}

func commands(input io.Reader) Input {
	commits, stop := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stop)
		for scanner := bufio.NewScanner(input); scanner.Scan(); {
			commits <- struct{}{}
		}
	}()
	return Input{commits, stop}
}

// Events prints what happens to a member, as lines of JSON, from any goroutine:
//
//	{"owned": [0, 2]}              all that is assigned to it, whenever that has changed
//	{"partition": 0, "offset": 7}  a record that it was given
//	{"committed": ""}              it committed what it was given, or else why not
//	{"error": "..."}               what the client reports to the application
type Events struct {
	mutex  *sync.Mutex
	encode func(any) error
}

// NewEvents prints to output; what cannot be printed is lost with the process that reads it.
func NewEvents(output io.Writer) Events {
	return Events{&sync.Mutex{}, json.NewEncoder(output).Encode}
}

// Owned says what is assigned now.
func (events Events) Owned(partitions []int32) {
	partitions = append([]int32{}, partitions...)
	slices.Sort(partitions)
	events.say(map[string]any{"owned": partitions})
}

// Received says that the member was given a record.
func (events Events) Received(partition int32, offset int64) {
	events.say(map[string]any{"partition": partition, "offset": offset})
}

// Committed answers "commit".
func (events Events) Committed(failure error) {
	said := ""
	if failure != nil {
		said = failure.Error()
	}
	events.say(map[string]any{"committed": said})
}

// Failed says what the client reports to the application.
func (events Events) Failed(failure error) {
	events.say(map[string]any{"error": failure.Error()})
}

func (events Events) say(event any) {
	events.mutex.Lock()
	defer events.mutex.Unlock()
	_ = events.encode(event)
}
