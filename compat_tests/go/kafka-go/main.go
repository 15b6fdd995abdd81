// kafka-go, driven by the command line of headgate.test/lines: the newest, or v0.2.0 with the tag v0_2 and the modules
// of v0.2.mod. What differs between them is in recent.go and v0_2.go.
package main

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"
	"headgate.test/lines"
)

type client struct{}

func main() { lines.Main(client{}) }

// writer is a Writer that puts all into one partition.
type writer interface {
	WriteMessages(ctx context.Context, messages ...kafka.Message) error
	Close() error
}

func (client) Produce(to lines.Target, codec string, next func() (lines.Record, error)) error {
	parts := map[int32][]kafka.Message{}
	for record, err := next(); !errors.Is(err, io.EOF); record, err = next() {
		if err != nil {
			return err
		}
		parts[record.Partition] = append(parts[record.Partition], toSend(record))
	}
	ctx, cancel := context.WithTimeout(context.Background(), lines.Limit)
	defer cancel()
	for partition, messages := range parts {
		writer, err := newWriter(to, codec, int(partition))
		if err != nil {
			return err
		}
		if err := errors.Join(writer.WriteMessages(ctx, messages...), writer.Close()); err != nil {
			return err
		}
	}
	return nil
}

func toSend(record lines.Record) kafka.Message {
	message := kafka.Message{Key: record.Key, Value: record.Value, Time: time.UnixMilli(record.TimestampMs)}
	addHeaders(&message, record)
	return message
}

func received(message kafka.Message) lines.Record {
	return lines.Record{
		Partition:   int32(message.Partition),
		Offset:      message.Offset,
		TimestampMs: milliseconds(message.Time),
		Key:         message.Key,
		Value:       message.Value,
		Headers:     headers(message),
	}
}

func (client) Read(from lines.Target, count int, emit func(lines.Record) error) error {
	connection, err := dialer(from).Dial("tcp", from.Bootstrap)
	if err != nil {
		return err
	}
	partitions, err := connection.ReadPartitions(from.Topic)
	if err := errors.Join(err, connection.Close()); err != nil {
		return err
	}
	readers := []*kafka.Reader{}
	for _, partition := range partitions {
		readers = append(readers, kafka.NewReader(readerConfig(from, kafka.ReaderConfig{Partition: partition.ID})))
	}
	_, err = take(readers, count, emit)
	return errors.Join(err, closeAll(readers))
}

func (client) Group(in lines.Membership, count int, emit func(lines.Record) error) error {
	reader := kafka.NewReader(readerConfig(in.Target, kafka.ReaderConfig{GroupID: in.Group, HeartbeatInterval: lines.ShortHeartbeat}))
	last, err := take([]*kafka.Reader{reader}, count, emit)
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), lines.Limit)
		defer cancel()
		err = reader.CommitMessages(ctx, last...)
		time.Sleep(lines.Stay)
	}
	return errors.Join(err, reader.Close())
}

// dialer is the default one, with TLS and a login where there are some.
func dialer(to lines.Target) *kafka.Dialer {
	made := &kafka.Dialer{Timeout: 10 * time.Second, DualStack: true, TLS: settings(to)}
	addLogin(made, to)
	return made
}

// readerConfig is one whose requests are short: what it reads is there already.
func readerConfig(from lines.Target, config kafka.ReaderConfig) kafka.ReaderConfig {
	config.Brokers = []string{from.Bootstrap}
	config.Dialer = dialer(from)
	config.Topic = from.Topic
	config.MinBytes = 1
	config.MaxBytes = 1 << 20
	config.MaxWait = 500 * time.Millisecond
	return config
}

// take emits so many records of all readers together and returns the last of each partition.
func take(readers []*kafka.Reader, count int, emit func(lines.Record) error) ([]kafka.Message, error) {
	ctx, cancel := context.WithTimeout(context.Background(), lines.Limit)
	defer cancel()
	messages, failures := make(chan kafka.Message), make(chan error, len(readers))
	for _, reader := range readers {
		go func() { failures <- forward(ctx, reader, messages) }()
	}
	last := map[int]kafka.Message{}
	for taken := 0; taken < count; taken++ {
		select {
		case message := <-messages:
			last[message.Partition] = message
			if err := emit(received(message)); err != nil {
				return nil, err
			}
		case err := <-failures:
			return nil, errors.Join(err, lines.Late(taken))
		}
	}
	return slices.Collect(maps.Values(last)), nil
}

// forward hands on what a reader fetches, until the end of the context.
func forward(ctx context.Context, reader *kafka.Reader, messages chan<- kafka.Message) error {
	for {
		message, err := reader.FetchMessage(ctx)
		if err != nil {
			return err
		}
		select {
		case messages <- message:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// closeAll closes side by side: each waits for what it asked for.
func closeAll(readers []*kafka.Reader) error {
	failures := make(chan error)
	for _, reader := range readers {
		go func() { failures <- reader.Close() }()
	}
	var err error
	for range readers {
		err = errors.Join(err, <-failures)
	}
	return err
}
